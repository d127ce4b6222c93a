"""From rules that somebody hands over to judgements of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ironrule.errors import InputError
from ironrule.explain.explanation import Explanation, RankedRule
from ironrule.explain.judgement import Judgement
from ironrule.explain.prepared import Prepared
from ironrule.rule import Component, Counterfactual, Deferred, Relevant, Rule
from ironrule.rule.stated import Condition, Parts, as_rule, box_of, parts_of
from ironrule.rule.stating import conditions_in
from ironrule.rule.weights import Number, as_text
from ironrule.verdict import Proven, Quality

if TYPE_CHECKING:
    from ironrule.search.judge import Finding, Held, Judge
    from ironrule.search.problem import Problem
    from ironrule.space import Points

Statement = Rule | Explanation | RankedRule | Component | str | Sequence[str | Component]
"""A rule as it may be handed over."""

A_RULE = "a rule must be a Rule or a list of conditions such as 'age <= 30'"
STOPPED = {"budget": "the budget ended first", "interrupted": "it was interrupted"}


def one_or_several(given: Any) -> tuple[list[Statement], bool]:
    """The rules that were handed over, and whether it is one by itself: a rule, or a list of its conditions."""
    if isinstance(given, (Rule, Explanation, RankedRule, Component, str)):
        return [given], True
    if not isinstance(given, Sequence):
        raise InputError(expected=A_RULE, got=repr(given))
    alone = len(given) > 0 and all(isinstance(item, (str, Component)) for item in given)
    return [given] if alone else list(given), alone


def stated(relevant: Relevant, given: Statement) -> Parts:
    """One rule, however it is handed over, in codes; raises InputError if it cannot be one that holds for the row."""
    if isinstance(given, (Explanation, RankedRule)):
        given = given.rule
    if isinstance(given, Rule):
        given = given.components
    if not isinstance(given, (str, Component, Sequence)):
        raise InputError(expected=A_RULE, got=repr(given))
    some = [given] if isinstance(given, (str, Component)) else list(given)
    return parts_of(relevant, [condition for item in some for condition in _conditions(relevant, item)])


def _conditions(relevant: Relevant, item: Any) -> list[Condition]:
    if isinstance(item, Component):
        return [Condition(item.feature, item.op, item.value)]
    if not isinstance(item, str):
        raise InputError(expected="a condition must be a Component or a string such as 'age <= 30'", got=repr(item))
    return conditions_in(item, relevant.space)


def judged(
    ready: Prepared, problem: Problem, rules: Sequence[Parts], unread: str | None, confirm: Callable[[Problem], None]
) -> list[Judgement]:
    """The judgement of every rule; ``confirm`` is called before any is shown."""
    from ironrule.search.judge import Judge

    judge = Judge(problem)
    findings = judge.judge(rules)
    confirm(problem)
    proof = _witnesses(judge) if any(finding.quality is Quality.MINIMUM for finding in findings) else ()
    bound: Number = 0
    least: Number | None = None
    if proof is not None:
        bound = problem.in_user_terms(judge.trail.lower_bound)
        least = None if judge.least is None else problem.in_user_terms(judge.least)
    bench = _Bench(ready, judge, unread, proof, bound, least)
    return [bench.judgement(finding) for finding in findings]


def _witnesses(judge: Judge) -> Sequence[Counterfactual] | None:
    """Counterfactuals that need a rule of the lower bound's weight; None if they cannot be gathered."""
    from ironrule.search.witnesses import witnesses

    problem, weight = judge.problem, judge.trail.lower_bound
    if not weight:
        return ()
    if problem.oracle.all_known:  # a minimum hitting set of all that a rule must hit has just been found
        return Deferred(lambda: _named(problem, witnesses(problem, weight)))
    found = witnesses(problem, weight, judge.trail.needing)
    return None if found is None else _named(problem, found)


def _named(problem: Problem, points: Points | None) -> tuple[Counterfactual, ...]:
    case, some = problem.case, () if points is None else points
    return tuple(Counterfactual.between(case.space, case.instance, point) for point in some)


@dataclass(frozen=True, slots=True, eq=False)
class _Bench:
    """From findings in codes to judgements in the user's terms.

    ``proof`` shows that nothing is lighter than a minimum rule; without it neither that nor a bound is claimed.
    """

    ready: Prepared
    judge: Judge
    unread: str | None
    proof: Sequence[Counterfactual] | None
    bound: Number
    least: Number | None

    def judgement(self, finding: Finding) -> Judgement:
        """One finding in the user's terms."""
        quality, rule, compared = finding.quality, self._rule(finding.parts), finding.needed is not None
        if quality is Quality.MINIMUM and self.proof is None:
            quality = Quality.NOT_JUDGED
        return Judgement(
            rule,
            quality,
            finding.verdict,
            self.judge.problem.in_user_terms(finding.weight),
            None if finding.past is None else self.ready.row_of(finding.past),
            None if finding.redundant is None else rule.components[finding.redundant],
            None if finding.shorter is None else self._ranked(finding.shorter),
            tuple(refuted.counterfactual for refuted in finding.needed or ()),
            self.proof if self.proof is not None and quality is Quality.MINIMUM else (),
            self.bound if compared else 0,
            self.least if compared else None,
            self._reason(finding, rule) if quality is Quality.NOT_JUDGED else None,
        )

    def _rule(self, parts: Parts) -> Rule:
        return as_rule(self.judge.problem.case.relevant, parts, self.ready.model.own.decision.undesired)

    def _ranked(self, held: Held) -> RankedRule:
        box = box_of(self.judge.problem.case.relevant, held.parts)
        return RankedRule(self._rule(held.parts), held.proof, self.ready.history.coverage(box, self.ready.space.sizes))

    def _reason(self, finding: Finding, rule: Rule) -> str:
        """Why a rule could not be judged, and what is known of it all the same."""
        if not isinstance(finding.verdict, Proven):
            return f"whether the rule holds is not known: {self._why}"
        if finding.undecided is not None:
            part = rule.components[finding.undecided]
            return f"the rule holds, but whether {part} is redundant is not known: {self._why}"
        weight = self.judge.problem.in_user_terms(finding.weight)
        weights = f"rules need at least {as_text(self.bound)}, this one weighs {as_text(weight)}"
        open_ = f"whether it is minimum is not known ({weights})"
        return f"the rule holds and nothing in it is redundant, but {open_}: {self._why}"

    @property
    def _why(self) -> str:
        if self.judge.stopped is not None:
            return STOPPED[self.judge.stopped]
        if self.unread is not None:
            return f"the model could only be asked, not read: {self.unread}"
        return "the search reached its limits"
