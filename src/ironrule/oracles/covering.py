"""From the log of a branch and bound to a cover: cells become codes, so that a checker needs to know no cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ironrule.model.cells import Cells
from ironrule.verdict import Cover
from ironrule.verdict.certificate import CLOSED, Range, Split

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Log:
    """What a finished search has written: its boxes in order, closed ones and how the others were split."""

    cells: Cells
    entries: Ints

    @property
    def pieces(self) -> int:
        """How many boxes were closed."""
        return len(self.entries) // 2 + 1

    def cover(self) -> Cover:
        """The cover that this is."""
        split = self.entries != CLOSED
        distinct, places = np.unique(self.entries[split], return_inverse=True)
        tree = np.full(len(self.entries), CLOSED, dtype=np.int64)
        tree[split] = places.ravel()
        return Cover(tuple(_split(self.cells, entry) for entry in distinct.tolist()), tuple(tree.tolist()))


def _split(cells: Cells, entry: int) -> Split:
    """A feature, and the codes of the part that was looked at first."""
    cell, upper = divmod(entry, 2)
    feature = int(np.searchsorted(cells.cell_starts, cell, side="right")) - 1
    start, end = cells.code_starts[feature], cells.code_starts[feature + 1]
    low = cells.cell_of[start:end] <= cell - cells.cell_starts[feature]
    return feature, _ranges(~low if upper else low)


def _ranges(flags: npt.NDArray[np.bool_]) -> tuple[Range, ...]:
    """The runs of neighbouring codes that are in."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags, [0]])))
    return tuple((first, end - 1) for first, end in edges.reshape(-1, 2).tolist())
