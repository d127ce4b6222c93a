"""Reduce a family of sets: keep the inclusion-minimal ones, and drop elements that others can replace.

A set hits all sets of a family exactly if it hits the minimal ones, so sets that contain another go. An element that a
no heavier one can replace in every set goes too. A hitting-set problem is reduced by both until neither applies; all in
one kernel, because the problems of decision trees are so small that a dozen array operations take longer than their
solution.

The kernels walk many sets against one, in chunks: within a chunk no branch, so that it vectorises; between chunks an
early exit. The many sets come transposed, (W, d), so that neighbours in memory are neighbours in the loop.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, Int64Array, UInt64Array
from ironrule.jit import ONE, ZERO, kernel, kernel_helper, lowest_bit, popcount

SETS_PER_CHUNK = 256


@kernel_helper
def _intersect(one: UInt64Array, many: Any, start: int, stop: int, common: UInt64Array) -> None:
    """Nonzero where `one` meets the sets [start, stop) of `many`."""
    for k in range(stop - start):
        common[k] = ZERO
    # Word by word, so that the inner loop runs over neighbours in memory and vectorises.
    for w in range(one.size):
        word, row = one[w], many[w, start:stop]
        for k in range(stop - start):
            common[k] |= word & row[k]


@kernel
def sum_unhit_counts(rules: Any, duals: Any, counts: Int64Array) -> Int64Array:
    """Per rule, the summed counts of the duals that it does not hit."""
    common, total = np.empty(SETS_PER_CHUNK, np.uint64), np.zeros(rules.shape[0], np.int64)
    # Chunk by chunk, so that the duals of a chunk stay in the caches while all rules pass by. A rule misses a dual
    # exactly if they have no element in common.
    for start in range(0, counts.size, SETS_PER_CHUNK):
        stop = min(start + SETS_PER_CHUNK, counts.size)
        count = counts[start:stop]
        for m in range(rules.shape[0]):
            _intersect(rules[m], duals, start, stop, common)
            missed = np.int64(0)
            for k in range(stop - start):
                missed += count[k] if common[k] == ZERO else np.int64(0)
            total[m] += missed
    return total


@kernel_helper
def _has_unhit(common: UInt64Array, size: int) -> bool:
    free = 0
    # No early exit within a chunk: a loop without branches vectorises.
    for k in range(size):
        free |= int(common[k] == ZERO)
    return free != 0


@kernel_helper
def misses_any(one: UInt64Array, many: Any, size: Any, common: UInt64Array) -> bool:
    """Whether some set of the first `size` has nothing in common with `one`."""
    for start in range(0, size, SETS_PER_CHUNK):
        stop = min(start + SETS_PER_CHUNK, size)
        _intersect(one, many, start, stop, common)
        if _has_unhit(common, stop - start):
            return True
    return False


@kernel
def flag_hitting_sets(rules: Any, duals: Any) -> BoolArray:
    """Per rule, whether it hits every dual."""
    common, hits = np.empty(SETS_PER_CHUNK, np.uint64), np.empty(rules.shape[0], np.bool_)
    for m in range(rules.shape[0]):
        hits[m] = not misses_any(rules[m], duals, duals.shape[1], common)
    return hits


@kernel
def flag_minimal_sets(sets: Any, sizes: Int64Array) -> BoolArray:
    """Which of the distinct sets, sorted by size, contain no other: those whose complement meets every smaller one."""
    kept, common = np.empty((sets.shape[1], sets.shape[0]), np.uint64), np.empty(SETS_PER_CHUNK, np.uint64)
    minimal, rest = np.zeros(sets.shape[0], np.bool_), np.empty(sets.shape[1], np.uint64)
    found, smaller = np.int64(0), np.int64(0)
    # `kept` holds the minimal sets so far, `found` of them, the first `smaller` of which are smaller than set m. A
    # set of the same size is not contained in it, because the sets are distinct.
    for m in range(sets.shape[0]):
        if m and sizes[m] > sizes[m - 1]:
            smaller = found
        for w in range(sets.shape[1]):
            rest[w] = ~sets[m, w]
        # A kept set lies inside set m exactly if it does not meet the complement.
        if not misses_any(rest, kept, smaller, common):
            minimal[m] = True
            for w in range(sets.shape[1]):
                kept[w, found] = sets[m, w]
            found += 1
    return minimal


@kernel_helper
def _sort_by_size(rows: UInt64Array, count: int, ordered: UInt64Array, ends: Int64Array) -> None:
    """Copy the first rows in order of size, equal ones in the order they come."""
    # Counting sort. After the sums, `ends[s]` is where the sets of size s begin; it moves on with every copy.
    for size in range(ends.size):
        ends[size] = 0
    for r in range(count):
        ends[_count_row_bits(rows, r) + 1] += 1
    for size in range(1, ends.size):
        ends[size] += ends[size - 1]
    for r in range(count):
        size = _count_row_bits(rows, r)
        for w in range(rows.shape[1]):
            ordered[ends[size], w] = rows[r, w]
        ends[size] += 1


@kernel_helper
def _count_row_bits(rows: UInt64Array, row: int) -> int:
    size = ZERO
    for w in range(rows.shape[1]):
        size += popcount(rows[row, w])
    return int(size)


@kernel_helper
def _move_minimal_first(
    rows: UInt64Array, count: int, ordered: UInt64Array, kept: UInt64Array, ends: Int64Array, common: UInt64Array
) -> int:
    """Move the distinct minimal sets among the first rows to the front, by size; return how many there are."""
    _sort_by_size(rows, count, ordered, ends)
    width, found = rows.shape[1], np.int64(0)
    # The last row of `ordered` is spare: room for a complement.
    rest = ordered[ordered.shape[0] - 1]
    # By rising size, so that a set can only contain those before it. It goes if a kept set lies inside it, that is,
    # does not meet its complement; of equal sets the first stays.
    for r in range(count):
        for w in range(width):
            rest[w] = ~ordered[r, w]
        if not misses_any(rest, kept, found, common):
            for w in range(width):
                kept[w, found] = rows[found, w] = ordered[r, w]
            found += 1
    return int(found)


@kernel_helper
def _allocate_minimal_workspace(rows: int, width: int) -> Any:
    """What :func:`_move_minimal_first` works on, for so many rows of so many words."""
    ordered, kept = np.empty((rows + 1, width), np.uint64), np.empty((width, rows), np.uint64)
    return ordered, kept, np.empty(64 * width + 2, np.int64), np.empty(SETS_PER_CHUNK, np.uint64)


@kernel
def move_minimal_first(rows: UInt64Array) -> int:
    """Move the distinct minimal rows to the front, by size, then in the order they come; return how many there are."""
    ordered, kept, ends, common = _allocate_minimal_workspace(rows.shape[0], rows.shape[1])
    return _move_minimal_first(rows, rows.shape[0], ordered, kept, ends, common)


@kernel_helper
def _list_hit_rows(rows: UInt64Array, count: int, members: Int64Array, hit: UInt64Array, words: int) -> int:
    """List the elements that occur, and the rows that each hits, ``words`` words each; how many elements there are."""
    found = 0
    # 64 elements at a time: the ones of `union` are those that occur in some row.
    for w in range(rows.shape[1]):
        union = ZERO
        for r in range(count):
            union |= rows[r, w]
        while union != ZERO:
            element = lowest_bit(union)
            union &= union - ONE
            members[found] = 64 * w + element
            for k in range(words):
                hit[found * words + k] = ZERO
            # Transpose: bit r of the element is its bit in row r.
            for r in range(count):
                hit[found * words + (r >> 6)] |= ((rows[r, w] >> np.uint64(element)) & ONE) << np.uint64(r & 63)
            found += 1
    return found


@kernel_helper
def _is_replaceable(hit: UInt64Array, words: int, one: int, other: int) -> bool:
    # `left` are the rows that `one` hits and `other` does not.
    left = ZERO
    for k in range(words):
        left |= hit[one * words + k] & ~hit[other * words + k]
    return bool(left == ZERO)


@kernel_helper
def _drop_replaceable(
    rows: UInt64Array, count: int, members: Int64Array, size: int, hit: UInt64Array, words: int, weights: Float64Array
) -> bool:
    """Remove elements that another, no heavier one can replace everywhere; return whether there were any.

    Of elements that can replace each other the last stays.
    """
    dropped = False
    # Dominance between elements: a goes if some b, still there and no heavier, hits every row that a hits. In any
    # hitting set b can then stand in for a, so the least weight does not change.
    for a in range(size):
        for b in range(size):
            if a == b or members[b] < 0 or weights[members[b]] > weights[members[a]]:
                continue
            if _is_replaceable(hit, words, a, b):
                for r in range(count):
                    rows[r, members[a] >> 6] &= ~(ONE << np.uint64(members[a] & 63))
                members[a] = -1
                dropped = True
                break
    return dropped


@kernel_helper
def _reduce_rows(
    rows: UInt64Array, minimal: bool, weights: Float64Array, members: Int64Array, hit: UInt64Array
) -> tuple[int, int]:
    """Reduce the rows in place, and write the elements left and which rows each hits; how many of both are left."""
    ordered, kept, ends, common = _allocate_minimal_workspace(rows.shape[0], rows.shape[1])
    count, size, changed = rows.shape[0], 0, True
    # Each reduction makes room for the other: repeat until no element is dropped. Only the first trusts `minimal`.
    while changed:
        if not minimal:
            count = _move_minimal_first(rows, count, ordered, kept, ends, common)
        minimal = False
        words = (count + 63) >> 6
        size = _list_hit_rows(rows, count, members, hit, words)
        changed = _drop_replaceable(rows, count, members, size, hit, words, weights)
    return size, count


@kernel_helper
def _list_elements(
    rows: UInt64Array, count: int, members: Int64Array, size: int, starts: Int64Array, elements: Int64Array
) -> int:
    """Write which elements each row has; how many in all."""
    place = 0
    # Row r has the elements from `starts[r]` to `starts[r + 1]`, by their new numbers.
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
    rows: UInt64Array,
    minimal: bool,
    weights: Float64Array,
    members: Int64Array,
    hit: UInt64Array,
    starts: Int64Array,
    elements: Int64Array,
) -> tuple[int, int, int]:
    """Reduce the rows in place; write the elements left, which rows each hits and which elements each row has. How many
    elements and rows are left, and how many entries the last list has.

    ``minimal`` says that no row contains another to begin with.
    """
    size, count = _reduce_rows(rows, minimal, weights, members, hit)
    return size, count, _list_elements(rows, count, members, size, starts, elements)


FEW_SETS = 256  # sets that one simple kernel handles best


def find_minimal_sets(bits: UInt64Array) -> UInt64Array:
    """The distinct inclusion-minimal rows, by size, then by value: a rule hits all rows exactly if it hits these."""
    if len(bits) <= FEW_SETS:
        few = sort_sets(np.asarray(bits, dtype=np.uint64))
        return few[: move_minimal_first(few)]
    # Many sets: sorted and made distinct by NumPy first, then by size, which the kernel expects.
    ordered = sort_sets(np.asarray(bits, dtype=np.uint64))
    rows = ordered[flag_new_sets(ordered)]
    sizes = count_bits(rows)
    order = np.argsort(sizes, kind="stable")
    rows = np.ascontiguousarray(rows[order])
    return rows[flag_minimal_sets(rows, sizes[order])]


def flag_new_sets(ordered: UInt64Array) -> BoolArray:
    """Which rows differ from the one before."""
    new = np.ones(len(ordered), np.bool_)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return new


def sort_sets(bits: UInt64Array) -> UInt64Array:
    """The rows in order, read as numbers whose last word is the most significant."""
    return np.sort(bits.reshape(-1)).reshape(-1, 1) if bits.shape[1] == 1 else bits[np.lexsort(bits.T)]


@kernel
def _count_bits_per_row(words: UInt64Array) -> Int64Array:
    """The number of ones per row."""
    counts = np.zeros(words.shape[0], np.int64)
    for r in range(words.shape[0]):
        for w in range(words.shape[1]):
            counts[r] += int(popcount(words[r, w]))
    return counts


def count_bits(words: UInt64Array) -> Int64Array:
    """The number of components in every row."""
    return _count_bits_per_row(np.ascontiguousarray(np.atleast_2d(words), dtype=np.uint64))
