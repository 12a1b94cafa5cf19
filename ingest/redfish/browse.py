"""Walk over a Redfish tree: resources that need not be there, links, and collections over all their pages."""

from __future__ import annotations

from typing import Protocol

from ingest.redfish.outcomes import Outcome, Refused
from ingest.redfish.payloads import Body

MOST_PAGES = 1000
GONE = (Outcome.MISSING, Outcome.NOT_OFFERED, Outcome.FORBIDDEN, Outcome.NOT_LICENSED)


class Getter(Protocol):
    """Whatever gets a resource of a BMC."""

    async def get(self, path: str, *, query: str = "") -> Body:
        """Get a resource; raises Refused for anything but a JSON object."""


def link(body: Body, member: str) -> str | None:
    """Take the path that a member links to."""
    target = body.get(member)
    path = target.get("@odata.id") if isinstance(target, dict) else None
    return path if isinstance(path, str) and path else None


async def members(bmc: Getter, path: str | None) -> list[str]:
    """List the paths of a collection over all its pages; `Members: null`, a collection that is refused and none at all are empty."""
    found: list[str] = []
    seen: set[str] = set()
    while path is not None and path not in seen and len(seen) < MOST_PAGES:
        seen.add(path)
        page = await optional(bmc, path)
        listed = page.get("Members")
        links = [member.get("@odata.id") for member in (listed if isinstance(listed, list) else []) if isinstance(member, dict)]
        found += [member for member in links if isinstance(member, str)]
        following = page.get("Members@odata.nextLink")
        path = following if isinstance(following, str) else None
    return found


class Tolerant:
    """A getter for which single resources may fail: they are empty, and counted in `failures`."""

    def __init__(self, bmc: Getter) -> None:
        self._bmc = bmc
        self.failures = 0

    async def get(self, path: str, *, query: str = "") -> Body:
        """Get a resource, or nothing if it alone is broken; raises Refused when the BMC as a whole does not answer."""
        try:
            return await self._bmc.get(path, query=query)
        except Refused as refused:
            if refused.outcome not in (Outcome.TRANSIENT, Outcome.WRONG_TYPE):
                raise
            self.failures += 1
            return {}


async def optional(bmc: Getter, path: str | None, *, query: str = "") -> Body:
    """Get a resource that need not be there; a BMC that does not answer at all is still an error."""
    if path is None:
        return {}
    base, _, own_query = path.partition("?")
    try:
        return await bmc.get(base, query=own_query or query)
    except Refused as refused:
        if refused.outcome in GONE:
            return {}
        raise
