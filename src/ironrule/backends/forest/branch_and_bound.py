"""Branch and bound over cells: is there a point of a box where every margin of a forest is positive?

At a box, the best leaf that each tree can reach bounds its part of the sum; if some margin's bound is not positive,
the box holds no counterfactual. Otherwise every best leaf restricts the features on its path, weighted by what its
tree could lose. The cell per feature that loses least is tried as a counterfactual; failing that, the box is split
where both halves lose most. A child's best leaves are its parent's, or come later in the trees' falling order:
pointers only move forward, and only in trees whose best leaf tests the split feature.

:class:`ParallelSearch` is deterministic: several threads write the proof log that one alone would write. A long search
has boxes waiting in its workspace, the largest at the bottom. Another workspace takes over the lower half, which would
have come after the upper half, so its log comes after that one's too. All go on for the same number of boxes, then the
next round begins: the answer depends on no clock, and not on the number of cores.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ironrule.arrays import Float64Array, Int32Array, Int64Array, UInt64Array
from ironrule.backends.forest.compile import CompiledForest, apply_link, decide_point
from ironrule.backends.forest.workspace import (
    DENIED_COUNT,
    DEPTH,
    LOG_END,
    RESUMED_MARGIN,
    ForestWorkspace,
    allocate_forest_workspace,
)
from ironrule.backends.parallel import run_parallel
from ironrule.jit import ONE, ZERO, kernel, kernel_helper

# How `search_boxes` ends: no counterfactual is left; one was found; the limit was reached; the model must be asked.
PROVEN, FOUND, OUT_OF_BUDGET, UNSURE = 0, 1, 2, 3
# Log entry of a box that needs no further split. Every other entry says how a box was split (see `split_box`).
CLOSED = -1


@kernel_helper
def meets_mask(forest: CompiledForest, mask: int, domain: UInt64Array) -> bool:
    """Whether some open cell of the domain is in the mask."""
    feature = forest.mask_feature[mask]
    start = forest.cells.word_starts[feature]
    first = forest.mask_starts[mask]
    # Only the words of this feature: 64 cells each, in the domain and in the mask alike.
    for word in range(forest.cells.word_starts[feature + 1] - start):
        if domain[start + word] & forest.mask_words[first + word]:
            return True
    return False


@kernel_helper
def reaches_leaf(forest: CompiledForest, leaf: int, domain: UInt64Array) -> bool:
    """Whether some point of a domain reaches a leaf."""
    # A leaf is the product of its masks: every one must meet the domain. Those that are missed most often come first.
    for place in range(forest.leaf_mask_starts[leaf], forest.leaf_mask_starts[leaf + 1]):
        if not meets_mask(forest, forest.leaf_masks[place], domain):
            return False
    return True


@kernel_helper
def still_reaches_leaf(forest: CompiledForest, leaf: int, domain: UInt64Array, feature: int) -> bool:
    """Whether a leaf that the domain reached is still reached after a change of one feature."""
    # Masks of other features met the domain before, and those parts of it have not changed.
    for place in range(forest.leaf_mask_starts[leaf], forest.leaf_mask_starts[leaf + 1]):
        mask = forest.leaf_masks[place]
        if forest.mask_feature[mask] == feature:
            return meets_mask(forest, mask, domain)
    return True


@kernel_helper
def advance_best_leaves(forest: CompiledForest, domain: UInt64Array, leaves: Int64Array, feature: int) -> bool:
    """Move every tree's pointer to the best leaf that the domain reaches; False if a tree has none left."""
    # The leaves of a tree lie in falling order of value. All leaves before the pointer are out of reach for the parent
    # box, hence for this smaller one too: the pointer never moves back.
    for tree in range(leaves.shape[0]):
        leaf = leaves[tree]
        # Below the root only one feature has changed since the pointer was set; -1 means that nothing is known yet.
        if feature >= 0:
            if still_reaches_leaf(forest, leaf, domain, feature):
                continue
            leaf += 1
        end = forest.leaf_starts[tree + 1]
        while leaf < end and not reaches_leaf(forest, leaf, domain):
            leaf += 1
        # The remaining leaves of the tree stand for what cannot occur: the whole box breaks a constraint.
        if leaf == end:
            return False
        leaves[tree] = leaf
    return True


