"""Say how a BMC's telemetry is: a row when that changes and one per hour, from which every gap can be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ingest.clock import NS
from ingest.redfish.mode import ReportMode
from ingest.redfish.outbox import Outbox
from ingest.schema import SourceState

REPEAT_NS = 3600 * NS


class StateLine:
    """The line of states of one BMC."""

    def __init__(self, node: str, outbox: Outbox) -> None:
        self._node = node
        self._outbox = outbox
        self.said: SourceState | None = None  # what holds

    def say(self, state: str, detail: str, at_ns: int, *, expected: int | None = None, seen: int | None = None) -> None:
        """Note the state as of `at_ns`; says nothing if it holds already."""
        if self.said is not None and (self.said.state, self.said.detail) == (state, detail):
            return
        self._write(at_ns, at_ns, state=state, detail=detail, expected=expected, seen=seen)

    def say_gap(self, since_ns: int, at_ns: int, detail: str) -> None:
        """Note that nothing came between `since_ns` and now, as a state that held from then on; what holds now is to be said next."""
        self._write(since_ns, at_ns, state="gap", detail=detail)

    def repeat(self, at_ns: int) -> None:
        """Say the state again if it was last said an hour ago."""
        said = self.said
        if said is not None and at_ns - said.observed_at_ns >= REPEAT_NS:
            self._write(at_ns, at_ns, state=said.state, detail=said.detail, expected=said.expected, seen=said.seen)

    def _write(
        self, since_ns: int, at_ns: int, *, state: str, detail: str | None, expected: int | None = None, seen: int | None = None
    ) -> None:
        self.said = SourceState(
            node=self._node,
            observed_at_ns=since_ns,
            received_at_ns=at_ns,
            source="redfish",
            state=state,
            detail=detail,
            expected=expected,
            seen=seen,
        )
        self._outbox.note(self.said)


def judge_reports(modes: Iterable[ReportMode]) -> tuple[str, str, int, int]:
    """Sum the reports' modes up: state, detail, reports expected, reports that come."""
    modes = list(modes)
    coming = [mode for mode in modes if mode.trouble() is None]
    ways = Counter(f"{mode.mode} ({mode.trouble() or mode.reason})" for mode in modes)
    detail = ", ".join(f"{count} x {way}" for way, count in sorted(ways.items()))
    if not modes:
        state = "empty"
    elif not coming:
        troubles = {mode.trouble() or "" for mode in modes}
        state = troubles.pop() if len(troubles) == 1 else "empty"
    elif all(mode.is_quiet for mode in coming):
        state = "stale"
    else:
        state = "ok" if len(coming) == len(modes) else "partial"
    return state, detail, len(modes), len(coming)
