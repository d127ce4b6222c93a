"""What can occur: pieces that no point satisfying the constraints on the space lies in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ironrule.space import Feasible, Points
from ironrule.verdict.checker.pieces import Pieces

MOST_COMBINATIONS = 20_000_000
MOST_DIMENSIONS = 32  # of a NumPy array
CHUNK = 1 << 18

Flags = npt.NDArray[np.bool_]
Codes = Sequence[npt.NDArray[np.intp]]


@dataclass(frozen=True, slots=True, eq=False)
class Tied:
    """Features that constraints tie together, and which of their combinations satisfy them."""

    columns: tuple[int, ...]
    admitted: Flags


@dataclass(frozen=True, slots=True, eq=False)
class Occurring:
    """The constraints on a space, group by group; groups of too many combinations are ``unlisted``."""

    feasible: Feasible
    groups: tuple[Tied, ...]
    unlisted: bool

    def holds_any(self, pieces: Pieces) -> Flags:
        """Which pieces have a point that can occur, as far as this can be seen."""
        return np.array([self._has(pieces, piece) for piece in range(len(pieces))], dtype=np.bool_)

    def _has(self, pieces: Pieces, piece: int) -> bool:
        codes = pieces.codes(piece)
        return all(_chosen(group, codes).any() for group in self.groups)

    def point(self, codes: Codes, start: Points) -> Points | None:
        """A point that can occur among the combinations of these codes, the start's codes where nothing is tied;
        None if there is none, or none could be found.
        """
        point = start.copy()
        for group in self.groups:
            places = np.argwhere(_chosen(group, codes))
            if len(places) == 0:
                return None
            point[list(group.columns)] = [codes[j][place] for j, place in zip(group.columns, places[0], strict=True)]
        return point if self.feasible.admits(point[None, :])[0] else None


def _chosen(group: Tied, codes: Codes) -> Flags:
    return np.asarray(group.admitted[np.ix_(*(codes[j] for j in group.columns))])


def occurring_in(feasible: Feasible) -> Occurring:
    """List what the constraints admit."""
    listed = [group.columns for group in feasible.groups if _can_list(feasible, group.columns)]
    groups = tuple(Tied(columns, _admitted(feasible, columns)) for columns in listed)
    return Occurring(feasible, groups, len(groups) < len(feasible.groups))


def _can_list(feasible: Feasible, columns: tuple[int, ...]) -> bool:
    return len(columns) <= MOST_DIMENSIONS and math.prod(feasible.sizes[j] for j in columns) <= MOST_COMBINATIONS


def _admitted(feasible: Feasible, columns: tuple[int, ...]) -> Flags:
    """Which combinations of the features satisfy every constraint that speaks of them."""
    shape = tuple(feasible.sizes[j] for j in columns)
    concerned = [predicate for predicate in feasible.predicates if set(predicate.columns) & set(columns)]
    admitted = np.ones(math.prod(shape), dtype=np.bool_)
    for start in range(0, len(admitted), CHUNK):
        here = np.arange(start, min(start + CHUNK, len(admitted)))
        points = np.zeros((len(here), len(feasible.sizes)), dtype=np.int32)
        points[:, columns] = np.stack(np.unravel_index(here, shape), axis=1)
        for predicate in concerned:
            admitted[here] &= predicate(points)
    return admitted.reshape(shape)
