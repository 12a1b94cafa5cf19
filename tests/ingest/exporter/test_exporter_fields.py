"""The field table: one meaning per name, and the counters file that is made from it."""

import csv
from collections import Counter
from pathlib import Path

import pytest

from ingest.exporter.fields import COLUMNS, FIELD_OF_NAME, FIELDS, counters_file
from ingest.schema import GpuSample, LinkSample

DEPLOYED = Path(__file__).parents[3] / "deploy" / "dcgm" / "failure-prediction.csv"


def test_a_name_means_one_field() -> None:
    """No spelling of one field is a spelling of another."""
    names = Counter(name for field in FIELDS.values() for name in set(field.names))
    assert [name for name, fields in names.items() if fields > 1] == []


def test_every_target_is_a_column() -> None:
    """Fields feed columns that the tables have and whose type and bounds are declared."""
    assert {t.column for field in FIELDS.values() for t in field.targets} <= COLUMNS.keys() & set(GpuSample.__struct_fields__)
    assert {t.column for field in FIELDS.values() for t in field.link_targets} <= COLUMNS.keys() & set(LinkSample.__struct_fields__)


@pytest.mark.parametrize(
    ("id_", "names"),
    [
        (150, ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS", "dcgm_gpu_temp")),
        (230, ("DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR", "dcgm_xid_errors")),
        (318, ("DCGM_FI_DEV_ECC_SBE_VOL_DEV",)),
        (319, ("DCGM_FI_DEV_ECC_DBE_VOL_DEV",)),
        (328, ("DCGM_FI_DEV_ECC_SBE_AGG_DEV",)),
        (342, ("DCGM_FI_DEV_ECC_SBE_VOL_SRM",)),
        (393, ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL")),
        (203, ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO", "dcgm_gpu_utilization")),
        (1001, ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "dcgm_fi_prof_gr_engine_active")),
        (1213, ("DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS", "DCGM_FI_DEV_NVLINK_RECOVERY_EVENT_TOTAL")),
        (-1, ("DCGM_EXP_XID_ERRORS_COUNT",)),
    ],
)
def test_names_of_all_times_lead_to_the_id(id_: int, names: tuple[str, ...]) -> None:
    """Legacy, 4.6 and old names of a field are the same field."""
    assert {FIELD_OF_NAME[name].id for name in names} == {id_}


def test_the_deployed_counters_file_is_that_of_the_table() -> None:
    """deploy/dcgm/failure-prediction.csv is printed from the table; print it again when this fails."""
    assert DEPLOYED.read_text(encoding="utf-8") == counters_file()


def test_the_counters_file_is_one_that_the_exporter_reads() -> None:
    """Three fields a line, legacy names, types of Prometheus or label, and every signal that the default file leaves out."""
    rows = [row for row in csv.reader(counters_file().splitlines(), skipinitialspace=True) if not row[0].startswith("#")]
    assert {len(row) for row in rows} == {3}
    assert {row[1] for row in rows} == {"counter", "gauge", "label"}
    names = [row[0] for row in rows]
    assert len(names) == len(set(names))
    left_out = ("ECC_SBE_VOL_TOTAL", "ROW_REMAP_PENDING", "BANKS_REMAP_ROWS_AVAIL_NONE", "CLOCK_THROTTLE_REASONS", "PCIE_LINK_WIDTH")
    assert {f"DCGM_FI_DEV_{name}" for name in (*left_out, "GET_GPU_RECOVERY_ACTION", "NVLINK_ERROR_DL_CRC")} <= set(names)
