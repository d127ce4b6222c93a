"""The nearest counterfactuals of a decision tree: the nearest point of every desired leaf, in order.

In a leaf, the point nearest to the instance changes only what the leaf demands, and every other point of the leaf
changes all of that too. So where its nearest point is forbidden, because it changes all features of an earlier
counterfactual, the whole leaf is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ironrule.oracles.geco.distance import Distance, Mix
from ironrule.oracles.leaves import Leaves
from ironrule.oracles.protocol import Case
from ironrule.rule import Box
from ironrule.space import Points
from ironrule.verdict import Meter


@dataclass(slots=True, eq=False)
class InLeaves:
    """One counterfactual after the other; ``left`` are the nearest points of leaves, nearest first."""

    instance: Points
    left: Points
    best: Points | None = field(default=None)

    @classmethod
    def of(cls, leaves: Leaves, case: Case, box: Box) -> InLeaves:
        """The leaves in a box, by changes first and distance second."""
        points = leaves.nearest_points(case, box)
        changes = np.count_nonzero(points != case.instance, axis=1)
        distance = Distance.of(case.space, case.instance, Mix())
        apart = distance.table[distance.starts + points].sum(axis=1)
        return cls(case.instance, points[np.lexsort((apart, changes))])

    def next(self, found: list[Points], meter: Meter, rng: np.random.Generator) -> bool:  # noqa: ARG002  # as every search
        """The first that changes all of no earlier one's features; always proven."""
        meter.check()
        if found:
            changed = found[-1] != self.instance
            self.left = self.left[~(self.left != self.instance)[:, changed].all(axis=1)]
        self.best = self.left[0] if len(self.left) else None
        return True
