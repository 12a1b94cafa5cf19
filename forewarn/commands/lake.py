"""`forewarn lake`: keep the lake small and whole, look at it, and copy it for tools that know no Delta."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forewarn.commands.options import ConfigOption, JsonOption, clock_of, configuration, rows_as_text, show
from forewarn.settings import Config
from ingest.clock import datetime_of
from ingest.errors import ConfigError, LakeError, LakeUnreadable

if TYPE_CHECKING:
    from ingest.lake import Lake
    from ingest.tables import Table

lake = typer.Typer(help="Keep the lake small and whole, and copy it for other tools.", no_args_is_help=True)
TableOption = Annotated[list[str], typer.Option("--table", help="Table to work on; repeat it for several; default: all.")]
DryOption = Annotated[bool, typer.Option("--dry-run", help="Change nothing: say what would go.")]
MemoryOption = Annotated[int, typer.Option(min=64, help="Memory for sorting, MiB; what is larger is sorted on disk.")]


@lake.command("compact")
def compact(path: ConfigOption = None, table: TableOption = [], memory_mb: MemoryOption = 1024, as_json: JsonOption = False) -> None:  # noqa: B006
    """Sort each closed date into few files and merge the small files of today; run it hourly or daily.

    Safe beside writers, readers and another compaction. The old files stay until the vacuum.

    Example: forewarn lake compact --config forewarn.toml
    """
    from ingest.lake_care import compact as act  # noqa: PLC0415

    config = configuration(path)
    today = datetime_of(clock_of(config).now_ns()).date()

    def one(opened: Lake, each: Table) -> dict[str, Any]:
        return vars(act(opened, each, today=today, target_mb=config.lake.target_mb, memory_mb=memory_mb))

    columns = ("files_before", "files_after", "sorted", "merged", "postponed")
    _for_each(config, table, one, columns, as_json=as_json)


@lake.command("expire")
def expire(path: ConfigOption = None, table: TableOption = [], is_dry: DryOption = False, as_json: JsonOption = False) -> None:  # noqa: B006
    """Delete the dates that are older than their table is kept (lake.keep_raw_days, keep_rollups_days, keep_days); run it daily.

    The rows are gone for every reader at once, the files with a later vacuum.

    Example: forewarn lake expire --config forewarn.toml --dry-run
    """
    from forewarn.lake_tables import kept_from  # noqa: PLC0415
    from ingest.lake_care import expire as act  # noqa: PLC0415
    from ingest.lake_care import expired  # noqa: PLC0415

    config = configuration(path)
    today = datetime_of(clock_of(config).now_ns()).date()

    def one(opened: Lake, each: Table) -> dict[str, Any]:
        first, delta = kept_from(config.lake, each, today), opened.open(each)
        if first is None or delta is None:
            return {"kept_from": None, "rows": 0}
        rows = sum(file.rows for file in expired(delta, first)) if is_dry else act(opened, each, before=first)
        return {"kept_from": f"{first:%Y-%m-%d}", "rows": rows}

    _for_each(config, table, one, ("kept_from", "rows"), as_json=as_json)


@lake.command("vacuum")
def vacuum(
    path: ConfigOption = None,
    table: TableOption = [],  # noqa: B006
    keep_h: Annotated[int, typer.Option(min=1, help="Hours that files stay after they were replaced: how long a reader may take.")] = 168,
    is_dry: DryOption = False,
    as_json: JsonOption = False,
) -> None:
    """Delete files that no version of the last hours names; run it daily, after compact and expire.

    Example: forewarn lake vacuum --config forewarn.toml --keep-h 48
    """
    from ingest.lake_care import vacuum as act  # noqa: PLC0415

    def one(opened: Lake, each: Table) -> dict[str, Any]:
        return {"files_removed": len(act(opened, each, keep=timedelta(hours=keep_h), is_dry=is_dry))}

    _for_each(configuration(path), table, one, ("files_removed",), as_json=as_json)


@lake.command("stats")
def stats(path: ConfigOption = None, table: TableOption = [], as_json: JsonOption = False) -> None:  # noqa: B006
    """Show rows, files, bytes and dates of each table, and for how long it is kept (0: for ever).

    Example: forewarn lake stats --config forewarn.toml
    """
    from forewarn.lake_tables import kept_days  # noqa: PLC0415
    from ingest.lake_care import measure  # noqa: PLC0415

    config = configuration(path)
    _existing(config, table)

    def one(opened: Lake, each: Table) -> dict[str, Any]:
        found, kept = measure(opened, each), kept_days(config.lake, each)
        return vars(found) | {"bytes_per_row": round(found.size_bytes / max(found.rows, 1), 1), "kept_days": kept} if found else {}

    columns = ("rows", "files", "size_bytes", "bytes_per_row", "oldest", "newest", "kept_days", "version")
    _for_each(config, table, one, columns, as_json=as_json)


@lake.command("check")
def check(path: ConfigOption = None, table: TableOption = [], as_json: JsonOption = False) -> None:  # noqa: B006
    """Read every row once and hold tables against their log and declaration; ends with 1 where something is wrong.

    Finds files that are gone or broken, row counts that differ from the log, gaps in the log, streams that went back, columns of
    another type, rows in the wrong date and rows that are there twice.

    Example: forewarn lake check --config forewarn.toml
    """
    from ingest.lake_check import KINDS  # noqa: PLC0415
    from ingest.lake_check import check as act  # noqa: PLC0415

    config = configuration(path)
    opened, tables = _existing(config, table)
    found = [problem._asdict() for each in tables for problem in act(opened, each)]

    def render(result: dict[str, Any]) -> str:
        lines = [f"{p['table']}: {p['kind']} ({KINDS[p['kind']]}): {p['where']}: {p['detail']}" for p in result["problems"]]
        return "\n".join([*lines, f"{len(lines)} problems in {len(result['tables'])} tables"])

    show({"tables": [each.name for each in tables], "problems": found}, as_json=as_json, render=render)
    if found:
        raise typer.Exit(1)


@lake.command("export")
def export(
    directory: Annotated[Path, typer.Argument(help="Folder for the copy: DIR/table/date=YYYY-MM-DD/part-0.parquet.")],
    path: ConfigOption = None,
    table: TableOption = [],  # noqa: B006
    since: Annotated[str | None, typer.Option(help="First date, YYYY-MM-DD.")] = None,
    until: Annotated[str | None, typer.Option(help="Last date, YYYY-MM-DD.")] = None,
    memory_mb: MemoryOption = 1024,
    as_json: JsonOption = False,
) -> None:
    """Copy tables into plain Hive-partitioned Parquet, one file a date, for tools that know no Delta.

    A further export replaces the files of its dates, each whole or not at all.

    Example: forewarn lake export copy/ --config forewarn.toml --table events --since 2026-01-01
    """
    from ingest.lake_export import export as act  # noqa: PLC0415

    opened, tables = _existing(configuration(path), table)
    first, last = _date(since, "--since"), _date(until, "--until")
    found = [
        dict(zip(("table", "date", "rows", "file"), done, strict=True))
        for each in tables
        for done in act(opened, each, directory, since=first, until=last, memory_mb=memory_mb)
    ]
    columns = ("table", "date", "rows", "file")
    show(found, as_json=as_json, render=lambda rows: rows_as_text(columns, [tuple(str(row[name]) for name in columns) for row in rows]))


def _for_each(
    config: Config,
    names: list[str],
    act: Callable[[Lake, Table], dict[str, Any]],
    columns: tuple[str, ...],
    *,
    as_json: bool,
) -> None:
    """Do the same for tables, one that fails does not stop the next ones, and print what came of it; ends with 2 where one failed."""
    opened, tables = _chosen(config, names)
    results: list[dict[str, Any]] = []
    for each in tables:
        try:
            if opened.open(each) is not None:
                results.append({"table": each.name, **act(opened, each)})
        except LakeError as error:
            results.append({"table": each.name, "error": str(error)})
    show(results, as_json=as_json, render=lambda rows: _text(columns, rows) or f"no table yet in {opened.root}")
    if any("error" in result for result in results):
        raise typer.Exit(2)


def _text(columns: tuple[str, ...], results: list[dict[str, Any]]) -> str:
    good = [result for result in results if "error" not in result]
    rows = [(result["table"], *(_cell(result[name]) for name in columns)) for result in good]
    errors = [f"{result['table']}: {result['error']}" for result in results if "error" in result]
    return "\n".join(([rows_as_text(("table", *columns), rows)] if rows else []) + errors)


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return "-" if not value else value[0] if len(value) == 1 else f"{value[0]}..{value[-1]} ({len(value)})"
    return "-" if value is None else str(value)


def _chosen(config: Config, names: list[str]) -> tuple[Lake, list[Table]]:
    from forewarn.compose import lake_of  # noqa: PLC0415
    from forewarn.lake_tables import chosen_tables  # noqa: PLC0415

    return lake_of(config), chosen_tables(names)


def _is_there(lake: Lake, table: Table) -> bool:
    """Claim that there is a table, be it a broken one."""
    try:
        return lake.open(table) is not None
    except LakeUnreadable:
        return True


def _existing(config: Config, names: list[str]) -> tuple[Lake, list[Table]]:
    """Choose tables that exist; raises LakeUnreadable where none does: the address is wrong more often than the lake is empty."""
    opened, tables = _chosen(config, names)
    existing = [each for each in tables if _is_there(opened, each)]
    if not existing:
        raise LakeUnreadable(f"no table in {opened.root}: check lake.path, or let something be written first")
    return opened, existing


def _date(text: str | None, name: str) -> datetime | None:
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC) if text else None
    except ValueError as error:
        raise ConfigError(f"{name} {text!r}: give a date like 2026-01-31") from error
