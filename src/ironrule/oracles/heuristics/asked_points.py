"""The points that a search among vectors has asked about so far, and the answer that follows from them.

Searches that go step by step come by the same points again and again; each is put to the model once. When the search
ends, or is stopped, the nearest of the counterfactuals that it has come by are its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, Points
from ironrule.oracles.heuristics.candidates import CandidateSearch
from ironrule.oracles.protocol import BoxQuery, Case, Run
from ironrule.verdict.budget import BudgetExhausted, name_stop
from ironrule.verdict.verdict import Unrefuted, Verdict

MeasureDistance = Callable[[Points], Float64Array]  # of points, by which the nearest are chosen
BATCH_VECTORS = 50  # on a way, that the model is asked about at once


class WayEnd(NamedTuple):
    """The last vector on a way, and whether the point that stands for it is a counterfactual."""

    vector: Float64Array
    reached: bool


@dataclass(slots=True, eq=False)
class AskedPoints:
    """The points that were asked about, and the counterfactuals among them in the order in which they were found."""

    search: CandidateSearch
    outcomes: dict[bytes, bool] = field(default_factory=dict)
    found: list[Points] = field(default_factory=list)

    @property
    def case(self) -> Case:
        """The case that is searched."""
        return self.search.query.case

    @property
    def run(self) -> Run:
        """The state of this run."""
        return self.search.run

    def ask(self, points: Points) -> BoolArray:
        """Which points are feasible and have the desired outcome; the model is asked about new ones alone."""
        keys = [point.tobytes() for point in points]
        new = {key: place for place, key in enumerate(keys) if key not in self.outcomes}
        if new:
            fresh = points[list(new.values())]
            asked = np.flatnonzero(self.case.feasible.admits(fresh))
            desired = np.zeros(len(fresh), dtype=np.bool_)
            if len(asked):
                desired[asked] = self.run.meter.desired(self.case.model, fresh[asked])
            self.outcomes.update(zip(new, desired.tolist(), strict=True))
            self.found += list(fresh[desired])
        return np.array([self.outcomes[key] for key in keys], dtype=np.bool_)

    def ask_vectors(self, vectors: Float64Array) -> BoolArray:
        """For which vectors the point that stands for one is a counterfactual; or else the one with numbers rounded
        away from the instance, since the nearest ones may fall short of where the vector is.
        """
        self.run.meter.check()
        points = self.search.encoding.decode_among(vectors, self.search.codes)
        reached = self.ask(points)
        short = np.flatnonzero(~reached)
        if len(short):
            outwards = np.stack([round_outwards(self.search, vectors[place], points[place]) for place in short])
            reached[short] = self.ask(outwards)
        return reached

    def ask_vector(self, vector: Float64Array) -> bool:
        """The same for one vector."""
        return bool(self.ask_vectors(vector[None, :])[0])

    def is_settled(self) -> bool:
        """Whether there is nothing to search: the nearest permitted point is an answer, since a box need not hold the
        instance, or no other one is permitted.
        """
        return self.ask_vector(self.search.center) or len(self.search.columns) == 0

    def ask_way(self, way: Iterable[Float64Array], at_once: int = BATCH_VECTORS) -> WayEnd | None:
        """Ask about all vectors on a way, some at a time: where it ends, and whether a counterfactual is there; None if
        the way is empty.
        """
        last, remaining = None, iter(way)
        # A model takes much the same time for one point as for many.
        while passed := list(islice(remaining, at_once)):
            last = WayEnd(passed[-1], bool(self.ask_vectors(np.stack(passed))[-1]))
        return last


def round_outwards(search: CandidateSearch, vector: Float64Array, nearest: Points) -> Points:
    """The point that stands for a vector, with every number rounded away from the instance."""
    point, encoding = nearest.copy(), search.encoding
    for j, (table, codes) in enumerate(zip(encoding.tables, search.codes, strict=True)):
        place = float(vector[encoding.starts[j]])
        side = np.sign(place - search.center[encoding.starts[j]])
        if encoding.ordered[j] and side and (table.shape[1] == 1 or table[point[j], 1] == 0.0):
            numbers = codes if table.shape[1] == 1 else codes[table[codes, 1] == 0.0]
            ways = side * (table[numbers, 0] - place)
            if (ways >= 0.0).any():
                point[j] = numbers[np.where(ways >= 0.0, ways, np.inf).argmin()]
    return point


def draw_point(search: CandidateSearch) -> Points:
    """A point of permitted codes at random."""
    return np.array([search.run.rng.choice(codes) for codes in search.codes], dtype=np.int32)


def answer_query(
    query: BoxQuery,
    run: Run,
    look: Callable[[AskedPoints], None],
    measure: Callable[[CandidateSearch], MeasureDistance],
) -> Verdict:
    """The k nearest counterfactuals that a search comes by, by its own distance; ``Unrefuted`` if it has none."""
    before = run.meter.evaluations
    search = CandidateSearch.build(query, run)
    nothing = Unrefuted(tried=0, samples=0, confidence=0.0)
    if search is None:
        return nothing
    asked, stopped = AskedPoints(search), None
    try:
        look(asked)
    except (BudgetExhausted, KeyboardInterrupt) as stop:
        if not asked.found:
            raise
        stopped = name_stop(stop, run.meter)
    if not asked.found:
        return replace(nothing, tried=run.meter.evaluations - before)
    found = np.stack(asked.found)
    nearest = np.argsort(measure(search)(found), kind="stable")[: query.k]
    return replace(query.case.build_refuted(np.asarray(found[nearest], dtype=np.int32)), stopped=stopped)
