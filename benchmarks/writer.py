"""Bring samples into the lake from a full Kafka topic and from the spool of one machine; part by part, and against simpler forms.

Prints rows per second of one core's CPU time, from one run: the whole writer, its parts one after the other, conversion message by message,
and plain pyarrow with ready tables, which is what storing alone takes. Exits with 1 when a target is missed: 100 k rows/s from JSON
messages in a topic; 16,384 GPUs at 10 s within one core from spool to lake. `python benchmarks/writer.py POLLS`: polls of 64 nodes.
"""

from __future__ import annotations

import sys
import tempfile
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.rig.fleet import GPUS, Poll, messages_of, polls_of_fleet, table_of
from benchmarks.rig.kafka import kafka
from benchmarks.rig.process import own_cpu_s, rate, set_apart
from ingest.bus import DirectBus, Subscriber
from ingest.columns import CHUNK_ROWS, arrow_table
from ingest.errors import StreamsMoved
from ingest.kafka_bus import KafkaConnection, KafkaPublisher, KafkaSubscriber
from ingest.lake import Lake
from ingest.messages import decode
from ingest.rejects import FileRejects
from ingest.schema import GPU_SAMPLES
from ingest.spool import Spool, Spooled
from ingest.writer import Writer

NODES, POLLS = 64, 120
BATCH_ROWS = 60_000  # of the writer by default
FLEET_RATE = 16_384 / 10  # rows/s
TARGET_RATE = 100_000


def fill_topic(settings: KafkaConnection, messages: list[Spooled]) -> float:
    """Publish all messages as a pump does; give CPU microseconds per message."""
    publisher = KafkaPublisher(settings)
    cpu = own_cpu_s(lambda: [publisher.publish(messages[start : start + 500]) for start in range(0, len(messages), 500)])
    publisher.close()
    return cpu / len(messages) * 1e6


def read_topic(settings: KafkaConnection, count: int) -> None:
    """Read so many messages and do nothing with them."""
    subscriber = KafkaSubscriber(settings)
    subscriber.open()
    while count > 0:
        count -= len(_poll(subscriber))
    subscriber.close()


def _poll(subscriber: Subscriber) -> list[object]:
    try:
        return list(subscriber.poll(0.5))
    except StreamsMoved:  # the first polls say that partitions came
        subscriber.rewind()
        return []


def drain(subscriber: Subscriber, directory: Path, rows: int) -> None:
    """Write until all rows are in the lake."""
    writer = Writer(subscriber, Lake(directory / "lake"), FileRejects(directory / "rejects"), max_rows=BATCH_ROWS, max_age_s=5.0)
    while rows > 0:
        rows -= writer.run_once()
    writer.close()


def from_spool(polls: list[Poll], rows: int, directory: Path) -> tuple[float, float]:
    """Give the rates of the collector's half (encode, compress, spool) and of the writer's half (read, decode, convert, store)."""
    spool = Spool(directory / "spool")
    put = rate(rows, lambda: [spool.put(GPU_SAMPLES.name, node, samples) for node, samples in polls])
    wrote = rate(rows, lambda: drain(DirectBus(spool), directory, rows))
    spool.close()
    return put, wrote


def parts(messages: list[Spooled], ready: pa.Table, directory: Path) -> dict[str, Callable[[], object]]:
    """Name what the writer does after the bus, each part alone, and the forms to hold it against; all over the same rows."""
    decoded = [row for message in messages for row in decode(message.body).rows]
    chunks = [decoded[start : start + CHUNK_ROWS] for start in range(0, len(decoded), CHUNK_ROWS)]
    batches = [ready.slice(start, BATCH_ROWS) for start in range(0, len(ready), BATCH_ROWS)]
    lake = Lake(directory / "ready")
    set_apart()
    return {
        "  decode JSON into typed rows": lambda: deque((decode(message.body) for message in messages), maxlen=0),
        "  rows to Arrow columns": lambda: [arrow_table(GPU_SAMPLES, chunk) for chunk in chunks],
        "  append to the Delta table": lambda: [lake.append(GPU_SAMPLES, batch) for batch in batches],
        "plain pyarrow, ready tables": lambda: [pq.write_table(batch, directory / f"{n}.parquet") for n, batch in enumerate(batches)],
    }


def message_wise(messages: list[Spooled]) -> None:
    """Convert each message by itself, as a writer without batches would."""
    for message in messages:
        arrow_table(GPU_SAMPLES, decode(message.body).rows)


def main() -> int:
    """Measure, print, judge."""
    polls = polls_of_fleet(NODES, int(sys.argv[1]) if len(sys.argv) > 1 else POLLS)
    messages, ready, rows = messages_of(polls), table_of(polls), len(polls) * GPUS
    set_apart()
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        from_spool(polls[:NODES], NODES * GPUS, directory / "warm")  # a writer runs for months: what it loads at its start is not its rate
        with kafka(directory / "kafka") as broker:
            publish_us = fill_topic(broker.settings, messages)
            bare = replace(broker.settings, group="reads-only")
            read = rate(rows, lambda: read_topic(bare, len(messages)))
            whole = rate(rows, lambda: drain(KafkaSubscriber(broker.settings), directory / "topic", rows))
        single = rate(rows // 10, lambda: message_wise(messages[: len(messages) // 10]))
        rates = {name: rate(rows, act) for name, act in parts(messages, ready, directory).items()}
        put, wrote = from_spool(polls, rows, directory / "one")
    share = FLEET_RATE / put + FLEET_RATE / wrote
    print(f"{rows:,} rows in {len(messages):,} messages of {len(messages[0].body)} B; rows per second of CPU time")
    print(f"topic to lake, the whole writer  {whole:10,.0f}   (published with {publish_us:.0f} us a message)")
    for name, found in {"  read the topic": read, **rates}.items():
        print(f"{name:<32} {found:10,.0f}   {whole / found:6.1%} of the writer's time")
    print(f"{'message by message, convert only':<32} {single:10,.0f}   the writer is {whole / single:.1f} times as fast")
    print(f"one machine: spool {put:,.0f} rows/s, spool to lake {wrote:,.0f}: 16,384 GPUs at 10 s take {share:.1%} of a core")
    missed = [name for name, is_met in (("100 k rows/s", whole >= TARGET_RATE), ("one core", share < 1)) if not is_met]
    print("missed: " + ", ".join(missed) if missed else "all targets met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
