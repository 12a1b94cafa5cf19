"""The fleet as a function of time: bulk and single reads agree, counters restart with the boot, signs show what they announce."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from emulators.faults import Failure
from emulators.layout import DAY_NS, HOUR_NS, MINUTE_NS, NS, WorldSpec
from emulators.world import World

CADENCE_NS = 300 * NS


@cache
def fleet() -> World:
    return World(WorldSpec.show(nodes=16, days=40))


def slots(world: World, from_day: float, days: float) -> np.ndarray:
    start = world.spec.start_ns + int(from_day * DAY_NS) // CADENCE_NS * CADENCE_NS
    return np.arange(start, start + int(days * DAY_NS), CADENCE_NS)


def first_failure(mode: str, *, lead_h: float = 0.0) -> Failure:
    """Find a visible failure of a mode whose sign lasted long enough."""
    world = fleet()
    for failure in world.failures:
        if failure.mode == mode and failure.onset_ns is not None and failure.failed_ns - failure.onset_ns >= lead_h * HOUR_NS:
            middle = (failure.onset_ns + failure.failed_ns) // 2
            if world.is_up(failure.node, middle) and world.is_up(failure.node, failure.onset_ns):
                return failure
    raise AssertionError(f"BUG: no visible {mode} in the fleet")


def test_one_moment_equals_the_same_moment_in_bulk() -> None:
    """Every field of every GPU state is what the month in bulk has for that GPU and time."""
    world = fleet()
    times = slots(world, 10, 3)
    nodes = np.repeat(np.arange(16), len(times))
    bulk = world.columns(nodes, np.tile(times, 16))
    checked = 0
    for node in (0, 7, 15):
        for k in range(0, len(times), 97):
            states = world.gpu_states(world.nodes[node].name, int(times[k]))
            for slot, state in enumerate(states):
                row = node * len(times) + k
                assert state.gpu_uuid == world.gpus[bulk["gpu"][row, slot]].uuid
                for name in (
                    "temp_c",
                    "power_w",
                    "energy_mj_total",
                    "dram_ce_volatile_total",
                    "uptime_s",
                    "gpu_util_ratio",
                    "pcie_replay_total",
                ):
                    assert getattr(state, name) == bulk[name][row, slot], name
                assert sum(link.crc_total for link in state.links) == bulk["nvlink_crc_total"][row, slot]
                checked += 1
    assert checked > 100


def test_a_world_made_anew_reads_the_same() -> None:
    """The same specification gives the same readings, whatever was asked before."""
    other = World(fleet().spec)
    at_ns = fleet().spec.start_ns + 20 * DAY_NS
    assert other.gpu_states("gpu005", at_ns) == fleet().gpu_states("gpu005", at_ns)
    assert other.chassis_state("gpu005", at_ns) == fleet().chassis_state("gpu005", at_ns)
    assert other.kernel_events("gpu005", at_ns, at_ns + DAY_NS) == fleet().kernel_events("gpu005", at_ns, at_ns + DAY_NS)


def test_another_seed_reads_otherwise() -> None:
    """Another seed gives other GPUs."""
    other = World(replace(fleet().spec, seed=8))
    assert {gpu.uuid for gpu in other.gpus}.isdisjoint(gpu.uuid for gpu in fleet().gpus)


def test_volatile_counters_only_fall_at_a_boot() -> None:
    """Between two polls of the same boot and GPU no counter steps back; persistent ones fall only with the GPU."""
    world = fleet()
    times = slots(world, 0, 39)
    for node in range(0, 16, 5):
        read = world.columns(np.full(len(times), node), times)
        is_up = ~world.timeline.is_down(np.full(len(times), node), times)
        same_boot = (np.diff(read["boot"], axis=0) == 0) & is_up[1:, None] & is_up[:-1, None]
        same_gpu = np.diff(read["gpu"], axis=0) == 0
        for name, values in read.items():
            if not name.endswith("_total"):
                continue
            stays = same_gpu if "aggregate" in name or "remapped" in name else same_boot & same_gpu
            assert (np.diff(values, axis=0)[stays] >= 0).all(), name


def test_a_reboot_starts_the_volatile_counters_over() -> None:
    """A minute after a repair the boot is new, energy is below a minute's worth and the volatile errors are gone."""
    world = fleet()
    failure = next(f for f in world.failures if f.mode == "hbm_ue")
    before = world.gpu_states(failure.node, failure.failed_ns)[failure.slot or 0]
    after = world.gpu_states(failure.node, failure.repaired_ns + MINUTE_NS)[failure.slot or 0]
    assert before.dram_ue_volatile_total == 1
    assert after.dram_ue_volatile_total == 0
    assert after.uptime_s == 60.0
    assert after.energy_mj_total < 700_000 * 60
    assert world.boot_id(failure.node, failure.failed_ns) != world.boot_id(failure.node, failure.repaired_ns)
    assert world.boot_at_ns(failure.node, failure.repaired_ns + MINUTE_NS) == failure.repaired_ns


