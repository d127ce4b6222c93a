"""Light hitting sets, found exactly and by local search (compiled).

**Exact.** A minimum hitting set by branch and bound with Lagrangian bounds (:func:`search_minimum`), and a quick one,
chosen greedily, to begin with.

Duals are numbered 0..d-1 and elements 0..u-1. A set of duals is a row of D = ceil(d / 64) words; `hit[i]` are those
that element i hits, and `starts`, `elements` list the elements of every dual. The bounds are those of
:mod:`ironrule.hitting.bounds`. A node of the tree is a level of the stack: what is still open, which elements are
allowed, the prices its bound found. The functions share these arrays and so have long parameter lists: a compiled
kernel has no objects to put them in.

**Local search** for a hitting set within a weight (:func:`repair_in_place`): it finds one soon where there are many,
and proves nothing. From any set of elements: add what hits most of the open duals as long as the weight allows; if some
stay open, raise their priority, remove what is needed least, and try again. Priorities lead away from what was tried
before (Gao, Weise, Li, "An efficient local search heuristic with row weighting for the unicost set covering problem",
EJOR 2015). The score of an element is the priority of the duals that change if it does: the open ones it would hit, or
those that it alone hits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, Int64Array, UInt64Array
from ironrule.hitting.bounds import (
    MIN_STEP_FACTOR,
    compute_counting_bound,
    count_open_hits,
    enter_child,
    list_children,
    list_open_duals,
    mark_taken,
    open_root,
    run_subgradient_ascent,
)
from ironrule.jit import ONE, ZERO, kernel, kernel_helper, lowest_bit

ROOT_STEPS = 200
ROOT_ROUND = 10
NODE_STEPS = 8
LCG_MULTIPLIER, LCG_INCREMENT = np.uint64(6364136223846793005), np.uint64(1442695040888963407)  # Knuth's MMIX


def allocate_minimum_workspace(elements: int, duals: int) -> Any:
    """What :func:`search_minimum` works on, made here because every allocation in a kernel costs compile time."""
    # A node takes an element that hits an open dual, so no path is longer than the smaller of both numbers.
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
            # Walk over the ones of the word; `word & (word - 1)` clears the lowest.
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
    # Everything that some element can hit is open at first.
    for k in range(words):
        open_[k] = ZERO
    for i in range(u):
        chosen[i] = False
        for k in range(words):
            open_[k] |= hit[i, k]
    # Greedy set cover: take the element with most open duals per cost, until no element hits an open one. Reduced
    # costs can be zero or negative, hence the smallest divisor; those of forbidden elements are infinite.
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
        # Weigh what is chosen, and find the heaviest element that the others make redundant. One per round, because
        # dropping it can make others necessary.
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
    # 64 duals at a time: what is left in `alone` are the duals that only this element hits.
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


@kernel_helper
def _bound_unsearched(bounds: Float64Array, children: Int64Array, child: Int64Array, level: Any, best: float) -> float:
    """What no set weighs less than when the search stops at a node of a level, nor the best one found."""
    # What is left lies in this node and in the remaining children of those above it: the least of their bounds holds.
    lower = best
    for above in range(level + 1):
        if above == level or child[above] < children[above]:
            lower = min(lower, bounds[above])
    return lower


@kernel_helper
def _adopt_path(
    hit: Any, weights: Float64Array, branch: Any, child: Int64Array, level: Any, candidate: Any, chosen: Any
) -> float:
    """Flag the elements on the way to a level as the set found, less what is redundant, and return its weight."""
    for i in range(weights.size):
        candidate[i] = False
    mark_taken(candidate, branch, child, level)
    weight = _drop_redundant(hit, weights, candidate)
    _copy_flags(chosen, candidate)
    return float(weight)


@kernel_helper
def _bound_root(incidence: Any, weights: Float64Array, active: Int64Array, work: Any, best: float) -> Any:
    """The Lagrangian bound of the root, an element that every better set contains, or -1, and the best weight.

    The root gets many steps in short rounds, since its prices serve the whole tree. After each round a greedy set by
    reduced costs may improve the best (Beasley), which is then left in the flags named ``chosen``.
    """
    hit, starts, elements = incidence
    _open, spare, allowed, chosen, candidate = work[0]
    prices, cost, _bounds, reduced, slope, trial = work[1]
    factor, forced, top, total = 1.0, -1, -np.inf, weights.sum()
    for _ in range(ROOT_STEPS // ROOT_ROUND):
        top, factor, fixed, _least = run_subgradient_ascent(
            starts, elements, active, weights, allowed[0], prices[0], (reduced, slope, trial),
            cost[0], total, best - 1.0, best, ROOT_ROUND, factor, top,
        )  # fmt: skip
        forced = max(forced, fixed)
        if top <= best - 1.0:
            weight = _choose_greedily(hit, weights, reduced, candidate, spare)
            if weight < best:
                best = weight
                _copy_flags(chosen, candidate)
        if top > best - 1.0 or factor < MIN_STEP_FACTOR:
            break
    return top, forced, best


@kernel
def search_minimum(
    hit: Any,
    starts: Int64Array,
    elements: Int64Array,
    weights: Float64Array,
    below: float,
    node_limit: int,
    work: Any,
) -> Any:
    """The weight of the cheapest hitting set found, a lower bound, and whether the search was complete.

    Only sets cheaper than `below` are sought. The set itself is left in `work`, as the flags named `chosen`; where none
    was found the weight is `below`. All weights, and `below` unless it is infinite, are whole numbers, so a bound above
    ``best - 1`` proves that nothing cheaper is left.

    Each turn of the loop takes the next child of the deepest level, or goes up; bounds it; and branches.
    """
    # Per level: the open duals, the elements still allowed, the best prices known, the cost of what was taken, a
    # lower bound, the elements to branch on, how many these are, and which comes next. The rest is scratch memory.
    open_, spare, allowed, chosen, candidate = work[0]
    prices, cost, bounds, reduced, slope, trial = work[1]
    branch, children, child, room = work[2]
    best = min(below, _choose_greedily(hit, weights, weights, chosen, spare))
    open_root(hit, starts, elements, weights, open_[0], prices[0])
    total = weights.sum()
    level, nodes, fresh = np.int64(0), 0, True
    # Depth-first branch and bound. `level` is the depth; a node is `fresh` until it has been bounded, and afterwards
    # each turn of the loop goes down to its next child.
    while level >= 0:
        if not fresh:
            if child[level] == children[level]:
                level -= 1  # all children are done
                continue
            pick = branch[level, child[level]]
            child[level] += 1
            # Later siblings do not use this element: all sets with it are in this child.
            allowed[level, pick] = False
            enter_child(hit[pick], weights[pick], open_, allowed, prices, cost, bounds, level)
            level += 1
        fresh = False
        if nodes == node_limit:
            return best, _bound_unsearched(bounds, children, child, level, best), False
        nodes += 1
        children[level], child[level] = 0, 0
        active = room[: list_open_duals(open_[level], room)]
        if active.size == 0:
            # Nothing is open: the elements on the path are a hitting set.
            if cost[level] < best:
                best = _adopt_path(hit, weights, branch, child, level, candidate, chosen)
            continue
        # Weights are whole numbers: a better set weighs at most best - 1. Bounds are rounded down: one above proves it.
        counting = compute_counting_bound(hit, weights, open_[level], allowed[level], active.size, reduced, cost[level])
        bounds[level] = max(bounds[level], counting)
        if bounds[level] > best - 1.0:
            continue
        # Lagrangian bound (Held-Karp), from the prices of the parent.
        for e in active:
            trial[e] = prices[level, e]
        if level == 0:
            top, forced, best = _bound_root((hit, starts, elements), weights, active, work, best)
        else:
            top, _factor, forced, _least = run_subgradient_ascent(
                starts, elements, active, weights, allowed[level], prices[level], (reduced, slope, trial),
                cost[level], total, best - 1.0, best, NODE_STEPS, 1.0, -np.inf,
            )  # fmt: skip
        bounds[level] = max(bounds[level], top)
        if bounds[level] > best - 1.0:
            continue
        if forced >= 0:
            # Every better set contains this element, so it is the only child.
            branch[level, 0], children[level] = forced, 1
            continue
        children[level] = list_children(
            starts, elements, active, weights, allowed[level], prices[level], reduced, branch[level]
        )
    return best, best, True


@kernel
def choose_greedily(
    hit: Any, weights: Float64Array, costs: Float64Array, chosen: BoolArray, spare: UInt64Array
) -> float:
    """Flag an irredundant hitting set, chosen greedily by cost, and return its weight."""
    return float(_choose_greedily(hit, weights, costs, chosen, spare))


def allocate_repair_workspace(elements: int, duals: int) -> Any:
    """What :func:`repair_in_place` works on: scores and ages per element, priorities and counts of hits per dual."""
    return np.zeros(elements), np.zeros(elements, np.int64), np.ones(duals), np.zeros(duals, np.int64)


@kernel_helper
def _score_elements(starts: Int64Array, elements: Int64Array, chosen: Any, work: Any) -> int:
    """Count how often every dual is hit, score all elements, and return how many duals are open."""
    score, _age, priority, count = work
    missed = 0
    # `count[e]` is how many chosen elements hit dual e. Only duals hit at most once matter to scores: an open one to
    # all its elements (none is chosen), one hit once to the chosen element that hits it.
    for e in range(count.size):
        for p in range(starts[e], starts[e + 1]):
            count[e] += 1 if chosen[elements[p]] else 0
        missed += 1 if count[e] == 0 else 0
        if count[e] <= 1:
            for p in range(starts[e], starts[e + 1]):
                if chosen[elements[p]] == (count[e] == 1):
                    score[elements[p]] += priority[e]
    return missed


@kernel_helper
def _remove_element(
    one: int, hit: UInt64Array, starts: Int64Array, elements: Int64Array, chosen: Any, work: Any
) -> int:
    """Put an element out; returns how many duals that leaves open."""
    score, _age, priority, count = work
    chosen[one], score[one], opened = False, 0.0, 0
    # Update the scores for the duals of this element alone. A dual now open counts for all its elements, this one
    # included; a dual now hit once counts for the one chosen element that still hits it.
    for k in range(hit.size):
        word = hit[k]
        while word != ZERO:
            e = 64 * k + lowest_bit(word)
            word &= word - ONE
            count[e] -= 1
            opened += 1 if count[e] == 0 else 0
            if count[e] <= 1:
                for p in range(starts[e], starts[e + 1]):
                    if chosen[elements[p]] == (count[e] == 1):
                        score[elements[p]] += priority[e]
    return opened


@kernel_helper
def _add_element(one: int, hit: UInt64Array, starts: Int64Array, elements: Int64Array, chosen: Any, work: Any) -> int:
    """Take an element in; returns how many open duals it hits. Its own score stays: those it now hits alone."""
    score, _age, priority, count = work
    closed = 0
    # The reverse: a dual that was open no longer counts for its other elements, a dual that was hit once no longer
    # for the element that hit it alone.
    for k in range(hit.size):
        word = hit[k]
        while word != ZERO:
            e = 64 * k + lowest_bit(word)
            word &= word - ONE
            count[e] += 1
            closed += 1 if count[e] == 1 else 0
            if count[e] <= 2:
                for p in range(starts[e], starts[e + 1]):
                    if elements[p] != one and chosen[elements[p]] == (count[e] == 2):
                        score[elements[p]] -= priority[e]
    chosen[one] = True
    return closed


@kernel_helper
def _find_least_needed(weights: Float64Array, chosen: Any, work: Any, last: int) -> int:
    """The chosen element, other than the last one taken, that is missed least per weight; of equals the oldest."""
    score, age, _priority, _count = work
    pick = -1
    for i in range(weights.size):
        # The age is the step at which an element last moved: ties go to the one that has rested longest.
        if chosen[i] and i != last:
            ahead = np.inf if pick < 0 else score[pick] / weights[pick] - score[i] / weights[i]
            if ahead > 0.0 or (ahead == 0.0 and age[i] < age[pick]):
                pick = i
    return pick


@kernel_helper
def _find_best_addition(
    starts: Int64Array, elements: Int64Array, weights: Float64Array, work: Any, start: Any, barred: int, room: float
) -> int:
    """Of the first open dual from `start` on, the element with the best score per weight that fits; -1 if none does."""
    score, age, _priority, count = work
    e, pick = start, -1
    # Walk to the next open dual, round the end if need be; the caller makes sure that there is one.
    while count[e] > 0:
        e = e + 1 if e + 1 < count.size else 0
    for p in range(starts[e], starts[e + 1]):
        i = elements[p]
        if i != barred and weights[i] <= room:
            ahead = np.inf if pick < 0 else score[i] / weights[i] - score[pick] / weights[pick]
            if ahead > 0.0 or (ahead == 0.0 and age[i] < age[pick]):
                pick = i
    return pick


@kernel_helper
def _raise_priorities(starts: Int64Array, elements: Int64Array, work: Any) -> None:
    score, _age, priority, count = work
    # An open dual has no chosen element, so all its elements gain score.
    for e in range(count.size):
        if count[e] == 0:
            priority[e] += 1.0
            for p in range(starts[e], starts[e + 1]):
                score[elements[p]] += 1.0


@kernel
def repair_in_place(
    hit: Any,
    starts: Int64Array,
    elements: Int64Array,
    weights: Float64Array,
    chosen: Any,
    max_weight: float,
    steps: int,
    seed: Any,
    work: Any,
) -> bool:
    """Change the chosen elements until they hit every dual and weigh no more than `max_weight`; whether that worked."""
    missed, weight = _score_elements(starts, elements, chosen, work), 0.0
    for i in range(weights.size):
        weight += weights[i] if chosen[i] else 0.0
    # `last` is the element added last, which may not be removed next; `barred` the one removed last, which may not be
    # added next. So the search does not undo its own step at once. `work[1]` are the ages.
    state, last, barred = seed, -1, -1
    for step in range(1, steps + 1):
        # Add elements of open duals, from a random one on, while the weight allows.
        while missed > 0 and weight < max_weight:
            state = state * LCG_MULTIPLIER + LCG_INCREMENT
            start = np.int64((state >> np.uint64(33)) % np.uint64(starts.size - 1))
            last = _find_best_addition(starts, elements, weights, work, start, barred, max_weight - weight)
            if last < 0:
                break
            missed -= _add_element(last, hit[last], starts, elements, chosen, work)
            weight += weights[last]
            work[1][last] = step
        if missed == 0 and weight <= max_weight:
            return True
        # Stuck: make the open duals more important.
        _raise_priorities(starts, elements, work)
        # Remove elements until the weight is within the limit, and then one more, which makes room for another.
        while True:
            barred = _find_least_needed(weights, chosen, work, last)
            if barred < 0:
                return False
            over = weight > max_weight
            missed += _remove_element(barred, hit[barred], starts, elements, chosen, work)
            weight -= weights[barred]
            work[1][barred] = step
            if not over:
                break
    return False
