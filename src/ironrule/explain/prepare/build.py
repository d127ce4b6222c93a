"""Build the context of a new explainer: read the data and the model, and refuse here what cannot be used.

The rows are opened, the space is declared by the user or inferred, the models are read over it (``reading``), and the
outcomes of past rows make the history.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ironrule.arrays import BoolArray, Int64Array
from ironrule.errors import InputError, TableError
from ironrule.explain.context import ExplainerArguments, ExplainerContext
from ironrule.explain.options import as_list
from ironrule.explain.prepare.reading import (
    ExactReading,
    build_unreadable,
    find_breakpoints,
    fingerprint_model,
    keep_seen_values,
    list_checked_points,
    read_exactly,
    refine_domains,
    require_intervals,
)
from ironrule.explain.roles import list_declared_constraints
from ironrule.explain.row_store import InMemoryRows, OnDiskRows, RowStore, build_cache_key, find_satisfying_rows
from ironrule.model.blackbox import ModelSet, build_model_set, match_column_names
from ironrule.model.categories import find_pandas_categories, restore_pandas_categories
from ironrule.model.history import History, build_history
from ironrule.model.intervals import RefinedSpace
from ironrule.space.codes import EncodedTable
from ironrule.space.column_store.ingest import open_source
from ironrule.space.constraints.binding import bind_constraint
from ironrule.space.constraints.syntax import Constraint
from ironrule.space.sources import as_source
from ironrule.space.space import Space, as_constraint
from ironrule.space.table import Table, read_table
from ironrule.space.text_in_numbers import name_text_in_numbers

if TYPE_CHECKING:
    from ironrule.backends.network.engine import BoundEngine


def build_context(
    arguments: ExplainerArguments, data: Any, progress: bool | None, cache: str | Path | None = None, warn: bool = True
) -> ExplainerContext:
    """Read the data and the model; what cannot be used is refused here, before any search.

    ``warn``: whether there is a warning if past rows are left out.
    """
    if hasattr(data, "predict") and not hasattr(arguments.models[0], "predict"):
        statement = "the model comes first and the data second, got them the other way round"
        raise InputError(statement, hint="pass the model, then the data")
    row_store, engine = open_rows(arguments, data, cache, progress), _choose_engine(arguments.device)
    declared = _declare_space(arguments, row_store, progress)
    if isinstance(row_store, OnDiskRows):
        row_store.encode(declared.space, progress)  # first of all: a value of any row that does not fit is refused here
    in_memory = isinstance(row_store, InMemoryRows)
    with name_text_in_numbers(row_store.table, has_row_numbers=in_memory):
        prepared = _prepare_model(arguments, row_store, declared, engine=engine, progress=progress, warn=warn)
    whole, exact, model_set = prepared.refined.space, prepared.exact, prepared.model_set
    cache_key = None
    if not in_memory:
        model_hash = None if exact.compiled_model is None else exact.compiled_model.fingerprint
        cache_key = build_cache_key(arguments.models, model_hash, whole, arguments.target)
    with name_text_in_numbers(row_store.table, has_row_numbers=in_memory):
        history, outcomes = _build_history(
            whole, row_store, prepared.codes, model_set, key=cache_key, progress=progress
        )
    breakpoints = None
    if prepared.has_intervals:
        breakpoints = find_breakpoints(declared.without_constraints, whole, row_store.breakpoints)
    return ExplainerContext(
        space=whole,
        search_history=history.reduce(exact.reduced),
        model=model_set,
        history=history,
        outcomes=outcomes,
        row_store=row_store,
        row_count=len(row_store),
        change_constraints=declared.change_constraints,
        **exact._asdict(),
        fingerprint=fingerprint_model(history, exact.compiled_model),
        arguments=arguments,
        target=arguments.target,
        row_numbers=prepared.row_numbers,
        engine=engine,
        breakpoints=breakpoints,
        obstacles=prepared.refined.obstacles,
        category_lists=find_pandas_categories(arguments.models[0], row_store.table.names),
        black_box_oracle=arguments.oracle,
        role_guesses=arguments.role_guesses,
    )


def _choose_engine(device: str | None) -> BoundEngine | None:
    """Where networks are bounded; None for the cores."""
    if device is None:
        return None
    from ironrule.backends.network.engine import choose_engine

    return choose_engine(device)


class DeclaredSpace(NamedTuple):
    """The space over values seen, with its constraints and roles; and what constraints say about changes."""

    without_constraints: Space
    space: Space
    change_constraints: tuple[Constraint, ...]


def _declare_space(arguments: ExplainerArguments, row_store: RowStore, progress: bool | None) -> DeclaredSpace:
    """The space that the user gave, or that follows from the data."""
    space = arguments.space
    parsed = tuple(as_constraint(constraint) for constraint in as_list(arguments.constraints))
    if space is None:
        columns = arguments.columns
        chosen = columns if columns is not None else _find_model_columns(arguments.models[0], row_store.table)
        space = Space.infer(row_store.table, columns=chosen, progress=progress)
    if arguments.labels:
        space = space.with_labels(arguments.labels)
    on_space = tuple(constraint for constraint in parsed if not constraint.mentions_instance)
    whole = replace(space.with_roles(arguments.roles), constraints=(*space.constraints, *on_space))
    on_changes = (constraint for constraint in parsed if constraint.mentions_instance)
    change_constraints = (*on_changes, *list_declared_constraints(whole))
    for constraint in change_constraints:
        bind_constraint(constraint, whole.features)
    return DeclaredSpace(space, whole, change_constraints)


def _find_model_columns(model: Any, table: Table) -> tuple[str, ...] | None:
    """The columns that a model was fitted on, where it says so; other columns, such as the target, are left alone."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return None
    chosen = match_column_names(names, table.names)
    absent = [name for name in chosen if name not in table.names]
    if absent:
        expected = f"the data must have the model's column {absent[0]!r}"
        got = f"columns {', '.join(table.names)}"
        hint = "pass a table with the names that the model was fitted with" if table.frame is None else None
        raise TableError(expected=expected, got=got, hint=hint, code="missing-columns")
    return chosen


