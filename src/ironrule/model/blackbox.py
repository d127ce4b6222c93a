"""Ask any model: points are laid out as the user's own kind of table, and the model is asked in batches.

A rule that must hold for several models at once (:class:`ModelSet`) holds where none of them gives the desired outcome:
together they desire what any of them desires.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, Int64Array, Points
from ironrule.errors import InputError, ModelError, TableError
from ironrule.model.decision import (
    Decision,
    DecisionTarget,
    OwnDecision,
    build_target_decision,
    require_probability_threshold,
)
from ironrule.model.scores import Score, build_score, raise_without_scores
from ironrule.progress import track
from ironrule.space.codes import EncodedTable
from ironrule.space.feature import Feature
from ironrule.space.layout import Layout, build_layout
from ironrule.space.space import Space
from ironrule.space.table import Table

BATCH_ROWS = 1 << 16
BATCH_VALUES = 1 << 23  # in all columns: of wide tables fewer rows are laid out at once
CHECKED_ROWS = 512
ASKED_TOGETHER, ASKED_ALONE = 32, 4  # rows that are looked at for whether they depend on each other; of each outcome
ROUNDING = 1e-5  # of the largest scores: libraries may add otherwise for one row than for many, in single precision too


@dataclass(frozen=True, slots=True, eq=False)
class BlackBox:
    """A model that is only ever asked."""

    layout: Layout
    decision: Decision
    max_rows: int = BATCH_ROWS
    score: Score | None = None  # None where the model is known to have none

    @property
    def batch_rows(self) -> int:
        """How many points are laid out and asked about at once."""
        return max(1, min(self.max_rows, BATCH_VALUES // len(self.layout.names)))

    def desired(self, points: Points) -> BoolArray:
        """Which points have the desired outcome, by the model's own decision."""
        if len(points) == 0:
            return np.zeros(0, dtype=np.bool_)
        return np.concatenate([self.decision(self.layout.decode(part), len(part)) for part in self._split(points)])

    def scores(self, points: Points) -> Float64Array:
        """How close points are to the desired outcome, by the model's own numbers; raises InputError if it has none."""
        score = self.score
        if score is None:
            raise_without_scores("a classifier without them")
        if len(points) == 0:
            return np.zeros(0)
        return np.concatenate([score(self.layout.decode(part), len(part)) for part in self._split(points)])

    def _split(self, points: Points) -> list[Points]:
        """The points in portions that are laid out at once."""
        rows = self.batch_rows
        return [points[start : start + rows] for start in range(0, len(points), rows)]

    def decide_rows(self, codes: EncodedTable, progress: bool | None = None) -> BoolArray:
        """The outcome of every row, with a progress bar where that takes long."""
        if len(codes) == 0:  # an explainer that was saved without its past rows
            return np.zeros(0, dtype=np.bool_)
        rows = self.batch_rows
        starts = range(0, len(codes), rows)
        parts = track(starts, "Asking the model", len(starts), progress)
        return np.concatenate([self.desired(codes.points(slice(at, at + rows))) for at in parts])

    def require_rows_apart(self, codes: EncodedTable) -> None:
        """Raise ModelError if the outcome of a row depends on the rows beside it: one that is asked about alone must
        get what it got among the others, but for rounding.
        """
        points = codes.points(slice(0, ASKED_TOGETHER))
        together = self.desired(points)
        places = [np.flatnonzero(together == outcome)[:ASKED_ALONE] for outcome in (False, True)]
        for place in np.concatenate(places).tolist():
            point = points[place][None, :]
            if self.desired(point)[0] != together[place] and not self._differs_by_rounding(points, place):
                raise ModelError(
                    expected="the model must decide by the values of the space alone",
                    got="another outcome for a row when other rows stand beside it",
                    hint="check whether it compares rows with each other: their mean, ranks, or the first of them",
                )

    def _differs_by_rounding(self, points: Points, place: int) -> bool:
        """Whether a point has the same score alone and among others, as far as rounding lets it: where large numbers
        cancel out, rounding is not as small as the score itself, so that all scores count.
        """
        try:
            among, alone = self.scores(points), self.scores(points[place][None, :])[0]
        except InputError:  # it answers labels alone
            return False
        largest = np.abs(among).max() + abs((self.score and self.score.threshold) or 0.0)
        return bool(abs(among[place] - alone) <= ROUNDING * largest)

    def compute_outcomes(self, codes: EncodedTable, progress: bool | None = None) -> BoolArray:
        """The outcome of every row of a whole history; raises OutcomeError if no row has a desired label."""
        outcomes = self.decide_rows(codes, progress)
        if not outcomes.any():
            points = codes.points(slice(0, self.batch_rows))
            self.decision.require_known_labels(self.layout.decode(points), len(points))
        return outcomes


def build_black_box(model: Any, table: Table, space: Space, target: DecisionTarget) -> BlackBox:
    """A user's model over a space, checked: rows rebuilt from codes must get the outcome of the user's own."""
    decision = build_target_decision(model, target)
    layout = make_layout_builder(model, table)(space.features)
    box = BlackBox(layout, decision, score=build_score(model, target))
    if not isinstance(model, OwnDecision):
        _check_layout(box, table, space)
    return box


