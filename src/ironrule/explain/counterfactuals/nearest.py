"""The steps that counterfactuals asked for and suggested changes have in common: search, proof, readable numbers.

With whole intervals, "nearest" is called proven only if that holds between the values of the domains too
(:mod:`ironrule.backends.nearest_proof`).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np

from ironrule.arrays import Int64Array, Points
from ironrule.backends.forest.backend import is_tree_sum
from ironrule.backends.nearest import NearestCounterfactuals
from ironrule.backends.nearest_proof import IntervalProof, prove_over_intervals
from ironrule.backends.registry import BOXES_PER_QUERY, find_nearest
from ironrule.errors import ModelError
from ironrule.explain.context import ExplainerContext
from ironrule.explain.counterfactuals.additive import NearestChanges
from ironrule.explain.counterfactuals.changed_rows import round_changes
from ironrule.explain.counterfactuals.costs.row_cost import RowCost
from ironrule.explain.counterfactuals.readable_numbers import RESOLUTION
from ironrule.explain.query import ask_oracle
from ironrule.model.intervals import Gaps
from ironrule.model.read_model import TabulatedModel
from ironrule.model.reduced_model import embed_model
from ironrule.oracles.geco.candidates import InstanceDistance, NormWeights
from ironrule.oracles.geco.oracle import GeCo
from ironrule.oracles.protocol import BoxQuery, Oracle, Run
from ironrule.rule.box import Box
from ironrule.verdict.budget import BudgetExhausted, name_stop
from ironrule.verdict.verdict import Refuted

MAX_SMALL_CHANGES = 100_000  # points that change one feature, or two, and are asked about


def describe_changes(
    context: ExplainerContext, query: BoxQuery, nearest: NearestCounterfactuals, run: Run
) -> NearestChanges:
    """What was found among the values of the domains in the user's terms, with what is known of it for all numbers."""
    items = tuple(map(query.case.build_counterfactual, nearest.points))
    if _holds_between_values(context.gaps, query, nearest):
        return NearestChanges(items, nearest.proven, nearest.stopped, nearest.proven_count)
    proof = prove_nearest_changes(context, query, nearest, run)
    stopped = nearest.stopped or proof.stopped
    return NearestChanges(items, proof.count >= query.k, stopped, proof.count, proof.resolution)


def make_readable(
    context: ExplainerContext, query: BoxQuery, found: NearestChanges, run: Run, row_cost: RowCost | None = None
) -> NearestChanges:
    """The same changes with readable numbers; those that move by steps stay as they are."""
    items, confirmed = found.items, frozenset[int]()
    kept = () if row_cost is None else tuple(row_cost.cost.steps)
    try:
        items, confirmed = round_changes(context, query, items, run, kept)
    except BudgetExhausted:
        pass  # the numbers stay as they are
    except ModelError as error:
        if error.code != "unknown-to-saved-model":  # a saved model may not know what it sees of readable numbers
            raise
    if row_cost is not None:
        pairs = zip(items, found.items, strict=True)
        lost = [row_cost.measure_distance(new.values) - row_cost.measure_distance(old.values) for new, old in pairs]
        resolution = found.resolution + max([0.0, *lost[: found.proven_count]])
        return replace(found, items=items, resolution=resolution, confirmed=confirmed)
    rounded = any(item.exact for item in items) and found.resolution != RESOLUTION
    resolution = found.resolution + (RESOLUTION if rounded else 0.0)
    return replace(found, items=items, resolution=resolution, confirmed=confirmed)


def find_nearest_changes(
    context: ExplainerContext,
    tabulated_model: TabulatedModel,
    query: BoxQuery,
    run: Run,
    boxes_per_query: int = BOXES_PER_QUERY,
) -> NearestCounterfactuals:
    """The nearest counterfactuals of a model that was read. Of a sum of trees, changes of few features are searched in
    no time; of others, those that change one feature come first, of which all are asked about, and then, by the exact
    search, those that change several of the other features.
    """
    oracle = None if context.is_robust else context.oracle
    single = np.empty((0, len(query.case.space)), dtype=np.int32)
    if not is_tree_sum(tabulated_model.normal_form) and query.cost is None:
        try:
            asked = find_small_changes(context, query, run, 1)
        except (BudgetExhausted, KeyboardInterrupt) as stop:
            return NearestCounterfactuals(single, False, name_stop(stop, run.meter))
        single = single if asked is None else asked
    if len(single) >= query.k:
        return NearestCounterfactuals(single[: query.k], True, proven_count=query.k)
    left = leave_out(query, single)
    nearest = find_nearest(
        tabulated_model, left, run, engine=context.engine, oracle=oracle, boxes_per_query=boxes_per_query
    )
    points, count = np.concatenate([single, nearest.points]), len(single) + nearest.proven_count
    return NearestCounterfactuals(points, nearest.proven, nearest.stopped, count)


