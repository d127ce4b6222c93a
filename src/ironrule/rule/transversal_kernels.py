"""The compiled half of :func:`ironrule.rule.hitting.minimal_hitting_sets`: MMCS.

Murakami and Uno (2014) grow a set S one element at a time and keep it minimal on the way: every member must be the only
one that hits some dual. They branch on an open dual with fewest candidates; a child that takes one of its elements may
use later those that come before it, not those after it, so that no set is met twice.

Here the duals that S hits, and those that it hits exactly once, are two bit sets per level; the duals that need member
i are then `hit[i] & once`, and going back up costs nothing. To prefer small sets when there are too many, the search is
repeated with size 0, 1, 2, ... and only sets of that size counted; pairwise disjoint open duals bound the size from
below.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ironrule.rule.bit_kernels import ONE, ZERO, Flags, Integers, Words, kernel, lowest, part

ALL_SIZES = -1


@part
def _needed(hit: Any, chosen: Integers, size: Any, once: Words) -> bool:
    """Whether every member is the only one to hit some dual."""
    for c in range(size):
        k = 0
        while k < once.size and hit[chosen[c], k] & once[k] == ZERO:
            k += 1
        if k == once.size:
            return False
    return True


@part
def _choose(starts: Integers, elements: Integers, covered: Words, allowed: Flags, used: Flags) -> Any:
    """An open dual with fewest candidates (-1 if none is open), how many, and the size of a disjoint family."""
    d, pick, fewest, family = starts.size - 1, -1, elements.size + 1, 0
    for i in range(used.size):
        used[i] = False
    for k in range(covered.size):
        word = ~covered[k]
        while word != ZERO:
            e = 64 * k + lowest(word)
            word &= word - ONE
            if e >= d:
                break
            size, free = 0, True
            for p in range(starts[e], starts[e + 1]):
                size += 1 if allowed[elements[p]] else 0
                free &= not (allowed[elements[p]] and used[elements[p]])
            if size < fewest:
                pick, fewest = e, size
            if free:
                family += 1
                for p in range(starts[e], starts[e + 1]):
                    used[elements[p]] |= allowed[elements[p]]
    return pick, fewest, family


@part
def _doubled(found: Any) -> Any:
    larger = np.zeros((2 * found.shape[0], found.shape[1]), np.bool_)
    for r in range(found.shape[0]):
        for i in range(found.shape[1]):
            larger[r, i] = found[r, i]
    return larger


@kernel
def _search(sides: Any, exact: int, found: Any, count: int, limit: int, nodes: int, work: Any) -> Any:
    """Append minimal hitting sets to `found`, all or of one exact size; stop beyond `limit` or without nodes left.

    Returns (found, count, nodes left, whether a larger size may hold more).
    """
    hit, starts, elements = sides
    covered, once, branch, total, left, chosen, allowed, used = work
    words = hit.shape[1]
    for i in range(allowed.size):
        allowed[i] = True
    level, entered, more = np.int64(0), True, False
    while level >= 0:
        if entered:
            entered = False
            nodes -= 1
            if nodes < 0:
                return found, count, nodes, True
            left[level] = 0
            pick, fewest, family = _choose(starts, elements, covered[level], allowed, used)
            if pick < 0:
                if exact == ALL_SIZES or level == exact:
                    if count == limit:
                        return found, count + 1, nodes, True
                    if count == found.shape[0]:
                        found = _doubled(found)
                    for c in range(level):
                        found[count, chosen[c]] = True
                    count += 1
            elif exact != ALL_SIZES and level + family > exact:
                more = True
            elif fewest > 0:
                for p in range(starts[pick], starts[pick + 1]):
                    if allowed[elements[p]]:
                        branch[level, left[level]] = elements[p]
                        left[level] += 1
                        allowed[elements[p]] = False
            total[level] = left[level]
        if left[level] == 0:
            for c in range(total[level]):
                allowed[branch[level, c]] = True
            level -= 1
            if level >= 0:
                allowed[chosen[level]] = True
            continue
        left[level] -= 1
        one = branch[level, left[level]]
        for k in range(words):
            once[level + 1, k] = (once[level, k] & ~hit[one, k]) | (hit[one, k] & ~covered[level, k])
            covered[level + 1, k] = covered[level, k] | hit[one, k]
        chosen[level] = one
        if _needed(hit, chosen, level, once[level + 1]):
            level += 1
            entered = True
    return found, count, nodes, more


def list_minimal(hit: Words, starts: Integers, elements: Integers, limit: int, nodes: int) -> tuple[Flags, bool]:
    """The minimal hitting sets as flags per element, and whether these are all."""
    u, levels = len(hit), min(len(hit), len(starts) - 1) + 2
    work = (
        *np.zeros((2, levels, hit.shape[1]), np.uint64),
        np.zeros((levels, u), np.int64),
        *np.zeros((3, levels), np.int64),
        *np.zeros((2, u), np.bool_),
    )
    found, count, left, more, size = np.zeros((min(limit, 64), u), np.bool_), 0, nodes, True, ALL_SIZES
    while more and count < limit and left >= 0:
        found, count, left, more = _search((hit, starts, elements), size, found, count, limit, left, work)
        if size == ALL_SIZES and not more:
            return found[:count], True
        if size == ALL_SIZES and left >= 0:
            found, count = np.zeros((min(limit, 64), u), np.bool_), 0
        size += 1
    return found[: min(count, limit)], False
