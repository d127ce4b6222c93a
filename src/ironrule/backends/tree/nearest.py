"""The nearest counterfactuals of a decision tree: the nearest point of every desired leaf, in order.

In a leaf, the point nearest to the instance changes only what the leaf requires, and every other point of the leaf
changes all of that too. So where its nearest point is forbidden, because it changes all features of an earlier
counterfactual, the whole leaf is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ironrule.arrays import Points
from ironrule.backends.tree.oracle import TreeOracle
from ironrule.oracles.geco.candidates import InstanceDistance, NormWeights
from ironrule.oracles.protocol import Case, Run
from ironrule.rule.box import Box


@dataclass(slots=True, eq=False)
class TreeNearestSearch:
    """One counterfactual after the other; ``remaining`` are the nearest points of leaves, nearest first."""

    instance: Points
    remaining: Points
    best: Points | None = field(default=None)

    @classmethod
    def build(cls, tree_oracle: TreeOracle, case: Case, box: Box) -> TreeNearestSearch:
        """The leaves in a box, by changes first and distance second."""
        points = tree_oracle.find_nearest_points(case, box)
        changes = np.count_nonzero(points != case.instance, axis=1)
        distance = InstanceDistance.build(case.space, case.instance, NormWeights())
        apart = distance.table[distance.starts + points].sum(axis=1)
        return cls(case.instance, points[np.lexsort((apart, changes))])

    def next(self, found: list[Points], run: Run) -> bool:
        """Set ``best`` to the nearest point left, or None; True, since a tree's answer is always proven.

        A point that changes all features of an earlier counterfactual is dropped.
        """
        run.meter.check()
        # Earlier calls have dropped what the earlier counterfactuals forbid; only the last one is new.
        if found:
            changed = found[-1] != self.instance
            self.remaining = self.remaining[~(self.remaining != self.instance)[:, changed].all(axis=1)]
        self.best = self.remaining[0] if len(self.remaining) else None
        return True
