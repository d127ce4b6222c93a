"""The nearest counterfactuals of models in which every feature adds something by itself, over whole intervals.

Linear and additive models may turn anywhere between two values of a domain, so the values are not enough. Of a feature
that such a sum speaks of, every readable number (:mod:`.readable_numbers`) is an option here, with the ends of its
domain and the bounds that constraints name. The cheapest options are found exactly
(:mod:`ironrule.backends.additive.nearest`).

What that says of all numbers: between two neighbouring options, what the model adds only rises or only falls, and no
constraint changes. So of any counterfactual, each number can be moved to one of the options beside it, by less than
``RESOLUTION`` of the range, and it stays one. Nothing that changes fewer features is left out, and nothing with as many
changes is nearer by more than that for each number that it changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from ironrule.arrays import AnyArray, BoolArray, Float64Array
from ironrule.backends.additive.nearest import Assignment, CheapestChanges, FeatureOptions, Need, SearchLimitReached
from ironrule.explain.context import ExplainerContext
from ironrule.explain.counterfactuals.changed_rows import ask_about_rows, build_changed_row
from ironrule.explain.counterfactuals.costs.row_cost import RowCost
from ironrule.explain.counterfactuals.readable_numbers import (
    MAX_WHOLE_NUMBERS,
    RESOLUTION,
    NumberGrid,
    is_long_enough,
    list_readable_numbers,
)
from ironrule.model.intervals import find_constant_bound, find_point_features, iterate_comparisons, list_neighbours
from ironrule.model.model_input import compute_model_input
from ironrule.model.normal_form.separable import FeatureContribution, SeparableMargin, split_by_feature
from ironrule.model.normal_form.tree_sum import TreeSum
from ironrule.model.pipeline import split_pipeline
from ironrule.model.read_model import TabulatedModel
from ironrule.model.readers.registry import get_input_conversion
from ironrule.oracles.geco.candidates import tabulate_distances
from ironrule.oracles.protocol import BoxQuery, Run
from ironrule.rule.counterfactual import Counterfactual
from ironrule.space.constraints.binding import Predicate, bind_constraint
from ironrule.space.feature import Feature, Value
from ironrule.space.layout import replace_features
from ironrule.verdict.budget import BudgetExhausted, name_stop

POSSIBILITIES = 100_000  # looked at for one counterfactual


@dataclass(frozen=True, slots=True)
class NearestChanges:
    """Counterfactuals in the user's terms, nearest first; what is known of them is as in
    :class:`~ironrule.backends.nearest.NearestCounterfactuals`.

    ``resolution``: by how much of the range of each number that it changes another one could be nearer. ``confirmed``
    are the places of those that the model itself was asked about as they are.
    """

    items: tuple[Counterfactual, ...]
    proven: bool
    stopped: str | None = None
    proven_count: int = 0
    resolution: float = 0.0
    confirmed: frozenset[int] = frozenset()

    def list_unasked_rows(self) -> list[Mapping[str, Value]]:
        """The counterfactuals that the model was not asked about as they are."""
        return [item.values for place, item in enumerate(self.items) if place not in self.confirmed]


@dataclass(frozen=True, slots=True, eq=False)
class ValueOptions:
    """What one feature may become: values, their distance from the row's own, what they add, and which are allowed."""

    values: Sequence[Value]
    costs: Float64Array
    contribution: FeatureContribution
    allowed: BoolArray
    own: float  # what the row's own value adds
    stays: bool  # whether the row's own value is allowed
    limits: NumberLimits | None = None  # of numbers between whose values the sum may turn


