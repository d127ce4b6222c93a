"""Results as HTML for notebooks: an explanation, a judgement, a diagnosis, counterfactuals."""

from __future__ import annotations

from collections.abc import Sequence

from ironrule.report import text
from ironrule.report.plots.conditions import build_conditions_plot, draw_conditions
from ironrule.report.plots.drawing import choose_style
from ironrule.report.templating import render_template
from ironrule.results.counterfactuals import Counterfactuals
from ironrule.results.diagnosis import Diagnosis
from ironrule.results.explanation import Explanation
from ironrule.results.judgement import Judgement
from ironrule.rule.counterfactual import Counterfactual
from ironrule.rule.phrasing import format_change, join_conditions, name_outcome
from ironrule.verdict.verdict import Quality
from ironrule.wording import format_count, format_first

GREEN, YELLOW, RED = "#1b6e3c", "#8a5a00", "#a1260d"
QUALITY_COLOURS = {Quality.NOT_JUDGED: YELLOW, Quality.FAILED_DATA: RED, Quality.FAILED_GLOBAL: RED}  # else green


def render_judgement(judgement: Judgement) -> str:
    """The rule, its class, and what shows it."""
    return render_template(
        "notebook_judgement.html",
        rule=judgement.rule,
        quality=judgement.quality,
        colour=QUALITY_COLOURS.get(judgement.quality, GREEN),
        evidence=text.describe_evidence(judgement),
    )


def render_explainer(facts: Sequence[tuple[str, str]], is_read: bool) -> str:
    """What an explainer explains: model, data, space, and what can be proven."""
    return render_template("notebook_explainer.html", facts=facts, colour=GREEN if is_read else YELLOW, is_read=is_read)


def render_diagnosis(diagnosis: Diagnosis) -> str:
    """The rule, and what makes it long."""
    sentences = text.describe_diagnosis(diagnosis)
    return render_template("notebook_diagnosis.html", rule=diagnosis.rule, sentences=sentences)


def render_explanation(explanation: Explanation) -> str:
    """The rule, its verdict and coverage, a plot of its conditions, the other rules, and the counterfactuals."""
    has_plot, shown = explanation.rule.components and explanation.background is not None, explanation.shown
    past_rows = format_count(explanation.history_rows, "past row")
    return render_template(
        "notebook_explanation.html",
        conditions=shown.rule.conditions,
        outcome=name_outcome(explanation.rule),
        scope=text.describe_scope(explanation),
        style=choose_style(explanation.verdict),
        verdict=shown.verdict.details,
        length=text.describe_length(explanation.rule) + text.describe_minimality(explanation),
        coverage=f"{shown.coverage:,} of {past_rows}",
        details=[
            *text.describe_marks(explanation),
            *text.describe_unconfirmed(explanation.confirmed),
            *text.describe_lone_row(explanation),
            *text.describe_undecided(explanation),
            *text.describe_preference(explanation),
            *text.describe_bounds(explanation),
            *text.describe_explanation_stop(explanation),
        ],
        drawing=draw_conditions(build_conditions_plot(explanation)) if has_plot else None,
        other_rules=[
            (join_conditions(one.rule), text.get_verdict_name(one.verdict), one.coverage)
            for one in explanation.ranked[1:]
        ],
        changes=_list_changes(explanation.changes or ()),
        changes_note=text.describe_changes(explanation),
        note=None,  # what is proven of them stands in changes_note
    )


def render_counterfactuals(counterfactuals: Counterfactuals) -> str:
    """Counterfactuals as a table of changes; in words if there are none."""
    changes = _list_changes(counterfactuals.items)
    note = "Found by search: nearer ones may exist."
    if counterfactuals.proven:
        within = counterfactuals.within
        note = f"Proven: each is the nearest that does not change all the features of one above{within}."
    elif counterfactuals.proven_count:
        first = format_first(counterfactuals.proven_count)
        note = f"Proven to be the nearest: {first}{counterfactuals.within}. Nearer ones than the others may exist."
    return render_template("notebook_counterfactuals.html", changes=changes, text=str(counterfactuals), note=note)


def _list_changes(counterfactuals: Sequence[Counterfactual]) -> list[tuple[int, str, str, str]]:
    """The lines of the table: the number of the counterfactual, the feature, its value before and after."""
    return [
        (number, *format_change(change))
        for number, counterfactual in enumerate(counterfactuals, 1)
        for change in counterfactual.changes
    ]
