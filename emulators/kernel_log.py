"""A node's kernel log as its readers see it: `/dev/kmsg` records in the driver's own formats, one per line of a file.

Record: `prio,seq,usec,flags;text`, usec since boot. Before the first XID of a GPU the driver names its UUID and board serial number.
A reboot replaces the file and starts the sequence over; `<name>.boot` beside the log tells boot id and time, as a log shipper would.
"""

from __future__ import annotations

import json
from pathlib import Path

from emulators.state import KernelEvent

_ERROR, _WARNING, _INFO = 3, 4, 6

# What the driver prints after the code (formats of open-gpu-kernel-modules and of public logs).
XID_TEXTS = {
    13: "pid={pid}, name=python3, Graphics SM Warp Exception on (GPC 2, TPC 1, SM 0): Out Of Range Address",
    31: "pid={pid}, name=python3, Ch 00000007, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f54_a8000000. "
    "Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ",
    43: "pid={pid}, name=python3, Ch 00000009",
    45: "pid={pid}, name=python3, Ch 00000009",
    48: "pid={pid}, name=python3, An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at partition 6, "
    "subpartition 0.",
    62: "0x2a(0) 00000000 00000000",
    63: "pid={pid}, name=python3, Row Remapper: New row (0x0000000001f4c1c0) marked for remapping, reset gpu to activate.",
    64: "Row Remapper: Unable to remap row, no more spare rows in the bank.",
    74: "NVLink: fatal error detected on link 4(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
    79: "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    92: "High single-bit ECC error rate",
    94: "pid={pid}, name=python3, Contained: CE User Channel (0x9). RST: No, D-RST: No",
    95: "Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No",
    109: "pid={pid}, name=python3, Ch 00000011, errorString CTX SWITCH TIMEOUT, Info 0x54c014",
    119: "pid={pid}, name=nvc:[driver], Timeout after 6s of waiting for RPC response from GPU0 GSP! Expected function 76 (GSP_RM_CONTROL) "
    "(0x20803032 0x58c).",
    120: "GSP task exception: load access page fault (cause:0xd) @ pc:0x1b3d8a0, partition:4#0, task:1",
    140: "Unrecovered ECC error: escaped to the channel",
    154: "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
}


class KernelLog:
    """The log of one node at `path`."""

    def __init__(self, path: Path, *, boot_id: str, boot_at_ns: int) -> None:
        self.path = path
        self._boot_at_ns = boot_at_ns
        self._seq = 0
        self._named: set[str] = set()
        self.reboot(boot_id=boot_id, boot_at_ns=boot_at_ns)

    def reboot(self, *, boot_id: str, boot_at_ns: int) -> None:
        """Begin a boot: a new file, whose first record is the kernel's banner."""
        self._boot_at_ns, self._seq = boot_at_ns, 0
        self._named.clear()
        self._companion(boot_id)
        fresh = self.path.with_name(f"{self.path.name}.new")
        fresh.write_bytes(self._record(_INFO, boot_at_ns, "Linux version 6.8.0-60-generic (buildd@lcy02) (x86_64-linux-gnu-gcc-13)"))
        fresh.replace(self.path)

    def write(self, event: KernelEvent) -> None:
        """Append what the kernel prints for an event."""
        records = b"".join(self._record(prio, event.at_ns, text) for prio, text in self._lines(event))
        with self.path.open("ab") as log:
            log.write(records)

    def overrun(self, records: int) -> None:
        """Let the ring overwrite so many records before anybody has read them: sequence numbers go on without them."""
        self._seq += records

    def _lines(self, event: KernelEvent) -> list[tuple[int, str]]:
        if event.kind == "boot":
            return [(_INFO, event.message or "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.105.08")]
        if event.kind == "bus_loss":
            return [(_ERROR, f"NVRM: GPU {event.pci}.0: GPU has fallen off the bus.")]
        if event.kind == "sxid":
            return [(_ERROR, f"nvidia-nvswitch0: SXid (PCI:{event.pci}.0): {event.code or 0:05d}, {event.message}")]
        assert event.kind == "xid", f"BUG: no kernel log line for an event of kind {event.kind}"
        return [*self._names(event), (_ERROR, _xid(event))]

    def _names(self, event: KernelEvent) -> list[tuple[int, str]]:
        if event.pci is None or event.gpu_uuid is None or event.gpu_uuid in self._named:
            return []
        self._named.add(event.gpu_uuid)
        named = [(_ERROR, f"NVRM: GPU at PCI:{event.pci}: {event.gpu_uuid}")]
        if event.serial:
            named.append((_ERROR, f"NVRM: GPU Board Serial Number: {event.serial}"))
        return named

    def _record(self, prio: int, at_ns: int, text: str) -> bytes:
        usec = max(0, at_ns - self._boot_at_ns) // 1000
        record = f"{prio},{self._seq},{usec},-;{text}\n".encode()
        self._seq += 1
        return record

    def _companion(self, boot_id: str) -> None:
        told = json.dumps({"boot_id": boot_id, "boot_at_ns": self._boot_at_ns})
        fresh = self.path.with_name(f"{self.path.name}.boot.new")
        fresh.write_text(told, encoding="ascii")
        fresh.replace(self.path.with_name(f"{self.path.name}.boot"))


def _xid(event: KernelEvent) -> str:
    code = event.code or 0
    text = event.message or XID_TEXTS.get(code, "").format(pid=7_000 + event.at_ns // 1_000_000_000 % 20_000)
    if code == 45 and event.caused_by is not None and "caused by" not in text:
        text = f"{text} caused by previous Xid {event.caused_by}"
    return f"NVRM: Xid (PCI:{event.pci}): {code}" + (f", {text}" if text else "")
