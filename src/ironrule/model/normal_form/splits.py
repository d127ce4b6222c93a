"""Splits that are shared by many kinds of trees, and trees that are made of tables.

- :class:`ThresholdSplits`: the splits of a tree's nodes in arrays, so that a forest of a million nodes has no million
  objects. Nearly all splits of nearly all trees compare a column with a number. Which values go left then changes
  only where the threshold passes one of them. So of all numeric splits of a column, one of each rank among the
  column's values is enough: that one is made an object and asked (:func:`group_equivalent_thresholds`).
- :class:`CodeRangeSplit`: splits of a feature's codes themselves, instead of the columns that a model sees; and the
  balanced trees over them.
- :class:`LookupSplit`: tables of points as trees, of what one column adds by its bin, or two together by both their
  bins. Neighbouring places with the same points are one leaf, so that a search has no more to tell apart than the
  model has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ironrule.arrays import AnyArray, BoolArray, Float64Array, Int32Array, IntpArray
from ironrule.model.normal_form.tree_sum import Tree, TreeSplit, TreeSplits

SplitFactory = Callable[[int, float, int], TreeSplit]  # makes the split of a column, a threshold and a kind


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdSplits:
    """Per node its column (-1 for a leaf), threshold and kind; ``other_splits`` has those of nodes that ask otherwise.

    ``kind`` is whatever else the answer depends on, such as where missing values go. Made splits must answer for a
    value x by comparing x, x as float32 or 0 with the threshold, and by nothing else of the threshold than the outcome;
    so a threshold that the library rounds before it compares comes rounded.
    """

    column: Int32Array
    threshold: Float64Array
    kind: Int32Array
    make_split: SplitFactory
    other_splits: Mapping[int, TreeSplit] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.column)

    def __iter__(self) -> Iterator[TreeSplit | None]:
        return (self[node] for node in range(len(self)))

    def __getitem__(self, node: int, /) -> TreeSplit | None:
        if self.column[node] < 0:
            return self.other_splits.get(node)
        return self.make_split(int(self.column[node]), float(self.threshold[node]), int(self.kind[node]))

    def move_columns(self, columns: Sequence[int], move: Callable[[TreeSplit], TreeSplit]) -> ThresholdSplits:
        """The same splits where column k of these is ``columns[k]``; ``move`` does that for a single split."""
        moved, known = self.column.copy(), self.column >= 0  # a tree may be a single leaf
        moved[known] = np.asarray(columns, dtype=np.int32)[self.column[known]]
        others = {node: move(split) for node, split in self.other_splits.items()}
        return replace(self, column=moved, other_splits=others)


def list_split_columns(splits: TreeSplits) -> set[int]:
    """The columns that the splits of a tree ask about."""
    if not isinstance(splits, ThresholdSplits):
        return {split.column for split in splits if split is not None}
    others = {split.column for split in splits.other_splits.values()}
    return others | {*np.unique(splits.column[splits.column >= 0]).tolist()}


def group_equivalent_thresholds(thresholds: Float64Array, kinds: Int32Array, values: AnyArray) -> tuple[IntpArray, ...]:
    """Numeric splits of one column, in classes of equal answers: a split of each class, the class of each split."""
    with np.errstate(over="ignore"):
        marks = np.unique(np.concatenate([values.astype(np.float64), values.astype(np.float32), [0.0]]))
    marks = marks[~np.isnan(marks)]
    ranks = np.searchsorted(marks, thresholds, "left") + np.searchsorted(marks, thresholds, "right")
    keys = 2 * ranks.astype(np.int64) + np.isnan(thresholds)
    keys = keys * (int(kinds.max(initial=0)) + 1) + kinds
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return first, inverse.ravel()


@dataclass(slots=True, eq=False)
class TreeBuilder:
    """A tree that grows node by node, parents first; ``left`` and ``right`` are set once the children are numbered."""

    splits: list[TreeSplit | None] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def add(self, split: TreeSplit | None, value: float = 0.0) -> int:
        """Add a node, a leaf so far; its number."""
        self.splits.append(split)
        self.left.append(-1)
        self.right.append(-1)
        self.values.append(value)
        return len(self.splits) - 1

    def build(self) -> Tree:
        """The tree of all nodes that were added."""
        left, right = (np.array(side, dtype=np.int32) for side in (self.left, self.right))
        return Tree(tuple(self.splits), left, right, np.array(self.values))


@dataclass(frozen=True, slots=True, eq=False)
class CodeRangeSplit:
    """A split of a feature's codes by their places in an order: those from ``start`` on and before ``end`` go left."""

    feature: int
    positions: IntpArray  # per code; shared by all splits of a tree
    start: int
    end: int
    column: int = -1  # none that the model sees

    def goes_left(self, values: AnyArray) -> BoolArray:  # noqa: ARG002  # answered by position
        """Which codes go left."""
        return np.asarray((self.positions >= self.start) & (self.positions < self.end))


