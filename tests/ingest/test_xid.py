"""The XID catalogue and a site's own."""

from pathlib import Path

import pytest

from ingest.errors import ConfigError
from ingest.xid import TABLE, USES, catalogue_of, read_catalogue


def test_the_catalogue_covers_all_codes_once() -> None:
    """Codes 1 to 176 are there, each with a use that the product knows."""
    catalogue = read_catalogue()
    assert len(catalogue) == 176
    assert all(xid is not None and xid.use in USES for xid in map(catalogue.get, range(1, 177)))


@pytest.mark.parametrize(
    ("use", "codes"),
    [
        ("label", (46, 48, 62, 64, 74, 79, 95, 110, 119, 120, 136, 140, 143, 154, 157, 158, 167, 168, 169, 171, 172)),
        ("precursor", (32, 63, 92, 94, 121, 144, 145, 146, 147, 148, 149, 150, 156, 160, 161, 164)),
        ("weak", (38, 44, 109, 155)),
        ("noise", (13, 31, 60, 68, 69)),
        ("exclude", (43, 45, 66, 67, 78, 93, 141, 151)),
    ],
)
def test_uses_are_those_of_the_reference(use: str, codes: tuple[int, ...]) -> None:
    """What a code is good for follows NVIDIA's catalogue and the field studies."""
    assert {code: read_catalogue().use(code) for code in codes} == dict.fromkeys(codes, use)


def test_a_code_that_nobody_knows_is_kept_as_unknown() -> None:
    """NVML itself may say 999."""
    assert read_catalogue().use(999) == "unknown"


def test_xid_154_counts_only_when_it_asks_for_something() -> None:
    """The driver's verdict `None` is no verdict; one that cannot be decoded is."""
    catalogue = read_catalogue()
    assert [catalogue.use_of_recovery(action) for action in (0, 1, 4, None)] == ["exclude", "label", "label", "label"]


def test_a_site_edits_its_own_copy(tmp_path: Path) -> None:
    """A site that thinks otherwise about XID 63 changes a file, not code."""
    own = tmp_path / "xids.csv"
    ours = "63,row_remap_event,hardware,ignore,ignore,precursor"
    own.write_text(TABLE.read_text().replace(ours, ours.replace("precursor", "label")))
    assert catalogue_of(own).use(63) == "label"
    assert catalogue_of(None).use(63) == "precursor"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("x,m,k,i,j,label", r"xids.csv:2: not a line"),
        ("1,m,k,i,j,lable", r"xids.csv:2: use `lable` of XID 1 is none of"),
        ("1,m", r"xids.csv:2: not a line|use `None`"),
    ],
)
def test_a_mistake_in_a_catalogue_is_named(tmp_path: Path, line: str, complaint: str) -> None:
    """File, line and fault are in the one line of the error."""
    own = tmp_path / "xids.csv"
    own.write_text(f"code,mnemonic,kind,immediate_action,investigatory_action,use\n{line}\n")
    with pytest.raises(ConfigError, match=complaint):
        read_catalogue(own)


def test_a_catalogue_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A wrong path is a setting that cannot be used."""
    with pytest.raises(ConfigError, match="no such file"):
        read_catalogue(tmp_path / "none.csv")


HEADER = "code,mnemonic,kind,immediate_action,investigatory_action,use\n"
LINE = "1,m,k,i,j,label\n"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "its first line does not name code, mnemonic, kind"),
        (LINE.encode(), "its first line does not name code, mnemonic, kind"),
        (HEADER.encode().replace(b",use", b""), "its first line does not name use: begin it with code,mnemonic"),
        (HEADER.encode(), "has no XID"),
        (HEADER.encode() + b"1,\xe9,k,i,j,label\n", "is not UTF-8 text"),
        (bytes(range(256)) * 100, "is not UTF-8 text|does not name"),
        (b"\x00" * 5000, "does not name"),
        (HEADER.encode() + b"1," + b"m" * 131_073 + b",k,i,j,label\n", r"is not CSV \(field larger"),
        (HEADER.encode() + b"9" * 5_000 + b",m,k,i,j,label\n", ":2: not a line"),
        (HEADER.encode() + b'1,"m\n' * 3, ":[234]: (not a line|use)"),
    ],
    ids=["empty", "headerless", "a column less", "header only", "latin-1", "binary", "zeros", "long cell", "long number", "open quote"],
)
def test_a_file_that_is_no_catalogue_is_named(tmp_path: Path, content: bytes, complaint: str) -> None:
    """What would make every XID unknown, or cannot be read, is one error that names the file."""
    own = tmp_path / "xids.csv"
    own.write_bytes(content)
    with pytest.raises(ConfigError, match=complaint) as raised:
        read_catalogue(own)
    assert str(own) in str(raised.value)


def test_a_folder_is_no_catalogue(tmp_path: Path) -> None:
    """A folder in its place is named like a file that cannot be read."""
    with pytest.raises(ConfigError, match="cannot be read"):
        read_catalogue(tmp_path)


def test_a_spreadsheets_catalogue_is_read(tmp_path: Path) -> None:
    """The mark that spreadsheets begin UTF-8 with, and their line ends, change nothing."""
    own = tmp_path / "xids.csv"
    own.write_bytes(b"\xef\xbb\xbf" + (HEADER + LINE).replace("\n", "\r\n").encode())
    assert read_catalogue(own).use(1) == "label"


def test_a_catalogue_is_read_as_it_is_now(tmp_path: Path) -> None:
    """A file that was edited under the same name is another catalogue."""
    own = tmp_path / "xids.csv"
    own.write_text(HEADER + LINE)
    assert catalogue_of(own).use(1) == "label"
    own.write_text(HEADER + LINE.replace("label", "noise"))
    assert catalogue_of(own).use(1) == "noise"
