"""What can occur: which pieces of the space have a point that satisfies the constraints.

Constraints tie features together. For every group of features so tied all combinations of codes are listed once, where
there are not too many; groups that are not listed are taken to hold any combination, so that no piece is wrongly left
out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ironrule.checker.pieces import Pieces
from ironrule.checker.space.spaces import Points, Space
from ironrule.errors import ConstraintError

MOST_COMBINATIONS = 20_000_000
MOST_DIMENSIONS = 32  # of a NumPy array
CHUNK = 1 << 16

Mask = npt.NDArray[np.bool_]
CodeSets = Sequence[npt.NDArray[np.intp]]  # some codes of every feature


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Features that constraints tie together, and which of their combinations satisfy them."""

    columns: tuple[int, ...]
    admitted: Mask

    def restrict(self, codes: CodeSets) -> Mask:
        """Which combinations of these codes satisfy the constraints."""
        return np.asarray(self.admitted[np.ix_(*(codes[place] for place in self.columns))])


@dataclass(frozen=True, slots=True, eq=False)
class Occurrence:
    """The constraints on a space, group by group; ``unlisted`` if some group has too many combinations to list."""

    space: Space
    groups: tuple[Group, ...]
    unlisted: bool

    def holds_any(self, pieces: Pieces) -> Mask:
        """Which pieces have a point that can occur, as far as this can be seen."""
        found = np.ones(len(pieces), dtype=np.bool_)
        for group in self.groups:
            sets = pieces.rows[:, group.columns]  # pieces with the same sets of codes need one look
            _, first, inverse = np.unique(sets, axis=0, return_index=True, return_inverse=True)
            some = [bool(group.restrict(pieces.codes(piece)).any()) for piece in first.tolist()]
            found &= np.array(some, dtype=np.bool_)[inverse.reshape(-1)]
        return found

    def point(self, codes: CodeSets, start: Points) -> Points | None:
        """A point that can occur among the combinations of these codes, with the start's codes where nothing is tied;
        None if there is none, or none could be found.
        """
        point = start.copy()
        for group in self.groups:
            places = np.argwhere(group.restrict(codes))
            if len(places) == 0:
                return None
            point[list(group.columns)] = [codes[j][place] for j, place in zip(group.columns, places[0], strict=True)]
        return point if self.space.admits(point[None, :])[0] else None


def list_combinations(space: Space) -> Occurrence:
    """List what the constraints on a space admit; raises ConstraintError if nothing can occur."""
    tied = _tie_features(space)
    listed = [columns for columns in tied if _can_be_listed(space, columns)]
    groups = tuple(Group(columns, _find_admitted(space, columns)) for columns in listed)
    if not all(group.admitted.any() for group in groups):
        raise ConstraintError(f"no point satisfies {list(space.constraints)}", code="unsatisfiable-constraints")
    return Occurrence(space, groups, len(listed) < len(tied))


def _tie_features(space: Space) -> list[tuple[int, ...]]:
    """The features that share constraints, directly or through others."""
    groups: list[set[int]] = []
    for predicate in space.predicates:
        merged = set(predicate.columns).union(*(group for group in groups if group & set(predicate.columns)))
        groups = [group for group in groups if not group & merged] + ([merged] if merged else [])
    return [tuple(sorted(group)) for group in groups]


def _can_be_listed(space: Space, columns: tuple[int, ...]) -> bool:
    sizes = [space.features[place].size for place in columns]
    return len(columns) <= MOST_DIMENSIONS and math.prod(sizes) <= MOST_COMBINATIONS


def _find_admitted(space: Space, columns: tuple[int, ...]) -> Mask:
    """Which combinations of the features satisfy every constraint that speaks of them."""
    shape = tuple(space.features[place].size for place in columns)
    concerned = [predicate for predicate in space.predicates if set(predicate.columns) & set(columns)]
    admitted = np.ones(math.prod(shape), dtype=np.bool_)
    for start in range(0, len(admitted), CHUNK):
        here = np.arange(start, min(start + CHUNK, len(admitted)))
        points = np.zeros((len(here), len(space.features)), dtype=np.int32)
        points[:, columns] = np.stack(np.unravel_index(here, shape), axis=1)
        for predicate in concerned:
            admitted[here] &= predicate(points)
    return admitted.reshape(shape)
