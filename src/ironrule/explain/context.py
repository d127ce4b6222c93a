"""What an explainer knows before it is asked anything: the space, the model in normal form, and the history.

:mod:`ironrule.explain.prepare` makes an ``ExplainerContext`` of models and data, and derives others from it.
``decide_row`` turns a row into codes and says whether it has the desired outcome.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ironrule.arrays import BoolArray, Int64Array, Points
from ironrule.backends.compiled_model import CompiledModel
from ironrule.errors import ConstraintError, InputError, ModelError
from ironrule.explain.counterfactuals.readable_numbers import NumberGridCache
from ironrule.explain.options import parse_row
from ironrule.explain.row_store import InMemoryRows, RowTable
from ironrule.model.blackbox import ModelSet
from ironrule.model.categories import CategoryList, match_categories
from ironrule.model.decision import DecisionTarget
from ironrule.model.history import History
from ironrule.model.intervals import Gaps
from ironrule.model.population import Population
from ironrule.model.protocol import Model
from ironrule.model.saved_model import ATTACH_HINT, SavedModel
from ironrule.results.scope import DomainSummary, remove_numbers, summarize_domains
from ironrule.rule.instance_components import ComponentCache
from ironrule.space.constraints.syntax import Constraint
from ironrule.space.domain import DomainMode
from ironrule.space.feature import Value
from ironrule.space.labels import NO_LABELS, Labels
from ironrule.space.reduced import ReducedSpace
from ironrule.space.roles import NO_GUESSES, Role, RoleGuesses
from ironrule.space.space import Space
from ironrule.space.table import Table, parse_row_number

if TYPE_CHECKING:
    from ironrule.backends.network.engine import BoundEngine
    from ironrule.explain.query import ConfirmationQueue
    from ironrule.oracles.protocol import Oracle

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


def list_seen_values(context: ExplainerContext) -> Space:
    """The space without the numbers that were put between the values seen."""
    return remove_numbers(context.space, context.breakpoints or {})


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
