"""The report for a validator: verdict, proof, scope, how the rule was found, and the exact command that checks it."""

from __future__ import annotations

import base64
import shlex
from dataclasses import dataclass
from html import escape

import ironrule
from ironrule.report.html import (
    CONDITIONS_PER_PAGE,
    badge,
    bullet_list,
    data_table,
    facts_table,
    figure,
    paragraph,
    section,
)
from ironrule.report.plots.conditions import build_conditions_plot, draw_conditions
from ironrule.report.plots.drawing import choose_style
from ironrule.report.plots.growth import build_growth_plot, draw_growth
from ironrule.report.plots.needs import build_needs_plot, draw_needs
from ironrule.report.text import (
    describe_minimality,
    describe_robustness,
    describe_undecided,
    describe_unreadable,
    describe_wider_rule,
    find_proven_wider_rule,
    get_verdict_name,
)
from ironrule.results.background import Background
from ironrule.results.explanation import Explanation
from ironrule.rule.phrasing import join_conditions
from ironrule.verdict.certificate import Certificate
from ironrule.verdict.digest import DIGEST_FIELD
from ironrule.verdict.verdict import Proven
from ironrule.wording import format_count, format_number, format_value

EXPLANATION_FILE, MODEL_PLACEHOLDER, DATA_PLACEHOLDER = "explanation.json", "MODEL", "DATA"


@dataclass(frozen=True, slots=True)
class CheckCommand:
    """The files that a check needs, and the further options that the explanation was made with."""

    explanation: str = EXPLANATION_FILE
    model: str = MODEL_PLACEHOLDER
    data: str = DATA_PLACEHOLDER
    options: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """The command as a shell reads it.

        >>> CheckCommand("why.json", "model.skops", "past loans.csv").command
        "ironrule check why.json --model model.skops --data 'past loans.csv'"
        """
        return shlex.join(
            ["ironrule", "check", self.explanation, "--model", self.model, "--data", self.data, *self.options]
        )

    @property
    def is_complete(self) -> bool:
        """Whether the command names the model and the data, and not only where they belong."""
        return self.model != MODEL_PLACEHOLDER and self.data != DATA_PLACEHOLDER


MAX_ATTACHED_LENGTH = 2_000_000  # letters of an explanation that a report carries along


def format_validator_title(explanation: Explanation) -> str:
    """What the report is called."""
    return f"Explanation, {get_verdict_name(explanation.verdict)}: {explanation.rule}"


def render_validator_body(explanation: Explanation, check_command: CheckCommand) -> str:
    """The whole report as HTML."""
    digest = str(explanation.to_dict()[DIGEST_FIELD])
    row = [(name, format_value(value)) for name, value in explanation.instance.items()]
    return (
        f"<h1>Explanation of one decision</h1>\n{_render_verdict(explanation)}"
        f"{section('Proof', facts_table(collect_proof_facts(explanation)))}"
        f"{section('Scope', facts_table(collect_scope_facts(explanation)))}"
        f"{section('How it was found', facts_table(collect_search_facts(explanation)))}"
        f"{_render_check(explanation, check_command, digest)}"
        f"{_render_plots(explanation)}"
        f"{_render_other_rules(explanation)}{_render_counterfactuals(explanation)}"
        f"{section('The row', facts_table(row))}"
    )


def _render_verdict(explanation: Explanation) -> str:
    lines = [f"Verdict: {explanation.verdict}."]
    lines += [f"Components: {explanation.rule.cardinality_text}{describe_minimality(explanation)}."]
    lines += [f"Past rows covered: {explanation.coverage:,} of {explanation.history_rows:,}."]
    lines += [*describe_undecided(explanation), *describe_wider_rule(explanation), *describe_robustness(explanation)]
    lines += describe_unreadable(explanation)
    if explanation.statistics.stopped:
        lines.append(f"The search was stopped early ({explanation.statistics.stopped}).")
    return (
        f'<div class="answer"><p><strong>{escape(str(explanation.rule))}</strong></p>'
        f"<p>{badge(choose_style(explanation.verdict))}</p>{''.join(map(paragraph, lines))}"
        f"<pre>{escape(explanation.rule.to_sql())}</pre></div>\n"
    )


def collect_proof_facts(explanation: Explanation) -> list[tuple[str, str]]:
    """What was proven and by what, or that nothing was."""
    verdict = explanation.verdict
    holds = (
        _describe_certificate(verdict.certificate)
        if isinstance(verdict, Proven)
        else "not proven; there is no certificate"
    )
    rows = [("That the rule holds", holds), ("That nothing shorter holds", _describe_lower_bound(explanation))]
    wider = find_proven_wider_rule(explanation)
    if wider is not None and isinstance(wider.verdict, Proven):
        further = f"no bound can move further (counterfactuals that show it: {len(explanation.wider_witnesses)})"
        end = further if explanation.wider_is_maximal else "not known whether bounds can move further"
        rows.append(("That the wider rule holds", f"{_describe_certificate(wider.verdict.certificate)}; {end}"))
    return rows


def _describe_certificate(certificate: Certificate) -> str:
    drawn = certificate.with_built_covers()
    if drawn.method == "enumeration":
        return f"enumeration: the model was asked about {_count_points(drawn.points)} of the box"
    covers = format_count(len(drawn.covers), "cover")
    return f"cover: the box in {format_count(drawn.points, 'piece')} ({covers}), each with a bound"


