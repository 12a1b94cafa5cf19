"""Read a dcgm-exporter page line by line: every line that can be read is kept, every other is counted, no page is ever lost.

Grammar of a line: name, optional `{labels}`, value, optional timestamp in ms. The text before the value is the key of a bounded cache
of series, so labels are parsed once per series; values are read through a cache too, since most do not change from page to page. A
body without a final newline was cut: its last line is dropped. HELP and TYPE decide nothing and are passed over.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice

from ingest.errors import RecordRejected
from ingest.exporter.fields import FIELD_OF_NAME, Field
from ingest.exporter.value import Value, read_value
from ingest.pci import pci_address

_NAME = re.compile(rb"[ \t]*([a-zA-Z_:][a-zA-Z0-9_:]*)[ \t]*")
_LABEL = re.compile(rb'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*', re.DOTALL)
_END_OF_LABELS = re.compile(rb"[ \t]*\}")
_ESCAPE = re.compile(r'\\([\\n"])')
_COMMENT = ord("#")
_SPARE = 500  # series that are kept whatever the page
_LONGEST_SERIES, _LONGEST_VALUE = 4096, 64  # bytes of what is kept: real series have 300
_MOST_STAMP_DIGITS = 20


@dataclass(frozen=True, kw_only=True)
class GpuLabels:
    """What the labels say about a GPU: attributes of the page, not identity, apart from the UUID."""

    gpu_uuid: str
    gpu_index: int | None = None
    pci: str | None = None
    model: str | None = None
    driver_version: str | None = None
    serial: str | None = None
    host: tuple[str, str] | None = None  # label and value: the exporter's own name, of which even the label's spelling changed
    in_pod: bool = False


class Series:
    """One series of a page, resolved: field of the table, GPU, and where it has one its MIG instance, link, XID and pod."""

    __slots__ = ("field", "gpu", "instance", "link", "message", "name", "pod", "xid")

    def __init__(self, name: str, labels: dict[str, str]) -> None:
        self.name = name
        self.field: Field | None = FIELD_OF_NAME.get(name)
        self.gpu = _gpu_labels(labels)
        self.instance = _whole_number(labels.get("GPU_I_ID"))
        self.link = _whole_number(labels.get("nvlink"))
        self.xid = _whole_number(labels.get("xid"))
        self.message = labels.get("err_msg")
        self.pod = _pod(labels)


@dataclass
class Page:
    """What a body held: samples in order, explicit timestamps, and how many lines were rejected for which reason."""

    samples: list[tuple[Series, Value]] = field(default_factory=list)
    stamps_ms: dict[str, list[int]] = field(default_factory=dict)
    rejected: Counter[str] = field(default_factory=Counter)
    is_truncated: bool = False


class PageParser:
    """Turn bodies into pages; one parser per target keeps the series of that target."""

    def __init__(self, max_series: int = 20_000, max_values: int = 20_000) -> None:
        self._series: dict[bytes, Series] = {}
        self._values: dict[bytes, Value] = {}
        self._gpus: dict[GpuLabels, GpuLabels] = {}
        self._max_series = max_series
        self._max_values = max_values

    @property
    def cached_series(self) -> int:
        """Count the series in the cache; never above the bound."""
        return len(self._series)

    @property
    def cached_values(self) -> int:
        """Count the values in the cache; never above the bound."""
        return len(self._values)

    def parse(self, body: bytes) -> Page:
        """Read a whole body; raises nothing."""
        *lines, rest = body.split(b"\n")
        page = Page(is_truncated=bool(rest))
        # Built-ins over whole lists, not a loop over lines: half the time of a page.
        parts = [line.rpartition(b" ") for line in lines if line and line[0] != _COMMENT]
        texts = {text for _, _, text in parts}
        self._learn_values(texts)
        series_of, value_of = self._series.get, self._values.get
        found = [(series_of(prefix), value_of(text)) for prefix, _, text in parts]
        page.samples = [pair for pair in found if pair[0] is not None and pair[1] is not None]  # type: ignore[misc]
        if len(page.samples) < len(found):
            page.samples = []
            for (series, value), part in zip(found, parts, strict=True):
                if series is None or value is None:
                    self._read(b"".join(part), page)
                else:
                    page.samples.append((series, value))
        self._forget(len(page.samples), texts)
        return page

    def _forget(self, samples: int, texts: set[bytes]) -> None:
        """Keep no more than twice what a page says: labels come and go, and counters never show a value twice."""
        if samples and len(self._series) > 2 * samples + _SPARE:
            self._series.clear()
            self._gpus.clear()
        if len(self._values) > 2 * len(texts) > 0:
            self._values = {text: self._values[text] for text in texts if text in self._values}

    def _learn_values(self, texts: set[bytes]) -> None:
        """Read the values that the page before did not have; what is none is left to the reading of its line, which says why."""
        unknown = texts.difference(self._values)
        if len(self._values) + len(unknown) > self._max_values:
            self._values.clear()
            unknown = texts
        for text in islice(unknown, self._max_values):
            if len(text) > _LONGEST_VALUE:
                continue
            try:
                self._values[text] = read_value(text)
            except RecordRejected:
                continue

    def _read(self, line: bytes, page: Page) -> None:
        """Read a line that the caches do not hold."""
        line = line.strip(b" \t\r") if line[-1:] == b"\r" or line[:1] in b" \t" else line
        if not line.strip() or line[0] == _COMMENT:
            return
        try:
            series, rest = self._series_of(line)
        except RecordRejected as rejected:
            page.rejected[rejected.reason] += 1
            return
        words = rest.partition(b" # ")[0].split() or [b""]
        try:
            value = self._value_of(words[0])
            stamp_ms = _stamp_ms(words[1:])
        except RecordRejected as rejected:
            page.rejected[rejected.reason] += 1
            value, stamp_ms = "blank", None
        page.samples.append((series, value))
        if stamp_ms is not None and series.gpu:
            page.stamps_ms.setdefault(series.gpu.gpu_uuid, []).append(stamp_ms)

    def _series_of(self, line: bytes) -> tuple[Series, bytes]:
        prefix = line.rpartition(b" ")[0]
        for known in (prefix, prefix.rpartition(b" ")[0]):  # without and with a timestamp
            if known in self._series and line[len(known) :].lstrip()[:1] != b"{":  # a bare name before labels is another series
                return self._series[known], line[len(known) :]
        name, labels, end = read_series(line)
        series = Series(name, labels)
        if series.gpu:
            series.gpu = self._gpus.setdefault(series.gpu, series.gpu)
        if len(self._series) >= self._max_series:
            self._series.clear()
            self._gpus.clear()
        if end <= _LONGEST_SERIES:
            self._series[line[:end]] = series
        return series, line[end:]

    def _value_of(self, text: bytes) -> Value:
        known = self._values.get(text)
        return read_value(text) if known is None else known


def read_series(line: bytes) -> tuple[str, dict[str, str], int]:
    """Read name and labels of a line and tell where they end; raises RecordRejected with reason `bad_line` or `bad_labels`."""
    match = _NAME.match(line)
    if match is None:
        raise RecordRejected("bad_line")
    name, end = match[1].decode(), match.end()
    labels: dict[str, str] = {}
    end = _read_labels(line, end + 1, labels) if line[end : end + 1] == b"{" else match.end(1)
    if line[end : end + 1] not in (b" ", b"\t", b"") and not labels:
        raise RecordRejected("bad_line")
    return name, labels, end


def _read_labels(line: bytes, at: int, labels: dict[str, str]) -> int:
    while (label := _LABEL.match(line, at)) is not None:
        labels[label[1].decode()] = _unescape(label[2].decode(errors="replace"))
        at = label.end()
        if line[at : at + 1] != b",":
            break
        at += 1
    closed = _END_OF_LABELS.match(line, at)
    if closed is None:
        raise RecordRejected("bad_labels")
    return closed.end()


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda escaped: "\n" if escaped[1] == "n" else escaped[1], text) if "\\" in text else text


def _stamp_ms(words: list[bytes]) -> int | None:
    if not words:
        return None
    if len(words[0]) > _MOST_STAMP_DIGITS:
        raise RecordRejected("bad_timestamp")
    try:
        return int(words[0])
    except ValueError:
        raise RecordRejected("bad_timestamp") from None


def _whole_number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and text.isascii() and len(text) < 10 else None


def _pod(labels: dict[str, str]) -> str | None:
    """Name the pod of a series, `namespace/pod/container`: a pod on the GPU, and no part of what the value is about."""
    names = [labels.get(name) or labels.get(f"{name}_name", "") for name in ("namespace", "pod", "container")]
    names[0] = names[0] or labels.get("pod_namespace", "")
    return "/".join(names) if names[1] else None


def _gpu_labels(labels: dict[str, str]) -> GpuLabels | None:
    """Find the GPU of a series: NVLink series carry `gpu_uuid` and `model_name`, the old namespace `uuid`."""
    uuid = labels.get("UUID") or labels.get("gpu_uuid") or labels.get("uuid")
    if not uuid or not uuid.startswith("GPU-"):
        return None
    return GpuLabels(
        gpu_uuid=uuid,
        gpu_index=_whole_number(labels.get("gpu")),
        pci=pci_address(labels.get("pci_bus_id", "")),
        model=labels.get("modelName") or labels.get("model_name"),
        driver_version=labels.get("DCGM_FI_DRIVER_VERSION"),
        serial=labels.get("DCGM_FI_DEV_SERIAL") or labels.get("DCGM_FI_DEV_BOARD_SERIAL"),
        host=next(((label, labels[label]) for label in ("hostname", "Hostname") if label in labels), None),
        in_pod=_pod(labels) is not None,
    )
