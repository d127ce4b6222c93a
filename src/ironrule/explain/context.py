"""What an explainer knows before it is asked anything: the space, the model in normal form, and the history.

``build_context`` reads the data and the model; what cannot be used is refused here, before any search.
``restrict_context`` adds constraints on what can occur: data, domains and the outcomes of past rows stay, past rows
that break a constraint are left out, and the model is read again, since the constraints are part of what the exact
oracle works on. The result is what a new explainer with all constraints would know. ``decide_row`` turns a row into
codes and says whether it has the desired outcome.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ironrule.arrays import BoolArray, Int64Array, Points
from ironrule.backends.compiled_model import CompiledModel, compile_models, extend_compiled_model, reduce_tabulated
from ironrule.errors import ConstraintError, InputError, ModelError, TableError
from ironrule.explain.options import as_list, parse_row
from ironrule.explain.row_store import InMemoryRows, OnDiskRows, RowStore, RowTable, build_cache_key
from ironrule.model.blackbox import ModelSet, build_model_set, match_column_names
from ironrule.model.decision import DecisionTarget
from ironrule.model.history import History, build_history, fingerprint_outcomes
from ironrule.model.intervals import Gaps, find_gaps, refine_space
from ironrule.model.protocol import Model, Unreadable
from ironrule.model.read_model import read_models
from ironrule.model.reduced_model import embed_model, lift_model
from ironrule.rule.instance_components import ComponentCache
from ironrule.space.codes import EncodedTable
from ironrule.space.column_store.ingest import open_source
from ironrule.space.constraints.binding import bind_constraint
from ironrule.space.constraints.syntax import Constraint
from ironrule.space.feature import Value
from ironrule.space.reduced import ReducedSpace
from ironrule.space.sources import as_source
from ironrule.space.space import Space, as_constraint
from ironrule.space.table import Table, read_table
from ironrule.wording import format_count

if TYPE_CHECKING:
    from ironrule.backends.network.engine import BoundEngine
    from ironrule.explain.query import ConfirmationQueue
    from ironrule.oracles.protocol import Oracle


CHECKED_ROWS = 4096


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ExplainerContext:
    """Everything about a model and its data that stays the same from row to row."""

    space: Space
    reduced: ReducedSpace  # the features that searches work on; oracle, compiled model and gaps are of these
    search_history: History  # the history in these features
    model: ModelSet
    history: History
    outcomes: BoolArray  # of the past rows, by the model itself
    row_store: RowTable
    row_count: int  # how many rows the data has, those that the history leaves out included
    change_constraints: tuple[Constraint, ...]
    compiled_model: CompiledModel | None  # what the exact oracle works on, if there is one
    unreadable_reason: str | None  # why there is none
    oracle: Oracle | None  # the exact oracle, if there is one
    point_model: Model  # decides single points: the models, a final estimator, or a tree whose leaves they confirmed
    fingerprint: str
    target: DecisionTarget
    row_numbers: Int64Array | None  # which rows of the table the history has; None if it has all
    engine: BoundEngine | None = None  # where networks are bounded, if not on the cores
    breakpoints: Mapping[str, tuple[Value, ...]] | None = None  # with intervals, the numbers put between those seen
    gaps: Gaps | None = None  # the numbers between values, where these count; None where the values alone do
    black_box_oracle: Oracle | None = None  # asked where there is no exact one; None: the default
    component_cache: ComponentCache = field(default_factory=ComponentCache, repr=False)
    extended: dict[tuple[int, ...], ExplainerContext] = field(default_factory=dict, repr=False)  # by features

    @property
    def table(self) -> Table:
        """A table of the data's columns: all rows, or a few where they are on disk."""
        return self.row_store.table

    @property
    def unused_features(self) -> tuple[str, ...]:
        """The features that a model that was read never uses."""
        if self.compiled_model is None:
            return ()
        used = self.compiled_model.used_features
        return tuple(name for j, name in enumerate(self.space.names) if j not in used)

    def get_row_numbers(self, places: Int64Array) -> Int64Array:
        """The row numbers in the data of rows of the history."""
        return places if self.row_numbers is None else self.row_numbers[places]

    def find_positions(self, numbers: Int64Array) -> Int64Array:
        """Where in the history rows of the data are; raises an InputError if one is not there."""
        total = self.row_count
        wrong = numbers[(numbers < -total) | (numbers >= total)]
        if len(wrong):
            expected = f"the row number must be between {-total} and {total - 1} ({format_count(total, 'row')})"
            raise TableError(expected=expected, got=wrong[0])
        counted = np.where(numbers < 0, numbers + total, numbers)
        if self.row_numbers is None:
            return counted
        places = np.minimum(np.searchsorted(self.row_numbers, counted), len(self.row_numbers) - 1)
        left_out = counted[self.row_numbers[places] != counted]
        if len(left_out):
            raise ConstraintError(
                f"row {left_out[0]} does not satisfy the constraints on the space", code="row-violates-constraint"
            )
        return places

    @property
    def is_robust(self) -> bool:
        """Whether rules must hold for more than the model as it is."""
        return self.model.black_boxes != (self.model.primary,)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ExplainerArguments:
    """What an explainer was made of, the data aside."""

    models: tuple[Any, ...]
    target: DecisionTarget
    space: Space | None
    constraints: tuple[str | Constraint, ...]
    columns: Sequence[str] | None
    intervals: bool
    device: str | None
    oracle: Oracle | None = None  # for a model that can only be asked


