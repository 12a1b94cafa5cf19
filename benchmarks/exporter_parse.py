"""Parse an exporter page of 480 samples, against prometheus_client and against the bare conversion of its numbers.

Prints milliseconds per page and ratios of one run; exits with 1 when a target of docs/performance is missed: 60 times as fast as
prometheus_client on a warm cache, no slower than twice its time on a cold one, 24 thousand samples/s within 15 % of a core.
"""

from __future__ import annotations

import gzip
import random
import sys
import time
from collections.abc import Callable

from prometheus_client.parser import text_string_to_metric_families

from ingest.clock import NS
from ingest.exporter.fields import FIELDS
from ingest.exporter.node import ExporterNode
from ingest.exporter.text import PageParser
from ingest.messages import Message, encode, group

FAMILIES = [field for field in FIELDS.values() if field.is_ours and field.type != "label"][:60]
GPUS = 8
LABELS = (
    'gpu="{n}",UUID="GPU-0a1b2c3{n}-1111-4222-8333-44445555666{n}",pci_bus_id="00000000:{n}8:00.0",device="nvidia{n}",'
    'modelName="NVIDIA H100 80GB HBM3",hostname="gpu-node-17",DCGM_FI_DRIVER_VERSION="580.105.08"'
)


def page(rng: random.Random) -> bytes:
    """Print a page whose values are a realistic mix: zeros, small integers, large counters, doubles."""
    lines = []
    for family in FAMILIES:
        lines += (f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.type}")
        for n in range(GPUS):
            value = rng.choice(("0", "0", "0", "1", str(rng.randrange(10**12)), f"{rng.uniform(0, 700):f}"))
            lines.append(f"{family.name}{{{LABELS.format(n=n)}}} {value}")
    return "\n".join((*lines, "")).encode()


def ms_per_call(call: Callable[[bytes], object], pages: list[bytes], calls: int) -> float:
    """Time calls over the pages in turn, in CPU time; the best of three rounds."""
    rounds = []
    for _ in range(3):
        began = time.process_time()
        for number in range(calls):
            call(pages[number % len(pages)])
        rounds.append((time.process_time() - began) / calls * 1e3)
    return min(rounds)


def numbers_of(body: bytes) -> list[float]:
    """Convert the last word of every sample, which is the least that anybody must do."""
    return [float(line.rpartition(b" ")[2]) for line in body.split(b"\n") if line and line[:1] != b"#"]


class Scrape:
    """What a scrape costs beyond the socket: unpack, parse, judge, make rows and write them as messages."""

    def __init__(self) -> None:
        self.node = ExporterNode("gpu-node-17")
        self.at_s = 1_790_000_000

    def __call__(self, packed: bytes) -> None:
        """Take one packed page."""
        self.at_s += 10
        records = self.node.scraped(gzip.decompress(packed), 200, self.at_s * NS)
        for table, node, rows in group(records):
            encode(Message(v="1.0", table=table, node=node, origin="benchmark", seq=1, rows=tuple(rows)))


def main() -> int:
    """Measure, print, judge."""
    rng = random.Random(1)
    pages = [page(rng) for _ in range(20)]
    packed = [gzip.compress(body, 1) for body in pages]
    parser = PageParser()
    parser.parse(pages[0])
    theirs = ms_per_call(lambda body: list(text_string_to_metric_families(body.decode())), pages, 20)
    warm = ms_per_call(parser.parse, pages, 400)
    cold = ms_per_call(lambda body: PageParser().parse(body), pages, 20)
    floats = ms_per_call(numbers_of, pages, 400)
    scrape = ms_per_call(Scrape(), packed, 200)
    core = scrape / 1e3 * 24_000 / (len(FAMILIES) * GPUS)
    print(f"page of {len(FAMILIES) * GPUS} samples, {len(pages[0]) / 1e3:.0f} kB, values change from page to page")
    print(f"prometheus_client          {theirs:8.3f} ms")
    print(f"forewarn, warm cache       {warm:8.3f} ms   {theirs / warm:6.1f} x faster")
    print(f"forewarn, cold cache       {cold:8.3f} ms   {cold / theirs:6.2f} of its time")
    print(f"float() of the values      {floats:8.3f} ms   {warm / floats:6.2f} of it is the warm parse")
    print(f"gunzip, rows, messages     {scrape:8.3f} ms   {core:6.1%} of a core at 24,000 samples/s")
    return 0 if theirs / warm >= 60 and cold <= 2 * theirs and core <= 0.15 else 1


if __name__ == "__main__":
    sys.exit(main())
