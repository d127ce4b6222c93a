"""What changes cost: one for every feature changed, and a share of how far it moved; all shares together are below one.

So of two points the one with fewer changes is the cheaper, and of those with as many the one that lies nearer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ironrule.model.cells import Cells
from ironrule.oracles.geco.distance import Distance, Mix
from ironrule.oracles.protocol import Case
from ironrule.rule import Box
from ironrule.space import Points

GRAIN = 2.0**-30  # distances are rounded to this, so that sums of costs are exact

Floats = npt.NDArray[np.float64]


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

    def cheapened(self, cells: npt.NDArray[np.int64]) -> Points:
        """The cheapest point of some cells."""
        codes = [cheapest[cell] for cheapest, cell in zip(self.cheapest, cells, strict=True)]
        return np.array(codes, dtype=np.int32)
