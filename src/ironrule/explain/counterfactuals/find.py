"""Find the nearest counterfactuals of a row, within what may change.

What may change is given in the words that users of DiCE know: features to vary and permitted ranges. The exact search
is used where the model can be read, GeCo otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ironrule.backends.compiled_model import ReadDecisions
from ironrule.backends.conjunction.backend import is_conjunction
from ironrule.backends.forest.backend import is_tree_sum
from ironrule.errors import InputError
from ironrule.explain.context import ExplainerContext
from ironrule.explain.counterfactuals.additive import NearestChanges, find_additive_changes
from ironrule.explain.counterfactuals.changed_rows import UnconfirmedRows
from ironrule.explain.counterfactuals.costs.by_cost import (
    CheapestFound,
    find_cheapest_changes,
    find_cheapest_in_boxes,
    order_by_cost,
)
from ironrule.explain.counterfactuals.costs.row_cost import RowCost
from ironrule.explain.counterfactuals.joint import find_joint_changes
from ironrule.explain.counterfactuals.measures import measure_counterfactuals
from ironrule.explain.counterfactuals.nearest import (
    describe_changes,
    find_by_geco,
    find_by_oracle,
    find_nearest_changes,
    make_readable,
)
from ironrule.explain.counterfactuals.options import ChangeOptions
from ironrule.explain.counterfactuals.question import ChangeQuestion, build_apart_question, build_question
from ironrule.explain.counterfactuals.targets import build_search_scope
from ironrule.explain.options import SearchOptions
from ironrule.explain.query import build_statistics
from ironrule.model.normal_form.network import Network
from ironrule.model.protocol import Model, NormalForm, Unreadable
from ironrule.model.reduced_model import embed_model
from ironrule.oracles.combine import verify_oracle
from ironrule.oracles.protocol import BoxQuery, Run, UserOracle
from ironrule.results.counterfactuals import Counterfactuals
from ironrule.results.explanation import Statistics
from ironrule.results.scope import DomainSummary
from ironrule.rule.counterfactual import Counterfactual, LazyValue

REFINEMENTS = 6  # searches box by box where too much is open, each after further numbers joined the domains
REFINED_EFFORT = 0.15  # of one of them, as a share of what is usual
FEW_POINTS = 8  # that are decided by what was read of several models together
MULTIPLICATIONS = 500_000  # by a network's reading at once; a library takes as long to be called as for so many


@dataclass(frozen=True, slots=True, eq=False)
class FoundChanges:
    """What a search has found, the question as it was asked in the end, and the name of the search."""

    question: ChangeQuestion
    found: NearestChanges
    name: str = "Nearest"


def find_counterfactuals(
    context: ExplainerContext,
    row: Any,
    options: SearchOptions,
    changes: ChangeOptions,
    progress: bool | None = False,
    *,
    unconfirmed: UnconfirmedRows | None = None,
) -> Counterfactuals:
    """The exact search's counterfactuals, or GeCo's where it cannot read the constraints, unless it is insisted on.

    ``unconfirmed``: where what is found waits until the model is asked about the answers for many rows together.
    """
    question = build_question(context, row, options, changes, progress)
    is_exact = _can_search_exactly(changes.algorithm, question.context)
    meter = options.start_meter()
    run = Run(meter, np.random.default_rng(options.seed))
    with meter.watch(progress):
        found = _search_exactly(question, options, run) if is_exact else None
        found = found or _search_by_asking(question, run)
        context, row_cost, nearest = found.question.context, found.question.row_cost, found.found
        if row_cost is not None:
            nearest = replace(nearest, items=_order_items(nearest, row_cost))
        nearest = make_readable(context, found.question.query, nearest, run, row_cost)
    if context.narrowed:  # nothing was asked about other numbers than those seen
        nearest = replace(nearest, proven=False, proven_count=0, resolution=0.0)
    if context.compiled_model is not None:
        waiting = UnconfirmedRows() if unconfirmed is None else unconfirmed
        waiting.add(context, nearest.list_unasked_rows())
        if unconfirmed is None:
            waiting.confirm()
    statistics = build_statistics(meter, found.name, options.seed, nearest.stopped)
    return _describe(replace(found, found=nearest), changes, statistics)


def _order_items(nearest: NearestChanges, row_cost: RowCost) -> tuple[Counterfactual, ...]:
    """What was found, cheapest first; those that are proven stay before the others."""
    count = len(nearest.items) if nearest.proven else nearest.proven_count
    proven = order_by_cost(nearest.items[:count], row_cost, keeps_apart=True)
    return (*proven, *order_by_cost(nearest.items[count:], row_cost))


def _describe(found: FoundChanges, changes: ChangeOptions, statistics: Statistics) -> Counterfactuals:
    """What was found, for users."""
    question, nearest = found.question, found.found
    context = question.context
    instance = context.space.decode_row(question.query.case.user_instance)
    changed = {change.feature for item in nearest.items for change in item.changes}
    return Counterfactuals(
        instance,
        nearest.items,
        statistics,
        nearest.proven,
        nearest.resolution,
        partly_proven=0 if nearest.proven else nearest.proven_count,
        cost=changes.cost,
        target=changes.target,
        margin=changes.margin,
        further_models=len(changes.models),
        confirmed=context.is_confirmed,
        domains={
            name: DomainSummary.from_feature(context.space[name]) for name in context.space.names if name in changed
        },
        scope=build_search_scope(context, changes.names, question.limits, question.query.k),
        lazy_measures=LazyValue(lambda: measure_counterfactuals(context, instance, nearest.items, question.row_cost)),
    )


def _can_search_exactly(algorithm: str | UserOracle, context: ExplainerContext) -> bool:
    """Whether the model was read, and neither GeCo nor an oracle that was passed is to search."""
    if algorithm == "exact" and context.unreadable_reason is not None:
        statement = f"exact counterfactuals need a model that can be read: {context.unreadable_reason}"
        raise InputError(statement, hint="use algorithm='geco'", code="exact-counterfactuals-unavailable")
    return algorithm in ("auto", "exact") and context.compiled_model is not None


def _search_exactly(question: ChangeQuestion, options: SearchOptions, run: Run) -> FoundChanges | None:
    """What exact searches find, of sums that must all pass their limits over whole intervals first; None where
    constraints on what may change are too intricate, unless an exact search is insisted on.
    """
    joint = question.start_joint_search(run)
    if joint is not None:
        summed = find_joint_changes(joint[1], options.k)
        if summed.proven or summed.stopped or (summed.items and question.context.narrowed):
            return FoundChanges(joint[0], summed)
    try:
        for one in _iterate_contexts(question, options, is_joint=joint is not None):
            found = _refine(one, options, _find_nearest(one, run), run)
            if found.found.items or found.found.proven or one is question:
                return found
    except Unreadable as reason:
        if question.changes.algorithm == "exact":
            statement = f"exact counterfactuals are not available here: {reason}"
            hint = "use algorithm='geco'"
            raise InputError(statement, hint=hint, code="exact-counterfactuals-unavailable") from None
    return None


def _iterate_contexts(question: ChangeQuestion, options: SearchOptions, is_joint: bool) -> Iterator[ChangeQuestion]:
    """The question as it is to be asked, the one of which more can be proven first."""
    apart = None if is_joint else build_apart_question(question, options)
    if apart is not None:
        yield apart
    yield question


def _find_nearest(question: ChangeQuestion, run: Run) -> CheapestFound:
    """What the exact search finds; raises Unreadable if constraints on what may change are too intricate."""
    context, query, row_cost = question.context, question.query, question.row_cost
    assert context.compiled_model is not None
    tabulated = context.compiled_model.tabulated
    if row_cost is None and is_conjunction(tabulated.normal_form):
        row_cost = question.count_cost()
        query = replace(query, cost=row_cost.table)
    if row_cost is not None:
        return find_cheapest_changes(context, tabulated, query, row_cost, run)
    found = find_additive_changes(context, query, run)
    if found is None:
        found = describe_changes(context, query, find_nearest_changes(context, tabulated, query, run), run)
    return CheapestFound(found)


def _refine(question: ChangeQuestion, options: SearchOptions, found: CheapestFound, run: Run) -> FoundChanges:
    """What was found; where the decision may turn between two values, and that leaves too much open, what is found
    after further numbers joined the domains there.
    """
    best = FoundChanges(question, found.changes)
    for _ in range(REFINEMENTS):
        if best.found.proven or best.found.stopped or not question.may_turn_between_values:
            break
        if found.open_gaps is not None:
            finer = question.divide_gaps(found.open_gaps, options)
            if finer is None:
                break
            question = finer
        found = _search_boxes(question, run)
        if found.changes.stopped is not None:
            return replace(best, found=replace(best.found, stopped=found.changes.stopped))
        if found.changes.proven or _is_nearer(question, found.changes, best.found):
            best = FoundChanges(question, found.changes)
    return best


def _is_nearer(question: ChangeQuestion, found: NearestChanges, earlier: NearestChanges) -> bool:
    """Whether what was found has as many counterfactuals as before, and they cost less."""
    measure = question.count_cost().measure_row
    costs, others = ([measure(item.values) for item in one.items] for one in (found, earlier))
    return len(costs) >= len(others) and costs < others


def _search_boxes(question: ChangeQuestion, run: Run) -> CheapestFound:
    """What a short search box by box finds."""
    context, row_cost = question.context, question.count_cost()
    assert context.compiled_model is not None
    query = replace(question.query, cost=row_cost.table)
    tabulated = context.compiled_model.tabulated
    return find_cheapest_in_boxes(context, tabulated, query, row_cost, run, effort=REFINED_EFFORT)


def _search_by_asking(question: ChangeQuestion, run: Run) -> FoundChanges:
    """What an oracle that was passed, or else GeCo, finds by asking the model, nearest first."""
    oracle, query = question.changes.oracle, question.query
    quick = _decide_quickly(question.context, query)
    if oracle is not None:
        nearest = find_by_oracle(verify_oracle(oracle), quick, run)
        items, name = tuple(map(query.case.build_counterfactual, nearest.points)), type(oracle).__name__
        found = NearestChanges(items, False, nearest.stopped)
    else:
        found, name = describe_changes(question.context, query, find_by_geco(quick, run), run), "GeCo"
    if len(found.items) > 1:  # to know what every value costs takes longer than to find one counterfactual
        found = replace(found, items=order_by_cost(found.items, question.count_cost()))
    return FoundChanges(question, found, name)


def _decide_quickly(context: ExplainerContext, query: BoxQuery) -> BoxQuery:
    """The same query for searches that ask about many points: what was read of the model decides, and of a pipeline the
    final estimator gives scores, on what it sees of every value. The model itself confirms the answer.
    """
    if context.is_robust:
        return query
    model = embed_model(context.point_model, context.reduced, query.case.user_instance)
    case = replace(query.case, model=_decide_by_reading(context, model))
    estimator = None if context.compiled_model is None else context.compiled_model.final_estimator
    if estimator is not None and estimator.score is not None:
        case = replace(case, scoring_model=estimator)
    return replace(query, case=case)


def _decide_by_reading(context: ExplainerContext, model: Model) -> Model:
    """A model that is asked only where its reading leaves open what it decides. About many points a large network is
    asked all the same: libraries multiply large matrices faster.
    """
    compiled, oracle = context.compiled_model, context.oracle
    if compiled is None or len(compiled.parts) != 1 or (oracle and oracle.capabilities.point_model is not None):
        return model
    return ReadDecisions(compiled.parts[0], model, _count_points_to_read(compiled.tabulated.normal_form))


def _count_points_to_read(normal_form: NormalForm) -> int | None:
    """How many points are decided by what was read of a model before the model itself is faster; None: all."""
    if is_tree_sum(normal_form):
        return None
    if isinstance(normal_form, Network):
        return MULTIPLICATIONS // max(1, sum(layer.weights.size for layer in normal_form.layers))
    return FEW_POINTS
