"""The compiled half of :func:`ironrule.rule.hitting.minimum_hitting_set`: branch and bound with Lagrangian bounds.

Duals are numbered 0..d-1 and elements 0..u-1. A set of duals is a row of D = ceil(d / 64) words; `hit[i]` are those
that element i hits, and `starts`, `elements` list the elements of every dual. Prices, one per dual, relax "every dual
is hit": with the reduced cost r_i = w_i - sum of the prices of the open duals that i hits, no hitting set costs less
than the sum of the prices plus that of the negative r_i. Subgradient steps move the prices (Held and Karp 1971; for
covering problems Beasley, "An algorithm for set covering problem", EJOR 1987). The same sum says which elements no
better solution can use, and which it must.

A node of the tree is a level of the stack: what is still open, which elements are allowed, the prices its bound found.
The functions share these arrays and so have long parameter lists: a compiled kernel has no objects to put them in.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ironrule.rule.bit_kernels import ONE, ZERO, Floats, Integers, Words, kernel, lowest, part, popcount

ROOT_STEPS = 200
NODE_STEPS = 12
SLACK = 1e-6


@part
def work_arrays(elements: int, duals: int) -> Any:
    """What :func:`search_minimum` works on."""
    u, d, words, levels = elements, duals, (duals + 63) >> 6, min(elements, duals) + 2
    bits = np.zeros((levels, words), np.uint64), np.zeros(words, np.uint64)
    flags = np.ones((levels, u), np.bool_), np.zeros(u, np.bool_), np.zeros(u, np.bool_)
    numbers = np.zeros((levels, d)), np.zeros(levels), np.zeros(levels), np.zeros(u), np.zeros(d), np.zeros(d)
    branches = np.zeros((levels, u), np.int64), np.zeros(levels, np.int64), np.zeros(levels, np.int64)
    return bits + flags, numbers, branches + (np.zeros(d, np.int64),)  # noqa: RUF005  # Numba adds tuples


@part
def _ceiling(best: float, integral: bool) -> float:
    """A bound above this proves that nothing cheaper than `best` is left."""
    return best - 1.0 + SLACK if integral else best - 1e-9 * max(1.0, best)


@part
def _open_duals(open_: Words, active: Integers) -> int:
    count = 0
    for k in range(open_.size):
        word = open_[k]
        while word != ZERO:
            active[count] = 64 * k + lowest(word)
            word &= word - ONE
            count += 1
    return count


@part
def _degree(hit: Words, open_: Words) -> int:
    total = ZERO
    for k in range(open_.size):
        total += popcount(hit[k] & open_[k])
    return int(total)


@part
def _is_empty(open_: Words) -> bool:
    union = ZERO
    for k in range(open_.size):
        union |= open_[k]
    return bool(union == ZERO)


@part
def _greedy(hit: Any, weights: Floats, costs: Floats, chosen: Any, open_: Words) -> float:
    """Choose what hits most per cost, drop what turned out redundant, and return the weight, infinite on failure."""
    u, words = hit.shape
    for k in range(words):
        open_[k] = ZERO
    for i in range(u):
        chosen[i] = False
        for k in range(words):
            open_[k] |= hit[i, k]
    while True:
        best, pick = 0.0, -1
        for i in range(u):
            value = _degree(hit[i], open_) / max(costs[i], 1e-3)
            if value > best:
                best, pick = value, i
        if pick < 0:
            return _irredundant(hit, weights, chosen) if _is_empty(open_) else np.inf
        chosen[pick] = True
        for k in range(words):
            open_[k] &= ~hit[pick, k]


@part
def _irredundant(hit: Any, weights: Floats, chosen: Any) -> float:
    """Drop redundant elements, each time a heaviest one, and return the weight of the others."""
    while True:
        worst, weight = -1, 0.0
        for i in range(weights.size):
            if chosen[i]:
                weight += weights[i]
                if (worst < 0 or weights[i] > weights[worst]) and _is_redundant(hit, chosen, i):
                    worst = i
        if worst < 0:
            return weight
        chosen[worst] = False


@part
def _is_redundant(hit: Any, chosen: Any, one: int) -> bool:
    for k in range(hit.shape[1]):
        alone = hit[one, k]
        for i in range(hit.shape[0]):
            if chosen[i] and i != one:
                alone &= ~hit[i, k]
        if alone != ZERO:
            return False
    return True


@part
def _counting_bound(hit: Any, weights: Floats, open_: Words, allowed: Any, need: int, degree: Floats) -> float:
    """Each element hits so many open duals: the cheapest way, in fractions, to hit as many as there are."""
    for i in range(weights.size):
        degree[i] = _degree(hit[i], open_) if allowed[i] else 0.0
    cost, left = 0.0, float(need)
    while left > 0.0:
        best, pick = 0.0, -1
        for i in range(weights.size):
            if degree[i] > best * weights[i]:
                best, pick = degree[i] / weights[i], i
        if pick < 0:
            return np.inf
        cost += weights[pick] * min(1.0, left / degree[pick])
        left -= degree[pick]
        degree[pick] = 0.0
    return cost


@part
def _reduced_costs(
    starts: Integers,
    elements: Integers,
    active: Integers,
    weights: Floats,
    allowed: Any,
    prices: Floats,
    reduced: Floats,
) -> float:
    """Fill the reduced costs, infinite for an element that is not allowed, and return the Lagrangian bound."""
    for i in range(weights.size):
        reduced[i] = weights[i] if allowed[i] else np.inf
    bound = 0.0
    for e in active:
        price = prices[e]
        bound += price
        for p in range(starts[e], starts[e + 1]):
            reduced[elements[p]] -= price
    for i in range(weights.size):
        bound += min(0.0, reduced[i])
    return bound


@part
def _step(
    starts: Integers, elements: Integers, active: Integers, reduced: Floats, prices: Floats, slope: Floats, gap: float
) -> None:
    """Raise the prices of duals that the relaxed solution misses, lower those of duals it hits too often."""
    norm = 0.0
    for e in active:
        excess = 1.0
        for p in range(starts[e], starts[e + 1]):
            excess -= 1.0 if reduced[elements[p]] < 0.0 else 0.0
        if prices[e] == 0.0 and excess < 0.0:
            excess = 0.0
        slope[e] = excess
        norm += excess * excess
    if norm > 0.0:
        for e in active:
            prices[e] = max(0.0, prices[e] + gap / norm * slope[e])


@part
def _fix(bound: float, ceiling: float, reduced: Floats, allowed: Any) -> int:
    """Forbid what no cheaper solution contains; return an element that every cheaper solution contains, or -1."""
    forced = -1
    for i in range(reduced.size):
        if allowed[i] and reduced[i] > 0.0 and bound + reduced[i] > ceiling:
            allowed[i] = False
        elif allowed[i] and reduced[i] < 0.0 and bound - reduced[i] > ceiling:
            forced = i
    return forced


@part
def _branch(
    starts: Integers,
    elements: Integers,
    active: Integers,
    allowed: Any,
    prices: Floats,
    reduced: Floats,
    branch: Integers,
) -> int:
    """Write the allowed elements of an open dual that has fewest, the cheapest first, and return how many."""
    fewest, pick = elements.size + 1, -1
    for e in active:
        size = 0
        for p in range(starts[e], starts[e + 1]):
            size += 1 if allowed[elements[p]] else 0
        if size < fewest or (size == fewest and prices[e] > prices[pick]):
            fewest, pick = size, e
    count = 0
    for p in range(starts[pick], starts[pick + 1]):
        if allowed[elements[p]]:
            at = count
            while at > 0 and reduced[branch[at - 1]] > reduced[elements[p]]:
                branch[at] = branch[at - 1]
                at -= 1
            branch[at] = elements[p]
            count += 1
    return count


@kernel
def search_minimum(
    hit: Any, starts: Integers, elements: Integers, weights: Floats, integral: bool, node_limit: int, work: Any
) -> Any:
    """The weight of the cheapest hitting set found, a lower bound, and whether the search was complete.

    The set itself is left in `work`, as the flags named `chosen`.

    One function because it is the search itself: take the next child of the deepest level, or go up; bound it; branch.
    """
    u, words, d = hit.shape[0], hit.shape[1], starts.size - 1
    open_, spare, allowed, chosen, candidate = work[0]
    prices, cost, bounds, reduced, slope, trial = work[1]
    branch, children, child, room = work[2]
    best = _greedy(hit, weights, weights, chosen, spare)
    for e in range(d):
        open_[0, e >> 6] |= ONE << np.uint64(e & 63)
        prices[0, e] = np.inf
        for p in range(starts[e], starts[e + 1]):
            i = elements[p]
            prices[0, e] = min(prices[0, e], weights[i] / _degree(hit[i], hit[i]))
    level, nodes, fresh = np.int64(0), 0, True
    while level >= 0:
        if not fresh:
            if child[level] == children[level]:
                level -= 1
                continue
            pick = branch[level, child[level]]
            child[level] += 1
            down = level + 1
            for k in range(words):
                open_[down, k] = open_[level, k] & ~hit[pick, k]
            allowed[level, pick] = False
            for i in range(u):
                allowed[down, i] = allowed[level, i]
            for e in range(d):
                prices[down, e] = prices[level, e]
            cost[down], bounds[down] = cost[level] + weights[pick], bounds[level]
            level = down
        fresh = False
        if nodes == node_limit:
            lower = best
            for above in range(level + 1):
                if above == level or child[above] < children[above]:
                    lower = min(lower, bounds[above])
            return best, lower, False
        nodes += 1
        children[level], child[level] = 0, 0
        active = room[: _open_duals(open_[level], room)]
        if active.size == 0:
            if cost[level] < best - 1e-9 * max(1.0, best):
                for i in range(u):
                    candidate[i] = False
                for above in range(level):
                    candidate[branch[above, child[above] - 1]] = True
                best = _irredundant(hit, weights, candidate)
                for i in range(u):
                    chosen[i] = candidate[i]
            continue
        ceiling = _ceiling(best, integral)
        counting = cost[level] + _counting_bound(hit, weights, open_[level], allowed[level], active.size, reduced)
        bounds[level] = max(bounds[level], counting)
        if bounds[level] > ceiling:
            continue
        steps, factor, forced, top, stale = (ROOT_STEPS if level == 0 else NODE_STEPS), 1.0, -1, -np.inf, 0
        for e in active:
            trial[e] = prices[level, e]
        for step in range(steps):
            value = cost[level] + _reduced_costs(starts, elements, active, weights, allowed[level], trial, reduced)
            if level == 0 and step % 10 == 9:
                weight = _greedy(hit, weights, reduced, candidate, spare)
                if weight < best - 1e-9 * max(1.0, best):
                    best, ceiling = weight, _ceiling(weight, integral)
                    for i in range(u):
                        chosen[i] = candidate[i]
            forced = max(forced, _fix(value, ceiling, reduced, allowed[level]))
            stale += 1
            if value > top:
                top, stale = value, 0
                for e in active:
                    prices[level, e] = trial[e]
            if top > ceiling:
                break
            if stale > 4:
                factor, stale = factor / 2, 0
            _step(starts, elements, active, reduced, trial, slope, factor * (max(best, value + 0.1) - value))
        bounds[level] = max(bounds[level], top)
        if bounds[level] > ceiling:
            continue
        if forced >= 0:
            branch[level, 0], children[level] = forced, 1
            continue
        _reduced_costs(starts, elements, active, weights, allowed[level], prices[level], reduced)
        children[level] = _branch(starts, elements, active, allowed[level], prices[level], reduced, branch[level])
    return best, best, True
