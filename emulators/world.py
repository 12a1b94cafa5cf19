"""A seeded GPU fleet as a pure function of time: no I/O, no wall clock, and the same values in bulk and one at a time.

Everything that happens is drawn when it is first asked for and never changes: faults, jobs, error bursts, kernel events, tickets.
Every reading is a closed form over those and counted noise (`draws`), so `columns` of a month and `gpu_states` of a moment agree.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import fields
from functools import cached_property
from typing import Any

import numpy as np

from emulators import draws
from emulators.bursts import ErrorHistory, draw_bursts
from emulators.chassis import Chassis
from emulators.draws import Ints
from emulators.driver_log import DriverLog
from emulators.faults import LINGERING, Failure, Faults, JobFault, Maintenance, draw_faults
from emulators.frailty import Hazards, draw_hazards
from emulators.jobs import JobRun, schedule
from emulators.layout import LINKS, GpuInfo, NodeInfo, WorldSpec, lay_out
from emulators.load import Load
from emulators.modes import DIAGNOSTIC_SENSITIVITY, REPAIR_SUCCESS
from emulators.signs import Signs
from emulators.state import ChassisState, GpuState, KernelEvent, LinkState
from emulators.submissions import LONGEST_NS
from emulators.telemetry import Columns, Telemetry
from emulators.tickets import Ticket, write_tickets
from emulators.timeline import Timeline

__all__ = ["World", "WorldSpec"]

_STATE_FIELDS = frozenset(field.name for field in fields(GpuState))


class World:
    """One fleet; nodes are named, times are UTC nanoseconds."""

    def __init__(self, spec: WorldSpec) -> None:
        self.spec = spec
        self.nodes: tuple[NodeInfo, ...] = lay_out(spec)
        self._index = {node.name: node.index for node in self.nodes}

    @cached_property
    def hazards(self) -> Hazards:
        """The relative hazard of every node."""
        return draw_hazards(self.spec, self.nodes)

    @cached_property
    def _faults(self) -> Faults:
        return draw_faults(self.spec, self.nodes, self.hazards)

    @cached_property
    def timeline(self) -> Timeline:
        """Boots, down times and seats."""
        return Timeline(self.spec, self.nodes, self._faults)

    @property
    def gpus(self) -> tuple[GpuInfo, ...]:
        """Every GPU that was ever in a seat."""
        return self.timeline.gpus

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Every failure of hardware, in the order of time: the truth."""
        return self.timeline.failures

    @property
    def job_faults(self) -> tuple[JobFault, ...]:
        """Every fault that killed jobs on a healthy node."""
        return self._faults.job_faults

    @property
    def maintenance(self) -> tuple[Maintenance, ...]:
        """Every announced outage."""
        return self._faults.maintenance

    @cached_property
    def runs(self) -> tuple[JobRun, ...]:
        """Every run of a job, in the order of start."""
        kills = [(failure.node_index, failure.failed_ns) for failure in self.failures if failure.mode not in LINGERING]
        return schedule(self.spec, self.nodes, self.timeline.downs, kills, self.job_faults)

    @cached_property
    def errors(self) -> ErrorHistory:
        """Every error burst."""
        return draw_bursts(self.spec, self.failures)

    @cached_property
    def _log(self) -> DriverLog:
        return DriverLog(self.spec, tuple(node.name for node in self.nodes), self.timeline, self.errors, self.runs)

    @cached_property
    def tickets(self) -> tuple[Ticket, ...]:
        """Every outcome that operators report, in the order of reporting."""
        return write_tickets(self.spec, self.failures)

    @cached_property
    def load(self) -> Load:
        """Utilisation of every seat."""
        return Load(self.spec, self.runs, self.timeline.origin_ns)

    @cached_property
    def signs(self) -> Signs:
        """Visible signs of every failure."""
        return Signs(self.spec, self.failures, self.timeline.origin_ns)

    @cached_property
    def telemetry(self) -> Telemetry:
        """Readings of all GPUs."""
        seat = {gpu.uuid: gpu.node_index * self.spec.gpus_per_node + gpu.slot for gpu in self.gpus}
        xids = [(seat[e.gpu_uuid], e.at_ns, e.code) for e in self._log.events if e.gpu_uuid is not None and e.code is not None]
        columns = np.array(xids, np.int64).reshape(-1, 3).T
        return Telemetry(
            spec=self.spec,
            nodes=self.nodes,
            timeline=self.timeline,
            load=self.load,
            signs=self.signs,
            errors=self.errors,
            xids=(columns[0], columns[1], columns[2]),
        )

    @cached_property
    def chassis(self) -> Chassis:
        """Readings of all BMCs."""
        return Chassis(self.spec, self.telemetry, self.timeline, self.signs)

    def columns(self, nodes: Ints, times_ns: Ints) -> Columns:
        """Read all GPUs of the polls (node numbers, times): arrays of shape (polls, GPUs per node)."""
        return self.telemetry.columns(np.asarray(nodes, np.int64), np.asarray(times_ns, np.int64))

    def is_up(self, node: str, at_ns: int) -> bool:
        """Tell whether a node is up."""
        return not self.timeline.is_down(*self._poll(node, at_ns))[0]

    def boot_id(self, node: str, at_ns: int) -> str:
        """Name the boot that a node is in, or was in before it went down."""
        return self.timeline.boot_id(int(self.timeline.boots(*self._poll(node, at_ns))[0]))

    def boot_at_ns(self, node: str, at_ns: int) -> int:
        """Tell when that boot began."""
        return int(self.timeline.boot_ns[self.timeline.boots(*self._poll(node, at_ns))[0]])

    def gpu_states(self, node: str, at_ns: int) -> list[GpuState]:
        """Read the GPUs of a node; none where it is down."""
        return self.states((node,), at_ns)[node]

    def states(self, nodes: tuple[str, ...], at_ns: int) -> dict[str, list[GpuState]]:
        """Read the GPUs of several nodes at once, cheaper than one by one; links without news share one state."""
        index = np.array([self._index[node] for node in nodes])
        at = np.full(len(nodes), at_ns)
        is_down = self.timeline.is_down(index, at)
        columns = self.telemetry.columns(index, at)
        links = self.telemetry.links(index, at)
        listed = {name: values.tolist() for name, values in columns.items()}
        linked = {name: values.tolist() for name, values in links.items()}
        return {node: [] if is_down[i] else self._node_states(i, listed, linked) for i, node in enumerate(nodes)}

    def _node_states(self, i: int, columns: dict[str, Any], links: dict[str, Any]) -> list[GpuState]:
        states = []
        for slot in range(self.spec.gpus_per_node):
            gpu = self.gpus[columns["gpu"][i][slot]]
            read = {name: values[i][slot] for name, values in columns.items() if name in _STATE_FIELDS}
            read["xid_last"] = None if read["xid_last"] < 0 else read["xid_last"]
            states.append(
                GpuState(
                    gpu_uuid=gpu.uuid,
                    serial=gpu.serial,
                    pci=gpu.pci,
                    gpu_index=slot,
                    gpu_model=gpu.model,
                    links=_link_states(links, i, slot) if _has_link_news(columns, i, slot) else [LinkState()] * LINKS,
                    **read,
                )
            )
        return states

    def chassis_state(self, node: str, at_ns: int) -> ChassisState:
        """Read the chassis of a node as its BMC sees it."""
        return self.chassis.state(self.nodes[self._index[node]], at_ns)

    def kernel_events(self, node: str, since_ns: int, until_ns: int) -> list[KernelEvent]:
        """Give what the kernel log of a node says from `since_ns` on, before `until_ns`."""
        events = self._events_of[node]
        first = bisect_left(events, since_ns, key=lambda event: event.at_ns)
        return events[first : bisect_left(events, until_ns, key=lambda event: event.at_ns)]

    @cached_property
    def _events_of(self) -> dict[str, list[KernelEvent]]:
        events: dict[str, list[KernelEvent]] = {node.name: [] for node in self.nodes}
        for event in self._log.events:
            events[event.node].append(event)
        return events

    @property
    def events(self) -> tuple[KernelEvent, ...]:
        """Every kernel event of the fleet, in the order of time."""
        return self._log.events

    def jobs_running(self, at_ns: int) -> list[JobRun]:
        """Give the runs that are on nodes at a time."""
        first = bisect_left(self.runs, at_ns - LONGEST_NS, key=lambda run: run.started_ns)
        last = bisect_right(self.runs, at_ns, key=lambda run: run.started_ns)
        return [run for run in self.runs[first:last] if at_ns < run.ended_ns]

    def jobs_ended(self, since_ns: int, until_ns: int) -> list[JobRun]:
        """Give the runs that ended from `since_ns` on, before `until_ns`, in the order of their end."""
        first = bisect_left(self._by_end, since_ns, key=lambda run: run.ended_ns)
        return self._by_end[first : bisect_left(self._by_end, until_ns, key=lambda run: run.ended_ns)]

    @cached_property
    def _by_end(self) -> list[JobRun]:
        return sorted(self.runs, key=lambda run: run.ended_ns)

    def outcomes(self, since_ns: int, until_ns: int) -> list[Ticket]:
        """Give the tickets reported from `since_ns` on, before `until_ns`."""
        return [ticket for ticket in self.tickets if since_ns <= ticket.reported_ns < until_ns]

    def truth_rows(self) -> list[dict[str, Any]]:
        """Give the truth: unit, scope, node, mode, visible, and when it began, failed and was repaired."""
        return [
            {
                "unit": failure.unit,
                "scope": failure.scope,
                "node": failure.node,
                "mode": failure.mode,
                "visible": failure.is_visible,
                "onset_at_ns": failure.onset_ns,
                "failed_at_ns": failure.failed_ns,
                "repaired_at_ns": failure.repaired_ns,
            }
            for failure in self.failures
        ]

    def is_cured(self, failure: Failure, action: str) -> bool:
        """Tell whether an action (restart, reset, reboot, reseat, rma) taken before a failure would have cancelled it."""
        drawn = draws.uniform(draws.key_of(self.spec.seed, "cure", failure.unit, failure.failed_ns, action))[0]
        return bool(drawn < REPAIR_SUCCESS[action])

    def diagnose(self, failure: Failure, attempt: int) -> bool:
        """Tell whether a diagnostic run on a unit that has a silent fault finds it (sensitivity 0.7)."""
        drawn = draws.uniform(draws.key_of(self.spec.seed, "diagnostic", failure.unit, failure.failed_ns), attempt)[0]
        return bool(drawn < DIAGNOSTIC_SENSITIVITY)

    def _poll(self, node: str, at_ns: int) -> tuple[Ints, Ints]:
        return np.array([self._index[node]]), np.array([at_ns])


def _has_link_news(columns: dict[str, Any], i: int, slot: int) -> bool:
    sums = ("nvlink_crc_total", "nvlink_replay_total", "nvlink_recovery_total")
    return columns["nvlink_active"][i][slot] < LINKS or any(columns[name][i][slot] for name in sums)


def _link_states(links: dict[str, Any], i: int, slot: int) -> list[LinkState]:
    names = ("is_up", "crc_total", "replay_total", "recovery_total")
    rows = zip(*(links[name][i][slot] for name in names), strict=True)
    return [LinkState(**dict(zip(names, row, strict=True))) for row in rows]
