"""Lower bounds on hitting sets, for the kernels that search for them: counting, and Lagrangian relaxation.

Prices, one per dual, relax "every dual is hit": with the reduced cost r_i = w_i - sum of the prices of the open duals
that i hits, no hitting set costs less than the sum of the prices plus that of the negative r_i. Subgradient steps move
the prices (Held and Karp 1971; for covering problems Beasley, "An algorithm for set covering problem", EJOR 1987). The
same sum says which elements no solution within a ceiling can use, and which it must.

Weights are whole numbers whose sums are exact. The bounds are not: they are made of fractions. So each is lowered by
more than rounding can have raised it, in proportion to the sizes of what was added up; what these functions return
holds as it stands.

Numbering and sets of duals are those of :mod:`ironrule.hitting.minimum`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ironrule.arrays import Float64Array, Int64Array, UInt64Array
from ironrule.jit import ONE, ZERO, kernel_helper, lowest_bit, popcount

MIN_STEP_FACTOR = 0.02  # smaller steps lead nowhere
UNIT_ROUNDOFF = 2.0**-53  # the largest relative error of one operation


@kernel_helper
def list_open_duals(open_: UInt64Array, active: Int64Array) -> int:
    """Write the numbers of the open duals and return how many there are."""
    count = 0
    for k in range(open_.size):
        word = open_[k]
        # Walk over the ones of the word; `word & (word - 1)` clears the lowest.
        while word != ZERO:
            active[count] = 64 * k + lowest_bit(word)
            word &= word - ONE
            count += 1
    return count


@kernel_helper
def mark_taken(flags: Any, branch: Any, child: Int64Array, level: Any) -> None:
    """Flag the elements that were taken on the way to a level."""
    # `child[above]` is already the next child, so the one taken stands before it.
    for above in range(level):
        flags[branch[above, child[above] - 1]] = True


@kernel_helper
def count_open_hits(hit: UInt64Array, open_: UInt64Array) -> int:
    """How many open duals an element hits."""
    total = ZERO
    for k in range(open_.size):
        total += popcount(hit[k] & open_[k])
    return int(total)


@kernel_helper
def compute_counting_bound(
    hit: Any, weights: Float64Array, open_: UInt64Array, allowed: Any, need: int, degrees: Float64Array, cost: float
) -> float:
    """A lower bound by counting hits: the cost of what was taken before, and the least weight, elements taken in
    fractions, whose hits add up to the number of open duals.

    All terms are positive, so rounding is a share of the sum: at most three operations in every term, one for adding
    it, and three in the comparison that chooses the next element.
    """
    # A relaxation: only the number of hits counts, and a dual hit twice counts twice. Filling up with the most hits
    # per weight, the last element in part, is optimal for it (fractional knapsack).
    for i in range(weights.size):
        degrees[i] = count_open_hits(hit[i], open_) if allowed[i] else 0.0
    left = float(need)
    while left > 0.0:
        best, pick = 0.0, -1
        for i in range(weights.size):
            if degrees[i] > best * weights[i]:
                best, pick = degrees[i] / weights[i], i
        if pick < 0:
            # All that is allowed together hits too few duals.
            return np.inf
        cost += weights[pick] * min(1.0, left / degrees[pick])
        left -= degrees[pick]
        degrees[pick] = 0.0
    # Rounding may have raised the sum; lowering it by more than that keeps it a lower bound.
    return cost * (1.0 - (2.0 * weights.size + 16.0) * UNIT_ROUNDOFF)


@kernel_helper
def open_root(
    hit: Any, starts: Int64Array, elements: Int64Array, weights: Float64Array, open_: UInt64Array, prices: Float64Array
) -> None:
    """The root of a search: every dual is open, at prices under which no element costs more than it weighs."""
    # Every element spreads its weight evenly over the duals that it hits, and a dual takes the least share offered.
    # So the prices of an element's duals add up to no more than its weight: no reduced cost is negative.
    for e in range(starts.size - 1):
        open_[e >> 6] |= ONE << np.uint64(e & 63)
        prices[e] = np.inf
        for p in range(starts[e], starts[e + 1]):
            i = elements[p]
            prices[e] = min(prices[e], weights[i] / count_open_hits(hit[i], hit[i]))


@kernel_helper
def enter_child(
    taken: UInt64Array,
    weight: float,
    open_: Any,
    allowed: Any,
    prices: Any,
    cost: Float64Array,
    bounds: Any,
    level: Any,
) -> None:
    """Make the next level of the stack the child of this one that takes an element, which hits ``taken``."""
    down = level + 1
    for k in range(taken.size):
        open_[down, k] = open_[level, k] & ~taken[k]
    for i in range(allowed.shape[1]):
        allowed[down, i] = allowed[level, i]
    # The best prices of the parent are a good start for the child, and its bound holds for the child too.
    for e in range(prices.shape[1]):
        prices[down, e] = prices[level, e]
    cost[down], bounds[down] = cost[level] + weight, bounds[level]


@kernel_helper
def compute_reduced_costs(
    starts: Int64Array,
    elements: Int64Array,
    active: Int64Array,
    weights: Float64Array,
    allowed: Any,
    prices: Float64Array,
    reduced: Float64Array,
    cost: float,
    total: float,
) -> float:
    """Fill the reduced costs, infinite for an element that is not allowed, and return the Lagrangian bound with the
    cost of what was taken before. ``total`` is the sum of all weights.

    No intermediate result is larger than ``size``: the cost, all weights, and every price once and for every element
    that may subtract it. The reduced costs take one operation per open dual, their sum one per element: all together,
    and any one reduced cost added to the bound later, are wrong by no more than (3 d + u + 6) units of roundoff of that
    size. More is taken off.
    """
    for i in range(weights.size):
        reduced[i] = weights[i] if allowed[i] else np.inf
    bound = 0.0
    # The sum of the prices of the open duals; each is subtracted from the weight of every element that hits it.
    for e in active:
        price = prices[e]
        bound += price
        for p in range(starts[e], starts[e + 1]):
            reduced[elements[p]] -= price
    size = cost + total + (1.0 + weights.size) * bound
    # The relaxed solution takes exactly the elements whose reduced cost is negative.
    for i in range(weights.size):
        bound += min(0.0, reduced[i])
    # Lowered by more than rounding can have added, so that it is a bound in exact arithmetic.
    return cost + bound - (4.0 * active.size + 2.0 * weights.size + 16.0) * UNIT_ROUNDOFF * size


@kernel_helper
def _take_subgradient_step(
    starts: Int64Array,
    elements: Int64Array,
    active: Int64Array,
    reduced: Float64Array,
    prices: Float64Array,
    slope: Float64Array,
    gap: float,
) -> None:
    """Raise the prices of duals that the relaxed solution misses, lower those of duals it hits too often."""
    norm = 0.0
    # The slope of a dual is one less the number of times the relaxed solution hits it. A price of zero cannot fall,
    # so its slope counts as zero.
    for e in active:
        excess = 1.0
        for p in range(starts[e], starts[e + 1]):
            excess -= 1.0 if reduced[elements[p]] < 0.0 else 0.0
        if prices[e] == 0.0 and excess < 0.0:
            excess = 0.0
        slope[e] = excess
        norm += excess * excess
    if norm > 0.0:
        # Step length as in Held and Karp: the gap to the goal by the squared norm. Prices stay at least zero; any
        # such prices give a valid bound, so rounding in this step does no harm.
        for e in active:
            prices[e] = max(0.0, prices[e] + gap / norm * slope[e])


@kernel_helper
def _fix_elements(bound: float, ceiling: float, reduced: Float64Array, allowed: Any) -> Any:
    """Forbid what no solution within the ceiling contains; return an element that every such solution contains, or -1,
    and the least that a solution ruled out by either weighs.
    """
    forced, least = -1, np.inf
    # Reduced-cost fixing: a solution with i weighs at least bound + r_i where r_i > 0, one without i at least bound -
    # r_i where r_i < 0. The bound was lowered enough for this one addition too.
    for i in range(reduced.size):
        if allowed[i] and reduced[i] > 0.0 and bound + reduced[i] > ceiling:
            allowed[i] = False
            least = min(least, bound + reduced[i])
        elif allowed[i] and reduced[i] < 0.0 and bound - reduced[i] > ceiling:
            forced = i
            least = min(least, bound - reduced[i])
    return forced, least


@kernel_helper
def run_subgradient_ascent(
    starts: Int64Array,
    elements: Int64Array,
    active: Int64Array,
    weights: Float64Array,
    allowed: Any,
    prices: Float64Array,
    work: Any,
    cost: float,
    total: float,
    ceiling: float,
    goal: float,
    steps: int,
    factor: float,
    top: float,
) -> Any:
    """Subgradient steps from the prices on `trial`, keeping the best; stops above the ceiling.

    Returns the best bound, the step size reached, an element that every solution within the ceiling contains, or -1,
    and the least that solutions ruled out on the way weigh.
    """
    reduced, slope, trial = work
    forced, least, stale = -1, np.inf, 0
    # `top` is the best bound so far, `prices` are where it was found, `trial` where the ascent is. A step may lower
    # the bound; after five without a better one the step size is halved.
    for _ in range(steps):
        value = compute_reduced_costs(starts, elements, active, weights, allowed, trial, reduced, cost, total)
        fixed, ruled_out = _fix_elements(value, ceiling, reduced, allowed)
        forced, least = max(forced, fixed), min(least, ruled_out)
        stale += 1
        if value > top:
            top, stale = value, 0
            for e in active:
                prices[e] = trial[e]
        if top > ceiling:
            break
        if stale > 4:
            factor, stale = factor / 2, 0
            if factor < MIN_STEP_FACTOR:
                break
        gap = factor * (max(goal, value + 0.1) - value)
        _take_subgradient_step(starts, elements, active, reduced, trial, slope, gap)
    return top, factor, forced, least


@kernel_helper
def _choose_branch(
    starts: Int64Array,
    elements: Int64Array,
    active: Int64Array,
    allowed: Any,
    prices: Float64Array,
    reduced: Float64Array,
    branch: Int64Array,
) -> int:
    """Write the allowed elements of an open dual that has fewest, the cheapest first, and return how many."""
    fewest, pick = elements.size + 1, -1
    # Fewest children first; of equals the dual with the highest price, which is the hardest to hit.
    for e in active:
        size = 0
        for p in range(starts[e], starts[e + 1]):
            size += 1 if allowed[elements[p]] else 0
        if size < fewest or (size == fewest and prices[e] > prices[pick]):
            fewest, pick = size, e
    count = 0
    for p in range(starts[pick], starts[pick + 1]):
        if allowed[elements[p]]:
            # Insertion sort by reduced cost: the elements that the bound prefers come first.
            at = count
            while at > 0 and reduced[branch[at - 1]] > reduced[elements[p]]:
                branch[at] = branch[at - 1]
                at -= 1
            branch[at] = elements[p]
            count += 1
    return count


@kernel_helper
def list_children(
    starts: Int64Array,
    elements: Int64Array,
    active: Int64Array,
    weights: Float64Array,
    allowed: Any,
    prices: Float64Array,
    reduced: Float64Array,
    branch: Int64Array,
) -> int:
    """Write the elements to branch on, and return how many: the allowed ones of an open dual that has fewest, since
    every hitting set contains an element of each open dual. The cheapest come first, by their reduced costs at the best
    prices, and not at the last ones tried.
    """
    # The bound is not needed, so what was taken before and the sum of all weights do not matter.
    compute_reduced_costs(starts, elements, active, weights, allowed, prices, reduced, 0.0, 0.0)
    return _choose_branch(starts, elements, active, allowed, prices, reduced, branch)
