"""The first layer of a network over pieces of the space: what every feature adds to its sums, and the most of that.

A feature has finitely many codes, so what it adds is a vector per code. Where only one column depends on a feature,
that is a multiple of the column's weights, and a linear function of it is largest at the column's largest or smallest
value. Where several columns do, as those of a one-hot group, every distinct vector is tried. Features add to the sums
independently of each other, so the maximum of a linear function over a piece is exact but for rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ironrule.checker.pieces import Pieces
from ironrule.checker.readings.normal_form import Floats, Integers, Mask

MOST_CELLS = 1 << 22


class SingleColumns(NamedTuple):
    """Columns that add multiples of their weights: the feature of each, its value for every code, and its weights."""

    features: tuple[int, ...]
    values: tuple[Floats, ...]
    weights: Floats


class ColumnGroup(NamedTuple):
    """A feature that several columns depend on: the kind of every code, and the vector that every kind adds."""

    feature: int
    kinds: Integers
    vectors: Floats


class Block(NamedTuple):
    """Some pieces: for every single column the ends of its values, for every group which of its kinds occur."""

    low: Floats
    high: Floats
    occurring: tuple[Mask, ...]

    def some(self, rows: Integers) -> Block:
        """Some of the pieces."""
        return Block(self.low[rows], self.high[rows], tuple(flags[rows] for flags in self.occurring))


@dataclass(frozen=True, slots=True, eq=False)
class FirstLayer:
    """The first layer's weights, feature by feature."""

    single: SingleColumns
    groups: tuple[ColumnGroup, ...]

    @property
    def widest(self) -> int:
        """The most numbers that a linear function has for a piece."""
        return max([len(self.single.features), *(len(group.vectors) for group in self.groups)])

    def prepare(self, pieces: Pieces) -> PreparedPieces:
        """Look at every distinct set of codes of some pieces once."""
        columns = zip(self.single.features, self.single.values, strict=True)
        ends = tuple(_find_ends(pieces.sets[feature], values) for feature, values in columns)
        return PreparedPieces(
            self, pieces, ends, tuple(_find_kinds(pieces.sets[group.feature], group) for group in self.groups)
        )

    def bound_sums(self, block: Block) -> tuple[Floats, Floats]:
        """The smallest and the largest of what all features add to every sum."""
        rising, falling = np.maximum(self.single.weights, 0.0), np.minimum(self.single.weights, 0.0)
        low = block.low @ rising + block.high @ falling
        high = block.high @ rising + block.low @ falling
        for flags, group in zip(block.occurring, self.groups, strict=True):
            low += np.where(flags[:, :, None], group.vectors, np.inf).min(axis=1)
            high += np.where(flags[:, :, None], group.vectors, -np.inf).max(axis=1)
        return low, high

    def maximum(self, block: Block, factors: Floats) -> Floats:
        """For every piece and every row of its factors the maximum of the factors times what all features add."""
        slopes = factors @ self.single.weights.T
        total = np.maximum(slopes * block.low[:, None], slopes * block.high[:, None]).sum(axis=2)
        for flags, group in zip(block.occurring, self.groups, strict=True):
            total += np.where(flags[:, None], factors @ group.vectors.T, -np.inf).max(axis=2)
        return np.asarray(total)

    def sums_at_maximum(self, block: Block, factors: Floats) -> Floats:
        """For every piece what all features add to the sums at a point where a row of factors has its maximum."""
        chosen = np.where(factors @ self.single.weights.T >= 0.0, block.high, block.low)
        sums = chosen @ self.single.weights
        for flags, group in zip(block.occurring, self.groups, strict=True):
            sums = sums + group.vectors[np.where(flags, factors @ group.vectors.T, -np.inf).argmax(axis=1)]
        return np.asarray(sums)

    def spread(self, pieces: Pieces) -> Floats:
        """For every piece and feature how far its codes move the first layer's sums; 0 where they all add the same."""
        spread = np.zeros((len(pieces), len(pieces.sets)))
        for feature, values, weights in zip(*self.single, strict=True):
            low, high = _find_ends(pieces.sets[feature], values)
            moves = (high - low) * np.abs(weights).sum()
            spread[:, feature] += moves[pieces.rows[:, feature]]
        for feature, kinds, vectors in self.groups:
            moves = np.array([np.ptp(vectors[kinds[codes]], axis=0).sum() for codes in pieces.sets[feature]])
            spread[:, feature] += moves[pieces.rows[:, feature]]
        return spread

    def kinds(self, feature: int) -> Integers:
        """For every code of a feature that moves sums its kind; kinds of one column are in the order of its values."""
        for group in self.groups:
            if group.feature == feature:
                return group.kinds
        columns = zip(self.single.features, self.single.values, strict=True)
        changing = next(values for of, values in columns if of == feature and np.ptp(values) > 0.0)
        return np.unique(changing, return_inverse=True)[1].ravel()


@dataclass(frozen=True, slots=True, eq=False)
class PreparedPieces:
    """Pieces whose distinct sets of codes have been looked at: ends per single column, kinds per group."""

    layer: FirstLayer
    pieces: Pieces
    ends: tuple[tuple[Floats, Floats], ...]
    occurring: tuple[Mask, ...]

    def block(self, some: slice) -> Block:
        """Some of the pieces."""
        rows = self.pieces.rows[some]
        own = [rows[:, feature] for feature in self.layer.single.features]
        low, high = (
            np.array([ends[side][row] for ends, row in zip(self.ends, own, strict=True)]).reshape(-1, len(rows)).T
            for side in (0, 1)
        )
        groups = zip(self.occurring, self.layer.groups, strict=True)
        return Block(low, high, tuple(flags[rows[:, group.feature]] for flags, group in groups))


def _find_ends(sets: Mask, values: Floats) -> tuple[Floats, Floats]:
    """The smallest and the largest of a column's values in every set of codes."""
    order = np.argsort(values, kind="stable")
    step = max(1, MOST_CELLS // len(values))
    parts = [sets[start : start + step][:, order] for start in range(0, len(sets), step)]
    first = np.concatenate([part.argmax(axis=1) for part in parts])
    last = len(values) - 1 - np.concatenate([part[:, ::-1].argmax(axis=1) for part in parts])
    return values[order[first]], values[order[last]]


def _find_kinds(sets: Mask, group: ColumnGroup) -> Mask:
    """Which kinds of a group every set of codes has."""
    found = np.zeros((len(sets), len(group.vectors)), dtype=np.bool_)
    for row, codes in enumerate(sets):
        found[row, group.kinds[codes]] = True
    return found


def build_first_layer(
    features: Sequence[int], values: Sequence[Floats], weights: Floats, feature_count: int
) -> FirstLayer:
    """Sort columns by whether they alone depend on their feature."""
    changing = [
        [k for k, of in enumerate(features) if of == feature and np.ptp(values[k]) > 0]
        for feature in range(feature_count)
    ]
    several = {feature: own for feature, own in enumerate(changing) if len(own) > 1}
    alone = [k for k, feature in enumerate(features) if k not in several.get(feature, ())]
    single = SingleColumns(tuple(int(features[k]) for k in alone), tuple(values[k] for k in alone), weights[alone])
    return FirstLayer(single, tuple(_build_group(feature, own, values, weights) for feature, own in several.items()))


def _build_group(feature: int, own: list[int], values: Sequence[Floats], weights: Floats) -> ColumnGroup:
    distinct, kinds = np.unique(np.stack([values[k] for k in own], axis=1), axis=0, return_inverse=True)
    return ColumnGroup(feature, kinds.ravel(), distinct @ weights[own])
