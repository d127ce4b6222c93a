"""What an explainer knows before it is asked anything: the space, the model in normal form, and the history.

``build_context`` reads the data and the model; what cannot be used is refused here, before any search.
``derive_context`` is for the same data and models over another space, with more constraints or with more values in its
domains: the outcomes of past rows stay, past rows that break a constraint are left out, and the model is read again.
The result is what a new explainer would know. ``decide_row`` turns a row into codes and says whether it has the desired
outcome.

**Domains.** A numeric feature may take any number from the smallest to the largest value where the model can be read
so far that all places are known at which it turns (:mod:`ironrule.model.intervals`); elsewhere the values seen are all
that is spoken of. ``DomainMode`` says what the user wants: "auto" takes intervals where they can be had, "interval"
refuses a model without them, "seen" takes the values alone.
"""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from ironrule.arrays import BoolArray, Int64Array, Points
from ironrule.backends.compiled_model import CompiledModel, compile_models, extend_compiled_model, reduce_tabulated
from ironrule.errors import ConstraintError, InputError, ModelError, TableError
from ironrule.explain.counterfactuals.readable_numbers import NumberGridCache
from ironrule.explain.options import as_list, parse_row
from ironrule.explain.roles import list_declared_constraints
from ironrule.explain.row_store import InMemoryRows, OnDiskRows, RowStore, RowTable, build_cache_key
from ironrule.model.blackbox import ModelSet, build_model_set, match_column_names
from ironrule.model.categories import (
    CategoryList,
    find_pandas_categories,
    match_categories,
    restore_pandas_categories,
)
from ironrule.model.decision import DecisionTarget
from ironrule.model.history import History, build_history, fingerprint_outcomes
from ironrule.model.intervals import Gaps, RefinedSpace, find_gaps, refine_space
from ironrule.model.population import Population
from ironrule.model.protocol import Model, NormalForm, Unreadable
from ironrule.model.read_model import list_member_reads, read_models
from ironrule.model.reduced_model import embed_model, lift_model
from ironrule.model.saved_model import ATTACH_HINT, SavedModel
from ironrule.results.scope import DomainSummary, remove_numbers, summarize_domains
from ironrule.rule.instance_components import ComponentCache
from ironrule.space.codes import EncodedTable
from ironrule.space.column_store.ingest import open_source
from ironrule.space.constraints.binding import bind_constraint
from ironrule.space.constraints.syntax import Constraint
from ironrule.space.domain import DomainMode
from ironrule.space.feature import Value
from ironrule.space.labels import NO_LABELS, Labels
from ironrule.space.reduced import ReducedSpace
from ironrule.space.roles import NO_GUESSES, Role, RoleGuesses
from ironrule.space.sources import as_source
from ironrule.space.space import Space, as_constraint
from ironrule.space.table import Table, parse_row_number, read_table
from ironrule.space.text_in_numbers import name_text_in_numbers

if TYPE_CHECKING:
    from ironrule.backends.network.engine import BoundEngine
    from ironrule.explain.query import ConfirmationQueue
    from ironrule.oracles.protocol import Oracle


CHECKED_ROWS = 4096
TRIED_BATCHES = 32  # of so many points, where there are no past rows


MAX_CACHED_CONTEXTS = 16


class ContextCache:
    """The contexts of the last few rows with new values, by these values. It is not copied along with its owner."""

    __slots__ = ("_contexts", "_lock")

    def __init__(self) -> None:
        self._contexts: OrderedDict[Any, ExplainerContext] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Any, make: Callable[[], ExplainerContext]) -> ExplainerContext:
        """The context under a key, made if it is not there."""
        with self._lock:
            if key in self._contexts:
                self._contexts.move_to_end(key)
                return self._contexts[key]
        made = make()
        with self._lock:
            self._contexts[key] = made
            if len(self._contexts) > MAX_CACHED_CONTEXTS:
                self._contexts.popitem(last=False)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return ContextCache, ()


