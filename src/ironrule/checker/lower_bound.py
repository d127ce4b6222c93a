"""The second half of a certificate: that every rule which hits all of some duals weighs at least so much.

Weights are whole numbers here (exact fractions times a common factor), so that every sum is exact. A plain branch and
bound over sets of components as integers: the smallest dual that is not hit yet must be hit by one of its components,
each of which is tried in turn, without those tried before. What the duals that are left need at least is bounded by
giving each a price such that no component pays more than its weight (a feasible solution of the dual linear program).
Where that takes too many steps, HiGHS is asked, and its bound is believed only with a wide margin for rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

MAX_NODES = 50_000
MAX_MILP_NODES = 200_000
MAX_MILP_SECONDS = 60.0
SOLVER_TOLERANCE = 0.25  # what a solver's bound on whole numbers must be above, to be believed
MAX_SOLVER_WEIGHT = 1 << 17  # larger sums of weights leave a solver's tolerances no room
SearchNode = tuple[list[int], int, int]  # the duals that are left, smallest first; the components chosen; their weight


def find_lighter_hitting_set(duals: Iterable[int], weights: Sequence[int], bound: int) -> int | None:
    """A set that hits every dual and weighs less than the bound, or None if there is none; raises TimeoutError if
    neither can be shown.

    >>> find_lighter_hitting_set([0b011, 0b110], [1, 1, 1], 2), find_lighter_hitting_set([0b01, 0b10], [1, 1], 2)
    (2, None)
    """
    demands = sorted(set(duals), key=int.bit_count)
    if not demands:
        return 0 if bound > 0 else None
    if demands[0] == 0:  # nothing hits the empty set
        return None
    try:
        return _branch_and_bound(demands, weights, bound)
    except TimeoutError:
        return _solve_with_highs(demands, weights, bound)


def _branch_and_bound(demands: list[int], weights: Sequence[int], bound: int) -> int | None:
    pending: list[SearchNode] = [(demands, 0, 0)]
    for _ in range(MAX_NODES):
        if not pending:
            return None
        left, chosen, weight = pending.pop()
        if weight + _bound_remaining_weight(left, weights) >= bound:
            continue
        if not left:
            return chosen
        pending += _branch_on_smallest_dual(left, chosen, weight, weights)
    raise TimeoutError


def _branch_on_smallest_dual(left: list[int], chosen: int, weight: int, weights: Sequence[int]) -> list[SearchNode]:
    """One child for every component of the smallest dual: it is in, those before it are out; the best one last."""
    children: list[SearchNode] = []
    out = 0
    for bit in sorted(_list_members(left[0]), key=lambda bit: -sum(dual >> bit & 1 for dual in left) / weights[bit]):
        rest = sorted((dual & ~out for dual in left if not dual >> bit & 1), key=int.bit_count)
        if not rest or rest[0]:
            children.append((rest, chosen | 1 << bit, weight + weights[bit]))
        out |= 1 << bit
    return children[::-1]


def _bound_remaining_weight(left: list[int], weights: Sequence[int]) -> int:
    """What the duals need at least: each in turn takes all that its poorest component still has to give."""
    spent: dict[int, int] = {}
    total, empty = 0, 0
    for dual in left:
        if dual & empty:
            continue
        members = _list_members(dual)
        price = min(weights[bit] - spent.get(bit, 0) for bit in members)
        total += price
        for bit in members:
            spent[bit] = spent.get(bit, 0) + price
            empty |= (spent[bit] >= weights[bit]) << bit
    return total


@lru_cache(1 << 14)
def _list_members(components: int) -> tuple[int, ...]:
    members = []
    while components:
        lowest = components & -components
        members.append(lowest.bit_length() - 1)
        components ^= lowest
    return tuple(members)


def _solve_with_highs(demands: list[int], weights: Sequence[int], bound: int) -> int | None:
    """The same by a mixed integer program."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    used = _list_members(int(np.bitwise_or.reduce(np.array(demands, dtype=object))))
    if sum(weights[bit] for bit in used) > MAX_SOLVER_WEIGHT:
        raise TimeoutError
    matrix = np.array([[dual >> bit & 1 for bit in used] for dual in demands], dtype=np.float64)
    answer = milp(
        np.array([weights[bit] for bit in used], dtype=np.float64),
        integrality=np.ones(len(used)),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(matrix, lb=1.0),
        options={"mip_rel_gap": 0.0, "node_limit": MAX_MILP_NODES, "time_limit": MAX_MILP_SECONDS},
    )
    if answer.x is not None:
        chosen = sum(1 << bit for bit, share in zip(used, answer.x, strict=True) if share > 0.5)
        if all(dual & chosen for dual in demands) and sum(weights[bit] for bit in _list_members(chosen)) < bound:
            return chosen
    lower = answer.mip_dual_bound
    # the optimum is a whole number
    if lower is not None and math.isfinite(lower) and lower > bound - 1 + SOLVER_TOLERANCE:
        return None
    raise TimeoutError
