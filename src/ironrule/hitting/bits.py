"""Sets as bits.

An element is a number. In Ironrule it is a component: feature j of n has the elements 2j (`F <= v` or `F = v`) and
2j + 1 (`F >= v`). A set (a rule, or a dual) is a Python int whose bit i stands for element i, or a row of
W = ceil(2n / 64) words of 64 bits: word w holds the bits 64w to 64w + 63. Ints are for single sets, rows for many.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ironrule.arrays import BoolArray, UInt64Array
from ironrule.errors import InputError


def list_members(components: int) -> tuple[int, ...]:
    """The numbers of the components in a set, in order.

    >>> list_members(0b1101)
    (0, 2, 3)
    """
    found = []
    # Take the lowest one, note its position, clear it, until no bit is left.
    while components:
        lowest = components & -components
        found.append(lowest.bit_length() - 1)
        components ^= lowest
    return tuple(found)


def count_words(features: int) -> int:
    """The number of words that the components of so many features take."""
    if features < 1:
        raise InputError(expected="the number of features must be at least 1", got=features)
    return (2 * features + 63) // 64


def pack_sets(sets: int | Iterable[int], features: int) -> UInt64Array:
    """One row per set.

    >>> pack_sets([0b101, 0], features=2)
    array([[5],
           [0]], dtype=uint64)
    """
    rows = [sets] if isinstance(sets, int) else list(sets)
    size = 8 * count_words(features)
    for row in rows:
        if row < 0 or row >> (2 * features):
            raise InputError(
                expected=f"components of {features} features must fit in {2 * features} bits", got=f"{row:#b}"
            )
    joined = b"".join(row.to_bytes(size, "little") for row in rows)
    return np.frombuffer(joined, dtype="<u8").astype(np.uint64).reshape(-1, size // 8)


def unpack_sets(words: UInt64Array) -> list[int]:
    """One int per row: the inverse of :func:`pack_sets`.

    >>> unpack_sets(pack_sets([0b101, 0], features=2))
    [5, 0]
    """
    if words.shape[-1] == 1:
        single: list[int] = words.ravel().tolist()
        return single
    rows = np.ascontiguousarray(np.atleast_2d(words), dtype="<u8")
    return [int.from_bytes(row.tobytes(), "little") for row in rows]


def unpack_flags(words: UInt64Array) -> BoolArray:
    """One row of flags per set: flag i stands for element i."""
    octets = np.ascontiguousarray(words, dtype="<u8").view(np.uint8)
    return np.unpackbits(octets, axis=1, bitorder="little").view(np.bool_)


def pack_flags(flags: BoolArray) -> UInt64Array:
    """One row of words per row of flags: the inverse of :func:`unpack_flags`."""
    words: UInt64Array = np.packbits(flags, axis=1, bitorder="little").view("<u8").astype(np.uint64)
    return words
