"""Upper bounds of a network's margins over boxes: linear relaxation and back-substitution (CROWN).

* *Relaxation.* Every activation lies between two straight lines on an interval. For a piecewise linear one these are
  its own pieces and the chord; for an s-shaped one (rising, convex below zero and concave above) chords and tangents,
  as in Zhang et al., "Efficient Neural Network Robustness Certification with General Activation Functions", NeurIPS
  2018 (CROWN). A tangent that begins on the other side of zero is found by bisection, and the end that was verified is
  taken, so that it is sound however few bisections there are.
* *Input layer.* Every feature adds its own part to the first layer's sums, a multiple of its direction or a row of its
  table, so the most and the least that it can add over a box are exact.
* *Back-substitution.* A layer's sums are bounded by going back through the layers before it: every activation is
  replaced by its line above or below, by the sign of its coefficient, until a linear function of the first layer's
  sums is left, whose maximum over a box is exact (Zhang et al. 2018; Singh et al., "An Abstract Domain for Certifying
  Neural Networks", POPL 2019). Rounding is covered by `gamma` times the sizes of all that meets.
* *Better lines* (the alpha of alpha-CROWN). Below a relu that may be on either side of zero lies every line through
  zero with a slope from that of its left side to 1; above the concave side of an s-shaped function lies every tangent,
  below the convex side too, and between two such lines every mixture of both. A bound is a convex function of the
  lines. At the point where it is reached, a slope does better if it is larger where the sum is positive and smaller
  where it is negative, and a tangent if it touches there (Xu et al., "Fast and Complete: Enabling Complete
  Verification with Rapid and Massively Parallel Incomplete Verifiers", ICLR 2021). Bounds hold whatever lines are
  chosen, so a few such steps can only close more boxes.
"""

from __future__ import annotations

import numpy as np

from ironrule.arrays import Float64Array
from ironrule.backends.network.compile import CompiledNetwork, activate
from ironrule.backends.network.workspace import LANES, NetworkWorkspace, OpenCells
from ironrule.jit import kernel_helper

MIN_WIDTH = 1e-6  # narrower intervals get constant lines: a chord would divide by almost zero
BISECTIONS = 12


@kernel_helper
def compute_slope(kind: int, z: float) -> float:
    """The derivative of an s-shaped activation (tanh or logistic) at z."""
    # Kinds are ACTIVATION_CODES: 3 is tanh, with slope 1 - tanh^2; 4 is logistic, written with tanh(z / 2).
    if kind == 3:
        value = float(np.tanh(z))
        return 1.0 - value * value
    half = 0.5 * float(np.tanh(0.5 * z))
    return 0.25 - half * half


@kernel_helper
def compute_tangent(kind: int, at: float) -> tuple[float, float]:
    """Slope and value at zero of the tangent to an s-shaped activation at a place."""
    if kind == 3:
        value = float(np.tanh(at))
        slope = 1.0 - value * value
        return slope, value - slope * at
    half = 0.5 * float(np.tanh(0.5 * at))
    slope = 0.25 - half * half
    return slope, 0.5 + half - slope * at


@kernel_helper
def _find_touching_tangent(kind: int, end: float, other: float) -> tuple[float, float]:
    """The tangent nearest to zero, on the side of `other`, that passes the activation at `end` on its outer side.

    For an `end` below zero that is a line above the activation, for one above zero a line below it.
    """
    # `sign` is 1 for a line above and -1 for a line below, so one test serves both cases.
    value, sign = activate(kind, 0.0, end), 1.0 if end < 0.0 else -1.0
    near, far = 0.0, other  # a tangent at `far` is sound
    # Bisection between zero and `other`. Invariant: the tangent at `far` is on the right side at `end`, so the result
    # is sound after any number of steps; further steps only move it nearer to the activation.
    for _ in range(BISECTIONS):
        middle = 0.5 * (near + far)
        slope, start = compute_tangent(kind, middle)
        if sign * (slope * end + start - value) >= 0.0:
            far = middle
        else:
            near = middle
    return compute_tangent(kind, far)