def test_a_failed_node_is_down_until_repaired() -> None:
    """From `down_ns` on the node shows no GPU, until `repaired_ns`."""
    world = fleet()
    for failure in world.failures[:20]:
        assert world.is_up(failure.node, failure.failed_ns) is (failure.failed_ns < failure.down_ns)
        assert world.gpu_states(failure.node, failure.down_ns) == []
        assert not world.is_up(failure.node, failure.repaired_ns - 1_000_000)
        assert world.is_up(failure.node, failure.repaired_ns)
        assert not world.chassis_state(failure.node, failure.down_ns).power_is_on


def test_energy_is_the_integral_of_power() -> None:
    """Over a day of polls, the energy counter grows by the mean power times the time, within 3 %."""
    world = fleet()
    for node in range(16):
        times = slots(world, 12, 1)
        read = world.columns(np.full(len(times), node), times)
        if len(np.unique(read["boot"])) > 1 or world.timeline.is_down(np.full(len(times), node), times).any():
            continue
        grown_j = (read["energy_mj_total"][-1] - read["energy_mj_total"][0]) / 1000
        assert grown_j == pytest.approx(read["power_w"][:-1].sum(axis=0) * 300, rel=0.03)


def test_power_and_temperature_follow_the_load() -> None:
    """Idle GPUs draw 60-80 W and stay below 40 °C; working ones draw more and are warmer the more they draw."""
    world = fleet()
    times = slots(world, 5, 5)
    read = world.columns(np.repeat(np.arange(16), len(times)), np.tile(times, 16))
    is_idle = read["gpu_util_ratio"] == 0
    assert 0.05 < is_idle.mean() < 0.5
    assert (read["power_w"][is_idle] < 85).all()
    assert (read["temp_c"][is_idle] < 42).all()
    assert np.corrcoef(read["power_w"].ravel(), read["temp_c"].ravel())[0, 1] > 0.9
    assert read["power_w"].max() <= 700


def test_a_thermal_sign_is_a_drift_at_fixed_power() -> None:
    """Temperature left over after power and peers rises by the sign's 0.2-1 °C per day towards a thermal failure."""
    world = fleet()
    failure = first_failure("thermal", lead_h=120)
    first = failure.onset_ns // CADENCE_NS * CADENCE_NS
    times = np.arange(first, failure.failed_ns, CADENCE_NS)
    read = world.columns(np.full(len(times), failure.node_index), times)
    warmth = read["temp_c"] - 0.052 * read["power_w"]
    others = np.delete(warmth, failure.slot, axis=1).mean(axis=1)
    up = ~world.timeline.is_down(np.full(len(times), failure.node_index), times)
    slope = np.polyfit((times[up] - first) / DAY_NS, (warmth[:, failure.slot] - others)[up], 1)[0]
    assert 0.15 < slope < 1.05


def test_memory_errors_gather_before_an_uncorrectable_one() -> None:
    """A visible HBM failure has corrected errors within its lead, more of them in its second half than in its first."""
    world = fleet()
    grown = []
    for failure in world.failures:
        if failure.mode == "hbm_ue" and failure.onset_ns is not None:
            seat = np.array([failure.node_index * 8 + failure.slot])
            middle = (failure.onset_ns + failure.failed_ns) // 2
            totals = [
                world.telemetry._counters["dram_ce"].total(seat, np.array([at]))[0] for at in (failure.onset_ns, middle, failure.failed_ns)
            ]
            grown.append((totals[1] - totals[0], totals[2] - totals[1]))
    assert len(grown) > 10
    assert all(early + late > 0 for early, late in grown)
    assert sum(late > early for early, late in grown) > 0.7 * len(grown)


def test_a_structural_sign_hides_the_gpu_before_it_is_lost() -> None:
    """Before a visible loss of the bus the GPU is gone from the list; afterwards it is there and lost, until the node is down."""
    failure = first_failure("fell_off_bus")
    world = fleet()
    middle = (failure.onset_ns + failure.failed_ns) // 2
    assert world.gpu_states(failure.node, middle)[failure.slot].is_hidden
    after = world.gpu_states(failure.node, failure.failed_ns + 1_000_000)[failure.slot]
    assert (after.is_hidden, after.is_lost) == (False, True)


