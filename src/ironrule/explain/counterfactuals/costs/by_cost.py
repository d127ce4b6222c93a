"""Find the cheapest counterfactuals of a row under a user's cost, with what is known of how cheap they are.

Sums of one function per feature have a search of their own, sums of trees that of their backend. Networks, models that
are read side by side, and whatever may turn between two values of a domain, are searched box by box.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ironrule.arrays import BoolArray, Float64Array
from ironrule.backends.backend import CheapestRequest
from ironrule.backends.compiled_model import ReadDecisions
from ironrule.backends.forest.backend import is_tree_sum
from ironrule.backends.nearest import CostSearch
from ironrule.backends.registry import build_case_oracle, build_cheapest_search, find_nearest
from ironrule.explain.context import ExplainerContext
from ironrule.explain.counterfactuals.additive import NearestChanges
from ironrule.explain.counterfactuals.costs.additive_cost import find_cheapest_additive_changes
from ironrule.explain.counterfactuals.costs.cheapest_boxes import CheapestBoxSearch
from ironrule.explain.counterfactuals.costs.gap_costs import build_gap_costs
from ironrule.explain.counterfactuals.costs.row_cost import RowCost
from ironrule.model.protocol import Model
from ironrule.model.read_model import TabulatedModel
from ironrule.model.reduced_model import embed_model
from ironrule.oracles.protocol import BoxQuery, Case, Oracle, Run
from ironrule.rule.cost import CostTable
from ironrule.rule.counterfactual import Counterfactual
from ironrule.verdict.budget import BudgetExhausted, name_stop

CLAIMED_SHARE = 0.005  # of a cost, by which a claim about numbers between two values is weaker than what is known
MAX_STUCK_BOXES = 24  # whose gaps are made smaller at once


class CheapestFound(NamedTuple):
    """What was found, and the ranges between two values that a search box by box could not decide: by feature, the
    codes before them. None where boxes were not searched.
    """

    changes: NearestChanges
    open_gaps: dict[int, set[int]] | None = None


def find_cheapest_changes(
    context: ExplainerContext, tabulated_model: TabulatedModel, query: BoxQuery, row_cost: RowCost, run: Run
) -> CheapestFound:
    """Up to k cheapest counterfactuals of a model that was read, each the cheapest that changes all the features of no
    earlier one; raises Unreadable if constraints on what may change are too intricate.
    """
    additive = find_cheapest_additive_changes(context, query, row_cost, run)
    if additive is not None:
        return CheapestFound(additive)
    if is_tree_sum(tabulated_model.normal_form) and not _may_turn_between_values(context, query):
        oracle = None if context.is_robust else context.oracle
        nearest = find_nearest(tabulated_model, query, run, engine=context.engine, oracle=oracle)
        changes = tuple(map(query.case.build_counterfactual, nearest.points))
        costs = map(row_cost.table.measure_point, nearest.points)
        hidden = [row_cost.find_resolution(item.values, one) for item, one in zip(changes, costs, strict=True)]
        close = [row_cost.is_close(item.values, apart) for item, apart in zip(changes, hidden, strict=True)]
        count = min(nearest.proven_count, [*close, False].index(False))
        is_proven = nearest.proven and all(close)
        found = NearestChanges(changes, is_proven, nearest.stopped, count, max([0.0, *hidden[:count]]))
        return CheapestFound(found)
    return find_cheapest_in_boxes(context, tabulated_model, query, row_cost, run)


def find_cheapest_in_boxes(
    context: ExplainerContext,
    tabulated_model: TabulatedModel,
    query: BoxQuery,
    row_cost: RowCost,
    run: Run,
    effort: float = 1.0,
) -> CheapestFound:
    """Up to k cheapest counterfactuals, searched box by box, with a share of as many boxes as usual; raises Unreadable
    as :func:`find_cheapest_changes`.
    """
    search, is_sound = _build_search(context, tabulated_model, query, row_cost, run)
    search.limit = int(effort * search.limit)
    items, found, resolution, count, stopped = list[Counterfactual](), list[frozenset[int]](), 0.0, 0, None
    while len(items) < query.k and stopped is None:
        try:
            answer = search.find_next(found)
        except (BudgetExhausted, KeyboardInterrupt) as stop:
            answer, stopped = search.answer, name_stop(stop, run.meter)
        if answer.point is None:
            is_sound = is_sound and answer.bound == np.inf
            break
        items.append(query.case.build_counterfactual(answer.point))
        apart = row_cost.find_resolution(items[-1].values, answer.bound)
        is_sound = is_sound and row_cost.is_close(items[-1].values, apart)
        if apart > 0.0:  # between two values the bound is nearly reached: a little less is claimed, and easier to check
            apart += CLAIMED_SHARE * row_cost.measure_distance(items[-1].values)
        count += is_sound
        resolution = max(resolution, apart) if is_sound else resolution
        found.append(frozenset(np.flatnonzero(answer.point != query.case.instance).tolist()))
    is_whole = stopped is None or len(items) == query.k
    changes = NearestChanges(tuple(items), is_sound and is_whole, stopped, count, resolution)
    return CheapestFound(changes, _list_open_gaps(search))


def _list_open_gaps(search: CostSearch) -> dict[int, set[int]]:
    """The gaps of the cheapest boxes that could neither be closed nor cut."""
    gaps: dict[int, set[int]] = {}
    for stuck in sorted(search.stuck)[:MAX_STUCK_BOXES]:
        for j in np.flatnonzero(stuck.box.low < stuck.box.high).tolist():
            gaps.setdefault(j, set()).add(int(stuck.box.low[j]))
    return gaps


def _may_turn_between_values(context: ExplainerContext, query: BoxQuery) -> bool:
    """Whether numbers between the values of the domains may count."""
    gaps, case = context.gaps, query.case
    if gaps is None:
        return False
    turns = gaps.may_turn_within(query.box.low, query.box.high)
    return turns or not gaps.are_respected_by(case.feasible.predicates, case.instance)


def _build_search(
    context: ExplainerContext, tabulated_model: TabulatedModel, query: BoxQuery, row_cost: RowCost, run: Run
) -> tuple[CostSearch, bool]:
    """The search, and whether what it proves holds for all numbers."""
    case, gaps = query.case, context.gaps
    sizes = case.space.sizes.tolist()
    gap_after = tuple(np.zeros(size, dtype=np.bool_) for size in sizes)
    is_sound = gaps is None or gaps.are_respected_by(case.feasible.predicates, case.instance)
    turns = gaps is not None and gaps.may_turn_within(query.box.low, query.box.high)
    oracle: Oracle | None = None
    if gaps is not None and turns:
        if context.oracle is not None and not context.is_robust:
            oracle = context.oracle
            parts = _forbid_codes(row_cost.table, case).parts
            gap_after = tuple(
                _list_gaps(row_cost.features[j].step is not None, parts[j], gaps.turning_gaps[j])
                for j in range(len(sizes))
            )
        else:
            is_sound = False
    decides = context.model.primary if context.is_robust else context.point_model
    model: Model = embed_model(decides, context.reduced, case.user_instance)
    assert context.compiled_model is not None
    if len(tabulated_model.parts) > 1 and len(context.compiled_model.parts) == 1:  # several models are slow to ask
        model = ReadDecisions(context.compiled_model.parts[0], model)
    table = _forbid_codes(row_cost.table, case)
    if not context.is_robust:
        gap_costs = build_gap_costs(context, tabulated_model, row_cost, gap_after)
        request = CheapestRequest(tabulated_model, replace(query, cost=table), model, gap_costs, run)
        own_search = build_cheapest_search(request)
        if own_search is not None:
            return own_search, is_sound
    oracle = oracle or build_case_oracle(tabulated_model, case, context.engine)
    search = CheapestBoxSearch(
        case,
        query.box,
        table,
        oracle=oracle,
        model=model,
        gap_after=gap_after,
        least_part=row_cost.least_part,
        run=run,
    )
    return search, is_sound


def _forbid_codes(table: CostTable, case: Case) -> CostTable:
    """The costs, infinite where a constraint on the feature alone forbids a value."""
    parts = [part.copy() for part in table.parts]
    for predicate in case.feasible.predicates:
        if len(predicate.columns) == 1:
            j = predicate.columns[0]
            parts[j][~predicate.holds_per_code(j, case.instance)] = np.inf
    return replace(table, parts=tuple(parts))


def _list_gaps(has_step: bool, part: Float64Array, turning: BoolArray) -> BoolArray:
    """Per code whether the decision may turn before the next one, at numbers that may be chosen: a number may be where
    both of its neighbours may, since constraints name values of the domain alone.
    """
    gaps = np.zeros(len(part), dtype=np.bool_)
    if has_step:
        return gaps
    gaps[: len(turning)] = turning
    gaps[:-1] &= np.isfinite(part[:-1]) & np.isfinite(part[1:])
    return gaps


def order_by_cost(
    items: Sequence[Counterfactual], row_cost: RowCost, keeps_apart: bool = False
) -> tuple[Counterfactual, ...]:
    """Counterfactuals that may be chosen, cheapest first.

    ``keeps_apart``: each changes all the features of no earlier one. That stays so: of two that cost the same but for
    rounding, one that changes all the features of the other stays before it.
    """
    costs = [row_cost.measure_row(item.values) for item in items]
    changed = [{change.feature for change in item.changes} for item in items]
    left, ordered = [place for place, cost in enumerate(costs) if cost < np.inf], list[Counterfactual]()
    while left:
        free = [k for k in left if not (keeps_apart and any(i < k and changed[k] <= changed[i] for i in left))]
        left.remove(best := min(free, key=costs.__getitem__))
        ordered.append(items[best])
    return tuple(ordered)
