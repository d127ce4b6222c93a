"""Sets of components as bits.

Feature j of n has the components 2j (`F <= v` or `F = v`) and 2j + 1 (`F >= v`). A set of components, a rule or a dual,
is a Python int whose bit i stands for component i, or a row of W = ceil(2n / 64) words of 64 bits: word w holds the
bits 64w to 64w + 63. Ints are for single sets, rows for many.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ironrule.errors import InputError
from ironrule.rule.bit_kernels import Integers, Words, popcounts
from ironrule.rule.relevant import members

__all__ = ["members", "pack", "popcount", "unpack", "width"]

MOST_FEATURES = 128


def width(features: int) -> int:
    """The number of words that the components of so many features take."""
    if not 1 <= features <= MOST_FEATURES:
        raise InputError(expected=f"the number of features must be between 1 and {MOST_FEATURES}", got=features)
    return (2 * features + 63) // 64


def pack(sets: int | Iterable[int], features: int) -> Words:
    """One row per set.

    >>> pack([0b101, 0], features=2)
    array([[5],
           [0]], dtype=uint64)
    """
    rows = [sets] if isinstance(sets, int) else list(sets)
    size = 8 * width(features)
    for row in rows:
        if row < 0 or row >> (2 * features):
            raise InputError(
                expected=f"components of {features} features must fit in {2 * features} bits", got=f"{row:#b}"
            )
    joined = b"".join(row.to_bytes(size, "little") for row in rows)
    return np.frombuffer(joined, dtype="<u8").astype(np.uint64).reshape(-1, size // 8)


def unpack(words: Words) -> list[int]:
    """One int per row: the inverse of :func:`pack`.

    >>> unpack(pack([0b101, 0], features=2))
    [5, 0]
    """
    if words.shape[-1] == 1:
        single: list[int] = words.ravel().tolist()
        return single
    rows = np.ascontiguousarray(np.atleast_2d(words), dtype="<u8")
    return [int.from_bytes(row.tobytes(), "little") for row in rows]


def popcount(words: Words) -> Integers:
    """The number of components in every row."""
    return popcounts(np.ascontiguousarray(np.atleast_2d(words), dtype=np.uint64))
