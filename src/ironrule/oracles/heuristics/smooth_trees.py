"""Sums of trees as smooth functions of vectors, with their gradients.

Every split becomes a share: how much of a vector goes left. Of an ordered feature it is a sigmoid of the distance from
the place where the split turns, ``sharpness`` times as steep as the numeric encoding; of categories the average of
their answers, weighted by their columns; of a number that is missing in part, the mix of both. A tree's value is the
average of its leaves, weighted by the product of the shares on the way to each. With growing sharpness this becomes the
tree itself.

All trees are evaluated together: their nodes are in arrays, level by level, so that a vector takes a few array
operations per level. Values come up from the leaves. The gradient goes down from the roots: what a node's share changes
is how much of the vector comes there, times the difference of its children.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, IntpArray
from ironrule.model.normal_form.tree_sum import LinkedGroup, Margin, Tree, TreeSplit, TreeSum
from ironrule.model.read_model import TabulatedModel
from ironrule.oracles.heuristics.encoding import NumericEncoding
from ironrule.oracles.heuristics.gradients import FeatureCurve, SlopedScore, build_curve, choose_margin


@dataclass(frozen=True, slots=True, eq=False)
class SmoothSplits:
    """How much of a vector goes left at every inner node.

    Node i turns at ``places`` t where ``owners[t]`` is i: by ``signs[t]`` there, from ``first[i]`` on, in the number of
    column ``columns[i]``. Of the share ``missing_columns[i]``, ``if_missing[i]`` goes left (-1: never missing). Nodes
    that ask about a category have their answers in ``categories``, a row per node and a column per number of a vector.
    """

    sharpness: float
    owners: IntpArray
    places: Float64Array
    signs: Float64Array
    first: Float64Array
    columns: IntpArray
    missing_columns: IntpArray
    if_missing: Float64Array
    categories: Float64Array

    def evaluate(self, vector: Float64Array) -> tuple[Float64Array, Float64Array, Float64Array]:
        """The share of every node that goes left, and its slopes in the number and in what is missing of it."""
        with np.errstate(over="ignore"):
            steps = 1.0 / (1.0 + np.exp(-self.sharpness * (vector[self.columns[self.owners]] - self.places)))
        count = len(self.first)
        share = self.first + np.bincount(self.owners, self.signs * steps, count)
        slope = np.bincount(self.owners, self.signs * self.sharpness * steps * (1.0 - steps), count)
        absent = np.where(self.missing_columns >= 0, vector[self.missing_columns], 0.0)
        mixed = (1.0 - absent) * share + absent * self.if_missing
        return mixed + self.categories @ vector, (1.0 - absent) * slope, self.if_missing - share


@dataclass(frozen=True, slots=True, eq=False)
class SmoothSum:
    """A sum of trees as a smooth function; ``evaluate`` gives its score and the gradient of that."""

    splits: SmoothSplits
    levels: tuple[IntpArray, ...]  # the inner nodes of every depth, by their numbers among all nodes
    split_places: IntpArray  # of every node its place among the splits; -1 for a leaf
    left: IntpArray
    right: IntpArray
    values: Float64Array
    roots: IntpArray
    root_groups: IntpArray
    curves: tuple[FeatureCurve, ...]  # what terms add, a channel per group
    groups: tuple[LinkedGroup, ...]
    margins: tuple[tuple[Margin, ...], ...]
    vote_steepness: float
    width: int

    def evaluate(self, vector: Float64Array) -> SlopedScore:
        """The largest of the alternatives' smallest margins, all smooth, and its gradient."""
        shares, slopes, missing_slopes = self.splits.evaluate(vector)
        values = self._evaluate_nodes(shares)
        totals = np.bincount(self.root_groups, values[self.roots], len(self.groups)).astype(np.float64)
        term_slopes = np.zeros((self.width, len(self.groups)))
        for curve in self.curves:
            value, slope = curve.evaluate(vector)
            totals += value
            term_slopes[curve.start : curve.start + len(slope)] += slope
        scores, weights, at = list[float](), list[Float64Array](), 0
        for margins in self.margins:
            for margin in margins:
                linked = [self._link(place, totals[place]) for place in range(at, at + len(margin.groups))]
                weight = np.zeros(len(self.groups))
                weight[at : at + len(linked)] = [slope for _, slope in linked]
                scores.append(margin.offset + sum(value for value, _ in linked))
                weights.append(weight)
                at += len(linked)
        active = choose_margin(np.array(scores), [len(margins) for margins in self.margins])
        gradient = term_slopes @ weights[active]
        gradient += self._follow_down(shares, values, weights[active][self.root_groups], slopes, missing_slopes)
        return SlopedScore(scores[active], gradient)

    def _evaluate_nodes(self, shares: Float64Array) -> Float64Array:
        """The values of all nodes, from the deepest up."""
        values = self.values.copy()
        for nodes in reversed(self.levels):
            share = shares[self.split_places[nodes]]
            values[nodes] = share * values[self.left[nodes]] + (1.0 - share) * values[self.right[nodes]]
        return values

    def _link(self, group: int, total: float) -> tuple[float, float]:
        """What a group gives for a sum, and its slope; a vote is a logistic function here."""
        link = self.groups[group].link
        if link.kind == "identity":
            return total, 1.0
        steep, shift = (self.vote_steepness, -self.vote_steepness * link.shift) if link.kind == "step" else (0.0, 0.0)
        if link.kind == "logistic":
            steep, shift = link.slope, link.shift
        share = float(0.5 + 0.5 * np.tanh(0.5 * (steep * total + shift)))
        return link.scale * share, link.scale * steep * share * (1.0 - share)

    def _follow_down(
        self,
        shares: Float64Array,
        values: Float64Array,
        root_weights: Float64Array,
        slopes: Float64Array,
        missing_slopes: Float64Array,
    ) -> Float64Array:
        """The gradient of the weighted sum of the trees' values."""
        reach = np.zeros(len(values))
        reach[self.roots] = root_weights
        changes = np.zeros(len(shares))  # of the sum with the share of each split
        for nodes in self.levels:
            places, left, right = self.split_places[nodes], self.left[nodes], self.right[nodes]
            reach[left] = reach[nodes] * shares[places]
            reach[right] = reach[nodes] * (1.0 - shares[places])
            # Nodes that ask the same share a split.
            changes += np.bincount(places, reach[nodes] * (values[left] - values[right]), len(shares))
        splits = self.splits
        gradient = np.bincount(splits.columns, changes * slopes, self.width) + changes @ splits.categories
        with_missing = splits.missing_columns >= 0
        gradient += np.bincount(
            splits.missing_columns[with_missing], (changes * missing_slopes)[with_missing], self.width
        )
        return np.asarray(gradient, dtype=np.float64)


