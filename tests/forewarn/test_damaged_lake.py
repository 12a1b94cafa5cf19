"""A table of the lake that is damaged is named with the mend by every command that needs it, and the others go on."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from forewarn.cli import app
from ingest.errors import LakeUnreadable
from ingest.lake import Lake, table_rows
from ingest.schema import EVENTS, GPU_SAMPLES
from ingest.tables import Table

NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Give a lake with two files of samples and two of events, of the last hour."""
    made = Lake(tmp_path / "lake")
    for minute in (50, 40):
        at = [NOW - timedelta(minutes=minute, seconds=second) for second in range(300)]
        common = {"node": ["n1"] * 300, "observed_at": at, "received_at": at, "source": ["t"] * 300}
        samples = {"gpu_uuid": ["g"] * 300, "tier": ["hot"] * 300, "temp_c": [float(second % 7) for second in range(300)]}
        made.append(GPU_SAMPLES, table_rows(GPU_SAMPLES, common | samples))
        made.append(EVENTS, table_rows(EVENTS, {**common, "kind": ["xid"] * 300, "code": [31] * 300}))
    return made


def run(lake: Lake, *arguments: str) -> Result:
    """Run a command on the lake."""
    file = Path(lake.root).with_suffix(".toml")
    file.write_text(f'[fleet]\nstate_dir = "{file.parent}/state"\n[lake]\npath = "{lake.root}"\n')
    return CliRunner().invoke(app, [*arguments, "--config", str(file)])


def truncate(lake: Lake, table: Table) -> None:
    file = Path(lake.files(table)[0])
    file.write_bytes(file.read_bytes()[:500])


def overwrite_pages(lake: Lake, table: Table) -> None:
    file = Path(lake.files(table)[0])
    content = file.read_bytes()
    file.write_bytes(content[:4] + bytes(len(content) // 2) + content[4 + len(content) // 2 :])


def remove(lake: Lake, table: Table) -> None:
    Path(lake.files(table)[0]).unlink()


def break_log(lake: Lake, table: Table) -> None:
    (Path(lake.root) / table.name / "_delta_log" / f"{1:020d}.json").write_text("{no")


DAMAGES = [truncate, overwrite_pages, remove, break_log]
Damage = Callable[[Lake, Table], None]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("arguments", [("features", "--until", NOW.isoformat())], ids=lambda words: words[0])
@pytest.mark.parametrize("table", [GPU_SAMPLES, EVENTS], ids=lambda table: table.name)
def test_a_batch_command_names_the_damaged_table_and_the_mend(lake: Lake, damage: Damage, arguments: tuple[str, ...], table: Table) -> None:
    """Truncated, overwritten or missing files and a broken log are one line, whatever DuckDB says of them."""
    damage(lake, table)
    error = run(lake, *arguments).exception
    assert isinstance(error, LakeUnreadable)
    assert f"{lake.root}/{table.name}" in str(error)
    assert str(error).endswith("run forewarn lake check")
    assert "\n" not in str(error)


@pytest.mark.parametrize("damage", DAMAGES)
def test_status_names_a_damaged_table_and_shows_the_rest(lake: Lake, damage: Damage) -> None:
    """What cannot be read is unknown, not absent; the command ends with 2."""
    damage(lake, GPU_SAMPLES)
    plain, text = (run(lake, "status", "--at", NOW.isoformat(), *more) for more in (("--json",), ()))
    assert (plain.exit_code, text.exit_code) == (2, 2)
    found = json.loads(plain.stdout)
    assert list(found["unreadable"]) == ["gpu_samples"]
    assert found["newest"]["events"].startswith("2026-06-15 11:20:00")
    assert "newest gpu_samples: unknown" in text.output
    assert "newest scores: nothing yet" in text.output
    assert "run forewarn lake check" in text.output.splitlines()[-1]


def test_status_tells_the_newest_data_however_old(lake: Lake) -> None:
    """A fleet that has been silent for three weeks has newest data of three weeks ago."""
    shown = run(lake, "status", "--at", (NOW + timedelta(days=21)).isoformat())
    assert shown.exit_code == 0
    assert "newest gpu_samples: 2026-06-15 11:20:00" in shown.output
    assert "newest scores: nothing yet" in shown.output
