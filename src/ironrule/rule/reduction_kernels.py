"""What makes hitting-set problems small before they are searched: duals that contain another go, components that a no
heavier one can replace everywhere go, until neither is left.

All in one kernel: the problems of decision trees are so small that a dozen array operations take longer than their
solution.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ironrule.rule.bit_kernels import ONE, ZERO, Floats, Integers, Words, kernel, lowest, part, popcount
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


@part
def _fill_hit(rows: Words, count: int, members: Integers, hit: Words, words: int) -> int:
    """List the elements that occur, and the rows that each hits, ``words`` words each; how many elements there are."""
    found = 0
    for w in range(rows.shape[1]):
        union = ZERO
        for r in range(count):
            union |= rows[r, w]
        while union != ZERO:
            element = lowest(union)
            union &= union - ONE
            members[found] = 64 * w + element
            for k in range(words):
                hit[found * words + k] = ZERO
            for r in range(count):
                hit[found * words + (r >> 6)] |= ((rows[r, w] >> np.uint64(element)) & ONE) << np.uint64(r & 63)
            found += 1
    return found


@part
def _replaceable(hit: Words, words: int, one: int, other: int) -> bool:
    left = ZERO
    for k in range(words):
        left |= hit[one * words + k] & ~hit[other * words + k]
    return bool(left == ZERO)


@part
def _drop_replaceable(
    rows: Words, count: int, members: Integers, size: int, hit: Words, words: int, weights: Floats
) -> bool:
    """Remove elements that another, no heavier one can replace everywhere; of equals the first stays."""
    dropped = False
    for a in range(size):
        for b in range(size):
            if a == b or members[b] < 0 or weights[members[b]] > weights[members[a]]:
                continue
            if _replaceable(hit, words, a, b):
                for r in range(count):
                    rows[r, members[a] >> 6] &= ~(ONE << np.uint64(members[a] & 63))
                members[a] = -1
                dropped = True
                break
    return dropped


@part
def _reduce(rows: Words, minimal: bool, weights: Floats, members: Integers, hit: Words) -> tuple[int, int]:
    """Reduce the rows in place, and write the elements left and which rows each hits; how many of both are left."""
    ordered, kept, ends, common = _room(rows.shape[0], rows.shape[1])
    count, size, changed = rows.shape[0], 0, True
    while changed:
        if not minimal:
            count = _keep_minimal(rows, count, ordered, kept, ends, common)
        minimal = False
        words = (count + 63) >> 6
        size = _fill_hit(rows, count, members, hit, words)
        changed = _drop_replaceable(rows, count, members, size, hit, words, weights)
    return size, count


@part
def _list_elements(rows: Words, count: int, members: Integers, size: int, starts: Integers, elements: Integers) -> int:
    """Write which elements each row has; how many in all."""
    place = 0
    for r in range(count):
        starts[r] = place
        for i in range(size):
            if (rows[r, members[i] >> 6] >> np.uint64(members[i] & 63)) & ONE:
                elements[place] = i
                place += 1
    starts[count] = place
    return place


@kernel
def reduce_problem(
    rows: Words, minimal: bool, weights: Floats, members: Integers, hit: Words, starts: Integers, elements: Integers
) -> tuple[int, int, int]:
    """Reduce the rows in place; write the elements left, which rows each hits and which elements each row has. How many
    elements and rows are left, and how many entries the last list has.

    ``minimal`` says that no row contains another to begin with.
    """
    size, count = _reduce(rows, minimal, weights, members, hit)
    return size, count, _list_elements(rows, count, members, size, starts, elements)
