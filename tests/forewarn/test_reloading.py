"""Configurations that a running collector is told to take, good and bad."""

import asyncio
import threading
from pathlib import Path

import pytest
import structlog

from forewarn.reloading import Reloading
from forewarn.settings import Config
from forewarn.sources import Sources
from ingest.clock import NS, ManualClock
from ingest.collector import Collector
from ingest.errors import ConfigError
from ingest.spool import Spool
from ingest.xid import TABLE

NOW_NS = 1_790_000_000 * NS


@pytest.mark.parametrize(
    "mistake",
    [ConfigError("a mistake"), OSError("a mistake"), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "a mistake"), RuntimeError("a mistake")],
)
async def test_after_a_refused_configuration_the_next_is_read(tmp_path: Path, mistake: Exception) -> None:
    """Whatever goes wrong while a configuration is taken is said once, and the next SIGHUP is heard."""
    reads: asyncio.Queue[int] = asyncio.Queue()
    hangup = threading.Event()

    def reread() -> Config:
        reads.put_nowait(1)
        raise mistake

    clock, spool = ManualClock(NOW_NS), Spool(tmp_path / "spool")
    reloading = Reloading(Config(), sources=Sources(clock), reread=reread, hangup=hangup)
    with structlog.testing.capture_logs() as logs:
        following = asyncio.create_task(reloading.follow(Collector([], spool, clock=clock)))
        for _ in range(2):
            hangup.set()
            await asyncio.wait_for(reads.get(), 10)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    spool.close()
    refused = [line for line in logs if line["event"] == "configuration_refused"]
    assert ["a mistake" in line["mistakes"] for line in refused] == [True, True]


def test_a_catalogue_is_read_anew(tmp_path: Path) -> None:
    """A catalogue that was edited under its name is another one; one that cannot be read any more is refused, and mended is taken."""
    table, log = tmp_path / "xids.csv", tmp_path / "kmsg"
    table.write_text(TABLE.read_text())
    config = Config.model_validate({"collect": {"xid_catalogue": str(table), "kernel_log": {"n1": str(log)}}})
    sources = Sources(ManualClock(NOW_NS))
    (first,) = sources.of(config)
    assert sources.of(config) == [first]
    table.write_bytes(TABLE.read_bytes() + b"\xff")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        sources.of(config)
    ours = "63,row_remap_event,hardware,ignore,ignore,precursor"
    table.write_text(TABLE.read_text().replace(ours, ours.replace("precursor", "label")))
    log.write_text("2026-09-21T14:20:00Z n1 kernel: NVRM: Xid (PCI:0000:3b:00): 63, text\n")
    (mended,) = sources.of(config)
    said = [*asyncio.run(mended.read(0)), *sources.last_words()]
    assert [record.use for record in said if hasattr(record, "use")] == ["label"]
