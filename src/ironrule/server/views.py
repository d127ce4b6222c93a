"""What every page and its JSON form show, as plain data: values and rules as text, distributions as bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ironrule.arrays import Int64Array
from ironrule.explain.options import DEFAULT_SECONDS
from ironrule.report.ladder import build_rung_views, describe_missing_short_rule, describe_notes, describe_rung
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
from ironrule.rule.condition import find_admitted_codes
from ironrule.rule.counterfactual import Counterfactual
from ironrule.rule.phrasing import FeatureLabels, format_label, format_outcome, group_conditions
from ironrule.rule.rule import Rule
from ironrule.server.applicants import OutcomeFilter
from ironrule.server.served_model import find_extra_constraints
from ironrule.server.service import Service, WhatIfResult, evaluate_what_if, read_record
from ironrule.space.feature import Feature, value_to_json
from ironrule.space.space import Space
from ironrule.wording import format_count, format_value

MAX_BARS = 40


def build_conditions(
    rule: Rule, wider: Rule | None, space: Space, instance: dict[str, Any], frequencies: Sequence[Int64Array]
) -> list[dict[str, Any]]:
    """One entry per feature of a rule: what is shown of it, what it says with the row's own value, the wider bound, and
    the distribution.
    """
    entries, labels = [], FeatureLabels.from_space(space, "unquoted")
    further = {} if wider is None else {moved.feature: moved for moved in group_conditions(wider)}
    for condition in group_conditions(rule):
        name = condition.feature
        feature, place = space[name], space.index(name)
        shown = further.get(name, condition)
        admitted = find_admitted_codes(shown, feature)
        inside = [code in admitted for code in range(feature.size)]
        bars = build_bars(frequencies[place], assign_bins(feature), inside, feature.code(instance[name]))
        text, wider_text = (labels.format_sentence(one) for one in (condition, shown))
        entries.append(
            {
                "feature": name,
                "label": format_label(feature),
                "unit": feature.unit,
                "shown": wider_text,
                "text": text,
                "value": format_value(instance[name], "unquoted"),
                "wider": wider_text if wider_text != text else None,
                "bars": bars,
                "satisfying_rows": int(frequencies[place][np.array(inside)].sum()),
            }
        )
    return entries


def build_bars(counts: Int64Array, bins: Int64Array, inside: Sequence[bool], own_code: int) -> list[dict[str, Any]]:
    """A distribution as bars: heights from 0 to 1, which share of the rows in each is allowed, the row's own place."""
    heights = np.bincount(bins, weights=counts)
    allowed = np.bincount(bins, weights=counts * np.array(inside))
    last = {int(place): bool(allows) for place, allows in zip(bins, inside, strict=True)}
    top = float(heights.max()) or 1.0
    return [
        {
            "height": round(height / top, 3),
            "allowed_share": round(part / height, 3) if height else 0.0,
            "allowed_on_right": last.get(place, False),  # else on the left, where only a part is allowed
            "is_own": place == int(bins[own_code]),
        }
        for place, (height, part) in enumerate(zip(heights.tolist(), allowed.tolist(), strict=True))
    ]


def assign_bins(feature: Feature) -> Int64Array:
    """Which bar every code belongs to: its own, or where there are too many, by value or else by place in the order.

    >>> assign_bins(Feature("age", (20, 30, 40), ordered=True)).tolist()
    [0, 1, 2]
    """
    places = np.arange(feature.size, dtype=np.int64)
    if feature.size <= MAX_BARS:
        return places
    if not (feature.naturally_ordered and feature.numeric):
        return places * MAX_BARS // feature.size
    values = np.array(feature.values, dtype=float)
    scaled = (values - values[0]) / (values[-1] - values[0]) * MAX_BARS
    bins = np.minimum(scaled.astype(np.int64), MAX_BARS - 1)
    return np.append(bins, MAX_BARS) if feature.missing else bins


def build_changes(counterfactual: Counterfactual, space: Space) -> list[dict[str, str]]:
    """The changes of a counterfactual."""
    labels = FeatureLabels.from_space(space)
    return [
        {
            "feature": change.feature,
            "label": format_label(labels.get(change.feature)),
            "before": format_value(change.before, "unquoted"),
            "after": format_value(change.after, "unquoted"),
        }
        for change in counterfactual.changes
    ]