def make_layout_builder(model: Any, table: Table) -> Callable[[Sequence[Feature]], Layout]:
    """How points are laid out for a model: as a table like this one, or as an array if it was fitted on one."""
    fitted_on = getattr(model, "feature_names_in_", None)
    wants_array = hasattr(model, "predict") and hasattr(model, "n_features_in_") and fitted_on is None
    order = None if fitted_on is None else match_column_names(fitted_on, table.names)
    return lambda features: build_layout(features, table, wants_array, order)


def match_column_names(fitted_on: Iterable[Any], names: Sequence[str]) -> tuple[str, ...]:
    """The data's names for the columns that a model was fitted on; one that the data does not have stays as it is.

    LightGBM keeps underscores in the place of blanks, so that its names are not always those of the data.
    """
    fitted = [str(name) for name in fitted_on]
    known, written = set(fitted), defaultdict[str, list[str]](list)
    for own in names:
        written[own.replace(" ", "_")].append(own)
    return tuple(
        _match_column_name(name, [own for own in written[name] if own == name or own not in known]) for name in fitted
    )


def _match_column_name(name: str, alike: Sequence[str]) -> str:
    if len(alike) > 1:
        raise TableError(
            expected=f"the data must have one column that the model calls {name!r}",
            got=f"{alike[0]!r} and {alike[1]!r}, which LightGBM does not tell apart",
            hint="rename one of them",
        )
    return alike[0] if alike else name


def _check_layout(box: BlackBox, table: Table, space: Space) -> None:
    rows = np.unique(np.linspace(0, (table.real_rows or len(table)) - 1, CHECKED_ROWS).astype(np.int64))
    own = _select_user_rows(box.layout, table, rows)
    original = box.decision(own, len(rows))
    rebuilt = box.desired(space.encode(_select_rows(table, rows), progress=False).points())
    if (original != rebuilt).any():
        row = int(rows[np.flatnonzero(original != rebuilt)[0]])
        raise ModelError(
            expected="the model must decide by the values of the space alone",
            got=f"another outcome for row {row} when it is rebuilt from them",
            hint="check whether the model uses an index, a column that was left out, or chance",
        )


def _select_rows(table: Table, rows: Int64Array) -> Any:
    if table.frame is None:
        return Table(table.native[rows], table.names, None)
    frame = table.frame[rows.tolist()]
    return Table(frame.to_native(), table.names, frame)


def _select_user_rows(layout: Layout, table: Table, rows: Int64Array) -> Any:
    """The user's own rows in the columns and the form that the model is asked in."""
    if table.frame is None:
        return table.native[rows][:, [table.names.index(name) for name in layout.names]]
    frame = table.frame[rows.tolist()].select(list(layout.names))
    return frame.to_numpy() if layout.is_array else frame.to_native()


@dataclass(frozen=True, slots=True, eq=False)
class ModelSet:
    """Models that are asked together; ``primary`` is the first one as it is, whose decision is explained."""

    primary: BlackBox
    black_boxes: tuple[BlackBox, ...]
    model_count: int = 1  # how many models there are; one of them may be asked in two ways

    def desired(self, points: Points) -> BoolArray:
        """Which points some version desires, its threshold moved by the margin."""
        return np.asarray(np.any([box.desired(points) for box in self.black_boxes], axis=0), dtype=np.bool_)

    def scores(self, points: Points) -> Float64Array:
        """The largest score that some version gives each point."""
        return np.asarray(np.max([box.scores(points) for box in self.black_boxes], axis=0), dtype=np.float64)

    def decide_rows(self, codes: EncodedTable, progress: bool | None = None) -> BoolArray:
        """Which rows some version desires."""
        found = [box.decide_rows(codes, progress) for box in self.black_boxes]
        return np.asarray(np.any(found, axis=0), dtype=np.bool_)

    def compute_outcomes(self, codes: EncodedTable, progress: bool | None = None) -> BoolArray:
        """Which rows of a whole history some version desires."""
        found = [box.compute_outcomes(codes, progress) for box in self.black_boxes]
        return np.asarray(np.any(found, axis=0), dtype=np.bool_)


def build_model_set(models: Sequence[Any], table: Table, space: Space, target: DecisionTarget) -> ModelSet:
    """The models, checked, as they are asked."""
    for threshold in (target.threshold, target.upper):
        require_probability_threshold(models[0], threshold)  # as it was given: a margin may move it anywhere
    own = build_black_box(models[0], table, space, target)
    if len(models) == 1 and target.margin == 0:
        return ModelSet(own, (own,))
    boxes = tuple(build_black_box(model, table, space, each) for model, each in list_targets(models, target))
    return ModelSet(own, boxes, len(models))


def list_targets(models: Sequence[Any], target: DecisionTarget) -> list[tuple[Any, DecisionTarget]]:
    """The models with the targets that they must withstand, the margin taken off the threshold. Classifiers that
    decide by their labels are asked for these too: labels need not be those of the largest probability.
    """
    moved = [(model, replace(target, threshold=target.move_threshold(model), margin=0.0)) for model in models]
    labels_decide = target.margin and target.threshold is None
    by_labels = [(model, DecisionTarget(target.desired)) for model in models] if labels_decide else []
    return [*by_labels, *moved]
