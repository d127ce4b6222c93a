"""What an explainer knows before it is asked anything: the space, the model in normal form, and the history."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ironrule.counting import counted
from ironrule.errors import ConstraintError, InputError, ModelError, TableError
from ironrule.explain.arguments import as_list
from ironrule.explain.past import Counted, InMemory, OnDisk, Past, name_of
from ironrule.model import (
    Gaps,
    History,
    Model,
    Readable,
    Unreadable,
    Versions,
    Wanted,
    ask_versions,
    behaviour,
    between,
    gaps_of,
    history_of,
    names_in_data,
    read_each,
    read_versions,
)
from ironrule.rule.named import Named
from ironrule.space import Codes, Constraint, Points, Space, Table, Value, as_constraint, bind, read_table
from ironrule.space.sources import as_source
from ironrule.space.streamed import open_source

if TYPE_CHECKING:
    from ironrule.oracles import Oracle
    from ironrule.oracles.leaves import Leaves
    from ironrule.oracles.net_engine import Engine

PAST_CHECKED = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """Everything about a model and its data that stays the same from row to row."""

    space: Space
    model: Versions
    history: History
    outcomes: npt.NDArray[np.bool_]  # of the past rows, by the model itself
    past: Counted
    recourse: tuple[Constraint, ...]
    exact: Readable | str  # what the exact oracle works on, or why there is none
    oracle: Oracle | None  # the exact oracle, if there is one
    word: Model  # who decides single points: the models, a final estimator, or a tree whose leaves they have confirmed
    fingerprint: str
    wanted: Wanted
    rows: npt.NDArray[np.int64] | None  # which rows of the table the history has; None if it has all
    engine: Engine | None = None  # where networks are bounded, if not on the cores
    breakpoints: Mapping[str, tuple[Value, ...]] | None = None  # with intervals, the numbers put between those seen
    gaps: Gaps | None = None  # the numbers between values, where these count; None where the values alone do
    named: Named = field(default_factory=Named, repr=False)

    @property
    def table(self) -> Table:
        """A table of the data's columns: all rows, or a few where they are on disk."""
        return self.past.table

    def numbers_of(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The row numbers in the data of rows of the history."""
        return places if self.rows is None else self.rows[places]

    def places_of(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Where in the history rows of the data are; raises an InputError if one is not there."""
        total = len(self.past)
        wrong = numbers[(numbers < -total) | (numbers >= total)]
        if len(wrong):
            raise TableError(
                expected=f"the row number must be between {-total} and {total - 1} ({counted(total, 'row')})",
                got=wrong[0],
            )
        wanted = np.where(numbers < 0, numbers + total, numbers)
        if self.rows is None:
            return wanted
        places = np.minimum(np.searchsorted(self.rows, wanted), len(self.rows) - 1)
        left_out = wanted[self.rows[places] != wanted]
        if len(left_out):
            raise ConstraintError(
                f"row {left_out[0]} does not satisfy the constraints on the space", code="row-violates-constraint"
            )
        return places

    def row_of(self, past: int) -> int:
        """The number in the table of a row of the history."""
        return past if self.rows is None else int(self.rows[past])

    @property
    def leaves(self) -> Leaves | None:
        """The leaves of the model itself, where it is a single tree."""
        from ironrule.oracles.leaves import Leaves

        return self.oracle if isinstance(self.oracle, Leaves) and not self.withstands else None

    @property
    def withstands(self) -> bool:
        """Whether rules must hold for more than the model as it is."""
        return self.model.boxes != (self.model.own,)


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """What an explainer was made of, the data aside."""

    models: tuple[Any, ...]
    wanted: Wanted
    space: Space | None
    constraints: tuple[str | Constraint, ...]
    columns: Sequence[str] | None
    intervals: bool
    device: str | None

    def prepared(self, data: Any, progress: bool | None, cache: str | Path | None, quiet: bool = False) -> Prepared:
        """All that with data; if ``quiet``, without a warning of rows that are left out."""
        given = (self.wanted, self.space, self.constraints, self.columns, self.intervals)
        return prepare(self.models, data, *given, progress, self.device, cache, quiet)


def prepare(
    models: Sequence[Any],
    data: Any,
    wanted: Wanted,
    space: Space | None,
    constraints: Sequence[str | Constraint],
    columns: Sequence[str] | None,
    intervals: bool,
    progress: bool | None,
    device: str | None = None,
    cache: str | Path | None = None,
    quiet: bool = False,
) -> Prepared:
    """Read the data and the model; what cannot be used is refused here, before any search."""
    engine = None if device is None else _engine(device)
    if space is not None and not isinstance(space, Space):
        raise InputError(expected="space must be a Space, such as Space.from_file returns", got=type(space).__name__)
    past = _past(models[0], data, space, columns, cache, progress)
    texts = tuple(as_constraint(constraint) for constraint in as_list(constraints))
    recourse = tuple(constraint for constraint in texts if constraint.mentions_instance)
    inferred = space
    if inferred is None:
        chosen = columns if columns is not None else _columns_of(models[0], past.table)
        inferred = Space.infer(past.table, columns=chosen, progress=progress)
    on_space = tuple(constraint for constraint in texts if not constraint.mentions_instance)
    whole = replace(inferred, constraints=(*inferred.constraints, *on_space))
    for constraint in recourse:
        bind(constraint, whole.features)
    if isinstance(past, OnDisk):
        past.encode(whole, progress)  # first of all: values that do not fit are told of all rows, and codes are kept
    asked, gaps = ask_versions(models, past.table, whole, wanted), None
    if intervals:
        whole, gaps = _with_intervals(whole, models, asked, past, wanted)
        asked = ask_versions(models, past.table, whole, wanted)
    kept, rows = _occurring(whole, past, progress, quiet)
    exact, oracle, word = read_exactly(models, asked, whole, kept.points(slice(0, PAST_CHECKED)), wanted, engine)
    if gaps is not None and isinstance(exact, str):
        raise ModelError(f"whole intervals need a model that can be read: {exact}", code="intervals-unavailable")
    oracle = _between_values(oracle, gaps)
    name = None if isinstance(past, InMemory) else name_of(models, exact, whole, wanted)
    history, outcomes = _history(whole, past, kept, asked, name, progress)
    fingerprint = fingerprint_model(history, exact)
    known = (whole, asked, history, outcomes, past, recourse, exact, oracle, word, fingerprint, wanted, rows)
    breakpoints = _find_breakpoints(inferred, whole, past) if intervals else None
    return Prepared(*known, engine=engine, breakpoints=breakpoints, gaps=gaps)


def _between_values(oracle: Oracle | None, gaps: Gaps | None) -> Oracle | None:
    """The exact oracle, told which numbers lie between the values of the domains."""
    from ironrule.oracles.ensemble import Ensemble

    return replace(oracle, gaps=gaps) if isinstance(oracle, Ensemble) and gaps is not None else oracle


def fingerprint_model(history: History, exact: Readable | str) -> str:
    """A model by what it decides on past rows, which anybody can compute, and behind that by its structure."""
    decisions = behaviour(history)[:32]  # so that both together are as long as a SHA-256
    return decisions if isinstance(exact, str) else f"{decisions}-{exact.fingerprint[:31]}"


def _find_breakpoints(seen: Space, whole: Space, past: Past) -> Mapping[str, tuple[Value, ...]]:
    """The numbers that are in domains although no past row has them."""
    found: dict[str, tuple[Value, ...]] = {}
    for old, new in zip(seen.features, whole.features, strict=True):
        more = {*new.values} - {*old.values} | {*past.breakpoints.get(new.name, ())}
        if more:
            found[new.name] = tuple(sorted(more))
    return found


def _past(
    model: Any,
    data: Any,
    space: Space | None,
    columns: Sequence[str] | None,
    cache: str | Path | None,
    progress: bool | None,
) -> Past:
    """The data as past rows: a table as it is, a source read into a cache, past rows as they are."""
    if hasattr(type(data), "encode") and hasattr(type(data), "numbers"):
        grown: Past = data
        return grown
    source = as_source(data)
    if source is None:
        if cache is not None:
            raise InputError(expected="a cache needs data from files or a database", got="a table in memory")
        return InMemory(read_table(data, space.columns if space is not None and isinstance(data, np.ndarray) else None))
    fitted = getattr(model, "feature_names_in_", None)
    wanted = columns if columns is not None else source.names if fitted is None else names_in_data(fitted, source.names)
    chosen = wanted if space is None else [name for name in source.names if name in space.columns]
    return OnDisk(open_source(source, tuple(chosen), None if cache is None else Path(cache), progress))


def _history(
    space: Space, past: Past, codes: Codes, asked: Versions, name: str | None, progress: bool | None
) -> tuple[History, npt.NDArray[np.bool_]]:
    """The history under all versions of the model, and the outcomes by the model itself."""
    outcomes = past.outcomes(asked.own, codes, None if name is None else f"{name}-own", progress)
    withstood = outcomes
    if asked.boxes != (asked.own,):
        withstood = past.outcomes(asked, codes, None if name is None else f"{name}-all", progress)
    desired = past.take(codes, withstood, None if name is None else f"{name}-desired")
    return history_of(space, codes, withstood, desired), outcomes


def _engine(device: str) -> Engine:
    from ironrule.oracles.net_engine import engine_on

    return engine_on(device)


def _with_intervals(
    space: Space, models: Sequence[Any], asked: Versions, past: Past, wanted: Wanted
) -> tuple[Space, Gaps]:
    """The space of whole intervals, and what its domains leave out."""
    some = _occurring(space, past, progress=False, quiet=True)[0].points(slice(0, PAST_CHECKED))
    try:
        each = read_each(models, asked, space, some, wanted)
        reads = [read for _, read in each]
        refined = between(space, [model for model, _ in each], reads, past.table)
        return refined, gaps_of(refined, reads)
    except Unreadable as reason:
        raise ModelError(
            f"whole intervals need a model whose thresholds can be read: {reason}", code="intervals-unavailable"
        ) from None


def read_exactly(
    models: Sequence[Any], asked: Versions, space: Space, past: Points, wanted: Wanted, engine: Engine | None
) -> tuple[Readable | str, Oracle | None, Model]:
    """What could be read, or why nothing; the exact oracle; and who decides single points."""
    try:
        exact = read_versions(models, asked, space, past, wanted)
        from ironrule.oracles.exact import exact_oracle

        oracle = exact_oracle(exact.forests, asked, space, engine)
    except Unreadable as reason:
        return str(reason), None, asked
    return exact, oracle, oracle if isinstance(oracle, Model) else exact.direct or asked


def _columns_of(model: Any, table: Table) -> tuple[str, ...] | None:
    """The columns that a model was fitted on, where it says so; other columns, such as the target, are left alone."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return None
    chosen = names_in_data(names, table.names)
    absent = [name for name in chosen if name not in table.names]
    if absent:
        raise TableError(
            expected=f"the data must have the model's column {absent[0]!r}",
            got=f"columns {', '.join(table.names)}",
            code="missing-columns",
        )
    return chosen


def _occurring(
    space: Space, past: Past, progress: bool | None = None, quiet: bool = False
) -> tuple[Codes, npt.NDArray[np.int64] | None]:
    """The past rows that satisfy the constraints on the space, and which they are; None if all may."""
    codes = past.encode(space, progress)
    if not space.feasible.predicates:
        return codes, past.numbers
    starts = range(0, len(codes), 1 << 16)
    kept = np.concatenate([space.feasible.admits(codes.points(slice(start, start + (1 << 16)))) for start in starts])
    if not kept.any():
        raise ConstraintError("no past row satisfies the constraints on the space", code="no-past-rows")
    if not kept.all() and not quiet:
        broken = int((~kept).sum())
        warnings.warn(
            f"{broken} of {len(kept)} past rows break the constraints on the space and are left out", stacklevel=4
        )
    rows = np.flatnonzero(kept)
    return past.take(codes, kept, space.fingerprint[:32]), rows if past.numbers is None else past.numbers[rows]
