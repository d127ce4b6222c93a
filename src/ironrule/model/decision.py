"""Turn the answers of a user's model into decisions: desired or undesired.

A model that gives labels decides by them. A model that gives scores is desired where the score is above the
threshold, or below it if the user says so (``desired="below"``); a tie is undesired either way. Scores for several
classes are desired where a desired class beats every other one, or, with a threshold, where the desired classes
together pass it. Nothing here re-implements a model: a criterion is applied to its answer.

Whatever a model answers is checked here, once, for every model: one label or score per row; scores that are finite
numbers; of a classifier labels that are among its classes, and one column of probabilities per class. A
function that is to answer labels, and answers numbers that are not whole, answers scores: these need a threshold.

:class:`DecisionTarget` is what the user asked for: the desired classes, the threshold, on which side of it scores are
desired, and the margin by which scores may move. A rule that must hold although every score may move by a margin holds
where no score comes within the margin of the threshold: that is the same model with a threshold that is easier to pass.
"""

from __future__ import annotations

import datetime
import difflib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, replace
from decimal import Decimal
from os import PathLike
from typing import Any, Literal, NoReturn, get_args

import numpy as np

from ironrule.arrays import AnyArray, BoolArray, Float64Array
from ironrule.errors import InputError, ModelError, OutcomeError, describe_value
from ironrule.model.failures import explain_failure
from ironrule.model.thread_limit import limit_threads
from ironrule.space.feature import is_missing, value_from_json, value_to_json
from ironrule.space.table import to_python_value
from ironrule.wording import format_count, format_settings

Ask = Callable[[Any], Any]
Direction = Literal["above", "below"]  # on which side of the threshold scores are desired
DEFAULT_THRESHOLD = 0.5
PROBABILITY_TOLERANCE = 1e-6  # by which a probability may lie outside 0 to 1, as rounding makes it
MAX_FRACTIONAL_LABELS = 20  # so many different labels that are no whole numbers; a function with more answers scores
COLUMN_HINT = "pass the number of the column, desired=..., or the fitted model in the place of its function"
LABEL_TYPES = (str, bytes, bool, int, float, Decimal, np.number, np.bool_, datetime.date)


@dataclass(frozen=True, slots=True)
class Decision:
    """How a user's model is asked (``ask``) and what its answer means (``criterion``)."""

    ask: Ask
    criterion: Callable[[AnyArray], BoolArray]
    undesired_name: str  # what the undesired outcome is called
    unlisted_labels: tuple[Any, ...] | None = None  # desired labels that the model does not list among its classes

    def __call__(self, table: Any, rows: int) -> BoolArray:
        """Which rows of the table have the desired outcome."""
        return self.criterion(ask_model(self.ask, table, rows))

    def require_known_labels(self, table: Any, rows: int) -> None:
        """Raise OutcomeError if these rows, none of them desired, get labels: the desired one is likely misspelt."""
        answer = drop_single_column(ask_model(self.ask, table, rows))
        if self.unlisted_labels is not None and answer.ndim == 1:
            seen = ", ".join(sorted({describe_value(to_python_value(label)) for label in answer})[:12])
            rule = f"at least one past row must get a desired label, one of {list(self.unlisted_labels)}"
            if answer.dtype.kind == "f" or any(label in get_args(Direction) for label in self.unlisted_labels):
                hint = "pass threshold=... if these are scores"
                raise OutcomeError(expected=rule, got=f"labels {seen}", hint=hint, code="threshold-required")
            raise OutcomeError(expected=rule, got=f"labels {seen}")


class OwnDecision(ABC):
    """A model of ours that knows what it decides, and is not asked for labels or scores."""

    @abstractmethod
    def build_decision(self, target: DecisionTarget) -> Decision:
        """Its decision for a target; raises ModelError if it has none."""

    @abstractmethod
    def raise_other_target(self) -> NoReturn:
        """Raise ModelError about a target that it knows nothing of."""


