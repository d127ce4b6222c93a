"""Points of a space as vectors of numbers from 0 to 1, and back to codes.

An ordered feature is one column: a number by its place in its range, an ordered category by its rank. Its "missing" is
a column of its own. A nominal feature has one column per code, of which one is 1. Any vector can be turned back into a
point of a box: to the nearest code of every ordered feature, and to the largest column of every nominal one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, Int32Array, IntpArray, Points
from ironrule.oracles.heuristics.prepared import PreparedValues
from ironrule.rule.box import Box
from ironrule.space.feature import Feature
from ironrule.space.space import Space


@dataclass(frozen=True, slots=True, eq=False)
class NumericEncoding:
    """For every feature a table with a row of numbers per code, and the columns that it takes."""

    tables: tuple[Float64Array, ...]
    starts: IntpArray  # the first column of every feature, and the number of all columns
    ordered: tuple[bool, ...]
    # Per feature the middles between neighbouring numbers, where these are listed in their order.
    middles: tuple[Float64Array | None, ...] = field(init=False)

    def __post_init__(self) -> None:
        middles = [
            None if (table[1:, 0] < table[:-1, 0]).any() else (table[1:, 0] + table[:-1, 0]) / 2.0
            for table in self.tables
        ]
        object.__setattr__(self, "middles", tuple(middles))

    @classmethod
    def build(cls, space: Space) -> NumericEncoding:
        """The encoding of a space."""
        return _ENCODINGS.get((space,), lambda: cls.tabulate(space.features))

    @classmethod
    def tabulate(cls, features: Sequence[Feature]) -> NumericEncoding:
        """The encoding of some features."""
        tables = tuple(map(_tabulate_feature, features))
        starts = np.cumsum([0, *(table.shape[1] for table in tables)])
        return cls(tables, starts, tuple(feature.ordered for feature in features))

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
        pairs = list[int]()
        for j, (table, permitted) in enumerate(zip(self.tables, codes, strict=True)):
            if len(permitted) == 1:
                points[:, j] = permitted[0]
                continue
            own = vectors[:, self.starts[j] : self.starts[j + 1]]
            if not self.ordered[j]:
                if len(permitted) == 2:  # all of these together, below
                    pairs.append(j)
                else:
                    points[:, j] = permitted[_find_largest(own, permitted)]
                continue
            # Most often these are all codes from one to another, which need not be copied.
            first, last, middles = int(permitted[0]), int(permitted[-1]), self.middles[j]
            is_range = len(permitted) == last - first + 1
            if table.shape[1] > 1:
                rows = table[first : last + 1] if is_range else table[permitted]
                points[:, j] = permitted[_find_nearest_row(own, rows)]
            elif is_range and middles is not None:  # of two numbers as near, the smaller one
                points[:, j] = first + np.searchsorted(middles[first:last], own[:, 0])
            else:
                points[:, j] = permitted[_find_nearest_number(own[:, 0], table[permitted, 0])]
        if pairs:
            points[:, pairs] = self._find_larger(vectors, pairs, np.stack([codes[j] for j in pairs]))
        return points

    def _find_larger(self, vectors: Float64Array, features: Sequence[int], codes: IntpArray) -> IntpArray:
        """Of some features that have two permitted codes each the one with the larger column; the first of equals."""
        columns = self.starts[list(features), None] + codes
        # Distances as of the nearest row, so that what rounding makes equal is so here too.
        own, other = 1.0 - 2.0 * vectors[:, columns[:, 0]], 1.0 - 2.0 * vectors[:, columns[:, 1]]
        return np.where(other < own, codes[:, 1], codes[:, 0])

    def list_columns(self, features: IntpArray) -> IntpArray:
        """The columns of some features."""
        return np.array([c for j in features for c in range(self.starts[j], self.starts[j + 1])], dtype=np.intp)


_ENCODINGS: PreparedValues[NumericEncoding] = PreparedValues()


class SortedNumbers(NamedTuple):
    """Numbers of an ordered feature, rising, and their codes."""

    numbers: list[float]
    codes: list[int]

    @classmethod
    def build(cls, table: Float64Array, codes: IntpArray) -> SortedNumbers:
        """Those of some codes, but for missing, of a feature's table."""
        codes = codes if table.shape[1] == 1 else codes[table[codes, 1] == 0.0]
        numbers = table[codes, 0]
        if (numbers[1:] < numbers[:-1]).any():  # as a user has listed them
            order = np.argsort(numbers, kind="stable")
            numbers, codes = numbers[order], codes[order]
        return cls(numbers.tolist(), codes.tolist())

    def find_nearest(self, sought: float) -> int:
        """The code of the nearest number; of the smaller one of two as near."""
        above = bisect_left(self.numbers, sought)
        below = max(above - 1, 0)
        above = min(above, len(self.numbers) - 1)
        return self.codes[above if (self.numbers[below] + self.numbers[above]) / 2.0 < sought else below]

    def find_beside(self, place: float, step: float) -> list[int]:
        """On both sides of a place the code of the nearest number that is at least a step away, or of the farthest."""
        chosen = []
        below = bisect_right(self.numbers, -step, key=lambda number: number - place) - 1
        if self.numbers and self.numbers[0] < place:
            chosen.append(self.codes[max(below, 0)])
        above = bisect_left(self.numbers, step, key=lambda number: number - place)
        if self.numbers and self.numbers[-1] > place:
            chosen.append(self.codes[min(above, len(self.codes) - 1)])
        return chosen


