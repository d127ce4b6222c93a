"""Compile sums of trees for search, and evaluate the result at single points.

**Compiled forest.** Cells instead of codes, leaves as boxes, everything in flat arrays. A set of cells
(:mod:`ironrule.model.normal_form.cells`) is a bit mask of 64-bit words. A leaf is a box: for some features the mask
of the cells that lead to it (equal masks are stored once). The leaves of a tree lie in falling order of value, so the
best leaf that a box can reach is the first that it meets.

**Terms as trees.** What the columns of a feature add together is one balanced tree over its codes.

**Constraints as trees.** What cannot occur has the value minus infinity. Added to a sum that must be positive, such a
tree guards it: where a point breaks a constraint the sum is minus infinity, elsewhere it is as it was. So search and
proof need to know nothing about constraints. Features that constraints tie together are looked at as one table over
all their combinations, cut along one feature after the other, equal slices together.

**Slack.** How far a margin may be off: by the model's own arithmetic, as its normal form says, and by ours
(:mod:`ironrule.model.normal_form.rounding`). Behind a link the sum is taken that much higher (for what may be) or lower
(for what surely is), since links rise.

**Single points.** The margins of a compiled forest at a point, and whether they settle the decision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from ironrule.arrays import AnyArray, BoolArray, Float64Array, Int64Array, IntpArray, Points, UInt64Array
from ironrule.backends.forest.leaf_boxes import (
    FlatNodes,
    MaskPool,
    build_leaf_boxes,
    build_mask_pool,
    concatenate_masks,
    find_runs,
)
from ironrule.jit import ONE, kernel, kernel_helper
from ironrule.model.model_input import TabulatedColumns
from ironrule.model.normal_form.cells import Cells, DistinctSplits, build_cell_masks, build_cells, compute_starts
from ironrule.model.normal_form.rounding import ROUNDING, bound_sum_error, compute_slack
from ironrule.model.normal_form.splits import CodeRangeSplit, build_class_tree
from ironrule.model.normal_form.tree_sum import LinkedGroup, Margin, Term, Tree, TreeSplit, TreeSum
from ironrule.model.protocol import Unreadable
from ironrule.space.constraints.feasible import FeasibleRegion
from ironrule.space.space import Space


def convert_terms_to_trees(margin: Margin, columns: TabulatedColumns) -> Margin:
    """The margin with all terms of a feature as one tree, and its whole error as one number."""
    sizes, groups, seen = [abs(margin.offset)], [], columns.values
    sizes += [float(np.abs(tree.value).max(initial=0.0)) for group in margin.groups for tree in group.trees]
    # Terms stay in their group, because the link applies to their sum together with the trees.
    for group in margin.groups:
        parts = [(term, np.asarray(term.contribution(seen[term.column]), dtype=np.float64)) for term in group.terms]
        own = [float(np.abs(part).max(initial=0.0)) for _, part in parts]
        merged = _merge_terms(parts, columns)
        # Adding terms into one leaf value rounds as well; one term per feature is copied exactly.
        lost = len(parts) * ROUNDING * sum(own) if len(merged) < len(parts) else 0.0
        groups.append(LinkedGroup((*group.trees, *merged), group.link, rounding_error=lost))
        sizes += own
    return Margin(margin.offset, tuple(groups), margin.error + margin.relative_error * sum(sizes))


def _merge_terms(parts: list[tuple[Term, Float64Array]], columns: TabulatedColumns) -> list[Tree]:
    """For every feature one tree with what its columns add together."""
    of_feature: dict[int, list[tuple[Term, Float64Array]]] = {}
    for term, part in parts:
        of_feature.setdefault(int(columns.features[term.column]), []).append((term, part))
    return [_build_term_tree(some, columns) for some in of_feature.values()]


def _build_term_tree(parts: list[tuple[Term, Float64Array]], columns: TabulatedColumns) -> Tree:
    """What a feature's columns add, as a balanced tree; codes that the model sees alike share a leaf, no others do."""
    alike = [np.unique(columns.values[term.column], return_inverse=True)[1].ravel() for term, _ in parts]
    _, first, inverse = np.unique(np.stack(alike, axis=1), axis=0, return_index=True, return_inverse=True)
    total = np.sum([part for _, part in parts], axis=0)
    return build_class_tree(int(columns.features[parts[0][0].column]), total[first], inverse.ravel())