def find_additive_changes(context: ExplainerContext, query: BoxQuery, run: Run) -> NearestChanges | None:
    """Up to k nearest counterfactuals of a model that is such a sum; None if it is none, or if constraints tie features
    together or compute with one.
    """
    known = list_options(context, query)
    if known is None:
        return None
    margin, options, resolution = known
    base = math.fsum(one.own for one in options)
    least, sure = margin.find_limits([one.contribution for one in options])
    if base > least or not math.isfinite(least):  # rounding may turn the decision on the row itself, or it is constant
        return None
    choices = [
        FeatureOptions.select(one.costs, one.contribution.values - one.own, one.allowed, not one.stays)
        for one in options
    ]

    def build(assignment: Assignment) -> Counterfactual:
        changed = {j: options[j].values[choices[j].places[place]] for j, place in sorted(assignment.items())}
        return build_changed_row(context, query, changed)

    def ask(assignments: list[Assignment]) -> list[bool]:
        answers = ask_about_rows(context, [build(one).values for one in assignments], run.meter)
        return [bool(good) for good in answers]

    search = CheapestChanges(choices, Need(least - base, sure - base, ask), POSSIBILITIES, run.meter.check)
    proven, stopped = False, None
    try:
        while len(search.found) < query.k and search.find_next() is not None:
            search.best = None
        proven = not search.has_denied
    except SearchLimitReached:
        pass
    except (BudgetExhausted, KeyboardInterrupt) as stop:
        stopped = name_stop(stop, run.meter)
    items = tuple(map(build, [*search.found, *([] if search.best is None else [search.best])]))
    return NearestChanges(items, proven, stopped, 0 if search.has_denied else len(search.found), resolution)


def list_options(
    context: ExplainerContext, query: BoxQuery, row_cost: RowCost | None = None
) -> tuple[SeparableMargin, list[ValueOptions], float] | None:
    """The model as a sum, with what every feature may become, and the resolution; None where that cannot be had.

    ``row_cost`` says what changes cost, in place of the distance from the row.
    """
    compiled = context.compiled_model
    if compiled is None or not isinstance(compiled.tabulated.normal_form, TreeSum):
        return None
    tabulated = compiled.tabulated
    margin = split_by_feature(tabulated.tree_sum, tabulated.columns.features)
    if margin is None or any(len(predicate.columns) != 1 for predicate in query.case.feasible.predicates):
        return None
    grids, options, resolution = _build_grids(context, query, margin), list[ValueOptions](), 0.0
    for j, feature in enumerate(query.case.space.features):
        if j not in grids:
            options.append(_apply_cost(_list_code_options(tabulated, margin, query, j), row_cost, j))
            continue
        limits = find_number_limits(query, j)
        if limits is None:
            return None
        more = [] if row_cost is None else row_cost.list_turns(j)
        listed = _list_number_options(context, query, j, margin=margin, grid=grids[j], limits=limits, more=more)
        options.append(_apply_cost(listed, row_cost, j))
        if not feature.has_only_integers or feature.values[-1] - feature.values[0] > MAX_WHOLE_NUMBERS:
            resolution = RESOLUTION
    return margin, options, resolution


def _apply_cost(options: ValueOptions, row_cost: RowCost | None, j: int) -> ValueOptions:
    """The options of a feature at what they cost; those that may not be chosen are not allowed."""
    if row_cost is None:
        return options
    costs = row_cost.measure_parts(j, options.values)
    return replace(options, costs=costs, allowed=options.allowed & np.isfinite(costs))


def select_columns(tabulated: TabulatedModel, j: int, codes: Any) -> dict[int, AnyArray]:
    """What the model sees of some codes of a feature, by column."""
    columns = tabulated.columns
    return {column: columns.values[column][codes] for column in np.flatnonzero(columns.features == j).tolist()}


def _list_code_options(tabulated: TabulatedModel, margin: SeparableMargin, query: BoxQuery, j: int) -> ValueOptions:
    """A feature whose values are all that can be told apart of it."""
    feature, own = query.case.space.features[j], int(query.case.instance[j])
    contribution = margin.evaluate(j, select_columns(tabulated, j, slice(None)), feature.size)
    allowed = np.zeros(feature.size, dtype=np.bool_)
    allowed[query.box.low[j] : query.box.high[j] + 1] = True
    for predicate in query.case.feasible.predicates:
        if predicate.columns == (j,):
            allowed &= predicate.holds_per_code(j, query.case.instance)
    stays = bool(allowed[own])
    allowed[own] = False
    costs = tabulate_distances(feature, own)
    domain = (*feature.values, None) if feature.missing else feature.values
    at_row = float(contribution.values[own])
    return ValueOptions(domain, costs, contribution, allowed=allowed, own=at_row, stays=stays)


