"""The report for a validator: verdict, proof, scope, how the rule was found, and the exact command that checks it."""

from __future__ import annotations

from typing import Any

from ironrule.report.attachments import AttachedDocument
from ironrule.report.case_facts import collect_case_facts
from ironrule.report.check_command import EXPLANATION_FILE, CheckCommand as CheckCommand  # the server's name for it
from ironrule.report.plots.conditions import draw_condition_pages
from ironrule.report.plots.drawing import Drawing, choose_style
from ironrule.report.plots.growth import build_growth_plot, draw_growth
from ironrule.report.plots.needs import build_needs_plot, draw_needs
from ironrule.report.text import (
    describe_details,
    describe_end,
    describe_length,
    describe_lone_row,
    describe_minimality,
    describe_scope,
    find_proven_wider_rule,
    get_verdict_name,
)
from ironrule.results.explanation import Explanation, Statistics
from ironrule.results.report_options import ReportOptions
from ironrule.rule.phrasing import join_conditions, name_value
from ironrule.verdict.certificate import Certificate
from ironrule.verdict.digest import DIGEST_FIELD
from ironrule.verdict.verdict import Proven
from ironrule.wording import format_count, format_names, format_number, format_size, format_value


def build_validator_view(explanation: Explanation, options: ReportOptions) -> dict[str, Any]:
    """The values of ``validator.html``."""
    check_command = CheckCommand.from_options(options)
    document = explanation.to_json().encode()
    return {
        "title": f"Explanation, {get_verdict_name(explanation.verdict)}: {explanation.shown.rule}",
        "rule": explanation.shown.rule,
        "style": choose_style(explanation.verdict),
        "sentences": [
            f"Verdict: {explanation.shown.verdict}.",
            f"{describe_length(explanation.rule)}{describe_minimality(explanation)}.",
            f"Past rows covered: {explanation.shown.coverage:,} of {explanation.history_rows:,}.",
            *describe_lone_row(explanation),
            *describe_details(explanation),
        ],
        "sql": explanation.shown.rule.to_sql(comments=bool(explanation.labels)),
        "case": collect_case_facts(explanation, options),
        "proof": _collect_proof_facts(explanation),
        "scope": _collect_scope_facts(explanation),
        "scope_sentences": describe_scope(explanation),
        "domains": [(name, domain.describe()) for name, domain in explanation.domains.items()],
        "search": _collect_search_facts(explanation),
        "check_command": check_command,
        "attached": AttachedDocument.build(EXPLANATION_FILE, document),
        "digest": explanation.to_dict()[DIGEST_FIELD],
        "drawings": _draw_plots(explanation) if explanation.rule.components else (),
        "other_rules": [
            (place, join_conditions(other.rule), get_verdict_name(other.verdict), f"{other.coverage:,}")
            for place, other in enumerate(explanation.ranked[1:], 2)
        ],
        "changes": explanation.changes,
        "limits": [(name, limit.reason) for name, limit in explanation.changes.limits.items()]
        if explanation.changes is not None
        else [],
        "counterfactuals": explanation.counterfactuals,
        "row": [(name, _describe_value(explanation, name)) for name in explanation.instance],
    }


def _describe_value(explanation: Explanation, feature: str) -> str:
    """The row's own value as the data has it, and what the labels call it."""
    value, labels = explanation.instance[feature], explanation.labels
    text, shown = format_value(value), name_value(feature, value, labels)
    return text if text == shown else f"{text} ({shown})"


def _draw_plots(explanation: Explanation) -> tuple[Drawing, ...]:
    needs, growth = build_needs_plot(explanation), build_growth_plot(explanation)
    return (*draw_condition_pages(explanation), draw_needs(needs), draw_growth(growth))


def _collect_proof_facts(explanation: Explanation) -> list[tuple[str, str]]:
    """What was proven, and how."""
    verdict, wider = explanation.verdict, find_proven_wider_rule(explanation)
    unproven = "none: the rule is not proven"
    holds = _describe_certificate(verdict.certificate) if isinstance(verdict, Proven) else unproven
    shortest = _describe_lower_bound(explanation)
    facts = [("Proof that the rule holds", holds), ("Proof that no shorter rule holds", shortest)]
    if wider is not None and isinstance(wider.verdict, Proven):
        further = f"no bound can move further (counterfactuals that show it: {len(explanation.wider_witnesses)})"
        end = further if explanation.wider_is_maximal else "not known whether bounds can move further"
        facts.append(("Proof that the wider rule holds", f"{_describe_certificate(wider.verdict.certificate)}; {end}"))
    return facts


