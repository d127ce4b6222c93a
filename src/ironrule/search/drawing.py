"""Where the points come from on which the genetic algorithms judge a rule.

The paper draws from the space: any point of the rule's box. Its authors' public program changes past rows instead: all
features that the rule speaks of get the instance's values. That looks at a small part of the box only, the one that
resembles the past and has the instance's own values, so exceptions elsewhere go unseen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ironrule.rule.bits import members
from ironrule.search.problem import Problem
from ironrule.space import Points


class Drawing(Protocol):
    """Draws points of a rule's box."""

    def draw(self, problem: Problem, rule: int, count: int) -> Points:
        """Up to ``count`` points that can occur; fewer where constraints leave too few."""
        ...


@dataclass(frozen=True, slots=True)
class FromSpace:
    """Uniformly from all that can occur in the box."""

    def draw(self, problem: Problem, rule: int, count: int) -> Points:
        """Up to ``count`` points; fewer only if rejection finds too few."""
        box = problem.case.relevant.box(rule)
        return problem.case.feasible.draw(problem.rng, box.low, box.high, count)


@dataclass(frozen=True, slots=True)
class FromHistory:
    """Past rows in which the features that the rule speaks of have the instance's values."""

    def draw(self, problem: Problem, rule: int, count: int) -> Points:
        """``count`` points, less those that constraints exclude."""
        case = problem.case
        points = case.history.codes.points(problem.rng.integers(len(case.history), size=count))
        spoken_of = np.unique([bit // 2 for bit in members(rule)]).astype(np.intp)
        points[:, spoken_of] = case.instance[spoken_of]
        return points[case.feasible.admits(points)]
