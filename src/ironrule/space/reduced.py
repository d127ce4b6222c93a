"""The part of a space that searches work in: the features on which something depends.

A model often ignores most columns of a wide table. Whatever values these take, its decision is the same, so no shortest
rule speaks of them, and a counterfactual need not change them. Searches work in the space of the other features alone;
points, boxes and proofs that are found there become ones of the whole space when they are shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ironrule.arrays import IntpArray, Points
from ironrule.space.codes import EncodedTable
from ironrule.space.space import Space


@dataclass(frozen=True, slots=True, eq=False)
class ReducedSpace:
    """Some features of a space: ``kept`` are their positions in the whole one, rising."""

    whole: Space
    space: Space
    kept: IntpArray

    @property
    def is_whole(self) -> bool:
        """Whether no feature is left out."""
        return self.space is self.whole

    def reduce(self, points: Any) -> Any:
        """Points of the whole space, or one of them, without the features that are left out."""
        return points if self.is_whole else np.ascontiguousarray(points[..., self.kept])

    def reduce_table(self, table: EncodedTable) -> EncodedTable:
        """The columns of the features that are kept."""
        return table if self.is_whole else EncodedTable(tuple(table.columns[j] for j in self.kept.tolist()))

    def embed(self, points: Points, others: Points) -> Points:
        """Points of the whole space: the features that are left out are as in ``others``, one point or one for each."""
        if self.is_whole:
            return points
        whole = np.array(np.broadcast_to(others, (*points.shape[:-1], len(self.whole))), dtype=np.int32)
        whole[..., self.kept] = points
        return whole


def reduce_space(space: Space, kept: Iterable[int]) -> ReducedSpace:
    """The space of these features, or of the first one where there is none; constraints must be about them alone."""
    places = np.array(sorted({*kept}) or [0], dtype=np.intp)
    if len(places) == len(space):
        return ReducedSpace(space, space, places)
    features = tuple(space.features[j] for j in places.tolist())
    return ReducedSpace(space, Space(features, space.constraints, space.labels), places)