def test_an_invisible_failure_changes_nothing_before_it_happens() -> None:
    """At precursor share 0 no GPU drifts, droops or hides, and no node's supply ripples."""
    world = World(WorldSpec.show(nodes=16, days=30, precursor_share_scale=0.0))
    times = slots(world, 0, 29)
    nodes, at = np.repeat(np.arange(16), len(times)), np.tile(times, 16)
    seats = nodes[:, None] * 8 + np.arange(8)
    boot = world.timeline.boot_ns[world.timeline.boots(nodes, at)][:, None]
    signs = world.signs.of_gpus(seats, at[:, None], boot)
    assert not signs.drift_c.any()
    assert not signs.is_hidden.any()
    assert not signs.droop_ratio.any()
    assert (world.signs.of_nodes(nodes, at).bad_psu == -1).all()


def test_a_failing_supply_ripples_and_may_drop_out() -> None:
    """A visible power failure shows one supply whose input voltage spreads far more than the others'."""
    world = fleet()
    failure = first_failure("psu_vr")
    times = np.arange(failure.onset_ns // CADENCE_NS * CADENCE_NS + CADENCE_NS, failure.failed_ns, CADENCE_NS)
    read = world.chassis.columns(np.full(len(times), failure.node_index), times)
    spread = np.sort(read["psu_input_v"][: len(times) // 2].std(axis=0))
    assert spread[-1] > 4 * spread[-2]


def test_kernel_logs_tell_of_failures_in_their_codes() -> None:
    """Within a minute of each failure of a GPU with XIDs of its own, the node's log has them; a loss of the bus comes as text too."""
    world = fleet()
    codes = {"hbm_ue": {48}, "nvlink": {74}, "fell_off_bus": {79}, "gsp": {119}, "sram_ecc": {48, 95}}
    for failure in world.failures:
        said = world.kernel_events(failure.node, failure.failed_ns, failure.failed_ns + MINUTE_NS)
        if failure.mode in codes:
            about = {event.code for event in said if event.gpu_uuid == failure.unit}
            assert codes[failure.mode] <= about
            assert 154 in about
        if failure.mode == "fell_off_bus":
            assert any(event.kind == "bus_loss" for event in said)


def test_a_down_node_says_nothing_until_it_boots() -> None:
    """No kernel event falls into a down time; its end is a boot."""
    world = fleet()
    for node, from_ns, until_ns in world.timeline.downs:
        name = world.nodes[node].name
        assert world.kernel_events(name, from_ns, until_ns) == []
        assert world.kernel_events(name, until_ns, until_ns + 1)[0].kind == "boot"


def test_a_replaced_gpu_is_another_one_in_the_same_seat() -> None:
    """After an RMA the seat has a new UUID and serial, a clean lifetime, and the failure names the old one."""
    world = fleet()
    failure = next(f for f in world.failures if f.action == "rma" and f.slot is not None and f.mode == "hbm_ue")
    before = world.gpu_states(failure.node, failure.failed_ns)[failure.slot]
    after = world.gpu_states(failure.node, failure.repaired_ns + MINUTE_NS)[failure.slot]
    assert before.gpu_uuid == failure.unit != after.gpu_uuid
    assert before.serial != after.serial
    assert before.pci == after.pci
    assert after.dram_ue_aggregate_total == 0


def test_half_of_the_nodes_are_read_by_the_agent() -> None:
    """Sources alternate through the fleet."""
    assert [node.source for node in fleet().nodes[:4]] == ["nvml", "exporter", "nvml", "exporter"]


def test_tickets_come_late_and_some_are_wrong() -> None:
    """Every failure has a ticket after it happened; about one in eight names another mode, of the same scope."""
    world = fleet()
    tickets = {ticket.outcome_id: ticket for ticket in world.tickets if ticket.kind in ("failed_in_service", "diag_failed")}
    assert len(tickets) == len(world.failures)
    assert all(ticket.reported_ns > ticket.at_ns for ticket in tickets.values())
    at = {(f.node, f.down_ns if f.mode in ("sdc", "pcie_degraded") else f.failed_ns): f.mode for f in world.failures}
    wrong = sum(at[ticket.node, ticket.at_ns] != ticket.mode for ticket in tickets.values())
    assert 0.04 < wrong / len(tickets) < 0.22
    assert world.outcomes(world.spec.start_ns, world.spec.start_ns + DAY_NS) == [
        ticket for ticket in world.tickets if ticket.reported_ns < world.spec.start_ns + DAY_NS
    ]
