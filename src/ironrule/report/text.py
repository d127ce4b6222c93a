"""Results as text for the terminal: an explanation, a judgement.

The ``describe_*`` functions give single sentences (what is known of shorter rules, of wider bounds, of robustness ...),
which the HTML reports, the command line and the server use too.
"""

from __future__ import annotations

import re

from ironrule.hitting.weights import ExactNumber
from ironrule.results.explanation import Explanation, RankedRule
from ironrule.results.judgement import Judgement
from ironrule.rule.phrasing import FeatureLabels
from ironrule.verdict.verdict import Proven, Quality, Verdict
from ironrule.wording import format_number, format_value

AMBIGUOUS_WORDS = re.compile(r"\b(or|if)\b")


def format_explanation(explanation: Explanation) -> str:
    """The rule, its verdict, its coverage, and the counterfactuals that bound it."""
    lines = [
        str(explanation.rule),
        *describe_scope(explanation),
        f"Verdict: {explanation.verdict}.",
        f"Components: {explanation.rule.cardinality_text}{describe_minimality(explanation)}. "
        f"Past rows covered: {explanation.coverage} of {explanation.history_rows}.",
    ]
    lines += describe_details(explanation)
    if explanation.changes:
        lines.append("What would have changed the outcome:")
        lines += [f"  - {counterfactual}" for counterfactual in explanation.changes]
    lines += describe_changes(explanation)
    return "\n".join(lines)


def describe_changes(explanation: Explanation) -> list[str]:
    """What is known of the suggested changes, where the explanation has any or none can be suggested."""
    return [] if explanation.changes is None else [explanation.changes.note]


def describe_marks(explanation: Explanation) -> list[str]:
    """The parts of the rule that use a protected feature, or that go against the declared direction."""
    return [f"Note: {mark.describe(explanation.rule)}." for mark in explanation.marks]


def describe_scope(explanation: Explanation) -> list[str]:
    """The constraints under which the rule holds, if there are any."""
    constraints = " and ".join(map(_parenthesize, explanation.constraints))
    return [f"Only where {constraints}."] if constraints else []


def _parenthesize(constraint: str) -> str:
    """In parentheses where ``and`` between constraints would be read otherwise."""
    return f"({constraint})" if AMBIGUOUS_WORDS.search(constraint) else constraint


def get_verdict_name(verdict: Verdict) -> str:
    """One word: proven, refuted or unrefuted."""
    return type(verdict).__name__.lower()


def describe_minimality(explanation: Explanation) -> str:
    """What is known of shorter rules, to be written after the number of components."""
    if explanation.minimum:
        return "; no shorter rule holds"
    if explanation.minimum_among_permitted:
        return "; no rule that was permitted weighs less"
    if not explanation.lower_bound:
        return ""
    subject = "rules need" if explanation.restrictions.is_unrestricted else "permitted rules weigh"
    return f"; {subject} at least {format_number(explanation.lower_bound)}"


def describe_details(explanation: Explanation) -> list[str]:
    """What else is known of the rule and of the search for it."""
    stopped = explanation.statistics.stopped
    return [
        *describe_marks(explanation),
        *describe_undecided(explanation),
        *describe_wider_rule(explanation),
        *describe_robustness(explanation),
        *describe_unreadable(explanation),
        *([f"The search was stopped early ({stopped})."] if stopped else []),
    ]


def describe_undecided(explanation: Explanation) -> list[str]:
    """Components that may or may not be needed."""
    names = ", ".join(explanation.undecided_components)
    return [f"Not known whether needed: {names}."] if names else []


def find_proven_wider_rule(explanation: Explanation) -> RankedRule | None:
    """The rule with its bounds as far out as is proven, where they could move at all."""
    wider = explanation.wider
    if wider is None or wider.rule == explanation.rule:
        return None
    return wider if isinstance(wider.verdict, Proven) and isinstance(explanation.verdict, Proven) else None


def describe_wider_rule(explanation: Explanation) -> list[str]:
    """The rule with its bounds as wide as proven, where they could move at all."""
    wider = find_proven_wider_rule(explanation)
    if wider is None:
        return []
    furthest = "no bound can move further" if explanation.wider_is_maximal else "bounds might move further"
    return [f"As wide as proven: {wider.rule} Past rows covered: {wider.coverage}; {furthest}."]


def describe_robustness(explanation: Explanation) -> list[str]:
    """For which changes of the scores, and for how many models, the rule must hold."""
    margin, models = explanation.decision.margin, explanation.model_count
    moved = [f"The rule must hold even if every score moved by {float(margin)!r}."] if margin else []
    return moved + ([f"The rule must hold for all {models} models at once."] if models > 1 else [])


def describe_unreadable(explanation: Explanation) -> list[str]:
    """Why a rule could not be proven by reading the model, where that is so."""
    if explanation.unreadable_reason is None or isinstance(explanation.verdict, Proven):
        return []
    return [f"The model could only be asked, not read: {explanation.unreadable_reason}."]


def format_desired_outcome(explanation: Explanation, friendly: bool = False) -> str:
    """The name of the desired outcome, where it has one."""
    labels = explanation.decision.desired
    if labels is None:
        return "the other decision" if friendly else "the desired outcome"
    return " or ".join(format_value(label, "letter") for label in labels)


def collect_labels(explanation: Explanation, friendly: bool = False) -> FeatureLabels:
    """The labels of the space behind an explanation; none where nothing stands behind it."""
    background = explanation.background
    labels = () if background is None else background.feature_labels
    return FeatureLabels({label.name: label for label in labels}, friendly)


def format_judgement(judgement: Judgement) -> str:
    """The rule, its class, and what shows it."""
    return "\n".join([str(judgement.rule), f"Quality: {judgement.quality}.", *describe_evidence(judgement)])


def describe_evidence(judgement: Judgement) -> list[str]:
    """The evidence for the class that a rule is in, in sentences."""
    sentences = []
    if judgement.exception is not None:
        row = judgement.exception_row
        start = "An exception" if row is None else f"Past row {row} is an exception"
        sentences.append(f"{start}: {judgement.exception}.")
    if judgement.shorter_rule is not None:
        redundant = judgement.redundant_component
        start = "A shorter rule holds" if redundant is None else f"Without {redundant} it still holds"
        sentences.append(f"{start}: {judgement.shorter_rule.rule}")
    if judgement.quality >= Quality.IRREDUNDANT and judgement.needs:
        sentences.append("Nothing in it is redundant: each component alone excludes some counterfactual.")
    if judgement.minimum_weight is not None:
        sentences.append(_compare_with_minimum(judgement, judgement.minimum_weight))
    if judgement.reason is not None:
        sentences.append(f"{judgement.reason[:1].upper()}{judgement.reason[1:]}.")
    return sentences


def _compare_with_minimum(judgement: Judgement, least: ExactNumber) -> str:
    """The rule's length beside the least there is; weights are named where they make a difference."""
    if judgement.weight == judgement.cardinality:
        own = judgement.rule.cardinality_text
        return f"Components: {own}; the shortest rules for this row have {format_number(least)}."
    return f"It weighs {format_number(judgement.weight)}; the lightest rules for this row weigh {format_number(least)}."
