"""What each GPU model is like when idle: values of one captured machine each (`nvidia-smi -q` in NVIDIA/k8s-test-infra).

`captures.csv` has a row per quantity and a column per model. An empty cell: the capture does not show it, so it is not supported.
`code N`: its calls give that return code. `a | b | ...`: one value per slot, repeated. `a b c`: the start of an array; a single number
fills the whole of it, but for the histogram, whose first number is the banks with all their spare rows. Rows marked as assumed are in no
capture. Identifiers are synthetic.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from emulators.nvml.layout import GPU, LINKS, QUANTITY, Member

MIB = 1024 * 1024
NOT_SUPPORTED = 3
_IDENTITY = ("name", "uuid", "serial", "minor", "pci_domain", "pci_bus", "pci_device")
_STARTS = ("remap_histogram", "policy_ns")  # arrays of which a cell gives the start alone
_MEMBERS: dict[str, Member] = {member.name: member for member in GPU}


@dataclass(frozen=True, kw_only=True)
class Profile:
    """One captured machine: its driver and where its GPUs sat; `column` is its column of values."""

    column: str
    model: str
    driver_version: str
    cuda_version: int
    addresses: tuple[str, ...]
    is_persistent: bool = True

    def values(self, slot: int) -> dict[str, str]:
        """Give the cells of a slot: quantity to text, without those that the model does not have."""
        cells = ((row["quantity"], row[self.column].split(" | ")) for row in _captures() if row[self.column])
        return {name: by_slot[slot % len(by_slot)] for name, by_slot in cells}


def _addresses(*buses: str, domains: tuple[str, ...] = ("0000",), device: str = "00") -> tuple[str, ...]:
    return tuple(f"{domain}:{bus}:{device}" for domain in domains for bus in buses)


PROFILES = (
    Profile(
        column="A100-SXM4-40GB",
        model="NVIDIA A100-SXM4-40GB",
        driver_version="570.148.08",
        cuda_version=12080,
        addresses=_addresses("06"),
    ),
    Profile(
        column="H100",
        model="NVIDIA H100 80GB HBM3",
        driver_version="580.105.08",
        cuda_version=13000,
        addresses=_addresses("53", "64", "75", "86", "97", "a8", "b9", "ca"),
    ),
    Profile(
        column="B200",
        model="NVIDIA B200",
        driver_version="580.105.08",
        cuda_version=13000,
        addresses=_addresses("8f", "90", "96", "97", "c4", "c5", "cb", "cc"),
        is_persistent=False,
    ),
    Profile(
        column="GB200",
        model="NVIDIA GB200",
        driver_version="580.173.02",
        cuda_version=13000,
        addresses=_addresses("29", "3f", "9c", "b2"),
    ),
    Profile(
        column="GB300",
        model="NVIDIA GB300",
        driver_version="580.173.02",
        cuda_version=13000,
        addresses=_addresses("06", domains=("0008", "0009", "0018", "0019")),
    ),
    Profile(column="L40S", model="NVIDIA L40S", driver_version="595.91.07", cuda_version=13020, addresses=_addresses("30")),
    Profile(column="T4", model="Tesla T4", driver_version="595.91.07", cuda_version=13020, addresses=_addresses("00", device="1e")),
)
_BY_NAME = {name: profile for profile in PROFILES for name in (profile.model, profile.column)}
H100 = _BY_NAME["H100"]


@cache
def _captures() -> tuple[dict[str, str], ...]:
    with (Path(__file__).parent / "captures.csv").open(newline="") as file:
        return tuple(csv.DictReader(file))


def profile_of(model: str) -> Profile:
    """Find the profile of a product name; a model without a capture is taken for an H100."""
    return _BY_NAME.get(model, H100)


def apply_profile(profile: Profile, slot: int, block: Any) -> None:
    """Fill a zeroed block with a model's baseline; what the model does not have is not supported."""
    values = profile.values(slot)
    for name, index in QUANTITY.items():
        block.rc[index] = 0 if name in _IDENTITY else NOT_SUPPORTED
        if name in values:
            block.rc[index] = _put(block, name, values[name])


def _put(block: Any, name: str, cell: str) -> int:
    """Set a quantity from its cell; gives the return code of its calls."""
    if cell.startswith("code "):
        return int(cell.removeprefix("code "))
    member = _MEMBERS[name]
    if member.kind == "char":
        setattr(block, name, cell.encode())
    elif member.length == 1:
        setattr(block, name, _number(cell))
    else:
        numbers = [_number(part) for part in cell.split()]
        if len(numbers) == 1 and name not in _STARTS:
            numbers *= block.link_count or LINKS if name.startswith("link_") and member.length == LINKS else member.length
        getattr(block, name)[: len(numbers)] = numbers
    return 0


def _number(text: str) -> int:
    return int(text.removesuffix(" MiB")) * MIB if text.endswith(" MiB") else int(text, 0)


def support(block: Any, **codes: int) -> None:
    """Set the return code of quantities; 0 makes one supported."""
    for name, code in codes.items():
        block.rc[QUANTITY[name]] = code
