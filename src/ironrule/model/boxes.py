"""The leaves that points reach, as boxes: per leaf a few conditions, each on one feature.

All trees are walked at once, level by level. The walk knows for every node the conditions that lead to it, in the order
in which its path first narrowed their features. A branch that no cell leads to is not followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ironrule.model.cells import starts_of
from ironrule.model.conditions import WHOLE, Pile

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Slots = npt.NDArray[np.int32]


class Nodes(NamedTuple):
    """The nodes of all trees end to end."""

    root: Ints
    feature: Ints
    question: Ints  # the condition on the feature that goes left, -1 at a leaf
    left: Ints
    right: Ints
    value: Floats  # zero where it is no leaf


class Boxes(NamedTuple):
    """Leaves tree by tree, in falling order of value; of each its conditions, those that fail most often first."""

    leaf_starts: Ints  # per tree
    leaf_values: Floats
    condition_starts: Ints  # per leaf
    feature: Ints
    condition: Ints  # by its number in the feature's pile


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """Nodes of one depth that some point reaches; a slot holds a feature (-1: none) and the condition on it."""

    tree: Ints
    node: Ints
    parent: Ints  # its place on the level above
    is_right: Flags
    is_leaf: Flags
    features: Slots
    conditions: Slots


def boxes_of(nodes: Nodes, piles: Sequence[Pile]) -> Boxes:
    """The leaves of all trees, without those that stand for what cannot occur; conditions that the piles do not have
    yet are added to them.
    """
    levels = _levels(nodes, piles)
    tree, node = (
        np.concatenate([getattr(level, name)[level.is_leaf] for level in levels]) for name in ("tree", "node")
    )
    place = np.concatenate([place[level.is_leaf] for level, place in zip(levels, _places(levels), strict=True)])
    counts, features, conditions = _asked(levels, piles)
    order = np.lexsort((place, -nodes.value[node], tree))
    order = order[nodes.value[node[order]] > -np.inf]
    asked = ranges(starts_of(counts)[:-1][order], counts[order])
    leaf_starts = starts_of(np.bincount(tree[order], minlength=len(nodes.root)))
    return Boxes(leaf_starts, nodes.value[node[order]], starts_of(counts[order]), features[asked], conditions[asked])


def ranges(starts: Ints, lengths: Ints) -> Ints:
    """The numbers of all ranges, end to end."""
    ends = starts_of(lengths)
    return np.repeat(starts - ends[:-1], lengths) + np.arange(ends[-1])


def _levels(nodes: Nodes, piles: Sequence[Pile]) -> list[Level]:
    """All levels; of conditions only those of leaves are kept."""
    count = len(nodes.root)
    none, slots = np.zeros(count, dtype=np.int64), np.full((count, 1), -1, dtype=np.int32)
    level = Level(np.arange(count), nodes.root, none, none > 0, nodes.question[nodes.root] < 0, slots, slots)
    levels = []
    while True:
        leaf = level.is_leaf
        kept = (level.features[leaf], level.conditions[leaf])
        levels.append(Level(level.tree, level.node, level.parent, level.is_right, leaf, *kept))
        if leaf.all():
            return levels
        level = _below(nodes, piles, level)


def _below(nodes: Nodes, piles: Sequence[Pile], level: Level) -> Level:
    """The level of a level's children."""
    inner = np.flatnonzero(~level.is_leaf)
    node, features, conditions = level.node[inner], level.features[inner], level.conditions[inner]
    feature = nodes.feature[node]
    asked = features == feature[:, None]
    known = asked.any(axis=1)
    slot = np.where(known, asked.argmax(axis=1), np.count_nonzero(features >= 0, axis=1))
    here = np.where(known, conditions[np.arange(len(node)), slot % features.shape[1]], WHOLE)
    if (slot == features.shape[1]).any():  # one more slot for everybody
        features, conditions = (np.pad(array, ((0, 0), (0, 1)), constant_values=-1) for array in (features, conditions))
    sides = _halves(piles, feature, here, nodes.question[node])
    parts = []
    for is_right, (child, part) in enumerate(zip((nodes.left[node], nodes.right[node]), sides, strict=True)):
        rows = np.flatnonzero(part >= 0)
        parts.append((child[rows], inner[rows], np.full(len(rows), bool(is_right)), features[rows], conditions[rows]))
        narrowed = np.flatnonzero(part[rows] != here[rows])
        changed = rows[narrowed]
        parts[-1][3][narrowed, slot[changed]] = feature[changed]
        parts[-1][4][narrowed, slot[changed]] = part[changed]
    below, parent, right, *slots = (np.concatenate(some) for some in zip(*parts, strict=True))
    return Level(level.tree[parent], below, parent, right, nodes.question[below] < 0, *slots)


def _halves(piles: Sequence[Pile], feature: Ints, here: Ints, question: Ints) -> Ints:
    """The conditions left and right of questions where conditions hold already; -1 where no cell is left."""
    sides = np.empty((2, len(feature)), dtype=np.int64)
    order = np.argsort(feature, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(feature[order])) + 1):
        pile = piles[feature[rows[0]]]
        cells, mask = pile.words[here[rows]], pile.words[question[rows]]
        for side, part in enumerate((cells & mask, cells & ~mask)):
            some = part.any(axis=1)
            narrowed = some & (part != cells).any(axis=1)
            sides[side, rows] = np.where(some, here[rows], -1)
            sides[side, rows[narrowed]] = pile.number(part[narrowed])
    return sides


def _places(levels: Sequence[Level]) -> list[Ints]:
    """For every node the number of leaves of its tree that lie to its right: ties are kept in that order."""
    counts = [level.is_leaf.astype(np.int64) for level in levels]
    for above, below, count in zip(counts[-2::-1], levels[:0:-1], counts[:0:-1], strict=True):
        np.add.at(above, below.parent, count)
    places = [np.zeros(len(levels[0].node), dtype=np.int64)]
    for below, count in zip(levels[1:], counts[1:], strict=True):
        beside = np.zeros(len(places[-1]), dtype=np.int64)
        beside[below.parent[below.is_right]] = count[below.is_right]
        places.append(places[-1][below.parent] + np.where(below.is_right, 0, beside[below.parent]))
    return places


def _asked(levels: Sequence[Level], piles: Sequence[Pile]) -> tuple[Ints, Ints, Ints]:
    """How many conditions the leaves have, and these end to end, those with the fewest cells first."""
    starts = starts_of(np.array([len(pile) for pile in piles]))
    shares = np.concatenate([*(pile.shares() for pile in piles), [np.inf]])  # the last stands for no condition
    counts, features, conditions = [], [], []
    for level in levels:
        used = level.features >= 0
        order = np.argsort(shares[np.where(used, starts[level.features] + level.conditions, -1)], axis=1, kind="stable")
        counts.append(np.count_nonzero(used, axis=1))
        used = np.take_along_axis(used, order, axis=1)
        features.append(np.take_along_axis(level.features, order, axis=1)[used].astype(np.int64))
        conditions.append(np.take_along_axis(level.conditions, order, axis=1)[used].astype(np.int64))
    return np.concatenate(counts), np.concatenate(features), np.concatenate(conditions)
