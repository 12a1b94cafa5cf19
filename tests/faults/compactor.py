"""A process that does nothing but compact: `compactor.py LAKE CLOCK_FILE GAP_S`, for ever.

The day that fleet time is in stays open; days before it are sorted.
"""

from __future__ import annotations

import sys
import threading
from datetime import timedelta
from pathlib import Path

import structlog

from forewarn.logs import configure_logs
from ingest.clock import SharedClock, datetime_of
from ingest.errors import LakeError
from ingest.lake import Lake
from ingest.lake_care import compact, vacuum
from ingest.schema import TABLES

_log = structlog.get_logger()


def main() -> None:
    """Go round all tables until somebody ends this."""
    configure_logs()
    lake = Lake(sys.argv[1])
    clock = SharedClock(Path(sys.argv[2]))
    pause = threading.Event()
    while not pause.wait(float(sys.argv[3])):
        for table in TABLES.values():
            try:
                done = compact(lake, table, today=datetime_of(clock.now_ns()).date())
                vacuum(lake, table, keep=timedelta(hours=1))
            except LakeError as error:
                _log.warning("compaction_failed", table=table.name, error=str(error))
            else:
                _log.info("compacted", table=table.name, sorted=done.sorted, postponed=done.postponed)


if __name__ == "__main__":
    main()
