"""Results as HTML for notebooks: an explanation, a judgement, counterfactuals."""

from __future__ import annotations

from collections.abc import Sequence

from ironrule.report.plots.conditions import build_conditions_plot, draw_conditions
from ironrule.report.plots.drawing import choose_style
from ironrule.report.templating import render_template
from ironrule.report.text import (
    describe_evidence,
    describe_minimality,
    describe_scope,
    describe_undecided,
    get_verdict_name,
)
from ironrule.results.counterfactuals import Counterfactuals
from ironrule.results.explanation import Explanation
from ironrule.results.judgement import Judgement
from ironrule.rule.counterfactual import Counterfactual
from ironrule.rule.phrasing import join_conditions
from ironrule.verdict.verdict import Quality
from ironrule.wording import format_count, format_value

QUALITY_COLOURS = {
    Quality.NOT_JUDGED: "#8a5a00",
    Quality.FAILED_DATA: "#a1260d",
    Quality.FAILED_GLOBAL: "#a1260d",
    Quality.REDUNDANT: "#1b6e3c",
    Quality.IRREDUNDANT: "#1b6e3c",
    Quality.MINIMUM: "#1b6e3c",
}


def render_judgement(judgement: Judgement) -> str:
    """The rule, its class, and what shows it."""
    return render_template(
        "notebook_judgement.html",
        rule=judgement.rule,
        quality=judgement.quality,
        colour=QUALITY_COLOURS[judgement.quality],
        evidence=describe_evidence(judgement),
    )


def render_explanation(explanation: Explanation) -> str:
    """The rule, its verdict and coverage, a plot of its conditions, the other rules, and the counterfactuals."""
    has_plot = explanation.rule.components and explanation.background is not None
    past_rows = format_count(explanation.history_rows, "past row")
    return render_template(
        "notebook_explanation.html",
        conditions=explanation.rule.conditions,
        outcome=explanation.rule.outcome,
        scope=describe_scope(explanation),
        style=choose_style(explanation.verdict),
        verdict=explanation.verdict.details,
        length=format_count(explanation.cardinality, "component") + describe_minimality(explanation),
        coverage=f"{explanation.coverage:,} of {past_rows}",
        stopped=explanation.statistics.stopped,
        undecided=describe_undecided(explanation),
        drawing=draw_conditions(build_conditions_plot(explanation)) if has_plot else None,
        other_rules=[
            (join_conditions(other.rule), get_verdict_name(other.verdict), other.coverage)
            for other in explanation.ranked[1:]
        ],
        changes=_list_changes(explanation.counterfactuals),
    )


def render_counterfactuals(counterfactuals: Counterfactuals) -> str:
    """Counterfactuals as a table of changes; in words if there are none."""
    return render_template(
        "notebook_counterfactuals.html", changes=_list_changes(counterfactuals.items), text=str(counterfactuals)
    )


def _list_changes(counterfactuals: Sequence[Counterfactual]) -> list[tuple[int, str, str, str]]:
    """The lines of the table: the number of the counterfactual, the feature, its value before and after."""
    return [
        (number, change.feature, format_value(change.before), format_value(change.after))
        for number, counterfactual in enumerate(counterfactuals, 1)
        for change in counterfactual.changes
    ]