@dataclass(frozen=True, slots=True, eq=False)
class VectorDecoder:
    """Finds for one vector at a time the point that :meth:`NumericEncoding.decode_among` finds.

    A search that goes step by step has one vector at a time, for which array operations feature by feature take ten
    times as long as a binary search in a list does.
    """

    point: Int32Array  # with the codes of features that have only one; the others are filled in
    numbers: tuple[tuple[int, int, SortedNumbers], ...]  # features, columns, permitted numbers
    categories: tuple[tuple[int, list[int], list[int]], ...]  # features, permitted codes, and their columns
    others: tuple[tuple[int, slice, Float64Array, IntpArray], ...]  # features, columns, tables of permitted codes

    @classmethod
    def build(cls, encoding: NumericEncoding, codes: Sequence[IntpArray]) -> VectorDecoder:
        """The decoder for points that have one of these codes of every feature."""
        point = np.array([permitted[0] for permitted in codes], dtype=np.int32)
        numbers, categories, others = [], [], []
        for j, (table, permitted) in enumerate(zip(encoding.tables, codes, strict=True)):
            start = int(encoding.starts[j])
            if len(permitted) == 1:
                continue
            if not encoding.ordered[j]:
                categories.append((j, permitted.tolist(), (start + permitted).tolist()))
            elif table.shape[1] == 1:
                numbers.append((j, start, SortedNumbers.build(table, permitted)))
            else:
                others.append((j, slice(start, start + table.shape[1]), table[permitted], permitted))
        return cls(point, tuple(numbers), tuple(categories), tuple(others))

    def decode(self, vector: Float64Array) -> Points:
        """The nearest permitted point."""
        point, values = self.point.copy(), vector.tolist()
        for j, column, numbers in self.numbers:
            point[j] = numbers.find_nearest(values[column])
        for j, codes, columns in self.categories:
            distances = [1.0 - 2.0 * values[column] for column in columns]
            point[j] = codes[distances.index(min(distances))]
        for j, columns_of_one, table, permitted in self.others:
            point[j] = permitted[_find_nearest_row(vector[None, columns_of_one], table)[0]]
        return point


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


def _find_largest(own: Float64Array, codes: IntpArray) -> IntpArray:
    """The place, among some categories, of the one with the largest column; the first of several."""
    distances = 1.0 - 2.0 * own[:, codes]  # as of the nearest row, so that what rounding makes equal is so here too
    return np.asarray(distances.argmin(axis=1))


def _find_nearest_number(sought: Float64Array, numbers: Float64Array) -> IntpArray:
    """The place of the nearest number in a list that may be long; the smaller one of two as near."""
    order = np.argsort(numbers, kind="stable")  # they are listed as the user has listed them
    rising = numbers[order]
    return np.asarray(order[np.searchsorted((rising[1:] + rising[:-1]) / 2.0, sought)])


def _find_nearest_row(own: Float64Array, table: Float64Array) -> IntpArray:
    """The place of the nearest row."""
    # |v - c|^2 without |v|^2, which is the same for all rows
    return np.asarray(((table**2).sum(axis=1) - 2.0 * own @ table.T).argmin(axis=1))
