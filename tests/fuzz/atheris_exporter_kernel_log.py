"""Coverage-guided fuzzing of the text parsers: `python tests/fuzz/atheris_exporter_kernel_log.py exporter|kernel-log [libFuzzer options]`.

Needs `pip install atheris`, which is no dependency of the project. A crash leaves its input behind as `crash-<hash>`; make it a plain test.
"""

import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[2]))
with atheris.instrument_imports(include=["ingest"]):
    from ingest.exporter_node import ExporterNode
    from ingest.kernel_log_node import Boot, KernelLogNode

NOW_NS = 1_790_000_000 * 10**9


def pages(data: bytes) -> None:
    """Scrape the input as up to three pages of one node."""
    node = ExporterNode("n1")
    for scrape, body in enumerate(data.split(b"\f")[:3]):
        node.scraped(body, 200, NOW_NS + scrape * 30 * 10**9)


def log_lines(data: bytes) -> None:
    """Feed the input as lines of one kernel log."""
    node = KernelLogNode("n1", boot=Boot(id="b", at_ns=NOW_NS - 10**12))
    for line in data.decode(errors="replace").split("\n"):
        node.feed(line, NOW_NS)
    node.flush()


if __name__ == "__main__":
    target = {"exporter": pages, "kernel-log": log_lines}[sys.argv.pop(1)]
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()