class PreparedModel(NamedTuple):
    """The space with its intervals, the models over it, and the past rows in it."""

    refined: RefinedSpace
    has_intervals: bool
    model_set: ModelSet
    codes: EncodedTable
    row_numbers: Int64Array | None
    exact: ExactReading


def _prepare_model(
    arguments: ExplainerArguments,
    row_store: RowStore,
    declared: DeclaredSpace,
    *,
    engine: BoundEngine | None,
    progress: bool | None,
    warn: bool,
) -> PreparedModel:
    """Refine the domains, and read the models over them; values seen remain where that does not succeed."""
    models, target, table, seen = arguments.models, arguments.target, row_store.table, declared.space
    model_set = build_model_set(models, table, seen, target)
    checked = list_checked_points(seen, _filter_rows(seen, row_store, progress=False, warn=False)[0])
    domains = refine_domains(arguments, seen, model_set, checked, table=table, inserted={})
    refined, gaps = domains.refined, domains.gaps
    if gaps is not None:
        model_set = build_model_set(models, table, refined.space, target)
    codes, row_numbers = _filter_rows(refined.space, row_store, progress, warn)
    exact = read_exactly(
        arguments,
        model_set,
        refined.space,
        codes,
        engine=engine,
        gaps=gaps,
        changing=declared.change_constraints,
        known=domains.normal_forms,
    )
    if gaps is not None and exact.unreadable_reason is not None:
        # Only values can be asked about, so the rules are about these alone.
        require_intervals(arguments, exact.unreadable_reason)
        refined, gaps = keep_seen_values(seen, exact.unreadable_reason), None
        model_set = build_model_set(models, table, seen, target)
        codes, row_numbers = _filter_rows(seen, row_store, progress, warn=False)
        exact = build_unreadable(exact.unreadable_reason, model_set, seen)
    if exact.unreadable_reason is not None:  # what was read is compared with the model point by point
        for box in model_set.black_boxes:
            box.require_rows_apart(codes)
    return PreparedModel(refined, gaps is not None, model_set, codes, row_numbers, exact)


def _filter_rows(
    space: Space, past: RowStore, progress: bool | None, warn: bool
) -> tuple[EncodedTable, Int64Array | None]:
    """The past rows that satisfy the constraints on the space, and which they are; None if all may."""
    codes = past.encode(space, progress)
    if not space.feasible.predicates:
        return codes, past.row_numbers
    kept = find_satisfying_rows(space, codes)
    if warn and not kept.all():
        text = f"{(~kept).sum()} of {len(kept)} past rows break the constraints on the space and are left out"
        warnings.warn(text, stacklevel=4)
    rows = np.flatnonzero(kept)
    return past.take(codes, kept, space.fingerprint[:32]), rows if past.row_numbers is None else past.row_numbers[rows]


def open_rows(arguments: ExplainerArguments, data: Any, cache: str | Path | None, progress: bool | None) -> RowStore:
    """The data as past rows: a table as it is, a source read into a cache, past rows as they are."""
    if arguments.space is not None and not isinstance(arguments.space, Space):
        got = type(arguments.space).__name__
        raise InputError(expected="space must be a Space, such as Space.from_file returns", got=got)
    if hasattr(type(data), "encode") and hasattr(type(data), "row_numbers"):
        row_store: RowStore = data
        return row_store
    source, space, columns = as_source(data), arguments.space, arguments.columns
    if source is None:
        if cache is not None:
            raise InputError(expected="a cache needs data from files or a database", got="a table in memory")
        names = space.columns if space is not None and isinstance(data, np.ndarray) else None
        return InMemoryRows(read_table(restore_pandas_categories(arguments.models[0], data), names))
    if space is not None:
        columns = [name for name in source.names if name in space.columns]
    elif columns is None:
        fitted = getattr(arguments.models[0], "feature_names_in_", None)
        columns = source.names if fitted is None else match_column_names(fitted, source.names)
    return OnDiskRows(open_source(source, tuple(columns), None if cache is None else Path(cache), progress))


def _build_history(
    space: Space, past: RowStore, codes: EncodedTable, model_set: ModelSet, *, key: str | None, progress: bool | None
) -> tuple[History, BoolArray]:
    """The history under all versions of the model, and the outcomes by the model itself."""
    own, every, desired = (None if key is None else f"{key}-{which}" for which in ("own", "all", "desired"))
    outcomes = withstood = past.compute_outcomes(model_set.primary, codes, own, progress)
    if model_set.black_boxes != (model_set.primary,):
        withstood = past.compute_outcomes(model_set, codes, every, progress)
    return build_history(space, codes, withstood, past.take(codes, withstood, desired)), outcomes
