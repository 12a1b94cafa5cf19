"""Lines that no kernel would write: `make fuzz` gives a million of them, a plain test run some hundreds."""

import os
import random
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from emulators.kernel_log import XID_TEXTS
from ingest.clock import NS
from ingest.kernel_log.node import Boot, KernelLogNode
from ingest.schema import Event
from ingest.xid import USES

EXAMPLES = int(os.environ.get("FOREWARN_TEST_FUZZ", "300"))
NOW_NS = 1_790_000_000 * NS
LOGS = [log.read_text() for log in sorted((Path(__file__).parents[1] / "cases" / "kernel_log").glob("*.log"))]
LINES = sorted({line for log in LOGS for line in log.split("\n") if line})
LINES += [f"3,{code},{code}000000,-;NVRM: Xid (PCI:0000:3b:00): {code}, {text}" for code, text in XID_TEXTS.items()]

mutations = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["(", ")", ":", ",", ";", "[", "]", " ", "\0", "9" * 30, "9" * 400, "9" * 5000, "-1", "0x", "PCI:"]),
)


@st.composite
def lines(draw: st.DrawFn) -> str:
    """Real lines, damaged anywhere."""
    text = draw(st.one_of(st.sampled_from(LINES), st.text(max_size=60)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(mutations) + text[at + draw(st.integers(0, 4)) :]
    return text


@settings(max_examples=min(EXAMPLES, 5_000))
@given(st.lists(lines(), max_size=12))
def test_any_log_gives_events_that_can_be_stored(log: list[str]) -> None:
    """Nothing raises; every line is counted once, and an event has a code, a use and a time that int64 holds."""
    node = KernelLogNode("n1", boot=Boot(id="b", at_ns=NOW_NS - 10**12))
    said = [record for line in log for record in node.feed(line, NOW_NS)] + node.flush()
    assert node.outcomes.total() == len(log)
    for event in (record for record in said if isinstance(record, Event)):
        assert event.code is not None
        assert 0 <= event.code < 2**31
        assert event.use in USES
        assert -(2**63) < event.observed_at_ns <= event.received_at_ns < 2**63
        assert event.recovery_action is None or event.recovery_action < 2**32


def test_damaged_logs_in_bulk() -> None:
    """As many lines as asked for, each a real one with a few damaged places, from one seed."""
    rng = random.Random(20261129)
    node = KernelLogNode("n1", boot=Boot(id="b", at_ns=NOW_NS - 10**12))
    for _ in range(EXAMPLES):
        text = rng.choice(LINES)
        for _ in range(rng.randrange(4)):
            at = rng.randrange(len(text) + 1)
            text = (
                text[:at]
                + rng.choice(("(", ")", ":", ", ", ";", "[", "]", "9" * 30, "9" * 400, "9" * 5000, "-1", "0x", chr(rng.randrange(0x250))))
                + text[at + rng.randrange(4) :]
            )
        for event in (record for record in node.feed(text, NOW_NS) if isinstance(record, Event)):
            assert event.use in USES
            assert -(2**63) < event.observed_at_ns <= event.received_at_ns < 2**63
    node.flush()
    assert node.outcomes.total() == EXAMPLES
