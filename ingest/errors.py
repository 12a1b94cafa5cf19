"""Every error that forewarn raises on purpose, drawn as a tree.

ForewarnError                  the one to catch at an edge; its text names the thing and the mend
├── SourceUnavailable          the device or its service did not answer: a source state, never a judgement on the hardware
├── RecordRejected             the data is wrong: counted with its reason, kept out, the rest goes on
├── BusUnavailable             the broker is away: the spool holds what is to be said
│   └── StreamsMoved           streams came or went: give up what is open and read on from what is committed
├── SpoolFull                  our disk bound is reached: gauges are dropped and counted, events never
├── LakeError
│   ├── LakeConflict           another writer committed first: read its marks and try again
│   └── LakeUnreadable         a table or file cannot be read, or its schema is not ours
├── ModelRefused               a model directory that does not fit this code or its own checksums
└── ConfigError                a setting that cannot be used: one line with key, file and mend
"""


class ForewarnError(Exception):
    """Anything that forewarn raises on purpose."""


class SourceUnavailable(ForewarnError):
    """A source gave nothing; `state` is its code in `source_states`, for example `driver_mismatch` or `error(500)`."""

    def __init__(self, state: str, detail: str = "") -> None:
        super().__init__(f"{state}: {detail}" if detail else state)
        self.state = state
        self.detail = detail


class RecordRejected(ForewarnError):
    """One input that cannot become a record; `reason` is a short constant used as a metric label."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


class BusUnavailable(ForewarnError):
    """The bus cannot take or give messages now."""


class StreamsMoved(BusUnavailable):
    """Streams of the bus came or went."""


class SpoolFull(ForewarnError):
    """The spool has reached its bound on disk."""


class LakeError(ForewarnError):
    """The lake cannot do what was asked."""


class LakeConflict(LakeError):
    """Another writer's commit came first."""


class LakeUnreadable(LakeError):
    """A table or file of the lake cannot be read."""


class ModelRefused(ForewarnError):
    """A model directory that must not be used."""


class ConfigError(ForewarnError):
    """A setting that cannot be used."""
