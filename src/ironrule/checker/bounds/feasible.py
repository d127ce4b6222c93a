"""The feasible set: which pieces hold a point that satisfies the constraints.

Constraints tie features together. For every group of features so tied all combinations of codes are listed once, where
there are not too many; groups that are not listed are taken to allow any combination, so that no piece is wrongly
closed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ironrule.checker.arrays import BoolArray, Int32Array
from ironrule.checker.bounds.pieces import CodeSets, Pieces, iterate_points
from ironrule.checker.space.space import CheckerSpace
from ironrule.errors import ConstraintError

if TYPE_CHECKING:
    from ironrule.checker.space.constraints import PointPredicate

MAX_COMBINATIONS = 20_000_000
MAX_DIMENSIONS = 32  # of a NumPy array


@dataclass(frozen=True, slots=True, eq=False)
class TiedFeatures:
    """Features that constraints tie together, and which of their combinations satisfy them."""

    features: tuple[int, ...]
    feasible: BoolArray

    def select_combinations(self, codes: CodeSets) -> BoolArray:
        """Which combinations of these codes satisfy the constraints."""
        return np.asarray(self.feasible[np.ix_(*(codes[place] for place in self.features))])


@dataclass(frozen=True, slots=True, eq=False)
class FeasibleSet:
    """The constraints on a space, group by group; ``has_unlisted_groups`` if one has too many combinations."""

    space: CheckerSpace
    groups: tuple[TiedFeatures, ...]
    has_unlisted_groups: bool

    def flag_feasible(self, pieces: Pieces) -> BoolArray:
        """Which pieces have a point that can occur, as far as this can be seen."""
        found = np.ones(len(pieces), dtype=np.bool_)
        for group in self.groups:
            sets = pieces.rows[:, group.features]  # pieces with the same sets of codes need one look
            _, first, inverse = np.unique(sets, axis=0, return_index=True, return_inverse=True)
            some = [bool(group.select_combinations(pieces.codes(piece)).any()) for piece in first.tolist()]
            found &= np.array(some, dtype=np.bool_)[inverse.reshape(-1)]
        return found

    def find_point(self, codes: CodeSets, start: Int32Array) -> Int32Array | None:
        """A point that can occur among the combinations of these codes, with the start's codes where nothing is tied;
        None if there is none, or none could be found.
        """
        point = start.copy()
        for group in self.groups:
            places = np.argwhere(group.select_combinations(codes))
            if len(places) == 0:
                return None
            point[list(group.features)] = [codes[j][place] for j, place in zip(group.features, places[0], strict=True)]
        return point if self.space.admits(point[None, :])[0] else None


def build_feasible_set(space: CheckerSpace, chosen: Sequence[PointPredicate] | None = None) -> FeasibleSet:
    """List what the constraints on a space, or those chosen, admit; raises ConstraintError if nothing can occur."""
    predicates = space.predicates if chosen is None else chosen
    tied = _find_tied_features(predicates)
    sizes = space.sizes.tolist()
    listed = [own for own in tied if len(own) <= MAX_DIMENSIONS]
    listed = [own for own in listed if math.prod(sizes[j] for j in own) <= MAX_COMBINATIONS]
    groups = tuple(TiedFeatures(columns, _flag_feasible_combinations(space, predicates, columns)) for columns in listed)
    if not all(group.feasible.any() for group in groups):
        raise ConstraintError(f"no point satisfies {list(space.constraints)}", code="unsatisfiable-constraints")
    return FeasibleSet(space, groups, len(listed) < len(tied))


def _find_tied_features(predicates: Sequence[PointPredicate]) -> list[tuple[int, ...]]:
    """The features that share constraints, directly or through others."""
    groups: list[set[int]] = []
    for predicate in predicates:
        merged = set(predicate.columns).union(*(group for group in groups if group & set(predicate.columns)))
        groups = [group for group in groups if not group & merged] + ([merged] if merged else [])
    return [tuple(sorted(group)) for group in groups]


def _flag_feasible_combinations(
    space: CheckerSpace, predicates: Sequence[PointPredicate], columns: tuple[int, ...]
) -> BoolArray:
    """Which combinations of the features satisfy every constraint that speaks of them."""
    concerned = [predicate for predicate in predicates if set(predicate.columns) & set(columns)]
    last = np.zeros_like(space.sizes)  # the other features do not matter: their first code will do
    last[list(columns)] = space.sizes[list(columns)] - 1
    every = iterate_points(np.zeros_like(last), last)
    admitted = [np.logical_and.reduce([predicate(points) for predicate in concerned]) for points in every]
    return np.concatenate(admitted).reshape([space.features[place].size for place in columns])