@kernel_helper
def relax_activation(kind: int, slope: float, low: float, high: float) -> tuple[float, float, float, float]:
    """Slope and value at zero of a line below the activation between two ends, and of one above it."""
    # Identity: the activation is its own line.
    if kind == 0:
        return 1.0, 0.0, 1.0, 0.0
    # Relu and leaky relu: slope 1 right of zero, `below` left of it.
    if kind <= 2:
        below = slope if kind == 2 else 0.0
        if low >= 0.0:
            return 1.0, 0.0, 1.0, 0.0
        if high <= 0.0:
            return below, 0.0, below, 0.0
        # Across zero the activation is convex: the chord is the line above. Below, one of its two sides is extended;
        # CROWN takes the one that leaves the smaller area. `optimize_relaxation` may turn this line later.
        chord = (high - below * low) / (high - low)
        return 1.0 if high > -low else below, 0.0, chord, high - chord * high
    at_low, at_high = activate(kind, 0.0, low), activate(kind, 0.0, high)
    # A rising function lies between its values at the two ends.
    if high - low < MIN_WIDTH:
        return 0.0, at_low, 0.0, at_high
    chord = (at_high - at_low) / (high - low)
    start = at_low - chord * low
    # Right of zero the function is concave: chord below, tangent above. Left of zero it is the other way round.
    if low >= 0.0:
        s, t = compute_tangent(kind, 0.5 * (low + high))
        return chord, start, s, t
    if high <= 0.0:
        s, t = compute_tangent(kind, 0.5 * (low + high))
        return s, t, chord, start
    # Across zero: the chord is a line above unless the function is flatter than it at the right end, which means that
    # it has risen above the chord; then a tangent that passes the left end is needed. Below, likewise at the left end.
    s1, t1, s2, t2 = chord, start, chord, start
    if compute_slope(kind, high) < chord:
        s2, t2 = _find_touching_tangent(kind, low, high)
    if compute_slope(kind, low) < chord:
        s1, t1 = _find_touching_tangent(kind, high, low)
    return s1, t1, s2, t2


@kernel_helper
def bound_first_layer(net: CompiledNetwork, open_cells: OpenCells, workspace: NetworkWorkspace) -> None:
    """Bounds of the first layer's sums."""
    low, high, first, last = workspace.low, workspace.high, workspace.at_first, workspace.at_last
    # Every sum starts at the constant part of its unit; every feature then adds its own least and most. Features are
    # independent in a box, so these sums are exact but for rounding.
    for h in range(net.base.shape[0]):
        for lane in range(LANES):
            low[h, lane] = net.base[h]
            high[h, lane] = net.base[h]
    for j in range(workspace.first.shape[0]):
        if net.is_linear[j]:
            for h in range(net.base.shape[0]):
                # A scaled number adds d times its value; the sign of d says at which end of the range that is least.
                d = net.direction[j, h]
                down, up = (first, last) if d >= 0.0 else (last, first)
                for lane in range(LANES):
                    low[h, lane] += d * down[j, lane]
                for lane in range(LANES):
                    high[h, lane] += d * up[j, lane]
        else:
            _add_table_range(net, open_cells, j, workspace)
    for h in range(net.base.shape[0]):
        # Move both bounds outwards by what rounding can have changed.
        off = net.gamma * net.unit_sizes[h]
        for lane in range(LANES):
            low[h, lane] -= off
            high[h, lane] += off


@kernel_helper
def _add_table_range(net: CompiledNetwork, open_cells: OpenCells, j: int, workspace: NetworkWorkspace) -> None:
    """Add to the bounds of the first layer's sums the least and the most that a feature with a table gives."""
    start, row = open_cells.starts[j], net.table_starts[j]
    for h in range(net.base.shape[0]):
        for lane in range(LANES):
            # No order to use here: look at the table entry of every open cell in the lane's range, and at the other
            # end of its gap; what lies in the gap adds something between the two.
            least, most = np.inf, -np.inf
            for place in range(start + workspace.first[j, lane], start + workspace.last[j, lane] + 1):
                value, end = (
                    net.table[row + open_cells.cells[place], h],
                    net.table[row + open_cells.next_cells[place], h],
                )
                least, most = min(least, value, end), max(most, value, end)
            workspace.low[h, lane] += least
            workspace.high[h, lane] += most


