"""The scheduler of an emulated fleet: `squeue --json` and `sacct --json`, as scripts that print what the fleet says now.

Shapes are those of Slurm 22.05 (data parser v0.0.38) and 24.11 (v0.0.42); times are fleet time in epoch seconds. What Slurm does not know
of a job stands in its comment as `key=value` pairs: ckpt_s, ckpt_mode, elastic, tolerates_f, sync, step, last_ckpt.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from emulators.jobs import JobRun
from emulators.layout import NS
from emulators.world import World

ENDED_WINDOW_S = 86_400
_STATES = {"node_fail": "NODE_FAIL", "out_of_memory": "OUT_OF_MEMORY"}
_SCRIPT = """#!/bin/sh
# Emulated {name}: prints what the fleet's scheduler says now.
case " $* " in
  *" --json "*) exec cat "{file}" ;;
  *) echo "{name}: the emulated command speaks only --json" >&2; exit 1 ;;
esac
"""


class SchedulerCommands:
    """The two commands in a directory; `refresh` makes them tell another time, unless they told one less than `pause_s` before."""

    def __init__(self, world: World, directory: Path, *, version: str = "24.11", pause_s: float = 0.0) -> None:
        self._world = world
        self._pause_ns = int(pause_s * NS)
        self._told_ns: int | None = None
        self._version = version
        self._files = {name: directory / f"{name}.json" for name in ("squeue", "sacct")}
        self.commands = {name: directory / name for name in self._files}
        directory.mkdir(parents=True, exist_ok=True)
        for name, command in self.commands.items():
            command.write_text(_SCRIPT.format(name=name, file=self._files[name].resolve()))
            command.chmod(0o755)

    def refresh(self, at_ns: int) -> None:
        """Let both commands tell the state at a time; readers see the old text or the new one."""
        if self._told_ns is not None and at_ns - self._told_ns < self._pause_ns:
            return
        self._told_ns = at_ns
        running = self._world.jobs_running(at_ns)
        ended = self._world.jobs_ended(at_ns - ENDED_WINDOW_S * NS, at_ns + 1)
        self._write("squeue", squeue(running, at_ns, version=self._version))
        self._write("sacct", sacct([*ended, *running], at_ns, version=self._version))

    def _write(self, name: str, said: dict[str, Any]) -> None:
        file = self._files[name]
        fresh = file.with_suffix(".new")
        fresh.write_text(json.dumps(said, separators=(",", ":")))
        fresh.replace(file)


def squeue(runs: Sequence[JobRun], at_ns: int, *, version: str = "24.11") -> dict[str, Any]:
    """Print the running jobs as `squeue --json` does."""
    return {"meta": _meta(version), "jobs": [_queued(run, at_ns, version) for run in runs], "errors": [], "warnings": []}


def sacct(runs: Sequence[JobRun], at_ns: int, *, version: str = "24.11") -> dict[str, Any]:
    """Print ended and running jobs as `sacct --json` does; of a job that was queued again only the newest run."""
    newest = {run.job_id: run for run in sorted(runs, key=lambda run: run.restarts)}
    return {"meta": _meta(version), "jobs": [_accounted(run, at_ns, version) for run in newest.values()], "errors": [], "warnings": []}


def _meta(version: str) -> dict[str, Any]:
    major, minor = version.split(".")
    return {"Slurm": {"version": {"major": major, "micro": "5", "minor": minor}, "release": f"{version}.5"}}


def _queued(run: JobRun, at_ns: int, version: str) -> dict[str, Any]:
    is_new = _is_new(version)
    number = _number if is_new else int
    job: dict[str, Any] = {
        "job_id": int(run.job_id),
        "name": run.name,
        "job_state": ["RUNNING"] if is_new else "RUNNING",
        "state_reason": "None",
        "user_name": "train",
        "partition": "gpu",
        "nodes": host_list(run.nodes),
        "node_count": number(len(run.nodes)),
        "requeue": True,
        "restart_cnt": run.restarts,
        "submit_time": number(run.submitted_ns // NS),
        "start_time": number(run.started_ns // NS),
        "end_time": number(run.started_ns // NS + 365 * 86_400),  # unlimited: not a forecast
        "time_limit": {"set": False, "infinite": True, "number": 0} if is_new else None,
        "gres_detail": [f"gpu:{len(run.slots)}(IDX:{_index(run.slots)})"] * len(run.nodes),
        "features": "",
        "comment": comment(run, at_ns),
        "exit_code": _exit(0, version),
    }
    return job | {"job_resources": _resources(run, is_new=is_new)}


def _resources(run: JobRun, *, is_new: bool) -> dict[str, Any]:
    if is_new:
        nodes = [{"name": node, "index": number} for number, node in enumerate(run.nodes)]
        return {"select_type": ["CPU", "CORE"], "nodes": {"count": len(nodes), "list": host_list(run.nodes), "allocation": nodes}}
    return {"nodes": host_list(run.nodes), "allocated_nodes": [{"nodename": node} for node in run.nodes]}


def _accounted(run: JobRun, at_ns: int, version: str) -> dict[str, Any]:
    is_new = _is_new(version)
    is_over = run.ended_ns <= at_ns
    state = _STATES.get(run.state, run.state.upper()) if is_over else "RUNNING"
    until_ns = run.ended_ns if is_over else at_ns
    gpus = [{"type": "gres", "name": "gpu", "id": 1001, "count": run.gpus}]
    return {
        "job_id": int(run.job_id),
        "name": run.name,
        "user": "train",
        "partition": "gpu",
        "nodes": host_list(run.nodes),
        "allocation_nodes": len(run.nodes),
        "restart_cnt": run.restarts,
        "state": {"current": [state] if is_new else state, "reason": "None"},
        "exit_code": _exit(run.exit_code if is_over else 0, version),
        "time": {
            "submission": run.submitted_ns // NS,
            "start": run.started_ns // NS,
            "end": run.ended_ns // NS if is_over else 0,
            "elapsed": until_ns // NS - run.started_ns // NS,
        },
        "tres": {"allocated": [*gpus, {"type": "node", "name": "", "id": 4, "count": len(run.nodes)}]},
        "comment": {"administrator": "", "job": comment(run, at_ns), "system": ""},
    }


def comment(run: JobRun, at_ns: int) -> str:
    """Write what a job declares about itself."""
    if run.checkpoint_interval_s is None:
        return ""
    words = {
        "ckpt_s": f"{run.checkpoint_interval_s:.0f}",
        "ckpt_mode": run.checkpoint_mode,
        "elastic": int(run.is_elastic),
        "tolerates_f": run.tolerates_f,
        "sync": run.sync,
    }
    last_ns = run.last_checkpoint_ns(at_ns)
    if last_ns is not None:
        words["last_ckpt"] = last_ns // NS
    return " ".join(f"{key}={value}" for key, value in words.items())


def host_list(nodes: Sequence[str]) -> str:
    """Write node names as Slurm does: `gpu[001-003,010]`."""
    prefix = nodes[0].rstrip("0123456789")
    digits = sorted(node.removeprefix(prefix) for node in nodes)
    if len(digits) == 1:
        return nodes[0]
    parts: list[list[str]] = []
    for digit in digits:
        if parts and int(digit) == int(parts[-1][-1]) + 1:
            parts[-1] = [parts[-1][0], digit]
        else:
            parts.append([digit])
    return f"{prefix}[{','.join('-'.join(part) for part in parts)}]"


def _index(slots: Sequence[int]) -> str:
    return f"{slots[0]}-{slots[-1]}" if len(slots) > 1 and slots[-1] - slots[0] == len(slots) - 1 else ",".join(map(str, slots))


def _exit(code: int, version: str) -> Any:
    status = "SUCCESS" if code == 0 else "ERROR"
    if _is_new(version):
        return {
            "status": [status],
            "return_code": _number(code),
            "signal": {"id": {"set": False, "infinite": False, "number": 0}, "name": ""},
        }
    return {"status": status, "return_code": code}


def _number(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


def _is_new(version: str) -> bool:
    return int(version.partition(".")[0]) >= 24
