"""What the topics are to be like, how they come to be so, and in what they differ: one per table, and one for rejected messages.

Partitions are never added to a topic that exists: a node's messages would go to another partition than those before, and its order with
them. Retention can be changed at any time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from ingest.kafka_admin import REJECTED, KafkaConnection, connect, create_topics, topic_states
from ingest.schema import TABLES

_RETENTION = "retention.ms"
_MS_PER_H = 3_600_000


@dataclass(frozen=True, kw_only=True)
class TopicPlan:
    """What topics are to be like."""

    partitions: int
    replication: int
    retention_h: float
    rejected_retention_h: float

    def retention_ms(self, table: str) -> int:
        """Tell for how long the topic of a table keeps a message."""
        return int((self.rejected_retention_h if table == REJECTED else self.retention_h) * _MS_PER_H)


class TopicProblem(NamedTuple):
    """In what a topic differs from the plan; `kind` is missing, partitions, replication, retention or no_reader."""

    topic: str
    kind: str
    detail: str


class TopicReport(NamedTuple):
    """A topic as `forewarn topics show` prints it; None where nobody is to read it, or the broker does not say."""

    topic: str
    partitions: int
    messages: int
    lag: int | None
    owned: int | None
    retention_h: float | None


def make_topics(settings: KafkaConnection, plan: TopicPlan, tables: Iterable[str] = TABLES) -> tuple[list[str], list[str]]:
    """Create the topics that are missing and bring the retention of the others into line; names both."""
    tables = list(tables)
    made = create_topics(settings, partitions=plan.partitions, replication=plan.replication, retention_ms=plan.retention_ms, tables=tables)
    names = (*tables, REJECTED)
    with connect(settings) as client:
        kept = _retention(client, [settings.topic(name) for name in names])
        wanted = {settings.topic(name): plan.retention_ms(name) for name in names}
        changed = {topic: ms for topic, ms in wanted.items() if kept.get(topic) != ms}
        if changed:
            client.alter_configs([_resource(topic, {_RETENTION: str(ms)}) for topic, ms in changed.items()])
    return made, sorted(set(changed) - set(made))


def topic_reports(settings: KafkaConnection, tables: Iterable[str] = TABLES) -> list[TopicReport]:
    """Describe the topics that exist, the rejected one last."""
    states = topic_states(settings, (*tables, REJECTED))
    with connect(settings) as client:
        kept = _retention(client, [state.topic for state in states])
    return [
        TopicReport(
            topic=state.topic,
            partitions=state.partitions,
            messages=state.messages,
            lag=None if is_rejected else state.lag,
            owned=None if is_rejected else state.owned,
            retention_h=kept[state.topic] / _MS_PER_H if state.topic in kept else None,
        )
        for state in states
        for is_rejected in (state.topic == settings.topic(REJECTED),)
    ]


def topic_problems(settings: KafkaConnection, plan: TopicPlan, tables: Iterable[str] = TABLES) -> list[TopicProblem]:
    """Hold the topics against the plan, and find those that wait for a reader."""
    names = {settings.topic(name): name for name in (*tables, REJECTED)}
    with connect(settings) as client:
        described = {topic["name"]: topic for topic in client.describe_topics(sorted(names)) if topic["error_code"] == 0}
        kept = _retention(client, sorted(described))
    problems = [TopicProblem(name, "missing", "create it with: forewarn topics create") for name in sorted(names.keys() - described.keys())]
    for name, topic in sorted(described.items()):
        problems += _differences(topic, plan, kept.get(name), plan.retention_ms(names[name]))
    problems += [
        TopicProblem(state.topic, "no_reader", f"{state.lag} messages wait, {state.owned} of {state.partitions} partitions have a reader")
        for state in topic_states(settings, [name for name in names.values() if name != REJECTED])
        if state.lag and state.owned < state.partitions
    ]
    return problems


def _differences(topic: Mapping[str, Any], plan: TopicPlan, kept_ms: int | None, wanted_ms: int) -> list[TopicProblem]:
    name, partitions = topic["name"], topic["partitions"]
    copies = min((len(partition["replica_nodes"]) for partition in partitions), default=0)
    found = []
    if len(partitions) != plan.partitions:
        mend = "adapt bus.partitions, or drain the topic and create it anew: nodes would change their partition"
        found.append(TopicProblem(name, "partitions", f"{len(partitions)}, configured {plan.partitions}: {mend}"))
    if copies < plan.replication:
        found.append(TopicProblem(name, "replication", f"{copies}, configured {plan.replication}: reassign its partitions on the cluster"))
    if kept_ms != wanted_ms:
        is_told = "not told" if kept_ms is None else f"{kept_ms / _MS_PER_H:g} h"
        found.append(
            TopicProblem(name, "retention", f"{is_told}, configured {wanted_ms / _MS_PER_H:g} h: set it with: forewarn topics create")
        )
    return found


def _retention(client: KafkaAdminClient, topics: list[str]) -> dict[str, int]:
    if not topics:
        return {}
    answer = client.describe_configs([_resource(topic, {_RETENTION: None}) for topic in topics], config_filter="all")
    return {topic: int(found[_RETENTION]["value"]) for topic, found in answer.get("topic", {}).items() if _RETENTION in found}


def _resource(topic: str, configs: Mapping[str, str | None]) -> ConfigResource:
    return ConfigResource(ConfigResourceType.TOPIC, topic, dict(configs))
