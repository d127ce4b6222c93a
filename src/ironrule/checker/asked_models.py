"""The user's models as they are asked: points are laid out as the user's own kind of table, and each is asked once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ironrule.checker.components import describe_changes
from ironrule.checker.outcomes import Decision, Target, make_decision, require_probability
from ironrule.checker.result import ClaimFails
from ironrule.checker.space.layouts import lay_out
from ironrule.checker.space.spaces import Space
from ironrule.checker.space.tables import Table
from ironrule.errors import ModelError, TableError

Points = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

BATCH_ROWS = 1 << 16
CHECKED_ROWS = 512


class AnswersPoints(Protocol):
    """Whatever says which points have the desired outcome."""

    def desired(self, points: Points) -> Mask:
        """Which points have the desired outcome."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class AskedModel:
    """One model with its decision, and how points of a space are laid out as a table for it."""

    layout: Callable[[Points], Any]
    decision: Decision
    layout_for: Callable[[Space], Callable[[Points], Any]]  # the same for a space of other values

    def desired(self, points: Points) -> Mask:
        """Which points have the desired outcome, by the model's own decision."""
        starts = range(0, len(points), BATCH_ROWS)
        parts = [points[start : start + BATCH_ROWS] for start in starts]
        return np.concatenate([np.zeros(0, np.bool_), *(self.decision(self.layout(some), len(some)) for some in parts)])


@dataclass(frozen=True, slots=True, eq=False)
class AskedModels:
    """Models that are asked together; ``own`` is the first as it is, whose decision was explained. A point is desired
    where one of ``members`` says so, its threshold lowered by the margin.
    """

    own: AnswersPoints
    members: tuple[AnswersPoints, ...]
    decision: Decision

    def desired(self, points: Points) -> Mask:
        """Which points some member gives the desired outcome."""
        return np.asarray(np.any([member.desired(points) for member in self.members], axis=0), dtype=np.bool_)


def ask_models(models: Sequence[Any], table: Table, space: Space, target: Target) -> AskedModels:
    """The models as they are asked, checked; raises OutcomeError or ModelError."""
    require_probability(models[0], target.threshold)  # as it was given: a margin may move it anywhere
    own = _ask_model(models[0], table, space, target, target.threshold)
    if len(models) == 1 and target.margin == 0:
        return AskedModels(own, (own,), own.decision)
    members = tuple(_ask_model(model, table, space, target, level) for model, level in list_levels(models, target))
    return AskedModels(own, members, own.decision)


def list_levels(models: Sequence[Any], target: Target) -> list[tuple[Any, float | None]]:
    """The models with the thresholds of their members. A classifier that decides by its labels is asked for these too:
    its labels need not be those of the largest probability.
    """
    if len(models) == 1 and target.margin == 0:
        return [(models[0], target.threshold)]
    levels = [(model, target.lower(model)) for model in models]
    return [(models[0], None), *levels] if target.margin and target.threshold is None else levels


def find_fitted_columns(model: Any, table: Table) -> tuple[str, ...] | None:
    """The table's columns that a model was fitted on, where it says so; raises TableError if the table lacks one.

    LightGBM keeps underscores in the place of blanks, so that its names are not always those of the table.
    """
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return None
    return tuple(_find_column(str(name), set(map(str, names)), table) for name in names)


def _find_column(name: str, fitted: set[str], table: Table) -> str:
    """The table's column that a model calls so; raises TableError if there is none, or no telling which."""
    alike = [one for one in table.names if one.replace(" ", "_") == name and (one == name or one not in fitted)]
    if name in table.names and not alike:
        return name
    expected, there = f"the data must have one column that the model calls {name!r}", ", ".join(table.names)
    if not alike:
        raise TableError(expected=expected, got=f"columns {there}", code="missing-columns")
    if len(alike) > 1:
        raise TableError(expected=expected, got=f"{alike}, which LightGBM does not tell apart")
    return alike[0]


def _ask_model(model: Any, table: Table, space: Space, target: Target, threshold: float | None) -> AskedModel:
    """A model over a space; rows rebuilt from codes must get the outcome of the user's own rows."""
    order = find_fitted_columns(model, table)
    as_array = hasattr(model, "predict") and hasattr(model, "n_features_in_") and order is None
    layout_for = partial(lay_out, table=table, as_array=as_array, order=order)
    asked = AskedModel(layout_for(space), make_decision(model, target, threshold), layout_for)
    names = order if order is not None else tuple(name for name in table.names if name in space.columns)
    rows = np.unique(np.linspace(0, len(table) - 1, CHECKED_ROWS).astype(np.intp))
    original = asked.decision(_select_rows(table, rows, names, as_array), len(rows))
    rebuilt = asked.desired(space.encode(_select_rows(table, rows, table.names, False)))
    if (original != rebuilt).any():
        got = f"another outcome for row {int(rows[np.flatnonzero(original != rebuilt)[0]])} rebuilt from them"
        raise ModelError(expected="the model must decide by the values of the space alone", got=got)
    return asked


def _select_rows(table: Table, rows: npt.NDArray[np.intp], names: Sequence[str], as_array: bool) -> Any:
    """Some of the user's own rows and columns, in the user's own kind of table or as an array."""
    if table.frame is None:
        return table.native[rows][:, [table.names.index(name) for name in names]]
    frame = table.frame[rows.tolist()].select(list(names))
    return frame.to_numpy() if as_array else frame.to_native()


@dataclass(frozen=True, slots=True, eq=False)
class AnswerCache:
    """What a model said of points, seen from an instance; each point is asked about once."""

    model: AnswersPoints
    space: Space
    instance: Points
    known: dict[bytes, bool] = field(default_factory=dict)

    def of(self, model: AnswersPoints) -> AnswerCache:
        """The answers of one model alone."""
        return AnswerCache(model, self.space, self.instance)

    def desired(self, points: Points) -> Mask:
        """Which points have the desired outcome."""
        keys = [point.tobytes() for point in np.ascontiguousarray(points, dtype=np.int32)]
        new = {key: place for place, key in enumerate(keys) if key not in self.known}
        answers = self.model.desired(points[list(new.values())]) if new else ()
        self.known.update(zip(new, map(bool, answers), strict=True))
        return np.array([self.known[key] for key in keys], dtype=np.bool_)

    def desired_in(self, low: Points, high: Points) -> list[Points]:
        """The points in a box that are known to have the desired outcome."""
        points = [np.frombuffer(key, dtype=np.int32) for key, desired in self.known.items() if desired]
        return [point for point in points if ((low <= point) & (point <= high)).all()]

    def refuse_exception(self, point: Points) -> None:
        """Raise ClaimFails with a point that has the desired outcome and can occur."""
        raise ClaimFails(f"there is an exception: {describe_changes(self.space, self.instance, point)}")
