"""Bound propagation over tensors: :mod:`ironrule.backends.network.bound_propagation` for many boxes at once.

A net's layers are matrices on the device. Scaled numbers enter as one matrix of directions; a feature with a table is
masked by the cells that a box has of it. Relaxation, back-substitution and steps to better lines are as in the kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ironrule.arrays import Int64Array
from ironrule.backends.network.bound_propagation import BISECTIONS, MIN_WIDTH, UNDERFLOW
from ironrule.backends.network.compile import CompiledNetwork
from ironrule.backends.network.workspace import NO_CUT, NO_CUT_IN_GAP, OpenCells


def select_boxes(values: Any, some: Tensor) -> Any:
    """What belongs to some boxes, of a tensor with a row per box, or of lists and named tuples of such."""
    if isinstance(values, Tensor):
        return values[some]
    parts = [select_boxes(value, some) for value in values]
    return parts if isinstance(values, list) else type(values)(*parts)


class ActivationRelaxation(NamedTuple):
    """Per box and unit, slope and value at zero of the lines below and above the activation."""

    lower_slope: Tensor
    lower_intercept: Tensor
    upper_slope: Tensor
    upper_intercept: Tensor


def apply_activation(kind: int, slope: float, z: Tensor) -> Tensor:
    """The activation of every unit; kinds are ACTIVATION_CODES."""
    if kind == 1:
        return z.clamp(min=0.0)
    if kind == 2:
        return torch.maximum(z, slope * z)
    if kind == 3:
        return torch.tanh(z)
    if kind == 4:
        return 0.5 + 0.5 * torch.tanh(0.5 * z)
    return z


def relax_activations(kind: int, slope: float, low: Tensor, high: Tensor) -> ActivationRelaxation:
    """Lines below and above the activation on the intervals from `low` to `high`."""
    if kind == 0:
        one, zero = torch.ones_like(low), torch.zeros_like(low)
        return ActivationRelaxation(one, zero, one, zero)
    if kind <= 2:
        return _relax_piecewise_linear(slope if kind == 2 else 0.0, low, high)
    return _relax_s_shaped(kind, low, high)


def _relax_piecewise_linear(slope: float, low: Tensor, high: Tensor) -> ActivationRelaxation:
    """Lines for an activation that is straight on both sides of zero."""
    # The cases of `relax_activation`, computed for all units at once and chosen by masks.
    zero, one = torch.zeros_like(low), torch.ones_like(low)
    chord = (high - slope * low) / (high - low)
    steep = torch.where(low >= 0.0, one, torch.where(high <= 0.0, slope * one, chord))
    across = (low < 0.0) & (high > 0.0)
    straight = torch.where(high > -low, one, slope * one)
    over_at = torch.where(across, high - chord * high, zero)
    return ActivationRelaxation(torch.where(across, straight, steep), zero, steep, over_at)


def _relax_s_shaped(kind: int, low: Tensor, high: Tensor) -> ActivationRelaxation:
    """Chords and tangents of an activation that is convex below zero and concave above."""
    at_low, at_high = apply_activation(kind, 0.0, low), apply_activation(kind, 0.0, high)
    chord = (at_high - at_low) / (high - low)
    start = at_low - chord * low
    # Candidates for every unit: tangents in the middle for one-sided intervals, touching tangents for those across
    # zero. The masks below choose, as `relax_activation` does, and the other candidates are never used.
    slope, value = compute_tangents(kind, 0.5 * (low + high))
    over, over_at = _find_touching_tangents(kind, low, high)
    under, under_at = _find_touching_tangents(kind, high, low)
    narrow, right, left = high - low < MIN_WIDTH, low >= 0.0, high <= 0.0
    middle = ~right & ~left
    bends_over = right | (middle & (_compute_slopes(kind, high) < chord))
    bends_under = left | (middle & (_compute_slopes(kind, low) < chord))
    over, over_at = torch.where(right, slope, over), torch.where(right, value, over_at)
    under, under_at = torch.where(left, slope, under), torch.where(left, value, under_at)
    zero = torch.zeros_like(low)
    return ActivationRelaxation(
        torch.where(narrow, zero, torch.where(bends_under, under, chord)),
        torch.where(narrow, at_low, torch.where(bends_under, under_at, start)),
        torch.where(narrow, zero, torch.where(bends_over, over, chord)),
        torch.where(narrow, at_high, torch.where(bends_over, over_at, start)),
    )


def _compute_slopes(kind: int, z: Tensor) -> Tensor:
    if kind == 3:
        value = torch.tanh(z)
        return 1.0 - value * value
    half = 0.5 * torch.tanh(0.5 * z)
    return 0.25 - half * half


def compute_tangents(kind: int, at: Tensor) -> tuple[Tensor, Tensor]:
    """Slope and value at zero of the tangents at these places."""
    slope = _compute_slopes(kind, at)
    return slope, apply_activation(kind, 0.0, at) - slope * at


def _find_touching_tangents(kind: int, end: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """The tangent nearest to zero, on the side of `other`, that passes the activation at `end` on its outer side."""
    value, sign = apply_activation(kind, 0.0, end), torch.where(end < 0.0, 1.0, -1.0)
    near, far = torch.zeros_like(end), other
    # Bisection; where the tangent at `other` is sound, the one at `far` is so after every step.
    for _ in range(BISECTIONS):
        middle = 0.5 * (near + far)
        slope, start = compute_tangents(kind, middle)
        outside = sign * (slope * end + start - value) >= 0.0
        near, far = torch.where(outside, near, middle), torch.where(outside, middle, far)
    return compute_tangents(kind, far)


class RelaxedLayer(NamedTuple):
    """Per box and unit of a layer, bounds of its sum and the lines of its activation."""

    low: Tensor
    high: Tensor
    relaxation: ActivationRelaxation


class BackSubstitution(NamedTuple):
    """Linear functions of some layer's outputs, traced back to the first layer's sums.

    ``total`` is their constant part, ``error`` the sizes of all that was added (times gamma it covers rounding),
    ``kept_coefficients`` the coefficients of every layer's activations, the first layer's first, and ``coefficients``
    those of the first layer's sums.
    """

    total: Tensor
    error: Tensor
    kept_coefficients: list[Tensor]
    coefficients: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class DeviceLayers:
    """A net's layers; lists have an entry per layer."""

    rows: list[Tensor]  # weights and their negatives, a row per bound that is wanted; of the first layer: nothing
    turned: list[Tensor]  # weights with the bias as a last column; likewise
    bias: list[Tensor]
    sizes: list[Tensor]
    kinds: list[int]
    slopes: list[float]
    coefficients: Tensor
    offset: Tensor
    slack: Tensor
    gamma: float

    @classmethod
    def build(cls, device: str, net: CompiledNetwork) -> DeviceLayers:
        """A net's layers on a device."""

        def put(array: object) -> Tensor:
            return torch.tensor(array, dtype=torch.float64, device=device)

        rows, turned = [torch.empty(0)], [torch.empty(0)]
        units = [slice(*net.unit_starts[k : k + 2]) for k in range(len(net.widths))]
        for k in range(1, len(net.widths)):
            weights = put(net.weights[slice(*net.weight_starts[k - 1 : k + 1])])
            weights = weights.reshape(int(net.widths[k]), int(net.widths[k - 1]))
            # Both signs at once: bounds of a sum from above, and of its negative, which is the bound from below.
            rows.append(torch.cat([weights, -weights]))
            turned.append(torch.cat([weights, put(net.bias[units[k]])[:, None]], dim=1))
        return cls(
            rows=rows,
            turned=turned,
            bias=[put(net.bias[some]) for some in units],
            sizes=[put(net.unit_sizes[some]) for some in units],
            kinds=net.activations.tolist(),
            slopes=net.slopes.tolist(),
            coefficients=put(net.coefficients),
            offset=put(net.offset),
            slack=put(net.slack),
            gamma=net.gamma,
        )

    def back_substitute(self, rows: Tensor, layer: int, relaxed: list[ActivationRelaxation]) -> BackSubstitution:
        """Trace linear functions of a layer's outputs back (CROWN).

        The intercepts of the first layer's lines are their values at the middles of the boxes.
        """
        one = relaxed[layer]
        given = [rows.expand(len(one.upper_slope), *rows.shape)]
        # For an upper bound, positive coefficients take the line above and negative ones the line below. The rows are
        # the same for all boxes here, so the first step is a plain matrix product.
        plus, minus = rows.clamp(min=0.0), rows.clamp(max=0.0)
        total = one.upper_intercept @ plus.T + one.lower_intercept @ minus.T
        error = (rows.abs() + UNDERFLOW) @ (self.sizes[layer] + 1.0)
        now = (plus * one.upper_slope[:, None]).addcmul_(minus, one.lower_slope[:, None])
        # Tensors are boxes x functions x units from here on. `turned` has the bias as a last column, so one product
        # gives the coefficients of the layer before and what the biases add.
        for k in range(layer, 0, -1):
            through = now @ self.turned[k]
            rows, one = through[..., :-1].contiguous(), relaxed[k - 1]
            given.append(rows)
            plus = rows.clamp(min=0.0)
            minus = rows - plus
            total = total + through[..., -1] + _multiply_rows(plus, one.upper_intercept)
            total = total + _multiply_rows(minus, one.lower_intercept)
            error = error + (rows.abs() + UNDERFLOW) @ (self.sizes[k - 1] + 1.0)
            now = plus.mul_(one.upper_slope[:, None]).addcmul_(minus, one.lower_slope[:, None])
        # The kernels count coefficients before and after the lines. Slopes are at most 1, so twice the first is enough.
        return BackSubstitution(total, 2.0 * error, given[::-1], now)

    def propagate_looseness(self, given: list[Tensor], relaxed: list[RelaxedLayer]) -> Tensor:
        """Per box and unit of the first layer, what a bound loses per width of its sum's interval."""
        flow = torch.zeros_like(relaxed[-1].low)
        # As in the kernel: own loss of a unit's lines, plus what flows in from behind times the steeper line.
        for k in range(len(relaxed) - 1, -1, -1):
            low, high, one = relaxed[k]
            gap = (one.upper_slope - one.lower_slope) * (0.5 * (low + high)) + one.upper_intercept - one.lower_intercept
            own = given[k].abs() * gap.abs() / (high - low).clamp(min=1e-12)
            flow = own + flow * torch.maximum(one.upper_slope, one.lower_slope)
            if k > 0:
                flow = flow @ self.turned[k][:, :-1].abs()
        return flow


