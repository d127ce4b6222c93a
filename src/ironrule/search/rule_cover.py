"""Cover all rows of a batch by as few rules as possible: minimum set cover.

Candidates that cover no more than another one, and rows that are covered whenever another one is, are left out first.
The greedy choice (Chvatal 1979) gives a cover at once; HiGHS gives a smaller one, or the proof that there is none,
within its time limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ironrule.arrays import AnyArray, BoolArray, Int64Array

BOUND_TOLERANCE = 1e-6  # per rule; what HiGHS's tolerances may raise its bound by


@dataclass(frozen=True, slots=True)
class RuleCoverSolution:
    """Which candidates cover everything, and how many are needed at least."""

    positions: tuple[int, ...]
    lower_bound: int


def find_covered_points(points: AnyArray, low: AnyArray, high: AnyArray) -> BoolArray:
    """For every box a row of flags: which points it holds."""
    flags = np.empty((len(low), len(points)), dtype=np.bool_)
    top = points.max(axis=0) if len(points) else np.zeros(points.shape[1])
    # Box by box, only the features are compared in which the box excludes some value.
    for place, (first, last) in enumerate(zip(low, high, strict=True)):
        said = np.flatnonzero((first > 0) | (last < top))
        some = points[:, said]
        flags[place] = ((some >= first[said]) & (some <= last[said])).all(axis=1)
    return flags


def find_minimum_rule_cover(flags: BoolArray, seconds: float) -> RuleCoverSolution:
    """The fewest rows of a matrix of flags that together have one in every column, each of which must have one."""
    rules, rows = _reduce_candidates(flags)
    small = flags[np.ix_(rules, rows)]
    # The greedy cover is the answer if HiGHS finds none in time, or a larger one. One rule needs no proof.
    greedy = _solve_greedily(small)
    exact = _solve_with_highs(small, seconds) if len(greedy) > 1 else RuleCoverSolution(tuple(greedy), len(greedy))
    places = exact.positions if exact.positions and len(exact.positions) <= len(greedy) else tuple(greedy)
    return RuleCoverSolution(tuple(int(rules[place]) for place in places), min(exact.lower_bound, len(places)))


def _reduce_candidates(flags: BoolArray) -> tuple[Int64Array, Int64Array]:
    """The rules and rows that matter, until nothing more can be left out."""
    rules, rows = np.arange(flags.shape[0]), np.arange(flags.shape[1])
    # Each reduction helps the other: with fewer rules more rows contain one another. Repeat until neither helps.
    while True:
        before = len(rules), len(rows)
        rules = rules[_find_maximal_rows(flags[np.ix_(rules, rows)])]
        rows = rows[_find_maximal_rows(~flags[np.ix_(rules, rows)].T)]  # a row with more rules is easier to cover
        if (len(rules), len(rows)) == before:
            return rules, rows


def _find_maximal_rows(flags: BoolArray) -> BoolArray:
    """Which rows of the matrix are not part of another one; of equal ones the first stays."""
    packed = np.packbits(flags, axis=1)
    sizes = flags.sum(axis=1)
    order = np.lexsort((np.arange(len(flags)), -sizes))
    kept: list[int] = []
    stays = np.zeros(len(flags), dtype=np.bool_)
    largest = np.empty_like(packed)
    # From the largest row to the smallest, so that a row can only be part of one that was kept before it.
    for place in order.tolist():
        if not (packed[place] & ~largest[: len(kept)] == 0).all(axis=1).any():
            largest[len(kept)] = packed[place]
            kept.append(place)
            stays[place] = True
    return stays


def _solve_greedily(flags: BoolArray) -> list[int]:
    """Always the rule that covers most of what is not covered yet."""
    open_rows, chosen = np.ones(flags.shape[1], dtype=np.bool_), list[int]()
    # Every column has a flag, so each turn covers at least one more column and the loop ends.
    while open_rows.any():
        best = int(flags[:, open_rows].sum(axis=1).argmax())
        chosen.append(best)
        open_rows &= ~flags[best]
    return chosen


def _solve_with_highs(flags: BoolArray, seconds: float) -> RuleCoverSolution:
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    limits = LinearConstraint(csr_array(flags.T.astype(np.float64)), 1.0, np.inf)
    options = {"time_limit": seconds, "mip_rel_gap": 0.0}
    found = milp(np.ones(len(flags)), integrality=1, bounds=Bounds(0, 1), constraints=limits, options=options)
    bound = getattr(found, "mip_dual_bound", None)
    # The bound is first lowered by what the tolerances may add, then rounded up: a number of rules is whole.
    lower = 0 if bound is None else math.ceil(bound - BOUND_TOLERANCE * len(flags))
    places = () if found.x is None else tuple(np.flatnonzero(found.x > 0.5).tolist())
    # Rounded values are held against all columns: a cover that misses one is not used.
    sound = bool(places) and bool(flags[list(places)].any(axis=0).all())
    return RuleCoverSolution(places if sound else (), max(1, lower))
