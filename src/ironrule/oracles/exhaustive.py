"""The exhaustive oracle: ask the model about every point of the box. Proof by enumeration, for small boxes.

It is the reference that every other oracle is tested against. Where numbers lie between the values of the box, asking
about the values proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ironrule.arrays import Points
from ironrule.oracles.protocol import NO_CAPABILITIES, BoxQuery, Capabilities, Run
from ironrule.rule.box import Box
from ironrule.space.feature import find_open_gaps
from ironrule.space.space import Space
from ironrule.verdict.verdict import NOT_SEARCHED, Verdict

CHUNK_POINTS = 1 << 16


@dataclass(frozen=True, slots=True)
class Exhaustive:
    """Enumerates boxes of up to ``limit`` points; larger ones stay ``Unrefuted``, nothing tried."""

    limit: int = 1_000_000
    capabilities: ClassVar[Capabilities] = NO_CAPABILITIES

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        """The first counterfactuals in the order of enumeration, or a proof that there is none."""
        case, box, k = query.case, query.box, query.k
        if box.size > self.limit:
            return NOT_SEARCHED
        asked, found = 0, np.empty((0, len(box.low)), dtype=np.int32)
        # Chunk by chunk, so that memory stays small and the search can end at the k-th counterfactual.
        for points in enumerate_box(box):
            occurring = points[case.feasible.admits(points)]
            asked += len(occurring)
            found = np.concatenate([found, occurring[run.meter.desired(case.model, occurring)]])[:k]
            if len(found) == k:
                break
        if len(found):
            return case.build_refuted(found)
        if _has_open_gaps(case.space, box):
            return replace(NOT_SEARCHED, tried=asked)
        return case.build_proven(box, asked)


def _has_open_gaps(space: Space, box: Box) -> bool:
    """Whether a box of a space has numbers between its values."""
    ends = zip(space.features, box.low.tolist(), box.high.tolist(), strict=True)
    return any(feature.interval and bool(find_open_gaps(feature)[low:high].any()) for feature, low, high in ends)


def enumerate_box(box: Box) -> Iterator[Points]:
    """All points of a box, in chunks, the last feature fastest."""
    shape = (box.high - box.low + 1).tolist()
    for start in range(0, box.size, CHUNK_POINTS):
        # A point's number, written with one digit per feature (mixed radix), gives its codes relative to the box's
        # low ends.
        flat = np.arange(start, min(start + CHUNK_POINTS, box.size))
        points = np.empty((len(flat), len(shape)), dtype=np.int32)
        for j in range(len(shape) - 1, -1, -1):  # NumPy's own way ends at 64 features
            flat, points[:, j] = np.divmod(flat, shape[j])
        yield points + box.low
