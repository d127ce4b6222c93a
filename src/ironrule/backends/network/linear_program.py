"""Multipliers and lines for the bound of a part, from the linear program of its relaxation.

The bounds of :mod:`.cost_bounds` hold for all multipliers, and for all lines below rectified units. The best ones
solve a linear program (Salman et al., "A Convex Relaxation Barrier to Tight Robustness Verification of Neural
Networks", NeurIPS 2019): find the least cost of a mixture of places per feature, with the outputs of every rectified
unit on either side of zero between its lines, the sides that are known kept, and all margins at least 0. Its dual
values are the multipliers. They are only a proposal of HiGHS in floating point: what is proven with them, the kernel
proves.

Margins and known sides may be violated at a high price, so that there always is a solution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ironrule.arrays import Float64Array, Int64Array
from ironrule.backends.network.change_places import ChangePlaces
from ironrule.backends.network.compile import CompiledNetwork

VIOLATION_PRICE = 1e4  # of the limit, per unit of a margin or a sum
MAX_CORNERS = 24  # of the envelope of a feature


@dataclass(frozen=True, slots=True, eq=False)
class RelaxedSolution:
    """The solution: multipliers of the sums whose side is known, slopes of lines below units, and the solution's point.

    ``unit_gaps`` says how far the output of each unit whose side is not known is from what the sum gives there,
    ``unit_losses`` the same in terms of the cost. ``values`` are scaled numbers at the point, ``costs`` what it pays
    for each feature, ``mixed`` the first and the last place that it mixes; ``margin`` is the network's own least margin
    there.
    """

    cost: float
    multipliers: Float64Array
    slopes: Float64Array
    unit_gaps: Float64Array
    unit_losses: Float64Array
    margin: float
    values: Float64Array
    costs: Float64Array
    mixed: Int64Array


def are_rectified(net: CompiledNetwork) -> bool:
    """Whether all activations consist of two straight pieces, as the program needs them."""
    return bool((net.activations <= 2).all())


def solve_relaxation(
    net: CompiledNetwork,
    places: ChangePlaces,
    turns: Sequence[Int64Array],
    low: Int64Array,
    high: Int64Array,
    phases: Int64Array,
    unit_bounds: Float64Array,
    limit: float,
    adds_up: bool,
) -> RelaxedSolution | None:
    """Solve the program of a part, whose units' sums have the given bounds; None if HiGHS finds no solution.

    ``turns`` are what :func:`list_envelope_turns` gives for the places.
    """
    from scipy.optimize import linprog

    ends = zip(turns, low.tolist(), high.tolist(), strict=True)
    corners = [_list_corners(net, places, one, j, first=first, last=last) for j, (one, first, last) in enumerate(ends)]
    price = VIOLATION_PRICE * limit
    program = _Program.build(net, places, corners, phases, unit_bounds, price=price, adds_up=adds_up)
    result = linprog(
        program.objective,
        A_ub=program.less,
        b_ub=program.less_than,
        A_eq=program.equal,
        b_eq=program.equal_to,
        bounds=program.bounds,
        method="highs",
        options={"presolve": False},
    )
    if result.status != 0:
        return None
    return program.describe(result.x, -result.ineqlin.marginals, result.fun)


@dataclass(slots=True, eq=False)
class _Program:
    """The program: mixtures of corners, then for every unit its sum and its output, then what is violated."""

    net: CompiledNetwork
    places: ChangePlaces
    corners: list[Int64Array]  # per feature, the places that are mixed, counted from its first
    corner_starts: Int64Array
    phases: Int64Array
    unit_bounds: Float64Array
    objective: Float64Array
    costs: Float64Array  # of all corners
    price: float  # of what is violated
    bounds: Float64Array
    less: Float64Array
    less_than: Float64Array
    equal: Float64Array
    equal_to: Float64Array
    margin_rows: slice
    side_rows: dict[int, int]  # per unit whose side is known, the row that keeps it
    line_rows: dict[
        int, tuple[int, int, int]
    ]  # per other unit: above the left piece, above the right one, below the chord

    @classmethod
    def build(
        cls,
        net: CompiledNetwork,
        places: ChangePlaces,
        corners: list[Int64Array],
        phases: Int64Array,
        unit_bounds: Float64Array,
        price: float,
        adds_up: bool,
    ) -> _Program:
        """Write down all rows."""
        corner_starts = np.cumsum([0, *map(len, corners)])
        units, mixtures = len(phases), int(corner_starts[-1])
        sums, outputs = mixtures, mixtures + units
        known = np.flatnonzero(phases).tolist()
        violated = outputs + units
        largest = violated + len(known) + len(net.offset)  # the largest cost of a feature, where that counts
        size = largest + (not adds_up)
        equal, equal_to = list[Float64Array](), list[float]()
        less, less_than = list[Float64Array](), list[float]()

        def add(rows: list[Float64Array], ends: list[float], entries: dict[int, float], end: float) -> None:
            row = np.zeros(size)
            for place, factor in entries.items():
                row[place] = factor
            rows.append(row)
            ends.append(end)

        costs, adds = np.zeros(size), np.zeros((len(net.base), mixtures))
        for j, chosen in enumerate(corners):
            columns = slice(corner_starts[j], corner_starts[j + 1])
            start = places.starts[j]
            costs[columns] = (places.cost if len(chosen) == 1 else places.edge)[start + chosen]
            if net.is_linear[j]:
                adds[:, columns] = np.outer(net.direction[j], places.values[start + chosen])
            else:
                adds[:, columns] = net.table[net.table_starts[j] + places.cells[start + chosen]].T
            add(equal, equal_to, dict.fromkeys(range(columns.start, columns.stop), 1.0), 1.0)
            if not adds_up:
                entries = dict(enumerate(costs[columns].tolist(), start=int(columns.start)))
                add(less, less_than, entries | {largest: -1.0}, 0.0)
        objective = costs.copy() if adds_up else np.zeros(size)
        objective[violated:largest] = price
        objective[largest:] = 1.0
        for k in range(len(net.widths)):
            for i in range(int(net.widths[k])):
                unit = int(net.unit_starts[k]) + i
                row = np.zeros(size)
                row[sums + unit] = 1.0
                if k == 0:
                    row[:mixtures] = -adds[i]
                    equal_to.append(float(net.base[i]))
                else:
                    inputs, at = int(net.widths[k - 1]), int(net.weight_starts[k - 1])
                    before = outputs + int(net.unit_starts[k - 1])
                    row[before : before + inputs] = -net.weights[at + i * inputs : at + (i + 1) * inputs]
                    equal_to.append(float(net.bias[unit]))
                equal.append(row)
        side_rows, line_rows = dict[int, int](), dict[int, tuple[int, int, int]]()
        for k in range(len(net.widths)):
            left = {0: 1.0, 1: 0.0, 2: float(net.slopes[k])}[int(net.activations[k])]
            for unit in range(int(net.unit_starts[k]), int(net.unit_starts[k + 1])):
                z, h, (least, most) = sums + unit, outputs + unit, unit_bounds[unit].tolist()
                if phases[unit] != 0:
                    side_rows[unit] = len(less)
                    side = float(phases[unit])
                    add(less, less_than, {z: -side, violated + known.index(unit): -1.0}, 0.0)
                if left == 1.0 or least >= 0.0 or most <= 0.0:
                    add(equal, equal_to, {h: 1.0, z: -1.0 if left == 1.0 or least >= 0.0 else -left}, 0.0)
                    continue
                chord = (most - left * least) / (most - least)
                line_rows[unit] = (len(less), len(less) + 1, len(less) + 2)
                add(less, less_than, {h: -1.0, z: left}, 0.0)
                add(less, less_than, {h: -1.0, z: 1.0}, 0.0)
                add(less, less_than, {h: 1.0, z: -chord}, most - chord * most)
        margins, last = len(less), outputs + int(net.unit_starts[-2])
        for margin in range(len(net.offset)):
            row = np.zeros(size)
            row[last : last + int(net.widths[-1])] = -net.coefficients[margin]
            row[violated + len(known) + margin] = -1.0
            less.append(row)
            less_than.append(float(net.offset[margin] + net.slack[margin]))
        bounds = np.zeros((size, 2))
        bounds[:, 1] = np.inf
        bounds[sums:violated, 0] = -np.inf
        return cls(
            net=net,
            places=places,
            corners=corners,
            corner_starts=corner_starts,
            phases=phases,
            unit_bounds=unit_bounds,
            objective=objective,
            costs=costs,
            price=price,
            bounds=bounds,
            less=np.array(less),
            less_than=np.array(less_than),
            equal=np.array(equal),
            equal_to=np.array(equal_to),
            margin_rows=slice(margins, margins + len(net.offset)),
            side_rows=side_rows,
            line_rows=line_rows,
        )

    def describe(self, solution: Float64Array, duals: Float64Array, cost: float) -> RelaxedSolution:
        """What the solution and its dual values of the inequalities say."""
        units, mixtures = len(self.phases), int(self.corner_starts[-1])
        price = max(float(duals[self.margin_rows].sum()), 1e-9 * self.price)
        multipliers, slopes, (gaps, losses) = np.zeros(units), np.full(units, np.nan), np.zeros((2, units))
        for unit, row in self.side_rows.items():
            multipliers[unit] = self.phases[unit] * max(0.0, float(duals[row])) / price
        sums, outputs = solution[mixtures : mixtures + units], solution[mixtures + units : mixtures + 2 * units]
        for unit, (left, right, above) in self.line_rows.items():
            layer = int(np.searchsorted(self.net.unit_starts, unit, side="right")) - 1
            least = float(self.net.slopes[layer]) if self.net.activations[layer] == 2 else 0.0
            below = max(0.0, float(duals[left])) + max(0.0, float(duals[right]))
            if below > 0.0:
                slopes[unit] = least + (1.0 - least) * max(0.0, float(duals[right])) / below
            output = max(sums[unit], least * sums[unit])
            gaps[unit] = abs(outputs[unit] - output)
            losses[unit] = gaps[unit] * (below + max(0.0, float(duals[above])))
        values, costs = np.zeros(len(self.corners)), np.zeros(len(self.corners))
        mixed = np.zeros((len(self.corners), 2), np.int64)
        for j, chosen in enumerate(self.corners):
            columns = slice(self.corner_starts[j], self.corner_starts[j + 1])
            shares = solution[columns]
            values[j] = shares @ self.places.values[self.places.starts[j] + chosen]
            costs[j] = shares @ self.costs[columns]
            used = chosen[shares > 1e-9]
            mixed[j] = (used.min(), used.max()) if len(used) else chosen[0]
        margin = self._compute_margin(sums[: len(self.net.base)])
        return RelaxedSolution(
            cost,
            multipliers,
            slopes,
            unit_gaps=gaps,
            unit_losses=losses,
            margin=margin,
            values=values,
            costs=costs,
            mixed=mixed,
        )

    def _compute_margin(self, sums: Float64Array) -> float:
        """The least margin, its slack added, of the network itself, from the first layer's sums."""
        net = self.net
        for k in range(len(net.widths)):
            left = {0: 1.0, 1: 0.0, 2: float(net.slopes[k])}[int(net.activations[k])]
            values = np.maximum(sums, left * sums)
            if k + 1 < len(net.widths):
                at, units = int(net.weight_starts[k]), slice(int(net.unit_starts[k + 1]), int(net.unit_starts[k + 2]))
                weights = net.weights[at : at + int(net.widths[k + 1]) * len(values)].reshape(-1, len(values))
                sums = weights @ values + net.bias[units]
        return float((net.coefficients @ values + net.offset + net.slack).min())


