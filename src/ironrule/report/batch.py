"""Batches as text, as HTML for notebooks, and as reports: one letter per person, one table for the validator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ironrule.report.case_facts import collect_signing_facts, collect_version_facts, describe_file
from ironrule.report.plots.drawing import VERDICT_STYLES, choose_style
from ironrule.report.plots.overview import build_overview, draw_overview
from ironrule.report.templating import render_template
from ironrule.report.text import format_length, get_verdict_name
from ironrule.results.batch import Batch, RuleCover
from ironrule.results.explanation import Explanation
from ironrule.results.report_options import ReportOptions
from ironrule.rule.phrasing import FeatureLabels, join_conditions
from ironrule.verdict.digest import DIGEST_FIELD
from ironrule.wording import format_count, format_value, join_lines, render_text

MAX_TEXT_RULES = 10
MAX_HTML_RULES = 25
MAX_SHARED_VALUES = 8
MAX_CASES = 100  # of an account, that are told one by one
SHARED_FACTS: dict[str, Callable[[Explanation], str]] = {
    "Model (SHA-256)": lambda explanation: explanation.model or "not recorded",
    "Space (SHA-256)": lambda explanation: explanation.space,
    "Algorithm": lambda explanation: explanation.statistics.algorithm,
    "Seed": lambda explanation: str(explanation.statistics.seed),
}


class CaseLine(NamedTuple):
    """One line of the account; ``anchor`` is where the page tells more of the case, None where it does not."""

    anchor: str | None
    name: str
    rule: str
    verdict: str
    length: str
    covered: str


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
        columns = batch.columns("minimum", "cardinality", "conditions", "seconds", "covered_by")
        verdicts = ", ".join(f"{count:,} {word}" for word, count in sorted(batch.verdicts.items()))
        minimum = format_count(sum(columns["minimum"]), "rule is minimum", "rules are minimum")
        lines.append(f"Verdicts: {verdicts}; {minimum}")
        counts_bounds = None in columns["conditions"]  # rows that an earlier version explained
        sizes = sorted(columns["cardinality" if counts_bounds else "conditions"])
        what = "Bounds" if counts_bounds else "Conditions"
        lines.append(f"{what} per rule: {sizes[0]} to {sizes[-1]}, median {sizes[len(sizes) // 2]}")
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
    explanations: Sequence[Explanation],
    names: Sequence[str],
    options: ReportOptions,
    labels: FeatureLabels | None = None,
) -> dict[str, Any]:
    """The values of ``batch.html``: the overview, the scope, a line for every explanation, and the first cases."""
    rows, cases, stopped = list[CaseLine](), list[dict[str, Any]](), 0
    shared: dict[str, Counter[str]] = {name: Counter() for name in SHARED_FACTS}
    # explanations may be read from disk one by one, so one pass collects all that is needed of each
    for number, (name, explanation) in enumerate(zip(names, explanations, strict=True)):
        has_case = number < MAX_CASES
        rows.append(_build_line(f"case-{number}" if has_case else None, name, explanation))
        cases += [_build_case(rows[-1], explanation)] if has_case else []
        for fact, get_value in SHARED_FACTS.items():
            shared[fact][get_value(explanation)] += 1
        stopped += explanation.statistics.stopped is not None
    return {
        "overview": draw_overview(build_overview(explanations, labels)),
        "scope": [
            *collect_signing_facts(options, options.get_fields()),
            *((fact, _list_values(values)) for fact, values in shared.items()),
            *describe_file("Model file", options.model_file),
            *describe_file("Data file", options.data_file),
            ("Stopped early", f"{stopped:,}"),
            *collect_version_facts(explanations[0], "explanations"),
        ],
        "rows": rows,
        "cases": cases,
    }


def _build_line(anchor: str | None, name: str, explanation: Explanation) -> CaseLine:
    shown = explanation.shown
    length = f"{format_length(explanation.rule)}{', shortest' if explanation.minimum else ''}"
    verdict, covered = get_verdict_name(shown.verdict), f"{shown.coverage:,}"
    return CaseLine(anchor, name, join_conditions(shown.rule), verdict, length, covered)


def _build_case(line: CaseLine, explanation: Explanation) -> dict[str, Any]:
    """One explanation in short: its rule, what is known of it, the row's own values in it, and what would change it."""
    named = dict.fromkeys(component.feature for component in explanation.rule.components)
    return {
        "line": line,
        "rule": explanation.shown.rule,
        "style": choose_style(explanation.verdict),
        "facts": [
            ("Verdict", f"{explanation.shown.verdict}"),
            ("Past rows covered", f"{explanation.shown.coverage:,} of {explanation.history_rows:,}"),
            *((name, format_value(explanation.instance[name])) for name in named),
            ("Digest of the explanation", explanation.to_dict()[DIGEST_FIELD]),
        ],
        "changes": list(explanation.changes or ()),
    }


def _list_values(counts: Counter[str]) -> str:
    """The value that all have; else the most frequent ones, with how often they occur."""
    if len(counts) == 1:
        return next(iter(counts))
    return "; ".join(f"{value} ({count:,})" for value, count in counts.most_common(MAX_SHARED_VALUES))
