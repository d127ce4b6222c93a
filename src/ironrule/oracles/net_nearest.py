"""The nearest counterfactuals of a network, proven so: branch and bound by what changes cost.

A part of the box costs at least what its cheapest places do, feature by feature. Parts are bounded in the order of
that cost; one is closed if the network's bound closes it, if it costs as much as the best counterfactual found, or if
all its points change every feature of an earlier one. A part that holds the instance's place of a feature is cut next
to that place, so that parts soon say which features change; once no further change can be afforded, all others stay as
they are, and what is left are boxes of few features, which bounds close soon. A counterfactual that is met is made
cheaper, one feature after the other, before it becomes the best.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ironrule.model.net import Net
from ironrule.model.net_kernels import cells_at, margins_at
from ironrule.oracles.costs import Costs
from ironrule.oracles.net_engine import Cores, Engine
from ironrule.oracles.net_frontier import Frontier
from ironrule.oracles.net_occurring_kernels import Occurring
from ironrule.oracles.net_parts import Outcome, Taken
from ironrule.oracles.net_room import FOUND, OPEN, POINT
from ironrule.oracles.net_work import Work
from ironrule.oracles.protocol import Case
from ironrule.rule import Box
from ironrule.space import Points
from ironrule.verdict import Meter

MOST_PARTS = 400_000
STARTS = 8  # boxes climbed in for a first counterfactual

Ints = npt.NDArray[np.int64]


@dataclass(slots=True, eq=False)
class InNetworks:
    """The next nearest counterfactual, in every alternative of a network."""

    nets: tuple[Net, ...]
    case: Case
    box: Box
    costs: Costs
    engine: Engine
    most: int = MOST_PARTS
    best: Points | None = None
    unlike: list[Ints] = field(default_factory=list)

    @classmethod
    def of(cls, nets: tuple[Net, ...], case: Case, box: Box, engine: Engine | None) -> InNetworks:
        """A search in a box."""
        return cls(nets, case, box, Costs.of(case, box, nets[0].cells), engine or Cores())

    def next(self, found: list[Points], meter: Meter, rng: np.random.Generator) -> bool:
        """Search every alternative, each with the best of those before as what is to be undercut."""
        self.unlike = [np.flatnonzero(point != self.case.instance) for point in found]
        for net in self.nets:
            self._start(net, meter, rng)
        answers = [self._searched(net, meter) for net in self.nets]
        return all(answers)

    @property
    def budget(self) -> float:
        """What must be undercut."""
        return np.inf if self.best is None else self.costs.of_point(self.best)

    def _start(self, net: Net, meter: Meter, rng: np.random.Generator) -> None:
        """Climb in boxes that keep a feature of every earlier counterfactual."""
        for _ in range(STARTS if self.unlike else 1):
            meter.check()
            low, high = self.box.low.copy(), self.box.high.copy()
            for features in self.unlike:
                kept = rng.choice(features)
                low[kept] = high[kept] = self.case.instance[kept]
            found = Work(net, self.case, Box(low, high)).climbed(rng)
            if found is not None:
                self._offer(net, cells_at(net, found))

    def _searched(self, net: Net, meter: Meter) -> bool:
        """Bound parts until none is left that may hold anything cheaper; False if they are too many."""
        work = Work(net, self.case, self.box)
        frontier = Frontier.of(work.opened, self.costs, work.home, self.unlike)
        occurring = Occurring.of(net, work.opened, self.case.feasible, self.box)
        while frontier.keep_below(self.budget):
            if frontier.seen >= self.most:
                return False
            meter.check()
            some = occurring.those_with_any(frontier.taken(self.engine.batch, self.budget))
            outcome = self.engine.bounded(net, work.opened, some.low, some.high)
            meter.events["boxes"] += len(some.number)
            self._look_at(net, outcome, meter)
            cut = ((outcome.status == OPEN) | (outcome.status == FOUND)) & (outcome.cuts[:, 0] >= 0)
            parents = Taken(*(one[cut] for one in some))
            frontier.cut(parents, outcome.cuts[cut], self.best is not None)
        return True

    def _look_at(self, net: Net, outcome: Outcome, meter: Meter) -> None:
        """Counterfactuals that bounds have shown: sure ones, and points that only the model can decide."""
        for cells in outcome.points[outcome.status == FOUND]:
            self._offer(net, cells)
        for cells in outcome.points[outcome.status == POINT]:
            point = self.costs.cheapened(cells)
            if self._permitted(point) and meter.desired(self.case.model, point[None, :])[0]:
                self.best = point

    def _offer(self, net: Net, cells: Ints) -> None:
        """Make a counterfactual the best one if it is cheaper, as cheap as it can be made."""
        if self._permitted(self.costs.cheapened(cells)):
            for j in np.argsort(-np.array(self._prices(cells))).tolist():
                cells = self._cheaper(net, cells, j)
            self.best = self.costs.cheapened(cells)

    def _prices(self, cells: Ints) -> list[float]:
        """What a point given by cells costs, feature by feature."""
        every = zip(self.costs.own, self.costs.cheapest, cells, strict=True)
        return [float(own[cheapest[cell]]) for own, cheapest, cell in every]

    def _cheaper(self, net: Net, cells: Ints, j: int) -> Ints:
        """A counterfactual with the cheapest cell of one feature with which it surely is one that can occur."""
        codes = self.costs.cheapest[j]
        inside, prices = (codes >= self.box.low[j]) & (codes <= self.box.high[j]), self.costs.own[j][codes]
        better = np.flatnonzero(inside & (prices < prices[cells[j]]))
        moved = np.repeat(cells[None, :], len(better), axis=0)
        moved[:, j] = better
        moved = moved[margins_at(net, moved)[1] > 0.0]
        for one in moved[np.argsort(prices[moved[:, j]], kind="stable")]:
            if self.case.feasible.admits(self.costs.cheapened(one)[None, :])[0]:
                return np.asarray(one)
        return cells

    def _permitted(self, point: Points) -> bool:
        """Whether a point can occur, is cheaper than the best, and keeps a feature of every earlier one."""
        changed = point != self.case.instance
        if any(changed[features].all() for features in self.unlike) or self.costs.of_point(point) >= self.budget:
            return False
        return bool(self.case.feasible.admits(point[None, :])[0])
