"""Write the C that the tables imply: the layout, the field table, the plain getters, stubs for all other calls, the version script."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable, Mapping

from emulators.nvml import layout
from emulators.nvml.fields import FIELDS, VALUE_TYPES
from emulators.nvml.getters import GENERATED, INDEXED, SCALARS, STRUCTS, TEXTS, Filled, Indexed
from emulators.nvml.header import parameter_names
from emulators.nvml.layout import BLOCKS, C_TYPES, GPU, Member, in_memory_order

_DEFINED = re.compile(r"^(?:nvmlReturn_t |EMU_NO_PROCESSES\()(nvml\w+)", re.MULTILINE)


def layout_header() -> str:
    """Declare the C structs of the state file, with their sizes and offsets held against the Python mirror."""
    lines = ["#pragma once", "#include <stddef.h>", "#include <stdint.h>"]
    lines += [f"#define EMU_{name} {getattr(layout, name)}u" for name in _CONSTANTS]
    lines += [f"#define EMU_RULE_{name} {getattr(layout, name)}" for name in ("ECC", "MIG", "ROOT")]
    lines.append("enum { " + ", ".join(f"Q_{member.name}" for member in GPU) + ", Q_COUNT };")
    for name, (mirror, members) in BLOCKS.items():
        lines.append(_struct(name, members))
        lines.append(f'_Static_assert(sizeof(struct emu_{name}) == {ctypes.sizeof(mirror)}, "{name}");')
    lines.append(_STATE)
    lines.append(f'_Static_assert(sizeof(struct emu_state) == {ctypes.sizeof(layout.State)}, "state");')
    return "\n".join(lines) + "\n"


_CONSTANTS = ("MAGIC", "ABI", "GPUS", "LINKS", "FAULTS", "RING", "PROCESSES", "INSTANCES", "ADDRESSES", "NVLINK5", "FEC")
_STATE = """struct emu_ring { uint64_t posted, lost; struct emu_event events[EMU_RING]; };
struct emu_state {
  uint32_t magic, abi;
  uint64_t size, calls, torn_reads;
  uint32_t bell, machine_seq, gpu_seq[EMU_GPUS];
  int32_t fault_calls[EMU_FAULTS];
  struct emu_machine machine;
  struct emu_fault faults[EMU_FAULTS];
  struct emu_ring rings[EMU_GPUS];
  struct emu_gpu gpus[EMU_GPUS];
};"""


def _struct(name: str, members: list[Member]) -> str:
    rows = [f"  {C_TYPES[m.kind][0]} {m.name}{f'[{m.length}]' if m.length > 1 else ''};" for m in in_memory_order(members)]
    return "\n".join([f"struct emu_{name} {{", *rows, "} __attribute__((aligned(8)));"])


def tables_source() -> str:
    """Write the quantity and field tables as C arrays."""
    quantities = [f"  {{offsetof(struct emu_gpu, {m.name}), '{_CODE[m.kind]}', {m.rules}}}," for m in GPU]
    fields = [
        f"  {{{f.id}, {f.since}, Q_{f.quantity}, {f.place}, {f.stride}, {f.scope}, {f.rule}, {VALUE_TYPES[f.type]}, '{_CODE[f.type]}'}},"
        for f in FIELDS
    ]
    return "\n".join(
        [
            '#include "emu.h"',
            "const struct emu_quantity EMU_QUANTITIES[Q_COUNT] = {",
            *quantities,
            "};",
            f"const unsigned EMU_FIELD_COUNT = {len(FIELDS)};",
            "const struct emu_field EMU_FIELD_TABLE[] = {",
            *fields,
            "};",
            "",
        ]
    )


_CODE = {"u64": "U", "f64": "d", "u32": "u", "i32": "i", "char": "c"}


def getters_source(prototypes: Mapping[str, str], hidden: frozenset[str]) -> str:
    """Write the calls of the getter tables, with the header's own parameter lists."""
    calls = [name for name in sorted(GENERATED) if name in prototypes and name not in hidden]
    return "\n".join(['#include "emu.h"', *(_call(name, prototypes[name]) for name in calls), ""])


def _call(name: str, params: str) -> str:
    names = parameter_names(params)
    if name in SCALARS:
        body = _scalar(names[1:], SCALARS[name])
    elif name in INDEXED:
        body = _indexed(names[1], names[2], INDEXED[name])
    elif name in STRUCTS:
        body = _filled(names[1], STRUCTS[name])
    else:
        body = [f"EMU_TEXT(Q_{TEXTS[name]}, {names[1]}, {names[2]});"]
    return f"nvmlReturn_t {name}({params}) {{ EMU_GPU({names[0]}); {' '.join(body)} EMU_RETURN(NVML_SUCCESS); }}"


def _scalar(outputs: list[str], quantities: tuple[str, ...]) -> list[str]:
    return [f"EMU_OUT({out});" for out in outputs] + [
        f"EMU_PUT(*{out}, Q_{quantity}, 0);" for out, quantity in zip(outputs, quantities, strict=True)
    ]


def _indexed(index: str, out: str, call: Indexed) -> list[str]:
    check = f"EMU_LINK({index});" if call.is_link else f"EMU_BELOW({index}, {call.limit});"
    return [f"EMU_OUT({out});", check, f"EMU_PUT(*{out}, Q_{call.quantity}, (unsigned){index} * {call.stride});"]


def _filled(out: str, call: Filled) -> list[str]:
    body = [f"EMU_OUT({out});"]
    if call.versions:
        body.append(f"EMU_VERSION({' && '.join(f'{out}->version != {version}' for version in call.versions)});")
    for member, source in call.members.items():
        quantity, index = source if isinstance(source, tuple) else (source, 0)
        body.append(f"EMU_PUT({out}->{member}, Q_{quantity}, {index});")
    return body


def stubs_source(prototypes: Mapping[str, str], defined: Iterable[str], hidden: frozenset[str]) -> str:
    """Write a stub for every prototype that nothing else defines."""
    written = {*defined, *GENERATED}
    stubs = [
        f'nvmlReturn_t {name}({params}) {{ return emu_stub("{name}"); }}'
        for name, params in sorted(prototypes.items())
        if name not in written and name not in hidden
    ]
    return "\n".join(['#include "emu.h"', *stubs, ""])


def defined_calls(source: str) -> list[str]:
    """Name the NVML calls that a C source of ours defines."""
    return _DEFINED.findall(source)


def version_script(prototypes: Mapping[str, str], hidden: frozenset[str]) -> str:
    """Export exactly the symbols of the header."""
    names = sorted({*prototypes, "nvmlErrorString"} - hidden)
    return "{ global: " + " ".join(f"{name};" for name in names) + " local: *; };\n"
