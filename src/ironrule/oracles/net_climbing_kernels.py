"""Points of a network, moved: uphill to a counterfactual, and back towards the instance.

Climbing is coordinate ascent: for one feature at a time, some of its open cells are tried (the ends, and places in
between), the first layer's sums are mended and the rest is computed anew; the best one stays.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ironrule.model.net import Net
from ironrule.model.net_kernels import enter, forward, least_margin
from ironrule.oracles.net_room import Opened
from ironrule.rule.bit_kernels import kernel, part

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@part
def move(net: Net, feature: int, old: int, new: int, sums: Floats) -> None:
    """Mend the first layer's sums when a feature goes from one cell to another."""
    if net.line[feature]:
        start = net.cells.cell_starts[feature]
        by = net.value[start + new] - net.value[start + old]
        for h in range(net.base.shape[0]):
            sums[h] += by * net.direction[feature, h]
    else:
        start = net.table_starts[feature]
        for h in range(net.base.shape[0]):
            sums[h] += net.table[start + new, h] - net.table[start + old, h]


@part
def _surely(net: Net, cells: Ints, sums: Floats, values: Floats) -> float:
    """The smallest margin at a point, less its slack, computed from the beginning."""
    enter(net, cells, sums)
    forward(net, sums, values)
    return least_margin(net, values)[1]


@kernel
def climb(net: Net, opened: Opened, cells: Ints, orders: Ints, tries: int, sums: Floats, values: Floats) -> bool:
    """Move a point uphill within the open cells, once through the features for every order; whether it surely is a
    counterfactual now.
    """
    best = _surely(net, cells, sums, values)
    for sweep in range(orders.shape[0]):
        before = best
        for place in range(orders.shape[1]):
            j = orders[sweep, place]
            start, count = opened.starts[j], opened.starts[j + 1] - opened.starts[j]
            steps = min(count, tries)
            for step in range(steps):
                at = step if steps == count else (step * (count - 1)) // (steps - 1)
                cell = opened.cells[start + at]
                if cell == cells[j]:
                    continue
                move(net, j, cells[j], cell, sums)
                cells[j], old = cell, cells[j]
                forward(net, sums, values)
                value = least_margin(net, values)[1]
                if value > best:
                    best = value
                else:
                    move(net, j, cell, old, sums)
                    cells[j] = old
            if best > 0.0:
                best = _surely(net, cells, sums, values)
                if best > 0.0:
                    return True
        best = _surely(net, cells, sums, values)
        if best <= before:
            return False
    return False


@kernel
def pull_back(net: Net, cells: Ints, home: Ints, order: Ints, sums: Floats, values: Floats) -> None:
    """Give a counterfactual the instance's cells, feature by feature, as long as it surely stays one."""
    for place in range(order.shape[0]):
        j = order[place]
        old = cells[j]
        if old == home[j]:
            continue
        cells[j] = home[j]
        if not _surely(net, cells, sums, values) > 0.0:
            cells[j] = old
