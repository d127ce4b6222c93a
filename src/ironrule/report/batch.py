"""Batches as text, as HTML for notebooks, and as reports: one letter per person, one table for the validator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from ironrule.errors import InputError
from ironrule.report.html import VERDICT_COLOURS, data_table, facts_table, figure, section
from ironrule.report.person import render_person_body
from ironrule.report.plots.overview import build_overview, draw_overview
from ironrule.report.text import get_verdict_name
from ironrule.report.validator import collect_search_facts
from ironrule.results.batch import Batch, RuleCover
from ironrule.results.explanation import Explanation
from ironrule.rule.phrasing import FeatureLabels, join_conditions
from ironrule.wording import format_count

MAX_TEXT_RULES = 10


def format_batch(batch: Batch) -> str:
    """The counts, then the few rules that cover all proven rows."""
    few = batch.find_rule_cover()
    lines = [f"{line}." for line in summarize_batch(batch)]
    lines += [f"{describe_rule_cover(few)}:"] if len(few) else []
    lines += [f"  {format_count(rule.covered_rows, 'row'):>13}  {rule.rule}" for rule in few.rules[:MAX_TEXT_RULES]]
    return "\n".join(lines + _describe_rest(few))


def summarize_batch(batch: Batch) -> list[str]:
    """How many rows, with which verdicts, and how long their rules are."""
    done = f"{format_count(len(batch), 'denied row')} explained"
    lines = [done if batch.complete else f"{done} of {batch.counts['to_explain']:,}; run the same again for the others"]
    if len(batch):
        read = batch.columns("minimum", "cardinality", "seconds", "covered_by")
        words = [f"{count:,} {word}" for word, count in sorted(batch.verdicts.items())]
        minimum = format_count(sum(read["minimum"]), "rule is minimum", "rules are minimum")
        lines.append(f"Verdicts: {', '.join(words)}; {minimum}")
        sizes = sorted(read["cardinality"])
        lines.append(f"Components: {sizes[0]} to {sizes[-1]}, {sizes[len(sizes) // 2]} in the median")
        lines.append(f"Search: {sum(read['seconds']):,.1f} s in all{_describe_reuse(read['covered_by'])}")
    if batch.counts["not_robust"]:
        lie = format_count(batch.counts["not_robust"], "denied row lies", "denied rows lie")
        lines.append(f"No rule can withstand so much: {lie} within the margin")
    return lines


def _describe_reuse(covered_by: list[int | None]) -> str:
    """How many rows are covered by another row's rule, and were not searched for."""
    served = sum(row is not None for row in covered_by)
    return f"; {format_count(served, 'row')} needed none, covered by the rule of another" if served else ""


def describe_rule_cover(cover: RuleCover) -> str:
    """How many rules cover how much, and whether fewer could."""
    known = (
        "and no fewer do"
        if cover.minimum
        else f"and at least {cover.lower_bound:,} {'is' if cover.lower_bound == 1 else 'are'} needed"
    )
    rest = f" ({format_count(cover.uncovered, 'row has', 'rows have')} no proven rule)" if cover.uncovered else ""
    rules = format_count(len(cover), "proven rule covers", "proven rules cover")
    rows = format_count(cover.covered, "row that has", "rows that have")
    return f"{rules} {'the' if cover.covered == 1 else 'all'} {rows} one{rest}, {known}"


def _describe_rest(cover: RuleCover) -> list[str]:
    rest = cover.rules[MAX_TEXT_RULES:]
    return [f"  and {len(rest):,} more"] if rest else []


MAX_HTML_RULES = 25


