"""What vendors do differently, as knobs; a profile is one setting of all of them.

`strict` keeps to the standard and passes the DMTF's validators; the others follow what the vendors' services were read or seen to do.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(frozen=True, kw_only=True)
class Framing:
    """How events are written on a stream."""

    indent: int | None = None
    has_space: bool = True  # after the colon
    line_end: bytes = b"\n"
    ids: str = "monotonic"  # monotonic, repeating, constant, absent
    names_event: bool = False
    retry_ms: int | None = None
    comment_s: float | None = 5.0  # wall seconds between keep-alive comments
    is_ascii: bool = False
    has_bom: bool = False
    has_blank_lines: bool = True
    is_chunked: bool = True
    split_bytes: int | None = None  # writes are cut into pieces of so many bytes


@dataclass(frozen=True, kw_only=True)
class Admission:
    """Who gets a stream."""

    path: str = "/redfish/v1/EventService/SSE"
    most_streams: int = 10
    refusal: str = "503"  # 503, 403 or close: 200 and then the end
    filter: str = "quoted"  # quoted, unquoted, both, dropped (parsed and ignored), none (501)
    needs_event_stream: bool = False  # `*/*` alone is not found
    privilege: str = "Login"
    is_licensed: bool = True


@dataclass(frozen=True, kw_only=True)
class Replay:
    """What a stream sends to a client that names the last event it had."""

    ring: int = 200
    on_unknown: str = "nothing"  # nothing, message (EventBufferExceeded), ring (everything again)
    as_record: bool = False  # the bare record instead of an Event


@dataclass(frozen=True, kw_only=True)
class Profile:
    """One kind of BMC."""

    name: str
    vendor: str
    product: str
    reports: str  # which set of reports: plain, openbmc, hgx, dell, lenovo, hpe
    system: str = "System"
    chassis: str = "Baseboard"
    gpu: str = "GPU_{}"
    first_gpu: int = 0
    report_version: str = "v1_5_2"
    streams_reports: bool = True
    is_on_request: bool = False  # definitions without schedule
    has_definitions: bool = True
    has_report_time: bool = True
    has_rich_tree: bool = True  # processors, memory, power supplies, logs
    has_reports: bool = True
    expand: str = "none"  # none (501), full, or lossy: members without what makes them useful
    session_timeout_s: int = 1800
    most_sessions: int = 64
    idle_close_s: float | None = None  # a stream without data is ended after so many wall seconds
    framing: Framing = field(default_factory=Framing)
    admission: Admission = field(default_factory=Admission)
    replay: Replay = field(default_factory=Replay)


_STRICT = Profile(
    name="strict",
    vendor="Example",
    product="Reference BMC",
    reports="plain",
    has_rich_tree=False,
    framing=Framing(indent=1),
)
_OPENBMC = Profile(
    name="openbmc",
    vendor="OpenBMC",
    product="bmcweb",
    reports="openbmc",
    system="system",
    chassis="chassis",
    report_version="v1_3_0",
    streams_reports=False,  # only while somebody holds a push subscription
    framing=Framing(indent=2, comment_s=None, is_ascii=True, ids="repeating", is_chunked=False),
    admission=Admission(refusal="close", filter="dropped", needs_event_stream=True, privilege="ConfigureManager"),
    replay=Replay(on_unknown="message", as_record=True),
)
_DELL = Profile(
    name="idrac9",
    vendor="Dell",
    product="iDRAC9",
    reports="dell",
    system="System.Embedded.1",
    chassis="System.Embedded.1",
    gpu="Video.Slot.{}-1",
    first_gpu=31,
    report_version="v1_4_2",
    most_sessions=8,
    idle_close_s=3600.0,
    framing=Framing(names_event=True, retry_ms=15_000, comment_s=None),
    admission=Admission(path="/redfish/v1/SSE", most_streams=2, filter="unquoted"),
)
PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        _STRICT,
        _OPENBMC,
        replace(
            _OPENBMC,
            name="hgx",
            vendor="NVIDIA",
            product="HGX BMC",
            reports="hgx",
            system="HGX_Baseboard_0",
            chassis="HGX_Chassis_0",
            gpu="GPU_SXM_{}",
            first_gpu=1,
            report_version="v1_4_2",
            is_on_request=True,
            has_report_time=False,
            framing=replace(_OPENBMC.framing, is_ascii=False),
            replay=Replay(on_unknown="ring"),
        ),
        _DELL,
        replace(_DELL, name="idrac10", product="iDRAC10", admission=replace(_DELL.admission, filter="quoted")),
        Profile(
            name="xcc",
            vendor="Lenovo",
            product="XClarity Controller",
            reports="lenovo",
            system="1",
            chassis="1",
            report_version="v1_2_0",
            framing=Framing(indent=4, has_space=False, comment_s=15.0),
            admission=Admission(path="/redfish/v1/EventService/ServerSentEvent", most_streams=12),
        ),
        Profile(
            name="ilo",
            vendor="HPE",
            product="iLO 6",
            reports="hpe",
            system="1",
            chassis="1",
            streams_reports=False,
            framing=Framing(comment_s=None),
            admission=Admission(most_streams=4, filter="none"),
        ),
        Profile(
            name="ome",
            vendor="Dell",
            product="OME-Modular",
            reports="plain",
            framing=Framing(ids="constant", comment_s=None),
            admission=Admission(most_streams=8),
        ),
    )
}
