"""Pieces of the space: for every piece and every feature the codes that are left."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """``sets[j]`` has the distinct sets of feature j, one row of flags over its codes each; ``rows`` has for every
    piece the numbers of its sets. No set is empty: a piece with nothing in it needs no proof.
    """

    sets: tuple[Mask, ...]
    rows: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.rows)

    def codes(self, piece: int) -> list[npt.NDArray[np.intp]]:
        """For every feature the codes of one piece."""
        return [np.flatnonzero(sets[row]) for sets, row in zip(self.sets, self.rows[piece], strict=True)]

    def some(self, chosen: npt.NDArray[np.intp]) -> Pieces:
        """Some of the pieces."""
        return Pieces(self.sets, self.rows[chosen])