def list_envelope_turns(net: CompiledNetwork, places: ChangePlaces) -> tuple[Int64Array, ...]:
    """Per feature, the places at which its envelope turns on either side of the instance's own; of tables none."""
    found = []
    for j in range(len(places.own)):
        slopes = places.slopes[places.starts[j] : places.starts[j + 1]]
        turns = np.flatnonzero(np.diff(slopes) > 1e-9 * np.abs(slopes[1:])) + 1 if net.is_linear[j] else np.zeros(0)
        found.append(turns.astype(np.int64))
    return tuple(found)


def _list_corners(
    net: CompiledNetwork, places: ChangePlaces, turns: Int64Array, j: int, first: int, last: int
) -> Int64Array:
    """The places whose mixtures have the least costs: of a scaled number its ends, its own place, and some of the
    places where its envelope turns; of others all.
    """
    if not net.is_linear[j] or last - first < 3:
        return np.arange(first, last + 1)
    own = int(places.own[j])
    inside = turns[np.searchsorted(turns, first) : np.searchsorted(turns, last)]
    some = inside[:: max(1, -(-len(inside) // MAX_CORNERS))].tolist()
    near = (place for place in (own - 1, own, own + 1) if first <= place <= last)
    return np.array(sorted({first, last, *near, *some}), dtype=np.int64)
