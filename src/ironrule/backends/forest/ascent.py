"""Coordinate ascent in a forest: move a point to a counterfactual, and back towards the instance.

For one feature at a time, trees are walked with both branches where they test that feature, which gives the sum for
all of its cells, and the best cell is taken. A tree whose path to its leaf does not test a feature does not change
with it, so every tree's value and the features on its path are kept, and most trees are not walked at all.
"""

from __future__ import annotations

import numpy as np

from ironrule.arrays import Float64Array, Int64Array, UInt64Array
from ironrule.backends.forest.compile import CompiledForest, apply_link
from ironrule.backends.forest.workspace import ForestWorkspace
from ironrule.jit import ONE, ZERO, kernel_helper, lowest_bit, popcount

# Which way some cells of a feature go at a node that tests it.
ALL_LEFT, ALL_RIGHT, BOTH_WAYS = 0, 1, 2


@kernel_helper
def _trace_tree(forest: CompiledForest, workspace: ForestWorkspace, tree: int) -> None:
    """Set a tree's value at the workspace's point, and the features on its path to that leaf, as bits."""
    node, path = forest.root[tree], ZERO
    # Follow the point from the root to its leaf. An inner node has a mask of the cells that go left.
    while forest.node_left[node] >= 0:
        asked = forest.node_feature[node]
        # One bit per feature, modulo 64. Where two share a bit a tree is walked without need, but none is forgotten.
        path |= ONE << np.uint64(asked & 63)
        cell = workspace.point[asked]
        left = (forest.mask_words[forest.node_mask_starts[node] + (cell >> 6)] >> np.uint64(cell & 63)) & ONE
        node = forest.node_left[node] if left else forest.node_right[node]
    workspace.tree_values[tree] = forest.node_value[node]
    workspace.tree_paths[tree] = path


@kernel_helper
def trace_trees(forest: CompiledForest, workspace: ForestWorkspace) -> None:
    """Note all trees' values at the workspace's point."""
    for tree in range(forest.root.shape[0]):
        _trace_tree(forest, workspace, tree)


@kernel_helper
def move_point(forest: CompiledForest, workspace: ForestWorkspace, feature: int, cell: int) -> None:
    """Move the workspace's point to another cell of one feature, and keep the trees' values and paths up to date."""
    workspace.point[feature] = cell
    # Only trees that test the feature on their path can change.
    for tree in range(forest.root.shape[0]):
        if (workspace.tree_paths[tree] >> np.uint64(feature & 63)) & ONE:
            _trace_tree(forest, workspace, tree)


@kernel_helper
def _divide_cells(cells: UInt64Array, above: UInt64Array, mask: UInt64Array) -> int:
    """Which way some cells go. Those that go both ways are divided: the left ones go `above`, the right ones stay."""
    some_left, some_right = ZERO, ZERO
    for word in range(cells.shape[0]):
        some_left |= cells[word] & mask[word]
        some_right |= cells[word] & ~mask[word]
    if some_left == ZERO or some_right == ZERO:
        return ALL_RIGHT if some_left == ZERO else ALL_LEFT
    for word in range(cells.shape[0]):
        above[word] = cells[word] & mask[word]
        cells[word] &= ~mask[word]
    return BOTH_WAYS


@kernel_helper
def _add_to_cells(cells: UInt64Array, value: float, sums: Float64Array) -> None:
    """Add a leaf's value to the sums of the cells that lead there, one set bit after the other."""
    for word in range(cells.shape[0]):
        left = cells[word]
        while left != ZERO:
            sums[64 * word + lowest_bit(left)] += value
            left &= left - ONE