def _build_grids(context: ExplainerContext, query: BoxQuery, margin: SeparableMargin) -> dict[int, NumberGrid]:
    """The readable numbers of every feature that may change and between whose values the sum may turn."""
    if context.gaps is None:
        return {}
    keys: dict[int, Any] = {}
    for j, feature in enumerate(query.case.space.features):
        if context.gaps.turning_gaps[j].any() and query.box.low[j] < query.box.high[j]:
            keys[j] = margin.parts.get(j, ()), feature.values[0], feature.values[-1]
    cache = context.number_grids
    new = {j: list_grid(query.case.space.features[j]) for j, key in keys.items() if key not in cache}
    for j, contribution in _compute_contributions(context, margin, new).items():
        cache[keys[j]] = NumberGrid(np.array(new[j]), contribution)
    return {j: cache[key] for j, key in keys.items()}


def list_grid(feature: Feature) -> list[Any]:
    """The readable numbers of a feature, its ends included."""
    low, high = feature.values[0], feature.values[-1]
    if not is_long_enough(low, high):
        return [low, high]
    return list_readable_numbers(low, high, feature.has_only_integers)


def _compute_contributions(
    context: ExplainerContext, margin: SeparableMargin, numbers: Mapping[int, Sequence[Value]]
) -> dict[int, FeatureContribution]:
    """What some features add for some numbers each, by the user's own preprocessing."""
    if not numbers:
        return {}
    places = {j: int(context.reduced.kept[j]) for j in numbers}
    features = context.space.features
    other = {
        places[j]: replace(features[places[j]], values=tuple(some), missing=False, interval=None, role=None)
        for j, some in numbers.items()
    }
    layout = replace_features(context.model.primary.layout, context.table, other)
    points = np.zeros((max(map(len, numbers.values())), len(features)), dtype=np.int32)
    for j, some in numbers.items():
        points[:, places[j]] = np.minimum(np.arange(len(points)), len(some) - 1)
    transform, final = split_pipeline(context.arguments.models[0])
    seen = compute_model_input(transform, layout.decode(points), get_input_conversion(final), layout.names)
    assert context.compiled_model is not None
    columns = context.compiled_model.tabulated.columns.features
    return {
        j: margin.evaluate(j, {c: seen[: len(some), c] for c in np.flatnonzero(columns == j).tolist()}, len(some))
        for j, some in numbers.items()
    }


@dataclass(frozen=True, slots=True, eq=False)
class NumberLimits:
    """Which numbers of a feature constraints permit: at some numbers, between two neighbours of these, and missing.

    ``added`` are bounds that constraints name, and numbers next to a bound that is itself forbidden.
    """

    numbers: Float64Array
    at: BoolArray
    between: BoolArray
    missing: bool
    stays: bool
    added: list[Any]

    def permit(self, numbers: Float64Array) -> BoolArray:
        """Which of some numbers of the domain are permitted."""
        places = np.searchsorted(self.numbers, numbers)  # of the first that is not less
        same = self.numbers[places] == numbers
        return np.where(same, self.at[places], self.between[np.maximum(places - 1, 0)])


