"""GeCo's candidates: stored as changes to the instance (deltas), hashed, and measured by their distance.

A population is two padded matrices: the features that each candidate changes and their new codes. Candidates change
few features, so both are narrow. Whole rows are made only when the model is asked, and only for candidates that were
not asked about before: each candidate has a Zobrist hash (the exclusive or of one random number per change), which
does not depend on the order of changes.

The distance is a mix of l0 (how many features change), l1, l2 and l-infinity (by how much). Every feature's change is
scaled to [0, 1]: by the range of its values for numbers, by the number of steps for ordered categories; a nominal
change, and a change to or from missing, counts 1. The changes per feature are one table look-up.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, Int32Array, Int64Array, IntpArray, Points, UInt64Array
from ironrule.space.feature import Feature
from ironrule.space.space import Space

NO_FEATURE = -1


@dataclass(frozen=True, slots=True, eq=False)
class Deltas:
    """Candidates as changes to an instance; ``features`` is padded with -1 at the end of every row."""

    features: Int32Array
    codes: Int32Array

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, rows: IntpArray | slice | BoolArray) -> Deltas:
        return Deltas(self.features[rows], self.codes[rows])

    @property
    def counts(self) -> IntpArray:
        """How many features each candidate changes."""
        return np.asarray(np.count_nonzero(self.features != NO_FEATURE, axis=1), dtype=np.intp)

    def expand(self, instance: Points) -> Points:
        """The candidates as whole rows."""
        points = np.repeat(instance[None, :], len(self), axis=0)
        rows, slots = np.nonzero(self.features != NO_FEATURE)
        points[rows, self.features[rows, slots]] = self.codes[rows, slots]
        return points


def build_deltas(points: Points, instance: Points) -> Deltas:
    """Whole rows as changes to the instance."""
    changed = points != instance
    width = max(1, int(changed.sum(axis=1).max(initial=0)))
    # A stable sort brings the changed features of each row to the front, in their own order; the rest is padding.
    order = np.argsort(~changed, axis=1, kind="stable")[:, :width].astype(np.int32)
    kept = np.take_along_axis(changed, order, axis=1)
    return Deltas(np.where(kept, order, NO_FEATURE), np.where(kept, np.take_along_axis(points, order, axis=1), 0))


def join_deltas(parts: list[Deltas]) -> Deltas:
    """Several populations as one."""
    width = max(part.features.shape[1] for part in parts)
    return Deltas(
        np.concatenate([pad_columns(part.features, width, NO_FEATURE) for part in parts]),
        np.concatenate([pad_columns(part.codes, width, 0) for part in parts]),
    )


def pad_columns(matrix: Int32Array, width: int, filler: int) -> Int32Array:
    """A matrix with columns of a filler added up to a width."""
    if matrix.shape[1] == width:
        return matrix
    wide = np.full((len(matrix), width), filler, dtype=np.int32)
    wide[:, : matrix.shape[1]] = matrix
    return wide


def override_changes(first: Deltas, second: Deltas, instance: Points) -> Deltas:
    """Row by row the changes of both; where both change a feature, the second's code stands. No-changes drop out."""
    # Every feature of the first row against every feature of the second: those that the second also has are dropped.
    repeated = (first.features[:, :, None] == second.features[:, None, :]).any(axis=2)
    features = np.concatenate([np.where(repeated, NO_FEATURE, first.features), second.features], axis=1)
    codes = np.concatenate([first.codes, second.codes], axis=1)
    # A change to the instance's own value is no change.
    features = np.where((features != NO_FEATURE) & (instance[features] == codes), NO_FEATURE, features)
    return _drop_padding(features, codes)


def _drop_padding(features: Int32Array, codes: Int32Array) -> Deltas:
    # Move the padding to the end of each row, and cut off the columns that only hold padding.
    order = np.argsort(features == NO_FEATURE, axis=1, kind="stable")
    width = max(1, int((features != NO_FEATURE).sum(axis=1).max(initial=0)))
    order = order[:, :width]
    kept = np.take_along_axis(features, order, axis=1)
    return Deltas(kept, np.where(kept == NO_FEATURE, 0, np.take_along_axis(codes, order, axis=1)))


@dataclass(frozen=True, slots=True, eq=False)
class ZobristHash:
    """A random number for every code of every feature."""

    starts: Int64Array
    numbers: UInt64Array

    @classmethod
    @lru_cache(maxsize=4)
    def from_sizes(cls, sizes: tuple[int, ...]) -> ZobristHash:
        """Numbers that depend on the domains' sizes alone."""
        starts = np.concatenate([[0], np.cumsum(sizes[:-1], dtype=np.int64)]).astype(np.int64)
        return cls(starts, np.random.default_rng(len(sizes)).integers(0, 1 << 64, size=sum(sizes), dtype=np.uint64))

    def __call__(self, deltas: Deltas) -> UInt64Array:
        # Padding (-1) reads some number of the last feature here; the next line replaces it by 0, which xor ignores.
        places = self.starts[deltas.features] + deltas.codes
        numbers = np.where(deltas.features == NO_FEATURE, np.uint64(0), self.numbers[places])
        return np.asarray(np.bitwise_xor.reduce(numbers, axis=1), dtype=np.uint64)


@dataclass(frozen=True, slots=True)
class NormWeights:
    """How much each norm counts."""

    l0: float = 0.25
    l1: float = 0.25
    l2: float = 0.25
    linf: float = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class InstanceDistance:
    """The distance of candidates from one instance."""

    norm_weights: NormWeights
    starts: Int64Array
    table: Float64Array
    n: int

    @classmethod
    def build(cls, space: Space, instance: Points, norm_weights: NormWeights) -> InstanceDistance:
        """Tabulate every feature's distance from the instance's value."""
        parts = [tabulate_distances(f, int(code)) for f, code in zip(space.features, instance, strict=True)]
        starts = np.concatenate([[0], np.cumsum([len(part) for part in parts][:-1], dtype=np.int64)])
        return cls(norm_weights, starts, np.concatenate(parts), len(space))

    def __call__(self, deltas: Deltas) -> Float64Array:
        if len(deltas) == 0:
            return np.zeros(0)
        changed = deltas.features != NO_FEATURE
        parts = np.where(changed, self.measure_codes(deltas.features, deltas.codes), 0.0)
        # Each norm is scaled to [0, 1] by the number of features; l-infinity is so already.
        norm_weights, n = self.norm_weights, self.n
        return np.asarray(
            norm_weights.l0 * changed.sum(axis=1) / n
            + norm_weights.l1 * parts.sum(axis=1) / n
            + norm_weights.l2 * np.sqrt((parts**2).sum(axis=1) / n)
            + norm_weights.linf * parts.max(axis=1)
        )

    def measure_codes(self, features: Int32Array, codes: Int32Array) -> Float64Array:
        """How far single codes of features are from the instance's values."""
        return np.asarray(self.table[self.starts[features] + codes])


def tabulate_distances(feature: Feature, code: int) -> Float64Array:
    """How far every code of a feature is from one of them: 1 for every other value, unless the feature is ordered; then
    by how far the values, or their places, are apart.
    """
    distances = np.ones(feature.size)
    distances[code] = 0.0
    if feature.ordered and code != feature.missing_code and len(feature.values) > 1:
        places = np.array(feature.values if feature.numeric else range(len(feature.values)), dtype=np.float64)
        scale = abs(float(places[-1] - places[0])) or 1.0
        distances[: len(places)] = np.abs(places - places[code]) / scale
    return distances
