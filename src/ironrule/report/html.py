"""Results as HTML: the page of a report, the elements that reports share, and the fragments that notebooks show.

A report is one HTML file with its style sheet inside; it needs no network and no script, and it prints. A notebook has
a style sheet of its own, so its fragments carry their style in their tags. Everything that comes from the user's data
is escaped here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from ironrule.report.plots.conditions import build_conditions_plot, draw_conditions
from ironrule.report.plots.drawing import VERDICT_STYLES, Drawing, VerdictStyle, choose_style, render_svg
from ironrule.report.text import (
    describe_evidence,
    describe_minimality,
    describe_scope,
    describe_undecided,
    get_verdict_name,
)
from ironrule.results.explanation import Explanation
from ironrule.results.judgement import Judgement
from ironrule.rule.counterfactual import Counterfactual
from ironrule.rule.phrasing import FeatureLabels, join_conditions
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
    """A judgement for a notebook: no scripts, no network, everything escaped."""
    lines = "".join(f"<p>{escape(line)}</p>" for line in describe_evidence(judgement))
    colour = QUALITY_COLOURS[judgement.quality]
    return (
        '<div style="font-family:system-ui,sans-serif;max-width:46em;line-height:1.45">'
        f"<p><strong>{escape(str(judgement.rule))}</strong></p>"
        f'<p><span style="background:{colour};color:#fff;border-radius:4px;padding:2px 8px">'
        f"{judgement.quality}</span></p>{lines}</div>"
    )


CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

STYLE_SHEET = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; background: #fff; color: #1a1a1a; font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto,
  "Noto Sans", "DejaVu Sans", sans-serif; overflow-wrap: break-word; }
main { max-width: 50rem; margin: 0 auto; padding: 1.5rem 1.25rem 3rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 1rem; }
h2 { font-size: 1.2rem; margin: 2rem 0 0.5rem; }
p, ul, ol, table { margin: 0.5rem 0; }
.small { color: #4d4d4d; font-size: 0.9rem; }
.badge { display: inline-block; padding: 0.15rem 0.6rem; font-weight: 600; border: 2px solid; border-radius: 4px;
  print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.proven { background: #0b5394; border-color: #0b5394; color: #fff; }
.unrefuted { color: #8a5a00; border-style: dashed; }
.refuted { color: #a1260d; border-style: dashed; }
.answer { border: 1px solid #767676; border-radius: 6px; padding: 0.75rem 1rem; margin: 1rem 0; }
.reasons { padding-left: 1.25rem; }
.reasons li { margin: 0.3rem 0; }
table { border-collapse: collapse; width: 100%; font-size: 0.95rem; }
.facts { table-layout: fixed; }
.facts th, .facts td { overflow-wrap: anywhere; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.75rem 0.3rem 0; border-bottom: 1px solid #ccc; }
th[scope=row] { width: 38%; font-weight: 600; }
code, pre { font: 0.9em/1.45 ui-monospace, "SFMono-Regular", Menlo, "DejaVu Sans Mono", monospace; }
code { overflow-wrap: anywhere; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #f4f4f4; border: 1px solid #ccc; padding: 0.6rem; }
a { color: #0b5394; }
.wide td:first-child { white-space: nowrap; }
.picture, .wide { margin: 1rem 0; overflow-x: auto; }
.picture svg { min-width: 34rem; }
.letter + .letter { border-top: 2px solid #767676; margin-top: 3rem; padding-top: 2rem; }
footer { margin-top: 2.5rem; border-top: 1px solid #ccc; padding-top: 0.5rem; }
@page { size: A4; margin: 18mm 16mm; }
@media print {
  body { font-size: 10.5pt; }
  main { max-width: none; padding: 0; }
  h2 { break-after: avoid; }
  li, tr, pre, .answer, .picture { break-inside: avoid; }
  .picture, .wide { overflow: visible; }
  .picture svg { min-width: 0; max-height: 245mm; }
  .letter + .letter { break-before: page; border: 0; margin: 0; padding: 0; }
  a { color: inherit; text-decoration: none; }
}
"""


def render_page(title: str, body: str) -> str:
    """A whole page; the body is HTML, the title is not."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(CONTENT_POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE_SHEET}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        "</body>\n</html>\n"
    )


CONDITIONS_PER_PAGE = 6  # of one plot


def paragraph(text: str, style: str = "") -> str:
    """A paragraph of plain text."""
    return f"<p{_class_attribute(style)}>{escape(text)}</p>"


def _class_attribute(style: str) -> str:
    return f' class="{style}"' if style else ""


def badge(style: VerdictStyle) -> str:
    """What is known of a rule, in a box that only proven rules have full."""
    return f'<span class="badge {style.word}">{escape(style.meaning)}</span>'


def section(title: str, *parts: str) -> str:
    """A part of a page under a heading; nothing if there is nothing in it."""
    inside = "".join(parts)
    return f"<section><h2>{escape(title)}</h2>{inside}</section>\n" if inside else ""


def bullet_list(items: Iterable[str], style: str = "", ordered: bool = False) -> str:
    """A list of pieces of HTML."""
    tag = "ol" if ordered else "ul"
    inside = "".join(f"<li>{item}</li>" for item in items)
    return f"<{tag}{_class_attribute(style)}>{inside}</{tag}>" if inside else ""


def facts_table(rows: Iterable[tuple[str, str]]) -> str:
    """A table of names and values, both plain text."""
    inside = "".join(f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>' for name, value in rows)
    return f'<table class="facts"><tbody>{inside}</tbody></table>'


def data_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with a heading, which can be scrolled sideways like a picture; its cells are plain text."""
    top = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    inside = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    whole = f"<table><thead><tr>{top}</tr></thead><tbody>{inside}</tbody></table>"
    return f'<div class="wide" tabindex="0" role="group" aria-label="table">{whole}</div>'


