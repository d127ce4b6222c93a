"""From whatever a user's model answers to a decision: desired or not.

A model that gives labels decides by them. A model that gives scores is desired where the score is above the
threshold, or below it if the user says so (``desired="below"``); a tie is undesired either way. Scores for several
classes are desired where a desired class beats every other one, or, with a threshold, where the desired classes
together pass it. Nothing here re-implements a model: a criterion is applied to its answer.

:class:`DecisionTarget` is what the user asked for: the desired classes, the threshold, on which side of it scores are
desired, and the margin by which scores may move. A rule that must hold although every score may move by a margin holds
where no score comes within the margin of the threshold: that is the same model with a threshold that is easier to pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from ironrule.arrays import AnyArray, BoolArray, Float64Array
from ironrule.errors import InputError, ModelError, OutcomeError
from ironrule.space.feature import value_from_json, value_to_json
from ironrule.space.table import to_python_value
from ironrule.wording import format_count

Ask = Callable[[Any], Any]
Direction = Literal["above", "below"]  # on which side of the threshold scores are desired
DEFAULT_THRESHOLD = 0.5


@dataclass(frozen=True, slots=True)
class Decision:
    """How a user's model is asked (``ask``) and what its answer means (``criterion``)."""

    ask: Ask
    criterion: Callable[[AnyArray], BoolArray]
    undesired_name: str  # what the undesired outcome is called
    unlisted_labels: tuple[Any, ...] | None = None  # desired labels that the model does not list among its classes

    def __call__(self, table: Any, rows: int) -> BoolArray:
        """Which rows of the table have the desired outcome."""
        return self.criterion(_ask_model(self.ask, table, rows))

    def require_known_labels(self, table: Any, rows: int) -> None:
        """Raise OutcomeError if these rows, none of them desired, get labels: the desired one is likely misspelt."""
        answer = _ask_model(self.ask, table, rows)
        if self.unlisted_labels is not None and answer.ndim == 1:
            seen = ", ".join(sorted({repr(to_python_value(label)) for label in answer})[:12])
            rule = f"at least one past row must get a desired label, one of {list(self.unlisted_labels)}"
            if any(label in get_args(Direction) for label in self.unlisted_labels):
                hint = "pass threshold=... if scores on that side of it are desired"
                raise OutcomeError(expected=rule, got=f"labels {seen}", hint=hint, code="threshold-required")
            raise OutcomeError(expected=rule, got=f"labels {seen}")


def build_decision(model: Any, desired: Any, threshold: float | None, direction: Direction = "above") -> Decision:
    """The decision of an estimator (anything with ``predict``) or of a plain function."""
    if threshold is not None and not (isinstance(threshold, (int, float, np.number)) and np.isfinite(threshold)):
        raise OutcomeError(expected="threshold must be a finite number", got=repr(threshold))
    if hasattr(model, "predict"):
        return _build_estimator_decision(model, desired, threshold, direction)
    if any(kind.__name__ == "Module" and kind.__module__.startswith("torch.nn.") for kind in type(model).__mro__):
        raise ModelError(
            expected="a model must be a function or have a predict method",
            got="a bare torch module, which does not say what its outputs mean",
            hint="wrap the torch module: ironrule.TorchNetwork(module, classes=...)",
        )
    if not callable(model):
        raise ModelError(expected="a model must be a function or have a predict method", got=type(model).__name__)
    return _build_function_decision(model, desired, threshold, direction)


def _build_estimator_decision(model: Any, desired: Any, threshold: float | None, direction: Direction) -> Decision:
    classes = getattr(model, "classes_", None)
    if classes is None or len(classes) == 0:  # a regression; CatBoost's has an empty list
        if desired is None and threshold is None:
            rule = "a model without classes (a regression) needs a threshold above which predictions are desired"
            hint = 'pass threshold=..., and desired="below" if low predictions are desired'
            raise OutcomeError(expected=rule, got="none", hint=hint, code="threshold-required")
        return _build_function_decision(model.predict, desired, threshold, direction)
    labels = list_labels(classes)
    wanted = resolve_desired_labels(desired, labels)
    others = [label for label in labels if label not in wanted]
    name = repr(others[0]) if len(others) == 1 else _name_undesired(wanted, None)
    if threshold is None:
        return Decision(model.predict, LabelCriterion(wanted), name)
    if not hasattr(model, "predict_proba"):
        rule = "a threshold needs a classifier with predict_proba"
        raise OutcomeError(expected=rule, got=f"{type(model).__name__} without it", hint="leave the threshold out")
    positions, _ = split_classes(labels, wanted)
    criterion = ColumnCriterion(tuple(positions), threshold, direction)
    return Decision(model.predict_proba, criterion, _name_missed(threshold, direction, " or ".join(map(repr, wanted))))


