"""The feasible region of a space: draw points of a box uniformly, and find out whether anything satisfies the
constraints.

Features that no constraint ties together are drawn independently. Features tied together form a *group*: where the
product of their domains is small enough, its feasible combinations are listed once, so that drawing is exact and an
unsatisfiable constraint is noticed for certain; otherwise points are drawn and rejected.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ironrule.arrays import BoolArray, Points
from ironrule.errors import ConstraintError
from ironrule.space.codes import EncodedTable
from ironrule.space.constraints.binding import Predicate
from ironrule.space.feature import Feature

MAX_LISTED_COMBINATIONS = 200_000
MAX_REJECTION_ROUNDS = 50
CHUNK_ROWS = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class FeatureGroup:
    """Features that constraints tie together; ``combinations`` lists what they can be, or is None if too long."""

    columns: tuple[int, ...]
    combinations: Points | None


@dataclass(frozen=True, slots=True, eq=False)
class FeasibleRegion:
    """The points of a product of domains that satisfy constraints."""

    sizes: tuple[int, ...]
    predicates: tuple[Predicate, ...]
    groups: tuple[FeatureGroup, ...]
    instance: Points | None = None  # what `x` stands for, where the constraints speak of it

    def admits(self, points: Points) -> BoolArray:
        """Which points satisfy every constraint."""
        mask = np.ones(len(points), dtype=np.bool_)
        for predicate in self.predicates:
            mask &= predicate(points, self.instance)
        return mask

    def admits_rows(self, codes: EncodedTable) -> BoolArray:
        """Which rows of a table satisfy every constraint; few are in memory at a time."""
        if not self.predicates or len(codes) == 0:
            return np.ones(len(codes), dtype=np.bool_)
        starts = range(0, len(codes), CHUNK_ROWS)
        return np.concatenate([self.admits(codes.points(slice(start, start + CHUNK_ROWS))) for start in starts])

    def draw(self, rng: np.random.Generator, low: Points, high: Points, count: int) -> Points:
        """Up to ``count`` points, uniform on the feasible part of the box; fewer only if rejection finds too few."""
        if not self.predicates:
            return rng.integers(low, high, size=(count, len(low)), endpoint=True, dtype=np.int32)
        inside = [(group, _select_inside(group, low, high)) for group in self.groups]
        if any(rows is not None and len(rows) == 0 for _, rows in inside):
            return np.empty((0, len(low)), dtype=np.int32)
        parts: list[Points] = []
        missing = count
        for _ in range(MAX_REJECTION_ROUNDS):  # points that break a constraint are rejected, and drawn anew
            points = self._propose(rng, low, high, max(missing * 2, 64), inside)
            parts.append(points[self.admits(points)][:missing])
            missing -= len(parts[-1])
            if missing == 0:
                break
        return np.concatenate(parts)

    def _propose(
        self,
        rng: np.random.Generator,
        low: Points,
        high: Points,
        count: int,
        inside: Sequence[tuple[FeatureGroup, Points | None]],
    ) -> Points:
        points = rng.integers(low, high, size=(count, len(low)), endpoint=True, dtype=np.int32)
        for group, rows in inside:
            if rows is not None:
                points[:, group.columns] = rows[rng.integers(0, len(rows), size=count)]
        return points


def build_feasible_region(
    features: Sequence[Feature], predicates: Sequence[Predicate], instance: Points | None = None
) -> FeasibleRegion:
    """Prepare the constrained space; raises ConstraintError if it is certain that nothing satisfies the constraints."""
    sizes = tuple(feature.size for feature in features)
    groups = tuple(_build_group(columns, sizes, predicates, instance) for columns in _find_tied_features(predicates))
    return FeasibleRegion(sizes, tuple(predicates), groups, instance)


def _find_tied_features(predicates: Sequence[Predicate]) -> list[tuple[int, ...]]:
    """The connected components of features that share a constraint."""
    groups: list[set[int]] = []
    for predicate in predicates:  # each joins the groups that it shares features with
        merged = set(predicate.columns)
        apart = [group for group in groups if not group & merged]
        for group in groups:
            if group & merged:
                merged |= group
        groups = [*apart, merged] if merged else groups
    return [tuple(sorted(group)) for group in groups]


def _build_group(
    columns: tuple[int, ...], sizes: tuple[int, ...], predicates: Sequence[Predicate], instance: Points | None
) -> FeatureGroup:
    if math.prod(sizes[j] for j in columns) > MAX_LISTED_COMBINATIONS:
        return FeatureGroup(columns, None)
    grids = np.meshgrid(*(np.arange(sizes[j], dtype=np.int32) for j in columns), indexing="ij")
    points = np.zeros((grids[0].size, len(sizes)), dtype=np.int32)
    for j, grid in zip(columns, grids, strict=True):
        points[:, j] = grid.ravel()
    concerned = [predicate for predicate in predicates if set(predicate.columns) & set(columns)]
    mask = np.ones(len(points), dtype=np.bool_)
    for predicate in concerned:
        mask &= predicate(points, instance)
    if not mask.any():
        texts = " and ".join(repr(str(predicate.constraint)) for predicate in concerned)
        reason = f"no point of the space satisfies the constraints: {texts}"
        raise ConstraintError(reason, code="unsatisfiable-constraints")
    return FeatureGroup(columns, points[mask][:, columns])


def _select_inside(group: FeatureGroup, low: Points, high: Points) -> Points | None:
    if group.combinations is None:
        return None
    columns = list(group.columns)
    mask = (group.combinations >= low[columns]).all(axis=1) & (group.combinations <= high[columns]).all(axis=1)
    rows: Points = group.combinations[mask]
    return rows
