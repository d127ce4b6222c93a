"""Growing Spheres (Laugel, Lesot, Marsala, Renard, Detyniecki: "Comparison-based Inverse Classification for
Interpretability in Machine Learning", IPMU 2018).

Points are drawn uniformly from a ball around the instance, in the numeric encoding. While the ball holds a
counterfactual it shrinks; then layers around it grow until one holds a counterfactual. Last, changes of the nearest one
are undone, the smallest first, as long as the outcome stays desired: few changes matter more than a short way.

Only features that may change are moved, and every point is feasible (:mod:`.candidates`). The model is only asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ironrule.arrays import Float64Array, Points
from ironrule.oracles.heuristics.candidates import CandidateSearch
from ironrule.oracles.heuristics.parameters import require_count, require_positive
from ironrule.oracles.protocol import NO_CAPABILITIES, BoxQuery, Capabilities, Run
from ironrule.verdict.budget import BudgetExhausted, name_stop
from ironrule.verdict.verdict import NOT_SEARCHED, Unrefuted, Verdict

MAX_SHRINKS = 40


@dataclass(frozen=True, slots=True)
class GrowingSpheres:
    """Draws ``samples`` points per layer; layers are ``step`` thick, and the first ball has the radius ``radius``.
    Without ``undo_changes`` counterfactuals stay as they were drawn.
    """

    samples: int = 1_000
    radius: float = 0.2
    step: float = 0.2
    undo_changes: bool = True
    capabilities: ClassVar[Capabilities] = NO_CAPABILITIES

    def __post_init__(self) -> None:
        require_count(samples=self.samples)
        require_positive(radius=self.radius, step=self.step)

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        """Up to k counterfactuals, nearest first, each without useless changes; ``Unrefuted`` if no layer has one."""
        return answer_from_layers(query, run, self._look, self.undo_changes)

    def _look(self, search: CandidateSearch) -> FoundInLayer:
        columns = search.columns
        if len(columns) == 0:  # nothing may change
            return search.ask(search.start[None, :]), None

        center = search.center[columns]

        def draw_layer(inner: float, outer: float) -> Points:
            vectors = np.repeat(search.center[None, :], self.samples, axis=0)
            vectors[:, columns] = center + draw_in_layer(search.run.rng, self.samples, len(columns), inner, outer)
            return search.sort_by_distance(search.ask(search.decode(vectors)))

        # No two vectors of the unit cube are farther apart than its diagonal.
        return search_layers(draw_layer, radius=self.radius, step=self.step, limit=math.sqrt(len(columns)))


FoundInLayer = tuple[Points, BaseException | None]  # counterfactuals of a layer, nearest first, and what stopped it


def answer_from_layers(
    query: BoxQuery, run: Run, look: Callable[[CandidateSearch], FoundInLayer], undo_changes: bool
) -> Verdict:
    """Up to k counterfactuals that a search in layers finds, nearest first, without useless changes where these are to
    be undone; ``Unrefuted`` if it finds none.
    """
    before, search = run.meter.evaluations, CandidateSearch.build(query, run)
    if search is None:
        return NOT_SEARCHED
    found, stop = look(search)
    if len(found) == 0:
        return Unrefuted(tried=run.meter.evaluations - before, samples=0, confidence=0.0)
    if not undo_changes or stop is not None:
        stopped = None if stop is None else name_stop(stop, run.meter)
        return replace(query.case.build_refuted(found[: query.k]), stopped=stopped)
    kept, stopped = list[Points](), None
    try:
        for point in found:
            sparse = search.undo_changes(point)
            if not any(np.array_equal(sparse, other) for other in kept):
                kept.append(sparse)
            if len(kept) == query.k:
                break
    except (BudgetExhausted, KeyboardInterrupt) as reason:
        stopped = name_stop(reason, run.meter)
        kept = kept or [found[0]]
    return replace(query.case.build_refuted(np.stack(kept)), stopped=stopped)


def search_layers(
    draw_layer: Callable[[float, float], Points], *, radius: float, step: float, limit: float
) -> FoundInLayer:
    """What ``draw_layer`` finds between two radii, in the innermost layer that was seen to hold something; and what
    stopped the search for a layer that is nearer.
    """
    found = draw_layer(0.0, radius)
    if len(found):
        # Half the ball at a time: what the ball had is kept if its half has none.
        for _ in range(MAX_SHRINKS):
            radius /= 2.0
            try:
                nearer = draw_layer(0.0, radius)
            except (BudgetExhausted, KeyboardInterrupt) as stop:
                return found, stop
            if len(nearer) == 0:
                break
            found = nearer
        return found, None
    while len(found) == 0 and radius < limit:
        found = draw_layer(radius, radius + step)
        radius += step
    return found, None


def draw_in_layer(rng: np.random.Generator, count: int, width: int, inner: float, outer: float) -> Float64Array:
    """Vectors uniform between two spheres: a uniform direction, and a length whose ``width``-th power is uniform."""
    directions = rng.standard_normal((count, width))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    share = (inner / outer) ** width  # of the outer ball that the inner one takes
    lengths = outer * rng.uniform(share, 1.0, size=(count, 1)) ** (1.0 / width)
    return np.asarray(directions * lengths)
