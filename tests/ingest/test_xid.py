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
