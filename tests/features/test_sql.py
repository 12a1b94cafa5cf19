"""Every query of `features/sql` gives the rows that were worked out by hand for its cases.

A case is a folder `cases/<query>/<promise>` with one CSV per input table and `expected.csv`; `parameters.csv` where the query takes any.
Columns that an input table has and the CSV lacks are null; only the columns that `expected.csv` names are compared.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from features import engine, schema
from features.modes import MODE_OF_XID, NOT_HARDWARE
from ingest.schema import TABLES
from ingest.tables import Table

CASES = Path(__file__).parent / "cases"
QUERIES = sorted(path.stem for path in Path(engine.__file__).parent.joinpath("sql").glob("*.sql") if path.stem != "macros")
FOLDERS = sorted(path.parent for path in CASES.glob("*/*/expected.csv"))
_TYPES = {"string": "varchar", "int64": "bigint", "double": "double", "bool": "boolean", "timestamp": "timestamptz"}
_ROLLUP = {column.name: _TYPES[column.type] for column in schema.GPU_ROLLUPS_1H.own_columns}
# Columns of the tables between the queries, where a case would otherwise have to spell out a type that its rows do not show.
_BETWEEN = {
    "window_sums": {"as_of": "timestamptz", "ring": "bigint", **_ROLLUP, "answered_at": "timestamptz"},
    "rollup_parts": _ROLLUP,
    "hours": _ROLLUP,
    "carry": {name: kind for name, kind in _ROLLUP.items() if name.endswith("_total") or name in ("boot_id", "epoch", "uptime_s")}
    | {"node": "varchar", "gpu_uuid": "varchar", "source": "varchar", "last_at": "timestamptz", "received_at": "timestamptz"},
    "node_carry": {"node": "varchar", "received_at": "timestamptz"},
    "seats": dict.fromkeys(("unit", "gpu_uuid", "node", "board", "lot", "pci"), "varchar")
    | {"slot": "bigint"}
    | dict.fromkeys(("inserted_at", "known_at", "left_at", "until"), "timestamptz"),
    "units": {"as_of": "timestamptz", "gpu_uuid": "varchar", "node": "varchar", "board": "varchar", "slot": "bigint", "lot": "varchar"}
    | {"inserted_at": "timestamptz"},
    "nodes": {"as_of": "timestamptz", "node": "varchar", "inserted_at": "timestamptz"},
    "subjects": {"as_of": "timestamptz", "unit": "varchar", "node": "varchar", "board": "varchar", "slot": "bigint", "lot": "varchar"}
    | {"inserted_at": "timestamptz"},
    "places": {"as_of": "timestamptz"} | dict.fromkeys(("node", "chassis", "rack", "leaf_switch", "power", "position", "lot"), "varchar"),
    "failure_signs": dict.fromkeys(("node", "gpu_uuid", "mode", "kind"), "varchar")
    | {"happened_at": "timestamptz", "known_at": "timestamptz", "rank": "bigint", "is_ours": "boolean"},
    "failures": dict.fromkeys(("unit", "node", "gpu_uuid", "mode"), "varchar") | {"happened_at": "timestamptz", "known_at": "timestamptz"},
    "repairs": dict.fromkeys(("unit", "node"), "varchar") | {"happened_at": "timestamptz", "known_at": "timestamptz"},
    "event_bursts": dict.fromkeys(("unit", "node", "use"), "varchar")
    | {"happened_at": "timestamptz", "known_at": "timestamptz", "code": "bigint"},
    "job_ends": dict.fromkeys(("node", "state"), "varchar") | {"happened_at": "timestamptz", "known_at": "timestamptz"},
    "boards": dict.fromkeys(("unit", "board", "lot"), "varchar") | {"slot": "bigint"},
    "records": {"started_at": "timestamptz"},
    "landmarks": {"as_of": "timestamptz"},
    "spans": {"as_of": "timestamptz", "ring": "bigint", "tier": "varchar", "started_at": "timestamptz"},
    "gpu_features": {column.name: _TYPES[column.type] for column in schema.GPU_FEATURES.own_columns},
    "node_features": {column.name: _TYPES[column.type] for column in schema.NODE_FEATURES.own_columns},
}
_TABLES: dict[str, Table] = {
    **TABLES,
    **{table.name: table for table in (schema.GPU_ROLLUPS_5M, schema.GPU_ROLLUPS_1H, schema.GPU_ROLLUPS_1D, schema.NODE_ROLLUPS_1H)},
}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_query_gives_the_expected_rows(folder: Path, connection: engine.Connection) -> None:
    """A query gives exactly the expected rows of its case, in any order."""
    query, before = folder.parent.name, _MADE_BEFORE.get(folder.parent.name)
    for name in _inputs_of(query) if before is None else {*_inputs_of(query), *_inputs_of(before)} - {before}:
        _make_input(connection, name, folder / f"{name}.csv")
    if before is not None:
        engine.make_table(connection, before, _parameters(connection, folder))
    connection.execute(f"create temp table expected as from read_csv('{folder / 'expected.csv'}', all_varchar = true, header = true)")
    names = [column for column, *_ in connection.execute("describe expected").fetchall()]
    engine.make_table(connection, "actual", _parameters(connection, folder), source=query)
    kinds = {column: kind for column, kind, *_ in connection.execute("describe actual").fetchall()}
    assert set(names) <= set(kinds), f"the query has no column {set(names) - set(kinds)}"
    wanted = connection.execute(f"select {', '.join(f'cast({n} as {kinds[n]}) as {n}' for n in names)} from expected").fetchall()
    got = connection.execute(f"select {', '.join(names)} from actual").fetchall()
    assert sorted(map(_comparable, got)) == sorted(map(_comparable, wanted))


def test_every_query_has_a_case() -> None:
    """No query is without a case worked out by hand."""
    assert {folder.parent.name for folder in FOLDERS} == set(QUERIES)


def test_every_query_says_what_it_gives() -> None:
    """Every query opens with its meaning, grain, inputs and output."""
    texts = {name: engine.query(name) for name in QUERIES}
    assert {name for name, text in texts.items() if not text.startswith("-- ")} == set()
    assert {name for name, text in texts.items() if "Inputs:" not in text or "Output:" not in text} == set()


def _inputs_of(name: str) -> list[str]:
    """Name the tables that the text of a query may read and that a case can bring."""
    words = set(engine.query(name).replace(",", " ").replace(".", " ").replace(")", " ").split())
    return sorted(words & (_BETWEEN.keys() | _TABLES.keys() | _FAMILIES) - {name})


_MADE_BEFORE = {"rollup": "samples"}  # a query that only one other reads is made for its cases, not spelled out
_FAMILIES = {
    "ecc_trend", "link_retrains", "throttling", "thermal_drift", "power", "pcie", "missingness", "history", "domain_rates", "chassis",
    "node_history", "xid_modes", "not_hardware",
}  # fmt: skip


def _make_input(connection: engine.Connection, name: str, path: Path) -> None:
    if name == "xid_modes":
        listed = ", ".join(f"({code}, '{mode}')" for code, mode in MODE_OF_XID.items())
        connection.execute(f"create temp table xid_modes as from (values {listed}) as t(code, mode)")
        return
    if name == "not_hardware":
        listed = ", ".join(f"('{mode}')" for mode in sorted(NOT_HARDWARE))
        connection.execute(f"create temp table not_hardware as from (values {listed}) as t(mode)")
        return
    columns = _columns_of(name, connection)
    if columns is None:
        if path.exists():
            connection.execute(f"create temp table {name} as from read_csv('{path}', header = true)")
        return
    declared = ", ".join(f'"{column}" {kind}' for column, kind in columns.items())
    connection.execute(f"create temp table {name} ({declared})")
    if path.exists():
        connection.execute(f"insert into {name} by name from read_csv('{path}', header = true, all_varchar = true)")


def _columns_of(name: str, connection: engine.Connection) -> dict[str, str] | None:
    if name in _BETWEEN:
        return _BETWEEN[name]
    if name in _TABLES:
        table = _TABLES[name]
        return {column.name: _stored(column.type) for column in table.own_columns}
    family = {
        "ecc_trend": "ecc", "link_retrains": "nvlink", "thermal_drift": "thermal", "domain_rates": "domain", "node_history": "history",
    }.get(name, name)  # fmt: skip
    scope = "node" if name in ("chassis", "node_history") else "gpu"
    key = {"history": "unit", "domain_rates": "unit", "chassis": "node", "node_history": "node"}.get(name, "gpu_uuid")
    features = [feature.name for feature in schema.FEATURES if feature.family == family and feature.scope == scope]
    return {"as_of": "timestamptz", key: "varchar"} | dict.fromkeys(features, "double")


def _stored(kind: str) -> str:
    if kind.startswith("map"):
        return "map(varchar, varchar)"
    return "varchar[]" if kind.startswith("list") else _TYPES[kind]


def _parameters(connection: engine.Connection, folder: Path) -> dict[str, Any]:
    path = folder / "parameters.csv"
    if not path.exists():
        return {}
    result = connection.sql(f"from read_csv('{path}', header = true)")
    return dict(zip(result.columns, result.fetchall()[0], strict=True))


def _comparable(row: tuple[Any, ...]) -> tuple[str, ...]:
    """Make a row sortable and float sums comparable to nine digits."""
    return tuple(f"{value:.9g}" if isinstance(value, float) else str(value) for value in row)
