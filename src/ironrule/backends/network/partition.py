"""How a query's box is cut into sub-boxes, which form a cover in the end.

Sub-boxes are ranges of places among the open cells. Those in which nothing can occur are dropped: no combination of
values that the constraints permit lies in them. Of a feature that constraints mention every value is a cell of its
own, so a combination of values is one of places among the open cells. Combinations are sorted by their first place, so
that a sub-box looks at few of them. Where features tied together have too many combinations to be listed, nothing is
dropped, and points are looked at in the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ironrule.arrays import BoolArray, Int64Array
from ironrule.backends.network.compile import CompiledNetwork
from ironrule.backends.network.workspace import OpenCells
from ironrule.jit import kernel
from ironrule.model.normal_form.cells import Cells
from ironrule.rule.box import Box
from ironrule.space.constraints.feasible import FeasibleRegion, FeatureGroup
from ironrule.verdict.certificate import NO_SPLIT, Cover, CoverSplit, find_code_ranges


class SubBoxes(NamedTuple):
    """Some sub-boxes: their numbers, and per feature the first and the last place of their ranges."""

    number: Int64Array
    low: Int64Array  # sub-boxes x features
    high: Int64Array


@dataclass(slots=True, eq=False)
class BoxPartition:
    """How a box was cut: a binary tree of sub-boxes, and a stack of those that wait to be bounded.

    Sub-boxes are numbered as they arise. The halves of a sub-box have the numbers ``child`` and ``child + 1``; one
    that is not cut has none. Ranges of places are kept only for those that wait.
    """

    cells: Cells
    open_cells: OpenCells
    number: Int64Array  # of those that wait, the first `waiting` rows
    low: Int64Array
    high: Int64Array
    child: Int64Array  # of all: the number of the first half
    feature: Int64Array  # of all: which feature was cut
    place: Int64Array  # of all: the last place of the first half
    count: int = 1
    waiting: int = 1
    undecided: list[SubBoxes] = field(default_factory=list)  # with nothing left to cut but gaps

    @classmethod
    def build(cls, cells: Cells, open_cells: OpenCells, box: Box) -> BoxPartition:
        """The whole box, waiting."""
        n, room = len(box.low), 1024
        low, high = np.zeros((2, room, n), np.int64)
        high[0] = np.diff(open_cells.starts) - 1
        child, feature, place = np.full((3, room), NO_SPLIT, dtype=np.int64)
        return cls(
            cells=cells,
            open_cells=open_cells,
            number=np.zeros(room, np.int64),
            low=low,
            high=high,
            child=child,
            feature=feature,
            place=place,
        )

    @property
    def is_complete(self) -> bool:
        """Whether every sub-box is closed."""
        return self.waiting == 0 and not self.undecided

    @property
    def undecided_count(self) -> int:
        """How many sub-boxes can neither be closed nor cut."""
        return sum(len(some.number) for some in self.undecided)

    def list_open_ranges(self) -> tuple[Int64Array, Int64Array]:
        """The first and the last places of all sub-boxes that are not closed."""
        low = [self.low[: self.waiting], *(some.low for some in self.undecided)]
        high = [self.high[: self.waiting], *(some.high for some in self.undecided)]
        return np.concatenate(low), np.concatenate(high)

    @property
    def pieces(self) -> int:
        """How many boxes were not cut."""
        # Every cut adds two sub-boxes and makes one more piece: count = 1 + 2 * cuts, pieces = 1 + cuts.
        return self.count // 2 + 1

    def take(self, most: int) -> SubBoxes:
        """Take up to so many sub-boxes from the top of the stack (depth first, so that few wait at a time)."""
        start = max(0, self.waiting - most)
        some = slice(start, self.waiting)
        self.waiting = start
        return SubBoxes(self.number[some].copy(), self.low[some].copy(), self.high[some].copy())

    def put_back(self, some: SubBoxes) -> None:
        """Let those that were taken last wait again; nothing may have been cut since, so their rows are unchanged."""
        self.waiting += len(some.number)

    def set_aside(self, some: SubBoxes) -> None:
        """Keep sub-boxes that can neither be closed nor cut."""
        if len(some.number):
            self.undecided.append(some)

    def cut(self, parents: SubBoxes, cuts: Int64Array) -> None:
        """Cut sub-boxes in two, each after a place of a feature; the halves wait."""
        # Every parent gets two new numbers, side by side, and remembers where it was cut.
        two = 2 * len(parents.number)
        first = np.arange(self.count, self.count + two, 2)
        self.child = _ensure_rows(self.child, self.count + two)
        self.feature, self.place = (_ensure_rows(one, self.count + two) for one in (self.feature, self.place))
        feature, place = cuts[:, 0], cuts[:, 1]
        self.child[parents.number], self.feature[parents.number], self.place[parents.number] = first, feature, place
        self.low, self.high = (_ensure_rows(one, self.waiting + two) for one in (self.low, self.high))
        self.number = _ensure_rows(self.number, self.waiting + two)
        # Two rows of the stack per parent: copies of its range, shortened on the side of the cut.
        left, right = (slice(self.waiting + i, self.waiting + two, 2) for i in range(2))
        for half, numbers in ((left, first), (right, first + 1)):
            self.number[half], self.low[half], self.high[half] = numbers, parents.low, parents.high
        row = self.waiting + np.arange(0, two, 2)
        self.high[row, feature], self.low[row + 1, feature] = place, place + 1
        self.count += two
        self.waiting += two

    def cover(self) -> Cover:
        """The cover that the cuts make, once nothing waits."""
        known: dict[tuple[int, int], int] = {}
        tree, pending = list[int](), [0]
        # Walk the tree in preorder, the first half before the second: the form that covers are stored in. Equal splits
        # are stored once and named by their number.
        while pending:
            part = pending.pop()
            child = int(self.child[part])
            if child < 0:
                tree.append(NO_SPLIT)
                continue
            tree.append(known.setdefault((int(self.feature[part]), int(self.place[part])), len(known)))
            pending += [child + 1, child]
        return Cover(tuple(self._decode_split(*cut) for cut in known), tuple(tree))

    def _decode_split(self, feature: int, place: int) -> CoverSplit:
        """A feature, and the codes of the cells up to a place."""
        start = int(self.open_cells.starts[feature])
        upto = self.open_cells.cells[start : start + place + 1]
        of_code = self.cells.cell_by_code[self.cells.code_starts[feature] : self.cells.code_starts[feature + 1]]
        return feature, find_code_ranges(np.isin(of_code, upto))


def _ensure_rows(array: Int64Array, size: int) -> Int64Array:
    """An array with room for so many rows."""
    if size <= len(array):
        return array
    # At least double, so that the cost of all copies together stays linear.
    more = max(size, 2 * len(array)) - len(array)
    return np.concatenate([array, np.full((more, *array.shape[1:]), NO_SPLIT, dtype=np.int64)])


@kernel
def _unflag_infeasible(
    places: Int64Array, first: Int64Array, end: Int64Array, low: Int64Array, high: Int64Array, there: BoolArray
) -> None:
    """Unset the flag of every sub-box that holds no combination; those from `first` to `end` are to be looked at."""
    # A sub-box stays if one combination has all its places inside. `first` and `end` come from the sorted first column,
    # so few combinations are looked at; the search stops at the first that lies inside.
    for row in range(low.shape[0]):
        if not there[row]:
            continue
        found = False
        for k in range(first[row], end[row]):
            inside = True
            for c in range(places.shape[1]):
                if places[k, c] < low[row, c] or places[k, c] > high[row, c]:
                    inside = False
                    break
            if inside:
                found = True
                break
        there[row] = found


@dataclass(frozen=True, slots=True, eq=False)
class FeasibleCombinations:
    """What can occur in a query's box: per group of tied features their columns, and places of combinations."""

    groups: tuple[tuple[Int64Array, Int64Array], ...]

    @classmethod
    def build(
        cls, net: CompiledNetwork, open_cells: OpenCells, feasible: FeasibleRegion, box: Box
    ) -> FeasibleCombinations:
        """Find the places of all combinations that are listed."""
        listed = [group for group in feasible.groups if group.combinations is not None]
        return cls(tuple(_locate_combinations(net, open_cells, group, box) for group in listed))

    def keep_feasible(self, parts: SubBoxes) -> SubBoxes:
        """The sub-boxes in which a point that satisfies the constraints may lie."""
        if not self.groups:
            return parts
        there = np.ones(len(parts.number), dtype=np.bool_)
        # Groups do not share features, so a sub-box holds a feasible point only if every group has a combination in it.
        for columns, places in self.groups:
            low, high = (np.ascontiguousarray(ends[:, columns]) for ends in (parts.low, parts.high))
            first = np.searchsorted(places[:, 0], low[:, 0], side="left")
            end = np.searchsorted(places[:, 0], high[:, 0], side="right")
            _unflag_infeasible(places, first, end, low, high, there)
        return SubBoxes(*(one[there] for one in parts))


def _locate_combinations(
    net: CompiledNetwork, open_cells: OpenCells, group: FeatureGroup, box: Box
) -> tuple[Int64Array, Int64Array]:
    """The columns of a group, and its combinations in the box as places, sorted by the first of them."""
    columns, every = np.array(group.columns, dtype=np.int64), np.asarray(group.combinations)
    inside = ((every >= box.low[columns]) & (every <= box.high[columns])).all(axis=1)
    cells = net.cells.cell_by_code[every[inside] + net.cells.code_starts[columns]]
    # Every code of a constrained feature is a cell of its own, so code, cell and place name the same thing here; the
    # open cells of a feature are sorted, so a binary search finds the place.
    places = [
        np.searchsorted(open_cells.cells[open_cells.starts[j] : open_cells.starts[j + 1]], cells[:, place])
        for place, j in enumerate(columns.tolist())
    ]
    stacked = np.stack(places, axis=1).astype(np.int64)
    return columns, np.ascontiguousarray(stacked[np.argsort(stacked[:, 0], kind="stable")])