@dataclass(slots=True, eq=False)
class SplitCollection:
    """The splits of all trees, each once, as they are put into arrays."""

    read: TabulatedModel
    encoding: NumericEncoding
    places: dict[TreeSplit, int] = field(default_factory=dict)
    turns: list[tuple[int, float, float]] = field(default_factory=list)  # owner, place, sign
    rows: list[tuple[float, int, int, float]] = field(default_factory=list)  # first, column, missing column, if missing
    categories: list[tuple[int, BoolArray, int]] = field(default_factory=list)  # start, answers, owner

    def add(self, split: TreeSplit) -> int:
        """The place of a split."""
        if split not in self.places:
            self.places[split] = len(self.rows)
            answers = np.asarray(split.goes_left(self.read.columns.values[split.column]), dtype=np.bool_)
            self._add_answers(int(self.read.columns.features[split.column]), answers)
        return self.places[split]

    def _add_answers(self, feature: int, answers: BoolArray) -> None:
        table, start, own = self.encoding.tables[feature], int(self.encoding.starts[feature]), len(self.rows)
        if not self.encoding.ordered[feature]:
            self.rows.append((0.0, start, -1, 0.0))
            self.categories.append((start, answers, own))
            return
        numbers = np.flatnonzero(table[:, 1] == 0.0) if table.shape[1] == 2 else np.arange(len(table))
        order = numbers[np.argsort(table[numbers, 0], kind="stable")]
        along, numbered = table[order, 0], answers[order]
        for turn in np.flatnonzero(numbered[1:] != numbered[:-1]).tolist():
            sign = 1.0 if numbered[turn + 1] else -1.0
            self.turns.append((own, float(along[turn] + along[turn + 1]) / 2.0, sign))
        first = float(numbered[0]) if len(numbered) else 0.0
        if table.shape[1] == 2:
            self.rows.append((first, start, start + 1, float(answers[-1])))
        else:
            self.rows.append((first, start, -1, 0.0))

    def build(self, sharpness: float) -> SmoothSplits:
        """The arrays of all splits."""
        owners, places, signs = np.array(self.turns, dtype=np.float64).reshape(-1, 3).T
        first, columns, missing_columns, if_missing = np.array(self.rows, dtype=np.float64).reshape(-1, 4).T
        categories = np.zeros((len(self.rows), self.encoding.width))
        for start, answers, own in self.categories:
            categories[own, start : start + len(answers)] = answers
        return SmoothSplits(
            sharpness,
            owners=owners.astype(np.intp),
            places=places,
            signs=signs,
            first=first,
            columns=columns.astype(np.intp),
            missing_columns=missing_columns.astype(np.intp),
            if_missing=if_missing,
            categories=categories,
        )