def build_decision(model: Any, desired: Any, threshold: float | None, direction: Direction = "above") -> Decision:
    """The decision of an estimator (anything with ``predict``) or of a plain function."""
    if threshold is not None and not is_finite_number(threshold):
        raise OutcomeError(expected="threshold must be a finite number", got=describe_value(threshold))
    if isinstance(model, type):
        raise ModelError(
            expected="a model must be a fitted object or a function",
            got=f"the class {model.__name__}",
            hint="make an object of the class, and fit it",
        )
    if hasattr(model, "predict") and not callable(model.predict):
        got = f"predict = {describe_value(model.predict)}"
        raise ModelError(expected="a model must be a function or have a predict method", got=got)
    if hasattr(model, "predict"):
        return _build_estimator_decision(model, desired, threshold, direction)
    if any(kind.__name__ == "Module" and kind.__module__.startswith("torch.nn.") for kind in type(model).__mro__):
        raise ModelError(
            expected="a model must be a function or have a predict method",
            got="a bare torch module, which does not say what its outputs mean",
            hint="wrap the torch module: ironrule.TorchNetwork(module, classes=...)",
        )
    if not callable(model):
        raise ModelError(
            expected="a model must be a function or have a predict method",
            got=type(model).__name__,
            hint="load the model from its file, and pass it" if isinstance(model, str | PathLike) else None,
        )
    return _build_function_decision(model, desired, threshold, direction)


def build_target_decision(model: Any, target: DecisionTarget) -> Decision:
    """The decision of a model for a target, which may be a band of scores."""
    if isinstance(model, OwnDecision):
        return model.build_decision(target)
    if target.upper is None:
        return build_decision(model, target.desired, target.threshold, target.direction)
    too_high = build_decision(model, target.desired, target.upper)
    above = None if target.threshold is None else build_decision(model, target.desired, target.threshold).criterion
    name = f"a score that is not {'up' if above is None else f'above {target.threshold!r} and up'} to {target.upper!r}"
    return replace(too_high, criterion=BandCriterion(above, too_high.criterion), undesired_name=name)


def _build_estimator_decision(model: Any, desired: Any, threshold: float | None, direction: Direction) -> Decision:
    labels = read_classes(model)
    if not labels:  # a regression; CatBoost's has an empty list
        _require_fitted(model)
        if desired is None and threshold is None:
            rule = "a model without classes (a regression) needs a threshold above which predictions are desired"
            hint = 'pass threshold=..., and desired="below" if low predictions are desired'
            raise OutcomeError(expected=rule, got="none", hint=hint, code="threshold-required")
        return _build_function_decision(model.predict, desired, threshold, direction)
    wanted = resolve_desired_labels(desired, labels)
    others = [label for label in labels if label not in wanted]
    name = repr(others[0]) if len(others) == 1 else _name_undesired(wanted, None)
    if threshold is None:
        return Decision(model.predict, LabelCriterion(wanted, tuple(labels)), name)
    if not hasattr(model, "predict_proba"):
        rule = "a threshold needs a classifier with predict_proba"
        raise OutcomeError(expected=rule, got=f"{type(model).__name__} without it", hint="leave the threshold out")
    positions, _ = split_classes(labels, wanted)
    criterion = ProbabilityCriterion(tuple(positions), len(labels), threshold, direction)
    return Decision(model.predict_proba, criterion, _name_missed(threshold, direction, " or ".join(map(repr, wanted))))


def _require_fitted(model: Any) -> None:
    """Raise ModelError for a classifier that does not know its classes, since it was not fitted."""
    if not hasattr(model, "fit"):
        return
    from sklearn.base import is_classifier
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        if is_classifier(model):
            check_is_fitted(model)
    except NotFittedError:
        statement = f"the model must be fitted, got a {type(model).__name__} that is not"
        raise ModelError(statement, hint="call its fit(...) first", code="model-not-fitted") from None
    except (AttributeError, TypeError, ValueError):  # an estimator of another library, without scikit-learn's tags
        return