@kernel_helper
def profile_feature(forest: CompiledForest, workspace: ForestWorkspace, domain: UInt64Array, feature: int) -> None:
    """For every group the sum of trees at the workspace's point moved to each open cell of one feature: in `sums` what
    no move changes, in `cell_sums` the rest.
    """
    start = forest.cells.word_starts[feature]
    words = forest.cells.word_starts[feature + 1] - start
    stack, stack_cells = workspace.stack, workspace.stack_cells
    # Clear what the last profile has left.
    for group in range(workspace.cell_sums.shape[0]):
        workspace.sums[group] = 0.0
        for cell in range(forest.cells.cell_starts[feature + 1] - forest.cells.cell_starts[feature]):
            workspace.cell_sums[group, cell] = 0.0
    # The trees of a group lie together: one running total per group for all that no move of this feature changes.
    group, total = 0, 0.0
    for tree in range(forest.root.shape[0]):
        if forest.tree_group[tree] != group:
            workspace.sums[group] += total
            group, total = forest.tree_group[tree], 0.0
        if not (workspace.tree_paths[tree] >> np.uint64(feature & 63)) & ONE:
            total += workspace.tree_values[tree]
            continue
        # Walk the tree once for all open cells of the feature. The stack holds nodes, each with the cells that lead
        # there; these sets are disjoint and not empty, so it is never longer than the feature has cells.
        stack[0] = forest.root[tree]
        for word in range(words):
            stack_cells[0, word] = domain[start + word]
        # `whole` is true as long as the tree has not told two open cells apart.
        height, whole = 1, True
        while height > 0:
            height -= 1
            node, way = stack[height], ALL_LEFT
            cells = stack_cells[height, :words]
            # Go down as long as all cells of this entry go the same way. At another feature the point says where.
            while forest.node_left[node] >= 0 and way != BOTH_WAYS:
                asked, mask = forest.node_feature[node], forest.node_mask_starts[node]
                if asked != feature:
                    cell = workspace.point[asked]
                    left = (forest.mask_words[mask + (cell >> 6)] >> np.uint64(cell & 63)) & ONE
                    way = ALL_LEFT if left else ALL_RIGHT
                else:
                    above = stack_cells[height + 1, :words]
                    way = _divide_cells(cells, above, forest.mask_words[mask : mask + words])
                if way != BOTH_WAYS:
                    node = forest.node_left[node] if way == ALL_LEFT else forest.node_right[node]
            if way == BOTH_WAYS:
                # The right branch takes this entry's place, and the left one goes on top of it.
                stack[height], stack[height + 1] = forest.node_right[node], forest.node_left[node]
                height, whole = height + 2, False
            elif whole:
                # The same value for every open cell belongs to the part that no move changes.
                total += forest.node_value[node]
            else:
                _add_to_cells(cells, forest.node_value[node], workspace.cell_sums[group])
    if forest.root.shape[0] > 0:
        workspace.sums[group] += total


@kernel_helper
def compute_least_margin(forest: CompiledForest, workspace: ForestWorkspace, cell: int) -> float:
    """The smallest margin, less its slack, at a cell of the last profile."""
    least = np.inf
    # A lean of -1 and the subtracted slack both round downwards: a positive result surely is a counterfactual.
    for margin in range(forest.offset.shape[0]):
        value = forest.offset[margin] - forest.slack[margin]
        for group in range(forest.group_margin.shape[0]):
            if forest.group_margin[group] == margin:
                value += apply_link(forest.links, group, workspace.sums[group] + workspace.cell_sums[group, cell], -1.0)
        least = min(least, value)
    return least


@kernel_helper
def _has_choice(forest: CompiledForest, domain: UInt64Array, feature: int) -> bool:
    """Whether more than one cell of a feature is open."""
    open_ = 0
    for word in range(forest.cells.word_starts[feature], forest.cells.word_starts[feature + 1]):
        open_ += popcount(domain[word])
    return open_ > 1


