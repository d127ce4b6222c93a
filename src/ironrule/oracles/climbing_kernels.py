"""Points of a forest, moved: uphill to a counterfactual, back towards the instance, and to codes.

Climbing is coordinate ascent: for one feature at a time, every tree is walked once with both branches where it asks
about that feature, which gives the sum for all of its cells, and the best cell is taken.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ironrule.model.forest import Forest
from ironrule.model.forest_kernels import least_margin, linked
from ironrule.rule.bit_kernels import kernel, part

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]
ONE = np.uint64(1)
NONE = np.uint64(0)


class Desk(NamedTuple):
    """The work space of one search; `state` holds its depth, the margin to go on with after an unsure point, how many
    points the model has denied, and the length of the log.
    """

    domains: Words  # per depth, the cells that are still open
    leaves: Ints  # per depth, the best leaf of every tree
    split: Ints  # per depth, the feature that was split last
    point: Ints
    last: Ints  # the point that was looked at last
    state: Ints
    sums: Floats
    bounds: Floats
    begins: Floats  # per cell, the weight of what begins and ends there, and of gaps
    ends: Floats
    gaps: Floats
    denied: Ints  # unsure points that the model has denied
    log: Ints  # the boxes in the order of the search: closed ones (-1), and how the others were split
    heap: Ints  # nodes yet to visit, and for each the cells that lead there
    heap_cells: Words
    parts: Floats  # per group and cell, the sum of its trees


@part
def profile(forest: Forest, desk: Desk, feature: int) -> None:
    """For every group and every cell of one feature, the sum of trees at the desk's point moved to that cell."""
    words = forest.cells.word_starts[feature + 1] - forest.cells.word_starts[feature]
    cells = forest.cells.cell_starts[feature + 1] - forest.cells.cell_starts[feature]
    parts = desk.parts
    for group in range(parts.shape[0]):
        for cell in range(cells):
            parts[group, cell] = 0.0
    for tree in range(forest.root.shape[0]):
        group = forest.group_of[tree]
        desk.heap[0] = forest.root[tree]
        for word in range(words):
            desk.heap_cells[0, word] = ~NONE
        height = 1
        while height > 0:
            height -= 1
            node = desk.heap[height]
            split = False
            while forest.node_left[node] >= 0 and not split:
                asked = forest.node_feature[node]
                mask = forest.node_words[node]
                if asked != feature:
                    cell = desk.point[asked]
                    left = (forest.masks[mask + (cell >> 6)] >> np.uint64(cell & 63)) & ONE
                    node = forest.node_left[node] if left else forest.node_right[node]
                    continue
                some_left, some_right = False, False
                for word in range(words):
                    here = desk.heap_cells[height, word]
                    some_left |= (here & forest.masks[mask + word]) != NONE
                    some_right |= (here & ~forest.masks[mask + word]) != NONE
                if some_left and some_right:
                    for word in range(words):
                        here = desk.heap_cells[height, word]
                        desk.heap_cells[height, word] = here & ~forest.masks[mask + word]
                        desk.heap_cells[height + 1, word] = here & forest.masks[mask + word]
                    desk.heap[height] = forest.node_right[node]
                    desk.heap[height + 1] = forest.node_left[node]
                    height += 2
                    split = True
                else:
                    node = forest.node_left[node] if some_left else forest.node_right[node]
            if split:
                continue
            value = forest.node_value[node]
            for word in range(words):
                here = desk.heap_cells[height, word]
                if here == NONE:
                    continue
                last = min(64, cells - 64 * word)
                for bit in range(last):
                    if (here >> np.uint64(bit)) & ONE:
                        parts[group, 64 * word + bit] += value


@part
def least_at(forest: Forest, desk: Desk, cell: int) -> float:
    """The smallest margin, less its slack, at a cell of the last profile."""
    least = np.inf
    for margin in range(forest.offset.shape[0]):
        value = forest.offset[margin] - forest.slack[margin]
        for group in range(forest.margin_of.shape[0]):
            if forest.margin_of[group] == margin:
                value += linked(forest, group, desk.parts[group, cell], -1.0)
        least = min(least, value)
    return least


@kernel
def climb(forest: Forest, desk: Desk, domain: Words, order: Ints, sweeps: int) -> bool:
    """Move the desk's point uphill, a feature at a time, within a domain; whether it surely is a counterfactual now."""
    best = -np.inf
    for _ in range(sweeps):
        before = best
        for place in range(order.shape[0]):
            feature = order[place]
            start = forest.cells.word_starts[feature]
            cells = forest.cells.cell_starts[feature + 1] - forest.cells.cell_starts[feature]
            if cells == 1:
                continue
            profile(forest, desk, feature)
            here = desk.point[feature]
            top = least_at(forest, desk, here)
            for cell in range(cells):
                if (domain[start + (cell >> 6)] >> np.uint64(cell & 63)) & ONE:
                    value = least_at(forest, desk, cell)
                    if value > top + 1e-12:
                        top, here = value, cell
            desk.point[feature] = here
            best = top
            if best > 0.0:
                return True
        if best <= before + 1e-9:
            return False
    return False


@kernel
def pull_back(forest: Forest, desk: Desk, home: Ints, order: Ints) -> None:
    """Give the desk's point the instance's cells, feature by feature, as long as it surely stays desired."""
    for place in range(order.shape[0]):
        feature = order[place]
        cell = desk.point[feature]
        if cell == home[feature]:
            continue
        desk.point[feature] = home[feature]
        _, sure = least_margin(forest, desk.point, desk.sums)
        if not sure:
            desk.point[feature] = cell


@kernel
def nearest_codes(forest: Forest, point: Ints, instance: Ints, low: Ints, high: Ints, codes: Ints) -> None:
    """For every feature the code of the point's cell that lies in the box and nearest to the instance's."""
    for feature in range(point.shape[0]):
        cell = forest.cells.cell_starts[feature] + point[feature]
        best, gap = -1, np.int64(1) << 62
        for place in range(forest.cells.codes_starts[cell], forest.cells.codes_starts[cell + 1]):
            code = forest.cells.codes[place]
            if low[feature] <= code <= high[feature] and abs(code - instance[feature]) < gap:
                best, gap = code, abs(code - instance[feature])
        codes[feature] = best
