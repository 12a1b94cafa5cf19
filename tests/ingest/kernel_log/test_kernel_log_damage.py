"""Damaged lines and numbers in kernel logs: they cost neither other lines nor other logs anything."""

from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from ingest.clock import NS, ManualClock
from ingest.kernel_log.node import Boot, KernelLogNode
from ingest.kernel_log.source import KernelLogSource
from ingest.schema import Event, Observed, SourceState
from ingest.xid import Catalogue

BOOT_NS = 1_790_000_000 * NS
NOW_NS = BOOT_NS + 3600 * NS
LONG = "9" * 5000


def record(seq: int, second: int, code: int) -> str:
    return f"3,{seq},{second}000000,-;NVRM: Xid (PCI:0000:3b:00): {code}, text"


def codes(records: list[Observed]) -> list[int | None]:
    return [record.code for record in records if isinstance(record, Event)]


def fed(node: KernelLogNode, *lines: str) -> list[int | None]:
    return codes([said for line in lines for said in node.feed(line, NOW_NS)])


def metric(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"forewarn_kernel_log_{name}_total", labels) or 0.0


@pytest.mark.parametrize(
    "line",
    [
        f"6,{LONG},1,-;x",
        f"6,1,1,-;x\n6,{LONG[:310]},1,-;x",
        f"[{LONG}.0] x",
        f"nvidia-nvswitch{LONG}: SXid (PCI:0000:05:00.0): 20034, Fatal",
    ],
    ids=["4300 digits", "beyond float", "stamp", "switch"],
)
async def test_a_bad_line_costs_no_other_line_and_no_other_log(tmp_path: Path, line: str) -> None:
    """Faults before and after it, and in the logs read before and after this one, are told."""
    paths = {node: tmp_path / node for node in ("n1", "n2", "n3")}
    for path in paths.values():
        path.write_text(f"2026-09-21T14:20:00Z n kernel: {record(0, 1, 31).partition(';')[2]}\n")
    paths["n2"].write_text(paths["n2"].read_text() + f"{line}\n2026-09-21T14:20:01Z n kernel: NVRM: Xid (PCI:0000:3b:00): 48, text\n")
    source = KernelLogSource(paths, clock=ManualClock(NOW_NS))
    assert codes(await source.read(0)) == [31, 31, 48, 31]
    await source.close()


class _Fails(Catalogue):
    def use(self, code: int) -> str:
        if code == 48:
            raise RuntimeError("not foreseen")
        return "label"


async def test_what_nobody_foresaw_costs_one_line(tmp_path: Path) -> None:
    """A line whose taking fails is counted and passed over; the lines after it and the other logs are told, and the logs are ok."""
    for name in ("n1", "n2"):
        (tmp_path / name).write_text(
            "".join(f"2026-09-21T14:20:00Z n kernel: NVRM: Xid (PCI:0000:3b:00): {code}, text\n" for code in (31, 48, 79))
        )
    source = KernelLogSource({name: tmp_path / name for name in ("n1", "n2")}, clock=ManualClock(NOW_NS), catalogue=_Fails({}))
    before = metric("lines", outcome="failed")
    said = await source.read(0)
    assert codes(said) == [31, 79, 31, 79]
    assert [row.state for row in said if isinstance(row, SourceState)] == ["ok", "ok"]
    assert metric("lines", outcome="failed") - before == 2
    await source.close()


@pytest.mark.parametrize(
    "junk",
    [
        ("6,999999999999,2,-;junk",),
        ("6,999999999999,999999999999999,-;junk",),
        ("6,999999999999,2,-;junk", "6,1000000000000,3,-;junk"),
        ("6,999999999999,999999999999999,-;junk", "6,1000000000000,999999999999999,-;junk"),
        ("6,900,999999999999999,-;junk",),
    ],
)
@pytest.mark.parametrize("before", [(), (record(10, 1, 31),)])
def test_a_damaged_number_silences_nobody(junk: tuple[str, ...], before: tuple[str, ...]) -> None:
    """Records after a number that ran away are told, and the jump is not taken for as many lost records."""
    node = KernelLogNode("n1", boot=Boot(id="b", at_ns=BOOT_NS))
    lost = metric("lost_records")
    fed(node, *before, *junk)
    assert fed(node, record(11, 2, 48), record(12, 2, 63), record(13, 3, 79)) == [48, 63, 79]
    assert metric("lost_records") - lost <= 900


def test_a_damaged_log_that_is_read_again_says_nothing_twice() -> None:
    """The same records, the damaged one among them, are duplicates; what comes behind them is told."""
    node = KernelLogNode("n1", boot=Boot(id="b", at_ns=BOOT_NS))
    lines = [record(10, 1, 31), "6,999999999999,2,-;junk", record(11, 2, 48), record(12, 3, 63)]
    fed(node, *lines)
    node.begin_file(Boot(id="b", at_ns=BOOT_NS))
    assert fed(node, *lines, record(13, 4, 79)) == [79]


def test_a_log_of_more_faults_than_are_remembered_is_known_by_its_numbers() -> None:
    """Ten thousand records that are read again are duplicates, whatever was forgotten of them."""
    node = KernelLogNode("n1", boot=Boot(id="b", at_ns=BOOT_NS))
    lines = [record(seq, seq // 10, 31) for seq in range(10_000)]
    assert len(fed(node, *lines)) == 10_000
    node.begin_file(Boot(id="b", at_ns=BOOT_NS))
    assert fed(node, *lines, record(10_000, 1000, 79)) == [79]


@pytest.mark.parametrize("boot_at_ns", [0, -(10**18), 10**18 * 9, 10**30])
async def test_a_companion_with_an_absurd_time_dates_nothing(tmp_path: Path, boot_at_ns: int) -> None:
    """A boot before 2000 or in the future leaves the records undated: those from before the opening are a gap."""
    log = tmp_path / "kmsg"
    log.write_text(record(1, 1, 31) + "\n")
    (tmp_path / "kmsg.boot").write_text(f'{{"boot_id": "b", "boot_at_ns": {boot_at_ns}}}')
    source = KernelLogSource({"n1": log}, clock=ManualClock(NOW_NS))
    said = await source.read(0)
    assert (codes(said), [row.state for row in said if isinstance(row, SourceState)]) == ([], ["gap", "ok"])
    await source.close()