@kernel_helper
def collect_input_slopes(net: CompiledNetwork, workspace: NetworkWorkspace) -> None:
    """Write how `coefficients` times the first layer's sums depend on every feature, and add the constant to `total`.

    `slopes[j]` is the factor of a scaled number, `row_products[row]` what the function gains by one row of a table.
    """
    slopes, rows = workspace.slopes, workspace.row_products
    for j in range(slopes.shape[0]):
        for lane in range(LANES):
            slopes[j, lane] = 0.0
    for row in range(rows.shape[0]):
        for lane in range(LANES):
            rows[row, lane] = 0.0
    coefficients, total, width = workspace.coefficients, workspace.total, net.base.shape[0]
    across, down = net.direction_by_unit, net.table_by_unit
    for h in range(width):
        base = net.base[h]
        for lane in range(LANES):
            total[lane] += base * coefficients[h, lane]
    # slopes = direction_by_unit^T @ coefficients, four units per pass, so that a slope is loaded and stored once for
    # four products; the remaining up to three units follow one by one.
    even = width - width % 4
    for h in range(0, even, 4):
        for j in range(slopes.shape[0]):
            w0, w1, w2, w3 = across[h, j], across[h + 1, j], across[h + 2, j], across[h + 3, j]
            for lane in range(LANES):
                slopes[j, lane] += (w0 * coefficients[h, lane] + w1 * coefficients[h + 1, lane]) + (
                    w2 * coefficients[h + 2, lane] + w3 * coefficients[h + 3, lane]
                )
    for h in range(even, width):
        for j in range(slopes.shape[0]):
            weight = across[h, j]
            for lane in range(LANES):
                slopes[j, lane] += weight * coefficients[h, lane]
    # The same product for the rows of all tables.
    for h in range(net.base.shape[0]):
        for row in range(rows.shape[0]):
            weight = down[h, row]
            for lane in range(LANES):
                rows[row, lane] += weight * coefficients[h, lane]


@kernel_helper
def add_input_maximum(net: CompiledNetwork, open_cells: OpenCells, workspace: NetworkWorkspace, keep: bool) -> None:
    """Add to `total` the maximum over the box of the first layer's sums, each times its coefficient.

    With `keep`, the cells where it is reached go to `maximum_cell`.
    """
    # The function is sum over units h of coefficients[h] * sum[h]. Features are independent in a box, so its maximum is
    # the sum of the features' own maxima.
    collect_input_slopes(net, workspace)
    slopes = workspace.slopes
    # A scaled number is best at the end that the sign of its slope points to, a table at its best open cell. With
    # `keep`, the cell is remembered.
    for j in range(slopes.shape[0]):
        if net.is_linear[j]:
            for lane in range(LANES):
                last, first = workspace.at_last[j, lane], workspace.at_first[j, lane]
                workspace.total[lane] += slopes[j, lane] * (last if slopes[j, lane] >= 0.0 else first)
            if keep:
                start = open_cells.starts[j]
                for lane in range(LANES):
                    most = open_cells.high_cells[start + workspace.last[j, lane]]
                    least = open_cells.low_cells[start + workspace.first[j, lane]]
                    workspace.maximum_cell[j, lane] = most if slopes[j, lane] >= 0.0 else least
        else:
            _add_table_maximum(net, open_cells, j, workspace, keep)


@kernel_helper
def _add_table_maximum(
    net: CompiledNetwork, open_cells: OpenCells, j: int, workspace: NetworkWorkspace, keep: bool
) -> None:
    """Add to `total` the most that a feature with a table gives; with `keep`, remember at which cell."""
    start, row = open_cells.starts[j], net.table_starts[j]
    for lane in range(LANES):
        # `here` is a place among the feature's open cells; the table is indexed by the cells at both ends of its gap.
        most, best = -np.inf, open_cells.cells[start + workspace.first[j, lane]]
        for here in range(start + workspace.first[j, lane], start + workspace.last[j, lane] + 1):
            for cell in (open_cells.cells[here], open_cells.next_cells[here]):
                value = workspace.row_products[row + cell, lane]
                if value > most:
                    most, best = value, cell
        workspace.total[lane] += most
        if keep:
            workspace.maximum_cell[j, lane] = best


UNDERFLOW = 1e-290  # times sizes, more than products too small for a double can lose


