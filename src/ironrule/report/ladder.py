"""Ladders as text, as HTML for notebooks, and as a plot: how certain a rule of each length is.

What is bounded never looks like what is proven: it has its own words ("bounded, not proven"), its own colour and a
hatched bar.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ironrule.report import text
from ironrule.report.attachments import AttachedDocument
from ironrule.report.case_facts import collect_case_facts
from ironrule.report.check_command import LADDER_FILE, CheckCommand
from ironrule.report.plots import drawing
from ironrule.report.plots.drawing import Drawing, Rectangle, Shape, TextLine, VerdictStyle, choose_style
from ironrule.report.templating import render_template
from ironrule.results.ladder import MAX_SHORT, MAX_SHORT_BOUND, Ladder, Rung
from ironrule.results.report_options import ReportOptions
from ironrule.rule.phrasing import join_conditions, name_outcome
from ironrule.verdict.bounded import Bounded
from ironrule.verdict.digest import DIGEST_FIELD
from ironrule.verdict.verdict import Proven
from ironrule.wording import format_count, format_percent_down, format_percent_up, join_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BOUNDED_STYLE = VerdictStyle(
    "bounded", "bounded, not proven: few exceptions among people like these", "#5b3a8c", None, claim="nearly always, "
)


@dataclass(frozen=True, slots=True)
class RungView:
    """A rung as it is shown: how long it is, what it is worth in a few words, its rule, and the rows behind it."""

    length: str
    conditions: int
    worth: str
    rule: str
    rows: str
    style: VerdictStyle
    exception_bound: float


def build_rung_views(ladder: Ladder) -> tuple[RungView, ...]:
    """All rungs as they are shown."""
    return tuple(map(_build_rung_view, ladder.rungs))


def _build_rung_view(rung: Rung) -> RungView:
    style = BOUNDED_STYLE if isinstance(rung.verdict, Bounded) else choose_style(rung.verdict)
    return RungView(
        length=text.format_length(rung.rule),
        conditions=len(rung.rule.features),
        worth=describe_worth(rung),
        rule=join_conditions(rung.rule) or "everyone",
        rows=f"{rung.measured.exceptions:,} of {rung.measured.rows:,}",
        style=style,
        exception_bound=rung.exception_bound,
    )


def _name_length(view: RungView) -> str:
    count, _, bounds = view.length.partition(" ")
    return f"{count} {'condition' if view.conditions == 1 else 'conditions'} {bounds}".rstrip()


def describe_worth(rung: Rung) -> str:
    """What a rung is worth, in a few words."""
    if isinstance(rung.verdict, Proven):
        return "proven: no exception"
    if not isinstance(rung.verdict, Bounded):
        return text.get_verdict_name(rung.verdict)
    if rung.exception_bound >= 1.0:
        return "bounded: nothing known"
    return f"bounded: at most {format_percent_up(rung.exception_bound)} exceptions"


def describe_rung(ladder: Ladder, rung: Rung) -> str:
    """A rung of a ladder in words, and what it is worth."""
    if not isinstance(rung.verdict, Bounded):
        return f"{rung.rule} Verdict: {rung.verdict}."
    share, conditions = format_percent_down(1.0 - rung.verdict.exceptions), join_conditions(rung.rule)
    confidence = format_percent_down(ladder.confidence)
    return (
        f"At least {share} of people with {conditions} get: {name_outcome(rung.rule)}. This is bounded, not proven "
        f"({confidence} confidence, {rung.measured.exceptions:,} exceptions among "
        f"{format_count(rung.measured.rows, 'measured row')})."
    )


def describe_measured_rows(ladder: Ladder, has_advice: bool = True) -> list[str]:
    """What the bounds rest on, and what is not known; with ``has_advice``, what who made the ladder can do about it."""
    rows = format_count(ladder.measured_rows, "row")
    together = f"All bounds hold together at {format_percent_down(ladder.confidence)} confidence"
    lines = [f"{together}, for people drawn like the {rows} they were measured on."]
    if ladder.measured_from == "split":
        advice = ": if it was, pass fresh ones (measure=, on the command line --measure)" if has_advice else ""
        lines.append(
            "These are past rows that the search did not look at. Whether the model was trained on them is not known"
            f"{advice}."
        )
    return lines


def describe_missing_short_rule(ladder: Ladder) -> list[str]:
    """How good the best short rule is, where none is good enough to be read first."""
    best = ladder.find_best_rung(MAX_SHORT)
    if best is None or not isinstance(best.verdict, Bounded) or ladder.short is not ladder.last:
        return []
    bounds = f"at most {format_count(MAX_SHORT, 'bound')}"
    wanted = format_percent_down((1.0 - MAX_SHORT_BOUND) if ladder.at_least is None else ladder.at_least)
    start = f"No rule of {bounds} is known to hold for {wanted} of people like past ones"
    if best.exception_bound >= 1.0:
        return [f"{start}."]
    share, confidence = format_percent_down(1.0 - best.exception_bound), format_percent_down(ladder.confidence)
    return [f"{start}: the best one holds for at least {share} ({confidence} confidence)."]


def describe_notes(ladder: Ladder) -> list[str]:
    """What the bounds rest on, and the marks of the last rule, such as a protected feature that it uses."""
    return [*describe_measured_rows(ladder), *describe_remarks(ladder)]


def describe_remarks(ladder: Ladder) -> list[str]:
    """The marks of the last rule, and whether the model itself confirms it."""
    explanation = ladder.explanation
    return [*text.describe_marks(explanation), *text.describe_unconfirmed(explanation.confirmed)]


def format_ladder(ladder: Ladder) -> str:
    """The rung to be read first, then one line per rung, then what the bounds rest on, and marks."""
    lines = [describe_rung(ladder, ladder.short), ""]
    for view in build_rung_views(ladder):
        worth = f"{view.worth} ({view.rows} measured rows are exceptions)"
        lines += [f"{_name_length(view)}, {worth}:", f"    {view.rule}"]
    return join_lines([*lines, "", *describe_notes(ladder)])


def render_ladder(ladder: Ladder) -> str:
    """The same for a notebook, with the plot."""
    return render_template(
        "notebook_ladder.html",
        short=describe_rung(ladder, ladder.short),
        views=build_rung_views(ladder),
        drawing=draw_ladder(ladder),
        notes=describe_notes(ladder),
    )


def render_ladder_page(ladder: Ladder, options: ReportOptions) -> str:
    """The same as a whole HTML page for the validator, with the ladder attached."""
    document = ladder.to_json().encode()
    file_name = LADDER_FILE if options.explanation_file is None else options.explanation_file
    return render_template(
        "ladder.html",
        title="Short rules and the whole one",
        short=describe_rung(ladder, ladder.short),
        drawing=draw_ladder(ladder),
        rows=[(view.length, view.worth, view.rule, view.rows) for view in build_rung_views(ladder)],
        notes=describe_notes(ladder),
        case=collect_case_facts(ladder.explanation, options, "ladder"),
        check_command=CheckCommand.from_options(replace(options, explanation_file=file_name)),
        attached=AttachedDocument.build(LADDER_FILE, document),
        digest=ladder.to_dict()[DIGEST_FIELD],
    )


NAME_WIDTH, WORTH_WIDTH = 180.0, 250.0  # "13 conditions (14 bounds)" has room
BAR_WIDTH = drawing.CANVAS_WIDTH - NAME_WIDTH - WORTH_WIDTH
ROW_HEIGHT, BAR_HEIGHT = 34.0, 20.0


def draw_ladder(ladder: Ladder) -> Drawing:
    """Certainty against length: per rung a bar as long as the share of people for whom it surely holds."""
    shapes: list[Shape] = [drawing.draw_title("How certain a rule of each length is")]
    top = 34.0
    for view in build_rung_views(ladder):
        certain = BAR_WIDTH * (1.0 - view.exception_bound)
        shapes += [
            TextLine(0, top + 14, _name_length(view), 12),
            Rectangle(NAME_WIDTH, top, BAR_WIDTH, BAR_HEIGHT, stroke=drawing.PALE, kind="everyone"),
            *(view.style.draw_bar(NAME_WIDTH, top, certain, BAR_HEIGHT) if certain > 0 else []),
            *drawing.stack_lines(NAME_WIDTH + BAR_WIDTH + 8, top + 9, [view.worth, _describe_rows(view)], 11),
        ]
        top += ROW_HEIGHT
    notes = drawing.wrap_text(" ".join(describe_measured_rows(ladder)), drawing.CANVAS_WIDTH, 11, lines=3)
    shapes += drawing.draw_notes(top + 12, notes)
    words = "; ".join(f"{_name_length(view)}: {view.worth}" for view in build_rung_views(ladder))
    return Drawing(tuple(shapes), top + 20 + 14 * len(notes), f"How certain a rule of each length is. {words}.")


def _describe_rows(view: RungView) -> str:
    return f"{view.rows} measured rows are exceptions"


def plot_ladder(ladder: Ladder, ax: Axes | None = None) -> Axes:
    """The plot on matplotlib's axes."""
    from ironrule.report.plots.matplotlib_plots import draw_on_axes

    return draw_on_axes(draw_ladder(ladder), ax)