MAX_COMBINATIONS = 20_000_000
MAX_CONSTRAINT_NODES = 20_000
CHUNK_POINTS = 1 << 18


def _build_constraint_tree(feasible: FeasibleRegion, columns: tuple[int, ...]) -> Tree:
    """The tree of features that constraints tie together; raises Unreadable if it is too large."""
    shape = tuple(feasible.sizes[j] for j in columns)
    if math.prod(shape) > MAX_COMBINATIONS:
        raise Unreadable(
            f"the constraints tie {len(columns)} features together with {math.prod(shape):,} combinations, and up to "
            f"{MAX_COMBINATIONS:,} are read"
        )
    # The feature with the fewest codes is asked first, which keeps the upper part of the tree small.
    order = sorted(range(len(columns)), key=lambda place: shape[place])
    admitted = _tabulate_feasible(feasible, columns, shape).transpose(order)
    return _ConstraintTreeBuilder(feasible.sizes, [columns[place] for place in order]).build(admitted)


def _tabulate_feasible(feasible: FeasibleRegion, columns: tuple[int, ...], shape: tuple[int, ...]) -> BoolArray:
    """Which combinations satisfy the constraints that speak of these features."""
    concerned = [predicate for predicate in feasible.predicates if set(predicate.columns) & set(columns)]
    admitted = np.ones(math.prod(shape), dtype=np.bool_)
    # In portions, because the points of a whole table can be too many for memory.
    for start in range(0, len(admitted), CHUNK_POINTS):
        here = np.arange(start, min(start + CHUNK_POINTS, len(admitted)))
        points = np.zeros((len(here), len(feasible.sizes)), dtype=np.int32)
        points[:, columns] = np.stack(np.unravel_index(here, shape), axis=1)
        for predicate in concerned:
            admitted[here] &= predicate(points, feasible.instance)
    return admitted.reshape(shape)


@dataclass(slots=True)
class _ConstraintTreeBuilder:
    """Builds the tree of a table of what can occur; every node comes before its children."""

    sizes: Sequence[int]
    columns: list[int]
    splits: list[TreeSplit | None] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)

    def build(self, admitted: BoolArray) -> Tree:
        self._add_table(admitted, 0)
        left, right = (np.array(children, dtype=np.int32) for children in (self.left, self.right))
        return Tree(tuple(self.splits), left, right, np.array(self.value))

    def _add_table(self, admitted: BoolArray, depth: int) -> int:
        """The tree of a table over the features from a depth on; the place of its root."""
        if admitted.all() or not admitted.any():
            return self._add_node(None, 0.0 if admitted.all() else -np.inf)
        # Codes with equal slices behave alike, so they share one subtree.
        slices, places = np.unique(admitted.reshape(len(admitted), -1), axis=0, return_inverse=True)
        if len(self.splits) > MAX_CONSTRAINT_NODES:
            raise Unreadable("the constraints on the space are too intricate to read")
        return self._add_slices(slices, places.ravel(), 0, len(slices), shape=admitted.shape[1:], depth=depth)

    def _add_slices(
        self, slices: BoolArray, places: IntpArray, start: int, end: int, shape: tuple[int, ...], depth: int
    ) -> int:
        """A balanced tree over slices, each with the tree of what it holds."""
        if end - start == 1:
            return self._add_table(slices[start].reshape(shape), depth + 1)
        # Halve the distinct slices: the split sends all codes left whose slice is in the first half.
        middle = (start + end) // 2
        node = self._add_node(CodeRangeSplit(self.columns[depth], places, start, middle), 0.0)
        self.left[node] = self._add_slices(slices, places, start, middle, shape=shape, depth=depth)
        self.right[node] = self._add_slices(slices, places, middle, end, shape=shape, depth=depth)
        return node

    def _add_node(self, split: TreeSplit | None, value: float) -> int:
        self.splits.append(split)
        self.left.append(-1)
        self.right.append(-1)
        self.value.append(value)
        return len(self.splits) - 1


LINK_CODES = {"identity": 0, "logistic": 1, "step": 2}


