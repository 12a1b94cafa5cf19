"""Every setting, one table of the configuration file per process; docs/configuration.md is printed from here.

Names carry their unit. Defaults are those of a real fleet in shadow mode on one machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


class Section(BaseModel):
    """One table of the file; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _http_address(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none
        is_address = False
    if not is_address or any(sign.isspace() for sign in text):
        raise ValueError("give an address like https://host:port/path")
    return text


def _slurmrestd_address(text: str) -> str:
    if text.startswith("unix:/"):
        return text
    try:
        return _http_address(text)
    except ValueError as error:
        raise ValueError("give an address like http://host:6820 or unix:/path") from error


def ascending_horizons(horizons_h: Sequence[float]) -> Sequence[float]:
    """Take horizons in hours; raises ValueError where they are not above zero, finite and each longer than the one before."""
    if not horizons_h or any(not low < high < float("inf") for low, high in zip((0.0, *horizons_h), horizons_h, strict=False)):
        raise ValueError("give hours above zero, each more than the one before")
    return horizons_h


HttpAddress = Annotated[str, AfterValidator(_http_address)]
SlurmrestdAddress = Annotated[str, AfterValidator(_slurmrestd_address)]


class FleetSection(Section):
    """What this installation is called and where it keeps its state."""

    cluster: str = Field("fleet", description="name of the cluster in events, recommendations and metrics")
    state_dir: Path = Field(Path("var"), description="folder for spool, ledger and models")
    clock_file: Path | None = Field(None, description="file of an emulated fleet's time, which its emulator makes; none: real time")

    @property
    def ledger(self) -> Path:
        """Where the decision layer keeps what it has said."""
        return self.state_dir / "ledger.sqlite"


class LakeSection(Section):
    """Where the tables are."""

    path: str = Field("var/lake", description="folder or s3:// address of the lake")
    storage_options: dict[str, str] = Field(default_factory=dict, description="options of the object store, by its own key names")
    keep_raw_days: int = Field(30, ge=2, description="days that samples, readings, job progress and 5-minute roll-ups are kept")
    keep_rollups_days: int = Field(730, ge=2, description="days that other roll-ups, features and scores are kept")
    keep_days: dict[str, Annotated[int, Field(ge=0)]] = Field(
        default_factory=dict, description="table = days it is kept, 0 for ever; the rest is kept for ever"
    )
    target_mb: int = Field(256, ge=1, description="size at which compaction begins a new file, MiB")


class BusSection(Section):
    """What carries messages from collectors to the writer."""

    kind: Literal["direct", "kafka"] = Field("direct", description="direct: through the spool on one machine; kafka: Apache Kafka")
    bootstrap: str = Field("127.0.0.1:9092", description="brokers, host:port with commas")
    prefix: str = Field("forewarn", description="first part of each topic's name, before the table's")
    group: str = Field("forewarn-writer", description="consumer group of the writers")
    session_timeout_s: float = Field(10.0, ge=1, description="wall seconds without a sign of a writer before another takes its share")
    partitions: int = Field(6, ge=1, description="partitions of a topic when it is created")
    replication: int = Field(1, ge=1, description="replication factor of a topic when it is created")
    retention_h: float = Field(168.0, gt=0, description="hours that a topic keeps messages: how long writers may be away")
    rejected_retention_h: float = Field(720.0, gt=0, description="hours that rejected messages are kept for replay")
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
    url: HttpAddress = Field(description="address of the BMC, https://host")
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
    jobs_interval_s: float = Field(60.0, ge=1, description="seconds between looks at the scheduler's jobs")
    deadline_s: float = Field(2.0, gt=0, description="wall seconds that one device may take to answer")
    jitter_ratio: float = Field(0.1, ge=0, le=1, description="largest random delay of a poll as a share of its interval")
    spool_max_mb: int = Field(1024, ge=16, description="bound of the spool on disk, MiB")
    metrics_host: str = Field("127.0.0.1", description="address of /metrics, /healthz and /readyz")
    metrics_port: int = Field(9401, ge=0, le=65535, description="their port; 0: not served")
    xid_catalogue: Path | None = Field(None, description="the site's own XID catalogue, CSV")
    nvml: list[NvmlTarget] = Field(default_factory=list, description="nodes read through NVML; on a GPU node usually itself")
    exporter: dict[str, HttpAddress] = Field(default_factory=dict, description="node = address of its dcgm-exporter page")
    kernel_log: dict[str, Path] = Field(default_factory=dict, description="node = kernel log: /dev/kmsg or a file of its form")
    redfish: list[RedfishTargetSection] = Field(default_factory=list, description="BMCs")
    squeue: list[str] = Field(default_factory=list, description="command that prints the jobs in the queue: squeue --states=all --json")
    sacct: list[str] = Field(
        default_factory=list, description="command that prints ended jobs: sacct --allusers --starttime=now-2days --json"
    )
    slurm_rest: SlurmrestdAddress | None = Field(
        None, description="address of slurmrestd, http://host:6820 or unix:/path, in place of squeue and sacct"
    )
    slurm_user: str = Field("slurm", description="user whom slurmrestd's token was made for")
    slurm_token_file: Path | None = Field(
        None, description="file that holds the token, as `scontrol token` prints it; may be renewed at any time; over TCP it is needed"
    )
    slurm_accounting: bool = Field(False, description="ask slurmrestd's accounting how jobs ended that have left the queue")


class WriteSection(Section):
    """The writer: from the bus to the lake."""

    max_rows: int = Field(60_000, ge=1, description="rows of a batch before it is written")
    max_age_s: float = Field(60.0, gt=0, description="wall seconds that samples may wait for a batch to fill")
    metrics_host: str = Field("127.0.0.1", description="address of the writer's /metrics, /healthz and /readyz")
    metrics_port: int = Field(9404, ge=0, le=65535, description="their port; 0: not served")


class FeaturesSection(Section):
    """Roll-ups and features."""

    grid_h: float = Field(4.0, gt=0, description="hours between the landmarks of a training frame")


class TrainSection(Section):
    """Training and evaluation."""

    horizons_h: Annotated[list[float], AfterValidator(ascending_horizons)] = Field(
        [1.0, 6.0, 24.0, 168.0], description="horizons in hours, ascending"
    )
    holdout_ratio: float = Field(0.25, gt=0, lt=1, description="share of the time, at its end, that is held out")
    seed: int = Field(7, description="seed of sampling and training")
    label_origin: Literal["real", "synthetic"] = Field("real", description="where the failures come from; printed in the model card")


class ScoreSection(Section):
    """Scoring."""

    every_s: float = Field(300.0, gt=0, description="fleet seconds between scores")
    stale_after_s: float = Field(1800.0, gt=0, description="age of a node's telemetry from which the model abstains")


class CostsSection(Section):
    """What acting and waiting cost, in hours and node-hours; `alerting/costs.py` has the formulas."""

    checkpoint_interval_h: float = Field(0.5, gt=0, description="interval assumed of a job that declares none, h")
    checkpoint_write_h: float = Field(20 / 3600, ge=0, description="blocking write of a checkpoint, h")
    recovery_h: float = Field(0.25, ge=0, description="detection and unplanned restart of a job, h")
    planned_restart_h: float = Field(5 / 60, ge=0, description="planned restart or swap, h")
    failed_node_h: float = Field(24.0, ge=0, description="node-hours lost when a node fails in service")
    drained_node_h: float = Field(2.0, ge=0, description="node-hours lost when a node is drained, tested and returned")
    swap_node_h: float = Field(0.25, ge=0, description="node-hours lost when an elastic job gives a node back")
    avoid_node_h: float = Field(0.25, ge=0, description="node-hours lost to worse placement while a node takes no gang")
    boundary_rate_per_h: float = Field(1 / 24, ge=0, description="free boundaries (planned interruptions) per hour")
    gang_nodes: int = Field(16, ge=1, description="size of the job that an idle node would get next, nodes")
    gpus_per_node: int = Field(8, ge=1, description="GPUs of a node, for costs in GPU-hours")


class BudgetSection(Section):
    """How many nodes may be out at once by our doing and how fast they may go; at least one always may."""

    fleet_ratio: float = Field(0.05, gt=0, le=1, description="share of the fleet drained at once")
    fleet_max: int | None = Field(None, ge=1, description="nodes drained at once, whatever the share")
    domain_ratio: float = Field(0.25, gt=0, le=1, description="share of one failure domain drained at once")
    domain_max: int | None = Field(None, ge=1, description="nodes of one failure domain drained at once, whatever the share")
    window_h: float = Field(1.0, gt=0, description="window of the rate limits, h")
    fleet_window_ratio: float = Field(0.05, gt=0, le=1, description="share of the fleet drained within the window")
    fleet_window_max: int | None = Field(4, ge=1, description="nodes drained within the window, whatever the share")
    domain_window_ratio: float = Field(0.1, gt=0, le=1, description="share of one failure domain drained within the window")
    trip_ratio: float = Field(0.2, gt=0, le=1, description="share of the fleet newly wanted out within the window that trips the breaker")
    trip_min: int = Field(5, ge=1, description="nodes newly wanted out that trip the breaker at the least")


class PolicySection(Section):
    """How scores become actions."""

    horizon_h: float = Field(24.0, gt=0, description="decision horizon: time until the next cheaper opportunity, h")
    watch_lift: float = Field(3.0, ge=1, description="watch a node whose probability is so many times the base rate")
    clear_ratio: float = Field(0.5, gt=0, le=1, description="a recommendation clears at this share of the excess that opens one")
    criterion_p_fail: float = Field(0.5, ge=0, le=1, description="assumed where a vendor criterion holds and the model abstains")
    critical_p_fail: float = Field(0.5, ge=0, le=1, description="probability within 6 h that makes an advice critical")


class LifecycleSection(Section):
    """How steady recommendations are."""

    hold_h: float = Field(2.0, ge=0, description="clear or milder for so long before it is said, h")
    update_gap_s: float = Field(600.0, ge=0, description="fleet seconds between updates that are no severer")
    p_change: float = Field(0.25, ge=0, description="relative change of the probability that is worth an update")
    lives_h: float = Field(6.0, gt=0, description="a consumer must not start to act later than this after a revision, h")
    silent_h: float = Field(72.0, gt=0, description="abstaining for so long ends a recommendation, without release, h")
    dismissed_h: float = Field(24.0, ge=0, description="what an operator dismissed does not come back, unless severer, for so long, h")


class AlertSection(Section):
    """Decisions and their delivery."""

    mode: Literal["shadow", "advise", "enforce"] = Field(
        "shadow", description="shadow: recommend, never act; advise: consumers show it to people; enforce: consumers act"
    )
    look_s: float = Field(1.0, gt=0, description="fleet seconds between looks for new events and scores; at least 0.1 s of wall time")
    webhook_url: HttpAddress | None = Field(None, description="consumer of recommendations; none: they stay in the ledger")
    secret_file: Path | None = Field(None, description="file with the signing secret, whsec_...")
    max_score_age_h: float = Field(1.0, gt=0, description="an older score counts as none, h")
    ack_secrets: dict[str, Path] = Field(default_factory=dict, description="consumer = file with the secret of its acks and outcomes")
    host: str = Field("127.0.0.1", description="address of the API for acks and outcomes")
    port: int = Field(9402, description="its port")
    costs: CostsSection = CostsSection()
    budget: BudgetSection = BudgetSection()
    policy: PolicySection = PolicySection()
    lifecycle: LifecycleSection = LifecycleSection()


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
