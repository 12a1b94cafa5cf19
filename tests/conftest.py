"""Which modules take longer than a quick check may: they run with `make test`, not with `make check`. And what tests have to tell."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Whatever shares the machine may stop an example for seconds, which says nothing about the code.
settings.register_profile("shared machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared machine")

SLOW = (
    "alerting/test_damaged_lake.py",
    "alerting/test_scenarios.py",
    "contracts/test_kills.py",
    "emulators/nvml/",
    "emulators/test_bmc_judges.py",
    "emulators/test_faults.py",
    "emulators/test_fleet.py",
    "emulators/test_frailty.py",
    "emulators/test_history.py",
    "emulators/test_parity.py",
    "features/test_build.py",
    "features/test_clock_step.py",
    "features/test_rollup.py",
    "forewarn/test_damaged_lake.py",
    "forewarn/test_lake_commands.py",
    "forewarn/test_lake_year.py",
    "forewarn/test_missing_is_risk.py",
    "forewarn/test_one_reading.py",
    "fuzz/",
    "ingest/nvml/",
    "ingest/test_codecs.py",
    "ingest/test_evolution.py",
    "ingest/test_known_events.py",
    "ingest/test_lake_care.py",
    "ingest/test_lake_together.py",
    "ingest/redfish/test_polls.py",
    "ingest/redfish/test_source.py",
    "ingest/redfish/test_stream.py",
    "models/test_evaluate.py",
    "models/test_train_and_score.py",
)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark slow modules."""
    name = item.path.relative_to(Path(__file__).parent).as_posix()
    if name.startswith(SLOW):
        item.add_marker(pytest.mark.slow)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures that tests have recorded with `record_property`."""
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, ()):
            for name, value in report.user_properties:
                terminalreporter.write_line(f"{name}: {value}")
