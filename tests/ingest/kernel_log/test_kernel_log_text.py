"""Lines of the kernel log, format by format."""

from datetime import UTC, datetime

import pytest

from ingest.clock import ns_of
from ingest.kernel_log.text import BusLoss, GpuNamed, SerialNamed, SwitchXid, Unparsed, Xid, read_line, read_text

NOW_NS = ns_of(datetime(2026, 3, 1, tzinfo=UTC))
TEXT = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."


@pytest.mark.parametrize(
    ("raw", "clock", "stamp_ns"),
    [
        (f"3,1234,567890123,-;{TEXT}", "boot", 567_890_123_000),
        (f"[ 5512.1] {TEXT}", "boot", 5_512_100_000_000),
        (f"[  567.890123] {TEXT}", "boot", 567_890_123_000),
        (f"<3>[  567.890123] {TEXT}", "boot", 567_890_123_000),
        (f"[  567.890123] node7 kernel: {TEXT}", "boot", 567_890_123_000),
        (f"[Sun Feb  2 16:44:36 2025] {TEXT}", "ctime", ns_of(datetime(2025, 2, 2, 16, 44, 36, tzinfo=UTC))),
        (f"2026-02-02T16:44:36.118204+00:00 node7 kernel: {TEXT}", "iso", ns_of(datetime(2026, 2, 2, 16, 44, 36, 118204, UTC))),
        (f"2026-02-02T16:44:36,118204+0100 node7 kernel: {TEXT}", "iso", ns_of(datetime(2026, 2, 2, 15, 44, 36, 118204, UTC))),
        (f"2026-02-02T16:44:36Z node7 kernel: [ 12.5] {TEXT}", "iso", ns_of(datetime(2026, 2, 2, 16, 44, 36, tzinfo=UTC))),
        (f"Feb  2 16:44:37 node7 kernel: {TEXT}", "syslog", ns_of(datetime(2026, 2, 2, 16, 44, 37, tzinfo=UTC))),
        (f"Dec 31 23:59:59 node7 kernel: {TEXT}", "syslog", ns_of(datetime(2025, 12, 31, 23, 59, 59, tzinfo=UTC))),
        (f"Feb 29 01:00:00 node7 kernel[0]: {TEXT}", "syslog", ns_of(datetime(2024, 2, 29, 1, 0, 0, tzinfo=UTC))),
        (TEXT, "", None),
    ],
)
def test_carriers(raw: str, clock: str, stamp_ns: int | None) -> None:
    """Every carrier gives the same text, and the time that it can tell."""
    line = read_line(raw, NOW_NS)
    assert line.text == TEXT
    assert (line.clock, line.since_boot_ns if line.since_boot_ns is not None else line.utc_ns) == (clock, stamp_ns)


@pytest.mark.parametrize("raw", ["[Sun Feb 30 16:44:36 2025] x", "2026-13-02T16:44:36 host kernel: x", "Feb 31 16:44:37 host kernel: x"])
def test_impossible_dates_are_no_dates(raw: str) -> None:
    """A date that no calendar has leaves the line undated."""
    assert read_line(raw, NOW_NS).utc_ns is None


@pytest.mark.parametrize(
    "stamp", ["0001-01-01T00:00:00", "1970-01-01T00:00:03", "1999-12-31T23:59:59", "2263-01-01T00:00:00", "9999-12-31T23:59:59"]
)
def test_absurd_years_are_no_dates(stamp: str) -> None:
    """A clock before 2000 or after 2100 was never set: such a line is undated, and what it says is read."""
    line = read_line(f"{stamp} h kernel: {TEXT}", NOW_NS)
    assert (line.utc_ns, line.clock) == (None, "")
    assert read_text(line.text) == read_text(TEXT)
    assert read_line(f"[Mon Jan  1 00:00:00 {stamp[:4]}] {TEXT}", NOW_NS).utc_ns is None


LONG = "9" * 5000


@pytest.mark.parametrize(
    "raw",
    [
        f"6,{LONG},1,-;{TEXT}",
        f"6,{LONG[:310]},1,-;{TEXT}",
        f"6,1,{LONG},-;{TEXT}",
        f"{LONG},1,1,-;{TEXT}",
        f"[{LONG}.0] {TEXT}",
        f"[1.{LONG}] {TEXT}",
        f"<{LONG}>[1.0] {TEXT}",
        f"{LONG}-01-01T00:00:00 h kernel: {TEXT}",
        f"2026-01-01T00:00:00.{LONG} h kernel: {TEXT}",
        f"Feb {LONG} 16:44:36 h kernel: {TEXT}",
    ],
    ids=lambda raw: f"{raw[:8]}...{len(raw)}",
)
def test_a_number_without_end_is_no_carrier(raw: str) -> None:
    """Numbers that no kernel writes neither number nor date a line, and what it says is read."""
    line = read_line(raw, NOW_NS)
    assert (line.seq, line.since_boot_ns) == (None, None)
    assert read_text(line.text) == read_text(TEXT)


@pytest.mark.parametrize(
    "text",
    [
        f"nvidia-nvswitch{LONG}: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30",
        f"nvidia-nvswitch0: SXid (PCI:0000:05:00.0): {LONG}, Fatal, Link 30",
        f"NVRM: Xid (PCI:0000:3b:00 GPU-I:{LONG} GPU-CI:02): 31, pid=1",
        f"NVRM: Xid (PCI:0000:3b:00 GPU-I:05 GPU-CI:{LONG}): 31, pid=1",
        f"NVRM: Xid (PCI:0000:3b:00): {LONG}, pid=1",
    ],
    ids=lambda text: f"{text[:24]}...{len(text)}",
)
def test_an_xid_with_a_number_without_end_is_unparsed(text: str) -> None:
    """What numbers a switch, an instance or a code without end is counted as unparsed."""
    assert isinstance(read_text(text), Unparsed)


