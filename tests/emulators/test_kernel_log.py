"""The emulated kernel log: records of /dev/kmsg in the driver's formats."""

import json
import re
from pathlib import Path

import pytest

from emulators.kernel_log import XID_TEXTS, KernelLog
from emulators.state import KernelEvent

BOOT_NS = 1_790_000_000_000_000_000
UUID = "GPU-0a1b2c30-1111-4222-8333-444455556660"
RECORD = re.compile(r"\d,(\d+),(\d+),-;(.*)")


@pytest.fixture
def log(tmp_path: Path) -> KernelLog:
    return KernelLog(tmp_path / "kmsg", boot_id="boot-1", boot_at_ns=BOOT_NS)


def event(kind: str, code: int | None = None, message: str = "", caused_by: int | None = None) -> KernelEvent:
    return KernelEvent(
        at_ns=BOOT_NS + 12_345_678_000,
        node="n1",
        kind=kind,
        gpu_uuid=UUID,
        serial="1650000000001",
        pci="0000:3b:00",
        code=code,
        message=message,
        caused_by=caused_by,
    )


def records(log: KernelLog) -> list[tuple[int, int, str]]:
    found = [RECORD.fullmatch(line) for line in log.path.read_text().splitlines()]
    return [(int(match[1]), int(match[2]), match[3]) for match in found if match]


def test_the_driver_names_a_gpu_before_its_first_xid_only(log: KernelLog) -> None:
    """UUID and serial lines come once per GPU and boot; sequence numbers count on; stamps are microseconds since boot."""
    log.write(event("xid", 31, "MMU Fault"))
    log.write(event("xid", 43))
    seqs, stamps, texts = zip(*records(log), strict=True)
    assert seqs == (0, 1, 2, 3, 4)
    assert stamps == (0, 12_345_678, 12_345_678, 12_345_678, 12_345_678)
    assert texts[1:4] == (
        f"NVRM: GPU at PCI:0000:3b:00: {UUID}",
        "NVRM: GPU Board Serial Number: 1650000000001",
        "NVRM: Xid (PCI:0000:3b:00): 31, MMU Fault",
    )
    assert texts[4].startswith("NVRM: Xid (PCI:0000:3b:00): 43, pid=")


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (event("bus_loss"), "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus."),
        (
            event("sxid", 20034, "Fatal, Link 30 LTSSM Fault Up (First)"),
            "nvidia-nvswitch0: SXid (PCI:0000:3b:00.0): 20034, Fatal, Link 30 LTSSM Fault Up (First)",
        ),
        (event("xid", 45, "Ch 00000009", caused_by=94), "NVRM: Xid (PCI:0000:3b:00): 45, Ch 00000009 caused by previous Xid 94"),
        (event("xid", 999), "NVRM: Xid (PCI:0000:3b:00): 999"),
        (
            event("xid", 154),
            "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
        ),
    ],
)
def test_formats(log: KernelLog, told: KernelEvent, text: str) -> None:
    """Each kind of event is printed in the driver's own words."""
    log.write(told)
    assert records(log)[-1][2] == text


def test_a_reboot_replaces_the_file(log: KernelLog) -> None:
    """Sequence, stamps and names start over; the companion file tells the boot."""
    log.write(event("xid", 31))
    before = log.path.stat().st_ino
    log.reboot(boot_id="boot-2", boot_at_ns=BOOT_NS + 10_000_000_000)
    log.write(event("xid", 79))
    assert log.path.stat().st_ino != before
    assert [(seq, stamp) for seq, stamp, _ in records(log)] == [(0, 0), (1, 2_345_678), (2, 2_345_678), (3, 2_345_678)]
    assert json.loads(log.path.with_name("kmsg.boot").read_text()) == {"boot_id": "boot-2", "boot_at_ns": BOOT_NS + 10_000_000_000}


@pytest.mark.parametrize("code", sorted(XID_TEXTS))
def test_every_text_fits_on_one_line(log: KernelLog, code: int) -> None:
    """A record is one line, whatever it says."""
    log.write(event("xid", code))
    assert len(records(log)) == len(log.path.read_text().splitlines()) == 4