def _multiply_rows(rows: Tensor, factors: Tensor) -> Tensor:
    """Per box, the sums of its rows weighted by its factors."""
    return torch.bmm(rows, factors[:, :, None])[:, :, 0]


class DeviceBoxes(NamedTuple):
    """Boxes: the first and the last place of every feature, what scaled numbers are there, and per feature with a table
    which of its open cells are inside.
    """

    low: Tensor
    high: Tensor
    first: Tensor
    last: Tensor
    inside: list[Tensor]


class FirstLayerBounds(NamedTuple):
    """Per box, bounds of the first layer's sums without rounding, their middle where every scaled number is in the
    middle of its range and tables add nothing, and per feature with a table how far it moves each sum.
    """

    low: Tensor
    high: Tensor
    middle: Tensor
    table_ranges: list[Tensor]


class InputMaximum(NamedTuple):
    """Per box and linear function of the first layer's sums: what ranges and tables add to its bound, and where."""

    total: Tensor
    slopes: Tensor
    places: list[Tensor]


def _find_previous_places(open_cells: OpenCells, feature: int) -> Int64Array:
    """Per open cell of a feature, the place whose gap ends there; its own where no gap does."""
    some = slice(*open_cells.starts[feature : feature + 2])
    places, ends = np.arange(some.stop - some.start), open_cells.next_cells[some]
    gaps, previous = ends != open_cells.cells[some], places.copy()
    previous[np.searchsorted(open_cells.cells[some], ends[gaps])] = places[gaps]
    return previous


