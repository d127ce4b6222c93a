"""How many rows of a history lie in a box, and which: one pass over the columns that the box restricts, block by block.

A block's flags stay in the caches while its columns pass by; on bytes a vector register tests 32 or 64 rows at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ironrule.rule.bit_kernels import (
    ONE,
    ZERO,
    Bytes,
    Integers,
    Words,
    add_if_outside,
    kernel,
    lowest,
    part,
    pointer_to_uint8,
    pointer_to_uint16,
    pointer_to_uint32,
)

BLOCK = 4096
OUTSIDE = np.uint8(1)


@part
def _flag(codes: Any, cast: Any, low: int, high: int, outside: Bytes, rows: int) -> None:
    """Flag the rows whose code is not from low to high. The casts keep the arithmetic as narrow as the column."""
    first, span = cast(low), cast(high - low)
    for r in range(np.uint64(rows)):
        outside[r] = add_if_outside(outside[r], codes[r], first, span, OUTSIDE)


@part
def _flag_block(columns: Any, box: Any, sizes: Any, start: int, outside: Bytes, rows: int) -> None:
    """Flag the rows of a block that are not in the box."""
    (places, bytes_each), (low, high) = columns, box
    for r in range(rows):
        outside[r] = 0
    for j in range(low.size):
        if low[j] > 0 or high[j] < sizes[j] - 1:
            at = places[j] + start * bytes_each[j]
            if bytes_each[j] == 1:
                _flag(pointer_to_uint8(at), np.uint8, low[j], high[j], outside, rows)
            elif bytes_each[j] == 2:
                _flag(pointer_to_uint16(at), np.uint16, low[j], high[j], outside, rows)
            else:
                _flag(pointer_to_uint32(at), np.uint32, low[j], high[j], outside, rows)


@kernel
def count_inside(columns: Any, box: Any, sizes: Any, rows: int) -> int:
    """How many rows lie in a box; ``columns`` are addresses and item sizes, ``sizes`` numbers of codes."""
    outside, inside = np.empty(BLOCK, np.uint8), 0
    for start in range(0, rows, BLOCK):
        many = min(BLOCK, rows - start)
        _flag_block(columns, box, sizes, start, outside, many)
        for r in range(many):
            inside += 1 - int(outside[r])
    return inside


@kernel
def count_inside_each(counts: Integers, columns: Any, boxes: Any, sizes: Any, rows: int) -> None:
    """Write how many rows lie in each of many boxes."""
    low, high = boxes
    for b in range(counts.size):
        counts[b] = count_inside(columns, (low[b], high[b]), sizes, rows)


@part
def _code(columns: Any, feature: int, row: int) -> int:
    places, bytes_each = columns
    if bytes_each[feature] == 1:
        return int(pointer_to_uint8(places[feature])[row])
    if bytes_each[feature] == 2:
        return int(pointer_to_uint16(places[feature])[row])
    return int(pointer_to_uint32(places[feature])[row])


@part
def _some_holds(columns: Any, bounds: Any, components: Words, row: int) -> bool:
    low, high = bounds
    for w in range(components.size):
        left = components[w]
        while left != ZERO:
            i = 64 * w + lowest(left)
            left &= left - ONE
            if low[i] <= _code(columns, i >> 1, row) <= high[i]:
                return True
    return False


@kernel
def some_hold_in_more(columns: Any, bounds: Any, sets: Words, rows: int, most: int) -> bool:
    """Whether there are more than ``most`` rows in which some component of every set holds; ``bounds`` are the codes
    that components admit.
    """
    many = 0
    for row in range(rows):
        place = 0
        while place < sets.shape[0] and _some_holds(columns, bounds, sets[place], row):
            place += 1
        many += 1 if place == sets.shape[0] else 0
        if many > most:
            return True
    return False


@kernel
def list_inside(found: Integers, columns: Any, box: Any, sizes: Any, rows: int) -> None:
    """Write which rows lie in a box; ``found`` has room for them and for one more."""
    outside, inside = np.empty(BLOCK, np.uint8), 0
    for start in range(0, rows, BLOCK):
        many = min(BLOCK, rows - start)
        _flag_block(columns, box, sizes, start, outside, many)
        for r in range(many):
            found[inside] = start + r
            inside += 1 - int(outside[r])
