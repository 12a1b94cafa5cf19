"""What the scrapes of one node become, over pages of the emulated exporter with its quirks."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from emulators.exporter_page import Labels
from emulators.exporter_quirks import Quirks, render_quirky
from emulators.state import GpuState
from ingest.clock import NS
from ingest.exporter_node import ExporterNode
from ingest.schema import Event, GpuSample, InventoryRow, LinkSample, Observed, SourceState

FAMILY = "DCGM_FI_DEV_{}"
UUIDS = [f"GPU-0a1b2c3{gpu}-1111-4222-8333-44445555666{gpu}" for gpu in range(8)]


class Site:
    """A node of eight working GPUs, its exporter and our view of it; each `scrape` is 30 s after the last."""

    def __init__(self) -> None:
        self.gpus = [
            GpuState(gpu_uuid=uuid, serial=f"165000000000{n}", pci=f"0000:{0x18 + 16 * n:02x}:00", gpu_index=n, power_w=412.0, temp_c=60.0)
            for n, uuid in enumerate(UUIDS)
        ]
        self.quirks = Quirks()
        self.node = ExporterNode("n1")
        self.at_s = 1_790_000_000

    def page(self) -> bytes:
        return render_quirky(self.gpus, Labels(host="n1"), self.quirks)

    def scrape(self, *, work: bool = True, body: bytes | None = None) -> list[Observed]:
        self.at_s += 30
        for gpu in self.gpus if work else []:
            gpu.energy_mj_total += int(gpu.power_w * 30_000)
        return self.node.scraped(self.page() if body is None else body, self.quirks.status, self.at_s * NS)


@pytest.fixture
def site() -> Site:
    return Site()


def samples(records: Sequence[Observed]) -> dict[str, GpuSample]:
    return {record.gpu_uuid: record for record in records if isinstance(record, GpuSample) and record.gpu_instance is None}


def events(records: Sequence[Observed]) -> list[tuple[str, str | None, int | None]]:
    return [(record.kind, record.gpu_uuid, record.code) for record in records if isinstance(record, Event)]


def states(records: Sequence[Observed]) -> list[str]:
    return [record.state for record in records if isinstance(record, SourceState)]


def quality(record: GpuSample) -> dict[str, str]:
    return record.quality or {}


def test_every_value_of_the_state_arrives_in_its_column(site: Site) -> None:
    """One state, one row: units are those of the tables."""
    gpu = site.gpus[0]
    gpu.gpu_util_ratio, gpu.memory_util_ratio, gpu.memory_used_mb = 0.97, 0.41, 70_000.0
    gpu.dram_ce_volatile_total, gpu.sram_ce_volatile_total, gpu.dram_ce_aggregate_total = 7, 2, 100
    gpu.links[3].crc_total, gpu.links[5].crc_total, gpu.links[5].recovery_total = 4, 6, 1
    gpu.remap_pending, gpu.recovery_action, gpu.sw_thermal_ns_total = True, 1, 5_000_000_000
    row = samples(site.scrape())[UUIDS[0]]
    assert (row.gpu_util_ratio, row.memory_util_ratio, row.memory_used_mb, row.memory_total_mb) == (0.97, 0.41, 70_000.0, 81_559.0)
    assert (row.ecc_ce_volatile_total, row.dram_ce_volatile_total, row.sram_ce_volatile_total, row.ecc_ce_aggregate_total) == (9, 7, 2, 100)
    assert (row.nvlink_crc_total, row.nvlink_recovery_total, row.nvlink_replay_total) == (10, 1, 0)
    assert (row.remap_pending, row.remap_failure, row.recovery_action, row.sw_thermal_ns_total) == (True, False, 1, 5_000_000_000)
    assert (row.temp_c, row.memory_temp_c, row.thermal_margin_c, row.power_w, row.power_limit_w) == (60.0, 38.0, 55.0, 412.0, 700.0)
    assert (row.pcie_link_gen, row.pcie_link_width, row.fabric_state, row.ecc_mode) == (5, 16, 3, True)
    assert (row.serial, row.pci, row.gpu_index, row.gpu_present, row.quality) == ("1650000000000", "0000:18:00", 0, True, None)


@pytest.mark.parametrize("namespace", ["renamed", "old"])
def test_every_namespace_fills_the_same_columns(site: Site, namespace: str) -> None:
    """A page in the names of 4.6 or of the old namespace gives the rows that the legacy names give."""
    legacy = samples(site.scrape())
    site.node = ExporterNode("n1")
    site.quirks = Quirks(namespace=namespace)
    other = samples(site.scrape(work=False))
    assert site.node.unknown == {}
    for uuid in UUIDS:
        before, after = legacy[uuid], other[uuid]
        assert {n: getattr(before, n) for n in columns()} == {n: getattr(after, n) for n in columns()}


def columns() -> list[str]:
    return [name for name in GpuSample.__struct_fields__ if name not in ("observed_at_ns", "received_at_ns")]


def test_unknown_names_are_counted(site: Site) -> None:
    """A family that nobody knows is counted under its name and harms nothing."""
    records = site.scrape(body=site.page() + f'DCGM_FI_DEV_FLUX{{UUID="{UUIDS[0]}"}} 4\n'.encode())
    assert site.node.unknown == {"DCGM_FI_DEV_FLUX": 1}
    assert len(samples(records)) == 8


def test_ecc_off_makes_every_ecc_counter_unknown(site: Site) -> None:
    """With ECC off the counters mean nothing: not supported, never zero."""
    site.gpus[0].ecc_mode = False
    row = samples(site.scrape())[UUIDS[0]]
    assert (row.ecc_mode, row.ecc_ce_volatile_total, row.dram_ue_volatile_total) == (False, None, None)
    assert quality(row)["ecc_ce_volatile_total"] == "not_supported"


def test_power_far_above_its_limit_is_impossible(site: Site) -> None:
    """A reading of more than three times the limit is dropped; energy and the rest stay."""
    site.gpus[0].power_w = 2_101.0
    row = samples(site.scrape())[UUIDS[0]]
    assert (row.power_w, quality(row)["power_w"], row.temp_c) == (None, "out_of_range", 60.0)


def test_profiling_that_froze_is_inconsistent(site: Site) -> None:
    """Profiling ratios of 0 on a busy GPU contradict its utilisation (DCGM#303)."""
    site.gpus[0].gpu_util_ratio = 1.0
    body = site.page() + b"".join(
        f'DCGM_FI_PROF_{name}{{UUID="{UUIDS[0]}"}} 0.000000\n'.encode() for name in ("GR_ENGINE_ACTIVE", "DRAM_ACTIVE")
    )
    row = samples(site.scrape(body=body))[UUIDS[0]]
    assert (row.gr_active_ratio, row.dram_active_ratio) == (None, None)
    assert quality(row) == {"gr_active_ratio": "inconsistent", "dram_active_ratio": "inconsistent"}


def test_a_series_that_vanishes_is_blank_and_one_never_delivered_is_not(site: Site) -> None:
    """Absence after presence is a missing value; what the counters file never had is no failure."""
    assert samples(site.scrape())[UUIDS[0]].quality is None
    site.quirks = Quirks(blanks=frozenset({(UUIDS[0], FAMILY.format("GPU_TEMP"))}))
    rows = samples(site.scrape())
    assert (rows[UUIDS[0]].temp_c, quality(rows[UUIDS[0]])) == (None, {"temp_c": "blank"})
    assert rows[UUIDS[1]].quality is None


def test_a_family_that_left_the_counters_file_is_forgotten_after_an_hour(site: Site) -> None:
    """A column that no GPU of the node delivers any more counts as missing for an hour and then as not collected."""
    site.scrape()
    site.quirks = Quirks(blanks=frozenset((uuid, FAMILY.format("GPU_TEMP")) for uuid in UUIDS))
    assert quality(samples(site.scrape())[UUIDS[0]]) == {"temp_c": "blank"}
    site.at_s += 3_600
    assert samples(site.scrape())[UUIDS[0]].quality is None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("9223372036854775792", "blank"),
        ("", "blank"),
        ("ERROR - FAILED TO CONVERT TO STRING", "blank"),
        ("<<<NOT_PERM>>>", "no_permission"),
        ("-5", "out_of_range"),
        ("18446744073709551615", "overflow 18446744073709551615"),
    ],
)
def test_a_leak_in_a_counter_is_a_code(site: Site, text: str, code: str) -> None:
    """Whatever leaks into a counter leaves None and says why."""
    site.quirks = Quirks(leaks={(UUIDS[2], FAMILY.format("ECC_SBE_VOL_TOTAL")): text})
    row = samples(site.scrape())[UUIDS[2]]
    assert (row.ecc_ce_volatile_total, quality(row)) == (None, {"ecc_ce_volatile_total": code})


