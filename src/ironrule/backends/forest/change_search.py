"""Branch and bound for the cheapest change: which features must change, and to what?

A box has a set of open cells per feature. A feature whose own cell, that of the instance, is the only open one *stays*;
one whose own cell is closed *changes*; any other is *undecided*. The cost of a box is that of its cheapest point:
what the changed features cost at least. With the cost limit this says how many undecided features may still change.

1. **Close** what is too expensive: cells that cost more than is left; if no further change is affordable, all undecided
   features stay. Sets of features that must not all change (those of earlier counterfactuals) close cells too.
2. **Bound** every margin. A leaf asks some undecided features to leave their own cells. Leaves that ask for more
   changes than may come are out of reach. What a tree gains over its best leaf that asks for none is shared among the
   features that the leaf asks for; so a tree gains no more than the shares of the features that do change, and the
   whole sum no more than its value without a further change plus the largest shares of all trees, summed by feature,
   of as many features as may still change.
3. **Split**: the undecided feature with the largest share changes, or stays. If no feature is undecided, the box is
   split in two as in :mod:`~ironrule.backends.forest.branch_and_bound`, and the point with the largest sum is tried.

Each counterfactual that is found is pulled back towards the instance and lowers the limit. When no box is left, nothing
costs less than the limit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, Int64Array, UInt64Array
from ironrule.backends.forest.branch_and_bound import (
    OUT_OF_BUDGET,
    PROVEN,
    UNSURE,
    advance_best_leaves,
    bound_margins,
    choose_split,
    is_denied,
    meets_mask,
    split_box,
    weigh_cells,
)
from ironrule.backends.forest.compile import CompiledForest, apply_link, decide_point
from ironrule.backends.forest.workspace import DEPTH, LOG_END, RESUMED_MARGIN, ForestWorkspace
from ironrule.backends.nearest import ChangeCosts
from ironrule.jit import ONE, ZERO, kernel, kernel_helper

# What becomes of a feature in a box.
STAYS, UNDECIDED, CHANGES = 0, 1, 2
NOTHING_LEFT = -1  # the box holds no counterfactual below the limit
RELATIVE_ERROR = 1e-12  # of the sizes that are added up in a bound: far more than their rounding


class ChangeTables(NamedTuple):
    """What changes cost in a forest, seen from one instance, and the arrays of one search beside its workspace."""

    home: Int64Array  # per feature, the instance's cell
    cell_costs: Float64Array  # per cell among all, its cheapest code of the query's box
    needs_change: BoolArray  # per mask of a leaf, whether it excludes the instance's cell
    forbidden: BoolArray  # per earlier counterfactual and feature, whether it changes it
    limit: Float64Array  # one number: what a counterfactual must cost less than
    best: Int64Array  # the cells of the cheapest counterfactual so far; -1 if there is none
    status: Int64Array  # per feature of the box on top
    shares: Float64Array  # per feature, the sum of all trees' shares in the margin that was bounded last
    tree_shares: Float64Array  # per feature, for one tree
    kept_leaves: Int64Array  # leaves of one tree that few enough changes reach, and how many changes they ask for
    kept_counts: Int64Array
    start_domain: UInt64Array  # the open cells at the begin


def build_change_tables(
    forest: CompiledForest, costs: ChangeCosts, instance: Int64Array, low: Int64Array, high: Int64Array
) -> ChangeTables:
    """The tables of a search in a box of codes that holds the instance."""
    cells = forest.cells
    features = len(cells.cell_starts) - 1
    home = np.asarray(cells.locate(instance), dtype=np.int64)
    cell_costs = [cost[cheapest] for cost, cheapest in zip(costs.code_costs, costs.cheapest_codes, strict=True)]
    start = np.zeros(int(cells.word_starts[-1]), dtype=np.uint64)
    for j in range(features):
        codes = cells.cell_by_code[cells.code_starts[j] + low[j] : cells.code_starts[j] + high[j] + 1]
        for cell in np.unique(codes).tolist():
            start[cells.word_starts[j] + (cell >> 6)] |= ONE << np.uint64(cell & 63)
    most_leaves = int(np.diff(forest.leaf_starts).max(initial=1))
    tables = ChangeTables(
        home=home,
        cell_costs=np.concatenate(cell_costs),
        needs_change=np.zeros(len(forest.leaf_masks), dtype=np.bool_),
        forbidden=np.zeros((0, features), dtype=np.bool_),
        limit=np.zeros(1),
        best=np.full(features, -1, dtype=np.int64),
        status=np.zeros(features, dtype=np.int64),
        shares=np.zeros(features),
        tree_shares=np.zeros(features),
        kept_leaves=np.zeros(most_leaves, dtype=np.int64),
        kept_counts=np.zeros(most_leaves, dtype=np.int64),
        start_domain=start,
    )
    fill_needs(forest, home, tables.needs_change)
    return tables


@kernel
def fill_needs(forest: CompiledForest, home: Int64Array, needs_change: BoolArray) -> None:
    """Per mask of a leaf, whether it excludes the instance's cell."""
    for place in range(needs_change.shape[0]):
        mask = forest.leaf_masks[place]
        cell = home[forest.mask_feature[mask]]
        word = forest.mask_words[forest.mask_starts[mask] + (cell >> 6)]
        needs_change[place] = not (word >> np.uint64(cell & 63)) & ONE


