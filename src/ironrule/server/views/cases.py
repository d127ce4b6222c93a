"""The pages of people: the list, one applicant, a what-if, a new applicant; and what is served."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ironrule.explain.options import DEFAULT_SECONDS
from ironrule.results.explanation import Explanation
from ironrule.rule.parsing import OPERATOR_PATTERN
from ironrule.rule.phrasing import format_label, name_value
from ironrule.server.applicants import FEATURE_PREFIX, SORT_WORDS, ListQuery
from ironrule.server.errors import ApiError
from ironrule.server.served_model import find_extra_constraints
from ironrule.server.service import Service, read_record
from ironrule.server.typed_values import TypedRow, build_field
from ironrule.server.views.scores import build_score_view, format_score
from ironrule.server.views.texts import list_values
from ironrule.server.what_if import WhatIfResult, evaluate_what_if
from ironrule.space.feature import Feature
from ironrule.space.labels import write_key
from ironrule.space.space import Space
from ironrule.wording import format_value

LIST_COLUMNS = 5


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
    service: Service, query: ListQuery, typed: str | None = None, problem: ApiError | None = None
) -> dict[str, Any]:
    """One page of the list. A search that cannot be used is shown as it was ``typed``, with its ``problem``."""
    text, mask = service.searches.find(query.search) if query.search else (None, None)
    query = replace(query, size=min(query.size, service.settings.limits.page_rows))
    scorer = service.served_model.scorer
    listed = service.applicants.get_page(mask, query, None if scorer is None else scorer.past)
    space = service.served_model.space
    shown = _choose_columns(space, query)
    return {
        "title": service.served_model.title,
        "outcome": query.outcome,
        "outcome_names": service.served_model.outcome_names,
        "search": query.search,
        "text": text if typed is None else typed,
        "search_error": None if problem is None else _build_search_problem(service, typed or "", problem),
        "search_parts": [] if text is None else _list_search_parts(service, text),
        "search_note": _describe_empty_search(service, text) if text is not None and listed.total == 0 else None,
        "search_example": _build_search_example(service),
        "sort": query.sort,
        "order": query.order,
        "sort_choices": _list_sort_choices(space, scorer is not None),
        "filters": [{"feature": f.name, "label": format_label(f)} for f in space.features],
        "page": listed.page,
        "pages": listed.pages,
        "size": query.size,
        "total": listed.total,
        "denied_total": len(service.applicants.select(mask, "undesired")),
        "has_scores": scorer is not None,
        "columns": [{"feature": f.name, "label": format_label(f), "sort": f"{FEATURE_PREFIX}{f.name}"} for f in shown],
        "applicants": [
            _build_list_row(service, number, position, shown)
            for number, position in zip(listed.row_numbers, listed.positions, strict=True)
        ],
    }


def _choose_columns(space: Space, query: ListQuery) -> list[Feature]:
    """The first features, and the one that the list is sorted by."""
    shown = list(space.features[:LIST_COLUMNS])
    sorted_by = query.sort.removeprefix(FEATURE_PREFIX)
    if query.sort.startswith(FEATURE_PREFIX) and sorted_by not in [feature.name for feature in shown]:
        shown = [*shown[:-1], space[sorted_by]] if len(shown) == LIST_COLUMNS else [*shown, space[sorted_by]]
    return shown


def _list_sort_choices(space: Space, has_scores: bool) -> list[dict[str, str]]:
    words = [word for word in SORT_WORDS if word != "score" or has_scores]
    own = [{"sort": f"{FEATURE_PREFIX}{f.name}", "label": format_label(f)} for f in space.features]
    return [{"sort": word, "label": {"row": "number"}.get(word, word)} for word in words] + own


def _list_search_parts(service: Service, text: str) -> list[dict[str, str]]:
    """The conditions of a search, each with what is left of the search without it."""
    parts = service.applicants.split_search(text)
    return [
        {"text": part, "without": " and ".join(parts[:place] + parts[place + 1 :])} for place, part in enumerate(parts)
    ]


def _build_search_problem(service: Service, typed: str, problem: ApiError) -> dict[str, Any]:
    """What is wrong with a search, and the search that was probably meant."""
    understood = problem.code == "search-not-understood"
    return {"message": problem.message, "suggestion": service.applicants.suggest_search(typed) if understood else None}


def _describe_empty_search(service: Service, text: str) -> str | None:
    """Why nothing was found, where a word of the search looks like the name of a feature."""
    for part in service.applicants.split_search(text):
        near = None if OPERATOR_PATTERN.search(part) else service.applicants.find_near_label(part)
        if near is not None:
            return f"No value has “{part}” in it. To search in “{near}”, write {_build_example(service, near)}."
    return None


def _build_example(service: Service, label: str) -> str:
    feature = next(f for f in service.served_model.space.features if format_label(f) == label)
    sign = ">=" if feature.ordered else "="
    place = len(feature.values) // 2 if feature.ordered else 0
    text = name_value(feature.name, feature.value(place), service.served_model.space.labels, "unquoted")
    return f"{label} {sign} {text}"


def _build_search_example(service: Service) -> str:
    """A condition on each kind of feature, with values that occur."""
    space = service.served_model.space
    ordered = [
        f"{format_label(f)} >= {name_value(f.name, f.values[len(f.values) // 2], space.labels, 'unquoted')}"
        for f in space.features
        if f.ordered
    ]
    nominal = [
        f"{format_label(f)} = {name_value(f.name, f.values[0], space.labels, 'unquoted')}"
        for f in space.features
        if not f.ordered
    ]
    return " and ".join(min(conditions, key=len) for conditions in (ordered, nominal) if conditions)


def _build_list_row(service: Service, number: int, position: int, shown: Sequence[Feature]) -> dict[str, Any]:
    values, scorer = service.applicants.values(position), service.served_model.scorer
    score = None if scorer is None else scorer.get_past_score(position)
    return {
        "row": number,
        "outcome": "desired" if service.applicants.outcomes[position] else "undesired",
        "score": None if score is None else score.to_dict(),
        "score_text": None if score is None else format_score(score.value, score.threshold),
        "values": [
            name_value(one.name, values[one.name], service.served_model.space.labels, "unquoted") for one in shown
        ],
    }


def build_applicant_view(service: Service, row: int) -> dict[str, Any]:
    """One applicant, and what can be asked about them."""
    position = service.applicants.find_position(row)
    values, space = service.applicants.values(position), service.served_model.space
    names, scorer = service.served_model.outcome_names, service.served_model.scorer
    outcome = "desired" if service.applicants.outcomes[position] else "undesired"
    score = None if scorer is None else scorer.get_past_score(position)
    return {
        "row": row,
        "outcome": outcome,
        "outcome_names": names,
        "score": build_score_view(scorer, score, names),
        "values": list_values(space, values),
        "classes": [
            space.labels.get_outcome(write_key(label)) or format_value(label, "unquoted")
            for label in service.served_model.classes
        ],
        "max_seconds": service.settings.limits.seconds,
        "usual_seconds": min(DEFAULT_SECONDS, service.settings.limits.seconds),
        "readable": service.served_model.explainer.unreadable_reason is None,
        "change_example": _build_change_example(space),
        "subspace_example": _build_subspace_example(space, values),
        "cost_examples": build_cost_examples(space),
    }


def build_fields(service: Service) -> list[dict[str, Any]]:
    """The inputs of a form with one field per feature."""
    whole = service.served_model.get_subspace(())
    pairs = zip(service.served_model.space.features, whole.frequencies, strict=True)
    labels = service.served_model.space.labels
    return [build_field(feature, counts, labels) for feature, counts in pairs]


def build_what_if_view(
    service: Service, row: int, number: int | None, typed: TypedRow | None = None, result: WhatIfResult | None = None
) -> dict[str, Any]:
    """The form of a what-if, filled in as it was sent, and the answer, or what is wrong with it."""
    about = build_applicant_view(service, row)
    texts = {one["feature"]: one["typed"] for one in about["values"]} | ({} if typed is None else dict(typed.texts))
    return {
        "applicant": about,
        "row": row,
        "outcome_names": about["outcome_names"],
        "explanation": number,
        "fields": build_fields(service),
        "before": {one["feature"]: {"text": one["text"], "typed": one["typed"]} for one in about["values"]},
        "texts": texts,
        "errors": {} if typed is None else dict(typed.errors),
        "answer": None if result is None else result.to_dict() | {"score": _build_result_score(service, result)},
    }


def build_new_applicant_view(
    service: Service,
    texts: Mapping[str, str] | None = None,
    typed: TypedRow | None = None,
    result: WhatIfResult | None = None,
    problem: str | None = None,
) -> dict[str, Any]:
    """The form for a person who is not among the past rows: as it was sent, or with the usual values."""
    fields = build_fields(service)
    start = {one["feature"]: one["default"] for one in fields} | dict(texts or {})
    return {
        "fields": fields,
        "texts": start if typed is None else dict(typed.texts),
        "errors": {} if typed is None else dict(typed.errors),
        "problem": problem,
        "outcome_names": service.served_model.outcome_names,
        "readable": service.served_model.explainer.unreadable_reason is None,
        "answer": None if result is None else result.to_dict() | {"score": _build_result_score(service, result)},
    }


def _build_result_score(service: Service, result: WhatIfResult) -> dict[str, Any] | None:
    return build_score_view(service.served_model.scorer, result.score, service.served_model.outcome_names)


def _build_change_example(space: Space) -> str | None:
    """A constraint on changes, on a feature whose name needs no quotation marks."""
    names = [f.name for f in space.features if f.ordered and f.name.isidentifier()]
    return f"cf.{min(names, key=len)} >= x.{min(names, key=len)}" if names else None


def _build_subspace_example(space: Space, values: Mapping[str, Any]) -> str | None:
    """A constraint on what can occur that a row satisfies, on a numeric feature."""
    names = [f.name for f in space.features if f.naturally_ordered and f.numeric and f.name.isidentifier()]
    known = [name for name in names if values[name] is not None]
    return f"cf.{min(known, key=len)} <= {format_value(values[min(known, key=len)], 'unquoted')}" if known else None


def build_cost_examples(space: Space) -> dict[str, str | None]:
    """How prices and steps are typed, with names of these features; None for what none of them can have.

    >>> from ironrule import Feature
    >>> space = Space((Feature("income", (0, 20_000), ordered=True), Feature("home", ("own", "rent"), ordered=False)))
    >>> [build_cost_examples(space)[key] for key in ("price", "directions", "never", "step")]
    ['home=2', 'income=1:5', 'income=inf', 'income=200']
    """
    names = [feature.name for feature in sorted(space.features, key=lambda one: len(one.name))]
    ordered = [feature.name for feature in space.features if feature.ordered]
    kept = [f.name for f in space.features if f.role is not None and f.role.kind in ("immutable", "protected")]
    steps = {f.name: _choose_step(f) for f in space.features if f.can_be_interval and len(f.values) > 1}
    stepped = max(steps, key=lambda name: (float(steps[name]), -len(name))) if steps else None
    return {
        "price": f"{names[0]}=2",
        "directions": f"{min(ordered, key=len)}=1:5" if ordered else None,
        "never": f"{kept[0] if kept else names[min(1, len(names) - 1)]}=inf",
        "step": None if stepped is None else f"{stepped}={steps[stepped]}",
        "multiple": None if stepped is None else steps[stepped],
    }


def _choose_step(feature: Feature) -> str:
    """A short number of about a hundredth of the range; at least 1 for whole numbers."""
    low, high = feature.values[0], feature.values[-1]
    assert isinstance(low, (int, float))
    assert isinstance(high, (int, float))
    power = math.floor(math.log10(high - low)) - 2
    size = max(0, power) if feature.has_only_integers else power
    digits = int((high - low) / 10.0 ** (power + 2))
    return format_value(float(f"{digits if size == power else 1}e{size}"), "unquoted")


def answer_new_applicant(service: Service, values: Mapping[str, Any]) -> WhatIfResult:
    """What the model decides of a row by its values; raises ConstraintError if it breaks a constraint on the space."""
    return evaluate_what_if(service.served_model, values, values, None)


def answer_what_if(service: Service, row: int, changes: Mapping[str, Any], number: int | None) -> WhatIfResult:
    """A past row with changes, and the rule of an explanation tried on it."""
    before = service.applicants.values(service.applicants.find_position(row))
    if number is None:
        return evaluate_what_if(service.served_model, before, changes, None)
    explanation = Explanation.from_dict(read_record(service, number, "explanation").document)
    where = find_extra_constraints(explanation.constraints, service.served_model.space) or ()
    return evaluate_what_if(service.served_model, before, changes, explanation.shown.rule, where)
