"""Read a BMC's log services where no stream can be had: entries that were not there at the last read are events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ingest.redfish.browse import Getter, Tolerant, optional
from ingest.redfish.payloads import Body
from ingest.redfish.times import read_time

MOST_FETCHED = 20  # entries per read: a collection may list references only


class LogReader:
    """What the logs of one BMC held at the last read."""

    def __init__(self) -> None:
        self._known: dict[str, set[str]] = {}

    async def read(self, bmc: Getter, paths: Iterable[str], *, since_ns: int) -> list[Body]:
        """Read the entries that are new; of a log that is read for the first time those made after `since_ns`, the others are history."""
        found: list[Body] = []
        for path in paths:
            found += await self._read(Tolerant(bmc), path, since_ns)
        return found

    async def _read(self, bmc: Getter, path: str, since_ns: int) -> list[Body]:
        listed = (await optional(bmc, path)).get("Members")
        if not isinstance(listed, list):
            return []
        entries: dict[str, Body] = {str(entry.get("@odata.id")): entry for entry in listed if isinstance(entry, dict)}
        known = self._known.get(path)
        if known is None:
            self._known[path] = set(entries)
            bodies = [await self._body(bmc, name, entries[name]) for name in list(entries)[-MOST_FETCHED:]]
            return [body for body in bodies if _made_ns(body) > since_ns]
        new = [name for name in entries if name not in known]
        self._known[path] = set(entries) - set(new[MOST_FETCHED:])  # the rest stays new for the next read
        return [await self._body(bmc, name, entries[name]) for name in new[:MOST_FETCHED]]

    async def _body(self, bmc: Getter, name: str, entry: Body) -> Body:
        return await optional(bmc, name) if set(entry) == {"@odata.id"} else entry


def _made_ns(entry: Mapping[str, object]) -> int:
    created = entry.get("Created") or entry.get("EventTimestamp")
    at_ns, _ = read_time(created) if isinstance(created, str) else (None, True)
    return at_ns or 0
