"""Branch and bound for the cheapest change: which features must change, and to what?

What a box is, and what its features cost at least, is said in :mod:`~ironrule.backends.forest.change_tables`. With the
cost limit it says how many undecided features may still change, and what they may cost together.

1. **Close** what is too expensive: cells that cost more than is left; if no further change is affordable, all undecided
   features stay. Sets of features that must not all change (those of earlier counterfactuals) close cells too.
2. **Bound** every margin. A leaf asks some undecided features to leave their own cells. Leaves that ask for more, or
   for dearer, changes than may come are out of reach. What a tree gains over its best leaf that asks for none is shared
   among the features that the leaf asks for; so a tree gains no more than the shares of the features that do change,
   and the whole sum no more than its value without a further change plus the largest shares of all trees, summed by
   feature. A share counts only where its feature spends what the leaf costs. Which features change, and what each
   spends, is a small knapsack: for any price of cost,

       price * what is left + the sum, over as many features as may change, of the largest (gain - price * cost)

   is no less than what they gain (Lagrangian relaxation; Kellerer, Pferschy, Pisinger, "Knapsack Problems", 2004).
3. **Split**: the undecided feature with the largest share gets its costly cells, or else its cheap ones and its own.
   Under the usual costs all changes of a feature cost about the same, so it changes or stays. If no feature is
   undecided, the box is split in two as in :mod:`~ironrule.backends.forest.branch_and_bound`, and the point with the
   largest sum is tried.

Where the largest cost counts instead of the sum, the limit only closes cells: no feature's change makes another's
dearer. So boxes are only split as in the last step.

Each counterfactual that is found is pulled back towards the instance and lowers the limit. When no box is left, nothing
costs less than the limit.
"""

from __future__ import annotations

import numpy as np

from ironrule.arrays import Float64Array, UInt64Array
from ironrule.backends.forest.ascent import compute_least_margin, move_point, profile_feature, trace_trees
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
from ironrule.backends.forest.change_tables import (
    CHANGES,
    NOTHING_LEFT,
    UNDECIDED,
    ChangeTables,
    close_cells,
    close_cheap_cells,
    close_costly_cells,
    is_cheap,
    is_open,
    keep_own_cell,
    measure_cells,
)
from ironrule.backends.forest.compile import CompiledForest, apply_link, decide_point
from ironrule.backends.forest.workspace import DEPTH, LOG_END, RESUMED_MARGIN, ForestWorkspace
from ironrule.jit import kernel, kernel_helper

RELATIVE_ERROR = 1e-12  # of the sizes that are added up in a bound: far more than their rounding
PRICES = 8  # tried for one bound, each twice the one before


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
def _share_tree(
    forest: CompiledForest,
    tables: ChangeTables,
    domain: UInt64Array,
    first: int,
    end: int,
    most: int,
    left: float,
) -> tuple[float, float]:
    """The value of a tree's best leaf that ``most`` changes reach, and of the best one without any; its gain is shared
    among features. Minus infinity if no leaf is in reach.
    """
    kept, best, base, levels = 0, -np.inf, -np.inf, tables.shares.shape[1]
    # Leaves lie in falling order of value: after the first that needs no change, none gains anything.
    for leaf in range(first, end):
        # How many undecided features the leaf asks to change, and what that costs, as long as it is in reach.
        count, cost, reached = 0, 0.0, True
        for place in range(forest.leaf_mask_starts[leaf], forest.leaf_mask_starts[leaf + 1]):
            mask = forest.leaf_masks[place]
            feature = forest.mask_feature[mask]
            if tables.status[feature] == CHANGES:
                if levels > 1:
                    cost += max(0.0, tables.mask_costs[place] - tables.least[feature])
                reached = cost < left and meets_mask(forest, mask, domain)
            elif tables.needs_change[place]:
                count += 1
                if levels > 1:
                    cost += max(tables.mask_costs[place], tables.change[feature])
                affordable = tables.status[feature] == UNDECIDED and count <= most and cost < left
                reached = affordable and meets_mask(forest, mask, domain)
            if not reached:
                break
        if not reached:
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
    # Of each feature's shares in this tree the largest counts, among those that cost no more: what is larger than
    # before is added, for all levels from its own on.
    for number in range(kept):
        leaf = tables.kept_leaves[number]
        share = (forest.leaf_values[leaf] - base) / tables.kept_counts[number]
        for place in range(forest.leaf_mask_starts[leaf], forest.leaf_mask_starts[leaf + 1]):
            feature = forest.mask_feature[forest.leaf_masks[place]]
            if not tables.needs_change[place] or tables.status[feature] != UNDECIDED:
                continue
            level = min(levels - 1, int(tables.mask_costs[place] / left * levels)) if levels > 1 else 0
            while level < levels and share > tables.tree_shares[feature, level]:
                tables.shares[feature, level] += share - tables.tree_shares[feature, level]
                tables.tree_shares[feature, level] = share
                level += 1
    for number in range(kept):
        leaf = tables.kept_leaves[number]
        for place in range(forest.leaf_mask_starts[leaf], forest.leaf_mask_starts[leaf + 1]):
            for level in range(levels):
                tables.tree_shares[forest.mask_feature[forest.leaf_masks[place]], level] = 0.0
    return best, base


