"""Whatever stands in one job, the job itself stays as far as it can be read, and the others are told as they are."""

from __future__ import annotations

import copy
from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from ingest.clock import NS, ManualClock
from ingest.deliveries import check_delivery
from ingest.jobs.entry import jobs_of
from ingest.jobs.hostlist import expand
from ingest.jobs.source import JobsSource
from ingest.messages import VERSION, Message, decode, encode
from ingest.schema import Job
from tests.ingest.jobs.test_jobs import AT, NEW, OLD

HUGE = 99999999999999999999


class Asked:
    """Slurm that answers the queue as told, one answer after the other, and has accounting where it is given."""

    def __init__(self, *queues: list[Any], ended: list[Any] | None = None) -> None:
        self.has_accounting = ended is not None
        self._queues = list(queues)
        self._ended = ended or []

    async def queue(self) -> list[Any]:
        return self._queues.pop(0)

    async def ended(self, job_ids: Collection[str]) -> list[Any]:
        return self._ended


async def told(*queues: list[Any], ended: list[Any] | None = None) -> list[list[Job]]:
    """Read one answer after the other; give what is said at each."""
    source = JobsSource("c1", Asked(*queues, ended=ended), clock=ManualClock(AT))
    return [[job for job in await source.read(AT) if isinstance(job, Job)] for _ in queues]


def only(entry: Any) -> Job:
    (job,) = jobs_of([entry], "c1", AT).jobs
    return job


DECLARED = "ckpt_s=600 ckpt=periodic elastic=1 tolerates_f=2 sync=tight"


@pytest.mark.parametrize(
    ("word", "field"),
    [
        *((f"ckpt_s={text}", "checkpoint_interval_s") for text in ("10min", "nan", "inf", "-600", "0", "1e300", "", "9" * 5000)),
        *((f"ckpt={text}", "checkpoint_mode") for text in ("often", "PERIODIC!", "", "x" * 10_000)),
        *((f"elastic={text}", "is_elastic") for text in ("maybe", "2", "", "nan")),
        *((f"tolerates_f={text}", "tolerates_f") for text in (str(HUGE), "-1", "1.5", "all", "nan", "", "9" * 5000)),
        *((f"sync={text}", "sync") for text in ("very", "")),
    ],
)
async def test_a_declaration_that_cannot_be_read_is_none(word: str, field: str) -> None:
    """The job is told once with everything else it says, and never again while it says the same; the word is counted and logged once."""
    odd = OLD | {"comment": f"{DECLARED} {word}"}
    with capture_logs() as lines:
        first, second = await told([odd], [odd])
    assert second == []
    assert [getattr(job, field) for job in first] == [None]
    whole, (job,) = only(OLD), first
    assert {name for name in Job.__struct_fields__ if getattr(job, name) != getattr(whole, name)} == {field}
    assert [(line["event"], line["job_id"], line["field"]) for line in lines] == [("job_value_unreadable", "17", field)]


@pytest.mark.parametrize(
    ("word", "field", "value"),
    [
        ("ckpt_s=0.5", "checkpoint_interval_s", 0.5),
        ("elastic=No", "is_elastic", False),
        ("elastic=true", "is_elastic", True),
        ("tolerates_f=0", "tolerates_f", 0),
        ("ckpt=jit", "checkpoint_mode", "jit"),
        ("sync=loose", "sync", "loose"),
    ],
)
def test_reads_a_declaration(word: str, field: str, value: object) -> None:
    """Any of the words, among others that are none."""
    assert getattr(only(OLD | {"comment": f"for anna: {word}, notckpt_s=7 a=ckpt_s=8 " + "a" * 1_000_000}), field) == value


@pytest.mark.parametrize(
    ("damage", "field"),
    [
        ({"comment": 7}, "checkpoint_interval_s"),
        ({"restart_cnt": HUGE}, "restarts"),
        ({"restart_cnt": -1}, "restarts"),
        ({"restart_cnt": "1"}, "restarts"),
        ({"restart_cnt": {"set": True, "number": 2**62}}, "restarts"),
        ({"submit_time": 10**18}, "submitted_at_ns"),
        ({"submit_time": 1000}, "submitted_at_ns"),
        ({"submit_time": -5}, "submitted_at_ns"),
        ({"submit_time": "yesterday"}, "submitted_at_ns"),
        ({"start_time": 7_258_118_400}, "started_at_ns"),
        ({"gres_detail": ["gpu:" + "9" * 30]}, "gpus"),
        ({"gres_detail": [], "tres_alloc_str": "gres/gpu=" + "9" * 30}, "gpus"),
        ({"gres_detail": [], "tres_alloc_str": "gres/gpu=" + "9" * 5000}, "gpus"),
        ({"gres_detail": [], "tres": {"allocated": [{"type": "gres", "name": "gpu", "count": HUGE}]}}, "gpus"),
        ({"gres_detail": [7]}, "gpus"),
        ({"job_resources": {}, "nodes": "a[1-99999999999999999999]"}, "nodes"),
        ({"job_resources": {}, "nodes": "a[1-60000]b[1-60000]"}, "nodes"),
        ({"job_resources": {}, "nodes": None}, "nodes"),
        ({"job_resources": 1, "nodes": {}}, "nodes"),
        ({"job_resources": {"allocated_nodes": [{"nodename": 7}]}, "nodes": []}, "nodes"),
        ({"job_resources": {"allocated_nodes": [{"nodename": "n"}] * 65_537}, "nodes": []}, "nodes"),
    ],
)
async def test_a_value_out_of_bounds_costs_itself_alone(damage: dict[str, Any], field: str) -> None:
    """The job is told with everything else; what was said of the value before is kept, save of what a job declares."""
    (first,), again = await told([OLD | damage], [OLD | damage])
    assert (getattr(first, field), again) == (() if field == "nodes" else None, [])
    whole = only(OLD)
    declared = ("checkpoint_mode", "checkpoint_interval_s", "is_elastic", "tolerates_f", "sync") if "comment" in damage else ()
    assert {name for name in Job.__struct_fields__ if getattr(first, name) != getattr(whole, name)} == {field, *declared}
    check_delivery(encode(Message(v=VERSION, table="jobs", node="c1", origin="o", seq=1, rows=(first,))))

    _, then = await told([OLD], [OLD | damage])
    assert [getattr(job, field) for job in then] == ([None] if declared else [])


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        ({"exit_code": HUGE}, None),
        ({"exit_code": {"return_code": HUGE}}, None),
        ({"exit_code": {"signal": 7}}, None),
        ({"exit_code": []}, None),
    ],
)
def test_an_exit_code_out_of_bounds_is_none(damage: dict[str, Any], code: int | None) -> None:
    """The job has ended all the same."""
    job = only(OLD | {"job_state": "FAILED"} | damage)
    assert (job.state, job.exit_code, job.ended_at_ns) == ("failed", code, 1_781_535_100 * NS)


