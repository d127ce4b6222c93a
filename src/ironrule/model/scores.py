"""A model's score: one number per row that says how close it is to the desired outcome.

A score is above 0 where the desired outcome is expected: the number that the model compares with a threshold, less
that threshold; or how far the desired classes are ahead of the others. It guides searches and decides nothing: a
classifier's labels need not be those of its largest probability, so whatever a score has led to is put to the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import numpy as np

from ironrule.arrays import Float64Array
from ironrule.errors import InputError
from ironrule.model.decision import (
    DEFAULT_THRESHOLD,
    Ask,
    DecisionTarget,
    Direction,
    ask_model,
    drop_single_column,
    read_classes,
    require_numbers,
    resolve_desired_labels,
    split_classes,
)

ScoreKind = Literal["probability", "score", "lead"]


@dataclass(frozen=True, slots=True)
class ScoreScale:
    """What the number of a row is compared with: it is desired above the threshold, or below it.

    The number is the ``probability`` of the desired classes, a ``score`` of any other kind, or the ``lead`` of the
    desired classes over all others, where there are several of these and no threshold.
    """

    kind: ScoreKind
    threshold: float
    direction: Direction = "above"


@dataclass(frozen=True, slots=True)
class Score:
    """How a model is asked for numbers (``ask``), and what they mean.

    One number per row is compared with ``threshold``; of a number per class, those of the desired classes (``wanted``)
    are, or the largest of them with the largest of all others where there is no threshold. In a band of scores, up to
    ``upper``, the nearer end counts.
    """

    ask: Ask
    wanted: tuple[int, ...] | None
    threshold: float | None
    direction: Direction = "above"
    upper: float | None = None

    def __call__(self, table: Any, rows: int) -> Float64Array:
        """The scores of a table's rows; raises InputError if the model answers labels."""
        numbers = self._ask_for_numbers(table, rows)
        if numbers.ndim == 2:
            own = self._list_own_columns(numbers)
            if self.threshold is None and self.upper is None:
                return _find_lead(numbers, own)
            numbers = numbers[:, own].sum(axis=1)
        if self.upper is not None:
            below = self.upper - numbers
            return below if self.threshold is None else np.minimum(below, numbers - self.threshold)
        threshold = DEFAULT_THRESHOLD if self.threshold is None else self.threshold
        return numbers - threshold if self.direction == "above" else threshold - numbers

    def read(self, table: Any, rows: int) -> tuple[Float64Array, ScoreScale]:
        """The number of every row as a person reads it, and what it is compared with; a band has no such number."""
        numbers, threshold = self._ask_for_numbers(table, rows), self.threshold
        if self.upper is not None:
            raise_without_scores("a band of scores")
        if numbers.ndim == 1:
            limit = DEFAULT_THRESHOLD if threshold is None else threshold
            return numbers, ScoreScale("score", limit, self.direction)
        own = self._list_own_columns(numbers)
        if threshold is None and numbers.shape[1] > 2:
            return _find_lead(numbers, own), ScoreScale("lead", 0.0)
        total = numbers[:, own].sum(axis=1)
        is_share = bool((numbers >= 0).all() and np.allclose(numbers.sum(axis=1), 1.0))
        limit = DEFAULT_THRESHOLD if threshold is None else threshold
        return np.asarray(total), ScoreScale("probability" if is_share else "score", limit, self.direction)

    def _ask_for_numbers(self, table: Any, rows: int) -> Float64Array:
        answer = drop_single_column(ask_model(self.ask, table, rows))
        if answer.dtype.kind not in "biuf" or (answer.ndim == 1 and self.wanted is not None):
            raise_without_scores("labels alone")
        return np.asarray(require_numbers(answer), dtype=np.float64)

    def _list_own_columns(self, numbers: Float64Array) -> list[int]:
        """The columns of the desired classes; raises InputError if all are, or none."""
        own = [place for place in self.wanted or () if type(place) is int and place < numbers.shape[1]]
        if not 0 < len(own) < numbers.shape[1]:
            raise_without_scores(f"{numbers.shape[1]} columns, which are not those of the classes")
        return own


def _find_lead(numbers: Float64Array, own: list[int]) -> Float64Array:
    """How far the largest of the desired classes is ahead of the largest of all others."""
    return np.asarray(numbers[:, own].max(axis=1) - np.delete(numbers, own, axis=1).max(axis=1))


def raise_without_scores(got: str) -> NoReturn:
    """Raise InputError about a model that has no scores."""
    raise InputError(
        expected="this search needs a model that gives scores: predict_proba, decision_function, or a function that "
        "answers numbers, with a threshold",
        got=got,
        hint="pass the model itself instead of its predict method, or search with GeCo() or GrowingSpheres(), which "
        "need answers alone",
        code="scores-required",
    )


def build_score(model: Any, target: DecisionTarget) -> Score | None:
    """The score of an estimator or of a plain function that was checked before; None if it has none."""
    threshold, direction = target.threshold, target.direction
    labels = read_classes(model) if hasattr(model, "predict") else None
    if not labels:  # a function, or a regression
        return Score(getattr(model, "predict", model), target.desired, threshold, direction, target.upper)
    wanted = tuple(split_classes(labels, resolve_desired_labels(target.desired, labels))[0])
    if hasattr(model, "predict_proba"):
        return Score(model.predict_proba, wanted, threshold, direction, target.upper)
    if not hasattr(model, "decision_function"):
        return None
    if len(labels) > 2:
        return Score(model.decision_function, wanted, None)
    return Score(model.decision_function, None, 0.0, "above" if wanted == (1,) else "below")
