"""Where a BMC is and how to get in."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class RedfishTarget:
    """One BMC: `url` is its origin (`https://10.0.0.7`), `ca` the certificates to trust instead of the system's.

    `allows_basic` permits Basic authentication where the BMC has no session left to give.
    """

    url: str
    username: str
    password: str = field(repr=False)
    ca: Path | None = None
    verify: bool = True
    allows_basic: bool = False
