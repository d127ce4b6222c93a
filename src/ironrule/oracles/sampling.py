"""The sampling oracle: draw points of the box uniformly. It may refute, never proves, and bounds exceptions.

Drawn after the rule was chosen, n points without an exception bound the share of exceptions (Clopper, Pearson, 1934).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ironrule.oracles.protocol import Case
from ironrule.rule.box import Box
from ironrule.verdict.budget import Meter
from ironrule.verdict.verdict import Unrefuted, Verdict


@dataclass(frozen=True, slots=True)
class Sampling:
    """Draws ``samples`` points, and says with ``confidence`` how rare exceptions are if none of them is one."""

    samples: int = 10_000
    confidence: float = 0.95

    def find(self, case: Case, box: Box, k: int, meter: Meter, rng: np.random.Generator) -> Verdict:
        """Exceptions among the points drawn, or the bound that their absence gives."""
        count = min(self.samples, meter.evaluations_left)
        points = case.feasible.draw(rng, box.low, box.high, count)
        found = points[meter.desired(case.model, points)] if len(points) else points
        if len(found):
            # The first k distinct exceptions, in the order in which they were drawn.
            _, first = np.unique(found, axis=0, return_index=True)
            return case.build_refuted(found[np.sort(first)[:k]])
        return Unrefuted(tried=len(points), samples=len(points), confidence=self.confidence)
