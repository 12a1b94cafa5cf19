"""A small fleet in a lake, a ledger, a real HTTP consumer and the pieces that tests of the decision layer put together."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from alerting.budget import Limits
from alerting.ledger import Ledger
from alerting.loop import AlertLoop
from alerting.settings import AlertSettings
from ingest.clock import NS, ManualClock, SystemClock, parse_time
from ingest.lake import Lake, table_rows
from ingest.schema import EVENTS, GPU_SAMPLES, JOBS, SOURCE_STATES, TOPOLOGY
from models.schema import HORIZONS_H, SCORES

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ACK_SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
START_NS = parse_time("2026-11-29T11:00:00Z")
HOUR = 3600 * NS
# Shares of the 24-hour probability that fall due within each horizon, and base rates of a fleet at 6.5 failures per 1000 node-days.
SHAPE = {1.0: 0.06, 6.0: 0.33, 24.0: 1.0, 168.0: 1.6}
BASE = {1.0: 0.00027, 6.0: 0.0016, 24.0: 0.0065, 168.0: 0.0445}


@dataclass
class Fleet:
    """Writes the tables that the decision layer reads, as of a clock that only the test moves."""

    lake: Lake
    clock: ManualClock
    nodes: Sequence[str]
    rows: dict[str, int] = field(default_factory=dict)

    def write(self, table: Any, rows: Sequence[Mapping[str, Any]]) -> None:
        names = sorted({name for row in rows for name in row})
        self.lake.append(table, table_rows(table, {name: [row.get(name) for row in rows] for name in names}))

    def at(self, now_ns: int | None = None) -> dict[str, Any]:
        micros = (now_ns if now_ns is not None else self.clock.now_ns()) // 1000
        return {"observed_at": micros, "received_at": micros, "source": "test"}

    def place(self, per_rack: int = 8) -> None:
        rows = [
            {**self.at(), "node": node, "kind": kind, "domain": f"{kind[0]}{index // size:02d}"}
            for index, node in enumerate(self.nodes)
            for kind, size in (("rack", per_rack), ("power", per_rack * 2))
        ]
        self.write(TOPOLOGY, rows)

    def score(self, p24: Mapping[str, float | None], base: Mapping[float, float] = BASE, **more: Any) -> None:
        """Write one node-scope score per node and horizon; nodes not named are at the base rate, None abstains."""
        now = self.clock.now_ns() // 1000
        rows = []
        for node in self.nodes:
            p = p24.get(node, base[24.0])
            for hours in HORIZONS_H:
                p_fail = None if p is None else min(0.999, p * SHAPE[hours])
                rows.append(
                    {
                        "as_of": now,
                        "scored_at": now,
                        "scope": "node",
                        "unit": node,
                        "node": node,
                        "horizon_h": hours,
                        "p_fail": p_fail,
                        "p_base": base[hours],
                        "cif": None if p_fail is None else [("hbm_ue", p_fail * 0.8), ("nvlink", p_fail * 0.2)],
                        "worst_unit": f"GPU-{node}-3",
                        "reasons": '[{"code":"ecc.correctable_slope","summary":"GPU 3: corrected errors rise","contribution":1.9}]',
                        "abstained_because": "stale_telemetry" if p is None else None,
                        "telemetry_age_s": 16.0,
                        "missing_sources": [],
                        "model": "hazard-lgbm",
                        "model_version": "1",
                        **more,
                    }
                )
        self.write(SCORES, rows)

    def job(self, job_id: str, nodes: Sequence[str], state: str = "running", **more: Any) -> None:
        row = {**self.at(), "node": nodes[0], "job_id": job_id, "state": state, "nodes": list(nodes), "gpus": 8 * len(nodes)}
        self.write(JOBS, [{**row, **more}])

    def xid(self, node: str, code: int, use: str = "label", **more: Any) -> None:
        self.write(EVENTS, [{**self.at(), "node": node, "kind": "xid", "code": code, "use": use, "gpu_uuid": f"GPU-{node}-3", **more}])

    def sample(self, node: str, **fields: Any) -> None:
        self.write(GPU_SAMPLES, [{**self.at(), "node": node, "gpu_uuid": f"GPU-{node}-3", "tier": "warm", **fields}])

    def state(self, source: str, state: str, nodes: Sequence[str] | None = None) -> None:
        rows = [{**self.at(), "node": node, "state": state} | {"source": source} for node in nodes or self.nodes]
        self.write(SOURCE_STATES, rows)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_NS)


@pytest.fixture
def make_fleet(tmp_path: Path, clock: ManualClock) -> Callable[[int], Fleet]:
    def make(size: int) -> Fleet:
        fleet = Fleet(Lake(tmp_path / "lake"), clock, [f"gpu{index:03d}" for index in range(size)])
        fleet.place()
        return fleet

    return make


@pytest.fixture
def ledger_directory(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def ledger(ledger_directory: Path) -> Iterator[Ledger]:
    opened = Ledger(ledger_directory / "ledger.sqlite", endpoints=("scheduler",))
    yield opened
    opened.close()


@dataclass
class Consumer:
    """A real HTTP server that answers as scripted: a status, `hang`, or `lost` (takes the delivery and drops the connection)."""

    url: str
    script: list[int | str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    received: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    release: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def consumer() -> Iterator[Consumer]:
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with lock:
                answer = state.script.pop(0) if state.script else 202
                state.received.append((dict(self.headers.items()), body))
            if answer == "hang":
                state.release.wait(20)
            if isinstance(answer, str):
                self.close_connection = True
                return
            self.send_response(answer)
            for name, value in state.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state = Consumer(f"http://127.0.0.1:{server.server_port}/webhook")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield state
    state.release.set()
    server.shutdown()
    thread.join()
    server.server_close()


def _wait_for(condition: Callable[[], Any], what: str, timeout_s: float = 20.0) -> None:
    tick, deadline = threading.Event(), SystemClock().now_ns() + int(timeout_s * NS)
    while not condition():
        assert SystemClock().now_ns() < deadline, f"waited in vain: {what}"
        tick.wait(0.02)


@pytest.fixture
def wait_for() -> Callable[..., None]:
    """Wait on a condition, looking again every 20 ms."""
    return _wait_for


@pytest.fixture
def serving() -> Iterator[Callable[[uvicorn.Server], int]]:
    """Run servers on a free port each, in threads; give the port."""
    running: list[tuple[uvicorn.Server, threading.Thread]] = []

    def serve(made: uvicorn.Server) -> int:
        bound = socket.socket()
        bound.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=made.run, args=([bound],))
        thread.start()
        running.append((made, thread))
        _wait_for(lambda: made.started, "server start")
        port: int = bound.getsockname()[1]
        return port

    yield serve
    for made, thread in reversed(running):
        made.should_exit = True
        thread.join()


# Budgets wide enough not to matter.
WIDE = AlertSettings(limits=Limits(fleet_ratio=0.5, fleet_window_ratio=0.5, fleet_window_max=None, domain_window_ratio=0.5, trip_min=1000))


@pytest.fixture
def wide() -> AlertSettings:
    """Give settings with budgets that do not matter."""
    return WIDE


@pytest.fixture
def make_loop(ledger: Ledger, clock: ManualClock) -> Iterator[Callable[..., AlertLoop]]:
    made: list[AlertLoop] = []

    def make(fleet: Any, settings: AlertSettings = WIDE) -> AlertLoop:
        made.append(AlertLoop(fleet.lake, ledger, cluster="dc1", clock=clock, settings=settings))
        return made[-1]

    yield make
    for loop in made:
        loop.picture.close()
