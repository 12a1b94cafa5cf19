"""The page parser: equal to prometheus_client where both accept a line, and never losing a page where prometheus_client would."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from ingest.errors import RecordRejected
from ingest.exporter.text import PageParser, read_series
from ingest.exporter.value import read_value

UUID = "GPU-0a1b2c30-1111-4222-8333-444455556660"

names = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,20}", fullmatch=True)
label_names = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,10}", fullmatch=True).filter(lambda name: name != "__name__")
label_values = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\r\0"), max_size=20)
numbers = st.one_of(
    st.integers(-(2**63), 2**64).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(0, 1e6).map(lambda number: f"{number:f}"),
    st.sampled_from(["NaN", "+Inf", "-Inf", "1e3", "1E-3", "+5", ".5", "5."]),
)
gaps = st.sampled_from(["", " ", "  ", "\t"])


def escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


@st.composite
def lines(draw: st.DrawFn) -> str:
    labels = draw(st.dictionaries(label_names, label_values, max_size=4))
    pairs = [f'{draw(gaps)}{name}{draw(gaps)}={draw(gaps)}"{escape(value)}"{draw(gaps)}' for name, value in labels.items()]
    block = "{" + ",".join(pairs) + draw(st.sampled_from(["", ","] if pairs else [""])) + "}" if pairs or draw(st.booleans()) else ""
    stamp = draw(st.one_of(st.just(""), st.integers(0, 2**42).map(lambda ms: f" {ms}")))
    return f"{draw(names)}{draw(gaps)}{block} {draw(numbers)}{stamp}"


def by_prometheus(line: str) -> tuple[str, dict[str, str], float] | None:
    try:
        (family,) = text_string_to_metric_families(line + "\n")
    except ValueError:
        return None
    (sample,) = family.samples
    return sample.name, sample.labels, float(sample.value)


def by_us(line: str) -> tuple[str, dict[str, str], float | str] | None:
    raw = line.encode()
    try:
        name, labels, end = read_series(raw)
        value = read_value(raw[end:].split()[0])
    except RecordRejected:
        return None
    return name, labels, value if isinstance(value, str) else float(value)


@given(lines())
def test_a_line_that_both_accept_means_the_same(line: str) -> None:
    """Name, labels and value are those of prometheus_client; what it reads as non-finite or as a sentinel of DCGM is a code here."""
    theirs, ours = by_prometheus(line), by_us(line)
    assert ours is not None
    assert theirs is not None
    assert ours[:2] == theirs[:2]
    if isinstance(ours[2], str):
        assert not math.isfinite(theirs[2]) or theirs[2] >= 0x7FFFFFF0
    else:
        assert ours[2] == theirs[2]


@given(st.lists(lines(), max_size=20))
def test_a_page_read_twice_is_the_same_page(text: list[str]) -> None:
    """What comes from the caches equals what was parsed."""
    body = "".join(f"{line}\n" for line in text).encode()
    parser = PageParser()
    first, again = parser.parse(body), parser.parse(body)
    as_read = [[(series.name, series.field, value) for series, value in page.samples] for page in (first, again)]
    assert sorted(map(repr, as_read[0])) == sorted(map(repr, as_read[1]))
    assert first.rejected == again.rejected
    assert len(first.samples) == len(text)


odd_lines = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["A", "B", "# A", ""]),
        st.sampled_from(["", " ", "  "]),
        st.sampled_from(["", '{gpu="0",UUID="GPU-00000000-a"}', '{pod="w 1"}', "{", '{note="# 1 2"} ']),
        st.sampled_from(["", " ", "\t"]),
        st.sampled_from(["", "1", "1.5", "nan", "x", "1_0", "9" * 400, "-" + "9" * 5000]),
        st.sampled_from(["", " ", " 5", " 1790000000000", " " + "9" * 400, "\r", " # {} 1"]),
    ),
)


@given(st.lists(st.lists(odd_lines, max_size=6), min_size=1, max_size=5))
def test_a_cache_changes_no_page(pages: list[list[str]]) -> None:
    """Whatever pages came before, a page is read as by a parser that never saw one: samples in order, stamps and rejections."""
    warm = PageParser()
    for lines_in in pages:
        body = "".join(f"{line}\n" for line in lines_in).encode()
        here, fresh = warm.parse(body), PageParser().parse(body)
        assert [(one.name, one.field, value) for one, value in here.samples] == [
            (one.name, one.field, value) for one, value in fresh.samples
        ]
        assert (here.stamps_ms, here.rejected) == (fresh.stamps_ms, fresh.rejected)


@pytest.mark.parametrize("digits", [20, 310, 4300, 5000])
def test_a_number_without_end_is_one_bad_value(digits: int) -> None:
    """As a value, or as a timestamp, it costs the line beside it nothing."""
    page = PageParser().parse(f"A {'9' * digits}\nA 5 {'9' * digits}\nA 7\n".encode())
    assert [value for _, value in page.samples][2] == 7
    assert ("blank" in [value for _, value in page.samples][:2]) == (digits > 20)


def test_a_label_without_end_is_not_kept() -> None:
    """Megabytes of labels that change from page to page leave no memory behind."""
    parser = PageParser()
    for scrape in range(5):
        parser.parse(b'A{err_msg="' + str(scrape).encode() * 100_000 + b'"} 1\n')
    assert parser.cached_series == 0


@given(st.binary(max_size=2_000))
def test_no_body_raises(body: bytes) -> None:
    """Any bytes at all become a page; every line that is not taken is counted or is a comment."""
    page = PageParser().parse(body)
    lines_in = [line for line in body.split(b"\n")[:-1] if line.strip() and not line.strip(b" \t\r").startswith(b"#")]
    bad_values = [value for _, value in page.samples if value == "blank"]
    assert len(page.samples) + page.rejected.total() - min(len(bad_values), page.rejected.total()) <= len(lines_in) + len(bad_values)
    assert len(page.samples) + page.rejected.total() >= len(lines_in)


def test_the_caches_hold_little_more_than_a_page() -> None:
    """Labels that change with every scrape, and counters, whose values never come again, fill no memory."""
    parser = PageParser()
    for scrape in range(400):
        lines = [f'churn{{UUID="GPU-{gpu}",pod="p{scrape}-{gpu}"}} {scrape * 1000 + gpu}' for gpu in range(50)]
        page = parser.parse("\n".join([*lines, ""]).encode())
        assert len(page.samples) == 50
        assert parser.cached_series <= 700
        assert parser.cached_values <= 800


@pytest.mark.parametrize("max_series", [1, 7, 100])
def test_the_caches_are_bounded(max_series: int) -> None:
    """Series that come and go, as with pods, never grow the cache beyond its bound."""
    parser = PageParser(max_series=max_series, max_values=10)
    for pod in range(300):
        parser.parse(f'DCGM_FI_DEV_GPU_TEMP{{UUID="{UUID}",pod="w-{pod}"}} {pod}\n'.encode())
        assert parser.cached_series <= max_series


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('A{note="rack "A", 3rd"} 41', "bad_labels"),
        ('A{gpu="0" 41', "bad_labels"),
        ("A{gpu=0} 41", "bad_labels"),
        ('A{gpu="0"} N/A', "non_numeric"),
        ('A{gpu="0"} ERROR - FAILED TO CONVERT TO STRING', "non_numeric"),
        ('A{gpu="0"} 1_000', "non_numeric"),
        ('A{gpu="0"} ٤١', "non_numeric"),
        ('A{gpu="0"} ', "empty_value"),
        ('A{gpu="0"}', "empty_value"),
        ('A{gpu="0"} 41 soon', "bad_timestamp"),
        ("<html>", "bad_line"),
        ("0A 41", "bad_line"),
        ("A-B 41", "bad_line"),
    ],
)
def test_what_cannot_be_read_is_counted_and_costs_one_line(line: str, reason: str) -> None:
    """Each kind of bad line has its reason, and the line after it is read."""
    page = PageParser().parse(f'{line}\nDCGM_FI_DEV_GPU_TEMP{{UUID="{UUID}"}} 41\n'.encode())
    assert page.rejected == {reason: 1}
    assert page.samples[-1][1] == 41


@pytest.mark.parametrize("value", ["}", "{", ",", '" # "', r"C:\dir", "two\nlines", "a=b", "°C"])
def test_any_label_value_that_is_escaped_is_read(value: str) -> None:
    """Braces, quotes, commas, escapes and line ends inside a label value are part of it."""
    name, labels, end = read_series(f'A{{x="{escape(value)}",y="1"}} 5'.encode())
    assert (name, labels) == ("A", {"x": value, "y": "1"})
    assert f'A{{x="{escape(value)}",y="1"}} 5'.encode()[end:] == b" 5"


def test_a_timestamp_is_kept_and_served_from_the_cache() -> None:
    """Explicit timestamps do not make new series."""
    parser = PageParser()
    for ms in (1_700_000_000_000, 1_700_000_030_000):
        page = parser.parse(f'DCGM_FI_DEV_GPU_TEMP{{UUID="{UUID}"}} 41 {ms}\n'.encode())
        assert page.stamps_ms == {UUID: [ms]}
    assert parser.cached_series == 1


def test_carriage_returns_and_tabs_are_taken() -> None:
    """Lines that end in CR LF or separate by tabs are read."""
    page = PageParser().parse(b'DCGM_FI_DEV_GPU_TEMP{UUID="GPU-0a1b2c30"}\t41\r\n  DCGM_FI_DEV_SM_CLOCK{UUID="GPU-0a1b2c30"} 5\n\r\n')
    assert [value for _, value in page.samples] == [41, 5]
    assert not page.rejected


def test_a_page_without_its_last_newline_was_cut() -> None:
    """The rest after the last newline is dropped even where it looks whole: 412 may be the head of 4123."""
    page = PageParser().parse(b'A{UUID="GPU-1"} 5\nB{UUID="GPU-1"} 412')
    assert page.is_truncated
    assert [series.name for series, _ in page.samples] == ["A"]


def test_labels_of_links_and_of_the_old_namespace_name_the_same_gpu() -> None:
    """`UUID`, `gpu_uuid` and `uuid`, `modelName` and `model_name` lead to one GPU."""
    page = PageParser().parse(
        f'DCGM_FI_DEV_GPU_TEMP{{gpu="3",UUID="{UUID}",pci_bus_id="00000009:3B:00.0",modelName="NVIDIA GB200"}} 41\n'
        f'DCGM_FI_DEV_NVLINK_GET_STATE{{nvlink="7",gpu="3",gpu_uuid="{UUID}",model_name="NVIDIA GB200"}} 1\n'
        f'dcgm_gpu_temp{{gpu="3",uuid="{UUID}",pod_name="w-0"}} 41\n'.encode()
    )
    by_name = {series.name: series for series, _ in page.samples}
    assert {series.gpu.gpu_uuid for series in by_name.values() if series.gpu} == {UUID}
    assert by_name["DCGM_FI_DEV_NVLINK_GET_STATE"].link == 7
    assert by_name["dcgm_gpu_temp"].field is by_name["DCGM_FI_DEV_GPU_TEMP"].field
    labels = by_name["DCGM_FI_DEV_GPU_TEMP"].gpu
    assert labels is not None
    assert (labels.pci, labels.gpu_index, labels.model) == ("0009:3b:00", 3, "NVIDIA GB200")
