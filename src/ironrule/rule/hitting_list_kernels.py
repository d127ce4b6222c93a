"""The compiled half of :func:`ironrule.rule.hitting.light_hitting_sets`: all minimal hitting sets up to a weight.

The search of :mod:`ironrule.rule.hitting_kernels` with two changes. The ceiling stays where it is, so that nothing
within it is cut off. And as in MMCS of Murakami and Uno (see :mod:`ironrule.rule.transversal_kernels`) every element
taken must stay the only one to hit some dual, so that every set met in the end is minimal. A child may not use what its
elder siblings took, so that no set is met twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ironrule.rule.bit_kernels import ONE, ZERO, Floats, Integers, Words, kernel, part
from ironrule.rule.hitting_bound_kernels import (
    ascend,
    branch_on,
    counting_bound,
    mark_taken,
    open_duals,
    reduced_costs,
    start_prices,
)

ROOT_STEPS = 40
NODE_STEPS = 8


def work_arrays(elements: int, duals: int, limit: int) -> Any:
    """What :func:`list_light` works on; the sets found are the flags that come first."""
    u, d, words, levels = elements, duals, -(-duals // 64), min(elements, duals) + 2
    sets = np.zeros((limit, u), np.bool_), *np.zeros((2, levels, words), np.uint64), np.ones((levels, u), np.bool_)
    numbers = np.zeros((levels, d)), np.zeros(levels), np.zeros(levels), np.zeros(u), np.zeros(d), np.zeros(d)
    positions = (np.zeros((levels, u), np.int64), *np.zeros((2, levels), np.int64), np.zeros(d, np.int64))
    return sets, numbers, positions


@part
def _all_needed(hit: Any, once: Words, branch: Any, child: Integers, level: Any) -> bool:
    """Whether every element taken on the way to a level is the only one to hit some dual."""
    for above in range(level):
        one, k = branch[above, child[above] - 1], 0
        while k < once.size and hit[one, k] & once[k] == ZERO:
            k += 1
        if k == once.size:
            return False
    return True


@part
def _is_hopeless(starts: Integers, elements: Integers, active: Integers, allowed: Any) -> bool:
    """Whether some open dual has nothing left to hit it with."""
    for e in active:
        p = starts[e]
        while p < starts[e + 1] and not allowed[elements[p]]:
            p += 1
        if p == starts[e + 1]:
            return True
    return False


@kernel
def list_light(
    hit: Any, starts: Integers, elements: Integers, weights: Floats, ceiling: float, node_limit: int, work: Any
) -> Any:
    """How many minimal hitting sets within the ceiling were found, the least that any other weighs, and completeness.

    It ends early, which is then said, when the room for sets is full or the nodes are spent.
    """
    words, d = hit.shape[1], starts.size - 1
    found, open_, once, allowed = work[0]
    prices, cost, bounds, reduced, slope, trial = work[1]
    branch, children, child, room = work[2]
    for e in range(d):
        open_[0, e >> 6] |= ONE << np.uint64(e & 63)
    start_prices(hit, starts, elements, weights, prices[0])
    total = weights.sum()
    level, nodes, count, beyond, fresh = np.int64(0), 0, 0, np.inf, True
    while level >= 0:
        if not fresh:
            if child[level] == children[level]:
                level -= 1
                continue
            pick, down = branch[level, child[level]], level + 1
            child[level] += 1
            for k in range(words):
                once[down, k] = (once[level, k] & ~hit[pick, k]) | (hit[pick, k] & open_[level, k])
                open_[down, k] = open_[level, k] & ~hit[pick, k]
            allowed[level, pick] = False
            if not _all_needed(hit, once[down], branch, child, down):
                continue
            for i in range(weights.size):
                allowed[down, i] = allowed[level, i]
            for e in range(d):
                prices[down, e] = prices[level, e]
            cost[down], bounds[down] = cost[level] + weights[pick], bounds[level]
            level = down
        fresh = False
        if nodes == node_limit:
            return count, beyond, False
        nodes += 1
        children[level], child[level] = 0, 0
        active = room[: open_duals(open_[level], room)]
        if active.size == 0:
            if cost[level] > ceiling:
                beyond = min(beyond, cost[level])
            elif count == found.shape[0]:
                return count, beyond, False
            else:
                mark_taken(found[count], branch, child, level)
                count += 1
            continue
        if _is_hopeless(starts, elements, active, allowed[level]):
            continue
        counting = counting_bound(hit, weights, open_[level], allowed[level], active.size, reduced, cost[level])
        bounds[level] = max(bounds[level], counting)
        forced = -1
        if bounds[level] <= ceiling:
            for e in active:
                trial[e] = prices[level, e]
            top, _factor, forced, ruled_out = ascend(
                starts, elements, active, weights, allowed[level], prices[level], (reduced, slope, trial),
                cost[level], total, ceiling, ceiling, ROOT_STEPS if level == 0 else NODE_STEPS, 1.0, -np.inf,
            )  # fmt: skip
            bounds[level], beyond = max(bounds[level], top), min(beyond, ruled_out)
        if bounds[level] > ceiling:
            beyond = min(beyond, bounds[level])
        elif forced >= 0:
            branch[level, 0], children[level] = forced, 1
        else:
            reduced_costs(starts, elements, active, weights, allowed[level], prices[level], reduced, cost[level], total)
            children[level] = branch_on(starts, elements, active, allowed[level], prices[level], reduced, branch[level])
    return count, beyond, True
