"""Which columns of a table that comes in chunks may be a one-hot group: exactly one 1 in every row, as far as seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Positions = Mapping[str, npt.NDArray[np.int64]]


@dataclass(slots=True)
class HotGroup:
    """Columns that share a prefix. ``patterns`` are the distinct rows seen while the group is one, as positions;
    ``broken`` is the first row that no one-hot group has.
    """

    names: Sequence[str]
    patterns: list[tuple[int, ...]] = field(default_factory=list)
    broken: tuple[int, ...] | None = None

    def add(self, positions: Positions, hot: Mapping[str, npt.NDArray[np.bool_] | None]) -> None:
        """Take a chunk: the positions of its rows, and for every column which of them are a 1; None if others occur."""
        if self.broken is not None:
            return
        flags = [hot[name] for name in self.names]
        ones = [flag[positions[name]] for flag, name in zip(flags, self.names, strict=True) if flag is not None]
        if len(ones) < len(self.names):
            self.broken = self._row(positions, 0)
            return
        wrong = np.flatnonzero(np.sum(ones, axis=0) != 1)
        if len(wrong):
            self.broken = self._row(positions, int(wrong[0]))
            return
        for column in ones:
            seen = np.flatnonzero(column)
            if len(seen):
                pattern = self._row(positions, int(seen[0]))
                self.patterns += [] if pattern in self.patterns else [pattern]

    def _row(self, positions: Positions, place: int) -> tuple[int, ...]:
        return tuple(int(positions[name][place]) for name in self.names)
