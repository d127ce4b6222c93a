"""A box: the part of the space where a rule holds. Every component admits an interval of codes, so a box is one too."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ironrule.arrays import BoolArray, Points


@dataclass(frozen=True, slots=True, eq=False)
class Box:
    """For every feature the codes from ``low`` to ``high``, both included; ``high`` may reach missing."""

    low: Points
    high: Points

    @property
    def size(self) -> int:
        """How many points there are, constraints aside."""
        return math.prod((self.high.astype(object) - self.low + 1).tolist())

    def contains(self, points: Points) -> BoolArray:
        """Which points lie in the box."""
        return np.asarray(((points >= self.low) & (points <= self.high)).all(axis=1), dtype=np.bool_)

    def clip(self, points: Points) -> Points:
        """Every point moved to the nearest place in the box, feature by feature.

        A desired region that is itself a box, holds the point and meets this box, holds the clipped point too: this is
        why desired rows of the history, clipped to a rule's box, refute so much.
        """
        clipped: Points = np.clip(points, self.low, self.high)
        return clipped
