"""The kernel log source over files as they grow, are replaced and go away."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from emulators.kernel_log import KernelLog
from emulators.state import KernelEvent
from ingest.clock import NS, ManualClock
from ingest.kernel_log.source import KernelLogSource
from ingest.schema import Event, InventoryRow, Observed, SourceState

BOOT_NS = 1_790_000_000 * NS
UUID = "GPU-0a1b2c30-1111-4222-8333-444455556660"


def xid(code: int, after_s: float, **more: int) -> KernelEvent:
    at_ns = BOOT_NS + int(after_s * NS)
    return KernelEvent(at_ns=at_ns, node="n1", kind="xid", gpu_uuid=UUID, serial="1650000000001", pci="0000:3b:00", code=code, **more)


def codes(records: list[Observed]) -> list[int | None]:
    return [record.code for record in records if isinstance(record, Event)]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(BOOT_NS + 3600 * NS)


@pytest.fixture
def log(tmp_path: Path) -> KernelLog:
    return KernelLog(tmp_path / "kmsg", boot_id="boot-1", boot_at_ns=BOOT_NS)


@pytest.fixture
async def source(log: KernelLog, clock: ManualClock, tmp_path: Path) -> AsyncIterator[KernelLogSource]:
    source = KernelLogSource({"n1": log.path, "n2": tmp_path / "not-there"}, clock=clock)
    await source.open()
    yield source
    await source.close()


async def test_a_record_is_dated_by_the_boot_and_bound_to_its_gpu(source: KernelLogSource, log: KernelLog, clock: ManualClock) -> None:
    """Event time is boot plus the record's own stamp, to the microsecond; receive time is the fleet's clock."""
    log.write(xid(94, 12.345678))
    events = [record for record in await source.read(0) if isinstance(record, Event)]
    assert [(e.node, e.code, e.gpu_uuid, e.boot_id, e.kernel_seq) for e in events] == [("n1", 94, UUID, "boot-1", 3)]
    assert events[0].observed_at_ns == BOOT_NS + 12_345_678_000
    assert events[0].received_at_ns == clock.now_ns()


async def test_nothing_is_said_twice(source: KernelLogSource, log: KernelLog) -> None:
    """A log that has not grown says nothing; one that was written anew with the same boot is known by its sequence numbers."""
    log.write(xid(31, 1))
    assert codes(await source.read(0)) == [31]
    assert codes(await source.read(0)) == []
    copy = log.path.with_name("copy")
    copy.write_bytes(log.path.read_bytes())
    copy.replace(log.path)
    log.write(xid(43, 2))
    assert codes(await source.read(0)) == [43]


async def test_a_reboot_starts_the_sequence_over(source: KernelLogSource, log: KernelLog) -> None:
    """After a reboot the same sequence numbers are new records of a new boot."""
    log.write(xid(31, 1))
    await source.read(0)
    log.reboot(boot_id="boot-2", boot_at_ns=BOOT_NS + 1800 * NS)
    log.write(xid(31, 1900))
    (event,) = [record for record in await source.read(0) if isinstance(record, Event)]
    assert (event.boot_id, event.observed_at_ns) == ("boot-2", BOOT_NS + 1900 * NS)


async def test_a_half_written_line_waits(source: KernelLogSource, log: KernelLog) -> None:
    """A record is taken when its line is whole."""
    await source.read(0)
    with log.path.open("ab") as file:
        file.write(b"3,1,5000000,-;NVRM: Xid (PCI:0000:3b:00): 7")
        file.flush()
        assert codes(await source.read(0)) == []
        file.write(b"9, GPU has fallen off the bus.\n")
    assert codes(await source.read(0)) == [79]


async def test_a_log_that_is_not_there_is_a_state_said_once(source: KernelLogSource, log: KernelLog, clock: ManualClock) -> None:
    """A missing log is a state of the source, said at the change and once per hour, and delays no other log."""
    log.write(xid(63, 1))
    first = await source.read(0)
    assert [(r.node, r.state) for r in first if isinstance(r, SourceState)] == [("n1", "ok"), ("n2", "unreachable")]
    assert codes(first) == [63]
    assert [record for record in await source.read(0) if isinstance(record, SourceState)] == []
    clock.advance(3601)
    assert len([record for record in await source.read(0) if isinstance(record, SourceState)]) == 2


async def test_bus_loss_and_its_xid_are_one_incident_in_either_order(source: KernelLogSource, log: KernelLog) -> None:
    """Whether the driver's text or XID 79 comes first, the XID is what is said."""
    loss = KernelEvent(at_ns=BOOT_NS + 5 * NS, node="n1", kind="bus_loss", gpu_uuid=UUID, pci="0000:3b:00")
    log.write(loss)
    log.write(xid(79, 5.05))
    log.write(loss)
    events = [record for record in await source.read(0) if isinstance(record, Event)]
    assert [(event.kind, event.code) for event in events] == [("xid", 79)]


