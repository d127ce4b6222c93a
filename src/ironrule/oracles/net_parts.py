"""The parts of a box that a question about a network has come to, and the cover that they are in the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ironrule.model.cells import Cells
from ironrule.model.net import Net
from ironrule.oracles.net_deciding_kernels import bound_boxes
from ironrule.oracles.net_room import Opened, room_for
from ironrule.oracles.threads import all_done, cores
from ironrule.rule import Box
from ironrule.verdict import Cover
from ironrule.verdict.certificate import CLOSED, Range, Split

Ints = npt.NDArray[np.int64]

ALONE = 16  # boxes that are not worth a second thread


class Outcome(NamedTuple):
    """What was found for each of some boxes."""

    status: Ints
    cuts: Ints
    points: Ints


def bounded(net: Net, opened: Opened, low: Ints, high: Ints) -> Outcome:
    """Bound boxes, on all cores."""
    count, n = low.shape
    outcome = Outcome(np.zeros(count, np.int64), np.zeros((count, 2), np.int64), np.zeros((count, n), np.int64))
    threads = min(cores(), -(-count // ALONE))
    slices = [slice(count * i // threads, count * (i + 1) // threads) for i in range(threads)]

    def run(some: slice) -> Callable[[], None]:
        arrays = [array[some] for array in outcome]
        return lambda: bound_boxes(net, opened, low[some], high[some], room_for(net, n), *arrays)

    all_done([run(some) for some in slices])
    return outcome


class Taken(NamedTuple):
    """Some parts that waited: which they are, and their ranges of open cells."""

    number: Ints
    low: Ints
    high: Ints


@dataclass(slots=True, eq=False)
class Parts:
    """How a box was cut: every part into the two that come at ``child``, or not at all. Of those that wait, the ranges
    of open cells are kept.
    """

    cells: Cells
    opened: Opened
    number: Ints  # of those that wait
    low: Ints
    high: Ints
    child: Ints  # of all
    feature: Ints
    place: Ints
    count: int = 1
    waiting: int = 1

    @classmethod
    def of(cls, cells: Cells, opened: Opened, box: Box) -> Parts:
        """The whole box, waiting."""
        n, room = len(box.low), 1024
        low, high = np.zeros((2, room, n), np.int64)
        high[0] = np.diff(opened.starts) - 1
        child, feature, place = np.full((3, room), CLOSED, dtype=np.int64)
        return cls(cells, opened, np.zeros(room, np.int64), low, high, child, feature, place)

    @property
    def pieces(self) -> int:
        """How many boxes were not cut."""
        return self.count // 2 + 1

    def taken(self, most: int) -> Taken:
        """Some of those that wait, the latest first."""
        start = max(0, self.waiting - most)
        some = slice(start, self.waiting)
        self.waiting = start
        return Taken(self.number[some].copy(), self.low[some].copy(), self.high[some].copy())

    def put_back(self, some: Taken) -> None:
        """Let those that were taken last wait again."""
        self.waiting += len(some.number)

    def cut(self, parents: Taken, cuts: Ints) -> None:
        """Cut boxes in two, each after a place of a feature; the halves wait."""
        two = 2 * len(parents.number)
        first = np.arange(self.count, self.count + two, 2)
        self.child = _grown(self.child, self.count + two)
        self.feature, self.place = (_grown(one, self.count + two) for one in (self.feature, self.place))
        feature, place = cuts[:, 0], cuts[:, 1]
        self.child[parents.number], self.feature[parents.number], self.place[parents.number] = first, feature, place
        self.low, self.high = (_grown(one, self.waiting + two) for one in (self.low, self.high))
        self.number = _grown(self.number, self.waiting + two)
        left, right = (slice(self.waiting + i, self.waiting + two, 2) for i in range(2))
        for half, numbers in ((left, first), (right, first + 1)):
            self.number[half], self.low[half], self.high[half] = numbers, parents.low, parents.high
        row = self.waiting + np.arange(0, two, 2)
        self.high[row, feature], self.low[row + 1, feature] = place, place + 1
        self.count += two
        self.waiting += two

    def cover(self) -> Cover:
        """The cover that this is, when nothing waits."""
        known: dict[tuple[int, int], int] = {}
        tree, pending = list[int](), [0]
        while pending:
            part = pending.pop()
            child = int(self.child[part])
            if child < 0:
                tree.append(CLOSED)
                continue
            tree.append(known.setdefault((int(self.feature[part]), int(self.place[part])), len(known)))
            pending += [child + 1, child]
        return Cover(tuple(self._split(*cut) for cut in known), tuple(tree))

    def _split(self, feature: int, place: int) -> Split:
        """A feature, and the codes of the cells up to a place."""
        start = int(self.opened.starts[feature])
        upto = self.opened.cells[start : start + place + 1]
        of_code = self.cells.cell_of[self.cells.code_starts[feature] : self.cells.code_starts[feature + 1]]
        return feature, _ranges(np.isin(of_code, upto))


def _grown(array: Ints, size: int) -> Ints:
    """An array with room for so many rows."""
    if size <= len(array):
        return array
    more = max(size, 2 * len(array)) - len(array)
    return np.concatenate([array, np.full((more, *array.shape[1:]), CLOSED, dtype=np.int64)])


def _ranges(flags: npt.NDArray[np.bool_]) -> tuple[Range, ...]:
    """The runs of neighbouring codes that are in."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags, [0]])))
    return tuple((first, end - 1) for first, end in edges.reshape(-1, 2).tolist())
