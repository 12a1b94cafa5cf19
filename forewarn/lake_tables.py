"""Every table of the lake, whichever stage writes it, and how long it is kept."""

from __future__ import annotations

from datetime import date, timedelta

from features import schema as features_schema
from forewarn.settings import LakeSection
from ingest.errors import ConfigError
from ingest.schema import TABLES
from ingest.tables import Table
from models import schema as models_schema

RAW = frozenset({"gpu_samples", "gpu_pods", "link_samples", "chassis_readings", "other_readings", "job_progress", "gpu_rollups_5m"})
DERIVED = frozenset({"gpu_rollups_1h", "gpu_rollups_1d", "node_rollups_1h", "gpu_features", "node_features", "scores"})


def all_tables() -> dict[str, Table]:
    """List the tables that ingest, features and models publish, by name."""
    later = [value for module in (features_schema, models_schema) for value in vars(module).values() if isinstance(value, Table)]
    return TABLES | {table.name: table for table in later}


def chosen_tables(names: list[str]) -> list[Table]:
    """Find tables by name, all where none is named; raises ConfigError for a name that is none."""
    known = all_tables()
    for name in names:
        if name not in known:
            raise ConfigError(f"no table is called {name!r}: use one of {', '.join(sorted(known))}")
    return [known[name] for name in names] or list(known.values())


def kept_days(settings: LakeSection, table: Table) -> int:
    """Tell for how many days a table is kept, 0: for ever; raises ConfigError where the configuration names a table that is none."""
    chosen_tables(list(settings.keep_days))
    default = settings.keep_raw_days if table.name in RAW else settings.keep_rollups_days if table.name in DERIVED else 0
    return settings.keep_days.get(table.name, default)


def kept_from(settings: LakeSection, table: Table, today: date) -> date | None:
    """Tell the first date of a table that is kept as of today; None where all are."""
    days = kept_days(settings, table)
    return today - timedelta(days=days) if days else None
