"""Randomness by counting: every draw is a pure function of a key and its coordinates, so the order of evaluation never matters.

A key is made of a seed and names; coordinates are integers or integer arrays (node, time slot, ...). The mixer is the finaliser of
SplitMix64 (Steele, Lea, Flood 2014).
"""

from __future__ import annotations

import hashlib
import uuid
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bits = NDArray[np.uint64]
Flags = NDArray[np.bool_]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


def key_of(seed: int, *names: object) -> int:
    """Derive a 64-bit key from a seed and names."""
    text = "/".join(str(name) for name in (seed, *names))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def generator(seed: int, *names: object) -> np.random.Generator:
    """Give the generator for draws that are made once, in a fixed order."""
    return np.random.Generator(np.random.Philox(key_of(seed, *names)))


def bits(key: int, *coordinates: Any) -> Bits:
    """Draw 64 bits per element; coordinates broadcast against each other."""
    state = np.atleast_1d(np.asarray(key, np.uint64))
    for coordinate in coordinates:
        state = _mix(state + np.asarray(coordinate).astype(np.uint64) * _GOLDEN)
    return state if coordinates else _mix(state)


def uniform(key: int, *coordinates: Any) -> Floats:
    """Draw from [0, 1)."""
    return _unit(bits(key, *coordinates))


def exponential(key: int, *coordinates: Any) -> Floats:
    """Draw from the exponential distribution of mean 1."""
    return -np.log1p(-uniform(key, *coordinates))


def normal(key: int, *coordinates: Any) -> Floats:
    """Draw from the standard normal distribution (Box and Muller 1958)."""
    first = bits(key, *coordinates)
    radius = np.sqrt(-2.0 * np.log1p(-_unit(first)))
    return radius * np.cos(2.0 * np.pi * _unit(_mix(first + _GOLDEN)))


def quarters(key: int, *coordinates: Any) -> tuple[Floats, Floats, Floats, Floats]:
    """Draw four cheap independent noises per element, each uniform in [-1, 1) with 16 bits."""
    parts = np.ascontiguousarray(bits(key, *coordinates)).view(np.int16).reshape(-1, 4)
    shape = np.broadcast_shapes(*(np.shape(coordinate) for coordinate in coordinates))
    first, second, third, fourth = ((parts[:, i] * np.float64(1.0 / 32768.0)).reshape(shape) for i in range(4))
    return first, second, third, fourth


def uuid_of(seed: int, *names: object) -> uuid.UUID:
    """Derive a version-4 UUID from a seed and names."""
    digest = hashlib.blake2b("/".join(str(name) for name in (seed, *names)).encode(), digest_size=16).digest()
    return uuid.UUID(bytes=digest, version=4)


def _mix(state: Bits) -> Bits:
    state = (state ^ (state >> _S30)) * _MIX_1
    state = (state ^ (state >> _S27)) * _MIX_2
    return state ^ (state >> _S31)


def _unit(drawn: Bits) -> Floats:
    return (drawn >> _S11).astype(np.float64) * 2.0**-53
