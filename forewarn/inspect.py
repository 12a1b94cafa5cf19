"""Show what the collector would make of recorded inputs: exactly its records, one JSON object a line, then what it counted.

Each line names its `file` and `table`. A field that has a quality code stands in the line as null unless its raw value was kept. A page
named `t0030.prom` was scraped at second 30; other names follow each other by half a minute.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ingest.clock import NS
from ingest.exporter.node import OK, ExporterNode
from ingest.kernel_log.node import Boot, KernelLogNode
from ingest.schema import TABLE_OF_RECORD, Observed

_SCRAPED_AT = re.compile(r"t(\d+)$")
_INTERVAL_S = 30


def exporter_pages(
    pages: Sequence[Path], *, statuses: Sequence[int] = (), node: str = "inspected", catalogue: Path | None = None
) -> Iterator[dict[str, Any]]:
    """Take recorded pages as scrapes of one node; `statuses` are the HTTP statuses of the last pages, those before were 200."""
    exporter = ExporterNode(node, catalogue=catalogue)
    all_statuses = [*[OK] * (len(pages) - len(statuses)), *statuses]
    for number, (page, status) in enumerate(zip(pages, all_statuses, strict=True)):
        at_ns = _scraped_at_s(page, number) * NS
        yield from _lines(page, exporter.scraped(page.read_bytes(), status, at_ns))
        yield {
            "file": page.name,
            "table": "counters",
            "parse_errors": exporter.page.rejected.total(),
            "rejected": dict(exporter.page.rejected),
            "unknown": dict(exporter.unknown),
            "conflicts": exporter.conflicts,
            "truncated": int(exporter.page.is_truncated),
        }


def kernel_logs(
    logs: Sequence[Path], *, now_ns: int, boot: Boot | None = None, node: str = "inspected", catalogue: Path | None = None
) -> Iterator[dict[str, Any]]:
    """Take recorded kernel logs as those of one node; `boot` dates stamps that count from boot, `now_ns` those without a year."""
    kernel = KernelLogNode(node, boot=boot, catalogue=catalogue)
    for log in logs:
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
        for line in filter(None, lines):
            yield from _lines(log, kernel.feed(line, now_ns))
        yield from _lines(log, kernel.flush())
        yield {"file": log.name, "table": "counters", "lines": dict(kernel.outcomes)}
        kernel.outcomes.clear()


def _scraped_at_s(page: Path, number: int) -> int:
    told = _SCRAPED_AT.search(page.stem)
    return int(told[1]) if told else number * _INTERVAL_S


def _lines(file: Path, records: Iterable[Observed]) -> Iterator[dict[str, Any]]:
    for record in records:
        fields = msgspec.to_builtins(record)
        missing = {name: None for name in fields.get("quality") or () if name in record.__struct_fields__ and name not in fields}
        yield {"file": file.name, "table": TABLE_OF_RECORD[type(record)], **fields, **missing}
