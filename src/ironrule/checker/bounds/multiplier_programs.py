"""Multipliers for the bound of one piece of a network, proposed by a linear program; and where to cut the piece.

In a piece every unit's activation lies between lines, every feature's column and cost in the hull of a few points, and
some units have a side: their sum is not below zero, or not above. That is a linear program (the triangle relaxation;
Ehlers, "Formal Verification of Piece-Wise Linear Feed-Forward Neural Networks", ATVA 2017): how large can the smallest
margin be for a cost within the limit? Its dual says how to weigh the margins, the sides and the cost, and which lines
to take below units of either sign (Salman et al., "A Convex Relaxation Barrier to Tight Robustness Verification",
NeurIPS 2019; Wang et al., "Beta-CROWN", NeurIPS 2021). A variable that may break sides and limit at a high price keeps
it feasible, so that multipliers are had for empty pieces too.

**Nothing is proven here.** HiGHS works with tolerances, and the points are a few of many. The multipliers are numbers
that are not negative, slopes between those of the activation: for any such numbers the bound is computed and believed
elsewhere (:mod:`~ironrule.checker.bounds.network_change_bounds`). Bad ones only prove nothing.

**Where to cut.** The solution breaks the truth where a unit is above its activation, or where a feature is a mixture
that would cost more than the program pays. What that gains is told by the dual; the piece is cut where it gains most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ironrule.checker.arrays import BoolArray, Float64Array
from ironrule.checker.bounds.bound_propagation import LinearRelaxation
from ironrule.checker.readers.network_form import NetworkLayer

BREAKING_PRICE = 1e3  # of breaking sides and limit, in margins
IDLE_SHARE = 1e-4  # of what a unit off its activation may add, where the dual says that it gains nothing now


class FeaturePoints(NamedTuple):
    """What one feature may add in a piece: vectors, a row each, and costs."""

    vectors: Float64Array
    costs: Float64Array


class LayerLines(NamedTuple):
    """One layer in one piece: the lines of its units, the ends of their sums, and their sides (0: none)."""

    layer: NetworkLayer
    lines: LinearRelaxation
    crossing: BoolArray  # units that bend between their ends
    sides: Float64Array


class Multipliers(NamedTuple):
    """What a program proposes, and its solution: shares of every feature's points, and what cutting at each unit may
    gain.
    """

    margins: Float64Array
    price: float
    sides: list[Float64Array]  # per layer, with the sign of the side
    lower_slopes: list[Float64Array]  # per layer
    shares: list[Float64Array]
    unit_gains: Float64Array
    value: float


class _Program:
    """Rows and variables of a linear program as they are added."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.equal, self.equal_right = list[Float64Array](), list[float]()
        self.most, self.most_right = list[Float64Array](), list[float]()

    def require_equal(self, row: Float64Array, right: float) -> None:
        self.equal.append(row)
        self.equal_right.append(right)

    def require_most(self, row: Float64Array, right: float) -> int:
        self.most.append(row)
        self.most_right.append(right)
        return len(self.most) - 1


