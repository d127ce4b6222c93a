"""Duals: what a point of the space demands of a rule.

The dual of a point is the set of the instance's components that are false on it (Geng, Schleich and Suciu, "Computing
Rule-Based Explanations by Leveraging Counterfactuals", VLDB 2022). A rule excludes the point exactly if it contains one
of them. So a history of any length is, for one instance, its distinct duals with their counts, and a rule is consistent
exactly if it hits the inclusion-minimal ones. Once they are known no row is read again.

Every component is an interval of codes: component i, of feature i // 2, holds on code c if `low[i] <= c <= high[i]`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Thread
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.errors import InputError
from ironrule.rule.bit_kernels import Flags, Integers, Words
from ironrule.rule.bits import popcount, width
from ironrule.rule.cover_kernels import flag_hitters, flag_minimal, sum_uncovered
from ironrule.rule.dual_kernels import BLOCK, count_duals, fill_duals, merge_parts
from ironrule.rule.reduction_kernels import keep_minimal

ROWS_PER_WORKER = 100_000
ENTRIES_PER_WORKER = 20_000
FEW = 256  # sets that one simple kernel handles best
SLOT_BITS = 15  # of the hash table a thread counts in: with one word per dual, half a megabyte
CUT_BITS = 10  # runs can be cut into so many parts, by the leading bits of the hash
CODES = (np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.uint32))


@dataclass(frozen=True, slots=True)
class DistinctDuals:
    """The distinct duals of some rows and how many rows have each, in an order that only depends on the duals."""

    bits: Words
    counts: Integers

    @property
    def total(self) -> int:
        """The number of rows."""
        return int(self.counts.sum())


@dataclass(slots=True, eq=False)
class PastDuals:
    """The distinct duals of past rows, counted when somebody first asks: not every search needs them."""

    count: Callable[[], DistinctDuals]
    counted: DistinctDuals | None = None

    @property
    def bits(self) -> Words:
        """The duals."""
        return self._counted().bits

    @property
    def counts(self) -> Integers:
        """How many rows have each."""
        return self._counted().counts

    def _counted(self) -> DistinctDuals:
        if self.counted is None:
            self.counted = self.count()
        return self.counted


def distinct_duals(
    columns: Sequence[npt.NDArray[Any]],
    low: npt.ArrayLike,
    high: npt.ArrayLike,
    rows: npt.ArrayLike | None = None,
    workers: int | None = None,
) -> DistinctDuals:
    """The distinct duals of a history given by columns, in one pass over it.

    `rows` selects rows, by a flag for each or by positions. The answer does not depend on the number of threads, which
    is by default the number of processors, and one for short histories.

    >>> history = [np.array([0, 1, 2, 1], dtype=np.uint8)]
    >>> found = distinct_duals(history, low=[0, 1], high=[1, 2])  # F <= 1 and F >= 1
    >>> found.bits.ravel().tolist(), found.counts.tolist()
    ([0, 2, 1], [2, 1, 1])
    """
    lows, highs = _bounds(low, high, len(columns))
    wanted = np.empty(0, np.bool_)
    if rows is not None:
        wanted, columns = _select(columns, np.asarray(rows))
    kept = [_fit(column, lows[2 * j : 2 * j + 2]) for j, column in enumerate(columns)]
    length = _length(kept)
    addresses = np.array([column.ctypes.data for column in kept], np.int64)
    sizes = np.array([column.itemsize for column in kept], np.int64)
    limits = np.repeat([np.iinfo(column.dtype).max for column in kept], 2)
    pointers = (addresses, sizes, lows, np.minimum(highs, limits))
    return _counted(pointers, wanted, _parts(length, workers), (0,) * width(len(kept)))


def distinct_duals_of(points: npt.NDArray[Any], low: npt.ArrayLike, high: npt.ArrayLike) -> DistinctDuals:
    """The same for few rows, given as a dense matrix of codes.

    >>> found = distinct_duals_of(np.array([[0], [1], [2], [1]]), low=[0, 1], high=[1, 2])
    >>> found.bits.ravel().tolist(), found.counts.tolist()
    ([0, 1, 2], [2, 1, 1])
    """
    ordered = _sorted(duals_of(points, low, high))
    first = np.flatnonzero(_are_new(ordered))
    return DistinctDuals(ordered[first], np.diff(first, append=len(ordered)))


def duals_of(points: npt.NDArray[Any], low: npt.ArrayLike, high: npt.ArrayLike) -> Words:
    """The dual of every row of a dense (m, n) matrix of codes."""
    matrix = np.ascontiguousarray(points, dtype=np.int64)
    if matrix.ndim != 2:
        raise InputError(expected="points must be a matrix with one row per point", got=f"shape {matrix.shape}")
    lows, highs = _bounds(low, high, matrix.shape[1])
    bits = np.zeros((matrix.shape[0], width(matrix.shape[1])), np.uint64)
    fill_duals(matrix, lows, highs, bits)
    return bits


def minimal(bits: Words) -> Words:
    """The distinct inclusion-minimal rows, by size, then by value: a rule hits all rows exactly if it hits these."""
    if len(bits) <= FEW:
        few = _sorted(np.asarray(bits, dtype=np.uint64))
        return few[: keep_minimal(few)]
    rows = _distinct(np.asarray(bits, dtype=np.uint64))
    sizes = popcount(rows) if len(rows) else np.zeros(0, np.int64)
    order = np.argsort(sizes, kind="stable")
    rows = np.ascontiguousarray(rows[order])
    return rows[flag_minimal(rows, sizes[order])]


def uncovered_counts(rules: Words, duals: Words, counts: Integers) -> Integers:
    """Per rule, how many rows have a dual that it does not hit: the rows that satisfy the rule."""
    many = np.ascontiguousarray(duals.T)
    return sum_uncovered(np.ascontiguousarray(rules), many, np.ascontiguousarray(counts, dtype=np.int64))


def hits_all(rules: Words, duals: Words) -> Flags:
    """Per rule, whether it hits every dual."""
    return flag_hitters(np.ascontiguousarray(rules), np.ascontiguousarray(duals.T))


def _bounds(low: npt.ArrayLike, high: npt.ArrayLike, features: int) -> tuple[Integers, Integers]:
    width(features)
    lows, highs = np.asarray(low, dtype=np.int64), np.asarray(high, dtype=np.int64)
    if lows.shape != (2 * features,) or highs.shape != (2 * features,):
        raise InputError(
            expected=f"{features} features need {2 * features} lower and upper bounds",
            got=f"shapes {lows.shape} and {highs.shape}",
        )
    if (lows < 0).any() or (lows > highs).any():
        raise InputError("every component must be an interval of codes with 0 <= low <= high")
    return lows, highs


def _fit(column: npt.NDArray[Any], low: Integers) -> npt.NDArray[Any]:
    """The column as contiguous codes, in a type that can hold the lower bounds too."""
    if column.ndim != 1 or column.dtype not in CODES:
        raise InputError(
            expected="a column must be 1d uint8, uint16 or uint32 codes", got=f"{column.ndim}d {column.dtype}"
        )
    fitting = np.promote_types(column.dtype, np.min_scalar_type(int(low.max())))
    return np.ascontiguousarray(column, dtype=fitting)


def _length(columns: Sequence[npt.NDArray[Any]]) -> int:
    lengths = {len(column) for column in columns}
    if len(lengths) != 1:
        raise InputError(expected="all columns must have the same number of rows", got=sorted(lengths))
    return lengths.pop()


def _select(columns: Sequence[npt.NDArray[Any]], rows: npt.NDArray[Any]) -> tuple[Flags, Sequence[npt.NDArray[Any]]]:
    if rows.dtype != np.bool_:
        positions = rows.astype(np.int64) if rows.size == 0 else rows
        return np.empty(0, np.bool_), [column[positions] for column in columns]
    if rows.shape != (len(columns[0]),):
        raise InputError(expected=f"there must be one flag per row, {len(columns[0])}", got=f"shape {rows.shape}")
    return np.ascontiguousarray(rows), columns


def _parts(length: int, workers: int | None) -> list[tuple[int, int]]:
    """Ranges of rows, one per thread, that start at whole blocks."""
    most = max(1, length // ROWS_PER_WORKER)
    count = min(workers or os.cpu_count() or 1, most)
    step = -(-length // (count * BLOCK)) * BLOCK
    return [(first, min(first + step, length)) for first in range(0, length, step)] if length else [(0, 0)]


def _counted(pointers: Any, wanted: Flags, parts: list[tuple[int, int]], wide: tuple[int, ...]) -> DistinctDuals:
    """Count every part of the rows in a thread of its own, then merge the runs."""
    size, planes = len(wide) + 1, 4 if len(pointers[0]) <= 16 else 8 * len(wide)
    runs = np.empty((parts[-1][1] + len(parts)) * size, np.uint64)
    begins = [(first + t) * size for t, (first, _) in enumerate(parts)]  # emptying a table overwrites one entry more
    ends = [np.empty((stop - first) // BLOCK + 1, np.int64) for first, stop in parts]
    tallies = [np.zeros(len(end) << CUT_BITS, np.int64) for end in ends]
    works = [
        (np.empty(planes * BLOCK, np.uint8), np.zeros(len(wide) * BLOCK, np.uint64), _table(SLOT_BITS, wide))
        for _ in parts
    ]

    def count(t: int) -> int:
        first, stop, ours, begin = *parts[t], works[t], begins[t]
        return count_duals(
            pointers, wanted, first, stop, ours, SLOT_BITS, runs, begin, ends[t], tallies[t], CUT_BITS, wide
        )

    found = _in_threads(count, len(parts))
    stops = [end[:many] for end, many in zip(ends, found, strict=True)]
    starts = [np.append(begin, stop)[:-1] for begin, stop in zip(begins, stops, strict=True)]
    tally = np.concatenate([one[: many << CUT_BITS] for one, many in zip(tallies, found, strict=True)])
    return _merged(runs, np.concatenate(starts), tally.reshape(-1, 1 << CUT_BITS), len(parts), wide)


def _table(slot_bits: int, wide: tuple[int, ...]) -> Words:
    """An empty hash table, with room behind the last slot for the entries, half as many, that may want it."""
    return np.zeros(((3 << slot_bits >> 1) + 1) * (len(wide) + 1), np.uint64)


def _in_threads(work: Callable[[int], Any], count: int) -> list[Any]:
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


def _merged(runs: Words, starts: Integers, tally: Integers, workers: int, wide: tuple[int, ...]) -> DistinctDuals:
    """The runs merged, in parts of about as many hashes as fit into a table; neighbouring parts share a thread."""
    size, entries = len(wide) + 1, int(tally.sum())
    part_bits = min(CUT_BITS, (entries >> (SLOT_BITS - 1)).bit_length())
    sizes = tally.reshape(len(tally), 1 << part_bits, 1 << CUT_BITS - part_bits).sum(axis=2)
    cuts = np.cumsum(np.column_stack([starts, size * sizes]), axis=1)
    each = sizes.sum(axis=0)
    slot_bits = max(1, int(2 * each.max()).bit_length())
    before = np.append(0, np.cumsum(each))
    threads = min(workers, max(1, entries // ENTRIES_PER_WORKER))
    shares = [int(np.searchsorted(before, entries * t // threads)) for t in range(threads)] + [len(before) - 1]
    merged = np.empty((entries + threads) * size, np.uint64)
    firsts = [(int(before[share]) + t) * size for t, share in enumerate(shares[:-1])]
    tables = [_table(slot_bits, wide) for _ in firsts]

    def merge(t: int) -> int:
        share = shares[t], shares[t + 1]
        return merge_parts(runs, cuts, *share, part_bits, slot_bits, tables[t], merged, firsts[t], wide)

    lasts = _in_threads(merge, threads)
    found = [merged[a:b].reshape(-1, size) for a, b in zip(firsts, lasts, strict=True)]
    bits = np.concatenate([one[:, :-1] for one in found])
    return DistinctDuals(bits, np.concatenate([one[:, -1] for one in found]).astype(np.int64))


def _distinct(bits: Words) -> Words:
    ordered = _sorted(bits)
    return ordered[_are_new(ordered)]


def _are_new(ordered: Words) -> Flags:
    """Which rows differ from the one before."""
    new = np.ones(len(ordered), np.bool_)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return new


def _sorted(bits: Words) -> Words:
    """The rows in order, read as numbers whose last word is the most significant."""
    return np.sort(bits.reshape(-1)).reshape(-1, 1) if bits.shape[1] == 1 else bits[np.lexsort(bits.T)]
