"""Counting past rows in many boxes that lie inside one: the rows in that one are found once, and only they are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.model.history import History
from ironrule.rule import Box

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Census:
    """Past rows, as far as some features tell them apart."""

    columns: tuple[npt.NDArray[Any], ...]
    places: Integers  # where in memory every column begins
    widths: Integers  # how many bytes a code of it takes
    features: Integers  # which feature it is of
    sizes: npt.NDArray[np.int32]  # how many codes that has
    rows: int

    @classmethod
    def of(cls, history: History, sizes: npt.NDArray[np.int32]) -> Census:
        """All past rows."""
        known = history.codes.columns, history.places, history.sizes
        return cls(*known, np.arange(len(sizes)), sizes, len(history))

    def covered(self, box: Box) -> int:
        """How many of the rows lie in a box."""
        from ironrule.rule.count_kernels import count_inside

        return count_inside(*self._asked(box))

    def covered_by_each(self, boxes: Box) -> Integers:
        """How many of the rows lie in each of many boxes."""
        from ironrule.rule.count_kernels import count_inside_each

        counts = np.empty(len(boxes.low), dtype=np.int64)
        count_inside_each(counts, *self._asked(boxes))
        return counts

    def within(self, box: Box, features: Sequence[int]) -> Census:
        """The rows in a box, to be counted in boxes inside it that differ from it in some features alone."""
        from ironrule.rule.count_kernels import list_inside

        found = np.empty(self.covered(box) + 1, dtype=np.int64)
        list_inside(found, *self._asked(box))
        chosen = np.array([np.flatnonzero(self.features == feature)[0] for feature in features], dtype=np.int64)
        columns = tuple(self.columns[place][found[:-1]] for place in chosen)
        places = np.array([column.ctypes.data for column in columns], dtype=np.int64)
        return Census(columns, places, self.widths[chosen], self.features[chosen], self.sizes[chosen], len(found) - 1)

    def _asked(self, box: Box) -> tuple[Any, ...]:
        restricted = box.low[..., self.features], box.high[..., self.features]
        return (self.places, self.widths), restricted, self.sizes, self.rows
