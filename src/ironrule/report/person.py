"""The report for the person whom the decision is about: plain sentences, labels and units, no technical terms."""

from __future__ import annotations

import re
from html import escape

from ironrule.report.html import (
    CONDITIONS_PER_PAGE,
    badge,
    bullet_list,
    facts_table,
    figure,
    format_changes,
    paragraph,
    section,
)
from ironrule.report.plots.conditions import build_conditions_plot, draw_conditions
from ironrule.report.plots.drawing import choose_style
from ironrule.report.text import collect_labels, find_proven_wider_rule, format_desired_outcome
from ironrule.results.background import ComponentNeed
from ironrule.results.explanation import Explanation
from ironrule.rule.phrasing import UNNAMED_OUTCOME, FeatureCondition, FeatureLabels, format_outcome, group_conditions
from ironrule.rule.rule import Rule
from ironrule.verdict.verdict import Proven, Refuted, Unrefuted, Verdict
from ironrule.wording import format_count

CF_PREFIX = re.compile(r"""("[^"]*"|'[^']*')|\bcf\.""")  # outside quotation marks
DISCLAIMER = "This is about the decision as it was made. It does not promise how a later decision will come out."


def format_person_title(explanation: Explanation) -> str:
    """What the report is called."""
    name = explanation.rule.outcome
    return (
        "Why this decision was made"
        if name == UNNAMED_OUTCOME
        else f"Why the decision was: {format_outcome(explanation.rule)}"
    )


def render_person_body(explanation: Explanation) -> str:
    """The whole report as HTML."""
    labels = collect_labels(explanation, friendly=True)
    return (
        f"<h1>{escape(format_person_title(explanation))}</h1>\n"
        f"{_render_answer(explanation, labels)}"
        f"{_render_changes(explanation, labels)}"
        f"{_render_needs(explanation, labels)}"
        f"{_render_comparison(explanation, labels)}"
        f"{_render_instance(explanation, labels)}"
    )


def _choose_rule(explanation: Explanation) -> tuple[Rule, int]:
    """The rule to tell, with its coverage: the wider one says more, and is proven where there is one."""
    wider = find_proven_wider_rule(explanation)
    return (explanation.rule, explanation.coverage) if wider is None else (wider.rule, wider.coverage)


def _render_answer(explanation: Explanation, labels: FeatureLabels) -> str:
    rule, covered = _choose_rule(explanation)
    style = choose_style(explanation.verdict)
    claim = _format_claim(explanation.verdict, bool(rule.components))
    reasons = bullet_list(
        (_render_reason(condition, explanation, labels) for condition in group_conditions(rule)), "reasons"
    )
    cases = format_count(explanation.history_rows, "past case")
    past = f"Of {cases}, {format_count(covered, 'fits', 'fit')} this description."
    return (
        f'<div class="answer"><p><strong>{escape(claim)}</strong></p>'
        f"{reasons}<p>{badge(style)}</p>{_describe_subspace(explanation)}"
        f"{''.join(map(paragraph, _describe_verdict(explanation.verdict, labels)))}"
        f"{paragraph(past)}</div>\n"
    )


def _describe_subspace(explanation: Explanation) -> str:
    """Of whom this speaks, where that is not everybody; ``cf`` is a word of the trade."""
    texts = [CF_PREFIX.sub(r"\1", constraint) for constraint in explanation.constraints]
    return paragraph(f"All of this speaks only of cases for which this is true: {'; '.join(texts)}.") if texts else ""


def _format_claim(verdict: Verdict, conditions: bool) -> str:
    who = "everyone for whom all of this is true" if conditions else "everyone, whatever is known about them,"
    end = ":" if conditions else "."
    match verdict:
        case Proven():
            return f"{who[:1].upper()}{who[1:]} gets this decision{end}"
        case Unrefuted():
            return f"As far as was searched, {who} gets this decision{end}"
        case Refuted():
            return f"This alone does not settle the decision: not {who} gets it{end}"


def _render_reason(condition: FeatureCondition, explanation: Explanation, labels: FeatureLabels) -> str:
    asked, mine = (
        labels.format_sentence(condition),
        labels.format_value(condition.feature, explanation.instance[condition.feature]),
    )
    own = "" if asked == mine else f' <span class="small">(yours: {escape(mine)})</span>'
    return f"<strong>{escape(labels.label(condition.feature))}</strong>: {escape(asked)}{own}"


def _describe_verdict(verdict: Verdict, labels: FeatureLabels) -> list[str]:
    match verdict:
        case Proven():
            return ["This was checked for every combination of values that can occur, not only for past cases."]
        case Unrefuted(tried):
            searched = _describe_search(tried)
            return [f"{searched} That is not proof: there may be cases that fit and are decided otherwise."]
        case Refuted(counterfactual):
            changes = format_changes(counterfactual, labels) or "the very same facts"
            return [f"So this does not explain the decision fully. Decided otherwise, although it fits: {changes}."]


def _describe_search(number: int) -> str:
    cases = format_count(number, "possible case that fits", "possible cases that fit")
    return f"We tried {cases} this description, and {'it' if number == 1 else 'all'} got this decision."


def _render_comparison(explanation: Explanation, labels: FeatureLabels) -> str:
    if not explanation.rule.components or explanation.background is None:
        return ""
    drawings = map(draw_conditions, build_conditions_plot(explanation, labels).split(CONDITIONS_PER_PAGE))
    return section("How your case compares with past cases", *map(figure, drawings))


def _render_needs(explanation: Explanation, labels: FeatureLabels) -> str:
    """Somebody otherwise the same: left out where that would be true of other models only."""
    background = explanation.background
    if background is None or background.is_robust or isinstance(explanation.verdict, Refuted):
        return ""
    sentences = [escape(_describe_need(need, explanation, labels)) for need in background.needs if need.counterfactual]
    return section("Why each of these counts", bullet_list(dict.fromkeys(sentences)))


def _describe_need(need: ComponentNeed, explanation: Explanation, labels: FeatureLabels) -> str:
    assert need.counterfactual is not None
    ordered = sorted(need.counterfactual.changes, key=lambda change: change.feature != need.component.feature)
    changes = " and ".join(
        f"{labels.label(change.feature)}: {labels.format_value(change.feature, change.after)}" for change in ordered
    )
    return f"Somebody with {changes}, and otherwise the same as you, gets: {format_desired_outcome(explanation, True)}."


def _render_changes(explanation: Explanation, labels: FeatureLabels) -> str:
    changes = [escape(format_changes(counterfactual, labels)) for counterfactual in explanation.counterfactuals]
    if not changes:
        return ""
    intro = f"Each of these alone would have led to: {format_desired_outcome(explanation, True)}."
    title, promise = "What would have changed the decision", paragraph(DISCLAIMER, "small")
    return section(title, paragraph(intro), bullet_list(changes), promise)


def _render_instance(explanation: Explanation, labels: FeatureLabels) -> str:
    rows = [(labels.label(name), labels.format_value(name, value)) for name, value in explanation.instance.items()]
    wrong = "If anything here is wrong, say so: the decision rests on it."
    return section("What was known about you", paragraph(wrong), facts_table(rows))
