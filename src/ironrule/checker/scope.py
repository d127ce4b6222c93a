"""What is at hand to check against: the user's own data, the space over it, and the user's own models.

Everything is made anew from what the user gives. A model's reading serves only after it has been compared with the
model's own decisions on past rows, on random points and at every value of every feature.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from ironrule.checker.asked_models import (
    AnswersPoints,
    AskedModel,
    AskedModels,
    ask_models,
    find_fitted_columns,
    list_levels,
)
from ironrule.checker.columns import tabulate_columns
from ironrule.checker.intervals import find_gaps_in_sums, is_numeric, require_doubles, require_intervals
from ironrule.checker.outcomes import Target
from ironrule.checker.pieces import Pieces
from ironrule.checker.pipelines import take_apart
from ironrule.checker.readings import find_absent, read_estimator
from ironrule.checker.readings.normal_form import SumReading, Unreadable
from ironrule.checker.result import ClaimUndecided, ReadingSource
from ironrule.checker.space.occurrence import Occurrence, list_combinations
from ironrule.checker.space.spaces import Space, infer_space, space_from_plain
from ironrule.checker.space.tables import Table, read_table
from ironrule.errors import ConstraintError, InputError, SpaceError

if TYPE_CHECKING:
    from ironrule.checker.readings.network_form import NetworkReading

Points = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

PAST_ROWS = 4096
CHECKED = 4096
MOST_VALUES = 50_000


class Bounds(Protocol):
    """What bounds the margins of a reading over pieces of the space."""

    @property
    def alternatives(self) -> Sequence[Any]:
        """One for every way to be desired."""
        ...

    @property
    def closes_in_parts(self) -> bool:
        """Whether it cuts what it cannot close in two by itself."""
        ...

    @property
    def classes(self) -> tuple[npt.NDArray[np.intp], ...]:
        """Per feature the class of every code; codes of one class are the same to the model."""
        ...

    def close(self, pieces: Pieces, alternative: int, holds_any: Callable[[Pieces], Mask] | None = None) -> Mask:
        """Which pieces surely hold no point that is desired in this way, among those that can occur."""
        ...

    def decide(self, points: Points) -> tuple[Mask, Mask]:
        """Which points may be desired, and which surely are."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ReadModel:
    """One model as it is asked, what bounds its margins, and who read it. ``gaps``, where the claims are about whole
    intervals: for features in sums, between which values there are further numbers.
    """

    asked: AnswersPoints
    bounds: Bounds
    source: ReadingSource
    gaps: Mapping[int, Mask] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Materials:
    """The models, the table, the space over values seen, and whether a reading may be borrowed."""

    models: tuple[Any, ...]
    table: Table
    space: Space
    shared: bool = True
    left_out: tuple[str, ...] = ()  # constraints that speak of the row explained


def collect_materials(
    models: tuple[Any, ...],
    data: Any,
    space: Any,
    constraints: Sequence[Any],
    columns: Sequence[str] | None,
    shared: bool,
) -> Materials:
    """Read the data; constraints that speak of the row explained say nothing about rules and are left aside."""
    given = space.to_dict() if hasattr(space, "to_dict") else space
    if given is not None and not isinstance(given, Mapping):
        raise InputError(expected="space must be a Space, such as Space.from_file gives", got=type(space).__name__)
    texts = [constraints] if isinstance(constraints, str) else [str(one) for one in constraints]
    on_space = tuple(text for text in texts if not _mentions_instance(text))
    left_out = tuple(text for text in texts if text not in on_space)
    if given is not None:
        known = space_from_plain(given)
        table = read_table(data, known.columns if isinstance(data, np.ndarray) else None)
    else:
        table = read_table(data)
        known = infer_space(table, columns if columns is not None else find_fitted_columns(models[0], table))
    return Materials(models, table, replace(known, constraints=(*known.constraints, *on_space)), shared, left_out)


def _mentions_instance(constraint: str) -> bool:
    from ironrule.checker.space.constraints import parse_constraint

    return parse_constraint(constraint).mentions_instance


