"""What changes cost in a network's terms: for every feature the places that a search may choose, and what they cost.

A place is a cell of the network, in the order of what the network sees; boxes are ranges of places. Where the network
sees a feature in several columns, its numbers come first. Where numbers lie between two neighbouring places, the places
are *joined*: a range with both of them has all that lies between. The cost of these numbers is not tabulated. So every
place has, beside the ``cost`` of its own value, an ``edge`` cost, such that the straight line between the edges of two
joined places is nowhere above what the numbers between them cost:

- where the network sees a number in a straight line, and the cost is a distance, the costs themselves are such edges;
- for a squared distance the line may lie above the parabola by a quarter of the squared difference of the two
  distances, by which both edges are lowered;
- elsewhere a number costs no less than the cheaper of its two neighbours.

If every change of a feature costs something, its cost jumps beside the instance's own value. Then that value has a
place by itself, and the numbers on either side begin with a further place, which costs what the least change costs.

The least of ``edge - factor * value`` over a long range is found on the ``envelope``: on either side of the instance's
own place the largest convex function below the edges, whose ``slopes`` rise. Where only the largest cost of all
features counts, ``envelope`` is instead the least edge of all places that are no nearer to the instance's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, Int64Array
from ironrule.backends.nearest import GapCostKind, GapCosts
from ironrule.backends.network.compile import CompiledNetwork
from ironrule.backends.network.workspace import OpenCells
from ironrule.jit import kernel
from ironrule.oracles.protocol import Case
from ironrule.rule.box import Box
from ironrule.rule.cost import CostTable

TABLE_ROUNDING = 2.0**-39  # of the largest part, more than tables of costs are rounded by
ENVELOPE_ROUNDING = 1e-12  # of the largest edge, by which envelopes are lowered: they must not be above any edge


class ChangePlaces(NamedTuple):
    """The places of all features, end to end."""

    starts: Int64Array  # per feature, its first place
    cells: Int64Array  # per place, the cell within the feature
    codes: Int64Array  # per place, the cheapest code of the cell
    values: Float64Array  # per place, what a scaled number is there
    cost: Float64Array  # per place, what its own value costs
    edge: Float64Array
    envelope: Float64Array
    slopes: Float64Array  # per place, the envelope's slope up to the next place
    joined: BoolArray  # per place, whether numbers lie between it and the next one
    own: Int64Array  # per feature, the instance's own place counted from the first, or -1 where it may not be chosen
    bends: Float64Array  # per feature, how far what the network sees of a number may be from the straight line
    is_virtual: BoolArray  # per place, whether it only marks where the numbers beside the instance's own begin

    def as_open_cells(self) -> OpenCells:
        """The places in the form that bounds of boxes read."""
        return OpenCells(self.starts, self.cells, self.values, *[self.cells] * 3)


def list_change_places(
    net: CompiledNetwork, case: Case, box: Box, table: CostTable, gaps: GapCosts
) -> ChangePlaces | None:
    """The places of a box, without those that may not be chosen; None if some feature has none."""
    rounding = TABLE_ROUNDING * max([0.0, *(float(part[np.isfinite(part)].max(initial=0.0)) for part in table.parts)])
    parts = list[_FeaturePlaces]()
    for j, part in enumerate(table.parts):
        codes = np.arange(int(box.low[j]), int(box.high[j]) + 1)
        codes = codes[np.isfinite(part[codes])]
        if not len(codes):
            return None
        after = np.flatnonzero(gaps.after[j][: int(box.high[j])])
        after = after[after >= int(box.low[j])]
        listed = _list_feature_places(
            net, j, codes, part, own=int(case.instance[j]), after=after, least_change=gaps.least_change
        )
        listed.join(after, gaps.kinds[j], rounding)
        parts.append(listed)
    envelopes = [part.build_envelope(table.combine == "max", bool(net.is_linear[j])) for j, part in enumerate(parts)]
    counts = [len(part.cells) for part in parts]
    return ChangePlaces(
        starts=np.cumsum([0, *counts]).astype(np.int64),
        cells=np.concatenate([part.cells for part in parts]),
        codes=np.concatenate([part.codes for part in parts]),
        values=np.concatenate([part.values for part in parts]),
        cost=np.concatenate([part.cost for part in parts]),
        edge=np.concatenate([part.edge for part in parts]),
        envelope=np.concatenate([envelope for envelope, _ in envelopes]),
        slopes=np.concatenate([slopes for _, slopes in envelopes]),
        joined=np.concatenate([part.joined for part in parts]),
        own=np.array([part.own for part in parts], dtype=np.int64),
        bends=np.array(gaps.bends, dtype=np.float64),
        is_virtual=np.concatenate([part.is_virtual for part in parts]),
    )


@dataclass(slots=True, eq=False)
class _FeaturePlaces:
    """The places of one feature, while they are listed."""

    cells: Int64Array
    codes: Int64Array
    values: Float64Array
    cost: Float64Array
    edge: Float64Array
    joined: BoolArray
    is_virtual: BoolArray
    own: int  # the place of the instance's own value, or -1
    place_by_code: dict[int, int]

    def join(self, codes: Int64Array, kind: GapCostKind, rounding: float) -> None:
        """Join the places of some codes and the next ones; lower the edges to what the numbers between them cost."""
        ends = np.array(
            [(self.place_by_code[code], self.place_by_code[code + 1]) for code in codes.tolist()], dtype=np.int64
        )
        ends = np.sort(ends.reshape(-1, 2), axis=1)
        # The numbers beside the instance's own value begin at its virtual place, where it has one on that side.
        if self.own >= 0:
            ends[(ends[:, 0] == self.own) & self.is_virtual[self.own + 1 : self.own + 2].any(), 0] += 1
            ends[(ends[:, 1] == self.own) & self.is_virtual[max(self.own - 1, 0) : self.own].any(), 1] -= 1
        costs = self.cost[ends]
        if kind == "squared":
            low, high = costs.min(axis=1), costs.max(axis=1)
            costs = costs - ((np.sqrt(high + rounding) - np.sqrt(low)) ** 2 / 4)[:, None]
        elif kind == "unknown":
            costs = np.repeat(costs.min(axis=1)[:, None], 2, axis=1)
        np.minimum.at(self.edge, ends, costs)
        self.joined[ends[:, 0]] = True
        for place in np.flatnonzero(ends[:, 1] > ends[:, 0] + 1).tolist():
            self._lower_between(int(ends[place, 0]), int(ends[place, 1]), costs[place])

    def _lower_between(self, first: int, last: int, costs: Float64Array) -> None:
        """Lower the edges of places between two ends of numbers: of a missing value that is seen as a number. Every
        place is an end of the straight line then, so that these must not be above it either.
        """
        self.joined[first:last] = True
        shares = np.linspace(0.0, 1.0, last - first + 1)
        wide = self.values[last] - self.values[first]
        if wide > 0.0:
            shares = (self.values[first : last + 1] - self.values[first]) / wide
        line = (1.0 - shares) * costs[0] + shares * costs[1]
        line[1:-1] -= ENVELOPE_ROUNDING * np.abs(costs).sum()
        np.minimum(self.edge[first : last + 1], line, out=self.edge[first : last + 1])

    def build_envelope(self, counts_largest: bool, is_linear: bool) -> tuple[Float64Array, Float64Array]:
        """The envelope and its slopes, on either side of the instance's own place."""
        envelope, slopes = self.edge.copy(), np.zeros(len(self.edge))
        if not is_linear:
            return envelope, slopes
        for side in (slice(0, max(self.own, 0)), slice(self.own + 1, len(self.edge))):
            if counts_largest and side.start == 0 and self.own >= 0:
                envelope[side] = np.minimum.accumulate(self.edge[side])
            elif counts_largest:
                envelope[side] = np.minimum.accumulate(self.edge[side][::-1])[::-1]
            else:
                fill_envelope(self.values[side], self.edge[side], envelope[side], slopes[side])
                envelope[side] -= ENVELOPE_ROUNDING * np.abs(self.edge[side]).max(initial=0.0)
        return envelope, slopes