class CompiledForest(NamedTuple):
    """One alternative of a sum of trees: all margins must be positive."""

    cells: Cells
    leaf_starts: Int64Array  # per tree
    leaf_values: Float64Array  # falling within a tree
    leaf_weights: Float64Array  # how much more than the tree's least
    leaf_mask_starts: Int64Array  # per leaf, its masks in `leaf_masks`
    leaf_masks: Int64Array
    first_cell: Int64Array  # per mask of a leaf, the first and the last cell that it admits, among all cells,
    last_cell: Int64Array
    has_holes: Int64Array  # and whether it leaves out some in between
    mask_feature: Int64Array
    mask_starts: Int64Array  # where a mask begins in `mask_words`
    run_starts: Int64Array  # per mask, its runs of neighbouring cells
    run_first: Int64Array
    run_last: Int64Array
    mask_words: UInt64Array
    tree_group: Int64Array  # per tree
    is_constraint: Int64Array  # per tree, whether it says what can occur at all, and adds nothing
    group_margin: Int64Array  # per group
    links: Float64Array  # per group: its link's kind, scale, slope, shift, and how far the sum before it may be off
    offset: Float64Array  # per margin
    slack: Float64Array  # per margin: within it, only the model itself can decide
    root: Int64Array  # per tree; the nodes serve to evaluate single points
    node_feature: Int64Array
    node_mask_starts: Int64Array
    node_left: Int64Array
    node_right: Int64Array
    node_value: Float64Array


def compile_tree_sum(
    normal_form: TreeSum,
    columns: TabulatedColumns,
    space: Space,
    feasible: FeasibleRegion | None = None,
    extra: Sequence[Margin] = (),
) -> tuple[CompiledForest, ...]:
    """One forest per alternative, over the cells of the whole normal form and of the constraints on what can occur.

    ``feasible`` stands for other constraints than the space's own; ``extra`` margins, the last, must be positive too.
    """
    alternatives = [[convert_terms_to_trees(one, columns) for one in margins] for margins in normal_form.alternatives]
    feasible = feasible or space.feasible
    if guards := tuple(_build_constraint_tree(feasible, group.columns) for group in feasible.groups):
        # One margin of each alternative is enough: a single one at minus infinity forbids the point.
        alternatives = [[_add_constraint_trees(margins, guards), *margins[1:]] for margins in alternatives]
    alternatives = [[*margins, *extra] for margins in alternatives]
    # Cells are built from the splits of all alternatives together, so that all forests share them.
    splits = DistinctSplits(columns)
    splits.add(tree for margins in alternatives for group in _list_margin_groups(margins) for tree in group.trees)
    by_feature = splits.group_by_feature(len(space))
    cells, firsts = build_cells(space.sizes.tolist(), by_feature)
    pools = [build_mask_pool(len(first)) for first in firsts]
    known = np.zeros((2, len(splits.numbers) + 1), dtype=np.int64)  # a split's feature and its mask there
    known[1, -1] = -1  # a leaf has no split
    for feature, (numbers, rows) in enumerate(by_feature):
        known[0, numbers] = feature
        known[1, numbers] = pools[feature].number_masks(build_cell_masks(firsts[feature], rows))
    return tuple(_build_forest(one, cells, pools, _flatten_nodes(one, splits, known)) for one in alternatives)


def _add_constraint_trees(margins: list[Margin], constraint_trees: tuple[Tree, ...]) -> Margin:
    """The first margin, minus infinity where a constraint on the space is broken."""
    first = margins[0] if margins else Margin(1.0, ())
    return replace(first, groups=(*first.groups, LinkedGroup(constraint_trees)))


def _list_margin_groups(margins: Sequence[Margin]) -> list[LinkedGroup]:
    return [group for margin in margins for group in margin.groups]


def _flatten_nodes(margins: Sequence[Margin], splits: DistinctSplits, known: Int64Array) -> FlatNodes:
    trees = [tree for group in _list_margin_groups(margins) for tree in group.trees]
    starts = compute_starts(np.array([len(tree.left) for tree in trees], dtype=np.int64))
    asks = _concatenate_ints([splits.number_nodes(tree) for tree in trees])
    # Children are numbered within their tree; `base` shifts them to their place among the nodes of all trees.
    leaf, base = asks < 0, np.repeat(starts[:-1], np.diff(starts))
    left, right = (
        np.where(leaf, -1, _concatenate_ints([getattr(t, side) for t in trees]) + base) for side in ("left", "right")
    )
    values = np.where(leaf, np.concatenate([np.zeros(0), *(tree.value for tree in trees)]), 0.0)
    return FlatNodes(starts[:-1], known[0, asks], known[1, asks], left, right, values)


