"""Build the parts from the configuration: the only place where settings meet constructors.

Imports stand inside the functions, so that a process loads only what its own stage needs.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from forewarn.named_files import secret, state_dir_of
from forewarn.settings import BusSection, Config
from forewarn.systemd import notify
from ingest.clock import Clock
from ingest.errors import ConfigError

if TYPE_CHECKING:
    from forewarn.alerting_stage import Alerting
    from forewarn.sources import Sources
    from ingest.bus import Publisher, Subscriber
    from ingest.collector import Collector
    from ingest.kafka_admin import KafkaConnection
    from ingest.kafka_bus import KafkaRejects
    from ingest.kafka_topics import TopicPlan
    from ingest.lake import Lake
    from ingest.rejects import FileRejects
    from ingest.spool import Spool
    from ingest.writer import Writer


def lake_of(config: Config) -> Lake:
    """Open the lake."""
    from ingest.lake import Lake  # noqa: PLC0415

    return Lake(config.lake.path, config.lake.storage_options)


def spool_of(config: Config) -> Spool:
    """Open the spool of this machine's collector; raises ConfigError where another process has it or its folder cannot be used."""
    from ingest.spool import Spool  # noqa: PLC0415

    directory = state_dir_of(config) / "spool"
    try:
        return Spool(directory, max_bytes=config.collect.spool_max_mb << 20)
    except OSError as error:
        raise ConfigError(f"{directory}: cannot be used as a spool ({error.strerror}): mend its permissions or make room") from error


def collector_of(
    config: Config,
    clock: Clock,
    spool: Spool,
    publisher: Publisher | None = None,
    *,
    sources: Sources | None = None,
) -> Collector:
    """Build the collector over all configured sources; raises ConfigError where there is none."""
    from forewarn.sources import Sources  # noqa: PLC0415
    from ingest.collector import Collector  # noqa: PLC0415

    kept = sources or Sources(clock)
    return Collector(
        kept.of(config),
        spool,
        clock=clock,
        publisher=publisher,
        jitter_ratio=config.collect.jitter_ratio,
        beat=partial(notify, "WATCHDOG=1"),
        last_words=kept.last_words,
    )


def writer_of(config: Config, lake: Lake, subscriber: Subscriber) -> Writer:
    """Build the writer that takes what the subscriber delivers into the lake."""
    from ingest.writer import Writer  # noqa: PLC0415

    return Writer(subscriber, lake, rejects_of(config), max_rows=config.write.max_rows, max_age_s=config.write.max_age_s)


def rejects_of(config: Config) -> FileRejects | KafkaRejects:
    """Build the place for messages that cannot become rows: a topic of its own, or a folder where there is no broker."""
    if config.bus.kind == "kafka":
        from ingest.kafka_bus import KafkaRejects  # noqa: PLC0415

        return KafkaRejects(kafka_of(config.bus))
    from ingest.rejects import FileRejects  # noqa: PLC0415

    return FileRejects(state_dir_of(config) / "rejected")


def bus_of(config: Config, spool: Spool) -> tuple[Subscriber, Publisher | None]:
    """Build the writer's end of the bus and, where the bus is elsewhere, the collector's."""
    from ingest.bus import DirectBus  # noqa: PLC0415

    if config.bus.kind == "direct":
        return DirectBus(spool), None
    return subscriber_of(config), publisher_of(config)


def publisher_of(config: Config) -> Publisher:
    """Build the collector's end of Kafka."""
    from ingest.kafka_bus import KafkaPublisher  # noqa: PLC0415

    return KafkaPublisher(kafka_of(config.bus))


def subscriber_of(config: Config) -> Subscriber:
    """Build the writer's end of Kafka, which makes sure that the topics are there when it joins."""
    from ingest.kafka_admin import create_topics  # noqa: PLC0415
    from ingest.kafka_bus import KafkaSubscriber  # noqa: PLC0415

    connection, plan = kafka_of(config.bus), topic_plan_of(config.bus)
    prepare = partial(create_topics, connection, partitions=plan.partitions, replication=plan.replication, retention_ms=plan.retention_ms)
    return KafkaSubscriber(connection, prepare=prepare)


def topic_plan_of(bus: BusSection) -> TopicPlan:
    """Describe what topics are to be like."""
    from ingest.kafka_topics import TopicPlan  # noqa: PLC0415

    return TopicPlan(
        partitions=bus.partitions,
        replication=bus.replication,
        retention_h=bus.retention_h,
        rejected_retention_h=bus.rejected_retention_h,
    )


def kafka_of(bus: BusSection) -> KafkaConnection:
    """Describe the connection to the brokers."""
    from ingest.kafka_admin import KafkaConnection  # noqa: PLC0415

    return KafkaConnection(
        bootstrap=bus.bootstrap,
        prefix=bus.prefix,
        group=bus.group,
        session_timeout_s=bus.session_timeout_s,
        security_protocol=bus.security_protocol,
        sasl_mechanism=bus.sasl_mechanism,
        username=bus.username,
        password=secret(bus.password_file) if bus.password_file else None,
        ca_file=bus.ca_file,
    )


def alerting_of(config: Config, lake: Lake, clock: Clock) -> Alerting:
    """Build the decision layer: ledger, loop, one sender per consumer, and the API for their answers."""
    from forewarn.alerting_stage import Alerting  # noqa: PLC0415

    return Alerting(config, lake, clock)
