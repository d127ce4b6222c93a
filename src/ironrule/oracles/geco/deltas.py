"""GeCo's delta representation: a candidate is stored as what it changes, not as a whole row.

A population is two padded matrices: the features that each candidate changes and their new codes. Candidates change few
features, so both are narrow. Whole rows are made only when the model is asked, and only for candidates that were not
asked about before: each candidate has a Zobrist hash (the exclusive or of one random number per change), which does not
depend on the order of changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ironrule.space import Points

NOTHING = -1
Ints = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Deltas:
    """Candidates as changes to an instance; ``features`` is padded with -1 at the end of every row."""

    features: Ints
    codes: Ints

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, rows: npt.NDArray[np.intp] | slice | npt.NDArray[np.bool_]) -> Deltas:
        return Deltas(self.features[rows], self.codes[rows])

    @property
    def counts(self) -> npt.NDArray[np.intp]:
        """How many features each candidate changes."""
        return np.asarray(np.count_nonzero(self.features != NOTHING, axis=1), dtype=np.intp)

    def expand(self, instance: Points) -> Points:
        """The candidates as whole rows."""
        points = np.repeat(instance[None, :], len(self), axis=0)
        rows, slots = np.nonzero(self.features != NOTHING)
        points[rows, self.features[rows, slots]] = self.codes[rows, slots]
        return points


def from_points(points: Points, instance: Points) -> Deltas:
    """Whole rows as changes to the instance."""
    changed = points != instance
    width = max(1, int(changed.sum(axis=1).max(initial=0)))
    order = np.argsort(~changed, axis=1, kind="stable")[:, :width].astype(np.int32)
    kept = np.take_along_axis(changed, order, axis=1)
    return Deltas(np.where(kept, order, NOTHING), np.where(kept, np.take_along_axis(points, order, axis=1), 0))


def join(parts: list[Deltas]) -> Deltas:
    """Several populations as one."""
    width = max(part.features.shape[1] for part in parts)
    return Deltas(
        np.concatenate([padded(part.features, width, NOTHING) for part in parts]),
        np.concatenate([padded(part.codes, width, 0) for part in parts]),
    )


def padded(matrix: Ints, width: int, filler: int) -> Ints:
    """A matrix with columns of a filler added up to a width."""
    if matrix.shape[1] == width:
        return matrix
    wide = np.full((len(matrix), width), filler, dtype=np.int32)
    wide[:, : matrix.shape[1]] = matrix
    return wide


def override(first: Deltas, second: Deltas, instance: Points) -> Deltas:
    """Row by row the changes of both; where both change a feature, the second's code stands. No-changes drop out."""
    repeated = (first.features[:, :, None] == second.features[:, None, :]).any(axis=2)
    features = np.concatenate([np.where(repeated, NOTHING, first.features), second.features], axis=1)
    codes = np.concatenate([first.codes, second.codes], axis=1)
    features = np.where((features != NOTHING) & (instance[features] == codes), NOTHING, features)
    return _compact(features, codes)


def _compact(features: Ints, codes: Ints) -> Deltas:
    order = np.argsort(features == NOTHING, axis=1, kind="stable")
    width = max(1, int((features != NOTHING).sum(axis=1).max(initial=0)))
    order = order[:, :width]
    kept = np.take_along_axis(features, order, axis=1)
    return Deltas(kept, np.where(kept == NOTHING, 0, np.take_along_axis(codes, order, axis=1)))


@dataclass(frozen=True, slots=True, eq=False)
class Hashing:
    """A random number for every code of every feature."""

    starts: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.uint64]

    @classmethod
    @lru_cache(maxsize=4)
    def of(cls, sizes: tuple[int, ...]) -> Hashing:
        """Numbers that depend on the domains' sizes alone."""
        starts = np.concatenate([[0], np.cumsum(sizes[:-1], dtype=np.int64)]).astype(np.int64)
        return cls(starts, np.random.default_rng(len(sizes)).integers(0, 1 << 64, size=sum(sizes), dtype=np.uint64))

    def __call__(self, deltas: Deltas) -> npt.NDArray[np.uint64]:
        places = self.starts[deltas.features] + deltas.codes
        numbers = np.where(deltas.features == NOTHING, np.uint64(0), self.numbers[places])
        return np.asarray(np.bitwise_xor.reduce(numbers, axis=1), dtype=np.uint64)
