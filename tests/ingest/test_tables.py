"""A table is declared once, as a record; its columns, types and units follow from the annotations."""

from __future__ import annotations

from typing import Annotated

import pyarrow as pa
import pytest

from ingest.lake import arrow_schema
from ingest.lake_encodings import writer_properties
from ingest.schema import GPU_SAMPLES, QUALITY, TABLE_OF_RECORD, TABLES
from ingest.tables import Column, Means, Record, table_of


class Reading(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A record with one field of each kind."""

    node: Annotated[str, Means("name")]
    observed_at_ns: Annotated[int, Means("event time", "UTC")]
    as_of_ns: Annotated[int | None, Means("landmark", "UTC")] = None
    count: Annotated[int | None, Means("how many", "count")] = None
    level: Annotated[float | None, Means("how high", "m")] = None
    is_wet: Annotated[bool | None, Means("claim")] = None
    notes: Annotated[dict[str, str] | None, Means("by name")] = None
    depths: Annotated[dict[str, float] | None, Means("by name")] = None
    parts: Annotated[tuple[str, ...], Means("names")] = ()


def test_columns_follow_from_the_annotations() -> None:
    """Timestamps lose their suffix, unions with None are nullable, unit and meaning come along; the writer's columns stand last."""
    table = table_of(Reading, "readings", "Readings.", ("node",))
    assert table.own_columns == (
        Column("node", "string", "", "name", nullable=False),
        Column("observed_at", "timestamp", "UTC", "event time", nullable=False),
        Column("as_of", "timestamp", "UTC", "landmark"),
        Column("count", "int64", "count", "how many"),
        Column("level", "double", "m", "how high"),
        Column("is_wet", "bool", "", "claim"),
        Column("notes", "map<string,string>", "", "by name"),
        Column("depths", "map<string,double>", "", "by name"),
        Column("parts", "list<string>", "", "names", nullable=False),
    )
    assert table.names[-3:] == ("origin", "seq", "date")
    assert [column.field for column in table.own_columns][1:4] == ["observed_at_ns", "as_of_ns", "count"]


def test_a_field_without_unit_and_meaning_is_a_bug() -> None:
    """Nobody adds a column that the documentation cannot print."""

    class Silent(Record, frozen=True, kw_only=True):
        """A record with a bare field."""

        node: str

    with pytest.raises(AssertionError, match="BUG: field node has no unit and meaning"):
        table_of(Silent, "silent", "", ())


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_table_can_be_stored_and_sorted(table: object) -> None:
    """Types have a place in Arrow, the order names columns that exist, every meaning is said."""
    schema = arrow_schema(table)
    assert schema.names == list(table.names)
    assert set(table.sort_by) <= set(table.names)
    assert table.time in table.names
    assert all(column.meaning for column in table.columns)
    assert writer_properties(table).column_properties is not None


def test_every_record_has_one_table() -> None:
    """A record's class tells its table."""
    assert sorted(TABLE_OF_RECORD.values()) == sorted(TABLES)


def test_counters_are_whole_numbers_and_quantities_name_their_unit() -> None:
    """Counters are int64; a suffix of a name and the unit of its column agree."""
    units = {"_c": "°C", "_w": "W", "_mhz": "MHz", "_us": "us", "_mj_total": "mJ", "_ns_total": "ns"}
    for column in GPU_SAMPLES.own_columns:
        if column.name.endswith("_total"):
            assert column.type == "int64", column.name
        for suffix, unit in units.items():
            if column.name.endswith(suffix):
                assert column.unit == unit, column.name


def test_samples_know_their_quality_by_field() -> None:
    """The map of codes is a map in the lake; the codes have a meaning each."""
    assert arrow_schema(GPU_SAMPLES).field("quality").type == pa.map_(pa.string(), pa.string())
    assert all(QUALITY.values())
