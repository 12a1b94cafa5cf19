"""Commands of Slurm that hang, go on without end or leave children behind take nothing of the collector with them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from ingest.errors import SourceUnavailable
from ingest.jobs.commands import SlurmCommands


def written(directory: Path, text: str) -> tuple[str, ...]:
    """Write a command of Python."""
    program = directory / "squeue.py"
    program.write_text(textwrap.dedent(text))
    return (sys.executable, str(program))


WRAPPER = """
    import pathlib, subprocess, sys
    child = subprocess.Popen(["sleep", "600"]{detached})
    pathlib.Path(sys.argv[0]).with_name("pids").write_text(str(child.pid))
    {then}
"""


def is_alive(pid: int) -> bool:
    """Say whether a process is there and no zombie."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


async def gone(pid: int) -> bool:
    """Wait for a killed process to be gone, 10 s at most."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(10):
            while is_alive(pid):  # noqa: ASYNC110  # a process that is no child has no event
                await asyncio.sleep(0.01)
    return not is_alive(pid)


@pytest.mark.parametrize("then", ["child.wait()", "pass"], ids=["waits", "has_ended"])
async def test_a_wrapper_that_hangs_ends_with_its_children(tmp_path: Path, then: str) -> None:
    """A child holds the pipe, whether its parent waits for it or is gone: the state is `hung` in time, and nobody stays behind."""
    command = written(tmp_path, WRAPPER.format(detached="", then=then))
    started_s = time.monotonic()
    with pytest.raises(SourceUnavailable) as caught:
        await SlurmCommands(command, deadline_s=2.0).queue()
    assert caught.value.state == "hung"
    assert time.monotonic() - started_s < 10
    assert await gone(int((tmp_path / "pids").read_text()))


async def test_a_child_that_left_the_group_holds_nobody_up(tmp_path: Path) -> None:
    """A child in a session of its own keeps the pipe open; its reader lets go of it."""
    command = written(tmp_path, WRAPPER.format(detached=", start_new_session=True", then="child.wait()"))
    started_s = time.monotonic()
    try:
        with pytest.raises(SourceUnavailable, match="hung"):
            await SlurmCommands(command, deadline_s=2.0).queue()
        assert time.monotonic() - started_s < 10
    finally:
        os.kill(int((tmp_path / "pids").read_text()), 9)


async def test_a_reader_that_is_cancelled_leaves_no_command(tmp_path: Path) -> None:
    """The collector's own deadline, or its end, takes the command and its children along."""
    command = written(tmp_path, WRAPPER.format(detached="", then="child.wait()"))
    asking = asyncio.create_task(SlurmCommands(command, deadline_s=600.0).queue())
    pids = tmp_path / "pids"
    async with asyncio.timeout(20):
        while not (pids.exists() and pids.read_text()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await gone(int(pids.read_text()))


async def test_an_answer_without_end_is_cut() -> None:
    """No more is read than the bound, and the command is ended; what fits exactly is read."""
    endless = (sys.executable, "-c", "while True: print(' ' * 65_536)")
    with pytest.raises(SourceUnavailable) as caught:
        await SlurmCommands(endless, deadline_s=60.0, max_bytes=2**20).queue()
    assert (caught.value.state, "more than 1 MiB" in caught.value.detail) == ("too_large", True)
    fits = (sys.executable, "-c", """print('{"jobs": []}')""")
    assert await SlurmCommands(fits, deadline_s=60.0, max_bytes=13).queue() == []


def test_complaints_without_end_take_no_memory(tmp_path: Path) -> None:
    """What a command prints beside its answer is read on and forgotten; nothing is said at the end of the process."""
    command = written(tmp_path, "import sys\nfor _ in range(512): sys.stderr.write('x' * 65_536)\nprint('{\"jobs\": []}')")
    program = (
        "import asyncio, resource\n"
        "from ingest.jobs.commands import SlurmCommands\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        f"assert asyncio.run(SlurmCommands({command!r}, deadline_s=60.0).queue()) == []\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert int(done.stdout) < 16_384  # KiB; 32 MiB were printed
    assert done.stderr == ""


def test_a_hung_command_leaves_no_traceback_at_the_end(tmp_path: Path) -> None:
    """The process that gave a command up ends without a word."""
    command = written(tmp_path, WRAPPER.format(detached="", then="child.wait()"))
    program = (
        "import asyncio\n"
        "from ingest.errors import SourceUnavailable\n"
        "from ingest.jobs.commands import SlurmCommands\n"
        f"try: asyncio.run(SlurmCommands({command!r}, deadline_s=1.0).queue())\n"
        "except SourceUnavailable as error: print(error.state)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert (done.stdout, done.stderr) == ("hung\n", "")


async def test_a_character_that_is_no_utf8_costs_nothing() -> None:
    """Bytes in somebody's comment that are no UTF-8 are replaced, and all jobs are there."""
    latin = """import sys; sys.stdout.buffer.write(b'{"jobs": [{"job_id": 1, "comment": "caf\\xe9"}, {"job_id": 2}]}')"""
    assert await SlurmCommands((sys.executable, "-c", latin), deadline_s=60.0).queue() == [
        {"job_id": 1, "comment": "caf\N{REPLACEMENT CHARACTER}"},
        {"job_id": 2},
    ]
