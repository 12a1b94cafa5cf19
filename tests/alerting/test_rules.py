"""Hard signals bypass the score; telemetry's health and events that follow from others never do."""

from __future__ import annotations

from typing import Any

import pytest

from alerting.rules import NOT_HARDWARE, XIDS, GpuFlags, HardEvent, RulePolicy, findings, is_failure
from alerting.schema import Action
from features import modes

NOW = 1_800_000_000_000_000_000
HOUR = 3_600_000_000_000


def event(**fields: Any) -> HardEvent:
    defaults = {"node": "gpu043", "kind": "xid", "observed_at_ns": NOW, "received_at_ns": NOW, "gpu_uuid": "GPU-1", "use": "label"}
    return HardEvent(**{**defaults, **fields})


def found(*events: HardEvent, flags: tuple[GpuFlags, ...] = (), policy: RulePolicy | None = None) -> list[tuple[str, Action]]:
    return [(finding.code, finding.response.action) for finding in findings(events, flags, policy or RulePolicy(), NOW)]


@pytest.mark.parametrize(
    ("code", "action"),
    [
        (79, Action.REMOVE),
        (64, Action.REMOVE),
        (95, Action.DRAIN_NOW),
        (48, Action.DRAIN_NOW),
        (119, Action.DRAIN_NOW),
        (74, Action.DRAIN_AFTER_JOB),
        (999, Action.DRAIN_NOW),
    ],
)
def test_xids_by_policy(code: int, action: Action) -> None:
    """Each XID of the class label asks for its action; one that the policy does not know for a drain and a diagnosis."""
    assert found(event(code=code)) == [(f"xid.{code}", action)]


@pytest.mark.parametrize("use", ["precursor", "weak", "noise", "exclude", "unknown", None])
def test_only_labels_are_failures(use: str | None) -> None:
    """XID 45 after a crashed job, XID 31, 63 and their like drain nothing, on however many nodes they appear."""
    assert found(*(event(node=f"gpu{index:03d}", code=45, use=use) for index in range(77))) == []


def test_sympathetic_events_drain_nothing() -> None:
    """An event that another one caused counts with the other."""
    assert found(event(code=48, is_sympathetic=True)) == []


def test_imported_failures_count() -> None:
    """A failure without an XID, as imported from a site's own records, is a failure."""
    assert is_failure(event(kind="failure", code=None, use=None, mode="psu_vr"))
    assert found(event(kind="failure", code=None, use=None)) == [("failure", Action.DRAIN_NOW)]


def test_labels_and_rules_agree_on_hardware() -> None:
    """What is no failure of hardware for the labels is none for the rules."""
    assert NOT_HARDWARE == modes.NOT_HARDWARE


@pytest.mark.parametrize("mode", ["software", "nccl_watchdog", "dependency", "host_maintenance"])
def test_software_drains_no_node(mode: str) -> None:
    """A job that failed for other reasons than hardware leaves its node in service."""
    assert found(event(kind="failure", code=None, use=None, mode=mode)) == []


def test_a_vanished_gpu_is_the_telemetrys_word() -> None:
    """A GPU that a page no longer lists is a precursor, not a failure; a lost bus is one, however it is worded."""
    assert found(event(kind="gpu_missing", code=None, use="precursor")) == []
    assert not is_failure(event(kind="gpu_missing", code=None, use=None))
    assert found(event(kind="bus_loss", code=79), event(code=79)) == [("xid.79", Action.REMOVE)] * 2


def test_old_news_are_not_acted_on() -> None:
    """An event that arrives seven hours late is stored, not acted on."""
    assert found(event(code=79, observed_at_ns=NOW - 7 * HOUR)) == []


def test_kill_switch_per_signal() -> None:
    """A site can silence one XID and change what another asks for."""
    policy = RulePolicy(ignored_xids=frozenset({74}), xids={**XIDS, 48: XIDS[79]})
    assert found(event(code=74), event(code=48), policy=policy) == [("xid.48", Action.REMOVE)]


def test_vendor_criteria() -> None:
    """Remap failure, SRAM threshold, recovery action and spent spare rows speak for themselves."""
    flags = GpuFlags(
        node="gpu043",
        gpu_uuid="GPU-1",
        observed_at_ns=NOW,
        remap_failure=True,
        sram_threshold_exceeded=True,
        recovery_action=1,
        remap_banks_none=2,
    )
    assert found(flags=(flags,)) == [
        ("vendor.recovery_action", Action.DRAIN_AFTER_JOB),
        ("vendor.remap_failure", Action.DRAIN_AFTER_JOB),
        ("vendor.sram_threshold", Action.DRAIN_AFTER_JOB),
        ("vendor.no_spare_rows", Action.AVOID_NEW_GANGS),
    ]


def test_missing_flags_say_nothing() -> None:
    """A poll that did not say neither raises a criterion nor takes one back."""
    assert findings([], [GpuFlags(node="n", gpu_uuid="g", observed_at_ns=NOW)], RulePolicy(), NOW) == []


def test_recovery_action_by_event() -> None:
    """XID 154 announces a recovery action, and with action 0 takes it back; it is never a failure."""
    asked, done = event(code=154, recovery_action=2), event(code=154, recovery_action=0)
    assert not is_failure(asked)
    assert [finding.holds for finding in findings([asked, done], [], RulePolicy(), NOW)] == [True, False]
