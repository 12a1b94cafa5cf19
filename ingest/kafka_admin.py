"""Reach a Kafka cluster, say in one line why it cannot be reached, and care for the topics: one per table, and one for rejected messages.

kafka-python tells the reason of a failed start (authentication failed, certificate verify failed, connection refused) to its log alone;
`connect` listens there. Only this module and `ingest.kafka_bus` know kafka-python.
"""

from __future__ import annotations

import importlib.util
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import stamina
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError, RetriableError, TopicAlreadyExistsError
from kafka.protocol.consumer.offsets import OffsetSpec

from ingest.errors import BusUnavailable, ConfigError
from ingest.schema import TABLES

REJECTED = "rejected"
_ENDED = "socket disconnected"
_CAUSES = (  # what the library logs, what it means, how to mend it
    (
        "CERTIFICATE_VERIFY_FAILED",
        "the broker's certificate is not signed by a known authority",
        "set ca_file to the authority's certificate",
    ),
    ("Hostname mismatch", "the broker's certificate is for another host", "use the name that stands in the certificate"),
    ("uthentication failed", "wrong user or password", "check username and password_file"),
    ("SaslAuthenticationFailed", "wrong user or password", "check username and password_file"),
    ("UnsupportedSaslMechanism", "the broker does not offer this SASL mechanism", "check sasl_mechanism"),
    ("DNS", "no such host", "check bootstrap"),
    ("ECONNREFUSED", "nothing listens there", "start the broker or check bootstrap"),
    (_ENDED, "the broker ends the connection at once", "check security_protocol: it may want TLS or a password"),
    ("timed out", "no answer", "check bootstrap and the firewall"),
)


@dataclass(frozen=True, kw_only=True)
class KafkaConnection:
    """How to reach a cluster; names and values as in Kafka's own clients."""

    bootstrap: str
    prefix: str = "forewarn"
    group: str = "forewarn-writer"
    connect_timeout_s: float = 8.0
    session_timeout_s: float = 10.0  # after it the partitions of a dead writer go to another
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str | None = None
    username: str | None = None
    password: str | None = None
    ca_file: str | Path | None = None

    def topic(self, table: str) -> str:
        """Name the topic of a table."""
        return f"{self.prefix}.{table}"

    def client_options(self) -> dict[str, Any]:
        """Give the options that all clients share."""
        options: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap.split(","),
            "bootstrap_timeout_ms": int(self.connect_timeout_s * 1000),
            "reconnect_backoff_max_ms": 3000,  # the library waits up to 30 s
            "security_protocol": self.security_protocol,
        }
        if self.security_protocol.startswith("SASL"):
            options |= {"sasl_mechanism": self.sasl_mechanism, "sasl_plain_username": self.username, "sasl_plain_password": self.password}
        if self.ca_file:
            options["ssl_cafile"] = str(self.ca_file)
        return options


def check_codecs() -> None:
    """Refuse to start without the C checksum (25 times the time per message) and zstd; raises ConfigError."""
    for module in ("crc32c", "zstandard"):
        if importlib.util.find_spec(module) is None:
            raise ConfigError(f"the Kafka bus needs the package {module}: pip install {module}")


@contextmanager
def connect(settings: KafkaConnection) -> Iterator[KafkaAdminClient]:
    """Give an admin client; raises BusUnavailable with the reason and the mend in one line."""
    check_codecs()
    with _causes() as heard:
        try:
            client = KafkaAdminClient(**settings.client_options())
        except (KafkaError, OSError, ValueError) as error:
            raise BusUnavailable(f"Kafka at {settings.bootstrap}: {_explain(settings, heard, error)}") from error
    try:
        yield client
    except KafkaError as error:
        raise BusUnavailable(f"Kafka at {settings.bootstrap}: {error}") from error
    finally:
        client.close()


def create_topics(
    settings: KafkaConnection,
    *,
    partitions: int,
    replication: int,
    retention_ms: Callable[[str], int] | None = None,
    tables: Iterable[str] = TABLES,
) -> list[str]:
    """Create the topics that do not exist yet and give their names; waits until they can be written.

    `retention_ms` tells of a table for how long its topic keeps a message; without it the cluster decides.
    """
    names = {settings.topic(table): table for table in (*tables, REJECTED)}
    wanted = list(names)
    with connect(settings) as client:
        missing = sorted(set(wanted) - set(client.list_topics()))
        if missing:
            common = {"num_partitions": partitions, "replication_factor": replication}
            kept = {name: {"retention.ms": str(retention_ms(names[name]))} if retention_ms else {} for name in missing}
            with suppress(TopicAlreadyExistsError):  # another process makes them at the same moment; the others of `missing` are made
                client.create_topics({name: common | {"configs": kept[name]} for name in missing})
        client.wait_for_topics(wanted, timeout_ms=int(settings.connect_timeout_s * 1000))
    return missing