@kernel_helper
def relax_layer(net: CompiledNetwork, layer: int, workspace: NetworkWorkspace) -> None:
    """Compute lines below and above the activations of a layer, from the bounds of its sums."""
    kind, slope = net.activations[layer], net.slopes[layer]
    for i in range(net.unit_starts[layer], net.unit_starts[layer + 1]):
        size = net.unit_sizes[i]
        for lane in range(LANES):
            # A sum never exceeds the size of its unit, so bounds that rounding or loose lines made wider are clipped.
            # `max(low, high)` keeps the interval in order if clipping crossed its ends.
            low, high = max(workspace.low[i, lane], -size), min(workspace.high[i, lane], size)
            below, below_at, above, above_at = relax_activation(kind, slope, low, max(low, high))
            workspace.lower_slope[i, lane], workspace.lower_intercept[i, lane] = below, below_at
            workspace.upper_slope[i, lane], workspace.upper_intercept[i, lane] = above, above_at


@kernel_helper
def combine_rows(
    matrix: Float64Array, at: int, factors: Float64Array, count: int, into: Float64Array, width: int
) -> None:
    """Write to `into` the sum of the rows of a matrix, each times its factor; it begins at `at` in a flat array."""
    for h in range(width):
        for lane in range(LANES):
            into[h, lane] = 0.0
    # The innermost loop runs over lanes, which are neighbours in memory, so that it becomes vector instructions.
    for i in range(count):
        for h in range(width):
            weight = matrix[at + i * width + h]
            for lane in range(LANES):
                into[h, lane] += weight * factors[i, lane]


@kernel_helper
def _substitute_relaxation(net: CompiledNetwork, layer: int, workspace: NetworkWorkspace) -> None:
    """Replace the activations of a layer by their lines.

    `coefficients` belong to the layer's activations before the call, and to its sums after it.
    """
    coefficients, total, error = workspace.coefficients, workspace.total, workspace.error
    above, above_at = workspace.upper_slope, workspace.upper_intercept
    below, below_at = workspace.lower_slope, workspace.lower_intercept
    # For an upper bound, a positive coefficient takes the line above and a negative one the line below. Every unit adds
    # its intercept to `total`, then its coefficient becomes one of its sum, and the sum's bias goes to `total` too.
    # `error` collects the sizes of all these products, before and after the line; `gamma` times it covers their
    # rounding. The loops over lanes are kept short and separate so that each is vectorized.
    for i in range(net.widths[layer]):
        unit = net.unit_starts[layer] + i
        bias, size = net.bias[unit], net.unit_sizes[unit] + 1.0
        for lane in range(LANES):
            over, under = above_at[unit, lane], below_at[unit, lane]
            total[lane] += coefficients[i, lane] * (over if coefficients[i, lane] >= 0.0 else under)
        for lane in range(LANES):
            error[lane] += abs(coefficients[i, lane]) * size
        for lane in range(LANES):
            over, under = above[unit, lane], below[unit, lane]
            coefficients[i, lane] = coefficients[i, lane] * (over if coefficients[i, lane] >= 0.0 else under)
        # What a search knows of the sign of a sum makes the bound no smaller where it holds (`multipliers`).
        for lane in range(LANES):
            coefficients[i, lane] += workspace.multipliers[unit, lane]
        for lane in range(LANES):
            total[lane] += coefficients[i, lane] * bias
        for lane in range(LANES):
            error[lane] += (abs(coefficients[i, lane]) + UNDERFLOW) * size


@kernel_helper
def trace_back(net: CompiledNetwork, layer: int, workspace: NetworkWorkspace, keep: bool) -> None:
    """Replace `coefficients` of the outputs of a layer by those of the first layer's sums (back-substitution, CROWN).

    With `keep`, the coefficient of every activation is kept.
    """
    # Invariant of the loop: everywhere in the box, the function asked for is at most `total` plus `coefficients` times
    # the outputs of layer k, up to the rounding that `error` counts.
    coefficients, then = workspace.coefficients, workspace.next_coefficients
    for lane in range(LANES):
        workspace.total[lane] = 0.0
        workspace.error[lane] = 0.0
    for back in range(layer + 1):
        k = layer - back
        start, width = net.unit_starts[k], net.widths[k]
        if keep:
            for i in range(width):
                for lane in range(LANES):
                    workspace.kept_coefficients[start + i, lane] = coefficients[i, lane]
        _substitute_relaxation(net, k, workspace)
        # A sum of layer k is its weights times the outputs of layer k - 1: multiply the coefficients through.
        if k > 0:
            combine_rows(net.weights, net.weight_starts[k - 1], coefficients, width, then, net.widths[k - 1])
            for h in range(net.widths[k - 1]):
                for lane in range(LANES):
                    coefficients[h, lane] = then[h, lane]