@kernel
def start_change_search(tables: ChangeTables, workspace: ForestWorkspace, forest: CompiledForest) -> None:
    """Begin with all cells open."""
    for word in range(workspace.domains.shape[1]):
        workspace.domains[0, word] = tables.start_domain[word]
    for tree in range(workspace.best_leaves.shape[1]):
        workspace.best_leaves[0, tree] = forest.leaf_starts[tree]
    for feature in range(tables.best.shape[0]):
        tables.best[feature] = -1
        workspace.last_point[feature] = -1
    workspace.counters[:] = 0
    workspace.counters[RESUMED_MARGIN] = -1


@kernel_helper
def _is_open(forest: CompiledForest, domain: UInt64Array, feature: int, cell: int) -> bool:
    word = domain[forest.cells.word_starts[feature] + (cell >> 6)]
    return ((word >> np.uint64(cell & 63)) & ONE) != ZERO


@kernel_helper
def _keep_own_cell(forest: CompiledForest, tables: ChangeTables, domain: UInt64Array, feature: int) -> None:
    """Close all cells of a feature but the instance's own."""
    start, home = forest.cells.word_starts[feature], tables.home[feature]
    for word in range(start, forest.cells.word_starts[feature + 1]):
        domain[word] = ZERO
    domain[start + (home >> 6)] = ONE << np.uint64(home & 63)


@kernel_helper
def _close_own_cell(forest: CompiledForest, tables: ChangeTables, domain: UInt64Array, feature: int) -> None:
    home = tables.home[feature]
    domain[forest.cells.word_starts[feature] + (home >> 6)] &= ~(ONE << np.uint64(home & 63))


@kernel_helper
def _find_status(forest: CompiledForest, tables: ChangeTables, domain: UInt64Array, feature: int) -> int:
    """Whether a feature stays, changes or is undecided; NOTHING_LEFT if it has no open cell."""
    start, home, others = forest.cells.word_starts[feature], tables.home[feature], False
    for word in range(start, forest.cells.word_starts[feature + 1]):
        bits = domain[word]
        if word == start + (home >> 6):
            bits &= ~(ONE << np.uint64(home & 63))
        others = others or bits != ZERO
    if _is_open(forest, domain, feature, home):
        return UNDECIDED if others else STAYS
    return CHANGES if others else NOTHING_LEFT


@kernel_helper
def _find_least_cost(forest: CompiledForest, tables: ChangeTables, domain: UInt64Array, feature: int) -> float:
    """What the cheapest open cell of a feature costs."""
    start = forest.cells.cell_starts[feature]
    least = np.inf
    for cell in range(forest.cells.cell_starts[feature + 1] - start):
        if tables.cell_costs[start + cell] < least and _is_open(forest, domain, feature, cell):
            least = tables.cell_costs[start + cell]
    return least


