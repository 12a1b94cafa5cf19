"""The collector as operators handle it: asked over HTTP, told by signals, stopped at any moment."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from signal import SIGHUP, SIGTERM
from typing import Any

import pytest

from forewarn.collecting import STOP_S
from tests.forewarn.agent import Agent

pytestmark = pytest.mark.slow
Start = Callable[..., Agent]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start collectors that are ended with the test."""
    agents: list[Agent] = []

    def start(**options: Any) -> Agent:
        agent = Agent(tmp_path, **options)
        agents.append(agent)
        agent.start()
        return agent

    yield start
    for agent in agents:
        agent.kill()


@pytest.fixture
def silent() -> Iterator[str]:
    """Give the address of a server that takes connections and never says anything."""
    with closing(socket.create_server(("127.0.0.1", 0), backlog=64)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def xid(number: int) -> str:
    """Write a record of the kernel log: an XID of code 63."""
    return f"4,{number},{number}000,-;NVRM: Xid (PCI:0000:1b:00): 63, pid=1, name=test, row remapping {number}\n"


def append(log: Path, *numbers: int) -> None:
    if not log.exists():  # a companion that is being written dates nothing
        log.with_name(f"{log.name}.boot").write_text('{"boot_id": "b1", "boot_at_ns": 1790000000000000000}')
    with log.open("a") as file:
        file.writelines(xid(number) for number in numbers)


def kernel_seqs(agent: Agent, node: str) -> set[int]:
    return {row.kernel_seq for row in agent.spooled("events") if row.node == node}  # type: ignore[attr-defined]


def test_pages_answer_while_a_source_hangs(start: Start, tmp_path: Path, silent: str) -> None:
    """With an exporter and a broker that never answer, health, readiness and metrics come within two seconds."""
    append(tmp_path / "kmsg", 1)
    agent = start(bootstrap=silent, kernel_log={"n1": str(tmp_path / "kmsg")}, exporter={"n1": f"http://{silent}/metrics"}, interval_s=1.0)
    agent.until(lambda: agent.get("/readyz", 2.0)[0] == 200)
    assert agent.get("/healthz", 2.0)[0] == 200
    assert "kernel_log ok" in agent.get("/readyz", 2.0)[1]
    agent.until(lambda: agent.metric('forewarn_collector_samples_total{source="kernel_log"}') >= 1)


def test_reload_adds_changes_and_removes_sources_and_loses_nothing(start: Start, tmp_path: Path) -> None:
    """Through reloads that add, move and remove kernel logs, every record of the log that stays is kept."""
    stays, comes = tmp_path / "stays", tmp_path / "comes"
    append(stays, 0)
    agent = start(kernel_log={"n1": str(stays)})
    for turn in range(1, 7):
        append(stays, *range(100 * turn, 100 * turn + 50))
        if has_second := turn % 2 == 1:
            append(comes, turn)
        agent.configure(kernel_log={"n1": str(stays)} | ({"n2": str(comes)} if has_second else {}))
        agent.send(SIGHUP)
        append(stays, *range(100 * turn + 50, 100 * turn + 100))
        agent.until(lambda turn=turn: agent.metric('forewarn_collector_reloads_total{result="taken"}') == turn)
    append(stays, 999)
    assert agent.stop() == 0
    assert kernel_seqs(agent, "n1") == {0, 999, *range(100, 700)}
    assert kernel_seqs(agent, "n2") == {1, 3, 5}


def test_a_configuration_that_is_wrong_changes_nothing(start: Start, tmp_path: Path) -> None:
    """One log line names the mistake, the counter moves, and the old sources are read on."""
    log = tmp_path / "kmsg"
    append(log, 1)
    agent = start(kernel_log={"n1": str(log)})
    agent.configure(kernel_log={"n1": str(log)}, intervall_s=5.0)
    agent.send(SIGHUP)
    agent.until(lambda: agent.metric('forewarn_collector_reloads_total{result="refused"}') == 1)
    refusals = agent.logged("configuration_refused")
    assert [refusal["mistakes"].partition(": ")[2] for refusal in refusals] == [
        "collect.intervall_s: no such key; did you mean collect.interval_s?"
    ]
    append(log, 2)
    agent.until(lambda: agent.metric('forewarn_collector_emitted_records_total{source="kernel_log"}') >= 3)
    assert agent.stop() == 0
    assert kernel_seqs(agent, "n1") == {1, 2}


def test_what_needs_a_restart_is_named(start: Start, tmp_path: Path) -> None:
    """A reload that changes more than sources says what it did not take."""
    append(tmp_path / "kmsg", 1)
    agent = start(kernel_log={"n1": str(tmp_path / "kmsg")})
    agent.configure(kernel_log={"n1": str(tmp_path / "kmsg")}, spool_max_mb=99)
    agent.send(SIGHUP)
    taken = agent.until(lambda: agent.logged("configuration_taken"))
    assert taken[0]["need_restart"] == ["collect.spool_max_mb"]


def test_term_keeps_what_was_read_and_exits_with_0(start: Start, tmp_path: Path) -> None:
    """Without a broker, SIGTERM ends the process well within the 30 s of its supervisor, and all that the log said is in the spool."""
    log = tmp_path / "kmsg"
    append(log, 1)
    agent = start(kernel_log={"n1": str(log)})
    append(log, *range(2, 200))
    agent.send(SIGTERM)
    assert agent.running.wait(timeout=STOP_S + 4) == 0
    assert kernel_seqs(agent, "n1") == set(range(1, 200))


def test_a_second_term_ends_at_once(start: Start, tmp_path: Path, silent: str) -> None:
    """While the first SIGTERM still waits for a broker, the second ends the process; the spool is whole."""
    append(tmp_path / "kmsg", 1)
    agent = start(bootstrap=silent, kernel_log={"n1": str(tmp_path / "kmsg")})
    agent.until(lambda: agent.metric("forewarn_collector_emitted_records_total") >= 1)
    agent.send(SIGTERM)
    agent.until(lambda: agent.logged("stopping"))
    began = time.monotonic()
    agent.send(SIGTERM)
    assert agent.running.wait(timeout=10) == -SIGTERM
    assert time.monotonic() - began < 2
    assert kernel_seqs(agent, "n1") == {1}


def test_a_port_in_use_ends_the_start(tmp_path: Path) -> None:
    """A collector that cannot serve its metrics says which setting to change and does not start."""
    append(tmp_path / "kmsg", 1)
    agent = Agent(tmp_path, kernel_log={"n1": str(tmp_path / "kmsg")})
    with closing(socket.create_server(("127.0.0.1", agent.port))), pytest.raises(AssertionError, match=r"collect\.metrics_port"):
        agent.start()
    assert agent.running.returncode == 2
