"""Tell what a row of each frequent table costs on its way: in the spool, on the wire, in the writer, in the lake.

Rows are those of an emulated fleet, grouped into messages as a collector does. Prints bytes per row as JSON, compressed message by message
(the most that a topic takes), and in the lake after compaction, and the CPU microseconds per row of encoding and of writing; sizes of an
installation follow from them (docs/sizing.md). There is no target and no peer.
"""

from __future__ import annotations

import tempfile
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import zstandard

from benchmarks.rig.process import own_cpu_s
from emulators.history_chassis import chassis_readings
from emulators.history_samples import SampleHistory
from emulators.layout import DAY_NS, WorldSpec
from emulators.world import World
from ingest.columns import CHUNK_ROWS, arrow_table
from ingest.lake import Lake
from ingest.lake_care import compact, measure
from ingest.messages import VERSION, Message, decode, encode, group
from ingest.schema import CHASSIS_READINGS, GPU_SAMPLES, LINK_SAMPLES, Observed
from ingest.tables import TIMESTAMP, Record, Table

NODES = 16


def histories() -> dict[Table, pa.Table]:
    """Make a day of each table."""
    world = World(WorldSpec.show(seed=9, nodes=NODES, days=1))
    start_ns, end_ns = world.spec.start_ns, world.spec.start_ns + DAY_NS
    samples = SampleHistory(world)
    return {
        GPU_SAMPLES: pa.concat_tables(samples.gpu_samples(start_ns, end_ns), promote_options="permissive"),
        LINK_SAMPLES: samples.link_samples(start_ns, end_ns),
        CHASSIS_READINGS: chassis_readings(world, start_ns, end_ns),
    }


def record(table: Table, row: dict[str, Any]) -> Record:
    """Turn a stored row back into the record that it was."""
    assert table.record is not None
    given = {column: row[column.name] for column in table.own_columns if row.get(column.name) is not None}
    return table.record(**{column.field: _field(column.type, value) for column, value in given.items()})


def _field(kind: str, value: Any) -> Any:
    if kind == TIMESTAMP:
        return int(value.timestamp() * 1e6) * 1000
    return dict(value) if kind.startswith("map") else value


def messages(table: Table, rows: pa.Table) -> list[Message]:
    """Group rows into messages of one node and poll."""
    ordered = sorted(rows.to_pylist(), key=lambda row: (row["observed_at"], row["node"]))
    polls: dict[tuple[str, datetime], list[Observed]] = {}
    for row in ordered:
        polls.setdefault((row["node"], row["observed_at"]), []).append(record(table, row))  # type: ignore[arg-type]
    made = [grouped for poll in polls.values() for grouped in group(poll)]
    return [
        Message(v=VERSION, table=name, node=node, origin="0" * 26, seq=seq, rows=tuple(found))
        for seq, (name, node, found) in enumerate(made)
    ]


def report(table: Table, rows: pa.Table, today: date) -> str:
    """Measure one table."""
    sent = messages(table, rows)
    bodies: list[bytes] = []
    encoding_s = own_cpu_s(lambda: bodies.extend(map(encode, sent)))
    compress = zstandard.ZstdCompressor().compress
    packed = sum(len(compress(body)) for body in bodies)
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake(folder)

        def write() -> None:
            found = [row for body in bodies for row in decode(body).rows]
            chunks = [arrow_table(table, found[start : start + CHUNK_ROWS]) for start in range(0, len(found), CHUNK_ROWS)]
            for chunk in chunks[:1], chunks[1:]:  # two commits, so that there is something to compact
                lake.append(table, pa.concat_tables(chunk))

        writing_s = own_cpu_s(write)
        compact(lake, table, today=today)
        stats = measure(lake, table)
    assert stats is not None
    count = len(rows)
    return (
        f"{table.name:<18}{count:>9,}{count / len(sent):>8.0f}{sum(map(len, bodies)) / count:>8.0f}{packed / count:>8.1f}"
        f"{stats.size_bytes / stats.rows:>8.1f}{encoding_s / count * 1e6:>10.1f}{writing_s / count * 1e6:>10.1f}"
    )


def main() -> None:
    """Measure and print."""
    print(f"{'table':<18}{'rows':>9}{'a msg':>8}{'JSON B':>8}{'zstd B':>8}{'lake B':>8}{'encode us':>10}{'write us':>10}   a row")
    for table, rows in histories().items():
        print(report(table, rows, datetime.now(UTC).date()))


if __name__ == "__main__":
    main()