def build_smooth_sum(
    form: TreeSum, read: TabulatedModel, encoding: NumericEncoding, sharpness: float, vote_steepness: float
) -> SmoothSum:
    """A sum of trees made smooth; raises Unreadable for a value that a term does not take."""
    groups, splits = form.groups, SplitCollection(read, encoding)
    trees = [(tree, place) for place, group in enumerate(groups) for tree in group.trees]
    offsets = np.cumsum([0, *(len(tree.left) for tree, _ in trees)]).astype(np.intp)
    nodes = sum(len(tree.left) for tree, _ in trees)
    left, right, split_places = (np.full(nodes, -1, dtype=np.intp) for _ in range(3))
    values, depths = np.zeros(nodes), np.full(nodes, -1, dtype=np.intp)
    for (tree, _), offset in zip(trees, offsets.tolist(), strict=False):
        end = offset + len(tree.left)
        left[offset:end], right[offset:end] = tree.left + offset, tree.right + offset
        values[offset:end] = tree.value
        for node, depth in _list_inner_nodes(tree):
            split = tree.splits[node]
            assert split is not None  # or it were a leaf
            split_places[offset + node] = splits.add(split)
            depths[offset + node] = depth
    return SmoothSum(
        splits=splits.build(sharpness),
        levels=tuple(np.flatnonzero(depths == depth) for depth in range(int(depths.max(initial=-1)) + 1)),
        split_places=split_places,
        left=left,
        right=right,
        values=values,
        roots=offsets[:-1],
        root_groups=np.array([place for _, place in trees], dtype=np.intp),
        curves=_build_term_curves(groups, read, encoding),
        groups=tuple(groups),
        margins=form.alternatives,
        vote_steepness=vote_steepness,
        width=encoding.width,
    )


def _list_inner_nodes(tree: Tree) -> list[tuple[int, int]]:
    """The nodes that ask something, with their depths."""
    found = [(0, 0)] if tree.left[0] >= 0 and tree.splits[0] is not None else []
    for node, depth in found:  # those of the next level join the list
        children = (int(tree.left[node]), int(tree.right[node]))
        found += [(child, depth + 1) for child in children if tree.left[child] >= 0 and tree.splits[child] is not None]
    return found


def _build_term_curves(
    groups: Sequence[LinkedGroup], read: TabulatedModel, encoding: NumericEncoding
) -> tuple[FeatureCurve, ...]:
    """What the terms of all groups add, a curve per feature that they look at."""
    tables: dict[int, Float64Array] = {}
    for place, group in enumerate(groups):
        for term in group.terms:
            feature = int(read.columns.features[term.column])
            table = tables.setdefault(feature, np.zeros((len(encoding.tables[feature]), len(groups))))
            table[:, place] += term.contribution(read.columns.values[term.column])
    return tuple(build_curve(encoding, feature, table) for feature, table in tables.items())
