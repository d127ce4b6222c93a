"""FACE (Poyiadzi, Sokol, Santos-Rodriguez, De Bie, Flach: "FACE: Feasible and Actionable Counterfactual Explanations",
AIES 2020).

The answer is a past row with the desired outcome that the instance reaches in small steps from past row to past row,
through places where there are many of them. Rows are the nodes of a graph, with the instance as one more. Two rows are
joined if one is among the nearest neighbours of the other (``knn``), or if they are near enough (``epsilon``). An edge
of length d costs d * f(z), where z estimates the density of rows along it by the volume of a ball: z = r / d^n for the
former, with r = k / (N * volume of the unit ball), z = (radius / d)^n for the latter; n is the number of features in
which the rows differ. The desired row with the cheapest path is the answer (Dijkstra's algorithm).

The paper proposes f(z) = -log(z), which is negative where rows are dense. Here it is f(z) = log(1 + 1/z): nearly the
same where they are sparse, and positive everywhere, as shortest paths need. Only past rows in the query's box that
satisfy all constraints take part, so every step of the path is one that may be taken. The model is asked about the
answer alone: the outcomes of past rows are known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import numpy as np

from ironrule.arrays import AnyArray, BoolArray, Float64Array, IntpArray, Points
from ironrule.errors import InputError, describe_value
from ironrule.oracles.heuristics.candidates import require_past_rows
from ironrule.oracles.heuristics.encoding import NumericEncoding
from ironrule.oracles.heuristics.parameters import require_count, require_positive
from ironrule.oracles.protocol import NO_CAPABILITIES, BoxQuery, Capabilities, Run
from ironrule.verdict.budget import BudgetExhausted, Meter, name_stop
from ironrule.verdict.verdict import Unrefuted, Verdict

FaceVariant = Literal["knn", "epsilon"]
BLOCK_ROWS = 256  # whose distances from all others are computed at once
LEAST_COST = np.finfo(np.float64).tiny  # of an edge: a cost of zero would be no edge


@dataclass(frozen=True, slots=True)
class FACE:
    """Joins rows to their ``neighbours`` nearest ones, or to those within ``radius`` of the numeric encoding.

    ``radius`` None takes the distance within which half of the rows have so many neighbours. Of more past rows than
    ``rows``, so many take part, drawn at random.
    """

    variant: FaceVariant = "knn"
    neighbours: int = 50
    radius: float | None = None
    rows: int = 2_000
    capabilities: ClassVar[Capabilities] = NO_CAPABILITIES

    def __post_init__(self) -> None:
        if self.variant not in get_args(FaceVariant):
            expected = f"variant must be one of {', '.join(get_args(FaceVariant))}"
            raise InputError(expected=expected, got=describe_value(self.variant))
        require_count(neighbours=self.neighbours, rows=self.rows)
        if self.radius is not None:
            require_positive(radius=self.radius)

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        """Up to k desired past rows, those with the cheapest paths first; ``Unrefuted`` if no path leads to one."""
        case = query.case
        require_past_rows(case, "FACE")
        before = run.meter.evaluations
        points, desired = self._choose_rows(query, run)
        found = np.empty((0, len(case.space)), dtype=np.int32)
        stopped = None
        if desired.any():
            vectors = NumericEncoding.build(case.space).encode(points)
            costs = self.compute_path_costs(vectors, count_differing_features(points), run.meter)
            reached = np.flatnonzero(desired & np.isfinite(costs))
            found, stopped = _confirm(query, run, points[reached[np.argsort(costs[reached], kind="stable")]])
        if len(found) == 0:
            return Unrefuted(tried=run.meter.evaluations - before, samples=0, confidence=0.0)
        return replace(case.build_refuted(found), stopped=stopped)

    def _choose_rows(self, query: BoxQuery, run: Run) -> tuple[Points, BoolArray]:
        """The instance and distinct past rows that are feasible, and which of them are desired."""
        case, history = query.case, query.case.history
        inside = history.codes.flag_inside(query.box.low, query.box.high, case.space.sizes.tolist())
        places = np.flatnonzero(inside & case.feasible.admits_rows(history.codes))
        if len(places) > self.rows:
            places = np.sort(run.rng.choice(places, self.rows, replace=False))
        points, first = np.unique(history.codes.points(places), axis=0, return_index=True)
        others = (points != case.instance).any(axis=1)
        desired = history.outcomes[places[first]]
        return np.concatenate([case.instance[None, :], points[others]]), np.append(False, desired[others])

    def compute_path_costs(self, vectors: Float64Array, dimensions: int, meter: Meter) -> Float64Array:
        """The cost of the cheapest path from the first vector to each; infinite where there is none."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import dijkstra

        starts, ends, lengths, log_density = self._list_edges(vectors, dimensions, meter)
        # log(1 + 1/z), without the overflow that powers of many dimensions bring
        costs = np.maximum(lengths * np.logaddexp(0.0, -log_density), LEAST_COST)
        graph = csr_array((costs, (starts, ends)), shape=(len(vectors), len(vectors)))
        return np.asarray(dijkstra(graph, directed=False, indices=0), dtype=np.float64)

    def _list_edges(
        self, vectors: Float64Array, dimensions: int, meter: Meter
    ) -> tuple[IntpArray, IntpArray, Float64Array, Float64Array]:
        """From where, to where, how long, and the logarithm of the density along it."""
        count = min(self.neighbours, len(vectors) - 1)
        if self.variant == "knn":
            starts, ends, lengths = _list_nearest(vectors, count, meter)
            volume = dimensions / 2 * math.log(math.pi) - math.lgamma(dimensions / 2 + 1)
            scale = math.log(count) - math.log(len(vectors)) - volume
        else:
            radius = self.radius
            if radius is None:
                lengths = _list_nearest(vectors, count, meter)[2]
                radius = float(np.median(lengths.reshape(-1, count).max(axis=1)))
            starts, ends, lengths = _list_within(vectors, radius, meter)
            scale = dimensions * math.log(radius)
        # Different points may have vectors that floats do not tell apart.
        return starts, ends, lengths, scale - dimensions * np.log(np.maximum(lengths, LEAST_COST))


