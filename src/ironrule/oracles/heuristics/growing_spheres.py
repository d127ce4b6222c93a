"""Growing Spheres (Laugel, Lesot, Marsala, Renard, Detyniecki: "Comparison-based Inverse Classification for
Interpretability in Machine Learning", IPMU 2018).

Points are drawn uniformly from a ball around the instance, in the numeric encoding. While the ball holds a
counterfactual it shrinks; then layers around it grow until one holds a counterfactual. Last, changes of the nearest one
are undone, the smallest first, as long as the outcome stays desired: few changes matter more than a short way.

Only features that the box lets change are moved. Every vector is turned into a point of the box, and points that break
a constraint are dropped before the model is asked, so what it answers is feasible. The model is only asked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ironrule.arrays import Float64Array, Points
from ironrule.errors import InputError, describe_value
from ironrule.oracles.heuristics.encoding import NumericEncoding
from ironrule.oracles.protocol import NO_CAPABILITIES, BoxQuery, Capabilities, Run
from ironrule.verdict.budget import BudgetExhausted, name_stop
from ironrule.verdict.verdict import Unrefuted, Verdict

MAX_SHRINKS = 40


@dataclass(frozen=True, slots=True)
class GrowingSpheres:
    """Draws ``samples`` points per layer; layers are ``step`` thick, and the first ball has the radius ``radius``."""

    samples: int = 1_000
    radius: float = 0.2
    step: float = 0.2
    capabilities: ClassVar[Capabilities] = NO_CAPABILITIES

    def __post_init__(self) -> None:
        if isinstance(self.samples, bool) or not isinstance(self.samples, int) or self.samples < 1:
            raise InputError(expected="samples must be a positive integer", got=describe_value(self.samples))
        for name, value in (("radius", self.radius), ("step", self.step)):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 < value < math.inf:
                raise InputError(expected=f"{name} must be a positive number", got=describe_value(value))

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        """Up to k counterfactuals, nearest first, each without useless changes; ``Unrefuted`` if no layer has one."""
        before = run.meter.evaluations
        search = SphereSearch(query, run, NumericEncoding.build(query.case.space), self.samples)
        found = self._search_layers(search)
        if len(found) == 0:
            return Unrefuted(tried=run.meter.evaluations - before, samples=0, confidence=0.0)
        kept: list[Points] = []
        stopped = None
        try:
            for point in found:
                sparse = search.undo_changes(point)
                if not any(np.array_equal(sparse, other) for other in kept):
                    kept.append(sparse)
                if len(kept) == query.k:
                    break
        except (BudgetExhausted, KeyboardInterrupt) as stop:
            stopped = name_stop(stop, run.meter)
            kept = kept or [found[0]]
        return replace(query.case.build_refuted(np.stack(kept)), stopped=stopped)

    def _search_layers(self, search: SphereSearch) -> Points:
        """The counterfactuals of the innermost layer that was seen to hold some, nearest first."""
        if len(search.columns) == 0:  # nothing may change
            return search.ask(search.instance[None, :])
        radius, found = self.radius, search.draw_layer(0.0, self.radius)
        if len(found):
            # Half the ball at a time: what the ball had is kept if its half has none.
            for _ in range(MAX_SHRINKS):
                radius /= 2.0
                nearer = search.draw_layer(0.0, radius)
                if len(nearer) == 0:
                    break
                found = nearer
            return found
        # No two vectors of the unit cube are farther apart than its diagonal.
        diagonal = math.sqrt(len(search.columns))
        while len(found) == 0 and radius < diagonal:
            found = search.draw_layer(radius, radius + self.step)
            radius += self.step
        return found


class SphereSearch:
    """Layers around the instance of one query, in the columns of the features that its box lets change."""

    __slots__ = ("center", "columns", "encoding", "instance", "query", "run", "samples")

    def __init__(self, query: BoxQuery, run: Run, encoding: NumericEncoding, samples: int) -> None:
        self.query, self.run, self.encoding, self.samples = query, run, encoding, samples
        # A box need not hold the instance; what it fixes is fixed at its own value.
        self.instance = query.box.clip(query.case.instance[None, :])[0]
        self.center = encoding.encode(self.instance[None, :])[0]
        self.columns = encoding.list_columns(np.flatnonzero(query.box.low < query.box.high))

    def draw_layer(self, inner: float, outer: float) -> Points:
        """The counterfactuals among points drawn between two radii, nearest first."""
        vectors = np.repeat(self.center[None, :], self.samples, axis=0)
        vectors[:, self.columns] += draw_in_layer(self.run.rng, self.samples, len(self.columns), inner, outer)
        points = np.unique(self.encoding.decode(vectors, self.query.box), axis=0)
        found = self.ask(points)
        lengths = np.linalg.norm(self.encoding.encode(found) - self.center, axis=1)
        return np.asarray(found[np.argsort(lengths, kind="stable")], dtype=np.int32)

    def ask(self, points: Points) -> Points:
        """Those of the points that are feasible and that the model gives the desired outcome."""
        feasible = points[self.query.case.feasible.admits(points)]
        if len(feasible) == 0:
            return feasible
        return np.asarray(feasible[self.run.meter.desired(self.query.case.model, feasible)], dtype=np.int32)

    def undo_changes(self, point: Points) -> Points:
        """The point with changes undone that it does not need, tried once each, the smallest first."""
        ways = self.encoding.encode(point[None, :])[0] - self.center
        sizes = np.add.reduceat(np.abs(ways), self.encoding.starts[:-1])
        kept = point
        for feature in np.argsort(sizes, kind="stable"):
            if kept[feature] != self.instance[feature]:
                nearer = kept.copy()
                nearer[feature] = self.instance[feature]
                kept = nearer if len(self.ask(nearer[None, :])) else kept
        return kept


def draw_in_layer(rng: np.random.Generator, count: int, width: int, inner: float, outer: float) -> Float64Array:
    """Vectors uniform between two spheres: a uniform direction, and a length whose ``width``-th power is uniform."""
    directions = rng.standard_normal((count, width))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    share = (inner / outer) ** width  # of the outer ball that the inner one takes
    lengths = outer * rng.uniform(share, 1.0, size=(count, 1)) ** (1.0 / width)
    return np.asarray(directions * lengths)