def build_context(
    arguments: ExplainerArguments, data: Any, progress: bool | None, cache: str | Path | None = None, warn: bool = True
) -> ExplainerContext:
    """Read the data and the model; what cannot be used is refused here, before any search.

    ``warn``: whether there is a warning if past rows are left out.
    """
    models, target, space = arguments.models, arguments.target, arguments.space
    engine = None
    if arguments.device is not None:
        from ironrule.backends.network.engine import choose_engine

        engine = choose_engine(arguments.device)
    if space is not None and not isinstance(space, Space):
        raise InputError(expected="space must be a Space, such as Space.from_file returns", got=type(space).__name__)
    row_store = _open_rows(arguments, data, cache, progress)
    parsed = tuple(as_constraint(constraint) for constraint in as_list(arguments.constraints))
    change_constraints = tuple(constraint for constraint in parsed if constraint.mentions_instance)
    if space is None:
        columns = arguments.columns
        chosen = columns if columns is not None else _find_model_columns(models[0], row_store.table)
        space = Space.infer(row_store.table, columns=chosen, progress=progress)
    on_space = tuple(constraint for constraint in parsed if not constraint.mentions_instance)
    whole = replace(space, constraints=(*space.constraints, *on_space))
    for constraint in change_constraints:
        bind_constraint(constraint, whole.features)
    if isinstance(row_store, OnDiskRows):
        row_store.encode(whole, progress)  # first of all: a value of any row that does not fit is refused here
    model_set, gaps = build_model_set(models, row_store.table, whole, target), None
    if arguments.intervals:
        whole, gaps = _extend_to_intervals(whole, models, model_set, row_store, target)
        model_set = build_model_set(models, row_store.table, whole, target)
    codes, row_numbers = _filter_rows(whole, row_store, progress, warn)
    exact = _read_exactly(
        models, model_set, whole, codes, target=target, engine=engine, gaps=gaps, changing=change_constraints
    )
    why = exact.unreadable_reason
    if gaps is not None and why is not None:
        raise ModelError(f"whole intervals need a model that can be read: {why}", code="intervals-unavailable")
    cache_key = None
    if not isinstance(row_store, InMemoryRows):
        model_hash = None if exact.compiled_model is None else exact.compiled_model.fingerprint
        cache_key = build_cache_key(models, model_hash, whole, target)
    history, outcomes = _build_history(whole, row_store, codes, model_set, key=cache_key, progress=progress)
    return ExplainerContext(
        space=whole,
        search_history=history.reduce(exact.reduced),
        model=model_set,
        history=history,
        outcomes=outcomes,
        row_store=row_store,
        row_count=len(row_store),
        change_constraints=change_constraints,
        **exact._asdict(),
        fingerprint=_fingerprint_model(history, exact.compiled_model),
        target=target,
        row_numbers=row_numbers,
        engine=engine,
        breakpoints=_find_breakpoints(space, whole, row_store) if arguments.intervals else None,
        black_box_oracle=arguments.oracle,
    )


def _fingerprint_model(history: History, compiled_model: CompiledModel | None) -> str:
    """A model by what it decides on past rows, which needs no reading of it, and behind that by its structure."""
    decisions = fingerprint_outcomes(history)[:32]  # so that both together are as long as a SHA-256
    return decisions if compiled_model is None else f"{decisions}-{compiled_model.fingerprint[:31]}"


