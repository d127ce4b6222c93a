"""A network at single points: its margins, and whether they settle the decision."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.model.net import Net
from ironrule.rule.bit_kernels import kernel, part
from ironrule.space import Points

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@part
def activated(kind: int, slope: float, z: float) -> float:
    """The activation of one unit."""
    if kind == 1:
        return max(z, 0.0)
    if kind == 2:
        return max(z, slope * z)
    if kind == 3:
        return float(np.tanh(z))
    if kind == 4:
        return 0.5 + 0.5 * float(np.tanh(0.5 * z))
    return z


@part
def enter(net: Net, cells: Ints, sums: Floats) -> None:
    """The first layer's sums at a point given by cells."""
    width = net.base.shape[0]
    for h in range(width):
        sums[h] = net.base[h]
    for j in range(cells.shape[0]):
        if net.line[j]:
            v = net.value[net.cells.cell_starts[j] + cells[j]]
            for h in range(width):
                sums[h] += v * net.direction[j, h]
        else:
            row = net.table_starts[j] + cells[j]
            for h in range(width):
                sums[h] += net.table[row, h]


@part
def forward(net: Net, sums: Floats, values: Floats) -> None:
    """The last layer's outputs, in `values`, from the first layer's sums; both are as long as the widest layer."""
    for h in range(net.widths[0]):
        values[h] = activated(net.kinds[0], net.slopes[0], sums[h])
    spare = np.empty(values.shape[0])
    for k in range(1, net.widths.shape[0]):
        inputs, start = net.widths[k - 1], net.weight_starts[k - 1]
        for i in range(net.widths[k]):
            total = net.bias[net.unit_starts[k] + i]
            at = start + i * inputs
            for h in range(inputs):
                total += net.turned[at + h] * values[h]
            spare[i] = activated(net.kinds[k], net.slopes[k], total)
        for i in range(net.widths[k]):
            values[i] = spare[i]


@part
def least_margin(net: Net, values: Floats) -> tuple[float, float]:
    """From the last layer's outputs, the smallest margin with its slack added, and with its slack taken away."""
    most, least = np.inf, np.inf
    for m in range(net.offset.shape[0]):
        total = net.offset[m]
        for h in range(net.coefficients.shape[1]):
            total += net.coefficients[m, h] * values[h]
        most = min(most, total + net.slack[m])
        least = min(least, total - net.slack[m])
    return most, least


@kernel
def _decide(net: Net, cells: Ints, most: Floats, least: Floats, sums: Floats, values: Floats) -> None:
    for row in range(cells.shape[0]):
        enter(net, cells[row], sums)
        forward(net, sums, values)
        most[row], least[row] = least_margin(net, values)


def margins_at(net: Net, cells: Ints) -> tuple[Floats, Floats]:
    """The smallest margin of every point given by cells: at the most, and at the least."""
    most, least, widest = np.empty(len(cells)), np.empty(len(cells)), int(net.widths.max())
    _decide(net, np.ascontiguousarray(cells), most, least, np.empty(widest), np.empty(widest))
    return most, least


def cells_at(net: Net, points: npt.NDArray[Any]) -> Ints:
    """Points as cells."""
    return np.asarray(net.cells.cell_of[points + net.cells.code_starts[:-1]])


def decide(net: Net, points: Points) -> tuple[Flags, Flags]:
    """Which points may be desired, and which surely are."""
    most, least = margins_at(net, cells_at(net, points))
    return most > 0.0, least > 0.0
