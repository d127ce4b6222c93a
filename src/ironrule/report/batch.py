"""Batches as text, as HTML for notebooks, and as reports: one letter per person, one table for the validator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from ironrule.report.plots.drawing import VERDICT_STYLES
from ironrule.report.plots.overview import build_overview, draw_overview
from ironrule.report.templating import render_template
from ironrule.report.text import format_length, get_verdict_name
from ironrule.report.validator import collect_version_facts
from ironrule.results.batch import Batch, RuleCover
from ironrule.results.explanation import Explanation
from ironrule.rule.phrasing import FeatureLabels, join_conditions
from ironrule.wording import format_count, join_lines, render_text

MAX_TEXT_RULES = 10
MAX_HTML_RULES = 25
MAX_SHARED_VALUES = 8
SHARED_FACTS: dict[str, Callable[[Explanation], str]] = {
    "Model (SHA-256)": lambda explanation: explanation.model or "not recorded",
    "Space (SHA-256)": lambda explanation: explanation.space,
    "Algorithm": lambda explanation: explanation.statistics.algorithm,
    "Seed": lambda explanation: str(explanation.statistics.seed),
}


def format_batch(batch: Batch) -> str:
    """The counts, then the few rules that cover all proven rows."""
    cover = batch.find_rule_cover()
    lines = [f"{sentence}." for sentence in summarize_batch(batch)]
    return join_lines([*lines, *(_list_covering_rules(cover) if len(cover) else [])])


def format_rule_cover(cover: RuleCover) -> str:
    """The few rules that cover all proven rows."""
    return join_lines(_list_covering_rules(cover))


def _list_covering_rules(cover: RuleCover) -> list[str]:
    lines = [f"{describe_rule_cover(cover)}:"]
    lines += [f"  {format_count(rule.covered_rows, 'row'):>13}  {rule.rule}" for rule in cover.rules[:MAX_TEXT_RULES]]
    hidden = len(cover.rules) - MAX_TEXT_RULES
    return [*lines, *([f"  and {hidden:,} more"] if hidden > 0 else [])]


def render_rule_cover(cover: RuleCover) -> str:
    """The same as HTML for a notebook."""
    return render_text(format_rule_cover(cover))


def summarize_batch(batch: Batch) -> list[str]:
    """How many rows, with which verdicts, and how long their rules are."""
    explained = f"{format_count(len(batch), 'denied row')} explained"
    unfinished = f"{explained} of {batch.counts['to_explain']:,}; run the same again to explain the others"
    lines = [explained if batch.complete else unfinished]
    if len(batch):
        columns = batch.columns("minimum", "cardinality", "seconds", "covered_by")
        verdicts = ", ".join(f"{count:,} {word}" for word, count in sorted(batch.verdicts.items()))
        minimum = format_count(sum(columns["minimum"]), "rule is minimum", "rules are minimum")
        lines.append(f"Verdicts: {verdicts}; {minimum}")
        sizes = sorted(columns["cardinality"])
        lines.append(f"Bounds per rule: {sizes[0]} to {sizes[-1]}, median {sizes[len(sizes) // 2]}")
        reused = sum(row is not None for row in columns["covered_by"])
        reuse = f"; {format_count(reused, 'row')} not searched, covered by the rule of another row" if reused else ""
        lines.append(f"Search: {sum(columns['seconds']):,.1f} s in total{reuse}")
    if batch.counts["not_robust"]:
        lie = format_count(batch.counts["not_robust"], "denied row lies", "denied rows lie")
        lines.append(f"{lie} within the margin, where no rule can hold")
    return lines


def describe_rule_cover(cover: RuleCover) -> str:
    """How many rules cover how many rows, and whether fewer rules could."""
    needed = f"{cover.lower_bound:,} {'is' if cover.lower_bound == 1 else 'are'} needed"
    fewer = "and fewer cannot" if cover.minimum else f"and at least {needed}"
    rest = f" ({format_count(cover.uncovered, 'row has', 'rows have')} no proven rule)" if cover.uncovered else ""
    rules = format_count(len(cover), "proven rule covers", "proven rules cover")
    rows = format_count(cover.covered, "row that has", "rows that have")
    return f"{rules} {'the' if cover.covered == 1 else 'all'} {rows} one{rest}, {fewer}"


def render_batch(batch: Batch) -> str:
    """The counts, a badge per verdict, and the few rules that cover all proven rows, as HTML for a notebook."""
    cover = batch.find_rule_cover()
    styles = {style.word: style for style in VERDICT_STYLES}
    return render_template(
        "notebook_batch.html",
        verdicts=[(styles[word], count) for word, count in sorted(batch.verdicts.items())],
        sentences=summarize_batch(batch),
        rule_cover=describe_rule_cover(cover),
        rules=[(rule.covered_rows, rule.rule) for rule in cover.rules[:MAX_HTML_RULES]],
    )


def build_batch_view(
    explanations: Sequence[Explanation], names: Sequence[str], labels: FeatureLabels | None = None
) -> dict[str, Any]:
    """The values of ``batch.html``: the overview, the scope, and a line for every explanation."""
    rows, stopped = [], 0
    shared: dict[str, Counter[str]] = {name: Counter() for name in SHARED_FACTS}
    # explanations may be read from disk one by one, so one pass collects all that is needed of each
    for name, explanation in zip(names, explanations, strict=True):
        length = f"{format_length(explanation.rule)}{', shortest' if explanation.minimum else ''}"
        verdict = get_verdict_name(explanation.verdict)
        rows.append((name, join_conditions(explanation.rule), verdict, length, f"{explanation.coverage:,}"))
        for fact, get_value in SHARED_FACTS.items():
            shared[fact][get_value(explanation)] += 1
        stopped += explanation.statistics.stopped is not None
    return {
        "overview": draw_overview(build_overview(explanations, labels)),
        "scope": [
            *((fact, _list_values(values)) for fact, values in shared.items()),
            ("Stopped early", f"{stopped:,}"),
            *collect_version_facts(explanations[0], "explanations"),
        ],
        "rows": rows,
    }


def _list_values(counts: Counter[str]) -> str:
    """The value that all have; else the most frequent ones, with how often they occur."""
    if len(counts) == 1:
        return next(iter(counts))
    return "; ".join(f"{value} ({count:,})" for value, count in counts.most_common(MAX_SHARED_VALUES))
