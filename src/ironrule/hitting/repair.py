"""Local search for a hitting set within a weight (compiled).

From any set of elements: add what hits most of the open duals as long as the weight allows; if some stay open, raise
their priority, remove what is needed least, and try again. Priorities lead away from what was tried before (Gao, Weise,
Li, "An efficient local search heuristic with row weighting for the unicost set covering problem", EJOR 2015).

The score of an element is the priority of the duals that change if it does: the open ones it would hit, or those that
it alone hits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ironrule.arrays import Float64Array, Int64Array, UInt64Array
from ironrule.jit import ONE, ZERO, kernel, kernel_helper, lowest_bit

LCG_MULTIPLIER, LCG_INCREMENT = np.uint64(6364136223846793005), np.uint64(1442695040888963407)  # Knuth's MMIX


def allocate_repair_workspace(elements: int, duals: int) -> Any:
    """What :func:`repair_in_place` works on: scores and ages per element, priorities and counts of hits per dual."""
    return np.zeros(elements), np.zeros(elements, np.int64), np.ones(duals), np.zeros(duals, np.int64)


@kernel_helper
def _score_elements(starts: Int64Array, elements: Int64Array, chosen: Any, work: Any) -> int:
    """Count how often every dual is hit, score all elements, and return how many duals are open."""
    score, _age, priority, count = work
    missed = 0
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
    state, last, barred = seed, -1, -1
    for step in range(1, steps + 1):
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
        _raise_priorities(starts, elements, work)
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