class PopulationCache:
    """Which past rows are searched and which are measured, once that was needed. It is not copied along."""

    __slots__ = ("_lock", "_population")

    def __init__(self) -> None:
        self._population: Population | None = None
        self._lock = threading.Lock()

    def get(self, make: Callable[[], Population]) -> Population:
        """What is kept, made if it is not there."""
        with self._lock:
            if self._population is None:
                self._population = make()
            return self._population

    def __reduce__(self) -> tuple[Any, ...]:
        return PopulationCache, ()


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
    arguments: ExplainerArguments
    target: DecisionTarget
    row_numbers: Int64Array | None  # which rows of the table the history has; None if it has all
    engine: BoundEngine | None = None  # where networks are bounded, if not on the cores
    breakpoints: Mapping[str, tuple[Value, ...]] | None = None  # by interval, the numbers put between those seen
    gaps: Gaps | None = None  # the numbers between values, where these count; None where the values alone do
    obstacles: Mapping[str, str] = field(default_factory=dict)  # why a numeric feature is no interval, by its name
    narrowed: frozenset[str] = frozenset()  # intervals for the own outcome, and not for this target
    category_lists: Mapping[str, CategoryList] = field(default_factory=dict)  # of columns that are pandas categories
    black_box_oracle: Oracle | None = None  # asked where there is no exact one; None: the default
    extended_values: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)  # added to domains, for new rows
    inserted_numbers: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)  # the same inside intervals
    component_cache: ComponentCache = field(default_factory=ComponentCache, repr=False)
    row_contexts: ContextCache = field(default_factory=ContextCache, repr=False)  # of rows with new values
    extended: ContextCache = field(default_factory=ContextCache, repr=False)  # for searches in further features
    number_grids: NumberGridCache = field(default_factory=NumberGridCache, repr=False)  # of a model that is a sum
    role_guesses: RoleGuesses = NO_GUESSES
    guessed_roles: list[Mapping[str, Role]] = field(default_factory=list, repr=False)  # one entry, once they are needed
    population_cache: PopulationCache = field(default_factory=PopulationCache, repr=False)

    @property
    def domains(self) -> dict[str, DomainSummary]:
        """What every feature can take."""
        return summarize_domains(self.space)

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
        for number in numbers[(numbers < 0) | (numbers >= self.row_count)][:1]:
            parse_row_number(number, self.row_count)
        if self.row_numbers is None:
            return numbers
        places = np.minimum(np.searchsorted(self.row_numbers, numbers), len(self.row_numbers) - 1)
        left_out = numbers[self.row_numbers[places] != numbers]
        if len(left_out):
            raise ConstraintError(
                f"row {left_out[0]} does not satisfy the constraints on the space", code="row-violates-constraint"
            )
        return places

    @property
    def is_confirmed(self) -> bool:
        """Whether the user's own model is there to confirm what its reading says."""
        return not any(isinstance(model, SavedModel) for model in self.arguments.models)

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
    domain: DomainMode
    device: str | None
    oracle: Oracle | None = None  # for a model that can only be asked
    roles: Mapping[str, Role | str] = field(default_factory=dict)
    role_guesses: RoleGuesses = NO_GUESSES
    labels: Labels = NO_LABELS
    measure: Any = None  # rows to measure on: a mask over the data, or a table or source of other rows


def build_context(
    arguments: ExplainerArguments, data: Any, progress: bool | None, cache: str | Path | None = None, warn: bool = True
) -> ExplainerContext:
    """Read the data and the model; what cannot be used is refused here, before any search.

    ``warn``: whether there is a warning if past rows are left out.
    """
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
        breakpoints = _find_breakpoints(declared.without_constraints, whole, row_store.breakpoints)
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
    checked = _list_checked_points(seen, _filter_rows(seen, row_store, progress=False, warn=False)[0])
    domains = _refine_domains(arguments, seen, model_set, checked, table=table, inserted={})
    refined, gaps = domains.refined, domains.gaps
    if gaps is not None:
        model_set = build_model_set(models, table, refined.space, target)
    codes, row_numbers = _filter_rows(refined.space, row_store, progress, warn)
    exact = _read_exactly(
        models,
        model_set,
        refined.space,
        codes,
        target=target,
        engine=engine,
        gaps=gaps,
        changing=declared.change_constraints,
        known=domains.normal_forms,
    )
    if gaps is not None and exact.unreadable_reason is not None:
        # Only values can be asked about, so the rules are about these alone.
        _require_intervals(arguments, exact.unreadable_reason)
        refined, gaps = _keep_seen_values(seen, exact.unreadable_reason), None
        model_set = build_model_set(models, table, seen, target)
        codes, row_numbers = _filter_rows(seen, row_store, progress, warn=False)
        exact = _build_unreadable(exact.unreadable_reason, model_set, seen)
    return PreparedModel(refined, gaps is not None, model_set, codes, row_numbers, exact)


