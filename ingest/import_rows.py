"""A user's own records to rows of the lake: one pure function per kind of file, from columns to columns.

Neutral schema: telemetry `node_id, device_id, ts, <values>`; events `node_id, device_id, ts, kind, detail, ...`; inventory
`device_id, node_id, ts, action`; topology `node_id, <levels>`; jobs and outcomes with the columns of their tables. A device id that
equals the node id, or none, means the node itself. History has no receive time: `received_at` is `observed_at`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import ConfigError
from ingest.import_causes import code_of, mode_of
from ingest.import_values import INVALID, NUMBERS, Cells, is_mostly_numbers, quality_of, read_cells
from ingest.lake import arrow_schema
from ingest.schema import EVENTS, GPU_SAMPLES, INVENTORY, JOBS, OTHER_READINGS, OUTCOMES, TOPOLOGY
from ingest.tables import TIMESTAMP, Table

ALIASES = {
    "node": "node_id",
    "host": "node_id",
    "time": "ts",
    "timestamp": "ts",
    "observed_at": "ts",
    "gpu_uuid": "device_id",
    "device": "device_id",
}
_US = pa.timestamp("us", tz="UTC")
_EPOCH_SECONDS = "select case when ts::double between -6e10 and 2.5e11 then make_timestamptz((ts * 1e6)::bigint) end as ts from given"
_ISO_TEXT = "select try_cast(ts as timestamptz) as ts from given"
_AGREES = "select min(domain) over same = max(domain) over same as agrees from places"
_SAME = " window same as (partition by node, observed_at) order by row"
_KINDS = ("failure", "error", "maintenance")
_ACTIONS = ("insert", "remove")
_KEYS = {"node_id", "device_id", "ts"}
_SAMPLE_FIELDS = {
    column.name: column.type
    for column in GPU_SAMPLES.own_columns
    if column.type in ("double", "int64", "bool") and column.name not in ("gpu_index", "gpu_instance")
}
_RENAMED_LEVELS = {"cabinet": "rack", "rack_id": "rack", "machine_room_id": "room", "room_id": "room"}
_NESTED_LEVELS = ("rack", "chassis", "blade")  # an inner level's number means something only inside its outer level
_SEAT_LEVELS = ("chassis", "slot")
_EVENT_LEVELS = ("rack_id", "machine_room_id", "room_id")


@dataclass
class Mapped:
    """Rows of a file, by table, and how many of its records were kept out for which reason."""

    rows: list[tuple[Table, pa.Table]] = field(default_factory=list)
    rejected: Counter[str] = field(default_factory=Counter)


def map_rows(kind: str, data: pa.Table, now: datetime) -> Mapped:
    """Turn records of a kind of file into rows; raises ConfigError where a needed column is missing."""
    data = data.rename_columns(
        [ALIASES.get(name, name) if ALIASES.get(name) not in data.column_names else name for name in data.column_names]
    )
    return _MAPPERS[kind](data, now)


def node_of(data: pa.Table) -> pa.ChunkedArray:
    """Give node names as text."""
    return data["node_id"].cast(pa.string())


def _map_telemetry(data: pa.Table, now: datetime) -> Mapped:
    """Canonical fields of GPUs go to gpu_samples, every other number to other_readings under its own name; a missing value makes no row."""
    mapped, data = _checked(data, now)
    device = _device(data)
    cells = {name: read_cells(data[name], _SAMPLE_FIELDS.get(name, "double")) for name in data.column_names if _means_number(data, name)}
    for name in set(data.column_names) - _KEYS - cells.keys():
        mapped.rejected[f"not_a_number:{name}"] += pc.sum(read_cells(data[name], "double").is_invalid).as_py() or 0
    for name, read in cells.items():
        mapped.rejected[f"not_a_number:{name}"] += read.count_invalid
    mapped.rejected = +mapped.rejected
    is_gpu = pc.is_valid(device)
    canonical = {name: Cells(*(part.filter(is_gpu) for part in read)) for name, read in cells.items() if name in _SAMPLE_FIELDS}
    if canonical and pc.any(is_gpu).as_py():
        columns = {name: read.values for name, read in canonical.items()} | {"quality": quality_of(canonical)}
        mapped.rows.append((GPU_SAMPLES, _rows(GPU_SAMPLES, data.filter(is_gpu), gpu_uuid=device.filter(is_gpu), tier="hot", **columns)))
    for name, read in cells.items():
        said = pc.or_(pc.is_valid(read.values), read.is_invalid)
        rest = said if name not in _SAMPLE_FIELDS else pc.and_(said, pc.invert(is_gpu))
        if pc.any(rest).as_py():
            code = pc.if_else(read.is_invalid, INVALID, pa.scalar(None, pa.string())).filter(rest)
            columns = {"device": device.filter(rest), "value": read.values.filter(rest), "quality": code}
            mapped.rows.append((OTHER_READINGS, _rows(OTHER_READINGS, data.filter(rest), name=name, **columns)))
    return mapped


def _means_number(data: pa.Table, name: str) -> bool:
    if name in _KEYS:
        return False
    return name in _SAMPLE_FIELDS or _is_number(data[name].type) or (pa.types.is_string(data[name].type) and is_mostly_numbers(data[name]))


def _map_events(data: pa.Table, now: datetime) -> Mapped:
    """Events keep their cause and text in `detail`; code and mode are guessed from them, and left empty where they say nothing."""
    mapped, data = _checked(data, now)
    data = _only(data, mapped, "kind", _KINDS)
    cause, detail = _text(data, "cause"), _text(data, "detail")
    text = pc.coalesce(pc.binary_join_element_wise(cause, detail, pa.scalar("; ")), cause, detail)
    code = code_of(text)
    mode = pc.coalesce(_text(data, "mode"), mode_of(code, text))
    device = _device(data)
    if any(name.startswith("r_") and name[2:].isdigit() for name in data.column_names):  # S.M.A.R.T. attributes: the device is a drive
        text, mode, device = pc.coalesce(text, data["device_id"].cast(pa.string())), _constant("ssd", data), _constant(None, data)
    mode = pc.if_else(pc.equal(data["kind"], "failure"), mode, pa.scalar(None, pa.string()))
    events = _rows(EVENTS, data, kind=data["kind"], gpu_uuid=device, code=code, mode=mode, detail=text)
    mapped.rows.append((EVENTS, events))
    levels = [name for name in _EVENT_LEVELS if name in data.column_names]
    if levels:
        first = data.group_by(["node_id", *levels]).aggregate([("ts", "min")]).rename_columns(["node_id", *levels, "ts"])
        mapped.rows += _domains(first, mapped)
    return mapped


def _map_inventory(data: pa.Table, now: datetime) -> Mapped:
    mapped, data = _checked(data, now)
    data = _only(data, mapped, "action", _ACTIONS)
    return _by_name(mapped, INVENTORY, data, gpu_uuid=_device(data))


def _map_topology(data: pa.Table, now: datetime) -> Mapped:
    mapped, data = _checked(data, now)
    mapped.rows += _domains(data, mapped)
    return mapped


def _domains(data: pa.Table, mapped: Mapped) -> list[tuple[Table, pa.Table]]:
    """Make every level a kind of domain; a nested level's domain is named by its whole path, and chassis and slot are the position.

    Where a node is in two domains of a kind at the same time nobody knows which is right: all of those are rejected.
    """
    levels = {_RENAMED_LEVELS.get(name, name): data[name].cast(pa.string()) for name in data.column_names if name not in _KEYS}
    nested = [name for name in _NESTED_LEVELS if name in levels]
    domains = {name: values for name, values in levels.items() if name not in nested and name != "slot"}
    domains |= {name: _path([levels[outer] for outer in nested[: place + 1]]) for place, name in enumerate(nested)}
    if "slot" in levels:
        domains["position"] = _path([levels[name] for name in _SEAT_LEVELS if name in levels])
    rows = []
    for kind, domain in domains.items():
        known = pc.is_valid(domain)
        places = _rows(TOPOLOGY, data.filter(known), kind=kind, domain=domain.filter(known))
        rows.append((TOPOLOGY, _kept(places, mapped, f"contradiction:{kind}", _agrees(places))))
    return rows


def _agrees(places: pa.Table) -> pa.ChunkedArray:
    """Say of each place whether it is the only one that its node has at its time."""
    with duckdb.connect() as connection:
        connection.register("places", places.append_column("row", pa.array(range(places.num_rows), pa.int64())))
        return connection.sql(_AGREES + _SAME).to_arrow_table()["agrees"]


def _map_jobs(data: pa.Table, now: datetime) -> Mapped:
    if "node_id" not in data.column_names:
        data = data.append_column("node_id", pa.array(["scheduler"] * data.num_rows))
    mapped, data = _checked(data, now)
    return _by_name(mapped, JOBS, data)


def _map_outcomes(data: pa.Table, now: datetime) -> Mapped:
    mapped, data = _checked(data, now)
    named = (
        {}
        if "outcome_id" in data.column_names
        else {"outcome_id": _path([node_of(data), data["ts"].cast(pa.string()), _text(data, "kind")])}
    )
    return _by_name(mapped, OUTCOMES, data, gpu_uuid=_device(data), **named)


_MAPPERS = {
    "telemetry": _map_telemetry,
    "events": _map_events,
    "inventory": _map_inventory,
    "topology": _map_topology,
    "jobs": _map_jobs,
    "outcomes": _map_outcomes,
}


def _checked(data: pa.Table, now: datetime) -> tuple[Mapped, pa.Table]:
    """Bring `ts` into the lake's time, and keep out rows without node, without a readable time, or from the future."""
    for name in ("node_id", "ts"):
        if name not in data.column_names:
            raise ConfigError(f"no column {name} (nor another name for it: {', '.join(sorted(ALIASES))})")
    mapped = Mapped()
    data = data.set_column(data.column_names.index("ts"), "ts", _time(data["ts"]))
    data = _kept(data, mapped, "no_node", pc.is_valid(data["node_id"]))
    data = _kept(data, mapped, "no_time", pc.is_valid(data["ts"]))
    data = _kept(data, mapped, "in_the_future", pc.less_equal(data["ts"], pa.scalar(now.astimezone(UTC), _US)))
    return mapped, data


