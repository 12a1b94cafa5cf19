"""Put firmware versions in order, by their numbers: 10.0 is newer than 4.9, which text has the other way round."""

from __future__ import annotations

import re

_PART = re.compile(r"\d{1,18}|[a-z]+")


def is_newer(version: str, other: str) -> bool:
    """Tell whether a version comes after another; of two that begin alike the longer, unless it goes on in letters, such as rc1."""
    return _key(version) > _key(other)


def _key(version: str) -> list[tuple[int, int, str]]:
    parts = _PART.findall(version.lower().removeprefix("v"))
    return [*((2, int(part), "") if part.isdigit() else (0, 0, part) for part in parts), (1, 0, "")]
