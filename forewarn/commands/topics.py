"""`forewarn topics`: the topics of the bus, as they are and as the configuration wants them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from forewarn.commands.options import ConfigOption, JsonOption, configuration, rows_as_text, show
from forewarn.settings import BusSection
from ingest.errors import ConfigError

if TYPE_CHECKING:
    from ingest.kafka_admin import KafkaConnection
    from ingest.kafka_topics import TopicPlan

topics = typer.Typer(help="Show, create and check the topics of the Kafka bus.", no_args_is_help=True)


@topics.command("show")
def show_topics(path: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show partitions, messages, lag of the writers, partitions that a writer holds, and retention.

    Example: forewarn topics show --config forewarn.toml
    """
    from ingest.kafka_topics import topic_reports  # noqa: PLC0415

    found = [report._asdict() for report in topic_reports(_connection(configuration(path).bus))]
    columns = ("topic", "partitions", "messages", "lag", "owned", "retention_h")
    rows = [
        tuple("-" if report[name] is None else f"{report[name]:g}" if name != "topic" else report[name] for name in columns)
        for report in found
    ]
    show(found, as_json=as_json, render=lambda _: rows_as_text(columns, rows) if rows else "no topics yet: forewarn topics create")


@topics.command("create")
def create(path: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Create the topics that are missing and set the retention of all to bus.retention_h and bus.rejected_retention_h.

    Running it again changes nothing. Partitions of a topic that exists are never changed.

    Example: forewarn topics create --config forewarn.toml
    """
    from ingest.kafka_topics import make_topics  # noqa: PLC0415

    bus = configuration(path).bus
    made, changed = make_topics(_connection(bus), _plan(bus))

    def render(result: dict[str, Any]) -> str:
        lines = [f"created {name}" for name in result["created"]] + [f"retention set of {name}" for name in result["retention_set"]]
        return "\n".join(lines) or "all topics are there as configured"

    show({"created": made, "retention_set": changed}, as_json=as_json, render=render)


@topics.command("check")
def check(path: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Hold topics against the configuration and find messages that nobody reads; ends with 1 where something is wrong.

    Example: forewarn topics check --config forewarn.toml
    """
    from ingest.kafka_topics import topic_problems  # noqa: PLC0415

    bus = configuration(path).bus
    found = [problem._asdict() for problem in topic_problems(_connection(bus), _plan(bus))]
    lines = [f"{problem['topic']}: {problem['kind']}: {problem['detail']}" for problem in found]
    show({"problems": found}, as_json=as_json, render=lambda _: "\n".join([*lines, f"{len(lines)} problems"]))
    if found:
        raise typer.Exit(1)


def _connection(bus: BusSection) -> KafkaConnection:
    from forewarn.compose import kafka_of  # noqa: PLC0415

    if bus.kind != "kafka":
        raise ConfigError("bus.kind = 'direct': there are no topics on one machine; set bus.kind = 'kafka' and bus.bootstrap")
    return kafka_of(bus)


def _plan(bus: BusSection) -> TopicPlan:
    from forewarn.compose import topic_plan_of  # noqa: PLC0415

    return topic_plan_of(bus)
