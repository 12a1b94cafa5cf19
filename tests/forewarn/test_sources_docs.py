"""The pages on sources say what the code does, and their example works."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from ingest.clock import NS, ManualClock
from ingest.collector import Collector
from ingest.messages import decode
from ingest.nvml.codes import STATES
from ingest.nvml.signals import COLD, HOT, LINK_COLUMNS, SIGNALS, WARM
from ingest.redfish.outcomes import Outcome
from ingest.spool import Spool

DOCS = Path(__file__).resolve().parents[2] / "docs"
START_NS = 1_790_000_000 * NS


@pytest.fixture
def example() -> dict[str, Any]:
    """Run the first block of code of the page, which is the source."""
    code = re.findall(r"```python\n(.*?)```", (DOCS / "adding-a-source.md").read_text(), re.DOTALL)[0]
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(code, "adding-a-source.md", "exec"), names)
    return names


async def test_the_example_is_a_source(example: dict[str, Any], tmp_path: Path) -> None:
    """The collector reads it, and its record arrives in the spool."""
    file, stop = tmp_path / "io", asyncio.Event()
    file.write_text("some avg10=0.10 avg60=2.50 avg300=0.00 total=9\nfull avg10=0.00 avg60=1.00 avg300=0.00 total=5\n")
    clock, spool = ManualClock(START_NS), Spool(tmp_path / "spool")
    source = example["PressureSource"]("n1", clock=clock, path=file)
    assert spool.take(1) == []
    running = asyncio.create_task(Collector([source], spool, clock=clock, jitter_ratio=0.0).run(stop))
    assert await asyncio.to_thread(spool.wait, 20.0)
    stop.set()
    await running
    taken = spool.take(1)
    spool.close()
    row: Any = decode(taken[0].body).rows[0]
    assert (taken[0].table, row.node, row.name, row.value, row.observed_at_ns) == (
        "other_readings",
        "n1",
        "io_some_avg60_ratio",
        0.025,
        START_NS + 10 * NS,
    )


async def test_the_example_knows_absence(example: dict[str, Any], tmp_path: Path) -> None:
    """A file without the number is a row without value; no file at all is a state."""
    source = example["PressureSource"]("n1", clock=ManualClock(START_NS), path=tmp_path / "io")
    with pytest.raises(example["SourceUnavailable"], match="unreachable"):
        await source.read(START_NS)
    (tmp_path / "io").write_text("full avg60=1.00\n")
    (row,) = await source.read(START_NS)
    assert (row.name, row.value) == ("io_some_avg60_ratio", None)


@pytest.mark.parametrize("tier", [HOT, WARM, COLD])
def test_every_signal_stands_in_the_row_of_its_tier(tier: str) -> None:
    """The table of tiers names each column that NVML is asked for, where it is read, and no other."""
    row = next(line for line in (DOCS / "sources.md").read_text().splitlines() if line.startswith(f"| {tier} |"))
    named = set(re.findall(r"`(\w+)`", row.split("|")[3]))
    assert named == {column for signal in SIGNALS if signal.tier == tier for column in signal.columns}


def test_links_and_states_are_complete() -> None:
    """Every link column, every state of NVML as a whole and every outcome of a BMC is named."""
    text = (DOCS / "sources.md").read_text()
    states = [str(outcome) for outcome in Outcome if outcome not in (Outcome.OK, Outcome.TRANSIENT, Outcome.BAD_FILTER)]
    assert [name for name in (*LINK_COLUMNS, *STATES.values(), *states) if f"`{name}`" not in text] == []


def test_every_state_of_the_scheduler_is_named() -> None:
    """Each state that reading Slurm can give stands in its section."""
    section = (DOCS / "sources.md").read_text().partition("## Scheduler")[2].partition("\n## ")[0]
    code = "".join(file.read_text() for file in (DOCS.parent / "ingest" / "jobs").glob("*.py"))
    states = set(re.findall(r'SourceUnavailable\(f?"(\w+)', code))
    assert {"unreachable", "unknown_version", "error"} <= states
    assert {state for state in states if f"`{state}" not in section} == set()