@kernel_helper
def bound_margins(forest: CompiledForest, leaves: Int64Array, sums: Float64Array, bounds: Float64Array) -> int:
    """Fill in the upper bounds of all margins; the margin with the smallest, or -1 if one cannot be positive."""
    # Every tree takes its own best leaf, although no single point may reach all of them: the sum can only be too
    # high. The trees of a group lie together, so one running total per group is enough.
    for group in range(sums.shape[0]):
        sums[group] = 0.0
    group, total = 0, 0.0
    for tree in range(leaves.shape[0]):
        if forest.tree_group[tree] != group:
            sums[group] += total
            group, total = forest.tree_group[tree], 0.0
        total += forest.leaf_values[leaves[tree]]
    if leaves.shape[0] > 0:
        sums[group] += total
    # Links never fall, so an upper bound of the sum gives one behind the link; a lean of 1 rounds it upwards.
    for margin in range(bounds.shape[0]):
        bounds[margin] = forest.offset[margin]
    for group in range(sums.shape[0]):
        bounds[forest.group_margin[group]] += apply_link(forest.links, group, sums[group], 1.0)
    least = 0
    # Only a bound at or below minus the slack proves that the model itself, with its own rounding, is not positive.
    for margin in range(bounds.shape[0]):
        if bounds[margin] <= -forest.slack[margin]:
            return -1
        if bounds[margin] < bounds[least]:
            least = margin
    return least


@kernel_helper
def weigh_cells(
    forest: CompiledForest, leaves: Int64Array, margin: int, cost: float, workspace: ForestWorkspace
) -> None:
    """Fill ``begins``, ``ends`` and ``gaps``: per cell, the weight of the best leaves' masks that begin or end there,
    and what their gaps take away. A leaf weighs what its tree could lose; breaking a constraint costs
    all of the bound.
    """
    begins, ends, gaps = workspace.begins, workspace.ends, workspace.gaps
    for cell in range(begins.shape[0]):
        begins[cell] = 0.0
        ends[cell] = 0.0
        gaps[cell] = 0.0
    # For every mask of a best leaf, its weight is added where the mask begins and where it ends (a difference array):
    # `choose_split` gets the weight of every cell from that in one pass.
    for tree in range(leaves.shape[0]):
        leaf = leaves[tree]
        # To leave this leaf costs the tree at most this much. Other margins than the smallest one do not count here.
        weight = cost if forest.is_constraint[tree] else forest.leaf_weights[leaf]
        if weight <= 0.0 or (forest.group_margin[forest.tree_group[tree]] != margin and not forest.is_constraint[tree]):
            continue
        for place in range(forest.leaf_mask_starts[leaf], forest.leaf_mask_starts[leaf + 1]):
            begins[forest.first_cell[place]] += weight
            ends[forest.last_cell[place]] += weight
            if forest.has_holes[place]:
                mask = forest.leaf_masks[place]
                start = forest.cells.cell_starts[forest.mask_feature[mask]]
                # Between two runs of a mask the weight is taken away, and it is given back where the next run begins.
                for run in range(forest.run_starts[mask] + 1, forest.run_starts[mask + 1]):
                    gaps[start + forest.run_last[run - 1] + 1] -= weight
                    gaps[start + forest.run_first[run]] += weight