@kernel_helper
def back_substitute(
    net: CompiledNetwork, open_cells: OpenCells, layer: int, workspace: NetworkWorkspace, keep: bool
) -> None:
    """Write to `bound` an upper bound of `coefficients` times the outputs of a layer.

    With `keep`, the coefficient of every activation and the cells where the bound is reached are kept.
    """
    trace_back(net, layer, workspace, keep)
    # What is left is a linear function of the first layer's sums, whose maximum over the box is known.
    add_input_maximum(net, open_cells, workspace, keep)
    for lane in range(LANES):
        bound = workspace.total[lane] + net.gamma * workspace.error[lane]
        workspace.bound[lane] = bound if np.isfinite(bound) else np.inf  # what overflows bounds nothing


@kernel_helper
def bound_hidden_layer(net: CompiledNetwork, open_cells: OpenCells, layer: int, workspace: NetworkWorkspace) -> None:
    """Bounds of the sums of a layer behind the first."""
    inputs, at = net.widths[layer - 1], net.weight_starts[layer - 1]
    for i in range(net.widths[layer]):
        unit = net.unit_starts[layer] + i
        off = net.gamma * net.unit_sizes[unit]
        # Side 0 bounds the sum from above. Side 1 bounds its negative from above, which is its lower bound negated.
        for side in range(2):
            sign = 1.0 - 2.0 * side
            for h in range(inputs):
                weight = sign * net.weights[at + i * inputs + h]
                for lane in range(LANES):
                    workspace.coefficients[h, lane] = weight
            back_substitute(net, open_cells, layer - 1, workspace, False)
            for lane in range(LANES):
                bound = workspace.bound[lane] + sign * net.bias[unit] + off
                if side == 0:
                    workspace.high[unit, lane] = bound
                else:
                    workspace.low[unit, lane] = -bound


@kernel_helper
def bound_margin(net: CompiledNetwork, open_cells: OpenCells, workspace: NetworkWorkspace) -> None:
    """Write to `bound` an upper bound of every lane's margin, its slack added."""
    last = net.widths.shape[0] - 1
    # The lanes may bound different margins: each loads the coefficients of its own.
    for i in range(net.widths[last]):
        for lane in range(LANES):
            workspace.coefficients[i, lane] = net.coefficients[workspace.margin[lane], i]
    back_substitute(net, open_cells, last, workspace, True)
    # The slack is added so that a bound of at most zero also holds for the model's own, rounded arithmetic.
    for lane in range(LANES):
        margin = workspace.margin[lane]
        bound = workspace.bound[lane] + net.offset[margin]
        workspace.bound[lane] = bound + net.slack[margin] + net.gamma * abs(net.offset[margin])


@kernel_helper
def optimize_relaxation(net: CompiledNetwork, workspace: NetworkWorkspace, step: float) -> None:
    """Move the lines one step towards a lower bound, by the coefficients and cells that the last bound has kept."""
    # One subgradient step. The point where the bound is reached goes forward through the lines that the bound has used;
    # the sum of a unit there says in which direction its line should move.
    _compute_first_sums(net, workspace)
    for k in range(net.widths.shape[0]):
        start, width = net.unit_starts[k], net.widths[k]
        if k > 0:
            compute_layer_sums(net, k, workspace)
        for i in range(width):
            # Outputs first: they must come from the line that the bound has used, not from the moved one.
            apply_relaxation(workspace, start + i, i)
            if net.activations[k] > 2:
                mix_with_tangent(net, k, start + i, workspace.sums[i], workspace, step)
            elif net.activations[k] > 0:
                least = net.slopes[k] if net.activations[k] == 2 else 0.0
                adjust_relu_slope(least, start + i, workspace.sums[i], workspace, step)


@kernel_helper
def _compute_first_sums(net: CompiledNetwork, workspace: NetworkWorkspace) -> None:
    """The first layer's sums where the last bound is reached."""
    sums, at, direction = workspace.sums, workspace.total, net.direction
    # `at` borrows the memory of `total`, which the next bound resets anyway.
    for h in range(net.base.shape[0]):
        for lane in range(LANES):
            sums[h, lane] = net.base[h]
    for j in range(workspace.maximum_cell.shape[0]):
        if net.is_linear[j]:
            for lane in range(LANES):
                at[lane] = net.cell_values[net.cells.cell_starts[j] + workspace.maximum_cell[j, lane]]
            for h in range(net.base.shape[0]):
                factor = direction[j, h]
                for lane in range(LANES):
                    sums[h, lane] += factor * at[lane]
        else:
            for lane in range(LANES):
                row = net.table_starts[j] + workspace.maximum_cell[j, lane]
                for h in range(net.base.shape[0]):
                    sums[h, lane] += net.table[row, h]


