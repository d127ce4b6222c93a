"""Judge given rules: parse them, classify them, and say what shows the class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ironrule.errors import InputError
from ironrule.explain.context import ExplainerContext
from ironrule.hitting.weights import ExactNumber
from ironrule.results.explanation import Explanation, RankedRule
from ironrule.results.judgement import Judgement
from ironrule.rule.condition import ComponentIntervals, build_box, decode_rule, encode_rule
from ironrule.rule.counterfactual import Counterfactual, LazySequence
from ironrule.rule.instance_components import InstanceComponents
from ironrule.rule.parsing import StatedComponent, parse_condition
from ironrule.rule.rule import Component, Rule
from ironrule.verdict.verdict import Proven, Quality
from ironrule.wording import format_number

if TYPE_CHECKING:
    from ironrule.arrays import Points
    from ironrule.search.classify import ProvenRule, QualityClassifier, QualityFinding
    from ironrule.search.problem import Problem


RuleLike = Rule | Explanation | RankedRule | Component | str | Sequence[str | Component]
"""A rule as it may be handed over."""

A_RULE = "a rule must be a Rule or a list of conditions such as 'age <= 30'"
STOP_REASONS = {"budget": "the budget ended first", "interrupted": "it was interrupted"}


def split_rules(given: Any) -> tuple[list[RuleLike], bool]:
    """The rules that were handed over, and whether it is one by itself: a rule, or a list of its conditions."""
    if isinstance(given, (Rule, Explanation, RankedRule, Component, str)):
        return [given], True
    if not isinstance(given, Sequence):
        raise InputError(expected=A_RULE, got=repr(given))
    alone = len(given) > 0 and all(isinstance(item, (str, Component)) for item in given)
    return [given] if alone else list(given), alone


def parse_rule(components: InstanceComponents, given: RuleLike) -> ComponentIntervals:
    """One rule, however it is handed over, in codes; raises InputError if it cannot be one that holds for the row."""
    if isinstance(given, (Explanation, RankedRule)):
        given = given.rule
    if isinstance(given, Rule):
        given = given.components
    if not isinstance(given, (str, Component, Sequence)):
        raise InputError(expected=A_RULE, got=repr(given))
    items = [given] if isinstance(given, (str, Component)) else list(given)
    return encode_rule(components, [condition for item in items for condition in _parse_conditions(components, item)])


def _parse_conditions(components: InstanceComponents, item: Any) -> list[StatedComponent]:
    if isinstance(item, Component):
        return [StatedComponent(item.feature, item.op, item.value)]
    if not isinstance(item, str):
        raise InputError(expected="a condition must be a Component or a string such as 'age <= 30'", got=repr(item))
    return parse_condition(item, components.space)


def judge_rules(
    context: ExplainerContext,
    problem: Problem,
    rules: Sequence[ComponentIntervals],
    confirm: Callable[[Problem], None],
) -> list[Judgement]:
    """The judgement of every rule; ``confirm`` is called before any is shown."""
    from ironrule.search.classify import QualityClassifier

    classifier = QualityClassifier(problem)
    findings = classifier.classify(rules)
    confirm(problem)
    proof = _find_witnesses(classifier) if any(finding.quality is Quality.MINIMUM for finding in findings) else ()
    bound: ExactNumber = 0
    least: ExactNumber | None = None
    if proof is not None:
        bound = problem.to_user_weight(classifier.state.lower_bound)
        least = None if classifier.minimum_weight is None else problem.to_user_weight(classifier.minimum_weight)
    builder = _JudgementBuilder(context, classifier, proof, bound, least)
    return [builder.build(finding) for finding in findings]


def _find_witnesses(classifier: QualityClassifier) -> Sequence[Counterfactual] | None:
    """Counterfactuals that need a rule of the lower bound's weight; None if they cannot be gathered."""
    from ironrule.search.minimum import find_bound_witnesses

    problem, weight = classifier.problem, classifier.state.lower_bound
    if not weight:
        return ()
    if problem.oracle.has_all_duals:  # a minimum hitting set of all that a rule must hit has just been found
        return LazySequence(lambda: _build_counterfactuals(problem, find_bound_witnesses(problem, weight)))
    found = find_bound_witnesses(problem, weight, classifier.state.bound_demands)
    return None if found is None else _build_counterfactuals(problem, found)


def _build_counterfactuals(problem: Problem, points: Points | None) -> tuple[Counterfactual, ...]:
    case, known = problem.case, () if points is None else points
    return tuple(Counterfactual.from_point(case.space, case.instance, point) for point in known)


@dataclass(frozen=True, slots=True, eq=False)
class _JudgementBuilder:
    """From findings in codes to judgements in the user's terms.

    ``proof`` shows that nothing is lighter than a minimum rule; without it neither that nor a bound is claimed.
    """

    context: ExplainerContext
    classifier: QualityClassifier
    proof: Sequence[Counterfactual] | None
    lower_bound: ExactNumber
    least: ExactNumber | None

    def build(self, finding: QualityFinding) -> Judgement:
        """One finding in the user's terms."""
        quality, rule, compared = finding.quality, self._rule(finding.parts), finding.needed is not None
        if quality is Quality.MINIMUM and self.proof is None:
            quality = Quality.NOT_JUDGED
        return Judgement(
            rule=rule,
            quality=quality,
            verdict=finding.verdict,
            weight=self.classifier.problem.to_user_weight(finding.weight),
            exception_row=None if finding.past_row is None else self.context.get_row_number(finding.past_row),
            redundant_component=None if finding.redundant is None else rule.components[finding.redundant],
            shorter_rule=None if finding.shorter is None else self._rank_rule(finding.shorter),
            needs=tuple(refuted.counterfactual for refuted in finding.needed or ()),
            witnesses=self.proof if self.proof is not None and quality is Quality.MINIMUM else (),
            lower_bound=self.lower_bound if compared else 0,
            minimum_weight=self.least if compared else None,
            reason=self._explain_not_judged(finding, rule) if quality is Quality.NOT_JUDGED else None,
        )

    def _rule(self, parts: ComponentIntervals) -> Rule:
        return decode_rule(
            self.classifier.problem.case.components, parts, self.context.model.primary.decision.undesired_name
        )

    def _rank_rule(self, proven: ProvenRule) -> RankedRule:
        box = build_box(self.classifier.problem.case.components, proven.parts)
        return RankedRule(
            self._rule(proven.parts), proven.proof, self.context.history.count_covered(box, self.context.space.sizes)
        )

    def _explain_not_judged(self, finding: QualityFinding, rule: Rule) -> str:
        """Why a rule could not be judged, and what is known of it all the same."""
        if not isinstance(finding.verdict, Proven):
            return f"whether the rule holds is not known: {self._stop_reason}"
        if finding.undecided is not None:
            part = rule.components[finding.undecided]
            return f"the rule holds, but whether {part} is redundant is not known: {self._stop_reason}"
        weight = self.classifier.problem.to_user_weight(finding.weight)
        weights = f"rules need at least {format_number(self.lower_bound)}, this one weighs {format_number(weight)}"
        open_ = f"whether it is minimum is not known ({weights})"
        return f"the rule holds and nothing in it is redundant, but {open_}: {self._stop_reason}"

    @property
    def _stop_reason(self) -> str:
        if self.classifier.stopped is not None:
            return STOP_REASONS[self.classifier.stopped]
        if self.context.unreadable_reason is not None:
            return f"the model could only be asked, not read: {self.context.unreadable_reason}"
        return "the search reached its limits"
