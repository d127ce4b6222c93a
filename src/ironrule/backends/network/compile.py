"""Compile networks for search, and evaluate the result at single points.

The first layer becomes tables over codes, and everything lies in flat arrays. A feature has finitely many values, so
what it adds to the first layer's sums is a vector per value. A feature that reaches the network as one column (a
scaled number) adds a multiple of one *direction*; any other, such as a one-hot group, has a *table* of vectors.
Values that add the same are one cell; the cells of a scaled number lie in the order of what the network sees of it.
Of a feature that constraints speak of, every value is a cell of its own, so that all points of the same cells can
occur or none can.

Of an interval the numbers between two neighbouring values count too (:mod:`ironrule.model.intervals`). What the network
sees of them lies between what it sees of the two values: on the straight line between what the two cells add.

At a single point the network has margins, which may settle the decision or leave it to the model.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, Int64Array, IntpArray, Points
from ironrule.jit import kernel, kernel_helper
from ironrule.model.model_input import TabulatedColumns
from ironrule.model.normal_form.cells import Cells, compute_starts
from ironrule.model.normal_form.network import (
    DOUBLE_ROUNDOFF,
    FUNCTION_UNITS,
    Layer,
    Network,
    bound_arithmetic_errors,
    find_largest_sizes,
    require_straight_columns,
)
from ironrule.model.protocol import Unreadable
from ironrule.space.constraints.feasible import FeasibleRegion
from ironrule.space.feature import Feature, find_open_gaps
from ironrule.space.space import Space

ACTIVATION_CODES = {"identity": 0, "relu": 1, "leaky": 2, "tanh": 3, "logistic": 4}
MAX_TABLE_NUMBERS = 1 << 27  # in the tables of the first layer


class CompiledNetwork(NamedTuple):
    """One alternative of a network: all margins must be positive. Arrays of all layers lie end to end."""

    cells: Cells
    gap_after: BoolArray  # per code among all, whether numbers that the network tells apart lie before the next code
    is_linear: BoolArray  # per feature, whether it adds a multiple of its direction
    cell_values: Float64Array  # per cell among all, that multiple
    direction: Float64Array  # features x first layer
    direction_by_unit: Float64Array  # the same, first layer x features
    table: Float64Array  # rows x first layer
    table_by_unit: Float64Array  # the same, first layer x rows
    table_starts: Int64Array  # per feature, the row of its first cell
    base: Float64Array  # what the first layer adds to all points
    widths: Int64Array  # per layer
    unit_starts: Int64Array  # per layer, its units among all
    weight_starts: Int64Array  # per layer but the first, where its weights begin
    weights: Float64Array  # of all layers but the first, a row of inputs per unit
    bias: Float64Array  # per unit; zero for the first layer, whose bias is in the base
    activations: Int64Array  # per layer, its activation, one of ACTIVATION_CODES
    slopes: Float64Array  # per layer, the slope below zero of a leaky relu
    unit_sizes: Float64Array  # per unit, what its sum never exceeds in size
    coefficients: Float64Array  # margins x last layer
    offset: Float64Array  # per margin, its constant part
    slack: Float64Array  # per margin: within it, only the model itself can decide
    gamma: float  # how far a sum may be off, by the sizes that meet in it


def compile_network(
    network: Network, columns: TabulatedColumns, space: Space, feasible: FeasibleRegion | None = None
) -> tuple[CompiledNetwork, ...]:
    """Compile a network, one net per alternative; `feasible` replaces the constraints of the space."""
    numbers = [np.asarray(values, dtype=np.float64) for values in columns.values]
    largest = find_largest_sizes(numbers)
    errors = bound_arithmetic_errors(network, largest)
    terms = len(numbers) + len(space) + 2 * sum(len(layer.bias) for layer in network.layers)  # of the longest sum
    # Whether a point can occur may depend on the code within a cell of a feature that constraints speak of.
    tied = frozenset(j for group in (feasible or space.feasible).groups for j in group.columns)
    first, *others = network.layers
    widths = np.array([len(layer.bias) for layer in network.layers], dtype=np.int64)
    shared = _compile_first_layer(first, columns.features, numbers, space, tied) | {
        "widths": widths,
        "unit_starts": compute_starts(widths),
        "weight_starts": compute_starts(np.array([layer.weights.size for layer in others])),
        "weights": _concatenate_floats([layer.weights.T.ravel() for layer in others]),
        "bias": _concatenate_floats([np.zeros(len(first.bias)), *(layer.bias for layer in others)]),
        "activations": np.array([ACTIVATION_CODES[layer.activation.kind] for layer in network.layers], dtype=np.int64),
        "slopes": np.array([layer.activation.slope for layer in network.layers]),
        "unit_sizes": _bound_unit_sizes(network, largest),
        # A sum of n terms is off by at most about n roundoffs times the sizes of its terms, in whatever order they are
        # added. The factor 8 and the units of the activations make this generous.
        "gamma": 8.0 * (terms + 2 * FUNCTION_UNITS + 8) * DOUBLE_ROUNDOFF,
    }
    return tuple(
        CompiledNetwork(
            **shared,
            coefficients=np.array([one.coefficients for one in margins], dtype=np.float64, order="C"),
            offset=np.array([one.offset for one in margins], dtype=np.float64),
            slack=np.array(slack, dtype=np.float64),
        )
        for margins, slack in zip(network.alternatives, errors, strict=True)
    )


def _bound_unit_sizes(network: Network, largest: Float64Array) -> Float64Array:
    """Per unit of every layer, what its sum never exceeds in size, rounding included."""
    size, found = largest, []
    # Layer by layer: largest input times size of its weight, summed; 1e-9 covers the rounding of these sums.
    for layer in network.layers:
        total = (size @ np.abs(layer.weights) + np.abs(layer.bias)) * (1.0 + 1e-9)
        found.append(total)
        size = layer.activation.bound_size(total)
    return _concatenate_floats(found)


def _compile_first_layer(
    layer: Layer, features: IntpArray, numbers: list[Float64Array], space: Space, tied: frozenset[int]
) -> dict[str, Any]:
    """The fields up to ``base``: the cells of all features, and how each adds to the first layer's sums."""
    n, width = len(space), len(layer.bias)
    line, direction, base = np.ones(n, dtype=np.bool_), np.zeros((n, width)), layer.bias.astype(np.float64).copy()
    seen: list[list[int]] = [[] for _ in range(n)]
    # Columns that are the same for all codes add a constant; all others belong to their feature.
    for k, (j, column) in enumerate(zip(features.tolist(), numbers, strict=True)):
        if (column == column[0]).all():
            base += column[0] * layer.weights[k]
        else:
            seen[j].append(k)
    if sum(int(space.sizes[j]) for j in range(n) if len(seen[j]) > 1) * width > MAX_TABLE_NUMBERS:
        raise Unreadable("the tables of its first layer would be too large; a space with coarser grids would help")
    of_code, values, tables, starts = list[Int64Array](), list[Float64Array](), list[Float64Array](), [0]
    gaps = list[BoolArray]()
    # Feature by feature: one row per code with what the network sees of it. Equal rows become one cell, and np.unique
    # sorts them, so that the cells of a scaled number lie in the order of its values.
    for j, own in enumerate(seen):
        rows = np.stack([numbers[k] for k in own], axis=1) if own else np.zeros((int(space.sizes[j]), 1))
        # With its code as a last column every code of a constrained feature is different: a cell of its own.
        told = np.concatenate([rows, np.arange(len(rows))[:, None]], axis=1) if j in tied else rows
        distinct, places = np.unique(told, axis=0, return_inverse=True)
        distinct = distinct[:, : rows.shape[1]]
        of_code.append(places.ravel().astype(np.int64))
        gaps.append(_find_gaps_that_count(space.features[j], rows))
        line[j] = len(own) <= 1
        values.append(distinct[:, 0] if line[j] else np.zeros(len(distinct)))
        if own and line[j]:
            direction[j] = layer.weights[own[0]]
        # What every cell of a feature with several columns adds to the first layer's sums.
        table = np.zeros((0, width)) if line[j] else distinct @ layer.weights[own]
        tables.append(table)
        starts.append(starts[-1] + len(table))
    # A last row of zeros, so that there is a row even if no feature has a table.
    table = np.concatenate([*tables, np.zeros((1, width))])
    return {
        "cells": _build_cells(of_code),
        "gap_after": np.concatenate(gaps),
        "is_linear": line,
        "cell_values": _concatenate_floats(values),
        "direction": direction,
        "direction_by_unit": np.ascontiguousarray(direction.T),
        "table": table,
        "table_by_unit": np.ascontiguousarray(table.T),
        "table_starts": np.array(starts, dtype=np.int64),
        "base": base,
    }


