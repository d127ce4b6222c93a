"""Find the nearest counterfactuals of a row, within what may change.

What may change is given in the words that users of DiCE know: features to vary and permitted ranges. The exact search
is used where the model can be read, GeCo otherwise. With whole intervals, "nearest" is called proven only if that holds
between the values of the domains too (:mod:`ironrule.backends.nearest_proof`).

``suggest_changes`` is the same search for the person whom a decision is about, under the constraints that follow from
roles, declared and guessed. It is short, and what it has proven to be nearest is shown; what it has not is shown only
if there is nothing else. Where the model can only be asked, or the exact search does not end soon, all values of one
feature and of two are asked about, and GeCo searches if none of them does.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from ironrule.arrays import Int64Array, Points
from ironrule.backends.forest.backend import is_tree_sum
from ironrule.backends.nearest import NearestCounterfactuals
from ironrule.backends.nearest_proof import IntervalProof, prove_over_intervals
from ironrule.backends.registry import BOXES_PER_QUERY, find_nearest
from ironrule.errors import ConstraintError, InputError, describe_value
from ironrule.explain.additive_changes import NearestChanges, find_additive_changes
from ironrule.explain.changed_rows import require_rows_desired, round_changes
from ironrule.explain.context import EncodedRow, ExplainerContext
from ironrule.explain.extend import extend_to_row
from ironrule.explain.options import SearchOptions, parse_budget, parse_names
from ironrule.explain.query import ask_oracle, build_case, build_statistics, extend_to_named
from ironrule.explain.readable_numbers import RESOLUTION
from ironrule.explain.roles import list_guessed_constraints, list_limits
from ironrule.model.intervals import Gaps
from ironrule.model.protocol import Unreadable
from ironrule.model.read_model import TabulatedModel
from ironrule.model.reduced_model import embed_model
from ironrule.oracles.combine import verify_oracle
from ironrule.oracles.geco.candidates import InstanceDistance, NormWeights
from ironrule.oracles.geco.oracle import GeCo
from ironrule.oracles.protocol import BoxQuery, Oracle, Run, UserOracle
from ironrule.results.advice import SuggestedChanges
from ironrule.results.counterfactuals import Counterfactuals
from ironrule.results.explanation import Explanation
from ironrule.rule.box import Box
from ironrule.rule.counterfactual import LazyValue
from ironrule.rule.instance_components import InstanceComponents
from ironrule.space.constraints.binding import bind_constraint
from ironrule.space.constraints.parser import parse_constraint
from ironrule.space.constraints.syntax import Constraint, Reference, Subject, format_literal
from ironrule.space.feature import Feature, Value
from ironrule.space.table import VALUE_TYPES, is_listing, to_python_value
from ironrule.verdict.budget import Budget, BudgetExhausted, Meter, name_stop
from ironrule.verdict.verdict import Refuted


def find_counterfactuals(
    context: ExplainerContext,
    row: Any,
    options: SearchOptions,
    *,
    algorithm: str | UserOracle,
    features_to_vary: Sequence[str] | str,
    permitted_range: Mapping[str, Sequence[Value]],
    constraints: Sequence[Constraint],
    progress: bool | None = False,
) -> Counterfactuals:
    """The exact search's counterfactuals, or GeCo's where it cannot read the constraints, unless it is insisted on."""
    context, row = extend_to_row(context, row)
    ranges = [parse_constraint(_format_range(context.space[name], values)) for name, values in permitted_range.items()]
    _require_changeable(context, features_to_vary)
    changing = (*context.change_constraints, *constraints, *ranges)
    everything = isinstance(features_to_vary, str) and features_to_vary == "all"
    names = () if everything else parse_names("features_to_vary", features_to_vary)
    context = extend_to_named(context, options, changing, names)
    case = build_case(context, row, changing, own_model_only=True)
    query = BoxQuery(case, _build_change_box(case.components, features_to_vary), options.k)
    tabulated_model = _choose_tabulated_model(algorithm, context)
    meter = options.start_meter()
    run, name = Run(meter, np.random.default_rng(options.seed)), "Nearest"
    with meter.watch(progress):
        found = None if tabulated_model is None else find_additive_changes(context, query, run)
        if found is None and tabulated_model is not None:
            try:
                nearest = find_nearest_changes(context, tabulated_model, query, run)
                found = _describe_changes(context, query, nearest, run)
            except Unreadable as reason:  # constraints on what may change that are too intricate
                if algorithm == "exact":
                    statement = f"exact counterfactuals are not available here: {reason}"
                    hint = "use algorithm='geco'"
                    raise InputError(statement, hint=hint, code="exact-counterfactuals-unavailable") from None
        if found is None and not isinstance(algorithm, str):
            nearest, name = _find_by_oracle(verify_oracle(algorithm), query, run), type(algorithm).__name__
            found = NearestChanges(tuple(map(case.build_counterfactual, nearest.points)), False, nearest.stopped, 0)
        elif found is None:
            found, name = _describe_changes(context, query, _find_by_geco(query, run), run), "GeCo"
        found = _make_readable(context, query, found, run)
    if tabulated_model is not None:
        require_rows_desired(context, [item.values for item in found.items])
    statistics = build_statistics(meter, name, options.seed, found.stopped)
    instance = context.space.decode_row(case.user_instance)
    return Counterfactuals(instance, found.items, statistics, found.proven, found.resolution)


def _describe_changes(
    context: ExplainerContext, query: BoxQuery, nearest: NearestCounterfactuals, run: Run
) -> NearestChanges:
    """What was found among the values of the domains in the user's terms, with what is known of it for all numbers."""
    items = tuple(map(query.case.build_counterfactual, nearest.points))
    if _holds_between_values(context.gaps, query, nearest):
        return NearestChanges(items, nearest.proven, nearest.stopped, nearest.proven_count)
    proof = prove_nearest_changes(context, query, nearest, run)
    stopped = nearest.stopped or proof.stopped
    return NearestChanges(items, proof.count >= query.k, stopped, proof.count, proof.resolution)