@dataclass(frozen=True, eq=False)
class Scope:
    """Models with what counts as desired, and a space. What takes time is done when it is first needed."""

    space: Space
    past: Points  # past rows that can occur
    models: tuple[Any, ...]
    asked: AskedModels
    target: Target
    occurrence: Occurrence
    shared: bool = True
    intervals: bool = False

    @cached_property
    def read_models(self) -> tuple[ReadModel, ...] | str:
        """The models, read; or why they could not be, or are not to be trusted."""
        try:
            models = [model for model, _ in list_levels(self.models, self.target)]
            return tuple(self._read(*both) for both in zip(models, self.asked.members, strict=True))
        except Unreadable as reason:
            return str(reason)

    def _read(self, model: Any, asked: AnswersPoints) -> ReadModel:
        if not hasattr(model, "predict"):
            raise Unreadable("a function can only be asked, not read")
        assert isinstance(asked, AskedModel)
        preparation, final = take_apart(model)
        past = self.past[:PAST_ROWS]
        see, absent = lambda points: preparation(asked.layout(points)), find_absent(final)
        columns = tabulate_columns(see, self.space.sizes, past, absent)
        reading, source = self._find_reading(final, asked)
        sizes = self.space.sizes.tolist()
        if isinstance(reading, SumReading):  # what bounds it is loaded when it is needed
            from ironrule.checker.sum_bounds.sum_bounds import prepare_sum_bounds

            bounds: Bounds = prepare_sum_bounds(reading, columns, sizes)
        else:
            from ironrule.checker.network_bounds.network_bounds import prepare_network_bounds

            bounds = prepare_network_bounds(reading, columns, sizes)
        if self.intervals:
            require_intervals(reading, columns, preparation, self.space)
        if not self._agrees(bounds, asked):
            raise Unreadable("its reading decides otherwise than the model itself")
        gaps = find_gaps_in_sums(reading, columns, self.space) if self.intervals else {}
        return ReadModel(asked, bounds, source, gaps)

    def _find_reading(self, estimator: Any, asked: AskedModel) -> tuple[SumReading | NetworkReading, ReadingSource]:
        """The checker's own reading, or where it has none the one that is lent."""
        try:
            return read_estimator(estimator, asked.decision.question), "own"
        except Unreadable:
            if not self.shared:
                raise
        try:
            from ironrule.shared_reading import lend_reading
        except ImportError:
            raise Unreadable(
                "the checker has no reading of its own for this model, and the explainer is not installed"
            ) from None
        return lend_reading(estimator, asked.decision.question, asked.decision.labels), "shared"

    def _agrees(self, bounds: Bounds, asked: AskedModel) -> bool:
        """Whether a reading decides as the model does wherever rounding leaves no doubt."""
        rng, sizes = np.random.default_rng(0), self.space.sizes
        rows = self.past[np.unique(np.linspace(0, len(self.past) - 1, CHECKED).astype(np.intp))]
        blocks = [rows, rng.integers(0, sizes, size=(CHECKED, len(sizes)), dtype=np.int32)]
        for j, size in enumerate(sizes.tolist()):  # every value of every feature, so every threshold from both sides
            codes = np.arange(size) if size <= MOST_VALUES else rng.choice(size, MOST_VALUES, replace=False)
            block = rows[rng.integers(0, len(rows), size=len(codes))]
            block[:, j] = codes
            blocks.append(block)
        points = np.concatenate(blocks)
        points = points[self.space.admits(points)]
        desired, (possible, sure) = asked.desired(points), bounds.decide(points)
        return not ((desired & ~possible).any() or (sure & ~desired).any())

    @cached_property
    def decisions(self) -> str:
        """A hash of the first past rows with what the models decide about them: which models a document speaks of."""
        rows = np.ascontiguousarray(self.past[:PAST_ROWS], dtype=np.int32)
        return hashlib.sha256(rows.tobytes() + self.asked.desired(rows).tobytes()).hexdigest()[:32]

    def find_inside(self, low: Points, high: Points) -> Points:
        """The past rows in a box."""
        mask = np.ones(len(self.past), dtype=np.bool_)
        for j, (first, last, size) in enumerate(zip(low, high, self.space.sizes, strict=True)):
            if first > 0 or last < size - 1:  # only columns that the box restricts are read
                mask &= (self.past[:, j] >= first) & (self.past[:, j] <= last)
        return self.past[mask]


def make_scope(materials: Materials, target: Target, breakpoints: Mapping[str, Sequence[Any]] | None) -> Scope:
    """The scope of a decision; raises OutcomeError if it does not fit the models, ClaimUndecided if the breakpoints do
    not fit the space.
    """
    space = materials.space if breakpoints is None else _with_breakpoints(materials.space, breakpoints)
    if breakpoints is not None:
        require_doubles(materials.table, space)
    asked = ask_models(materials.models, materials.table, space, target)
    past = space.encode(materials.table)
    past = past[space.admits(past)]
    if len(past) == 0:
        raise ConstraintError("no past row satisfies the constraints on the space", code="no-past-rows")
    intervals = breakpoints is not None
    return Scope(space, past, materials.models, asked, target, list_combinations(space), materials.shared, intervals)


def _with_breakpoints(space: Space, breakpoints: Mapping[str, Sequence[Any]]) -> Space:
    """The space with more numbers in its domains, none of them beyond the smallest and the largest seen."""
    features = list(space.features)
    for name, more in breakpoints.items():
        try:
            place = space.index(name)
        except SpaceError:
            raise ClaimUndecided(f"the breakpoints must be of features of the space, got {name!r}") from None
        feature = features[place]
        kinds = (int,) if feature.whole else (int, float)
        fits = is_numeric(feature) and all(
            type(v) in kinds and feature.values[0] <= v <= feature.values[-1] for v in more
        )
        if not fits:
            raise ClaimUndecided(f"the breakpoints of {name!r} must be numbers in its range")
        features[place] = replace(feature, values=tuple(sorted({*feature.values, *more})))
    return replace(space, features=tuple(features))
