"""Explanations and ladders that were given, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from ironrule.errors import ModelError
from ironrule.report.ladder import (
    build_rung_views,
    describe_measured_rows,
    describe_missing_short_rule,
    describe_remarks,
    describe_rung,
)
from ironrule.report.text import (
    describe_bounds,
    describe_changes,
    describe_explanation_stop,
    describe_lone_row,
    describe_marks,
    describe_minimality,
    describe_preference,
    find_proven_wider_rule,
    get_verdict_name,
)
from ironrule.results.explanation import Explanation
from ironrule.results.ladder import Ladder
from ironrule.results.scope import describe_checked_values, describe_domains, rebuild_space
from ironrule.rule.phrasing import format_outcome
from ironrule.server.served_model import find_extra_constraints
from ironrule.server.service import Service, read_record
from ironrule.server.views.bars import build_conditions
from ironrule.server.views.scores import build_score_view
from ironrule.server.views.texts import build_changes, format_rule, list_conditions, list_values
from ironrule.space.space import Space
from ironrule.wording import format_count

MAX_REASONS = 4  # as a notice names them


Labelled = TypeVar("Labelled", Explanation, Ladder)


def _show_with_labels(found: Labelled, space: Space) -> Labelled:
    """What a record has, in the labels that are served now; in its own where none are."""
    return found.with_labels(space.labels) if space.labels else found


def build_explanation_view(service: Service, number: int) -> dict[str, Any]:
    """An explanation that was given, in words."""
    record = read_record(service, number, "explanation")
    space = service.served_model.space
    found = _show_with_labels(Explanation.from_dict(record.document), space)
    subspace, proven = service.served_model.find_subspace(found), find_proven_wider_rule(found)
    wider, conditions = None if proven is None else proven.rule, None
    if subspace is not None:
        own = rebuild_space(found, subspace.explainer.space)
        conditions = build_conditions(found.rule, wider, own, dict(found.instance), subspace.count_codes(own))
    breaks = getattr(found.verdict, "counterfactual", None)  # who breaks a rule that is refuted
    is_current = subspace is not None and record.model == subspace.explainer.fingerprint
    return {
        "record": record.facts,
        "row": record.row,
        "is_current": is_current,
        "outcome_names": service.served_model.outcome_names,
        "score": build_row_score_view(service, found.instance) if is_current else None,
        "values": list_values(space, found.instance) if record.row is None and is_current else None,
        "constraints": list(found.constraints),
        "where": [] if subspace is None else list(find_extra_constraints(found.constraints, space) or ()),
        "outcome": format_outcome(found.rule),
        "sentence": str(found.shown.rule),
        "conditions": conditions,
        "wider": None if wider is None else format_rule(wider, space),
        "wider_is_maximal": found.wider_is_maximal,
        "verdict": get_verdict_name(found.verdict),
        "verdict_text": str(found.verdict),
        "checked_values": describe_checked_values(found),
        "scope": describe_domains(found, "unquoted"),
        "tested": getattr(found.verdict, "tried", 1) > 0,
        "exception": None if breaks is None else build_changes(breaks, space),
        "cardinality": found.rule.cardinality,
        "length_text": f"{format_count(len(found.rule.features), 'condition')}{describe_minimality(found)}",
        "coverage": found.shown.coverage,
        "own_coverage": found.coverage,
        "lone_row": describe_lone_row(found),
        "bounds": describe_bounds(found),
        "preference": describe_preference(found),
        "history_rows": found.history_rows,
        "unreadable_reason": found.unreadable_reason,
        "stopped": found.statistics.stopped,
        "stopped_by": found.statistics.stopped_by,
        "stop_text": describe_explanation_stop(found),
        "algorithm": found.statistics.algorithm,
        "seconds": found.statistics.seconds,
        "evaluations": found.statistics.evaluations,
        "restrictions": found.restrictions.to_dict(),
        "other_rules": [
            {"rule": format_rule(one.rule, space), "verdict": get_verdict_name(one.verdict), "coverage": one.coverage}
            for one in found.ranked[1:]
        ],
        "marks": describe_marks(found),
        "suggested": [build_changes(one, space) for one in found.changes or ()],
        "changes_note": describe_changes(found),
        "counterfactuals": [build_changes(one, space) for one in found.counterfactuals],
    }


def build_ladder_view(service: Service, number: int) -> dict[str, Any]:
    """A ladder that was given, in words: the rung that is read first, all rungs, the whole rule, and reasons."""
    record = read_record(service, number, "ladder")
    space = service.served_model.space
    found = _show_with_labels(Ladder.from_dict(record.document), space)
    short, explanation, subspace = found.short, found.explanation, service.served_model.find_subspace(found.explanation)
    is_current = subspace is not None and record.model == subspace.explainer.fingerprint
    return {
        "record": record.facts,
        "row": record.row,
        "is_current": is_current,
        "score": build_row_score_view(service, explanation.instance) if is_current else None,
        "values": list_values(space, explanation.instance) if record.row is None and is_current else None,
        "outcome_names": service.served_model.outcome_names,
        "outcome": format_outcome(explanation.rule),
        "conditions": list_conditions(short.rule, space),
        "verdict": get_verdict_name(short.verdict),
        "has_short_rule": short is not found.last,
        "sentence": describe_rung(found, short),
        "rungs": [
            {
                "length": rung.cardinality,
                "conditions": len(rung.rule.features),
                "verdict": get_verdict_name(rung.verdict),
                "worth": view.worth,
                "rule": format_rule(rung.rule, space),
                "rows": view.rows,
            }
            for rung, view in zip(found, build_rung_views(found), strict=True)
        ],
        "checked_values": describe_checked_values(explanation),
        "notes": [*describe_missing_short_rule(found), *describe_remarks(found)],
        "measured_notes": describe_measured_rows(found, has_advice=False),
        "whole_verdict": get_verdict_name(found.last.verdict),
        "whole_verdict_text": str(found.last.verdict),
        "whole_conditions": list_conditions(found.last.rule, space),
        "stop_text": describe_explanation_stop(explanation),
        "suggested": [build_changes(one, space) for one in explanation.changes or ()],
        "changes_note": describe_changes(explanation),
        "reasons": [str(reason) for reason in found.reasons(MAX_REASONS)],
    }


def build_row_score_view(service: Service, values: Mapping[str, Any]) -> dict[str, Any] | None:
    """What is shown of the score of a row that is given by its values."""
    scorer = service.served_model.scorer
    try:
        score = None if scorer is None else scorer.score(dict(values))
    except ModelError:  # the explanation stands without it
        return None
    return build_score_view(scorer, score, service.served_model.outcome_names)
