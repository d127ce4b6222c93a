"""The judge: which of the paper's classes a given rule belongs to, by proof.

A rule fails if a past row, or any point of its box that the oracle finds, has the desired outcome. It holds if the
oracle proves that there is none; then its components are left out one by one. One without which the rule is still
proven is redundant; if for each there is a counterfactual that only it excludes, none is. An irredundant rule goes to
the minimum search (:mod:`ironrule.search.minimum`), as the rule to begin with: it ends with a lighter rule that is
proven, or with counterfactuals that need a rule of this weight.

The rule may have other bounds than the row's own values (:mod:`ironrule.rule.stated`). Each of its components implies
the row's own on that side, so the row's own minimum bounds it as well. Whatever could not be decided is left open:
nothing is concluded from a search that has found nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from ironrule.rule import Box
from ironrule.rule.stated import Parts, box_of, own_parts, own_rule
from ironrule.search.minimum import Minimum
from ironrule.search.problem import Problem, Trail
from ironrule.search.solve import check, check_afresh
from ironrule.verdict import Proven, Quality, Refuted, Spent, Unrefuted, Verdict

ATTEMPTS = 20  # how often a lighter rule that an oracle let pass, and a check refutes, is replaced
NOTHING = Unrefuted(tried=0, samples=0, confidence=0.0)


class Held(NamedTuple):
    """A rule that holds."""

    parts: Parts
    proof: Proven


@dataclass(frozen=True, slots=True)
class Finding:
    """What is proven of one rule, in codes, and what shows it.

    ``past`` is the place of a past row that breaks it; ``redundant`` the place of a part that can go; ``shorter`` the
    rule without that part, or one lighter than an irredundant rule; ``needed`` has, for every part of an irredundant
    rule, a counterfactual that it alone excludes; ``undecided`` is the place of a part that may be redundant or not.
    """

    parts: Parts
    quality: Quality
    verdict: Verdict
    weight: float  # in units
    past: int | None = None
    redundant: int | None = None
    shorter: Held | None = None
    needed: tuple[Refuted, ...] | None = None
    undecided: int | None = None


@dataclass(slots=True)
class Judge:
    """Judges rules for one problem; what one question has shown serves the next. ``stopped`` says what ended it early.

    ``trail`` is that of the minimum search, which begins with the lightest irredundant rule.
    """

    problem: Problem
    stopped: str | None = None
    trail: Trail = field(default_factory=Trail)
    held: Held | None = None  # the lightest irredundant one of those judged
    proofs: dict[int, Proven] = field(default_factory=dict)  # of rules that a check proved

    def judge(self, rules: Sequence[Parts]) -> list[Finding]:
        """One finding for every rule, in their order."""
        findings = [self._by_itself(parts) for parts in rules]
        irredundant = [finding for finding in findings if finding.needed is not None]
        if irredundant:
            best = min(irredundant, key=lambda finding: finding.weight)
            self.held = Held(best.parts, best.verdict) if isinstance(best.verdict, Proven) else None
            self._look_for_lighter(own_rule(best.parts))
        return [self._reviewed(finding) for finding in findings]

    @property
    def lightest(self) -> Held | None:
        """The lightest rule at hand that is proven: one of those judged, or that of the minimum search."""
        relevant, found = self.problem.case.relevant, [] if self.held is None else [self.held]
        for rule in self.trail.best:
            if (proof := self._proof(rule)) is not None:
                found.append(Held(own_parts(relevant, rule), proof))
        return min(found, key=lambda held: self.weight(held.parts), default=None)

    @property
    def least(self) -> float | None:
        """What the lightest rule weighs, where that is known: one of the weight that every rule needs is proven."""
        at_hand, bound = self.lightest, self.trail.lower_bound
        known = at_hand is not None and self.weight(at_hand.parts) <= bound
        return bound if known else None

    def weight(self, parts: Parts) -> int:
        """The cardinality of a rule, weights counted in units."""
        return sum(int(self.problem.weights[part.bit]) for part in parts)  # a rule may say the same thing many times

    def _proof(self, rule: int) -> Proven | None:
        """The proof of a rule of the row's own components, if there is one."""
        known = self.proofs.get(rule) or self.problem.oracle.recall(self.problem.case.relevant.box(rule))
        return known if isinstance(known, Proven) else None

    def _by_itself(self, parts: Parts) -> Finding:
        """What can be said of a rule without looking at others."""
        relevant = self.problem.case.relevant
        box, weight = box_of(relevant, parts), self.weight(parts)
        past = self._past_exception(box)
        if past is not None:
            point = self.problem.case.history.codes.row(past)
            return Finding(parts, Quality.FAILED_DATA, self.problem.case.refuted(point[None, :]), weight, past)
        verdict = self._decided(box)
        if isinstance(verdict, Refuted):
            return Finding(parts, Quality.FAILED_GLOBAL, verdict, weight)
        finding = Finding(parts, Quality.NOT_JUDGED, verdict, weight)
        return self._without_each(finding) if isinstance(verdict, Proven) else finding

    def _without_each(self, finding: Finding) -> Finding:
        """Leave out one component after the other."""
        needed, undecided = [], None
        for place in range(len(finding.parts)):
            rest = finding.parts[:place] + finding.parts[place + 1 :]
            verdict = self._decided(box_of(self.problem.case.relevant, rest))
            if isinstance(verdict, Proven):
                return replace(finding, quality=Quality.REDUNDANT, redundant=place, shorter=Held(rest, verdict))
            if isinstance(verdict, Refuted):
                needed.append(verdict)
            elif undecided is None:
                undecided = place
        return replace(finding, undecided=undecided, needed=tuple(needed) if undecided is None else None)

    def _reviewed(self, finding: Finding) -> Finding:
        """What all the questions together say of a rule: one may have found an exception to another."""
        if finding.needed is not None:
            return self._compared(finding)
        if isinstance(finding.verdict, Unrefuted):
            known = self._known(box_of(self.problem.case.relevant, finding.parts))
            if isinstance(known, Refuted):
                return replace(finding, quality=Quality.FAILED_GLOBAL, verdict=known)
        return finding

    def _compared(self, finding: Finding) -> Finding:
        """An irredundant rule beside the lightest that is known."""
        if finding.weight <= self.trail.lower_bound:
            return replace(finding, quality=Quality.MINIMUM)
        lighter = self.lightest
        if lighter is not None and self.weight(lighter.parts) < finding.weight:
            return replace(finding, quality=Quality.IRREDUNDANT, shorter=lighter)
        return finding

    def _past_exception(self, box: Box) -> int | None:
        """The place of the first past row in a box that has the desired outcome."""
        history, sizes = self.problem.case.history, self.problem.case.space.sizes
        inside = history.desired.inside(box.low, box.high, sizes)
        first = int(np.argmax(inside)) if len(inside) else 0
        return int(np.flatnonzero(history.outcomes)[first]) if len(inside) and inside[first] else None

    def _decided(self, box: Box) -> Verdict:
        """The oracle's verdict on a box; what it leaves unrefuted is checked afresh. Unrefuted once stopped."""
        problem = self.problem
        if self.stopped is not None:
            return self._known(box)
        try:
            verdict = problem.oracle.find(problem.case, box, 1, problem.meter, problem.rng)
            if isinstance(verdict, Unrefuted):
                verdict = check_afresh(problem, box, verdict, 1)
                if isinstance(verdict, Refuted):
                    problem.oracle.learn(verdict.points)
        except Spent:
            self.stopped = "budget"
        except KeyboardInterrupt:
            self.stopped = "interrupted"
        return self._known(box) if self.stopped is not None else verdict

    def _known(self, box: Box) -> Verdict:
        """What is known of a box already; nobody is asked."""
        points = self.problem.oracle.points
        if points is not None and (inside := box.contains(points)).any():
            return self.problem.case.refuted(points[inside][:1])
        return self.problem.oracle.recall(box) or NOTHING

    def _look_for_lighter(self, start: int) -> None:
        """The minimum search from a rule that holds; nothing is lighter than the rule that everyone satisfies."""
        self.trail.best = [start]
        try:
            for attempt in range(1, ATTEMPTS + 1 if start else 0):
                if not Minimum(ties=0).run(self.problem, self.trail, start) or not self._is_refuted(attempt):
                    return
        except Spent:
            self.stopped = "budget"
        except KeyboardInterrupt:
            self.stopped = "interrupted"

    def _is_refuted(self, attempt: int) -> bool:
        """Whether the rule that the minimum search ended with, which an oracle may have let pass, fails a check."""
        rule = self.trail.best[0]
        verdict = self._proof(rule) or check(self.problem, rule, attempt)
        if isinstance(verdict, Proven):
            self.proofs[rule] = verdict
        elif isinstance(verdict, Refuted):
            self.problem.oracle.learn(verdict.points)
        return isinstance(verdict, Refuted)
