"""The tests of a tree's nodes in arrays: a forest of a million nodes has no million objects.

Nearly all tests of nearly all trees compare a column with a number. Which values go left then changes only where the
threshold passes one of them. So of all numeric tests of a column, one of each rank among the column's values is enough:
that one is made an object and asked (:meth:`Thresholds.alike`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.model.reading import Floats, Ints, Test

Make = Callable[[int, float, int], Test]
"""The test of a column, a threshold and a kind."""


@dataclass(frozen=True, slots=True, eq=False)
class Thresholds:
    """Per node its column (-1 for a leaf), threshold and kind; ``others`` has the tests of nodes that ask otherwise.

    ``kind`` is whatever else the answer depends on, such as where missing values go. Made tests must answer for a value
    x by comparing x, x as float32 or 0 with the threshold, and by nothing else of the threshold than the outcome; so
    a threshold that the library rounds before it compares comes rounded.
    """

    column: Ints
    threshold: Floats
    kind: Ints
    make: Make
    others: Mapping[int, Test] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.column)

    def __iter__(self) -> Iterator[Test | None]:
        return (self[node] for node in range(len(self)))

    def __getitem__(self, node: int, /) -> Test | None:
        if self.column[node] < 0:
            return self.others.get(node)
        return self.make(int(self.column[node]), float(self.threshold[node]), int(self.kind[node]))

    def moved(self, columns: Sequence[int], move: Callable[[Test], Test]) -> Thresholds:
        """The same tests where column k of these is ``columns[k]``; ``move`` does that for a single test."""
        moved = np.where(self.column < 0, -1, np.asarray(columns, dtype=np.int32)[self.column]).astype(np.int32)
        return replace(self, column=moved, others={node: move(test) for node, test in self.others.items()})


def alike(thresholds: Floats, kinds: Ints, values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.intp], ...]:
    """Numeric tests of one column in classes of the same answers for these values: a test of each class, and the class
    of each test.
    """
    with np.errstate(over="ignore"):
        marks = np.unique(np.concatenate([values.astype(np.float64), values.astype(np.float32), [0.0]]))
    marks = marks[~np.isnan(marks)]
    ranks = np.searchsorted(marks, thresholds, "left") + np.searchsorted(marks, thresholds, "right")
    keys = 2 * ranks.astype(np.int64) + np.isnan(thresholds)
    _, first, inverse = np.unique(
        keys * (int(kinds.max(initial=0)) + 1) + kinds, return_index=True, return_inverse=True
    )
    return first, inverse.ravel()
