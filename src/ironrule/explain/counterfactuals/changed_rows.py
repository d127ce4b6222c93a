"""Rows with other values than the domains have: built, put to the model, and their numbers rounded.

A suggested change names a number that people would write. It need not be one of the values that a search works on, so
such rows are kept in the user's own terms, and the model is asked about them as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from ironrule.arrays import BoolArray, Points
from ironrule.explain.context import ExplainerContext
from ironrule.explain.counterfactuals.readable_numbers import is_long_enough, round_outwards
from ironrule.model.blackbox import BlackBox
from ironrule.model.protocol import require_desired
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
    return Counterfactual.from_values(before, {**before, **new}, context.space.labels)


def ask_about_rows(context: ExplainerContext, rows: Sequence[Row], meter: Meter | None = None) -> BoolArray:
    """Which rows the model itself gives the desired outcome; their numbers need not be values of the domains."""
    box, points = _build_box(context, rows)
    return box.desired(points) if meter is None else meter.desired(box, points)


def require_rows_desired(context: ExplainerContext, rows: Sequence[Row]) -> None:
    """Raise ModelError if the model denies one of some rows, each asked about alone where it denies one among many."""
    if not rows:
        return
    box, points = _build_box(context, rows)
    require_desired(points, box, box, box)


def _build_box(context: ExplainerContext, rows: Sequence[Row]) -> tuple[BlackBox, Points]:
    """The model itself over domains that have all values of some rows, and the rows as codes of these."""
    model, (_, other, points) = context.model.primary, _encode_rows(context.space.features, rows)
    box = replace(model, layout=replace_features(model.layout, context.table, other)) if other else model
    return box, points


@dataclass(slots=True, eq=False)
class UnconfirmedRows:
    """Rows that the model has yet to be asked about. A pipeline takes as long for one row as for fifty."""

    waiting: list[tuple[ExplainerContext, Row]] = field(default_factory=list)

    def add(self, context: ExplainerContext, rows: Sequence[Row]) -> None:
        """What was found for one row."""
        self.waiting += [(context, row) for row in rows]

    def confirm(self) -> None:
        """Ask the model about all of them; raises ModelError if it denies one."""
        waiting, self.waiting = self.waiting, []
        # Contexts differ where a row has values of its own, and each has its own domains.
        for context in {id(context): context for context, _ in waiting}.values():
            require_rows_desired(context, [row for own, row in waiting if own is context])


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


class RoundedChanges(NamedTuple):
    """Changes with readable numbers, and the places of those that the model was asked about as they are shown."""

    items: tuple[Counterfactual, ...]
    confirmed: frozenset[int]


def round_changes(
    context: ExplainerContext,
    query: BoxQuery,
    items: Sequence[Counterfactual],
    run: Run,
    kept: Collection[str] = (),
) -> RoundedChanges:
    """The same changes with readable numbers, each a little further from the row, where the model and the constraints
    agree; ``exact`` keeps what was found, and the features ``kept`` stay as they are.

    A question to the model costs about the same for one row as for many. So the fewest digits of all numbers are tried
    at once, and only where that fails one feature after the other.
    """
    features = [feature for feature in context.space.features if feature.name not in kept]
    numbers = [_list_rounded_numbers(features, item) for item in items]
    rounded = [dict(item.values) for item in items]
    together = [(place, {**rounded[place], **{name: some[0] for name, some in own.items()}})
                for place, own in enumerate(numbers) if own]  # fmt: skip
    done = _accept_rows(context, query, together, rounded, run)
    for feature in context.space.features:
        tried = [
            (place, {**rounded[place], feature.name: number})
            for place, own in enumerate(numbers)
            if place not in done
            for number in own.get(feature.name, ())
        ]
        _accept_rows(context, query, tried, rounded, run)
    confirmed = frozenset(place for place, item in enumerate(items) if rounded[place] != dict(item.values))
    return RoundedChanges(tuple(_keep_exact(item, row) for item, row in zip(items, rounded, strict=True)), confirmed)


def _list_rounded_numbers(features: Sequence[Feature], item: Counterfactual) -> dict[str, list[float]]:
    """For every number of an interval that changes the readable numbers beyond it, the fewest digits first."""
    by_name, numbers = {feature.name: feature for feature in features}, dict[str, list[float]]()
    for change in item.changes:
        feature, before, after = by_name.get(change.feature), change.before, change.after
        if feature is None or not feature.interval or feature.has_only_integers or before is None or after is None:
            continue
        low, high = feature.values[0], feature.values[-1]
        if is_long_enough(low, high) and (some := list(round_outwards(after, after > before, low, high))):
            numbers[feature.name] = some
    return numbers


def _accept_rows(
    context: ExplainerContext,
    query: BoxQuery,
    tried: Sequence[tuple[int, dict[str, Value]]],
    rounded: list[dict[str, Value]],
    run: Run,
) -> set[int]:
    """Put the first row of every place that the constraints and the model accept among those rounded; which places
    have one.
    """
    if not tried:
        return set()
    allowed = are_permitted(query, [row for _, row in tried])
    asked = [one for one, good in zip(tried, allowed, strict=True) if good]
    if not asked:
        return set()
    answers = ask_about_rows(context, [row for _, row in asked], run.meter)
    accepted = [one for one, desired in zip(asked, answers, strict=True) if desired]
    for place, row in reversed(accepted):  # the fewest digits come first
        rounded[place] = row
    return {place for place, _ in accepted}


def _keep_exact(item: Counterfactual, row: Row) -> Counterfactual:
    before = {change.feature: change.before for change in item.changes}
    moved = {name: value for name, value in item.values.items() if row[name] != value}
    if not moved:
        return item
    return replace(Counterfactual.from_values({**row, **before}, row, item.labels), exact=moved)
