"""Bodies that no exporter would send: `make fuzz` gives a million of them, a plain test run some hundreds."""

import math
import os
import random
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.clock import NS
from ingest.exporter.node import ExporterNode
from ingest.schema import GpuSample, LinkSample

EXAMPLES = int(os.environ.get("FOREWARN_TEST_FUZZ", "300"))
PAGES = [page.read_bytes() for page in sorted((Path(__file__).parents[1] / "cases" / "exporter").rglob("*.prom"))]
LINES = sorted({line for page in PAGES for line in page.split(b"\n") if line and not line.startswith(b"#")})
VALUES = [
    b"",
    b"NaN",
    b"-Inf",
    b"9223372036854775794",
    b"18446744073709551616",
    b"1e308",
    b"-1",
    b"4294967295",
    b"0",
    b"N/A",
    b"1 2 3",
    b"9" * 400,
    b"9" * 5000,
]

mutations = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b'"', b"\\", b"{", b"}", b",", b" ", b"\n", b"\r", b"\0", b"#", b"=", b"\xff", "°".encode()]),
)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Real lines with other values, damaged anywhere."""
    lines = []
    for line in draw(st.lists(st.sampled_from(LINES), max_size=8)):
        head, _, value = line.rpartition(b" ")
        text = head + b" " + draw(st.one_of(st.just(value), st.sampled_from(VALUES)))
        for _ in range(draw(st.integers(0, 2))):
            at = draw(st.integers(0, len(text)))
            text = text[:at] + draw(mutations) + text[at + draw(st.integers(0, 3)) :]
        lines.append(text)
    return b"\n".join(lines) + draw(st.sampled_from([b"\n", b"", b"\r\n"]))


@settings(max_examples=min(EXAMPLES, 5_000))
@given(st.lists(bodies(), min_size=1, max_size=3))
def test_any_sequence_of_pages_gives_records_that_can_be_stored(pages: list[bytes]) -> None:
    """Nothing raises; what is not None is finite, counters are int64 and never negative, and a None has a reason or was never there."""
    node = ExporterNode("n1")
    for scrape, body in enumerate(pages):
        for record in node.scraped(body, 200, (1_790_000_000 + 30 * scrape) * NS):
            if isinstance(record, GpuSample | LinkSample):
                check(record)


def test_damaged_pages_in_bulk() -> None:
    """As many pages as asked for, each a few real lines with a few damaged places, from one seed."""
    rng = random.Random(20261129)
    node = ExporterNode("n1")
    for scrape in range(EXAMPLES):
        body = bytearray(b"\n".join(rng.choices(LINES, k=3)) + b"\n")
        for _ in range(rng.randrange(4)):
            at = rng.randrange(len(body))
            body[at : at + rng.randrange(3)] = rng.choice((*VALUES, rng.randbytes(2), b'"', b"\\", b"{", b"}", b"\n", b" "))
        for record in node.scraped(bytes(body), 200, (1_790_000_000 + 30 * scrape) * NS):
            if isinstance(record, GpuSample | LinkSample):
                check(record)
        if scrape % 1_000 == 0:
            node = ExporterNode("n1")


def check(record: GpuSample | LinkSample) -> None:
    """Hold one row against the promises of its table."""
    assert record.observed_at_ns > 0
    quality = record.quality or {}
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if isinstance(value, float):
            assert math.isfinite(value)
        if name.endswith("_total") and value is not None:
            assert 0 <= value < 2**63
        if name.endswith("_ratio") and value is not None:
            assert 0 <= value <= 1
        if value is not None and name in quality:
            assert quality[name] in ("suspect", "went_back")