def _concatenate_ints(parts: Sequence[AnyArray]) -> Int64Array:
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def _build_forest(
    margins: Sequence[Margin], cells: Cells, pools: Sequence[MaskPool], nodes: FlatNodes
) -> CompiledForest:
    """One alternative as flat arrays. Masks lie in the order of their first use: by nodes, then by leaves."""
    boxes, inner = build_leaf_boxes(nodes, pools), nodes.left_mask >= 0
    # Masks are numbered through all pools here: `starts` says where each feature's numbers begin.
    starts = compute_starts(np.array([len(pool) for pool in pools]))
    of_nodes, of_leaves = starts[nodes.feature] + nodes.left_mask, starts[boxes.feature] + boxes.mask
    by_nodes, by_leaves = _order_by_first_use(of_nodes[inner]), _order_by_first_use(of_leaves)
    kept = np.concatenate([by_nodes, by_leaves[~np.isin(by_leaves, by_nodes)]])
    masks, begins = concatenate_masks(pools, *_find_features(starts, kept))
    place, number = np.zeros((2, int(starts[-1])), dtype=np.int64)
    place[kept], number[by_leaves] = begins[:-1], np.arange(len(by_leaves))
    groups, (feature, own) = _list_margin_groups(margins), _find_features(starts, by_leaves)
    run_starts, run_first, run_last = find_runs(*concatenate_masks(pools, feature, own))
    # Per mask of a leaf its first and its last cell, among all cells, and whether there are gaps between.
    begin, leaf_masks = cells.cell_starts[feature], number[of_leaves]
    first, last = begin + run_first[run_starts[:-1]], begin + run_last[run_starts[1:] - 1]
    gaps = (np.diff(run_starts) > 1).astype(np.int64)
    return CompiledForest(
        cells,
        boxes.leaf_starts,
        boxes.leaf_values,
        compute_leaf_weights(boxes.leaf_starts, boxes.leaf_values),
        boxes.mask_starts,
        leaf_masks,
        first[leaf_masks],
        last[leaf_masks],
        gaps[leaf_masks],
        feature,
        place[by_leaves],
        run_starts,
        run_first,
        run_last,
        masks,
        np.repeat(np.arange(len(groups)), [len(group.trees) for group in groups]),
        np.array([(tree.value == -np.inf).any() for group in groups for tree in group.trees], dtype=np.int64),
        np.repeat(np.arange(len(margins)), [len(margin.groups) for margin in margins]),
        np.array([_encode_link(group) for group in groups], dtype=np.float64).reshape(-1, 5),
        np.array([margin.offset for margin in margins], dtype=np.float64),
        np.array([compute_slack(margin) for margin in margins], dtype=np.float64),
        nodes.root,
        nodes.feature,
        np.where(inner, place[of_nodes], 0),
        nodes.left,
        nodes.right,
        nodes.value,
    )


def _encode_link(group: LinkedGroup) -> tuple[float, ...]:
    link, error = group.link, 0.0 if group.link.kind == "identity" else bound_sum_error(group)
    return LINK_CODES[link.kind], link.scale, link.slope, link.shift, error


def compute_leaf_weights(starts: Int64Array, values: Float64Array) -> Float64Array:
    """How much more every leaf is than the least of its tree, which comes last."""
    if len(values) == 0:
        return values
    last = np.maximum(starts[1:] - 1, 0)
    return np.asarray(values - np.repeat(values[last], np.diff(starts)))


def _order_by_first_use(numbers: Int64Array) -> Int64Array:
    """The distinct numbers in the order in which they first occur."""
    # Written from the back, so that the first occurrence of a number is the one that stays.
    first = np.full(int(numbers.max(initial=-1)) + 1, len(numbers))
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]
    return np.argsort(first, kind="stable")[: np.count_nonzero(first < len(numbers))]


