"""A row that cannot be written costs itself alone: the other rows of its message are written, and it is kept with its reason."""

from __future__ import annotations

from pathlib import Path

import duckdb
import msgspec
import pytest

from ingest.bus import Delivery
from ingest.lake import Lake
from ingest.messages import decode, part
from ingest.rejects import FileRejects, Rejected
from ingest.replays import distinct, select
from ingest.replays import write as replay
from ingest.schema import EVENTS, JOBS, Job
from tests.ingest.test_writer import DAY, body, codes, event, write


def job(job_id: str, *, tolerates_f: int | None = None) -> Job:
    """One running job."""
    return Job(node="c1", observed_at_ns=DAY, received_at_ns=DAY, source="slurm", job_id=job_id, state="running", tolerates_f=tolerates_f)


def kept(directory: Path, table: str) -> list[Rejected]:
    """Read what was rejected."""
    file = directory / f"{table}.jsonl"
    return [msgspec.json.decode(line, type=Rejected) for line in file.read_bytes().splitlines()] if file.exists() else []


def jobs(lake: Lake) -> list[str]:
    """Read the ids of all jobs in the lake, in order."""
    with duckdb.connect() as connection:
        lake.attach(connection, JOBS)
        return [job_id for (job_id,) in connection.execute("select job_id from jobs order by job_id").fetchall()]


def test_one_job_that_does_not_fit_loses_no_other_job(tmp_path: Path) -> None:
    """Of a message with a number above int64 the other jobs are written, and so are the messages beside it."""
    lake = Lake(tmp_path / "lake")
    odd = body("jobs", 1, job("2"), job("3", tolerates_f=99999999999999999999), job("4"))
    deliveries = [
        Delivery("s", 0, "jobs", body("jobs", 0, job("1"))),
        Delivery("s", 1, "jobs", odd),
        Delivery("s", 2, "jobs", body("jobs", 2, job("5"))),
    ]

    script = write(lake, deliveries, tmp_path)

    assert jobs(lake) == ["1", "2", "4", "5"]
    assert script.committed == {"s": 3}
    (message,) = kept(tmp_path, "jobs")
    assert (message.reason, message.offset, message.body) == (
        "does_not_fit",
        1,
        body("jobs", 1, job("3", tolerates_f=99999999999999999999)),
    )


GOOD = b'{"node":"n1","observed_at_ns":1750000000000000000,"received_at_ns":1,"source":"t","kind":"xid","code":%d}'
HEAD = b'{"v":"1.0","table":"events","node":"n1","origin":"A","seq":1,"rows":[%s]}'


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (GOOD.replace(b"%d", b'"seven"'), "malformed"),
        (b"7", "malformed"),
        (b"null", "malformed"),
        (b'{"kind":"xid"}', "malformed"),
        (b'{"kind":' + b"[" * 200 + b"]" * 200 + b"}", "malformed"),
        (GOOD.replace(b"1750000000000000000", b"-1") % 7, "impossible_time"),
        (GOOD.replace(b"1750000000000000000", b"9250000000000000000") % 7, "impossible_time"),
        (GOOD % 99999999999999999999, "does_not_fit"),
        (GOOD.replace(b'_at_ns":1,', b'_at_ns":99999999999999999999,') % 7, "does_not_fit"),
        (GOOD.replace(b'"code"', b'"colour":"red","code"') % 99999999999999999999, "does_not_fit"),
    ],
)
def test_an_odd_row_is_kept_as_it_came(tmp_path: Path, odd: bytes, reason: str) -> None:
    """Its neighbours before and behind it are written; it lies beside in a message of its own, as it came, with what was wrong."""
    lake = Lake(tmp_path / "lake")
    write(lake, [Delivery("s", 0, "events", HEAD % b",".join([GOOD % 1, odd, GOOD % 2]))], tmp_path)

    assert codes(lake) == [1, 2]
    (message,) = kept(tmp_path, "events")
    assert (message.reason, message.body) == (reason, HEAD % odd)


def test_several_odd_rows_are_one_message(tmp_path: Path) -> None:
    """All odd rows of a message, whatever is wrong with each, are kept together: a replay knows a message by its place."""
    lake = Lake(tmp_path / "lake")
    rows = [GOOD % 99999999999999999999, GOOD % 1, b"7", GOOD.replace(b"1750000000000000000", b"-1") % 7]
    write(lake, [Delivery("s", 0, "events", HEAD % b",".join(rows))], tmp_path)

    assert codes(lake) == [1]
    (message,) = kept(tmp_path, "events")
    assert (message.reason, message.body) == ("does_not_fit", HEAD % b",".join([rows[0], rows[2], rows[3]]))


def test_a_message_that_comes_again_is_not_rejected_again(tmp_path: Path) -> None:
    """What a collector sent twice adds neither rows nor rejected rows."""
    lake = Lake(tmp_path / "lake")
    odd = HEAD % b",".join([GOOD % 1, b"7"])
    write(lake, [Delivery("s", number, "events", odd) for number in range(2)], tmp_path)

    assert codes(lake) == [1]
    assert len(kept(tmp_path, "events")) == 1


def test_an_event_that_is_known_already_stays_known(tmp_path: Path) -> None:
    """Of a message with an odd event, those that the lake holds are not written again."""
    lake = Lake(tmp_path / "lake")
    write(lake, [Delivery("s", 0, "events", body("events", 0, event(1)))], tmp_path)
    write(lake, [Delivery("s", 1, "events", body("events", 1, event(1), event(1 << 64), event(2)))], tmp_path)

    assert codes(lake) == [1, 2]
    assert [message.body for message in kept(tmp_path, "events")] == [body("events", 1, event(1 << 64))]


def test_odd_rows_can_be_replayed_once_they_can_be_read(tmp_path: Path) -> None:
    """A row of a time that was thought impossible, mended by hand, is written once by however many replays."""
    lake = Lake(tmp_path / "lake")
    write(lake, [Delivery("s", 0, "events", HEAD % b",".join([GOOD % 1, GOOD.replace(b"1750000000000000000", b"-1") % 7]))], tmp_path)
    (message,) = kept(tmp_path, "events")
    assert select([message]).readable == []
    mended = msgspec.structs.replace(message, body=message.body.replace(b":-1,", b":1750000000000000000,"))

    for _ in range(2):
        replay(select(distinct([mended])).readable, lake, FileRejects(tmp_path / "again"))

    assert codes(lake) == [1, 7]


def test_a_message_is_taken_apart_in_order() -> None:
    """Rows keep their order on both sides, and the first thing that was wrong is told."""
    whole = HEAD % b",".join([b"7", GOOD % 2, b"[]", GOOD % 1])
    parted = part(whole, lambda message, row: None)
    assert [row.code for row in parted.sound.rows] == [2, 1]
    assert [bytes(row) for row in parted.odd.rows] == [b"7", b"[]"]
    assert "got `int`" in str(parted.error)
    assert decode(HEAD % (GOOD % 1)).table == EVENTS.name