def render_batch(batch: Batch) -> str:
    """The counts, a badge per verdict, and the few rules that cover all proven rows."""
    few = batch.find_rule_cover()
    badges = "".join(_count_badge(word, count) for word, count in sorted(batch.verdicts.items()))
    told = "".join(f"<p>{escape(line)}.</p>" for line in summarize_batch(batch))
    cell = 'style="padding:2px 10px;text-align:left;vertical-align:top;border-bottom:1px solid #ccc"'
    rows = "".join(
        f"<tr><td {cell}>{rule.covered_rows:,}</td><td {cell}><code>{escape(rule.rule)}</code></td></tr>"
        for rule in few.rules[:MAX_HTML_RULES]
    )
    table = f"<p>{escape(describe_rule_cover(few))}:</p><table>{rows}</table>" if rows else ""
    style = "font-family:system-ui,sans-serif;max-width:60em;line-height:1.45"
    return f'<div style="{style}"><p>{badges}</p>{told}{table}</div>'


def _count_badge(word: str, count: int) -> str:
    style = f"background:{VERDICT_COLOURS[word]};color:#fff;border-radius:4px;padding:2px 8px;margin-right:6px"
    return f'<span style="{style}">{count:,} {word}</span>'


def choose_names(explanations: Sequence[Explanation], names: Sequence[str] | None) -> tuple[str, ...]:
    """What every explanation is called; numbers where no names are given."""
    if names is None:
        return tuple(str(place) for place in range(1, len(explanations) + 1))
    if len(names) != len(explanations):
        raise InputError(
            expected=f"names must have {format_count(len(explanations), 'name')}, one for each explanation",
            got=len(names),
        )
    return tuple(map(str, names))


def render_person_letters(explanations: Sequence[Explanation], names: Sequence[str]) -> str:
    """One letter after the other, each on a page of its own in print."""
    return "\n".join(
        f'<article class="letter"><p class="small">{escape(name)}</p>{render_person_body(explanation)}</article>'
        for explanation, name in zip(explanations, names, strict=True)
    )


@dataclass(frozen=True, slots=True)
class ValidatorTableRow:
    """What the table says of one explanation, which may be long: its cells, and what it shares with others."""

    cells: tuple[str, ...]
    shared: tuple[tuple[str, str], ...]
    stopped: bool


def render_validator_table(
    explanations: Sequence[Explanation], names: Sequence[str], labels: FeatureLabels | None = None
) -> str:
    """The overview, the scope, and a line for every explanation."""
    rows = [_build_table_row(name, one) for name, one in zip(names, explanations, strict=True)]
    head = ("", "rule", "verdict", "components", "past rows")
    return (
        f"<h1>{format_count(len(rows), 'explanation')}</h1>\n"
        f"{figure(draw_overview(build_overview(explanations, labels)))}"
        f"{section('Scope', facts_table(_collect_scope(rows, explanations[0])))}"
        f"{section('All of them', data_table(head, [row.cells for row in rows]))}"
    )


def _build_table_row(name: str, explanation: Explanation) -> ValidatorTableRow:
    length = f"{explanation.cardinality}{', shortest' if explanation.minimum else ''}"
    shared = (
        ("Model (SHA-256)", explanation.model or "not recorded"),
        ("Space (SHA-256)", explanation.space),
        ("Algorithm", explanation.statistics.algorithm),
        ("Seed", str(explanation.statistics.seed)),
    )
    cells = (
        name,
        join_conditions(explanation.rule),
        get_verdict_name(explanation.verdict),
        length,
        f"{explanation.coverage:,}",
    )
    return ValidatorTableRow(cells, shared, explanation.statistics.stopped is not None)


def _collect_scope(rows: Sequence[ValidatorTableRow], first: Explanation) -> list[tuple[str, str]]:
    columns = zip(*(row.shared for row in rows), strict=True)
    shared = [(column[0][0], _count_distinct([value for _, value in column])) for column in columns]
    made = dict(collect_search_facts(first))
    return [
        *shared,
        ("Stopped early", f"{sum(row.stopped for row in rows):,}"),
        ("Made with", made["Made with"]),
        ("Report by", made["Report by"].replace("explanation", "explanations")),
    ]


def _count_distinct(texts: Sequence[str]) -> str:
    counted = Counter(texts)
    if len(counted) == 1:
        return texts[0]
    return "; ".join(f"{text} ({number:,})" for text, number in counted.most_common(8))
