"""What a document is checked against: the user's own data, the space over it, and the user's own models.

Everything is built anew from what the user gives. The reading of a model is used only after it has been compared with
the model's own decisions on past rows, on random points and at every value of every feature.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from ironrule.checker.arrays import BoolArray, Int32Array, IntpArray
from ironrule.checker.bounds.feasible import FeasibleSet, build_feasible_set
from ironrule.checker.bounds.pieces import Pieces, PieceTest
from ironrule.checker.intervals import (
    GapMasks,
    can_be_interval,
    find_dominated_gaps,
    find_network_gaps,
    find_straight_columns,
    require_ordered_intervals,
)
from ironrule.checker.preprocessing import split_pipeline, tabulate_columns
from ironrule.checker.readers.normal_form import NoReading, Reading
from ironrule.checker.readers.registry import find_absent_value, read_estimator
from ironrule.checker.result import ClaimUndecided, ReadingSource
from ironrule.checker.space.space import (
    CheckerFeature,
    CheckerSpace,
    infer_space,
    parse_constraints,
    space_from_json,
    value_from_json,
)
from ironrule.checker.space.table import UserTable, read_table
from ironrule.checker.user_models import (
    OutcomeTarget,
    PointClassifier,
    UserModel,
    UserModelSet,
    build_user_models,
    find_fitted_columns,
    list_models_with_thresholds,
)
from ironrule.errors import ConstraintError, InputError, SpaceError, describe_value

MAX_PAST_ROWS, CHECKED_POINTS, MAX_CHECKED_VALUES = 4096, 4096, 50_000
NOT_COMPARED = (
    "what counts as desired was taken from the document; pass desired= and threshold= (--desired, --threshold) to "
    "compare it with what you mean"
)
MAX_COMPARED_CODES = 1 << 24  # in the points that are put to the model at once
Breakpoints = Mapping[str, Sequence[Any]]  # further numbers of features, by name


class MarginBounds(Protocol):
    """What bounds the margins of a reading over pieces of the space. ``alternatives`` has one entry for every way to be
    desired, ``cells`` per feature the cell of every code; ``halves_pieces`` says that it halves open pieces itself, and
    ``reaches_across_gaps`` that it bounds the numbers in the gaps of pieces, where of a sum values speak for them.
    """

    @property
    def alternatives(self) -> Sized: ...
    @property
    def cells(self) -> tuple[IntpArray, ...]: ...
    @property
    def halves_pieces(self) -> bool: ...
    @property
    def reaches_across_gaps(self) -> bool: ...

    def flag_closed(self, pieces: Pieces, alternative: int, flag_feasible: PieceTest | None = None) -> BoolArray:
        """Which pieces surely hold no point that is desired in one way and, by ``flag_feasible``, can occur."""

    def decide(self, points: Int32Array) -> tuple[BoolArray, BoolArray]:
        """Which points may be desired, and which surely are."""


@dataclass(frozen=True, slots=True, eq=False)
class ModelWithBounds:
    """One model as it is asked, what bounds its margins, and who read it. ``gaps``, where the claims are about whole
    intervals: for features in sums or networks, between which values there are further numbers; ``straight``: those
    that a network sees as lines, and how far off these it may see a number.
    """

    user_model: PointClassifier
    bounds: MarginBounds
    source: ReadingSource
    gaps: Mapping[int, BoolArray] = field(default_factory=dict)
    straight: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class UserInputs:
    """The models, the table, the space over values seen, and whether a reading may be borrowed."""

    models: tuple[Any, ...]
    table: UserTable
    space: CheckerSpace
    allow_shared_reading: bool = True
    change_constraints: tuple[str, ...] = ()  # constraints that speak of the row explained


def read_user_inputs(
    models: tuple[Any, ...],
    data: Any,
    space: Any,
    constraints: Sequence[Any],
    columns: Sequence[str] | None,
    allow_shared_reading: bool,
) -> UserInputs:
    """Read the data; constraints that speak of the row explained say nothing about rules and are left aside."""
    given = space.to_dict() if hasattr(space, "to_dict") else space
    if given is not None and not isinstance(given, Mapping):
        raise InputError(expected="space must be a Space, such as Space.from_file gives", got=type(space).__name__)
    if not isinstance(constraints, (str, list, tuple)):
        raise InputError(expected="constraints must be a list of texts", got=describe_value(constraints))
    listed = [constraints] if isinstance(constraints, str) else constraints
    texts: list[Any] = [getattr(one, "text", one) for one in listed]
    parsed = parse_constraints(texts)
    on_space = tuple(one.text for one in parsed if not one.mentions_instance)
    left_out = tuple(one.text for one in parsed if one.mentions_instance)
    if given is not None:
        known = space_from_json(given)
        table = read_table(data, known.columns if isinstance(data, np.ndarray) else None)
    else:
        table = read_table(data)
        known = infer_space(table, columns if columns is not None else find_fitted_columns(models[0], table))
    known = replace(known, constraints=(*known.constraints, *on_space))
    return UserInputs(models, table, known, allow_shared_reading, left_out)


@dataclass(frozen=True, eq=False, kw_only=True)
class CheckScope:
    """Models with what counts as desired, and a space. What takes time is done when it is first needed."""

    space: CheckerSpace
    past_rows: Int32Array  # past rows that can occur
    models: tuple[Any, ...]
    user_models: UserModelSet
    target: OutcomeTarget
    feasible: FeasibleSet
    allow_shared_reading: bool = True
    intervals: bool = False
    opposite: bool = False  # whether the models are turned round: what they call undesired is sought

    @cached_property
    def models_with_bounds(self) -> tuple[ModelWithBounds, ...] | str:
        """The models, read; or why they could not be, or are not to be trusted."""
        try:
            models = [model for model, _ in list_models_with_thresholds(self.models, self.target)]
            return tuple(self._read_model(*both) for both in zip(models, self.user_models.members, strict=True))
        except NoReading as reason:
            return str(reason)

    def _read_model(self, model: Any, user_model: PointClassifier, whole_files: bool = True) -> ModelWithBounds:
        if not hasattr(model, "predict"):
            raise NoReading("a function can only be asked, not read")
        assert isinstance(user_model, UserModel)
        preparation, final = split_pipeline(model, whole_files=whole_files)
        past = self.past_rows[:MAX_PAST_ROWS]
        see, absent = lambda points: preparation(user_model.layout(points)), find_absent_value(final)
        columns = tabulate_columns(see, self.space.sizes, past, absent, preparation.runs_user_function)
        try:
            reading, source = self._read_estimator(final, user_model)
            reading = reading.negate() if self.opposite else reading
            bounds = reading.prepare_bounds(columns, self.space.sizes.tolist())
        except NoReading:  # a file's own first steps are then run as they are, and its last one is read
            if not (whole_files and type(final).__name__ == "PmmlModel" and self.allow_shared_reading):
                raise
            return self._read_model(model, user_model, whole_files=False)
        gaps: GapMasks = {}
        straight = dict[int, float]()
        if self.intervals:
            carried, across, space = user_model.column_features, bounds.reaches_across_gaps, self.space
            unordered = preparation.find_unordered_columns(len(carried))
            require_ordered_intervals({carried[column]: reason for column, reason in unordered.items()}, space)
            gaps = find_network_gaps(columns, space) if across else find_dominated_gaps(reading, columns, space)
            if across and type(final).__name__ not in ("SavedFileForm", "PmmlModel"):
                bent = {carried[column] for column in preparation.find_bent_columns(len(carried))}
                straight = find_straight_columns(columns, space, bent)
        is_form = type(final).__name__ == "SavedFileForm"  # of a saved file: it is the model that is asked, too
        if not (is_form or self._agrees_with_model(bounds, user_model)):
            raise NoReading("its reading decides otherwise than the model itself")
        return ModelWithBounds(user_model, bounds, source, gaps, straight)

    def _read_estimator(self, estimator: Any, user_model: UserModel) -> tuple[Reading, ReadingSource]:
        """The checker's own reading, or where it has none the one that is lent."""
        try:
            return read_estimator(estimator, user_model.decision.target), "own"
        except NoReading:
            if not self.allow_shared_reading or type(estimator).__name__ == "PmmlModel":
                raise
        try:
            from ironrule.shared_reading import read_for_checker
        except ImportError:
            reason = "the checker has no reading of its own for this model, and the explainer is not installed"
            raise NoReading(reason) from None
        return read_for_checker(estimator, user_model.decision.target, user_model.decision.labels), "shared"

    def _agrees_with_model(self, bounds: MarginBounds, user_model: UserModel) -> bool:
        """Whether a reading decides as the model does wherever rounding leaves no doubt."""
        waiting: list[Int32Array] = []
        for block in (*self._draw_blocks(bounds), None):  # in portions, since the points of wide tables are many
            if block is not None:
                waiting.append(block)
            if waiting and (block is None or sum(one.size for one in waiting) > MAX_COMPARED_CODES):
                points = np.concatenate(waiting)
                points = points[self.space.admits(points)]
                desired, (possible, sure) = user_model.desired(points), bounds.decide(points)
                if (desired & ~possible).any() or (sure & ~desired).any():
                    return False
                waiting.clear()
        return True

    def _draw_blocks(self, bounds: MarginBounds) -> Iterator[Int32Array]:
        """Past rows, random points, and every value of every feature, so every threshold from both sides. Features
        whose values are all the same to the reading take all their values together.
        """
        rng, sizes = np.random.default_rng(0), self.space.sizes
        rows = self.past_rows[np.unique(np.linspace(0, len(self.past_rows) - 1, CHECKED_POINTS).astype(np.intp))]
        yield rows
        yield rng.integers(0, sizes, size=(CHECKED_POINTS, len(sizes)), dtype=np.int32)
        alike = np.array([not cells.any() for cells in bounds.cells])
        if alike.any():
            length = min(int(sizes[alike].max()), MAX_CHECKED_VALUES)
            block = rows[rng.integers(0, len(rows), size=length)]
            block[:, alike] = (np.arange(length)[:, None] + rng.integers(0, sizes[alike])) % sizes[alike]
            yield block
        for j in np.flatnonzero(~alike).tolist():
            size, count = int(sizes[j]), min(int(sizes[j]), MAX_CHECKED_VALUES)
            codes = np.arange(size) if count == size else rng.choice(size, count, replace=False)
            block = rows[rng.integers(0, len(rows), size=len(codes))]
            block[:, j] = codes
            yield block

    @cached_property
    def decision_fingerprint(self) -> str:
        """A hash of the first past rows with what the models decide about them: which models a document speaks of."""
        rows = np.ascontiguousarray(self.past_rows[:MAX_PAST_ROWS], dtype=np.int32)
        return hashlib.sha256(rows.tobytes() + self.user_models.desired(rows).tobytes()).hexdigest()[:32]

    def find_rows_inside(self, low: Int32Array, high: Int32Array) -> Int32Array:
        """The past rows in a box."""
        mask = np.ones(len(self.past_rows), dtype=np.bool_)
        for j, (first, last, size) in enumerate(zip(low, high, self.space.sizes, strict=True)):
            if first > 0 or last < size - 1:  # only columns that the box restricts are read
                mask &= (self.past_rows[:, j] >= first) & (self.past_rows[:, j] <= last)
        return self.past_rows[mask]


