"""The merge of what kernel log, NVML and exporter say about XIDs."""

import itertools
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.clock import NS
from ingest.schema import Event, GpuSample, Observed, SourceState
from ingest.xid import read_catalogue
from ingest.xid_merge import XidMerge

T0 = 1_790_000_000
UUID = "GPU-{:08x}"
_ids = itertools.count()


def xid(code: int, after_s: float, source: str = "kernel_log", *, gpu: int = 0, **more: Any) -> Event:
    at_ns = int((T0 + after_s) * NS)
    plain = {
        "node": "n1",
        "observed_at_ns": at_ns,
        "received_at_ns": at_ns + NS // 10,
        "kind": "xid",
        "gpu_uuid": UUID.format(gpu),
        "pci": f"0000:{gpu:02x}:00",
        "use": read_catalogue().use(code),
        "detail": f"#{next(_ids)}",
    }
    return Event(source=source, code=code, **(plain | more))


def told(*events: Event, merge: XidMerge | None = None, until_s: float = 0) -> list[tuple[int | None, str]]:
    """Admit events one by one, then let time pass; give (code, source) of what came out."""
    merge = merge or XidMerge()
    out: list[Observed] = []
    for event in events:
        out += merge.admit([event], event.received_at_ns)
    if until_s:
        out += merge.admit([], int((T0 + until_s) * NS))
    return [(event.code, event.source) for event in out if isinstance(event, Event)]


def admitted(*events: Event) -> list[Event]:
    merge = XidMerge()
    return [event for record in events for event in merge.admit([record], record.received_at_ns) if isinstance(event, Event)]


def log_is_read(merge: XidMerge) -> XidMerge:
    """Let the merge know that the kernel log of n1 is read."""
    merge.admit([SourceState(node="n1", observed_at_ns=0, received_at_ns=0, source="kernel_log", state="ok")], 0)
    return merge


@pytest.mark.parametrize("order", list(itertools.permutations(("kernel_log", "nvml"))))
def test_two_sources_tell_one_xid_once(order: tuple[str, str]) -> None:
    """The first to tell is passed on, the other adds nothing, in either order."""
    assert told(xid(48, 0, order[0]), xid(48, 1.5, order[1])) == [(48, order[0])]


def test_the_driver_s_text_is_preferred_where_the_log_is_read() -> None:
    """An XID of NVML waits for the line of the log, which knows the recovery action; without a line it passes after the window."""
    verdict = xid(154, 0.3, recovery_action=1)
    assert told(xid(154, 0, "nvml"), verdict, merge=log_is_read(XidMerge()), until_s=100) == [(154, "kernel_log")]
    merge = log_is_read(XidMerge())
    alone = xid(48, 0, "nvml")
    assert merge.admit([alone], alone.received_at_ns) == []
    assert merge.admit([], alone.received_at_ns + 2 * NS) == [alone]
    assert told(xid(48, 1, "kernel_log"), merge=merge) == []


def test_under_a_scaled_clock_the_window_is_longer() -> None:
    """At 1,440 times the speed, two reads half a second apart lie 720 s apart."""
    events = (xid(48, 0, "nvml"), xid(48, 720))
    assert len(told(*events, merge=log_is_read(XidMerge()), until_s=5_000)) == 2
    assert told(*events, merge=log_is_read(XidMerge(scale=1_440)), until_s=5_000) == [(48, "kernel_log")]


@pytest.mark.parametrize(("code", "use"), [(48, "label"), (13, "noise"), (999, "unknown")])
def test_an_event_without_use_gets_that_of_the_catalogue(code: int, use: str) -> None:
    """NVML's events come unclassified."""
    assert [event.use for event in admitted(xid(code, 0, "nvml", use=None))] == [use]


def test_a_repeat_is_a_repeat() -> None:
    """Two XIDs of one code in the kernel log are two, also when NVML tells both."""
    assert told(xid(31, 0), xid(31, 0.5), xid(31, 0.1, "nvml"), xid(31, 0.6, "nvml")) == [(31, "kernel_log")] * 2