@kernel_helper
def _move_into_domain(forest: CompiledForest, workspace: ForestWorkspace, domain: UInt64Array) -> None:
    """Move the workspace's point into a domain, to the first open cell of every feature where it lies outside."""
    for feature in range(workspace.point.shape[0]):
        start, end = forest.cells.word_starts[feature], forest.cells.word_starts[feature + 1]
        cell = workspace.point[feature]
        if (domain[start + (cell >> 6)] >> np.uint64(cell & 63)) & ONE:
            continue
        # The first word that is not empty has the first open cell.
        for word in range(start, end):
            if domain[word] != ZERO:
                workspace.point[feature] = 64 * (word - start) + lowest_bit(domain[word])
                break


@kernel_helper
def _is_surely_desired(forest: CompiledForest, workspace: ForestWorkspace) -> bool:
    """Whether every margin surely is positive at the workspace's point, by the values of the trees."""
    # The same running total as in `profile_feature`, from the noted values of the trees.
    for group in range(workspace.sums.shape[0]):
        workspace.sums[group] = 0.0
    group, total = 0, 0.0
    for tree in range(forest.root.shape[0]):
        if forest.tree_group[tree] != group:
            workspace.sums[group] += total
            group, total = forest.tree_group[tree], 0.0
        total += workspace.tree_values[tree]
    if forest.root.shape[0] > 0:
        workspace.sums[group] += total
    # Lower bounds of all margins; within the slack, the model's own rounding could decide otherwise.
    for margin in range(forest.offset.shape[0]):
        least = forest.offset[margin]
        for group in range(workspace.sums.shape[0]):
            if forest.group_margin[group] == margin:
                least += apply_link(forest.links, group, workspace.sums[group], -1.0)
        if least <= forest.slack[margin]:
            return False
    return True


@kernel_helper
def climb_to_counterfactual(
    forest: CompiledForest, workspace: ForestWorkspace, domain: UInt64Array, order: Int64Array, sweeps: int
) -> bool:
    """Move the workspace's point uphill, a feature at a time, within a domain, as long as it is not surely a
    counterfactual; whether it is one now.
    """
    _move_into_domain(forest, workspace, domain)
    trace_trees(forest, workspace)
    if _is_surely_desired(forest, workspace):
        return True
    best = -np.inf
    # Coordinate ascent: each step moves one feature to the cell where the smallest margin is largest, and never makes
    # the smallest margin smaller. It may end at a local maximum; then the caller falls back on branch and bound.
    for _ in range(sweeps):
        before = best
        for place in range(order.shape[0]):
            feature = order[place]
            if not _has_choice(forest, domain, feature):
                continue
            profile_feature(forest, workspace, domain, feature)
            start, end = forest.cells.word_starts[feature], forest.cells.word_starts[feature + 1]
            here = workspace.point[feature]
            top = compute_least_margin(forest, workspace, here)
            # All open cells of the feature, bit by bit; only a clear improvement moves the point.
            for word in range(start, end):
                left = domain[word]
                while left != ZERO:
                    cell = 64 * (word - start) + lowest_bit(left)
                    left &= left - ONE
                    value = compute_least_margin(forest, workspace, cell)
                    if value > top + 1e-12:
                        top, here = value, cell
            if here != workspace.point[feature]:
                move_point(forest, workspace, feature, here)
            best = top
            if best > 0.0:
                return True
        # A whole sweep without progress: a local maximum.
        if best <= before + 1e-9:
            return False
    return False


@kernel_helper
def pull_back(forest: CompiledForest, workspace: ForestWorkspace, home: Int64Array, order: Int64Array) -> None:
    """Give the workspace's point the instance's cells, feature by feature, as long as it surely stays desired."""
    # A greedy pass: fewer changed features mean a smaller dual, which says more. Invariant: the point surely is a
    # counterfactual before and after every step.
    for place in range(order.shape[0]):
        feature = order[place]
        cell = workspace.point[feature]
        if cell == home[feature]:
            continue
        move_point(forest, workspace, feature, home[feature])
        if not _is_surely_desired(forest, workspace):
            move_point(forest, workspace, feature, cell)