@kernel_helper
def _close_costly_cells(
    forest: CompiledForest, tables: ChangeTables, domain: UInt64Array, feature: int, most: float
) -> None:
    """Close the cells of a feature that cost so much or more."""
    start = forest.cells.cell_starts[feature]
    for cell in range(forest.cells.cell_starts[feature + 1] - start):
        if tables.cell_costs[start + cell] >= most:
            word = forest.cells.word_starts[feature] + (cell >> 6)
            domain[word] &= ~(ONE << np.uint64(cell & 63))


@kernel_helper
def close_cells(forest: CompiledForest, tables: ChangeTables, domain: UInt64Array) -> int:
    """Close what is too expensive or forbidden; how many undecided features may still change, or NOTHING_LEFT."""
    features, status = tables.home.shape[0], tables.status
    cost, undecided = 0.0, 0
    for feature in range(features):
        status[feature] = _find_status(forest, tables, domain, feature)
        if status[feature] == NOTHING_LEFT:
            return NOTHING_LEFT
        if status[feature] == CHANGES:
            cost += _find_least_cost(forest, tables, domain, feature)
    # An earlier counterfactual's features must not all change: if only one is left that may stay, it does.
    for earlier in range(tables.forbidden.shape[0]):
        may_stay, last = 0, -1
        for feature in range(features):
            if tables.forbidden[earlier, feature] and status[feature] != CHANGES:
                may_stay += 1
                last = feature
        if may_stay == 0:
            return NOTHING_LEFT
        if may_stay == 1 and status[last] == UNDECIDED:
            _keep_own_cell(forest, tables, domain, last)
            status[last] = STAYS
    left = tables.limit[0] - cost
    if left <= 0.0:
        return NOTHING_LEFT
    for feature in range(features):
        if status[feature] == CHANGES:
            least = _find_least_cost(forest, tables, domain, feature)
            _close_costly_cells(forest, tables, domain, feature, left + least)
        elif status[feature] == UNDECIDED:
            # Every change costs one at least, and less than two.
            if left <= 1.0:
                _keep_own_cell(forest, tables, domain, feature)
            elif left < 2.0:
                _close_costly_cells(forest, tables, domain, feature, left)
            status[feature] = STAYS if left <= 1.0 else _find_status(forest, tables, domain, feature)
            undecided += status[feature] == UNDECIDED
    return min(undecided, int(np.ceil(left)) - 1)


@kernel_helper
def _count_needed(forest: CompiledForest, tables: ChangeTables, domain: UInt64Array, leaf: int, most: int) -> int:
    """How many undecided features a leaf asks to change; -1 if it is out of reach, or if they are too many."""
    count = 0
    for place in range(forest.leaf_mask_starts[leaf], forest.leaf_mask_starts[leaf + 1]):
        mask = forest.leaf_masks[place]
        status = tables.status[forest.mask_feature[mask]]
        if status == CHANGES:
            if not meets_mask(forest, mask, domain):
                return -1
        elif tables.needs_change[place]:
            count += 1
            if status == STAYS or count > most or not meets_mask(forest, mask, domain):
                return -1
    return count


@kernel_helper
def _share_tree(
    forest: CompiledForest, tables: ChangeTables, domain: UInt64Array, first: int, end: int, most: int
) -> tuple[float, float]:
    """The value of a tree's best leaf that ``most`` changes reach, and of the best one without any; its gain is shared
    among features. Minus infinity if no leaf is in reach.
    """
    kept, best, base = 0, -np.inf, -np.inf
    # Leaves lie in falling order of value: after the first that needs no change, none gains anything.
    for leaf in range(first, end):
        count = _count_needed(forest, tables, domain, leaf, most)
        if count < 0:
            continue
        value = forest.leaf_values[leaf]
        best = max(best, value)
        if count == 0:
            base = value
            break
        tables.kept_leaves[kept], tables.kept_counts[kept] = leaf, count
        kept += 1
    if base == -np.inf:  # a constraint that asks for a change: it adds nothing
        return best, best
    for number in range(kept):
        leaf = tables.kept_leaves[number]
        share = (forest.leaf_values[leaf] - base) / tables.kept_counts[number]
        for place in range(forest.leaf_mask_starts[leaf], forest.leaf_mask_starts[leaf + 1]):
            feature = forest.mask_feature[forest.leaf_masks[place]]
            asked = tables.needs_change[place] and tables.status[feature] == UNDECIDED
            # The largest share in this tree counts: what is larger than before is added.
            if asked and share > tables.tree_shares[feature]:
                tables.shares[feature] += share - tables.tree_shares[feature]
                tables.tree_shares[feature] = share
    for number in range(kept):
        leaf = tables.kept_leaves[number]
        for place in range(forest.leaf_mask_starts[leaf], forest.leaf_mask_starts[leaf + 1]):
            tables.tree_shares[forest.mask_feature[forest.leaf_masks[place]]] = 0.0
    return best, base


