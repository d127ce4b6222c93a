"""Duals that contain another go: few of them in one kernel, which takes less time than a dozen array operations."""

from __future__ import annotations

from typing import Any

import numpy as np

from ironrule.rule.bit_kernels import ZERO, Integers, Words, kernel, part, popcount
from ironrule.rule.cover_kernels import CHUNK, misses_one


@part
def _sort_by_size(rows: Words, count: int, ordered: Words, ends: Integers) -> None:
    """Copy the first rows in order of size, equal ones in the order they come."""
    for size in range(ends.size):
        ends[size] = 0
    for r in range(count):
        ends[_size(rows, r) + 1] += 1
    for size in range(1, ends.size):
        ends[size] += ends[size - 1]
    for r in range(count):
        size = _size(rows, r)
        for w in range(rows.shape[1]):
            ordered[ends[size], w] = rows[r, w]
        ends[size] += 1


@part
def _size(rows: Words, row: int) -> int:
    size = ZERO
    for w in range(rows.shape[1]):
        size += popcount(rows[row, w])
    return int(size)


@part
def _keep_minimal(rows: Words, count: int, ordered: Words, kept: Words, ends: Integers, common: Words) -> int:
    """Put the distinct minimal ones of the first rows in front, by size; how many there are."""
    _sort_by_size(rows, count, ordered, ends)
    width, found = rows.shape[1], np.int64(0)
    rest = ordered[ordered.shape[0] - 1]
    for r in range(count):
        for w in range(width):
            rest[w] = ~ordered[r, w]
        if not misses_one(rest, kept, found, common):
            for w in range(width):
                kept[w, found] = rows[found, w] = ordered[r, w]
            found += 1
    return int(found)


@part
def _room(rows: int, width: int) -> Any:
    """What :func:`_keep_minimal` works on, for so many rows of so many words."""
    ordered, kept = np.empty((rows + 1, width), np.uint64), np.empty((width, rows), np.uint64)
    return ordered, kept, np.empty(64 * width + 2, np.int64), np.empty(CHUNK, np.uint64)


@kernel
def keep_minimal(rows: Words) -> int:
    """Put the distinct minimal rows in front, by size, then in the order they come; how many there are."""
    ordered, kept, ends, common = _room(rows.shape[0], rows.shape[1])
    return _keep_minimal(rows, rows.shape[0], ordered, kept, ends, common)
