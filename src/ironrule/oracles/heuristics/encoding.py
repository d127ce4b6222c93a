"""Points of a space as vectors of numbers from 0 to 1, and back to codes.

An ordered feature is one column: a number by its place in its range, an ordered category by its rank. Its "missing" is
a column of its own. A nominal feature has one column per code, of which one is 1. Any vector can be turned back into a
point of a box: to the nearest code of every ordered feature, and to the largest column of every nominal one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ironrule.arrays import Float64Array, IntpArray, Points
from ironrule.rule.box import Box
from ironrule.space.feature import Feature
from ironrule.space.space import Space


@dataclass(frozen=True, slots=True, eq=False)
class NumericEncoding:
    """For every feature a table with a row of numbers per code, and the columns that it takes."""

    tables: tuple[Float64Array, ...]
    starts: IntpArray  # the first column of every feature, and the number of all columns

    @classmethod
    def build(cls, space: Space) -> NumericEncoding:
        """The encoding of a space."""
        tables = tuple(map(_tabulate_feature, space.features))
        return cls(tables, np.cumsum([0, *(table.shape[1] for table in tables)]))

    @property
    def width(self) -> int:
        """How many columns there are."""
        return int(self.starts[-1])

    def encode(self, points: Points) -> Float64Array:
        """Points as vectors."""
        return np.concatenate([table[points[:, j]] for j, table in enumerate(self.tables)], axis=1)

    def decode(self, vectors: Float64Array, box: Box) -> Points:
        """For every vector the point of the box that is nearest to it, feature by feature."""
        points = np.empty((len(vectors), len(self.tables)), dtype=np.int32)
        for j, table in enumerate(self.tables):
            own, low = vectors[:, self.starts[j] : self.starts[j + 1]], int(box.low[j])
            codes = table[low : int(box.high[j]) + 1]
            # |v - c|^2 without |v|^2, which is the same for all codes
            points[:, j] = low + ((codes**2).sum(axis=1) - 2.0 * own @ codes.T).argmin(axis=1)
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