def build_code_tree(feature: int, values: Float64Array) -> Tree:
    """The tree that gives every code of a feature its value; equal values share a leaf."""
    distinct, places = np.unique(values, return_inverse=True)
    return build_class_tree(feature, distinct, places.ravel())


def build_class_tree(feature: int, values: Float64Array, places: IntpArray) -> Tree:
    """A balanced tree over a feature's codes with a leaf for every class; ``places`` has the class of every code."""
    builder = TreeBuilder()
    spans = [(0, len(values))]
    for start, end in spans:  # one node each, level by level: the spans of its two children join the list
        if end - start == 1:
            builder.add(None, float(values[start]))
            continue
        middle = (start + end) // 2
        node = builder.add(CodeRangeSplit(feature, places, start, middle))
        builder.left[node], builder.right[node] = len(spans), len(spans) + 1
        spans += [(start, middle), (middle, end)]
    return builder.build()


@dataclass(frozen=True, slots=True, eq=False)
class Lookup:
    """How a column's values are put into places 0, 1, ... of a table."""

    column: int
    locate: Callable[[AnyArray], IntpArray]
    is_increasing: bool = False  # whether larger numbers never have smaller places
    cached: list[tuple[AnyArray, IntpArray]] = field(default_factory=list)

    def find_places(self, values: AnyArray) -> IntpArray:
        """The places of values; those of the values asked about last are remembered, since every split asks again."""
        last = self.cached[0] if self.cached else None
        if last is None or last[0] is not values:
            last = (values, self.locate(values))
            self.cached[:] = [last]
        return last[1]


@dataclass(frozen=True, slots=True)
class LookupSplit:
    """A split: places before ``end`` go left."""

    lookup: Lookup
    end: int

    @property
    def turns_once(self) -> bool:
        """As the places do."""
        return self.lookup.is_increasing

    @property
    def column(self) -> int:
        """The column's position."""
        return self.lookup.column

    def goes_left(self, values: AnyArray) -> BoolArray:
        """Which of these values of the column go left."""
        return np.asarray(self.lookup.find_places(values) < self.end, dtype=np.bool_)


def build_table_tree(lookups: Sequence[Lookup], points: Float64Array) -> Tree:
    """The tree of a table with one axis per column: the first axis is halved until it is settled, then the next."""
    builder = TreeBuilder()

    def add_table(points: Float64Array) -> int:
        """Add a table over the last axes; the node where it begins."""
        if points.ndim == 0:
            return builder.add(None, float(points))
        rows = points.reshape(len(points), -1)
        changes = np.flatnonzero((rows[1:] != rows[:-1]).any(axis=1)) + 1
        return add_span(points, [0, *changes.tolist(), len(points)])

    def add_span(points: Float64Array, marks: list[int]) -> int:
        """Add the places between the first mark and the last; points change only at marks."""
        if len(marks) == 2:
            return add_table(points[marks[0]])
        middle = len(marks) // 2
        node = builder.add(LookupSplit(lookups[len(lookups) - points.ndim], marks[middle]))
        builder.left[node] = add_span(points, marks[: middle + 1])
        builder.right[node] = add_span(points, marks[middle:])
        return node

    add_table(points)
    return builder.build()
