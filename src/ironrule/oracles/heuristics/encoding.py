"""Points of a space as vectors of numbers from 0 to 1, and back to codes.

An ordered feature is one column: a number by its place in its range, an ordered category by its rank. Its "missing" is
a column of its own. A nominal feature has one column per code, of which one is 1. Any vector can be turned back into a
point of a box: to the nearest code of every ordered feature, and to the largest column of every nominal one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, IntpArray, Points
from ironrule.rule.box import Box
from ironrule.space.feature import Feature
from ironrule.space.space import Space


@dataclass(frozen=True, slots=True, eq=False)
class NumericEncoding:
    """For every feature a table with a row of numbers per code, and the columns that it takes."""

    tables: tuple[Float64Array, ...]
    starts: IntpArray  # the first column of every feature, and the number of all columns
    ordered: tuple[bool, ...]

    @classmethod
    def build(cls, space: Space) -> NumericEncoding:
        """The encoding of a space."""
        tables = tuple(map(_tabulate_feature, space.features))
        starts = np.cumsum([0, *(table.shape[1] for table in tables)])
        return cls(tables, starts, tuple(feature.ordered for feature in space.features))

    @property
    def width(self) -> int:
        """How many columns there are."""
        return int(self.starts[-1])

    @property
    def binary(self) -> BoolArray:
        """Which columns hold nothing but 0 and 1."""
        flags = [((table == 0.0) | (table == 1.0)).all(axis=0) for table in self.tables]
        return np.concatenate(flags)

    def encode(self, points: Points) -> Float64Array:
        """Points as vectors."""
        return np.concatenate([table[points[:, j]] for j, table in enumerate(self.tables)], axis=1)

    def decode(self, vectors: Float64Array, box: Box) -> Points:
        """For every vector the point of the box that is nearest to it, feature by feature."""
        ends = zip(box.low.tolist(), box.high.tolist(), strict=True)
        return self.decode_among(vectors, [np.arange(low, high + 1) for low, high in ends])

    def decode_among(self, vectors: Float64Array, codes: Sequence[IntpArray]) -> Points:
        """For every vector the nearest point that has one of these codes of every feature."""
        points = np.empty((len(vectors), len(self.tables)), dtype=np.int32)
        for j, (table, permitted) in enumerate(zip(self.tables, codes, strict=True)):
            own = vectors[:, self.starts[j] : self.starts[j + 1]]
            first, last = permitted[0], permitted[-1]
            # Most often these are all codes from one to another, which need not be copied.
            rows = table[first : last + 1] if len(permitted) == last - first + 1 else table[permitted]
            find = _find_nearest_number if self.ordered[j] and table.shape[1] == 1 else _find_nearest_row
            points[:, j] = permitted[find(own, rows)]
        return points

    def list_columns(self, features: IntpArray) -> IntpArray:
        """The columns of some features."""
        return np.array([c for j in features for c in range(self.starts[j], self.starts[j + 1])], dtype=np.intp)


def _tabulate_feature(feature: Feature) -> Float64Array:
    if not feature.ordered:
        return np.eye(feature.size)
    table = np.zeros((feature.size, 1 + feature.missing))
    if feature.values:
        numbers = feature.values if feature.numeric else range(len(feature.values))
        places = np.array(numbers, dtype=np.float64)
        table[: len(places), 0] = (places - places.min()) / (np.ptp(places) or 1.0)
    if feature.missing:
        table[-1] = 0.5, 1.0  # in the middle, so that a change from missing has no direction
    return table


def _find_nearest_number(own: Float64Array, table: Float64Array) -> IntpArray:
    """The place of the nearest number in a column that may be long; the smaller one of two as near."""
    numbers, sought = table[:, 0], own[:, 0]
    if (numbers[1:] < numbers[:-1]).any():  # as a user has listed them
        order = np.argsort(numbers, kind="stable")
        return np.asarray(order[_find_nearest_number(own, table[order])])
    above = np.searchsorted(numbers, sought)
    below = np.maximum(above - 1, 0)
    above = np.minimum(above, len(numbers) - 1)
    return np.where((numbers[below] + numbers[above]) / 2.0 < sought, above, below)


def _find_nearest_row(own: Float64Array, table: Float64Array) -> IntpArray:
    """The place of the nearest row."""
    # |v - c|^2 without |v|^2, which is the same for all rows
    return np.asarray(((table**2).sum(axis=1) - 2.0 * own @ table.T).argmin(axis=1))
