"""The exact oracle for decision trees: the desired leaves are boxes, and everything about them follows at once.

The dual of a box is the set of the instance's components that exclude all of it, and a rule is consistent exactly if it
has one of each desired leaf's dual (:mod:`ironrule.oracles.leaf_tree` says why single components are enough). So this
oracle not only decides every box, it lists all that a rule must hit: the minimum rule of a decision tree is one minimum
hitting set, without a question.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ironrule.errors import ModelError
from ironrule.model.forest import Forest
from ironrule.oracles.ensemble import Ensemble
from ironrule.oracles.leaf_tree import LeafTree
from ironrule.oracles.leaves_kernels import choose_diverse, fill_nearest, flag_desired, list_duals, list_leaves
from ironrule.oracles.protocol import Case, Witnesses
from ironrule.rule import Box
from ironrule.rule.bits import width
from ironrule.space import Points
from ironrule.verdict import Cover, Meter, Verdict

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class Leaves:
    """Decides boxes by the desired leaves that they meet. It is a model too: the tree that the model has confirmed."""

    tree: LeafTree
    forests: tuple[Forest, ...]

    def find(self, case: Case, box: Box, k: int, meter: Meter, rng: np.random.Generator) -> Verdict:  # noqa: ARG002
        """Up to k counterfactuals, disjoint duals first, then small ones; ``Proven`` if no desired leaf meets it."""
        meter.check()
        duals, leaves = self._duals(case, box)
        if len(leaves) == 0:
            return case.proven(box, 0, tuple(Retold(forest, case, box) for forest in self.forests))
        points = self._nearest(case, box, leaves)
        chosen = np.empty(k, dtype=np.int64)
        return case.refuted(points[chosen[: choose_diverse(duals, chosen)]])

    def witnesses(self, case: Case) -> Witnesses | None:
        """One counterfactual for every minimal dual of a leaf."""
        box = case.relevant.box(0)
        duals, leaves = self._duals(case, box)
        return Witnesses(self._nearest(case, box, leaves), duals)

    def nearest_points(self, case: Case, box: Box) -> Points:
        """For every desired leaf with a point in the box, which holds the instance, the one nearest to the instance."""
        tree, found = self.tree, np.empty(self.tree.leaves, dtype=np.int32)
        stack = np.empty(tree.room, dtype=np.int32)
        return self._nearest(case, box, found[: list_leaves(tree.nodes, tree.masks, (box.low, box.high), stack, found)])

    def desired(self, points: Points) -> npt.NDArray[np.bool_]:
        """Which points lie in a desired leaf."""
        flags = np.zeros(len(points), dtype=np.bool_)
        flag_desired(self.tree.nodes, self.tree.masks, points, np.empty(self.tree.room, dtype=np.int32), flags)
        return flags

    def _duals(self, case: Case, box: Box) -> tuple[Words, Points]:
        """The minimal duals of the leaves in a box, and a leaf for each."""
        tree, words = self.tree, width(len(case.space))
        found, leaves = np.empty((tree.leaves, words), dtype=np.uint64), np.empty(tree.leaves, dtype=np.int32)
        stack, duals = np.empty(tree.room, dtype=np.int32), np.empty((tree.room + 1, words), dtype=np.uint64)
        bounds = case.relevant.low, case.relevant.high
        count, _ = list_duals(
            tree.nodes, tree.masks, (box.low, box.high), bounds, found, leaves, stack, duals, (0,) * words
        )
        return found[:count], leaves[:count]

    def _nearest(self, case: Case, box: Box, leaves: Points) -> Points:
        """For every leaf its point in the box that is nearest to the instance."""
        points = np.empty((len(leaves), len(case.space)), dtype=np.int32)
        fill_nearest(self.tree.nodes, self.tree.masks, leaves, case.instance, (box.low, box.high), points)
        return points


@dataclass(frozen=True, slots=True, eq=False)
class Retold:
    """A proof by leaves, told again as a cover when somebody wants to see it."""

    forest: Forest
    case: Case
    box: Box

    def cover(self) -> Cover:
        """The cover that branch and bound finds for the same box."""
        answer = Ensemble((self.forest,)).one(self.case, self.box, Meter(), np.random.default_rng(0))
        if not isinstance(answer, tuple):
            raise ModelError("two exact searches disagree about a box", hint="please report this model")
        return answer[0].cover()
