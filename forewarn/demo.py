"""The main job on embedded defaults: history, training, judgement, live run, account; no GPU, no broker, no root.

An emulated fleet lives for sixty days; models are trained on it and judged on time they have not seen. Then the same fleet goes on,
now through its devices' real protocols and the real collectors under a scaled clock, until enough of it has failed; and what was
recommended is held against what happened. Nothing is staged: the account comes from the ledger and from the fleet's truth.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alerting.ledger import Ledger
from emulators.history import write_history, write_truth
from emulators.world import World, WorldSpec
from features.build import build_features
from features.labels import label
from features.rollup import roll_up
from forewarn.account import Account, Recommended, TrueFailure, settle
from forewarn.demo_fleet import LiveFleet, free_port, live_configuration, write_configuration, write_secret
from forewarn.demo_pace import Pacer
from forewarn.screen import Screen
from ingest.clock import NS, SharedClock, datetime_of
from ingest.errors import ConfigError
from ingest.lake import Lake
from models.train import train

if TYPE_CHECKING:
    from models.train import TrainReport

DAY_NS = 86_400 * NS
_GRACE_NS = 1800 * NS  # fleet time after the last failure, so that what it left behind arrives
_FASTEST = 2880.0  # fleet seconds per wall second that the collectors of sixteen nodes keep up with on two cores
_LOOKS_EVERY_S = 0.01  # wall time between two looks at who is behind: 15 to 30 s of fleet time


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """What can be told to the demo."""

    directory: Path
    seed: int = 7
    days: int = 60
    holdout_ratio: float = 0.25
    grid_h: float = 4.0
    live_nodes: int = 16
    failures: int = 8
    scale: float = 1440.0  # at the least; faster where enough failures would else not come within `live_s`
    live_s: float = 135.0
    bus: dict[str, Any] = field(default_factory=lambda: {"kind": "direct"})
    keep: bool = False


@dataclass(frozen=True, kw_only=True)
class DemoResult:
    """Everything that the demo found, for people and for tests."""

    seed: int
    failures_in_history: int
    failures_held_out: int
    training: TrainReport
    account: Account
    fleet_hours: float
    wall_s: dict[str, float]


def run_demo(options: DemoOptions, screen: Screen) -> DemoResult:
    """Run the whole demo in an own folder, which it makes anew."""
    wall_s: dict[str, float] = {}
    directory = _fresh(options.directory)
    world = World(WorldSpec.show(seed=options.seed, days=options.days + 40))
    lake = Lake(directory / "lake")
    now_ns = world.spec.start_ns + options.days * DAY_NS
    with _timed(wall_s, "history"):
        _write_history(world, lake, now_ns, directory, screen)
    with _timed(wall_s, "features"):
        _make_features(lake, world.spec.start_ns, now_ns, options, screen)
    with _timed(wall_s, "training"):
        cutoff = datetime_of(now_ns - int(options.days * options.holdout_ratio * DAY_NS))
        report = _train(lake, directory, cutoff=cutoff, now=datetime_of(now_ns), options=options, screen=screen)
    with _timed(wall_s, "live"):
        fleet = LiveFleet(directory)
        wanted_ns = _enough_ns(world, now_ns, options) + _GRACE_NS
        scale = min(_FASTEST, max(options.scale, (wanted_ns - now_ns) / NS / options.live_s))
        try:
            with screen.step("starting the devices and every stage"):
                clock = _start_live(fleet, directory, now_ns, scale, options)
            ended_ns = _watch(wanted_ns, clock, lake, fleet, screen)
        except BaseException:
            fleet.stop()
            raise
        if not options.keep:
            fleet.stop()
            clock.stand()  # nobody lives on in it
    account = _account(world, directory, now_ns, ended_ns, options)
    history = [failure for failure in world.failures if failure.failed_ns < now_ns]
    result = DemoResult(
        seed=options.seed,
        failures_in_history=len(history),
        failures_held_out=sum(datetime_of(failure.failed_ns) >= cutoff for failure in history),
        training=report,
        account=account,
        fleet_hours=(ended_ns - now_ns) / 3600 / NS,
        wall_s=wall_s,
    )
    screen.account(result, directory, keeps_running=options.keep)
    return result


def _fresh(directory: Path) -> Path:
    marker = directory / "demo.toml"
    if directory.exists() and any(directory.iterdir()) and not marker.exists():
        raise ConfigError(f"{directory}: is not empty and no demo made it: name an empty folder with --directory")
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    marker.touch()
    return directory.resolve()


def _write_history(world: World, lake: Lake, now_ns: int, directory: Path, screen: Screen) -> None:
    failures = [failure for failure in world.failures if failure.failed_ns < now_ns]
    screen.opening(world, failures, now_ns)
    with screen.step("writing the history of the fleet") as progress:
        write_history(world, lake, until_ns=now_ns, progress=progress)
    write_truth(world, directory / "truth.parquet")


def _make_features(lake: Lake, start_ns: int, now_ns: int, options: DemoOptions, screen: Screen) -> None:
    grid_ns = int(options.grid_h * 3600 * NS)
    landmarks = [datetime_of(at) for at in range(start_ns + DAY_NS, now_ns + 1, grid_ns)]
    with screen.step("rolling samples up") as progress:
        roll_up(lake, datetime_of(now_ns), progress=progress)
    with screen.step(f"computing features at {len(landmarks)} landmarks") as progress:
        build_features(lake, landmarks, progress=progress)
    label(lake, datetime_of(now_ns))


def _train(lake: Lake, directory: Path, *, cutoff: datetime, now: datetime, options: DemoOptions, screen: Screen) -> TrainReport:
    with screen.step("training and judging on held-out later time") as progress:
        report = train(
            lake,
            directory / "state" / "models",
            cutoff=cutoff,
            now=now,
            label_origin="synthetic",
            seed=options.seed,
            progress=progress,
        )
    screen.judgement(report)
    return report


def _start_live(fleet: LiveFleet, directory: Path, now_ns: int, scale: float, options: DemoOptions) -> SharedClock:
    """Start every process; fleet time goes on from `now_ns` when all of them are ready."""
    clock = SharedClock.create(directory / "clock", now_ns, scale)
    ports = (free_port(), free_port())
    keys = directory / "secrets"
    for name in ("webhook", "acks", "operator"):
        write_secret(keys / name)
    fleet.start(
        "fleet",
        [
            *("emulate", "fleet", "--directory", str(directory / "fleet"), "--seed", str(options.seed), "--days", str(options.days + 40)),
            *("--live-nodes", str(options.live_nodes), "--clock-file", str(directory / "clock")),
            *("--outcomes-url", f"http://127.0.0.1:{ports[0]}/v1/outcomes", "--outcomes-secret-file", str(keys / "operator")),
        ],
    )
    fleet.wait_for(directory / "fleet" / "endpoints.json")
    configuration = write_configuration(directory / "demo.toml", live_configuration(directory, options.bus, ports, cadence_s=300.0))
    fleet.start("consumer", ["consume", "log", "--config", str(configuration)])
    fleet.start("up", ["up", "--config", str(configuration)])
    fleet.wait_until_up(f"http://127.0.0.1:{ports[0]}")
    clock.go()
    return clock


def _watch(wanted_ns: int, clock: SharedClock, lake: Lake, fleet: LiveFleet, screen: Screen) -> int:
    """Pace the fleet until fleet time is at `wanted_ns`; gives the fleet time at the end."""
    epoch_ns = clock.now_ns()
    pacer = Pacer(clock, lake, epoch_ns)
    with screen.step(f"living on: {clock.scale:,.0f} times as fast") as progress:
        while (at_ns := pacer.keep(time.monotonic())) < wanted_ns:
            fleet.require_alive()
            progress((at_ns - epoch_ns) / (wanted_ns - epoch_ns))
            time.sleep(_LOOKS_EVERY_S)
    return clock.now_ns()


def _enough_ns(world: World, epoch_ns: int, options: DemoOptions) -> int:
    """Tell when enough of the live nodes have failed, some with and some without a precursor."""
    names = {node.name for node in world.nodes[: options.live_nodes]}
    ahead = sorted((f.failed_ns, f.is_visible) for f in world.failures if f.node in names and f.failed_ns > epoch_ns)
    for count in range(options.failures, len(ahead) + 1):
        if len({is_visible for _, is_visible in ahead[:count]}) == 2:
            return ahead[count - 1][0]
    return ahead[-1][0] if ahead else epoch_ns


def _account(world: World, directory: Path, epoch_ns: int, ended_ns: int, options: DemoOptions) -> Account:
    names = {node.name for node in world.nodes[: options.live_nodes]}
    failures = [
        TrueFailure(node=f.node, unit=f.unit, mode=f.mode, is_visible=f.is_visible, onset_ns=f.onset_ns, failed_ns=f.failed_ns)
        for f in world.failures
        if f.node in names and epoch_ns < f.failed_ns <= ended_ns
    ]
    ledger = Ledger(directory / "state" / "ledger.sqlite")
    try:
        recommendations = [
            Recommended(
                recommendation_id=entry.recommendation_id,
                node=entry.node,
                opened_ns=entry.opened_ns,
                drain_ns=entry.drain_ns,
                resolved_ns=entry.resolved_ns,
                strongest=entry.strongest.value,
                origin=entry.origin,
                budget=entry.budget,
                p_fail=entry.first_p_fail,
            )
            for entry in ledger.entries()
            if entry.node in names
        ]
    finally:
        ledger.close()
    return settle(failures, recommendations, ended_ns=ended_ns, horizon_h=24.0, drained_node_h=2.0, lost_per_failure_h=24.0)


class _timed:  # noqa: N801  # reads as a statement
    """Note how long a step took."""

    def __init__(self, wall_s: dict[str, float], name: str) -> None:
        self._wall_s, self._name = wall_s, name

    def __enter__(self) -> None:
        self._started = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._wall_s[self._name] = round(time.monotonic() - self._started, 1)
