"""A network compiled for search: the first layer as tables over codes, everything in flat arrays.

A feature has finitely many values, so what it adds to the first layer's sums is a vector per value. A feature that
reaches the network as one column (a scaled number) adds a multiple of one *direction*; any other, such as a one-hot
group, has a *table* of vectors. Values that add the same are one cell; the cells of a scaled number lie in the order of
what the network sees of it. Of a feature that constraints speak of, every value is a cell of its own, so that all
points of the same cells can occur or none can.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ironrule.model.cells import Cells, starts_of
from ironrule.model.network import DOUBLE, FUNCTION_UNITS, Layer, Network, Preference, arithmetic_errors, largest_of
from ironrule.model.reading import Unreadable
from ironrule.model.tabulate import Columns
from ironrule.space import Feasible, Space

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

KINDS = {"identity": 0, "relu": 1, "leaky": 2, "tanh": 3, "logistic": 4}
MOST_NUMBERS = 1 << 27  # in the tables of the first layer


class Net(NamedTuple):
    """One alternative of a network: all margins must be positive. Arrays of all layers lie end to end."""

    cells: Cells
    line: npt.NDArray[np.bool_]  # per feature, whether it adds a multiple of its direction
    value: Floats  # per cell among all, that multiple
    direction: Floats  # features x first layer
    across: Floats  # the same, first layer x features
    table: Floats  # rows x first layer
    down: Floats  # the same, first layer x rows
    table_starts: Ints  # per feature, the row of its first cell
    base: Floats  # what the first layer adds to all points
    widths: Ints  # per layer
    unit_starts: Ints  # per layer, its units among all
    weight_starts: Ints  # per layer but the first
    turned: Floats  # weights, a row per output
    bias: Floats  # per unit; zero for the first layer, whose bias is in the base
    kinds: Ints  # per layer, its activation
    slopes: Floats
    sizes: Floats  # per unit, what its sum never exceeds in size
    coefficients: Floats  # margins x last layer
    offset: Floats
    slack: Floats  # per margin: within it, only the model itself can decide
    gamma: float  # how far a sum may be off, by the sizes that meet in it


def compile_network(
    network: Network, columns: Columns, space: Space, feasible: Feasible | None = None
) -> tuple[Net, ...]:
    """One net per alternative, for the constraints on the space or others."""
    numbers = [np.asarray(values, dtype=np.float64) for values in columns.values]
    largest = largest_of(numbers)
    errors = arithmetic_errors(network, largest)
    terms = len(numbers) + len(space) + 2 * sum(len(layer.bias) for layer in network.layers)  # of the longest sum
    whole = _entered(network.layers[0], columns.features, numbers, space, _tied(feasible or space.feasible))
    whole = _layered(whole, network, largest)._replace(gamma=8.0 * (terms + FUNCTION_UNITS + 8) * DOUBLE)
    return tuple(_preferring(whole, *one) for one in zip(network.alternatives, errors, strict=True))


def _tied(feasible: Feasible) -> frozenset[int]:
    """The features that constraints speak of: whether a point can occur may depend on the code within a cell."""
    return frozenset(j for group in feasible.groups for j in group.columns)


def _layered(net: Net, network: Network, largest: Floats) -> Net:
    """A net with the layers behind its first."""
    first, *others = network.layers
    widths = np.array([len(layer.bias) for layer in network.layers], dtype=np.int64)
    return net._replace(
        widths=widths,
        unit_starts=starts_of(widths),
        weight_starts=starts_of(np.array([layer.weights.size for layer in others])),
        turned=_flat([layer.weights.T.ravel() for layer in others]),
        bias=_flat([np.zeros(len(first.bias)), *(layer.bias for layer in others)]),
        kinds=np.array([KINDS[layer.activation.kind] for layer in network.layers], dtype=np.int64),
        slopes=np.array([layer.activation.slope for layer in network.layers]),
        sizes=_sizes(network, largest),
    )


def _preferring(net: Net, margins: tuple[Preference, ...], slack: tuple[float, ...]) -> Net:
    """A net with the margins of one alternative."""
    return net._replace(
        coefficients=np.array([one.coefficients for one in margins], dtype=np.float64, order="C"),
        offset=np.array([one.offset for one in margins], dtype=np.float64),
        slack=np.array(slack, dtype=np.float64),
    )


def _sizes(network: Network, largest: Floats) -> Floats:
    """Per unit of every layer, what its sum never exceeds in size, rounding included."""
    size, found = largest, []
    for layer in network.layers:
        total = (size @ np.abs(layer.weights) + np.abs(layer.bias)) * (1.0 + 1e-9)
        found.append(total)
        size = layer.activation.reach(total)
    return _flat(found)


def _entered(
    layer: Layer, features: npt.NDArray[np.intp], numbers: list[Floats], space: Space, tied: frozenset[int]
) -> Net:
    """A net of one layer: the cells of all features, and how each adds to the first layer's sums."""
    n, width = len(space), len(layer.bias)
    line, direction, base = np.ones(n, dtype=np.bool_), np.zeros((n, width)), layer.bias.astype(np.float64).copy()
    seen: list[list[int]] = [[] for _ in range(n)]
    for k, (j, column) in enumerate(zip(features.tolist(), numbers, strict=True)):
        if (column == column[0]).all():
            base += column[0] * layer.weights[k]
        else:
            seen[j].append(k)
    if sum(int(space.sizes[j]) for j in range(n) if len(seen[j]) > 1) * width > MOST_NUMBERS:
        raise Unreadable("the tables of its first layer would be too large; a space with coarser grids would help")
    of_code, values, tables, starts = list[Ints](), list[Floats](), list[Floats](), [0]
    for j, own in enumerate(seen):
        rows = np.stack([numbers[k] for k in own], axis=1) if own else np.zeros((int(space.sizes[j]), 1))
        told = np.concatenate([rows, np.arange(len(rows))[:, None]], axis=1) if j in tied else rows
        distinct, places = np.unique(told, axis=0, return_inverse=True)
        distinct = distinct[:, : rows.shape[1]]
        of_code.append(places.ravel().astype(np.int64))
        line[j] = len(own) <= 1
        values.append(distinct[:, 0] if line[j] else np.zeros(len(distinct)))
        if own and line[j]:
            direction[j] = layer.weights[own[0]]
        table = np.zeros((0, width)) if line[j] else distinct @ layer.weights[own]
        tables.append(table)
        starts.append(starts[-1] + len(table))
    table = np.concatenate([*tables, np.zeros((1, width))])
    none, empty = np.zeros(0), np.zeros(0, dtype=np.int64)  # what comes behind the first layer
    return Net(
        cells=_cells(of_code),
        line=line,
        value=_flat(values),
        direction=direction,
        across=np.ascontiguousarray(direction.T),
        table=table,
        down=np.ascontiguousarray(table.T),
        table_starts=np.array(starts, dtype=np.int64),
        base=base,
        widths=empty,
        unit_starts=empty,
        weight_starts=empty,
        turned=none,
        bias=none,
        kinds=empty,
        slopes=none,
        sizes=none,
        coefficients=np.zeros((0, 0)),
        offset=none,
        slack=none,
        gamma=0.0,
    )


def _cells(of_code: list[Ints]) -> Cells:
    counts = np.array([int(cells.max()) + 1 for cells in of_code], dtype=np.int64)
    flat = np.concatenate([cells + start for cells, start in zip(of_code, starts_of(counts), strict=False)])
    codes = np.concatenate([np.argsort(cells, kind="stable") for cells in of_code]).astype(np.int64)
    codes_starts = starts_of(np.bincount(flat, minlength=int(counts.sum())))
    lengths = np.array([len(cells) for cells in of_code])
    return Cells(
        starts_of((counts + 63) // 64),
        starts_of(counts),
        starts_of(lengths),
        np.concatenate(of_code),
        codes_starts,
        codes,
    )


def _flat(parts: list[Floats]) -> Floats:
    return np.ascontiguousarray(np.concatenate([np.zeros(0), *parts]), dtype=np.float64)
