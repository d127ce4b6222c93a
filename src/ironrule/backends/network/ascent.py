"""Coordinate ascent in a network: move points to a counterfactual, and back towards the instance.

For one feature at a time, some of its open cells are tried (the ends, and places in between), the first layer's sums
are updated and the rest is computed anew; the best cell stays. Points start at the instance and at past rows with the
desired outcome, pulled into the box, and at points that the bounds of sub-boxes have shown. A point where rounding
could turn the decision is put to the model itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ironrule.arrays import Float64Array, Int64Array, Points
from ironrule.backends.nearest import fill_nearest_codes
from ironrule.backends.network.compile import (
    CompiledNetwork,
    compute_first_layer,
    compute_least_margin,
    compute_margins,
    run_forward,
)
from ironrule.backends.network.workspace import (
    STATUS_FOUND,
    STATUS_OPEN,
    STATUS_POINT,
    BoundResults,
    OpenCells,
    find_open_cells,
)
from ironrule.jit import kernel, kernel_helper
from ironrule.oracles.protocol import Case, Run
from ironrule.rule.box import Box


@kernel_helper
def update_first_sums(net: CompiledNetwork, feature: int, old: int, new: int, sums: Float64Array) -> None:
    """Update the first layer's sums when a feature goes from one cell to another."""
    if net.is_linear[feature]:
        start = net.cells.cell_starts[feature]
        by = net.cell_values[start + new] - net.cell_values[start + old]
        for h in range(net.base.shape[0]):
            sums[h] += by * net.direction[feature, h]
    else:
        start = net.table_starts[feature]
        for h in range(net.base.shape[0]):
            sums[h] += net.table[start + new, h] - net.table[start + old, h]


@kernel_helper
def _compute_sure_margin(net: CompiledNetwork, cells: Int64Array, sums: Float64Array, values: Float64Array) -> float:
    """The smallest margin at a point, less its slack, computed without updates; `sums` and `values` are overwritten."""
    compute_first_layer(net, cells, sums)
    run_forward(net, sums, values)
    return compute_least_margin(net, values)[1]


@kernel
def climb_to_counterfactual(
    net: CompiledNetwork,
    open_cells: OpenCells,
    cells: Int64Array,
    orders: Int64Array,
    tries: int,
    sums: Float64Array,
    values: Float64Array,
) -> bool:
    """Coordinate ascent within the open cells, one sweep over the features per order; changes `cells`.

    Returns whether the point surely is a counterfactual now.
    """
    best = _compute_sure_margin(net, cells, sums, values)
    # Every sweep goes through all features in its own order. Invariant: `best` is the sure margin of `cells`, and
    # `sums` are its first layer's sums, up to the rounding of the updates.
    for sweep in range(orders.shape[0]):
        before = best
        for place in range(orders.shape[1]):
            j = orders[sweep, place]
            start, count = open_cells.starts[j], open_cells.starts[j + 1] - open_cells.starts[j]
            # Try all cells of a feature that has few; otherwise `tries` of them, evenly spread, both ends included.
            steps = min(count, tries)
            for step in range(steps):
                at = step if steps == count else (step * (count - 1)) // (steps - 1)
                cell = open_cells.cells[start + at]
                if cell == cells[j]:
                    continue
                # Try the cell: only one feature changes, so the first layer is updated and only the rest is computed
                # anew. Keep it if the margin grows, otherwise undo the change.
                update_first_sums(net, j, cells[j], cell, sums)
                cells[j], old = cell, cells[j]
                run_forward(net, sums, values)
                value = compute_least_margin(net, values)[1]
                if value > best:
                    best = value
                else:
                    update_first_sums(net, j, cell, old, sums)
                    cells[j] = old
            # Many updates add up rounding errors that the slack does not cover: before claiming success, compute the
            # point from the beginning.
            if best > 0.0:
                best = _compute_sure_margin(net, cells, sums, values)
                if best > 0.0:
                    return True
        # The same fresh start after every sweep; a sweep that has gained nothing ends the climb.
        best = _compute_sure_margin(net, cells, sums, values)
        if best <= before:
            return False
    return False


