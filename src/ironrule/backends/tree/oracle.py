"""The exact oracle for decision trees: the desired leaves are boxes, and everything about them follows at once.

The dual of a box is the set of the instance's components that exclude all of it, and a rule is consistent exactly if
it has one of each desired leaf's dual (:mod:`ironrule.backends.tree.compile` says why single components are enough).
So this oracle not only decides every box, it lists all duals that a rule must hit: the minimum rule of a decision tree
is one minimum hitting set, without a query.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ironrule.arrays import BoolArray, Points, UInt64Array
from ironrule.backends.forest.compile import CompiledForest
from ironrule.backends.forest.oracle import ForestOracle
from ironrule.backends.tree.compile import (
    LeafTree,
    choose_diverse_sets,
    fill_nearest_points,
    flag_desired,
    list_duals,
    list_leaves,
)
from ironrule.errors import ModelError
from ironrule.hitting.bits import count_words
from ironrule.interrupts import InterruptFlag
from ironrule.oracles.protocol import BoxQuery, Capabilities, Case, CompleteDuals, Run
from ironrule.rule.box import Box
from ironrule.verdict.budget import Meter
from ironrule.verdict.certificate import Cover
from ironrule.verdict.verdict import Verdict


@dataclass(frozen=True, slots=True, eq=False)
class TreeOracle:
    """Decides boxes by the desired leaves that they meet. It is a model too: the tree that the model has confirmed."""

    tree: LeafTree
    forests: tuple[CompiledForest, ...]

    @property
    def capabilities(self) -> Capabilities:
        """It lists all duals, and decides points."""
        return Capabilities(enumerator=self, point_model=self)

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        """Up to k counterfactuals, disjoint duals first, then small ones; ``Proven`` if no desired leaf meets it."""
        case, box = query.case, query.box
        run.meter.check()
        # No dual means that no desired leaf has a point in the box, which proves it at once.
        duals, leaves = self._list_duals(case, box)
        if len(leaves) == 0:
            return case.build_proven(box, 0, tuple(LazyCover(forest, case, box) for forest in self.forests))
        points = self._find_nearest(case, box, leaves)
        chosen = np.empty(query.k, dtype=np.int64)
        return case.build_refuted(points[chosen[: choose_diverse_sets(duals, chosen)]])

    def enumerate_duals(self, case: Case, run: Run) -> CompleteDuals:  # noqa: ARG002  # one walk, too short to be stopped
        """One counterfactual for every minimal dual of a leaf."""
        box = case.components.box(0)
        duals, leaves = self._list_duals(case, box)
        return CompleteDuals(self._find_nearest(case, box, leaves), duals)

    def find_nearest_points(self, case: Case, box: Box) -> Points:
        """For every desired leaf with a point in the box, which holds the instance, the one nearest to the instance."""
        tree, found = self.tree, np.empty(self.tree.leaf_count, dtype=np.int32)
        stack = np.empty(tree.stack_size, dtype=np.int32)
        count = list_leaves(tree.nodes, tree.masks, (box.low, box.high), stack, found)
        return self._find_nearest(case, box, found[:count])

    def desired(self, points: Points) -> BoolArray:
        """Which points lie in a desired leaf."""
        flags = np.zeros(len(points), dtype=np.bool_)
        flag_desired(self.tree.nodes, self.tree.masks, points, np.empty(self.tree.stack_size, dtype=np.int32), flags)
        return flags

    def _list_duals(self, case: Case, box: Box) -> tuple[UInt64Array, Points]:
        """The minimal duals of the leaves in a box, and a leaf for each."""
        tree, words = self.tree, count_words(len(case.space))
        # Room for one dual per leaf, and for the longest walk; one more row of duals is scratch for the kernel.
        found, leaves = np.empty((tree.leaf_count, words), dtype=np.uint64), np.empty(tree.leaf_count, dtype=np.int32)
        stack, duals = np.empty(tree.stack_size, np.int32), np.empty((tree.stack_size + 1, words), np.uint64)
        ends, bounds, wide = (box.low, box.high), (case.components.low, case.components.high), (0,) * words
        count = list_duals(tree.nodes, tree.masks, ends, bounds, found, leaves, stack, duals, wide)
        return found[:count], leaves[:count]

    def _find_nearest(self, case: Case, box: Box, leaves: Points) -> Points:
        """For every leaf its point in the box that is nearest to the instance."""
        points = np.empty((len(leaves), len(case.space)), dtype=np.int32)
        fill_nearest_points(self.tree.nodes, self.tree.masks, leaves, case.instance, (box.low, box.high), points)
        return points


@dataclass(frozen=True, slots=True, eq=False)
class LazyCover:
    """The proof of a box as a cover, computed only when it is needed."""

    forest: CompiledForest
    case: Case
    box: Box

    def cover(self) -> Cover:
        """The cover that branch and bound finds for the same box."""
        meter = Meter(interrupt_flag=InterruptFlag())  # an interrupted search still shows what it has proven
        query, run = BoxQuery(self.case, self.box), Run(meter, np.random.default_rng(0))
        answer = ForestOracle((self.forest,)).find_or_prove(query, run)
        if not isinstance(answer, tuple):
            raise ModelError("two exact searches disagree about a box", hint="please report this model")
        return answer[0].cover()