@kernel_helper
def _sum_largest(shares: Float64Array, count: int) -> float:
    """The sum of the ``count`` largest shares."""
    largest = np.zeros(count)
    for feature in range(shares.shape[0]):
        if shares[feature] > largest[count - 1]:
            place = count - 1
            while place > 0 and largest[place - 1] < shares[feature]:
                largest[place] = largest[place - 1]
                place -= 1
            largest[place] = shares[feature]
    return largest.sum()


@kernel_helper
def choose_change(
    forest: CompiledForest, tables: ChangeTables, workspace: ForestWorkspace, domain: UInt64Array, most: int
) -> int:
    """The undecided feature whose change may help most, or NOTHING_LEFT if ``most`` changes bring no counterfactual."""
    leaves = workspace.best_leaves[workspace.counters[DEPTH]]
    chosen, least_bound = NOTHING_LEFT, np.inf
    for margin in range(forest.offset.shape[0]):
        tables.shares[:] = 0.0
        bound, base, size, linked = forest.offset[margin], forest.offset[margin], abs(forest.offset[margin]), False
        for group in range(forest.group_margin.shape[0]):
            if forest.group_margin[group] == margin:
                workspace.sums[group] = 0.0
                linked = linked or forest.links[group, 0] != 0.0
        for tree in range(leaves.shape[0]):
            group = forest.tree_group[tree]
            if forest.group_margin[group] != margin:
                continue
            end = forest.leaf_starts[tree + 1]
            best, without = _share_tree(forest, tables, domain, leaves[tree], end, most)
            if best == -np.inf:
                return NOTHING_LEFT
            workspace.sums[group] += best
            base += without
            size += abs(best) + abs(without)
        for group in range(forest.group_margin.shape[0]):
            if forest.group_margin[group] == margin:
                bound += apply_link(forest.links, group, workspace.sums[group], 1.0)
        if not linked:
            # Behind links, shares of the sum before them say nothing of what comes after.
            bound = min(bound, base + _sum_largest(tables.shares, most))
        bound += RELATIVE_ERROR * size
        if bound <= -forest.slack[margin]:
            return NOTHING_LEFT
        if bound < least_bound:
            least_bound, most_share = bound, -1.0
            for feature in range(tables.home.shape[0]):
                if tables.status[feature] == UNDECIDED and tables.shares[feature] > most_share:
                    chosen, most_share = feature, tables.shares[feature]
    return chosen


@kernel_helper
def _sum_costs(forest: CompiledForest, tables: ChangeTables, point: Int64Array) -> float:
    total = 0.0
    for feature in range(point.shape[0]):
        total += tables.cell_costs[forest.cells.cell_starts[feature] + point[feature]]
    return total


@kernel_helper
def _is_forbidden(tables: ChangeTables, point: Int64Array) -> bool:
    """Whether a point changes all features of an earlier counterfactual."""
    for earlier in range(tables.forbidden.shape[0]):
        stays = False
        for feature in range(point.shape[0]):
            stays = stays or (tables.forbidden[earlier, feature] and point[feature] == tables.home[feature])
        if not stays:
            return True
    return False


