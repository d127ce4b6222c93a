"""Counterfactuals that differ in their values, and counterfactuals that are past rows.

*Diverse*: the usual k counterfactuals differ in the features that they change. Here each is the nearest that differs
from every earlier one in value: some feature that the earlier one changes it leaves as it is, or it is a share of the
range away from it there, or another category. That is a constraint like any other, so the usual search finds each, and
proves it where it can.

*Past rows*: the nearest rows of the history with the desired outcome. They are plausible by construction, because they
were seen, and they change more features than a counterfactual has to. (Of a graph of past rows, as FACE walks
it, this is the end of the path alone: Poyiadzi, Sokol, Santos-Rodriguez, De Bie and Flach, "FACE: feasible and
actionable counterfactual explanations", AIES 2020.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

import numpy as np

from ironrule.arrays import Float64Array, Points
from ironrule.errors import ConstraintError, InputError, describe_value
from ironrule.explain.context import ExplainerContext
from ironrule.explain.counterfactuals.bounds import extend_to_bounds
from ironrule.explain.counterfactuals.costs.row_cost import build_row_cost
from ironrule.explain.counterfactuals.find import find_counterfactuals
from ironrule.explain.counterfactuals.options import ChangeOptions
from ironrule.explain.counterfactuals.permitted import build_change_box
from ironrule.explain.counterfactuals.question import extend_to_steps, list_limits, reach
from ironrule.explain.options import SearchOptions, parse_budget
from ironrule.explain.query import build_case, build_statistics, extend_to_named
from ironrule.model.decision import is_finite_number
from ironrule.oracles.geco.candidates import InstanceDistance, NormWeights
from ironrule.oracles.protocol import Case
from ironrule.results.counterfactuals import Counterfactuals
from ironrule.rule.cost import Cost
from ironrule.rule.counterfactual import Change, Counterfactual
from ironrule.space.constraints.parser import parse_constraint
from ironrule.space.constraints.syntax import Constraint, Reference, Subject, format_literal
from ironrule.space.feature import Value
from ironrule.verdict.budget import Budget


def parse_spread(spread: Any) -> float:
    """How far values must be apart, as a share of the range."""
    if not is_finite_number(spread) or not 0 < spread <= 1:
        expected = "spread must be a share of the range, more than 0 and at most 1"
        raise InputError(expected=expected, got=describe_value(spread))
    return float(spread)


def find_diverse_counterfactuals(
    context: ExplainerContext,
    row: Any,
    options: SearchOptions,
    changes: ChangeOptions,
    spread: float,
    progress: bool | None = False,
) -> Counterfactuals:
    """Up to k counterfactuals, each the nearest that is far enough from the earlier ones, within one budget."""
    context, row = reach(context, row, changes, progress)
    asked, changes = changes, changes.without_goal()
    meter, searches, items = options.start_meter(), list[Counterfactuals](), list[Counterfactual]()
    apart, is_last_proven = list[Constraint](), True
    budget = parse_budget(options.budget)
    while len(items) < options.k:
        seconds = None if budget.seconds is None else budget.seconds - meter.elapsed
        if searches and seconds is not None and seconds <= 0:
            is_last_proven = False
            break
        left = replace(options, k=1, budget=Budget(budget.evaluations, seconds) if searches else budget)
        narrowed = replace(changes, constraints=(*changes.constraints, *apart))
        try:
            found = find_counterfactuals(context, row, left, narrowed, progress)
        except ConstraintError as error:  # nothing is far enough from all of them, at least among the values of domains
            if not searches or error.code != "unsatisfiable-constraints":
                raise
            is_last_proven = context.gaps is None and not context.narrowed
            break
        searches.append(found)
        if not found.items:
            break
        items.append(found.items[0])
        for change in items[-1].changes:
            context = extend_to_bounds(
                context, row, [(change.feature, end) for end in find_ends(context, change, spread)]
            )
        apart.append(_build_distance_constraint(context, items[-1].changes, spread))
    first, is_proven = searches[0], is_last_proven and all(found.proven for found in searches)
    return replace(
        first,
        items=tuple(items),
        statistics=replace(first.statistics, seconds=meter.elapsed, stopped=searches[-1].statistics.stopped),
        proven=is_proven,
        partly_proven=0 if is_proven else sum(1 for _ in takewhile(_is_proven_answer, searches)),
        resolution=max(found.resolution for found in searches),
        target=asked.target,
        margin=asked.margin,
        further_models=len(asked.models),
        spread=spread,
        scope=None if first.scope is None else replace(first.scope, k=options.k),
        domains={name: domain for found in searches for name, domain in found.domains.items()},
    )


def _is_proven_answer(found: Counterfactuals) -> bool:
    """Whether there is an answer, and it is proven to be the nearest."""
    return found.proven and len(found) > 0


def find_ends(context: ExplainerContext, change: Change, spread: float) -> tuple[Value, ...]:
    """The nearest numbers below and above the new value that are far enough from it; none where it is no number."""
    feature, value = context.space[change.feature], change.after
    if value is None or not feature.ordered or not feature.numeric:
        return ()
    step = spread * (feature.values[-1] - feature.values[0])
    if feature.has_only_integers:
        return math.floor(value - step), math.ceil(value + step)
    return value - step, value + step


def _build_distance_constraint(context: ExplainerContext, changes: Sequence[Change], spread: float) -> Constraint:
    """What is far enough from a counterfactual in some feature that it changes, or leaves that as it is."""
    parts = []
    for change in changes:
        name, ends = Reference(Subject.POINT, change.feature), find_ends(context, change, spread)
        if change.after is None:
            parts.append(f"{name} != missing")
            continue
        if ends:
            parts.append(f"{name} <= {format_literal(ends[0])} or {name} >= {format_literal(ends[1])}")
        else:
            parts.append(f"{name} != {format_literal(change.after)}")
        parts.append(f"{name} == {'missing' if change.before is None else format_literal(change.before)}")
        if context.space[change.feature].missing:
            parts.append(f"{name} == missing")
    return parse_constraint(" or ".join(parts))


def find_past_counterfactuals(
    context: ExplainerContext, row: Any, options: SearchOptions, changes: ChangeOptions
) -> Counterfactuals:
    """The nearest past rows that have what is to be reached and may be changed to, nearest first, all different."""
    context, row = reach(context, row, changes)
    changing = list_limits(context, changes)
    # A past row has a value of every feature.
    context = extend_to_named(extend_to_steps(context, row, changes.cost), options, changing, context.space.names)
    meter = options.start_meter()
    case = build_case(context, row, changing, own_model_only=True)
    box = build_change_box(case.components, changes.names)
    points = case.reduced.reduce_table(context.history.codes) if case.reduced is not None else context.history.codes
    places = np.flatnonzero(context.outcomes)
    past = points.points(places)
    past = past[box.contains(past)]
    past = np.unique(past[case.feasible.admits(past)], axis=0)
    costs = _measure_past_rows(context, case, past, changes.cost)
    order = np.argsort(costs, kind="stable")[: options.k]
    items = tuple(map(case.build_counterfactual, past[order[np.isfinite(costs[order])]]))
    return Counterfactuals(
        context.space.decode_row(case.user_instance),
        items,
        build_statistics(meter, "PastRows", options.seed, None),
        cost=changes.cost,
        target=changes.target,
        margin=changes.margin,
        further_models=len(changes.models),
        confirmed=context.is_confirmed,
    )


def _measure_past_rows(context: ExplainerContext, case: Case, past: Points, cost: Cost) -> Float64Array:
    """What it costs to become a past row: by the usual cost the sum of distances, since all features may differ."""
    if cost.is_usual:
        distance = InstanceDistance.build(case.space, case.instance, NormWeights())
        return np.asarray(distance.table[distance.starts + past].sum(axis=1), dtype=np.float64)
    table = build_row_cost(context, case, cost).table
    return np.array([table.measure_point(point) for point in past], dtype=np.float64)
