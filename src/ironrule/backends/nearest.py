"""Nearest counterfactuals, what all backends share: costs, the protocol of a search, and its result.

Unless a query says otherwise, a change costs one for every feature changed, and a share of how far it moved; all shares
together are below one. So of two points the one with fewer changes is the cheaper, and of those with as many the one
that lies nearer. A query's own table of costs (:class:`~ironrule.rule.cost.CostTable`) is added up over the features,
or the largest part counts. Searches work on cells: the cheapest, or the nearest, point of some cells is looked up here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, Int32Array, Int64Array, Points
from ironrule.jit import kernel
from ironrule.model.normal_form.cells import Cells
from ironrule.oracles.geco.candidates import InstanceDistance, NormWeights
from ironrule.oracles.protocol import BoxQuery, Case, Run
from ironrule.rule.box import Box
from ironrule.rule.cost import CostTable

COST_STEP = 2.0**-30  # distances are rounded to this, so that sums of costs are exact
COST_BITS = 50  # of the sum of all costs that a query gives, to which they are rounded for the same reason


@dataclass(frozen=True, slots=True, eq=False)
class ChangeCosts:
    """What every code costs by itself, and the cheapest code of the query's box in every cell.

    Infinite is what may not be chosen. ``adds_up``: costs of features are added up; else the largest counts.
    """

    code_costs: tuple[Float64Array, ...]  # per feature and code
    cheapest_codes: tuple[Int64Array, ...]  # per feature and cell, the code
    adds_up: bool = True

    @classmethod
    def build(cls, query: BoxQuery, cells: Cells) -> ChangeCosts:
        """Tabulate the costs seen from an instance."""
        case, box, table = query.case, query.box, query.cost
        costs = _count_changes(case) if table is None else round_costs(table)
        cheapest = []
        for j, cost in enumerate(costs):
            codes, own = np.arange(len(cost)), int(case.instance[j])
            inside = (codes >= box.low[j]) & (codes <= box.high[j])
            of_code = cells.cell_by_code[cells.code_starts[j] : cells.code_starts[j + 1]]
            # Of codes that cost the same the instance's own comes first: a change that is not needed is none.
            order = np.lexsort((codes != own, cost, ~inside, of_code))
            cheapest.append(order[np.searchsorted(of_code[order], np.arange(of_code.max() + 1))])
        return cls(tuple(costs), tuple(cheapest), table is None or table.combine == "sum")

    def list_cell_costs(self) -> list[Float64Array]:
        """Per feature and cell, what its cheapest code costs."""
        return [cost[cheapest] for cost, cheapest in zip(self.code_costs, self.cheapest_codes, strict=True)]

    def combine(self, parts: Float64Array) -> Float64Array:
        """What points cost, given what each of their features does, in the last axis."""
        return np.asarray(parts.sum(axis=-1) if self.adds_up else parts.max(axis=-1, initial=0.0))

    def measure_point(self, point: Points) -> float:
        """What a point costs."""
        parts = [cost[code] for cost, code in zip(self.code_costs, point.tolist(), strict=True)]
        return float(self.combine(np.array(parts)))

    def sum_largest(self) -> float:
        """No less than what any point costs that may be chosen."""
        return sum(float(cost[np.isfinite(cost)].max(initial=0.0)) for cost in self.code_costs)

    def find_hull(self, box: Box) -> Box:
        """The smallest part of a box with all that may be chosen."""
        low, high = box.low.copy(), box.high.copy()
        for j, cost in enumerate(self.code_costs):
            chosen = np.flatnonzero(np.isfinite(cost[low[j] : high[j] + 1])) + low[j]
            low[j], high[j] = chosen[0], chosen[-1]
        return Box(low, high)

    def find_cheapest_point(self, cells: Int64Array) -> Points:
        """The cheapest point of some cells."""
        codes = [cheapest[cell] for cheapest, cell in zip(self.cheapest_codes, cells, strict=True)]
        return np.array(codes, dtype=np.int32)


def _count_changes(case: Case) -> list[Float64Array]:
    """The usual costs: fewest changes, then the least distance."""
    distance, costs = InstanceDistance.build(case.space, case.instance, NormWeights()), []
    for start, size, own in zip(distance.starts, case.space.sizes.tolist(), case.instance.tolist(), strict=True):
        apart = distance.table[start : start + size]
        costs.append(1.0 + np.floor(apart / (len(case.space) + 1) / COST_STEP) * COST_STEP)
        costs[-1][own] = 0.0
    return costs


def round_costs(table: CostTable) -> list[Float64Array]:
    """A table's costs as multiples of a small power of two, so that sums of them are exact."""
    costs = [np.asarray(part, dtype=np.float64) for part in table.parts]
    most = max((float(part[np.isfinite(part)].max(initial=0.0)) for part in costs), default=0.0)
    if table.combine == "max" or most == 0.0:
        return costs
    step = math.ldexp(1.0, max(math.frexp(most)[1] + len(costs).bit_length() - COST_BITS, -1000))
    return [np.rint(part / step) * step for part in costs]


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


GapCostKind = Literal["straight", "squared", "unknown"]
"""What numbers between two values cost: on the straight line, on the parabola, or between what the values cost."""


@dataclass(frozen=True, slots=True, eq=False)
class GapCosts:
    """Per feature and code, whether numbers that may be chosen lie before the next one, and per feature what they cost;
    ``bends`` says how far what the network sees of such a number may be from the straight line on which its cost is
    known, ``least_change`` what any change of a feature costs at least.
    """

    after: tuple[BoolArray, ...]
    kinds: tuple[GapCostKind, ...]
    bends: tuple[float, ...]
    least_change: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class CheapestPoint:
    """The cheapest counterfactual that was found, None if none was, and what every one costs at least."""

    point: Points | None
    cost: float
    bound: float


@dataclass(order=True, slots=True)
class OpenPart:
    """A box that may hold a counterfactual between two values, by what its points cost at least."""

    bound: float
    box: Box = field(compare=False)


class CostSearch(Protocol):
    """A search for cheapest counterfactuals under any cost, with a bound of what is left open.

    ``limit`` is how many boxes are looked at for one counterfactual; ``stuck`` are those that could neither be closed
    nor cut.
    """

    limit: int
    stuck: list[OpenPart]

    def find_next(self, earlier: Sequence[frozenset[int]]) -> CheapestPoint:
        """The cheapest counterfactual that changes all the features of no earlier one."""
        ...

    @property
    def answer(self) -> CheapestPoint:
        """What is known now, also where the search was ended by an exception."""
        ...


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
