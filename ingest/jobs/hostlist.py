"""Slurm's host lists: `gpu[001-003,010],login` names gpu001, gpu002, gpu003, gpu010 and login."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from math import prod
from typing import NamedTuple

MOST_HOSTS = 65_536  # of one list, its brackets multiplied; more is a broken list
LONGEST_NAME = 253  # of a host in DNS
_TOKEN = re.compile(r"\[(?P<ranges>[^\[\]]*)\]|(?P<plain>[^,\[\]]+)|(?P<comma>,)|(?P<stray>.)", re.DOTALL)
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")


class _Part(NamedTuple):
    """A piece of a name: plain text, or numbers of as many digits as their range has at least."""

    plain: str = ""
    ranges: tuple[tuple[range, int], ...] = ()

    @property
    def names(self) -> int:
        return sum(numbers.stop - numbers.start for numbers, _ in self.ranges) if self.ranges else 1

    @property
    def longest(self) -> int:
        return max(len(str(numbers.stop - 1).zfill(digits)) for numbers, digits in self.ranges) if self.ranges else len(self.plain)

    def texts(self) -> list[str]:
        return [str(number).zfill(digits) for numbers, digits in self.ranges for number in numbers] or [self.plain]


def expand(text: str) -> list[str]:
    """Name the hosts of a list in its order; raises ValueError where it is not one or names too many."""
    names: list[str] = []
    for parts in _words(text):
        if len(names) + prod(part.names for part in parts) > MOST_HOSTS:  # counted before any is made
            raise ValueError(f"not a host list: more than {MOST_HOSTS} names in {text[:60]}")
        if sum(part.longest for part in parts) > LONGEST_NAME:
            raise ValueError(f"not a host list: a name of more than {LONGEST_NAME} characters in {text[:60]}")
        names += map("".join, product(*(part.texts() for part in parts)))
    return names


def _words(text: str) -> Iterator[list[_Part]]:
    """Give the names of a list as they are written, each in its parts."""
    parts: list[_Part] = []
    for token in _TOKEN.finditer(text):
        if token["stray"]:
            raise ValueError(f"not a host list: {text[:60]}")
        if token["comma"]:
            yield from [parts] if parts else ()
            parts = []
        else:
            parts.append(_Part(token["plain"]) if token["plain"] else _Part(ranges=tuple(_ranges(token["ranges"]))))
    yield from [parts] if parts else ()


def _ranges(inside: str) -> Iterator[tuple[range, int]]:
    for item in inside.split(","):
        found = _RANGE.fullmatch(item)
        if not found or int(found[2] or found[1]) < int(found[1]):
            raise ValueError(f"not a host list: [{item[:60]}]")
        yield range(int(found[1]), int(found[2] or found[1]) + 1), len(found[1])
