"""SIGHUP: read the configuration again and go on with its sources; a configuration that cannot be used changes nothing.

What takes effect: every source and its intervals, deadlines, secrets and XID catalogue. What does not, such as the bus or the spool's
bound, is named in the log and waits for a restart.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import structlog

from forewarn.settings import CollectSection, Config
from forewarn.sources import Sources
from ingest.collector import Collector
from ingest.errors import ConfigError
from ingest.metrics import RELOADS

LOOK_S = 0.2
FIXED = frozenset({"jitter_ratio", "spool_max_mb", "metrics_host", "metrics_port"})  # of [collect]
_log = structlog.get_logger()


class Reloading:
    """The sources of a running collector and where their configuration comes from; `hangup` is what SIGHUP sets."""

    def __init__(self, started: Config, *, sources: Sources, reread: Callable[[], Config], hangup: threading.Event) -> None:
        self._started = started
        self._sources = sources
        self._reread = reread
        self._hangup = hangup

    async def follow(self, collector: Collector) -> None:
        """Reload whenever told to, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            if self._hangup.is_set():
                self._hangup.clear()
                try:
                    await self.reload(collector)
                except Exception as error:  # noqa: BLE001  # whatever a configuration does, the next one can be told
                    _refuse(repr(error))

    async def reload(self, collector: Collector) -> None:
        """Read the configuration and take its sources; what was running goes on where it cannot be used."""
        try:
            config = self._reread()
            sources = self._sources.of(self._started.model_copy(update={"collect": config.collect}))
        except (ConfigError, OSError) as error:
            _refuse(str(error))
            return
        await collector.replace(sources)
        RELOADS.labels("taken").inc()
        _log.info("configuration_taken", sources=[source.name for source in sources], need_restart=differences(self._started, config))


def _refuse(mistakes: str) -> None:
    RELOADS.labels("refused").inc()
    _log.error("configuration_refused", mistakes="; ".join(mistakes.splitlines()))


def differences(started: Config, config: Config) -> list[str]:
    """Name the settings that differ and that a running process does not take."""
    names = []
    for section, before in started:
        after = getattr(config, section)
        for name, value in before:
            is_taken = isinstance(before, CollectSection) and name not in FIXED
            if not is_taken and getattr(after, name) != value:
                names.append(f"{section}.{name}")
    return names
