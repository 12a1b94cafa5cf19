"""Read a BMC's log services where no stream can be had: entries that were not there at the last read are events."""

from __future__ import annotations

from collections.abc import Iterable

from ingest.redfish.browse import Getter, optional
from ingest.redfish.payloads import Body

MOST_FETCHED = 20  # entries per read that a collection lists as references only


class LogReader:
    """The logs of one BMC; what they hold at the first read is history and no news."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = tuple(paths)
        self._known: dict[str, set[str]] = {}

    async def read(self, bmc: Getter) -> list[Body]:
        """Read the entries that are new, oldest first."""
        found: list[Body] = []
        for path in self._paths:
            found += await self._read(bmc, path)
        return found

    async def _read(self, bmc: Getter, path: str) -> list[Body]:
        listed = (await optional(bmc, path)).get("Members")
        bodies = [entry for entry in (listed if isinstance(listed, list) else []) if isinstance(entry, dict)]
        entries = {str(entry.get("@odata.id")): entry for entry in bodies}
        known = self._known.get(path)
        new = [name for name in entries if known is not None and name not in known]
        fetched = 0
        found: list[Body] = []
        for name in new:
            entry: Body = entries[name]
            if set(entry) == {"@odata.id"}:
                if fetched == MOST_FETCHED:
                    del entries[name]  # stays new for the next read
                    continue
                fetched += 1
                entry = await optional(bmc, name)
            found.append(entry)
        self._known[path] = set(entries)
        return found
