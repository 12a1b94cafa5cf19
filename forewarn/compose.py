"""Build the parts from the configuration: the only place where settings meet constructors.

Imports stand inside the functions, so that a process loads only what its own stage needs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from forewarn.settings import BusSection, Config
from ingest.clock import Clock
from ingest.errors import ConfigError
from ingest.source import Source

if TYPE_CHECKING:
    from forewarn.alerting_stage import Alerting
    from ingest.bus import Publisher, Rejects, Subscriber
    from ingest.collector import Collector
    from ingest.kafka_admin import KafkaConnection
    from ingest.lake import Lake
    from ingest.spool import Spool
    from ingest.writer import Writer
    from ingest.xid import Catalogue


def lake_of(config: Config) -> Lake:
    """Open the lake."""
    from ingest.lake import Lake  # noqa: PLC0415

    return Lake(config.lake.path, config.lake.storage_options)


def sources_of(config: Config, clock: Clock) -> list[Source]:
    """Build every configured source of telemetry; those that tell of XIDs share one merge, so that one incident is one event."""
    from ingest.xid_merge import MergedSource, XidMerge  # noqa: PLC0415

    collect = config.collect
    merge = XidMerge(scale=config.fleet.clock_scale, hold_s=collect.interval_s, catalogue=_catalogue_of(config))
    telling = [*_nvml_sources(config, clock), *_exporter_sources(config, clock), *_log_sources(config, clock), *_bmc_sources(config, clock)]
    return [*(MergedSource(source, merge, clock) for source in telling), *_job_sources(config, clock)]


def spool_of(config: Config) -> Spool:
    """Open the spool of this machine's collector."""
    from ingest.spool import Spool  # noqa: PLC0415

    return Spool(config.fleet.state_dir / "spool", max_bytes=config.collect.spool_max_mb << 20)


def collector_of(config: Config, clock: Clock, spool: Spool, publisher: Publisher | None = None) -> Collector:
    """Build the collector over all configured sources; raises ConfigError where there is none."""
    from ingest.collector import Collector  # noqa: PLC0415

    sources = sources_of(config, clock)
    if not sources:
        raise ConfigError(
            "collect: no source is configured: add [[collect.nvml]], [collect.exporter], [collect.kernel_log] or [[collect.redfish]]"
        )
    return Collector(sources, spool, clock=clock, publisher=publisher, jitter_ratio=config.collect.jitter_ratio)


def writer_of(config: Config, lake: Lake, subscriber: Subscriber) -> Writer:
    """Build the writer that takes what the subscriber delivers into the lake."""
    from ingest.writer import Writer  # noqa: PLC0415

    return Writer(subscriber, lake, rejects_of(config), max_rows=config.write.max_rows, max_age_s=config.write.max_age_s)


def rejects_of(config: Config) -> Rejects:
    """Build the place for messages that cannot become rows."""
    from ingest.rejects import FileRejects  # noqa: PLC0415

    return FileRejects(config.fleet.state_dir / "rejected")


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

    connection, bus = kafka_of(config.bus), config.bus
    return KafkaSubscriber(connection, prepare=lambda: create_topics(connection, partitions=bus.partitions, replication=bus.replication))


def kafka_of(bus: BusSection) -> KafkaConnection:
    """Describe the connection to the brokers."""
    from ingest.kafka_admin import KafkaConnection  # noqa: PLC0415

    return KafkaConnection(
        bootstrap=bus.bootstrap,
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


def ledger_path(config: Config) -> Path:
    """Tell where the ledger is."""
    return config.fleet.state_dir / "ledger.sqlite"


def secret(file: Path) -> str:
    """Read a secret from its file."""
    try:
        return file.read_text().strip()
    except OSError as error:
        raise ConfigError(f"secret file {file}: cannot be read ({error.strerror}): create it or mend its permissions") from error


def _nvml_sources(config: Config, clock: Clock) -> list[Source]:
    if not config.collect.nvml:
        return []
    from ingest.nvml import NvmlSource  # noqa: PLC0415

    collect = config.collect
    sources = [
        NvmlSource(
            target.node,
            interval_s=collect.interval_s,
            warm_interval_s=collect.warm_interval_s,
            cold_interval_s=collect.cold_interval_s,
            link_interval_s=collect.link_interval_s,
            deadline_s=collect.deadline_s,
            environment=target.environment,
            boot_id_path=target.boot_id_file,
            memory_path=config.fleet.state_dir / f"nvml-{target.node}.json",
            clock=clock,
        )
        for target in collect.nvml
    ]
    return [*sources, *(source.events() for source in sources)]


def _catalogue_of(config: Config) -> Catalogue:
    from ingest.xid import read_catalogue  # noqa: PLC0415

    return read_catalogue(config.collect.xid_catalogue) if config.collect.xid_catalogue else read_catalogue()


def _exporter_sources(config: Config, clock: Clock) -> list[Source]:
    if not config.collect.exporter:
        return []
    from ingest.exporter import ExporterSource  # noqa: PLC0415

    return [
        ExporterSource(config.collect.exporter, interval_s=config.collect.interval_s, deadline_s=config.collect.deadline_s, clock=clock)
    ]


def _log_sources(config: Config, clock: Clock) -> list[Source]:
    if not config.collect.kernel_log:
        return []
    from ingest.kernel_log import KernelLogSource  # noqa: PLC0415

    return [KernelLogSource(config.collect.kernel_log, clock=clock, catalogue=_catalogue_of(config))]


def _bmc_sources(config: Config, clock: Clock) -> list[Source]:
    if not config.collect.redfish:
        return []
    from ingest.redfish.source import RedfishSource  # noqa: PLC0415
    from ingest.redfish.target import RedfishTarget  # noqa: PLC0415

    targets = {
        bmc.node: RedfishTarget(url=bmc.url, username=bmc.username, password=secret(bmc.password_file), verify=bmc.verify, ca=bmc.ca_file)
        for bmc in config.collect.redfish
    }
    return [RedfishSource(targets, clock=clock, poll_interval_s=config.collect.chassis_interval_s, catalogue=config.collect.xid_catalogue)]


def _job_sources(config: Config, clock: Clock) -> list[Source]:
    if not config.collect.squeue:
        return []
    from ingest.jobs import JobsSource  # noqa: PLC0415

    collect = config.collect
    return [JobsSource(config.fleet.cluster, squeue=collect.squeue, sacct=collect.sacct, interval_s=collect.jobs_interval_s, clock=clock)]
