"""`forewarn emulate`: devices that stand in for hardware, at its real contracts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forewarn.extras import build_tools_named

if TYPE_CHECKING:
    from ingest.clock import Clock

emulate = typer.Typer(help="Emulate a GPU fleet or one of its devices.", no_args_is_help=True)


@emulate.command("fleet")
def emulate_fleet(
    directory: Annotated[Path, typer.Option(help="Folder for device files and endpoints.json.")] = Path("var/fleet"),
    seed: Annotated[int, typer.Option(help="Seed of the fleet.")] = 7,
    days: Annotated[int, typer.Option(help="Days that the fleet lives.")] = 100,
    live_nodes: Annotated[int, typer.Option(help="How many of its nodes show their devices.")] = 16,
    scale: Annotated[float, typer.Option(help="Fleet seconds per wall second, from the fleet's first day on.")] = 1.0,
    clock_file: Annotated[Path | None, typer.Option(help="File of a fleet time that somebody else keeps, in place of --scale.")] = None,
    rate_scale: Annotated[float | None, typer.Option(help="Failure rates, times those of real fleets.")] = None,
    outcomes_url: Annotated[str | None, typer.Option(help="Where the fleet's operators report what became of nodes.")] = None,
    outcomes_secret_file: Annotated[Path | None, typer.Option(help="Secret with which they sign.")] = None,
) -> None:
    """Show the devices of an emulated fleet: NVML libraries, exporter pages, kernel logs, BMCs.

    Example: forewarn emulate fleet --live-nodes 4 --scale 60
    """
    from emulators.fleet import run_fleet  # noqa: PLC0415
    from emulators.world import World, WorldSpec  # noqa: PLC0415
    from ingest.clock import SharedClock  # noqa: PLC0415

    spec = WorldSpec.show(seed=seed, days=days, **({} if rate_scale is None else {"rate_scale": rate_scale}))
    names = [node.name for node in World(spec).nodes[:live_nodes]]
    fleet = run_fleet(
        spec,
        names,
        clock=SharedClock(clock_file, seat=1) if clock_file else _own_clock(directory / "clock", spec.start_ns, scale),
        directory=directory,
        outcomes_url=outcomes_url,
        outcomes_secret_file=outcomes_secret_file,
        cluster="demo",
    )
    with build_tools_named():
        asyncio.run(fleet)


def _own_clock(file: Path, epoch_ns: int, scale: float) -> Clock:
    from ingest.clock import SharedClock  # noqa: PLC0415

    clock = SharedClock.create(file, epoch_ns, scale)
    clock.go()
    return clock


@emulate.command("history")
def emulate_history(
    lake: Annotated[Path, typer.Argument(help="Folder of the lake.")],
    seed: Annotated[int, typer.Option(help="Seed of the fleet.")] = 7,
    days: Annotated[int, typer.Option(help="Days of history.")] = 60,
) -> None:
    """Write the history of an emulated fleet into a lake, and its truth beside it.

    Example: forewarn emulate history var/lake --days 30
    """
    from emulators.history import write_history, write_truth  # noqa: PLC0415
    from emulators.world import World, WorldSpec  # noqa: PLC0415
    from forewarn.screen import Screen  # noqa: PLC0415
    from ingest.lake import Lake  # noqa: PLC0415

    world = World(WorldSpec.show(seed=seed, days=days))
    with Screen().step("writing the history of the fleet") as progress:
        write_history(world, Lake(lake), until_ns=world.spec.start_ns + days * 86_400 * 10**9, progress=progress)
    write_truth(world, lake / "truth.parquet")


@emulate.command("nvml")
def emulate_nvml(
    profile: Annotated[str, typer.Option(help="GPU model: a100, h100, b200, gb200, gb300, l40s or t4.")] = "h100",
    gpus: Annotated[int, typer.Option(min=1, max=16, help="Number of GPUs.")] = 8,
    directory: Annotated[Path, typer.Option(help="Folder for the state file.")] = Path("var/nvml"),
) -> None:
    """Make an NVML library without a GPU and print the environment under which any tool reads it.

    Example: forewarn emulate nvml --profile h100 --gpus 8
    """
    from forewarn.emulated_devices import make_nvml  # noqa: PLC0415

    for name, value in make_nvml(profile, gpus, directory).items():
        typer.echo(f"export {name}={value}")


@emulate.command("bmc")
def emulate_bmc(
    profile: Annotated[str, typer.Option(help="Kind of BMC: strict, openbmc, hgx, idrac9, idrac10, xcc, ilo or ome.")] = "strict",
    port: Annotated[int, typer.Option(help="Port; 0: any.")] = 0,
) -> None:
    """Serve a BMC with telemetry over Redfish until interrupted.

    Example: forewarn emulate bmc --profile hgx --port 8443
    """
    from forewarn.emulated_devices import serve_bmc  # noqa: PLC0415

    asyncio.run(serve_bmc(profile, port, say=typer.echo))
