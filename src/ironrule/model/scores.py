"""A model's score: one number per row that says how close it is to the desired outcome.

A score is above 0 where the desired outcome is expected: the number that the model compares with a threshold, less
that threshold; or how far the desired classes are ahead of the others. It guides searches and decides nothing: a
classifier's labels need not be those of its largest probability, so whatever a score has led to is put to the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from ironrule.arrays import Float64Array
from ironrule.errors import InputError
from ironrule.model.decision import (
    DEFAULT_THRESHOLD,
    Ask,
    DecisionTarget,
    Direction,
    OwnDecision,
    ask_model,
    drop_single_column,
    read_classes,
    require_numbers,
    resolve_desired_labels,
    split_classes,
)


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
        answer = drop_single_column(ask_model(self.ask, table, rows))
        if answer.dtype.kind not in "biuf" or (answer.ndim == 1 and self.wanted is not None):
            raise_without_scores("labels alone")
        numbers = np.asarray(require_numbers(answer), dtype=np.float64)
        if numbers.ndim == 2:
            own = [place for place in self.wanted or () if type(place) is int and place < numbers.shape[1]]
            if not 0 < len(own) < numbers.shape[1]:
                raise_without_scores(f"{numbers.shape[1]} columns, which are not those of the classes")
            if self.threshold is None and self.upper is None:
                return np.asarray(numbers[:, own].max(axis=1) - np.delete(numbers, own, axis=1).max(axis=1))
            numbers = numbers[:, own].sum(axis=1)
        if self.upper is not None:
            below = self.upper - numbers
            return below if self.threshold is None else np.minimum(below, numbers - self.threshold)
        threshold = DEFAULT_THRESHOLD if self.threshold is None else self.threshold
        return numbers - threshold if self.direction == "above" else threshold - numbers


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
    if isinstance(model, OwnDecision):
        return None
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
