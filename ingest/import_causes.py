"""What the text of an imported event says about its code and failure mode; where it says nothing, so do these."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_CODES = ((r"(?i)\bDBE\b|double.bit", 48), (r"(?i)\bOTB\b|off.the.bus", 79))
_MODE_OF_CODE = {
    48: "hbm_ue",
    63: "hbm_ue",
    64: "hbm_ue",
    74: "nvlink",
    79: "fell_off_bus",
    94: "hbm_ue",
    95: "hbm_ue",
    119: "gsp",
    120: "gsp",
}
# What a recorded cause says about the failure mode; the first match counts.
_MODE_OF_CAUSE = (
    (r"(?i)^software|^human", "software"),
    (r"(?i)^facilities", "dependency"),
    (r"(?i)maintenance", "host_maintenance"),
    (r"(?i)dimm|memory", "dram"),
    (r"(?i)\bcpu\b|processor", "cpu"),
    (r"(?i)power supply|voltage|\bpsu\b", "psu_vr"),
    (r"(?i)disk|drive|\bssd\b|raid", "ssd"),
    (r"(?i)switch|cable|router|^network", "switch_cable"),
    (r"(?i)interconnect|\bhba\b|\bnic\b|\bmia\b", "nic"),
    (r"(?i)board|plane|pci", "io_board"),
    (r"(?i)^hardware", "chassis"),
)


def code_of(text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Find the XID that a text names."""
    named = pc.struct_field(pc.extract_regex(text, r"(?i)s?xid[^0-9]{0,3}(?P<code>\d{1,3})"), "code")
    code = pc.if_else(pc.equal(named, ""), None, named).cast(pa.int64())
    for pattern, value in _CODES:
        code = pc.if_else(pc.and_(pc.is_null(code), pc.match_substring_regex(text, pattern)), value, code)
    return code


def mode_of(code: pa.ChunkedArray, text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Guess the failure mode from the code, or else from the cause that a text names."""
    mode = pc.if_else(pc.is_null(text), pa.scalar(None, pa.string()), pa.scalar(None, pa.string()))
    for pattern, name in reversed(_MODE_OF_CAUSE):
        mode = pc.if_else(pc.fill_null(pc.match_substring_regex(text, pattern), False), name, mode)
    for value, name in _MODE_OF_CODE.items():
        mode = pc.if_else(pc.fill_null(pc.equal(code, value), False), name, mode)
    return mode
