"""Desks for the exact search: its work space, used again by the next question instead of being made anew."""

from __future__ import annotations

from typing import Any

import numpy as np

from ironrule.model.forest import Forest
from ironrule.oracles.climbing_kernels import Desk

DEPTH = 1024
CHUNK = 20_000


class Desks:
    """Desks that nobody works on, by the place of their forest; any thread may take one. They are not copied along."""

    __slots__ = ("_free",)

    def __init__(self) -> None:
        self._free: dict[int, list[Desk]] = {}

    def take(self, place: int, forest: Forest) -> Desk:
        """A desk for a forest; what is written on it is from another search."""
        try:
            return self._free[place].pop()
        except (KeyError, IndexError):  # none is free
            return new_desk(forest)

    def give(self, place: int, desk: Desk) -> None:
        """Put a desk back, with a log of the usual length."""
        usual = desk if len(desk.log) == CHUNK else desk._replace(log=np.empty(CHUNK, dtype=np.int64))
        self._free.setdefault(place, []).append(usual)

    def __reduce__(self) -> tuple[Any, ...]:
        return Desks, ()


def new_desk(forest: Forest) -> Desk:
    """A desk for a forest."""
    features, cells = len(forest.cells.cell_starts) - 1, int(forest.cells.cell_starts[-1])
    widest = int(np.diff(forest.cells.cell_starts).max())
    branches = widest + 2  # those that wait in a profile share out one feature's cells, and what lies beyond the last
    return Desk(
        np.empty((DEPTH, int(forest.cells.word_starts[-1])), dtype=np.uint64),
        np.empty((DEPTH, len(forest.root)), dtype=np.int64),
        np.empty(DEPTH, dtype=np.int64),
        np.zeros(features, dtype=np.int64),
        np.zeros(features, dtype=np.int64),
        np.zeros(4, dtype=np.int64),
        np.zeros(len(forest.margin_of)),
        np.zeros(len(forest.offset)),
        np.zeros(cells),
        np.zeros(cells),
        np.zeros(cells),
        np.zeros((256, features), dtype=np.int64),
        np.empty(CHUNK, dtype=np.int64),
        np.zeros(branches, dtype=np.int64),
        np.zeros((branches, int(np.diff(forest.cells.word_starts).max())), dtype=np.uint64),
        np.zeros((len(forest.margin_of), widest)),
        np.zeros(len(forest.root)),
        np.zeros(len(forest.root), dtype=np.uint64),
    )
