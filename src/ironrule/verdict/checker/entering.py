"""The first layer of a network over pieces of the space: what every feature adds to its sums, and the most of that.

A feature has finitely many values, so what it adds is a vector per value. Where one column alone changes with a
feature, that is a multiple of the column's weights, and a linear function of it is greatest at the column's largest or
smallest value; where several do, as those of a one-hot group, every distinct vector is looked at. Features add to the
sums independently of each other, so the maximum of a linear function over a piece is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ironrule.model.reading import Floats
from ironrule.verdict.checker.pieces import Mask, Pieces
from ironrule.verdict.checker.questions import Flags, Ints

MOST_CELLS = 1 << 22


class Scaled(NamedTuple):
    """Columns that add multiples of their weights: the feature of each, its value for every code, and its weights."""

    features: tuple[int, ...]
    values: tuple[Floats, ...]
    weights: Floats


class Table(NamedTuple):
    """A feature that several columns change with: which kind every code is, and what every kind adds."""

    feature: int
    kinds: Ints
    adds: Floats


class Part(NamedTuple):
    """Some pieces: per scaled column the ends of its values, per table which of its kinds are there."""

    low: Floats
    high: Floats
    there: tuple[Flags, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """The first layer's weights, feature by feature."""

    scaled: Scaled
    tables: tuple[Table, ...]

    @property
    def widest(self) -> int:
        """The most numbers that a linear function has for a piece."""
        return max([len(self.scaled.features), *(len(table.adds) for table in self.tables)])

    def of(self, pieces: Pieces) -> Entered:
        """Look at every distinct set of codes in some pieces."""
        columns = zip(self.scaled.features, self.scaled.values, strict=True)
        ends = tuple(_ends(pieces.sets[feature], values) for feature, values in columns)
        return Entered(self, pieces, ends, tuple(_there(pieces.sets[table.feature], table) for table in self.tables))

    def sums(self, part: Part) -> tuple[Floats, Floats]:
        """The smallest and the largest of what all features add to every sum."""
        rising, falling = np.maximum(self.scaled.weights, 0.0), np.minimum(self.scaled.weights, 0.0)
        low = part.low @ rising + part.high @ falling
        high = part.high @ rising + part.low @ falling
        for there, table in zip(part.there, self.tables, strict=True):
            low += np.where(there[:, :, None], table.adds, np.inf).min(axis=1)
            high += np.where(there[:, :, None], table.adds, -np.inf).max(axis=1)
        return low, high

    def highest(self, part: Part, factors: Floats) -> Floats:
        """For every piece and every row of its factors the maximum of what all features add, times the factors."""
        slopes = factors @ self.scaled.weights.T
        total = np.maximum(slopes * part.low[:, None], slopes * part.high[:, None]).sum(axis=2)
        for there, table in zip(part.there, self.tables, strict=True):
            total += np.where(there[:, None], factors @ table.adds.T, -np.inf).max(axis=2)
        return np.asarray(total)

    def reached(self, part: Part, factors: Floats) -> Floats:
        """For every piece what all features add to the sums at a point where a row of factors has its maximum."""
        chosen = np.where(factors @ self.scaled.weights.T >= 0.0, part.high, part.low)
        sums = chosen @ self.scaled.weights
        for there, table in zip(part.there, self.tables, strict=True):
            sums = sums + table.adds[np.where(there, factors @ table.adds.T, -np.inf).argmax(axis=1)]
        return np.asarray(sums)

    def spread(self, pieces: Pieces) -> Floats:
        """For every piece and feature how far its codes move the first layer's sums; 0 where they all add the same."""
        spread = np.zeros((len(pieces), len(pieces.sets)))
        for feature, values, weights in zip(*self.scaled, strict=True):
            low, high = _ends(pieces.sets[feature], values)
            moves = (high - low) * np.abs(weights).sum()
            spread[:, feature] += moves[pieces.rows[:, feature]]
        for feature, kinds, adds in self.tables:
            moves = np.array([_width(adds[kinds[codes]]) for codes in pieces.sets[feature]])
            spread[:, feature] += moves[pieces.rows[:, feature]]
        return spread

    def kinds(self, feature: int) -> Ints:
        """For every code of a feature that moves sums which kind it is; kinds of one column are in order."""
        for table in self.tables:
            if table.feature == feature:
                return table.kinds
        columns = zip(self.scaled.features, self.scaled.values, strict=True)
        changing = next(values for of, values in columns if of == feature and np.ptp(values) > 0.0)
        return np.unique(changing, return_inverse=True)[1].ravel()


@dataclass(frozen=True, slots=True, eq=False)
class Entered:
    """Pieces whose distinct sets of codes have been looked at: ends per scaled column, kinds per table."""

    entry: Entry
    pieces: Pieces
    ends: tuple[tuple[Floats, Floats], ...]
    there: tuple[Flags, ...]

    def part(self, some: slice) -> Part:
        """Some of the pieces."""
        rows = self.pieces.rows[some]
        own = [rows[:, feature] for feature in self.entry.scaled.features]
        low, high = (
            np.array([of[side][row] for of, row in zip(self.ends, own, strict=True)]).reshape(-1, len(rows)).T
            for side in (0, 1)
        )
        tables = zip(self.there, self.entry.tables, strict=True)
        return Part(low, high, tuple(there[rows[:, table.feature]] for there, table in tables))


def _ends(sets: Mask, values: Floats) -> tuple[Floats, Floats]:
    """The smallest and the largest of a column's values in every set of codes."""
    order = np.argsort(values, kind="stable")
    step = max(1, MOST_CELLS // len(values))
    parts = [sets[start : start + step][:, order] for start in range(0, len(sets), step)]
    first = np.concatenate([part.argmax(axis=1) for part in parts])
    last = len(values) - 1 - np.concatenate([part[:, ::-1].argmax(axis=1) for part in parts])
    return values[order[first]], values[order[last]]


def _width(rows: Floats) -> float:
    """How far apart some vectors are."""
    return float(np.ptp(rows, axis=0).sum()) if len(rows) else 0.0


def _there(sets: Mask, table: Table) -> Flags:
    """Which kinds of a table every set of codes has."""
    found = np.zeros((len(sets), len(table.adds)), dtype=np.bool_)
    for row, codes in enumerate(sets):
        found[row, table.kinds[codes]] = True
    return found


def entry_of(features: Sequence[int], values: Sequence[Floats], weights: Floats, count: int) -> Entry:
    """Sort columns by how they change with their features."""
    changing = [
        [k for k, j in enumerate(features) if j == feature and np.ptp(values[k]) > 0] for feature in range(count)
    ]
    several = {feature: own for feature, own in enumerate(changing) if len(own) > 1}
    alone = [k for k, j in enumerate(features) if k not in several.get(j, ())]
    scaled = Scaled(tuple(int(features[k]) for k in alone), tuple(values[k] for k in alone), weights[alone])
    return Entry(scaled, tuple(_table(feature, own, values, weights) for feature, own in several.items()))


def _table(feature: int, own: list[int], values: Sequence[Floats], weights: Floats) -> Table:
    distinct, kinds = np.unique(np.stack([values[k] for k in own], axis=1), axis=0, return_inverse=True)
    return Table(feature, kinds.ravel(), distinct @ weights[own])
