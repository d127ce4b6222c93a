"""Points of a forest, moved: uphill to a counterfactual, back towards the instance, and to codes.

Climbing is coordinate ascent: for one feature at a time, trees are walked with both branches where they ask about that
feature, which gives the sum for all of its cells, and the best cell is taken. A tree whose path to its leaf does not
ask about a feature does not change with it, so every tree's value and the features on its path are kept, and most trees
are not walked at all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ironrule.model.cells import Cells
from ironrule.model.forest import Forest
from ironrule.model.forest_kernels import linked
from ironrule.rule.bit_kernels import kernel, lowest, part, popcount

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]
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
    values: Floats  # per tree, its value at the point, and the features that lead there, as bits (modulo 64)
    paths: Words


@part
def _trace(forest: Forest, desk: Desk, tree: int) -> None:
    """Note a tree's value at the desk's point, and its path."""
    node, path = forest.root[tree], NONE
    while forest.node_left[node] >= 0:
        asked = forest.node_feature[node]
        path |= ONE << np.uint64(asked & 63)
        cell = desk.point[asked]
        left = (forest.masks[forest.node_words[node] + (cell >> 6)] >> np.uint64(cell & 63)) & ONE
        node = forest.node_left[node] if left else forest.node_right[node]
    desk.values[tree] = forest.node_value[node]
    desk.paths[tree] = path


@part
def trace_all(forest: Forest, desk: Desk) -> None:
    """Note all trees' values at the desk's point."""
    for tree in range(forest.root.shape[0]):
        _trace(forest, desk, tree)


@part
def _move(forest: Forest, desk: Desk, feature: int, cell: int) -> None:
    """Move the desk's point, and the values of trees with it."""
    desk.point[feature] = cell
    for tree in range(forest.root.shape[0]):
        if (desk.paths[tree] >> np.uint64(feature & 63)) & ONE:
            _trace(forest, desk, tree)


@part
def profile(forest: Forest, desk: Desk, domain: Words, feature: int) -> None:
    """For every group the sum of trees at the desk's point moved to each open cell of one feature: in `sums` what no
    move changes, in `parts` the rest.
    """
    start = forest.cells.word_starts[feature]
    words = forest.cells.word_starts[feature + 1] - start
    parts, heap_cells = desk.parts, desk.heap_cells
    cells = forest.cells.cell_starts[feature + 1] - forest.cells.cell_starts[feature]
    for group in range(parts.shape[0]):
        desk.sums[group] = 0.0
        for cell in range(cells):
            parts[group, cell] = 0.0
    group, total = 0, 0.0
    for tree in range(forest.root.shape[0]):
        if forest.group_of[tree] != group:
            desk.sums[group] += total
            group, total = forest.group_of[tree], 0.0
        if not (desk.paths[tree] >> np.uint64(feature & 63)) & ONE:
            total += desk.values[tree]
            continue
        desk.heap[0] = forest.root[tree]
        for word in range(words):
            heap_cells[0, word] = domain[start + word]
        height, whole = 1, True
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
                some_left, some_right = NONE, NONE
                for word in range(words):
                    here = heap_cells[height, word]
                    some_left |= here & forest.masks[mask + word]
                    some_right |= here & ~forest.masks[mask + word]
                if some_left != NONE and some_right != NONE:
                    for word in range(words):
                        here = heap_cells[height, word]
                        heap_cells[height, word] = here & ~forest.masks[mask + word]
                        heap_cells[height + 1, word] = here & forest.masks[mask + word]
                    desk.heap[height] = forest.node_right[node]
                    desk.heap[height + 1] = forest.node_left[node]
                    height += 2
                    split, whole = True, False
                else:
                    node = forest.node_left[node] if some_left != NONE else forest.node_right[node]
            if split:
                continue
            value = forest.node_value[node]
            if whole:
                total += value
                continue
            for word in range(words):
                here = heap_cells[height, word]
                while here != NONE:
                    parts[group, 64 * word + lowest(here)] += value
                    here &= here - ONE
    if forest.root.shape[0] > 0:
        desk.sums[group] += total


@part
def least_at(forest: Forest, desk: Desk, cell: int) -> float:
    """The smallest margin, less its slack, at a cell of the last profile."""
    least = np.inf
    for margin in range(forest.offset.shape[0]):
        value = forest.offset[margin] - forest.slack[margin]
        for group in range(forest.margin_of.shape[0]):
            if forest.margin_of[group] == margin:
                value += linked(forest.links, group, desk.sums[group] + desk.parts[group, cell], -1.0)
        least = min(least, value)
    return least