def require_probability_threshold(model: Any, threshold: float | None) -> None:
    """Raise OutcomeError for a threshold on probabilities that is none; scores of other kinds may be any number."""
    classes = getattr(model, "classes_", None)
    by_probability = classes is not None and len(classes) > 0 and hasattr(model, "predict_proba")
    if by_probability and isinstance(threshold, (int, float, np.number)) and not 0 <= threshold <= 1:
        raise OutcomeError(
            expected="the threshold of a classifier must be a probability from 0 to 1",
            got=repr(threshold),
            hint='the threshold is for the probability of the desired class (with desired="below": of class 1)',
        )


def resolve_desired_labels(desired: Any, labels: list[Any]) -> tuple[Any, ...]:
    """The desired labels, checked against those that a classifier knows."""
    if desired is None:
        if len(labels) == 2 and set(labels) <= {0, 1}:
            return (1,)
        rule = f"the desired class must be one of {labels}"
        raise OutcomeError(expected=rule, got="none", hint="pass desired=...", code="desired-required")
    wanted = as_labels(desired)
    unknown = [label for label in wanted if label not in labels]
    if unknown:
        rule, got = f"the desired class must be one of {labels}", repr(unknown[0])
        if unknown[0] in get_args(Direction):
            hint = "pass threshold=... if scores on that side of it are desired"
            raise OutcomeError(expected=rule, got=got, hint=hint, code="threshold-required")
        raise OutcomeError(expected=rule, got=got)
    if len(wanted) == len(labels):
        raise OutcomeError(expected="at least one class must be undesired", got=f"all of {labels} as desired")
    return wanted


def list_labels(classes: Any) -> list[Any]:
    """The labels of a classifier as Python values."""
    return [to_python_value(label) for label in np.asarray(classes).ravel()]


def split_classes(labels: Sequence[Any], desired: Sequence[Any]) -> tuple[list[int], list[int]]:
    """The positions of the desired labels, and of the others."""
    positions: tuple[list[int], list[int]] = [], []
    for position, label in enumerate(labels):
        positions[label not in desired].append(position)
    return positions


def as_labels(desired: Any) -> tuple[Any, ...]:
    """The desired labels as a tuple, each once; raises OutcomeError if there are none."""
    several = isinstance(desired, (list, tuple, set, frozenset, np.ndarray))
    labels = tuple(dict.fromkeys(to_python_value(label) for label in (desired if several else (desired,))))
    if not labels:
        raise OutcomeError(expected="at least one desired class must be named", got="an empty collection")
    return labels


def _name_missed(threshold: float, direction: Direction, named: str) -> str:
    """An outcome by its threshold, with all digits: a rounded one would speak of another decision."""
    return f"{'at most' if direction == 'above' else 'at least'} {float(threshold)!r} for {named}"


def _name_undesired(wanted: tuple[Any, ...] | None, threshold: float | None, direction: Direction = "above") -> str:
    """What the undesired outcome of a plain function or a regression is called."""
    if wanted is None:
        limit = float(DEFAULT_THRESHOLD if threshold is None else threshold)
        return f"a score of {'at most' if direction == 'above' else 'at least'} {limit!r}"
    named = " or ".join(map(repr, wanted))
    return f"not {named}" if threshold is None else _name_missed(threshold, direction, named)


def _build_function_decision(ask: Ask, desired: Any, threshold: float | None, direction: Direction) -> Decision:
    wanted = None if desired is None else as_labels(desired)
    name = _name_undesired(wanted, threshold, direction)
    return Decision(ask, FunctionCriterion(wanted, threshold, direction), name, wanted)


