"""The exact oracle for neural networks: a search for counterfactuals, then bounds over boxes that are cut in two.

First points are moved uphill, from the instance and from past rows with the desired outcome, pulled into the box. If
that finds nothing, the box is bounded (:mod:`ironrule.oracles.net_bounding_kernels`) and cut, hundreds of parts at a
time on all cores, until every part is closed: that is complete, because domains are finite and the bound of a single
point is its value. A point where rounding could turn the decision is put to the model itself; where a point that was
found cannot occur, its box is cut on. The point where the bound of an open part is reached is a good one to climb from,
so some are tried: in every round at first, then now and then.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ironrule.model.net import Net
from ironrule.model.net_kernels import cells_at, margins_at
from ironrule.oracles.climbing_kernels import nearest_codes
from ironrule.oracles.net_bounding_kernels import FOUND, OPEN, POINT, Opened
from ironrule.oracles.net_climbing_kernels import climb, pull_back
from ironrule.oracles.net_engine import Cores, Engine
from ironrule.oracles.net_opening_kernels import opened_in
from ironrule.oracles.net_parts import Outcome, Parts, Taken
from ironrule.oracles.protocol import Case
from ironrule.oracles.several import several
from ironrule.rule import Box
from ironrule.space import Points
from ironrule.verdict import Meter, Unrefuted, Verdict

SWEEPS = 3
TRIES = 8  # cells tried of a feature that has many
PULLED = 64
STARTS = 3
AGAIN = 2  # points of open parts that are climbed from in a round
AT_FIRST, NOW_AND_THEN = 16, 8  # rounds in which that is done: the first ones, and then every so many


@dataclass(frozen=True, slots=True, eq=False)
class Networks:
    """Decides boxes for a model read as a network; ``limit`` parts are bounded per question, ``batch`` at a time (None:
    as many as the engine likes).
    """

    nets: tuple[Net, ...]
    limit: int | None = None
    batch: int | None = None
    engine: Engine = field(default_factory=Cores)

    def find(self, case: Case, box: Box, k: int, meter: Meter, rng: np.random.Generator) -> Verdict:
        """Up to k counterfactuals with disjoint duals; ``Proven`` if there is none; ``Unrefuted`` if the limit is
        reached.
        """
        answer = self.one(case, box, meter, rng)
        if answer is None:
            return Unrefuted(tried=0, samples=0, confidence=0.0)
        if isinstance(answer, tuple):
            return case.proven(box, sum(parts.pieces for parts in answer), answer)
        return case.refuted(several(answer, self.brief.one, case, box, k, meter, rng))

    @property
    def brief(self) -> Networks:
        """The same for further counterfactuals, which nothing depends on: climbing alone."""
        return replace(self, limit=0)

    def one(self, case: Case, box: Box, meter: Meter, rng: np.random.Generator) -> Points | tuple[Parts, ...] | None:
        """A counterfactual, what proves that there is none, or None where the limit was reached."""
        meter.check()
        proofs: list[Parts] = []
        for net in self.nets:
            work = _Work(net, case, box)
            found = work.climbed(rng)
            answer = found if found is not None else self._divided(work, meter, rng)
            if isinstance(answer, np.ndarray):
                return answer
            proofs += [] if answer is None else [answer]
        return tuple(proofs) if len(proofs) == len(self.nets) else None

    def _divided(self, work: _Work, meter: Meter, rng: np.random.Generator) -> Points | Parts | None:
        parts = Parts.of(work.net.cells, work.opened, work.box)
        limit = self.engine.limit if self.limit is None else self.limit
        batch = self.engine.batch if self.batch is None else self.batch
        rounds = 0
        while parts.waiting:
            if parts.count >= limit:
                return None
            meter.check()
            some, rounds = parts.taken(batch), rounds + 1
            outcome = self.engine.bounded(work.net, work.opened, some.low, some.high)
            meter.events["boxes"] += len(some.number)
            again = AGAIN if rounds <= AT_FIRST or rounds % NOW_AND_THEN == 0 else 0
            answer = work.seen_in(outcome, again, meter, rng)
            if answer is not None:
                return answer
            found = (outcome.status == FOUND) & (outcome.cuts[:, 0] >= 0)  # what was found there cannot occur
            cut = (outcome.status == OPEN) | found
            parts.cut(Taken(*(one[cut] for one in some)), outcome.cuts[cut])
        return parts


@dataclass(slots=True, eq=False)
class _Work:
    """One question to one net."""

    net: Net
    case: Case
    box: Box
    opened: Opened = field(init=False)
    home: npt.NDArray[np.int64] = field(init=False)
    sums: npt.NDArray[np.float64] = field(init=False)
    values: npt.NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        widest = int(self.net.widths.max())
        self.opened = opened_in(self.net, self.box)
        self.home = cells_at(self.net, self.case.instance)
        self.sums, self.values = np.zeros(widest), np.zeros(widest)

    def climbed(self, rng: np.random.Generator) -> Points | None:
        """A counterfactual uphill from the instance or from a past row, if there is one."""
        found = self._uphill(cells_at(self.net, self.box.pull(self.case.instance[None, :])), rng)
        seeds = self.case.history.seeds
        if found is not None or len(seeds) == 0:
            return found
        past = cells_at(self.net, self.box.pull(seeds[rng.integers(0, len(seeds), size=PULLED)]))
        return self._uphill(past[np.argsort(-margins_at(self.net, past)[1])[:STARTS]], rng)

    def _uphill(self, starts: npt.NDArray[np.int64], rng: np.random.Generator) -> Points | None:
        """A counterfactual uphill from one of some points given by cells."""
        for start in starts:
            cells = start.copy()
            orders = np.stack([rng.permutation(len(cells)) for _ in range(SWEEPS)])
            if climb(self.net, self.opened, cells, orders, TRIES, self.sums, self.values):
                point = self._pulled(cells, rng)
                if point is not None:
                    return point
        return None

    def seen_in(self, outcome: Outcome, again: int, meter: Meter, rng: np.random.Generator) -> Points | None:
        """A counterfactual that the bounds of parts have shown, or one uphill from so many of the open ones."""
        status, points = outcome.status, outcome.points
        answer = self.looked_at(points[status == FOUND], True, meter, rng)
        if answer is None:
            answer = self.looked_at(points[status == POINT], False, meter, rng)
        if answer is not None or again == 0:
            return answer
        rows = np.flatnonzero(status == OPEN)
        return self._uphill(points[rng.choice(rows, min(again, len(rows)), replace=False)], rng)

    def looked_at(
        self, points: npt.NDArray[np.int64], sure: bool, meter: Meter, rng: np.random.Generator
    ) -> Points | None:
        """A counterfactual among points given by cells: sure ones, or ones that only the model can decide."""
        for cells in points:
            if sure:
                point = self._pulled(cells, rng)
                if point is not None:
                    return point
            else:
                point = self._codes(cells)
                if self.case.feasible.admits(point[None, :])[0] and meter.desired(self.case.model, point[None, :])[0]:
                    return point
        return None

    def _pulled(self, cells: npt.NDArray[np.int64], rng: np.random.Generator) -> Points | None:
        """A counterfactual pulled back towards the instance; None if it cannot occur."""
        order = rng.permutation(len(cells))
        first = self._codes(cells)
        pull_back(self.net, cells, self.home, order, self.sums, self.values)
        for point in (self._codes(cells), first):
            if self.case.feasible.admits(point[None, :])[0]:
                return point
        return None

    def _codes(self, cells: npt.NDArray[np.int64]) -> Points:
        codes = np.empty_like(self.case.instance)
        nearest_codes(
            self.net.cells, np.ascontiguousarray(cells), self.case.instance, self.box.low, self.box.high, codes
        )
        return codes
