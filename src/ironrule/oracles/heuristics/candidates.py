"""Candidates of one question: from vectors of numbers to points that may occur, and to those that the model desires.

Every vector is turned into the nearest point whose codes the box permits, and those constraints that are about a
single feature (most roles are such: "immutable", "may only rise"). Points that break another constraint are dropped
before the model is asked. So what is asked about, and what is answered, is feasible.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ironrule.arrays import Float64Array, Int32Array, IntpArray, Points
from ironrule.errors import InputError
from ironrule.oracles.heuristics.encoding import NumericEncoding
from ironrule.oracles.protocol import BoxQuery, Case, Run


@dataclass(frozen=True, slots=True, eq=False)
class CandidateSearch:
    """What searches among vectors share: the instance of one query as a vector, what may change, and who is asked."""

    query: BoxQuery
    run: Run
    encoding: NumericEncoding
    codes: tuple[IntpArray, ...]  # of every feature those that are permitted
    start: Points  # the nearest permitted point to the instance: a box need not hold the instance
    center: Float64Array  # its vector

    @classmethod
    def build(cls, query: BoxQuery, run: Run) -> CandidateSearch | None:
        """The search for one query; None if a feature has no permitted code, so that nothing is feasible."""
        encoding, codes = NumericEncoding.build(query.case.space), list_permitted_codes(query)
        if any(len(permitted) == 0 for permitted in codes):
            return None
        instance = encoding.encode(query.case.instance[None, :])
        start = encoding.decode_among(instance, codes)
        return cls(query, run, encoding, codes, start=start[0], center=encoding.encode(start)[0])

    @property
    def columns(self) -> IntpArray:
        """The columns of the features that may change."""
        return self.encoding.list_columns(np.flatnonzero([len(permitted) > 1 for permitted in self.codes]))

    def decode(self, vectors: Float64Array) -> Points:
        """The distinct permitted points that are nearest to the vectors."""
        return list_distinct_points(self.encoding.decode_among(vectors, self.codes), self.query.case.space.sizes)

    def ask(self, points: Points) -> Points:
        """Those of the points that are feasible and that the model gives the desired outcome."""
        feasible = points[self.query.case.feasible.admits(points)]
        if len(feasible) == 0:
            return feasible
        return np.asarray(feasible[self.run.meter.desired(self.query.case.model, feasible)], dtype=np.int32)

    def sort_by_distance(self, points: Points) -> Points:
        """The points, nearest to the instance first."""
        lengths = np.linalg.norm(self.encoding.encode(points) - self.center, axis=1)
        return np.asarray(points[np.argsort(lengths, kind="stable")], dtype=np.int32)

    def undo_changes(self, point: Points) -> Points:
        """The point with changes undone that it does not need, tried once each, the smallest first."""
        ways = self.encoding.encode(point[None, :])[0] - self.center
        sizes = np.add.reduceat(np.abs(ways), self.encoding.starts[:-1])
        kept = point
        for feature in np.argsort(sizes, kind="stable"):
            if kept[feature] != self.start[feature]:
                nearer = kept.copy()
                nearer[feature] = self.start[feature]
                kept = nearer if len(self.ask(nearer[None, :])) else kept
        return kept


def list_distinct_points(points: Points, sizes: Int32Array) -> Points:
    """The distinct points in lexicographic order, as ``np.unique`` over rows gives them, where it can be done by one
    number for each point in a tenth of the time.
    """
    if math.prod(sizes.tolist()) >= 1 << 62:
        return np.unique(points, axis=0)
    places = np.cumprod([1, *sizes[:0:-1].tolist()], dtype=np.int64)[::-1]
    return points[np.unique(points @ places, return_index=True)[1]]


def require_past_rows(case: Case, system: str) -> None:
    """Raise InputError if there are no past rows, which a system learns from."""
    if len(case.history) == 0:
        raise InputError(
            expected=f"{system} needs past rows",
            got="none",
            hint="give the explainer data, or search with GeCo() or GrowingSpheres(), which need none",
            code="past-rows-required",
        )


def list_permitted_codes(query: BoxQuery) -> tuple[IntpArray, ...]:
    """Of every feature the codes of the box that the constraints on it alone permit."""
    codes = [
        np.arange(low, high + 1) for low, high in zip(query.box.low.tolist(), query.box.high.tolist(), strict=True)
    ]
    for predicate in query.case.feasible.predicates:
        if len(predicate.columns) == 1:
            (j,) = predicate.columns
            codes[j] = codes[j][predicate.holds_per_code(j, query.case.feasible.instance)[codes[j]]]
    return tuple(codes)
