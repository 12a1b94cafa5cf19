"""What goes wrong in a soak: each fault befalls one node and is over when its coroutine is."""

from __future__ import annotations

import asyncio
import time

from emulators.bmc.faults import Rule, Wire
from emulators.exporter_quirks import Quirks
from tests.soak.fleet import GPUS, Fault, Node, SoakFleet, boot_id

QUIET_S = 15.0  # a log that was silent for so long has been read
STEPS_S = (0, 0, 5, -5, 60, -60, 600, -3600)


async def gpu_hangs(fleet: SoakFleet, node: Node) -> None:
    """Let one call of one GPU take many seconds."""
    slot = fleet.random.randrange(GPUS)
    node.machine.fault("nvmlDeviceGetUtilizationRates", slot=slot, latency_us=fleet.random.randrange(2, 20) * 1_000_000, calls=1)
    await asyncio.sleep(20)
    node.machine.clear_faults()


async def driver_hangs(fleet: SoakFleet, node: Node) -> None:
    """Let one call keep the driver's lock, so that every GPU hangs."""
    slot = fleet.random.randrange(GPUS)
    node.machine.fault("nvmlDeviceGetUtilizationRates", slot=slot, latency_us=600_000_000, holds_lock=True, calls=1)
    await asyncio.sleep(15)
    node.machine.clear_faults()


async def worker_crashes(fleet: SoakFleet, node: Node) -> None:
    """Let a call take the process down that makes it."""
    slot = fleet.random.randrange(GPUS)
    node.machine.fault("nvmlDeviceGetUtilizationRates", slot=slot, action="segv", calls=1)
    await asyncio.sleep(10)
    node.machine.clear_faults()


async def page_is_cut(fleet: SoakFleet, node: Node) -> None:
    with fleet.quirk(node, Quirks(cut_at=fleet.random.randrange(1, 60_000))):
        await asyncio.sleep(fleet.random.uniform(1, 10))


async def page_is_503(fleet: SoakFleet, node: Node) -> None:
    with fleet.quirk(node, Quirks(status=503)):
        await asyncio.sleep(fleet.random.uniform(1, 10))


async def page_is_late(fleet: SoakFleet, node: Node) -> None:
    with fleet.quirk(node, Quirks(delay_s=fleet.random.uniform(1, 5))):
        await asyncio.sleep(10)


async def page_stands_still(fleet: SoakFleet, node: Node) -> None:
    with fleet.quirk(node, Quirks(is_frozen=True)):
        await asyncio.sleep(fleet.random.uniform(5, 60))


async def stream_drops(fleet: SoakFleet, node: Node) -> None:
    """End the stream, and spoil the next one."""
    node.bmc.faults.wires.append(Wire(fleet.random.choice(("reset", "eof", "html", "joined")), after=3, remaining=1))
    for number in list(node.bmc.streams.readers):
        node.bmc.streams.close(number)
    await asyncio.sleep(10)
    node.bmc.faults.wires.clear()


async def bmc_is_503(fleet: SoakFleet, node: Node) -> None:
    node.bmc.faults.rules.append(Rule("*", status=503))
    for number in list(node.bmc.streams.readers):
        node.bmc.streams.close(number)
    await asyncio.sleep(fleet.random.uniform(2, 10))
    node.bmc.faults.rules.clear()


async def bmc_restarts(fleet: SoakFleet, node: Node) -> None:
    await node.bmc.reboot(down_s=fleet.random.uniform(0, 5))


async def bmc_floods(fleet: SoakFleet, node: Node) -> None:
    """Send two thousand events in ten seconds."""
    for number in range(2000):
        node.bmc.send_event("Test.1.0.Flood", f"flood {number} {fleet.random.random()}")
        if number % 40 == 0:
            await asyncio.sleep(0.2)


async def log_overruns(fleet: SoakFleet, node: Node) -> None:
    """Overwrite records before they are read, then write a burst."""
    lost = fleet.random.randrange(1, 1000)
    node.log.overrun(lost)
    fleet.overwritten += lost
    fleet.say(node, times=200)
    await asyncio.sleep(1)


async def gpu_resets(fleet: SoakFleet, node: Node) -> None:
    gpu = fleet.random.choice(node.gpus)
    gpu.uptime_s, gpu.energy_mj_total, gpu.sram_ce_volatile_total = 0.0, 0, 0
    node.machine.reset_gpu(gpu.gpu_uuid)
    fleet.say(node)


async def node_boots(fleet: SoakFleet, node: Node) -> None:
    """Begin a new boot: counters and log start over."""
    node.is_silent = True
    await asyncio.sleep(QUIET_S)
    boot = boot_id(fleet.random)
    for gpu in node.gpus:
        gpu.uptime_s, gpu.energy_mj_total = 0.0, 0
    node.boot_file.write_text(boot + "\n")
    node.machine.reboot(boot)
    node.log.reboot(boot_id=boot, boot_at_ns=time.time_ns())
    fleet.lines += 1
    node.is_silent = False


async def clock_steps(fleet: SoakFleet, node: Node) -> None:  # the collector's clock, not a node's
    fleet.move_clock(fleet.random.choice(STEPS_S))


FAULTS: tuple[Fault, ...] = (
    gpu_hangs,
    driver_hangs,
    worker_crashes,
    page_is_cut,
    page_is_503,
    page_is_late,
    page_stands_still,
    stream_drops,
    bmc_is_503,
    bmc_restarts,
    bmc_floods,
    log_overruns,
    gpu_resets,
    node_boots,
    clock_steps,
)
