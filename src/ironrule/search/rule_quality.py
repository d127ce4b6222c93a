"""Classify a given rule by proof: which of the paper's classes it belongs to.

A rule fails if a past row, or any point of its box that the oracle finds, has the desired outcome. It holds if the
oracle proves that there is none; then its components are left out one by one. One without which the rule is still
proven is redundant; if for each there is a counterfactual that only it excludes, none is. An irredundant rule goes to
the minimum search (:mod:`ironrule.search.minimum`), as the rule to begin with: it ends with a lighter rule that is
proven, or with counterfactuals that need a rule of this weight.

The rule may have other bounds than the row's own values. Each of its components implies the row's own on that side, so
the row's own minimum bounds it as well. Whatever could not be decided is left open: nothing is concluded from a search
that has found nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from ironrule.oracles.protocol import BoxQuery
from ironrule.rule.box import Box
from ironrule.rule.condition import ComponentIntervals, build_box, encode_own_components, find_own_components
from ironrule.search.driver import check_box, check_rule
from ironrule.search.minimum import Minimum
from ironrule.search.problem import Problem, SearchState
from ironrule.verdict.budget import BudgetExhausted, name_stop
from ironrule.verdict.verdict import NOT_SEARCHED, Proven, Quality, Refuted, Unrefuted, Verdict

MAX_ATTEMPTS = 20  # how often a lighter rule that an oracle let pass, and a check refutes, is replaced


class ProvenRule(NamedTuple):
    """A rule that holds."""

    parts: ComponentIntervals
    proof: Proven


@dataclass(frozen=True, slots=True)
class QualityFinding:
    """What is proven of one rule, in codes, and what shows it.

    ``past_row`` is the place of a past row that breaks it; ``redundant`` the place of a part that can go; ``shorter``
    the rule without that part, or one lighter than an irredundant rule; ``needed`` has, for every part of an
    irredundant rule, a counterfactual that it alone excludes; ``undecided`` is the place of a part that may be
    redundant or not.
    """

    parts: ComponentIntervals
    quality: Quality
    verdict: Verdict
    weight: float  # in units
    past_row: int | None = None
    redundant: int | None = None
    shorter: ProvenRule | None = None
    needed: tuple[Refuted, ...] | None = None
    undecided: int | None = None


@dataclass(slots=True)
class QualityClassifier:
    """Classifies rules for one problem; what one question has shown serves the next.

    ``stopped`` says what ended it early; ``state`` is the minimum search's, which begins with the lightest irredundant.
    """

    problem: Problem
    stopped: str | None = None
    state: SearchState = field(default_factory=SearchState)
    lightest_irredundant: ProvenRule | None = None  # the lightest irredundant one of those classified
    proofs: dict[int, Proven] = field(default_factory=dict)  # of rules that a check proved

    def classify(self, rules: Sequence[ComponentIntervals]) -> list[QualityFinding]:
        """One finding for every rule, in their order."""
        findings = [self._classify_alone(parts) for parts in rules]
        irredundant = [finding for finding in findings if finding.needed is not None]
        # One minimum search, from the lightest irredundant rule, serves all of them: its lower bound holds for all.
        if irredundant:
            best = min(irredundant, key=lambda finding: finding.weight)
            if isinstance(best.verdict, Proven):
                self.lightest_irredundant = ProvenRule(best.parts, best.verdict)
            self._search_lighter(find_own_components(best.parts))
        return [self._review(finding) for finding in findings]

    @property
    def lightest_proven(self) -> ProvenRule | None:
        """The lightest rule at hand that is proven: one of those classified, or that of the minimum search."""
        components = self.problem.case.components
        found = [] if self.lightest_irredundant is None else [self.lightest_irredundant]
        for rule in self.state.best:
            if (proof := self._lookup_proof(rule)) is not None:
                found.append(ProvenRule(encode_own_components(components, rule), proof))
        return min(found, key=lambda held: self.weigh(held.parts), default=None)

    @property
    def minimum_weight(self) -> float | None:
        """What the lightest rule weighs, where that is known: one of the weight that every rule needs is proven."""
        at_hand, bound = self.lightest_proven, self.state.lower_bound
        known = at_hand is not None and self.weigh(at_hand.parts) <= bound
        return bound if known else None

    def weigh(self, parts: ComponentIntervals) -> int:
        """The cardinality of a rule, weights counted in units."""
        return sum(int(self.problem.weights[part.bit]) for part in parts)  # a rule may say the same thing many times

    def _lookup_proof(self, rule: int) -> Proven | None:
        """The proof of a rule of the row's own components, if there is one."""
        known = self.proofs.get(rule) or self.problem.oracle.lookup(self.problem.case.components.box(rule))
        return known if isinstance(known, Proven) else None

    def _classify_alone(self, parts: ComponentIntervals) -> QualityFinding:
        """What can be said of a rule without looking at others."""
        case, weight = self.problem.case, self.weigh(parts)
        box = build_box(case.components, parts)
        past = self._find_past_exception(box)
        if past is not None:
            refuted = case.build_refuted(case.history.codes.row(past)[None, :])
            return QualityFinding(parts, Quality.FAILED_DATA, refuted, weight, past)
        verdict = self._decide(box)
        if isinstance(verdict, Refuted):
            return QualityFinding(parts, Quality.FAILED_GLOBAL, verdict, weight)
        finding = QualityFinding(parts, Quality.NOT_JUDGED, verdict, weight)
        return self._test_redundancy(finding) if isinstance(verdict, Proven) else finding

    def _test_redundancy(self, finding: QualityFinding) -> QualityFinding:
        """Leave out one component after the other."""
        needed, undecided = [], None
        # Leave out one part at a time. Proven without it: redundant, and nothing else matters. Refuted: the
        # counterfactual shows that the part is needed. Undecided: the rule cannot be called irredundant.
        for place in range(len(finding.parts)):
            rest = finding.parts[:place] + finding.parts[place + 1 :]
            verdict = self._decide(build_box(self.problem.case.components, rest))
            if isinstance(verdict, Proven):
                return replace(finding, quality=Quality.REDUNDANT, redundant=place, shorter=ProvenRule(rest, verdict))
            if isinstance(verdict, Refuted):
                needed.append(verdict)
            elif undecided is None:
                undecided = place
        return replace(finding, undecided=undecided, needed=tuple(needed) if undecided is None else None)

    def _review(self, finding: QualityFinding) -> QualityFinding:
        """What all the questions together say of a rule: one may have found an exception to another."""
        if finding.needed is not None:
            return self._compare(finding)
        if isinstance(finding.verdict, Unrefuted):
            known = self._lookup(build_box(self.problem.case.components, finding.parts))
            if isinstance(known, Refuted):
                return replace(finding, quality=Quality.FAILED_GLOBAL, verdict=known)
        return finding

    def _compare(self, finding: QualityFinding) -> QualityFinding:
        """An irredundant rule beside the lightest that is known."""
        # No consistent rule weighs less than the lower bound, so a rule of that weight is minimum.
        if finding.weight <= self.state.lower_bound:
            return replace(finding, quality=Quality.MINIMUM)
        lighter = self.lightest_proven
        if lighter is not None and self.weigh(lighter.parts) < finding.weight:
            return replace(finding, quality=Quality.IRREDUNDANT, shorter=lighter)
        return finding

    def _find_past_exception(self, box: Box) -> int | None:
        """The place of the first past row in a box that has the desired outcome."""
        history, sizes = self.problem.case.history, self.problem.case.space.sizes
        # `inside` has a flag per desired past row; the last line turns its place into a place among all past rows.
        inside = history.desired.flag_inside(box.low, box.high, sizes)
        first = int(np.argmax(inside)) if len(inside) else 0
        return int(np.flatnonzero(history.outcomes)[first]) if len(inside) and inside[first] else None

    def _decide(self, box: Box) -> Verdict:
        """The oracle's verdict on a box; what it leaves unrefuted is checked afresh. Unrefuted once stopped."""
        problem = self.problem
        if self.stopped is not None:
            return self._lookup(box)
        try:
            verdict = problem.oracle.find(BoxQuery(problem.case, box), problem.run)
            if isinstance(verdict, Unrefuted):
                verdict = check_box(problem, box, verdict, 1)
                if isinstance(verdict, Refuted):
                    problem.oracle.add_counterfactuals(verdict.points)
        except (BudgetExhausted, KeyboardInterrupt) as stop:
            self.stopped = name_stop(stop, self.problem.meter)
        return self._lookup(box) if self.stopped is not None else verdict

    def _lookup(self, box: Box) -> Verdict:
        """What is known of a box already; neither the oracle nor the model is asked."""
        points = self.problem.oracle.points
        if points is not None and (inside := box.contains(points)).any():
            return self.problem.case.build_refuted(points[inside][:1])
        return self.problem.oracle.lookup(box) or NOT_SEARCHED

    def _search_lighter(self, start: int) -> None:
        """Run the minimum search from a rule that holds. Nothing is lighter than the empty rule (0)."""
        self.state.best = [start]
        try:
            # An oracle that only searches may let a wrong rule pass: the check adds the exception; search again.
            for attempt in range(1, MAX_ATTEMPTS + 1 if start else 0):
                if not Minimum(ties=0).run(self.problem, self.state, start) or not self._is_refuted(attempt):
                    return
        except (BudgetExhausted, KeyboardInterrupt) as stop:
            self.stopped = name_stop(stop, self.problem.meter)

    def _is_refuted(self, attempt: int) -> bool:
        """Whether the rule that the minimum search ended with, which an oracle may have let pass, fails a check."""
        rule = self.state.best[0]
        verdict = self._lookup_proof(rule) or check_rule(self.problem, rule, attempt)
        if isinstance(verdict, Proven):
            self.proofs[rule] = verdict
        elif isinstance(verdict, Refuted):
            self.problem.oracle.add_counterfactuals(verdict.points)
        return isinstance(verdict, Refuted)
