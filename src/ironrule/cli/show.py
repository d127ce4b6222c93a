"""Explanations, counterfactuals and spaces as a terminal shows them: the sentence first, tables below.

Everything from the user's data is plain Text, never markup. Only what a rule or a change speaks of is shown.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ironrule.counting import counted
from ironrule.report.judged import what_shows_it
from ironrule.report.text import how_short, verdict_word, what_it_withstands, why_asked, wider_lines
from ironrule.rule import Counterfactual, shown
from ironrule.verdict import Quality

if TYPE_CHECKING:
    from ironrule.checker import Check
    from ironrule.explain import Counterfactuals, Explanation, Judgement, Statistics
    from ironrule.space import Feature, Space

COLOURS = {"proven": "green", "unrefuted": "yellow", "undecided": "yellow", "refuted": "red"}
QUALITIES = {
    Quality.NOT_JUDGED: "yellow",
    Quality.FAILED_DATA: "red",
    Quality.FAILED_GLOBAL: "red",
    Quality.REDUNDANT: "green",
    Quality.IRREDUNDANT: "green",
    Quality.MINIMUM: "green",
}
MARKS = {"holds": "green", "fails": "red", "undecided": "yellow"}
STOPPED = {"budget": "The budget ran out", "interrupted": "Interrupted"}


@contextlib.contextmanager
def searching() -> Iterator[None]:
    """A spinner on standard error while a search runs, if that is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    with Console(stderr=True).status("Searching (Ctrl-C: the best so far)"):
        yield


def heading(text: str) -> RenderableType:
    """A line that says what comes."""
    return Text(text + "\n", style="bold")


def explanation_view(explanation: Explanation) -> RenderableType:
    """The rule as a sentence with its verdict, then the other rules, then the counterfactuals."""
    word = verdict_word(explanation.verdict)
    holds = word != "refuted"
    title = Text(f" {word} " if holds else " refuted: this does not hold ", style=f"bold {COLOURS[word]}")
    facts = [
        Text(f"Verdict: {explanation.verdict}."),
        Text(
            f"Components: {explanation.rule.counted}{how_short(explanation)}. "
            f"Past rows covered: {explanation.coverage:,} of {explanation.history_rows:,}."
        ),
        *map(Text, (*wider_lines(explanation), *what_it_withstands(explanation), *why_asked(explanation))),
        *_stopped(explanation.statistics, "this is the best rule so far, and the verdict says no more than is known."),
    ]
    panel = Panel(
        Text(str(explanation.rule)), title=title, title_align="left", border_style=COLOURS[word], padding=(1, 2)
    )
    parts = [
        panel,
        *facts,
        *_other_rules(explanation),
        *_changes(explanation.counterfactuals),
        _effort(explanation.statistics),
    ]
    return Group(*parts)


def counterfactuals_view(found: Counterfactuals) -> RenderableType:
    """The changes per counterfactual, or an honest word that none was found."""
    none = "No counterfactual was found. That is no proof that there is none: allow more changes or a larger budget."
    if found.proven:
        none = "There is no counterfactual, and that is proven: allow more changes."
    parts = _changes(found.items) or [Text(none)]
    if found.proven and found.items:
        parts.append(Text("Proven: each is the nearest that does not change all the features of one above."))
    stopped = _stopped(found.statistics, "the search did not come to its end.")
    return Group(*parts, *stopped, _effort(found.statistics))


def check_view(check: Check) -> RenderableType:
    """The rule in question under the status, then every claim with what became of it."""
    colour = COLOURS[check.status]
    title = Text(f" {check.status} ", style=f"bold {colour}")
    panel = Panel(Text(check.rule), title=title, title_align="left", border_style=colour, padding=(1, 2))
    table = _table("claim", "", "why")
    for claim, status, sentence in check.findings:
        table.add_row(Text(claim), Text(status, style=MARKS[status]), Text(sentence))
    remarks = [Text(f"{remark[:1].upper()}{remark[1:]}.") for remark in check.remarks]
    return Group(panel, Text(f"{check.meaning}."), table, *remarks)


