"""A minimum hitting set by branch and bound with Lagrangian bounds (compiled).

Duals are numbered 0..d-1 and elements 0..u-1. A set of duals is a row of D = ceil(d / 64) words; `hit[i]` are those
that element i hits, and `starts`, `elements` list the elements of every dual. The bounds are those of
:mod:`ironrule.hitting.bounds`.

A node of the tree is a level of the stack: what is still open, which elements are allowed, the prices its bound found.
The functions share these arrays and so have long parameter lists: a compiled kernel has no objects to put them in.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, Int64Array, UInt64Array
from ironrule.hitting.bounds import (
    MIN_STEP_FACTOR,
    choose_branch,
    compute_counting_bound,
    compute_reduced_costs,
    count_open_hits,
    list_open_duals,
    mark_taken,
    run_subgradient_ascent,
    set_initial_prices,
)
from ironrule.jit import ONE, ZERO, kernel, kernel_helper, lowest_bit

ROOT_STEPS = 200
ROOT_ROUND = 10
NODE_STEPS = 8


def allocate_minimum_workspace(elements: int, duals: int) -> Any:
    """What :func:`search_minimum` works on, made here because every allocation in a kernel costs compile time."""
    u, d, words, levels = elements, duals, -(-duals // 64), min(elements, duals) + 2
    flags = np.ones((levels, u), np.bool_), np.zeros(u, np.bool_), np.zeros(u, np.bool_)
    sets = np.zeros((levels, words), np.uint64), np.zeros(words, np.uint64), *flags
    numbers = np.zeros((levels, d)), np.zeros(levels), np.zeros(levels), np.zeros(u), np.zeros(d), np.zeros(d)
    positions = (np.zeros((levels, u), np.int64), *np.zeros((2, levels), np.int64), np.zeros(d, np.int64))
    return sets, numbers, positions


@kernel
def fill_incidence(duals: Any, places: Int64Array, hit: Any, starts: Int64Array, elements: Int64Array) -> None:
    """Write which duals every element hits, and the elements of every dual; `places` renumbers the components."""
    count = 0
    for e in range(duals.shape[0]):
        for w in range(duals.shape[1]):
            word = duals[e, w]
            while word != ZERO:
                i = places[64 * w + lowest_bit(word)]
                word &= word - ONE
                hit[i, e >> 6] |= ONE << np.uint64(e & 63)
                elements[count] = i
                count += 1
        starts[e + 1] = count


@kernel_helper
def _is_empty(open_: UInt64Array) -> bool:
    union = ZERO
    for k in range(open_.size):
        union |= open_[k]
    return bool(union == ZERO)


@kernel_helper
def _choose_greedily(hit: Any, weights: Float64Array, costs: Float64Array, chosen: Any, open_: UInt64Array) -> float:
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
            value = count_open_hits(hit[i], open_) / max(costs[i], 1e-3)
            if value > best:
                best, pick = value, i
        if pick < 0:
            return _drop_redundant(hit, weights, chosen) if _is_empty(open_) else np.inf
        chosen[pick] = True
        for k in range(words):
            open_[k] &= ~hit[pick, k]


@kernel_helper
def _drop_redundant(hit: Any, weights: Float64Array, chosen: Any) -> float:
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


@kernel_helper
def _is_redundant(hit: Any, chosen: Any, one: int) -> bool:
    for k in range(hit.shape[1]):
        alone = hit[one, k]
        for i in range(hit.shape[0]):
            if chosen[i] and i != one:
                alone &= ~hit[i, k]
        if alone != ZERO:
            return False
    return True


@kernel_helper
def _copy_flags(into: Any, flags: Any) -> None:
    for i in range(flags.size):
        into[i] = flags[i]


@kernel
def search_minimum(
    hit: Any,
    starts: Int64Array,
    elements: Int64Array,
    weights: Float64Array,
    below: float,
    enough: float,
    node_limit: int,
    work: Any,
) -> Any:
    """The weight of the cheapest hitting set found, a lower bound, and whether the search was complete.

    Only sets cheaper than `below` are sought, and one that costs no more than `enough` ends the search. The set itself
    is left in `work`, as the flags named `chosen`; where none was found the weight is `below`. All weights, and `below`
    unless it is infinite, are whole numbers, so a bound above ``best - 1`` proves that nothing cheaper is left.

    One function because it is the search itself: take the next child of the deepest level, or go up; bound it; branch.
    """
    u, words, d = hit.shape[0], hit.shape[1], starts.size - 1
    open_, spare, allowed, chosen, candidate = work[0]
    prices, cost, bounds, reduced, slope, trial = work[1]
    branch, children, child, room = work[2]
    best = min(below, _choose_greedily(hit, weights, weights, chosen, spare))
    for e in range(d):
        open_[0, e >> 6] |= ONE << np.uint64(e & 63)
    set_initial_prices(hit, starts, elements, weights, prices[0])
    total = weights.sum()
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
            _copy_flags(allowed[down], allowed[level])
            for e in range(d):
                prices[down, e] = prices[level, e]
            cost[down], bounds[down] = cost[level] + weights[pick], bounds[level]
            level = down
        fresh = False
        if nodes == node_limit or (best < below and best <= enough):
            lower = best
            for above in range(level + 1):
                if above == level or child[above] < children[above]:
                    lower = min(lower, bounds[above])
            return best, lower, False
        nodes += 1
        children[level], child[level] = 0, 0
        active = room[: list_open_duals(open_[level], room)]
        if active.size == 0:
            if cost[level] < best:
                for i in range(u):
                    candidate[i] = False
                mark_taken(candidate, branch, child, level)
                best = _drop_redundant(hit, weights, candidate)
                _copy_flags(chosen, candidate)
            continue
        ceiling = best - 1.0
        counting = compute_counting_bound(hit, weights, open_[level], allowed[level], active.size, reduced, cost[level])
        bounds[level] = max(bounds[level], counting)
        if bounds[level] > ceiling:
            continue
        for e in active:
            trial[e] = prices[level, e]
        factor, forced, top = 1.0, -1, -np.inf
        for _ in range(ROOT_STEPS // ROOT_ROUND if level == 0 else 1):
            top, factor, fixed, _least = run_subgradient_ascent(
                starts, elements, active, weights, allowed[level], prices[level], (reduced, slope, trial),
                cost[level], total, ceiling, best, ROOT_ROUND if level == 0 else NODE_STEPS, factor, top,
            )  # fmt: skip
            forced = max(forced, fixed)
            if level == 0 and top <= ceiling:
                weight = _choose_greedily(hit, weights, reduced, candidate, spare)
                if weight < best:
                    best, ceiling = weight, weight - 1.0
                    _copy_flags(chosen, candidate)
            if top > ceiling or factor < MIN_STEP_FACTOR:
                break
        bounds[level] = max(bounds[level], top)
        if bounds[level] > ceiling:
            continue
        if forced >= 0:
            branch[level, 0], children[level] = forced, 1
            continue
        compute_reduced_costs(
            starts, elements, active, weights, allowed[level], prices[level], reduced, cost[level], total
        )
        children[level] = choose_branch(starts, elements, active, allowed[level], prices[level], reduced, branch[level])
    return best, best, True


@kernel
def choose_greedily(
    hit: Any, weights: Float64Array, costs: Float64Array, chosen: BoolArray, spare: UInt64Array
) -> float:
    """Flag an irredundant hitting set, chosen greedily by cost, and return its weight."""
    return float(_choose_greedily(hit, weights, costs, chosen, spare))