def _find_breakpoints(seen: Space, whole: Space, past: RowStore) -> Mapping[str, tuple[Value, ...]]:
    """The numbers that are in domains although no past row has them."""
    added = {
        new.name: {*new.values} - {*old.values} | {*past.breakpoints.get(new.name, ())}
        for old, new in zip(seen.features, whole.features, strict=True)
    }
    return {name: tuple(sorted(numbers)) for name, numbers in added.items() if numbers}


def _open_rows(arguments: ExplainerArguments, data: Any, cache: str | Path | None, progress: bool | None) -> RowStore:
    """The data as past rows: a table as it is, a source read into a cache, past rows as they are."""
    if hasattr(type(data), "encode") and hasattr(type(data), "row_numbers"):
        row_store: RowStore = data
        return row_store
    source, space, columns = as_source(data), arguments.space, arguments.columns
    if source is None:
        if cache is not None:
            raise InputError(expected="a cache needs data from files or a database", got="a table in memory")
        names = space.columns if space is not None and isinstance(data, np.ndarray) else None
        return InMemoryRows(read_table(data, names))
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


def _extend_to_intervals(
    space: Space, models: Sequence[Any], model_set: ModelSet, past: RowStore, target: DecisionTarget
) -> tuple[Space, Gaps]:
    """The space of whole intervals, and what its domains leave out."""
    checked = _filter_rows(space, past, progress=False, warn=False)[0].points(slice(0, CHECKED_ROWS))
    try:
        each = read_models(models, model_set, space, checked, target)
        reads = [read for _, read in each]
        refined = refine_space(space, [model for model, _ in each], reads, past.table)
        return refined, find_gaps(refined, reads)
    except Unreadable as reason:
        raise ModelError(
            f"whole intervals need a model whose thresholds can be read: {reason}", code="intervals-unavailable"
        ) from None


class ExactReading(NamedTuple):
    """What could be read of a model, or why nothing; its exact oracle; and who decides single points."""

    compiled_model: CompiledModel | None
    unreadable_reason: str | None
    oracle: Oracle | None
    point_model: Model
    reduced: ReducedSpace
    gaps: Gaps | None


def _read_exactly(
    models: Sequence[Any],
    model_set: ModelSet,
    space: Space,
    codes: EncodedTable,
    *,
    target: DecisionTarget,
    engine: BoundEngine | None,
    gaps: Gaps | None = None,
    changing: Sequence[Constraint] = (),
) -> ExactReading:
    """Read and compile the models for exact search, if they can be read."""
    past = codes.points(slice(0, CHECKED_ROWS))
    try:
        also = {j for constraint in changing for j in bind_constraint(constraint, space.features).columns}
        compiled = compile_models(models, model_set, space, past, target, also=also)
        return _build_exact_reading(compiled, model_set, past[0], engine=engine, has_gaps=gaps is not None)
    except Unreadable as reason:
        return ExactReading(None, str(reason), None, model_set, ReducedSpace(space, space, np.arange(len(space))), gaps)


def _build_exact_reading(
    compiled: CompiledModel, model_set: ModelSet, row: Points, *, engine: BoundEngine | None, has_gaps: bool
) -> ExactReading:
    """The exact oracle of a compiled model; raises Unreadable if the model is found to decide otherwise."""
    from ironrule.backends.registry import build_exact_oracle

    reduced = compiled.reduced
    reads = [reduce_tabulated(read, reduced) for read in compiled.reads]
    gaps = find_gaps(reduced.space, reads) if has_gaps else None
    asked = embed_model(model_set, reduced, row)
    oracle = build_exact_oracle(compiled.parts, asked, reduced.space, engine, gaps)
    known = oracle.capabilities.point_model or compiled.final_estimator
    point_model: Model = model_set if known is None else lift_model(known, reduced)
    return ExactReading(compiled, None, oracle, point_model, reduced, gaps)


def extend_context(context: ExplainerContext, names: Iterable[str]) -> ExplainerContext:
    """The same for searches that also speak of further features; raises SpaceError if one is unknown."""
    missing = {context.space.index(name) for name in names}.difference(context.reduced.kept.tolist())
    if not missing:
        return context
    assert context.compiled_model is not None  # or no feature is left out
    key = tuple(sorted(missing))
    if key not in context.extended:
        compiled, row = extend_compiled_model(context.compiled_model, missing), context.history.codes.row(0)
        has_gaps = context.gaps is not None
        exact = _build_exact_reading(compiled, context.model, row, engine=context.engine, has_gaps=has_gaps)
        exact = exact._replace(point_model=context.point_model)
        history = context.history.reduce(compiled.reduced)
        context.extended[key] = replace(context, search_history=history, extended={}, **exact._asdict())
    return context.extended[key]


