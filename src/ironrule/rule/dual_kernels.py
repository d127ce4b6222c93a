"""The compiled half of :mod:`ironrule.rule.duals`: from columns of codes to distinct duals with counts.

A block of rows goes through three steps without leaving the caches. First, byte planes: four features share a plane,
two bits each. An interval test is one subtraction and one comparison, because `low <= c <= high` is
`c - low <= high - low` in unsigned arithmetic that wraps; on bytes a vector register tests 32 or 64 rows at once.
Second, eight planes side by side are a word of the row's dual. Third, the words are counted in a hash table of fixed
size with open addressing.

Whenever the table is a quarter full it is emptied into a run. A slot is the leading bits of the hash, so a run comes
out almost in the order of the hashes, and is soon sorted; on the way the entries of every range of hashes are tallied.
Afterwards the runs are merged, one range after the other. So no table outgrows the caches, threads share the work of
merging, and the order of the result, that of the hashes, does not depend on their number.

An entry, in a table or a run, is W words and a count; a slot is free if its count is zero. Arrays are flat and come
from the caller, which spares the compiler much of its time. `wide` is a tuple of W numbers: its length, unlike a
number, is known to the compiler, which therefore compiles once per W.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ironrule.rule.bit_kernels import (
    ONE,
    ZERO,
    Bytes,
    Flags,
    Integers,
    Words,
    add_if_outside,
    kernel,
    part,
    pointer_to_uint8,
    pointer_to_uint16,
    pointer_to_uint32,
)

BLOCK = 2048
SCATTER = np.uint64(0x9E3779B97F4A7C15)
HALF = np.uint64(32)


@part
def _add_feature(codes: Any, cast: Any, low: Integers, high: Integers, j: int, planes: Bytes, rows: int) -> None:
    """Put the two bits of one feature into its plane. The casts keep the arithmetic as narrow as the column."""
    low_a, span_a, bit_a = cast(low[2 * j]), cast(high[2 * j] - low[2 * j]), np.uint8(1 << 2 * (j & 3))
    low_b, span_b, bit_b = cast(low[2 * j + 1]), cast(high[2 * j + 1] - low[2 * j + 1]), np.uint8(2 << 2 * (j & 3))
    plane = np.uint64((j >> 2) * BLOCK)
    for r in range(np.uint64(rows)):
        byte = add_if_outside(planes[plane + r], codes[r], low_a, span_a, bit_a)
        planes[plane + r] = add_if_outside(byte, codes[r], low_b, span_b, bit_b)


@part
def _join(planes: Bytes, plane: int, word: int, words: Words, rows: int) -> None:
    """Four planes make the low half of a word, the next four, which exist beyond 16 features, its high half."""
    a, w = np.uint64(plane * BLOCK), np.uint64(word * BLOCK)
    b, c, d = a + np.uint64(BLOCK), a + np.uint64(2 * BLOCK), a + np.uint64(3 * BLOCK)
    high = np.uint64(32 * (plane // 4 % 2))
    for r in range(np.uint64(rows)):
        half = np.uint64(planes[a + r]) | np.uint64(planes[b + r]) << np.uint64(8)
        half |= np.uint64(planes[c + r]) << np.uint64(16) | np.uint64(planes[d + r]) << np.uint64(24)
        words[w + r] = half << high | (words[w + r] if high else ZERO)


@part
def fill_words(columns: Any, start: int, rows: int, planes: Bytes, words: Words) -> None:
    """Write the duals of a block of rows: word w of row r at w * BLOCK + r."""
    addresses, sizes, low, high = columns
    for r in range(planes.size):
        planes[r] = 0
    for j in range(addresses.size):
        at = addresses[j] + start * sizes[j]
        if sizes[j] == 1:
            _add_feature(pointer_to_uint8(at), np.uint8, low, high, j, planes, rows)
        elif sizes[j] == 2:
            _add_feature(pointer_to_uint16(at), np.uint16, low, high, j, planes, rows)
        else:
            _add_feature(pointer_to_uint32(at), np.uint32, low, high, j, planes, rows)
    for plane in range(0, planes.size // BLOCK, 4):
        _join(planes, plane, plane // 8, words, rows)


@part
def _keep(words: Words, width: int, wanted: Flags, start: int, rows: int) -> int:
    """Move the wanted rows to the front, without a branch to mispredict."""
    kept = 0
    for r in range(rows):
        for w in range(width):
            words[w * BLOCK + kept] = words[w * BLOCK + r]
        kept += int(wanted[start + r])
    return kept


@part
def _hash(entries: Words, at: Any, step: Any, wide: Any) -> Any:
    mixed = entries[at] * SCATTER
    for w in range(1, len(wide)):
        mixed = (mixed ^ (mixed >> HALF) ^ entries[at + np.uint64(w) * step]) * SCATTER
    return mixed


@part
def _differ(table: Words, slot: Any, entries: Words, at: Any, step: Any, wide: Any) -> Any:
    """Zero if the dual in the slot is that of the entry."""
    bits = table[slot] ^ entries[at]
    for w in range(1, len(wide)):
        bits |= table[slot + np.uint64(w)] ^ entries[at + np.uint64(w) * step]
    return bits


@part
def _count(
    table: Words,
    shared_bits: Any,
    slot_bits: int,
    few_new: Any,
    entries: Words,
    first: Any,
    row: Any,
    step: Any,
    many: int,
    wide: Any,
) -> int:
    """Add entries to the table, `row` apart, their words `step` apart; return how many duals were new.

    All entries share the leading bits of the hash; the next ones are the slot. Rows of a block, which are those with
    row = 1, count once each. Where new duals are rare, a guess that there is none is
    cheap; elsewhere a free slot and the right one are treated alike, without a branch to mispredict.
    """
    shared, shift, new = np.uint64(shared_bits), np.uint64(64 - slot_bits), 0
    width = np.uint64(len(wide))
    size = width + ONE
    for k in range(many):
        at = first + np.uint64(k) * row
        more = ONE if row == ONE else entries[at + width]
        slot = ((_hash(entries, at, step, wide) << shared) >> shift) * size
        if few_new and _differ(table, slot, entries, at, step, wide) == ZERO:
            new += int(table[slot + width] == ZERO)
            table[slot + width] += more
            continue
        while min(_differ(table, slot, entries, at, step, wide), table[slot + width]) != ZERO:
            slot += size
        for w in range(len(wide)):
            table[slot + np.uint64(w)] = entries[at + np.uint64(w) * step]
        new += int(table[slot + width] == ZERO)
        table[slot + width] += more
    return new


@part
def _empty(
    table: Words, slot_bits: int, runs: Words, start: Any, tally: Integers, first: int, bits: Any, wide: Any
) -> Any:
    """Move all entries of the table to the end of the runs, sort them by hash and return the new end.

    How many entries have which leading bits of the hash, so many `bits`, is added to the tally, from `first` on.
    """
    width, end, at = np.uint64(len(wide)), start, ZERO
    size = width + ONE
    last = size << np.uint64(slot_bits)
    while at < last or table[at + width] != ZERO:
        for w in range(len(wide) + 1):
            runs[end + np.uint64(w)] = table[at + np.uint64(w)]
        end += size * np.uint64(table[at + width] != ZERO)
        table[at + width] = ZERO
        at += size
    before, at, shift = ZERO, start, np.uint64(63) - np.uint64(bits)
    while at < end:
        mixed = _hash(runs, at, ONE, wide)
        tally[first + np.int64((mixed >> ONE) >> shift)] += 1
        if mixed < before:
            _sink(runs, start, at, mixed, wide)
        else:
            before = mixed
        at += size
    return end


@part
def _sink(runs: Words, start: Any, at: Any, mixed: Any, wide: Any) -> None:
    """Exchange an entry with those before it that have a larger hash."""
    size = np.uint64(len(wide) + 1)
    while at > start and _hash(runs, at - size, ONE, wide) > mixed:
        for w in range(len(wide) + 1):
            here, there = at + np.uint64(w), at - size + np.uint64(w)
            runs[here], runs[there] = runs[there], runs[here]
        at -= size


@kernel
def count_duals(
    columns: Any,
    wanted: Flags,
    start: int,
    stop: int,
    work: Any,
    slot_bits: int,
    runs: Words,
    begin: int,
    ends: Integers,
    tally: Integers,
    bits: int,
    wide: Any,
) -> int:
    """Write the runs of rows [start, stop), from position `begin` on, and where each ends; return how many there are.

    Of run k, the number of entries whose hash begins with the `bits` bits p is added to tally[(k << bits) + p].
    `columns` are the addresses, item sizes and bounds, `work` are planes, words and an empty table.
    """
    planes, words, table = work
    few_new: Any = np.bool_(False)  # not a literal, for which parts would be compiled once more
    used, count, end = 0, 0, np.uint64(begin)
    for first in range(start, stop, BLOCK):
        rows = min(BLOCK, stop - first)
        fill_words(columns, first, rows, planes, words)
        if wanted.size:
            rows = _keep(words, len(wide), wanted, first, rows)
        new = _count(table, np.int64(0), slot_bits, few_new, words, ZERO, ONE, np.uint64(BLOCK), rows, wide)
        few_new = 16 * new < rows
        used += new
        if used > 1 << slot_bits >> 2 or first + BLOCK >= stop:
            end = _empty(table, slot_bits, runs, end, tally, count << bits, bits, wide)
            ends[count] = np.int64(end)
            count, used = count + 1, 0
    return count


@kernel
def merge_parts(
    runs: Words,
    cuts: Any,
    first: int,
    stop: int,
    shared_bits: int,
    slot_bits: int,
    table: Words,
    merged: Words,
    start: int,
    wide: Any,
) -> int:
    """Write the parts [first, stop) of all runs, merged, from position `start` on; return where they end."""
    size, end, tally = len(wide) + 1, np.uint64(start), np.zeros(1, np.int64)
    for p in range(first, stop):
        for k in range(cuts.shape[0]):
            at, many = np.uint64(cuts[k, p]), (cuts[k, p + 1] - cuts[k, p]) // size
            _count(table, shared_bits, slot_bits, np.bool_(False), runs, at, np.uint64(size), ONE, many, wide)
        end = _empty(table, slot_bits, merged, end, tally, 0, np.int64(0), wide)
    return int(end)


@kernel
def fill_duals(points: Any, low: Integers, high: Integers, bits: Any) -> None:
    """Write the dual of every row of a dense matrix of codes into `bits`, which must come zeroed."""
    for r in range(points.shape[0]):
        for i in range(low.size):
            code = points[r, i >> 1]
            outside = np.uint64(code < low[i]) | np.uint64(code > high[i])
            bits[r, i >> 6] |= outside << np.uint64(i & 63)