@kernel_helper
def compute_layer_sums(net: CompiledNetwork, k: int, workspace: NetworkWorkspace) -> None:
    """A layer's sums, from the outputs of the layer before it."""
    inputs, at, start = net.widths[k - 1], net.weight_starts[k - 1], net.unit_starts[k]
    sums, values, turned = workspace.sums, workspace.values, net.weights
    # weights[at + i * inputs + h] is the weight from output h of the layer before to unit i.
    for i in range(net.widths[k]):
        for lane in range(LANES):
            sums[i, lane] = net.bias[start + i]
        for h in range(inputs):
            weight = turned[at + i * inputs + h]
            for lane in range(LANES):
                sums[i, lane] += weight * values[h, lane]


@kernel_helper
def apply_relaxation(workspace: NetworkWorkspace, unit: int, i: int) -> None:
    """Write to `values` a unit's outputs on the lines that the last bound has used."""
    sums, values, given = workspace.sums, workspace.values, workspace.kept_coefficients
    above, above_at = workspace.upper_slope, workspace.upper_intercept
    below, below_at = workspace.lower_slope, workspace.lower_intercept
    for lane in range(LANES):
        over = above[unit, lane] * sums[i, lane] + above_at[unit, lane]
        under = below[unit, lane] * sums[i, lane] + below_at[unit, lane]
        values[i, lane] = over if given[unit, lane] >= 0.0 else under


@kernel_helper
def adjust_relu_slope(least: float, unit: int, sums: Float64Array, workspace: NetworkWorkspace, step: float) -> None:
    """Turn the line below a relu that may be on either side of zero."""
    low, high, given, below = workspace.low, workspace.high, workspace.kept_coefficients, workspace.lower_slope
    # Only units whose lower line is in use (negative coefficient) and that may be on both sides of zero have a choice.
    # There a larger slope lowers the bound where the sum is positive. Every slope from `least` to 1 is sound.
    for lane in range(LANES):
        turned = below[unit, lane] + (step if sums[lane] > 0.0 else -step)
        if given[unit, lane] < 0.0 and low[unit, lane] < 0.0 < high[unit, lane]:
            below[unit, lane] = min(1.0, max(least, turned))


@kernel_helper
def mix_with_tangent(
    net: CompiledNetwork, k: int, unit: int, sums: Float64Array, workspace: NetworkWorkspace, step: float
) -> None:
    """Mix the line of an s-shaped function with its tangent at a sum, where that is sound."""
    kind, size = net.activations[k], net.unit_sizes[unit]
    for lane in range(LANES):
        low, high = max(workspace.low[unit, lane], -size), min(workspace.high[unit, lane], size)
        if high - low < MIN_WIDTH:
            continue
        # The new line touches the activation at the sum where the bound is reached, or at the nearest end.
        at = min(max(sums[lane], low), high)
        slope, start = compute_tangent(kind, at)
        # A tangent on the concave side lies above the whole concave side. If it is also above the function at `low`, it
        # is above the convex side, as a convex function lies below its chord. A mixture of two sound lines is sound, so
        # the old line may move any part of the way. Below, the same mirrored.
        if workspace.kept_coefficients[unit, lane] >= 0.0:
            if at >= 0.0 and (low >= 0.0 or slope * low + start >= activate(kind, 0.0, low)):
                workspace.upper_slope[unit, lane] += step * (slope - workspace.upper_slope[unit, lane])
                workspace.upper_intercept[unit, lane] += step * (start - workspace.upper_intercept[unit, lane])
        elif at <= 0.0 and (high <= 0.0 or slope * high + start <= activate(kind, 0.0, high)):
            workspace.lower_slope[unit, lane] += step * (slope - workspace.lower_slope[unit, lane])
            workspace.lower_intercept[unit, lane] += step * (start - workspace.lower_intercept[unit, lane])
