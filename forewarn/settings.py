"""Every setting, one table of the configuration file per process; docs/configuration.md is printed from here.

Names carry their unit. Defaults are those of a real fleet in shadow mode on one machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """One table of the file; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class FleetSection(Section):
    """What this installation is called and where it keeps its state."""

    cluster: str = Field("fleet", description="name of the cluster in events, recommendations and metrics")
    state_dir: Path = Field(Path("var"), description="folder for spool, ledger and models")
    clock_epoch: str | None = Field(None, description="fleet time at the start of a scaled clock (ISO 8601); for emulated fleets")
    clock_started_monotonic_ns: int | None = Field(None, description="reading of the machine's monotonic clock at which it starts")
    clock_scale: float = Field(1.0, gt=0, description="fleet seconds per wall second; 1 is real time")


class LakeSection(Section):
    """Where the tables are."""

    path: str = Field("var/lake", description="folder or s3:// address of the lake")
    storage_options: dict[str, str] = Field(default_factory=dict, description="options of the object store, by its own key names")


class BusSection(Section):
    """What carries messages from collectors to the writer."""

    kind: Literal["direct", "kafka"] = Field("direct", description="direct: through the spool on one machine; kafka: Apache Kafka")
    bootstrap: str = Field("127.0.0.1:9092", description="brokers, host:port with commas")
    group: str = Field("forewarn-writer", description="consumer group of the writers")
    partitions: int = Field(6, ge=1, description="partitions of a topic when it is created")
    replication: int = Field(1, ge=1, description="replication factor of a topic when it is created")
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_SSL", "SASL_PLAINTEXT"] = Field("PLAINTEXT", description="as Kafka names it")
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(None, description="as Kafka names it")
    username: str | None = Field(None, description="user for SASL")
    password_file: Path | None = Field(None, description="file that holds the password for SASL")
    ca_file: Path | None = Field(None, description="certificate authority of the brokers, PEM")


class NvmlTarget(Section):
    """GPUs of one node, read through its NVML library."""

    node: str = Field(description="node name")
    environment: dict[str, str] = Field(default_factory=dict, description="environment of the reading child, e.g. LD_LIBRARY_PATH")
    boot_id_file: Path = Field(Path("/proc/sys/kernel/random/boot_id"), description="file that holds the boot id")


class RedfishTargetSection(Section):
    """One BMC."""

    node: str = Field(description="node name")
    url: str = Field(description="address of the BMC, https://host")
    username: str = Field("forewarn", description="user of the BMC")
    password_file: Path = Field(description="file that holds the password")
    ca_file: Path | None = Field(None, description="certificate authority of the BMC, PEM")
    verify: bool = Field(True, description="check the certificate; false only on a closed management network")


class CollectSection(Section):
    """The collector: which sources it reads and how often."""

    interval_s: float = Field(10.0, ge=1, description="seconds between fast polls")
    warm_interval_s: float = Field(60.0, ge=1, description="seconds between polls of slower fields (ECC, links' sums, remaps)")
    cold_interval_s: float = Field(3600.0, ge=1, description="seconds between polls of identity and modes")
    link_interval_s: float = Field(60.0, ge=1, description="seconds between polls of every NVLink")
    chassis_interval_s: float = Field(60.0, ge=1, description="seconds between polls of a BMC that cannot stream")
    deadline_s: float = Field(2.0, gt=0, description="wall seconds that one device may take to answer")
    jitter_s: float = Field(0.2, ge=0, description="largest random delay of a poll, wall seconds")
    spool_max_mb: int = Field(1024, ge=16, description="bound of the spool on disk, MiB")
    metrics_port: int | None = Field(9401, description="port of /metrics, /healthz and /readyz; none: not served")
    xid_catalogue: Path | None = Field(None, description="the site's own XID catalogue, CSV")
    nvml: list[NvmlTarget] = Field(default_factory=list, description="nodes read through NVML; on a GPU node usually itself")
    exporter: dict[str, str] = Field(default_factory=dict, description="node = address of its dcgm-exporter page")
    kernel_log: dict[str, Path] = Field(default_factory=dict, description="node = kernel log: /dev/kmsg or a file of its form")
    redfish: list[RedfishTargetSection] = Field(default_factory=list, description="BMCs")
    squeue: list[str] = Field(default_factory=list, description="command that prints running jobs, e.g. squeue --json")
    sacct: list[str] = Field(default_factory=list, description="command that prints ended jobs, e.g. sacct --json")


