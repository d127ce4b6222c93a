"""An explanation as a piece of HTML, for notebooks. No scripts, no network, everything escaped.

A notebook has a style sheet of its own, so this one carries its style in its tags.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ironrule.counting import counted
from ironrule.explain import Explanation
from ironrule.report.pictures.ladder import ladder_of
from ironrule.report.pictures.layouts import ladder_drawing
from ironrule.report.pictures.looks import LOOKS, look_of
from ironrule.report.pictures.svg import svg
from ironrule.report.text import how_short, verdict_word, what_is_undecided, where_it_holds
from ironrule.rule import Counterfactual, shown

COLOURS = {look.word: look.colour for look in LOOKS}


def explanation_html(explanation: Explanation) -> str:
    """The rule, its verdict and coverage, its ladder, the other rules, and the counterfactuals."""
    conditions = "".join(f"<li><code>{escape(text)}</code></li>" for text in explanation.rule.conditions)
    return (
        '<div style="font-family:system-ui,sans-serif;max-width:46em;line-height:1.45">'
        f"<p><strong>{'Everyone with' if conditions else 'Everyone'}</strong></p>"
        f'<ul style="margin:0 0 0.5em 1em">{conditions}</ul>'
        f"<p><strong>gets: {escape(explanation.rule.outcome)}</strong></p>"
        f"{''.join(f'<p>{escape(line)}</p>' for line in where_it_holds(explanation))}"
        f"<p>{_badge(explanation)} {escape(str(explanation.verdict).partition(': ')[2])}</p>"
        f"<p>{counted(explanation.cardinality, 'component')}{escape(how_short(explanation))}; "
        f"covers {explanation.coverage:,} of {counted(explanation.history_rows, 'past row')}."
        f"{_stopped(explanation)}</p>"
        f"{''.join(f'<p>{escape(line)}</p>' for line in what_is_undecided(explanation))}{_ladder(explanation)}"
        f"{_others(explanation)}{counterfactuals_html(explanation.counterfactuals)}</div>"
    )


def _badge(explanation: Explanation) -> str:
    """The verdict's word, in a box that is full only where the rule is proven."""
    look = look_of(explanation.verdict)
    paint = f"background:{look.colour};color:#fff" if look.tint else f"background:#fff;color:{look.colour}"
    line = f"border:2px {'solid' if look.tint else 'dashed'} {look.colour}"
    return f'<span style="{paint};{line};border-radius:4px;padding:2px 8px">{look.word}</span>'


def _ladder(explanation: Explanation) -> str:
    if not explanation.rule.components or explanation.background is None:
        return ""
    drawn = svg(ladder_drawing(ladder_of(explanation)))
    return f'<div style="background:#fff;color:#1a1a1a;padding:8px;margin:8px 0">{drawn}</div>'


def _stopped(explanation: Explanation) -> str:
    stopped = explanation.statistics.stopped
    return f" The search was stopped early ({escape(stopped)})." if stopped else ""


def _others(explanation: Explanation) -> str:
    if len(explanation.ranked) < 2:
        return ""
    rows = "".join(
        f"<li><code>{escape(' and '.join(other.rule.conditions))}</code> ({verdict_word(other.verdict)}, "
        f"{counted(other.coverage, 'row')})</li>"
        for other in explanation.ranked[1:]
    )
    return f"<details><summary>{counted(len(explanation.ranked) - 1, 'other rule')}</summary><ol>{rows}</ol></details>"


def counterfactuals_html(counterfactuals: Sequence[Counterfactual]) -> str:
    """Counterfactuals as a table of changes."""
    if not counterfactuals:
        return ""
    cell = 'style="padding:2px 10px;text-align:left;border-bottom:1px solid #ccc"'
    rows = "".join(
        f"<tr><td {cell}>{place}</td><td {cell}>{escape(change.feature)}</td>"
        f"<td {cell}>{escape(shown(change.before))}</td><td {cell}>{escape(shown(change.after))}</td></tr>"
        for place, counterfactual in enumerate(counterfactuals, 1)
        for change in counterfactual.changes
    )
    head = "".join(f"<th {cell}>{title}</th>" for title in ("", "feature", "now", "would be"))
    return (
        "<details open><summary>What would have changed the outcome</summary>"
        f'<table style="border-collapse:collapse"><tr>{head}</tr>{rows}</table></details>'
    )