def _find_model_columns(model: Any, table: Table) -> tuple[str, ...] | None:
    """The columns that a model was fitted on, where it says so; other columns, such as the target, are left alone."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return None
    chosen = match_column_names(names, table.names)
    absent = [name for name in chosen if name not in table.names]
    if absent:
        expected = f"the data must have the model's column {absent[0]!r}"
        raise TableError(expected=expected, got=f"columns {', '.join(table.names)}", code="missing-columns")
    return chosen


def _filter_rows(
    space: Space, past: RowStore, progress: bool | None, warn: bool
) -> tuple[EncodedTable, Int64Array | None]:
    """The past rows that satisfy the constraints on the space, and which they are; None if all may."""
    codes = past.encode(space, progress)
    if not space.feasible.predicates:
        return codes, past.row_numbers
    kept = _find_satisfying_rows(space, codes)
    if warn and not kept.all():
        text = f"{(~kept).sum()} of {len(kept)} past rows break the constraints on the space and are left out"
        warnings.warn(text, stacklevel=4)
    rows = np.flatnonzero(kept)
    return past.take(codes, kept, space.fingerprint[:32]), rows if past.row_numbers is None else past.row_numbers[rows]


def restrict_context(context: ExplainerContext, models: Sequence[Any], more: Sequence[Constraint]) -> ExplainerContext:
    """The same under further constraints; raises ConstraintError if no past row satisfies them."""
    space = replace(context.space, constraints=(*context.space.constraints, *more))
    kept = _find_satisfying_rows(space, context.history.codes)
    codes = _take_rows(context, context.history.codes, kept, space.fingerprint[:32])
    withstood = context.history.outcomes[kept]
    changing = context.change_constraints
    exact = _read_exactly(
        models, context.model, space, codes, target=context.target, engine=context.engine, changing=changing
    )
    history = build_history(space, codes, withstood, _take_rows(context, codes, withstood, None))
    return replace(
        context,
        space=space,
        search_history=history.reduce(exact.reduced),
        history=history,
        outcomes=context.outcomes[kept],
        **exact._asdict(),
        fingerprint=_fingerprint_model(history, exact.compiled_model),
        row_numbers=context.get_row_numbers(np.flatnonzero(kept)),
        component_cache=ComponentCache(),
        extended={},
    )


def _find_satisfying_rows(space: Space, codes: EncodedTable) -> BoolArray:
    """Which past rows satisfy the constraints on the space; raises ConstraintError if none does."""
    kept = space.feasible.admits_rows(codes)
    if not kept.any():
        raise ConstraintError("no past row satisfies the constraints on the space", code="no-past-rows")
    return kept


def _take_rows(context: ExplainerContext, codes: EncodedTable, rows: BoolArray, name: str | None) -> EncodedTable:
    """The chosen rows; those of a source stay on disk."""
    store = context.row_store
    return store.take(codes, rows, name) if isinstance(store, (InMemoryRows, OnDiskRows)) else codes.take(rows)


@dataclass(frozen=True, slots=True, eq=False)
class EncodedRow:
    """A row as codes that is known to have the undesired outcome and to satisfy the constraints.

    With ``confirmations``, what is found is added there, so that several such rows can be confirmed at once.
    """

    codes: Points
    confirmations: ConfirmationQueue | None = None


def decide_row(context: ExplainerContext, row: Any) -> tuple[Points, bool]:
    """A row as codes, and whether its outcome is the desired one; of a past row both are known."""
    if isinstance(row, EncodedRow):
        return row.codes, False
    by_number = isinstance(row, (int, np.integer)) and not isinstance(row, bool)
    if by_number and (context.row_numbers is None or not isinstance(context.row_store, InMemoryRows)):
        place = int(context.find_positions(np.array([row], dtype=np.int64))[0])
        return context.history.codes.row(place), bool(context.outcomes[place])
    values = parse_row(row, context.table, context.model.primary.layout.names)
    instance = context.space.encode_row(values, ignore=context.table.names)
    for one in context.space.feasible.predicates:
        if not one(instance[None, :], None)[0]:
            raise ConstraintError(f"the row does not satisfy {str(one.constraint)!r}", code="row-violates-constraint")
    decides = context.model.primary if context.is_robust else context.point_model
    return instance, bool(decides.desired(instance[None, :])[0])
