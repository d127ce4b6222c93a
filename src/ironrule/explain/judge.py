"""Judge given rules: parse them, classify them, and say what shows the class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ironrule.errors import InputError, describe_value
from ironrule.explain.build import find_witnesses
from ironrule.explain.context import ExplainerContext
from ironrule.explain.extend import extend_to_bounds, extend_to_row
from ironrule.explain.options import SearchOptions
from ironrule.explain.query import build_problem, confirm_points, extend_to_named
from ironrule.hitting.weights import ExactNumber
from ironrule.oracles.protocol import Case
from ironrule.results.explanation import Explanation, RankedRule
from ironrule.results.judgement import Judgement
from ironrule.rule.condition import ComponentIntervals, build_box, decode_rule, encode_rule
from ironrule.rule.counterfactual import Counterfactual
from ironrule.rule.instance_components import InstanceComponents
from ironrule.rule.parsing import StatedComponent, parse_condition
from ironrule.rule.rule import Component, Rule
from ironrule.search.rule_quality import ProvenRule, QualityClassifier, QualityFinding
from ironrule.space.space import Space
from ironrule.verdict.budget import Meter
from ironrule.verdict.verdict import Proven, Quality
from ironrule.wording import format_number

RuleLike = Rule | Explanation | RankedRule | Component | str | Sequence[str | Component]
"""A rule as it may be handed over."""

A_RULE = "a rule must be a Rule or a list of conditions such as 'age <= 30'"


def judge_rules(
    context: ExplainerContext,
    row: Any,
    rules: RuleLike | Sequence[RuleLike],
    options: SearchOptions,
    progress: bool | None = False,
) -> Judgement | list[Judgement]:
    """The judgement of a rule, or of every rule of a list; the model confirms all exceptions before any is shown."""
    separate, alone = _split_rules(rules)
    stated = [condition for rule in separate for condition in list_conditions(context.space, rule)]
    context, row = extend_to_row(extend_to_bounds(context, stated), row)
    context = extend_to_named(context, options, names=[condition.feature for condition in stated])
    problem = build_problem(context, row, options)
    classifier = QualityClassifier(problem)
    with problem.meter.watch(progress):
        findings = classifier.classify([parse_rule(problem.case.components, rule) for rule in separate])
    confirm_points(context, problem)
    proof: Sequence[Counterfactual] | None = ()
    weight = classifier.state.lower_bound
    if weight and any(finding.quality is Quality.MINIMUM for finding in findings):
        proof = find_witnesses(problem, weight, classifier.state.bound_demands, problem.case.build_counterfactual)
    bound: ExactNumber = 0
    least: ExactNumber | None = None
    if proof is not None:
        bound = problem.to_user_weight(weight)
        least = None if classifier.minimum_weight is None else problem.to_user_weight(classifier.minimum_weight)
    builder = _JudgementBuilder(context, classifier, proof, bound, least)
    judgements = [builder.build(finding) for finding in findings]
    return judgements[0] if alone else judgements


def _split_rules(rules: Any) -> tuple[list[RuleLike], bool]:
    """The rules that were handed over, and whether it is one by itself: a rule, or a list of its conditions."""
    if isinstance(rules, (Rule, Explanation, RankedRule, Component, str)):
        return [rules], True
    if not isinstance(rules, Sequence):
        raise InputError(expected=A_RULE, got=describe_value(rules))
    alone = len(rules) > 0 and all(isinstance(item, (str, Component)) for item in rules)
    return [rules] if alone else list(rules), alone


def parse_rule(components: InstanceComponents, rule: RuleLike) -> ComponentIntervals:
    """One rule, in any of its forms, in codes; raises InputError if it cannot be one that holds for the row."""
    return encode_rule(components, list_conditions(components.space, rule))


def list_rule_features(space: Space, rule: RuleLike) -> set[str]:
    """The features that a rule speaks of; raises InputError if it cannot be a rule."""
    return {condition.feature for condition in list_conditions(space, rule)}


def list_conditions(space: Space, rule: RuleLike) -> list[StatedComponent]:
    """The conditions of a rule in any of its forms."""
    if isinstance(rule, (Explanation, RankedRule)):
        rule = rule.rule
    if isinstance(rule, Rule):
        rule = rule.components
    if not isinstance(rule, (str, Component, Sequence)):
        raise InputError(expected=A_RULE, got=describe_value(rule))
    items = [rule] if isinstance(rule, (str, Component)) else list(rule)
    return [condition for item in items for condition in _parse_conditions(space, item)]


def _parse_conditions(space: Space, item: Any) -> list[StatedComponent]:
    if isinstance(item, Component):
        return [StatedComponent(item.feature, item.op, item.value)]
    if not isinstance(item, str):
        raise InputError(
            expected="a condition must be a Component or a string such as 'age <= 30'", got=describe_value(item)
        )
    return parse_condition(item, space)


def _describe_stop(meter: Meter) -> str:
    """What ended the work, and what would help."""
    if meter.ended_by == "interrupted":
        return "it was interrupted"
    limits = {"seconds": (meter.budget.seconds, "s"), "evaluations": (meter.budget.evaluations, "evaluations")}
    size, unit = limits.get(meter.ended_by, (None, ""))
    return "the budget ended first" + ("" if size is None else f" ({size:,g} {unit}; a larger one may decide it)")


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
        past_row = finding.past_row
        if quality is Quality.MINIMUM and self.proof is None:
            quality = Quality.NOT_JUDGED
        return Judgement(
            rule=rule,
            quality=quality,
            verdict=self._case.embed_verdict(finding.verdict),
            weight=self.classifier.problem.to_user_weight(finding.weight),
            exception_row=None if past_row is None else int(self.context.get_row_numbers(np.array(past_row))),
            redundant_component=None if finding.redundant is None else rule.components[finding.redundant],
            shorter_rule=None if finding.shorter is None else self._rank_rule(finding.shorter),
            needs=tuple(self._case.build_counterfactual(refuted.points[0]) for refuted in finding.needed or ()),
            witnesses=self.proof if self.proof is not None and quality is Quality.MINIMUM else (),
            lower_bound=self.lower_bound if compared else 0,
            minimum_weight=self.least if compared else None,
            reason=self._explain_not_judged(finding, rule) if quality is Quality.NOT_JUDGED else None,
            confirmed=self.context.is_confirmed,
        )

    @property
    def _case(self) -> Case:
        return self.classifier.problem.case

    def _rule(self, parts: ComponentIntervals) -> Rule:
        outcome = self.context.model.primary.decision.undesired_name
        return decode_rule(self._case.components, parts, outcome)

    def _rank_rule(self, proven: ProvenRule) -> RankedRule:
        case = self._case
        covered = case.history.count_covered(build_box(case.components, proven.parts), case.space.sizes)
        return RankedRule(self._rule(proven.parts), case.embed_verdict(proven.proof), covered)

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
            return _describe_stop(self.classifier.problem.meter)
        if self.context.unreadable_reason is not None:
            return f"the model could only be asked, not read: {self.context.unreadable_reason}"
        return "the search reached its limits"