def figure(drawing: Drawing) -> str:
    """A drawing that can be scrolled sideways where the screen is narrow; with the keyboard too."""
    return f'<div class="picture" tabindex="0" role="group" aria-label="picture">{render_svg(drawing)}</div>'


def format_changes(counterfactual: Counterfactual, labels: FeatureLabels) -> str:
    """What a counterfactual changes, in one sentence without an end."""
    return "; ".join(
        f"{labels.label(change.feature)}: {labels.format_value(change.feature, change.after)} instead of "
        f"{labels.format_value(change.feature, change.before)}"
        for change in counterfactual.changes
    )


VERDICT_COLOURS = {style.word: style.colour for style in VERDICT_STYLES}


def render_explanation(explanation: Explanation) -> str:
    """The rule, its verdict and coverage, a plot of its conditions, the other rules, and the counterfactuals."""
    conditions = "".join(f"<li><code>{escape(text)}</code></li>" for text in explanation.rule.conditions)
    return (
        '<div style="font-family:system-ui,sans-serif;max-width:46em;line-height:1.45">'
        f"<p><strong>{'Everyone with' if conditions else 'Everyone'}</strong></p>"
        f'<ul style="margin:0 0 0.5em 1em">{conditions}</ul>'
        f"<p><strong>gets: {escape(explanation.rule.outcome)}</strong></p>"
        f"{''.join(f'<p>{escape(line)}</p>' for line in describe_scope(explanation))}"
        f"<p>{_inline_badge(explanation)} {escape(explanation.verdict.details)}</p>"
        f"<p>{format_count(explanation.cardinality, 'component')}{escape(describe_minimality(explanation))}; "
        f"covers {explanation.coverage:,} of {format_count(explanation.history_rows, 'past row')}."
        f"{_describe_stop(explanation)}</p>"
        f"{''.join(f'<p>{escape(line)}</p>' for line in describe_undecided(explanation))}"
        f"{_render_conditions(explanation)}{_render_other_rules(explanation)}"
        f"{render_counterfactuals(explanation.counterfactuals)}</div>"
    )


def _inline_badge(explanation: Explanation) -> str:
    """The verdict's word, in a box that is full only where the rule is proven."""
    style = choose_style(explanation.verdict)
    paint = f"background:{style.colour};color:#fff" if style.tint else f"background:#fff;color:{style.colour}"
    line = f"border:2px {'solid' if style.tint else 'dashed'} {style.colour}"
    return f'<span style="{paint};{line};border-radius:4px;padding:2px 8px">{style.word}</span>'


def _render_conditions(explanation: Explanation) -> str:
    if not explanation.rule.components or explanation.background is None:
        return ""
    drawn = render_svg(draw_conditions(build_conditions_plot(explanation)))
    return f'<div style="background:#fff;color:#1a1a1a;padding:8px;margin:8px 0">{drawn}</div>'


def _describe_stop(explanation: Explanation) -> str:
    stopped = explanation.statistics.stopped
    return f" The search was stopped early ({escape(stopped)})." if stopped else ""


def _render_other_rules(explanation: Explanation) -> str:
    if len(explanation.ranked) < 2:
        return ""
    rows = "".join(
        f"<li><code>{escape(join_conditions(other.rule))}</code> ({get_verdict_name(other.verdict)}, "
        f"{format_count(other.coverage, 'row')})</li>"
        for other in explanation.ranked[1:]
    )
    title = format_count(len(explanation.ranked) - 1, "other rule")
    return f"<details><summary>{title}</summary><ol>{rows}</ol></details>"


def render_counterfactuals(counterfactuals: Sequence[Counterfactual]) -> str:
    """Counterfactuals as a table of changes."""
    if not counterfactuals:
        return ""
    cell = 'style="padding:2px 10px;text-align:left;border-bottom:1px solid #ccc"'
    rows = "".join(
        f"<tr><td {cell}>{place}</td><td {cell}>{escape(change.feature)}</td>"
        f"<td {cell}>{escape(format_value(change.before))}</td>"
        f"<td {cell}>{escape(format_value(change.after))}</td></tr>"
        for place, counterfactual in enumerate(counterfactuals, 1)
        for change in counterfactual.changes
    )
    head = "".join(f"<th {cell}>{title}</th>" for title in ("", "feature", "now", "would be"))
    return (
        "<details open><summary>What would have changed the outcome</summary>"
        f'<table style="border-collapse:collapse"><tr>{head}</tr>{rows}</table></details>'
    )
