"""The two things that every algorithm with an oracle does: extend a refuted rule, and reduce a consistent one."""

from __future__ import annotations

import numpy as np

from ironrule.rule.bits import members, pack, unpack
from ironrule.rule.hitting import minimal_hitting_sets
from ironrule.search.problem import Problem
from ironrule.verdict import Refuted


def extensions(problem: Problem, rule: int, limit: int) -> list[int]:
    """The paper's Steps 1 to 4: a refuted rule with each minimal hitting set of the duals of its counterfactuals added.

    What is required and not met yet is hit as well. Every consistent rule that contains the rule and meets what is
    required contains one of these, as long as they are not more than ``limit``. A rule that cannot be refuted, and
    lacks nothing, has no extensions.
    """
    verdict = problem.ask(rule)
    demands = pack([some & problem.allowed for some in problem.required if not some & rule], problem.n)
    if isinstance(verdict, Refuted):
        demands = np.concatenate([problem.duals(verdict), demands])
    if len(demands) == 0:
        return []
    sets, _ = minimal_hitting_sets(demands, limit)
    problem.meter.events["extensions"] += len(sets)
    return [rule | added for added in unpack(sets)] if len(sets) else []


def reduced(problem: Problem, rule: int) -> int:
    """The rule without redundant components: each is dropped if the oracle cannot refute the rule without it."""
    for bit in sorted(members(rule), key=lambda bit: -problem.weights[bit]):
        shorter = rule & ~(1 << bit)
        if problem.meets(shorter) and not isinstance(problem.ask(shorter), Refuted):
            rule = shorter
    return rule
