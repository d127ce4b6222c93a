"""A forest at single points: its margins, and whether they settle the decision."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ironrule.model.forest import Forest, cells_at
from ironrule.rule.bit_kernels import kernel, part
from ironrule.space import Points

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
ONE = np.uint64(1)


@part
def linked(links: Floats, group: int, total: float, lean: float) -> float:
    """A group's sum through its link: with a lean of 1 not below the true value, with -1 not above it."""
    if links[group, 0] == 0.0:
        return total
    scale, slope, shift = links[group, 1], links[group, 2], links[group, 3]
    total += lean * links[group, 4]
    if links[group, 0] == 1.0:
        value: float = scale / (1.0 + np.exp(-(slope * total + shift)))
        return value
    return scale if total > shift else 0.0


@part
def margin_at(forest: Forest, margin: int, point: Ints, sums: Floats) -> tuple[float, float]:
    """A margin's value at a point given by cells: at the most, and at the least."""
    for group in range(sums.shape[0]):
        sums[group] = 0.0
    for tree in range(forest.root.shape[0]):
        group = forest.group_of[tree]
        if forest.margin_of[group] != margin:
            continue
        node = forest.root[tree]
        while forest.node_left[node] >= 0:
            cell = point[forest.node_feature[node]]
            word = forest.masks[forest.node_words[node] + (cell >> 6)]
            node = forest.node_left[node] if (word >> np.uint64(cell & 63)) & ONE else forest.node_right[node]
        sums[group] += forest.node_value[node]
    most: float = forest.offset[margin]
    least: float = forest.offset[margin]
    for group in range(sums.shape[0]):
        if forest.margin_of[group] == margin:
            most += linked(forest.links, group, sums[group], 1.0)
            least += linked(forest.links, group, sums[group], -1.0)
    return most, least


@part
def least_margin(forest: Forest, point: Ints, sums: Floats) -> tuple[bool, bool]:
    """Whether every margin may be positive at a point, and whether every one surely is."""
    sure = True
    for margin in range(forest.offset.shape[0]):
        most, least = margin_at(forest, margin, point, sums)
        if most <= -forest.slack[margin]:
            return False, False
        if least <= forest.slack[margin]:
            sure = False
    return True, sure


@kernel
def _decide(forest: Forest, cells: Ints, possible: Flags, sure: Flags, sums: Floats) -> None:
    for row in range(cells.shape[0]):
        possible[row], sure[row] = least_margin(forest, cells[row], sums)


@kernel
def _least_margins(forest: Forest, cells: Ints, least: Floats, sums: Floats) -> None:
    for row in range(cells.shape[0]):
        least[row] = np.inf
        for margin in range(forest.offset.shape[0]):
            _, value = margin_at(forest, margin, cells[row], sums)
            least[row] = min(least[row], value - forest.slack[margin])


def least_margins(forest: Forest, cells: Ints) -> Floats:
    """The smallest margin of every point given by cells, less its slack: positive where it surely is desired."""
    least = np.empty(len(cells))
    _least_margins(forest, np.ascontiguousarray(cells), least, np.zeros(len(forest.margin_of)))
    return least


def decide(forest: Forest, points: Points) -> tuple[Flags, Flags]:
    """Which points may be desired, and which surely are."""
    possible, sure = np.zeros(len(points), dtype=np.bool_), np.zeros(len(points), dtype=np.bool_)
    _decide(forest, np.ascontiguousarray(cells_at(forest, points)), possible, sure, np.zeros(len(forest.margin_of)))
    return possible, sure