def _list_feature_places(
    net: CompiledNetwork,
    j: int,
    codes: Int64Array,
    part: Float64Array,
    own: int,
    after: Int64Array,
    least_change: float,
) -> _FeaturePlaces:
    """The places of some codes of a feature, with virtual ones beside the instance's own where numbers begin there."""
    of_code = net.cells.cell_by_code[net.cells.code_starts[j] + codes]
    # The cheapest code of every cell; of those that cost the same, the instance's own.
    order = np.lexsort((codes != own, part[codes], of_code))
    cells, first = np.unique(of_code[order], return_index=True)
    if not net.is_linear[j]:
        # Numbers must lie between neighbouring places. Between two rows of a table may stand that of a missing value,
        # with a column of its own: it comes after all numbers.
        has_numbers = np.isin(cells, of_code[np.isin(codes, np.concatenate([after, after + 1]))])
        cells, first = (array[np.argsort(~has_numbers, kind="stable")] for array in (cells, first))
    chosen = codes[order][first]
    place_by_cell = {cell: place for place, cell in enumerate(cells.tolist())}
    place_by_code = {code: place_by_cell[cell] for code, cell in zip(codes.tolist(), of_code.tolist(), strict=True)}
    home = place_by_code.get(own, -1)
    repeats = np.ones(len(cells), dtype=np.int64)
    is_virtual = np.zeros(len(cells), dtype=np.bool_)
    if home >= 0 and least_change > 0.0:
        beside = [
            place_by_code[code + 1] if code == own else place_by_code[code]
            for code in after.tolist()
            if own in (code, code + 1)
        ]
        lower, upper = any(place < home for place in beside), any(place > home for place in beside)
        repeats[home] = 1 + lower + upper
        is_virtual = np.repeat(is_virtual, repeats)
        is_virtual[home : home + repeats[home]] = True
        is_virtual[home + lower] = False
        shift = repeats[home] - 1
        place_by_code = {
            code: place + (shift if place > home else lower if place == home else 0)
            for code, place in place_by_code.items()
        }
        home += int(lower)
    cost = np.repeat(part[chosen], repeats)
    cost[is_virtual] = least_change
    cells = np.repeat(cells, repeats)
    start = net.cells.cell_starts[j]
    return _FeaturePlaces(
        cells=cells.astype(np.int64),
        codes=np.repeat(chosen, repeats).astype(np.int64),
        values=net.cell_values[start + cells] if net.is_linear[j] else np.zeros(len(cells)),
        cost=cost,
        edge=cost.copy(),
        joined=np.zeros(len(cells), dtype=np.bool_),
        is_virtual=is_virtual,
        own=home,
        place_by_code=place_by_code,
    )


