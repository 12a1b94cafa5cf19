"""What the status says of telemetry."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from forewarn.settings import Config
from forewarn.status import render, status
from ingest.lake import Lake
from ingest.schema import SOURCE_STATES

NOW = datetime(2026, 3, 8, 23, 0, tzinfo=UTC)


def test_silence_is_never_well(tmp_path: Path) -> None:
    """A source whose last word is old is silent, whatever it said; one that said it is well within the hour is no trouble."""
    said = [("n1", "nvml", "ok", 1), ("n2", "nvml", "ok", 110), ("n3", "redfish", "unreachable", 2), ("n3", "redfish", "ok", 30)]
    times = [NOW - timedelta(hours=hours) for *_, hours in said]
    columns = {name: [row[place] for row in said] for place, name in enumerate(("node", "source", "state"))}
    Lake(tmp_path / "lake").append(SOURCE_STATES, pa.table({**columns, "observed_at": times, "received_at": times}))
    config = Config.model_validate({"fleet": {"state_dir": str(tmp_path / "state")}, "lake": {"path": str(tmp_path / "lake")}})
    found = status(config, NOW)
    assert [(row["node"], row["source"], row["state"]) for row in found["telemetry"]] == [
        ("n2", "nvml", "silent"),
        ("n3", "redfish", "unreachable"),
    ]
    assert "n2         nvml       silent since 2026-03-04" in render(found)