@kernel_helper
def choose_split(forest: CompiledForest, domain: UInt64Array, workspace: ForestWorkspace) -> tuple[int, int]:
    """Set the workspace's point to the cell of most weight per feature; the feature of the best split and the last
    cell below it, or -1 twice if no feature has two open cells.
    """
    best_feature, best_cut, best_score = -1, -1, -1.0
    begins, ends, gaps = workspace.begins, workspace.ends, workspace.gaps
    # One pass over the cells of each feature. It keeps, for the place just before the current cell:
    # `above`, the weight of masks that begin here or later: what the lower half of a cut here would lose;
    # `below`, the weight of masks that ended before: what the upper half would lose;
    # `level`, the weight of the masks that admit the cell.
    # All of this only guides the search; any split and any point are correct.
    for feature in range(forest.cells.cell_starts.shape[0] - 1):
        start = forest.cells.cell_starts[feature]
        count = forest.cells.cell_starts[feature + 1] - start
        words = forest.cells.word_starts[feature]
        above = 0.0
        for cell in range(start, start + count):
            above += begins[cell]
        below, level, most, last = 0.0, 0.0, -1.0, -1
        for cell in range(count):
            level += begins[start + cell] + gaps[start + cell]
            # Closed cells move the sums along, but can be neither a cut nor part of the point.
            if (domain[words + (cell >> 6)] >> np.uint64(cell & 63)) & ONE:
                # A cut lies between two open cells. Good cuts make both halves lose much, which closes both soon.
                if last >= 0:
                    score = min(above, below) + 0.1 * max(above, below)
                    if score > best_score:
                        best_feature, best_cut, best_score = feature, last, score
                # The smallest difference that counts: near ties go to the first cell, whatever the rounding.
                if level > most + 1e-12:
                    most = level
                    workspace.point[feature] = cell
                last = cell
            above -= begins[start + cell]
            below += ends[start + cell]
            level -= ends[start + cell]
    return best_feature, best_cut


@kernel_helper
def is_new_point(workspace: ForestWorkspace) -> bool:
    """Whether the workspace's point differs from the one tried last; it is noted as the one tried last."""
    new = False
    # No early end: all features are copied in the same pass.
    for feature in range(workspace.point.shape[0]):
        if workspace.last_point[feature] != workspace.point[feature]:
            workspace.last_point[feature] = workspace.point[feature]
            new = True
    return new


@kernel_helper
def build_low_mask(reach: int) -> np.uint64:
    """The bits from 0 to ``reach``."""
    if reach >= 63:
        return ~ZERO
    if reach < 0:
        return ZERO
    return (ONE << np.uint64(reach + 1)) - ONE


@kernel_helper
def append_to_log(workspace: ForestWorkspace, entry: int) -> None:
    """Put one box into the log."""
    workspace.log[workspace.counters[LOG_END]] = entry
    workspace.counters[LOG_END] += 1


@kernel_helper
def split_box(forest: CompiledForest, workspace: ForestWorkspace, depth: int, feature: int, cut: int) -> None:
    """Split the box at a depth in two: the half with the workspace's point goes on top."""
    domains = workspace.domains
    # The copy on top becomes the half with the point, which is searched first (depth first, the promising half
    # first). The other half stays at this depth and waits.
    for word in range(domains.shape[1]):
        domains[depth + 1, word] = domains[depth, word]
    for tree in range(workspace.best_leaves.shape[1]):
        workspace.best_leaves[depth + 1, tree] = workspace.best_leaves[depth, tree]
    start, lower_first = forest.cells.word_starts[feature], workspace.point[feature] <= cut
    # Word by word: `low` has the cells up to the cut, `near` is what the half on top gets of this word.
    for word in range(forest.cells.word_starts[feature + 1] - start):
        low = build_low_mask(cut - 64 * word)
        whole = domains[depth, start + word]
        near = whole & low if lower_first else whole & ~low
        domains[depth + 1, start + word] = near
        domains[depth, start + word] = whole & ~near
    # Both halves differ from their parent in this feature alone, which is what `advance_best_leaves` needs to know.
    workspace.split_feature[depth] = feature
    workspace.split_feature[depth + 1] = feature
    # The entry is twice the number of the cut cell among all cells, plus 1 if the upper half comes first.
    append_to_log(workspace, 2 * (forest.cells.cell_starts[feature] + cut) + (0 if lower_first else 1))


@kernel_helper
def is_denied(workspace: ForestWorkspace) -> bool:
    """Whether the model has denied the workspace's point before."""
    # The memory is a ring: all denied points are counted, and only as many as there is room for are kept.
    for place in range(min(workspace.counters[DENIED_COUNT], workspace.denied_points.shape[0])):
        same = True
        for feature in range(workspace.point.shape[0]):
            if workspace.denied_points[place, feature] != workspace.point[feature]:
                same = False
                break
        if same:
            return True
    return False