@kernel
def fill_envelope(values: Float64Array, edges: Float64Array, envelope: Float64Array, slopes: Float64Array) -> None:
    """Write the largest convex function below the edges, and its slopes up to the next place; values do not fall."""
    count, corners, top = values.shape[0], np.empty(values.shape[0], np.int64), 0
    # The lower hull by a monotone chain: a corner goes if the line from the one before it to the new place is below.
    for place in range(count):
        if top > 0 and values[corners[top - 1]] == values[place]:
            if edges[place] >= edges[corners[top - 1]]:
                continue
            top -= 1
        while top >= 2:
            before, last = corners[top - 2], corners[top - 1]
            up = (edges[last] - edges[before]) * (values[place] - values[before])
            if up < (edges[place] - edges[before]) * (values[last] - values[before]):
                break
            top -= 1
        corners[top] = place
        top += 1
    # Between two corners the envelope is a straight line; places of equal value have the same.
    slope = 0.0
    for k in range(top):
        start, end = corners[k], corners[k + 1] if k + 1 < top else count
        if k + 1 < top:
            slope = (edges[end] - edges[start]) / (values[end] - values[start])
        for place in range(start, end):
            envelope[place] = edges[start] + slope * (values[place] - values[start])
            slopes[place] = slope
    # Places of the first corner's value that stand before it.
    if top > 0:
        for place in range(corners[0]):
            envelope[place], slopes[place] = edges[corners[0]], slopes[corners[0]]
