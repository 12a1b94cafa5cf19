"""The node agent is light: what collects loads nothing that only analysis needs."""

from __future__ import annotations

import subprocess
import sys

HEAVY = {"pyarrow", "duckdb", "deltalake", "numpy", "lightgbm", "polars", "sklearn", "pandas"}


def test_collecting_imports_no_arrow_database_or_model_library() -> None:
    """Sources, spool, both buses and the collector together load none of them."""
    modules = "collector, spool, bus, kafka_bus, kafka_admin, jobs, jobs_commands, jobs_rest, kernel_log, nvml, exporter, rejects"
    code = f"import sys\nfrom ingest import {modules}\nfrom ingest.redfish import source\nprint(' '.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert HEAVY & set(loaded) == set()