def _find_gaps_that_count(feature: Feature, rows: Float64Array) -> BoolArray:
    """Per code, whether numbers lie between it and the next one of which the network sees something else."""
    opened = find_open_gaps(feature)
    if opened.any():
        require_straight_columns(feature, rows.T)
    found = np.zeros(len(rows), dtype=np.bool_)
    found[: len(opened)] = opened & (rows[: len(opened)] != rows[1 : len(opened) + 1]).any(axis=1)
    return found


def _build_cells(of_code: list[Int64Array]) -> Cells:
    counts = np.array([int(cells.max()) + 1 for cells in of_code], dtype=np.int64)
    cell_starts, code_starts = compute_starts(counts), compute_starts(np.array([len(cells) for cells in of_code]))
    flat = np.concatenate([cells + start for cells, start in zip(of_code, cell_starts, strict=False)])
    # A stable sort of a feature's codes by cell lists the codes of every cell, in rising order.
    codes = np.concatenate([np.argsort(cells, kind="stable") for cells in of_code]).astype(np.int64)
    codes_starts = compute_starts(np.bincount(flat, minlength=int(counts.sum())))
    word_starts = compute_starts((counts + 63) // 64)
    return Cells(word_starts, cell_starts, code_starts, np.concatenate(of_code), codes_starts, codes)


def _concatenate_floats(parts: list[Float64Array]) -> Float64Array:
    return np.ascontiguousarray(np.concatenate([np.zeros(0), *parts]), dtype=np.float64)


@kernel_helper
def activate(kind: int, slope: float, z: float) -> float:
    """The activation of one unit; kinds are ACTIVATION_CODES. Logistic is written with tanh, which cannot overflow."""
    if kind == 1:
        return max(z, 0.0)
    if kind == 2:
        return max(z, slope * z)
    if kind == 3:
        return float(np.tanh(z))
    if kind == 4:
        return 0.5 + 0.5 * float(np.tanh(0.5 * z))
    return z


@kernel_helper
def compute_first_layer(net: CompiledNetwork, cells: Int64Array, sums: Float64Array) -> None:
    """The first layer's sums at a point given by cells."""
    width = net.base.shape[0]
    for h in range(width):
        sums[h] = net.base[h]
    # Every feature adds its own vector: a multiple of its direction, or the row of its cell in its table.
    for j in range(cells.shape[0]):
        if net.is_linear[j]:
            v = net.cell_values[net.cells.cell_starts[j] + cells[j]]
            for h in range(width):
                sums[h] += v * net.direction[j, h]
        else:
            row = net.table_starts[j] + cells[j]
            for h in range(width):
                sums[h] += net.table[row, h]


@kernel_helper
def run_forward(net: CompiledNetwork, sums: Float64Array, values: Float64Array) -> None:
    """Write to `values` the last layer's outputs, from the first layer's sums; both arrays fit the widest layer."""
    for h in range(net.widths[0]):
        values[h] = activate(net.activations[0], net.slopes[0], sums[h])
    spare = np.empty(values.shape[0])
    # Layer by layer, `values` are the outputs of layer k - 1, then of layer k. New outputs go to `spare` first, because
    # every unit reads all the old ones.
    for k in range(1, net.widths.shape[0]):
        inputs, start = net.widths[k - 1], net.weight_starts[k - 1]
        for i in range(net.widths[k]):
            total = net.bias[net.unit_starts[k] + i]
            at = start + i * inputs
            for h in range(inputs):
                total += net.weights[at + h] * values[h]
            spare[i] = activate(net.activations[k], net.slopes[k], total)
        for i in range(net.widths[k]):
            values[i] = spare[i]


@kernel_helper
def compute_least_margin(net: CompiledNetwork, values: Float64Array) -> tuple[float, float]:
    """From the last layer's outputs, the smallest margin with its slack added, and with its slack taken away."""
    most, least = np.inf, np.inf
    # All margins must be positive, so the smallest one decides. The slack is added and taken away per margin, since
    # each has its own: if `least` is positive the point surely is desired, if `most` is not, it surely is not.
    for m in range(net.offset.shape[0]):
        total = net.offset[m]
        for h in range(net.coefficients.shape[1]):
            total += net.coefficients[m, h] * values[h]
        most = min(most, total + net.slack[m])
        least = min(least, total - net.slack[m])
    return most, least


@kernel
def _compute_rows(
    net: CompiledNetwork,
    cells: Int64Array,
    most: Float64Array,
    least: Float64Array,
    sums: Float64Array,
    values: Float64Array,
) -> None:
    for row in range(cells.shape[0]):
        compute_first_layer(net, cells[row], sums)
        run_forward(net, sums, values)
        most[row], least[row] = compute_least_margin(net, values)


def compute_margins(net: CompiledNetwork, cells: Int64Array) -> tuple[Float64Array, Float64Array]:
    """The smallest margin of every point given by cells: at the most, and at the least."""
    most, least, widest = np.empty(len(cells)), np.empty(len(cells)), int(net.widths.max())
    _compute_rows(net, np.ascontiguousarray(cells), most, least, np.empty(widest), np.empty(widest))
    return most, least


def decide_points(net: CompiledNetwork, points: Points) -> tuple[BoolArray, BoolArray]:
    """Which points may be desired, and which surely are."""
    most, least = compute_margins(net, net.cells.locate(points))
    return most > 0.0, least > 0.0