@pytest.mark.parametrize(
    "tail", [f"Link {LONG}", f"caused by previous Xid {LONG}", f"recovery action changed from 0x{LONG} (a) to 0x{LONG} (b)"]
)
def test_a_number_without_end_in_a_message_is_not_taken(tail: str) -> None:
    """The XID stands, the number in its message is None."""
    said = read_text(f"NVRM: Xid (PCI:0000:3b:00): 74, {tail}")
    assert isinstance(said, Xid)
    assert (said.code, said.link, said.caused_by, said.recovery_action) == (74, None, None, None)


@pytest.mark.parametrize(
    ("text", "xid"),
    [
        ("NVRM: Xid (0000:03:00): 14, Channel 00000001", Xid(pci="0000:03:00", code=14, message="Channel 00000001")),
        ("NVRM: Xid (PCI:0008:01:00): 48", Xid(pci="0008:01:00", code=48)),
        ("NVRM: Xid (PCI:0000:3B:00.0): 79, pid=1", Xid(pci="0000:3b:00", code=79, message="pid=1")),
        ("Xid (PCI:0000:3b:00): 31, msg", Xid(pci="0000:3b:00", code=31, message="msg")),
        (
            "NVRM: Xid (PCI:0000:3b:00 GPU-I:05 GPU-CI:02): 31, pid=7195, name=a, b[c]: (d), Ch 00000007",
            Xid(pci="0000:3b:00", code=31, gpu_instance=5, compute_instance=2, message="pid=7195, name=a, b[c]: (d), Ch 00000007"),
        ),
        (
            "NVRM: Xid (PCI:0000:3b:00): 45, pid=7062, name=python3, Ch 00000009 caused by previous Xid 94",
            Xid(pci="0000:3b:00", code=45, message="pid=7062, name=python3, Ch 00000009 caused by previous Xid 94", caused_by=94),
        ),
        (
            "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
            Xid(
                pci="0000:3b:00",
                code=154,
                message="GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
                recovery_action_before=0,
                recovery_action=1,
            ),
        ),
        (
            "NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 02 (0x004505c6 0x00000000 0x00000000 0x00000000)",
            Xid(
                pci="0009:01:00",
                code=149,
                link=2,
                message="NETIR_LINK_EVT  Fatal   XC0 i0 Link 02 (0x004505c6 0x00000000 0x00000000 0x00000000)",
            ),
        ),
        (
            "NVRM: Xid (PCI:0009:01:00): 145, RLW_REMAP Nonfatal XC1 i1 Link -1 (0x1 0x2 0x3 0x4)",
            Xid(pci="0009:01:00", code=145, link=None, is_injected=True, message="RLW_REMAP Nonfatal XC1 i1 Link -1 (0x1 0x2 0x3 0x4)"),
        ),
        (
            "NVRM: Xid (PCI:0000:3b:00): 74, NVLink: fatal error detected on link 4(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
            Xid(
                pci="0000:3b:00",
                code=74,
                link=4,
                message="NVLink: fatal error detected on link 4(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
            ),
        ),
    ],
)
def test_xid_formats(text: str, xid: Xid) -> None:
    """XID lines of old and new drivers, of MIG instances, of NVLink and of recovery actions."""
    assert read_text(text) == xid


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid (PCI:0000:66:00): abc, pid=2280636",
        "NVRM: Xid (PCI:0000:66:00): 12abc",
        "NVRM: Xid (PCI:zz): 31",
        "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): xx, Fatal",
    ],
)
def test_lines_that_say_xid_and_cannot_be_read_are_unparsed(text: str) -> None:
    """A line that announces an XID is never passed over in silence."""
    assert isinstance(read_text(text), Unparsed)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "NVRM: GPU at PCI:0000:ca:00: GPU-0a1b2c30-1111-4222-8333-444455556660",
            GpuNamed("0000:ca:00", "GPU-0a1b2c30-1111-4222-8333-444455556660"),
        ),
        ("NVRM: GPU Board Serial Number: 1650000000001", SerialNamed("1650000000001")),
        ("NVRM: GPU 0000:01:00.0: GPU has fallen off the bus.", BusLoss("0000:01:00")),
        ("NVRM: The NVIDIA GPU 0000:01:00.0", BusLoss("0000:01:00", is_beginning=True)),
        ("NVRM: fallen off the bus and is not responding to commands.", BusLoss(None)),
        ("NVRM: loading NVIDIA UNIX Open Kernel Module", None),
        ("usb 1-1: new high-speed USB device", None),
    ],
)
def test_other_lines_of_the_driver(text: str, said: object) -> None:
    """Names, serial numbers and losses of the bus are understood; the rest is not about us."""
    assert read_text(text) == said


def test_switch_xids() -> None:
    """An SXid tells switch, severity and link; its code is printed with five digits."""
    assert read_text("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up (First)") == SwitchXid(
        switch=3, pci="0000:c1:00", code=20034, severity="fatal", link=30, message="Fatal, Link 30 LTSSM Fault Up (First)"
    )