class WriteSection(Section):
    """The writer: from the bus to the lake."""

    max_rows: int = Field(200_000, ge=1, description="rows of a batch before it is written")
    max_age_s: float = Field(60.0, gt=0, description="wall seconds that samples may wait for a batch to fill")


class FeaturesSection(Section):
    """Roll-ups and features."""

    grid_h: float = Field(4.0, gt=0, description="hours between the landmarks of a training frame")


class TrainSection(Section):
    """Training and evaluation."""

    horizons_h: list[float] = Field([1.0, 6.0, 24.0, 168.0], description="horizons in hours, ascending")
    holdout_ratio: float = Field(0.25, gt=0, lt=1, description="share of the time, at its end, that is held out")
    seed: int = Field(7, description="seed of sampling and training")
    label_origin: Literal["real", "synthetic"] = Field("real", description="where the failures come from; printed in the model card")


class ScoreSection(Section):
    """Scoring."""

    every_s: float = Field(300.0, gt=0, description="fleet seconds between scores")
    stale_after_s: float = Field(1800.0, gt=0, description="age of a node's telemetry from which the model abstains")


class CostsSection(Section):
    """What acting and waiting cost (node-hours inside; see docs/architecture.md)."""

    restart_h: float = Field(0.25, ge=0, description="detection and unplanned restart of a job, h")
    planned_restart_h: float = Field(0.0833, ge=0, description="planned restart or swap, h")
    checkpoint_write_h: float = Field(0.0056, ge=0, description="blocking write of a checkpoint, h")
    checkpoint_interval_h: float = Field(1.0, gt=0, description="interval assumed of a job that declares none, h")
    failed_node_h: float = Field(24.0, ge=0, description="node-hours lost when a node fails in service")
    drained_node_h: float = Field(2.0, ge=0, description="node-hours lost when a node is drained, tested and returned")


class BudgetSection(Section):
    """How many nodes may be drained by us at once and per day."""

    fleet_ratio: float = Field(0.05, gt=0, le=1, description="share of the fleet drained at once")
    fleet_max: int = Field(64, ge=1, description="nodes drained at once, whatever the share")
    domain_ratio: float = Field(0.25, gt=0, le=1, description="share of one failure domain drained at once")
    per_hour: int = Field(4, ge=1, description="new drains per hour in the fleet")


class AlertSection(Section):
    """Decisions and their delivery."""

    mode: Literal["shadow", "advise", "enforce"] = Field("shadow", description="shadow: recommend, never act")
    every_s: float = Field(300.0, gt=0, description="fleet seconds between passes over the scores")
    webhook_url: str | None = Field(None, description="consumer of recommendations; none: they stay in the ledger")
    secret_file: Path | None = Field(None, description="file with the signing secret, whsec_...")
    ack_secrets: dict[str, Path] = Field(default_factory=dict, description="consumer = file with the secret of its acks and outcomes")
    host: str = Field("127.0.0.1", description="address of the API for acks and outcomes")
    port: int = Field(9402, description="its port")
    costs: CostsSection = CostsSection()
    budget: BudgetSection = BudgetSection()


class ConsumeSection(Section):
    """The example consumer."""

    host: str = Field("127.0.0.1", description="address it listens on")
    port: int = Field(9403, description="its port")
    secret_file: Path | None = Field(None, description="file with the secret that recommendations are signed with")
    ack_secret_file: Path | None = Field(None, description="file with the secret that it signs its acks with")


class Config(Section):
    """The whole file."""

    fleet: FleetSection = FleetSection()
    lake: LakeSection = LakeSection()
    bus: BusSection = BusSection()
    collect: CollectSection = CollectSection()
    write: WriteSection = WriteSection()
    features: FeaturesSection = FeaturesSection()
    train: TrainSection = TrainSection()
    score: ScoreSection = ScoreSection()
    alert: AlertSection = AlertSection()
    consume: ConsumeSection = ConsumeSection()
