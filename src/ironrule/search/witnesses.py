"""The second half of a certificate: counterfactuals that together need a rule of a given weight.

What a search has found serves first. Where that does not suffice, past rows with the desired outcome are added, each
one inside the lightest rule that the others leave: it shows that this rule fails too.
"""

from __future__ import annotations

import numpy as np

from ironrule.rule.bit_kernels import Words
from ironrule.rule.bits import pack, unpack
from ironrule.rule.duals import minimal
from ironrule.rule.hitting import lighter_hitting_set
from ironrule.search.problem import Problem
from ironrule.space import Points

NODES = 2_000_000
MOST_ROWS = 64


def witnesses(problem: Problem, weight: float, needing: Words | None = None) -> Points | None:
    """Counterfactuals whose duals need a permitted rule of at least this weight; None if they cannot be gathered.

    Where a search has shown that some demands are ``needing`` that weight, and all are those of counterfactuals that it
    found, nothing is left to show.
    """
    found = problem.oracle.points
    points, duals = _strongest(problem, np.empty((0, problem.n), dtype=np.int32) if found is None else found)
    for _ in range(MOST_ROWS):
        demands = np.concatenate([duals, pack(problem.required, problem.n)])
        if len(demands) and not demands.any(axis=1).all():
            return points
        if needing is not None and set(unpack(needing)).issubset(unpack(demands)):
            return points
        lighter, bound = lighter_hitting_set(minimal(demands), problem.weights, below=weight, node_limit=NODES)
        if bound >= weight:
            return points
        rows = _past_exceptions(problem, unpack(lighter)[0]) if lighter is not None else points[:0]
        if len(rows) == 0:
            return None
        points, duals = _strongest(problem, np.concatenate([points, rows]))
    return None


def _strongest(problem: Problem, points: Points) -> tuple[Points, Words]:
    """One point for every dual that contains no other, and these duals."""
    duals = problem.duals(points)
    places = {dual: place for place, dual in reversed(list(enumerate(unpack(duals))))}
    chosen = sorted(places[dual] for dual in unpack(minimal(duals)))
    return points[chosen], duals[chosen]


def _past_exceptions(problem: Problem, rule: int) -> Points:
    """Past rows with the desired outcome in the rule's box."""
    box, past = problem.case.relevant.box(rule), problem.case.history.desired
    rows = np.flatnonzero(past.inside(box.low, box.high, problem.case.space.sizes))
    return np.unique(past.points(rows[:MOST_ROWS]), axis=0)
