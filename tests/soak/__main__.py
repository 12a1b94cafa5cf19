"""Soak for as long as is said: `python -m tests.soak --minutes 30 --nodes 64`; ends with 1 where a promise was broken."""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.soak.run import soak


def main() -> int:
    """Run in a folder that stays where something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="forewarn-soak-"))
    print(f"seed {options.seed} in {directory}", flush=True)  # noqa: T201
    library = directory / "faulty.so"
    source = Path(__file__).parents[1] / "faults" / "faulty.c"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    result = soak(directory, nodes=options.nodes, minutes=options.minutes, seed=options.seed, clock_library=library, say=_say)
    print(result.text(), flush=True)  # noqa: T201
    return 0 if all(result.findings().values()) else 1


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
