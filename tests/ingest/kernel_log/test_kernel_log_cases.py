"""Kernel logs modelled on the driver's sources and on public test data of gpud and NVSentinel."""

from pathlib import Path
from typing import Any

from forewarn.inspect import kernel_logs
from ingest.kernel_log.node import KernelLogNode

CASES = Path(__file__).parents[2] / "cases" / "kernel_log"
NOW_NS = 1_793_000_000 * 10**9  # 2026-10-26


def lines_of(case: str) -> list[dict[str, Any]]:
    return list(kernel_logs([CASES / f"{case}.log"], now_ns=NOW_NS))


def events_of(case: str) -> list[dict[str, Any]]:
    return [line for line in lines_of(case) if line["table"] == "events"]


def test_k01_formats_of_the_open_driver() -> None:
    """Six XIDs with MIG instances, root and recovery action, bound to the GPU and board that the driver named."""
    events = events_of("K01")
    assert [(event["code"], event.get("gpu_instance"), event.get("compute_instance")) for event in events] == [
        (94, None, None),
        (94, 5, None),
        (31, 5, 2),
        (95, None, None),
        (45, None, None),
        (154, None, None),
    ]
    assert {event["gpu_uuid"] for event in events} == {"GPU-0a1b2c30-1111-4222-8333-444455556660"}
    assert (events[4]["root_code"], events[4]["is_sympathetic"]) == (94, True)
    assert (events[5]["recovery_action_before"], events[5]["recovery_action"], events[5]["use"]) == (0, 4, "label")
    (bound,) = [line for line in lines_of("K01") if line["table"] == "inventory"]
    assert (bound["gpu_uuid"], bound["serial"], bound["pci"]) == (
        "GPU-0a1b2c30-1111-4222-8333-444455556660",
        "1650000000001",
        "0000:3b:00",
    )


def test_k02_older_formats_and_odd_names() -> None:
    """Old XIDs keep their PCI domain, a code that is no number is unparsed, and a bus loss told thrice is one incident."""
    events = events_of("K02")
    assert [(event["kind"], event["code"], event["pci"]) for event in events] == [
        ("xid", 14, "0000:03:00"),
        ("xid", 79, "0000:01:00"),
        ("xid", 119, "0000:9b:00"),
        ("xid", 48, "0008:01:00"),
    ]
    (counters,) = [line["lines"] for line in lines_of("K02") if line["table"] == "counters"]
    assert counters == {"xid": 4, "merged": 2, "other": 2, "unparsed": 1}


def test_k05_switch_incidents_gather_their_detail() -> None:
    """Three NVSwitch incidents; severity and data lines belong to the one before them."""
    events = events_of("K05")
    assert [(event["kind"], event["code"], event["pci"], event.get("link"), event["use"]) for event in events] == [
        ("sxid", 28006, "0000:c1:00", 46, "weak"),
        ("sxid", 20034, "0000:05:00", 30, "label"),
        ("sxid", 26006, "0004:00:00", None, "weak"),
    ]
    assert "Severity 1 Engine instance 30" in events[1]["detail"]
    assert "Data {0x10000000, 0x10000000, 0x00000000}" in events[1]["detail"]


def test_k06_a_ring_read_twice_is_said_once() -> None:
    """The same text at the same stamp of the same boot is one event."""
    assert [(event["code"], event["use"]) for event in events_of("K06")] == [(63, "precursor")]


def test_a_loss_that_waits_for_its_xid_is_counted_once() -> None:
    """Every line of a log is counted under one outcome, also when two become one incident."""
    node = KernelLogNode("n1")
    node.feed("NVRM: GPU 0000:01:00.0: GPU has fallen off the bus.", NOW_NS)
    node.feed("NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.", NOW_NS)
    node.flush()
    assert node.outcomes == {"merged": 1, "xid": 1}


def test_two_losses_of_one_seat_far_apart_are_two() -> None:
    """A loss that still waits for its XID is not forgotten for the next one."""
    node = KernelLogNode("n1")
    said = []
    for stamp in ("100.0", "900.0"):
        said += node.feed(f"[  {stamp}] NVRM: GPU 0000:01:00.0: GPU has fallen off the bus.", NOW_NS)
    said += node.flush()
    assert [getattr(event, "kind", None) for event in said] == ["bus_loss", "bus_loss"]


def test_switch_incidents_that_write_at_once_keep_their_own_detail() -> None:
    """Kernels print from many processors: lines of two switches, of another link and of a GPU come in between."""
    fatal = "nvidia-nvswitch{n}: SXid (PCI:0000:0{n}:00.0): 20034, Fatal, Link {link} LTSSM Fault Up"
    severity = "nvidia-nvswitch{n}: SXid (PCI:0000:0{n}:00.0): 20034, Severity 1 Engine instance {link} Sub-engine instance 00"
    lines = [
        fatal.format(n=1, link=30),
        fatal.format(n=2, link=7),
        "NVRM: Xid (PCI:0000:0b:00): 74, pid=1, name=a, NVLink: fatal error detected on link 4",
        severity.format(n=2, link=7),
        severity.format(n=1, link=30),
    ]
    node = KernelLogNode("n1")
    said = [event for number, text in enumerate(lines) for event in node.feed(f"3,{number},{1_000_000 + number},-;{text}", 0)]
    events = {(event.kind, event.link): event for event in [*said, *node.flush()]}
    assert [kind for kind, _ in sorted(events, key=str)].count("sxid") == 2
    assert "Engine instance 30" in (events["sxid", 30].detail or "")
    assert "Engine instance 7" in (events["sxid", 7].detail or "")
