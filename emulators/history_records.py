"""What is not polled of an emulated fleet's history: topology, inventory, jobs, their progress, outcomes, states of the sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from emulators.history_events import events
from emulators.jobs import JobRun, slowdown
from emulators.layout import DRIVER_VERSION, HOUR_NS, MINUTE_NS, NS
from emulators.tickets import Ticket
from emulators.world import World
from ingest import schema
from ingest.lake import table_rows
from ingest.tables import TIMESTAMP, Record, Table

_LAG_NS = 200_000_000  # between an event and its record
_AWAY = {"nvml": "driver_not_loaded(9)", "exporter": "error(503)"}


def rows_of(table: Table, records: Sequence[Record]) -> pa.Table:
    """Turn records into rows, column by column."""
    columns: dict[str, Any] = {}
    for column in table.own_columns:
        values = [getattr(record, column.field) for record in records]
        if column.type == TIMESTAMP:
            values = [None if value is None else value // 1000 for value in values]
        columns[column.name] = values
    return table_rows(table, columns)


def topology(world: World, until_ns: int) -> Iterator[schema.TopologyRow]:
    """Say where every node is, once."""
    at_ns = world.spec.start_ns
    assert until_ns > at_ns, "BUG: history ends before it begins"
    for node in world.nodes:
        for kind, domain in node.domains().items():
            yield schema.TopologyRow(node=node.name, observed_at_ns=at_ns, received_at_ns=at_ns, source="import", kind=kind, domain=domain)


def inventory(world: World, until_ns: int) -> Iterator[schema.InventoryRow]:
    """Say which GPU came to and left which seat."""
    start_ns = world.spec.start_ns
    for gpu in world.gpus:
        source = world.nodes[gpu.node_index].source
        seat: dict[str, Any] = {
            "node": gpu.node,
            "source": source,
            "gpu_uuid": gpu.uuid,
            "serial": gpu.serial,
            "pci": gpu.pci,
            "slot": gpu.slot,
        }
        about: dict[str, Any] = {"model": gpu.model, "lot": gpu.lot, "driver_version": DRIVER_VERSION}
        came_ns = max(gpu.installed_ns, start_ns)
        if came_ns < until_ns:
            yield schema.InventoryRow(observed_at_ns=came_ns, received_at_ns=came_ns + _LAG_NS, action="insert", **seat, **about)
        if gpu.removed_ns is not None and gpu.removed_ns < until_ns:
            yield schema.InventoryRow(observed_at_ns=gpu.removed_ns, received_at_ns=gpu.removed_ns + _LAG_NS, action="remove", **seat)


def jobs(world: World, until_ns: int) -> Iterator[schema.Job]:
    """Say when jobs were queued, started and ended; a row stands under the first node of the run."""
    for run in world.runs:
        if run.started_ns >= until_ns or run.ended_ns < world.spec.start_ns:
            continue
        about = _job(run)
        if run.started_ns >= world.spec.start_ns:
            yield schema.Job(**about, **_at(run.started_ns), state="running", started_at_ns=run.started_ns)
        if run.ended_ns < until_ns:
            ended: dict[str, Any] = {"started_at_ns": run.started_ns, "ended_at_ns": run.ended_ns, "exit_code": run.exit_code}
            yield schema.Job(**about, **_at(run.ended_ns), state=run.state, **ended)


def _job(run: JobRun) -> dict[str, Any]:
    return {
        "node": run.nodes[0],
        "source": "slurm",
        "job_id": run.job_id,
        "nodes": run.nodes,
        "gpus": run.gpus,
        "submitted_at_ns": run.submitted_ns,
        "restarts": run.restarts,
        "checkpoint_mode": run.checkpoint_mode,
        "checkpoint_interval_s": run.checkpoint_interval_s,
        "is_elastic": run.is_elastic,
        "tolerates_f": run.tolerates_f,
        "sync": run.sync,
    }


def _at(at_ns: int) -> dict[str, Any]:
    late_ns = 5 * NS + at_ns // NS % 25 * NS  # the scheduler is asked every half minute
    return {"observed_at_ns": at_ns, "received_at_ns": at_ns + late_ns}


def job_progress(world: World, until_ns: int) -> Iterator[schema.JobProgress]:
    """Say at every checkpoint of a job how far it is, at most twice an hour."""
    for run in world.runs:
        if run.checkpoint_interval_s is None or run.started_ns >= until_ns:
            continue
        every_ns = max(int(run.checkpoint_interval_s) * NS, 30 * MINUTE_NS)
        for at_ns in range(max(run.started_ns, world.spec.start_ns) + every_ns, min(run.ended_ns, until_ns), every_ns):
            step_s, slow = 6.0 + run.gpus / 32.0, slowdown(run, at_ns)
            yield schema.JobProgress(
                node=run.nodes[0],
                **_at(at_ns),
                source="slurm",
                job_id=run.job_id,
                step=int((at_ns - run.started_ns) / NS / step_s),
                step_time_s=round(step_s * slow, 3),
                flop_utilisation_ratio=round(0.45 * run.util_ratio / slow, 3),
                checkpoint_at_ns=run.last_checkpoint_ns(at_ns),
            )


def outcomes(world: World, until_ns: int) -> Iterator[schema.Outcome]:
    """Say what operators reported by the end."""
    return (outcome(ticket) for ticket in world.outcomes(world.spec.start_ns, until_ns))


def outcome(ticket: Ticket) -> schema.Outcome:
    """Turn a ticket into the record that the product keeps of it."""
    return schema.Outcome(
        node=ticket.node,
        observed_at_ns=ticket.at_ns,
        received_at_ns=ticket.reported_ns,
        source="ticket",
        outcome_id=ticket.outcome_id,
        kind=ticket.kind,
        gpu_uuid=ticket.gpu_uuid,
        mode=ticket.mode,
        confidence=ticket.confidence,
        detail=ticket.detail,
    )


def source_states(world: World, until_ns: int) -> Iterator[schema.SourceState]:
    """Say every hour that a node's telemetry is there, and when it went away and came back with its node."""
    changes: dict[int, list[tuple[int, str]]] = {node.index: [] for node in world.nodes}
    for index, from_ns, up_ns in world.timeline.downs:
        changes[index] += [(from_ns, "away"), (up_ns, "ok")]
    for node in world.nodes:
        state, waiting = "ok", sorted(changes[node.index])
        hours = [(int(at_ns), "") for at_ns in np.arange(world.spec.start_ns, until_ns, HOUR_NS)]
        for at_ns, changed in sorted(hours + waiting):
            if at_ns >= until_ns:
                break
            state = changed or state
            is_away = state == "away"
            yield schema.SourceState(
                node=node.name,
                observed_at_ns=at_ns,
                received_at_ns=at_ns,
                source=node.source,
                state=_AWAY[node.source] if is_away else state,
                expected=world.spec.gpus_per_node,
                seen=0 if is_away else world.spec.gpus_per_node,
            )


def all_records(world: World, until_ns: int) -> Iterable[tuple[Table, Iterator[Record]]]:
    """List what is not polled, table by table."""
    return (
        (schema.TOPOLOGY, topology(world, until_ns)),
        (schema.INVENTORY, inventory(world, until_ns)),
        (schema.EVENTS, events(world, until_ns)),
        (schema.JOBS, jobs(world, until_ns)),
        (schema.JOB_PROGRESS, job_progress(world, until_ns)),
        (schema.OUTCOMES, outcomes(world, until_ns)),
        (schema.SOURCE_STATES, source_states(world, until_ns)),
    )