def format_rule(rule: Rule, space: Space) -> str:
    """A rule in one line, in labels."""
    return "; ".join(f"{one['label']}: {one['shown']}" for one in list_conditions(rule, space)) or "everyone"


def list_conditions(rule: Rule, space: Space) -> list[dict[str, str]]:
    """The conditions of a rule, one per feature, in labels."""
    labels = FeatureLabels.from_space(space, "unquoted")
    return [
        {"label": format_label(labels.get(condition.feature)), "shown": labels.format_sentence(condition)}
        for condition in group_conditions(rule)
    ]


def list_choices(feature: Feature) -> list[str] | None:
    """The values to choose from, where they are few and no others are possible."""
    if feature.size > 60 or feature.interval:
        return None
    return [format_value(feature.value(code), "unquoted") for code in range(feature.size)]


LIST_COLUMNS = 5
MAX_REASONS = 4  # as a notice names them
RECORD_FOLDERS = {"explanation": "explanations", "ladder": "ladders", "counterfactuals": "counterfactuals"}
LOG_PAGE_SIZE = 25


def build_model_view(service: Service) -> dict[str, Any]:
    """What is served."""
    explainer, space = service.served_model.explainer, service.served_model.space
    features = [
        {"feature": f.name, "label": format_label(f), "unit": f.unit, "ordered": f.ordered, "value_count": f.size,
         "domain": f.describe()}
        for f in space.features
    ]  # fmt: skip
    return {
        "title": service.served_model.title,
        "history_rows": len(explainer.outcomes),
        "desired_rows": int(explainer.outcomes.sum()),
        "readable": explainer.unreadable_reason is None,
        "unreadable_reason": explainer.unreadable_reason,
        "model": explainer.fingerprint,
        "space": space.fingerprint,
        "constraints": [str(one) for one in space.constraints],
        "features": features,
    }


def build_applicants_view(
    service: Service, outcome: OutcomeFilter, page: int, size: int, search: str | None
) -> dict[str, Any]:
    """One page of the list."""
    text, mask = service.searches.find(search) if search else (None, None)
    listed = service.applicants.get_page(mask, outcome, page, min(size, service.settings.limits.page_rows))
    shown = service.served_model.space.features[:LIST_COLUMNS]
    return {
        "title": service.served_model.title,
        "outcome": outcome,
        "search": search,
        "text": text,
        "search_example": _build_search_example(service),
        "page": listed.page,
        "pages": listed.pages,
        "size": size,
        "total": listed.total,
        "columns": [{"feature": f.name, "label": format_label(f)} for f in shown],
        "applicants": [
            _build_list_row(service, number, position)
            for number, position in zip(listed.row_numbers, listed.positions, strict=True)
        ],
    }  # fmt: skip


def _build_search_example(service: Service) -> str:
    """A condition on each kind of feature, with values that occur."""
    space = service.served_model.space
    ordered = [
        f"{format_label(f)} >= {format_value(f.values[len(f.values) // 2], 'unquoted')}"
        for f in space.features
        if f.ordered
    ]
    nominal = [f"{format_label(f)} = {format_value(f.values[0], 'unquoted')}" for f in space.features if not f.ordered]
    return " and ".join(min(conditions, key=len) for conditions in (ordered, nominal) if conditions)


def _build_list_row(service: Service, number: int, position: int) -> dict[str, Any]:
    values, shown = service.applicants.values(position), service.served_model.space.names[:LIST_COLUMNS]
    outcome = "desired" if service.applicants.outcomes[position] else "undesired"
    return {"row": number, "outcome": outcome, "values": [format_value(values[name], "unquoted") for name in shown]}


def build_applicant_view(service: Service, row: int) -> dict[str, Any]:
    """One applicant, and what can be asked about them."""
    position = service.applicants.find_position(row)
    values, space = service.applicants.values(position), service.served_model.space
    return {
        "row": row,
        "outcome": "desired" if service.applicants.outcomes[position] else "undesired",
        "values": [
            {"feature": f.name, "label": format_label(f), "unit": f.unit, "value": value_to_json(values[f.name]),
             "text": format_value(values[f.name], "unquoted"), "options": list_choices(f), "domain": f.describe()}
            for f in space.features
        ],
        "classes": [format_value(label, "unquoted") for label in service.served_model.classes],
        "max_seconds": service.settings.limits.seconds,
        "usual_seconds": min(DEFAULT_SECONDS, service.settings.limits.seconds),
        "readable": service.served_model.explainer.unreadable_reason is None,
        "change_example": _build_change_example(space),
        "subspace_example": _build_subspace_example(space, values),
    }  # fmt: skip