@part
def _has_choice(forest: Forest, domain: Words, feature: int) -> bool:
    """Whether more than one cell of a feature is open."""
    open_ = 0
    for word in range(forest.cells.word_starts[feature], forest.cells.word_starts[feature + 1]):
        open_ += popcount(domain[word])
    return open_ > 1


@part
def _enter(forest: Forest, desk: Desk, domain: Words) -> None:
    """Move the desk's point into a domain, to the first open cell of every feature where it lies outside."""
    for feature in range(desk.point.shape[0]):
        start, end = forest.cells.word_starts[feature], forest.cells.word_starts[feature + 1]
        cell = desk.point[feature]
        if (domain[start + (cell >> 6)] >> np.uint64(cell & 63)) & ONE:
            continue
        for word in range(start, end):
            if domain[word] != NONE:
                desk.point[feature] = 64 * (word - start) + lowest(domain[word])
                break


@part
def _is_sure(forest: Forest, desk: Desk) -> bool:
    """Whether every margin surely is positive at the desk's point, by the values of the trees."""
    for group in range(desk.sums.shape[0]):
        desk.sums[group] = 0.0
    group, total = 0, 0.0
    for tree in range(forest.root.shape[0]):
        if forest.group_of[tree] != group:
            desk.sums[group] += total
            group, total = forest.group_of[tree], 0.0
        total += desk.values[tree]
    if forest.root.shape[0] > 0:
        desk.sums[group] += total
    for margin in range(forest.offset.shape[0]):
        least = forest.offset[margin]
        for group in range(desk.sums.shape[0]):
            if forest.margin_of[group] == margin:
                least += linked(forest.links, group, desk.sums[group], -1.0)
        if least <= forest.slack[margin]:
            return False
    return True


@part
def climb(forest: Forest, desk: Desk, domain: Words, order: Ints, sweeps: int) -> bool:
    """Move the desk's point uphill, a feature at a time, within a domain, as long as it is not surely a counterfactual;
    whether it is one now.
    """
    _enter(forest, desk, domain)
    trace_all(forest, desk)
    if _is_sure(forest, desk):
        return True
    best = -np.inf
    for _ in range(sweeps):
        before = best
        for place in range(order.shape[0]):
            feature = order[place]
            if not _has_choice(forest, domain, feature):
                continue
            profile(forest, desk, domain, feature)
            start, end = forest.cells.word_starts[feature], forest.cells.word_starts[feature + 1]
            here = desk.point[feature]
            top = least_at(forest, desk, here)
            for word in range(start, end):
                left = domain[word]
                while left != NONE:
                    cell = 64 * (word - start) + lowest(left)
                    left &= left - ONE
                    value = least_at(forest, desk, cell)
                    if value > top + 1e-12:
                        top, here = value, cell
            if here != desk.point[feature]:
                _move(forest, desk, feature, here)
            best = top
            if best > 0.0:
                return True
        if best <= before + 1e-9:
            return False
    return False


@part
def pull_back(forest: Forest, desk: Desk, home: Ints, order: Ints) -> None:
    """Give the desk's point, after climbing, the instance's cells, feature by feature, as long as it surely stays
    desired.
    """
    for place in range(order.shape[0]):
        feature = order[place]
        cell = desk.point[feature]
        if cell == home[feature]:
            continue
        _move(forest, desk, feature, home[feature])
        if not _is_sure(forest, desk):
            _move(forest, desk, feature, cell)


@kernel
def nearest_codes(cells: Cells, point: Ints, instance: Codes, low: Codes, high: Codes, codes: Codes) -> None:
    """For every feature the code of the point's cell that lies in the box and nearest to the instance's."""
    for feature in range(point.shape[0]):
        own = instance[feature]
        home = cells.cell_of[cells.code_starts[feature] + own] == point[feature]
        if home and low[feature] <= own <= high[feature]:
            codes[feature] = own
            continue
        cell = cells.cell_starts[feature] + point[feature]
        best, gap = -1, np.int64(1) << 62
        for place in range(cells.codes_starts[cell], cells.codes_starts[cell + 1]):
            code = cells.codes[place]
            if low[feature] <= code <= high[feature] and abs(code - own) < gap:
                best, gap = code, abs(code - own)
        codes[feature] = best
