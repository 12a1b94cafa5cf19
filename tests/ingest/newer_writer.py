"""A collector and a writer of a newer version, whose events have one more column: newer_writer.py LAKE SPOOL COUNT."""

from __future__ import annotations

import sys
from typing import Annotated

from ingest import schema
from ingest.tables import Means, table_of


class NewerEvent(schema.Event, frozen=True, kw_only=True, omit_defaults=True):
    """An event that also says how many nodes it concerns."""

    blast_radius: Annotated[int | None, Means("nodes concerned", "count")] = None


NEWER = table_of(NewerEvent, "events", schema.EVENTS.meaning, schema.EVENTS.sort_by)
schema.TABLES["events"] = NEWER
schema.TABLE_OF_RECORD[NewerEvent] = "events"


def main() -> None:
    """Spool events with the new column, write some of them into the lake, and leave the rest to whoever comes."""
    from ingest.bus import DirectBus  # noqa: PLC0415  # after the tables are those of the newer version
    from ingest.lake import Lake  # noqa: PLC0415
    from ingest.rejects import FileRejects  # noqa: PLC0415
    from ingest.spool import Spool  # noqa: PLC0415
    from ingest.writer import Writer  # noqa: PLC0415

    lake, directory, count = Lake(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    spool = Spool(directory)
    writer = Writer(DirectBus(spool), lake, FileRejects(directory + "-rejects"))
    for number in range(2 * count):
        at = 1_750_000_000_000_000_000 + number
        event = NewerEvent(node="n1", kind="xid", code=1000 + number, observed_at_ns=at, received_at_ns=at, source="t", blast_radius=number)
        spool.put("events", "n1", [event])
        if number < count:
            writer.run_once()
            writer.flush()
    spool.close()


if __name__ == "__main__":
    main()
