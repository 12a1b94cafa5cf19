"""Collectors, a real Kafka, writers and a compactor as processes of their own, killed and started again as a service manager would."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import requests
from prometheus_client.parser import text_string_to_metric_families

from forewarn.demo_fleet import write_configuration
from ingest.clock import SharedClock
from ingest.kafka_admin import KafkaConnection, topic_states
from ingest.kafka_bus import KafkaPublisher
from ingest.lake import Lake
from ingest.lake_care import measure
from ingest.pump import Pump
from ingest.schema import GPU_SAMPLES
from ingest.spool import Spool
from tests.faults.broker import Broker, free_port, wait_until
from tests.faults.known_fleet import KnownFleet
from tests.faults.nursery import Child, Nursery

ROOT = Path(__file__).parents[2]
GROUP = "writers"
DROPPED = "forewarn_spool_dropped_records_total"
Command = Callable[[str], Sequence[str | Path]]


@dataclass
class Part:
    """One process and how to start its next life."""

    command: Command
    environment: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | Child | None = None
    lives: int = 0


class Plant:
    """All processes around one fleet, one broker and one lake; `collectors` says which nodes each collector reads."""

    def __init__(
        self,
        directory: Path,
        fleet: KnownFleet,
        broker: Broker,
        *,
        collectors: Mapping[str, Sequence[str]],
        interval_s: float,
        lake: Path | None = None,
    ) -> None:
        self.directory, self.fleet, self.broker = directory, fleet, broker
        self.lake = Lake(lake or directory / "lake")
        self.nodes = dict(collectors)
        self.interval_s = interval_s
        self.parts: dict[str, Part] = {}
        self.ended: Counter[str] = Counter()
        self.bootstrap_of: dict[str, str] = {}
        self.clock_of: dict[str, dict[str, Any]] = {}
        self.state_dirs = {name: directory / name for name in collectors}
        self.ports: dict[str, int] = {}
        self.dropped = 0
        self._nursery = Nursery(ROOT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self.parts):
            self.kill(name)
        self._nursery.close()
        self.broker.kill()

    def start_all(self, **environment: str) -> None:
        """Start the broker, both collectors and a writer."""
        self.start_behind(**environment)
        self.start_collectors(**environment)

    def start_behind(self, **environment: str) -> None:
        """Start the broker and a writer."""
        self.broker.start()
        self.broker.wait()
        self.start_writer("writer0", **environment)

    def start_collectors(self, **environment: str) -> None:
        """Start every collector."""
        for name in self.nodes:
            self.start_collector(name, **environment)

    def start_collector(self, name: str, **environment: str) -> None:
        """Start the next life of a collector, which asks for pages under a name of its own."""
        self._start(name, lambda life: ("collect", "--config", self._collector_file(name, life)), environment)

    def start_writer(self, name: str, *, group: str = GROUP, **environment: str) -> None:
        """Start the next life of a writer."""
        self._start(name, lambda _: ("write", "--config", self._writer_file(name, group)), environment)

    def start_compactor(self, *, gap_s: float = 1.0) -> None:
        """Start the next life of the compactor."""
        numbers = (self.fleet.clock_file, gap_s)
        self._start("compactor", lambda _: (self.lake.root, *(str(number) for number in numbers)), {})

    def kill(self, name: str) -> None:
        """End a process at once; what a collector has counted as dropped is noted before."""
        part = self.parts[name]
        if part.process:
            self._note_drops(name)
            part.process.kill()
            part.process.wait()
            part.process = None

    def restart(self, name: str) -> None:
        """Start a process again."""
        part = self.parts[name]
        assert part.process is None or part.process.poll() is not None, f"{name} lives"
        part.lives += 1
        module = "tests.faults.compactor" if name == "compactor" else "forewarn.cli"
        arguments = [str(argument) for argument in part.command(f"{name}-{part.lives}")]
        log = self.directory / f"{name}.log"
        if part.environment:  # what is to be loaded before everything else needs a process that is new from the start
            part.process = _start_afresh(module.removesuffix(".cli"), arguments, log, part.environment)
        else:
            part.process = self._nursery.fork(module, arguments, log=log, code_file=self.directory / f"{name}.code")

    def look_after(self) -> None:
        """Start again whatever ended by itself, and count it."""
        self.broker.look_after()
        for name, part in self.parts.items():
            if part.process and part.process.poll() is not None:
                self.ended[name] += 1
                self.restart(name)

    def stop(self, name: str, patience_s: float = 60.0) -> int:
        """Ask a process to leave, and give its exit code."""
        process = self.parts[name].process
        assert process, f"{name} is not running"
        self._note_drops(name)
        process.terminate()
        code = process.wait(patience_s)
        self.parts[name].process = None
        return code

    def count(self, name: str, metric: str, **labels: str) -> float:
        """Read a metric of a collector or writer; 0 where it has not been set."""
        try:
            page = requests.get(f"http://127.0.0.1:{self.ports[name]}/metrics", timeout=10).text
        except requests.RequestException:  # it has not come up yet
            return 0.0
        samples = (sample for family in text_string_to_metric_families(page) for sample in family.samples)
        return sum(sample.value for sample in samples if sample.name == metric and labels.items() <= sample.labels.items())

    def _note_drops(self, name: str) -> None:
        if name in self.nodes:
            self.dropped += int(self.count(name, DROPPED))

    def connection(self) -> KafkaConnection:
        """Reach the broker from here."""
        return KafkaConnection(bootstrap=self.broker.address, group=GROUP, session_timeout_s=3.0)

    def settle(self, patience_s: float = 300.0) -> None:
        """Let everything that was said reach the lake, then stop all processes in order."""
        self.fleet.hush()
        self.broker.wait()
        self.wait_for_pages(2, patience_s)
        codes = {name: self.stop(name) for name in self.nodes}
        for name in self.nodes:
            self._empty_spool(self.state_dirs[name] / "spool")
        wait_until(self._is_read, "the writers have read everything", patience_s, self.look_after)
        codes |= {name: self.stop(name) for name in self.parts if name.startswith("writer")}
        assert set(codes.values()) == {0}, codes
        if "compactor" in self.parts:
            self.kill("compactor")

    def set_clock(self, name: str, *, behind_ns: int) -> None:
        """Let a collector's fleet time be behind that of the others."""
        file = self.directory / f"{name}.clock"
        clock = SharedClock.create(file, self.fleet.now_ns() - behind_ns, self.fleet.clock.scale)
        clock.go()
        self.clock_of[name] = {"clock_file": str(file)}

    def follow_wall_clock(self) -> None:
        """Let everybody read the clock of the machine."""
        self.clock_of = {name: {} for name in (*self.nodes, "writer0")}

    def rows(self) -> int:
        """Count the samples in the lake."""
        stats = measure(self.lake, GPU_SAMPLES)
        return stats.rows if stats else 0

    def wait_for_rows(self, patience_s: float = 300.0) -> None:
        """Wait until the lake has samples that it has not now."""
        before = self.rows()
        wait_until(lambda: self.rows() > before, "new rows are in the lake", patience_s, self.look_after)

    def wait_for_pages(self, count: int, patience_s: float = 300.0) -> None:
        """Wait until so many more pages of every node were fetched."""
        wanted = {node: self.fleet.pages(node) + count for nodes in self.nodes.values() for node in nodes}
        wait_until(lambda: all(self.fleet.pages(node) >= n for node, n in wanted.items()), "pages are read", patience_s, self.look_after)

    def _is_read(self) -> bool:
        return all(state.lag == 0 for state in topic_states(self.connection()))

    def _empty_spool(self, directory: Path) -> None:
        spool, publisher = Spool(directory), KafkaPublisher(self.connection())
        pump = Pump(spool, publisher)
        while pump.pass_on(0.0):
            pass
        publisher.close()
        spool.close()

    def _start(self, name: str, command: Command, environment: Mapping[str, str]) -> None:
        self.parts[name] = Part(command, environment)
        self.restart(name)

    def _collector_file(self, name: str, life: str) -> Path:
        nodes = self.nodes[name]
        collect = {
            "interval_s": self.interval_s,
            "metrics_port": self.ports.setdefault(name, free_port()),
            "exporter": {node: self.fleet.url(node, life) for node in nodes},
            "kernel_log": {node: str(self.fleet.logs[node]) for node in nodes},
        }
        own = {"state_dir": str(self.state_dirs[name]), **self.clock_of.get(name, self._fleet_clock())}
        return write_configuration(self.directory / f"{name}.toml", {"fleet": own, "bus": self._bus(name, GROUP), "collect": collect})

    def _writer_file(self, name: str, group: str) -> Path:
        values = {
            "fleet": {"state_dir": str(self.directory / name), **self.clock_of.get(name, self._fleet_clock())},
            "lake": {"path": self.lake.root},
            "bus": self._bus(name, group),
            "write": {"max_age_s": 1.0, "metrics_port": self.ports.setdefault(name, free_port())},
        }
        return write_configuration(self.directory / f"{name}.toml", values)

    def _bus(self, name: str, group: str) -> dict[str, Any]:
        bootstrap = self.bootstrap_of.get(name, self.broker.address)
        return {"kind": "kafka", "bootstrap": bootstrap, "group": group, "partitions": 3, "session_timeout_s": 3.0}

    def _fleet_clock(self) -> dict[str, Any]:
        return {"clock_file": str(self.fleet.clock_file)}


def _start_afresh(module: str, arguments: Sequence[str], log_file: Path, changes: Mapping[str, str]) -> subprocess.Popen[bytes]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("FOREWARN__")}
    environment |= {"PYTHONPATH": str(ROOT), **changes}
    with log_file.open("ab") as log:
        command = [sys.executable, "-m", module, *arguments]
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=ROOT, start_new_session=True)
