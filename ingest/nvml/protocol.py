"""What supervisor and worker of a node's NVML say to each other: msgpack messages, each behind its length (4 bytes, big-endian).

The supervisor asks for polls and changes nothing; the worker says Hello once, then answers each Ask, and tells events when they happen.
A worker that cannot use NVML ends with exit status `EXIT_BASE + return code` (`EXIT_UNKNOWN` for NVML_ERROR_UNKNOWN).
"""

from __future__ import annotations

import msgspec

EXIT_BASE, EXIT_UNKNOWN = 100, 199
Number = bool | int | float


class Ask(msgspec.Struct, frozen=True, array_like=True, tag="ask"):
    """Poll all GPUs but `skip`: the columns of a tier, and with `links` each NVLink."""

    number: int
    tier: str
    links: bool
    deadline_s: float
    skip: tuple[str, ...] = ()


class Stop(msgspec.Struct, frozen=True, array_like=True, tag="stop"):
    """End."""


class Seat(msgspec.Struct, frozen=True, array_like=True):
    """Who a GPU is and where it sits."""

    gpu_uuid: str
    index: int
    serial: str | None = None
    pci: str | None = None
    model: str | None = None


class LinkReading(msgspec.Struct, frozen=True, array_like=True):
    """One NVLink; values in the order of `nvml_signals.LINK_COLUMNS`."""

    link: int
    values: tuple[Number | None, ...]
    quality: dict[str, str] | None = None


class Reading(msgspec.Struct, frozen=True, array_like=True):
    """One GPU in one poll. `code` speaks of the whole row: None when the GPU answered, else lost, timeout or skipped."""

    seat: Seat
    code: str | None
    latency_us: int | None
    values: dict[str, Number]
    quality: dict[str, str]
    links: tuple[LinkReading, ...] = ()
    news: tuple[int, ...] = ()  # return codes that are worth an event by themselves


class Hello(msgspec.Struct, frozen=True, array_like=True, tag="hello"):
    """NVML is usable; GPUs are named in the order of their bytes on the progress page."""

    driver_version: str
    seats: tuple[Seat, ...]


class Answer(msgspec.Struct, frozen=True, array_like=True, tag="answer"):
    """All GPUs of one poll. `overran` names those that missed the deadline in it, the one whose call hung first in front.

    `is_starved` tells that the host did not let the worker run, so that the deadline says nothing about a GPU.
    """

    number: int
    driver_version: str
    readings: tuple[Reading, ...]
    lost_indices: tuple[int, ...] = ()
    overran: tuple[str, ...] = ()
    is_starved: bool = False


class Happened(msgspec.Struct, frozen=True, array_like=True, tag="happened"):
    """An NVML event; `kind` is its type bit, `data` the XID of an XID event."""

    gpu_uuid: str
    kind: int
    data: int
    gpu_instance: int | None
    compute_instance: int | None


class Listening(msgspec.Struct, frozen=True, array_like=True, tag="listening"):
    """Whether events are being waited for; `detail` says why not."""

    is_up: bool
    detail: str = ""


ToWorker = Ask | Stop
ToSupervisor = Hello | Answer | Happened | Listening

_encoder = msgspec.msgpack.Encoder()
to_worker: msgspec.msgpack.Decoder[ToWorker] = msgspec.msgpack.Decoder(ToWorker)
to_supervisor: msgspec.msgpack.Decoder[ToSupervisor] = msgspec.msgpack.Decoder(ToSupervisor)
HEAD_BYTES = 4


def frame(message: ToWorker | ToSupervisor) -> bytes:
    """Write a message behind its length."""
    body = _encoder.encode(message)
    return len(body).to_bytes(HEAD_BYTES, "big") + body