def test_different_gpus_codes_and_times_are_different_events() -> None:
    """Only the same code on the same GPU within the window is the same."""
    events = (xid(48, 0), xid(48, 0, "nvml", gpu=1), xid(95, 0, "nvml"), xid(48, 5, "nvml"), xid(48, 0, "nvml", node="n2"))
    assert told(*events) == [(48, "kernel_log"), (48, "nvml"), (95, "nvml"), (48, "nvml"), (48, "nvml")]


@pytest.mark.parametrize("kernel_first", [True, False])
def test_the_gauge_never_overrides_an_authority(kernel_first: bool) -> None:
    """The exporter's sticky gauge, up to an interval late, is dropped for the log line, whichever is read first."""
    log, gauge = xid(31, 0), xid(31, 29, "exporter")
    assert told(*((log, gauge) if kernel_first else (gauge, log)), until_s=200) == [(31, "kernel_log")]


def test_a_hint_that_nobody_confirms_is_passed_on_after_its_time() -> None:
    """Where no kernel log is read, the gauge is what there is."""
    merge = XidMerge(hold_s=60)
    hint = xid(31, 0, "exporter")
    assert merge.admit([hint], hint.received_at_ns) == []
    assert merge.admit([], hint.received_at_ns + 61 * NS) == []
    assert merge.admit([], hint.received_at_ns + 62 * NS) == [hint]


def test_bus_loss_merges_with_79_of_another_source() -> None:
    """The driver's text and NVML's 79 are one incident."""
    assert told(xid(79, 0, kind="bus_loss"), xid(79, 20, "nvml")) == [(79, "kernel_log")]


def test_an_event_without_uuid_finds_its_gpu_by_address() -> None:
    """A log that never named the GPU is bound by what NVML or the exporter said sits at the address."""
    merge = XidMerge()
    sample = GpuSample(node="n1", observed_at_ns=0, received_at_ns=0, source="nvml", gpu_uuid="GPU-7", tier="cold", pci="0000:3b:00")
    event = xid(48, 0, gpu_uuid=None, pci="0000:3b:00")
    admitted = merge.admit([sample, event], event.received_at_ns)
    assert admitted[0] is sample
    assert isinstance(admitted[1], Event)
    assert admitted[1].gpu_uuid == "GPU-7"


@pytest.mark.parametrize(
    ("events", "follows"),
    [
        ((xid(48, 0), xid(31, 3)), True),
        ((xid(79, 0), xid(31, 3)), True),
        ((xid(94, 0), xid(31, 3)), True),
        ((xid(94, 0, gpu=1), xid(31, 3)), None),
        ((xid(94, 0), xid(31, 90)), None),
        ((xid(79, 0, gpu=1), xid(74, 3)), True),
        ((xid(74, 3),), None),
        ((xid(45, 0),), True),
    ],
)
def test_consequences_are_told_from_causes(events: tuple[Event, ...], follows: bool | None) -> None:
    """45 always follows; 31 follows memory errors and losses of its GPU; 74 follows the failure of a peer."""
    assert admitted(*events)[-1].is_sympathetic is follows


def test_the_root_is_the_earliest_cause() -> None:
    """Everything that a failure drags along within a minute names it, and the driver's own word stands."""
    chain = admitted(xid(48, 0), xid(63, 0.4), xid(95, 0.8), xid(45, 1.5, root_code=95), xid(154, 2))
    assert [(event.code, event.root_code) for event in chain] == [(48, None), (63, 48), (95, 48), (45, 95), (154, 48)]


@pytest.mark.parametrize("attribute", [171, 172])
def test_memory_attributes_are_no_second_failure(attribute: int) -> None:
    """171 and 172 only say which memory a 48 was in; if they come first, the 48 follows from them."""
    assert told(xid(48, 0), xid(attribute, 1)) == [(48, "kernel_log")]
    first, second = admitted(xid(attribute, 0), xid(48, 1))
    assert (first.code, second.code, second.is_sympathetic, second.root_code) == (attribute, 48, True, attribute)


def test_page_faults_all_over_a_node_are_a_bug_of_the_job() -> None:
    """31 on four GPUs within seconds accuses none of them from the fourth on; spread over minutes it stays what it is."""
    assert [event.use for event in admitted(*(xid(31, gpu * 0.15, gpu=gpu) for gpu in range(5)))] == ["noise"] * 3 + ["exclude"] * 2
    assert [event.use for event in admitted(*(xid(31, gpu * 20.0, gpu=gpu) for gpu in range(5)))] == ["noise"] * 5


