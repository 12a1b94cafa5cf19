"""What `forewarn inspect` prints about recorded pages and logs."""

from pathlib import Path

import pytest

from forewarn.inspect import exporter_pages, kernel_logs
from ingest.kernel_log.node import Boot

PAGE = 'DCGM_FI_DEV_GPU_TEMP{UUID="GPU-0a1b2c30-1111-4222-8333-444455556660"} 41\n'


@pytest.mark.parametrize(
    ("names", "seconds"),
    [(("t0000.prom", "t0030.prom"), (0, 30)), (("t1700000000.prom",), (1_700_000_000,)), (("first.txt", "second.txt"), (0, 30))],
)
def test_a_page_is_scraped_when_its_name_says(tmp_path: Path, names: tuple[str, ...], seconds: tuple[int, ...]) -> None:
    """`t0030.prom` is second 30; other names follow each other by half a minute."""
    for name in names:
        (tmp_path / name).write_text(PAGE)
    lines = exporter_pages([tmp_path / name for name in names])
    assert [line["observed_at_ns"] for line in lines if line["table"] == "gpu_samples"] == [second * 10**9 for second in seconds]


def test_statuses_belong_to_the_last_pages(tmp_path: Path) -> None:
    """One status given for two pages is that of the second."""
    for name in ("t0000.prom", "t0030.prom"):
        (tmp_path / name).write_text(PAGE)
    lines = list(exporter_pages(sorted(tmp_path.iterdir()), statuses=[503]))
    assert [line["state"] for line in lines if line["table"] == "source_states"] == ["ok", "error(503)"]


def test_a_missing_value_is_a_null_with_its_code(tmp_path: Path) -> None:
    """A field with a code is printed, so that nobody has to know which fields there are."""
    page = tmp_path / "t0000.prom"
    page.write_text(PAGE.replace(" 41", " NaN"))
    (sample,) = [line for line in exporter_pages([page]) if line["table"] == "gpu_samples"]
    assert (sample["temp_c"], sample["quality"]) == (None, {"temp_c": "blank"})


def test_a_log_is_dated_by_the_boot_that_is_told(tmp_path: Path) -> None:
    """Stamps that count from boot need the time of the boot."""
    log = tmp_path / "kmsg"
    log.write_text("3,7,5000000,-;NVRM: Xid (PCI:0000:3b:00): 48, DBE\n")
    boot_ns = 1_700_000_000 * 10**9
    lines = list(kernel_logs([log], now_ns=boot_ns + 10**12, boot=Boot(id="b", at_ns=boot_ns)))
    assert [(line["table"], line.get("code"), line.get("observed_at_ns")) for line in lines] == [
        ("events", 48, boot_ns + 5 * 10**9),
        ("counters", None, None),
    ]