@pytest.mark.parametrize("text", ["a[1-99999999999999999999]", "a[1-60000]b[1-60000]", "a[1-40000],b[1-40000]", "a[1-65537]", "[1]" * 500])
def test_a_host_list_has_an_end(text: str) -> None:
    """More hosts than there can be, in one bracket, several or several words, and names without end are no host list."""
    with pytest.raises(ValueError, match="not a host list"):
        expand(text)


@pytest.mark.parametrize("text", ["a[1-2", "]a[", "a[[1]]", "a[5-1]", "a[x]", "a[]", "a[1-2-3]", "a[-1]"])
def test_what_is_no_host_list_names_nobody(text: str) -> None:
    """Brackets and ranges that are none are refused, not guessed at."""
    with pytest.raises(ValueError, match="not a host list"):
        expand(text)


@pytest.mark.parametrize(
    "state", [{"job_state": None}, {"job_state": 7}, {"job_state": []}, {"job_state": "FROBNICATING"}, {"job_state": [7]}]
)
async def test_a_job_in_the_queue_never_becomes_unknown(state: dict[str, Any]) -> None:
    """A state that cannot be read leaves the job as it was said; nothing is said of one that is new, until its state is known."""
    odd = OLD | state
    assert await told([OLD], [odd], [odd], ended=[]) == [[only(OLD)], [], []]
    assert await told([odd], [OLD]) == [[], [only(OLD)]]


@pytest.mark.parametrize("nameless", [None, 7, [], {}, {"job_id": None}, {"job_id": {"set": True}}, {"job_id": True}, {"job_id": ""}])
async def test_a_job_without_an_id_may_be_any_that_is_gone(nameless: Any) -> None:
    """While it stands in the queue no job becomes unknown; what accounting knows is told."""
    ended = [{"job_id": 17, "state": {"current": "COMPLETED"}, "nodes": "gpu[001-002]"}]
    first, second, third = await told([OLD], [nameless], [])
    assert ([job.state for job in first], second, [job.state for job in third]) == (["running"], [], ["unknown"])
    first, second = await told([OLD], [nameless], ended=ended)
    assert [job.state for job in second] == ["completed"]


async def test_what_accounting_says_unreadably_is_kept_from_the_queue() -> None:
    """The nodes of a job that has left the queue stay known; without a state it is unknown, and its job is not asked for again."""
    entry = {"job_id": 17, "state": {"current": "NODE_FAIL"}, "nodes": "a[1-99999999999999999999]"}
    _, (job,) = await told([OLD], [], ended=[entry])
    assert (job.state, job.nodes) == ("node_fail", ("gpu001", "gpu002"))
    _, (job,), then = await told([OLD], [], [], ended=[entry | {"state": 7}])
    assert (job.state, job.nodes, then) == ("unknown", ("gpu001", "gpu002"), [])


HOSTILE = st.sampled_from([HUGE, -1, 10**18, "a[1-99999999999999999999]", "ckpt_s=nan", f"tolerates_f={HUGE}", "gres/gpu=" + "9" * 30])
JUNK = HOSTILE | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | HOSTILE,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | st.sampled_from(["set", "number"]), inner, max_size=3)
    ),
)
PENDING = {"job_id": 19, "job_state": ["PENDING"], "submit_time": 1_749_999_000, "comment": "tolerates_f=1"}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """List every place in an answer."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, below in inner for place in places(below, (*path, key)))]


@given(st.data(), st.sampled_from([0, 1, 2]))
def test_one_odd_job_costs_no_other_its_row(data: st.DataObject, which: int) -> None:
    """Anything anywhere in one of three jobs: the other two are told exactly, and every row becomes a row of the lake."""
    entries: list[Any] = copy.deepcopy([OLD, NEW, PENDING])
    path = data.draw(st.sampled_from(places(entries[which])))
    holder: Any = entries
    for key in (which, *path[:-1]) if path else ():
        holder = holder[key]
    holder[path[-1] if path else which] = data.draw(JUNK)
    others = [job for number, job in enumerate(jobs_of([OLD, NEW, PENDING], "c1", AT).jobs) if number != which]

    found = jobs_of(entries, "c1", AT).jobs

    assume(len({job.job_id for job in found}) == len(found))  # an id that happens to be another's
    assert [job for job in found if job in others] == others
    assert len(found) <= 3
    body = encode(Message(v=VERSION, table="jobs", node="c1", origin="o", seq=1, rows=tuple(found)))
    assert check_delivery(body).rows == decode(body).rows == tuple(found)