def fingerprint_model(history: History, compiled_model: CompiledModel | None) -> str:
    """A model by what it decides on past rows, which needs no reading of it, and behind that by its structure."""
    decisions = fingerprint_outcomes(history.codes, history.outcomes)
    return decisions if compiled_model is None else f"{decisions}-{compiled_model.fingerprint[:31]}"


def _find_breakpoints(
    seen: Space, whole: Space, earlier: Mapping[str, tuple[Value, ...]]
) -> Mapping[str, tuple[Value, ...]]:
    """By interval, the numbers in its domain that no past row has."""
    pairs = zip(seen.features, whole.features, strict=True)
    added = {
        new.name: {*new.values} - {*old.values} | {*earlier.get(new.name, ())} for old, new in pairs if new.interval
    }
    return {name: tuple(sorted(numbers)) for name, numbers in added.items()}


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


class RefinedDomains(NamedTuple):
    """A space with its intervals and what their domains leave out (None where there are no intervals); and the models'
    normal forms, in the order of :func:`read_models`, where they were read on the way.
    """

    refined: RefinedSpace
    gaps: Gaps | None
    normal_forms: Sequence[NormalForm] = ()


def _refine_domains(
    arguments: ExplainerArguments,
    space: Space,
    model_set: ModelSet,
    checked: Points,
    *,
    table: Table,
    inserted: Mapping[str, Sequence[Value]],
    known: Sequence[NormalForm] = (),
) -> RefinedDomains:
    """The intervals of a space; ``known`` has the models' normal forms, where they were read before."""
    if arguments.domain == "seen":
        return RefinedDomains(RefinedSpace(space, {}), None)
    try:
        each = read_models(arguments.models, model_set, space, checked, arguments.target, known=known)
        reads = [read for _, read in each]
        members = [one for pair in each for one in list_member_reads(*pair)]
        joint = [read for read in reads if read.members]
        refined = refine_space(space, [model for model, _ in members], [read for _, read in members], table, joint)
    except Unreadable as reason:
        _require_intervals(arguments, str(reason))
        return RefinedDomains(_keep_seen_values(space, str(reason)), None)
    normal_forms = [read.normal_form for read in reads]
    for name, obstacle in refined.obstacles.items():
        if space[name].interval is not False:
            _require_intervals(arguments, f"{name!r}: {obstacle}")
    if not any(feature.interval for feature in refined.space.features):
        return RefinedDomains(refined, None, normal_forms)
    refined = replace(refined, space=refined.space.add_values(inserted))
    return RefinedDomains(refined, find_gaps(refined.space, reads), normal_forms)


def _keep_seen_values(space: Space, reason: str) -> RefinedSpace:
    """The space as it is, with the reason why none of its numbers is an interval."""
    return RefinedSpace(space, {feature.name: reason for feature in space.features if feature.can_be_interval})


def _require_intervals(arguments: ExplainerArguments, reason: str) -> None:
    """Raise ModelError if the user insists on intervals."""
    if arguments.domain == "interval":
        raise ModelError(
            f"whole intervals are not available for this model: {reason}",
            hint='pass domain="auto" for intervals where they can be had, or domain="seen"',
            code="intervals-unavailable",
        )


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
    known: Sequence[NormalForm] = (),
) -> ExactReading:
    """Read and compile the models for exact search, if they can be read; ``known`` has their normal forms."""
    past = _list_checked_points(space, codes)
    try:
        also = {j for constraint in changing for j in bind_constraint(constraint, space.features).columns}
        compiled = compile_models(models, model_set, space, past, target, also=also, known=known)
        reduced_gaps = _find_reduced_gaps(compiled, gaps is not None)
        return build_exact_reading(compiled, model_set, past[0], engine=engine, gaps=reduced_gaps)
    except Unreadable as reason:
        return _build_unreadable(str(reason), model_set, space)


