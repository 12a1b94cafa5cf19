"""Slurm's host lists: `gpu[001-003,010],login` names gpu001, gpu002, gpu003, gpu010 and login."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

_WORD = re.compile(r"(?:[^,\[\]]|\[[^\]]*\])+")
_PART = re.compile(r"\[([^\]]*)\]|([^\[]+)")
_MOST = 100_000  # names of one list; more is a broken list


def expand(text: str) -> list[str]:
    """Name the hosts of a list in its order; raises ValueError where it is not one."""
    if text.count("[") != text.count("]"):
        raise ValueError(f"not a host list: {text}")
    names: list[str] = []
    for word in _WORD.findall(text):
        parts = [list(_range(inside)) if inside else [plain] for inside, plain in _PART.findall(word)]
        for combination in product(*parts):
            names.append("".join(combination))
            if len(names) > _MOST:
                raise ValueError(f"not a host list: more than {_MOST} names in {text[:60]}")
    return names


def _range(inside: str) -> Iterator[str]:
    for item in inside.split(","):
        first, _, last = item.partition("-")
        numbers = range(int(first), int(last or first) + 1)
        if len(numbers) > _MOST:
            raise ValueError(f"not a host list: more than {_MOST} names in {item[:60]}")
        for number in numbers:
            yield str(number).zfill(len(first))
