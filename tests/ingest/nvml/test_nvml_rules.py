"""The rules that need no driver: epochs, the expected inventory, checks, back-off, return codes, error rates, the wire, the lanes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, cast

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.clock import NS
from ingest.nvml.calls import CALLS
from ingest.nvml.codes import CODES, code_of
from ingest.nvml.epochs import Epoch
from ingest.nvml.further import FURTHER, unpack_ber
from ingest.nvml.inventory import FORGET_AFTER_S, Inventory
from ingest.nvml.memory import Memory, load, save
from ingest.nvml.protocol import HEAD_BYTES, Answer, Reading, Seat, frame, to_supervisor
from ingest.nvml.rows import COLUMNS, check
from ingest.nvml.signals import LINK_TOTALS, SIGNALS, VOLATILE, Call
from ingest.nvml.supervisor import Pause
from ingest.schema import GpuSample

DAY_NS = 86_400 * NS


def follow(epoch: Epoch, boot: str = "b", driver: str = "580", **values: float) -> tuple[int, set[str]]:
    back = epoch.follow(values, boot_id=boot, driver_version=driver)
    return epoch.number, back


def test_two_counters_back_together_are_a_new_epoch() -> None:
    """Energy and a corrected-error counter that step back in one poll have been restarted."""
    epoch = Epoch()
    follow(epoch, energy_mj_total=10_000, dram_ce_volatile_total=150)
    assert follow(epoch, energy_mj_total=4_200, dram_ce_volatile_total=2) == (1, set())


def test_one_counter_back_alone_went_back() -> None:
    """A replay counter that alone steps back, while energy goes on, is flagged and begins no epoch."""
    epoch = Epoch()
    follow(epoch, energy_mj_total=10_000, pcie_replay_total=150)
    assert follow(epoch, energy_mj_total=10_500, pcie_replay_total=1) == (0, {"pcie_replay_total"})


def test_lifetime_counter_back_went_back_whatever_restarted() -> None:
    """A counter that the GPU keeps for life is flagged when it steps back, also with a reload or a boot, and begins no epoch by itself."""
    epoch = Epoch()
    follow(epoch, energy_mj_total=10_000, ecc_ce_aggregate_total=150, remapped_rows_ue_total=2)
    assert follow(epoch, energy_mj_total=10_500, ecc_ce_aggregate_total=1, remapped_rows_ue_total=1) == (
        0,
        {"ecc_ce_aggregate_total", "remapped_rows_ue_total"},
    )
    assert follow(epoch, driver="595", energy_mj_total=9, ecc_ce_aggregate_total=0) == (1, {"ecc_ce_aggregate_total"})
    assert follow(epoch, boot="c", driver="595", energy_mj_total=1, remapped_rows_ue_total=0) == (0, {"remapped_rows_ue_total"})


def test_energy_alone_is_a_restart_where_nothing_contradicts() -> None:
    """Where all other counters are zero energy alone tells a restart; where another kept its value it does not."""
    clean, marked = Epoch(), Epoch()
    follow(clean, energy_mj_total=10_000, pcie_replay_total=0)
    follow(marked, energy_mj_total=10_000, pcie_replay_total=7)
    assert follow(clean, energy_mj_total=10, pcie_replay_total=0) == (1, set())
    assert follow(marked, energy_mj_total=10, pcie_replay_total=7) == (0, {"energy_mj_total"})


def test_uptime_driver_and_boot_decide_first() -> None:
    """Uptime that goes back, another driver version and another boot begin an epoch whatever the counters do; a boot begins with 0."""
    epoch = Epoch()
    follow(epoch, uptime_s=5000, energy_mj_total=10)
    assert follow(epoch, uptime_s=20, energy_mj_total=900) == (1, set())
    assert follow(epoch, driver="595", uptime_s=80, energy_mj_total=950) == (2, set())
    assert follow(epoch, boot="c", driver="595", uptime_s=90, energy_mj_total=1) == (0, set())
    assert follow(epoch, boot="c", driver="595", uptime_s=150, energy_mj_total=0) == (0, {"energy_mj_total"})


@given(st.lists(st.fixed_dictionaries({name: st.integers(0, 2**40) for name in VOLATILE[:4]}), min_size=1, max_size=20))
def test_epoch_never_goes_back_within_a_boot(polls: list[dict[str, int]]) -> None:
    """Within a boot the epoch only grows, by one at most, and a counter is flagged only when it stepped back."""
    epoch, last, numbers = Epoch(), dict.fromkeys(VOLATILE[:4], 0), [0]
    for values in polls:
        number, back = follow(epoch, **values)
        assert number - numbers[-1] in (0, 1)
        assert back <= {name for name in values if values[name] < last[name]}
        assert not (back and number > numbers[-1])
        numbers.append(number)
        last = values


def seats(*names: str) -> list[Seat]:
    return [Seat(f"GPU-{name}", at, f"serial {name}", f"00000000:{at + 16:02X}:00.0", "H100") for at, name in enumerate(names)]


def test_gpu_is_expected_until_another_sits_there() -> None:
    """A GPU that is gone is missing, told once and absent in every look, until another GPU takes its seat."""
    inventory = Inventory()
    assert [seat.gpu_uuid for seat in inventory.look(seats("a", "b"), (), 0).inserted] == ["GPU-a", "GPU-b"]
    first, second = (inventory.look(seats("a"), (), at) for at in (1, 2))
    assert [[seat.gpu_uuid for seat in look.missing] for look in (first, second)] == [["GPU-b"], []]
    assert [[seat.gpu_uuid for seat in look.absent] for look in (first, second)] == [["GPU-b"], ["GPU-b"]]
    swapped = inventory.look(seats("a", "c"), (), 3)
    assert [seat.gpu_uuid for seat in swapped.removed] == ["GPU-b"]
    assert [seat.gpu_uuid for seat in swapped.inserted] == ["GPU-c"]
    assert swapped.absent == []


def test_absence_grows_old() -> None:
    """After a week of absence a GPU is removed and no longer expected."""
    inventory = Inventory()
    inventory.look(seats("a", "b"), (), 0)
    inventory.look(seats("a"), (), DAY_NS)
    assert inventory.look(seats("a"), (), int(FORGET_AFTER_S * NS)).removed == []
    assert [seat.gpu_uuid for seat in inventory.look(seats("a"), (), int(FORGET_AFTER_S * NS) + 1).removed] == ["GPU-b"]
    assert inventory.look(seats("a"), (), 9 * DAY_NS).absent == []


def test_all_gone_says_nothing_about_any() -> None:
    """When no GPU is listed, none is said to be missing."""
    inventory = Inventory()
    inventory.look(seats("a", "b"), (), 0)
    changes = inventory.look([], (), DAY_NS)
    assert (changes.missing, changes.absent, changes.removed) == ([], [], [])


def test_nameless_lost_gpu_is_the_one_that_had_its_index() -> None:
    """A listed GPU that does not say who it is, is the expected one of that index."""
    inventory = Inventory()
    inventory.look(seats("a", "b", "c"), (), 0)
    changes = inventory.look([seats("a", "b", "c")[at] for at in (0, 2)], (1,), 1)
    assert [seat.gpu_uuid for seat in changes.lost] == ["GPU-b"]
    assert changes.missing == []


def checked(most_power_w: float = 700, **values: float) -> tuple[dict[str, Any], dict[str, str]]:
    left, quality = dict(values), dict[str, str]()
    check(cast("dict[str, Any]", left), quality, most_power_w)
    return left, quality


def test_checks() -> None:
    """What cannot be is taken back with its reason; what is merely odd stays and is flagged; what can be is left alone."""
    assert checked(gpu_util_ratio=1.01) == ({}, {"gpu_util_ratio": "out_of_range"})
    assert checked(gpu_util_ratio=1.0, power_w=2100) == ({"gpu_util_ratio": 1.0, "power_w": 2100}, {})
    assert checked(power_w=2101) == ({}, {"power_w": "out_of_range"})
    assert checked(memory_temp_c=0, temp_c=41) == ({"temp_c": 41}, {"memory_temp_c": "not_supported"})
    assert checked(memory_temp_c=0, temp_c=12) == ({"memory_temp_c": 0, "temp_c": 12}, {})
    assert checked(pcie_replay_total=2**31 - 1) == ({"pcie_replay_total": 2**31 - 1}, {"pcie_replay_total": "suspect"})
    assert checked(energy_mj_total=2**63) == ({}, {"energy_mj_total": f"overflow {2**63}"})


def test_every_return_code_of_the_bindings_is_known() -> None:
    """A return code that NVIDIA adds must be thought about."""
    theirs = {value for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_")}
    assert theirs == set(CODES)
    assert code_of(1234).quality == "absent"
    assert {code.quality for code in CODES.values()} == {"absent", "not_supported", "no_permission", "timeout", "lost"}


def test_tables_name_what_exists() -> None:
    """Every column of a signal is one of gpu_samples, no further signal is, and every named call is written."""
    fields = set(GpuSample.__struct_fields__)
    assert fields >= COLUMNS
    assert {column for signal in SIGNALS for column in signal.columns} | set(LINK_TOTALS) == COLUMNS
    names = [column for signal in FURTHER for column in signal.columns]
    assert not fields & set(names)
    assert len(names) == len(set(names))
    asked = {way.name for signal in (*SIGNALS, *FURTHER) for way in signal.ways if isinstance(way, Call)}
    assert asked == set(CALLS)
    ids = {way.id for signal in (*SIGNALS, *FURTHER) for way in signal.ways if not isinstance(way, Call)}
    assert not ids & {199, 200, 226, 227}, "fields that changed their meaning between headers"


@pytest.mark.parametrize(("mantissa", "exponent", "rate"), [(1, 12, 1e-12), (10, 13, 1e-12), (0, 0, 0.0), (0, 9, 0.0), (15, 255, 0.0)])
def test_bit_error_rate(mantissa: int, exponent: int, rate: float) -> None:
    """A packed rate is mantissa times ten to the minus exponent; the word of all ones is no error at all."""
    assert unpack_ber(mantissa << 8 | exponent) == pytest.approx(rate, abs=0)


def test_pause_doubles_up_to_a_minute() -> None:
    """A back-off begins with about a second, doubles, and never exceeds 75 seconds with its jitter."""
    now = [0.0]
    pause = Pause(random.Random(7), lambda: now[0])
    assert pause.is_over()
    lengths = []
    for _ in range(10):
        pause.begin()
        started = now[0]
        while not pause.is_over():
            now[0] += 0.01
        lengths.append(now[0] - started)
    assert 0.75 <= lengths[0] <= 1.26
    assert 1.5 <= lengths[1] <= 2.51
    assert all(45 <= length <= 75.01 for length in lengths[6:])


def test_memory_file_that_cannot_be_read_is_no_memory(tmp_path: Path) -> None:
    """What was saved is loaded; a torn or missing file is an empty memory."""
    memory = Memory()
    memory.inventory.look(seats("a"), (), 5)
    memory.epochs["GPU-a"] = Epoch("b", "580", 3, 12.5, {"energy_mj_total": 9})
    save(memory, tmp_path / "memory.json")
    assert load(tmp_path / "memory.json") == memory
    (tmp_path / "torn.json").write_bytes((tmp_path / "memory.json").read_bytes()[:40])
    assert load(tmp_path / "torn.json") == Memory()
    assert load(tmp_path / "none.json") == Memory()
    assert load(None) == Memory()


def test_answer_survives_the_wire() -> None:
    """A message is read as it was written."""
    reading = Reading(seats("a")[0], None, 12, {"temp_c": 31.5, "remap_pending": False, "energy_mj_total": 2**60}, {"power_w": "absent"})
    answer = Answer(4, "580", (reading,), (2,), ("GPU-b",))
    framed = frame(answer)
    assert int.from_bytes(framed[:HEAD_BYTES], "big") == len(framed) - HEAD_BYTES
    assert to_supervisor.decode(framed[HEAD_BYTES:]) == answer