@given(st.lists(st.tuples(st.sampled_from([13, 31, 45, 48, 79, 94, 154]), st.integers(0, 300), st.integers(0, 2)), max_size=30))
def test_the_kernel_log_alone_loses_nothing(log: list[tuple[int, int, int]]) -> None:
    """Whatever the log says passes, in order and once, with nothing but its cause added."""
    events = [xid(code, at_s, gpu=gpu) for code, at_s, gpu in sorted(log, key=lambda entry: entry[1])]
    assert [event.detail for event in admitted(*events)] == [event.detail for event in events]


def test_a_storm_is_told_whole_and_keeps_its_root() -> None:
    """A thousand events of one moment are all told within seconds of CPU, and what follows still names the first as its root."""
    merge = XidMerge()
    began_s = time.process_time()
    storm = [xid(79, 0.0), *(xid(63, n / 1000, gpu=n % 8) for n in range(1000))]
    assert len(told(*storm, merge=merge)) == 1001
    assert time.process_time() - began_s < 5
    (event,) = (row for row in merge.admit([xid(45, 30.0)], int((T0 + 30) * NS)) if isinstance(row, Event))
    assert (event.root_code, event.is_sympathetic) == (79, True)


def test_what_is_held_at_the_end_is_told() -> None:
    """A gauge that still waits for the log is told when nobody will be read any more, once."""
    merge = XidMerge()
    assert told(xid(63, 0.0, "exporter"), merge=merge) == []
    assert [row.code for row in merge.release_all() if isinstance(row, Event)] == [63]
    assert merge.release_all() == []


def test_a_clock_that_is_set_back_holds_nothing_for_longer() -> None:
    """What waits when the clock goes back an hour passes after its own wait, and each event once."""
    merge = log_is_read(XidMerge(hold_s=60))
    hint, waiting = xid(48, 0, "exporter"), xid(79, 0, "nvml", gpu=1)
    assert merge.admit([hint, waiting], hint.received_at_ns) == []
    back_ns = hint.received_at_ns - 3_600 * NS
    assert merge.admit([], back_ns) == []
    assert merge.admit([], back_ns + 2 * NS) == [waiting]
    assert [getattr(event, "detail", None) for event in merge.admit([], back_ns + 62 * NS)] == [hint.detail]
    assert merge.release_all() == []


def test_an_event_is_recognised_by_another_source_after_the_clock_was_set_back() -> None:
    """The log's line of an XID that NVML told a second before the step is the same event, and one that comes an hour later is another."""
    merge = XidMerge()
    before = xid(48, 0, "nvml")
    assert told(before, xid(48, 1 - 3_600), merge=merge) == [(48, "nvml")]
    assert told(xid(48, 0, "kernel_log"), merge=merge) == [(48, "kernel_log")]


def test_what_was_received_by_the_clock_before_it_was_set_back_does_not_wait_for_it() -> None:
    """An event that is admitted after the step, and was stamped before it, waits no longer than any other."""
    merge = log_is_read(XidMerge())
    waiting = xid(79, 0, "nvml")
    now_ns = waiting.received_at_ns - 3_600 * NS
    assert merge.admit([waiting], now_ns) == []
    assert merge.admit([], now_ns + 2 * NS) == [waiting]


@pytest.mark.parametrize("has_log", [False, True])
def test_event_of_unknown_age_hides_and_explains_none(has_log: bool) -> None:
    """An XID that a BMC replays without a time is told beside the same XID of another source, and is no cause of a later one."""
    merge = log_is_read(XidMerge()) if has_log else XidMerge()
    out: list[Observed] = []
    for event in (xid(79, 0, "redfish", use="exclude"), xid(79, 1, "nvml"), xid(48, 2, "redfish", gpu=1, use="exclude"), xid(31, 3, gpu=1)):
        out += merge.admit([event], event.received_at_ns)
    out += merge.admit([], int((T0 + 10) * NS))
    events = sorted((event.code or 0, event.source, event.use, event.is_sympathetic) for event in out if isinstance(event, Event))
    assert events == [
        (31, "kernel_log", read_catalogue().use(31), None),
        (48, "redfish", "exclude", None),
        (79, "nvml", "label", None),
        (79, "redfish", "exclude", None),
    ]