def _find_features(starts: Int64Array, numbers: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The features of masks that are numbered through all pools, and their numbers there."""
    features = np.searchsorted(starts, numbers, "right") - 1
    return features, numbers - starts[features]


@kernel_helper
def apply_link(links: Float64Array, group: int, total: float, lean: float) -> float:
    """A group's sum through its link: with a lean of 1 not below the true value, with -1 not above it."""
    if links[group, 0] == 0.0:
        return total
    scale, slope, shift = links[group, 1], links[group, 2], links[group, 3]
    # Links never fall, so shifting the sum by its error bounds the value behind the link from above or below.
    total += lean * links[group, 4]
    if links[group, 0] == 1.0:
        value: float = scale / (1.0 + np.exp(-(slope * total + shift)))
        return value
    return scale if total > shift else 0.0


@kernel_helper
def evaluate_margin(forest: CompiledForest, margin: int, point: Int64Array, sums: Float64Array) -> tuple[float, float]:
    """The largest and the smallest value that a margin can have at a point given by cells, but for its slack."""
    # Walk every tree of the margin to the leaf of the point, and add up by group, since links apply to group sums.
    for group in range(sums.shape[0]):
        sums[group] = 0.0
    for tree in range(forest.root.shape[0]):
        group = forest.tree_group[tree]
        if forest.group_margin[group] != margin:
            continue
        node = forest.root[tree]
        while forest.node_left[node] >= 0:
            cell = point[forest.node_feature[node]]
            word = forest.mask_words[forest.node_mask_starts[node] + (cell >> 6)]
            node = forest.node_left[node] if (word >> np.uint64(cell & 63)) & ONE else forest.node_right[node]
        sums[group] += forest.node_value[node]
    most: float = forest.offset[margin]
    least: float = forest.offset[margin]
    # Twice through the links: once rounded up, once rounded down.
    for group in range(sums.shape[0]):
        if forest.group_margin[group] == margin:
            most += apply_link(forest.links, group, sums[group], 1.0)
            least += apply_link(forest.links, group, sums[group], -1.0)
    return most, least


@kernel_helper
def decide_point(forest: CompiledForest, point: Int64Array, sums: Float64Array) -> tuple[bool, bool]:
    """Whether every margin may be positive at a point, and whether every one surely is."""
    sure = True
    # Three cases per margin: surely not positive (the point is none), surely positive, or within the slack.
    for margin in range(forest.offset.shape[0]):
        most, least = evaluate_margin(forest, margin, point, sums)
        if most <= -forest.slack[margin]:
            return False, False
        if least <= forest.slack[margin]:
            sure = False
    return True, sure


@kernel
def _decide_rows(
    forest: CompiledForest, cells: Int64Array, possible: BoolArray, sure: BoolArray, sums: Float64Array
) -> None:
    # All rows share `sums`, which `evaluate_margin` clears.
    for row in range(cells.shape[0]):
        possible[row], sure[row] = decide_point(forest, cells[row], sums)


@kernel
def _fill_least_margins(forest: CompiledForest, cells: Int64Array, least: Float64Array, sums: Float64Array) -> None:
    # The worst margin decides, because all of them must be positive.
    for row in range(cells.shape[0]):
        least[row] = np.inf
        for margin in range(forest.offset.shape[0]):
            _, value = evaluate_margin(forest, margin, cells[row], sums)
            least[row] = min(least[row], value - forest.slack[margin])


def compute_least_margins(forest: CompiledForest, cells: Int64Array) -> Float64Array:
    """The smallest margin of every point given by cells, less its slack: positive where it surely is desired."""
    least = np.empty(len(cells))
    _fill_least_margins(forest, np.ascontiguousarray(cells), least, np.zeros(len(forest.group_margin)))
    return least


def decide_points(forest: CompiledForest, points: Points) -> tuple[BoolArray, BoolArray]:
    """Which points may be desired, and which surely are."""
    possible, sure = np.zeros(len(points), dtype=np.bool_), np.zeros(len(points), dtype=np.bool_)
    cells = np.ascontiguousarray(forest.cells.locate(points))
    _decide_rows(forest, cells, possible, sure, np.zeros(len(forest.group_margin)))
    return possible, sure
