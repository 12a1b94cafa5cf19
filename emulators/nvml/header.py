"""Find and read the NVML header of the installed package nvidia-nvml-dev; it is a build-time input and never part of this project."""

from __future__ import annotations

import importlib.metadata
import re
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ("nvidia-nvml-dev", "nvidia-nvml-dev-cu13", "nvidia-nvml-dev-cu12")
_PROTOTYPE = re.compile(r"nvmlReturn_t\s+DECLDIR\s+(nvml\w+)\s*\(([^;]*?)\)\s*;")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


class HeaderMissing(Exception):
    """No installed package has nvml.h; `pip install nvidia-nvml-dev` mends it."""


@dataclass(frozen=True)
class Header:
    """An nvml.h: where it is, its version, and its prototypes (name to parameter list)."""

    path: Path
    version: str
    prototypes: dict[str, str]


def find_header() -> Header:
    """Read the installed header; raises HeaderMissing."""
    for package in PACKAGES:
        try:
            distribution = importlib.metadata.distribution(package)
        except importlib.metadata.PackageNotFoundError:
            continue
        for file in distribution.files or ():
            if file.name == "nvml.h":
                return read_header(Path(str(file.locate())), distribution.version)
    raise HeaderMissing("nvml.h is not installed; run: pip install nvidia-nvml-dev")


def read_header(path: Path, version: str) -> Header:
    """Read the prototypes of one nvml.h."""
    text = _COMMENT.sub("", path.read_text(encoding="utf-8", errors="replace"))
    return Header(path, version, {name: " ".join(params.split()) for name, params in _PROTOTYPE.findall(text)})


def parameter_names(params: str) -> list[str]:
    """Name the parameters of a prototype in order."""
    if params == "void":
        return []
    return [part.replace("*", " ").replace("[]", "").split()[-1] for part in params.split(",")]