def test_mig_rows_are_one_reading_of_the_device(site: Site) -> None:
    """Device values repeated per instance give one row; values of instances give rows of their own."""
    site.quirks = Quirks(instances={UUIDS[0]: (3, 4)})
    body = site.page() + b"".join(
        f'DCGM_FI_PROF_SM_ACTIVE{{UUID="{UUIDS[0]}",GPU_I_PROFILE="1g.10gb",GPU_I_ID="{n}"}} {share}\n'.encode()
        for n, share in ((3, 0.25), (4, 0.75))
    )
    records = site.scrape(body=body)
    assert samples(records)[UUIDS[0]].power_w == 412.0
    parts = {r.gpu_instance: r.sm_active_ratio for r in records if isinstance(r, GpuSample) and r.gpu_instance is not None}
    assert parts == {3: 0.25, 4: 0.75}


def test_links_have_rows_of_their_own(site: Site) -> None:
    """Series with a link label become link samples; the sums of flit and data errors need both parts."""
    block = f'nvlink="7",gpu="0",gpu_uuid="{UUIDS[0]}"'
    body = (
        site.page()
        + (
            f"DCGM_FI_DEV_NVLINK_GET_STATE{{{block}}} 1\n"
            f"DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_PER_LINK_TOTAL{{{block}}} 3\n"
            f"DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_PER_LINK_TOTAL{{{block}}} 4\n"
            f"DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS{{{block}}} 1\n"
        ).encode()
    )
    (row,) = [record for record in site.scrape(body=body) if isinstance(record, LinkSample)]
    assert (row.link, row.is_up, row.crc_total, row.recovery_failed_total, row.replay_total) == (7, True, 7, 1, None)


