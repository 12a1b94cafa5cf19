"""`python -m emulators.bmc`: serve emulated BMCs for judges and other clients; prints one line `name address` for each."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
from pathlib import Path


def main() -> None:
    """Read the command line and serve until interrupted."""
    # aiohttp's C parser answers 400 to a method that it does not know, where DSP0266 wants 405 or 501: its Python parser passes it on.
    os.environ.setdefault("AIOHTTP_NO_EXTENSIONS", "1")
    from emulators.bmc.payload_defects import EVENT_DEFECTS, REPORT_DEFECTS  # noqa: PLC0415
    from emulators.bmc.profile import PROFILES  # noqa: PLC0415
    from emulators.bmc.serve import serve_bmcs  # noqa: PLC0415

    parser = argparse.ArgumentParser(description="Emulate BMCs.")
    parser.add_argument("--profile", choices=sorted(PROFILES), default="strict")
    parser.add_argument("--count", type=int, default=1, help="how many")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="of the first; 0: any")
    parser.add_argument("--report-interval", type=float, default=10.0, help="seconds between reports")
    parser.add_argument("--event-interval", type=float, default=None, help="seconds between events without news; default: none")
    parser.add_argument("--defect", action="append", default=[], choices=sorted([*REPORT_DEFECTS, *EVENT_DEFECTS]), help="of payloads")
    parser.add_argument("--tls", type=Path, default=None, metavar="FOLDER", help="serve TLS; the authority's ca.pem is put there")
    options = parser.parse_args()
    served = serve_bmcs(
        [f"bmc{number}" for number in range(1, options.count + 1)],
        profile=options.profile,
        host=options.host,
        first_port=options.port,
        report_interval_s=options.report_interval,
        event_interval_s=options.event_interval,
        defects=options.defect,
        tls_folder=options.tls,
        tell=lambda name, url: print(name, url, flush=True),  # noqa: T201  # the command's output
    )
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(served)


if __name__ == "__main__":
    main()
