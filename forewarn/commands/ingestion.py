"""`forewarn collect`, `write`, `import` and `inspect`: telemetry on its way into the lake."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from forewarn.commands.options import ConfigOption, JsonOption, clock_of, configuration, rows_as_text, show
from forewarn.commands.running import reload_on_signal, stop_on_signals
from forewarn.settings import Config
from ingest.clock import SystemClock, datetime_of


def collect(
    path: ConfigOption = None,
    once: Annotated[
        bool, typer.Option("--once", help="Read every source once, print the records and end: keeps nothing, as with --dry-run.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="The same as --once.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="With --once: end with 1 where the state of a source is not ok, such as a driver mismatch.")
    ] = False,
) -> None:
    """Read the configured sources and publish what they say; starts and goes on without a broker, and without a driver.

    SIGHUP reads the configuration again; SIGTERM flushes and ends within 25 s, a second one at once.

    Example: forewarn collect --config forewarn.toml --once --dry-run
    """
    if once or dry_run or check:
        are_ok = _print_one_reading(configuration(path))
        raise typer.Exit(1 if check and not are_ok else 0)
    stop, hangup = stop_on_signals(), reload_on_signal()  # first: what follows takes seconds to load

    from forewarn.collecting import run_collect  # noqa: PLC0415

    config = configuration(path)
    run_collect(config, clock_of(config), stop, hangup=hangup, reread=lambda: configuration(path))


def _print_one_reading(config: Config) -> bool:
    """Print what every source says and tell whether all could be read and say that they are ok; the spool is left to the collector."""
    from forewarn.sources import Sources  # noqa: PLC0415
    from ingest.one_reading import read_once  # noqa: PLC0415
    from ingest.schema import TABLE_OF_RECORD, SourceState  # noqa: PLC0415

    clock = clock_of(config)
    records, failed = asyncio.run(read_once(Sources(clock, keeps=False).of(config), clock.now_ns()))
    for record in records:
        typer.echo(msgspec.json.encode({"table": TABLE_OF_RECORD[type(record)], **msgspec.to_builtins(record)}).decode())
    return not failed and all(record.state == "ok" for record in records if isinstance(record, SourceState))


def write(path: ConfigOption = None) -> None:
    """Take messages from Kafka into the lake, exactly once.

    Example: forewarn write --config forewarn.toml
    """
    from forewarn import compose, health  # noqa: PLC0415
    from forewarn.systemd import notify  # noqa: PLC0415
    from ingest.errors import ConfigError  # noqa: PLC0415

    stop = stop_on_signals()
    config = configuration(path)
    if config.bus.kind != "kafka":
        raise ConfigError("bus.kind = 'direct': the direct bus is written by forewarn up; set bus.kind = 'kafka' for a writer of its own")
    writer = compose.writer_of(config, compose.lake_of(config), compose.subscriber_of(config))
    alive, ready = {"writer": partial(health.writer_turns, writer)}, {"bus": partial(health.writer_writes, writer)}
    with health.vitals_of(config.write, "write", alive=alive, ready=ready):
        notify("READY=1")
        writer.run(stop)


def import_history(
    directory: Annotated[
        Path, typer.Argument(help="Folder with events, telemetry, inventory, topology, jobs or outcomes (Parquet or CSV).")
    ],
    path: ConfigOption = None,
    population: Annotated[
        int | None,
        typer.Option(
            min=0, help="Units in all, with those that never appear in the events; default: the column `nodes`, where there is one."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Load a fleet's own history into the lake; running it again takes nothing twice.

    A file that cannot be read is named, the others are taken, and the command ends with 2.

    Example: forewarn import history/ --config forewarn.toml
    """
    from forewarn import compose  # noqa: PLC0415
    from ingest.imports import import_history as load  # noqa: PLC0415

    config = configuration(path)
    report = load(directory, compose.lake_of(config), population=population, now=datetime_of(clock_of(config).now_ns()))
    files = [{name: _plain(value) for name, value in vars(file).items()} for file in report.files]
    result = {"files": files, "units_added": report.units_added}
    show(result, as_json=as_json, render=_import_text)
    if any(file.error for file in report.files):
        raise typer.Exit(2)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Counter) else value


