"""The nearest counterfactuals of a model that can be read, proven so: fewest changes first, then least distance.

What a point costs is one more sum of trees: every changed feature adds one and a share of how far it moved. So "is
there a cheaper counterfactual?" is the question that the exact oracle answers anyway, with one more margin: budget
less costs must be positive. Each answer lowers the budget, until the oracle proves that nothing is cheaper. For the
next one, every set of features changed so far is forbidden by a margin of its own: some feature of it must stay.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ironrule.model.cells import Cells
from ironrule.model.coded import table_tree
from ironrule.model.forest import Forest, cells_at, compile_reading
from ironrule.model.readable import Read
from ironrule.model.reading import Group, Margin
from ironrule.oracles.ensemble import Ensemble
from ironrule.oracles.geco.distance import Distance, Mix
from ironrule.oracles.protocol import Case
from ironrule.rule import Box
from ironrule.space import Points
from ironrule.verdict import Meter, Spent

GRAIN = 2.0**-30  # distances are rounded to this, so that sums of costs are exact

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Nearest:
    """Counterfactuals, nearest first. ``proven``: each is the nearest that changes all of no earlier one's features,
    and there is no further one where fewer came than were wanted. ``stopped`` says what ended the search early.
    """

    points: Points
    proven: bool
    stopped: str | None = None


def nearest(
    read: Read, case: Case, box: Box, k: int, meter: Meter, rng: np.random.Generator, limit: int = 2_000_000
) -> Nearest:
    """Up to k nearest counterfactuals in a box; ``limit`` boxes are looked at per question."""
    forests = compile_reading(read.sums, read.columns, case.space, case.feasible)
    if not forests:
        return Nearest(np.empty((0, len(case.space)), dtype=np.int32), True)
    search = _Search(read, case, box, Costs.of(case, box, forests[0].cells), limit)
    proven, stopped = False, None
    try:
        proven = search.run(k, meter, rng)
    except Spent:
        stopped = "budget"
    except KeyboardInterrupt:
        stopped = "interrupted"
    found = [*search.found, *([] if search.best is None else [search.best])]
    return Nearest(np.array(found, dtype=np.int32).reshape(-1, len(case.space)), proven, stopped)


@dataclass(frozen=True, slots=True, eq=False)
class Costs:
    """What every code costs by itself, and the cheapest code of the box in every cell."""

    own: tuple[Floats, ...]  # per feature and code
    cheapest: tuple[npt.NDArray[np.int64], ...]  # per feature and cell, the code
    least: tuple[Floats, ...]  # per feature and code, what the cheapest code of its cell costs

    @classmethod
    def of(cls, case: Case, box: Box, cells: Cells) -> Costs:
        """Tabulate the costs seen from an instance."""
        distance = Distance.of(case.space, case.instance, Mix())
        own, cheapest, least = [], [], []
        for j, size in enumerate(case.space.sizes.tolist()):
            apart = distance.table[distance.starts[j] : distance.starts[j] + size]
            cost = 1.0 + np.floor(apart / (len(case.space) + 1) / GRAIN) * GRAIN
            cost[case.instance[j]] = 0.0
            inside = (np.arange(size) >= box.low[j]) & (np.arange(size) <= box.high[j])
            of_code = cells.cell_of[cells.code_starts[j] : cells.code_starts[j + 1]]
            order = np.lexsort((cost, ~inside, of_code))
            cheapest.append(order[np.searchsorted(of_code[order], np.arange(of_code.max() + 1))])
            least.append(cost[cheapest[-1]][of_code])
            own.append(cost)
        return cls(tuple(own), tuple(cheapest), tuple(least))

    def of_point(self, point: Points) -> float:
        """What a point costs."""
        return float(sum(cost[code] for cost, code in zip(self.own, point, strict=True)))


@dataclass(slots=True, eq=False)
class _Search:
    read: Read
    case: Case
    box: Box
    costs: Costs
    limit: int
    found: list[Points] = field(default_factory=list)
    best: Points | None = None

    def run(self, k: int, meter: Meter, rng: np.random.Generator) -> bool:
        """Find up to k; whether all that was said of them is proven."""
        while len(self.found) < k:
            if not self._next(meter, rng):
                return False
            if self.best is None:
                break
            self.found.append(self.best)
            self.best = None
        return True

    def _next(self, meter: Meter, rng: np.random.Generator) -> bool:
        """Make the nearest that is still permitted the best one; whether it is proven that none is nearer."""
        extra = [self._budget(), *(self._unlike(point) for point in self.found)]
        forests = compile_reading(self.read.sums, self.read.columns, self.case.space, self.case.feasible, extra)
        budget = float(len(self.case.space) + 2)
        while True:
            oracle = Ensemble(tuple(_afforded(forest, len(extra), budget) for forest in forests), self.limit)
            answer = oracle.one(self.case, self.box, meter, rng)
            if not isinstance(answer, np.ndarray):
                return answer is not None
            self.best = self._cheapened(forests[0], answer)
            budget = self.costs.of_point(self.best)

    def _cheapened(self, forest: Forest, point: Points) -> Points:
        """The cheapest point of the same cells."""
        cells = cells_at(forest, point)
        codes = [cheapest[cell] for cheapest, cell in zip(self.costs.cheapest, cells, strict=True)]
        return np.array(codes, dtype=np.int32)

    def _budget(self) -> Margin:
        """What is left of a budget that is set later."""
        return Margin(0.0, (Group(tuple(table_tree(j, -cost) for j, cost in enumerate(self.costs.least))),))

    def _unlike(self, point: Points) -> Margin:
        """Positive where some feature that the point changes stays as it is."""
        changed = np.flatnonzero(point != self.case.instance).tolist()
        trees = tuple(table_tree(j, -(self.costs.least[j] > 0).astype(np.float64)) for j in changed)
        return Margin(len(changed) - 0.5, (Group(trees),))


def _afforded(forest: Forest, extra: int, budget: float) -> Forest:
    """A forest whose last margins, the budget first among them, are exact; a budget is to be undercut."""
    offset, slack = forest.offset.copy(), forest.slack.copy()
    offset[-extra] = budget - GRAIN / 8
    slack[-extra:] = 0.0
    return forest._replace(offset=offset, slack=slack)
