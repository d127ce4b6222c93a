"""How results are shown: the one module of results that imports :mod:`ironrule.report`, when something is displayed.

Results are values and stand below what renders them. Here each way to show one calls its renderer.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ironrule.results.audience import Audience, LadderAudience
    from ironrule.results.batch import Batch, RuleCover
    from ironrule.results.changes.menu import ChangeMenu
    from ironrule.results.changes.region import CounterfactualRegion
    from ironrule.results.counterfactuals import Counterfactuals
    from ironrule.results.diagnosis import Diagnosis
    from ironrule.results.explanation import Explanation
    from ironrule.results.judgement import Judgement
    from ironrule.results.ladder import Ladder
    from ironrule.results.notice import NoticeOptions
    from ironrule.results.report_options import ReportOptions


def format_explanation(explanation: Explanation) -> str:
    """An explanation as text."""
    from ironrule.report import text

    return text.format_explanation(explanation)


def render_explanation(explanation: Explanation) -> str:
    """An explanation as HTML for a notebook."""
    from ironrule.report import html

    return html.render_explanation(explanation)


def plot_explanation(explanation: Explanation, kind: str, ax: Axes | None) -> Axes:
    """A plot of an explanation on matplotlib's axes."""
    from ironrule.report.plots import matplotlib_plots

    return matplotlib_plots.plot_explanation(explanation, kind, ax)


def write_report(
    explanation: Explanation, audience: Audience, path: str | Path | None, report: ReportOptions | None
) -> str:
    """A report of an explanation as one HTML page, also written to ``path`` where one is given."""
    from ironrule.report import audiences

    return audiences.save_text(audiences.render_report(explanation, audience, report, path), path)


def write_pdf(html: str, path: str | Path | None) -> bytes:
    """A report that is an HTML page as PDF, also written to ``path`` where one is given."""
    from ironrule.report.pdf import render_pdf

    pdf = render_pdf(html)
    if path is not None:
        Path(path).write_bytes(pdf)
    return pdf


def render_counterfactuals(counterfactuals: Counterfactuals) -> str:
    """Counterfactuals as HTML for a notebook."""
    from ironrule.report import html

    return html.render_counterfactuals(counterfactuals)


def plot_counterfactuals(counterfactuals: Counterfactuals, ax: Axes | None) -> Axes:
    """A plot of what counterfactuals change on matplotlib's axes."""
    from ironrule.report.plots import matplotlib_plots

    return matplotlib_plots.plot_counterfactuals(counterfactuals, ax)


def plot_menu(menu: ChangeMenu, ax: Axes | None) -> Axes:
    """A plot of a menu of changes on matplotlib's axes."""
    from ironrule.report.plots import matplotlib_plots

    return matplotlib_plots.plot_menu(menu, ax)


def plot_region(region: CounterfactualRegion, ax: Axes | None) -> Axes:
    """A plot of a region on matplotlib's axes."""
    from ironrule.report.plots import matplotlib_plots

    return matplotlib_plots.plot_region(region, ax)


def format_judgement(judgement: Judgement) -> str:
    """A judgement as text."""
    from ironrule.report import text

    return text.format_judgement(judgement)


def render_judgement(judgement: Judgement) -> str:
    """A judgement as HTML for a notebook."""
    from ironrule.report import html

    return html.render_judgement(judgement)


def format_diagnosis(diagnosis: Diagnosis) -> str:
    """A diagnosis as text."""
    from ironrule.report import text

    return text.format_diagnosis(diagnosis)


def render_diagnosis(diagnosis: Diagnosis) -> str:
    """A diagnosis as HTML for a notebook."""
    from ironrule.report import html

    return html.render_diagnosis(diagnosis)


def format_ladder(ladder: Ladder) -> str:
    """A ladder as text."""
    from ironrule.report import ladder as report

    return report.format_ladder(ladder)


def render_ladder(ladder: Ladder) -> str:
    """A ladder as HTML for a notebook."""
    from ironrule.report import ladder as report

    return report.render_ladder(ladder)


def plot_ladder(ladder: Ladder, ax: Axes | None) -> Axes:
    """A plot of a ladder on matplotlib's axes."""
    from ironrule.report import ladder as report

    return report.plot_ladder(ladder, ax)


def write_ladder_report(
    ladder: Ladder,
    audience: LadderAudience,
    path: str | Path | None,
    *,
    notice: NoticeOptions | None,
    report: ReportOptions | None,
) -> str:
    """A report of a ladder as one HTML page, also written to ``path`` where one is given."""
    from ironrule.report import audiences

    return audiences.save_text(audiences.render_ladder_report(ladder, audience, notice, report, path), path)


def format_batch(batch: Batch) -> str:
    """A batch as text."""
    from ironrule.report import batch as report

    return report.format_batch(batch)


def render_batch(batch: Batch) -> str:
    """A batch as HTML for a notebook."""
    from ironrule.report import batch as report

    return report.render_batch(batch)


def describe_rule_cover(cover: RuleCover) -> str:
    """How many rules cover how many rows."""
    from ironrule.report import batch as report

    return report.describe_rule_cover(cover)


def format_rule_cover(cover: RuleCover) -> str:
    """The few rules that cover all proven rows as text."""
    from ironrule.report import batch as report

    return report.format_rule_cover(cover)


def render_rule_cover(cover: RuleCover) -> str:
    """The same as HTML for a notebook."""
    from ironrule.report import batch as report

    return report.render_rule_cover(cover)


def plot_batch(batch: Batch, ax: Axes | None) -> Axes:
    """A plot of a batch on matplotlib's axes."""
    from ironrule.report.plots import matplotlib_plots

    return matplotlib_plots.plot_batch(batch, ax, batch.space)


def write_ladder_batch_report(
    batch: Batch,
    audience: LadderAudience,
    path: str | Path | None,
    *,
    notice: NoticeOptions | None,
    report: ReportOptions | None,
    history: Any,
) -> str:
    """A report of the ladders of a batch as one HTML page, also written to ``path`` where one is given."""
    from ironrule.report import audiences

    read = batch.ladders()
    ladders = read if history is None else (ladder.with_history(history, batch.space) for ladder in read)
    rows = audiences.ReportedLadders(list(ladders), batch.rows, space=batch.space)
    return audiences.save_text(audiences.render_ladder_batch_report(rows, audience, notice, report), path)


def write_batch_report(
    batch: Batch,
    audience: Audience,
    path: str | Path | None,
    *,
    report: ReportOptions | None,
    history: Any,
) -> str:
    """A report of the explanations of a batch as one HTML page, also written to ``path`` where one is given."""
    from ironrule.report import audiences

    explanations = batch if history is None else [each.with_history(history, batch.space) for each in batch]
    names = [f"row {row}" for row in batch.rows]
    text = audiences.render_batch_report(explanations, audience, names, batch.space, report=report, rows=batch.rows)
    return audiences.save_text(text, path)