def _import_text(result: dict[str, Any]) -> str:
    def counted(counts: dict[str, int]) -> str:
        return ", ".join(f"{number} {name}" for name, number in counts.items()) or "0"

    names = ("taken", "known", "rejected")
    rows = [(str(file["file"]), str(file["read"]), *(counted(file[name]) for name in names)) for file in result["files"]]
    errors = "".join(f"\n{file['file']}: not taken: {file['error']}" for file in result["files"] if file["error"])
    return rows_as_text(("file", "read", *names), rows) + errors + f"\nunits added from the population: {result['units_added']}"


inspect = typer.Typer(help="Show what a source's raw input becomes, as JSON lines.", no_args_is_help=True)
FilesArgument = Annotated[
    list[Path], typer.Argument(help="Files, in the order in which they came.", exists=True, dir_okay=False, readable=True)
]


@inspect.command("exporter")
def inspect_exporter(
    files: FilesArgument,
    status: Annotated[list[int], typer.Option(help="HTTP status of the last page; repeat it for the last pages.")] = [],  # noqa: B006
) -> None:
    """Print the records that the collector would make of exporter pages.

    The name of a file, such as t0030.prom, gives the second of its scrape.

    Example: forewarn inspect exporter t0000.prom t0030.prom
    """
    from forewarn.inspect import exporter_pages  # noqa: PLC0415

    for record in exporter_pages(files, statuses=status):
        typer.echo(msgspec.json.encode(record).decode())


@inspect.command("kernel-log")
def inspect_kernel_log(files: FilesArgument) -> None:
    """Print the events that the collector would make of kernel logs.

    Example: forewarn inspect kernel-log node7.kmsg
    """
    from forewarn.inspect import kernel_logs  # noqa: PLC0415

    for record in kernel_logs(files, now_ns=SystemClock().now_ns()):
        typer.echo(msgspec.json.encode(record).decode())


@inspect.command("sse")
def inspect_sse(files: FilesArgument) -> None:
    """Print the records that the collector would make of recorded event streams of BMCs.

    Example: forewarn inspect sse node7.sse
    """
    from forewarn.inspect_redfish import event_streams  # noqa: PLC0415

    for record in event_streams(files, received_at_ns=SystemClock().now_ns()):
        typer.echo(msgspec.json.encode(record).decode())


@inspect.command("redfish")
def inspect_redfish(files: FilesArgument) -> None:
    """Print the records that the collector would make of recorded Redfish resources.

    Example: forewarn inspect redfish report.json
    """
    from forewarn.inspect_redfish import resources  # noqa: PLC0415

    for record in resources(files, received_at_ns=SystemClock().now_ns()):
        typer.echo(msgspec.json.encode(record).decode())


@inspect.command("nvml")
def inspect_nvml(steps: Annotated[Path, typer.Argument(help="What happens to an emulated machine, as JSON.")]) -> None:
    """Print the records of a machine's polls before and after something happens to its GPUs.

    The machine is emulated: eight healthy H100s, polled once, then two times after the steps.
    A step sets values of one GPU ("gpu", "set") or of the machine ("state"), or lets a call of
    the library fail ("fault", "rc"). A file in which GPU 3 answers with code 15, GPU is lost:

    \b
    {"id": "lost-gpu", "steps": [
      {"gpu": 3, "set": {"handle_rc": 15, "dev_rc": 15}}
    ]}

    Example: forewarn inspect nvml lost-gpu.json
    """  # noqa: D301  # the mark by which click keeps lines as they are
    from forewarn.inspect_nvml import steps_as_records  # noqa: PLC0415

    for record in steps_as_records(steps):
        typer.echo(msgspec.json.encode(record).decode())
