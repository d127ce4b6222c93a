"""All minimal sets of features to change, smallest first: :class:`ironrule.search.levels.Levels` over features.

A set of features has the property sought if changing only these can give the desired outcome. If it cannot, the values
of the other features are a reason for the outcome, and so are those of a minimal part of them; every change must touch
something of every such part. So where rules are made from counterfactuals, changes are made from rules, whose
components come in whole features: a feature that keeps its value is fixed by all its components.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ironrule.rule.bits import members, pack
from ironrule.search.levels import Levels
from ironrule.search.problem import Problem, joined
from ironrule.space import Points
from ironrule.verdict import Proven, Refuted, Spent, Verdict

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Features as a set of bits, and a counterfactual that changes just these; ``minimal``: proven that fewer will not
    do.
    """

    features: int
    point: Points
    minimal: bool


@dataclass(slots=True)
class EveryChange:
    """The minimal sets of features, among those that may ``vary``, whose change can give the desired outcome.

    Whatever stops the search, which ``stopped`` says, all smaller sets than those of the last level have been handed
    out, as far as the oracle could tell. ``complete`` says that there are no others; it is never said where some box
    could not be decided.
    """

    problem: Problem
    vary: int
    trusted: bool = True  # whether a proof for the values of the domains is one for all that can occur
    stopped: str | None = None
    complete: bool = False
    points: dict[int, Points] = field(default_factory=dict)
    reasons: Words = field(init=False)  # minimal sets of varying features whose values, kept, are proven to suffice
    unsure: bool = False  # whether some reason could not be proven

    def __post_init__(self) -> None:
        self.reasons = pack([], self.problem.n)

    def levels(self) -> Iterator[list[Found]]:
        """The sets of one level after the other; the last one may be unfinished."""
        handed_out: set[int] = set()
        search = Levels(self._lacks, pack([], self.problem.n), np.ones(self.problem.n), self.problem.meter)
        try:
            for _ in search():
                yield self._news(handed_out)
            self.complete = self.trusted and not self.unsure
            return
        except Spent:
            self.stopped = "budget"
        except KeyboardInterrupt:
            self.stopped = "interrupted"
        yield self._news(handed_out)

    def _news(self, handed_out: set[int]) -> list[Found]:
        new = [(one, point) for one, point in self.points.items() if one not in handed_out]
        handed_out |= set(self.points)
        return [Found(one, point, self._is_minimal(one)) for one, point in new]

    def _is_minimal(self, features: int) -> bool:
        """Whether every feature is the only one to touch some reason that is proven."""
        if not self.trusted:
            return False
        rows = [pack(features & ~(1 << feature), self.problem.n)[0] for feature in members(features)]
        return all(not (self.reasons & row).any(axis=1).all() for row in rows)

    def _lacks(self, features: int) -> Words:
        """A reason among the other features; if there is none, the change that shows it is kept."""
        kept = self.vary & ~features
        verdict = self._ask(kept)
        if isinstance(verdict, Refuted):
            point = verdict.points[0]
            changed = np.flatnonzero(point != self.problem.case.instance).tolist()
            self.points.setdefault(sum(1 << feature for feature in changed), point)
            return pack([], self.problem.n)
        for feature in members(kept):
            answer = self._ask(kept & ~(1 << feature))
            if not isinstance(answer, Refuted):
                kept, verdict = kept & ~(1 << feature), answer
        reason = pack(kept, self.problem.n)
        self.unsure |= not isinstance(verdict, Proven)
        self.reasons = joined(self.reasons, reason) if isinstance(verdict, Proven) else self.reasons
        return reason

    def _ask(self, kept: int) -> Verdict:
        """Whether a counterfactual exists that keeps these features, and those that may not vary."""
        fixed = kept | ((1 << self.problem.n) - 1 & ~self.vary)
        relevant = self.problem.case.relevant
        components = sum(0b11 << 2 * feature for feature in members(fixed)) & relevant.usable
        with self.problem.meter.timed("oracle"):
            return self.problem.ask(components, 1)