def propose_multipliers(
    features: Sequence[FeaturePoints],
    layers: Sequence[LayerLines],
    factors: Float64Array,
    offsets: Float64Array,
    limit: float,
) -> Multipliers | None:
    """The multipliers of one piece, for margins that are factors times the last outputs plus offsets."""
    from scipy.optimize import linprog

    counts = [len(points.costs) for points in features]
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(int)
    units = [len(one.layer.bias) for one in layers]
    sums = starts[-1] + np.concatenate([[0], np.cumsum(units)]).astype(int)
    outputs = sums[-1] + np.concatenate([[0], np.cumsum([int(one.crossing.sum()) for one in layers])]).astype(int)
    breaking, goal = int(outputs[-1]), int(outputs[-1]) + 1
    program = _Program(goal + 1)
    for place in range(len(features)):
        row = np.zeros(program.width)
        row[starts[place] : starts[place + 1]] = 1.0
        program.require_equal(row, 1.0)
    incoming = np.zeros((layers[0].layer.bias.size, program.width))  # what comes into the sums of a layer
    for place, points in enumerate(features):
        incoming[:, starts[place] : starts[place + 1]] = points.vectors.T
    chords, above, below, side_rows = list[int](), list[int](), list[int](), list[tuple[int, int, int]]()
    values = np.zeros(0)
    for depth, one in enumerate(layers):
        own = np.eye(units[depth], program.width, k=int(sums[depth]))
        for unit in range(units[depth]):
            program.require_equal(own[unit] - incoming[unit], float(one.layer.bias[unit]))
            if one.sides[unit]:
                row = -one.sides[unit] * own[unit]
                row[breaking] = -1.0
                side_rows.append((depth, unit, program.require_most(row, 0.0)))
        values = own * one.lines.upper_slope[:, None]
        for place, unit in enumerate(np.flatnonzero(one.crossing).tolist()):
            output = np.zeros(program.width)
            output[outputs[depth] + place] = 1.0
            upper = output - one.lines.upper_slope[unit] * own[unit]
            chords.append(program.require_most(upper, float(one.lines.upper_intercept[unit])))
            if one.layer.activation.kind in ("relu", "leaky"):
                above.append(program.require_most(own[unit] - output, 0.0))
                below.append(program.require_most(_find_least_slope(one.layer) * own[unit] - output, 0.0))
            else:
                lower = one.lines.lower_slope[unit] * own[unit] - output
                above.append(program.require_most(lower, -float(one.lines.lower_intercept[unit])))
                below.append(above[-1])
            values[unit] = output
        if depth + 1 < len(layers):
            incoming = layers[depth + 1].layer.weights.T @ values
    margin_rows = []
    for margin, offset in zip(factors, offsets, strict=True):
        row = -(margin @ values)
        row[goal] = 1.0
        margin_rows.append(program.require_most(row, float(offset)))
    cost_row = -1
    if np.isfinite(limit):
        row = np.zeros(program.width)
        row[: starts[-1]] = np.concatenate([points.costs for points in features])
        row[breaking] = -1.0
        cost_row = program.require_most(row / max(limit, 1e-12), 1.0)
    bounds = np.full((program.width, 2), (-np.inf, np.inf))
    bounds[: starts[-1], 0] = 0.0
    bounds[breaking, 0] = 0.0
    objective = np.zeros(program.width)
    objective[goal], objective[breaking] = -1.0, BREAKING_PRICE
    found = linprog(
        objective,
        A_ub=np.array(program.most),
        b_ub=np.array(program.most_right),
        A_eq=np.array(program.equal),
        b_eq=np.array(program.equal_right),
        bounds=bounds,
        method="highs",
    )
    if found.x is None or found.status != 0:
        return None
    duals = np.maximum(-found.ineqlin.marginals, 0.0)
    sides, slopes = [np.zeros(count) for count in units], [one.lines.lower_slope.copy() for one in layers]
    for depth, unit, row_number in side_rows:
        sides[depth][unit] = layers[depth].sides[unit] * duals[row_number]
    gains, place = np.zeros(sum(units)), 0
    for depth, one in enumerate(layers):
        weights = layers[depth + 1].layer.weights if depth + 1 < len(layers) else factors.T
        for rank, unit in enumerate(np.flatnonzero(one.crossing).tolist()):
            if one.layer.activation.kind in ("relu", "leaky"):
                steep, flat, least = duals[above[place]], duals[below[place]], _find_least_slope(one.layer)
                if steep + flat > 0.0:
                    slopes[depth][unit] = np.clip((steep + least * flat) / (steep + flat), least, 1.0)
                at = found.x[sums[depth] + unit]
                true = max(at, least * at)
                off, heavy = found.x[outputs[depth] + rank] - true, np.abs(weights[unit]).sum()
                gains[sums[depth] - starts[-1] + unit] = duals[chords[place]] * off + IDLE_SHARE * heavy * abs(off)
            place += 1
    return Multipliers(
        margins=duals[margin_rows],
        price=float(duals[cost_row]) / max(limit, 1e-12) if cost_row >= 0 else 0.0,
        sides=sides,
        lower_slopes=slopes,
        shares=[found.x[starts[place] : starts[place + 1]] for place in range(len(features))],
        unit_gains=gains,
        value=-float(found.fun),
    )


def _find_least_slope(layer: NetworkLayer) -> float:
    return layer.activation.slope if layer.activation.kind == "leaky" else 0.0