def build_scope(
    inputs: UserInputs,
    target: OutcomeTarget,
    breakpoints: Breakpoints | None,
    extended: Mapping[str, Sequence[Any]] | None = None,
    opposite: bool = False,
) -> CheckScope:
    """The scope of a decision; raises OutcomeError if no model decides so, ClaimUndecided for unfitting breakpoints.

    ``extended`` has values, by feature, that join the domains. ``opposite``: the scope of the opposite decision.
    """
    space = _add_breakpoints(add_values(inputs.space, extended or {}), breakpoints or {})
    user_models = build_user_models(inputs.models, inputs.table, space, target)
    past_rows = space.encode(inputs.table)
    past_rows = past_rows[space.admits(past_rows)]
    if len(past_rows) == 0:
        raise ConstraintError("no past row satisfies the constraints on the space", code="no-past-rows")
    if opposite:
        from ironrule.checker.changes.opposite import negate_models

        user_models = negate_models(user_models)
    return CheckScope(
        space=space,
        past_rows=past_rows,
        models=inputs.models,
        user_models=user_models,
        target=target,
        feasible=build_feasible_set(space),
        allow_shared_reading=inputs.allow_shared_reading,
        intervals=breakpoints is not None,
        opposite=opposite,
    )


def add_values(space: CheckerSpace, extended: Mapping[str, Sequence[Any]]) -> CheckerSpace:
    """The space with values that no past row has: more is claimed than of the values seen."""
    features = list(space.features)
    for name, listed in extended.items():
        if name not in space.names:
            raise ClaimUndecided(f"the extended values must be of features of the space, got {name!r}")
        place = space.index(name)
        features[place] = _extend_feature(features[place], [value_from_json(plain) for plain in listed])
    return replace(space, features=tuple(features))