def _build_unreadable(reason: str, model_set: ModelSet, space: Space) -> ExactReading:
    """What is known of models that can only be asked."""
    return ExactReading(None, reason, None, model_set, ReducedSpace(space, space, np.arange(len(space))), None)


def _find_reduced_gaps(compiled: CompiledModel, has_gaps: bool) -> Gaps | None:
    """The gaps of the features that searches work on."""
    if not has_gaps:
        return None
    return find_gaps(compiled.reduced.space, [reduce_tabulated(read, compiled.reduced) for read in compiled.reads])


def build_exact_reading(
    compiled: CompiledModel, model_set: ModelSet, row: Points, *, engine: BoundEngine | None, gaps: Gaps | None
) -> ExactReading:
    """The exact oracle of a compiled model; raises Unreadable if the model is found to decide otherwise.

    ``row`` is any row: what it has of features that the model does not use stands for all of their values.
    """
    from ironrule.backends.registry import build_exact_oracle

    reduced = compiled.reduced
    oracle = build_exact_oracle(compiled.parts, embed_model(model_set, reduced, row), reduced.space, engine, gaps)
    known = oracle.capabilities.point_model or compiled.final_estimator
    point_model: Model = model_set if known is None else lift_model(known, reduced)
    return ExactReading(compiled, None, oracle, point_model, reduced, gaps)


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
    row = _list_checked_points(context.space, context.history.codes)[0]
    exact = build_exact_reading(
        compiled, context.model, row, engine=context.engine, gaps=_find_reduced_gaps(compiled, context.gaps is not None)
    )
    return replace(
        context,
        search_history=context.history.reduce(compiled.reduced),
        row_contexts=ContextCache(),
        extended=ContextCache(),
        **exact._replace(point_model=context.point_model)._asdict(),
    )


def require_model(context: ExplainerContext, wanted: str) -> None:
    """Raise ModelError if the user's own model is not there, which is needed for something."""
    if not context.is_confirmed:
        statement = f"{wanted} needs the model itself, and this explainer was loaded without it"
        raise ModelError(statement, hint=ATTACH_HINT, code="model-required")


def raise_without_rows(wanted: str) -> NoReturn:
    """Raise InputError about what an explainer cannot do that was saved without its past rows."""
    raise InputError(
        expected="an explainer must have past rows for this",
        got=f"{wanted}, from one that was saved without them",
        hint="load one that was saved with history=True; a row can also be given by its values",
        code="no-past-rows-saved",
    )


def _list_checked_points(space: Space, codes: EncodedTable) -> Points:
    """Past rows; where there are none, points that satisfy the constraints, or a ConstraintError if none is found."""
    if len(codes):
        return codes.points(slice(0, CHECKED_ROWS))
    rng = np.random.default_rng(0)
    for _ in range(TRIED_BATCHES):
        points = rng.integers(0, space.sizes, size=(CHECKED_ROWS, len(space)), dtype=np.int32)
        possible = points[space.feasible.admits(points)]
        if len(possible):
            return possible
    raise ConstraintError("no point that satisfies the constraints on the space was found", code="no-past-rows")


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


def restrict_context(context: ExplainerContext, more: Sequence[Constraint]) -> ExplainerContext:
    """The same under further constraints; raises ConstraintError if no past row satisfies them."""
    arguments = replace(context.arguments, constraints=(*context.arguments.constraints, *more))
    space = list_seen_values(context)
    restricted = derive_context(
        replace(context, arguments=arguments), replace(space, constraints=(*space.constraints, *more))
    )
    return replace(restricted, population_cache=PopulationCache())


def list_seen_values(context: ExplainerContext) -> Space:
    """The space without the numbers that were put between the values seen."""
    return remove_numbers(context.space, context.breakpoints or {})