def _make_readable(context: ExplainerContext, query: BoxQuery, found: NearestChanges, run: Run) -> NearestChanges:
    """The same changes with readable numbers."""
    items = found.items
    with suppress(BudgetExhausted):  # then the numbers stay as they are
        items = round_changes(context, query, items, run)
    rounded = any(item.exact for item in items) and found.resolution != RESOLUTION
    resolution = found.resolution + (RESOLUTION if rounded else 0.0)
    return replace(found, items=items, resolution=resolution)


MAX_SMALL_CHANGES = 100_000  # points that change one feature, or two, and are asked about


def find_nearest_changes(
    context: ExplainerContext,
    tabulated_model: TabulatedModel,
    query: BoxQuery,
    run: Run,
    boxes_per_query: int = BOXES_PER_QUERY,
) -> NearestCounterfactuals:
    """The nearest counterfactuals of a model that was read. Of a sum of trees, changes of a few features are searched in
    no time; of others, those that change one feature come first, of which all are asked about, and then, by the exact
    search, those that change several of the other features.
    """
    oracle = None if context.is_robust else context.oracle
    single = np.empty((0, len(query.case.space)), dtype=np.int32)
    if not is_tree_sum(tabulated_model.normal_form):
        try:
            asked = find_small_changes(context, query, run, 1)
        except (BudgetExhausted, KeyboardInterrupt) as stop:
            return NearestCounterfactuals(single, False, name_stop(stop, run.meter))
        single = single if asked is None else asked
    if len(single) >= query.k:
        return NearestCounterfactuals(single[: query.k], True, proven_count=query.k)
    left = _leave_out(query, single)
    nearest = find_nearest(
        tabulated_model, left, run, engine=context.engine, oracle=oracle, boxes_per_query=boxes_per_query
    )
    points, count = np.concatenate([single, nearest.points]), len(single) + nearest.proven_count
    return NearestCounterfactuals(points, nearest.proven, nearest.stopped, count)


def _leave_out(query: BoxQuery, single: Points) -> BoxQuery:
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


def _require_changeable(context: ExplainerContext, features_to_vary: Sequence[str] | str) -> None:
    """Raise InputError if a feature is to vary that must not change by its declared role."""
    if isinstance(features_to_vary, str) and features_to_vary == "all":
        return
    for name in parse_names("features_to_vary", features_to_vary):
        role = context.space[name].role
        if role is not None and role.kind != "actionable":
            raise InputError(
                expected="features_to_vary must name features whose role lets them change",
                got=f"{name!r}, which is declared {role.kind}",
                hint="leave it out, or declare it actionable",
                code="unchangeable-feature",
            )


def _build_change_box(components: InstanceComponents, features_to_vary: Sequence[str] | str) -> Box:
    """The whole space, except that features which may not vary keep the instance's value."""
    box = components.box(0)
    if isinstance(features_to_vary, str) and features_to_vary == "all":
        return box
    names = [features_to_vary] if isinstance(features_to_vary, str) else features_to_vary
    free = [components.space.index(name) for name in names]
    fixed = np.setdiff1d(np.arange(len(components.space)), free)
    low, high = box.low.copy(), box.high.copy()
    low[fixed] = high[fixed] = components.instance[fixed]
    return Box(low, high)


