"""Kill random processes at random moments, start them again, and judge the lake at the end."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ingest.clock import NS
from tests.faults.broker import Broker
from tests.faults.known_fleet import KnownFleet
from tests.faults.plant import Plant
from tests.faults.verdict import Verdict, judge

KINDS = {"collector": 12, "writer": 12, "compactor": 6, "broker": 1, "all": 1}  # how often each is chosen
EPOCH_NS = 1_780_000_000 * NS
SCALE = 2400.0  # a day in 36 s: dates close while they are still written
INTERVAL_S = 600.0  # four pages of every node in a second


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What was done and what came of it."""

    seed: int
    kills: Counter[str]
    ended: Counter[str]
    dropped: int
    seconds: float
    verdict: Verdict = field(repr=False)

    @property
    def is_sound(self) -> bool:
        """Nothing is lost beyond what was counted, nothing doubled, no event lost."""
        beyond = max(0, self.verdict.rows_lost - self.dropped)
        return beyond == 0 and not any({**self.verdict.faults, "rows_lost": 0}.values()) and not self.verdict.repeated

    def __str__(self) -> str:
        kills = ", ".join(f"{kind} {self.kills[kind]}" for kind in KINDS)
        ended = ", ".join(f"{name} {count}" for name, count in sorted(self.ended.items())) or "none"
        return (
            f"seed {self.seed}, {self.seconds:.0f} s: {self.kills.total()} kills ({kills}); ended by themselves: {ended}; "
            f"{self.verdict}; counted drops {self.dropped}"
        )


class Strike(NamedTuple):
    """What to kill at once, whether only after new rows have reached the lake, and how many seconds later."""

    kinds: tuple[str, ...]
    waits_for_rows: bool
    gap_s: float


def strikes(kills: int, seed: int) -> Iterator[Strike]:
    """Choose what dies together and when: of enough kills each kind has at least one; two in three strikes meet work, the others starts."""
    chance = random.Random(seed)
    rest = chance.choices(list(KINDS), list(KINDS.values()), k=max(0, kills - len(KINDS)))
    chosen = [*list(KINDS)[:kills], *rest]
    chance.shuffle(chosen)
    while chosen:
        kinds = [chosen.pop()]
        together = 1 if kinds == ["all"] else chance.choice((1, 1, 2, 3))
        while chosen and len(kinds) < together and chosen[-1] not in (*kinds, "all"):
            kinds.append(chosen.pop())
        yield Strike(tuple(kinds), chance.random() < 0.67, chance.uniform(0.0, 3.0))


def run_kills(directory: Path, *, kills: int, seed: int, say: Callable[[str], object] = lambda _: None) -> Outcome:
    """Run the fleet through the whole chain under `kills` kills."""
    started = time.monotonic()
    nodes = [f"n{number}" for number in range(4)]
    fleet = KnownFleet(directory / "devices", nodes, epoch_ns=EPOCH_NS, scale=SCALE, seed=seed)
    broker = Broker(directory / "kafka")
    collectors = {"collector0": nodes[:2], "collector1": nodes[2:]}
    with fleet, Plant(directory, fleet, broker, collectors=collectors, interval_s=INTERVAL_S) as plant:
        start(plant)
        done: Counter[str] = Counter()
        chance = random.Random(seed + 1)
        for strike in strikes(kills, seed):
            if strike.waits_for_rows:
                plant.wait_for_rows()
            pass_time(plant, strike.gap_s)
            kill(plant, strike.kinds, chance)
            done.update(strike.kinds)
            say(f"{done.total()} kills after {time.monotonic() - started:.0f} s: {' and '.join(strike.kinds)}")
        plant.settle()
        verdict = judge(plant.lake, fleet)
        seconds = time.monotonic() - started
        return Outcome(seed=seed, kills=done, ended=plant.ended, dropped=plant.dropped, seconds=seconds, verdict=verdict)


def start(plant: Plant) -> None:
    """Start everything and wait until rows come."""
    plant.start_all()
    plant.start_writer("writer1")
    plant.start_compactor()
    plant.wait_for_rows()


def pass_time(plant: Plant, seconds: float) -> None:
    """Let the processes work for so long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        plant.look_after()
        time.sleep(min(0.1, max(0.0, deadline - time.monotonic())))


def kill(plant: Plant, kinds: Sequence[str], chance: random.Random) -> None:
    """Kill what is chosen, then start it again."""
    names = [chance.choice([name for name in plant.parts if name.startswith(kind)]) for kind in kinds if kind not in ("all", "broker")]
    if "all" in kinds:
        names = list(plant.parts)
    for name in names:
        plant.kill(name)
    if {"all", "broker"} & set(kinds):
        plant.broker.kill()
        plant.broker.start()
    for name in names:
        plant.restart(name)
