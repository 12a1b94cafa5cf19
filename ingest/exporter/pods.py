"""The pods on a GPU as an exporter tells them, kept beside the samples: a value that is repeated for each pod is one reading of the GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ingest.clock import NS
from ingest.schema import GpuPods

_REPEAT_NS = 3_600 * NS


class PodWatch:
    """The pods of one GPU as last said, by MIG instance."""

    def __init__(self) -> None:
        self._said: dict[int | None, tuple[str, ...]] = {}
        self._said_at_ns = 0

    def follow(self, pods: Mapping[int | None, set[str]], about: Mapping[str, Any], at_ns: int) -> Iterator[GpuPods]:
        """Take the pods of one whole page; tell what has changed, and once per hour everything."""
        now = {instance: tuple(sorted(names)) for instance, names in pods.items()}
        is_due = at_ns - self._said_at_ns >= _REPEAT_NS
        for instance in sorted(now.keys() | self._said.keys(), key=lambda instance: -1 if instance is None else instance):
            names = now.get(instance, ())
            if is_due or names != self._said.get(instance, ()):
                yield GpuPods(**about, gpu_instance=instance, pods=names)
        if is_due:
            self._said_at_ns = at_ns
        self._said = now
