"""Duals: which components of a rule exclude a point of the space.

The dual of a point is the set of the instance's components that are false on it (Geng, Schleich and Suciu, "Computing
Rule-Based Explanations by Leveraging Counterfactuals", VLDB 2022). A rule excludes the point exactly if it contains one
of them. So a history of any length is, for one instance, its distinct duals with their counts, and a rule is consistent
exactly if it hits the inclusion-minimal ones. Once they are known no row is read again.

Every component is an interval of codes: component i, of feature i // 2, holds on code c if `low[i] <= c <= high[i]`.

How columns of codes become distinct duals with counts (the compiled half): a block of rows goes through three steps
without leaving the caches. First, byte planes: four features share a plane, two bits each. An interval test is one
subtraction and one comparison, because `low <= c <= high` is `c - low <= high - low` in unsigned arithmetic that wraps;
on bytes a vector register tests 32 or 64 rows at once. Second, eight planes side by side are a word of the row's dual.
Third, the words are counted in a hash table of fixed size with open addressing.

Whenever the table is a quarter full it is emptied into a run. A slot is the leading bits of the hash, so a run comes
out almost in the order of the hashes, and is soon sorted; on the way the entries of every range of hashes are tallied.
Afterwards the runs are merged, one range after the other. So no table outgrows the caches, threads share the work of
merging, and the order of the result, that of the hashes, does not depend on their number.

An entry, in a table or a run, is W words and a count; a slot is free if its count is zero. Arrays are flat and come
from the caller, which spares the compiler much of its time. `wide` is a tuple of W numbers: its length, unlike a
number, is known to the compiler, which therefore compiles once per W.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Thread
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.arrays import AnyArray, BoolArray, Int64Array, UInt8Array, UInt64Array
from ironrule.errors import InputError
from ironrule.hitting.bits import count_words
from ironrule.hitting.reduce import flag_hitting_sets, flag_new_sets, sort_sets, sum_unhit_counts
from ironrule.jit import (
    ONE,
    ZERO,
    kernel,
    kernel_helper,
    pointer_to_uint8,
    pointer_to_uint16,
    pointer_to_uint32,
    set_bit_if_outside,
)
from ironrule.rule.kernels import check_bounds, compute_duals

BLOCK_ROWS = 2048
HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
HALF_WORD = np.uint64(32)


@kernel_helper
def _add_feature(
    codes: Any, cast: Any, low: Int64Array, high: Int64Array, j: int, planes: UInt8Array, rows: int
) -> None:
    """Put the two bits of one feature into its plane. The casts keep the arithmetic as narrow as the column."""
    low_a, span_a, bit_a = cast(low[2 * j]), cast(high[2 * j] - low[2 * j]), np.uint8(1 << 2 * (j & 3))
    low_b, span_b, bit_b = cast(low[2 * j + 1]), cast(high[2 * j + 1] - low[2 * j + 1]), np.uint8(2 << 2 * (j & 3))
    plane = np.uint64((j >> 2) * BLOCK_ROWS)
    # Two interval tests per row, one for each component of the feature; a bit is set where the component is false.
    # Feature j has the bits 2 (j mod 4) and one more of plane j // 4.
    for r in range(np.uint64(rows)):
        byte = set_bit_if_outside(planes[plane + r], codes[r], low_a, span_a, bit_a)
        planes[plane + r] = set_bit_if_outside(byte, codes[r], low_b, span_b, bit_b)


@kernel_helper
def _join_planes(planes: UInt8Array, plane: int, word: int, words: UInt64Array, rows: int) -> None:
    """Four planes make the low half of a word, the next four, which exist beyond 16 features, its high half."""
    a, w = np.uint64(plane * BLOCK_ROWS), np.uint64(word * BLOCK_ROWS)
    b, c, d = a + np.uint64(BLOCK_ROWS), a + np.uint64(2 * BLOCK_ROWS), a + np.uint64(3 * BLOCK_ROWS)
    high = np.uint64(32 * (plane // 4 % 2))
    # Bytes of four planes side by side; the high half joins the low half, which the call before wrote.
    for r in range(np.uint64(rows)):
        half = np.uint64(planes[a + r]) | np.uint64(planes[b + r]) << np.uint64(8)
        half |= np.uint64(planes[c + r]) << np.uint64(16) | np.uint64(planes[d + r]) << np.uint64(24)
        words[w + r] = half << high | (words[w + r] if high else ZERO)


@kernel_helper
def fill_dual_words(columns: Any, start: int, rows: int, planes: UInt8Array, words: UInt64Array) -> None:
    """Write the duals of a block of rows: word w of row r at w * BLOCK_ROWS + r."""
    addresses, sizes, low, high = columns
    for r in range(planes.size):
        planes[r] = 0
    # Column by column: the size of its items decides how its memory is read, and so how many rows are tested at once.
    for j in range(addresses.size):
        at = addresses[j] + start * sizes[j]
        if sizes[j] == 1:
            _add_feature(pointer_to_uint8(at), np.uint8, low, high, j, planes, rows)
        elif sizes[j] == 2:
            _add_feature(pointer_to_uint16(at), np.uint16, low, high, j, planes, rows)
        else:
            _add_feature(pointer_to_uint32(at), np.uint32, low, high, j, planes, rows)
    for plane in range(0, planes.size // BLOCK_ROWS, 4):
        _join_planes(planes, plane, plane // 8, words, rows)


@kernel_helper
def _keep_wanted_rows(words: UInt64Array, width: int, wanted: BoolArray, start: int, rows: int) -> int:
    """Move the wanted rows to the front, without a branch to mispredict."""
    kept = 0
    # Every row is copied to the next free place; if it is not wanted, the place is not used up and the next row
    # overwrites it.
    for r in range(rows):
        for w in range(width):
            words[w * BLOCK_ROWS + kept] = words[w * BLOCK_ROWS + r]
        kept += int(wanted[start + r])
    return kept


@kernel_helper
def _hash(entries: UInt64Array, at: Any, step: Any, wide: Any) -> Any:
    # Multiplicative (Fibonacci) hashing: the leading bits of the product are the well mixed ones. With one word the
    # product is a bijection; with more, each step mixes the high half into the low one first.
    mixed = entries[at] * HASH_MULTIPLIER
    for w in range(1, len(wide)):
        mixed = (mixed ^ (mixed >> HALF_WORD) ^ entries[at + np.uint64(w) * step]) * HASH_MULTIPLIER
    return mixed


@kernel_helper
def _xor_entries(table: UInt64Array, slot: Any, entries: UInt64Array, at: Any, step: Any, wide: Any) -> Any:
    """Zero if the dual in the slot is that of the entry."""
    bits = table[slot] ^ entries[at]
    for w in range(1, len(wide)):
        bits |= table[slot + np.uint64(w)] ^ entries[at + np.uint64(w) * step]
    return bits


@kernel_helper
def _count_entries(
    table: UInt64Array,
    shared_bits: Any,
    slot_bits: int,
    few_new: Any,
    entries: UInt64Array,
    first: Any,
    row: Any,
    step: Any,
    many: int,
    wide: Any,
) -> int:
    """Add entries to the table, `row` apart, their words `step` apart; return how many duals were new.

    All entries share the leading bits of the hash; the next ones are the slot. Rows of a block, which are those with
    row = 1, count once each. Where new duals are rare, a guess that there is none is cheap; elsewhere a free slot and
    the right one are treated alike, without a branch to mispredict.
    """
    shared, shift, new = np.uint64(shared_bits), np.uint64(64 - slot_bits), 0
    width = np.uint64(len(wide))
    size = width + ONE
    # `shared` leading bits are shifted out, since they tell nothing apart here; the next `slot_bits` bits are the
    # slot.
    for k in range(many):
        at = first + np.uint64(k) * row
        more = ONE if row == ONE else entries[at + width]
        slot = ((_hash(entries, at, step, wide) << shared) >> shift) * size
        if few_new and _xor_entries(table, slot, entries, at, step, wide) == ZERO:
            new += int(table[slot + width] == ZERO)
            table[slot + width] += more
            continue
        # Linear probing: go on while the slot is taken (count not zero) by another dual (words differ). There is no
        # wrap to the front: the table has room behind its last slot.
        while min(_xor_entries(table, slot, entries, at, step, wide), table[slot + width]) != ZERO:
            slot += size
        # The words are written even where they are there already: cheaper than a branch.
        for w in range(len(wide)):
            table[slot + np.uint64(w)] = entries[at + np.uint64(w) * step]
        new += int(table[slot + width] == ZERO)
        table[slot + width] += more
    return new


@kernel_helper
def _flush_table(
    table: UInt64Array,
    slot_bits: int,
    runs: UInt64Array,
    start: Any,
    tally: Int64Array,
    first: int,
    bits: Any,
    wide: Any,
) -> Any:
    """Move all entries of the table to the end of the runs, sort them by hash and return the new end.

    How many entries have which leading bits of the hash, so many `bits`, is added to the tally, from `first` on.
    """
    width, end, at = np.uint64(len(wide)), start, ZERO
    size = width + ONE
    last = size << np.uint64(slot_bits)
    # Walk over all slots, and over the entries that overflowed behind the last one, up to a free slot. A free slot is
    # copied too, but `end` does not move, so the next entry overwrites it: no branch.
    while at < last or table[at + width] != ZERO:
        for w in range(len(wide) + 1):
            runs[end + np.uint64(w)] = table[at + np.uint64(w)]
        end += size * np.uint64(table[at + width] != ZERO)
        table[at + width] = ZERO
        at += size
    # Probing has moved entries a few places at most, so insertion sort takes few steps. `before` is the largest hash
    # so far. Shifted in two steps, because with no bits the shift would be by 64, which is undefined.
    before, at, shift = ZERO, start, np.uint64(63) - np.uint64(bits)
    while at < end:
        mixed = _hash(runs, at, ONE, wide)
        tally[first + np.int64((mixed >> ONE) >> shift)] += 1
        if mixed < before:
            _insert_sorted(runs, start, at, mixed, wide)
        else:
            before = mixed
        at += size
    return end


@kernel_helper
def _insert_sorted(runs: UInt64Array, start: Any, at: Any, mixed: Any, wide: Any) -> None:
    """Exchange an entry with those before it that have a larger hash."""
    size = np.uint64(len(wide) + 1)
    # Insertion step: everything before `at` is sorted by hash.
    while at > start and _hash(runs, at - size, ONE, wide) > mixed:
        for w in range(len(wide) + 1):
            here, there = at + np.uint64(w), at - size + np.uint64(w)
            runs[here], runs[there] = runs[there], runs[here]
        at -= size


@kernel
def count_duals(
    columns: Any,
    wanted: BoolArray,
    start: int,
    stop: int,
    work: Any,
    slot_bits: int,
    runs: UInt64Array,
    begin: int,
    ends: Int64Array,
    tally: Int64Array,
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
    # Block by block: compute the duals, drop unwanted rows, count the rest in the table. `used` slots are taken.
    for first in range(start, stop, BLOCK_ROWS):
        rows = min(BLOCK_ROWS, stop - first)
        fill_dual_words(columns, first, rows, planes, words)
        if wanted.size:
            rows = _keep_wanted_rows(words, len(wide), wanted, first, rows)
        new = _count_entries(
            table, np.int64(0), slot_bits, few_new, words, ZERO, ONE, np.uint64(BLOCK_ROWS), rows, wide
        )
        # The next block is probably like this one: if few duals were new, guess that there are none.
        few_new = 16 * new < rows
        used += new
        # A quarter full, or the last block: the table becomes a run, sorted by hash.
        if used > 1 << slot_bits >> 2 or first + BLOCK_ROWS >= stop:
            end = _flush_table(table, slot_bits, runs, end, tally, count << bits, bits, wide)
            ends[count] = np.int64(end)
            count, used = count + 1, 0
    return count


@kernel
def merge_hash_ranges(
    runs: UInt64Array,
    cuts: Any,
    first: int,
    stop: int,
    shared_bits: int,
    slot_bits: int,
    table: UInt64Array,
    merged: UInt64Array,
    start: int,
    wide: Any,
) -> int:
    """Write the parts [first, stop) of all runs, merged, from position `start` on; return where they end."""
    size, end, tally = len(wide) + 1, np.uint64(start), np.zeros(1, np.int64)
    # Range by range of hashes: count the entries of all runs in that range, then write them sorted. Ranges come in
    # rising order, so the whole result is sorted by hash.
    for p in range(first, stop):
        for k in range(cuts.shape[0]):
            at, many = np.uint64(cuts[k, p]), (cuts[k, p + 1] - cuts[k, p]) // size
            _count_entries(table, shared_bits, slot_bits, np.bool_(False), runs, at, np.uint64(size), ONE, many, wide)
        end = _flush_table(table, slot_bits, merged, end, tally, 0, np.int64(0), wide)
    return int(end)


ROWS_PER_WORKER = 100_000
ENTRIES_PER_WORKER = 20_000
SLOT_BITS = 15  # of the hash table a thread counts in: with one word per dual, half a megabyte
CUT_BITS = 10  # runs can be cut into so many parts, by the leading bits of the hash
CODE_TYPES = (np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.uint32))


@dataclass(frozen=True, slots=True)
class DistinctDuals:
    """The distinct duals of some rows and how many rows have each, in an order that only depends on the duals."""

    bits: UInt64Array
    counts: Int64Array

    @property
    def total(self) -> int:
        """The number of rows."""
        return int(self.counts.sum())


@dataclass(slots=True, eq=False)
class HistoryDuals:
    """The distinct duals of past rows, counted at first use: not every search needs them."""

    compute: Callable[[], DistinctDuals]
    cached: DistinctDuals | None = None

    @property
    def bits(self) -> UInt64Array:
        """The duals."""
        return self._resolve().bits

    @property
    def counts(self) -> Int64Array:
        """How many rows have each."""
        return self._resolve().counts

    def _resolve(self) -> DistinctDuals:
        if self.cached is None:
            self.cached = self.compute()
        return self.cached


def count_distinct_duals(
    columns: Sequence[AnyArray],
    low: npt.ArrayLike,
    high: npt.ArrayLike,
    rows: npt.ArrayLike | None = None,
    threads: int | None = None,
) -> DistinctDuals:
    """The distinct duals of a history given by columns, in one pass over it.

    `rows` selects rows, by a flag for each or by positions. The answer does not depend on the number of threads, which
    is by default the number of processors, and one for short histories.

    >>> history = [np.array([0, 1, 2, 1], dtype=np.uint8)]
    >>> found = count_distinct_duals(history, low=[0, 1], high=[1, 2])  # F <= 1 and F >= 1
    >>> found.bits.ravel().tolist(), found.counts.tolist()
    ([0, 2, 1], [2, 1, 1])
    """
    lows, highs = check_bounds(low, high, len(columns))
    wanted = np.empty(0, np.bool_)
    if rows is not None:
        wanted, columns = _select_rows(columns, np.asarray(rows))
    kept = [_fit_column(column, lows[2 * j : 2 * j + 2]) for j, column in enumerate(columns)]
    length = _check_lengths(kept)
    addresses = np.array([column.ctypes.data for column in kept], np.int64)
    sizes = np.array([column.itemsize for column in kept], np.int64)
    limits = np.repeat([np.iinfo(column.dtype).max for column in kept], 2)
    pointers = (addresses, sizes, lows, np.minimum(highs, limits))
    return _count_in_threads(pointers, wanted, _split_rows(length, threads), (0,) * count_words(len(kept)))


def count_distinct_point_duals(points: AnyArray, low: npt.ArrayLike, high: npt.ArrayLike) -> DistinctDuals:
    """The same for few rows, given as a dense matrix of codes.

    >>> found = count_distinct_point_duals(np.array([[0], [1], [2], [1]]), low=[0, 1], high=[1, 2])
    >>> found.bits.ravel().tolist(), found.counts.tolist()
    ([0, 1, 2], [2, 1, 1])
    """
    ordered = sort_sets(compute_duals(points, low, high))
    first = np.flatnonzero(flag_new_sets(ordered))
    return DistinctDuals(ordered[first], np.diff(first, append=len(ordered)))


def count_covered_rows(rules: UInt64Array, duals: UInt64Array, counts: Int64Array) -> Int64Array:
    """Per rule, how many rows have a dual that it does not hit: the rows that satisfy the rule."""
    many = np.ascontiguousarray(duals.T)
    return sum_unhit_counts(np.ascontiguousarray(rules), many, np.ascontiguousarray(counts, dtype=np.int64))


def hits_all(rules: UInt64Array, duals: UInt64Array) -> BoolArray:
    """Per rule, whether it hits every dual."""
    return flag_hitting_sets(np.ascontiguousarray(rules), np.ascontiguousarray(duals.T))


def _fit_column(column: AnyArray, low: Int64Array) -> AnyArray:
    """The column as contiguous codes, in a type that can hold the lower bounds too."""
    if column.ndim != 1 or column.dtype not in CODE_TYPES:
        rule = "a column must be 1d uint8, uint16 or uint32 codes"
        raise InputError(expected=rule, got=f"{column.ndim}d {column.dtype}")
    fitting = np.promote_types(column.dtype, np.min_scalar_type(int(low.max())))
    return np.ascontiguousarray(column, dtype=fitting)


def _check_lengths(columns: Sequence[AnyArray]) -> int:
    lengths = {len(column) for column in columns}
    if len(lengths) != 1:
        raise InputError(expected="all columns must have the same number of rows", got=sorted(lengths))
    return lengths.pop()


def _select_rows(columns: Sequence[AnyArray], rows: AnyArray) -> tuple[BoolArray, Sequence[AnyArray]]:
    if rows.dtype != np.bool_:
        positions = rows.astype(np.int64) if rows.size == 0 else rows
        return np.empty(0, np.bool_), [column[positions] for column in columns]
    if rows.shape != (len(columns[0]),):
        raise InputError(expected=f"there must be one flag per row, {len(columns[0])}", got=f"shape {rows.shape}")
    return np.ascontiguousarray(rows), columns


def _split_rows(length: int, workers: int | None) -> list[tuple[int, int]]:
    """Ranges of rows, one per thread, that start at whole blocks."""
    # Few rows are not worth a thread; the step is rounded up to whole blocks.
    most = max(1, length // ROWS_PER_WORKER)
    count = min(workers or os.cpu_count() or 1, most)
    step = -(-length // (count * BLOCK_ROWS)) * BLOCK_ROWS
    return [(first, min(first + step, length)) for first in range(0, length, step)] if length else [(0, 0)]


def _count_in_threads(
    pointers: Any, wanted: BoolArray, parts: list[tuple[int, int]], wide: tuple[int, ...]
) -> DistinctDuals:
    """Count every part of the rows in a thread of its own, then merge the runs."""
    size, planes = len(wide) + 1, 4 if len(pointers[0]) <= 16 else 8 * len(wide)
    # A thread has at most as many entries as rows, so all runs fit into one array, each thread in its own part.
    runs = np.empty((parts[-1][1] + len(parts)) * size, np.uint64)
    begins = [(first + t) * size for t, (first, _) in enumerate(parts)]  # emptying a table overwrites one entry more
    ends = [np.empty((stop - first) // BLOCK_ROWS + 1, np.int64) for first, stop in parts]
    tallies = [np.zeros(len(end) << CUT_BITS, np.int64) for end in ends]
    works = [
        (
            np.empty(planes * BLOCK_ROWS, np.uint8),
            np.zeros(len(wide) * BLOCK_ROWS, np.uint64),
            _allocate_table(SLOT_BITS, wide),
        )
        for _ in parts
    ]

    def count(t: int) -> int:
        first, stop, ours, begin = *parts[t], works[t], begins[t]
        return count_duals(
            pointers, wanted, first, stop, ours, SLOT_BITS, runs, begin, ends[t], tallies[t], CUT_BITS, wide
        )

    # Every thread left some runs: where each starts and ends, and its tally of hashes.
    found = _run_in_threads(count, len(parts))
    stops = [end[:many] for end, many in zip(ends, found, strict=True)]
    starts = [np.append(begin, stop)[:-1] for begin, stop in zip(begins, stops, strict=True)]
    tally = np.concatenate([one[: many << CUT_BITS] for one, many in zip(tallies, found, strict=True)])
    return _merge_runs(runs, np.concatenate(starts), tally.reshape(-1, 1 << CUT_BITS), len(parts), wide)


def _allocate_table(slot_bits: int, wide: tuple[int, ...]) -> UInt64Array:
    """An empty hash table, with room behind the last slot for the entries, half as many, that may want it."""
    return np.zeros(((3 << slot_bits >> 1) + 1) * (len(wide) + 1), np.uint64)


def _run_in_threads(work: Callable[[int], Any], count: int) -> list[Any]:
    """What `work` returns for 0, 1, ..., each in a thread, the first in this one."""
    answers: list[Any] = [None] * count

    def answer(t: int) -> None:
        answers[t] = work(t)

    threads = [Thread(target=answer, args=(t,)) for t in range(1, count)]
    for thread in threads:
        thread.start()
    answer(0)
    for thread in threads:
        thread.join()
    return answers


def _merge_runs(
    runs: UInt64Array, starts: Int64Array, tally: Int64Array, workers: int, wide: tuple[int, ...]
) -> DistinctDuals:
    """The runs merged, in parts of about as many hashes as fit into a table; neighbouring parts share a thread."""
    size, entries = len(wide) + 1, int(tally.sum())
    # As many ranges of hashes as it takes for one to fill about half a table, at most as many as were tallied.
    part_bits = min(CUT_BITS, (entries >> (SLOT_BITS - 1)).bit_length())
    sizes = tally.reshape(len(tally), 1 << part_bits, 1 << CUT_BITS - part_bits).sum(axis=2)
    # Run k has the entries of range p from `cuts[k, p]` to `cuts[k, p + 1]`, because it is sorted by hash.
    cuts = np.cumsum(np.column_stack([starts, size * sizes]), axis=1)
    each = sizes.sum(axis=0)
    slot_bits = max(1, int(2 * each.max()).bit_length())
    before = np.append(0, np.cumsum(each))
    # Threads share the ranges so that each merges about as many entries, and writes where those before it end at the
    # latest.
    threads = min(workers, max(1, entries // ENTRIES_PER_WORKER))
    shares = [int(np.searchsorted(before, entries * t // threads)) for t in range(threads)] + [len(before) - 1]
    merged = np.empty((entries + threads) * size, np.uint64)
    firsts = [(int(before[share]) + t) * size for t, share in enumerate(shares[:-1])]
    tables = [_allocate_table(slot_bits, wide) for _ in firsts]

    def merge(t: int) -> int:
        share = shares[t], shares[t + 1]
        return merge_hash_ranges(runs, cuts, *share, part_bits, slot_bits, tables[t], merged, firsts[t], wide)

    lasts = _run_in_threads(merge, threads)
    found = [merged[a:b].reshape(-1, size) for a, b in zip(firsts, lasts, strict=True)]
    bits = np.concatenate([one[:, :-1] for one in found])
    return DistinctDuals(bits, np.concatenate([one[:, -1] for one in found]).astype(np.int64))