async def test_a_bus_loss_without_xid_is_an_event(source: KernelLogSource, log: KernelLog) -> None:
    """The plain text alone tells of the loss; an XID 79 that comes later adds nothing."""
    log.write(KernelEvent(at_ns=BOOT_NS + 5 * NS, node="n1", kind="bus_loss", gpu_uuid=UUID, pci="0000:3b:00"))
    events = [record for record in await source.read(0) if isinstance(record, Event)]
    assert [(event.kind, event.code, event.use) for event in events] == [("bus_loss", 79, "label")]
    log.write(xid(79, 6))
    assert codes(await source.read(0)) == []
    log.write(xid(79, 600))
    assert codes(await source.read(0)) == [79]


async def test_the_driver_names_gpu_and_board(source: KernelLogSource, log: KernelLog) -> None:
    """UUID and serial lines become an inventory row."""
    log.write(xid(31, 1))
    rows = [record for record in await source.read(0) if isinstance(record, InventoryRow)]
    assert [(row.gpu_uuid, row.serial, row.pci, row.action) for row in rows] == [(UUID, "1650000000001", "0000:3b:00", "insert")]


async def test_plain_journal_text_is_read_and_followed(tmp_path: Path, clock: ManualClock) -> None:
    """The text that `journalctl -k -o short-iso` writes needs no companion file, and a cut file is read anew without repetition."""
    text = "2026-09-21T14:20:00+00:00 n1 kernel: NVRM: Xid (PCI:0000:3b:00): 48, DBE\n"
    journal = tmp_path / "journal"
    journal.write_text(text)
    source = KernelLogSource({"n1": journal}, clock=clock)
    assert codes(await source.read(0)) == [48]
    os.truncate(journal, 0)
    assert codes(await source.read(0)) == []
    journal.write_text(text + text.replace("48, DBE", "95, Uncontained"))
    assert codes(await source.read(0)) == [95]
    await source.close()


async def test_records_that_the_ring_overwrote_are_counted(source: KernelLogSource, log: KernelLog) -> None:
    """A gap in the sequence numbers is so many records lost, and reading goes on."""

    def lost() -> float:
        return REGISTRY.get_sample_value("forewarn_kernel_log_lost_records_total") or 0.0

    await source.read(0)
    before = lost()
    with log.path.open("a") as file:
        file.write("3,12,5000000,-;NVRM: Xid (PCI:0000:3b:00): 48, DBE\n")
    assert codes(await source.read(0)) == [48]
    assert lost() - before == 11


async def test_an_old_line_without_a_date_is_no_event_of_today(tmp_path: Path, clock: ManualClock) -> None:
    """What dmesg wrote before the start has no date without a companion: it is a gap, not a new fault; what comes then is dated."""
    dmesg = tmp_path / "dmesg"
    dmesg.write_text(
        "[  12.5] NVRM: GPU at PCI:0000:3b:00: GPU-0a1b2c30-1111-4222-8333-444455556660\n[  99.1] NVRM: Xid (PCI:0000:3b:00): 48, DBE\n"
    )
    source = KernelLogSource({"n1": dmesg}, clock=clock)
    first = await source.read(0)
    assert codes(first) == []
    assert [row.state for row in first if isinstance(row, SourceState)] == ["gap", "ok"]
    assert "dmesg.boot" in next(row.detail or "" for row in first if isinstance(row, SourceState))
    with dmesg.open("a") as file:
        file.write("[ 812.0] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n")
    (event,) = [record for record in await source.read(0) if isinstance(record, Event)]
    assert (event.code, event.gpu_uuid, event.observed_at_ns) == (79, UUID, clock.now_ns())
    dmesg.rename(tmp_path / "away")
    assert [row.state for row in await source.read(0) if isinstance(row, SourceState)] == ["unreachable"]
    (tmp_path / "away").rename(dmesg)
    assert codes(await source.read(0)) == []
    await source.close()
