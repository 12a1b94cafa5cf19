"""`forewarn replay`: rejected messages, and their way back."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forewarn.commands.options import ConfigOption, JsonOption, configuration, rows_as_text, show

if TYPE_CHECKING:
    from forewarn.settings import Config
    from ingest.messages import Message
    from ingest.rejects import Rejected


def replay(
    path: ConfigOption = None,
    reason: Annotated[list[str], typer.Option(help="Send messages again that were rejected for this; repeat it for several.")] = [],  # noqa: B006
    table: Annotated[list[str], typer.Option(help="Only those of this table; repeat it for several.")] = [],  # noqa: B006
    is_all: Annotated[bool, typer.Option("--all", help="Send all again, whatever the reason.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List rejected messages by table and reason, or with --reason or --all send those again that can be read by now.

    Safe to repeat, and beside a running writer: what is in the lake already is not written twice. Messages stay where they are kept.

    Example: forewarn replay --config forewarn.toml --reason unknown_version
    """
    from forewarn.compose import rejects_of  # noqa: PLC0415
    from ingest.replays import distinct  # noqa: PLC0415

    config = configuration(path)
    kept = distinct(rejects_of(config).read(), reasons=reason, tables=table)
    if reason or is_all:
        show(_send(config, kept), as_json=as_json, render=_sent_text)
    else:
        show(_listed(kept), as_json=as_json, render=_listed_text)


def _listed(kept: list[Rejected]) -> list[dict[str, Any]]:
    from ingest.replays import select  # noqa: PLC0415

    groups: dict[tuple[str, str], list[Rejected]] = defaultdict(list)
    for message in kept:
        groups[message.table, message.reason].append(message)
    return [
        {
            "table": name,
            "reason": reason,
            "messages": len(messages),
            "readable_now": len(select(messages).readable),
            "last_stream": messages[-1].stream,
            "last_offset": messages[-1].offset,
            "last_detail": messages[-1].detail,
        }
        for (name, reason), messages in sorted(groups.items())
    ]


def _listed_text(rows: list[dict[str, Any]]) -> str:
    columns = ("table", "reason", "messages", "readable_now", "last_detail")
    return rows_as_text(columns, [tuple(str(row[name])[:70] for name in columns) for row in rows]) if rows else "no rejected message"


def _send(config: Config, kept: list[Rejected]) -> dict[str, Any]:
    from ingest.replays import select  # noqa: PLC0415

    selection = select(kept)
    unreadable: Counter[tuple[str, str]] = selection.unreadable
    return {
        "selected": len(kept),
        **_put(config, selection.readable),
        "unreadable": [{"table": name, "reason": reason, "messages": count} for (name, reason), count in sorted(unreadable.items())],
    }


def _put(config: Config, messages: list[Message]) -> dict[str, int]:
    from forewarn import compose  # noqa: PLC0415
    from ingest import replays  # noqa: PLC0415

    if config.bus.kind == "direct":
        rows = replays.write(messages, compose.lake_of(config), compose.rejects_of(config))
        return {"sent": len(messages), "rows_written": rows}
    publisher = compose.publisher_of(config)
    try:
        return {"sent": replays.publish(messages, publisher)}
    finally:
        publisher.close()


def _sent_text(result: dict[str, Any]) -> str:
    lines = [f"selected {result['selected']}, sent again {result['sent']}"]
    if "rows_written" in result:
        lines.append(f"rows that were new to the lake: {result['rows_written']}")
    lines += [f"still unreadable: {row['messages']} of {row['table']} ({row['reason']})" for row in result["unreadable"]]
    return "\n".join(lines)
