"""A reading compiled for search: cells instead of codes, leaves as boxes, everything in flat arrays.

A set of cells (:mod:`ironrule.model.cells`) is a bit mask of 64-bit words. A leaf is a box: for some features the mask
of the cells that lead to it (a *condition*; equal conditions are stored once). The leaves of a tree lie in falling
order of value, so the best leaf that a box can reach is the first that it meets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ironrule.model.boxes import Nodes, boxes_of
from ironrule.model.cells import Cells, Questions, cells_of, masks_of, starts_of
from ironrule.model.conditions import Pile, flat, pile_of, runs
from ironrule.model.guards import guards
from ironrule.model.reading import Group, Margin, Reading, Tree
from ironrule.model.slack import slack_of, sum_error
from ironrule.model.tabulate import Columns
from ironrule.model.terms import with_trees_alone
from ironrule.space import Feasible, Space

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]

LINKS = {"identity": 0, "logistic": 1, "step": 2}


class Forest(NamedTuple):
    """One alternative of a reading: all margins must be positive."""

    cells: Cells
    leaf_starts: Ints  # per tree
    leaf_values: Floats  # falling within a tree
    leaf_weights: Floats  # how much more than the tree's least
    condition_starts: Ints  # per leaf, its conditions in `conditions`
    conditions: Ints
    first_cell: Ints  # per condition of a leaf, the first and the last cell that it admits, among all cells,
    last_cell: Ints
    gaps: Ints  # and whether it leaves out some in between
    condition_feature: Ints
    condition_words: Ints  # where a condition's mask begins in `masks`
    run_starts: Ints  # per condition, its runs of neighbouring cells
    run_first: Ints
    run_last: Ints
    masks: Words
    group_of: Ints  # per tree
    guards: Ints  # per tree, whether it says what can occur at all, and adds nothing
    margin_of: Ints  # per group
    links: Floats  # per group: its link's kind, scale, slope, shift, and how far the sum before it may be off
    offset: Floats  # per margin
    slack: Floats  # per margin: within it, only the model itself can decide
    root: Ints  # per tree; the nodes serve to evaluate single points
    node_feature: Ints
    node_words: Ints
    node_left: Ints
    node_right: Ints
    node_value: Floats


def compile_reading(
    reading: Reading,
    columns: Columns,
    space: Space,
    feasible: Feasible | None = None,
    extra: Sequence[Margin] = (),
) -> tuple[Forest, ...]:
    """One forest per alternative, over the cells of the whole reading and of the constraints on what can occur.

    ``feasible`` stands for other constraints than the space's own; ``extra`` margins must be positive too; they come
    last.
    """
    alternatives = [[with_trees_alone(margin, columns) for margin in margins] for margins in reading.alternatives]
    if guarding := guards(feasible or space.feasible):
        alternatives = [[_guarded(margins, guarding), *margins[1:]] for margins in alternatives]
    alternatives = [[*margins, *extra] for margins in alternatives]
    questions = Questions(columns)
    questions.add(tree for margins in alternatives for group in _groups(margins) for tree in group.trees)
    asked = questions.of_features(len(space))
    cells, firsts = cells_of(space.sizes.tolist(), asked)
    piles = [pile_of(len(first)) for first in firsts]
    known = np.zeros((2, len(questions.numbers) + 1), dtype=np.int64)  # a question's feature and its condition there
    known[1, -1] = -1  # a leaf asks no question
    for feature, (numbers, rows) in enumerate(asked):
        known[0, numbers], known[1, numbers] = feature, piles[feature].number(masks_of(firsts[feature], rows))
    return tuple(_forest(margins, cells, piles, _nodes(margins, questions, known)) for margins in alternatives)


def _guarded(margins: list[Margin], guarding: tuple[Tree, ...]) -> Margin:
    """The first margin, minus infinity where a constraint on the space is broken."""
    first = margins[0] if margins else Margin(1.0, ())
    return replace(first, groups=(*first.groups, Group(guarding)))


def _groups(margins: Sequence[Margin]) -> list[Group]:
    return [group for margin in margins for group in margin.groups]


def _nodes(margins: Sequence[Margin], questions: Questions, known: Ints) -> Nodes:
    trees = [tree for group in _groups(margins) for tree in group.trees]
    starts = starts_of(np.array([len(tree.left) for tree in trees], dtype=np.int64))
    asks = _end_to_end([questions.of(tree) for tree in trees])
    leaf, base = asks < 0, np.repeat(starts[:-1], np.diff(starts))
    left, right = (
        np.where(leaf, -1, _end_to_end([getattr(t, side) for t in trees]) + base) for side in ("left", "right")
    )
    values = np.where(leaf, np.concatenate([np.zeros(0), *(tree.value for tree in trees)]), 0.0)
    return Nodes(starts[:-1], known[0, asks], known[1, asks], left, right, values)


def _end_to_end(parts: Sequence[npt.NDArray[Any]]) -> Ints:
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def _forest(margins: Sequence[Margin], cells: Cells, piles: Sequence[Pile], nodes: Nodes) -> Forest:
    """Masks lie in the order of their first use: by nodes, then by leaves."""
    boxes, inner = boxes_of(nodes, piles), nodes.question >= 0
    starts = starts_of(np.array([len(pile) for pile in piles]))
    of_nodes, of_leaves = starts[nodes.feature] + nodes.question, starts[boxes.feature] + boxes.condition
    by_nodes, by_leaves = _by_first_use(of_nodes[inner]), _by_first_use(of_leaves)
    kept = np.concatenate([by_nodes, by_leaves[~np.isin(by_leaves, by_nodes)]])
    masks, begins = flat(piles, *_found(starts, kept))
    place, number = np.zeros((2, int(starts[-1])), dtype=np.int64)
    place[kept], number[by_leaves] = begins[:-1], np.arange(len(by_leaves))
    groups = _groups(margins)
    feature, of_runs = _found(starts, by_leaves)[0], runs(*flat(piles, *_found(starts, by_leaves)))
    return Forest(
        cells,
        boxes.leaf_starts,
        boxes.leaf_values,
        leaf_weights(boxes.leaf_starts, boxes.leaf_values),
        boxes.condition_starts,
        number[of_leaves],
        *spans(cells, number[of_leaves], feature, *of_runs),
        feature,
        place[by_leaves],
        *of_runs,
        masks,
        np.repeat(np.arange(len(groups)), [len(group.trees) for group in groups]),
        np.array([(tree.value == -np.inf).any() for group in groups for tree in group.trees], dtype=np.int64),
        np.repeat(np.arange(len(margins)), [len(margin.groups) for margin in margins]),
        _floats([_linking(group) for group in groups]).reshape(-1, 5),
        _floats([margin.offset for margin in margins]),
        _floats([slack_of(margin) for margin in margins]),
        nodes.root,
        nodes.feature,
        np.where(inner, place[of_nodes], 0),
        nodes.left,
        nodes.right,
        nodes.value,
    )


def _linking(group: Group) -> tuple[float, ...]:
    link, error = group.link, 0.0 if group.link.kind == "identity" else sum_error(group)
    return LINKS[link.kind], link.scale, link.slope, link.shift, error


def leaf_weights(starts: Ints, values: Floats) -> Floats:
    """How much more every leaf is than the least of its tree, which comes last."""
    if len(values) == 0:
        return values
    last = np.maximum(starts[1:] - 1, 0)
    return np.asarray(values - np.repeat(values[last], np.diff(starts)))


def spans(
    cells: Cells, conditions: Ints, feature: Ints, run_starts: Ints, run_first: Ints, run_last: Ints
) -> tuple[Ints, Ints, Ints]:
    """Per condition of a leaf its first and its last cell, among all cells, and whether there are gaps between."""
    start = cells.cell_starts[feature]
    first, last = start + run_first[run_starts[:-1]], start + run_last[run_starts[1:] - 1]
    gaps = (np.diff(run_starts) > 1).astype(np.int64)
    return first[conditions], last[conditions], gaps[conditions]


def _by_first_use(numbers: Ints) -> Ints:
    """The distinct numbers in the order in which they first occur."""
    first = np.full(int(numbers.max(initial=-1)) + 1, len(numbers))
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]
    return np.argsort(first, kind="stable")[: np.count_nonzero(first < len(numbers))]


def _found(starts: Ints, numbers: Ints) -> tuple[Ints, Ints]:
    """The features of conditions that are numbered through all piles, and their numbers there."""
    features = np.searchsorted(starts, numbers, "right") - 1
    return features, numbers - starts[features]


def _floats(values: Sequence[Any]) -> Floats:
    return np.array(values, dtype=np.float64)


def cells_at(forest: Forest, points: npt.NDArray[Any]) -> Ints:
    """Points as cells."""
    starts = forest.cells.code_starts[:-1]
    return np.asarray(forest.cells.cell_of[points + starts])
