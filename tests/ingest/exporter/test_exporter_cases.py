"""Pages modelled on public bug reports of dcgm-exporter, gpu-monitoring-tools and DCGM; the sources stand in each promise."""

from pathlib import Path
from typing import Any

import pytest

from forewarn.inspect import exporter_pages
from ingest.exporter.node import ExporterNode
from ingest.schema import GpuSample

CASES = Path(__file__).parents[2] / "cases" / "exporter"
UUID = "GPU-0a1b2c3{0}-1111-4222-8333-44445555666{0}"
READ = ("temp_c", "power_w", "energy_mj_total", "ecc_ce_volatile_total")  # what the pages of D11 and D35 say of each of 8 GPUs
SAID = {UUID.format(gpu): (40.0 + gpu, 412.5 + gpu, 900_000_000 + 1000 * gpu, 0) for gpu in range(8)}


class Outcome:
    """The lines of one case, by table, GPU number and second."""

    def __init__(self, case: str, *statuses: int) -> None:
        self.lines = list(exporter_pages(sorted((CASES / case).iterdir()), statuses=statuses))

    def table(self, name: str, at_s: int | None = None) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["table"] == name and (at_s is None or line["file"] == f"t{at_s:04d}.prom")]

    def sample(self, gpu: int, at_s: int = 0) -> dict[str, Any]:
        (found,) = [line for line in self.table("gpu_samples", at_s) if line["gpu_uuid"] == UUID.format(gpu)]
        return found

    def cell(self, gpu: int, column: str, at_s: int = 0) -> tuple[Any, str | None]:
        sample = self.sample(gpu, at_s)
        return sample[column], sample.get("quality", {}).get(column)

    def read(self, at_s: int = 0) -> dict[str, tuple[Any, ...]]:
        """Give the values of `READ` of every GPU."""
        return {line["gpu_uuid"]: tuple(line.get(column) for column in READ) for line in self.table("gpu_samples", at_s)}

    def events(self) -> list[tuple[str, int | None, int]]:
        return [(line["kind"], line.get("code"), line["observed_at_ns"] // 10**9) for line in self.table("events")]

    def states(self) -> list[tuple[str, int]]:
        return [(line["state"], line["observed_at_ns"] // 10**9) for line in self.table("source_states")]

    def counters(self, at_s: int = 0) -> dict[str, Any]:
        (found,) = self.table("counters", at_s)
        return found


def test_d01_integer_sentinels_are_blank() -> None:
    """An int64 or int32 blank is no reading, however it was rounded; 2147483647 is kept and suspect (slurm-job-exporter#30)."""
    case = Outcome("D01")
    assert [case.cell(gpu, "memory_temp_c") for gpu in range(4)] == [(None, "blank")] * 3 + [(41.0, None)]
    assert case.cell(0, "ecc_ce_volatile_total") == (None, "blank")
    assert case.cell(1, "ecc_ce_volatile_total") == (None, "blank")
    assert case.cell(2, "ecc_ce_volatile_total") == (2147483647, "suspect")
    assert case.cell(3, "ecc_ce_volatile_total") == (3, None)


def test_d02_profiling_ratios_above_one_are_rejected() -> None:
    """The fp64 sentinel in a ratio is no reading, nor is one that a downstream exporter multiplied (slurm-job-exporter#53)."""
    case = Outcome("D02")
    assert [case.cell(gpu, "sm_active_ratio") for gpu in range(4)] == [
        (None, "blank"),
        (None, "not_supported"),
        (0.914, None),
        (None, "out_of_range"),
    ]


def test_d03_utilisation_outside_0_to_100_is_out_of_range() -> None:
    """4294967295, 187342 and -1 percent are none (DCGM#199); 100 is all of it."""
    case = Outcome("D03")
    assert [case.cell(gpu, "gpu_util_ratio") for gpu in range(4)] == [
        (None, "out_of_range"),
        (None, "out_of_range"),
        (1.0, None),
        (None, "out_of_range"),
    ]


def test_d03_one_impossible_value_costs_no_other() -> None:
    """The other values of a GPU whose utilisation is impossible are kept."""
    power = f'DCGM_FI_DEV_POWER_USAGE{{gpu="0",UUID="{UUID.format(0)}"}} 412.5\n'
    records = ExporterNode("n").scraped((CASES / "D03" / "t0000.prom").read_bytes() + power.encode(), 200, 0)
    (row,) = [row for row in records if isinstance(row, GpuSample) and row.gpu_uuid == UUID.format(0)]
    assert (row.gpu_util_ratio, row.power_w, row.quality) == (None, 412.5, {"gpu_util_ratio": "out_of_range"})


def test_d04_a_sticky_gauge_is_one_event() -> None:
    """A last-XID gauge that stays gives one event, when it was first seen, and grows old from then on (dcgm-exporter#500)."""
    case = Outcome("D04")
    assert case.events() == [("xid", 31, 30)]
    assert [case.sample(0, at_s).get("xid_last_age_s") for at_s in (0, 30, 60, 90)] == [None, 0, 30, 60]
    assert case.sample(0, 90)["xid_last"] == 31


def test_d06_xid_labels_are_no_identity() -> None:
    """A new XID is a new series of the same signal of the same GPU; what stood there at the start is of unknown age."""
    case = Outcome("D06")
    assert [case.sample(0, at_s).get("xid_last_age_s") for at_s in (0, 30)] == [None, 0]
    assert [(line["code"], line["use"]) for line in case.table("events")] == [(43, "unknown"), (45, "exclude")]
    assert {line["gpu_uuid"] for line in case.table("gpu_samples")} == {UUID.format(0)}


def test_d08_a_gpu_that_disappears_is_missing_not_silent() -> None:
    """A GPU that leaves a page which still answers gives explicit rows and one event; the others are untouched (dcgm-exporter#348)."""
    case = Outcome("D08")
    assert [case.sample(5, at_s)["gpu_present"] for at_s in (0, 30, 60)] == [True, False, False]
    assert case.events() == [("gpu_missing", None, 30)]
    assert [line["use"] for line in case.table("events")] == ["precursor"]
    assert [case.cell(gpu, "temp_c", at_s) for at_s in (30, 60) for gpu in (0, 1, 2, 3, 4, 6, 7)] == [
        (40.0 + gpu, None) for _ in (30, 60) for gpu in (0, 1, 2, 3, 4, 6, 7)
    ]


def test_d09_an_empty_page_says_nothing_about_gpus() -> None:
    """An empty 200 is a state of the source: no missing GPU, and counters go on afterwards (dcgm-exporter#744)."""
    case = Outcome("D09")
    assert case.states() == [("ok", 0), ("empty", 30), ("ok", 60)]
    assert case.table("gpu_samples", 30) == []
    assert case.events() == []
    assert {line["epoch"] for line in case.table("gpu_samples", 60)} == {0}


def test_d10_the_body_of_an_error_is_not_read() -> None:
    """A 500 is a state of the source, and its body is never taken for metrics."""
    case = Outcome("D10", 500)
    assert case.states() == [("ok", 0), ("error(500)", 30)]
    assert case.counters(30)["parse_errors"] == 0
    assert case.table("gpu_samples", 30) == []


def test_d11_a_frozen_page_is_stale() -> None:
    """Energy that stands still under load means a dead cache: no value of any GPU is fresh, and since when (gpu-monitoring-tools#188)."""
    case = Outcome("D11")
    assert case.states() == [("ok", 0), ("stale", 30)]
    assert "1970-01-01T00:00:00" in case.table("source_states", 30)[0]["detail"]
    assert case.read(0) == SAID
    for at_s in (30, 60, 90):
        assert case.read(at_s) == dict.fromkeys(SAID, (None,) * 4)
        assert [line["quality"] for line in case.table("gpu_samples", at_s)] == [dict.fromkeys(READ, "stale")] * 8


def test_d13_counters_that_restart_together_are_a_new_epoch() -> None:
    """Energy, volatile ECC and PCIe replay stepping back together is one reload; the lifetime counter just grows (dcgm-exporter#417)."""
    case = Outcome("D13")
    assert [case.sample(0, at_s)["epoch"] for at_s in (0, 30)] == [0, 1]
    after = case.sample(0, 30)
    assert (after["energy_mj_total"], after["ecc_ce_volatile_total"], after["pcie_replay_total"]) == (4200, 3, 2)
    assert after["ecc_ce_aggregate_total"] == 10003
    assert "quality" not in after


def test_d14_a_lone_step_back_is_no_reset() -> None:
    """One counter that alone goes back is flagged and starts no epoch; DCGM's absolute difference would make it growth."""
    case = Outcome("D14")
    assert case.cell(0, "pcie_replay_total", 30) == (149, "went_back")
    assert case.sample(0, 30)["epoch"] == 0


def test_d15_the_host_label_is_no_identity() -> None:
    """Hostname becoming hostname changes neither node nor GPUs (dcgm-exporter#655)."""
    case = Outcome("D15")
    assert case.events() == []
    before, after = ([line["gpu_uuid"] for line in case.table("gpu_samples", at_s)] for at_s in (0, 30))
    assert before == after == [UUID.format(gpu) for gpu in range(8)]
    assert case.table("inventory", 30) == []
    assert case.cell(0, "temp_c", 30) == (40.0, None)


def test_d17_renamed_fields_land_in_the_same_columns() -> None:
    """Names of DCGM 4.6 continue the series of the legacy names."""
    case = Outcome("D17")
    assert [case.sample(0, at_s)["temp_c"] for at_s in (0, 30)] == [41.0, 42.0]
    assert [case.sample(0, at_s)["remapped_rows_ue_total"] for at_s in (0, 30)] == [1, 1]
    assert case.counters(30)["unknown"] == {}


def test_d19_an_unescaped_quote_costs_one_line() -> None:
    """A pod label with a quote loses its line and nothing else."""
    case = Outcome("D19")
    assert case.counters()["parse_errors"] == 1
    assert "temp_c" not in case.sample(0)
    assert (case.sample(0)["power_w"], case.sample(1)["power_w"], case.sample(1)["temp_c"]) == (412.5, 413.5, 42.0)


def test_d20_text_where_a_number_should_be_is_counted() -> None:
    """Values that are no numbers are dropped and counted; the others stay (dcgm-exporter#488, #489)."""
    case = Outcome("D20")
    assert case.counters()["rejected"] == {"non_numeric": 2}
    assert case.cell(0, "sm_clock_mhz") == (None, "blank")
    assert case.cell(1, "sm_clock_mhz") == (1980.0, None)


def test_d22_a_family_may_come_twice() -> None:
    """A second TYPE block of a family loses nothing (gpu-monitoring-tools#125)."""
    case = Outcome("D22")
    assert (case.sample(0)["sm_clock_mhz"], case.sample(0)["temp_c"], case.sample(1)["sm_clock_mhz"]) == (1980.0, 41.0, 1965.0)


def test_d23_a_shared_gpu_has_one_reading() -> None:
    """A device value copied to four pods is one reading, never a sum, and the pods are told beside it (dcgm-exporter#587)."""
    case = Outcome("D23")
    assert [line["power_w"] for line in case.table("gpu_samples")] == [612.0]
    (row,) = case.table("gpu_pods")
    assert (row["gpu_uuid"], row.get("gpu_instance")) == (UUID.format(0), None)
    assert list(row["pods"]) == [f"default/w-{number}/c" for number in range(4)]


def test_d24_two_values_of_one_series_are_a_conflict() -> None:
    """The same labels with two values in one page: neither is believed, and it is counted (gpu-monitoring-tools#174)."""
    case = Outcome("D24")
    assert case.cell(0, "temp_c") == (None, "duplicate_conflict")
    assert case.cell(1, "temp_c") == (42.0, None)
    assert case.counters()["conflicts"] == 1


def test_d26_mig_repeats_one_device_reading() -> None:
    """Energy repeated per MIG instance is one reading of the device, the largest (dcgm-exporter#317)."""
    case = Outcome("D26")
    assert [(line["energy_mj_total"], line.get("gpu_instance")) for line in case.table("gpu_samples")] == [(126272106318, None)]


def test_d26_profiling_values_of_instances_are_apart() -> None:
    """Beside the energy of the device, which is one, each MIG instance has its own profiling values."""
    labels = 'gpu="0",UUID="{uuid}",GPU_I_PROFILE="1g.10gb",GPU_I_ID="{instance}"'
    line = "DCGM_FI_PROF_SM_ACTIVE{{" + labels + "}} 0.{instance}\n"
    page = (CASES / "D26" / "t0000.prom").read_bytes() + "".join(line.format(uuid=UUID.format(0), instance=n) for n in (7, 8)).encode()
    rows = [row for row in ExporterNode("n").scraped(page, 200, 0) if isinstance(row, GpuSample)]
    assert [(row.gpu_instance, row.energy_mj_total, row.sm_active_ratio) for row in rows] == [
        (None, 126272106318, None),
        (7, None, 0.7),
        (8, None, 0.8),
    ]


def test_d28_an_empty_value_is_blank() -> None:
    """A line that ends before its value is blank and counted (gpu-monitoring-tools#4)."""
    case = Outcome("D28")
    assert case.cell(0, "nvlink_replay_total") == (None, "blank")
    assert case.cell(1, "nvlink_replay_total") == (7, None)
    assert case.counters()["rejected"] == {"empty_value": 1}


def test_d30_a_gpu_that_starves_its_collector_stays_visible() -> None:
    """A GPU missing from 5 of 8 scrapes has 5 explicit rows and one event; its counter still tells 17.7 thousand errors a second."""
    case = Outcome("D30")
    present = [case.sample(3, at_s)["gpu_present"] for at_s in range(0, 240, 30)]
    assert present == [True, False, False, True, False, False, True, False]
    assert case.events() == [("gpu_missing", None, 30)]
    first, last = case.sample(3, 0), case.sample(3, 180)
    seconds = (last["observed_at_ns"] - first["observed_at_ns"]) / 10**9
    assert (last["ecc_ce_volatile_total"] - first["ecc_ce_volatile_total"]) / seconds == pytest.approx(17_700)
    assert all(case.sample(0, at_s)["gpu_present"] for at_s in range(0, 240, 30))


def test_d31_zero_degrees_of_memory_is_no_sensor() -> None:
    """A memory temperature of 0 °C is the filler of parts without the sensor (DCGM#311)."""
    case = Outcome("D31")
    assert case.cell(0, "memory_temp_c") == (None, "not_supported")
    assert case.cell(1, "memory_temp_c") == (37.0, None)


def test_d33_an_index_is_no_identity() -> None:
    """Indices that close up after a loss move no counter to another GPU (nvidia_gpu_exporter#404)."""
    case = Outcome("D33")
    for gpu, count in ((0, 5), (2, 70), (3, 900)):
        assert case.cell(gpu, "ecc_ce_aggregate_total", 0) == case.cell(gpu, "ecc_ce_aggregate_total", 30) == (count, None)
    assert [(line["kind"], line["gpu_uuid"]) for line in case.table("events")] == [("gpu_missing", UUID.format(1))]


def test_d35_a_cut_body_keeps_its_whole_lines() -> None:
    """The last line of a cut page is dropped, the 31 values of all whole lines stay, and no GPU is said to be missing."""
    case = Outcome("D35")
    assert case.counters()["truncated"] == 1
    assert case.states() == [("partial", 0)]
    assert case.read() == {**SAID, UUID.format(7): (47.0, 419.5, 900_007_000, None)}
    assert all(line["gpu_present"] and "quality" not in line for line in case.table("gpu_samples"))
    assert case.events() == []


def test_d37_nothing_non_finite_passes() -> None:
    """NaN and infinity are blank."""
    case = Outcome("D37")
    assert [case.cell(gpu, "power_w") for gpu in range(4)] == [(None, "blank")] * 3 + [(410.1, None)]


def test_d39_a_future_timestamp_is_replaced_and_told() -> None:
    """An explicit timestamp is used when it can be true; one an hour ahead gives way to receive time, and the skew is kept."""
    case = Outcome("D39")
    by_gpu = {line["gpu_uuid"]: line for line in case.table("gpu_samples")}
    ahead, given, plain = (by_gpu[UUID.format(gpu)] for gpu in range(3))
    assert (ahead["observed_at_ns"], ahead["quality"]) == (1_700_000_000 * 10**9, {"observed_at": "clock_skew +3600 s"})
    assert (given["observed_at_ns"], given.get("quality")) == (1_699_999_999 * 10**9, None)
    assert plain["observed_at_ns"] == 1_700_000_000 * 10**9
