"""Explanations, counterfactuals, checks and spaces as a terminal shows them (rich): the sentence first, tables below.

Everything from the user's data is plain Text, never markup. Only features that a rule or a change mentions are shown.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ironrule.report.text import (
    describe_evidence,
    describe_minimality,
    describe_robustness,
    describe_unreadable,
    describe_wider_rule,
    get_verdict_name,
)
from ironrule.rule.counterfactual import Counterfactual
from ironrule.rule.phrasing import join_conditions
from ironrule.verdict.verdict import Quality
from ironrule.wording import format_count, format_value

if TYPE_CHECKING:
    from ironrule.checker.result import Check
    from ironrule.results.counterfactuals import Counterfactuals
    from ironrule.results.explanation import Explanation, Statistics
    from ironrule.results.judgement import Judgement
    from ironrule.space.feature import Feature
    from ironrule.space.space import Space


STATUS_COLOURS = {  # of verdicts, of checks and of claims
    **dict.fromkeys(("proven", "holds"), "green"),
    **dict.fromkeys(("unrefuted", "undecided"), "yellow"),
    **dict.fromkeys(("refuted", "fails"), "red"),
}
QUALITY_COLOURS = {Quality.NOT_JUDGED: "yellow", Quality.FAILED_DATA: "red", Quality.FAILED_GLOBAL: "red"}  # else green
STOP_MESSAGES = {"budget": "The budget ran out", "interrupted": "Interrupted"}


@contextlib.contextmanager
def show_spinner() -> Iterator[None]:
    """A spinner on standard error while a search runs, if that is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    with Console(stderr=True).status("Searching (Ctrl-C: the best so far)"):
        yield


def render_explanation(explanation: Explanation) -> RenderableType:
    """The rule as a sentence with its verdict, then the other rules, then the counterfactuals."""
    word = get_verdict_name(explanation.verdict)
    title = "refuted: this does not hold" if word == "refuted" else word
    facts = [
        Text(f"Verdict: {explanation.verdict}."),
        Text(
            f"Components: {explanation.rule.cardinality_text}{describe_minimality(explanation)}. "
            f"Past rows covered: {explanation.coverage:,} of {explanation.history_rows:,}."
        ),
        *map(
            Text,
            (*describe_wider_rule(explanation), *describe_robustness(explanation), *describe_unreadable(explanation)),
        ),
        *_render_stop(
            explanation.statistics, "this is the best rule so far, and the verdict says no more than is known."
        ),
    ]
    parts = [
        _build_panel(str(explanation.rule), title, STATUS_COLOURS[word]),
        *facts,
        *_render_other_rules(explanation),
        *_render_changes(explanation.counterfactuals),
        _render_statistics(explanation.statistics),
    ]
    return Group(*parts)


def render_counterfactuals(counterfactuals: Counterfactuals) -> RenderableType:
    """The changes per counterfactual, or a line that none was found."""
    none = "No counterfactual was found. That is no proof that there is none: allow more changes or a larger budget."
    if counterfactuals.proven:
        none = "There is no counterfactual, and that is proven: allow more changes."
    parts = _render_changes(counterfactuals.items) or [Text(none)]
    if counterfactuals.proven and counterfactuals.items:
        parts.append(Text("Proven: each is the nearest that does not change all the features of one above."))
    stopped = _render_stop(counterfactuals.statistics, "the search did not come to its end.")
    return Group(*parts, *stopped, _render_statistics(counterfactuals.statistics))


def render_check(check: Check) -> RenderableType:
    """The rule under the status, then every claim with its finding."""
    panel = _build_panel(check.rule, check.status, STATUS_COLOURS[check.status])
    table = _build_table("claim", "", "why")
    for claim, status, sentence in check.findings:
        table.add_row(Text(claim), Text(status, style=STATUS_COLOURS[status]), Text(sentence))
    remarks = [Text(f"{remark[:1].upper()}{remark[1:]}.") for remark in check.remarks]
    return Group(panel, Text(f"{check.meaning}."), table, *remarks)


def render_judgements(judgements: Sequence[Judgement]) -> RenderableType:
    """Every rule under its quality, then the evidence."""
    parts: list[RenderableType] = []
    for judgement in judgements:
        colour = QUALITY_COLOURS.get(judgement.quality, "green")
        parts.append(_build_panel(str(judgement.rule), str(judgement.quality), colour))
        parts += map(Text, describe_evidence(judgement))
    return Group(*parts)


def render_space(space: Space, rows: int) -> RenderableType:
    """One line per feature: its kind, its values, how many, whether it can be missing, and a group's columns."""
    grouped = any(feature.one_hot for feature in space.features)
    table = _build_table("feature", "kind", "values", "how many", "missing", *(["columns"] if grouped else []))
    for feature in space.features:
        kind, missing = "ordered" if feature.ordered else "nominal", "yes" if feature.missing else "no"
        columns = [", ".join(feature.columns) if feature.one_hot else ""] if grouped else []
        cells = _build_cells(feature.name, kind, _format_domain(feature), f"{len(feature.values):,}", missing, *columns)
        table.add_row(*cells)
    size = f"{format_count(rows, 'row')}, {format_count(len(space), 'feature')}, {space.size:.3g} points."
    limits = [Text(f"Constraint: {constraint}") for constraint in space.constraints]
    return Group(table, *limits, Text(size))


def _format_domain(feature: Feature) -> str:
    if not feature.values:
        return "always missing"
    if feature.ordered and len(feature.values) > 6:
        return f"{format_value(feature.values[0])} to {format_value(feature.values[-1])}"
    more = ", ..." if len(feature.values) > 6 else ""
    return ", ".join(format_value(value) for value in feature.values[:6]) + more


def _render_stop(statistics: Statistics, consequence: str) -> list[RenderableType]:
    if statistics.stopped is None:
        return []
    return [Text(f"{STOP_MESSAGES[statistics.stopped]}: {consequence}", style="yellow")]


def _render_other_rules(explanation: Explanation) -> list[RenderableType]:
    if len(explanation.ranked) < 2:
        return []
    table = _build_table("other rules", "verdict", "past rows")
    for other in explanation.ranked[1:]:
        table.add_row(
            *_build_cells(join_conditions(other.rule), get_verdict_name(other.verdict), f"{other.coverage:,}")
        )
    return [table]


def _render_changes(counterfactuals: Sequence[Counterfactual]) -> list[RenderableType]:
    if not counterfactuals:
        return []
    table = _build_table("", "feature", "now", "would be")
    for place, counterfactual in enumerate(counterfactuals, 1):
        for first, change in enumerate(counterfactual.changes):
            number = f"{place}" if first == 0 else ""
            last = first == len(counterfactual.changes) - 1
            cells = _build_cells(number, change.feature, format_value(change.before), format_value(change.after))
            table.add_row(*cells, end_section=last)
    return [Text("\nWhat would have changed the outcome", style="bold"), table]


def _render_statistics(statistics: Statistics) -> RenderableType:
    text = f"{statistics.algorithm}, seed {statistics.seed}: {format_count(statistics.evaluations, 'evaluation')}"
    return Text(f"{text} in {statistics.seconds:.2f} s.", style="dim")


def _build_panel(rule: str, title: str, colour: str) -> Panel:
    heading = Text(f" {title} ", style=f"bold {colour}")
    return Panel(Text(rule), title=heading, title_align="left", border_style=colour, padding=(1, 2))


def _build_table(*titles: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for name in titles:
        table.add_column(name, overflow="fold")
    return table


def _build_cells(*texts: Any) -> list[Text]:
    return [Text(str(text)) for text in texts]
