"""What a line of the kernel log says about GPUs: the driver's formats, old and new, behind whatever prefix the line was carried in.

Formats: open-gpu-kernel-modules `kernel_rc.c` (Xid), `common/nvswitch` (SXid). Carriers: `/dev/kmsg` records (`prio,seq,usec,flags;text`),
`[ 5512.1]` of dmesg, `[Sun Feb  2 16:44:36 2025]` of dmesg -T, ISO 8601 or classic syslog with host and `kernel:`, or nothing.
A number that is longer than any kernel writes makes no carrier, and a date outside of 2000 to 2100 is none: the line is then undated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ingest.clock import NS, datetime_of, ns_of
from ingest.pci import pci_address

_PCI = r"(?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
_KMSG = re.compile(r"\d{1,4},(\d{1,18}),(\d{1,15}),[^;]*;(.*)", re.DOTALL)  # 15 digits of microseconds: 31 years
_MONOTONIC = re.compile(r"(?:<\d{1,4}>)?\[ *(\d{1,9})\.(\d{1,9})\] ?(.*)", re.DOTALL)
_CTIME = re.compile(r"(?:<\d{1,4}>)?\[([A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})\] ?(.*)", re.DOTALL)
_ISO = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*) +(.*)", re.DOTALL)
_SYSLOG = re.compile(r"([A-Z][a-z]{2}) +(\d{1,2}) (\d\d:\d\d:\d\d)(?:\.\d+)? +(.*)", re.DOTALL)
_HOST = re.compile(r"\S+ kernel(?:\[\d{1,9}\])?: ?(.*)", re.DOTALL)

_XID = re.compile(rf"(?<![A-Za-z])Xid \({_PCI}(?: GPU-I:(\d{{1,9}})(?: GPU-CI:(\d{{1,9}}))?)?\): (\d{{1,9}})(?!\w)(?:, ?(.*))?$", re.DOTALL)
_ANY_XID = re.compile(r"(?<![A-Za-z])S?Xid \(")
_GPU = re.compile(rf"NVRM: GPU at {_PCI}: (GPU-[0-9a-fA-F-]{{8,}})")
_SERIAL = re.compile(r"NVRM: GPU Board Serial Number: (\S+)")
_BUS_LOSS = re.compile(rf"NVRM: GPU {_PCI}: GPU has fallen off the bus")
_LOSS_BEGINS = re.compile(rf"NVRM: The NVIDIA GPU {_PCI}\s*(.*)", re.DOTALL)
_LOSS_ENDS = re.compile(r"NVRM: fallen off the bus and is not responding")
_SXID = re.compile(rf"nvidia-nvswitch(\d{{1,9}}): SXid \({_PCI}\): (\d{{1,9}})(?!\w)(?:, ?(.*))?$", re.DOTALL)
_SXID_MORE = re.compile(r"(?:Severity \d{1,9} |Data \{)")
_SEVERITY = re.compile(r"(Correctable|Intermediate|Non-fatal|Fatal)\b", re.IGNORECASE)
_LINK = re.compile(r"\b[Ll]ink (-?\d{1,4})(?![\d.])")
_CAUSED_BY = re.compile(r"caused by previous Xid (\d{1,9})\s*$")
_RECOVERY = re.compile(r"recovery action changed from 0x([0-9a-fA-F]{1,8}) .*? to 0x([0-9a-fA-F]{1,8})\b")
_INJECTED = re.compile(r"\bXC[01] +i1 +Link\b")
_DATED = range(ns_of(datetime(2000, 1, 1, tzinfo=UTC)), ns_of(datetime(2100, 1, 1, tzinfo=UTC)))
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line without its carrier; at most one of `since_boot_ns` and `utc_ns` dates it, and `clock` says which kind of clock that is."""

    text: str
    seq: int | None = None
    since_boot_ns: int | None = None
    utc_ns: int | None = None
    clock: str = ""


@dataclass(frozen=True, kw_only=True)
class Xid:
    """An XID line of a GPU, or of one MIG instance of it."""

    pci: str
    code: int
    gpu_instance: int | None = None
    compute_instance: int | None = None
    message: str = ""
    caused_by: int | None = None
    link: int | None = None
    recovery_action_before: int | None = None
    recovery_action: int | None = None
    is_injected: bool = False


@dataclass(frozen=True, kw_only=True)
class SwitchXid:
    """An SXid line of an NVSwitch; `adds` says that it only details the incident before."""

    switch: int
    pci: str
    code: int
    severity: str | None = None
    link: int | None = None
    message: str = ""
    adds: bool = False


@dataclass(frozen=True)
class GpuNamed:
    """The driver names the GPU at an address, before its first XID."""

    pci: str
    gpu_uuid: str


@dataclass(frozen=True)
class SerialNamed:
    """The board serial number of the GPU named just before."""

    serial: str


@dataclass(frozen=True)
class BusLoss:
    """A GPU has fallen off the bus, told without an XID; the three-line form begins with the address alone."""

    pci: str | None
    is_beginning: bool = False


class Unparsed:
    """A line that announces an XID and cannot be read."""


Said = Xid | SwitchXid | GpuNamed | SerialNamed | BusLoss | Unparsed | None


