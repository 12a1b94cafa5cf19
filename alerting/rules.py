"""What bypasses the score: events that are failures by the vendor's catalogue, and vendor criteria that a GPU reports about itself.

A failure has happened: the node is already worth draining. A criterion announces one: the vendor's own reason to reset or replace.
Telemetry that is missing is neither, so no rule reads it. The table of XIDs is the default policy; a site may replace any line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from alerting.schema import Action, Followup, Urgency

Kind = Literal["failure", "criterion"]


@dataclass(frozen=True)
class Response:
    """What a hard signal asks for."""

    action: Action
    urgency: Urgency
    followup: Followup
    text: str
    mode: str | None = None  # failure mode, where the signal names one


@dataclass(frozen=True, kw_only=True)
class HardEvent:
    """A row of `events` that may be a failure."""

    node: str
    kind: str
    observed_at_ns: int
    received_at_ns: int
    gpu_uuid: str | None = None
    code: int | None = None
    use: str | None = None
    is_sympathetic: bool = False
    recovery_action: int | None = None
    mode: str | None = None
    detail: str | None = None


@dataclass(frozen=True, kw_only=True)
class GpuFlags:
    """What a GPU says about itself in the newest poll; None: this poll did not say."""

    node: str
    gpu_uuid: str
    observed_at_ns: int
    boot_id: str | None = None
    recovery_action: int | None = None
    remap_failure: bool | None = None
    sram_threshold_exceeded: bool | None = None
    remap_banks_none: int | None = None


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One rule that speaks about a node: `holds` is False when a criterion that may have held is denied by the hardware."""

    node: str
    code: str
    kind: Kind
    component: str | None
    at_ns: int
    response: Response
    holds: bool = True


_RESET: Followup = "reset_component"
XIDS: Mapping[int, Response] = {
    46: Response(Action.DRAIN_NOW, "high", _RESET, "GPU stopped processing", "gpu_faulty"),
    48: Response(Action.DRAIN_NOW, "high", _RESET, "uncorrectable ECC error", "hbm_ue"),
    54: Response(Action.DRAIN_NOW, "high", "contact_vendor", "auxiliary power is missing", "psu_vr"),
    62: Response(Action.DRAIN_NOW, "high", _RESET, "micro-controller halt", "gpu_faulty"),
    64: Response(Action.REMOVE, "critical", "replace", "row remapping failed: vendor criterion for replacement", "hbm_ue"),
    74: Response(Action.DRAIN_AFTER_JOB, "high", "diagnose", "NVLink error; the remote side may be at fault", "nvlink"),
    79: Response(Action.REMOVE, "critical", "reboot", "GPU has fallen off the bus", "fell_off_bus"),
    95: Response(Action.DRAIN_NOW, "critical", _RESET, "uncontained memory error", "hbm_ue"),
    110: Response(Action.DRAIN_NOW, "high", "reboot", "security fault: cold reset", "gpu_faulty"),
    119: Response(Action.DRAIN_NOW, "high", "reboot", "GSP does not answer", "gsp"),
    120: Response(Action.DRAIN_NOW, "high", "reboot", "GSP error", "gsp"),
    136: Response(Action.DRAIN_NOW, "high", _RESET, "link training failed", "nvlink"),
    140: Response(Action.DRAIN_NOW, "critical", _RESET, "unrecovered ECC error", "hbm_ue"),
    143: Response(Action.DRAIN_NOW, "high", _RESET, "GPU initialisation error", "gpu_faulty"),
    157: Response(Action.DRAIN_AFTER_JOB, "high", "contact_vendor", "no spare resource left to retire", "hbm_ue"),
    158: Response(Action.DRAIN_NOW, "critical", _RESET, "fatal GPU timeout", "gpu_faulty"),
    167: Response(Action.DRAIN_NOW, "critical", "reboot", "fatal PCIe timeout", "fell_off_bus"),
}
OTHER_FAILURE = Response(Action.DRAIN_NOW, "high", "diagnose", "failure reported")
# Modes of imported failures that end jobs on a healthy node: no reason to take it out.
NOT_HARDWARE = frozenset({"software", "nccl_watchdog", "dependency", "host_maintenance", "human", "user", "job", "facilities"})

