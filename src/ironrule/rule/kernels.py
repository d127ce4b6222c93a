"""Compiled code on components: the codes that those of an instance admit, the boxes of rules, the duals of points, and
the past rows in a box. What a dual is, and how those of a long history are counted, is in :mod:`ironrule.rule.duals`.

Rows are tested in blocks: a block's flags stay in the caches while the columns that the box restricts pass by, and on
bytes a vector register tests 32 or 64 rows at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.arrays import AnyArray, Int64Array, UInt8Array, UInt64Array
from ironrule.errors import InputError
from ironrule.hitting.bits import count_words
from ironrule.jit import (
    ONE,
    ZERO,
    kernel,
    kernel_helper,
    lowest_bit,
    pointer_to_uint8,
    pointer_to_uint16,
    pointer_to_uint32,
    set_bit_if_outside,
)


@kernel
def fill_component_intervals(
    instance: Any, last: Int64Array, top: Int64Array, low: Int64Array, high: Int64Array, usable: UInt64Array
) -> None:
    """Write the codes that every component admits, and which components exclude any.

    ``last`` is the code of an ordered feature's last value and -1 for a nominal one, ``top`` the highest code.
    """
    for j in range(instance.size):
        code = instance[j]
        compared = code <= last[j]  # neither a category nor a missing value has an order
        # Component 2j is `F <= v`, or `F = v` where values have no order; 2j + 1 is `F >= v`, or admits every code.
        low[2 * j], high[2 * j] = (0 if compared else code), code
        low[2 * j + 1], high[2 * j + 1] = (code, last[j]) if compared else (0, top[j])
        # A component is usable if it admits fewer codes than there are.
        for bit in range(2 * j, 2 * j + 2):
            usable[bit >> 6] |= np.uint64(high[bit] - low[bit] < top[j]) << np.uint64(bit & 63)


@kernel
def fill_boxes(rules: UInt64Array, low: Int64Array, high: Int64Array, top: Int64Array, lows: Any, highs: Any) -> None:
    """Write the box of every rule, a row each: the codes that all of its components admit."""
    for r in range(rules.shape[0]):
        for j in range(top.size):
            lows[r, j], highs[r, j] = 0, top[j]
        # Narrow the whole space: intersect with the interval of every component in the rule.
        for bit in range(low.size):
            if (rules[r, bit >> 6] >> np.uint64(bit & 63)) & ONE:
                j = bit >> 1
                lows[r, j] = max(lows[r, j], low[bit])
                highs[r, j] = min(highs[r, j], high[bit])


@kernel
def fill_duals(points: Any, low: Int64Array, high: Int64Array, bits: Any) -> None:
    """Write the dual of every row of a dense matrix of codes into `bits`, which must come zeroed."""
    for r in range(points.shape[0]):
        # Bit i is set where component i, of feature i // 2, is false; arithmetic instead of a branch.
        for i in range(low.size):
            code = points[r, i >> 1]
            outside = np.uint64(code < low[i]) | np.uint64(code > high[i])
            bits[r, i >> 6] |= outside << np.uint64(i & 63)


def compute_duals(points: AnyArray, low: npt.ArrayLike, high: npt.ArrayLike) -> UInt64Array:
    """The dual of every row of a dense (m, n) matrix of codes."""
    matrix = np.ascontiguousarray(points, dtype=np.int64)
    if matrix.ndim != 2:
        raise InputError(expected="points must be a matrix with one row per point", got=f"shape {matrix.shape}")
    lows, highs = check_bounds(low, high, matrix.shape[1])
    bits = np.zeros((matrix.shape[0], count_words(matrix.shape[1])), np.uint64)
    fill_duals(matrix, lows, highs, bits)
    return bits


def check_bounds(low: npt.ArrayLike, high: npt.ArrayLike, features: int) -> tuple[Int64Array, Int64Array]:
    """The codes that components admit, as arrays; raises an InputError if they are no intervals."""
    count_words(features)
    lows, highs = np.asarray(low, dtype=np.int64), np.asarray(high, dtype=np.int64)
    if lows.shape != (2 * features,) or highs.shape != (2 * features,):
        raise InputError(
            expected=f"{features} features need {2 * features} lower and upper bounds",
            got=f"shapes {lows.shape} and {highs.shape}",
        )
    if (lows < 0).any() or (lows > highs).any():
        raise InputError("every component must be an interval of codes with 0 <= low <= high")
    return lows, highs


BLOCK = 4096
OUTSIDE_FLAG = np.uint8(1)


@kernel_helper
def _flag_outside(codes: Any, cast: Any, low: int, high: int, outside: UInt8Array, rows: int) -> None:
    """Flag the rows whose code is not from low to high. The casts keep the arithmetic as narrow as the column."""
    first, span = cast(low), cast(high - low)
    # One subtraction and one comparison per row: below `low` the unsigned difference wraps and exceeds the span.
    for r in range(np.uint64(rows)):
        outside[r] = set_bit_if_outside(outside[r], codes[r], first, span, OUTSIDE_FLAG)


@kernel_helper
def _flag_block_outside(columns: Any, box: Any, sizes: Any, start: int, outside: UInt8Array, rows: int) -> None:
    """Flag the rows of a block that are not in the box."""
    (places, bytes_each), (low, high) = columns, box
    for r in range(rows):
        outside[r] = 0
    # Only the features that the box restricts are read; the size of the items decides how.
    for j in range(low.size):
        if low[j] > 0 or high[j] < sizes[j] - 1:
            at = places[j] + start * bytes_each[j]
            if bytes_each[j] == 1:
                _flag_outside(pointer_to_uint8(at), np.uint8, low[j], high[j], outside, rows)
            elif bytes_each[j] == 2:
                _flag_outside(pointer_to_uint16(at), np.uint16, low[j], high[j], outside, rows)
            else:
                _flag_outside(pointer_to_uint32(at), np.uint32, low[j], high[j], outside, rows)


@kernel
def count_rows_inside(columns: Any, box: Any, sizes: Any, rows: int) -> int:
    """How many rows lie in a box; ``columns`` are addresses and item sizes, ``sizes`` numbers of codes."""
    outside, inside = np.empty(BLOCK, np.uint8), 0
    # Flags are 0 or 1, so the rows inside are counted without a branch.
    for start in range(0, rows, BLOCK):
        many = min(BLOCK, rows - start)
        _flag_block_outside(columns, box, sizes, start, outside, many)
        for r in range(many):
            inside += 1 - int(outside[r])
    return inside


@kernel
def count_rows_inside_each(counts: Int64Array, columns: Any, boxes: Any, sizes: Any, rows: int) -> None:
    """Write how many rows lie in each of many boxes."""
    low, high = boxes
    for b in range(counts.size):
        counts[b] = count_rows_inside(columns, (low[b], high[b]), sizes, rows)


@kernel_helper
def _read_code(columns: Any, feature: int, row: int) -> int:
    places, bytes_each = columns
    if bytes_each[feature] == 1:
        return int(pointer_to_uint8(places[feature])[row])
    if bytes_each[feature] == 2:
        return int(pointer_to_uint16(places[feature])[row])
    return int(pointer_to_uint32(places[feature])[row])


@kernel_helper
def _any_holds(columns: Any, bounds: Any, components: UInt64Array, row: int) -> bool:
    low, high = bounds
    for w in range(components.size):
        left = components[w]
        # Walk over the components of the set, the ones of the word.
        while left != ZERO:
            i = 64 * w + lowest_bit(left)
            left &= left - ONE
            if low[i] <= _read_code(columns, i >> 1, row) <= high[i]:
                return True
    return False


@kernel
def has_more_matching_rows(columns: Any, bounds: Any, sets: UInt64Array, rows: int, most: int) -> bool:
    """Whether there are more than ``most`` rows in which some component of every set holds; ``bounds`` are the codes
    that components admit.
    """
    many = 0
    # `place` walks over the sets until one has no component that holds; it reaches the end if the row matches all.
    for row in range(rows):
        place = 0
        while place < sets.shape[0] and _any_holds(columns, bounds, sets[place], row):
            place += 1
        many += 1 if place == sets.shape[0] else 0
        if many > most:
            return True
    return False


@kernel
def list_rows_inside(found: Int64Array, columns: Any, box: Any, sizes: Any, rows: int) -> None:
    """Write which rows lie in a box; ``found`` has room for them and for one more."""
    outside, inside = np.empty(BLOCK, np.uint8), 0
    for start in range(0, rows, BLOCK):
        many = min(BLOCK, rows - start)
        _flag_block_outside(columns, box, sizes, start, outside, many)
        # Every row is written to the next free place; if it is outside, the next one overwrites it. No branch, and
        # hence the room for one more.
        for r in range(many):
            found[inside] = start + r
            inside += 1 - int(outside[r])
