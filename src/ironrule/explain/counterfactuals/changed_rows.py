"""Rows with other values than the domains have: built, put to the model, and their numbers rounded.

A suggested change names a number that people would write. It need not be one of the values that a search works on, so
such rows are kept in the user's own terms, and the model is asked about them as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ironrule.arrays import BoolArray, Points
from ironrule.explain.context import ExplainerContext
from ironrule.explain.counterfactuals.readable_numbers import is_long_enough, round_outwards
from ironrule.explain.query import require_readings
from ironrule.oracles.protocol import BoxQuery, Run
from ironrule.rule.counterfactual import Counterfactual
from ironrule.space.constraints.binding import bind_constraint
from ironrule.space.feature import Feature, Value
from ironrule.space.layout import replace_features
from ironrule.verdict.budget import Meter

Row = Mapping[str, Value]


def build_changed_row(context: ExplainerContext, query: BoxQuery, changed: Mapping[int, Value]) -> Counterfactual:
    """The row with other values of some features, which are numbered as in the search."""
    before = context.space.decode_row(query.case.user_instance)
    new = {query.case.space.names[j]: value for j, value in changed.items()}
    return Counterfactual.from_values(before, {**before, **new})


def ask_about_rows(context: ExplainerContext, rows: Sequence[Row], meter: Meter | None = None) -> BoolArray:
    """Which rows the model itself gives the desired outcome; their numbers need not be values of the domains."""
    model, (_, other, points) = context.model.primary, _encode_rows(context.space.features, rows)
    box = replace(model, layout=replace_features(model.layout, context.table, other)) if other else model
    return box.desired(points) if meter is None else meter.desired(box, points)


def require_rows_desired(context: ExplainerContext, rows: Sequence[Row]) -> None:
    """Raise ModelError if the model denies one of some rows, each asked about alone where it denies one among many."""
    if not rows:
        return
    denied = np.flatnonzero(~ask_about_rows(context, rows)).tolist()
    require_readings(all(ask_about_rows(context, [rows[place]])[0] for place in denied))


def are_permitted(query: BoxQuery, rows: Sequence[Row]) -> BoolArray:
    """Which rows satisfy all constraints of a search; their numbers need not be values of the domains."""
    case = query.case
    own = {feature.name: feature.value(code) for feature, code in zip(case.space.features, case.instance, strict=True)}
    features, _, points = _encode_rows(case.space.features, [own, *rows])
    allowed = np.ones(len(rows), dtype=np.bool_)
    for predicate in case.feasible.predicates:
        allowed &= bind_constraint(predicate.constraint, features)(points[1:], points[0])
    return allowed


def _encode_rows(features: Sequence[Feature], rows: Sequence[Row]) -> tuple[list[Feature], dict[int, Feature], Points]:
    """Features whose domains have all values of some rows, those of them that differ, and the rows as codes."""
    other: dict[int, Feature] = {}
    for j, feature in enumerate(features):
        values = {row[feature.name] for row in rows} - {None}
        if not values <= feature.code_by_value.keys():
            other[j] = replace(feature, values=tuple(sorted(values)), interval=None, role=None)
    domains = [other.get(j, feature) for j, feature in enumerate(features)]
    return domains, other, np.array([[f.code(row[f.name]) for f in domains] for row in rows], dtype=np.int32)


def round_changes(
    context: ExplainerContext,
    query: BoxQuery,
    items: Sequence[Counterfactual],
    run: Run,
    kept: Collection[str] = (),
) -> tuple[Counterfactual, ...]:
    """The same changes with readable numbers, each a little further from the row, where the model and the constraints
    agree; ``exact`` keeps what was found, and the features ``kept`` stay as they are.
    """
    rounded = [dict(item.values) for item in items]
    for feature in context.space.features:
        if (
            feature.name in kept
            or not feature.interval
            or feature.has_only_integers
            or not is_long_enough(feature.values[0], feature.values[-1])
        ):
            continue
        tried: list[tuple[int, dict[str, Value]]] = []
        for place, item in enumerate(items):
            change = next((change for change in item.changes if change.feature == feature.name), None)
            if change is None or change.after is None or change.before is None:
                continue
            low, high = feature.values[0], feature.values[-1]
            for number in round_outwards(change.after, change.after > change.before, low, high):
                tried.append((place, {**rounded[place], feature.name: number}))
        if not tried:
            continue
        rows = [row for _, row in tried]
        allowed = are_permitted(query, rows)
        asked = [one for one, good in zip(tried, allowed, strict=True) if good]
        if not asked:
            continue
        answers = ask_about_rows(context, [row for _, row in asked], run.meter)
        good = [one for one, desired in zip(asked, answers, strict=True) if desired]
        for place, row in reversed(good):  # the fewest digits come first
            rounded[place] = row
    return tuple(_keep_exact(item, row) for item, row in zip(items, rounded, strict=True))


def _keep_exact(item: Counterfactual, row: Row) -> Counterfactual:
    before = {change.feature: change.before for change in item.changes}
    moved = {name: value for name, value in item.values.items() if row[name] != value}
    if not moved:
        return item
    return replace(Counterfactual.from_values({**row, **before}, row), exact=moved)