# NVML field 230; the action is milder where the driver only asks for a reset of one GPU.
RECOVERY_ACTIONS: Mapping[int, Response] = {
    1: Response(Action.DRAIN_AFTER_JOB, "high", _RESET, "the driver asks for a GPU reset"),
    2: Response(Action.DRAIN_AFTER_JOB, "high", "reboot", "the driver asks for a reboot of the node"),
    3: Response(Action.DRAIN_AFTER_JOB, "high", _RESET, "the driver asks to drain peer-to-peer work"),
    4: Response(Action.DRAIN_AFTER_JOB, "high", _RESET, "the driver asks to drain and reset"),
}
OTHER_RECOVERY = Response(Action.DRAIN_AFTER_JOB, "high", "diagnose", "the driver asks for recovery")
REMAP_FAILURE = Response(Action.DRAIN_AFTER_JOB, "high", "replace", "a row remap has failed: vendor criterion for replacement", "hbm_ue")
SRAM_THRESHOLD = Response(Action.DRAIN_AFTER_JOB, "high", "replace", "SRAM errors above the vendor's threshold for replacement", "sram_ecc")
NO_SPARE_ROWS = Response(Action.AVOID_NEW_GANGS, "medium", "diagnose", "a memory bank has no spare rows left", "hbm_ue")


@dataclass(frozen=True, kw_only=True)
class RulePolicy:
    """Which hard signals count and what they ask for; `ignored_xids` is the kill switch per signal."""

    xids: Mapping[int, Response] = field(default_factory=lambda: XIDS)
    ignored_xids: frozenset[int] = frozenset()
    recovery_actions: Mapping[int, Response] = field(default_factory=lambda: RECOVERY_ACTIONS)
    failure_hold_h: float = 24.0  # a failure without a repair report counts for so long after its last sign
    criterion_hold_h: float = 2.0  # so long after the hardware took a criterion back
    same_incident_h: float = 2.0  # a failure told by an outcome within so long of another sign is the same one
    max_event_age_h: float = 6.0  # older news are stored and never acted on


def is_failure(event: HardEvent) -> bool:
    """Claim that the event is a failure of its node: a label of the catalogue, or imported as one, that follows from no other event."""
    is_label = event.use == "label" or (event.kind == "failure" and event.use is None)
    is_hardware = event.mode not in NOT_HARDWARE
    return is_label and is_hardware and not event.is_sympathetic and event.code != 154  # 154 sums up another code: a criterion


def findings(events: Iterable[HardEvent], flags: Iterable[GpuFlags], policy: RulePolicy, now_ns: int) -> list[Finding]:
    """Say which rules speak, about events that are not too old and flags as polled."""
    oldest_ns = now_ns - int(policy.max_event_age_h * 3600e9)
    found = [finding for event in events if event.observed_at_ns >= oldest_ns if (finding := _of_event(event, policy))]
    for gpu in flags:
        found += _of_flags(gpu, policy)
    return found


def _of_event(event: HardEvent, policy: RulePolicy) -> Finding | None:
    if event.code in policy.ignored_xids or event.is_sympathetic:
        return None
    if event.code == 154:
        asked = event.recovery_action
        return None if asked is None else _recovery(event.node, event.gpu_uuid, event.observed_at_ns, asked, policy)
    if not is_failure(event):
        return None
    code, response = _failure_response(event, policy)
    return Finding(node=event.node, code=code, kind="failure", component=event.gpu_uuid, at_ns=event.observed_at_ns, response=response)


def _failure_response(event: HardEvent, policy: RulePolicy) -> tuple[str, Response]:
    if event.kind in ("xid", "bus_loss") and event.code is not None:  # a lost bus is XID 79 in the driver's other words
        return f"xid.{event.code}", policy.xids.get(event.code, OTHER_FAILURE)
    return event.kind if event.code is None else f"{event.kind}.{event.code}", OTHER_FAILURE


def _of_flags(gpu: GpuFlags, policy: RulePolicy) -> list[Finding]:
    def say(code: str, holds: bool, response: Response) -> Finding:
        return Finding(
            node=gpu.node, code=code, kind="criterion", component=gpu.gpu_uuid, at_ns=gpu.observed_at_ns, response=response, holds=holds
        )

    found = []
    if gpu.recovery_action is not None:
        found.append(_recovery(gpu.node, gpu.gpu_uuid, gpu.observed_at_ns, gpu.recovery_action, policy))
    if gpu.remap_failure is not None:
        found.append(say("vendor.remap_failure", gpu.remap_failure, REMAP_FAILURE))
    if gpu.sram_threshold_exceeded is not None:
        found.append(say("vendor.sram_threshold", gpu.sram_threshold_exceeded, SRAM_THRESHOLD))
    if gpu.remap_banks_none is not None:
        found.append(say("vendor.no_spare_rows", gpu.remap_banks_none > 0, NO_SPARE_ROWS))
    return found


def _recovery(node: str, gpu_uuid: str | None, at_ns: int, asked: int, policy: RulePolicy) -> Finding:
    response = policy.recovery_actions.get(asked, OTHER_RECOVERY)
    return Finding(
        node=node, code="vendor.recovery_action", kind="criterion", component=gpu_uuid, at_ns=at_ns, response=response, holds=asked != 0
    )