@dataclass(frozen=True, slots=True, eq=False)
class DeviceInputs:
    """The open cells of a query on a device."""

    lines: Tensor  # which features are scaled numbers
    tables: list[int]  # and which are not
    starts: Tensor  # per feature, its first open cell
    cells: Tensor
    has_gap: Tensor  # per open cell, whether it stands for numbers up to the next value
    low_cells: Tensor  # per open cell, where ranges that begin here are least, and what a scaled number is there
    low_values: Tensor
    high_cells: Tensor  # the same, where ranges that end here are most
    high_values: Tensor
    previous: list[Tensor]  # per feature with a table and open cell, the place whose gap ends there
    sorted: Tensor  # per scaled number its open values, filled up with infinity
    base: Tensor
    direction: Tensor  # scaled numbers x first layer
    rise: Tensor  # the same, its positive and its negative part
    fall: Tensor
    across: Tensor  # first layer x scaled numbers
    rows: list[Tensor]  # per feature with a table, its open cells x first layer

    @classmethod
    def build(cls, device: str, net: CompiledNetwork, open_cells: OpenCells) -> DeviceInputs:
        """The open cells of a query on a device."""

        def put(array: object) -> Tensor:
            return torch.tensor(array, device=device)

        counts = np.diff(open_cells.starts)
        lines, tables = np.flatnonzero(net.is_linear), np.flatnonzero(~net.is_linear)
        ordered = np.full((len(lines), int(counts[lines].max(initial=1))), np.inf)
        for row, j in enumerate(lines):
            ordered[row, : counts[j]] = open_cells.values[open_cells.starts[j] : open_cells.starts[j + 1]]
        rows = [net.table[net.table_starts[j] + open_cells.cells[slice(*open_cells.starts[j : j + 2])]] for j in tables]
        owners = net.cells.cell_starts[np.repeat(np.arange(len(counts)), counts)]
        direction = put(net.direction[lines])
        return cls(
            lines=put(lines),
            tables=tables.tolist(),
            starts=put(open_cells.starts[:-1]),
            cells=put(open_cells.cells),
            has_gap=put(open_cells.next_cells != open_cells.cells),
            low_cells=put(open_cells.low_cells),
            low_values=put(net.cell_values[owners + open_cells.low_cells]),
            high_cells=put(open_cells.high_cells),
            high_values=put(net.cell_values[owners + open_cells.high_cells]),
            previous=[put(_find_previous_places(open_cells, int(j))) for j in tables],
            sorted=put(ordered),
            base=put(net.base),
            direction=direction,
            rise=direction.clamp(min=0.0),
            fall=direction.clamp(max=0.0),
            across=direction.T.contiguous(),
            rows=[put(some) for some in rows],
        )

    def build_boxes(self, low: Tensor, high: Tensor) -> DeviceBoxes:
        """Boxes by places of open cells."""
        starts = self.starts[self.lines]
        first, last = self.low_values[starts + low[:, self.lines]], self.high_values[starts + high[:, self.lines]]
        inside = []
        # A table feature has a mask over its open cells, and over those at the ends of their gaps, instead of two end
        # values.
        for j, rows, previous in zip(self.tables, self.rows, self.previous, strict=True):
            here = torch.arange(len(rows), device=low.device)
            mask = (here >= low[:, j, None]) & (here <= high[:, j, None])
            inside.append(mask | mask[:, previous])
        return DeviceBoxes(low, high, first, last, inside)

    def bound_first_layer(self, ends: DeviceBoxes) -> FirstLayerBounds:
        """Bounds of the first layer's sums."""
        # Rising directions are least at the first value and falling ones at the last; the maximum is the reverse.
        low = self.base + ends.first @ self.rise + ends.last @ self.fall
        high = self.base + ends.last @ self.rise + ends.first @ self.fall
        middle = self.base + (0.5 * (ends.first + ends.last)) @ self.direction
        moved = []
        # Cells outside a box are infinite, so that neither the minimum nor the maximum takes them.
        for mask, rows in zip(ends.inside, self.rows, strict=True):
            least = torch.where(mask[:, :, None], rows, torch.inf).amin(1)
            most = torch.where(mask[:, :, None], rows, -torch.inf).amax(1)
            low, high = low + least, high + most
            moved.append(most - least)
        return FirstLayerBounds(low, high, middle, moved)

    def maximize(self, now: Tensor, ends: DeviceBoxes) -> InputMaximum:
        """The maximum of linear functions of the first layer's sums, beyond their value in the middle."""
        # A scaled number goes from its middle to the better end: half of its range times the size of its slope.
        slopes = now @ self.across
        half = 0.5 * (ends.last - ends.first)
        total = torch.bmm(slopes.abs(), half[:, :, None])[:, :, 0]
        places = []
        for mask, rows in zip(ends.inside, self.rows, strict=True):
            most, place = torch.where(mask[:, None], now @ rows.T, -torch.inf).max(2)
            total = total + most
            places.append(place)
        return InputMaximum(total, slopes, places)

    def locate_maximum(self, slopes: Tensor, places: list[Tensor], ends: DeviceBoxes) -> tuple[Tensor, Tensor]:
        """The points where maxima are reached, as cells, and their first layer's sums."""
        # The end that the sign of the slope points to, and the best cell of every table.
        up, starts = slopes >= 0.0, self.starts[self.lines]
        at = torch.empty_like(ends.low)
        most = self.high_cells[starts + ends.high[:, self.lines]]
        least = self.low_cells[starts + ends.low[:, self.lines]]
        at[:, self.lines] = torch.where(up, most, least)
        sums = self.base + torch.where(up, ends.last, ends.first) @ self.direction
        for j, place, rows in zip(self.tables, places, self.rows, strict=True):
            at[:, j] = self.cells[self.starts[j] + place]
            sums = sums + rows[place]
        return at, sums

    def choose_cuts(self, flow: Tensor, moved: list[Tensor], ends: DeviceBoxes) -> tuple[Tensor, Tensor]:
        """The feature whose range costs most, as in the kernel, and the last place of its first part."""
        # The cost of a feature is how much its range widens the first layer's sums, each weighted with its looseness.
        costs = torch.empty(ends.low.shape, dtype=torch.float64, device=flow.device)
        costs[:, self.lines] = (flow @ self.across.abs()) * (ends.last - ends.first)
        for j, width in zip(self.tables, moved, strict=True):
            costs[:, j] = (flow * width).sum(1)
        fixed = ends.low == ends.high
        feature = torch.where(fixed, -torch.inf, costs).argmax(1)
        # Cut tables at half of their cells, and scaled numbers after the last value up to the middle of their range.
        # The clamp leaves both parts non-empty whenever the feature has more than one place.
        middle = (ends.low + ends.high) // 2
        halves = 0.5 * (ends.first + ends.last)
        upto = torch.searchsorted(self.sorted, halves.T.contiguous(), right=True).T - 1
        middle[:, self.lines] = upto
        middle = torch.minimum(torch.maximum(middle, ends.low), ends.high - 1)
        place = middle.gather(1, feature[:, None])[:, 0]
        whole = fixed.all(1)
        in_gaps = self.has_gap[self.starts + ends.low].any(1)
        no_cut = torch.where(in_gaps, NO_CUT_IN_GAP, NO_CUT)
        return torch.where(whole, no_cut, feature), torch.where(whole, -1, place)


