"""Decode a MetricReport into chassis readings: every value becomes a row or a counted rejection, none is lost silently.

All that a report must have is a `MetricValues` list; each value is read on its own, so that a bad one costs nothing but itself.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite

import msgspec

from ingest.errors import RecordRejected
from ingest.redfish.dell import join_halves
from ingest.redfish.identity import Series, dell_context, series_of
from ingest.redfish.sensors import SensorFacts
from ingest.redfish.signal import Signal
from ingest.redfish.signals import signal_of
from ingest.redfish.throttle import throttle_readings
from ingest.redfish.times import EventTime, find_time
from ingest.redfish.values import ABSENT, Value, read_value
from ingest.schema import ChassisReading

Body = Mapping[str, object]


@dataclass(frozen=True)
class Machine:
    """What is known about a BMC's machine beside its reports: the node, GPU UUIDs by device name, facts of sensors by path."""

    node: str
    gpu_uuids: Mapping[str, str] = field(default_factory=dict)
    sensors: Mapping[str, SensorFacts] = field(default_factory=dict)

    def device(self, device: str | None) -> str | None:
        """Name a device by its GPU's UUID where that is known: indices differ from source to source."""
        if device is None or not self.gpu_uuids or not device.startswith("gpu"):
            return device
        gpu, slash, rest = device.partition("/")
        return self.gpu_uuids.get(gpu, gpu) + slash + rest


@dataclass(frozen=True)
class Decoded:
    """Readings of one report, and how many of its values were rejected, merged or odd, by reason."""

    report: str
    readings: list[ChassisReading]
    counts: Counter[str]
    failure: str | None = None  # traceback of the first value that failed in a way that no rule foresaw


def decode_report(body: Body, *, machine: Machine, received_at_ns: int) -> Decoded:
    """Decode a report; raises RecordRejected `not_a_report` if it has no list of values."""
    values = body.get("MetricValues")
    if not isinstance(values, list):
        raise RecordRejected("not_a_report", "no MetricValues")
    reader = _Reader(report_id(body), body.get("Timestamp"), _repeated_metric_ids(values), machine, received_at_ns)
    readings = []
    failure = None
    for entry in values:
        try:
            readings.append(reader.read(entry))
        except RecordRejected as rejection:
            reader.counts[rejection.reason] += 1
        except Exception:  # noqa: BLE001  # what no rule foresaw in one value must not cost the others
            reader.counts["internal_error"] += 1
            failure = failure or traceback.format_exc()
    readings = _merge(readings, reader.counts)
    return Decoded(reader.report, [*readings, *throttle_readings(readings), *join_halves(readings)], reader.counts, failure)


def report_id(body: Body) -> str:
    """Name a report by its Id, or by the last part of its URI."""
    for member in (body.get("Id"), str(body.get("@odata.id", "")).rstrip("/").rpartition("/")[2]):
        if isinstance(member, str) and member:
            return member
    return ""


def _repeated_metric_ids(values: list[object]) -> set[str]:
    """Find metric ids that name more than one series: nothing but the id tells their values apart."""
    entries = [entry for entry in values if isinstance(entry, dict)]
    bare = [metric_id for entry in entries if isinstance(metric_id := entry.get("MetricId"), str) and _is_bare(entry)]
    return {metric_id for metric_id, times in Counter(bare).items() if times > 1}


def _is_bare(entry: Body) -> bool:
    return not entry.get("MetricProperty") and not dell_context(entry)


@dataclass
class _Reader:
    """Reads the values of one report."""

    report: str
    stamp: object
    ambiguous: set[str]
    machine: Machine
    received_at_ns: int
    counts: Counter[str] = field(default_factory=Counter)
    times: dict[str, EventTime] = field(default_factory=dict)  # by stamp: the values of one report share few

    def read(self, entry: object) -> ChassisReading:
        if not isinstance(entry, dict):
            raise RecordRejected("not_a_value", type(entry).__name__)
        series = series_of(entry, self.report)
        if series.metric_id in self.ambiguous and not series.context:
            raise RecordRejected("no_identity", f"{series.metric_id} is repeated")
        value = read_value(entry.get("MetricValue", ABSENT))
        stamp = entry.get("Timestamp")
        time = self.times.get(stamp) if isinstance(stamp, str) else None
        if time is None:
            time = self._time(stamp)
        signal = signal_of(series, self.machine.sensors.get(series.path))
        number = _convert(value, signal)
        if signal.scale > 1.0 and number is not None and not isfinite(number):
            value, number = Value(text=value.text or repr(value.number), quality="invalid"), None
        if not value.is_conforming:
            self.counts["nonconforming"] += 1
        if signal.quantity == "raw":
            self.counts["unmapped"] += 1
        return ChassisReading(
            node=self.machine.node,
            observed_at_ns=time.at_ns,
            received_at_ns=self.received_at_ns,
            source="redfish",
            sensor=series.sensor,
            quantity=signal.quantity,
            device=self.machine.device(signal.device),
            value=number,
            text=value.text,
            unit=signal.unit,
            quality=_quality(value, entry, series),
            time_quality=time.quality,
        )

    def _time(self, stamp: object) -> EventTime:
        time = find_time((stamp, self.stamp), self.received_at_ns)
        if isinstance(stamp, str):
            self.times[stamp] = time
        return time


def _convert(value: Value, signal: Signal) -> float | None:
    if value.number is not None:
        return value.number * signal.scale + signal.offset
    if value.text is not None and signal.words is not None and value.quality is None:
        return signal.words.get(value.text.strip().lower())
    return None


def _quality(value: Value, entry: Body, series: Series) -> str | None:
    if value.quality is not None:
        return value.quality
    if series.is_misfit:
        return "suspect"
    oem = entry.get("Oem")
    nvidia = oem.get("Nvidia") if isinstance(oem, dict) else None
    return "stale" if isinstance(nvidia, dict) and nvidia.get("MetricValueStale") is True else None


def _merge(readings: list[ChassisReading], counts: Counter[str]) -> list[ChassisReading]:
    """Merge equal values of one series and instant; different ones contradict each other and leave nothing but that fact."""
    if len({reading.sensor for reading in readings}) == len(readings):
        return readings
    kept: dict[tuple[str, int, str | None], ChassisReading] = {}
    missing = []
    for reading in readings:
        if reading.value is None and reading.text is None:
            missing.append(reading)
            continue
        key = (reading.sensor, reading.observed_at_ns, reading.time_quality)
        first = kept.setdefault(key, reading)
        if first is reading:
            continue
        counts["merged"] += 1
        if (first.value, first.text) != (reading.value, reading.text):
            counts["duplicate_conflict"] += 1
            kept[key] = msgspec.structs.replace(first, value=None, text=None, quality="duplicate_conflict")
    return [*kept.values(), *missing]