def _describe_certificate(certificate: Certificate) -> str:
    built = certificate.with_built_covers()
    if built.method == "enumeration":
        points = "the only point" if built.points == 1 else f"all {built.points:,} points"
        return f"enumeration: the model was asked about {points} of the box"
    covers = format_count(len(built.covers), "cover")
    return f"cover: the box is divided into {format_count(built.points, 'piece')} ({covers}), each with a bound"


def _describe_lower_bound(explanation: Explanation) -> str:
    if not explanation.lower_bound:
        return "not needed: the rule is empty" if explanation.minimum else "none"
    counterfactuals = format_count(len(explanation.witnesses), "counterfactual")
    least, weight = format_number(explanation.lower_bound), format_number(explanation.weight)
    return f"every rule that excludes the {counterfactuals} found weighs at least {least}; this rule weighs {weight}"


def _collect_scope_facts(explanation: Explanation) -> list[tuple[str, str]]:
    """What the rule speaks about: space, model, what counts as desired, which rules were permitted."""
    decision, restrictions, background = explanation.decision, explanation.restrictions, explanation.background
    constraints, unreadable = explanation.constraints, explanation.unreadable_reason
    facts = [("Space (SHA-256)", explanation.space)]
    if background is not None:
        features = format_count(background.feature_count, "feature")
        facts.append(("Size of the space", f"{features}, {format_size(background.space_size, 4)} points"))
        if background.unused_features:
            unused = format_count(len(background.unused_features), "feature")
            facts.append(("Never used by the model", f"{unused}: {format_names(background.unused_features, 20)}"))
        # an explanation that does not name its constraints has them from the data
        constraints = constraints or background.constraints
    if background is not None or constraints:
        facts.append(("Constraints of the space", "; ".join(constraints) or "none"))
    return [
        *facts,
        ("Model (SHA-256)", explanation.model or "not recorded"),
        ("Model could be read", "yes" if unreadable is None else f"no: {unreadable}"),
        ("Desired", _describe_desired(explanation)),
        ("Threshold", "the model's own" if decision.threshold is None else repr(float(decision.threshold))),
        ("Margin", repr(float(decision.margin))),
        ("Required in the rule", ", ".join(restrictions.require) or "nothing"),
        ("Forbidden in the rule", ", ".join(restrictions.forbid) or "nothing"),
        ("Weights", "1 each" if restrictions.weights is None else str(restrictions.to_dict()["weights"])),
        ("Holds for", "this model" if explanation.model_count == 1 else f"{explanation.model_count} models at once"),
    ]


def _describe_desired(explanation: Explanation) -> str:
    """The desired classes and what these are called; or scores, and on which side of the threshold."""
    decision, own = explanation.decision, explanation.labels.get_desired(explanation.decision.desired)
    if decision.desired is not None:
        classes = ", ".join(map(format_value, decision.desired))
        return classes if own is None else f"{classes} ({own})"
    return "by score" if decision.threshold is None else f"a score {decision.direction} the threshold"


def _collect_search_facts(explanation: Explanation) -> list[tuple[str, str]]:
    """Algorithm, seed and effort."""
    statistics = explanation.statistics
    evaluations = format_count(statistics.evaluations, "evaluation")
    oracle_calls = format_count(statistics.oracle_calls, "oracle call")
    return [
        ("Algorithm", statistics.algorithm),
        ("Seed", str(statistics.seed)),
        ("Effort", f"{evaluations}, {oracle_calls}, {statistics.seconds:.3g} s"),
        ("Ended", describe_end(statistics)),
        ("Budget", _describe_budget(statistics)),
        ("Preferred", explanation.prefer),
    ]


def _describe_budget(statistics: Statistics) -> str:
    seconds, evaluations = statistics.budget_seconds, statistics.budget_evaluations
    limits = [] if seconds is None else [f"{seconds:g} s"]
    limits += [] if evaluations is None else [format_count(evaluations, "evaluation")]
    compiling = f"; compiling took {statistics.compile_seconds:.3g} s more" if statistics.compile_seconds else ""
    return f"{', '.join(limits) or 'no limit'}{compiling}"
