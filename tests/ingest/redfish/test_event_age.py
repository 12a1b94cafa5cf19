"""An old fault does not look new because a BMC has lost its clock."""

from __future__ import annotations

import asyncio
from typing import Any

from emulators.bmc.faults import Rule
from ingest.redfish.watch import Patience

QUICK = {"poll_s": 200.0, "answer_s": 2.0, "first_delay_s": 0.05, "most_delay_s": 0.2, "login_s": 0.2, "trial_s": 0.3, "check_s": 0.2}


def lose_clock(rig: Any) -> None:
    """Let the BMC think that it is 1970."""
    rig.bmc.clock_offset_ns = -rig.clock.now_ns()


def told(rig: Any) -> list[tuple[int | None, str | None, bool]]:
    """List code, use and whether the detail says why the time is not the BMC's."""
    return [(event.code, event.use, '"time_quality":"clock_unset:1970-01-01' in event.detail) for event in rig.events]


async def test_event_right_after_the_stream_was_opened_may_be_a_replay(rig: Any) -> None:
    """What a BMC without a clock sends when a stream has just been opened is no fresh fault."""
    bmc = await rig.serve(profile="hgx", report_interval_s=10_000.0)
    lose_clock(rig)
    await rig.watch(patience=Patience(**QUICK))
    await rig.until(lambda _: bmc.streams.readers)
    bmc.send_event("Test.1.0.Xid", "XID: 79")
    await rig.until(lambda _: rig.events)
    assert told(rig) == [(79, "exclude", True)]


async def test_event_on_a_stream_that_had_fallen_silent_is_live(rig: Any) -> None:
    """What comes after a lull is a fault of now, although the BMC does not know the time."""
    bmc = await rig.serve(profile="hgx", report_interval_s=10_000.0)
    lose_clock(rig)
    await rig.watch(patience=Patience(**QUICK, replay_s=0.3))
    await rig.until(lambda _: bmc.streams.readers and rig.states)
    loop = asyncio.get_running_loop()
    lull_over_s = loop.time() + 0.5
    await rig.until(lambda _: loop.time() > lull_over_s)
    bmc.send_event("Test.1.0.Xid", "XID: 79")
    await rig.until(lambda _: rig.events)
    assert told(rig) == [(79, "label", True)]


async def test_entry_of_a_log_may_be_of_any_age(rig: Any) -> None:
    """What a log gains at a BMC without a clock is told and excluded."""
    bmc = await rig.serve(
        profile="hgx", report_interval_s=10_000.0, setup=lambda bmc: bmc.faults.rules.append(Rule("*/EventService/SSE", 501))
    )
    lose_clock(rig)
    await rig.watch(patience=Patience(**QUICK))
    await rig.until(lambda _: any(seen.target.endswith("/Entries") for seen in bmc.seen))
    bmc.send_event("Test.1.0.Xid", "XID: 79")
    await rig.until(lambda _: rig.events)
    assert told(rig) == [(79, "exclude", True)]
