"""The compiled half of :mod:`ironrule.rule.duals`: from columns of codes to distinct duals with counts.

A block of rows goes through three steps without leaving the caches. First, byte planes: four features share a plane,
two bits each. An interval test is one subtraction and one comparison, because `low <= c <= high` is
`c - low <= high - low` in unsigned arithmetic that wraps; on bytes a vector register tests 32 or 64 rows at once.
Second, eight planes side by side are a word of the row's dual. Third, the words are counted in a hash table with open
addressing, kept at most a quarter full: a wrong first guess costs more, as a mispredicted branch, than a larger table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.np.numpy_support import carray

from ironrule.rule.bit_kernels import (
    ONE,
    Bytes,
    Flags,
    Integers,
    Words,
    add_if_outside,
    kernel,
    pointer_to_uint8,
    pointer_to_uint16,
    pointer_to_uint32,
)

BLOCK = 4096
BITS = np.uint8(1) << np.arange(8, dtype=np.uint8)
SCATTER = np.uint64(0x9E3779B97F4A7C15)


@kernel
def _add_feature(codes: Any, low: Integers, high: Integers, j: int, plane: Bytes) -> None:
    """Put the two bits of one feature into its plane. The casts keep the arithmetic as narrow as the column."""
    code = codes.dtype.type
    low_a, span_a, bit_a = code(low[2 * j]), code(high[2 * j] - low[2 * j]), BITS[2 * (j % 4)]
    low_b, span_b, bit_b = code(low[2 * j + 1]), code(high[2 * j + 1] - low[2 * j + 1]), BITS[2 * (j % 4) + 1]
    for r in range(codes.size):
        byte = add_if_outside(plane[r], codes[r], low_a, span_a, bit_a)
        plane[r] = add_if_outside(byte, codes[r], low_b, span_b, bit_b)


@kernel
def _fill_planes(
    addresses: Integers, sizes: Integers, low: Integers, high: Integers, start: int, rows: int, planes: Any
) -> None:
    for p in range(planes.shape[0]):
        for r in range(rows):
            planes[p, r] = 0
    for j in range(addresses.size):
        at, plane = addresses[j] + start * sizes[j], planes[j // 4]
        if sizes[j] == 1:
            _add_feature(carray(pointer_to_uint8(at), rows), low, high, j, plane)
        elif sizes[j] == 2:
            _add_feature(carray(pointer_to_uint16(at), rows), low, high, j, plane)
        else:
            _add_feature(carray(pointer_to_uint32(at), rows), low, high, j, plane)


@kernel
def _join(planes: Any, word: Words, rows: int) -> None:
    """Four planes make the low half of a word, the next four, where there are any, its high half."""
    a, b, c, d = planes[0], planes[1], planes[2], planes[3]
    for r in range(rows):
        low = np.uint64(a[r]) | np.uint64(b[r]) << np.uint64(8)
        word[r] = low | np.uint64(c[r]) << np.uint64(16) | np.uint64(d[r]) << np.uint64(24)
    if planes.shape[0] > 4:
        a, b, c, d = planes[4], planes[5], planes[6], planes[7]
        for r in range(rows):
            low = np.uint64(a[r]) << np.uint64(32) | np.uint64(b[r]) << np.uint64(40)
            word[r] |= low | np.uint64(c[r]) << np.uint64(48) | np.uint64(d[r]) << np.uint64(56)


@kernel
def _keep(words: Any, wanted: Flags) -> int:
    """Move the wanted rows to the front, without a branch to mispredict."""
    kept = 0
    for r in range(wanted.size):
        for w in range(words.shape[0]):
            words[w, kept] = words[w, r]
        kept += int(wanted[r])
    return kept


@kernel
def _shift(slots: int) -> Any:
    bits = 0
    while 1 << bits < slots:
        bits += 1
    return np.uint64(64 - bits)


@kernel
def _count_single(keys: Words, counts: Integers, words: Words, rows: int) -> int:
    """Count duals of one word; return how many were new, not counting the empty dual, which equals an unused key.

    Unsigned positions spare a test for negative ones; a look at the count only where the key differs spares a load.
    """
    new, last, shift = 0, np.uint64(keys.size - 1), _shift(keys.size)
    for r in range(rows):
        word = words[r]
        slot = (word * SCATTER) >> shift
        while keys[slot] != word:
            if counts[slot] == 0:
                keys[slot] = word
                new += 1
                break
            slot = (slot + ONE) & last
        counts[slot] += 1
    return new


@kernel
def _slot_of(keys: Any, counts: Integers, words: Any, r: int, shift: Any) -> Any:
    """The slot of the dual in column r of `words`, or the free slot where it belongs."""
    width, last = words.shape[0], np.uint64(counts.size - 1)
    mixed = words[0, r] * SCATTER
    for w in range(1, width):
        mixed = (mixed ^ (mixed >> np.uint64(32)) ^ words[w, r]) * SCATTER
    slot = mixed >> shift
    while counts[slot] != 0:
        w = 0
        while w < width and keys[slot, w] == words[w, r]:
            w += 1
        if w == width:
            break
        slot = (slot + ONE) & last
    return slot


@kernel
def _count(keys: Any, counts: Integers, words: Any, rows: int, shift: Any) -> int:
    """Count duals of several words; return how many were new."""
    new = 0
    for r in range(rows):
        slot = _slot_of(keys, counts, words, r, shift)
        if counts[slot] == 0:
            new += 1
            for w in range(words.shape[0]):
                keys[slot, w] = words[w, r]
        counts[slot] += 1
    return new


@kernel
def add_counts(keys: Any, counts: Integers, more_keys: Any, more_counts: Integers) -> int:
    """Add another table to one that has room for it; return how many duals were new."""
    new, shift, words = 0, _shift(counts.size), more_keys.T
    for k in range(more_counts.size):
        if more_counts[k] != 0:
            slot = _slot_of(keys, counts, words, k, shift)
            new += int(counts[slot] == 0)
            for w in range(keys.shape[1]):
                keys[slot, w] = more_keys[k, w]
            counts[slot] += more_counts[k]
    return new


@kernel
def with_room(keys: Any, counts: Integers, used: Any, more: int) -> Any:
    """The table, or a larger copy, at most a quarter full now and half full after so many more."""
    slots = counts.size
    while slots < max(4 * used, 2 * (used + more)):
        slots *= 4
    if slots == counts.size:
        return keys, counts
    larger_keys, larger_counts = np.zeros((slots, keys.shape[1]), np.uint64), np.zeros(slots, np.int64)
    add_counts(larger_keys, larger_counts, keys, counts)
    return larger_keys, larger_counts


@kernel
def used_keys(keys: Any, counts: Integers) -> Any:
    """The duals in the table, in no particular order."""
    used = 0
    for slot in range(counts.size):
        used += int(counts[slot] != 0)
    found, k = np.empty((used, keys.shape[1]), np.uint64), 0
    for slot in range(counts.size):
        if counts[slot] != 0:
            for w in range(keys.shape[1]):
                found[k, w] = keys[slot, w]
            k += 1
    return found


@kernel
def look_up(keys: Any, counts: Integers, duals: Any) -> Integers:
    """The counts of duals that are in the table."""
    found, shift, words = np.empty(duals.shape[0], np.int64), _shift(counts.size), duals.T
    for k in range(found.size):
        found[k] = counts[_slot_of(keys, counts, words, k, shift)]
    return found


@kernel
def count_duals(
    addresses: Integers, sizes: Integers, low: Integers, high: Integers, wanted: Flags, start: int, stop: int
) -> Any:
    """The hash table (keys, counts) of the duals of rows [start, stop), and at most how many slots are in use."""
    width = (2 * addresses.size + 63) // 64
    planes = np.empty((4 if addresses.size <= 16 else 8 * width, BLOCK), np.uint8)
    words = np.empty((width, BLOCK), np.uint64)
    keys, counts, used = np.zeros((4 * BLOCK, width), np.uint64), np.zeros(4 * BLOCK, np.int64), np.int64(1)
    for first in range(start, stop, BLOCK):
        rows = min(BLOCK, stop - first)
        keys, counts = with_room(keys, counts, used, rows)
        _fill_planes(addresses, sizes, low, high, first, rows, planes)
        for w in range(width):
            _join(planes[8 * w : 8 * w + 8], words[w], rows)
        if wanted.size:
            rows = _keep(words, wanted[first : first + rows])
        if width == 1:
            used += _count_single(keys.reshape(-1), counts, words[0], rows)
        else:
            used += _count(keys, counts, words, rows, _shift(counts.size))
    return keys, counts, used


@kernel
def fill_duals(points: Any, low: Integers, high: Integers, bits: Any) -> None:
    """Write the dual of every row of a dense matrix of codes into `bits`, which must come zeroed."""
    for r in range(points.shape[0]):
        for i in range(low.size):
            code = points[r, i >> 1]
            outside = np.uint64(code < low[i]) | np.uint64(code > high[i])
            bits[r, i >> 6] |= outside << np.uint64(i & 63)
