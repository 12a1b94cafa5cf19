"""The node agent is light: what collects loads nothing that only analysis needs."""

from __future__ import annotations

import subprocess
import sys

HEAVY = {"pyarrow", "duckdb", "deltalake", "numpy", "lightgbm", "polars", "sklearn", "pandas"}


def test_collecting_imports_no_arrow_database_or_model_library() -> None:
    """Sources, spool, both buses and the collector together load none of them."""
    sources = [f"ingest.{name}.source" for name in ("nvml", "exporter", "kernel_log", "redfish", "jobs")]
    others = [f"ingest.{name}" for name in ("jobs.commands", "jobs.rest", "collector", "spool", "rejects")]
    others += ["ingest.bus", "ingest.kafka_bus", "ingest.kafka_admin"]
    code = f"import sys, {', '.join(sources + others)}\nprint(' '.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert HEAVY & set(loaded) == set()
