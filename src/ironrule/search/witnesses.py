"""The second half of a certificate: counterfactuals that together need a rule of a given weight.

What a search has found serves first. Where that does not suffice, past rows with the desired outcome are added, each
one inside the lightest rule that the others leave: it shows that this rule fails too.
"""

from __future__ import annotations

import numpy as np

from ironrule.rule.bits import pack, unpack
from ironrule.rule.duals import duals_of, minimal
from ironrule.rule.hitting import lighter_hitting_set
from ironrule.search.problem import Problem
from ironrule.space import Points

NODES = 2_000_000
MOST_ROWS = 64


def witnesses(problem: Problem, weight: float) -> Points | None:
    """Counterfactuals whose duals need a permitted rule of at least this weight; None if they cannot be gathered."""
    found = problem.oracle.points
    points = _strongest(problem, np.empty((0, problem.n), dtype=np.int32) if found is None else found)
    for _ in range(MOST_ROWS):
        demands = np.concatenate([_demands(problem, points), pack(problem.required, problem.n)])
        if len(demands) and not demands.any(axis=1).all():
            return points
        lighter, bound = lighter_hitting_set(minimal(demands), problem.weights, below=weight, node_limit=NODES)
        if bound >= weight:
            return points
        rows = _past_exceptions(problem, unpack(lighter)[0]) if lighter is not None else points[:0]
        if len(rows) == 0:
            return None
        points = _strongest(problem, np.concatenate([points, rows]))
    return None


def _demands(problem: Problem, points: Points) -> np.ndarray:
    relevant = problem.case.relevant
    return np.asarray(duals_of(points, relevant.low, relevant.high) & pack(problem.allowed, problem.n))


def _strongest(problem: Problem, points: Points) -> Points:
    """One point for every dual that contains no other."""
    duals = _demands(problem, points)
    strong = {row.tobytes() for row in minimal(duals)}
    _, first = np.unique(duals, axis=0, return_index=True)
    return points[[place for place in np.sort(first).tolist() if duals[place].tobytes() in strong]]


def _past_exceptions(problem: Problem, rule: int) -> Points:
    """Past rows with the desired outcome in the rule's box."""
    box, past = problem.case.relevant.box(rule), problem.case.history.desired
    rows = np.flatnonzero(past.inside(box.low, box.high, problem.case.space.sizes))
    return np.unique(past.points(rows[:MOST_ROWS]), axis=0)
