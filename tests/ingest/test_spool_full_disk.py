"""On a disk that is full the spool gives up gauges first, then its reserve, and says so before it would lose an event."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from ingest.errors import SpoolFull
from ingest.messages import decode
from ingest.schema import Event, GpuSample
from ingest.spool import Spool
from tests.disks import small_disk

DAY = 1_750_000_000_000_000_000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a real file system of 512 KiB."""
    with small_disk(tmp_path / "disk", "512k") as disk:
        yield disk


def sample() -> GpuSample:
    """Make a sample that does not compress."""
    return GpuSample(node="n1", gpu_uuid=os.urandom(500).hex(), tier="hot", observed_at_ns=DAY, received_at_ns=DAY, source="t")


def event(code: int) -> Event:
    """Make an event that does not compress."""
    return Event(node="n1", kind="xid", code=code, detail=os.urandom(500).hex(), observed_at_ns=DAY, received_at_ns=DAY, source="t")


def fill(spool: Spool) -> int:
    """Put events until the spool says that the disk is full, and give how many it took."""
    taken = 0
    try:
        while spool.put("events", "n1", [event(taken)]):
            taken += 1
    except SpoolFull as error:
        assert "make room on that disk" in str(error)  # noqa: PT017  # the count before it is wanted
    return taken


def dropped() -> float:
    """Read the drop counter."""
    return REGISTRY.get_sample_value("forewarn_spool_dropped_records_total", {"reason": "disk_full"}) or 0.0


def test_events_find_room_until_gauges_and_reserve_are_gone(disk: Path) -> None:
    """Gauges are refused, then the newest ones make room, then the reserve; then SpoolFull, and every event that was taken is there."""
    spool = Spool(disk, segment_bytes=16_384, reserve_bytes=65_536, sync_interval_s=1e9)
    before = dropped()
    while spool.put("gpu_samples", "n1", [sample()]):
        pass
    assert dropped() - before == 1

    taken = fill(spool)

    assert taken > 400
    assert dropped() - before > 300
    spool.close()
    again = Spool(disk, segment_bytes=16_384, reserve_bytes=65_536)
    found = [decode(message.body).rows[0] for message in again.take(10_000, max_bytes=1 << 30)]
    assert [row.code for row in found if isinstance(row, Event)] == list(range(taken))
    again.close()


def test_a_full_disk_stops_neither_reading_nor_releasing(disk: Path) -> None:
    """What was taken can be read, released and thereby freed; the reserve comes back and the spool goes on under new numbers."""
    spool = Spool(disk, segment_bytes=16_384, reserve_bytes=65_536, sync_interval_s=0.0)
    taken = fill(spool)

    messages = spool.take(10_000, max_bytes=1 << 30)
    assert len(messages) == taken
    spool.release(messages[-1])

    assert spool.put("events", "n1", [event(taken)])
    assert (disk / "reserve").stat().st_size == 65_536
    (message,) = spool.take(10)
    assert message.seq > messages[-1].seq
    spool.close()


def test_the_numbering_survives_a_disk_that_is_full_when_it_opens(disk: Path) -> None:
    """The state file never grows: a spool that is opened on a full disk keeps its origin and numbers."""
    spool = Spool(disk, reserve_bytes=4096)
    spool.put("events", "n1", [event(1)])
    (message,) = spool.take(1)
    spool.release(message)
    os.close(spool._lock_file)  # the process ends here
    subprocess.run(["dd", "if=/dev/zero", f"of={disk / 'filler'}", "bs=4k"], capture_output=True, check=False)
    assert os.statvfs(disk).f_bfree == 0

    again = Spool(disk, reserve_bytes=4096)
    assert again.origin == spool.origin
    (disk / "filler").unlink()
    again.put("events", "n1", [event(2)])
    (newer,) = again.take(1)
    assert newer.seq > message.seq
    again.close()