@dataclass(frozen=True, slots=True)
class LabelCriterion:
    """Labels: desired if among the wanted ones."""

    wanted: tuple[Any, ...]

    def __call__(self, answer: AnyArray) -> BoolArray:
        if answer.ndim != 1:
            rule = "the model must answer one label per row"
            raise ModelError(expected=rule, got=f"an array of shape {answer.shape}")
        _require_finite(answer)
        mask = np.zeros(len(answer), dtype=np.bool_)
        for label in self.wanted:
            mask |= np.asarray(answer == label, dtype=np.bool_)
        return mask


@dataclass(frozen=True, slots=True)
class ColumnCriterion:
    """One score per class: desired if the wanted classes pass the threshold, or beat all others where there is none."""

    wanted: tuple[int, ...]
    threshold: float | None
    direction: Direction = "above"

    def __call__(self, answer: AnyArray) -> BoolArray:
        scores = _require_numbers(answer)
        columns = range(scores.shape[1])
        wrong = [place for place in self.wanted if place not in columns]
        if wrong:
            rule = f"a desired class must be one of the columns 0 to {len(columns) - 1} that the model answers"
            raise OutcomeError(expected=rule, got=repr(wrong[0]))
        chosen = scores[:, list(self.wanted)]
        if self.threshold is not None:
            return _flag_passing(chosen.sum(axis=1), self.threshold, self.direction)
        others = np.delete(scores, list(self.wanted), axis=1)
        if others.shape[1] == 0:
            rule = "at least one class must be undesired"
            raise OutcomeError(expected=rule, got=f"all of {format_count(len(columns), 'column')} as desired")
        return np.asarray(chosen.max(axis=1) > others.max(axis=1), dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class FunctionCriterion:
    """A plain function's answer: labels if classes are named, one score per row otherwise, or a column per class."""

    wanted: tuple[Any, ...] | None
    threshold: float | None
    direction: Direction = "above"

    def __call__(self, answer: AnyArray) -> BoolArray:
        if answer.ndim == 2 and self.wanted is None:
            raise OutcomeError(
                expected=f"one of the {format_count(answer.shape[1], 'column')} that the model answers must be desired",
                got="none",
                hint="pass the number of the column: desired=...",
                code="desired-required",
            )
        if answer.ndim == 2:
            return ColumnCriterion(self.wanted or (), self.threshold, self.direction)(answer)
        if self.wanted is None:
            threshold = DEFAULT_THRESHOLD if self.threshold is None else self.threshold
            return _flag_passing(_require_numbers(answer), threshold, self.direction)
        if self.threshold is not None:
            rule = "for one number per row either a desired class or a threshold must be given"
            raise OutcomeError(expected=rule, got="both")
        return LabelCriterion(self.wanted)(answer)


def _flag_passing(scores: Float64Array, threshold: float, direction: Direction) -> BoolArray:
    """Which scores are on the desired side of the threshold; one that is equal to it is not."""
    return np.asarray(scores > threshold if direction == "above" else scores < threshold, dtype=np.bool_)


def _require_numbers(answer: AnyArray) -> Float64Array:
    if answer.dtype.kind not in "biuf":
        raise OutcomeError(
            expected="scores must be numbers",
            got=f"{answer.dtype} such as {answer.ravel()[0]!r}",
            hint="name the desired class: desired=...",
            code="desired-required",
        )
    _require_finite(answer)
    numbers: Float64Array = answer if answer.dtype.kind == "f" else answer.astype(np.float64)
    return numbers


def _require_finite(answer: AnyArray) -> None:
    if answer.dtype.kind == "f" and not np.isfinite(answer).all():
        got = f"NaN or infinity in {int((~np.isfinite(answer)).sum())} of {answer.size}"
        raise ModelError(expected="the model's answers must be finite", got=got)


def _ask_model(ask: Ask, table: Any, rows: int) -> AnyArray:
    """The model's answer as an array; its own exception is shown, not swallowed."""
    try:
        answer = np.asarray(ask(table))
    except (Exception, SystemExit) as error:  # whatever the user's model raises is reported as its failure
        said = f"the model failed on a table of {format_count(rows, 'row')}: {type(error).__name__}: {error}"
        raise ModelError(said) from error
    if answer.ndim == 2 and answer.shape[1] == 1:
        answer = answer[:, 0]
    if answer.ndim not in (1, 2) or len(answer) != rows:
        rule = "the model must answer one label or score per row"
        raise ModelError(expected=rule, got=f"an array of shape {answer.shape} for {format_count(rows, 'row')}")
    return answer


@dataclass(frozen=True, slots=True)
class DecisionTarget:
    """What counts as desired: the classes, or scores above or below a threshold, and the margin by which scores may
    move. ``direction`` is "below" only with a threshold, and then no class is named: scores are those of a function or
    a regression, or the probabilities of class 1 of a classifier of 0 and 1.
    """

    desired: tuple[Any, ...] | None = None
    threshold: float | None = None
    margin: float = 0.0
    direction: Direction = "above"

    @classmethod
    def from_arguments(
        cls, desired: Any, threshold: float | None, margin: float = 0.0, model: Any = None
    ) -> DecisionTarget:
        """The same from what a caller gives, checked. With a threshold, "above" and "below" are directions, unless the
        model has a class of that name.
        """
        number = isinstance(margin, (int, float, np.number)) and not isinstance(margin, bool)
        if not number or not 0 <= margin < float("inf"):
            raise InputError(expected="margin must be a finite non-negative number", got=repr(margin))
        wanted = None if desired is None else as_labels(desired)
        direction = _find_direction(wanted, threshold, model)
        return cls(wanted if direction is None else None, threshold, float(margin), direction or "above")

    @property
    def desired_argument(self) -> tuple[Any, ...] | Direction | None:
        """What a caller passes as ``desired`` to mean this."""
        return self.direction if self.direction == "below" else self.desired

    def move_threshold(self, model: Any) -> float | None:
        """The threshold, moved by the margin to where it is easier to pass; raises OutcomeError if the model's decision
        has no score to move.
        """
        if self.margin == 0 or self.threshold is not None:
            away = self.margin if self.direction == "below" else -self.margin
            return None if self.threshold is None else self.threshold + away
        classes = getattr(model, "classes_", None)
        if classes is None and not hasattr(model, "predict"):
            return DEFAULT_THRESHOLD - self.margin
        if classes is None or len(classes) != 2 or not hasattr(model, "predict_proba"):
            raise OutcomeError(
                expected="a margin needs a score with a threshold, such as a classifier of two classes with "
                "predict_proba has",
                got=type(model).__name__,
                hint="pass threshold=... with the margin",
                code="threshold-per-model",
            )
        return DEFAULT_THRESHOLD - self.margin

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data; the direction only where it is "below"."""
        desired = None if self.desired is None else [value_to_json(label) for label in self.desired]
        data = {"desired": desired, "threshold": self.threshold, "margin": self.margin}
        return data if self.direction == "above" else {**data, "direction": self.direction}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> DecisionTarget:
        """What :meth:`to_dict` wrote."""
        direction, threshold = data.get("direction", "above"), data["threshold"]
        below = direction == "below" and threshold is not None and data["desired"] is None
        if not below and direction != "above":
            rule = 'direction must be "above", or "below" with a threshold and without classes'
            raise InputError(expected=rule, got=repr(direction))
        desired = None if data["desired"] is None else tuple(value_from_json(label) for label in data["desired"])
        plain = cls.from_arguments(None, threshold, data["margin"])
        return replace(plain, desired=None if desired is None else as_labels(desired), direction=direction)


def _find_direction(desired: tuple[Any, ...] | None, threshold: float | None, model: Any) -> Direction | None:
    """The direction that the user named in the place of a class; None if it is a class, or there is no threshold."""
    if desired is None or len(desired) != 1 or threshold is None:
        return None
    classes = getattr(model, "classes_", None)
    if classes is not None and desired[0] in list_labels(classes):
        return None
    return next((direction for direction in get_args(Direction) if desired[0] == direction), None)
