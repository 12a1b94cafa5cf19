"""An event of a kernel log reaches the lake once, however often its log is read."""

from pathlib import Path

from ingest.clock import NS
from ingest.columns import arrow_table
from ingest.known_events import KnownEvents
from ingest.lake import Lake
from ingest.schema import EVENTS, Event

DAY_NS = 86_400 * NS


def event(
    seq: int | None, *, at_ns: int = 20_000 * DAY_NS, boot: str | None = "b1", detail: str = "GPU lost", source: str = "kernel_log"
) -> Event:
    return Event(
        node="n1",
        observed_at_ns=at_ns,
        received_at_ns=at_ns,
        source=source,
        boot_id=boot,
        kind="xid",
        code=79,
        kernel_seq=seq,
        detail=detail,
    )


def test_a_log_read_again_says_nothing_new(tmp_path: Path) -> None:
    """What is in the lake, also of another date, is known to a writer that starts anew."""
    lake = Lake(tmp_path)
    first = (event(1), event(2, at_ns=20_003 * DAY_NS), event(None, boot=None))
    lake.append(EVENTS, arrow_table(EVENTS, first))
    assert KnownEvents(lake).pass_new((*first, event(3))) == (event(3),)


def test_what_was_passed_is_known_until_it_is_given_up(tmp_path: Path) -> None:
    """An event on its way is not passed twice; after a failed write it is new again."""
    known = KnownEvents(Lake(tmp_path))
    assert known.pass_new((event(1), event(1))) == (event(1),)
    known.forget()
    assert known.pass_new((event(1),)) == (event(1),)


def test_two_boots_number_their_records_alike(tmp_path: Path) -> None:
    """The same number after a reboot is another record; without a number, stamp and text tell lines apart."""
    known = KnownEvents(Lake(tmp_path))
    distinct = (event(1), event(1, boot="b2"), event(None, boot=None), event(None, boot=None, detail="other"))
    assert known.pass_new(distinct) == distinct


def test_events_of_other_sources_always_pass(tmp_path: Path) -> None:
    """Only logs are read again from their start; two equal events of NVML are two events."""
    known = KnownEvents(Lake(tmp_path))
    assert len(known.pass_new((event(1, source="nvml"), event(1, source="nvml")))) == 2


def test_only_so_many_dates_are_kept_and_nothing_is_forgotten_by_it(tmp_path: Path) -> None:
    """A log of sixty days read over and over keeps five dates in memory, and says nothing twice."""
    lake = Lake(tmp_path)
    known = KnownEvents(lake, max_dates=5)
    days = [(event(seq, at_ns=(20_000 + seq) * DAY_NS),) for seq in range(60)]
    for events in days:
        assert known.pass_new(events) == events
        lake.append(EVENTS, arrow_table(EVENTS, events))
        known.settle()
        assert known.dates <= 5
    assert [known.pass_new(events) for events in days] == [()] * 60
    assert known.dates <= 5


def test_dates_with_events_that_are_not_yet_in_the_lake_stay(tmp_path: Path) -> None:
    """However many dates one batch has, none of its events is passed twice; after the write the bound holds again."""
    known = KnownEvents(Lake(tmp_path), max_dates=2)
    batch = tuple(event(seq, at_ns=(20_000 + seq) * DAY_NS) for seq in range(6))
    assert known.pass_new(batch) == batch
    assert known.pass_new(batch) == ()
    known.settle()
    assert known.dates == 2