@kernel
def record_denied(workspace: ForestWorkspace) -> None:
    """Note that the model denies the workspace's point; the oldest such point is forgotten when there are too many."""
    place = workspace.counters[DENIED_COUNT] % workspace.denied_points.shape[0]
    for feature in range(workspace.point.shape[0]):
        workspace.denied_points[place, feature] = workspace.point[feature]
    workspace.counters[DENIED_COUNT] += 1


@kernel
def search_boxes(forest: CompiledForest, workspace: ForestWorkspace, limit: int) -> tuple[int, int]:
    """Go on from the workspace's depth: PROVEN, FOUND or UNSURE with its point, or OUT_OF_BUDGET; and the boxes seen.

    After UNSURE, calling again means that the model has denied that point. The log must have room for `limit` boxes.
    """
    depth = workspace.counters[DEPTH]
    resumed = workspace.counters[RESUMED_MARGIN]
    workspace.counters[RESUMED_MARGIN] = -1
    seen = 0
    # Depth-first branch and bound. The boxes from depth 0 to `depth` are disjoint; they and the boxes closed so far
    # cover the box of the query. When none is left, the log is a proof.
    while depth >= 0:
        workspace.counters[DEPTH] = depth
        if seen >= limit:
            workspace.counters[RESUMED_MARGIN] = resumed
            return OUT_OF_BUDGET, seen
        seen += 1
        domain = workspace.domains[depth]
        leaves = workspace.best_leaves[depth]
        # After UNSURE the box on top was bounded already, and its point was answered: only the split is missing.
        margin = resumed
        if resumed < 0:
            # Bound: the box is closed if a tree has no leaf left, or if some margin cannot be positive anywhere in it.
            margin = -1
            if advance_best_leaves(forest, domain, leaves, workspace.split_feature[depth]):
                margin = bound_margins(forest, leaves, workspace.sums, workspace.bounds)
            if margin < 0:
                append_to_log(workspace, CLOSED)
                depth -= 1
                continue
        # Try the point of most support. A parent and its child often have the same one: it is tried once.
        weigh_cells(forest, leaves, margin, abs(workspace.bounds[margin]), workspace)
        feature, cut = choose_split(forest, domain, workspace)
        if is_new_point(workspace) and resumed < 0:
            possible, sure = decide_point(forest, workspace.point, workspace.sums)
            if possible and (sure or not is_denied(workspace)):
                # A sure point ends the search; for any other the caller asks the model, and may then call again.
                workspace.counters[RESUMED_MARGIN] = -1 if sure else margin
                return FOUND if sure else UNSURE, seen
        resumed = -1
        # Every feature has one open cell: the box is a single point (in cells), which is no counterfactual.
        if feature < 0:
            append_to_log(workspace, CLOSED)
            depth -= 1
            continue
        # The stack is full. The caller sees that by the depth, and gives up.
        if depth + 1 >= workspace.domains.shape[0]:
            return OUT_OF_BUDGET, seen
        split_box(forest, workspace, depth, feature, cut)
        depth += 1
    workspace.counters[DEPTH] = depth
    return PROVEN, seen


