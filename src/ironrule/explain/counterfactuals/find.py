"""Find the nearest counterfactuals of a row, within what may change.

What may change is given in the words that users of DiCE know: features to vary and permitted ranges. The exact search
is used where the model can be read, GeCo otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ironrule.errors import InputError
from ironrule.explain.context import EncodedRow, ExplainerContext, decide_row
from ironrule.explain.counterfactuals.additive import NearestChanges, find_additive_changes
from ironrule.explain.counterfactuals.changed_rows import UnconfirmedRows
from ironrule.explain.counterfactuals.costs.by_cost import find_cheapest_changes, order_by_cost
from ironrule.explain.counterfactuals.costs.row_cost import (
    RowCost,
    build_row_cost,
    check_cost_names,
    list_price_constraints,
    list_stepped_numbers,
)
from ironrule.explain.counterfactuals.joint import find_joint_changes, widen_to_intervals
from ironrule.explain.counterfactuals.measures import measure_counterfactuals
from ironrule.explain.counterfactuals.nearest import (
    describe_changes,
    find_by_geco,
    find_by_oracle,
    find_nearest_changes,
    make_readable,
)
from ironrule.explain.counterfactuals.options import ChangeOptions
from ironrule.explain.counterfactuals.permitted import build_change_box, list_changing_constraints, require_changeable
from ironrule.explain.counterfactuals.targets import build_reached_context, build_search_scope
from ironrule.explain.extend import extend_to_numbers, extend_to_row
from ironrule.explain.options import SearchOptions
from ironrule.explain.query import build_case, build_statistics, extend_to_named
from ironrule.model.protocol import Unreadable
from ironrule.model.read_model import TabulatedModel
from ironrule.model.reduced_model import embed_model
from ironrule.oracles.combine import verify_oracle
from ironrule.oracles.protocol import BoxQuery, Run, UserOracle
from ironrule.results.counterfactuals import Counterfactuals
from ironrule.results.scope import DomainSummary
from ironrule.rule.cost import Cost
from ironrule.rule.counterfactual import LazyValue
from ironrule.space.constraints.syntax import Constraint
from ironrule.space.feature import Value


def find_counterfactuals(
    context: ExplainerContext,
    row: Any,
    options: SearchOptions,
    changes: ChangeOptions,
    progress: bool | None = False,
    *,
    between_values: bool = True,
    unconfirmed: UnconfirmedRows | None = None,
) -> Counterfactuals:
    """The exact search's counterfactuals, or GeCo's where it cannot read the constraints, unless it is insisted on.

    ``between_values``: for a target whose space keeps the values seen, numbers between them are tried all the same.
    ``unconfirmed``: where what is found waits until the model is asked about the answers for many rows together.
    """
    if isinstance(row, EncodedRow) and (changes.target is not None or changes.cost.steps or changes.is_robust):
        row = context.space.decode_row(row.codes)  # the domains may become others
    context, row = extend_to_row(build_reached_context(context, changes, progress), row)
    require_changeable(context, changes.names or ())
    check_cost_names(context.space, changes.cost)
    forbidden = list_price_constraints(changes.cost)
    changing = (*context.change_constraints, *list_changing_constraints(context, changes), *forbidden)
    context = _extend_to_steps(context, row, changes.cost)
    context = extend_to_named(context, options, changing, changes.names or ())
    query, row_cost = _build_query(context, row, changes, changing, options.k)
    tabulated_model = _choose_tabulated_model(changes.algorithm, context)
    meter = options.start_meter()
    run, name = Run(meter, np.random.default_rng(options.seed)), "Nearest"
    with meter.watch(progress):
        found = None
        wide = widen_to_intervals(context) if between_values and tabulated_model is not None else None
        if wide is not None:
            wide_query, wide_cost = _build_query(wide, row, changes, changing, options.k)
            exact_cost = wide_cost or build_row_cost(wide, wide_query.case, changes.cost)
            found = find_joint_changes(wide, wide_query, exact_cost, run)
            if found is not None and (found.proven or found.stopped or (found.items and context.narrowed)):
                context, query, row_cost = wide, wide_query, wide_cost
            else:
                found = None
        if found is None and tabulated_model is not None:
            try:
                found = _find_exactly(context, tabulated_model, query, row_cost, run)
            except Unreadable as reason:  # constraints on what may change that are too intricate
                if changes.algorithm == "exact":
                    statement = f"exact counterfactuals are not available here: {reason}"
                    hint = "use algorithm='geco'"
                    raise InputError(statement, hint=hint, code="exact-counterfactuals-unavailable") from None
        if found is None and changes.oracle is not None:
            quick = _ask_final_estimator(context, query)
            nearest, name = find_by_oracle(verify_oracle(changes.oracle), quick, run), type(changes.oracle).__name__
            found = NearestChanges(
                tuple(map(query.case.build_counterfactual, nearest.points)), False, nearest.stopped, 0
            )
        elif found is None:
            nearest, name = find_by_geco(_ask_final_estimator(context, query), run), "GeCo"
            found = describe_changes(context, query, nearest, run)
        if row_cost is not None:
            found = replace(found, items=order_by_cost(found.items, row_cost))
        found = make_readable(context, query, found, run, row_cost)
    if context.narrowed:  # nothing was asked about other numbers than those seen
        found = replace(found, proven=False, resolution=0.0)
    if context.compiled_model is not None:
        waiting = UnconfirmedRows() if unconfirmed is None else unconfirmed
        waiting.add(context, found.list_unasked_rows())
        if unconfirmed is None:
            waiting.confirm()
    statistics = build_statistics(meter, name, options.seed, found.stopped)
    instance = context.space.decode_row(query.case.user_instance)
    changed = {change.feature for item in found.items for change in item.changes}
    domains = {name: DomainSummary.from_feature(context.space[name]) for name in context.space.names if name in changed}
    return Counterfactuals(
        instance,
        found.items,
        statistics,
        found.proven,
        found.resolution,
        cost=changes.cost,
        target=changes.target,
        margin=changes.margin,
        further_models=len(changes.models),
        confirmed=context.is_confirmed,
        domains=domains,
        scope=build_search_scope(context, changes.names, changing, options.k),
        lazy_measures=LazyValue(lambda: measure_counterfactuals(context, instance, found.items, row_cost)),
    )


def _build_query(
    context: ExplainerContext, row: Any, changes: ChangeOptions, changing: Sequence[Constraint], k: int
) -> tuple[BoxQuery, RowCost | None]:
    """The question, and what changes cost; None for the usual cost."""
    case = build_case(context, row, changing, own_model_only=True)
    row_cost = None if changes.cost.is_usual else build_row_cost(context, case, changes.cost)
    table = None if row_cost is None else row_cost.table
    return BoxQuery(case, build_change_box(case.components, changes.names), k, cost=table), row_cost


def _find_exactly(
    context: ExplainerContext, tabulated_model: TabulatedModel, query: BoxQuery, row_cost: RowCost | None, run: Run
) -> NearestChanges:
    """What the exact search finds; raises Unreadable if constraints on what may change are too intricate."""
    if row_cost is not None:
        return find_cheapest_changes(context, tabulated_model, query, row_cost, run)
    found = find_additive_changes(context, query, run)
    if found is not None:
        return found
    return describe_changes(context, query, find_nearest_changes(context, tabulated_model, query, run), run)


def _ask_final_estimator(context: ExplainerContext, query: BoxQuery) -> BoxQuery:
    """The same query for searches that ask about many points: of a pipeline that was read, the final estimator decides
    and gives scores, on what it sees of every value. The model itself confirms the answer.
    """
    if context.is_robust:
        return query
    case = replace(query.case, model=embed_model(context.point_model, context.reduced, query.case.user_instance))
    estimator = None if context.compiled_model is None else context.compiled_model.final_estimator
    if estimator is not None and estimator.score is not None:
        case = replace(case, scoring_model=estimator)
    return replace(query, case=case)


def _extend_to_steps(context: ExplainerContext, row: Any, cost: Cost) -> ExplainerContext:
    """The context whose intervals have the numbers that steps lead to."""
    if not cost.steps:
        return context  # without asking the model about the row once more
    instance, numbers = decide_row(context, row)[0], dict[str, list[Value]]()
    for name, step in cost.steps.items():
        feature = context.space[name]
        own = feature.value(int(instance[context.space.index(name)]))
        if feature.interval and own is not None:
            numbers[name] = list_stepped_numbers(feature, own, step)
    return extend_to_numbers(context, numbers)


def _choose_tabulated_model(algorithm: str | UserOracle, context: ExplainerContext) -> TabulatedModel | None:
    """What the exact search reads, or None where GeCo, or an oracle that was passed, is to search."""
    if algorithm == "exact" and context.unreadable_reason is not None:
        statement = f"exact counterfactuals need a model that can be read: {context.unreadable_reason}"
        raise InputError(statement, hint="use algorithm='geco'", code="exact-counterfactuals-unavailable")
    if algorithm not in ("auto", "exact") or context.compiled_model is None:
        return None
    return context.compiled_model.tabulated
