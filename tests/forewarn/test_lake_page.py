"""What docs/lake.md shows works: every example is run as it stands there, on a small lake."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

from forewarn.cli import app
from ingest.lake import Lake, table_rows
from ingest.lake_care import compact
from ingest.schema import EVENTS, GPU_SAMPLES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "lake.md").read_text()
BLOCKS = re.findall(r"```(python|sh)\n(.*?)```", PAGE, re.DOTALL)
EXPECTED = {  # a mark of the block, and what its answer must hold
    "count(*) as times from rows": r"n1\s*│\s*79\s*│\s*5",
    "observed_at, gpu_uuid, temp_c from read_parquet": r"61\.0",
    "scan_delta": r"n1\"?\s*┆\s*61\.0",
    "to_pandas": r"n1\s+79\.?0?(.|\n)*n1\s+79",
    "version=0": r"^2$",
    "copy/events/*/*.parquet": r"2026-01-02\s*│\s*3",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Stand in a folder with a lake of two dates, of which the first was compacted."""
    folder = tmp_path_factory.mktemp("site")
    lake = Lake(folder / "var" / "lake")
    for day, second, count in ((2, 0, 2), (2, 1, 1), (3, 0, 1), (3, 1, 1)):
        at = [datetime(2026, 1, day, 0, 0, second, tzinfo=UTC)] * count
        common = {"node": ["n1"] * count, "observed_at": at, "received_at": at, "source": ["t"] * count}
        lake.append(EVENTS, table_rows(EVENTS, {**common, "kind": ["xid"] * count, "code": [79] * count}))
        samples = {"gpu_uuid": ["g"] * count, "tier": ["hot"] * count, "temp_c": [60.0 + second] * count}
        lake.append(GPU_SAMPLES, table_rows(GPU_SAMPLES, common | samples))
    compact(lake, EVENTS, today=datetime(2026, 1, 3, tzinfo=UTC).date())
    before = Path.cwd()
    os.chdir(folder)
    yield folder
    os.chdir(before)


def test_every_example_runs_and_gives_the_right_answer(site: Path) -> None:
    """Python blocks are executed and shell blocks are run, in the order of the page."""
    seen = set()
    for language, text in BLOCKS:
        if language == "sh":
            for line in text.strip().splitlines():
                done = CliRunner().invoke(app, shlex.split(line)[1:])
                assert done.exit_code == 0, (line, done.output, done.exception)
            continue
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(text, "docs/lake.md", "exec"), {})
        (mark,) = [mark for mark in EXPECTED if mark in text]
        assert re.search(EXPECTED[mark], said.getvalue().strip()), (mark, said.getvalue())
        seen.add(mark)
    assert seen == EXPECTED.keys()


def test_a_plain_glob_counts_compacted_rows_twice(site: Path) -> None:
    """What the page warns of is so: the folder has more rows than the table."""
    with duckdb.connect() as connection:
        (globbed,) = connection.execute("select count(*) from read_parquet('var/lake/events/date=2026-01-02/*.parquet')").fetchone() or (0,)
        Lake("var/lake").attach(connection, EVENTS, until=datetime(2026, 1, 2, tzinfo=UTC))
        (counted,) = connection.execute("select count(*) from events").fetchone() or (0,)
    assert (globbed, counted) == (6, 3)