def judgements_view(judgements: Sequence[Judgement]) -> RenderableType:
    """Every rule under its quality, then what shows it."""
    parts: list[RenderableType] = []
    for judgement in judgements:
        colour = QUALITIES[judgement.quality]
        title = Text(f" {judgement.quality} ", style=f"bold {colour}")
        rule = Text(str(judgement.rule))
        parts.append(Panel(rule, title=title, title_align="left", border_style=colour, padding=(1, 2)))
        parts += map(Text, what_shows_it(judgement))
    return Group(*parts)


def report_view(told: Mapping[str, Any]) -> RenderableType:
    """Where the report is, for whom, and what is known of its rules: as many words as there are verdicts."""
    counted = Counter(told["verdicts"])
    words = ", ".join(f"{number} {word}" if len(told["verdicts"]) > 1 else word for word, number in counted.items())
    return Text(f"Report for the {told['voice']}: {told['output']} ({words})")


def space_view(space: Space, rows: int) -> RenderableType:
    """One line per feature: its kind, its values, how many, whether it can be missing, and a group's columns."""
    grouped = any(feature.one_hot for feature in space.features)
    table = _table("feature", "kind", "values", "how many", "missing", *(["columns"] if grouped else []))
    for feature in space.features:
        kind, missing = "ordered" if feature.ordered else "nominal", "yes" if feature.missing else "no"
        columns = [", ".join(feature.columns) if feature.one_hot else ""] if grouped else []
        cells = _cells(feature.name, kind, _domain(feature), f"{len(feature.values):,}", missing, *columns)
        table.add_row(*cells)
    size = f"{counted(rows, 'row')}, {counted(len(space), 'feature')}, {space.size:.3g} points."
    limits = [Text(f"Constraint: {constraint}") for constraint in space.constraints]
    return Group(table, *limits, Text(size))


def _domain(feature: Feature) -> str:
    if not feature.values:
        return "always missing"
    if feature.ordered and len(feature.values) > 6:
        return f"{shown(feature.values[0])} to {shown(feature.values[-1])}"
    more = ", ..." if len(feature.values) > 6 else ""
    return ", ".join(shown(value) for value in feature.values[:6]) + more


def _stopped(statistics: Statistics, consequence: str) -> list[RenderableType]:
    if statistics.stopped is None:
        return []
    return [Text(f"{STOPPED[statistics.stopped]}: {consequence}", style="yellow")]


def _other_rules(explanation: Explanation) -> list[RenderableType]:
    if len(explanation.ranked) < 2:
        return []
    table = _table("other rules", "verdict", "past rows")
    for other in explanation.ranked[1:]:
        conditions = " and ".join(other.rule.conditions) or "everyone"
        table.add_row(*_cells(conditions, verdict_word(other.verdict), f"{other.coverage:,}"))
    return [table]


def _changes(counterfactuals: Sequence[Counterfactual]) -> list[RenderableType]:
    if not counterfactuals:
        return []
    table = _table("", "feature", "now", "would be")
    for place, counterfactual in enumerate(counterfactuals, 1):
        for first, change in enumerate(counterfactual.changes):
            number = f"{place}" if first == 0 else ""
            last = first == len(counterfactual.changes) - 1
            cells = _cells(number, change.feature, shown(change.before), shown(change.after))
            table.add_row(*cells, end_section=last)
    return [Text("\nWhat would have changed the outcome", style="bold"), table]


def _effort(statistics: Statistics) -> RenderableType:
    text = f"{statistics.algorithm}, seed {statistics.seed}: {counted(statistics.evaluations, 'evaluation')}"
    return Text(f"{text} in {statistics.seconds:.2f} s.", style="dim")


def _table(*titles: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for name in titles:
        table.add_column(name, overflow="fold")
    return table


def _cells(*texts: Any) -> list[Text]:
    return [Text(str(text)) for text in texts]
