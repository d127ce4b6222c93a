"""Suggest changes to the person whom a decision is about: the nearest that respect the roles of all features.

The search is that of ``counterfactuals``, under the constraints that follow from roles, declared and guessed. It is
short, and what it has proven to be nearest is shown; what it has not is shown only if there is nothing else. Where the
model can only be asked, all values of one feature at a time are asked about, and GeCo searches if none of them does.
"""

from __future__ import annotations

import numpy as np

from ironrule.arrays import Points
from ironrule.backends.nearest import NearestCounterfactuals
from ironrule.errors import ConstraintError
from ironrule.explain.context import EncodedRow, ExplainerContext
from ironrule.explain.counterfactuals import (
    find_by_geco,
    find_nearest_changes,
    find_single_changes,
    holds_between_values,
)
from ironrule.explain.query import build_case, require_desired
from ironrule.explain.roles import list_guessed_constraints, list_limits
from ironrule.model.protocol import Unreadable
from ironrule.oracles.protocol import BoxQuery, Run
from ironrule.results.advice import SuggestedChanges
from ironrule.rule.counterfactual import Counterfactual
from ironrule.verdict.budget import Budget, Meter

BOXES_PER_SUGGESTION = 20_000  # looked at per question of the exact search: fractions of a second
MAX_EVALUATIONS, MAX_SECONDS = 200_000, 10.0  # the seconds are for networks, whose boxes take long


def suggest_changes(
    context: ExplainerContext, instance: Points, k: int, seed: int, seconds: float | None
) -> SuggestedChanges:
    """Up to k changes of a row with the undesired outcome, nearest first, within so many seconds."""
    budget = Budget(MAX_EVALUATIONS, min(MAX_SECONDS, MAX_SECONDS if seconds is None else seconds))
    limits = list_limits(context)
    constraints = (*context.change_constraints, *list_guessed_constraints(context))
    try:
        case = build_case(context, EncodedRow(instance), constraints, own_model_only=True)
    except ConstraintError as error:  # the user's own constraints permit nothing
        if error.code != "unsatisfiable-constraints":
            raise
        return SuggestedChanges((), proven=context.gaps is None, complete=True, limits=limits)
    query, run = BoxQuery(case, case.components.box(0), k), Run(Meter(budget), np.random.default_rng(seed))
    nearest = _search(context, query, run)
    require_desired(nearest.points, case.model, case.model)
    holds = holds_between_values(context.gaps, query, nearest)
    proven = holds and (nearest.proven or nearest.proven_count > 0)
    shown = nearest.points[: nearest.proven_count] if proven else nearest.points
    items = tuple(Counterfactual.from_point(case.space, instance, point) for point in shown)
    return SuggestedChanges(items, proven, complete=holds and nearest.proven, limits=limits)


def _search(context: ExplainerContext, query: BoxQuery, run: Run) -> NearestCounterfactuals:
    if context.compiled_model is not None:
        try:
            return find_nearest_changes(context, context.compiled_model.tabulated, query, run, BOXES_PER_SUGGESTION)
        except Unreadable:  # constraints on what may change that are too intricate
            pass
    single = find_single_changes(context, query, run)[: query.k]
    if len(single):
        return NearestCounterfactuals(single, len(single) == query.k, proven_count=len(single))
    return find_by_geco(query, run)