def _format_range(feature: Feature, values: Sequence[Value]) -> str:
    """A permitted range as a constraint: lowest and highest for an ordered feature, a list of values otherwise."""
    must = f"the permitted range of {feature.name!r} must be"
    if not is_listing(values) or not isinstance(values, (Sequence, np.ndarray)) or len(values) == 0:
        raise InputError(expected=f"{must} a non-empty list", got=describe_value(values))
    odd = [value for value in map(to_python_value, values) if value is not None and not isinstance(value, VALUE_TYPES)]
    odd += [value for value in values if isinstance(value, int) and abs(value) >= 2**64]
    if odd:
        raise InputError(expected=f"{must} a list of single values", got=describe_value(odd[0]))
    name, literals = Reference(Subject.POINT, feature.name), [format_literal(value) for value in values]
    if not feature.ordered:
        return f"{name} in ({', '.join(literals)})"
    if len(values) != 2:
        raise InputError(expected=f"{must} [lowest, highest]", got=list(values))
    return f"{name} >= {literals[0]} and {name} <= {literals[1]}"


def _choose_tabulated_model(algorithm: str | UserOracle, context: ExplainerContext) -> TabulatedModel | None:
    """What the exact search reads, or None where GeCo, or an oracle that was passed, is to search."""
    if not isinstance(algorithm, (str, type)) and callable(getattr(algorithm, "find", None)):
        return None
    if algorithm not in ("auto", "exact", "geco"):
        raise InputError(
            expected="algorithm must be one of auto, exact, geco",
            got=describe_value(algorithm),
            hint="or pass an object such as GrowingSpheres()",
            code="unknown-algorithm",
        )
    if algorithm == "exact" and context.unreadable_reason is not None:
        statement = f"exact counterfactuals need a model that can be read: {context.unreadable_reason}"
        raise InputError(statement, hint="use algorithm='geco'", code="exact-counterfactuals-unavailable")
    return None if algorithm == "geco" or context.compiled_model is None else context.compiled_model.tabulated


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
    if gaps is None or context.oracle is None or context.is_robust:
        return IntervalProof(0)
    if not gaps.are_respected_by(case.feasible.predicates, case.instance):
        return IntervalProof(0)
    points = nearest.points[: nearest.proven_count]
    permitted = _list_permitted_codes(query)
    return prove_over_intervals(context.oracle, gaps, query, points, permitted=permitted, run=run)


def _find_by_geco(query: BoxQuery, run: Run) -> NearestCounterfactuals:
    return _find_by_oracle(GeCo(fill_to_k=True), query, run)


def _find_by_oracle(oracle: Oracle, query: BoxQuery, run: Run) -> NearestCounterfactuals:
    verdict, stopped = ask_oracle(oracle, query, run)
    none = np.empty((0, len(query.case.space)), dtype=np.int32)
    return NearestCounterfactuals(verdict.points if isinstance(verdict, Refuted) else none, False, stopped)


BOXES_PER_SUGGESTION = 5_000  # looked at per question of the exact search: fractions of a second
LONGER_TRY = 20  # times as many, where not even the first change was proven
MAX_EVALUATIONS, MAX_SECONDS = 200_000, 10.0  # the seconds are for networks, whose boxes take long


def suggest_changes(
    context: ExplainerContext, instance: Points, k: int, seed: int, seconds: float | None
) -> SuggestedChanges:
    """Up to k changes of a row with the undesired outcome, nearest first, within so many seconds."""
    budget = Budget(MAX_EVALUATIONS, min(MAX_SECONDS, MAX_SECONDS if seconds is None else seconds))
    limits = list_limits(context)
    guessed = _select_kept(context, list_guessed_constraints(context))
    constraints = (*context.change_constraints, *guessed)
    try:
        case = build_case(context, EncodedRow(instance), constraints, own_model_only=True)
    except ConstraintError as error:  # the user's own constraints permit nothing
        if error.code != "unsatisfiable-constraints":
            raise
        return SuggestedChanges((), proven=context.gaps is None, complete=True, limits=limits)
    query, run = BoxQuery(case, case.components.box(0), k), Run(Meter(budget), np.random.default_rng(seed))
    found = find_additive_changes(context, query, run)
    if found is None:
        found = _describe_changes(context, query, _search_changes(context, query, run), run)
    found = _make_readable(context, query, found, run)
    require_rows_desired(context, [item.values for item in found.items])
    proven = found.proven or found.proven_count > 0
    shown = found.items[: found.proven_count] if proven else found.items
    return SuggestedChanges(shown, proven, complete=found.proven, limits=limits, resolution=found.resolution)


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
        pairs = None if single is None else find_small_changes(context, _leave_out(query, single), run, 2)
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
    return nearest if len(nearest.points) else _find_by_geco(query, run)


def add_changes(
    context: ExplainerContext, explanation: Explanation, k: int, budget: Budget | float | None
) -> Explanation:
    """The explanation with suggested changes, which are found when they are first read."""
    context, row = extend_to_row(context, dict(explanation.instance))
    instance, seed = context.space.encode_row(row, ignore=context.table.names), explanation.statistics.seed
    seconds = parse_budget(budget).seconds
    return replace(explanation, lazy_changes=LazyValue(lambda: suggest_changes(context, instance, k, seed, seconds)))