@kernel_helper
def _sum_largest(worth: Float64Array, count: int) -> float:
    """The sum of the ``count`` largest."""
    largest = np.zeros(count)
    for feature in range(worth.shape[0]):
        if worth[feature] > largest[count - 1]:
            place = count - 1
            while place > 0 and largest[place - 1] < worth[feature]:
                largest[place] = largest[place - 1]
                place -= 1
            largest[place] = worth[feature]
    return float(largest.sum())


@kernel_helper
def _bound_gain(tables: ChangeTables, most: int, left: float) -> float:
    """What so many changes that together cost less than ``left`` gain at most, by the shares."""
    total, levels = 0.0, tables.shares.shape[1]
    for feature in range(tables.status.shape[0]):
        tables.worth[feature] = tables.shares[feature, levels - 1] if tables.status[feature] == UNDECIDED else 0.0
        total += tables.worth[feature]
    bound = _sum_largest(tables.worth, most)
    if levels == 1:  # changes cost about the same: their number is what counts
        return bound
    # Any price gives a bound. As a function of the price it is convex: once it rises, no higher price helps.
    price = total / left / 16.0
    for _ in range(PRICES):
        for feature in range(tables.status.shape[0]):
            tables.worth[feature] = 0.0
            if tables.status[feature] == UNDECIDED:
                for level in range(levels):
                    cost = max(tables.change[feature], level * left / levels)
                    worth = tables.shares[feature, level] - price * cost
                    tables.worth[feature] = max(tables.worth[feature], worth)
        priced = price * left + _sum_largest(tables.worth, most)
        if priced > bound:
            break
        bound = priced
        price *= 2.0
    return bound


