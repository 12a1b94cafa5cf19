"""What can be tried beside a running collector, and what a folder that cannot be used says."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from forewarn.cli import app
from ingest.collector import read_once
from ingest.errors import ConfigError, SourceUnavailable
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
        assert "Event" in {json.loads(line)["table"] for line in shown.stdout.splitlines()}


class _Broken:
    name = "broken"
    pace = Pace.FLEET
    interval_s = 1.0

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