def derive_context(
    context: ExplainerContext, space: Space, inserted: Mapping[str, Sequence[Value]] | None = None
) -> ExplainerContext:
    """The same data and models over another space of values seen: with more constraints, or with more values.

    ``inserted`` has further numbers for some intervals. Raises ConstraintError if no past row satisfies the
    constraints.
    """
    arguments, history = context.arguments, context.history
    models, target = arguments.models, arguments.target
    gaps, obstacles, seen, known = context.gaps, context.obstacles, space, _list_normal_forms(context)
    if gaps is not None:  # numbers that constraints name, and turns beyond the old ends, join the domains
        model_set = build_model_set(models, context.table, seen, target)
        checked = _list_checked_points(seen, history.codes.recode(context.space.features, space.features))
        domains = _refine_domains(
            arguments, space, model_set, checked, table=context.table, inserted=inserted or {}, known=known
        )
        space, gaps, obstacles = domains.refined.space, domains.gaps, domains.refined.obstacles
    same_features = space.features == context.space.features
    model_set = context.model if same_features else build_model_set(models, context.table, space, target)
    codes = history.codes.recode(context.space.features, space.features)
    desired = history.desired.recode(context.space.features, space.features)
    outcomes, withstood, row_numbers = context.outcomes, history.outcomes, context.row_numbers
    kept = _find_satisfying_rows(space, codes) if space.feasible.predicates else np.ones(len(codes), dtype=np.bool_)
    if not kept.all():
        codes = _take_rows(context, codes, kept, space.fingerprint[:32])
        outcomes, withstood = outcomes[kept], withstood[kept]
        desired = _take_rows(context, codes, withstood, None)
        row_numbers = context.get_row_numbers(np.flatnonzero(kept))
    changing = context.change_constraints
    exact = _read_exactly(
        models,
        model_set,
        space,
        codes,
        target=target,
        engine=context.engine,
        gaps=gaps,
        changing=changing,
        known=known,
    )
    if gaps is not None and exact.unreadable_reason is not None:
        raise ModelError(
            f"the model can be read, but not over these values: {exact.unreadable_reason}",
            hint='pass domain="seen"',
            code="intervals-unavailable",
        )
    history = build_history(space, codes, withstood, desired)
    return replace(
        context,
        space=space,
        search_history=history.reduce(exact.reduced),
        model=model_set,
        history=history,
        outcomes=outcomes,
        **exact._asdict(),
        fingerprint=fingerprint_model(history, exact.compiled_model),
        row_numbers=row_numbers,
        breakpoints=None if gaps is None else _find_breakpoints(seen, space, {}),
        obstacles=obstacles,
        component_cache=ComponentCache(),
        row_contexts=ContextCache(),
        extended=ContextCache(),
        guessed_roles=[],
    )


def _list_normal_forms(context: ExplainerContext) -> list[NormalForm]:
    """The models' normal forms, in the order of :func:`read_models`; none if they were not read."""
    if context.compiled_model is None:
        return []
    reads = context.compiled_model.reads
    return [read.normal_form for read in (reads if context.target.margin else reads[:-1])]


def _find_satisfying_rows(space: Space, codes: EncodedTable) -> BoolArray:
    """Which past rows satisfy the constraints on the space; raises ConstraintError if none does, of rows that are
    there.
    """
    kept = space.feasible.admits_rows(codes)
    if not kept.any() and len(codes):
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


def read_row(context: ExplainerContext, row: Any) -> Mapping[str, Value]:
    """A row in any of the usual forms, as a mapping from column to value; a value that stands for a category of the
    model is that category.
    """
    values = parse_row(row, context.table, context.model.primary.layout.names)
    lists = context.category_lists
    return values if lists.keys().isdisjoint(values) else match_categories(lists, values)


def decide_row(context: ExplainerContext, row: Any) -> tuple[Points, bool]:
    """A row as codes, and whether its outcome is the desired one; of a past row both are known."""
    if isinstance(row, EncodedRow):
        return row.codes, False
    by_number = isinstance(row, (int, np.integer)) and not isinstance(row, bool)
    if by_number and (context.row_numbers is None or not isinstance(context.row_store, InMemoryRows)):
        number = parse_row_number(row, context.row_count)
        place = int(context.find_positions(np.array([number], dtype=np.int64))[0])
        return context.history.codes.row(place), bool(context.outcomes[place])
    values = read_row(context, row)
    instance = context.space.encode_row(values, ignore=context.table.names)
    for one in context.space.feasible.predicates:
        if not one(instance[None, :], None)[0]:
            raise ConstraintError(f"the row does not satisfy {str(one.constraint)!r}", code="row-violates-constraint")
    decides = context.model.primary if context.is_robust else context.point_model
    return instance, bool(decides.desired(instance[None, :])[0])