def _count_points(points: int) -> str:
    return "the only point" if points == 1 else f"all {points:,} points"


def _describe_lower_bound(explanation: Explanation) -> str:
    if not explanation.lower_bound:
        return "the empty rule is as short as can be" if explanation.minimum else "nothing is known of that"
    need = format_count(len(explanation.witnesses), "counterfactual needs", "counterfactuals need")
    weight = f"{need} a rule that weighs {format_number(explanation.lower_bound)}"
    return f"{weight}; this one weighs {format_number(explanation.weight)}"


def collect_scope_facts(explanation: Explanation) -> list[tuple[str, str]]:
    """What the rule speaks about: space, model, what counts as desired, which rules were restrictions."""
    decision, restrictions, background = explanation.decision, explanation.restrictions, explanation.background
    desired = "by score" if decision.desired is None else ", ".join(map(format_value, decision.desired))
    threshold = "the model's own" if decision.threshold is None else repr(float(decision.threshold))
    weights = "1 each" if restrictions.weights is None else str(restrictions.to_dict()["weights"])
    rows = [("Space (SHA-256)", explanation.space)]
    rows += [] if background is None else [_describe_size(background)]
    rows += [] if background is None and not explanation.constraints else [_describe_constraints(explanation)]
    rows += [("Model (SHA-256)", explanation.model or "not recorded")]
    rows += [
        (
            "Model could be read",
            "yes" if explanation.unreadable_reason is None else f"no: {explanation.unreadable_reason}",
        )
    ]
    rows += [("Desired", desired), ("Threshold", threshold), ("Margin", repr(float(decision.margin)))]
    rows += [("Required in the rule", ", ".join(restrictions.require) or "nothing")]
    rows += [("Forbidden in the rule", ", ".join(restrictions.forbid) or "nothing"), ("Weights", weights)]
    rows += [
        ("Holds for", "this model" if explanation.model_count == 1 else f"{explanation.model_count} models at once")
    ]
    return [*rows, ("Past rows", f"{explanation.history_rows:,}")]


def _describe_size(background: Background) -> tuple[str, str]:
    size = f"{format_count(len(background.feature_labels), 'feature')}, {background.space_size:.4g} points"
    return "Its size", size


def _describe_constraints(explanation: Explanation) -> tuple[str, str]:
    """As the explanation names them; one that was written before explanations did has them from the data."""
    background = explanation.background
    known = explanation.constraints or (() if background is None else background.constraints)
    return "Its constraints", "; ".join(known) or "none"


def collect_search_facts(explanation: Explanation) -> list[tuple[str, str]]:
    """Algorithm, seed, effort and versions."""
    stats, background = explanation.statistics, explanation.background
    made = () if background is None else background.libraries
    asked = f"{format_count(stats.evaluations, 'evaluation')}, {format_count(stats.oracle_calls, 'oracle call')}"
    return [
        ("Algorithm", stats.algorithm),
        ("Seed", str(stats.seed)),
        ("Effort", f"{asked}, {stats.seconds:.3g} s"),
        ("Ended", f"early ({stats.stopped})" if stats.stopped else "by itself"),
        ("Made with", ", ".join(f"{name} {version}" for name, version in made) or "not recorded in the explanation"),
        ("Report by", f"ironrule {ironrule.__version__}, which has not checked the explanation again"),
    ]


def _render_check(explanation: Explanation, check_command: CheckCommand, digest: str) -> str:
    text = explanation.to_json()
    hint = "Put the files of the model and of the past rows in place of MODEL and DATA, and add --space, --constraint, "
    hint += "--models, --extend-domain or --intervals if the explanation was made with them."
    return section(
        "How to check it",
        paragraph("It verifies every claim against the model and the data, by code that shares none with the search."),
        f"<pre>{escape(check_command.command)}</pre>",
        "" if check_command.is_complete else paragraph(hint, "small"),
        _render_attachment(text),
        facts_table([("Digest of the explanation", digest)]),
    )


def _render_attachment(text: str) -> str:
    if len(text) > MAX_ATTACHED_LENGTH:
        return paragraph("The explanation with its certificate is too long to be carried along in this file.", "small")
    data = base64.b64encode(text.encode()).decode("ascii")
    link = f'<a download="{EXPLANATION_FILE}" href="data:application/json;base64,{data}">{EXPLANATION_FILE}</a>'
    return f"<p>The explanation with its certificate is in this file: {link} ({len(text.encode()):,} bytes).</p>"


def _render_plots(explanation: Explanation) -> str:
    if not explanation.rule.components:
        return ""
    drawings = (
        *map(draw_conditions, build_conditions_plot(explanation).split(CONDITIONS_PER_PAGE)),
        draw_needs(build_needs_plot(explanation)),
        draw_growth(build_growth_plot(explanation)),
    )
    return section("Pictures", *map(figure, drawings))


def _render_other_rules(explanation: Explanation) -> str:
    rows = [
        (
            f"{place}",
            join_conditions(other.rule),
            get_verdict_name(other.verdict),
            f"{other.coverage:,}",
        )
        for place, other in enumerate(explanation.ranked[1:], 2)
    ]
    return section("Other rules", data_table(("", "rule", "verdict", "past rows"), rows)) if rows else ""


def _render_counterfactuals(explanation: Explanation) -> str:
    items = [escape(str(counterfactual)) for counterfactual in explanation.counterfactuals]
    return section("Counterfactuals", bullet_list(items, ordered=True))
