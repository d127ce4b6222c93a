"""The second half of a certificate: that every rule which hits all of some duals weighs at least so much.

A plain branch and bound over sets as integers: the smallest dual that is not hit yet must be hit by one of its
components, each of which is tried in turn, without those tried before. What the duals that are left need at least is
bounded by giving each a price that no component pays more than its weight for (a feasible solution of the dual linear
program). Where that takes too many steps, HiGHS is asked, and its bound believed only with a wide margin for rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

STEPS = 50_000
MILP_NODES = 200_000
MILP_SECONDS = 60.0
TOLERANCE = 1e-12  # weights that are no whole numbers add up differently in another order
SAFE = 1e-3

State = tuple[list[int], int, float]  # the duals that are left, smallest first; the components chosen; their weight


def lighter(duals: Iterable[int], weights: Sequence[float], bound: float) -> int | None:
    """A set that hits every dual and weighs less than the bound, or None if there is none; raises TimeoutError if
    neither can be shown.

    >>> lighter([0b011, 0b110], [1.0, 1.0, 1.0], 2.0), lighter([0b01, 0b10], [1.0, 1.0], 2.0)
    (2, None)
    """
    demands = sorted(set(duals), key=int.bit_count)
    target = bound - TOLERANCE * abs(bound)
    if not demands:
        return 0 if target > 0 else None
    if demands[0] == 0:  # nothing hits the empty set
        return None
    try:
        return _branch(demands, weights, target)
    except TimeoutError:
        return _by_program(demands, weights, target)


def _branch(demands: list[int], weights: Sequence[float], target: float) -> int | None:
    pending: list[State] = [(demands, 0, 0.0)]
    for _ in range(STEPS):
        if not pending:
            return None
        left, chosen, weight = pending.pop()
        if weight + _needed(left, weights) >= target:
            continue
        if not left:
            return chosen
        pending += _children(left, chosen, weight, weights)
    raise TimeoutError


def _children(left: list[int], chosen: int, weight: float, weights: Sequence[float]) -> list[State]:
    """One child for every component of the smallest dual: it is in, those before it are out; the best one last."""
    children: list[State] = []
    out = 0
    for bit in sorted(_members(left[0]), key=lambda bit: -sum(dual >> bit & 1 for dual in left) / weights[bit]):
        rest = sorted((dual & ~out for dual in left if not dual >> bit & 1), key=int.bit_count)
        if not rest or rest[0]:
            children.append((rest, chosen | 1 << bit, weight + weights[bit]))
        out |= 1 << bit
    return children[::-1]


def _needed(left: list[int], weights: Sequence[float]) -> float:
    """What the duals need at least: each in turn takes all that its poorest component still has to give."""
    spent: dict[int, float] = {}
    total, empty = 0.0, 0
    for dual in left:
        if dual & empty:
            continue
        members = _members(dual)
        price = min(weights[bit] - spent.get(bit, 0.0) for bit in members)
        total += price
        for bit in members:
            spent[bit] = spent.get(bit, 0.0) + price
            empty |= (spent[bit] >= weights[bit]) << bit
    return total


@lru_cache(1 << 14)
def _members(components: int) -> tuple[int, ...]:
    members = []
    while components:
        lowest = components & -components
        members.append(lowest.bit_length() - 1)
        components ^= lowest
    return tuple(members)


def _by_program(demands: list[int], weights: Sequence[float], target: float) -> int | None:
    """The same by a mixed integer program."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    used = _members(int(np.bitwise_or.reduce(np.array(demands, dtype=object))))
    matrix = np.array([[dual >> bit & 1 for bit in used] for dual in demands], dtype=np.float64)
    cost = np.array([weights[bit] for bit in used])
    answer = milp(
        cost,
        integrality=np.ones(len(used)),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(matrix, lb=1.0),
        options={"mip_rel_gap": 0.0, "node_limit": MILP_NODES, "time_limit": MILP_SECONDS},
    )
    if answer.x is not None:
        chosen = sum(1 << bit for bit, share in zip(used, answer.x, strict=True) if share > 0.5)
        if all(dual & chosen for dual in demands) and sum(weights[bit] for bit in _members(chosen)) < target:
            return chosen
    if _surely_not_below(answer.mip_dual_bound, cost, target):
        return None
    raise TimeoutError


def _surely_not_below(bound: float | None, weights: np.ndarray, target: float) -> bool:
    """Whether a solver's lower bound leaves no room below the target; whole weights add up to whole numbers."""
    if bound is None or not math.isfinite(bound):
        return False
    if (weights == np.rint(weights)).all():
        return bound > math.ceil(target) - 1 + SAFE
    return bound > target + SAFE * max(1.0, abs(target))
