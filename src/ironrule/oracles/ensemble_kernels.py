"""Branch and bound over cells: is there a point of a box where every margin of a forest is positive?

At a box, the best leaf that each tree can reach bounds its part of the sum; if some margin's bound is not positive,
the box holds no counterfactual. Otherwise every best leaf asks something of the features on its path, weighted by
what its tree could lose. The cell per feature that loses least is tried as a counterfactual; failing that, the box is
split where both halves lose most. A child's best leaves are its parent's, or come later in the trees' falling order:
pointers only move forward, and only in trees whose best leaf asks about the split feature.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ironrule.model.forest import Forest
from ironrule.model.forest_kernels import least_margin, linked
from ironrule.oracles.climbing_kernels import Desk
from ironrule.rule.bit_kernels import kernel, part

PROVEN, FOUND, OUT_OF_BUDGET, UNSURE = 0, 1, 2, 3
CLOSED = -1

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint64]
ONE = np.uint64(1)
NONE = np.uint64(0)


@part
def meets(forest: Forest, condition: int, domain: Words) -> bool:
    """Whether a condition leaves something of a domain."""
    feature = forest.condition_feature[condition]
    start = forest.cells.word_starts[feature]
    mask = forest.condition_words[condition]
    for word in range(forest.cells.word_starts[feature + 1] - start):
        if domain[start + word] & forest.masks[mask + word]:
            return True
    return False


@part
def reaches(forest: Forest, leaf: int, domain: Words) -> bool:
    """Whether some point of a domain reaches a leaf."""
    for place in range(forest.condition_starts[leaf], forest.condition_starts[leaf + 1]):
        if not meets(forest, forest.conditions[place], domain):
            return False
    return True


@part
def keeps(forest: Forest, leaf: int, domain: Words, feature: int) -> bool:
    """Whether a leaf that the domain reached is still reached after a change of one feature."""
    for place in range(forest.condition_starts[leaf], forest.condition_starts[leaf + 1]):
        condition = forest.conditions[place]
        if forest.condition_feature[condition] == feature:
            return meets(forest, condition, domain)
    return True


@part
def advance(forest: Forest, domain: Words, leaves: Ints, feature: int) -> bool:
    """Move every tree's pointer to the best leaf that the domain reaches; False if a tree has none left."""
    for tree in range(leaves.shape[0]):
        leaf = leaves[tree]
        if feature >= 0:
            if keeps(forest, leaf, domain, feature):
                continue
            leaf += 1
        end = forest.leaf_starts[tree + 1]
        while leaf < end and not reaches(forest, leaf, domain):
            leaf += 1
        if leaf == end:
            return False
        leaves[tree] = leaf
    return True


@part
def bound(forest: Forest, leaves: Ints, sums: Floats, bounds: Floats) -> int:
    """The margins' upper bounds; the smallest one's margin, or -1 if one of them cannot be positive."""
    for group in range(sums.shape[0]):
        sums[group] = 0.0
    group, total = 0, 0.0
    for tree in range(leaves.shape[0]):
        if forest.group_of[tree] != group:
            sums[group] += total
            group, total = forest.group_of[tree], 0.0
        total += forest.leaf_values[leaves[tree]]
    if leaves.shape[0] > 0:
        sums[group] += total
    for margin in range(bounds.shape[0]):
        bounds[margin] = forest.offset[margin]
    for group in range(sums.shape[0]):
        bounds[forest.margin_of[group]] += linked(forest.links, group, sums[group], 1.0)
    least = 0
    for margin in range(bounds.shape[0]):
        if bounds[margin] <= -forest.slack[margin]:
            return -1
        if bounds[margin] < bounds[least]:
            least = margin
    return least


@part
def weigh(forest: Forest, leaves: Ints, margin: int, cost: float, desk: Desk) -> None:
    """What the best leaves ask, each weighted by what its tree could lose: the weight that begins and ends at every
    cell, and what gaps in between take away. To break a constraint costs all of the bound.
    """
    begins, ends, gaps = desk.begins, desk.ends, desk.gaps
    for cell in range(begins.shape[0]):
        begins[cell] = 0.0
        ends[cell] = 0.0
        gaps[cell] = 0.0
    for tree in range(leaves.shape[0]):
        leaf = leaves[tree]
        weight = cost if forest.guards[tree] else forest.leaf_weights[leaf]
        if weight <= 0.0 or (forest.margin_of[forest.group_of[tree]] != margin and not forest.guards[tree]):
            continue
        for place in range(forest.condition_starts[leaf], forest.condition_starts[leaf + 1]):
            begins[forest.first_cell[place]] += weight
            ends[forest.last_cell[place]] += weight
            if forest.gaps[place]:
                condition = forest.conditions[place]
                start = forest.cells.cell_starts[forest.condition_feature[condition]]
                for run in range(forest.run_starts[condition] + 1, forest.run_starts[condition + 1]):
                    gaps[start + forest.run_last[run - 1] + 1] -= weight
                    gaps[start + forest.run_first[run]] += weight


@part
def choose(forest: Forest, domain: Words, desk: Desk) -> tuple[int, int]:
    """Put the cells of most support into the desk's point; the feature and the last cell of the best split, or -1."""
    best_feature, best_cut, best_score = -1, -1, -1.0
    begins, ends, gaps = desk.begins, desk.ends, desk.gaps
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
            if (domain[words + (cell >> 6)] >> np.uint64(cell & 63)) & ONE:
                if last >= 0:
                    score = min(above, below) + 0.1 * max(above, below)
                    if score > best_score:
                        best_feature, best_cut, best_score = feature, last, score
                if level > most + 1e-12:
                    most = level
                    desk.point[feature] = cell
                last = cell
            above -= begins[start + cell]
            below += ends[start + cell]
            level -= ends[start + cell]
    return best_feature, best_cut