@kernel
def pull_back(
    net: CompiledNetwork,
    cells: Int64Array,
    home: Int64Array,
    order: Int64Array,
    sums: Float64Array,
    values: Float64Array,
) -> None:
    """Give a counterfactual the instance's cells, feature by feature, as long as it surely stays one."""
    # Greedy: one feature at a time goes back, and stays back if the margin is still surely positive. Fewer changed
    # features make a smaller dual, which tells the search for hitting sets more.
    for place in range(order.shape[0]):
        j = order[place]
        old = cells[j]
        if old == home[j]:
            continue
        cells[j] = home[j]
        if not _compute_sure_margin(net, cells, sums, values) > 0.0:
            cells[j] = old


SWEEPS = 3
MAX_TRIED_CELLS = 8  # cells tried of a feature that has many
HISTORY_SAMPLE = 64
HISTORY_STARTS = 3


@dataclass(slots=True, eq=False)
class AscentSearch:
    """Looks for counterfactuals of one net in the box of one query."""

    net: CompiledNetwork
    case: Case
    box: Box
    open_cells: OpenCells = field(init=False)
    origin: Int64Array = field(init=False)  # the instance's cells, or those of the nearest point in the box
    sums: Float64Array = field(init=False)
    values: Float64Array = field(init=False)

    def __post_init__(self) -> None:
        widest = int(self.net.widths.max())
        self.open_cells = find_open_cells(self.net, self.box)
        self.origin = self.net.cells.locate(self.box.clip(self.case.instance))
        self.sums, self.values = np.zeros(widest), np.zeros(widest)

    def climb(self, rng: np.random.Generator) -> Points | None:
        """A counterfactual uphill from the instance or from a past row, if there is one."""
        found = self._climb_from(self.origin[None, :], rng)
        seeds = self.case.history.seeds
        if found is not None or len(seeds) == 0:
            return found
        # Past rows with the desired outcome, moved to the nearest point of the box: start from the most promising.
        past = self.net.cells.locate(self.box.clip(seeds[rng.integers(0, len(seeds), size=HISTORY_SAMPLE)]))
        return self._climb_from(past[np.argsort(-compute_margins(self.net, past)[1])[:HISTORY_STARTS]], rng)

    def _climb_from(self, starts: Int64Array, rng: np.random.Generator) -> Points | None:
        """A counterfactual uphill from one of some points given by cells."""
        net, here = self.net, self.open_cells
        for start in starts:
            cells = start.copy()
            orders = np.argsort(rng.random((SWEEPS, len(cells))), axis=1)
            if climb_to_counterfactual(net, here, cells, orders, MAX_TRIED_CELLS, self.sums, self.values):
                point = self._pull_back(cells, rng)
                if point is not None:
                    return point
        return None

    def check_bound_points(self, outcome: BoundResults, again: int, run: Run) -> Points | None:
        """A counterfactual among the points that bounds have shown, or uphill from `again` points of open sub-boxes."""
        status, points = outcome.status, outcome.points
        # Sure counterfactuals cost no question to the model, so they come first.
        answer = self.check_points(points[status == STATUS_FOUND], True, run)
        if answer is None:
            answer = self.check_points(points[status == STATUS_POINT], False, run)
        if answer is not None or again == 0:
            return answer
        rows = np.flatnonzero(status == STATUS_OPEN)
        return self._climb_from(points[run.rng.choice(rows, min(again, len(rows)), replace=False)], run.rng)

    def check_points(self, points: Int64Array, sure: bool, run: Run) -> Points | None:
        """A counterfactual among points given by cells: sure ones, or ones that only the model can decide."""
        for cells in points:
            if sure:
                point = self._pull_back(cells, run.rng)
                if point is not None:
                    return point
            else:
                point = self._convert_to_codes(cells)
                occurs = self.case.feasible.admits(point[None, :])[0]
                if occurs and run.meter.desired(self.case.model, point[None, :])[0]:
                    return point
        return None

    def _pull_back(self, cells: Int64Array, rng: np.random.Generator) -> Points | None:
        """A counterfactual pulled back towards the instance; None if it cannot occur."""
        near = cells.copy()
        pull_back(self.net, near, self.origin, rng.permutation(len(cells)), self.sums, self.values)
        # What was pulled back may violate a constraint where the point that was found does not.
        for some in (near, cells):
            point = self._convert_to_codes(some)
            if self.case.feasible.admits(point[None, :])[0]:
                return point
        return None

    def _convert_to_codes(self, cells: Int64Array) -> Points:
        instance, box = self.case.instance, self.box
        codes = np.empty_like(instance)
        fill_nearest_codes(self.net.cells, np.ascontiguousarray(cells), instance, box.low, box.high, codes)
        return codes
