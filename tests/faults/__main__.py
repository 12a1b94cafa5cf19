"""Kill as often as is said: `python -m tests.faults KILLS [SEED]`; ends with 1 where a row or an event was lost or doubled."""

from __future__ import annotations

import random
import signal
import sys
import tempfile
from pathlib import Path

from tests.faults.killing import run_kills


def main() -> int:
    """Run in a folder that stays where something was wrong."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    kills = int(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1_000_000)
    directory = Path(tempfile.mkdtemp(prefix="forewarn-faults-"))
    sys.stdout.write(f"{kills} kills with seed {seed} in {directory}\n")
    outcome = run_kills(directory, kills=kills, seed=seed, say=lambda text: print(text, flush=True))  # noqa: T201
    sys.stdout.write(f"{outcome}\n")
    return 0 if outcome.is_sound else 1


if __name__ == "__main__":
    sys.exit(main())
