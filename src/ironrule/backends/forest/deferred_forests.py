"""Forests that are compiled when a proof first needs them.

A sum of single columns' contributions tells all values of its features apart. Compiled, every value is a cell, and time
and memory grow with the square of their number: for 28,519 values seconds and hundreds of megabytes. Points are decided
without that, by adding up, and so are nearest counterfactuals (:mod:`ironrule.backends.additive`). So what such a sum
is compiled to waits until an oracle is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, overload

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, Int64Array, Points
from ironrule.backends.forest.compile import CompiledForest, compile_tree_sum
from ironrule.backends.forest.leaf_boxes import MAX_MASK_BYTES
from ironrule.clock import WORK_CLOCK
from ironrule.model.normal_form.cells import MAX_SPLIT_BYTES
from ironrule.model.normal_form.separable import FeatureContribution, SeparableMargin, split_by_feature
from ironrule.model.read_model import TabulatedModel
from ironrule.space.constraints.feasible import FeasibleRegion
from ironrule.space.space import Space

MANY_VALUES = 4096  # of one feature; with fewer, compiling takes no time


class Contributions(NamedTuple):
    """What each code of every feature adds, the tables of all features end to end, and the limits of the sums."""

    values: Float64Array
    starts: Int64Array
    least: float
    sure: float


@dataclass(frozen=True, slots=True, eq=False)
class DeferredForests(Sequence[CompiledForest]):
    """The forests of a model, one per alternative; ``compiled`` has them once they were needed, and ``added_up`` what
    single points are decided by.
    """

    model: TabulatedModel
    margin: SeparableMargin
    space: Space
    feasible: FeasibleRegion
    compiled: list[tuple[CompiledForest, ...]] = field(default_factory=list)
    added_up: list[Contributions] = field(default_factory=list)

    def __len__(self) -> int:
        return 1  # what splits by features has one alternative

    @overload
    def __getitem__(self, place: int) -> CompiledForest: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[CompiledForest, ...]: ...

    def __getitem__(self, place: int | slice) -> CompiledForest | tuple[CompiledForest, ...]:
        return self._compile()[place]

    def __iter__(self) -> Iterator[CompiledForest]:
        return iter(self._compile())

    def _compile(self) -> tuple[CompiledForest, ...]:
        if not self.compiled:
            with WORK_CLOCK.pause():  # once per model, and not charged to the search that happens to be the first
                forests = compile_tree_sum(self.model.tree_sum, self.model.columns, self.space, self.feasible)
            self.compiled.append(forests)
        return self.compiled[0]

    def decide_points(self, points: Points) -> tuple[BoolArray, BoolArray]:
        """Which points may be desired, and which surely are, by adding up what every feature adds."""
        if not self.added_up:
            self.added_up.append(self._tabulate())
        table = self.added_up[0]
        total = table.values[table.starts + points].sum(axis=1)
        return total > table.least, total > table.sure

    def _tabulate(self) -> Contributions:
        each = [self._tabulate_feature(j) for j in range(len(self.space))]
        starts = np.cumsum([0, *(len(one.values) for one in each[:-1])], dtype=np.int64)
        return Contributions(np.concatenate([one.values for one in each]), starts, *self.margin.find_limits(each))

    def _tabulate_feature(self, j: int) -> FeatureContribution:
        """What each code of a feature adds."""
        columns = self.model.columns
        own = {column: columns.values[column] for column in np.flatnonzero(columns.features == j).tolist()}
        return self.margin.evaluate(j, own, int(self.space.sizes[j]))


def defer_forests(model: TabulatedModel, space: Space, feasible: FeasibleRegion) -> DeferredForests | None:
    """The forests of a sum of single columns' contributions with many values; None of any other model, and where the
    compiled form might be too large: compiling it at once reports that early.
    """
    sizes = space.sizes.tolist()
    if max(sizes, default=0) <= MANY_VALUES or feasible.groups:
        return None
    # A feature with so many values has at most one split for each, and two masks, of a bit per value.
    if sum(size * (size + 7) // 8 for size in sizes) > MAX_SPLIT_BYTES:
        return None
    if max(sizes) * (max(sizes) + 63) // 64 * 16 > MAX_MASK_BYTES:
        return None
    margin = split_by_feature(model.tree_sum, model.columns.features)
    if margin is None or any(margin.has_trees(j) for j in range(len(space))):
        return None
    return DeferredForests(model, margin, space, feasible)
