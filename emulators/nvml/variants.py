"""Kinds of drivers: libraries of older headers, and two that old tools and new bindings stumble over.

`symbols.csv` names for each call the first header that has it (major * 100 + minor), from comparing the headers of 12.0.76, 12.2.140,
12.4.127, 12.6.77, 12.8.90, 13.0.87, 13.2.86 and 13.5.37; a call that is not named there is in all of them.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

GENERATIONS = (1200, 1202, 1204, 1206, 1208, 1300, 1302, 1305)


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One kind of driver: its header generation, symbols it lacks, and C switches."""

    name: str = "current"
    generation: int = 1305
    hidden: frozenset[str] = frozenset()
    switches: tuple[str, ...] = ()


@cache
def introduced() -> dict[str, int]:
    """Read which header brought each call that is younger than 12.0."""
    with (Path(__file__).parent / "symbols.csv").open(newline="") as file:
        return {row["symbol"]: int(row["header"]) for row in csv.DictReader(file)}


def generation(number: int) -> Variant:
    """Make the library of a header: it has no younger call, and no younger field."""
    assert number in GENERATIONS, f"BUG: no header {number}"
    younger = frozenset(symbol for symbol, header in introduced().items() if header > number)
    return Variant(name=f"header{number}", generation=number, hidden=younger)


CURRENT = Variant()
_VERSION_3 = frozenset(f"nvmlDeviceGet{kind}RunningProcesses_v3" for kind in ("Compute", "Graphics", "MPSCompute"))
# Drivers of branch 470: no third version of the process lists.
R470 = Variant(name="r470", generation=1200, hidden=generation(1200).hidden | _VERSION_3)
# Drivers 535.43 to 535.86: a longer process entry under the name of version 3.
R535 = Variant(name="r535", generation=1202, hidden=generation(1202).hidden, switches=("-DEMU_R535",))
