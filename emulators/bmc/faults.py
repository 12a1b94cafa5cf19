"""What goes wrong on purpose: answers of single paths, and what happens to a stream on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from emulators.bmc.messages import Body, vendor_error

HTML = b"<!DOCTYPE html><html><body>Session expired</body></html>"
NOT_READY = vendor_error(
    "IDRAC.1.6.SWC0700", "iDRAC is not ready. The configuration values cannot be accessed. Please retry after a few minutes."
)
NO_LICENCE = vendor_error("IDRAC.2.8.SWC0242", "A required license is missing or expired.")
NOT_ENABLED = vendor_error("IDRAC.2.8.SYS403", "The resource is not enabled.")
NO_SESSION_LEFT = vendor_error("IDRAC.2.8.RAC0218", "The maximum number of user sessions is reached.")


@dataclass
class Rule:
    """What happens to requests for paths that match `path` (`*` matches all), as often as `remaining` says.

    With a status the rule is the answer; without one it delays the real answer and changes its members.
    """

    path: str
    status: int | None = None
    body: Body | bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    latency_s: float = 0.0
    merge: Mapping[str, object] = field(default_factory=dict)  # members that replace those of the resource; None as value is null
    drop: tuple[str, ...] = ()  # members that are left out
    method: str = "*"
    remaining: int | None = None
    hits: int = 0


@dataclass
class Wire:
    """What happens to a stream after `after` events.

    drip: a byte at a time · stall: nothing more is written · reset: reset inside an event · eof: ends inside an event · endless: an event
    without end · big_line: an event of one line of 0.9 MB · html: a page instead of a stream · joined: no blank line between events.
    """

    kind: str
    after: int = 0
    remaining: int | None = None  # streams that it happens to


@dataclass
class Faults:
    """All that goes wrong with one BMC."""

    rules: list[Rule] = field(default_factory=list)
    wires: list[Wire] = field(default_factory=list)

    def find(self, path: str, method: str) -> Rule | None:
        """Find the first rule for a request and use it once."""
        for rule in self.rules:
            if rule.remaining != 0 and fnmatchcase(path, rule.path) and rule.method in ("*", method):
                rule.hits += 1
                rule.remaining = None if rule.remaining is None else rule.remaining - 1
                return rule
        return None

    def wire(self) -> Wire | None:
        """Find what happens to the stream that is opened now."""
        for wire in self.wires:
            if wire.remaining != 0:
                wire.remaining = None if wire.remaining is None else wire.remaining - 1
                return wire
        return None
