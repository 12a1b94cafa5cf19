"""Emulated BMCs on their own: machines at rest whose energy counts and whose inlet air breathes, each on a port of its own."""

from __future__ import annotations

import asyncio
import math
import ssl
import time
import zlib
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from emulators.bmc.certificates import Authority, server_context
from emulators.bmc.machine import ReadState, State
from emulators.bmc.server import Bmc
from emulators.state import ChassisState, GpuState

GPUS = 8
_IDLE_W = 70.0
_BREATH_S, _BREATH_C = 600.0, 0.5


def machine_at_rest(name: str, now_ns: Callable[[], int]) -> ReadState:
    """Give the state of a machine that idles since it was made."""
    chassis = ChassisState(node=name, serial=f"CH-{name}")
    gpus = [
        GpuState(
            gpu_uuid=f"GPU-{slot:08x}-0000-4000-8000-{zlib.crc32(name.encode()):012x}", serial=f"{name}-{slot}", pci="", gpu_index=slot
        )
        for slot in range(GPUS)
    ]
    for gpu in gpus:
        gpu.pci = f"0000:{0x1B + gpu.gpu_index:02x}:00"
    started_ns = now_ns()

    def read() -> State:
        uptime_s = (now_ns() - started_ns) / 1e9
        chassis.inlet_temp_c = 24.0 + _BREATH_C * math.sin(2 * math.pi * uptime_s / _BREATH_S)
        for gpu in gpus:
            gpu.uptime_s, gpu.energy_mj_total = uptime_s, int(uptime_s * _IDLE_W * 1000)
        return chassis, gpus

    return read


async def serve_bmcs(
    names: Iterable[str],
    *,
    profile: str = "strict",
    host: str = "127.0.0.1",
    first_port: int = 0,
    report_interval_s: float = 10.0,
    event_interval_s: float | None = None,
    defects: Iterable[str] = (),
    tls_folder: Path | None = None,
    username: str = "forewarn",
    password: str = "forewarn-test",  # noqa: S107  # of an emulator
    now_ns: Callable[[], int] = time.time_ns,
    tell: Callable[[str, str], None] = lambda _, __: None,
) -> None:
    """Serve BMCs until cancelled; `tell` gets the name and address of each.

    With `tls_folder` they serve TLS only, with leaves of an authority whose certificate is `ca.pem` in that folder. Ports follow each
    other from `first_port`; with 0 each is free.
    """
    tls = _tls(tls_folder, host) if tls_folder is not None else None
    bmcs: list[Bmc] = []
    try:
        for number, name in enumerate(names):
            bmc = Bmc(
                name,
                read_state=machine_at_rest(name, now_ns),
                now_ns=now_ns,
                report_interval_s=report_interval_s,
                profile=profile,
                username=username,
                password=password,
                event_interval_s=event_interval_s,
            )
            bmc.defects |= set(defects)
            bmcs.append(bmc)
            tell(name, await bmc.start(host, first_port and first_port + number, tls=tls))
        await asyncio.Event().wait()
    finally:
        for bmc in bmcs:
            await bmc.stop()


def _tls(folder: Path, host: str) -> ssl.SSLContext:
    folder.mkdir(parents=True, exist_ok=True)
    return server_context(Authority(folder, datetime.now(UTC)).create().issue(host))
