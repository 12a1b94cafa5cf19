"""The sources of telemetry that a configuration asks for, kept from one configuration to the next: only what has changed is built anew.

A source stands for a part of the configuration: one NVML node, all exporter pages, all kernel logs, all BMCs, the scheduler. It is the
same as long as its part, the intervals and the contents of the files that its part names are the same. Those that tell of XIDs share
one merge for the life of the process, so that one incident is one event.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from forewarn.named_files import secret
from forewarn.settings import CollectSection, Config, NvmlTarget
from ingest.clock import Clock
from ingest.errors import ConfigError
from ingest.schema import Observed
from ingest.source import Source
from ingest.xid_merge import MergedSource, XidMerge

if TYPE_CHECKING:
    from ingest.jobs.source import Slurm
    from ingest.xid import Catalogue


class _Part(NamedTuple):
    """A part of the configuration and how its sources are built."""

    name: str
    mark: bytes
    build: Callable[[], list[Source]]
    tells_xids: bool = True


class Sources:
    """What is configured now; `of` takes the next configuration. Sources that keep nothing leave the state folder as it is."""

    def __init__(self, clock: Clock, *, keeps: bool = True) -> None:
        self._clock = clock
        self._keeps = keeps
        self._merge: XidMerge | None = None
        self._built: dict[str, tuple[bytes, list[Source]]] = {}

    def of(self, config: Config) -> list[Source]:
        """Give the sources of a configuration, those that are unchanged as they are; raises ConfigError and then changes nothing."""
        parts = list(_parts(config, self._clock, keeps=self._keeps))
        if not parts:
            raise ConfigError(
                "collect: no source is configured: add [[collect.nvml]], [collect.exporter], [collect.kernel_log] or [[collect.redfish]]"
            )
        catalogue = _catalogue(config.collect)
        merge = self._merge or XidMerge(scale=self._clock.scale)
        built = {part.name: (part.mark, self._sources(part, merge)) for part in parts}
        merge.retune(hold_s=config.collect.interval_s, catalogue=catalogue)
        self._merge, self._built = merge, built
        return [source for _, sources in built.values() for source in sources]

    def last_words(self) -> list[Observed]:
        """Give what the merge still holds: for when no source will be read any more."""
        return list(self._merge.release_all()) if self._merge else []

    def _sources(self, part: _Part, merge: XidMerge) -> list[Source]:
        known = self._built.get(part.name)
        if known is not None and known[0] == part.mark:
            return known[1]
        sources = part.build()
        return [MergedSource(source, merge, self._clock) for source in sources] if part.tells_xids else sources


def _parts(config: Config, clock: Clock, *, keeps: bool) -> Iterator[_Part]:
    collect = config.collect
    for target in collect.nvml:
        mark = _mark(config, target.model_dump())
        yield _Part(f"nvml {target.node}", mark, lambda target=target: _nvml(target, config, clock, keeps=keeps))  # type: ignore[misc]
    if collect.exporter:
        yield _Part("exporter", _mark(config, collect.exporter), lambda: _exporter(collect, clock))
    if collect.kernel_log:
        yield _Part("kernel_log", _mark(config, collect.kernel_log), lambda: _kernel_log(collect, clock))
    if collect.redfish:
        secrets = [secret(bmc.password_file) for bmc in collect.redfish]
        told = [bmc.model_dump() for bmc in collect.redfish], secrets, [_contents(bmc.ca_file) for bmc in collect.redfish]
        yield _Part("redfish", _mark(config, told), lambda: _redfish(collect, secrets, clock))
    if collect.squeue or collect.slurm_rest:
        told_slurm = {name: value for name, value in collect if name.startswith(("squeue", "sacct", "slurm_"))}
        yield _Part("jobs", _mark(config, told_slurm), lambda: _jobs(config, clock), tells_xids=False)


def _mark(config: Config, told: object) -> bytes:
    """Give the fingerprint of a part: what it says, the pace of all parts, and the catalogue's contents."""
    collect = config.collect
    pace = {name: value for name, value in collect if name.endswith("_s")}
    whole = msgspec.json.encode([told, pace, config.fleet.model_dump(), _contents(collect.xid_catalogue)], enc_hook=str)
    return hashlib.sha256(whole).digest()


def _contents(file: Path | None) -> str | None:
    return file.read_text(errors="replace") if file else None


def _catalogue(collect: CollectSection) -> Catalogue:
    from ingest.xid import catalogue_of  # noqa: PLC0415

    return catalogue_of(collect.xid_catalogue)


def _nvml(target: NvmlTarget, config: Config, clock: Clock, *, keeps: bool) -> list[Source]:
    from ingest.nvml.source import NvmlSource  # noqa: PLC0415

    collect = config.collect
    source = NvmlSource(
        target.node,
        interval_s=collect.interval_s,
        warm_interval_s=collect.warm_interval_s,
        cold_interval_s=collect.cold_interval_s,
        link_interval_s=collect.link_interval_s,
        deadline_s=collect.deadline_s,
        environment=target.environment,
        boot_id_path=target.boot_id_file,
        memory_path=config.fleet.state_dir / f"nvml-{target.node}.json",
        keeps_memory=keeps,
        clock=clock,
    )
    return [source, source.events()]


def _exporter(collect: CollectSection, clock: Clock) -> list[Source]:
    from ingest.exporter.source import ExporterSource  # noqa: PLC0415

    return [ExporterSource(collect.exporter, interval_s=collect.interval_s, deadline_s=collect.deadline_s, clock=clock)]


def _kernel_log(collect: CollectSection, clock: Clock) -> list[Source]:
    from ingest.kernel_log.source import KernelLogSource  # noqa: PLC0415

    return [KernelLogSource(collect.kernel_log, clock=clock, catalogue=_catalogue(collect))]


def _redfish(collect: CollectSection, secrets: list[str], clock: Clock) -> list[Source]:
    from ingest.redfish.source import RedfishSource  # noqa: PLC0415
    from ingest.redfish.target import RedfishTarget  # noqa: PLC0415

    targets = {
        bmc.node: RedfishTarget(url=bmc.url, username=bmc.username, password=password, verify=bmc.verify, ca=bmc.ca_file)
        for bmc, password in zip(collect.redfish, secrets, strict=True)
    }
    return [RedfishSource(targets, clock=clock, poll_interval_s=collect.chassis_interval_s, catalogue=collect.xid_catalogue)]


def _jobs(config: Config, clock: Clock) -> list[Source]:
    from ingest.jobs.source import JobsSource  # noqa: PLC0415

    return [JobsSource(config.fleet.cluster, _slurm(config.collect), interval_s=config.collect.jobs_interval_s, clock=clock)]


def _slurm(collect: CollectSection) -> Slurm:
    from ingest.jobs.commands import SlurmCommands  # noqa: PLC0415
    from ingest.jobs.rest import SlurmRest  # noqa: PLC0415

    if collect.slurm_rest is None:
        return SlurmCommands(collect.squeue, collect.sacct)
    return SlurmRest(
        collect.slurm_rest, user=collect.slurm_user, token_file=collect.slurm_token_file, has_accounting=collect.slurm_accounting
    )
