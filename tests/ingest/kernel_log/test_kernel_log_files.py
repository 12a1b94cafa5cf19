"""Kernel logs that are rotated, replaced, cut, endless or no files: no fault is lost, none is told twice, no old one looks new."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from ingest.clock import NS, ManualClock
from ingest.kernel_log.source import KernelLogSource
from ingest.schema import Event, Observed, SourceState

NOW_NS = 1_790_000_000 * NS
DATED = "2026-09-21T14:20:0{second}+00:00 n1 kernel: NVRM: Xid (PCI:0000:3b:00): {code}, text\n"
BARE = "NVRM: Xid (PCI:0000:3b:00): {code}, pid=1\n"

Follow = Callable[[Path], KernelLogSource]


def codes(records: list[Observed]) -> list[int | None]:
    return [record.code for record in records if isinstance(record, Event)]


def states(records: list[Observed]) -> list[str]:
    return [record.state for record in records if isinstance(record, SourceState)]


def metric(name: str) -> float:
    return REGISTRY.get_sample_value(f"forewarn_kernel_log_{name}_total") or 0.0


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


@pytest.fixture
def follow() -> Follow:
    return lambda path: KernelLogSource({"n1": path}, clock=ManualClock(NOW_NS))


async def test_the_last_lines_before_a_rotation_are_told(tmp_path: Path, follow: Follow) -> None:
    """What was appended before the rename and what the new file begins with are both told, once."""
    log = tmp_path / "kern.log"
    append(log, DATED.format(second=0, code=31))
    source = follow(log)
    assert codes(await source.read(0)) == [31]
    append(log, DATED.format(second=1, code=48))
    log.rename(tmp_path / "kern.log.1")
    append(log, DATED.format(second=2, code=79))
    assert codes(await source.read(0)) == [48, 79]
    assert codes(await source.read(0)) == []
    await source.close()


async def test_a_daemon_that_still_writes_to_the_renamed_file_is_heard(tmp_path: Path, follow: Follow) -> None:
    """While nothing is at the path, and while what is there is empty, the renamed file is followed; then the new one."""
    log, old = tmp_path / "kern.log", tmp_path / "kern.log.1"
    append(log, BARE.format(code=31))
    source = follow(log)
    await source.read(0)
    log.rename(old)
    append(old, BARE.format(code=48))
    missing = await source.read(0)
    assert (codes(missing), states(missing)) == ([48], ["unreachable"])
    log.touch()
    append(old, BARE.format(code=63))
    empty = await source.read(0)
    assert (codes(empty), states(empty)) == ([63], ["ok"])
    append(old, BARE.format(code=64))
    append(log, BARE.format(code=94))
    assert codes(await source.read(0)) == [64, 94]
    append(log, BARE.format(code=94))
    assert codes(await source.read(0)) == [94]
    await source.close()


async def test_many_rotations_between_two_reads_end_in_the_last_file(tmp_path: Path, follow: Follow) -> None:
    """Empty files that came and went do not hold the log back, however many."""
    log = tmp_path / "kern.log"
    append(log, DATED.format(second=0, code=31))
    source = follow(log)
    await source.read(0)
    for number in range(20):
        log.rename(tmp_path / f"kern.log.{number}")
        log.touch()
        assert codes(await source.read(0)) == []
    append(log, DATED.format(second=5, code=79))
    assert codes(await source.read(0)) == [79]
    await source.close()


@pytest.mark.parametrize("line", [BARE, "6,{code},{code}000000,-;" + BARE, "[  {code}.5] " + BARE], ids=["bare", "kmsg", "dmesg"])
async def test_old_lines_of_a_replaced_file_are_not_told_again(tmp_path: Path, follow: Follow, line: str) -> None:
    """In a log without dates, of a copy with one line more that one is told, and the old fault is not told as of now."""
    log, fresh = tmp_path / "dmesg", tmp_path / "dmesg.new"
    log.touch()
    source = follow(log)
    await source.read(0)
    append(log, line.format(code=48))
    assert codes(await source.read(0)) == [48]
    fresh.write_text(line.format(code=48) + line.format(code=79))
    fresh.replace(log)
    assert codes(await source.read(0)) == [79]
    append(log, line.format(code=94))
    assert codes(await source.read(0)) == [94]
    await source.close()


async def test_a_file_of_unknown_lines_is_a_gap(tmp_path: Path, follow: Follow) -> None:
    """Undated lines that came with another file, and not behind what was known, may be of any age: counted and told as a gap."""
    log, other = tmp_path / "dmesg", tmp_path / "other"
    append(log, BARE.format(code=48))
    source = follow(log)
    await source.read(0)
    append(log, BARE.format(code=63))
    assert codes(await source.read(0)) == [63]
    other.write_text(BARE.format(code=79) + BARE.format(code=95))
    other.replace(log)
    said = await source.read(0)
    assert (codes(said), states(said)) == ([], ["gap", "ok"])
    assert "2 incidents" in next(row.detail or "" for row in said if isinstance(row, SourceState))
    append(log, BARE.format(code=94))
    assert codes(await source.read(0)) == [94]
    await source.close()


async def test_a_file_that_is_written_anew_in_place_says_nothing_twice(tmp_path: Path, follow: Follow) -> None:
    """A cut log that gets its old undated lines again, bit by bit, tells only what is new."""
    log = tmp_path / "dmesg"
    log.touch()
    source = follow(log)
    await source.read(0)
    append(log, BARE.format(code=48) + BARE.format(code=63) + BARE.format(code=63))
    assert codes(await source.read(0)) == [48, 63, 63]
    os.truncate(log, 0)
    assert codes(await source.read(0)) == []
    for code in (48, 63, 63):
        append(log, BARE.format(code=code))
        assert codes(await source.read(0)) == []
    append(log, BARE.format(code=79))
    assert codes(await source.read(0)) == [79]
    await source.close()


@pytest.mark.parametrize("filler", ["", "usb 1-1: new device\n" * 9], ids=["as long", "longer"])
async def test_a_file_that_is_cut_and_grows_between_two_reads_is_noticed(tmp_path: Path, follow: Follow, filler: str) -> None:
    """A log that after its cut is as long as before, or longer, is read from its start."""
    log = tmp_path / "kern.log"
    append(log, DATED.format(second=0, code=31))
    source = follow(log)
    assert codes(await source.read(0)) == [31]
    log.write_text(DATED.format(second=1, code=48) + filler + DATED.format(second=2, code=79) * bool(filler))
    os.utime(log, ns=(NOW_NS, NOW_NS))
    assert codes(await source.read(0)) == ([48, 79] if filler else [48])
    await source.close()


async def test_a_large_log_is_read_in_bites(tmp_path: Path, follow: Follow) -> None:
    """One read takes a MiB at most, so that the loop turns; the reads after it go on, and no other log waits for them."""
    large, small = tmp_path / "large", tmp_path / "small"
    filler = ("x" * 99 + "\n") * 40_000
    large.write_text(DATED.format(second=0, code=31) + filler + DATED.format(second=1, code=48))
    small.write_text(DATED.format(second=2, code=79))
    source = KernelLogSource({"n1": large, "n2": small}, clock=ManualClock(NOW_NS))
    assert codes(await source.read(0)) == [31, 79]
    reads = 1
    while not (said := codes(await source.read(0))):
        reads += 1
    assert (said, reads >= 4) == ([48], True)
    await source.close()


async def test_a_line_without_end_takes_no_memory(tmp_path: Path, follow: Follow) -> None:
    """Of a line of 20 MB the first 8 KiB are read and it is counted as cut; the line after it is told."""
    log = tmp_path / "log"
    log.write_text(DATED.format(second=0, code=31)[:-1] + " x" * 10_000_000)
    source, before = follow(log), metric("cut_lines")
    said = [code for _ in range(50) for code in codes(await source.read(0))]
    append(log, "\n" + DATED.format(second=1, code=48))
    assert (said, codes(await source.read(0))) == ([31], [48])
    assert metric("cut_lines") - before == 1
    await source.close()


async def test_half_a_number_at_the_cut_is_no_code(tmp_path: Path, follow: Follow) -> None:
    """A line is cut at a word: XID 119 whose last digits lie behind the bound is no XID 11."""
    log = tmp_path / "log"
    head = " NVRM: Xid (PCI:0000:3b:00): 11"
    log.write_text("x" * (8_192 - len(head)) + head + "9, text\n")
    source = follow(log)
    assert codes(await source.read(0)) == []
    await source.close()


async def test_a_fifo_is_read_as_it_comes(tmp_path: Path, follow: Follow) -> None:
    """A FIFO without a writer, with a silent one and after one is a log that says nothing now."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    source = follow(fifo)
    assert states(await source.read(0)) == ["ok"]
    writer = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    assert (await source.read(0)) == []
    for code in (48, 79):
        os.write(writer, BARE.format(code=code).encode())
        assert codes(await source.read(0)) == [code]
    os.close(writer)
    assert (await source.read(0)) == []
    await source.close()


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/", ".", "a\0b"])
async def test_what_is_no_log_is_a_state(device: str, follow: Follow) -> None:
    """A device that is not /dev/kmsg, a folder and what can be no name are `unreachable`, at once."""
    source = follow(Path(device))
    assert states(await source.read(0)) == ["unreachable"]
    await source.close()
