"""The report for the person whom the decision is about: plain sentences, labels and units, no technical terms."""

from __future__ import annotations

from typing import Any

from ironrule.report.plots.conditions import draw_condition_pages
from ironrule.report.plots.drawing import choose_style
from ironrule.report.text import collect_labels, format_desired_outcome, format_plain_constraint
from ironrule.results.explanation import Explanation
from ironrule.results.ladder import Ladder
from ironrule.results.scope import describe_checked_values
from ironrule.rule.counterfactual import Counterfactual
from ironrule.rule.phrasing import FeatureLabels, format_outcome, group_conditions, is_named_outcome
from ironrule.verdict.bounded import Bounded
from ironrule.verdict.verdict import Proven, Refuted, Unrefuted, Verdict
from ironrule.wording import format_count, format_percent_down


def build_letter(explanation: Explanation, name: str | None = None) -> dict[str, Any]:
    """The values of ``letter.html``; ``name`` stands above a letter among others."""
    labels = collect_labels(explanation, friendly=True)
    shown = explanation.shown  # the wider rule says more
    has_plot = explanation.rule.components and explanation.background is not None
    instance = {feature: labels.format_value(feature, value) for feature, value in explanation.instance.items()}
    is_named = is_named_outcome(explanation.rule.outcome)
    title = f"Why the decision was: {format_outcome(explanation.rule)}" if is_named else "Why this decision was made"
    return {
        "name": name,
        "title": title,
        "short": None,
        "claim": _format_claim(explanation.verdict, bool(shown.rule.components)),
        "reasons": [
            (labels.label(condition.feature), labels.format_sentence(condition), instance[condition.feature])
            for condition in group_conditions(shown.rule)
        ],
        "style": choose_style(explanation.verdict),
        "constraints": [*map(format_plain_constraint, explanation.constraints)],
        "evidence": _describe_verdict(explanation, labels),
        "past_cases": explanation.history_rows,
        "covered": shown.coverage,
        "is_alone": explanation.covers_only_instance or shown.coverage == 0,
        "desired": format_desired_outcome(explanation, True),
        "changes": [_format_changes(change, labels) for change in explanation.changes or ()],
        "needs": _describe_needs(explanation, labels),
        "drawings": draw_condition_pages(explanation, labels) if has_plot else (),
        "facts": [(labels.label(feature), text) for feature, text in instance.items()],
    }


def build_ladder_letter(ladder: Ladder, name: str | None = None) -> dict[str, Any]:
    """The same with the short rule first, where a ladder has one; the complete rule is folded below it."""
    letter = build_letter(ladder.explanation, name)
    rung = ladder.short
    if not isinstance(rung.verdict, Bounded):
        return letter
    labels, instance = collect_labels(ladder.explanation, friendly=True), ladder.explanation.instance
    count = format_count(len(ladder.last.rule.features), "condition")
    is_proven = isinstance(ladder.last.verdict, Proven)
    share = format_percent_down(1.0 - rung.verdict.exceptions)
    short = {
        "claim": f"At least {share} of people for whom all of this is true get this decision:",
        "reasons": [
            (
                labels.label(condition.feature),
                labels.format_sentence(condition),
                labels.format_value(condition.feature, instance[condition.feature]),
            )
            for condition in group_conditions(rung.rule)
        ],
        "evidence": _describe_bound(ladder, rung.verdict),
        "complete": f"Why you can rely on it: the complete rule, with {count}"
        if is_proven
        else f"What is known of the complete rule, with {count}",
    }
    return letter | {"short": short}


def _describe_bound(ladder: Ladder, verdict: Bounded) -> str:
    """What the share of a short rule was measured on, and that it is no proof."""
    cases = format_count(verdict.rows, "other past case that fits", "other past cases that fit")
    seen = {0: "none of them was", 1: "1 of them was"}.get(verdict.seen, f"{verdict.seen:,} of them were")
    measured = f"This was measured on {cases} this description; {seen} decided differently."
    certain = f"It is right with {format_percent_down(verdict.confidence)} certainty; it is not a proof."
    trained = " Some of these cases may have been used to develop the way that decisions are made."
    return f"{measured} {certain}{trained if ladder.measured_from == 'split' else ''}"


def _format_claim(verdict: Verdict, has_conditions: bool) -> str:
    everyone = "everyone for whom all of this is true" if has_conditions else "everyone"
    end = ":" if has_conditions else ", regardless of what is known about them."
    match verdict:
        case Proven():
            return f"{everyone.capitalize()} gets this decision{end}"
        case Unrefuted():
            return f"As far as we searched, {everyone} gets this decision{end}"
        case Refuted():
            return f"Not {everyone} gets this decision{':' if has_conditions else '.'}"


def _describe_verdict(explanation: Explanation, labels: FeatureLabels) -> str:
    match explanation.verdict:
        case Proven():
            return f"This was checked for {describe_checked_values(explanation)}."
        case Unrefuted(tried):
            cases = format_count(tried, "possible case that fits", "possible cases that fit")
            searched = f"We tried {cases} this description, and {'it' if tried == 1 else 'all'} got this decision."
            return f"{searched} This is not a proof: there may be cases that fit and are decided differently."
        case Refuted(counterfactual):
            exception = _format_changes(counterfactual, labels) or "one with the same facts"
            unexplained = "So this does not fully explain the decision."
            return f"{unexplained} This case fits, but is decided differently: {exception}."


def _format_changes(counterfactual: Counterfactual, labels: FeatureLabels) -> str:
    return "; ".join(
        f"{labels.label(change.feature)}: {labels.format_value(change.feature, change.after)} instead of "
        f"{labels.format_value(change.feature, change.before)}"
        for change in counterfactual.changes
    )


def _describe_needs(explanation: Explanation, labels: FeatureLabels) -> list[str]:
    """For each component, the values of a case that it alone excludes; none where other models decide these cases.

    An example that changes a feature which no change is suggested of, or the wrong way, is left out.
    """
    background = explanation.background
    if background is None or background.is_robust or isinstance(explanation.verdict, Refuted):
        return []
    examples = [
        _format_example(need.counterfactual, need.component.feature, labels)
        for need in background.needs
        if need.counterfactual is not None and _respects_limits(need.counterfactual, explanation)
    ]
    return list(dict.fromkeys(examples))


def _respects_limits(counterfactual: Counterfactual, explanation: Explanation) -> bool:
    """Whether every change is one that could be suggested; not, where that is not known."""
    suggested = explanation.changes
    return suggested is not None and all(map(suggested.permits, counterfactual.changes))


def _format_example(counterfactual: Counterfactual, excluded_by: str, labels: FeatureLabels) -> str:
    """The changed values; first that of the feature which excludes the example from the rule."""
    changes = sorted(counterfactual.changes, key=lambda change: change.feature != excluded_by)
    return " and ".join(
        f"{labels.label(change.feature)}: {labels.format_value(change.feature, change.after)}" for change in changes
    )