@kernel_helper
def start_search(forest: CompiledForest, low: Int32Array, high: Int32Array, workspace: ForestWorkspace) -> bool:
    """Begin a search at the cells that a box of codes meets."""
    # Translate the box from codes to cells: a cell is open if one of its codes lies in the box.
    for word in range(workspace.domains.shape[1]):
        workspace.domains[0, word] = ZERO
    for feature in range(low.shape[0]):
        start = forest.cells.word_starts[feature]
        codes = forest.cells.code_starts[feature]
        # Most features are not restricted: all cells are open, and no code needs to be looked up.
        if low[feature] == 0 and high[feature] == forest.cells.code_starts[feature + 1] - codes - 1:
            cells = forest.cells.cell_starts[feature + 1] - forest.cells.cell_starts[feature]
            for word in range((cells + 63) >> 6):
                workspace.domains[0, start + word] = build_low_mask(cells - 64 * word - 1)
            continue
        for code in range(low[feature], high[feature] + 1):
            cell = forest.cells.cell_by_code[codes + code]
            workspace.domains[0, start + (cell >> 6)] |= ONE << np.uint64(cell & 63)
    # No point was tried yet, and every tree points to its first, that is its best, leaf.
    for feature in range(low.shape[0]):
        workspace.last_point[feature] = -1
    for tree in range(workspace.best_leaves.shape[1]):
        workspace.best_leaves[0, tree] = forest.leaf_starts[tree]
    workspace.split_feature[0] = -1
    workspace.counters[DEPTH] = 0
    workspace.counters[RESUMED_MARGIN] = -1
    workspace.counters[DENIED_COUNT] = 0
    workspace.counters[LOG_END] = 0
    return True


@dataclass(slots=True, eq=False)
class ParallelSearch:
    """Workspaces that share one search, in the order of its log; the active ones are not at an end."""

    forest: CompiledForest
    workspaces: list[ForestWorkspace]
    active: list[int] = field(default_factory=lambda: [0])  # places of workspaces

    def run_round(self, shares: int, boxes: int) -> list[tuple[int, int, int]]:
        """Let up to so many workspaces look at so many boxes each; place, status and boxes seen of every one."""
        self._share_boxes(shares)
        for place in self.active:
            self.workspaces[place] = ensure_log_space(self.workspaces[place], boxes)
        jobs = [partial(search_boxes, self.forest, self.workspaces[place], boxes) for place in self.active]
        answers = run_parallel(jobs)
        outcomes = [(place, *answer) for place, answer in zip(self.active, answers, strict=True)]
        self.active = [place for place, status, _ in outcomes if status != PROVEN]
        return outcomes

    @property
    def log(self) -> Int64Array:
        """What all of them have written, in order."""
        return np.concatenate([workspace.log[: workspace.counters[LOG_END]] for workspace in self.workspaces])

    def _share_boxes(self, shares: int) -> None:
        """Share out waiting boxes until so many workspaces are active, as far as there are any."""
        # Halve the workspace with the most waiting boxes, again and again. Its new partner stands right behind it,
        # because its boxes come later in the log of a single search.
        while len(self.active) < shares:
            richest = max(self.active, key=lambda place: int(self.workspaces[place].counters[DEPTH]))
            if self.workspaces[richest].counters[DEPTH] < 1:
                return
            self.workspaces.insert(richest + 1, take_lower_half(self.forest, self.workspaces[richest]))
            # Places behind the new workspace move by one.
            moved = [place + (place > richest) for place in self.active]
            self.active = sorted([*moved, richest + 1])


def take_lower_half(forest: CompiledForest, workspace: ForestWorkspace) -> ForestWorkspace:
    """A new workspace with the lower half of the boxes that wait; the other keeps the upper half."""
    # Boxes wait at the depths 0 to counters[DEPTH]. The lower ones are the largest and the last in the order of search.
    waiting = int(workspace.counters[DEPTH]) + 1
    lower = waiting // 2
    other = allocate_forest_workspace(forest)
    for name in ("domains", "best_leaves", "split_feature"):
        old, new = getattr(workspace, name), getattr(other, name)
        new[:lower] = old[:lower]
        old[: waiting - lower] = old[lower:waiting].copy()
    other.last_point[:] = -1
    # The new one begins with its own depth, no open question, the same denied points, and an empty log.
    other.counters[:] = (lower - 1, -1, workspace.counters[DENIED_COUNT], 0)
    other.denied_points[:] = workspace.denied_points
    workspace.counters[DEPTH] = waiting - lower - 1
    return other


def ensure_log_space(workspace: ForestWorkspace, boxes: int) -> ForestWorkspace:
    """The workspace, with room in its log for so many boxes more."""
    used = int(workspace.counters[LOG_END])
    if len(workspace.log) >= used + boxes:
        return workspace
    return workspace._replace(log=np.concatenate([workspace.log, np.empty(used + boxes, dtype=np.int64)]))
