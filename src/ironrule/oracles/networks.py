"""The exact oracle for neural networks: a search for counterfactuals, then bounds over boxes that are cut in two.

First points are moved uphill (:mod:`ironrule.oracles.net_work`). If that finds nothing, the box is bounded
(:mod:`ironrule.oracles.net_bounding_kernels`) and cut, hundreds of parts at a time on all cores, until every part is
closed: that is complete, because domains are finite and the bound of a single point is its value. Where a point that
was found cannot occur, its box is cut on; parts in which nothing can occur are dropped. The point where the bound of an
open part is reached is a good one to climb from, so some are tried: in every round at first, then now and then. When
the budget ends first, what is known is the share of the box that is closed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

import numpy as np

from ironrule.model.net import Net
from ironrule.oracles.net_engine import Cores, Engine
from ironrule.oracles.net_occurring_kernels import Occurring
from ironrule.oracles.net_parts import Parts, Taken
from ironrule.oracles.net_room import FOUND, OPEN
from ironrule.oracles.net_unfinished import explored_share, sampled
from ironrule.oracles.net_work import Work
from ironrule.oracles.protocol import Case
from ironrule.oracles.several import several
from ironrule.rule import Box
from ironrule.space import Points
from ironrule.verdict import Meter, Spent, Unrefuted, Verdict

AGAIN = 2  # points of open parts that are climbed from in a round
MODERATE = 2_000  # parts of a box for a wider rule
SHARE = 0.2  # of the seconds that are left, for one question
STRETCHES = ((0.6, 4), (0.9, 16))  # a question that is explored so far may take so many times as many parts
AT_FIRST, NOW_AND_THEN = 16, 8  # rounds in which that is done: the first ones, and then every so many


@dataclass(frozen=True, slots=True, eq=False)
class Networks:
    """Decides boxes for a model read as a network; ``limit`` parts are bounded per question, ``batch`` at a time (None:
    as many as the engine likes, and more parts while a share of a budget in seconds lasts). Where that ``stretches``,
    a question that is mostly explored at its limit may go on.
    """

    nets: tuple[Net, ...]
    limit: int | None = None
    batch: int | None = None
    engine: Engine = field(default_factory=Cores)
    stretches: bool = False
    grows: ClassVar[bool] = True  # proofs are dear: one begins where another ends

    def find(self, case: Case, box: Box, k: int, meter: Meter, rng: np.random.Generator) -> Verdict:
        """Up to k counterfactuals with disjoint duals; ``Proven`` if there is none; ``Unrefuted`` with the share that
        is explored if the limit is reached; ``Spent`` comes with that and a bound by samples.
        """
        answer = self._tried(case, box, meter, rng)
        if isinstance(answer, np.ndarray):
            return case.refuted(several(answer, self.brief.one, case, box, k, meter, rng))
        if answer.done:
            return case.proven(box, sum(parts.pieces for parts in answer.proofs), answer.proofs)
        explored = explored_share(self.nets, answer.proofs, case.feasible, box)
        if answer.spent:
            raise Spent(sampled(self.nets, case, box, explored, meter, rng))
        return Unrefuted(tried=0, samples=0, confidence=0.0, explored=explored)

    @property
    def brief(self) -> Networks:
        """The same for further counterfactuals, which nothing depends on: climbing alone."""
        return replace(self, limit=0)

    @property
    def moderate(self) -> Networks:
        """The same for wider rules, where what stays undecided costs no more than a bound that could have moved."""
        return replace(self, limit=MODERATE)

    def patient(self, share: float) -> Networks:
        """The same for a share of the parts that a question is usually worth, whatever the time."""
        return replace(self, limit=max(1, int(share * self.engine.limit)), stretches=True)

    def one(self, case: Case, box: Box, meter: Meter, rng: np.random.Generator) -> Points | tuple[Parts, ...] | None:
        """A counterfactual, what proves that there is none, or None where the limit was reached."""
        answer = self._tried(case, box, meter, rng)
        if isinstance(answer, np.ndarray):
            return answer
        if answer.spent:
            raise Spent
        return answer.proofs if answer.done else None

    def _tried(self, case: Case, box: Box, meter: Meter, rng: np.random.Generator) -> Points | _Attempt:
        """A counterfactual, or how far a proof has come; once the budget is spent nothing more is tried."""
        meter.check()
        proofs, spent = list[Parts](), False
        for net in self.nets:
            work = Work(net, case, box)
            answer = None if spent else work.climbed(rng)
            if answer is None:
                parts = Parts.of(net.cells, work.opened, box)
                try:
                    answer = None if spent else self._divided(work, parts, meter, rng)
                except Spent:
                    spent = True
                proofs.append(parts)
            if answer is not None:
                return answer
        return _Attempt(tuple(proofs), spent)

    def _divided(self, work: Work, parts: Parts, meter: Meter, rng: np.random.Generator) -> Points | None:
        """Cut until nothing waits, or the limit is reached; a counterfactual if one is met on the way."""
        limit, until = (self.limit, 0.0) if self.limit is not None else (self.engine.limit, self._until(meter))
        batch = self.engine.batch if self.batch is None else self.batch
        occurring, rounds = Occurring.of(work.net, work.opened, work.case.feasible, work.box), 0
        first = limit
        while parts.waiting and (parts.count < limit or meter.elapsed < until):
            meter.check()
            some, rounds = parts.taken(batch), rounds + 1
            there = occurring.those_with_any(some)
            outcome = self.engine.bounded(work.net, work.opened, there.low, there.high)
            meter.events["boxes"] += len(there.number)
            again = AGAIN if rounds <= AT_FIRST or rounds % NOW_AND_THEN == 0 else 0
            try:
                answer = work.seen_in(outcome, again, meter, rng)
            except Spent:
                parts.put_back(some)
                raise
            if answer is not None:
                return answer
            found = (outcome.status == FOUND) & (outcome.cuts[:, 0] >= 0)  # what was found there cannot occur
            cut = (outcome.status == OPEN) | found
            parts.cut(Taken(*(one[cut] for one in there)), outcome.cuts[cut])
            if self.stretches and parts.count >= limit:
                limit = min(2 * limit, self._stretched(first, work, parts))
        return None

    @staticmethod
    def _stretched(limit: int, work: Work, parts: Parts) -> int:
        """How far a question may go by what is explored of it."""
        explored = explored_share((work.net,), (parts,), work.case.feasible, work.box)
        return limit * max((times for share, times in STRETCHES if explored >= share), default=1)

    @staticmethod
    def _until(meter: Meter) -> float:
        """When a question must end that has passed the engine's limit: it may take a share of the seconds left."""
        return meter.elapsed + SHARE * meter.left if meter.left else 0.0


class _Attempt(NamedTuple):
    """How far proofs have come, one per net, and whether the budget is spent."""

    proofs: tuple[Parts, ...]
    spent: bool

    @property
    def done(self) -> bool:
        """Whether nothing waits."""
        return not any(parts.waiting for parts in self.proofs)