def optimize_relaxation(
    layers: DeviceLayers, relaxed: list[RelaxedLayer], given: list[Tensor], sums: Tensor, step: float
) -> list[RelaxedLayer]:
    """Lines moved one step towards a lower bound; `sums` are the first layer's where the last bounds are reached."""
    # One subgradient step, as in the kernel: the points go forward through the lines that the bounds have used, and
    # every line moves by the sign or the place of its sum there.
    found = []
    for k, (low, high, lines) in enumerate(relaxed):
        ends = torch.maximum(low, -layers.sizes[k]), torch.minimum(high, layers.sizes[k])
        better = _optimize_layer(layers.kinds[k], layers.slopes[k], lines, given[k], sums=sums, ends=ends, step=step)
        found.append(RelaxedLayer(low, high, better))
        if k + 1 < len(relaxed):
            over = lines.upper_slope * sums + lines.upper_intercept
            under = lines.lower_slope * sums + lines.lower_intercept
            values = torch.where(given[k] >= 0.0, over, under)
            sums = values @ layers.turned[k + 1][:, :-1].T + layers.bias[k + 1]
    return found


def _optimize_layer(
    kind: int,
    slope: float,
    lines: ActivationRelaxation,
    given: Tensor,
    sums: Tensor,
    ends: tuple[Tensor, Tensor],
    step: float,
) -> ActivationRelaxation:
    if kind == 0:
        return lines
    if kind > 2:
        return _mix_with_tangents(kind, lines, given, sums, ends=ends, step=step)
    # Relus that may be on both sides of zero and whose lower line is in use; slopes from `slope` to 1 are sound.
    free = (given < 0.0) & (ends[0] < 0.0) & (ends[1] > 0.0)
    steps = torch.where(sums > 0.0, step, -step)
    steeper = (lines.lower_slope + steps).clamp(min=slope if kind == 2 else 0.0, max=1.0)
    return lines._replace(lower_slope=torch.where(free, steeper, lines.lower_slope))


