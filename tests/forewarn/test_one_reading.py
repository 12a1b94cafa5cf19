"""What can be tried beside a running collector, and what a folder that cannot be used says."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner

from emulators.bmc.server import Bmc
from emulators.state import ChassisState
from forewarn.cli import app
from ingest.errors import ConfigError, SourceUnavailable
from ingest.one_reading import read_once
from ingest.schema import Observed
from ingest.source import Pace
from ingest.spool import Spool


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """Give back the handlers that commands set in this process."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def configured(tmp_path: Path, text: str = "") -> str:
    """Write a configuration with one kernel log."""
    (tmp_path / "kmsg.boot").write_text('{"boot_id": "b1", "boot_at_ns": 1790000000000000000}')
    (tmp_path / "kmsg").write_text("4,1,1000,-;NVRM: Xid (PCI:0000:1b:00): 63, pid=1, name=test, row remapping\n")
    file = tmp_path / "forewarn.toml"
    file.write_text(f'[fleet]\nstate_dir = "{tmp_path}/state"\n[collect.kernel_log]\nn1 = "{tmp_path}/kmsg"\n{text}')
    return str(file)


@pytest.mark.parametrize("options", [("--once", "--dry-run"), ("--once",), ("--dry-run",)])
def test_one_reading_leaves_the_spool_to_the_collector(tmp_path: Path, options: tuple[str, ...]) -> None:
    """It prints its records while a collector holds the spool, and makes none where there is no collector."""
    file = configured(tmp_path)
    alone = CliRunner().invoke(app, ["collect", "--config", file, *options])
    assert not (tmp_path / "state" / "spool").exists()
    spool = Spool(tmp_path / "state" / "spool")
    try:
        beside = CliRunner().invoke(app, ["collect", "--config", file, *options])
    finally:
        spool.close()
    for shown in (alone, beside):
        assert shown.exit_code == 0, shown.output
        assert "events" in {json.loads(line)["table"] for line in shown.stdout.splitlines()}


class _Broken:
    name = "broken"
    pace = Pace.FLEET
    interval_s = 1.0
    unheard = ()

    async def open(self) -> None:
        raise SourceUnavailable("refused", "nobody is there")

    async def read(self, at_ns: int) -> list[Observed]:
        raise AssertionError

    async def close(self) -> None:
        pass


class _Whole(_Broken):
    name = "whole"

    async def open(self) -> None:
        pass

    async def read(self, at_ns: int) -> list[Observed]:
        return [Observed(node="n1", observed_at_ns=at_ns, received_at_ns=at_ns, source="test")]


async def test_a_source_that_cannot_be_read_stops_no_other() -> None:
    """It is named, and the next one is read."""
    records, failed = await read_once([_Broken(), _Whole()], 7)
    assert ([record.observed_at_ns for record in records], failed) == ([7], ["broken"])


