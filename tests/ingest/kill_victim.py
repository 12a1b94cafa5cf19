"""A process that is made to be killed: told over standard input, it forks children that collect or write until somebody ends them.

Run as: kill_victim.py DIRECTORY [BOOTSTRAP PREFIX]. A line `direct`, `collect` or `write` starts a child of that kind and answers its pid.
A collecting child spools numbered rows and writes each number into `acknowledged` after the spool has taken it.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from pathlib import Path

from ingest.bus import DirectBus
from ingest.kafka_bus import KafkaConnection, KafkaPublisher, KafkaSubscriber
from ingest.lake import Lake
from ingest.pump import Pump
from ingest.rejects import FileRejects
from ingest.schema import Event, GpuSample
from ingest.spool import Spool
from ingest.writer import Writer

DAY = 1_750_000_000_000_000_000
FOR_EVER = threading.Event()


def spool_numbered_rows(spool: Spool, directory: Path) -> None:
    """Put rows that carry a number of their own, and note each number that was taken."""
    acknowledged = os.open(directory / "acknowledged", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    first = int.from_bytes(os.urandom(5)) << 20  # a process id comes again after some thousand kills
    for count in itertools.count():
        number = first + count
        node = f"n{count % 3}"
        common = {"node": node, "observed_at_ns": DAY + count, "received_at_ns": DAY, "source": "test"}
        if count % 2:
            spool.put("events", node, [Event(kind="xid", code=number, **common)])
        else:
            spool.put("gpu_samples", node, [GpuSample(gpu_uuid="g", tier="hot", energy_mj_total=number, **common)])
        os.write(acknowledged, f"{number}\n".encode())
        time.sleep(0.0005)


def write(writer: Writer) -> None:
    """Write for ever."""
    writer.run(FOR_EVER)


def direct(directory: Path) -> None:
    """Collect and write in one process."""
    spool = Spool(directory / "spool", segment_bytes=8192)
    writer = Writer(DirectBus(spool), Lake(directory / "lake"), FileRejects(directory / "rejects"), max_age_s=0.05, urgent_age_s=0.02)
    threading.Thread(target=write, args=(writer,), daemon=True).start()
    spool_numbered_rows(spool, directory)


def collect(directory: Path, bootstrap: str, prefix: str) -> None:
    """Collect into Kafka."""
    spool = Spool(directory / "spool", segment_bytes=8192)
    Pump(spool, KafkaPublisher(KafkaConnection(bootstrap=bootstrap, prefix=prefix))).start()
    spool_numbered_rows(spool, directory)


def write_from_kafka(directory: Path, bootstrap: str, prefix: str) -> None:
    """Write what Kafka has."""
    connection = KafkaConnection(bootstrap=bootstrap, prefix=prefix, group=prefix, session_timeout_s=1.0)
    subscriber = KafkaSubscriber(connection, tables=("events", "gpu_samples"))
    write(Writer(subscriber, Lake(directory / "lake"), FileRejects(directory / "rejects"), max_age_s=0.05, urgent_age_s=0.02))


def main() -> None:
    """Start children as told."""
    directory = Path(sys.argv[1])
    kinds = {"direct": direct, "collect": collect, "write": write_from_kafka}
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            log = os.open(directory / f"{line.strip()}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(log, 1)
            os.dup2(log, 2)
            kinds[line.strip()](directory, *sys.argv[2:])
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
        os.waitpid(child, 0)
        sys.stdout.write("ended\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