def _mix_with_tangents(
    kind: int, lines: ActivationRelaxation, given: Tensor, sums: Tensor, ends: tuple[Tensor, Tensor], step: float
) -> ActivationRelaxation:
    """Lines mixed with tangents that lie on the same side of an s-shaped function all the way."""
    low, high = ends
    at = torch.minimum(torch.maximum(sums, low), high)
    slope, start = compute_tangents(kind, at)
    wide = high - low >= MIN_WIDTH
    # A tangent on the concave side that is also above the function at `low` is above it everywhere; below, the same
    # mirrored. A mixture of two sound lines is sound.
    over = wide & (given >= 0.0) & (at >= 0.0)
    over &= (low >= 0.0) | (slope * low + start >= apply_activation(kind, 0.0, low))
    under = wide & (given < 0.0) & (at <= 0.0)
    under &= (high <= 0.0) | (slope * high + start <= apply_activation(kind, 0.0, high))
    return ActivationRelaxation(
        torch.where(under, lines.lower_slope + step * (slope - lines.lower_slope), lines.lower_slope),
        torch.where(under, lines.lower_intercept + step * (start - lines.lower_intercept), lines.lower_intercept),
        torch.where(over, lines.upper_slope + step * (slope - lines.upper_slope), lines.upper_slope),
        torch.where(over, lines.upper_intercept + step * (start - lines.upper_intercept), lines.upper_intercept),
    )
