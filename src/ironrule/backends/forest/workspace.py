"""The workspace of one search in a forest."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ironrule.arrays import Float64Array, Int64Array, UInt64Array

if TYPE_CHECKING:
    from ironrule.backends.forest.compile import CompiledForest

# The places of `counters`: the depth of the box on top, the margin to go on with after an unsure point (-1: none), how
# many points the model has denied, the length of the log.
DEPTH, RESUMED_MARGIN, DENIED_COUNT, LOG_END = 0, 1, 2, 3


class ForestWorkspace(NamedTuple):
    """The arrays of one search, allocated once."""

    domains: UInt64Array  # per depth, the cells that are still open
    best_leaves: Int64Array  # per depth, the best leaf of every tree
    split_feature: Int64Array  # per depth, the feature that was split last
    point: Int64Array  # the current candidate, a cell per feature
    last_point: Int64Array  # the point that was looked at last
    counters: Int64Array  # four numbers, named above
    sums: Float64Array  # per group, the sum of its trees
    bounds: Float64Array  # per margin, its upper bound in the box that was bounded last
    begins: Float64Array  # per cell, the weight of what begins and ends there, and of gaps
    ends: Float64Array
    gaps: Float64Array
    denied_points: Int64Array  # unsure points that the model has denied
    log: Int64Array  # the boxes in the order of the search: closed ones (-1), and how the others were split
    stack: Int64Array  # nodes yet to visit, and for each the cells that lead there
    stack_cells: UInt64Array
    cell_sums: Float64Array  # per group and cell, the sum of its trees
    tree_values: Float64Array  # per tree, its value at the point, and the features that lead there, as bits (modulo 64)
    tree_paths: UInt64Array


MAX_DEPTH = 1024  # boxes that can wait at once
LOG_LENGTH = 20_000  # entries at first; `ensure_log_space` makes room for more


def allocate_forest_workspace(forest: CompiledForest) -> ForestWorkspace:
    """A workspace for a forest."""
    features, cells = len(forest.cells.cell_starts) - 1, int(forest.cells.cell_starts[-1])
    widest = int(np.diff(forest.cells.cell_starts).max())
    branches = widest + 2  # those that wait in a profile share out one feature's cells, and what lies beyond the last
    return ForestWorkspace(
        domains=np.empty((MAX_DEPTH, int(forest.cells.word_starts[-1])), dtype=np.uint64),
        best_leaves=np.empty((MAX_DEPTH, len(forest.root)), dtype=np.int64),
        split_feature=np.empty(MAX_DEPTH, dtype=np.int64),
        point=np.zeros(features, dtype=np.int64),
        last_point=np.zeros(features, dtype=np.int64),
        counters=np.zeros(4, dtype=np.int64),
        sums=np.zeros(len(forest.group_margin)),
        bounds=np.zeros(len(forest.offset)),
        begins=np.zeros(cells),
        ends=np.zeros(cells),
        gaps=np.zeros(cells),
        denied_points=np.zeros((256, features), dtype=np.int64),
        log=np.empty(LOG_LENGTH, dtype=np.int64),
        stack=np.zeros(branches, dtype=np.int64),
        stack_cells=np.zeros((branches, int(np.diff(forest.cells.word_starts).max())), dtype=np.uint64),
        cell_sums=np.zeros((len(forest.group_margin), widest)),
        tree_values=np.zeros(len(forest.root)),
        tree_paths=np.zeros(len(forest.root), dtype=np.uint64),
    )