def is_finite_number(value: Any) -> bool:
    """Whether a value is a real number, finite and not too large for a float; truth values are none."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return False
    try:
        return bool(np.isfinite(float(value)))
    except OverflowError:
        return False


def require_probability_threshold(model: Any, threshold: float | None) -> None:
    """Raise OutcomeError for a threshold on probabilities that is none; scores of other kinds may be any number."""
    by_probability = bool(read_classes(model)) and hasattr(model, "predict_proba")
    if by_probability and is_finite_number(threshold) and threshold is not None and not 0 <= threshold <= 1:
        raise OutcomeError(
            expected="the threshold of a classifier must be a probability from 0 to 1",
            got=describe_value(threshold),
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
        raise OutcomeError(expected=rule, got=got, hint=suggest_label(unknown[0], labels))
    if len(wanted) == len(labels):
        raise OutcomeError(expected="at least one class must be undesired", got=f"all of {labels} as desired")
    return wanted


def suggest_label(label: Any, labels: Sequence[Any]) -> str | None:
    """What may be meant by a label that a classifier does not know: labels may have become numbers before it was
    fitted, and a number between two classes is a score.
    """
    if isinstance(label, float) and not label.is_integer():
        return f"a score above it is threshold={label!r}, or target=Target(above={label!r}) of a counterfactual"
    if isinstance(label, str) and all(isinstance(one, int) for one in labels):
        known = " (1 unless you say otherwise)" if set(labels) == {0, 1} else ""
        return f"the model was fitted on these numbers; name one of them{known}"
    close = difflib.get_close_matches(str(label), [str(one) for one in labels], 1)
    return f"did you mean {close[0]!r}?" if close else None


def list_labels(classes: Any) -> list[Any]:
    """The labels of a classifier as Python values."""
    return [to_python_value(label) for label in np.asarray(classes).ravel()]


def read_classes(model: Any) -> list[Any] | None:
    """The classes that a model says it has; None if it does not say. Raises ModelError if these are no labels."""
    classes = getattr(model, "classes_", None)
    if classes is None:
        return None
    expected = "classes_ of a model must be a list of labels"
    try:
        array = np.asarray(classes)
    except Exception as error:  # lists of several lengths, or whatever the object raises
        raise ModelError(expected=expected, got=f"{type(error).__name__}: {error}") from error
    if array.ndim not in (1, 2) or not all(isinstance(label, LABEL_TYPES) for label in array.ravel()):
        raise ModelError(expected=expected, got=describe_value(classes))
    return list_labels(array)


def split_classes(labels: Sequence[Any], desired: Sequence[Any]) -> tuple[list[int], list[int]]:
    """The positions of the desired labels, and of the others."""
    positions: tuple[list[int], list[int]] = [], []
    for position, label in enumerate(labels):
        positions[label not in desired].append(position)
    return positions


def as_labels(desired: Any) -> tuple[Any, ...]:
    """The desired labels as a tuple, each once; raises OutcomeError if there are none."""
    several = isinstance(desired, (list, tuple, set, frozenset)) or (isinstance(desired, np.ndarray) and desired.ndim)
    listed = [to_python_value(label) for label in (desired if several else (desired,))]
    odd = [label for label in listed if label is not None and not _is_label(label)]
    if odd:
        rule = "a desired class must be one value, such as a string or a number"
        raise OutcomeError(expected=rule, got=describe_value(odd[0]), hint="several classes must be in one list")
    labels = tuple(dict.fromkeys(listed))
    if not labels:
        raise OutcomeError(expected="at least one desired class must be named", got="an empty collection")
    return labels


def _is_label(label: Any) -> bool:
    """Whether a value may be a label: integers of more than 64 bits are none, since no array holds them."""
    return isinstance(label, LABEL_TYPES) and not (isinstance(label, int) and not -(2**63) <= label < 2**63)


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
    """Labels: desired if among the wanted ones; they must be among the classes, where these are known."""

    wanted: tuple[Any, ...]
    classes: tuple[Any, ...] | None = None

    def __call__(self, answer: AnyArray) -> BoolArray:
        labels = drop_single_column(answer)
        if labels.ndim != 1:
            rule = "the model must answer one label per row"
            raise ModelError(expected=rule, got=f"an array of shape {answer.shape}")
        _require_finite(labels)
        mask = _flag_equal(labels, self.wanted)
        if self.classes is not None:
            others = labels[~mask]
            known = _flag_equal(others, [label for label in self.classes if label not in self.wanted])
            if not known.all():
                rule = f"the model must answer labels of its classes, {list(self.classes)}"
                raise ModelError(expected=rule, got=describe_value(to_python_value(others[~known][0])))
        return mask


@dataclass(frozen=True, slots=True)
class BandCriterion:
    """Scores of a band: desired if one criterion holds (where there is one) and the other, for higher scores, not."""

    above: Callable[[AnyArray], BoolArray] | None
    too_high: Callable[[AnyArray], BoolArray]

    def __call__(self, answer: AnyArray) -> BoolArray:
        low_enough = ~self.too_high(answer)
        return low_enough if self.above is None else low_enough & self.above(answer)


def _flag_equal(labels: AnyArray, wanted: Sequence[Any]) -> BoolArray:
    """Which labels are among the wanted ones."""
    mask = np.zeros(len(labels), dtype=np.bool_)
    for label in wanted:
        mask |= np.asarray(labels == label, dtype=np.bool_)
    return mask


@dataclass(frozen=True, slots=True)
class ProbabilityCriterion:
    """Probabilities, a column per class: desired if those of the wanted classes together pass the threshold."""

    wanted: tuple[int, ...]
    classes: int
    threshold: float
    direction: Direction = "above"

    def __call__(self, answer: AnyArray) -> BoolArray:
        if answer.ndim != 2 or answer.shape[1] != self.classes:
            rule = f"predict_proba must answer {self.classes} columns, one per class"
            raise ModelError(expected=rule, got=f"an array of shape {answer.shape}")
        if answer.dtype.kind not in "biuf":
            raise ModelError(expected="probabilities must be numbers", got=f"{answer.dtype}")
        shares = require_numbers(answer)
        # XGBoost's binary:logitraw answers the score s, which is no probability, as the columns 1 - s and s.
        no_share = (shares < -PROBABILITY_TOLERANCE) | (shares > 1 + PROBABILITY_TOLERANCE)
        adds_up = np.isclose(shares.sum(axis=1), 1.0, atol=PROBABILITY_TOLERANCE * (1.0 + np.abs(shares).sum(axis=1)))
        outside = shares[no_share & ~adds_up[:, None]]
        if outside.size:
            rule = "predict_proba must answer probabilities from 0 to 1"
            raise ModelError(expected=rule, got=f"{float(outside[0])!r} among others")
        return _flag_passing(shares[:, list(self.wanted)].sum(axis=1), self.threshold, self.direction)


@dataclass(frozen=True, slots=True)
class ColumnCriterion:
    """One score per class: desired if the wanted classes pass the threshold, or beat all others where there is none."""

    wanted: tuple[int, ...]
    threshold: float | None
    direction: Direction = "above"

    def __call__(self, answer: AnyArray) -> BoolArray:
        scores = require_numbers(answer)
        columns = range(scores.shape[1])
        wrong = [place for place in self.wanted if type(place) is not int or place not in columns]
        if wrong:
            rule = f"a desired class must be one of the columns 0 to {len(columns) - 1} that the model answers"
            raise OutcomeError(
                expected=rule,
                got=describe_value(wrong[0]),
                hint="pass the number of a column, or the fitted model in the place of its function",
            )
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
        answer = drop_single_column(answer)
        if answer.ndim == 2 and self.wanted is None:
            raise OutcomeError(
                expected=f"one of the {format_count(answer.shape[1], 'column')} that the model answers must be desired",
                got="none",
                hint=COLUMN_HINT,
                code="desired-required",
            )
        if answer.ndim == 2:
            return ColumnCriterion(self.wanted or (), self.threshold, self.direction)(answer)
        if self.wanted is None:
            threshold = DEFAULT_THRESHOLD if self.threshold is None else self.threshold
            return _flag_passing(require_numbers(answer), threshold, self.direction)
        if self.threshold is not None:
            rule = "for one number per row either a desired class or a threshold must be given"
            raise OutcomeError(expected=rule, got="both")
        _require_labels(answer, self.wanted)
        return LabelCriterion(self.wanted)(answer)


def _require_labels(answer: AnyArray, wanted: tuple[Any, ...]) -> None:
    """Raise OutcomeError if the answers are scores, although labels are wanted.

    Numbers that are not whole are scores, unless such a label is wanted and there are few of them. A score that
    happens to be 1 must not be taken for the label 1, while all others, however high, would count as undesired.
    """
    if answer.dtype.kind != "f":
        return
    parts = answer[np.isfinite(answer) & (answer != np.floor(answer))]
    fractional = any(isinstance(label, float) and not label.is_integer() for label in wanted)
    if len(parts) and not (fractional and len(np.unique(parts)) <= MAX_FRACTIONAL_LABELS):
        shown = ", ".join(describe_value(float(score)) for score in parts[:3])
        raise OutcomeError(
            expected=f"the model must answer labels, since desired={list(wanted)} names some",
            got=f"scores such as {shown}",
            hint="pass threshold=... in place of desired=... for scores, or let the function answer labels",
            code="threshold-required",
        )


def _flag_passing(scores: Float64Array, threshold: float, direction: Direction) -> BoolArray:
    """Which scores are on the desired side of the threshold; one that is equal to it is not."""
    return np.asarray(scores > threshold if direction == "above" else scores < threshold, dtype=np.bool_)


def require_numbers(answer: AnyArray) -> Float64Array:
    """A model's answers as numbers; raises OutcomeError if they are none, ModelError if they are not finite."""
    if answer.dtype == object and all(isinstance(score, (int, float, Decimal, np.number)) for score in answer.ravel()):
        try:
            answer = answer.astype(np.float64)
        except OverflowError:
            raise ModelError(
                expected="the model's answers must be numbers that a float can hold", got="larger"
            ) from None
    if answer.dtype.kind not in "biuf":
        raise OutcomeError(
            expected="scores must be numbers",
            got=f"{answer.dtype} such as {describe_value(answer.ravel()[0])}",
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


def ask_model(ask: Ask, table: Any, rows: int) -> AnyArray:
    """The model's answer as an array with something for every row; its own exception is shown, not swallowed."""
    try:
        with limit_threads(rows):
            answer = _to_array(ask(table), rows)
    except ModelError:
        raise
    except (Exception, SystemExit) as error:  # whatever the user's model raises is reported as its failure
        raise explain_failure(error, table, rows) from error
    if answer.ndim not in (1, 2) or len(answer) != rows or answer.size == 0:
        raise _build_answer_error(f"an array of shape {answer.shape}", rows)
    if answer.dtype.kind not in "biufOSUM":
        raise ModelError(expected="the model must answer labels or real numbers", got=f"{answer.dtype}")
    return answer


def _build_answer_error(got: str, rows: int) -> ModelError:
    rule = "the model must answer one label or score per row"
    return ModelError(expected=rule, got=f"{got} for {format_count(rows, 'row')}")


def _to_array(given: Any, rows: int) -> AnyArray:
    """Whatever a model answers as an array: lists, arrays, pandas, polars, torch."""
    if given is None or isinstance(given, (str, bytes, Mapping, AbstractSet)):
        raise _build_answer_error("None" if given is None else f"a {type(given).__name__}", rows)
    if hasattr(given, "nnz") and hasattr(given, "toarray"):
        rule = "the model must answer an array"
        raise ModelError(expected=rule, got="a sparse matrix", hint="answer a dense array, as toarray gives")
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        raise ModelError(expected="the model must answer something for every row", got="a masked array with gaps")
    dense = given.detach().cpu() if callable(getattr(given, "detach", None)) else given  # a torch tensor
    answer = np.asarray(dense)
    if answer.dtype == object and answer.ndim in (1, 2):
        # Every library has its own kind of missing: all become None, and what the model gave stays as it was.
        answer = answer.copy()
        flat = answer.reshape(-1)
        flat[:] = [None if is_missing(label) else label for label in flat.tolist()]
        odd = [label for label in flat.tolist() if label is not None and not isinstance(label, LABEL_TYPES)]
        if odd:
            raise ModelError(expected="the model must answer labels or real numbers", got=f"a {type(odd[0]).__name__}")
    return answer


def drop_single_column(answer: AnyArray) -> AnyArray:
    """A table of one column is a list."""
    return answer[:, 0] if answer.ndim == 2 and answer.shape[1] == 1 else answer


@dataclass(frozen=True, slots=True)
class DecisionTarget:
    """What counts as desired: the classes, or scores above or below a threshold, and the margin by which scores may
    move. ``direction`` is "below" only with a threshold, and then no class is named: scores are those of a function or
    a regression, or the probabilities of class 1 of a classifier of 0 and 1. With ``upper``, scores above that are not
    desired either, whether there is a threshold or not; this is for counterfactuals alone.
    """

    desired: tuple[Any, ...] | None = None
    threshold: float | None = None
    margin: float = 0.0
    direction: Direction = "above"
    upper: float | None = None

    def __repr__(self) -> str:
        return format_settings(self)

    @classmethod
    def from_arguments(
        cls, desired: Any, threshold: float | None, margin: float = 0.0, model: Any = None
    ) -> DecisionTarget:
        """The same from what a caller gives, checked. With a threshold, "above" and "below" are directions, unless the
        model has a class of that name.
        """
        if not is_finite_number(margin) or margin < 0:
            raise InputError(expected="margin must be a finite non-negative number", got=describe_value(margin))
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
        return self.shift_threshold(model, self.margin)

    def shift_threshold(self, model: Any, distance: float) -> float | None:
        """The threshold, moved to where it is easier to pass, or harder if the distance is negative; raises
        OutcomeError if the model's decision has no score to move.
        """
        if distance == 0 or self.threshold is not None:
            away = distance if self.direction == "below" else -distance
            return None if self.threshold is None else self.threshold + away
        if isinstance(model, OwnDecision):
            model.raise_other_target()
        classes = read_classes(model)
        if classes is None and not hasattr(model, "predict"):
            return DEFAULT_THRESHOLD - distance
        if classes is None or len(classes) != 2 or not hasattr(model, "predict_proba"):
            raise OutcomeError(
                expected="a margin needs a score with a threshold, such as a classifier of two classes with "
                "predict_proba has",
                got=type(model).__name__,
                hint="pass threshold=... with the margin",
                code="threshold-per-model",
            )
        return DEFAULT_THRESHOLD - distance

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
            raise InputError(expected=rule, got=describe_value(direction))
        desired = None if data["desired"] is None else tuple(value_from_json(label) for label in data["desired"])
        plain = cls.from_arguments(None, threshold, data["margin"])
        return replace(plain, desired=None if desired is None else as_labels(desired), direction=direction)


def _find_direction(desired: tuple[Any, ...] | None, threshold: float | None, model: Any) -> Direction | None:
    """The direction that the user named in the place of a class; None if it is a class, or there is no threshold."""
    if desired is None or len(desired) != 1 or threshold is None:
        return None
    if desired[0] in (read_classes(model) or ()):
        return None
    return next((direction for direction in get_args(Direction) if desired[0] == direction), None)
