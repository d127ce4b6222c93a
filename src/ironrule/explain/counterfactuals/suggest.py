"""Suggest changes to the person whom a decision is about, within what declared and guessed roles permit.

The search is short, and what it has proven to be nearest is shown; what it has not is shown only if there is nothing
else. Where the model can only be asked, or the exact search does not end soon, all values of one feature and of two are
asked about, and GeCo searches if none of them does.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

import numpy as np

from ironrule.arrays import Points
from ironrule.backends.nearest import NearestCounterfactuals
from ironrule.errors import ConstraintError, ModelError
from ironrule.explain.context import EncodedRow, ExplainerContext
from ironrule.explain.counterfactuals.additive import find_additive_changes
from ironrule.explain.counterfactuals.bounds import extend_to_constants
from ironrule.explain.counterfactuals.changed_rows import require_rows_desired
from ironrule.explain.counterfactuals.costs.row_cost import check_cost_names, list_price_constraints
from ironrule.explain.counterfactuals.find import find_counterfactuals
from ironrule.explain.counterfactuals.nearest import (
    describe_changes,
    find_by_geco,
    find_nearest_changes,
    find_small_changes,
    leave_out,
    make_readable,
)
from ironrule.explain.counterfactuals.options import ChangeOptions
from ironrule.explain.extend import extend_to_row
from ironrule.explain.options import SearchOptions, parse_budget
from ironrule.explain.query import build_case
from ironrule.explain.roles import list_guessed_constraints, list_limits
from ironrule.model.protocol import Unreadable
from ironrule.model.saved_model import UNDECIDED
from ironrule.oracles.protocol import BoxQuery, Run
from ironrule.results.advice import SuggestedChanges
from ironrule.results.explanation import Explanation
from ironrule.rule.cost import DEFAULT_COST, Cost
from ironrule.rule.counterfactual import LazyValue
from ironrule.space.constraints.binding import bind_constraint
from ironrule.space.constraints.syntax import Constraint
from ironrule.verdict.budget import Budget, BudgetExhausted, Meter, name_stop

BOXES_PER_SUGGESTION = 5_000  # looked at per question of the exact search: fractions of a second


LONGER_TRY = 20  # times as many, where not even the first change was proven


MAX_EVALUATIONS, MAX_SECONDS = 200_000, 10.0  # the seconds are for networks, whose boxes take long


def suggest_changes(
    context: ExplainerContext, instance: Points, k: int, seed: int, seconds: float | None, cost: Cost = DEFAULT_COST
) -> SuggestedChanges:
    """Up to k changes of a row with the undesired outcome, nearest first by a cost, within so many seconds."""
    budget = Budget(MAX_EVALUATIONS, min(MAX_SECONDS, MAX_SECONDS if seconds is None else seconds))
    limits = list_limits(context)
    guessed = _select_kept(context, list_guessed_constraints(context))
    forbidden = _select_kept(context, list_price_constraints(cost))
    constraints = (*context.change_constraints, *guessed, *forbidden)
    try:
        if not cost.is_usual:
            return _suggest_by_cost(context, instance, SearchOptions(k=k, budget=budget, seed=seed), guessed, cost)
        case = build_case(context, EncodedRow(instance), constraints, own_model_only=True)
    except ConstraintError as error:  # the user's own constraints permit nothing
        if error.code != "unsatisfiable-constraints":
            raise
        return SuggestedChanges((), proven=context.gaps is None, complete=True, limits=limits, cost=cost)
    query, run = BoxQuery(case, case.components.box(0), k), Run(Meter(budget), np.random.default_rng(seed))
    try:
        found = find_additive_changes(context, query, run)
        if found is None:
            found = describe_changes(context, query, _search_changes(context, query, run), run)
        found = make_readable(context, query, found, run)
        require_rows_desired(context, found.list_unasked_rows())
    except ModelError as error:
        if error.code != UNDECIDED:
            raise
        return SuggestedChanges((), proven=False, complete=False, limits=limits, cost=cost)  # only the model could say
    proven = found.proven or found.proven_count > 0
    shown = found.items[: found.proven_count] if proven else found.items
    return SuggestedChanges(shown, proven, complete=found.proven, limits=limits, resolution=found.resolution, cost=cost)


def _suggest_by_cost(
    context: ExplainerContext, instance: Points, options: SearchOptions, guessed: list[Constraint], cost: Cost
) -> SuggestedChanges:
    """The cheapest changes that respect the guessed roles too, as any counterfactuals by a cost are searched for."""
    found = find_counterfactuals(
        context, EncodedRow(instance), options, ChangeOptions(constraints=tuple(guessed), cost=cost)
    )
    return SuggestedChanges(
        found.items,
        proven=found.proven,
        complete=found.proven,
        limits=list_limits(context),
        resolution=found.resolution,
        cost=cost,
    )


def _select_kept(context: ExplainerContext, constraints: Iterable[Constraint]) -> list[Constraint]:
    """The constraints on features that searches work on: the others stay as they are, which every role permits."""
    kept = {*context.reduced.kept.tolist()}
    return [one for one in constraints if kept.issuperset(bind_constraint(one, context.space.features).columns)]


def _search_changes(context: ExplainerContext, query: BoxQuery, run: Run) -> NearestCounterfactuals:
    """By the exact search, if it ends soon; if not, or if there is none, by asking about one and two features."""
    nearest = NearestCounterfactuals(np.empty((0, len(query.case.space)), dtype=np.int32), False)
    try:
        if context.compiled_model is not None:
            with suppress(Unreadable):  # constraints on what may change that are too intricate
                tabulated = context.compiled_model.tabulated
                nearest = find_nearest_changes(context, tabulated, query, run, BOXES_PER_SUGGESTION)
        if nearest.proven:
            return nearest
        single = find_small_changes(context, query, run, 1)
        pairs = None if single is None else find_small_changes(context, leave_out(query, single), run, 2)
        if single is not None:
            small = single if pairs is None else np.concatenate([single, pairs])
            small = small[: query.k]
            if len(small) > nearest.proven_count:
                return NearestCounterfactuals(small, len(small) == query.k, proven_count=len(small))
        if context.compiled_model is not None and nearest.proven_count == 0 and len(nearest.points):
            # a longer try, to prove at least the first
            first, boxes = replace(query, k=1), LONGER_TRY * BOXES_PER_SUGGESTION
            longer = find_nearest_changes(context, context.compiled_model.tabulated, first, run, boxes)
            nearest = replace(longer, proven=False) if longer.proven_count else nearest
    except (BudgetExhausted, KeyboardInterrupt) as stop:
        return replace(nearest, stopped=name_stop(stop, run.meter))
    return nearest if len(nearest.points) else find_by_geco(query, run)


def add_changes(
    context: ExplainerContext,
    explanation: Explanation,
    k: int,
    budget: Budget | float | None,
    cost: Cost = DEFAULT_COST,
) -> Explanation:
    """The explanation with suggested changes, which are found when they are first read."""
    check_cost_names(context.space, cost)
    context, row = extend_to_row(context, dict(explanation.instance))
    seed, seconds = explanation.statistics.seed, parse_budget(budget).seconds
    constraints = tuple(map(str, context.change_constraints))

    def suggest() -> SuggestedChanges:
        # so that proofs hold between the values where a least step of a role ends between two of them
        wider = extend_to_constants(context, row, _select_kept(context, context.change_constraints))
        instance = wider.space.encode_row(row, ignore=wider.table.names)
        return replace(suggest_changes(wider, instance, k, seed, seconds=seconds, cost=cost), constraints=constraints)

    return replace(explanation, lazy_changes=LazyValue(suggest))
