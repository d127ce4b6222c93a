"""The two things that every algorithm with an oracle does: extend a refuted rule, and reduce a consistent one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ironrule.rule.bits import members, pack, popcount, unpack
from ironrule.rule.hitting import minimal_hitting_sets
from ironrule.search.problem import Problem
from ironrule.verdict import Refuted


def extensions(problem: Problem, rule: int, limit: int, most: int | None = None) -> list[int]:
    """The paper's Steps 1 to 4: a refuted rule with each minimal hitting set of the duals of its counterfactuals added.

    What is required and not met yet is hit as well. Every consistent rule that contains the rule and meets what is
    required contains one of these, as long as they are not more than ``limit``. A rule that cannot be refuted, and
    lacks nothing, has no extensions. With ``most``, only so many duals are hit, the smallest ones: then an extension
    may leave a counterfactual that is known, and is extended again.
    """
    verdict = problem.ask(rule)
    demands = pack([some & problem.allowed for some in problem.required if not some & rule], problem.n)
    if isinstance(verdict, Refuted):
        demands = np.concatenate([_smallest(problem.duals(verdict.points), most), demands])
    if len(demands) == 0:
        return []
    sets, _ = minimal_hitting_sets(demands, limit)
    problem.meter.events["extensions"] += len(sets)
    return [rule | added for added in unpack(sets)] if len(sets) else []


def _smallest(duals: npt.NDArray[np.uint64], most: int | None) -> npt.NDArray[np.uint64]:
    return duals if most is None else duals[np.argsort(popcount(duals), kind="stable")[:most]]


def reduced(problem: Problem, rule: int) -> int:
    """The rule without redundant components: each is dropped if the oracle cannot refute the rule without it."""
    for bit in sorted(members(rule), key=lambda bit: -problem.weights[bit]):
        shorter = rule & ~(1 << bit)
        if problem.meets(shorter) and not isinstance(problem.ask(shorter), Refuted):
            rule = shorter
    return rule