def _kept(data: pa.Table, mapped: Mapped, reason: str, is_good: pa.ChunkedArray) -> pa.Table:
    kept = data.filter(pc.fill_null(is_good, False))
    if kept.num_rows < data.num_rows:
        mapped.rejected[reason] += data.num_rows - kept.num_rows
    return kept


def _only(data: pa.Table, mapped: Mapped, column: str, values: Iterable[str]) -> pa.Table:
    if column not in data.column_names:
        raise ConfigError(f"no column {column}")
    return _kept(data, mapped, f"unknown_{column}", pc.is_in(data[column].cast(pa.string()), pa.array(list(values))))


def _time(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Read times: timestamps (UTC where they name no zone), ISO 8601 text, or epoch seconds; null where that fails."""
    if pa.types.is_timestamp(values.type):
        zoned = values.cast(pa.timestamp("us")) if values.type.tz is None else values
        return pc.assume_timezone(zoned, "UTC") if values.type.tz is None else zoned.cast(_US)
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        connection.register("given", pa.table({"ts": values}))
        query = _EPOCH_SECONDS if _is_number(values.type) else _ISO_TEXT
        return connection.sql(query).to_arrow_table()["ts"].cast(_US)


def _device(data: pa.Table) -> pa.ChunkedArray:
    """Give device ids, null where the record is about the node itself."""
    if "device_id" not in data.column_names:
        return _constant(None, data)
    device = data["device_id"].cast(pa.string())
    return pc.if_else(pc.equal(device, node_of(data)), pa.scalar(None, pa.string()), device)


def _text(data: pa.Table, name: str) -> pa.ChunkedArray:
    return data[name].cast(pa.string()) if name in data.column_names else _constant(None, data)


def _path(parts: list[pa.ChunkedArray]) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(*parts, pa.scalar("/"))


def _constant(value: str | None, data: pa.Table) -> pa.ChunkedArray:
    return pa.chunked_array([pa.repeat(pa.scalar(value, pa.string()), data.num_rows)])


def _is_number(kind: pa.DataType) -> bool:
    checks = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    return any(check(kind) for check in checks)


def _by_name(mapped: Mapped, table: Table, data: pa.Table, **columns: pa.ChunkedArray) -> Mapped:
    """Take the columns that carry the names of the table's own; a list may be text with blanks, commas or semicolons."""
    schema = arrow_schema(table)
    for column in table.own_columns:
        if column.name not in columns and column.name in data.column_names and column.name not in ("node", "source"):
            values = data[column.name]
            if column.type == TIMESTAMP:
                values = _time(values)
            elif column.type in NUMBERS:
                read = read_cells(values, column.type)
                mapped.rejected[f"not_a_number:{column.name}"] += read.count_invalid
                values = read.values
            elif column.type == "list<string>" and not pa.types.is_list(values.type):
                values = pc.split_pattern_regex(values.cast(pa.string()), r"[\s,;]+")
            columns[column.name] = values.cast(schema.field(column.name).type)
    mapped.rows.append((table, _complete(_rows(table, data, **columns), table, mapped)))
    mapped.rejected = +mapped.rejected  # reasons that were met
    return mapped


def _complete(rows: pa.Table, table: Table, mapped: Mapped) -> pa.Table:
    """Keep out rows that lack what a row of the table must have; an unknown list is an empty one."""
    for column in [column for column in table.own_columns if not column.nullable]:
        if column.name in rows.column_names:
            given = rows[column.name]
        elif column.type == "list<string>":
            given = pa.nulls(rows.num_rows, pa.list_(pa.string()))
        else:
            raise ConfigError(f"no column {column.name}")
        if column.type == "list<string>":
            rows = rows.drop_columns(list({column.name} & {*rows.column_names}))
            rows = rows.append_column(column.name, pa.array([each or [] for each in given.to_pylist()], pa.list_(pa.string())))
        else:
            rows = _kept(rows, mapped, f"no_{column.name}", pc.is_valid(given))
    return rows


def _rows(table: Table, data: pa.Table, **columns: pa.ChunkedArray | str) -> pa.Table:
    schema = arrow_schema(table)
    given = {"node": node_of(data), "observed_at": data["ts"], "received_at": data["ts"], "source": "import", **columns}
    return pa.table(
        {
            name: (_constant(values, data) if isinstance(values, str) else values).cast(schema.field(name).type)
            for name, values in given.items()
        }
    )