def find_number_limits(query: BoxQuery, j: int) -> NumberLimits | None:
    """What constraints say of the numbers of a feature; None if one of them computes with it.

    Each compares the feature with constants, so between two neighbouring constants it holds everywhere or nowhere: one
    number in between is tried.
    """
    case = query.case
    feature, own = case.space.features[j], case.space.features[j].value(int(case.instance[j]))
    predicates = [predicate for predicate in case.feasible.predicates if predicate.columns == (j,)]
    constants = _list_constants(predicates, case.instance)
    if constants is None:
        return None
    whole, first, last = feature.has_only_integers, feature.values[0], feature.values[-1]
    near = {number: constant + 0 for constant in constants for number in list_neighbours(constant + 0.0, whole)}
    special = sorted({first, last, *([] if own is None else [own]), *(n for n in near if first <= n <= last)})
    tried: list[Any] = [special[0]]
    for low, high in pairwise(special):
        middle = (low + high) // 2 if whole else low / 2 + high / 2
        tried += [middle, high] if low < middle < high else [high]
    probe = replace(feature, values=tuple(tried), interval=None, role=None)
    features = [probe if place == j else other for place, other in enumerate(case.space.features)]
    instance = case.instance.copy()
    instance[j] = probe.code(own)
    holds = np.ones(probe.size, dtype=np.bool_)
    for predicate in predicates:
        holds &= bind_constraint(predicate.constraint, features).holds_per_code(j, instance)
    by_number = dict(zip(tried, holds.tolist(), strict=False))
    between = [any(by_number[m] for m in tried if low < m < high) for low, high in pairwise(special)]
    added = [n for n in near if by_number.get(n) and (n == near[n] or not by_number.get(near[n], False))]
    return NumberLimits(
        numbers=np.array(special, dtype=np.float64),
        at=np.array([by_number[number] for number in special], dtype=np.bool_),
        between=np.array(between, dtype=np.bool_),
        missing=feature.missing and bool(holds[-1]),
        stays=bool(holds[instance[j]]),
        added=added,
    )


def _list_constants(predicates: Sequence[Predicate], instance: Any) -> list[float] | None:
    """The finite constants that constraints compare a feature with; None if one compares it otherwise."""
    constants = []
    for predicate in predicates:
        for comparison in iterate_comparisons(predicate.evaluator):
            if not find_point_features(comparison):
                continue
            bound = find_constant_bound(comparison, instance)
            if bound is None:
                return None
            if math.isfinite(bound.constant):
                constants.append(bound.constant)
    return constants


def _list_number_options(
    context: ExplainerContext,
    query: BoxQuery,
    j: int,
    *,
    margin: SeparableMargin,
    grid: NumberGrid,
    limits: NumberLimits,
    more: Sequence[Value] = (),
) -> ValueOptions:
    """A feature between whose values the sum may turn: readable numbers, bounds, ``more`` numbers, and missing."""
    assert context.compiled_model is not None
    tabulated, feature = context.compiled_model.tabulated, query.case.space.features[j]
    code = int(query.case.instance[j])
    others = {*limits.added, *more, *(feature.values if margin.has_trees(j) else ())} - {*grid.numbers.tolist()}
    values, parts = [*grid.numbers.tolist(), *sorted(others)], [grid.contribution]
    if others:
        parts.append(_compute_contributions(context, margin, {j: sorted(others)})[j])
    numbers = np.array(values, dtype=np.float64)
    own = feature.value(code)
    scale = abs(float(feature.values[-1]) - float(feature.values[0])) or 1.0
    costs = np.ones(len(numbers)) if own is None else np.abs(numbers - float(own)) / scale
    allowed = limits.permit(numbers)
    if own is not None:
        allowed &= numbers != own
    if feature.missing and own is not None:
        values, costs, allowed = [*values, None], np.append(costs, 1.0), np.append(allowed, limits.missing)
        codes = slice(feature.missing_code, feature.missing_code + 1)
        parts.append(margin.evaluate(j, select_columns(tabulated, j, codes), 1))
    at_row = margin.evaluate(j, select_columns(tabulated, j, slice(code, code + 1)), 1)
    contribution = FeatureContribution(
        np.concatenate([part.values for part in parts]),
        max(part.size for part in (*parts, at_row)),
        all(part.is_short for part in (*parts, at_row)),
    )
    return ValueOptions(
        values, costs, contribution, allowed=allowed, own=float(at_row.values[0]), stays=limits.stays, limits=limits
    )
