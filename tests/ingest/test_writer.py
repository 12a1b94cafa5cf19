"""The writer brings every message into the lake exactly once, whatever comes twice, late or broken."""

from __future__ import annotations

import threading
from pathlib import Path

import duckdb
import msgspec
import pytest

from ingest.bus import Delivery, DirectBus
from ingest.lake import Lake
from ingest.messages import Message, encode
from ingest.rejects import FileRejects, Rejected
from ingest.schema import EVENTS, GPU_SAMPLES, Event, GpuSample
from ingest.spool import Spool
from ingest.writer import Writer

DAY = 1_750_000_000_000_000_000  # 2025-06-15


def event(code: int, node: str = "n1", at: int = DAY) -> Event:
    """One XID."""
    return Event(node=node, kind="xid", code=code, observed_at_ns=at, received_at_ns=at, source="kernel_log")


def body(table: str, seq: int, *rows: object, origin: str = "A" * 26, v: str = "1.0") -> bytes:
    """Encode a message as a collector does."""
    return encode(Message(v=v, table=table, node="n1", origin=origin, seq=seq, rows=rows))


class Script:
    """A subscriber that gives deliveries as told; like a broker it repeats what is not committed."""

    def __init__(self, deliveries: list[Delivery]) -> None:
        self.deliveries = deliveries
        self.committed: dict[str, int] = {}
        self._given = 0

    def open(self) -> None:
        """Nothing to join."""

    def poll(self, timeout_s: float) -> list[Delivery]:
        given, self._given = self.deliveries[self._given :], len(self.deliveries)
        return given

    def commit(self, positions: dict[str, int]) -> None:
        self.committed |= positions

    def rewind(self) -> None:
        self._given = 0

    def close(self) -> None:
        """Nothing to leave."""


def codes(lake: Lake) -> list[int]:
    """Read the codes of all events in the lake, in order."""
    with duckdb.connect() as connection:
        lake.attach(connection, EVENTS)
        return [code for (code,) in connection.execute("select code from events order by code").fetchall()]


def write(lake: Lake, deliveries: list[Delivery], rejects: Path) -> Script:
    """Run one writer over deliveries."""
    script = Script(deliveries)
    writer = Writer(script, lake, FileRejects(rejects))
    writer.run_once()
    writer.flush()
    return script


def test_many_messages_become_one_commit(tmp_path: Path) -> None:
    """Two hundred messages of a poll are one version of the table, and the bus is told where to go on."""
    lake = Lake(tmp_path / "lake")
    script = write(lake, [Delivery("s", i, "events", body("events", i, event(i))) for i in range(200)], tmp_path)

    assert codes(lake) == list(range(200))
    assert lake.version(EVENTS) == 0
    assert script.committed == {"s": 200}


def test_a_stream_that_comes_again_is_not_written_again(tmp_path: Path) -> None:
    """After a crash between lake and bus the same deliveries write nothing; new ones behind them are written."""
    lake = Lake(tmp_path / "lake")
    deliveries = [Delivery("s", i, "events", body("events", i, event(i))) for i in range(5)]
    write(lake, deliveries[:3], tmp_path)

    script = write(lake, deliveries, tmp_path)

    assert codes(lake) == [0, 1, 2, 3, 4]
    assert script.committed == {"s": 5}


def test_what_a_collector_sent_twice_is_written_once(tmp_path: Path) -> None:
    """The same origin and number at a later offset is a repetition, also for a writer that has just started, however late its rows are."""
    lake = Lake(tmp_path / "lake")
    late = DAY - 40 * 86_400 * 1_000_000_000
    first = [Delivery("s", 0, "events", body("events", 7, event(1))), Delivery("s", 1, "events", body("events", 8, event(2, at=late)))]
    write(lake, first, tmp_path)

    again = [Delivery("s", 2 + i, "events", delivery.body) for i, delivery in enumerate(first)]
    script = write(lake, [*again, Delivery("s", 4, "events", body("events", 9, event(3)))], tmp_path)

    assert codes(lake) == [1, 2, 3]
    assert script.committed == {"s": 5}


def test_the_same_number_of_another_origin_is_new(tmp_path: Path) -> None:
    """A spool made anew counts from the start and loses nothing by it."""
    lake = Lake(tmp_path / "lake")
    write(lake, [Delivery("s", 0, "events", body("events", 7, event(1)))], tmp_path)
    write(lake, [Delivery("s", 1, "events", body("events", 0, event(2), origin="B" * 26))], tmp_path)

    assert codes(lake) == [1, 2]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"\x00\xff", "malformed"),
        (b'{"v":"1.0","table":"events","node":"n1","origin":"A","seq":1,"rows":[{"kind":7}]}', "malformed"),
        (b'{"v":"2.0","table":"events","node":"n1"}', "unknown_version"),
        (b'{"v":"1.0","table":"nonsense","node":"n1"}', "unknown_table"),
        (body("gpu_samples", 1), "wrong_table"),
        (body("events", 1, event(1, at=-1)), "impossible_time"),
        (body("events", 1, event(1 << 64)), "does_not_fit"),
    ],
)
def test_a_poison_message_is_kept_aside_and_the_batch_goes_on(tmp_path: Path, bad: bytes, reason: str) -> None:
    """What cannot become rows is kept as it came with its reason; its neighbours are written and the stream moves on."""
    lake = Lake(tmp_path / "lake")
    deliveries = [
        Delivery("s", 0, "events", body("events", 0, event(1))),
        Delivery("s", 1, "events", bad),
        Delivery("s", 2, "events", body("events", 2, event(2))),
    ]
    script = write(lake, deliveries, tmp_path / "rejects")

    assert codes(lake) == [1, 2]
    assert script.committed == {"s": 3}
    kept = msgspec.json.decode((tmp_path / "rejects" / "events.jsonl").read_bytes(), type=Rejected)
    assert (kept.reason, kept.body, kept.offset) == (reason, bad, 1)