def _extend_feature(feature: CheckerFeature, listed: Sequence[Any]) -> CheckerFeature:
    known = set(feature.values)
    new = tuple(dict.fromkeys(value for value in listed if value is not None and value not in known))
    if new and (feature.one_hot or (feature.ordered and not feature.naturally_ordered)):
        raise ClaimUndecided(f"{new[0]!r} has no place in the domain of {feature.name!r}")
    values = (*feature.values, *new)
    try:
        values = tuple(sorted(values)) if feature.ordered else values
    except TypeError:
        raise ClaimUndecided(f"{new[0]!r} has no place in the order of {feature.name!r}") from None
    return replace(feature, values=values, missing=feature.missing or None in listed)


def _add_breakpoints(space: CheckerSpace, breakpoints: Breakpoints) -> CheckerSpace:
    """The space in which the features with breakpoints are intervals, with these numbers in their domains.

    Numbers beyond the smallest and the largest seen make the range longer, so that more is claimed.
    """
    features = list(space.features)
    for name, more in breakpoints.items():
        try:
            place = space.index(name)
        except SpaceError:
            raise ClaimUndecided(f"the breakpoints must be of features of the space, got {name!r}") from None
        feature = features[place]
        kinds = (int,) if feature.whole else (int, float)
        finite = (type(v) in kinds and math.isfinite(v) for v in more)
        if not (can_be_interval(feature) and feature.interval is not False and all(finite)):
            raise ClaimUndecided(f"the breakpoints of {name!r} must be finite numbers like its values")
        features[place] = replace(feature, values=tuple(sorted({*feature.values, *more})), interval=True)
    return replace(space, features=tuple(features))
