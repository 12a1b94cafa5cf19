"""What the scrapes of one node become, over pages of the emulated exporter with its quirks."""

from collections.abc import Sequence

import pytest

from emulators.exporter_page import Labels
from emulators.exporter_quirks import Quirks, render_quirky
from emulators.state import GpuState
from ingest.clock import NS
from ingest.exporter.node import ExporterNode
from ingest.schema import Event, GpuSample, LinkSample, Observed, SourceState

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
    """Aggregate counters live in the InfoROM: their steps back are flagged and say nothing about the driver."""
    for gpu in site.gpus:
        gpu.dram_ce_aggregate_total, gpu.remapped_rows_ce_total = 100, 8
    site.scrape()
    site.gpus[0].dram_ce_aggregate_total, site.gpus[0].remapped_rows_ce_total = 0, 0
    row = samples(site.scrape())[UUIDS[0]]
    assert (row.epoch, quality(row)) == (0, {"ecc_ce_aggregate_total": "went_back", "remapped_rows_ce_total": "went_back"})
    assert samples(site.scrape())[UUIDS[0]].quality is None


def test_a_lifetime_counter_that_goes_back_at_a_reload_is_flagged(site: Site) -> None:
    """A driver reload explains the step back of counters since driver load, and of no other."""
    for gpu in site.gpus:
        gpu.energy_mj_total, gpu.pcie_replay_total, gpu.remapped_rows_ce_total = 900_000_000_000, 5, 8
    site.scrape()
    site.gpus[0].energy_mj_total, site.gpus[0].pcie_replay_total, site.gpus[0].remapped_rows_ce_total = 3_000, 0, 7
    row = samples(site.scrape(work=False))[UUIDS[0]]
    assert (row.epoch, quality(row)) == (1, {"remapped_rows_ce_total": "went_back"})
