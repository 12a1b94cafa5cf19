"""One event is one outage with one mode and one unit, however many signs it raises."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.outages import Outage, Presence, Sign, find_outages

At = Callable[..., datetime]
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


@pytest.fixture
def sign(at: At) -> Callable[..., Sign]:
    """Make a sign of node n1 at so many hours; it is known a minute later."""

    def make(hours: float, gpu: str | None = "g1", mode: str = "hbm_ue", rank: int = 2, kind: str = "xid", **more: Any) -> Sign:
        return Sign(node="n1", gpu_uuid=gpu, happened_at=at(hours), known_at=at(hours, 1), mode=mode, rank=rank, kind=kind, **more)

    return make


def test_a_burst_is_one_outage(sign: Callable[..., Sign], at: At) -> None:
    """Signs that repeat before the unit is back belong to the outage and prolong it."""
    found = find_outages([sign(10), sign(10.5), sign(20), sign(60)], [], Presence())
    assert [(outage.started_at, outage.ended_at) for outage in found] == [(at(10), at(44)), (at(60), at(84))]


def test_two_gpus_of_one_event_are_one_outage(sign: Callable[..., Sign]) -> None:
    """A sign of another GPU while its node is down already is no failure of its own."""
    (outage,) = find_outages([sign(10, "g1", "nvlink"), sign(10.1, "g2", "nvlink")], [], Presence())
    assert outage.unit == "g1"


def test_a_confirmed_outcome_overrides_the_event(sign: Callable[..., Sign]) -> None:
    """What operators have confirmed names mode and unit."""
    outcome = sign(10, "g2", "thermal", 3, "failed_in_service")
    (outage,) = find_outages([sign(10), outcome], [], Presence())
    assert (outage.mode, outage.unit, outage.is_confirmed) == ("thermal", "g2", True)


def test_a_suspected_outcome_yields_to_an_event_that_names_its_mode(sign: Callable[..., Sign]) -> None:
    """A guess does not override the driver's code, but it does an event that only says that something failed."""
    guess = sign(10, "g1", "thermal", 1, "failed_in_service")
    (by_code,) = find_outages([sign(10), guess], [], Presence())
    (by_guess,) = find_outages([sign(10, mode="gpu_faulty", rank=0), guess], [], Presence())
    assert (by_code.mode, by_code.is_confirmed) == ("hbm_ue", False)
    assert (by_guess.mode, by_guess.is_confirmed) == ("thermal", False)


def test_a_replaced_part_tells_the_mode_weeks_later(sign: Callable[..., Sign], at: At) -> None:
    """The repair's finding goes to the outage of its unit, and the failure is known since its first sign."""
    part = sign(40, "g1", "sram_ecc", 4, "part_replaced")
    (outage,) = find_outages([sign(10), part], [], Presence())
    assert (outage.mode, outage.known_at, outage.is_confirmed) == ("sram_ecc", at(10, 1), True)


def test_a_cause_in_the_host_is_a_failure_of_the_node(sign: Callable[..., Sign]) -> None:
    """An XID that a power supply has caused is the node's failure once that is confirmed."""
    (outage,) = find_outages([sign(10, "g1", "fell_off_bus"), sign(10.2, None, "psu_vr", 3, "failed_in_service")], [], Presence())
    assert (outage.unit, outage.mode) == ("n1", "psu_vr")


def test_telemetry_brings_a_node_back(sign: Callable[..., Sign], at: At) -> None:
    """A node is at risk again in the first hour that telemetry shows after the silence, not after a default time."""
    presence = Presence(spans=[(at(0), at(11)), (at(14), at(99))])
    (outage,) = find_outages([sign(10.5)], [], presence)
    assert outage.ended_at == at(14)


def test_a_failure_that_never_went_silent_settles_for_an_hour(sign: Callable[..., Sign], at: At) -> None:
    """Where telemetry goes on, the outage is short."""
    (outage,) = find_outages([sign(10.5)], [], Presence(spans=[(at(0), at(99))]))
    assert outage.ended_at == at(11.5)


def test_a_node_whose_telemetry_stays_away_stays_out(sign: Callable[..., Sign], at: At) -> None:
    """Silence after a failure is no return to service."""
    (outage,) = find_outages([sign(10.5)], [], Presence(spans=[(at(0), at(11))]))
    assert outage.ended_at > at(24 * 365 * 1000)


def test_a_job_or_repair_brings_a_node_back(sign: Callable[..., Sign], at: At) -> None:
    """Work that is given to the node shows that it is in service."""
    (outage,) = find_outages([sign(10.5)], [], Presence(moments=[at(9), at(13)]))
    assert outage.ended_at == at(13)


def test_maintenance_is_no_failure_and_hides_none_after_it(sign: Callable[..., Sign], at: At) -> None:
    """What happens while the node is out on purpose is no failure in service."""
    planned = Outage(node="n1", started_at=at(10), ended_at=at(12), known_at=at(1), reason="maintenance")
    found = find_outages([sign(11), sign(30)], [planned], Presence())
    assert [(outage.reason, outage.started_at) for outage in found] == [("maintenance", at(10)), ("failure", at(30))]


def test_what_is_found_on_a_node_that_we_drained_is_no_failure_in_service(sign: Callable[..., Sign]) -> None:
    """A diagnosis that answers our recommendation is of a drained node."""
    ours = sign(10, kind="diag_failed", rank=3, is_ours=True)
    assert find_outages([ours, sign(12, kind="failed_while_drained")], [], Presence()) == []


@given(hours=st.lists(st.tuples(st.integers(0, 500), st.sampled_from(["g1", "g2", None])), max_size=30))
def test_outages_never_overlap(hours: list[tuple[int, str | None]]) -> None:
    """Whatever the signs, outages are in order and disjoint, and every sign lies in one."""
    start = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
    signs = [
        Sign(node="n1", gpu_uuid=gpu, happened_at=start + hour * HOUR, known_at=start + hour * HOUR, mode="hbm_ue", rank=2, kind="xid")
        for hour, gpu in hours
    ]
    found = find_outages(signs, [], Presence())
    assert all(one.ended_at <= other.started_at for one, other in itertools.pairwise(found))
    assert all(any(outage.started_at <= sign.happened_at < outage.ended_at for outage in found) for sign in signs)
