"""A small emulated fleet that knows what it has said: numbered exporter pages and kernel logs, served from a thread of its own.

A page is known to be in a collector's spool when the same life of that collector has asked for the node's second page after it: a read
begins only after what the one before gave was spooled, and a page that came late is given by the next read. The two last pages that a
life was given may have died with it: they may be in the lake once or not at all. A kernel log is read again from its start by every life,
so every line of it must reach the lake.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import re
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from aiohttp import web

from emulators.exporter_page import Labels, render
from emulators.kernel_log import KernelLog
from emulators.state import GpuState, KernelEvent
from ingest.clock import SharedClock

_XIDS = (13, 31, 43, 63, 74, 94, 119)
_IN_FLIGHT = 2


class Sample(NamedTuple):
    """One GPU on one page; `energy_mj` is what it is known by, no two pages have the same."""

    node: str
    gpu_uuid: str
    energy_mj: int
    temp_c: float
    power_w: float
    ce_total: int


class Xid(NamedTuple):
    """One line of a kernel log."""

    node: str
    boot_id: str
    kernel_seq: int
    code: int


class KnownFleet:
    """Nodes with two GPUs each. `event_gap_s` is the mean wall time between two XIDs of the fleet; `epoch_ns` is when they booted."""

    def __init__(
        self, directory: Path, nodes: Sequence[str], *, epoch_ns: int, scale: float, seed: int = 0, event_gap_s: float = 0.7
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.nodes = tuple(nodes)
        self.epoch_ns, self.clock_file = epoch_ns, directory / "clock"
        self.clock = SharedClock.create(self.clock_file, epoch_ns, scale)
        self.clock.go()
        self._event_gap_s = event_gap_s
        self._random = random.Random(seed)
        self._pages: defaultdict[tuple[str, str], list[list[Sample]]] = defaultdict(list)
        self._numbers = itertools.count(1)
        self.logs = {node: directory / f"{node}.kmsg" for node in nodes}
        self._kernels = {node: KernelLog(path, boot_id=f"boot-{node}", boot_at_ns=epoch_ns) for node, path in self.logs.items()}
        self._port = 0
        self._ready, self._hushed, self._leaving = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="fleet", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(30), "the fleet did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.set()
        self._thread.join(30)

    def hush(self) -> None:
        """Log nothing more; pages go on."""
        self._hushed.set()

    def now_ns(self) -> int:
        """Tell fleet time."""
        return self.clock.now_ns()

    def url(self, node: str, life: str) -> str:
        """Give the page of a node for one life of a collector."""
        return f"http://127.0.0.1:{self._port}/{life}/{node}/metrics"

    def pages(self, node: str) -> int:
        """Count the pages of a node so far."""
        return sum(len(pages) for (_, name), pages in list(self._pages.items()) if name == node)

    def spooled(self) -> set[Sample]:
        """Give what must be in the lake, or be counted as dropped."""
        return {sample for pages in self._pages.values() for page in pages[:-_IN_FLIGHT] for sample in page}

    def in_flight(self) -> set[Sample]:
        """Give what may have died with a collector."""
        return {sample for pages in self._pages.values() for page in pages[-_IN_FLIGHT:] for sample in page}

    def logged(self) -> set[Xid]:
        """Read all XIDs from the kernel logs."""
        found = re.compile(r"\d+,(\d+),\d+,-;NVRM: Xid \(PCI:[^)]*\): (\d+)")
        return {
            Xid(node, f"boot-{node}", int(line[1]), int(line[2]))
            for node, path in self.logs.items()
            for line in map(found.match, path.read_text().splitlines())
            if line
        }

    async def _serve(self) -> None:
        app = web.Application()
        app.router.add_get("/{life}/{node}/metrics", self._page)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self._port = runner.addresses[0][1]
        self._ready.set()
        while not await asyncio.to_thread(self._leaving.wait, self._random.expovariate(1 / self._event_gap_s)):
            if not self._hushed.is_set():
                self._log_xid()
        await runner.cleanup()

    def _log_xid(self) -> None:
        node = self._random.choice(self.nodes)
        gpu = self._random.choice(list(self._gpus(node)))
        code = self._random.choice(_XIDS)
        event = KernelEvent(at_ns=self.now_ns(), node=node, kind="xid", gpu_uuid=gpu.gpu_uuid, serial=gpu.serial, pci=gpu.pci, code=code)
        self._kernels[node].write(event)

    async def _page(self, request: web.Request) -> web.Response:
        life, node = request.match_info["life"], request.match_info["node"]
        gpus, number = list(self._gpus(node)), next(self._numbers)
        for gpu in gpus:
            gpu.energy_mj_total = 1_000_000 + number * 1000 + gpu.gpu_index
            gpu.temp_c = float(self._random.randint(30, 80))
            gpu.power_w = self._random.randint(70_000, 700_000) / 1000
            gpu.dram_ce_volatile_total = number
        self._pages[life, node].append(
            [Sample(node, gpu.gpu_uuid, gpu.energy_mj_total, gpu.temp_c, gpu.power_w, gpu.dram_ce_volatile_total) for gpu in gpus]
        )
        return web.Response(body=render(gpus, Labels(host=node)))

    def _gpus(self, node: str) -> Iterator[GpuState]:
        at = self.nodes.index(node)
        for n in range(2):
            name = f"GPU-{at:08x}-0000-4000-8000-{n:012x}"
            yield GpuState(gpu_uuid=name, serial=f"{at}{n}", pci=f"0000:{n + 0x1A:02x}:00", gpu_index=n, links=[])
