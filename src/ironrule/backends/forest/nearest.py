"""The nearest counterfactuals of a forest, proven so: fewest changes first, then least distance.

What a point costs is one more sum of trees: every changed feature adds one and a share of how far it moved. So "is
there a cheaper counterfactual?" is the question that the exact oracle answers anyway, with one more margin: the cost
limit less the cost must be positive. Each answer lowers the limit, until the oracle proves that nothing is cheaper.
For the next one, every set of features changed so far is forbidden by a margin of its own: some feature of it must
stay.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ironrule.arrays import Points
from ironrule.backends.forest.compile import CompiledForest, compile_tree_sum
from ironrule.backends.forest.oracle import ForestOracle
from ironrule.backends.nearest import COST_STEP, ChangeCosts
from ironrule.model.normal_form.splits import build_code_tree
from ironrule.model.normal_form.tree_sum import LinkedGroup, Margin
from ironrule.model.read_model import TabulatedModel
from ironrule.oracles.protocol import BoxQuery, Case, Run
from ironrule.rule.box import Box


@dataclass(slots=True, eq=False)
class ForestNearestSearch:
    """One counterfactual after the other, each the cheapest that the exact oracle leaves."""

    tabulated_model: TabulatedModel
    case: Case
    box: Box
    costs: ChangeCosts
    limit: int
    best: Points | None = field(default=None)

    def next(self, found: list[Points], run: Run) -> bool:
        """Look for the cheapest counterfactual that those found leave, as ``best``; whether that ended with a proof."""
        extra = [self._build_cost_margin(), *(self._build_difference_margin(point) for point in found)]
        read, case = self.tabulated_model, self.case
        forests = compile_tree_sum(read.tree_sum, read.columns, case.space, case.feasible, extra)
        # More than any point costs, so that the first answer is any counterfactual.
        cost_limit = float(len(case.space) + 2)
        # Every answer costs less than the limit and lowers it. A proof ends the loop: nothing cheaper exists.
        while True:
            limited = tuple(_set_cost_limit(forest, len(extra), cost_limit) for forest in forests)
            answer = ForestOracle(limited, self.limit).find_or_prove(BoxQuery(case, self.box), run)
            if not isinstance(answer, np.ndarray):
                return answer is not None
            self.best = self.costs.find_cheapest_point(forests[0].cells.locate(answer))
            cost_limit = self.costs.sum_point(self.best)

    def _build_cost_margin(self) -> Margin:
        """What is left of a cost limit that is set later."""
        trees = tuple(build_code_tree(j, -cost) for j, cost in enumerate(self.costs.cell_costs))
        return Margin(0.0, (LinkedGroup(trees),))

    def _build_difference_margin(self, point: Points) -> Margin:
        """Positive where some feature that the point changes stays as it is."""
        changed = np.flatnonzero(point != self.case.instance).tolist()
        # Each changed feature takes 1 away: only if all of them are changed is the sum below zero.
        trees = tuple(build_code_tree(j, -(self.costs.cell_costs[j] > 0).astype(np.float64)) for j in changed)
        return Margin(len(changed) - 0.5, (LinkedGroup(trees),))


def _set_cost_limit(forest: CompiledForest, extra: int, cost_limit: float) -> CompiledForest:
    """A forest whose last margins, the cost limit first among them, are exact; the limit is to be undercut."""
    offset, slack = forest.offset.copy(), forest.slack.copy()
    # A fraction of the smallest difference of two costs: a point that costs as much as the limit is refused.
    offset[-extra] = cost_limit - COST_STEP / 8
    slack[-extra:] = 0.0
    return forest._replace(offset=offset, slack=slack)
