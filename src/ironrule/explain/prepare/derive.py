"""Derive a context from another: the same data and models, and another space.

``restrict_context`` adds constraints, ``derive_context`` takes any space of values seen, with more constraints or with
more values in its domains: the outcomes of past rows stay, past rows that break a constraint are left out, and the
model is read again. The result is what a new explainer would know. ``extend_context`` leaves the space as it is; its
searches speak of further features.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ironrule.arrays import BoolArray, Int64Array
from ironrule.backends.compiled_model import extend_compiled_model
from ironrule.errors import ModelError
from ironrule.explain.context import ContextCache, ExplainerContext, PopulationCache, list_seen_values
from ironrule.explain.prepare.reading import (
    RefinedDomains,
    build_exact_reading,
    find_breakpoints,
    find_reduced_gaps,
    fingerprint_model,
    list_checked_points,
    read_exactly,
    refine_domains,
)
from ironrule.explain.row_store import InMemoryRows, OnDiskRows, find_satisfying_rows
from ironrule.model.blackbox import build_model_set
from ironrule.model.history import build_history
from ironrule.model.intervals import RefinedSpace
from ironrule.model.protocol import NormalForm
from ironrule.rule.instance_components import ComponentCache
from ironrule.space.codes import EncodedTable
from ironrule.space.constraints.syntax import Constraint
from ironrule.space.feature import Value
from ironrule.space.space import Space


def restrict_context(context: ExplainerContext, more: Sequence[Constraint]) -> ExplainerContext:
    """The same under further constraints; raises ConstraintError if no past row satisfies them."""
    arguments = replace(context.arguments, constraints=(*context.arguments.constraints, *more))
    space = list_seen_values(context)
    restricted = derive_context(
        replace(context, arguments=arguments), replace(space, constraints=(*space.constraints, *more))
    )
    return replace(restricted, population_cache=PopulationCache())


def derive_context(
    context: ExplainerContext, space: Space, inserted: Mapping[str, Sequence[Value]] | None = None
) -> ExplainerContext:
    """The same data and models over another space of values seen: with more constraints, or with more values.

    ``inserted`` has further numbers for some intervals. Raises ConstraintError if no past row satisfies the
    constraints.
    """
    arguments, seen, known = context.arguments, space, _list_normal_forms(context)
    domains = _derive_domains(context, seen, inserted or {}, known)
    space, gaps = domains.refined.space, domains.gaps
    model_set = context.model
    if space.features != context.space.features:
        model_set = build_model_set(arguments.models, context.table, space, arguments.target)
    past = _derive_past_rows(context, space)
    exact = read_exactly(
        arguments,
        model_set,
        space,
        past.codes,
        engine=context.engine,
        gaps=gaps,
        changing=context.change_constraints,
        known=known,
    )
    if gaps is not None and exact.unreadable_reason is not None:
        raise ModelError(
            f"the model can be read, but not over these values: {exact.unreadable_reason}",
            hint='pass domain="seen"',
            code="intervals-unavailable",
        )
    history = build_history(space, past.codes, past.withstood, past.desired)
    return replace(
        context,
        space=space,
        search_history=history.reduce(exact.reduced),
        model=model_set,
        history=history,
        outcomes=past.outcomes,
        **exact._asdict(),
        fingerprint=fingerprint_model(history, exact.compiled_model),
        row_numbers=past.row_numbers,
        breakpoints=None if gaps is None else find_breakpoints(seen, space, {}),
        obstacles=domains.refined.obstacles,
        component_cache=ComponentCache(),
        row_contexts=ContextCache(),
        extended=ContextCache(),
        guessed_roles=[],
    )


def _derive_domains(
    context: ExplainerContext,
    seen: Space,
    inserted: Mapping[str, Sequence[Value]],
    known: Sequence[NormalForm],
) -> RefinedDomains:
    """The intervals of the new space, where the context has any: numbers that its constraints name, and turns of the
    model beyond the old ends, join the domains.
    """
    if context.gaps is None:
        return RefinedDomains(RefinedSpace(seen, context.obstacles), None)
    arguments = context.arguments
    model_set = build_model_set(arguments.models, context.table, seen, arguments.target)
    checked = list_checked_points(seen, context.history.codes.recode(context.space.features, seen.features))
    return refine_domains(arguments, seen, model_set, checked, table=context.table, inserted=inserted, known=known)


class _PastRows(NamedTuple):
    """The past rows that are in a new space, and what is known of them."""

    codes: EncodedTable
    desired: EncodedTable  # those of them that have the desired outcome under all versions of the model
    outcomes: BoolArray  # by the model itself
    withstood: BoolArray  # by all versions of the model
    row_numbers: Int64Array | None


def _derive_past_rows(context: ExplainerContext, space: Space) -> _PastRows:
    """The past rows in codes of a new space, without those that break its constraints; no model is asked."""
    history, old = context.history, context.space.features
    codes = history.codes.recode(old, space.features)
    kept = find_satisfying_rows(space, codes) if space.feasible.predicates else np.ones(len(codes), dtype=np.bool_)
    # Codes are all that changes then; what is on disk need not be written again.
    if kept.all():
        desired = history.desired.recode(old, space.features)
        return _PastRows(codes, desired, context.outcomes, history.outcomes, context.row_numbers)
    codes, withstood = _take_rows(context, codes, kept, space.fingerprint[:32]), history.outcomes[kept]
    return _PastRows(
        codes,
        desired=_take_rows(context, codes, withstood, None),
        outcomes=context.outcomes[kept],
        withstood=withstood,
        row_numbers=context.get_row_numbers(np.flatnonzero(kept)),
    )


def _list_normal_forms(context: ExplainerContext) -> list[NormalForm]:
    """The models' normal forms, in the order of :func:`read_models`; none if they were not read."""
    if context.compiled_model is None:
        return []
    reads = context.compiled_model.reads
    return [read.normal_form for read in (reads if context.target.margin else reads[:-1])]


def _take_rows(context: ExplainerContext, codes: EncodedTable, rows: BoolArray, name: str | None) -> EncodedTable:
    """The chosen rows; those of a source stay on disk."""
    store = context.row_store
    return store.take(codes, rows, name) if isinstance(store, (InMemoryRows, OnDiskRows)) else codes.take(rows)


def extend_context(context: ExplainerContext, names: Iterable[str]) -> ExplainerContext:
    """The same for searches that also speak of further features; raises SpaceError if one is unknown."""
    missing = {context.space.index(name) for name in names}.difference(context.reduced.kept.tolist())
    if not missing:
        return context
    return context.extended.get(tuple(sorted(missing)), lambda: _keep_more_features(context, missing))


def _keep_more_features(context: ExplainerContext, missing: set[int]) -> ExplainerContext:
    """The context whose searches work on these features too."""
    assert context.compiled_model is not None  # or no feature is left out
    compiled = extend_compiled_model(context.compiled_model, missing)
    row = list_checked_points(context.space, context.history.codes)[0]
    exact = build_exact_reading(
        compiled, context.model, row, engine=context.engine, gaps=find_reduced_gaps(compiled, context.gaps is not None)
    )
    return replace(
        context,
        search_history=context.history.reduce(compiled.reduced),
        row_contexts=ContextCache(),
        extended=ContextCache(),
        **exact._replace(point_model=context.point_model)._asdict(),
    )
