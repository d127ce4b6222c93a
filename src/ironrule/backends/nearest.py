"""Nearest counterfactuals, what all backends share: costs, the protocol of a search, and its result.

A change costs one for every feature changed, and a share of how far it moved; all shares together are below one. So of
two points the one with fewer changes is the cheaper, and of those with as many the one that lies nearer. Searches work
on cells: the cheapest, or the nearest, point of some cells is looked up here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ironrule.arrays import Float64Array, Int32Array, Int64Array, Points
from ironrule.jit import kernel
from ironrule.model.normal_form.cells import Cells
from ironrule.oracles.geco.candidates import InstanceDistance, NormWeights
from ironrule.oracles.protocol import Case, Run
from ironrule.rule.box import Box

COST_STEP = 2.0**-30  # distances are rounded to this, so that sums of costs are exact


@dataclass(frozen=True, slots=True, eq=False)
class ChangeCosts:
    """What every code costs by itself, and the cheapest code of the box in every cell."""

    code_costs: tuple[Float64Array, ...]  # per feature and code
    cheapest_codes: tuple[Int64Array, ...]  # per feature and cell, the code
    cell_costs: tuple[Float64Array, ...]  # per feature and code, what the cheapest code of its cell costs

    @classmethod
    def build(cls, case: Case, box: Box, cells: Cells) -> ChangeCosts:
        """Tabulate the costs seen from an instance."""
        distance = InstanceDistance.build(case.space, case.instance, NormWeights())
        own, cheapest, least = [], [], []
        for j, size in enumerate(case.space.sizes.tolist()):
            apart = distance.table[distance.starts[j] : distance.starts[j] + size]
            cost = 1.0 + np.floor(apart / (len(case.space) + 1) / COST_STEP) * COST_STEP
            cost[case.instance[j]] = 0.0
            inside = (np.arange(size) >= box.low[j]) & (np.arange(size) <= box.high[j])
            of_code = cells.cell_by_code[cells.code_starts[j] : cells.code_starts[j + 1]]
            order = np.lexsort((cost, ~inside, of_code))
            cheapest.append(order[np.searchsorted(of_code[order], np.arange(of_code.max() + 1))])
            least.append(cost[cheapest[-1]][of_code])
            own.append(cost)
        return cls(tuple(own), tuple(cheapest), tuple(least))

    def sum_point(self, point: Points) -> float:
        """What a point costs."""
        return float(sum(cost[code] for cost, code in zip(self.code_costs, point, strict=True)))

    def find_cheapest_point(self, cells: Int64Array) -> Points:
        """The cheapest point of some cells."""
        codes = [cheapest[cell] for cheapest, cell in zip(self.cheapest_codes, cells, strict=True)]
        return np.array(codes, dtype=np.int32)


@dataclass(frozen=True, slots=True)
class NearestCounterfactuals:
    """Counterfactuals, nearest first. ``proven``: each is the nearest that changes all of no earlier one's features,
    and there is no further one where fewer came than were wanted. ``stopped`` says what ended the search early. The
    first ``proven_count`` are proven to be nearest, however the search ended.
    """

    points: Points
    proven: bool
    stopped: str | None = None
    proven_count: int = 0


class NearestSearch(Protocol):
    """A search for one counterfactual after the other; ``best`` is the nearest so far of the next one."""

    best: Points | None

    def next(self, found: list[Points], run: Run) -> bool:
        """Set ``best`` to the nearest that changes all of no earlier one's features, or None; whether it is proven."""
        ...


@dataclass(slots=True)
class NoCounterfactuals:
    """The search in a model that never gives the desired outcome."""

    best: Points | None = None

    def next(self, found: list[Points], run: Run) -> bool:  # noqa: ARG002  # as every search
        """That there is none is proven."""
        return True


@kernel
def fill_nearest_codes(
    cells: Cells, point: Int64Array, instance: Int32Array, low: Int32Array, high: Int32Array, codes: Int32Array
) -> None:
    """For every feature the code of the point's cell that lies in the box and nearest to the instance's."""
    for feature in range(point.shape[0]):
        own = instance[feature]
        home = cells.cell_by_code[cells.code_starts[feature] + own] == point[feature]
        if home and low[feature] <= own <= high[feature]:
            codes[feature] = own
            continue
        cell = cells.cell_starts[feature] + point[feature]
        best, gap = -1, np.int64(1) << 62
        for place in range(cells.cell_code_starts[cell], cells.cell_code_starts[cell + 1]):
            code = cells.codes[place]
            if low[feature] <= code <= high[feature] and abs(code - own) < gap:
                best, gap = code, abs(code - own)
        codes[feature] = best