@kernel_helper
def choose_change(
    forest: CompiledForest,
    tables: ChangeTables,
    workspace: ForestWorkspace,
    domain: UInt64Array,
    most: int,
    left: float,
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
            best, without = _share_tree(forest, tables, domain, leaves[tree], end, most, left)
            if best == -np.inf:
                return NOTHING_LEFT
            workspace.sums[group] += best
            base += without
            size += abs(best) + abs(without)
        for group in range(forest.group_margin.shape[0]):
            if forest.group_margin[group] == margin:
                bound += apply_link(forest.links, group, workspace.sums[group], 1.0)
        if not linked and bound > -forest.slack[margin]:
            # Behind links, shares of the sum before them say nothing of what comes after.
            bound = min(bound, base + _bound_gain(tables, most, left))
        bound += RELATIVE_ERROR * size
        if bound <= -forest.slack[margin]:
            return NOTHING_LEFT
        if bound < least_bound:
            least_bound, most_share = bound, -1.0
            for feature in range(tables.home.shape[0]):
                if tables.status[feature] == UNDECIDED and tables.shares[feature, -1] > most_share:
                    chosen, most_share = feature, tables.shares[feature, -1]
    return chosen


@kernel_helper
def _split_by_cost(
    forest: CompiledForest, tables: ChangeTables, workspace: ForestWorkspace, depth: int, feature: int
) -> None:
    """Split the box at a depth by what an undecided feature costs: its dearer changes come on top, the others and its
    own cell wait below.
    """
    domain, start = workspace.domains[depth], forest.cells.cell_starts[feature]
    # The dearest open cell; what costs at least half as much goes on top.
    dearest = 0.0
    for number in range(forest.cells.cell_starts[feature + 1] - 1, start - 1, -1):
        cell = tables.cheapest_cells[number]
        if is_open(forest, domain, feature, cell):
            dearest = tables.cell_costs[start + cell]
            break
    _copy_box(workspace, depth)
    close_cheap_cells(forest, tables, workspace.domains[depth + 1], feature, dearest / 2.0)
    if dearest > 0.0:
        close_costly_cells(forest, tables, domain, feature, dearest / 2.0)
    else:  # all changes are free: the feature changes or stays
        keep_own_cell(forest, tables, domain, feature)


@kernel_helper
def _copy_box(workspace: ForestWorkspace, depth: int) -> None:
    """Put a copy of the box at a depth on top of it."""
    for word in range(workspace.domains.shape[1]):
        workspace.domains[depth + 1, word] = workspace.domains[depth, word]
    for tree in range(workspace.best_leaves.shape[1]):
        workspace.best_leaves[depth + 1, tree] = workspace.best_leaves[depth, tree]


@kernel_helper
def pull_towards_instance(forest: CompiledForest, tables: ChangeTables, workspace: ForestWorkspace) -> None:
    """Make the workspace's counterfactual cheaper, one feature at a time, as long as it surely is one."""
    trace_trees(forest, workspace)
    for feature in range(workspace.point.shape[0]):
        start, before = forest.cells.cell_starts[feature], workspace.point[feature]
        if before == tables.cheapest_cells[start]:
            continue
        profile_feature(forest, workspace, tables.start_domain, feature)
        # From the cheapest on, up to the cell as it is.
        for number in range(start, forest.cells.cell_starts[feature + 1]):
            cell = tables.cheapest_cells[number]
            if cell == before:
                break
            allowed = is_open(forest, tables.start_domain, feature, cell)
            if allowed and compute_least_margin(forest, workspace, cell) > 0.0:
                move_point(forest, workspace, feature, cell)
                break


@kernel
def accept_point(forest: CompiledForest, tables: ChangeTables, workspace: ForestWorkspace) -> None:
    """Note the workspace's point, a counterfactual below the limit, as the best; the limit becomes what it costs."""
    for feature in range(tables.best.shape[0]):
        tables.best[feature] = workspace.point[feature]
    tables.limit[0] = measure_cells(forest, tables, workspace.point)


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
            further, left, _ = close_cells(forest, tables, domain)
            if further < 0 or not advance_best_leaves(forest, domain, leaves, -1):
                depth -= 1
                continue
            margin = bound_margins(forest, leaves, workspace.sums, workspace.bounds)
            if margin < 0:
                depth -= 1
                continue
            if further > 0 and tables.adds_up:
                feature = choose_change(forest, tables, workspace, domain, further, left)
                if feature < 0:
                    depth -= 1
                    continue
                _split_by_cost(forest, tables, workspace, depth, feature)
                depth += 1
                continue
        weigh_cells(forest, leaves, margin, abs(workspace.bounds[margin]), workspace)
        feature, cut = choose_split(forest, domain, workspace)
        if resumed < 0 and is_cheap(forest, tables, workspace.point):
            possible, sure = decide_point(forest, workspace.point, workspace.sums)
            if sure:
                pull_towards_instance(forest, tables, workspace)
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
