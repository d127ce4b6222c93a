"""The compiled half of what :mod:`ironrule.rule.duals` asks of rules and duals: who hits whom, who contains whom.

All three kernels walk many sets against one, in chunks: within a chunk no branch, so that it vectorises; between chunks
an early exit. The many sets come transposed, (W, d), so that neighbours in memory are neighbours in the loop.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ironrule.rule.bit_kernels import ZERO, Flags, Integers, Words, kernel, part

CHUNK = 256


@part
def _common(one: Words, many: Any, start: int, stop: int, common: Words) -> None:
    """Nonzero where `one` meets the sets [start, stop) of `many`."""
    for k in range(stop - start):
        common[k] = ZERO
    for w in range(one.size):
        word, row = one[w], many[w, start:stop]
        for k in range(stop - start):
            common[k] |= word & row[k]


@kernel
def sum_uncovered(rules: Any, duals: Any, counts: Integers) -> Integers:
    """Per rule, the summed counts of the duals that it does not hit."""
    common, total = np.empty(CHUNK, np.uint64), np.zeros(rules.shape[0], np.int64)
    for start in range(0, counts.size, CHUNK):
        stop = min(start + CHUNK, counts.size)
        count = counts[start:stop]
        for m in range(rules.shape[0]):
            _common(rules[m], duals, start, stop, common)
            missed = np.int64(0)
            for k in range(stop - start):
                missed += count[k] if common[k] == ZERO else np.int64(0)
            total[m] += missed
    return total


@part
def _some_free(common: Words, size: int) -> bool:
    free = 0
    for k in range(size):
        free |= int(common[k] == ZERO)
    return free != 0


@part
def misses_one(one: Words, many: Any, size: Any, common: Words) -> bool:
    """Whether some set of the first `size` has nothing in common with `one`."""
    for start in range(0, size, CHUNK):
        stop = min(start + CHUNK, size)
        _common(one, many, start, stop, common)
        if _some_free(common, stop - start):
            return True
    return False


@kernel
def flag_hitters(rules: Any, duals: Any) -> Flags:
    """Per rule, whether it hits every dual."""
    common, hits = np.empty(CHUNK, np.uint64), np.empty(rules.shape[0], np.bool_)
    for m in range(rules.shape[0]):
        hits[m] = not misses_one(rules[m], duals, duals.shape[1], common)
    return hits


@kernel
def flag_minimal(sets: Any, sizes: Integers) -> Flags:
    """Which of the distinct sets, sorted by size, contain no other: those whose complement meets every smaller one."""
    kept, common = np.empty((sets.shape[1], sets.shape[0]), np.uint64), np.empty(CHUNK, np.uint64)
    minimal, rest = np.zeros(sets.shape[0], np.bool_), np.empty(sets.shape[1], np.uint64)
    found, smaller = np.int64(0), np.int64(0)
    for m in range(sets.shape[0]):
        if m and sizes[m] > sizes[m - 1]:
            smaller = found
        for w in range(sets.shape[1]):
            rest[w] = ~sets[m, w]
        if not misses_one(rest, kept, smaller, common):
            minimal[m] = True
            for w in range(sets.shape[1]):
                kept[w, found] = sets[m, w]
            found += 1
    return minimal
