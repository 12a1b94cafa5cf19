"""The emulated scheduler's commands print what Slurm prints."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path

import pytest

from emulators.layout import DAY_NS, NS, WorldSpec
from emulators.scheduler import SchedulerCommands, host_list, sacct, squeue
from emulators.world import World


@cache
def fleet() -> World:
    return World(WorldSpec.show(nodes=16, days=20))


AT_NS = WorldSpec().start_ns + 10 * DAY_NS


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        (("gpu001",), "gpu001"),
        (("gpu001", "gpu002", "gpu003"), "gpu[001-003]"),
        (("gpu010", "gpu001", "gpu002"), "gpu[001-002,010]"),
        (("gpu009", "gpu010"), "gpu[009-010]"),
    ],
)
def test_host_lists_are_written_as_slurm_does(nodes: tuple[str, ...], text: str) -> None:
    """Runs of numbers are ranges, single ones stand alone, leading zeros stay."""
    assert host_list(nodes) == text


def test_squeue_lists_the_running_jobs() -> None:
    """One entry per running job, with its expanded nodes, fleet time in seconds and the declared checkpoint interval in the comment."""
    running = fleet().jobs_running(AT_NS)
    assert running
    said = squeue(running, AT_NS)
    for run, job in zip(running, said["jobs"], strict=True):
        assert job["job_id"] == int(run.job_id)
        assert job["job_state"] == ["RUNNING"]
        assert [node["name"] for node in job["job_resources"]["nodes"]["allocation"]] == list(run.nodes)
        assert job["start_time"] == {"set": True, "infinite": False, "number": run.started_ns // NS}
        assert (f"ckpt_s={run.checkpoint_interval_s:.0f}" in job["comment"]) if run.checkpoint_interval_s else job["comment"] == ""


def test_the_old_version_has_plain_numbers_and_states() -> None:
    """22.05 prints plain numbers, states as strings, null for an unlimited job, and allocated nodes by name."""
    run = fleet().jobs_running(AT_NS)[0]
    job = squeue([run], AT_NS, version="22.05")["jobs"][0]
    assert job["job_state"] == "RUNNING"
    assert job["time_limit"] is None
    assert job["start_time"] == run.started_ns // NS
    assert [node["nodename"] for node in job["job_resources"]["allocated_nodes"]] == list(run.nodes)
    assert sacct([run], run.ended_ns, version="22.05")["jobs"][0]["state"]["current"] == run.state.upper()


def test_sacct_tells_how_jobs_ended_and_only_the_newest_run() -> None:
    """Ended jobs have state and end; a job queued again appears once, as its last run."""
    runs = [run for run in fleet().runs if run.ended_ns < AT_NS]
    jobs = {job["job_id"]: job for job in sacct(runs, AT_NS)["jobs"]}
    assert len(jobs) == len({run.job_id for run in runs})
    again = max(runs, key=lambda run: run.restarts)
    assert again.restarts > 0
    assert jobs[int(again.job_id)]["restart_cnt"] == again.restarts
    assert {job["state"]["current"][0] for job in jobs.values()} >= {"COMPLETED", "FAILED", "NODE_FAIL"}
    assert all(job["time"]["end"] - job["time"]["start"] == job["time"]["elapsed"] for job in jobs.values())


def test_the_commands_run_as_programs(tmp_path: Path) -> None:
    """`squeue --json` and `sacct --json` print what was refreshed last; without --json they fail."""
    commands = SchedulerCommands(fleet(), tmp_path)
    commands.refresh(AT_NS)
    for name, command in commands.commands.items():
        said = json.loads(subprocess.run([command, "--json"], capture_output=True, check=True).stdout)
        assert said["meta"]["Slurm"]["release"] == "24.11.5"
        assert said["jobs"], name
    assert subprocess.run([commands.commands["squeue"]], capture_output=True, check=False).returncode == 1