def test_a_counter_never_changes_its_meaning(site: Site) -> None:
    """When the better of two fields of a column goes blank, the other does not stand in: its level is another."""
    other = "".join(f'{FAMILY.format("THERMAL_VIOLATION")}{{UUID="{uuid}"}} 77\n' for uuid in UUIDS).encode()
    assert samples(site.scrape(body=site.page() + other))[UUIDS[0]].sw_thermal_ns_total == 0
    site.quirks = Quirks(blanks=frozenset({(UUIDS[0], FAMILY.format("CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS"))}))
    row = samples(site.scrape(body=site.page() + other))[UUIDS[0]]
    assert (row.sw_thermal_ns_total, quality(row)) == (None, {"sw_thermal_ns_total": "blank"})


def test_throttled_longer_than_time_has_passed_is_a_unit_conflict(site: Site) -> None:
    """More than all of the time is no time in ns; nearly all of it is."""
    site.scrape()
    site.gpus[0].sw_thermal_ns_total += 29 * NS
    site.gpus[1].sw_thermal_ns_total += 29_000 * NS
    rows = samples(site.scrape())
    assert rows[UUIDS[0]].quality is None
    assert (rows[UUIDS[1]].sw_thermal_ns_total, quality(rows[UUIDS[1]])) == (None, {"sw_thermal_ns_total": "unit_conflict"})


def test_a_driver_reload_of_a_healthy_gpu_is_an_epoch(site: Site) -> None:
    """With every error counter at zero, energy alone restarting near zero is the witness; a dip of it is not."""
    for gpu in site.gpus:
        gpu.energy_mj_total = 900_000_000_000
    first = samples(site.scrape())[UUIDS[0]]
    site.gpus[0].energy_mj_total = 3_000
    site.gpus[1].energy_mj_total = 899_000_000_000
    rows = samples(site.scrape(work=False))
    assert (first.epoch, rows[UUIDS[0]].epoch, rows[UUIDS[0]].quality) == (0, 1, None)
    assert (rows[UUIDS[1]].epoch, quality(rows[UUIDS[1]])) == (0, {"energy_mj_total": "went_back"})