def stream_prefixes(settings: KafkaConnection, tables: Iterable[str]) -> dict[str, str]:
    """Name the tables' streams, by topic: cluster id and topic id, so that a topic created anew is another stream; all must exist."""
    wanted = {settings.topic(table) for table in tables}
    with connect(settings) as client:
        cluster = client.describe_cluster()["cluster_id"]
        found = {topic["name"]: topic for topic in client.describe_topics(sorted(wanted))}
    missing = sorted(name for name in wanted if found.get(name, {}).get("error_code", 3) == 3)  # UNKNOWN_TOPIC_OR_PARTITION
    if missing:
        raise BusUnavailable(f"Kafka at {settings.bootstrap} has no topic {', '.join(missing)}; create them with: forewarn topics create")
    denied = sorted(name for name in wanted if found[name]["error_code"] == 29)  # TOPIC_AUTHORIZATION_FAILED
    if denied:
        raise BusUnavailable(f"Kafka at {settings.bootstrap}: {settings.username} may not use topic {', '.join(denied)}; grant it there")
    return {name: f"{cluster}/{found[name]['topic_id']}" for name in wanted}


@dataclass(frozen=True, kw_only=True)
class TopicState:
    """A topic as it is: how much of it the group has not committed, and how many of its partitions a member holds."""

    topic: str
    partitions: int
    messages: int
    lag: int
    owned: int


def topic_states(settings: KafkaConnection, tables: Iterable[str] = TABLES) -> list[TopicState]:
    """Describe the topics of tables and what the group of writers has of them; a topic that does not exist is left out."""
    wanted = {settings.topic(table) for table in tables}
    with connect(settings) as client:
        topics = [topic for topic in client.describe_topics(sorted(wanted)) if topic["error_code"] == 0]
        partitions = [TopicPartition(topic["name"], part["partition_index"]) for topic in topics for part in topic["partitions"]]
        ends = _offsets(client, partitions, OffsetSpec.LATEST)
        starts = _offsets(client, partitions, OffsetSpec.EARLIEST)
        for attempt in stamina.retry_context(on=RetriableError, timeout=settings.connect_timeout_s):
            with attempt:  # the first group of a cluster finds no coordinator for a moment
                group_offsets = client.list_group_offsets([settings.group])[settings.group]
                owned = set(_owned(client.describe_groups([settings.group])[settings.group]))
    committed = {partition: entry.offset for partition, entry in group_offsets.items()}
    lag = {partition: ends[partition] - max(starts[partition], committed.get(partition, 0)) for partition in partitions}
    return [
        TopicState(
            topic=topic["name"],
            partitions=len(own),
            messages=sum(ends[partition] - starts[partition] for partition in own),
            lag=sum(lag[partition] for partition in own),
            owned=len(owned & set(own)),
        )
        for topic in topics
        if (own := [partition for partition in partitions if partition.topic == topic["name"]])
    ]


def _offsets(client: KafkaAdminClient, partitions: list[TopicPartition], which: OffsetSpec) -> dict[TopicPartition, int]:
    found = client.list_partition_offsets(dict.fromkeys(partitions, which)) if partitions else {}
    return {partition: entry.offset for partition, entry in found.items()}


def _owned(group: Mapping[str, Any]) -> Iterator[TopicPartition]:
    for member in group["members"]:
        for assigned in (member["member_assignment"] or {}).get("assigned_partitions", ()):
            for number in assigned["partitions"]:
                yield TopicPartition(assigned["topic"], number)


@contextmanager
def _causes() -> Iterator[deque[str]]:
    """Collect what the library logs meanwhile."""
    heard: deque[str] = deque(maxlen=200)
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("kafka")
    logger.addHandler(handler)
    try:
        yield heard
    finally:
        logger.removeHandler(handler)


def _explain(settings: KafkaConnection, heard: Iterable[str], error: Exception) -> str:
    for sign, meaning, mend in _CAUSES:
        if any(sign in line for line in heard) or sign in str(error):
            if sign == _ENDED and settings.security_protocol.startswith("SASL"):  # a busy broker can end it before it says why
                return f"{meaning}; check security_protocol, or it is a wrong user or password; check username and password_file"
            return f"{meaning}; {mend}"
    return str(error)
