"""Run the soak and judge it: memory flat, every record accounted for, no beat late by more than an interval."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from ingest.kafka_admin import KafkaConnection, create_topics
from tests.faults.broker import Broker
from tests.forewarn.agent import Agent
from tests.soak.books import Arrived, Beats, Metrics, read_all
from tests.soak.faults import FAULTS
from tests.soak.fleet import SoakFleet

INTERVAL_S, BEAT_S, JITTER = 1.0, 1.0, 0.9  # reads are spread over their interval, as one process that reads many nodes should
SAMPLE_S, MOST_GROWTH, PATIENCE_S = 5.0, 1.1, 30.0
LINES = "forewarn_kernel_log_lines_total"
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Soak:
    """What a run came to; memory in MB, one number per sample: of the collector, and of it with all its workers."""

    nodes: int
    seconds: float = 0.0
    collector_mb: list[float] = field(default_factory=list)
    family_mb: list[float] = field(default_factory=list)
    load: list[float] = field(default_factory=list)
    gaps_s: list[float] = field(default_factory=list)
    cpu_s: float = 0.0
    metrics: Metrics = field(default_factory=Metrics)
    arrived: Arrived = field(default_factory=Arrived)
    status: int | None = None
    lines: int = 0
    overwritten: int = 0
    faults: dict[str, int] = field(default_factory=dict)

    @property
    def growth(self) -> float:
        """Tell the memory of the last third as a multiple of that of the second."""
        third = len(self.collector_mb) // 3
        return statistics.median(self.collector_mb[-third:]) / statistics.median(self.collector_mb[third:-third])

    def findings(self) -> dict[str, bool]:
        """Judge each promise."""
        metrics, emitted = self.metrics, self.metrics.total("forewarn_collector_emitted_records_total")
        lost = self.metrics.total("forewarn_spool_dropped_records_total") + self.metrics.total("forewarn_bus_refused_records_total")
        return {
            "ends in order": self.status == 0,
            "memory flat": self.growth <= MOST_GROWTH,
            "received = emitted + rejected + dropped": emitted > 0 and metrics.unaccounted == 0,
            "emitted rows are on the bus or in the spool": sum(self.arrived.rows.values()) >= emitted - lost,
            "no message missing or double": (self.arrived.holes == 0 or lost > 0) and self.arrived.doubles == 0,
            "every line of the kernel logs": metrics.total(LINES) == self.lines,
            "every overwritten record": metrics.total("forewarn_kernel_log_lost_records_total") == self.overwritten,
            "no beat late by an interval": max(self.gaps_s) <= BEAT_S + INTERVAL_S,
        }

    def text(self) -> str:
        """Tell the figures."""
        third = len(self.collector_mb) // 3
        thirds = [statistics.median(self.collector_mb[at : at + third]) for at in (0, third, 2 * third)]
        names = {series: value for series, value in self.metrics.items() if series.startswith(_TOLD) and value}
        faults, loads, slow_s = sum(self.faults.values()), sorted(self.load), BEAT_S + INTERVAL_S
        rows, arrived = sum(self.arrived.rows.values()), self.arrived
        lines = [
            f"{self.nodes} nodes, {self.seconds / 60:.1f} minutes at {INTERVAL_S:g} s, {faults} faults",
            f"collector and workers {self.cpu_s / self.seconds:.0%} of a core",
            f"load of the machine {loads[0]:.1f} to {loads[-1]:.1f}, median {statistics.median(loads):.1f}",
            f"collector {' -> '.join(f'{mb:.0f}' for mb in thirds)} MB by thirds, growth {self.growth:.3f}",
            f"  at most {max(self.collector_mb):.0f} MB, with its workers {max(self.family_mb):.0f} MB",
            f"beats: {len(self.gaps_s)} gaps, median {statistics.median(self.gaps_s):.2f} s, most {max(self.gaps_s):.2f} s",
            f"  over {slow_s:g} s: {sum(gap > slow_s for gap in self.gaps_s)}",
            f"rows on the bus or in the spool: {rows:,} {dict(arrived.rows)}",
            f"messages missing {arrived.holes}, double {arrived.doubles}, in the spool {arrived.in_spool}",
            f"unaccounted {self.metrics.unaccounted:.0f}; lines of kernel logs {self.lines}, overwritten {self.overwritten}",
        ]
        lines += [f"  {series} {value:.0f}" for series, value in names.items()]
        lines += [f"  fault {name}: {count}" for name, count in sorted(self.faults.items())]
        lines += [f"{'ok' if holds else 'MISSED'}: {promise}" for promise, holds in self.findings().items()]
        return "\n".join(lines)


_TOLD = (
    "forewarn_collector_samples_total",
    "forewarn_collector_emitted",
    "forewarn_collector_rejected",
    "forewarn_collector_dropped",
    "forewarn_collector_read_errors",
    "forewarn_collector_skipped",
    "forewarn_exporter_scrapes",
    "forewarn_kernel_log",
    "forewarn_nvml",
    "forewarn_redfish_stream_ends",
    "forewarn_redfish_payloads",
    "forewarn_redfish_failures",
    "forewarn_spool_dropped",
    "forewarn_bus_refused",
    "forewarn_xid",
)


def soak(
    directory: Path,
    *,
    nodes: int,
    minutes: float,
    seed: int,
    clock_library: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Soak:
    """Run the collector over so many nodes for so long; `clock_library` lets its clock be stepped."""
    result = Soak(nodes)
    with ExitStack() as stack:
        broker = Broker(directory / "kafka")
        broker.start()
        stack.callback(broker.kill)
        broker.wait()
        settings = KafkaConnection(bootstrap=broker.address)
        create_topics(settings, partitions=3, replication=1)
        beats = stack.enter_context(Beats(directory / "beats"))
        places = (directory, broker.address, int((directory / "kafka" / "kafka.pid").read_text()))
        asyncio.run(_run(result, *places, beats, minutes=minutes, seed=seed, clock_library=clock_library, say=say))
        say("reading what arrived")
        result.arrived = read_all(settings, directory / "state" / "spool")
    return result


async def _run(
    result: Soak,
    directory: Path,
    bootstrap: str,
    broker_pid: int,
    beats: Beats,
    *,
    minutes: float,
    seed: int,
    clock_library: Path | None,
    say: Callable[[str], None],
) -> None:
    fleet = SoakFleet(directory, result.nodes, seed=seed)
    sources = await fleet.open()
    agent = Agent(directory, bootstrap=bootstrap, interval_s=INTERVAL_S, chassis_interval_s=INTERVAL_S, jitter_ratio=JITTER, **sources)
    more = {"NOTIFY_SOCKET": str(beats.path)}
    if clock_library:
        more |= {"LD_PRELOAD": str(clock_library), "FAULTY_CLOCK": str(fleet.clock_file)}
    try:
        await asyncio.to_thread(agent.start, **more)
        _give_way(os.getpid(), broker_pid)
        await asyncio.to_thread(agent.until, lambda: _is_reading(agent, result.nodes), 300.0)
        say("every node is read")
        began_s, began_ns, used_s = time.monotonic(), time.time_ns(), _cpu_s(agent.running.pid)
        watching = asyncio.create_task(_watch(agent, result, say))
        await fleet.live(began_s + minutes * 60, FAULTS)
        watching.cancel()
        result.seconds, result.cpu_s = time.monotonic() - began_s, _cpu_s(agent.running.pid) - used_s
        result.gaps_s = beats.gaps_s(began_ns)
        result.faults, result.lines, result.overwritten = dict(fleet.faults), fleet.lines, fleet.overwritten
        result.metrics = await _balance(agent, fleet.lines)
        result.status = await asyncio.to_thread(agent.stop)
    finally:
        agent.kill()
        await fleet.close()


def _give_way(*pids: int) -> None:
    """Let processes and what they will start give way to the collector: devices and brokers are machines of their own."""
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, int(thread.name), 10)


def _is_reading(agent: Agent, nodes: int) -> bool:
    metrics = Metrics.read(agent.get("/metrics", 10.0)[1])
    return metrics.total("forewarn_nvml_gpu_polls_total") > nodes * 8 and metrics.total("forewarn_redfish_payloads_total") > nodes


async def _watch(agent: Agent, result: Soak, say: Callable[[str], None]) -> None:
    told_s = 0.0
    while True:
        pids = _family(agent.running.pid)
        result.collector_mb.append(_memory_mb(pids[0]))
        result.family_mb.append(sum(map(_memory_mb, pids)))
        result.load.append(os.getloadavg()[0])
        if time.monotonic() > told_s + 60:
            told_s = time.monotonic()
            say(f"{len(pids)} processes, {result.collector_mb[-1]:.0f} of {result.family_mb[-1]:.0f} MB, load {result.load[-1]:.1f}")
        await asyncio.sleep(SAMPLE_S)


async def _balance(agent: Agent, lines: int) -> Metrics:
    """Give a scrape that fell between two reads after the logs were read; where something is lost there is none, and the last is given."""
    until_s = time.monotonic() + PATIENCE_S
    while True:
        found = Metrics.read((await asyncio.to_thread(agent.get, "/metrics", 10.0))[1])
        is_read = found.total(LINES) >= lines
        if (found and found.unaccounted == 0 and is_read) or time.monotonic() > until_s:
            return found
        await asyncio.sleep(0.13)


def _family(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    found = [pid]
    with suppress(OSError):
        found += [grandchild for child in children.read_text().split() for grandchild in _family(int(child))]
    return found


def _memory_mb(pid: int) -> float:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / 1e6
    return 0.0


def _cpu_s(pid: int) -> float:
    used = 0.0
    for each in _family(pid):
        with suppress(OSError):
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
            used += sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")
    return used
