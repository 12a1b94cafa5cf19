"""The scheduler is read in the way that the configuration says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from forewarn.settings import Config
from forewarn.sources import Sources
from ingest.clock import NS, ManualClock
from ingest.one_reading import read_once
from ingest.source import Source

AT = 1_750_000_000 * NS


def of(sources: Sources, tmp_path: Path, **collect: Any) -> Source:
    """Give the only source of a configuration."""
    config = Config.model_validate({"fleet": {"state_dir": tmp_path}, "collect": collect})
    (source,) = sources.of(config)
    return source


async def test_slurmrestd_is_a_source_of_its_own(tmp_path: Path) -> None:
    """Its address alone makes the source; where nobody is there, it is the one that could not be read."""
    source = of(Sources(ManualClock(AT)), tmp_path, slurm_rest=f"unix:{tmp_path}/nowhere", jobs_interval_s=45)
    assert (source.name, source.interval_s) == ("slurm", 45)
    assert await read_once([source], AT) == ([], ["slurm"])


def test_a_renewed_token_leaves_the_source_as_it_is(tmp_path: Path) -> None:
    """What the source has said stays known when the token changes; another user, file or address makes it anew."""
    sources, token = Sources(ManualClock(AT)), tmp_path / "token"
    told = {"slurm_rest": "http://ctl:6820", "slurm_token_file": token}
    token.write_text("a.b.c")
    first = of(sources, tmp_path, **told)
    token.write_text("d.e.f")
    assert of(sources, tmp_path, **told) is first
    for change in ({"slurm_rest": "http://other:6820"}, {"slurm_user": "root"}, {"slurm_accounting": True}):
        assert of(sources, tmp_path, **told | change) is not first
        first = of(sources, tmp_path, **told)