def _build_change_example(space: Space) -> str | None:
    """A constraint on changes, on a feature whose name needs no quotation marks."""
    names = [f.name for f in space.features if f.ordered and f.name.isidentifier()]
    return f"cf.{min(names, key=len)} >= x.{min(names, key=len)}" if names else None


def _build_subspace_example(space: Space, values: Mapping[str, Any]) -> str | None:
    """A constraint on what can occur that a row satisfies, on a numeric feature."""
    names = [f.name for f in space.features if f.naturally_ordered and f.numeric and f.name.isidentifier()]
    known = [name for name in names if values[name] is not None]
    return f"cf.{min(known, key=len)} <= {format_value(values[min(known, key=len)], 'unquoted')}" if known else None


def build_log_view(service: Service, page: int) -> dict[str, Any]:
    """One page of the audit log, the last records first."""
    total = service.audit.get_last_number()
    pages = max(1, -(-total // LOG_PAGE_SIZE))
    page = min(page, pages)
    last = total - (page - 1) * LOG_PAGE_SIZE
    records = list(service.audit.records(max(1, last - LOG_PAGE_SIZE + 1), last))
    facts = [record.facts | {"folder": RECORD_FOLDERS[record.kind]} for record in reversed(records)]
    return {"total": total, "page": page, "pages": pages, "records": facts}


def build_explanation_view(service: Service, number: int) -> dict[str, Any]:
    """An explanation that was given, in words."""
    record = read_record(service, number, "explanation")
    found, space = Explanation.from_dict(record.document), service.served_model.space
    subspace, proven = service.served_model.find_subspace(found), find_proven_wider_rule(found)
    wider, conditions = None if proven is None else proven.rule, None
    if subspace is not None:
        own = rebuild_space(found, subspace.explainer.space)
        conditions = build_conditions(found.rule, wider, own, dict(found.instance), subspace.count_codes(own))
    breaks = getattr(found.verdict, "counterfactual", None)  # who breaks a rule that is refuted
    return {
        "record": record.facts,
        "row": record.row,
        "is_current": subspace is not None and record.model == subspace.explainer.fingerprint,
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
        "length_text": f"{format_count(found.rule.cardinality, 'component')}{describe_minimality(found)}",
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
    found, space = Ladder.from_dict(record.document), service.served_model.space
    short, explanation, subspace = found.short, found.explanation, service.served_model.find_subspace(found.explanation)
    return {
        "record": record.facts,
        "row": record.row,
        "is_current": subspace is not None and record.model == subspace.explainer.fingerprint,
        "outcome": format_outcome(explanation.rule),
        "conditions": list_conditions(short.rule, space),
        "verdict": get_verdict_name(short.verdict),
        "has_short_rule": short is not found.last,
        "sentence": describe_rung(found, short),
        "rungs": [
            {
                "length": rung.cardinality,
                "verdict": get_verdict_name(rung.verdict),
                "worth": view.worth,
                "rule": format_rule(rung.rule, space),
                "rows": view.rows,
            }
            for rung, view in zip(found, build_rung_views(found), strict=True)
        ],
        "notes": [*describe_missing_short_rule(found), *describe_notes(found)],
        "whole_verdict": get_verdict_name(found.last.verdict),
        "whole_verdict_text": str(found.last.verdict),
        "whole_conditions": list_conditions(found.last.rule, space),
        "stop_text": describe_explanation_stop(explanation),
        "suggested": [build_changes(one, space) for one in explanation.changes or ()],
        "changes_note": describe_changes(explanation),
        "reasons": [str(reason) for reason in found.reasons(MAX_REASONS)],
    }


def answer_what_if(service: Service, row: int, changes: Mapping[str, Any], number: int | None) -> WhatIfResult:
    """A past row with changes, and the rule of an explanation tried on it."""
    before = service.applicants.values(service.applicants.find_position(row))
    if number is None:
        return evaluate_what_if(service.served_model, before, changes, None)
    explanation = Explanation.from_dict(read_record(service, number, "explanation").document)
    where = find_extra_constraints(explanation.constraints, service.served_model.space) or ()
    return evaluate_what_if(service.served_model, before, changes, explanation.rule, where)
