"""Explanations, counterfactuals, checks and spaces as a terminal shows them: the sentence first, tables below.

Only features that a rule or a change mentions are shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ironrule.cli.terminal import format_line, format_panel, format_table
from ironrule.report.text import (
    describe_bounds,
    describe_changes,
    describe_counterfactuals_stop,
    describe_diagnosis,
    describe_evidence,
    describe_explanation_stop,
    describe_length,
    describe_lone_row,
    describe_marks,
    describe_minimality,
    describe_preference,
    describe_robustness,
    describe_scope,
    describe_unconfirmed,
    describe_unreadable,
    get_verdict_name,
)
from ironrule.rule.counterfactual import Counterfactual
from ironrule.rule.phrasing import format_change, join_conditions, name_feature, name_value
from ironrule.space.roles import suggest_roles
from ironrule.verdict.verdict import Proven, Quality
from ironrule.wording import escape_controls, format_count, format_first, format_names, format_size

if TYPE_CHECKING:
    from ironrule.checker.result import Check
    from ironrule.results.changes.infeasibility import Infeasibility
    from ironrule.results.changes.region import CounterfactualRegion
    from ironrule.results.counterfactuals import Counterfactuals
    from ironrule.results.diagnosis import Diagnosis
    from ironrule.results.explanation import Explanation, Statistics
    from ironrule.results.judgement import Judgement
    from ironrule.results.ladder import Ladder, Rung
    from ironrule.results.reasons import Reason
    from ironrule.space.feature import Feature
    from ironrule.space.labels import Labels
    from ironrule.space.roles import Role
    from ironrule.space.space import Space


BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")  # of TOML; others stand in quotation marks
STATUS_COLOURS = {  # of verdicts, of checks and of claims
    **dict.fromkeys(("proven", "holds"), "green"),
    **dict.fromkeys(("unrefuted", "undecided", "bounded"), "yellow"),
    **dict.fromkeys(("refuted", "fails"), "red"),
}
CHECK_ADVICE = {  # by claims that could not be decided, since something else was given than what the document is about
    "space": "Pass the data that it was made with (--data), with the same --space and --constraint.",
    "model": "Pass the model and the past rows that it was made with (--model, --data).",
}
QUALITY_COLOURS = {Quality.NOT_JUDGED: "yellow", Quality.FAILED_DATA: "red", Quality.FAILED_GLOBAL: "red"}  # else green


def render_explanation(explanation: Explanation) -> str:
    """The rule as a sentence with its verdict, then the other rules, then the counterfactuals."""
    word, shown = get_verdict_name(explanation.verdict), explanation.shown
    title = "refuted: this does not hold" if word == "refuted" else word
    facts = [
        f"Verdict: {shown.verdict}.",
        f"{describe_length(explanation.rule)}{describe_minimality(explanation)}. "
        f"Past rows covered: {shown.coverage:,} of {explanation.history_rows:,}.",
        *describe_lone_row(explanation),
        *describe_scope(explanation),
        *describe_marks(explanation),
        *describe_unconfirmed(explanation.confirmed),
        *describe_preference(explanation),
        *describe_bounds(explanation),
        *describe_robustness(explanation),
        *describe_unreadable(explanation),
    ]
    parts = [
        format_panel(str(shown.rule), title, STATUS_COLOURS[word]),
        *map(format_line, facts),
        *_render_stop(describe_explanation_stop(explanation)),
        *_render_other_rules(explanation),
        *_render_changes(explanation.changes or ()),
        *map(format_line, describe_changes(explanation)),
        _render_statistics(explanation.statistics),
    ]
    return "\n".join(parts)


def render_ladder(ladder: Ladder) -> str:
    """The rung to be read first, then a table of all rungs, then notes on them."""
    from ironrule.report.ladder import build_rung_views, describe_notes

    views = build_rung_views(ladder)
    rows = [(view.length, view.worth, view.rule, view.rows) for view in views]
    styles = [("", STATUS_COLOURS[view.style.word], "", "") for view in views]
    titles = ("conditions", "worth", "rule", "exceptions measured")
    notes = (*describe_notes(ladder), *describe_explanation_stop(ladder.explanation))
    panel = _render_rung(ladder, ladder.short)
    statistics = _render_statistics(ladder.explanation.statistics)
    return "\n".join((panel, format_table(titles, rows, styles), *map(format_line, notes), statistics))


def render_explanation_with_short_rule(ladder: Ladder, most: int | None = None) -> str:
    """The best rule of at most so many bounds and what it is worth, then the explanation with the whole rule.

    Without ``most`` the rung that is to be read first leads, and none does whose bound is poor.
    """
    from ironrule.report.ladder import describe_measured_rows, describe_missing_short_rule

    explanation = render_explanation(ladder.explanation)
    rung = ladder.short if most is None else ladder.find_best_rung(most)
    if rung is None or rung is ladder.last:  # the whole rule is short enough, and worth more
        return "\n".join((explanation, *map(format_line, describe_missing_short_rule(ladder))))
    heading = "Why you can rely on it: the whole rule" if isinstance(ladder.last.verdict, Proven) else "The whole rule"
    count = format_count(len(ladder.last.rule.features), "condition")
    parts = (
        _render_rung(ladder, rung),
        *map(format_line, describe_measured_rows(ladder)),
        "",
        format_line(f"{heading}, with {count}", "bold"),
        "",
        explanation,
    )
    return "\n".join(parts)


def _render_rung(ladder: Ladder, rung: Rung) -> str:
    from ironrule.report.ladder import describe_rung

    word = get_verdict_name(rung.verdict)
    title = "bounded, not proven" if word == "bounded" else word
    return format_panel(describe_rung(ladder, rung), title, STATUS_COLOURS[word])


def render_reasons(reasons: Sequence[Reason]) -> str:
    """The reasons in their order, or a line that there is none."""
    if not reasons:
        return "\n" + format_line("No condition of a rule of this length counts against the person.")
    lines = (format_line(f"{place}. {reason}") for place, reason in enumerate(reasons, 1))
    return "\n".join(("", format_line("Reasons", "bold"), *lines))


def render_diagnosis(diagnosis: Diagnosis) -> str:
    """What makes the rule long, a sentence per line."""
    lines = (format_line(f"- {sentence}") for sentence in describe_diagnosis(diagnosis))
    return "\n".join(("", format_line("Why the rule is long", "bold"), *lines))


def render_counterfactuals(
    counterfactuals: Counterfactuals,
    regions: Sequence[CounterfactualRegion] = (),
    reason: Infeasibility | None = None,
    nearest: str = "each is the nearest that does not change all the features of one above",
) -> str:
    """The changes per counterfactual, or the reason why there is none, or a line that none was found; then regions.

    ``nearest`` says what is proven of each.
    """
    none = "No counterfactual was found. That is no proof that there is none: allow more changes or a larger budget."
    if counterfactuals.proven:
        none = "There is no counterfactual, and that is proven: allow more changes."
    if reason is not None:
        none = str(reason)
    parts = _render_changes(counterfactuals.items) or [*map(format_line, f"{none[:1].upper()}{none[1:]}".splitlines())]
    if counterfactuals.proven and counterfactuals.items:
        parts.append(format_line(f"Proven: {nearest}{counterfactuals.within}."))
    elif counterfactuals.proven_count:
        first = format_first(counterfactuals.proven_count)
        parts.append(format_line(f"Proven of {first}: {nearest}{counterfactuals.within}."))
    if counterfactuals.items and counterfactuals.robustness:
        parts.append(format_line(f"Robust: each is reached {counterfactuals.robustness}."))
    parts += map(format_line, describe_unconfirmed(counterfactuals.confirmed))
    parts += [format_line(f"Region {place}: {region}.") for place, region in enumerate(regions, 1)]
    stopped = _render_stop(describe_counterfactuals_stop(counterfactuals.statistics))
    return "\n".join((*parts, *stopped, _render_statistics(counterfactuals.statistics)))


def render_check(check: Check, in_labels: str | None = None) -> str:
    """The rule under the status, as it was checked and in labels, then every claim with its finding."""
    colour = "blue" if check.status == "holds" else STATUS_COLOURS[check.status]  # a ladder is not proven as a whole
    panel = format_panel(check.rule, check.status, colour)
    styles = [("", STATUS_COLOURS[status], "") for _, status, _ in check.findings]
    table = format_table(("claim", "", "why"), check.findings, styles)
    remarks = [format_line(f"{remark[:1].upper()}{remark[1:]}.") for remark in check.remarks]
    said = [] if in_labels is None else [format_line(f"In the words of the labels: {in_labels}")]
    others = [claim for claim, status, why in check.findings if status == "undecided" and "another" in why]
    advice = [format_line(CHECK_ADVICE[claim]) for claim in others if claim in CHECK_ADVICE]
    return "\n".join((panel, *said, format_line(f"{check.meaning}."), table, *advice, *remarks))


def render_judgements(judgements: Sequence[Judgement]) -> str:
    """Every rule under its quality, then the evidence."""
    parts: list[str] = []
    for judgement in judgements:
        colour = QUALITY_COLOURS.get(judgement.quality, "green")
        parts.append(format_panel(str(judgement.rule), str(judgement.quality), colour))
        parts += map(format_line, (*describe_evidence(judgement), *describe_unconfirmed(judgement.confirmed)))
    return "\n".join(parts)


def render_space(space: Space, rows_read: int, guessed: Sequence[str] = ()) -> str:
    """One line per feature: its kind, its values, how many, whether it can be missing, and a group's columns.

    The roles of the features in ``guessed`` are no declared ones.
    """
    grouped = any(feature.one_hot for feature in space.features)
    has_roles = any(feature.role is not None for feature in space.features)
    has_labels = any(feature.label for feature in space.features)
    titles = ("feature", *(("label",) if has_labels else ()), "kind", "values", "how many", "missing")
    titles = (*titles, *(("role",) if has_roles else ()), *(("columns",) if grouped else ()))
    rows = []
    for feature in space.features:
        kind, missing = "ordered" if feature.ordered else "nominal", "yes" if feature.missing else "no"
        columns = (", ".join(feature.columns) if feature.one_hot else "",) if grouped else ()
        by = " (guessed)" if feature.name in guessed else ""
        role = (f"{_format_role(feature.role)}{by}",) if has_roles else ()
        label = (feature.label or "",) if has_labels else ()
        shown = _format_domain(feature, space.labels)
        rows.append((feature.name, *label, kind, shown, f"{len(feature.values):,}", missing, *role, *columns))
    size = f"{format_count(rows_read, 'row')}, {format_count(len(space), 'feature')}, {format_size(space.size)} points."
    limits = [f"Constraint: {constraint}" for constraint in space.constraints]
    if constant := [feature.name for feature in space.features if feature.size == 1]:
        have, them = format_count(len(constant), "feature has", "features have"), "it" if len(constant) == 1 else "them"
        limits.append(f"{have} one value, so no rule needs {them}: {format_names(constant)}.")
    if guessed:
        first = space[guessed[0]].role
        place = _describe_role_place(guessed[0], "immutable" if first is None else first.kind)
        limits.append(
            "Guessed roles come from names. Explanations suggest no change of such a feature; ironrule counterfactual "
            f"may change it until its role is declared, {place}."
        )
    return "\n".join((format_table(titles, rows), *map(format_line, (*limits, size))))


def describe_guessed_roles(space: Space, counterfactuals: Iterable[Counterfactual]) -> list[str]:
    """That counterfactuals change features whose names say that nobody can, or that no advice should, change them."""
    guessed = suggest_roles(space.features)
    changed = dict.fromkeys(change.feature for one in counterfactuals for change in one.changes)
    listed = [f"{name_feature(name, space.labels)} ({guessed[name].kind})" for name in changed if name in guessed]
    if not listed:
        return []
    name = next(name for name in changed if name in guessed)
    place = _describe_role_place(name, guessed[name].kind)
    return [f"By their names, no advice should change these: {', '.join(listed)}. To keep them, declare roles {place}."]


def _describe_role_place(name: str, kind: str) -> str:
    """Where a role is declared, and how."""
    key = name if BARE_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False)
    return f"""in ironrule.toml ([roles], then {escape_controls(key)} = "{kind}") or in a file for --space"""


def _format_role(role: Role | None) -> str:
    entries = {} if role is None else role.to_dict()
    return ", ".join(value if key == "role" else f"{key} {value}" for key, value in entries.items())


def _format_domain(feature: Feature, labels: Labels) -> str:
    if not feature.values:
        return "always missing"
    if feature.ordered and len(feature.values) > 6:
        lowest, highest = (name_value(feature.name, feature.values[end], labels) for end in (0, -1))
        return f"{lowest} to {highest}"
    more = ", ..." if len(feature.values) > 6 else ""
    return ", ".join(name_value(feature.name, value, labels) for value in feature.values[:6]) + more


def _render_stop(sentences: Sequence[str]) -> list[str]:
    return [format_line(sentence, "yellow") for sentence in sentences]


def _render_other_rules(explanation: Explanation) -> list[str]:
    if len(explanation.ranked) < 2:
        return []
    rows = [
        (join_conditions(other.rule), get_verdict_name(other.verdict), f"{other.coverage:,}")
        for other in explanation.ranked[1:]
    ]
    return [format_table(("other rules", "verdict", "past rows"), rows)]


def _render_changes(counterfactuals: Sequence[Counterfactual]) -> list[str]:
    if not counterfactuals:
        return []
    rows: list[tuple[str, ...]] = []
    section_ends = []
    for place, counterfactual in enumerate(counterfactuals, 1):
        for first, change in enumerate(counterfactual.changes):
            number = f"{place}" if first == 0 else ""
            rows.append((number, *format_change(change)))
        section_ends.append(len(rows) - 1)
    table = format_table(("", "feature", "now", "would be"), rows, section_ends=section_ends)
    return ["", format_line("What would have changed the outcome", "bold"), table]


def _render_statistics(statistics: Statistics) -> str:
    text = f"{statistics.algorithm}, seed {statistics.seed}: {format_count(statistics.evaluations, 'evaluation')}"
    return format_line(f"{text} in {statistics.seconds:.2f} s.", "dim")