def count_differing_features(points: Points) -> int:
    """In how many features some of the points differ."""
    return int((points != points[0]).any(axis=0).sum())


def _list_nearest(vectors: Float64Array, count: int, meter: Meter) -> tuple[IntpArray, IntpArray, Float64Array]:
    """An edge from every vector to each of its nearest others."""
    ends, lengths = [], []
    for _, distances in _measure_blocks(vectors, meter):
        nearest = np.argpartition(distances, count - 1, axis=1)[:, :count]
        ends.append(nearest.ravel())
        lengths.append(np.take_along_axis(distances, nearest, axis=1).ravel())
    return np.repeat(np.arange(len(vectors)), count), np.concatenate(ends), np.concatenate(lengths)


def _list_within(vectors: Float64Array, radius: float, meter: Meter) -> tuple[IntpArray, IntpArray, Float64Array]:
    """An edge between every two vectors that are no farther apart than this."""
    starts, ends, lengths = [], [], []
    for first, distances in _measure_blocks(vectors, meter):
        rows, others = np.nonzero(distances <= radius)
        starts.append(first + rows)
        ends.append(others)
        lengths.append(distances[rows, others])
    return np.concatenate(starts), np.concatenate(ends), np.concatenate(lengths)


def _measure_blocks(vectors: Float64Array, meter: Meter) -> Iterator[tuple[int, Float64Array]]:
    """The distances of some vectors at a time from all; that of each from itself is infinite."""
    from scipy.spatial.distance import cdist

    for first in range(0, len(vectors), BLOCK_ROWS):
        meter.check()
        distances: AnyArray = cdist(vectors[first : first + BLOCK_ROWS], vectors)
        rows = np.arange(len(distances))
        distances[rows, first + rows] = np.inf
        yield first, distances


def _confirm(query: BoxQuery, run: Run, points: Points) -> tuple[Points, str | None]:
    """The first k of the points that the model gives the desired outcome, and what stopped the questions early."""
    kept = points[:0]
    # Past outcomes are the model's own, so that the first k will do, unless several models were asked about them.
    for start in range(0, len(points), query.k):
        batch = points[start : start + query.k]
        try:
            kept = np.concatenate([kept, batch[run.meter.desired(query.case.model, batch)]])
        except (BudgetExhausted, KeyboardInterrupt) as stop:
            if len(kept) == 0:
                raise
            return kept, name_stop(stop, run.meter)
        if len(kept) >= query.k:
            break
    return kept[: query.k], None