def read_line(raw: str, now_ns: int) -> Line:
    """Take the carrier off a line; `now_ns` tells the year where the carrier does not."""
    kmsg = _KMSG.fullmatch(raw)
    if kmsg:
        return Line(text=kmsg[3], seq=int(kmsg[1]), since_boot_ns=int(kmsg[2]) * 1000, clock="boot")
    monotonic = _MONOTONIC.fullmatch(raw)
    if monotonic:
        since_boot_ns = int(monotonic[1]) * NS + int(f"{monotonic[2]:0<9.9}")
        return Line(text=_without_host(monotonic[3]), since_boot_ns=since_boot_ns, clock="boot")
    return _read_dated(raw, now_ns)


def _read_dated(raw: str, now_ns: int) -> Line:
    for clock, pattern in (("ctime", _CTIME), ("iso", _ISO), ("syslog", _SYSLOG)):
        match = pattern.fullmatch(raw)
        utc_ns = _DATES[clock](match, now_ns) if match else None
        if match and utc_ns is not None and utc_ns in _DATED:
            text = _without_host(match[match.lastindex or 1])
            inner = _MONOTONIC.fullmatch(text)
            return Line(text=inner[3] if inner else text, utc_ns=utc_ns, clock=clock)
    return Line(text=raw)


def _ctime_ns(match: re.Match[str], _: int) -> int | None:
    month, day, clock, year = match[1].split()[1:]
    return _utc_ns(int(year), month, int(day), clock)


def _iso_ns(match: re.Match[str], _: int) -> int | None:
    try:
        at = datetime.fromisoformat(match[1].replace(",", "."))
        return ns_of(at if at.tzinfo else at.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return None


def _syslog_ns(match: re.Match[str], now_ns: int) -> int | None:
    # The year is the latest in which the line does not lie in the future; a day is allowed for zones.
    latest = datetime_of(now_ns) + timedelta(days=1)
    for year in range(latest.year, latest.year - 8, -1):  # 29 February needs up to eight years
        at_ns = _utc_ns(year, match[1], int(match[2]), match[3])
        if at_ns is not None and at_ns <= ns_of(latest):
            return at_ns
    return None


def _utc_ns(year: int, month: str, day: int, clock: str) -> int | None:
    hour, minute, second = (int(part) for part in clock.split(":"))
    try:
        return ns_of(datetime(year, _MONTHS.index(month) + 1, day, hour, minute, second, tzinfo=UTC))
    except ValueError:
        return None


_DATES = {"ctime": _ctime_ns, "iso": _iso_ns, "syslog": _syslog_ns}


def _without_host(text: str) -> str:
    match = _HOST.fullmatch(text)
    return match[1] if match else text


def read_text(text: str) -> Said:
    """Decode the text of a line; None when it is not about a GPU, Unparsed when it says XID and cannot be read."""
    if "id (" in text:
        return _read_xid(text)
    if "NVRM:" not in text:
        return None
    if named := _GPU.search(text):
        pci = pci_address(named[1])
        return GpuNamed(pci, named[2]) if pci else None
    if serial := _SERIAL.search(text):
        return SerialNamed(serial[1])
    return _read_bus_loss(text)


def _read_bus_loss(text: str) -> BusLoss | None:
    if loss := _BUS_LOSS.search(text):
        return BusLoss(pci_address(loss[1]))
    if begins := _LOSS_BEGINS.search(text):
        return BusLoss(pci_address(begins[1]), is_beginning="fallen off the bus" not in begins[2])
    return BusLoss(None) if _LOSS_ENDS.search(text) else None


def _read_xid(text: str) -> Said:
    if switch := _SXID.search(text):
        return _switch_xid(switch)
    match = _XID.search(text)
    pci = pci_address(match[1]) if match else None
    if match is None or pci is None:
        return Unparsed() if _ANY_XID.search(text) else None
    message = match[5] or ""
    code = int(match[4])
    caused_by, link, recovery = _CAUSED_BY.search(message), _LINK.search(message), _RECOVERY.search(message)
    return Xid(
        pci=pci,
        code=code,
        gpu_instance=int(match[2]) if match[2] else None,
        compute_instance=int(match[3]) if match[3] else None,
        message=message.strip(),
        caused_by=int(caused_by[1]) if caused_by else None,
        link=_link(link),
        recovery_action_before=int(recovery[1], 16) if recovery else None,
        recovery_action=int(recovery[2], 16) if recovery else None,
        is_injected=bool(_INJECTED.search(message)),
    )


def _switch_xid(match: re.Match[str]) -> Said:
    pci = pci_address(match[2])
    if pci is None:
        return Unparsed()
    message = (match[4] or "").strip()
    severity = _SEVERITY.match(message)
    return SwitchXid(
        switch=int(match[1]),
        pci=pci,
        code=int(match[3]),
        severity=severity[1].lower() if severity else None,
        link=_link(_LINK.search(message)),
        message=message,
        adds=bool(_SXID_MORE.match(message)),
    )


def _link(match: re.Match[str] | None) -> int | None:
    return int(match[1]) if match and int(match[1]) >= 0 else None
