"""The overview: how many get which outcome, in which groups, and by which rules, as far as a batch knows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ironrule.arrays import BoolArray, Int64Array
from ironrule.explain.row_score import RowScorer
from ironrule.results.batch import CoveringRule
from ironrule.rule.phrasing import format_label, name_value
from ironrule.server.batches import BatchResults
from ironrule.server.service import Service
from ironrule.server.views.scores import assign_score_bins, format_score
from ironrule.server.views.texts import list_conditions, list_features
from ironrule.space.feature import Feature
from ironrule.space.labels import NO_LABELS, Labels

MAX_GROUPS = 8
NUMBER_GROUPS = 5
MAX_RULES = 12


def build_overview_view(service: Service, by: str | None) -> dict[str, Any]:
    """What is known of all past applicants; raises SpaceError for a feature that there is not."""
    outcomes, space = service.applicants.outcomes, service.served_model.space
    feature = space[by] if by else _choose_feature(space.features)
    column = service.applicants.codes.columns[space.index(feature.name)]
    denied = int((~outcomes).sum())
    return {
        "title": service.served_model.title,
        "outcome_names": service.served_model.outcome_names,
        "total": len(outcomes),
        "undesired": denied,
        "desired": len(outcomes) - denied,
        "undesired_share": _share(denied, len(outcomes)),
        "by": feature.name,
        "by_label": format_label(feature),
        "group_choices": [
            {"feature": one.name, "label": format_label(one), "is_protected": _is_protected(one)}
            for one in space.features
        ],
        "groups": build_groups(feature, column, outcomes, space.labels),
        "scores": _build_score_bars(service.served_model.scorer, outcomes),
        "batch": _build_batch_part(service),
    }


def _is_protected(feature: Feature) -> bool:
    return feature.role is not None and feature.role.kind == "protected"


def _choose_feature(features: Sequence[Feature]) -> Feature:
    """The first feature that is declared to be protected, else the first category, else the first of all."""
    protected = [feature for feature in features if _is_protected(feature)]
    categories = [feature for feature in features if not feature.numeric and 1 < feature.size <= MAX_GROUPS]
    return next(iter([*protected, *categories, *features]))


def build_groups(
    feature: Feature, column: Any, outcomes: BoolArray, labels: Labels = NO_LABELS
) -> list[dict[str, Any]]:
    """How many of each group have the undesired outcome. Groups are values, or ranges of about as many rows each."""
    groups = []
    for text, codes in _list_groups(feature, np.bincount(column, minlength=feature.size), labels):
        inside = np.isin(column, codes)
        rows, denied = int(inside.sum()), int((inside & ~outcomes).sum())
        if rows:
            groups.append({"group": text, "rows": rows, "undesired": denied, "share": _share(denied, rows)})
    return groups


def _list_groups(feature: Feature, counts: Int64Array, labels: Labels) -> list[tuple[str, list[int]]]:
    """The groups as texts with their codes."""
    texts = [name_value(feature.name, feature.value(code), labels, "unquoted") for code in range(feature.size)]
    if feature.ordered and len(feature.values) > MAX_GROUPS:
        ends = _find_range_ends(counts[: len(feature.values)])
        starts = [0, *(end + 1 for end in ends[:-1])]
        ranges = [
            (texts[low] if low == high else f"{texts[low]} to {texts[high]}", list(range(low, high + 1)))
            for low, high in zip(starts, ends, strict=True)
        ]
        return [*ranges, (texts[-1], [feature.missing_code])] if feature.missing else ranges
    order = range(feature.size) if feature.ordered else sorted(range(feature.size), key=lambda code: -int(counts[code]))
    listed = list(order)
    if len(listed) <= MAX_GROUPS:
        return [(texts[code], [code]) for code in listed]
    rest = listed[MAX_GROUPS - 1 :]
    return [*((texts[code], [code]) for code in listed[: MAX_GROUPS - 1]), (f"{len(rest)} other values", rest)]


def _find_range_ends(counts: Int64Array) -> list[int]:
    """The last codes of ranges that have about as many rows each; the last range ends with the last code."""
    reached = np.cumsum(counts)
    wanted = [reached[-1] * part / NUMBER_GROUPS for part in range(1, NUMBER_GROUPS)]
    inner = {int(np.searchsorted(reached, one)) for one in wanted}
    return sorted({*(end for end in inner if end < len(counts) - 1), len(counts) - 1})


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0


def _build_score_bars(scorer: RowScorer | None, outcomes: BoolArray) -> dict[str, Any] | None:
    """How many rows have which score, and how many of these the undesired outcome; None without scores."""
    if scorer is None or scorer.past.min() == scorer.past.max():
        return None
    low, high = float(scorer.past.min()), float(scorer.past.max())
    threshold = scorer.threshold
    cut = threshold if threshold is not None and low <= threshold <= high else None
    bins = assign_score_bins(scorer.past, outcomes, cut, scorer.direction)
    rows = np.bincount(bins.places, minlength=bins.count)
    denied = np.bincount(bins.places, weights=~outcomes, minlength=bins.count).astype(np.int64)
    return {
        "low": format_score(low),
        "high": format_score(high),
        "low_place": bins.find_place(low),
        "high_place": bins.find_place(high),
        "top": int(rows.max()),
        "threshold": None if threshold is None else format_score(threshold),
        "threshold_place": None if cut is None else bins.find_place(cut),
        "bars": [
            {
                "rows": count,
                "undesired": part,
                "height": round(count / int(rows.max()), 3),
                "undesired_height": round(part / int(rows.max()), 3),
            }
            for count, part in zip(rows.tolist(), denied.tolist(), strict=True)
        ],
    }


def _build_batch_part(service: Service) -> dict[str, Any] | None:
    """The newest batch of the whole space that has explained somebody: the features and rules of its answers."""
    for name, results in service.batches.list_newest():
        if not results.constraints and results.copy_rules():
            return _describe_batch(service, name, results)
    return None


def _describe_batch(service: Service, name: str, results: BatchResults) -> dict[str, Any]:
    job = service.jobs.find_or_none(name)
    has_ended = job is None or job.has_ended
    rules = results.copy_rules()
    cover = results.find_cover() if has_ended else None  # a batch that runs would need it again for every row
    return {
        "batch": name,
        "title": results.title,
        "has_ended": has_ended,
        "rows_done": len(results.lines),
        "rows_total": len(results.rows),
        "verdicts": dict(results.verdicts),
        "features": list_features(service.served_model.space, results.count_features(), len(rules)),
        "rules": []
        if cover is None
        else [_describe_covering(service, one, results) for one in cover.rules[:MAX_RULES]],
        "rules_needed": 0 if cover is None else len(cover),
        "is_minimum": cover is not None and cover.minimum,
        "covered": 0 if cover is None else cover.covered,
        "uncovered": 0 if cover is None else cover.uncovered,
    }


def _describe_covering(service: Service, one: CoveringRule, results: BatchResults) -> dict[str, Any]:
    conditions = list_conditions(results.wide_rules[one.row], service.served_model.space)
    return {"row": one.row, "covered_rows": one.covered_rows, "conditions": conditions}
