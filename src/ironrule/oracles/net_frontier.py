"""The parts of a box that wait in a search for the cheapest point: how cheap each can be, and what it can still afford.

The least cost of a range of places is looked up in a table of the least over runs of 1, 2, 4, ... places, two of which
make up any range.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ironrule.oracles.costs import Costs
from ironrule.oracles.net_parts import Taken
from ironrule.oracles.net_room import Opened

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(slots=True, eq=False)
class Frontier:
    """Ranges of open places that wait, and the least that a point in each costs; ``seen`` counts those taken."""

    starts: Ints
    least: Floats  # per length of a run, a power of two, and place
    home: Ints  # per feature, the instance's place
    change: Floats  # per feature, the cheapest change
    unlike: list[Ints]
    low: Ints
    high: Ints
    cost: Floats
    seen: int = 0

    @classmethod
    def of(cls, opened: Opened, costs: Costs, home: Ints, unlike: list[Ints]) -> Frontier:
        """The whole box, waiting."""
        ends = list(zip(opened.starts[:-1].tolist(), opened.starts[1:].tolist(), strict=True))
        cells = [opened.cells[start:end] for start, end in ends]
        each = [cost[best[own]] for cost, best, own in zip(costs.own, costs.cheapest, cells, strict=True)]
        places = np.array([np.searchsorted(own, cell) for own, cell in zip(cells, home, strict=True)])
        change = np.array([np.min(cost[cost > 0.0], initial=np.inf) for cost in each])
        whole = np.diff(opened.starts)[None, :] - 1
        none = np.zeros_like(whole)
        return cls(opened.starts[:-1], _runs(np.concatenate(each)), places, change, unlike, none, whole, np.zeros(1))

    def keep_below(self, budget: float) -> bool:
        """Leave out what costs as much as the budget; whether anything waits."""
        kept = self.cost < budget
        if not kept.all():
            self.low, self.high, self.cost = self.low[kept], self.high[kept], self.cost[kept]
        return len(self.cost) > 0

    def taken(self, most: int, budget: float) -> Taken:
        """The cheapest of those that wait; features whose change they cannot afford stay."""
        order = np.argsort(self.cost, kind="stable")
        some, rest = order[:most], order[most:]
        low, high, cost = self.low[some], self.high[some], self.cost[some]
        self.low, self.high, self.cost = self.low[rest], self.high[rest], self.cost[rest]
        self.seen += len(some)
        at_home = (low <= self.home) & (high >= self.home) & (cost[:, None] + self.change >= budget)
        stay = np.broadcast_to(self.home, low.shape)
        return Taken(some, np.where(at_home, stay, low), np.where(at_home, stay, high))

    def cut(self, parents: Taken, cuts: Ints, beside_home: bool) -> None:
        """Cut parts in two, next to the instance's place where they hold it if so wanted; the halves wait."""
        row, feature, place = np.arange(len(cuts)), cuts[:, 0], cuts[:, 1]
        if beside_home:
            home, first = self.home[feature], parents.low[row, feature]
            inside = (first <= home) & (home <= parents.high[row, feature])
            place = np.where(inside, np.where(home > first, home - 1, home), place)
        low, high = np.concatenate([parents.low] * 2), np.concatenate([parents.high] * 2)
        high[row, feature] = place
        low[len(cuts) + row, feature] = place + 1
        cost, kept = self._costs(low, high), ~self._all_alike(low, high)
        self.low, self.high = np.concatenate([self.low, low[kept]]), np.concatenate([self.high, high[kept]])
        self.cost = np.concatenate([self.cost, cost[kept]])

    def _costs(self, low: Ints, high: Ints) -> Floats:
        """The least that a point of every part costs."""
        power = np.frexp((high - low + 1).astype(np.float64))[1] - 1
        first, last = self.starts + low, self.starts + high - (1 << power) + 1
        return np.asarray(np.minimum(self.least[power, first], self.least[power, last]).sum(axis=1))

    def _all_alike(self, low: Ints, high: Ints) -> npt.NDArray[np.bool_]:
        """Whether all points of a part change every feature of an earlier counterfactual."""
        changed, alike = (low > self.home) | (high < self.home), np.zeros(len(low), dtype=np.bool_)
        for features in self.unlike:
            alike |= changed[:, features].all(axis=1)
        return alike


def _runs(costs: Floats) -> Floats:
    """For runs of 1, 2, 4, ... places from every place on, the least of their costs."""
    runs, length = [costs], 1
    while 2 * length <= len(costs):
        runs.append(np.minimum(runs[-1], np.concatenate([runs[-1][length:], np.full(length, np.inf)])))
        length *= 2
    return np.stack(runs)
