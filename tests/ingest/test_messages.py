"""The wire format carries every record unchanged, reads newer minor versions and rejects everything else in its own words."""

from __future__ import annotations

import contextlib
import typing
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.errors import RecordRejected
from ingest.messages import VERSION, Message, decode, encode, group, portions
from ingest.redfish.payloads import read_json
from ingest.schema import TABLES, Event, GpuSample, Job
from ingest.tables import Record

DAY = 1_750_000_000_000_000_000
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(max_size=20)
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    int: INT64,
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    dict[str, str]: st.dictionaries(TEXT, TEXT, max_size=3),
    tuple[str, ...]: st.lists(TEXT, max_size=3).map(tuple),
}


def records(record: type[Record]) -> st.SearchStrategy[Record]:
    """Make any record of a class out of its own annotations."""
    fields = {}
    for name, hint in typing.get_type_hints(record).items():
        options = typing.get_args(hint) if type(None) in typing.get_args(hint) else (hint,)
        fields[name] = st.one_of([st.none() if option is type(None) else VALUES[option] for option in options])
    return st.fixed_dictionaries(fields).map(lambda values: record(**values))


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_record_of_every_table_comes_back_as_it_was(table: Any) -> None:
    """Encoding and decoding is the identity, for any values that the columns can hold."""

    @given(st.lists(records(table.record), max_size=3), TEXT, TEXT, st.integers(0, 2**63 - 1))
    def round_trip(rows: list[Record], node: str, origin: str, seq: int) -> None:
        message = Message(v=VERSION, table=table.name, node=node, origin=origin, seq=seq, rows=tuple(rows))
        back = decode(encode(message))
        assert (back.table, back.node, back.origin, back.seq, back.rows) == (table.name, node, origin, seq, tuple(rows))

    round_trip()


def test_missing_is_not_sent_and_stays_missing() -> None:
    """A field that the hardware did not say takes no byte and comes back as None, not as zero."""
    sample = GpuSample(node="n", gpu_uuid="g", tier="hot", observed_at_ns=DAY, received_at_ns=DAY, source="t", power_w=0.0)
    body = encode(Message(v=VERSION, table="gpu_samples", node="n", origin="o", seq=1, rows=(sample,)))
    assert b"temp_c" not in body
    assert b'"power_w":0.0' in body
    (back,) = decode(body).rows
    assert (back.temp_c, back.power_w) == (None, 0.0)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "malformed"),
        (b"[]", "malformed"),
        (b'{"v":"1.0","table":"events"}', "malformed"),
        (b'{"v":"1.0","table":"events","node":"n","origin":"o","seq":1,"rows":[{}]}', "malformed"),
        (b'{"v":"1.0","table":"events","node":"n","origin":"o","seq":"one","rows":[]}', "malformed"),
        (b'{"v":"2.0","table":"events","node":"n"}', "unknown_version"),
        (b'{"v":"","table":"events","node":"n"}', "unknown_version"),
        (b'{"v":"1.0","table":"secrets","node":"n"}', "unknown_table"),
    ],
)
def test_what_cannot_be_read_is_rejected_with_its_reason(body: bytes, reason: str) -> None:
    """The reason is a constant, fit for a metric label."""
    with pytest.raises(RecordRejected) as caught:
        decode(body)
    assert caught.value.reason == reason


def test_what_is_nested_without_end_is_rejected() -> None:
    """It is malformed like anything else that is no message, and does not stop who reads it."""
    for read, reason in ((decode, "malformed"), (read_json, "not_json")):
        with pytest.raises(RecordRejected) as caught:
            read(b'{"v":"1.0","table":"events","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}")
        assert caught.value.reason == reason


def test_a_newer_minor_version_is_read_without_what_it_adds() -> None:
    """New fields of message and rows are passed over."""
    row = b'{"node":"n","kind":"xid","observed_at_ns":1,"received_at_ns":2,"source":"t","depth":3}'
    body = b'{"v":"1.7","table":"events","node":"n","origin":"o","seq":1,"colour":"red","rows":[' + row + b"]}"
    assert decode(body).rows == (Event(node="n", kind="xid", observed_at_ns=1, received_at_ns=2, source="t"),)


@given(
    st.one_of(
        st.binary(max_size=200),
        st.recursive(st.none() | st.integers() | TEXT, lambda inner: st.dictionaries(TEXT, inner, max_size=4)).map(msgspec.json.encode),
    )
)
def test_nothing_but_a_rejection_comes_out_of_garbage(body: bytes) -> None:
    """Whatever the bytes are, the answer is a message or RecordRejected."""
    with contextlib.suppress(RecordRejected):
        decode(body)


def test_records_are_sorted_into_messages_in_order() -> None:
    """One message per table and node, in order of first appearance, its rows in their order."""
    common = {"observed_at_ns": DAY, "received_at_ns": DAY, "source": "t"}
    a1, a2, b = (Event(node=node, kind="xid", code=code, **common) for node, code in (("a", 1), ("a", 2), ("b", 3)))
    sample = GpuSample(node="a", gpu_uuid="g", tier="hot", **common)
    assert group([a1, b, sample, a2]) == [("events", "a", [a1, a2]), ("events", "b", [b]), ("gpu_samples", "a", [sample])]


def test_jobs_of_thousands_of_nodes_fit_into_messages() -> None:
    """No message comes near a broker's limit of 1 MB, whatever the jobs have; none is lost, and their order stays."""
    nodes = tuple(f"gpu-rack17-{number:05d}" for number in range(4_000))
    about = {"node": "c1", "observed_at_ns": DAY, "received_at_ns": DAY, "source": "slurm", "state": "running"}
    jobs = [Job(**about, job_id=str(number), nodes=nodes[: 4_000 if number % 3 else 1]) for number in range(300)]  # type: ignore[arg-type]
    cut = list(portions(jobs))
    assert [job for portion in cut for job in portion] == jobs
    bodies = [encode(Message(v=VERSION, table="jobs", node="c1", origin="o", seq=1, rows=tuple(portion))) for portion in cut]
    assert max(map(len, bodies)) < 500_000
    assert [len(portion) for portion in portions(jobs[:1] * 1_100)] == [500, 500, 100]
