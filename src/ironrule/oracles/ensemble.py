"""The exact oracle for models read as forests: branch and bound over cells, with a proof at its end.

Its counterfactuals lie where the model's own arithmetic cannot turn the decision; a point where it could is put to
the model itself. Each counterfactual is pulled back towards the instance, which makes its dual small. A proof is a
cover of the box for every alternative of the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ironrule.model import Gaps
from ironrule.model.forest import Forest, cells_at
from ironrule.model.forest_kernels import least_margins
from ironrule.oracles.climbing_kernels import Desk, nearest_codes
from ironrule.oracles.covering import Log
from ironrule.oracles.crew import Crew
from ironrule.oracles.desks import DEPTH, Desks
from ironrule.oracles.ensemble_kernels import FOUND, PROVEN, UNSURE, deny
from ironrule.oracles.gathering import Gathered, Sought, gathered, uphill
from ironrule.oracles.gathering_kernels import HOLDS, IN_DOUBT
from ironrule.oracles.protocol import Case
from ironrule.oracles.several import several
from ironrule.rule import Box
from ironrule.space import Points
from ironrule.verdict import Meter, Unrefuted, Verdict

BRIEF = 20  # boxes looked at for a further counterfactual, which nothing depends on
MODERATE = 200_000
PULLED = 32  # past rows pulled into a box, the best of which is a start to climb from


@dataclass(frozen=True, slots=True, eq=False)
class Ensemble:
    """Decides boxes for a model read as forests, one per alternative; ``limit`` boxes are looked at per query.

    Past rows are tried after ``soon`` boxes. What is not decided after ``alone`` boxes is shared out: ``shares`` parts
    go on in rounds of ``each`` boxes. With ``grows``, the proof of a box may begin with that of a smaller one. Where
    ``gaps`` says that a point also stands for numbers between the values of a domain, the model's answer for the point
    settles nothing that rounding could turn.
    """

    forests: tuple[Forest, ...]
    limit: int = 5_000_000
    soon: int = 64
    alone: int = 1_000
    shares: int = 4
    each: int = 1_000
    grows: bool = False
    gaps: Gaps | None = None
    desks: Desks = field(default_factory=Desks, repr=False)

    def find(self, case: Case, box: Box, k: int, meter: Meter, rng: np.random.Generator) -> Verdict:
        """Up to k counterfactuals with disjoint duals; ``Proven`` if there is none; ``Unrefuted`` if the limit is
        reached.
        """
        answer = self.one(case, box, meter, rng)
        if answer is None:
            return Unrefuted(tried=0, samples=0, confidence=0.0)
        if isinstance(answer, tuple):
            return case.proven(box, sum(log.pieces for log in answer), answer)
        return case.refuted(several(answer, self.brief.one, case, box, k, meter, rng))

    @property
    def brief(self) -> Ensemble:
        """The same for further counterfactuals, which nothing depends on."""
        return replace(self, limit=BRIEF)

    def patient(self, share: float) -> Ensemble:
        """The same for a share of its patience; what questions need spans several orders of magnitude."""
        return replace(self, limit=max(self.soon, int(self.limit * share * share)))

    @property
    def moderate(self) -> Ensemble:
        """The same for wider rules, where what stays undecided costs no more than a bound that could have moved."""
        return replace(self, limit=MODERATE, grows=True)

    def gather(self, case: Case, sought: Sought, rounds: int, rng: np.random.Generator) -> Iterator[Gathered]:
        """Counterfactuals in the boxes of rules that hit all that is known, as long as they are easily found; a proof
        that the last rule has none, where that is easily found.
        """
        for place, forest in enumerate(self.forests):
            desk = self.desks.take(place, forest)
            for some in gathered(forest, desk, case, sought, rounds, rng):
                yield some if len(self.forests) == 1 else some._replace(proof=None)
                sought = sought.further(case, some.points) if len(self.forests) > 1 else sought
            self.desks.give(place, desk)

    def one(self, case: Case, box: Box, meter: Meter, rng: np.random.Generator) -> Points | tuple[Log, ...] | None:
        """A counterfactual, the logs that prove that there is none, or None where the limit was reached."""
        meter.check()
        logs: list[Log] = []
        for place, forest in enumerate(self.forests):
            desk, home = self.desks.take(place, forest), cells_at(forest, box.pull(case.instance))
            work = _Work(place, forest, case, box, desk, home)
            answer = self._answer(work, meter, rng)
            self.desks.give(place, work.desk)
            if isinstance(answer, np.ndarray):
                return answer
            logs += [] if answer is None else [answer]
        return tuple(logs) if len(logs) == len(self.forests) else None

    def _answer(self, work: _Work, meter: Meter, rng: np.random.Generator) -> Points | Log | None:
        """What climbing and a short search come to, or else branch and bound."""
        found, status = work.uphill(work.desk, work.home, rng, min(self.soon, self.limit))
        seen = int(work.desk.state[3])
        meter.events["boxes"] += seen
        if found is not None:
            return found
        if status == HOLDS:
            return Log(work.forest.cells, work.desk.log[:seen].copy())
        if status == IN_DOUBT and meter.desired(work.case.model, work.point[None, :])[0]:
            return work.point
        if status == IN_DOUBT and self._stands_for_others(work.box):
            return None
        if status == IN_DOUBT:
            deny(work.desk)
        found = self._from_the_past(work, rng) if self.limit > BRIEF else None
        return self._branches(work, seen, meter, rng) if found is None else found

    def _branches(self, work: _Work, seen: int, meter: Meter, rng: np.random.Generator) -> Points | Log | None:
        """Branch and bound, after so many boxes seen, alone at first, then shared out."""
        crew = Crew(work.forest, [work.desk])
        while crew.at_work and seen < self.limit:
            many, boxes = (1, self.alone) if seen < self.alone else (self.shares, self.each)
            for place, status, looked_at in crew.round(many, min(boxes, self.limit - seen)):
                seen += looked_at
                meter.events["boxes"] += looked_at
                work.desk = crew.desks[place]
                if status == FOUND:
                    return work.pulled(rng)
                if status == UNSURE:
                    point = work.point
                    if meter.desired(work.case.model, point[None, :])[0]:
                        return point
                    if self._stands_for_others(work.box):
                        return None
                    deny(work.desk)
                elif status != PROVEN and work.desk.state[0] + 1 >= DEPTH:
                    return None
            meter.check()
        return None if crew.at_work else Log(work.forest.cells, crew.log)

    def _stands_for_others(self, box: Box) -> bool:
        """Whether points of a box stand for numbers between the values of a domain as well."""
        return self.gaps is not None and self.gaps.may_turn_within(box.low, box.high)

    def _from_the_past(self, work: _Work, rng: np.random.Generator) -> Points | None:
        """A counterfactual uphill from a past row; the search may go on where it was."""
        spare = self.desks.take(work.place, work.forest)
        point = work.uphill_from_the_past(spare, rng)
        self.desks.give(work.place, spare)
        return point


@dataclass(slots=True, eq=False)
class _Work:
    """One search in one forest: from the box of codes to cells, and from cells back to codes."""

    place: int
    forest: Forest
    case: Case
    box: Box
    desk: Desk
    home: npt.NDArray[np.int64]  # the instance's cells, or those of the nearest point in the box

    def uphill(
        self, desk: Desk, start: npt.NDArray[np.int64], rng: np.random.Generator, boxes: int = 0
    ) -> tuple[Points | None, int]:
        """A counterfactual uphill from a point of the box, or from the next one in it, pulled back towards the
        instance, or else by a short search; and how that ended.
        """
        return uphill(self.forest, desk, self.case, self.box, self.home, start, rng, boxes)

    def uphill_from_the_past(self, desk: Desk, rng: np.random.Generator) -> Points | None:
        """The same from a past row with the desired outcome, pulled into the box."""
        seeds = self.case.history.seeds
        if len(seeds) == 0:
            return None
        chosen = seeds[rng.integers(0, len(seeds), size=PULLED)]
        starts = cells_at(self.forest, self.box.pull(chosen))
        return self.uphill(desk, starts[np.argmax(least_margins(self.forest, starts))], rng)[0]

    def pulled(self, rng: np.random.Generator) -> Points:
        """The counterfactual on the desk, pulled back towards the instance."""
        found = self.point  # a counterfactual as it is
        pulled, _ = self.uphill(self.desk, self.desk.point.copy(), rng)
        return found if pulled is None else pulled

    @property
    def point(self) -> Points:
        """The point on the desk, as codes."""
        codes = np.empty_like(self.case.instance)
        nearest_codes(self.forest.cells, self.desk.point, self.case.instance, self.box.low, self.box.high, codes)
        return codes