@part
def is_new(desk: Desk) -> bool:
    """Whether the desk's point is another than the one looked at last, which it then becomes."""
    new = False
    for feature in range(desk.point.shape[0]):
        if desk.last[feature] != desk.point[feature]:
            desk.last[feature] = desk.point[feature]
            new = True
    return new


@part
def low_mask(reach: int) -> np.uint64:
    """The bits from 0 to ``reach``."""
    if reach >= 63:
        return ~NONE
    if reach < 0:
        return NONE
    return (ONE << np.uint64(reach + 1)) - ONE


@part
def write(desk: Desk, entry: int) -> None:
    """Put one box into the log."""
    desk.log[desk.state[3]] = entry
    desk.state[3] += 1


@part
def divide(forest: Forest, desk: Desk, depth: int, feature: int, cut: int) -> None:
    """Split the box at a depth in two: the half with the desk's point goes on top."""
    domains = desk.domains
    for word in range(domains.shape[1]):
        domains[depth + 1, word] = domains[depth, word]
    for tree in range(desk.leaves.shape[1]):
        desk.leaves[depth + 1, tree] = desk.leaves[depth, tree]
    start = forest.cells.word_starts[feature]
    for word in range(forest.cells.word_starts[feature + 1] - start):
        low = low_mask(cut - 64 * word)
        whole = domains[depth, start + word]
        near = whole & low if desk.point[feature] <= cut else whole & ~low
        domains[depth + 1, start + word] = near
        domains[depth, start + word] = whole & ~near
    desk.split[depth] = feature
    desk.split[depth + 1] = feature
    write(desk, 2 * (forest.cells.cell_starts[feature] + cut) + (0 if desk.point[feature] <= cut else 1))


@part
def was_denied(desk: Desk) -> bool:
    """Whether the model has denied the desk's point before."""
    for place in range(min(desk.state[2], desk.denied.shape[0])):
        same = True
        for feature in range(desk.point.shape[0]):
            if desk.denied[place, feature] != desk.point[feature]:
                same = False
                break
        if same:
            return True
    return False


@kernel
def deny(desk: Desk) -> None:
    """Remember that the model denies the desk's point; the oldest such point is forgotten when there are too many."""
    place = desk.state[2] % desk.denied.shape[0]
    for feature in range(desk.point.shape[0]):
        desk.denied[place, feature] = desk.point[feature]
    desk.state[2] += 1


@kernel
def search(forest: Forest, desk: Desk, limit: int) -> tuple[int, int]:
    """Go on from the desk's depth: PROVEN, FOUND or UNSURE with the point on the desk, or OUT_OF_BUDGET; and the boxes
    seen.

    After UNSURE, calling again means that the model has denied that point. The log must have room for `limit` boxes.
    """
    depth = desk.state[0]
    resumed = desk.state[1]
    desk.state[1] = -1
    seen = 0
    while depth >= 0:
        desk.state[0] = depth
        if seen >= limit:
            desk.state[1] = resumed
            return OUT_OF_BUDGET, seen
        seen += 1
        domain = desk.domains[depth]
        leaves = desk.leaves[depth]
        margin = resumed
        if resumed < 0:
            margin = -1
            if advance(forest, domain, leaves, desk.split[depth]):
                margin = bound(forest, leaves, desk.sums, desk.bounds)
            if margin < 0:
                write(desk, CLOSED)
                depth -= 1
                continue
        weigh(forest, leaves, margin, abs(desk.bounds[margin]), desk)
        feature, cut = choose(forest, domain, desk)
        if is_new(desk) and resumed < 0:
            possible, sure = least_margin(forest, desk.point, desk.sums)
            if possible and (sure or not was_denied(desk)):
                desk.state[1] = -1 if sure else margin
                return FOUND if sure else UNSURE, seen
        resumed = -1
        if feature < 0:
            write(desk, CLOSED)
            depth -= 1
            continue
        if depth + 1 >= desk.domains.shape[0]:
            return OUT_OF_BUDGET, seen
        divide(forest, desk, depth, feature, cut)
        depth += 1
    desk.state[0] = depth
    return PROVEN, seen


@part
def open_box(forest: Forest, low: Codes, high: Codes, desk: Desk) -> bool:
    """Begin a search at the cells that a box of codes meets."""
    for word in range(desk.domains.shape[1]):
        desk.domains[0, word] = NONE
    for feature in range(low.shape[0]):
        start = forest.cells.word_starts[feature]
        codes = forest.cells.code_starts[feature]
        if low[feature] == 0 and high[feature] == forest.cells.code_starts[feature + 1] - codes - 1:
            cells = forest.cells.cell_starts[feature + 1] - forest.cells.cell_starts[feature]
            for word in range((cells + 63) >> 6):
                desk.domains[0, start + word] = low_mask(cells - 64 * word - 1)
            continue
        for code in range(low[feature], high[feature] + 1):
            cell = forest.cells.cell_of[codes + code]
            desk.domains[0, start + (cell >> 6)] |= ONE << np.uint64(cell & 63)
    for feature in range(low.shape[0]):
        desk.last[feature] = -1
    for tree in range(desk.leaves.shape[1]):
        desk.leaves[0, tree] = forest.leaf_starts[tree]
    desk.split[0] = -1
    desk.state[0] = 0
    desk.state[1] = -1
    desk.state[2] = 0
    desk.state[3] = 0
    return True
