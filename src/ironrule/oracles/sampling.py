"""The sampling oracle: draw points of the box uniformly. It may refute, never proves, and bounds exceptions.

Drawn after the rule was chosen, n points without an exception bound the share of exceptions (Clopper, Pearson, 1934).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ironrule.oracles.protocol import NO_CAPABILITIES, BoxQuery, Capabilities, Run
from ironrule.verdict.verdict import Unrefuted, Verdict


@dataclass(frozen=True, slots=True)
class Sampling:
    """Draws ``samples`` points, and says with ``confidence`` how rare exceptions are if none of them is one."""

    samples: int = 10_000
    confidence: float = 0.95
    capabilities: ClassVar[Capabilities] = NO_CAPABILITIES

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        """Exceptions among the points drawn, or the bound that their absence gives."""
        case, count = query.case, min(self.samples, run.meter.evaluations_left)
        points = case.feasible.draw(run.rng, query.box.low, query.box.high, count)
        found = points[run.meter.desired(case.model, points)] if len(points) else points
        if len(found):
            # The first k distinct exceptions, in the order in which they were drawn.
            _, first = np.unique(found, axis=0, return_index=True)
            return case.build_refuted(found[np.sort(first)[: query.k]])
        return Unrefuted(tried=len(points), samples=len(points), confidence=self.confidence)