def test_lifetime_counters_start_no_epoch(site: Site) -> None:
    """Aggregate counters live in the InfoROM: their steps back say nothing about the driver."""
    for gpu in site.gpus:
        gpu.dram_ce_aggregate_total, gpu.remapped_rows_ce_total = 100, 8
    site.scrape()
    site.gpus[0].dram_ce_aggregate_total, site.gpus[0].remapped_rows_ce_total = 0, 0
    assert samples(site.scrape())[UUIDS[0]].epoch == 0


def hide(*numbers: int) -> Callable[[Site], None]:
    def apply(site: Site) -> None:
        for number in numbers:
            site.gpus[number].is_hidden = True

    return apply


def test_one_gpu_that_vanishes_is_missing_once_and_again_after_its_return(site: Site) -> None:
    """A missing GPU is one event per absence; flickering is not news."""
    site.scrape()
    site.gpus[5].is_lost = True
    assert events(site.scrape()) == [("gpu_missing", UUIDS[5], None)]
    assert events(site.scrape()) == []
    site.gpus[5].is_lost = False
    site.scrape()
    site.gpus[5].is_lost = True
    assert events(site.scrape()) == []
    site.gpus[5].is_lost = False
    for _ in range(3):
        site.scrape()
    site.gpus[5].is_lost = True
    assert events(site.scrape()) == [("gpu_missing", UUIDS[5], None)]


def test_most_gpus_vanishing_at_once_is_the_exporters_doing(site: Site) -> None:
    """Seven of eight gone in one scrape say nothing about hardware; the state is partial until they are back."""
    site.scrape()
    hide(0, 1, 2, 3, 4, 5, 6)(site)
    records = site.scrape()
    assert (events(records), states(records), list(samples(records))) == ([], ["partial"], [UUIDS[7]])
    assert events(site.scrape()) == []
    for gpu in site.gpus:
        gpu.is_hidden = False
    assert states(site.scrape()) == ["ok"]


def test_idle_gpus_dropped_when_pods_come_are_not_missing(site: Site) -> None:
    """When the survivors have just got pods, the GPUs without are merely left out (dcgm-exporter#569)."""
    site.scrape()
    site.quirks = Quirks(pods=dict.fromkeys(UUIDS[:6], ("w-0",)), drops_idle=True)
    records = site.scrape()
    assert (events(records), states(records)) == ([], ["partial"])


def test_pods_that_come_and_go_are_no_entities(site: Site) -> None:
    """Pod labels change series strings and nothing else."""
    site.scrape()
    for pod in range(5):
        site.quirks = Quirks(pods=dict.fromkeys(UUIDS, (f"w-{pod}", f"v-{pod}")))
        records = site.scrape()
        assert events(records) == []
        assert states(records) == []
        assert [row.power_w for row in samples(records).values()] == [412.0] * 8


def test_a_stalled_host_engine_is_a_state_and_no_missing_gpu(site: Site) -> None:
    """A page without any GPU for three scrapes is a stalled host engine (XID 119 blanks every field of every GPU)."""
    site.scrape()
    site.quirks = Quirks(is_stalled=True)
    assert [states(site.scrape()) for _ in range(4)] == [["empty"], [], ["hostengine_stalled"], []]
    site.quirks = Quirks()
    records = site.scrape()
    assert (states(records), events(records), len(samples(records))) == (["ok"], [], 8)


def test_a_page_scraped_faster_than_it_is_refreshed_is_not_stale(site: Site) -> None:
    """Values that repeat within the exporter's refresh interval are as fresh as they can be."""
    site.node = ExporterNode("n1", refresh_s=30.0)
    said = []
    for scrape in range(12):
        site.at_s -= 20  # every 10 s
        said += states(site.scrape(work=scrape % 3 == 0))
    assert said == ["ok"]


def test_staleness_ends_when_energy_moves(site: Site) -> None:
    """A frozen page is stale until a counter moves, and idle GPUs alone prove nothing."""
    site.scrape()
    assert states(site.scrape(work=False)) == ["stale"]
    assert states(site.scrape()) == ["ok"]
    for gpu in site.gpus:
        gpu.power_w = 40.0
    assert [states(site.scrape(work=False)) for _ in range(5)] == [[]] * 5