@kernel_helper
def _pull_back(forest: CompiledForest, tables: ChangeTables, workspace: ForestWorkspace) -> None:
    """Make the workspace's counterfactual cheaper, one feature at a time, as long as it surely is one."""
    point = workspace.point
    for feature in range(point.shape[0]):
        start, best = forest.cells.cell_starts[feature], point[feature]
        for cell in range(forest.cells.cell_starts[feature + 1] - start):
            if tables.cell_costs[start + cell] < tables.cell_costs[start + best]:
                word = forest.cells.word_starts[feature] + (cell >> 6)
                if (tables.start_domain[word] >> np.uint64(cell & 63)) & ONE:
                    point[feature] = cell
                    _, sure = decide_point(forest, point, workspace.sums)
                    if sure:
                        best = cell
        point[feature] = best


@kernel
def accept_point(forest: CompiledForest, tables: ChangeTables, workspace: ForestWorkspace) -> None:
    """Note the workspace's point, a counterfactual below the limit, as the best; the limit becomes what it costs."""
    for feature in range(tables.best.shape[0]):
        tables.best[feature] = workspace.point[feature]
    tables.limit[0] = _sum_costs(forest, tables, workspace.point)


@kernel_helper
def _copy_box(workspace: ForestWorkspace, depth: int) -> None:
    """Put a copy of the box at a depth on top of it."""
    for word in range(workspace.domains.shape[1]):
        workspace.domains[depth + 1, word] = workspace.domains[depth, word]
    for tree in range(workspace.best_leaves.shape[1]):
        workspace.best_leaves[depth + 1, tree] = workspace.best_leaves[depth, tree]


@kernel
def search_changes(
    forest: CompiledForest, tables: ChangeTables, workspace: ForestWorkspace, boxes: int
) -> tuple[int, int]:
    """Go on from the workspace's depth: PROVEN if nothing costs less than the limit, OUT_OF_BUDGET, or UNSURE with a
    point that only the model can decide; and the boxes seen. After UNSURE, calling again means that it was answered.
    """
    depth, resumed, seen = workspace.counters[DEPTH], workspace.counters[RESUMED_MARGIN], 0
    workspace.counters[RESUMED_MARGIN] = -1
    while depth >= 0:
        workspace.counters[DEPTH] = depth
        # The stack is full if the caller sees that depth.
        if seen >= boxes or depth + 1 >= workspace.domains.shape[0]:
            workspace.counters[RESUMED_MARGIN] = resumed
            return OUT_OF_BUDGET, seen
        seen += 1
        domain, leaves = workspace.domains[depth], workspace.best_leaves[depth]
        margin = resumed
        if resumed < 0:
            further = close_cells(forest, tables, domain)
            if further < 0 or not advance_best_leaves(forest, domain, leaves, -1):
                depth -= 1
                continue
            margin = bound_margins(forest, leaves, workspace.sums, workspace.bounds)
            if margin < 0:
                depth -= 1
                continue
            if further > 0:
                feature = choose_change(forest, tables, workspace, domain, further)
                if feature < 0:
                    depth -= 1
                    continue
                # Its change is tried first; that it stays waits below.
                _copy_box(workspace, depth)
                _close_own_cell(forest, tables, workspace.domains[depth + 1], feature)
                _keep_own_cell(forest, tables, domain, feature)
                depth += 1
                continue
        weigh_cells(forest, leaves, margin, abs(workspace.bounds[margin]), workspace)
        feature, cut = choose_split(forest, domain, workspace)
        cheap = _sum_costs(forest, tables, workspace.point) < tables.limit[0]
        if resumed < 0 and cheap and not _is_forbidden(tables, workspace.point):
            possible, sure = decide_point(forest, workspace.point, workspace.sums)
            if sure:
                _pull_back(forest, tables, workspace)
                accept_point(forest, tables, workspace)
                continue  # with the same box, which has become smaller
            if possible and not is_denied(workspace):
                workspace.counters[RESUMED_MARGIN] = margin
                return UNSURE, seen
        resumed = -1
        if feature < 0:
            depth -= 1
            continue
        split_box(forest, workspace, depth, feature, cut)
        workspace.counters[LOG_END] = 0  # no log is kept
        depth += 1
    workspace.counters[DEPTH] = depth
    return PROVEN, seen