def leave_out(query: BoxQuery, single: Points) -> BoxQuery:
    """The query for what is left beside changes of one feature: what changes one of these too has a useless change."""
    instance, low, high = query.case.instance, query.box.low.copy(), query.box.high.copy()
    settled = (single != instance).any(axis=0)
    low[settled] = high[settled] = instance[settled]
    return replace(query, box=Box(low, high), k=query.k - len(single))


def find_small_changes(context: ExplainerContext, query: BoxQuery, run: Run, size: int) -> Points | None:
    """For every set of ``size`` features the nearest change of all of them that gives the desired outcome, if there is
    one, nearest first: the model is asked about every permitted value. None if these are too many, or for the budget.
    """
    instance, codes = query.case.instance, _list_permitted_codes(query)
    sets = list(itertools.combinations([j for j, values in enumerate(codes) if len(values)], size))
    if sum(math.prod(len(codes[j]) for j in one) for one in sets) > min(MAX_SMALL_CHANGES, run.meter.evaluations_left):
        return None
    distance = InstanceDistance.build(query.case.space, instance, NormWeights())
    parts = [np.empty((0, len(instance)), dtype=np.int32)]
    for one in sets:
        grids = np.meshgrid(*(codes[j] for j in one), indexing="ij")
        parts.append(np.repeat(instance[None, :], grids[0].size, axis=0))
        parts[-1][:, one] = np.stack([grid.ravel() for grid in grids], axis=1)
    points = np.concatenate(parts)
    points = points[query.case.feasible.admits(points)]
    if len(points):
        decides = context.model.primary if context.is_robust else context.point_model
        own = embed_model(decides, context.reduced, query.case.user_instance)
        points = points[run.meter.desired(own, points)]
    points = points[np.argsort(distance.table[distance.starts + points].sum(axis=1), kind="stable")]
    first = np.unique(points != instance, axis=0, return_index=True)[1]  # the nearest of every set
    return np.asarray(points[np.sort(first)], dtype=np.int32)


def _list_permitted_codes(query: BoxQuery) -> list[Int64Array]:
    """For every feature the codes of the box, without the row's own, that constraints on it alone permit."""
    instance, box, codes = query.case.instance, query.box, list[Int64Array]()
    for j, own in enumerate(instance.tolist()):
        permitted = np.zeros(int(query.case.space.sizes[j]), dtype=np.bool_)
        permitted[box.low[j] : box.high[j] + 1] = True
        permitted[own] = False
        for predicate in query.case.feasible.predicates:
            if predicate.columns == (j,):
                permitted &= predicate.holds_per_code(j, instance)
        codes.append(np.flatnonzero(permitted))
    return codes


def _holds_between_values(gaps: Gaps | None, query: BoxQuery, nearest: NearestCounterfactuals) -> bool:
    """Whether what is proven for the values of the domains is so for the numbers between them too.

    Where the decision may turn between two values, a nearer counterfactual may lie there; but if the values have none,
    there is none. Where a constraint may hold between two values and at neither, nothing is proven.
    """
    if gaps is None:
        return True
    if len(nearest.points) and gaps.may_turn_within(query.box.low, query.box.high):
        return False
    return gaps.are_respected_by(query.case.feasible.predicates, query.case.instance)


def prove_nearest_changes(
    context: ExplainerContext, query: BoxQuery, nearest: NearestCounterfactuals, run: Run
) -> IntervalProof:
    """How many of the nearest at values of the domains are proven nearest over all numbers, and how finely."""
    gaps, case = context.gaps, query.case
    if gaps is None or context.oracle is None or context.is_robust or query.cost is not None:
        return IntervalProof(0)  # the proof is about the usual order
    if not gaps.are_respected_by(case.feasible.predicates, case.instance):
        return IntervalProof(0)
    points = nearest.points[: nearest.proven_count]
    permitted = _list_permitted_codes(query)
    return prove_over_intervals(context.oracle, gaps, query, points, permitted=permitted, run=run)


def find_by_geco(query: BoxQuery, run: Run) -> NearestCounterfactuals:
    """What GeCo finds, as many as are wanted."""
    return find_by_oracle(GeCo(fill_to_k=True), query, run)


def find_by_oracle(oracle: Oracle, query: BoxQuery, run: Run) -> NearestCounterfactuals:
    """What an oracle finds; nothing of it is proven to be nearest."""
    verdict, stopped = ask_oracle(oracle, query, run)
    none = np.empty((0, len(query.case.space)), dtype=np.int32)
    return NearestCounterfactuals(verdict.points if isinstance(verdict, Refuted) else none, False, stopped)