def test_a_newer_minor_version_is_read_without_its_new_fields(tmp_path: Path) -> None:
    """A field that this reader does not know is kept out; the row is written."""
    lake = Lake(tmp_path / "lake")
    newer = body("events", 0, event(1), v="1.9").replace(b'"kind":"xid"', b'"kind":"xid","novelty":5')
    write(lake, [Delivery("s", 0, "events", newer)], tmp_path)

    assert codes(lake) == [1]


def test_two_writers_of_one_stream_write_nothing_twice(tmp_path: Path) -> None:
    """A writer that has lost its stream to another notices at the append, gives up and reads again."""
    lake = Lake(tmp_path / "lake")
    deliveries = [Delivery("s", i, "events", body("events", i, event(i))) for i in range(6)]
    slow = Writer(Script(deliveries[:3]), lake, FileRejects(tmp_path))
    slow.run_once()
    write(lake, deliveries, tmp_path)
    stop = threading.Event()
    stop.set()

    slow.run(stop)

    assert codes(lake) == [0, 1, 2, 3, 4, 5]


def test_every_type_of_column_arrives_as_it_was_sent(tmp_path: Path) -> None:
    """Timestamps are cut to microseconds; maps, booleans, numbers and missing values keep their meaning."""
    lake = Lake(tmp_path / "lake")
    row = GpuSample(
        node="n1",
        gpu_uuid="GPU-1",
        tier="warm",
        source="nvml",
        observed_at_ns=DAY + 1_999,
        received_at_ns=DAY,
        quality={"temp_c": "blank"},
        remap_failure=False,
        energy_mj_total=2**63 - 1,
        power_w=350.5,
    )
    write(lake, [Delivery("s", 0, "gpu_samples", body("gpu_samples", 3, row))], tmp_path)

    with duckdb.connect() as connection:
        lake.attach(connection, GPU_SAMPLES)
        found = connection.execute(
            "select epoch_us(observed_at), quality['temp_c'], remap_failure, energy_mj_total, power_w, temp_c, origin, seq, date "
            "from gpu_samples"
        ).fetchall()
    assert found == [(DAY // 1000 + 1, "blank", False, 2**63 - 1, 350.5, None, "A" * 26, 3, "2025-06-15")]


def test_late_and_skewed_rows_lie_in_the_date_they_are_about_and_keep_both_times(tmp_path: Path) -> None:
    """A row of forty days ago and one of a node whose clock is ahead are stored by their own time, with the time of their arrival."""
    lake, day_ns = Lake(tmp_path / "lake"), 86_400 * 10**9
    rows = [event(1), event(2, at=DAY - 40 * day_ns), event(3, at=DAY + 3 * day_ns)]
    write(
        lake, [Delivery("s", 0, "events", body("events", 0, *(msgspec.structs.replace(row, received_at_ns=DAY) for row in rows)))], tmp_path
    )

    with duckdb.connect() as connection:
        lake.attach(connection, EVENTS)
        found = connection.execute("select code, date, date_diff('day', observed_at, received_at) from events order by code").fetchall()
    assert found == [(1, "2025-06-15", 0), (2, "2025-05-06", 40), (3, "2025-06-18", -3)]


def test_the_same_reading_said_by_two_messages_is_two_rows(tmp_path: Path) -> None:
    """What a source says twice is kept as it was said: only what the transport repeats, or a log that is read again, is dropped."""
    lake, said = Lake(tmp_path / "lake"), msgspec.structs.replace(event(1), source="nvml")
    write(lake, [Delivery("s", n, "events", body("events", n, said)) for n in range(2)], tmp_path)
    assert codes(lake) == [1, 1]


def test_direct_bus_releases_the_spool_after_the_commit(tmp_path: Path) -> None:
    """On one machine the writer reads the collector's spool, and what is in the lake leaves the spool."""
    lake, spool = Lake(tmp_path / "lake"), Spool(tmp_path / "spool")
    writer = Writer(DirectBus(spool), lake, FileRejects(tmp_path / "rejects"))
    for code in range(30):
        spool.put("events", "n1", [event(code)])
        spool.put(
            "gpu_samples", "n1", [GpuSample(node="n1", gpu_uuid="g", tier="hot", source="nvml", observed_at_ns=DAY, received_at_ns=DAY)]
        )
    writer.run_once()
    writer.flush()

    spool.rewind()
    assert spool.take(1) == []
    assert codes(lake) == list(range(30))
    assert lake.committed(EVENTS, f"spool/{spool.origin}/events") == 59
    spool.close()