def test_a_cut_page_accuses_no_gpu(site: Site) -> None:
    """GPUs that a cut page does not get to are unknown, not missing."""
    site.scrape()
    records = site.scrape(body=site.page()[:1_500])
    assert (events(records), states(records)) == ([], ["partial"])
    assert not any(row.gpu_present is False for row in samples(records).values())


def test_a_swapped_gpu_takes_the_seat(site: Site) -> None:
    """A new UUID at the address of one that is gone is a replacement: removed, inserted, not missing."""
    site.scrape()
    swapped = replace(site.gpus[2], gpu_uuid="GPU-ffffffff-1111-4222-8333-444455556662", serial="1650000009999", energy_mj_total=0)
    site.gpus[2] = swapped
    records = site.scrape()
    rows = [(r.action, r.gpu_uuid, r.serial, r.pci) for r in records if isinstance(r, InventoryRow)]
    assert rows == [
        ("remove", UUIDS[2], "1650000000002", "0000:38:00"),
        ("insert", swapped.gpu_uuid, "1650000009999", "0000:38:00"),
    ]
    assert events(records) == []


def test_two_new_gpus_at_one_address_replace_one(site: Site) -> None:
    """A page that puts two unknown GPUs into the same seat removes its old GPU once."""
    site.scrape()
    page = site.page().replace(UUIDS[2].encode(), b"GPU-ffffffff-1111-4222-8333-444455556662")
    twice = page + b'DCGM_FI_DEV_GPU_TEMP{UUID="GPU-eeeeeeee",pci_bus_id="00000000:38:00.0"} 41\n'
    rows = [record for record in site.scrape(body=twice) if isinstance(record, InventoryRow)]
    assert (rows[0].action, rows[0].gpu_uuid) == ("remove", UUIDS[2])
    assert [row.action for row in rows].count("remove") == 1


def test_gpus_of_the_inventory_that_never_showed_are_missing() -> None:
    """A GPU that the inventory names is missing from the first page that lacks it."""
    site = Site()
    site.node = ExporterNode("n1", expected=[*UUIDS, "GPU-99999999-1111-4222-8333-444455556669"])
    assert events(site.scrape()) == [("gpu_missing", "GPU-99999999-1111-4222-8333-444455556669", None)]


def test_windowed_counts_give_each_xid_and_silence_the_gauge(site: Site) -> None:
    """A rise of the windowed count is that many events, a fall is none, and the gauge adds nothing to them."""
    site.scrape()
    site.gpus[0].xid_last = 31
    site.quirks = Quirks(xid_counts={UUIDS[0]: {31: 2}})
    assert events(site.scrape()) == [("xid", UUIDS[0], 31)] * 2
    site.quirks = Quirks(xid_counts={UUIDS[0]: {31: 3, 43: 1}})
    assert events(site.scrape()) == [("xid", UUIDS[0], 31), ("xid", UUIDS[0], 43)]
    site.quirks = Quirks(xid_counts={UUIDS[0]: {31: 1}})
    assert events(site.scrape()) == []


def test_an_absent_gauge_is_no_alarm(site: Site) -> None:
    """From DCGM 4.5 on there is no series before the first XID, and none after the host engine restarted."""
    site.gpus[0].xid_last = 31
    site.scrape()
    site.gpus[0].xid_last = None
    records = site.scrape()
    assert (events(records), samples(records)[UUIDS[0]].quality, samples(records)[UUIDS[0]].xid_last) == ([], None, None)


def test_states_are_said_at_a_change_and_hourly(site: Site) -> None:
    """A state that lasts is repeated once per hour."""
    assert [states(site.scrape()) for _ in range(3)] == [["ok"], [], []]
    site.at_s += 3_600
    assert states(site.scrape()) == ["ok"]


def test_no_record_of_a_page_carries_the_exporters_host(site: Site) -> None:
    """The node is the target's; the exporter's host label is not even kept (dcgm-exporter#572)."""
    body = site.page().replace(b'hostname="n1"', b'hostname="localhost"')
    records: list[Any] = site.scrape(body=body)
    assert {record.node for record in records} == {"n1"}
