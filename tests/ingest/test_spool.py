"""The spool is a queue that survives its process, never drops an event and never gives a number twice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import REGISTRY

from ingest.errors import ConfigError
from ingest.messages import decode
from ingest.schema import Event, GpuSample
from ingest.spool import Spool

DAY = 1_750_000_000_000_000_000


def sample(node: str = "n1", at: int = DAY, **fields: object) -> GpuSample:
    """One sample with the fields a test cares about."""
    return GpuSample(node=node, gpu_uuid="GPU-1", tier="hot", observed_at_ns=at, received_at_ns=at, source="nvml", **fields)


def event(code: int, node: str = "n1") -> Event:
    """One XID."""
    return Event(node=node, kind="xid", code=code, observed_at_ns=DAY, received_at_ns=DAY, source="kernel_log")


def dropped(reason: str) -> float:
    """Read the drop counter."""
    return REGISTRY.get_sample_value("forewarn_spool_dropped_records_total", {"reason": reason}) or 0.0


def test_gives_back_what_was_put_events_first(tmp_path: Path) -> None:
    """Messages come back in order, those of events before those of gauges."""
    spool = Spool(tmp_path)
    spool.put("gpu_samples", "n1", [sample(temp_c=40.0)])
    spool.put("events", "n1", [event(79)])
    spool.put("events", "n1", [event(48)])

    taken = spool.take(10)

    assert [(message.table, decode(message.body).rows) for message in taken] == [
        ("events", (event(79),)),
        ("events", (event(48),)),
        ("gpu_samples", (sample(temp_c=40.0),)),
    ]
    spool.close()


def test_what_is_not_released_comes_again_after_a_restart_under_the_same_number(tmp_path: Path) -> None:
    """A restart repeats exactly the unreleased messages, with their origin and number."""
    spool = Spool(tmp_path)
    for code in (13, 31, 48):
        spool.put("events", "n1", [event(code)])
    first = spool.take(10)
    spool.release(first[0])
    spool.close()

    again = Spool(tmp_path)

    assert [(m.origin, m.seq, m.body) for m in again.take(10)] == [(m.origin, m.seq, m.body) for m in first[1:]]
    again.close()


def test_numbers_go_on_after_a_crash_even_when_everything_was_released(tmp_path: Path) -> None:
    """A spool that was not closed never gives a number again."""
    spool = Spool(tmp_path)
    spool.put("events", "n1", [event(13)])
    (message,) = spool.take(10)
    spool.release(message)
    os.close(spool._lock_file)  # the process ends here without closing

    after = Spool(tmp_path)
    after.put("events", "n1", [event(31)])

    (newer,) = after.take(10)
    assert newer.origin == message.origin
    assert newer.seq > message.seq
    after.close()


def test_a_lost_state_gives_a_new_origin(tmp_path: Path) -> None:
    """Rows of a spool that has lost its numbering must not look like old ones; what it still holds keeps its origin."""
    spool = Spool(tmp_path)
    spool.put("events", "n1", [event(13)])
    spool.close()
    (tmp_path / "state").write_bytes(b"\xff" * 1024)

    after = Spool(tmp_path)
    after.put("events", "n1", [event(31)])

    old, new = after.take(10)
    assert old.origin == spool.origin
    assert new.origin == after.origin != spool.origin
    after.close()


@pytest.mark.parametrize("cut", [1, 7, 9, 60])
def test_a_torn_end_loses_only_the_torn_message(tmp_path: Path, cut: int) -> None:
    """A last segment cut in its last message gives all messages before it, and the spool goes on behind it."""
    spool = Spool(tmp_path)
    for code in (13, 31, 48):
        spool.put("events", "n1", [event(code)])
    spool.close()
    segment = max((tmp_path / "events").glob("*.seg"))
    os.truncate(segment, segment.stat().st_size - cut)

    after = Spool(tmp_path)
    after.put("events", "n1", [event(79)])

    assert [decode(message.body).rows[0].code for message in after.take(10)] == [13, 31, 79]
    after.close()


def test_at_the_bound_gauges_are_refused_and_counted(tmp_path: Path) -> None:
    """The newest gauges go: what was queued stays and the incoming ones are counted as dropped."""
    spool = Spool(tmp_path, max_bytes=20_000)
    before = dropped("full")
    kept = [spool.put("gpu_samples", f"n{i}", [sample(f"n{i}"), sample(f"n{i}")]) for i in range(300)]

    assert kept == sorted(kept, reverse=True)
    assert 0 < sum(kept) < 300
    assert dropped("full") - before == 2 * kept.count(False)
    assert [message.node for message in spool.take(300)] == [f"n{i}" for i in range(sum(kept))]
    spool.close()


def test_events_push_the_newest_gauges_out(tmp_path: Path) -> None:
    """An event always finds room: the newest gauges leave for it, the oldest stay."""
    spool = Spool(tmp_path, max_bytes=40_000, segment_bytes=4096)
    while spool.put("gpu_samples", "n1", [sample(serial=os.urandom(30).hex())]):
        pass
    for code in range(150):
        assert spool.put("events", "n1", [event(code)])

    taken = spool.take(10_000)

    assert [decode(m.body).rows[0].code for m in taken if m.table == "events"] == list(range(150))
    gauges = [m.seq for m in taken if m.table == "gpu_samples"]
    assert gauges == list(range(len(gauges)))
    assert spool.size_bytes <= 44_096
    spool.close()


def test_a_second_process_cannot_open_the_same_directory(tmp_path: Path) -> None:
    """Two spools in one directory would give the same numbers: the second is refused."""
    spool = Spool(tmp_path)
    with pytest.raises(ConfigError, match="another process uses this spool"):
        Spool(tmp_path)
    spool.close()


def test_released_segments_leave_the_disk(tmp_path: Path) -> None:
    """A queue that is read as fast as it is written does not grow."""
    spool = Spool(tmp_path, max_bytes=1 << 20, segment_bytes=4096)
    for number in range(400):
        spool.put("events", "n1", [event(number)])
        spool.release(spool.take(1)[0])

    assert len(list((tmp_path / "events").glob("*.seg"))) == 1
    assert spool.size_bytes < 3 * 4096
    spool.close()


@settings(max_examples=60)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.sampled_from(["events", "gpu_samples"])),
            st.tuples(st.just("take"), st.integers(1, 5)),
            st.tuples(st.just("release"), st.integers(0, 3)),
            st.tuples(st.just("rewind"), st.none()),
            st.tuples(st.just("crash"), st.none()),
        ),
        max_size=60,
    )
)
def test_behaves_like_two_lists(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, object]]) -> None:
    """Under put, take, release, rewind and crash the spool is two lists with a cursor; only unreleased messages repeat."""
    directory = tmp_path_factory.mktemp("spool")
    spool = Spool(directory, segment_bytes=4096)
    lanes: dict[str, list[int]] = {"events": [], "gauges": []}
    cursor = {"events": 0, "gauges": 0}
    open_messages: list[object] = []
    number = 0
    for step, argument in steps:
        if step == "put":
            number += 1
            row = event(number) if argument == "events" else sample(gpu_index=number)
            spool.put(str(argument), "n1", [row])
            lanes["events" if argument == "events" else "gauges"].append(number)
        elif step == "take":
            wanted = [(lane, value) for lane in lanes for value in lanes[lane][cursor[lane] :]][: int(str(argument))]
            taken = spool.take(int(str(argument)))
            assert [(m.lane, getattr(decode(m.body).rows[0], "code" if m.lane == "events" else "gpu_index")) for m in taken] == wanted
            for lane, _ in wanted:
                cursor[lane] += 1
            open_messages += taken
        elif step == "release" and open_messages:
            message = open_messages[min(int(str(argument)), len(open_messages) - 1)]
            spool.release(message)
            lane = message.lane
            through = [m for m in open_messages if m.lane == lane].index(message) + 1
            lanes[lane] = lanes[lane][through:]
            cursor[lane] -= through
            kept = [m for m in open_messages if m.lane == lane][through:]
            open_messages = [m for m in open_messages if m.lane != lane] + kept
        elif step == "rewind":
            spool.rewind()
            cursor, open_messages = {"events": 0, "gauges": 0}, []
        elif step == "crash":
            os.close(spool._lock_file)
            spool = Spool(directory, segment_bytes=4096)
            cursor, open_messages = {"events": 0, "gauges": 0}, []
    spool.close()
