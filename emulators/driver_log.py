"""What the driver of an emulated node says about its GPUs: the XIDs of failures, of their signs, and of jobs that crash by themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from emulators import draws
from emulators.bursts import ErrorHistory, fails_to_remap, link_of
from emulators.faults import LINGERING, Failure
from emulators.jobs import JobRun
from emulators.layout import MS_NS, NS, WorldSpec
from emulators.state import KernelEvent
from emulators.timeline import Timeline

_TEXT = {
    13: "Graphics SM Warp Exception on (GPC 1, TPC 4, SM 0): Illegal Address",
    31: "Ch 00000010, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f2a_4c000000. "
    "Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ",
    43: "Ch 00000010",
    45: "Ch 00000010",
    46: "GPU stopped processing",
    48: "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at partition 6, subpartition 0.",
    62: "PMU Halt 0x1e8c 0x00000000 0x00000000",
    63: "Row Remapper: New row (0x0000001b7c3a0000) marked for remapping, reset gpu to activate.",
    64: "Row Remapper: Error recording row remapping",
    74: "NVLink: fatal error detected on link {link}(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
    79: "GPU has fallen off the bus.",
    92: "High single-bit ECC error rate",
    94: "Contained: SM (0x1). RST: No, D-RST: No",
    95: "Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No",
    110: "Security fault",
    119: "Timeout after 6s of waiting for RPC response from GPU{slot} GSP! Expected function 76 (GSP_RM_CONTROL) (0x20802a02 0x8).",
}
_RESET = "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
_REBOOT = "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
_NOISE = (13, 31, 43, 45)

# What follows a failure: (XID, seconds after it, XID that it names as its cause).
_SCRIPTS: dict[str, tuple[tuple[int, float, int | None], ...]] = {
    "hbm_ue contained": ((48, 0, None), (63, 0.4, None), (94, 0.8, None), (45, 1.2, 94)),
    "hbm_ue uncontained": ((48, 0, None), (63, 0.4, None), (95, 0.8, None), (45, 1.5, 95)),
    "hbm_ue failed": ((48, 0, None), (64, 0.4, None), (95, 0.8, None), (45, 1.5, 95)),
    "sram_ecc": ((48, 0, None), (95, 0.5, None), (45, 1.0, 95)),
    "gsp": ((119, 0, None), (45, 7.0, 119)),
    "fell_off_bus": ((79, 0.05, None), (45, 0.6, 79)),
    "nvlink": ((74, 0, None), (45, 0.5, 74)),
    "gpu_faulty halt": ((62, 0, None), (45, 0.5, 62)),
    "gpu_faulty timeout": ((46, 0, None), (45, 0.5, 46)),
    "gpu_faulty security": ((110, 0, None), (45, 0.5, 110)),
    "thermal halt": ((62, 0, None), (45, 0.5, 62)),
    "thermal off": ((79, 0.05, None),),
}
_VARIANTS = {
    "hbm_ue": (("hbm_ue contained", 0.5), ("hbm_ue uncontained", 0.5)),
    "gpu_faulty": (("gpu_faulty halt", 0.5), ("gpu_faulty timeout", 0.3), ("gpu_faulty security", 0.2)),
    "thermal": (("thermal halt", 0.4), ("thermal off", 0.2), ("", 0.4)),
}
PEER_SHARE = 0.14  # NVLink errors that the neighbour reports as well (Delta)
_NEEDS_REBOOT = frozenset({"gsp", "fell_off_bus"})


class DriverLog:
    """Every kernel event of a fleet, in the order of time."""

    def __init__(
        self,
        spec: WorldSpec,
        names: tuple[str, ...],
        timeline: Timeline,
        errors: ErrorHistory,
        runs: Iterable[JobRun],
    ) -> None:
        self._spec = spec
        self._names = names
        self._timeline = timeline
        said = [event for failure in timeline.failures for event in self._of_failure(failure)]
        said += [self._xid(mark.at_ns, mark.seat, mark.code) for mark in errors.marks]
        said += [event for run in runs if run.state == "failed" for event in self._of_crash(run)]
        said = [event for event in said if not self._is_down(event)]
        said += self._boots()
        self.events: tuple[KernelEvent, ...] = tuple(sorted(said, key=lambda event: event.at_ns))

    def _of_failure(self, failure: Failure) -> Iterator[KernelEvent]:
        if failure.slot is None or failure.mode in LINGERING:
            return
        seat = failure.node_index * self._spec.gpus_per_node + failure.slot
        script = _SCRIPTS.get(self._variant(failure), ())
        for code, after_s, cause in script:
            yield self._xid(failure.failed_ns + int(after_s * 1000) * MS_NS, seat, code, cause=cause, link=link_of(failure))
        if failure.mode == "fell_off_bus":
            yield self._bus_loss(failure.failed_ns, seat)
        if failure.mode == "nvlink" and self._coin("peer", failure) < PEER_SHARE:
            peer = seat - failure.slot + (failure.slot + 1) % self._spec.gpus_per_node
            yield self._xid(failure.failed_ns + 300 * MS_NS, peer, 74, link=link_of(failure))
        if script:
            action = _REBOOT if failure.mode in _NEEDS_REBOOT else _RESET
            yield self._xid(failure.failed_ns + 2 * NS, seat, 154, text=action)

    def _variant(self, failure: Failure) -> str:
        variants = _VARIANTS.get(failure.mode)
        if fails_to_remap(failure):
            return "hbm_ue failed"
        if variants is None:
            return failure.mode
        coin = self._coin("variant", failure)
        edges = np.cumsum([share for _, share in variants])
        return variants[int(np.searchsorted(edges, coin, side="right"))][0]

    def _coin(self, name: str, failure: Failure) -> float:
        return float(draws.uniform(draws.key_of(self._spec.seed, name, failure.unit, failure.failed_ns))[0])

    def _of_crash(self, run: JobRun) -> Iterator[KernelEvent]:
        """Let a third of the jobs that fail leave application XIDs, on one GPU or on all GPUs of a node within seconds."""
        key = draws.key_of(self._spec.seed, "crash", run.job_id, run.restarts)
        crashes, width, what = draws.uniform(key, np.arange(3))
        if crashes > 0.33 or run.ended_ns < self._spec.start_ns:
            return
        code = _NOISE[int(len(_NOISE) * what)]
        slots = run.slots if width < 0.4 else run.slots[:1]
        for number, slot in enumerate(slots):
            seat = run.node_indices[0] * self._spec.gpus_per_node + slot
            yield self._xid(run.ended_ns - 3 * NS + number * 150 * MS_NS, seat, code)

    def _xid(self, at_ns: int, seat: int, code: int, *, cause: int | None = None, link: int = 0, text: str | None = None) -> KernelEvent:
        message = text or _TEXT[code].format(link=link, slot=seat % self._spec.gpus_per_node)
        return self._event(at_ns, seat, kind="xid", code=code, message=message, cause=cause)

    def _bus_loss(self, at_ns: int, seat: int) -> KernelEvent:
        return self._event(at_ns, seat, kind="bus_loss", message="GPU has fallen off the bus.")

    def _event(self, at_ns: int, seat: int, *, kind: str, message: str, code: int | None = None, cause: int | None = None) -> KernelEvent:
        gpu = self._timeline.gpus[int(self._timeline.gpus_at(np.array([seat]), np.array([at_ns]))[0])]
        return KernelEvent(
            at_ns=at_ns,
            node=gpu.node,
            kind=kind,
            gpu_uuid=gpu.uuid,
            serial=gpu.serial,
            pci=gpu.pci,
            code=code,
            message=message,
            caused_by=cause,
        )

    def _is_down(self, event: KernelEvent) -> bool:
        node = np.array([self._names.index(event.node)])
        return bool(self._timeline.is_down(node, np.array([event.at_ns]))[0])

    def _boots(self) -> list[KernelEvent]:
        boots = zip(self._timeline.boot_node, self._timeline.boot_ns, strict=True)
        return [KernelEvent(at_ns=int(at_ns), node=self._names[node], kind="boot") for node, at_ns in boots]
