"""The cells that a box of codes meets, in the order that parts of the box are ranges of."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ironrule.model.net import Net
from ironrule.oracles.net_room import Opened
from ironrule.rule import Box
from ironrule.rule.bit_kernels import kernel
from ironrule.space import Points

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@kernel
def _open(net: Net, low: Points, high: Points, met: Flags, starts: Ints, cells: Ints, values: Floats) -> int:
    """Write down the cells of every feature that some code of the box is in, and their values; how many there are."""
    count = 0
    for j in range(low.shape[0]):
        first, last = net.cells.cell_starts[j], net.cells.cell_starts[j + 1]
        for code in range(low[j], high[j] + 1):
            met[first + net.cells.cell_of[net.cells.code_starts[j] + code]] = True
        for place in range(first, last):
            if met[place]:
                cells[count] = place - first
                values[count] = net.value[place]
                count += 1
        starts[j + 1] = count
    return count


def opened_in(net: Net, box: Box) -> Opened:
    """The cells that a box of codes meets."""
    every = int(net.cells.cell_starts[-1])
    starts, cells, values = np.zeros(len(box.low) + 1, np.int64), np.empty(every, np.int64), np.empty(every)
    count = _open(net, box.low, box.high, np.zeros(every, np.bool_), starts, cells, values)
    return Opened(starts, cells[:count], values[:count])