class _Buggy(_Whole):
    """It raises what nobody expects, at one of its calls."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def open(self) -> None:
        if self.name == "opening":
            raise KeyError(self.name)

    async def read(self, at_ns: int) -> list[Observed]:
        if self.name == "reading":
            raise ZeroDivisionError(self.name)
        return []

    async def close(self) -> None:
        if self.name == "closing":
            raise RecursionError(self.name)


async def test_a_bug_in_one_source_stops_no_other() -> None:
    """Whatever a source raises and wherever, it is logged and among those that failed, and the next one is read."""
    with capture_logs() as lines:
        records, failed = await read_once([_Buggy("opening"), _Buggy("reading"), _Buggy("closing"), _Whole()], 7)
    assert ([record.observed_at_ns for record in records], failed) == ([7], ["opening", "reading", "closing"])
    assert [line["error"] for line in lines] == ["KeyError: 'opening'", "ZeroDivisionError: reading", "RecursionError: closing"]


async def test_one_reading_asks_every_bmc(tmp_path: Path) -> None:
    """It waits for the readings of a BMC whatever its stream does, and says of one that is dead that it is; a check fails for that one."""
    chassis = ChassisState(node="n1", serial="CH1")
    bmc = Bmc("bmc1", read_state=lambda: (chassis, []), now_ns=time.time_ns, report_interval_s=600.0)
    url = await bmc.start()
    (tmp_path / "password").write_text("forewarn-test\n")
    target = f'[[collect.redfish]]\nnode = "{{}}"\nurl = "{{}}"\nusername = "forewarn"\npassword_file = "{tmp_path}/password"\n'
    live, dead = target.format("n1", url), target.format("n2", "http://127.0.0.1:1")
    try:
        whole = await asyncio.to_thread(CliRunner().invoke, app, ["collect", "--config", configured(tmp_path, live), "--check"])
        half = await asyncio.to_thread(CliRunner().invoke, app, ["collect", "--config", configured(tmp_path, live + dead), "--check"])
    finally:
        await bmc.stop()
    assert (whole.exit_code, half.exit_code) == (0, 1), whole.output + half.output
    rows = [json.loads(line) for line in half.stdout.splitlines()]
    states = {row["node"]: row["state"] for row in rows if row["table"] == "source_states" and row["source"] == "redfish"}
    assert states == {"n1": "ok", "n2": "unreachable"}
    assert {"inlet_temp_c", "power_w"} <= {row["quantity"] for row in rows if row["table"] == "chassis_readings" and row["node"] == "n1"}


class _Mute(_Whole):
    name = "mute"
    interval_s = 0.01
    unheard = ("n7",)  # type: ignore[assignment]


async def test_a_node_that_says_nothing_is_a_failure() -> None:
    """What the others said until the deadline is kept, and the source is among those that failed."""
    with capture_logs() as lines:
        records, failed = await read_once([_Mute(), _Whole()], 7, deadline_s=0.1)
    assert len(records) > 1
    assert failed == ["mute"]
    assert [line["error"] for line in lines] == ["TimeoutError: no answer within 0.1 s of n7"]


@pytest.mark.parametrize("command", [("up",), ("collect",), ("alert", "--once"), ("consume", "log")])
def test_a_state_folder_that_cannot_be_made_is_one_line(tmp_path: Path, command: tuple[str, ...]) -> None:
    """The setting, the folder and the mend are named."""
    (tmp_path / "state").write_text("a file")
    secret = tmp_path / "secret"
    secret.write_text("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
    more = f'[bus]\nkind = "kafka"\n[consume]\nsecret_file = "{secret}"\nack_secret_file = "{secret}"\n'
    error = CliRunner().invoke(app, [*command, "--config", configured(tmp_path, more)]).exception
    assert isinstance(error, ConfigError)
    assert str(error).startswith(f"fleet.state_dir = '{tmp_path}/state': cannot be made")
    assert "\n" not in str(error)


def test_a_spool_or_ledger_that_cannot_be_opened_is_one_line(tmp_path: Path) -> None:
    """What lies in its place is named."""
    file = configured(tmp_path, '[bus]\nkind = "kafka"\n')
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "spool").write_text("a file")
    (tmp_path / "state" / "ledger.sqlite").mkdir()
    spool, ledger = (CliRunner().invoke(app, [*command, "--config", file]).exception for command in (["collect"], ["alert", "--once"]))
    assert f"{tmp_path}/state/spool: cannot be used as a spool" in str(spool)
    assert f"{tmp_path}/state/ledger.sqlite cannot be opened" in str(ledger)
    assert os.linesep not in f"{spool}{ledger}"


async def test_one_reading_tells_whose_certificates_cannot_be_read(tmp_path: Path) -> None:
    """A BMC whose ca_file holds no certificate is a failed check of its own; the others are read."""
    chassis = ChassisState(node="n1", serial="CH1")
    bmc = Bmc("bmc1", read_state=lambda: (chassis, []), now_ns=time.time_ns, report_interval_s=600.0)
    url = await bmc.start()
    (tmp_path / "password").write_text("forewarn-test\n")
    (tmp_path / "broken.pem").write_text("no certificate")
    target = f'[[collect.redfish]]\nnode = "{{}}"\nurl = "{{}}"\nusername = "forewarn"\npassword_file = "{tmp_path}/password"\n'
    broken = target.format("n0", "https://127.0.0.1:1") + f'ca_file = "{tmp_path}/broken.pem"\n'
    file = configured(tmp_path, broken + target.format("n1", url))
    try:
        shown = await asyncio.to_thread(CliRunner().invoke, app, ["collect", "--config", file, "--check"])
    finally:
        await bmc.stop()
    assert shown.exit_code == 1, shown.output
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    states = {row["node"]: row["state"] for row in rows if row["table"] == "source_states" and row["source"] == "redfish"}
    assert states == {"n0": "bad_ca", "n1": "ok"}
