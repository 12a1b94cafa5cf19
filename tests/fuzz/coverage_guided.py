"""Fuzzing that the coverage of the code guides: `python tests/fuzz/coverage_guided.py PARSER [libFuzzer options]`, as `make fuzz` runs it.

Parsers: exporter, kernel-log, sse, report, message. Needs atheris, which `make fuzz` installs. It starts from the cases of the tests; an
input that breaks a promise is left behind as `crash-<hash>`: make it a plain test.
"""

import sys
import tempfile
from pathlib import Path

import atheris

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "cases"
sys.path.insert(0, str(ROOT))
with atheris.instrument_imports(include=["ingest"]):
    from ingest.exporter.node import ExporterNode
    from ingest.kernel_log.node import Boot, KernelLogNode
    from ingest.redfish.sse import SseParser
    from ingest.schema import GpuSample, LinkSample
    from tests.fuzz import test_fuzz_exporter, test_fuzz_messages, test_fuzz_redfish

NOW_NS = 1_790_000_000 * 10**9


def pages(data: bytes) -> None:
    """Scrape the input as up to three pages of one node."""
    node = ExporterNode("n1")
    for scrape, body in enumerate(data.split(b"\f")[:3]):
        for record in node.scraped(body, 200, NOW_NS + scrape * 30 * 10**9):
            if isinstance(record, GpuSample | LinkSample):
                test_fuzz_exporter.check(record)


def log_lines(data: bytes) -> None:
    """Feed the input as lines of one kernel log."""
    node = KernelLogNode("n1", boot=Boot(id="b", at_ns=NOW_NS - 10**12))
    lines = data.decode(errors="replace").split("\n")
    for line in lines:
        node.feed(line, NOW_NS)
    node.flush()
    assert node.outcomes.total() == len(lines)


def stream(data: bytes) -> None:
    """Parse the input whole and in pieces of seven bytes: the same events, each of them read or rejected."""
    whole, cut = SseParser(), SseParser()
    events = list(whole.feed(data))
    assert [event for at in range(0, len(data), 7) for event in cut.feed(data[at : at + 7])] == events
    for event in events:
        test_fuzz_redfish.take(event.data)


PARSERS = {
    "exporter": (pages, "exporter/**/*.prom"),
    "kernel-log": (log_lines, "kernel_log/*.log"),
    "sse": (stream, "redfish/*.sse"),
    "report": (test_fuzz_redfish.take, "redfish/[23]*.json"),
    "message": (test_fuzz_messages.take, None),
}


def plant(folder: Path, seeds: str | None) -> None:
    """Write what the fuzzer starts from."""
    bodies = [path.read_bytes() for path in sorted(CASES.glob(seeds))] if seeds else test_fuzz_messages.BODIES
    for number, body in enumerate(bodies):
        (folder / f"seed-{number}").write_bytes(body)


if __name__ == "__main__":
    target, seeds = PARSERS[sys.argv.pop(1)]
    corpus = Path(tempfile.mkdtemp(prefix="forewarn-fuzz-"))
    plant(corpus, seeds)
    atheris.Setup([*sys.argv, str(corpus)], target)
    atheris.Fuzz()
