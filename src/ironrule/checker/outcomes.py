"""From whatever the user's model answers to a decision: desired or not.

A model that gives labels decides by them. A model that gives scores is desired where the score is above the threshold,
so a tie is undesired. Scores for several classes are desired where a desired class beats every other one, or, with a
threshold, where the desired classes together are above it. Nothing here computes what a model would say: it asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.checker.readings.normal_form import Question
from ironrule.checker.space.tables import as_python
from ironrule.errors import InputError, ModelError, OutcomeError

Mask = npt.NDArray[np.bool_]
Answer = npt.NDArray[Any]

DEFAULT_THRESHOLD = 0.5


@dataclass(frozen=True, slots=True)
class Target:
    """What counts as desired: the classes (None: the estimator's second of two, or a score), a threshold on scores, and
    the margin by which every score may move.
    """

    desired: tuple[Any, ...] | None = None
    threshold: float | None = None
    margin: float = 0.0

    def lower(self, model: Any) -> float | None:
        """The threshold less the margin; raises OutcomeError if the model's decision has no score to move."""
        if self.margin == 0 or self.threshold is not None:
            return None if self.threshold is None else self.threshold - self.margin
        classes = getattr(model, "classes_", None)
        scored = classes is not None and len(classes) == 2 and hasattr(model, "predict_proba")
        if not (scored or (classes is None and not hasattr(model, "predict"))):
            raise _missing("threshold", "threshold-per-model", "a margin needs a score with a threshold")
        return DEFAULT_THRESHOLD - self.margin


def make_target(desired: Any, threshold: Any, margin: Any = 0.0) -> Target:
    """What a caller or a document says, checked; raises OutcomeError."""
    level = None if threshold is None else _finite(threshold, "threshold")
    moved = _finite(margin, "margin")
    if moved < 0:
        raise OutcomeError(expected="margin must be a non-negative number", got=repr(margin))
    return Target(None if desired is None else as_labels(desired), level, moved)


def _finite(value: Any, what: str) -> float:
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    try:
        if number and np.isfinite(float(value)):
            return float(value)
    except OverflowError:
        pass
    raise OutcomeError(expected=f"{what} must be a finite number", got=repr(value)[:40])


def as_labels(desired: Any) -> tuple[Any, ...]:
    """The desired labels, each once; raises OutcomeError if there are none."""
    given = desired.tolist() if isinstance(desired, np.ndarray) else desired
    several = given if isinstance(given, (list, tuple, set, frozenset)) else (given,)
    try:
        labels = tuple(dict.fromkeys(as_python(label) for label in several))
    except TypeError:
        raise OutcomeError(expected="a desired class must be one value", got=repr(desired)[:40]) from None
    if not labels:
        raise OutcomeError(expected="at least one desired class must be named", got="an empty collection")
    return labels


@dataclass(frozen=True, slots=True)
class Decision:
    """How a model is asked (``ask``), how its answer is read (``read``), and both outcomes in words."""

    ask: Callable[[Any], Any]
    read: Callable[[Answer], Mask]
    desired: str
    undesired: str
    question: Question
    labels: tuple[Any, ...] | None  # the desired labels

    def __call__(self, table: Any, rows: int) -> Mask:
        """Which rows of the table have the desired outcome; raises ModelError if the model fails."""
        try:
            answer = np.asarray(self.ask(table))
        except (Exception, SystemExit) as error:  # whatever the user's model raises is reported as its failure
            raise ModelError(f"the model failed on a table of {rows} rows: {type(error).__name__}: {error}") from error
        if answer.ndim == 2 and answer.shape[1] == 1:
            answer = answer[:, 0]
        if answer.ndim not in (1, 2) or len(answer) != rows:
            raise ModelError(expected="the model must answer one value per row", got=f"{answer.shape} for {rows} rows")
        if answer.dtype.kind == "f" and not np.isfinite(answer).all():
            raise ModelError(expected="the model's answers must be finite", got="NaN or infinity")
        return self.read(answer)


def make_decision(model: Any, target: Target, threshold: float | None) -> Decision:
    """The decision of an estimator (anything with ``predict``) or of a function; raises OutcomeError or ModelError."""
    classes = getattr(model, "classes_", None) if hasattr(model, "predict") else None
    if classes is not None and len(classes):
        return _classifier_decision(
            model, [as_python(label) for label in np.asarray(classes).ravel()], target, threshold
        )
    if not hasattr(model, "predict") and not callable(model):
        raise ModelError(expected="a model must be a function or have a predict method", got=type(model).__name__)
    ask = model.predict if hasattr(model, "predict") else model
    labels = target.desired
    if labels is None:
        if threshold is None and hasattr(model, "predict"):
            raise _missing("threshold", "threshold-required", "a model without classes (regression) needs a threshold")
        level = DEFAULT_THRESHOLD if threshold is None else threshold
        names = (f"a score above {level!r}", f"a score of at most {level!r}")
        return Decision(ask, lambda answer: _above(answer, level), *names, Question((), level), None)
    named = " or ".join(map(repr, labels))
    names = (
        (named, f"not {named}")
        if threshold is None
        else (f"above {threshold!r} for {named}", f"at most {threshold!r} for {named}")
    )
    return Decision(ask, lambda answer: _among(answer, labels, threshold), *names, Question((), threshold), labels)


def _classifier_decision(model: Any, known: list[Any], target: Target, threshold: float | None) -> Decision:
    labels = resolve_labels(target.desired, known)
    places = tuple(place for place, label in enumerate(known) if label in labels)
    others = [label for label in known if label not in labels]
    named = " or ".join(map(repr, labels))
    question = Question(places, threshold)
    if threshold is None:
        name = repr(others[0]) if len(others) == 1 else f"not {named}"
        return Decision(model.predict, lambda answer: _labelled(answer, labels), named, name, question, labels)
    if not hasattr(model, "predict_proba"):
        raise OutcomeError(expected="a threshold needs a classifier with predict_proba", got=type(model).__name__)
    names = (f"above {threshold!r} for {named}", f"at most {threshold!r} for {named}")
    return Decision(
        model.predict_proba,
        lambda answer: _columns_above(answer, places, threshold, len(known)),
        *names,
        question,
        labels,
    )


def resolve_labels(desired: tuple[Any, ...] | None, known: Sequence[Any]) -> tuple[Any, ...]:
    """The desired labels among those that a classifier knows; raises OutcomeError."""
    if desired is None:
        if len(known) == 2 and set(known) <= {0, 1}:
            return (1,)
        raise _missing("desired", "desired-required", f"the desired class must be one of {list(known)}")
    unknown = [label for label in desired if label not in known]
    if unknown or len(desired) == len(known):
        raise OutcomeError(expected=f"the desired classes must be some of {list(known)}, not all", got=list(desired))
    return desired


def require_probability(model: Any, threshold: float | None) -> None:
    """Raise OutcomeError for a threshold on a probability that is none."""
    classes = getattr(model, "classes_", None)
    if threshold is not None and classes is not None and len(classes) and not 0 <= threshold <= 1:
        raise OutcomeError(expected="the threshold of a classifier must be a probability from 0 to 1", got=threshold)


def _missing(argument: str, code: str, expected: str, got: str = "none") -> OutcomeError:
    return OutcomeError(expected=expected, got=got, hint=f"pass {argument}=...", code=code)


def _labelled(answer: Answer, labels: tuple[Any, ...]) -> Mask:
    if answer.ndim != 1:
        raise ModelError(expected="the model must answer one label per row", got=f"an array of shape {answer.shape}")
    mask = np.zeros(len(answer), dtype=np.bool_)
    for label in labels:
        mask |= np.asarray(answer == label, dtype=np.bool_)
    return mask


def _numbers(answer: Answer) -> Answer:
    if answer.dtype.kind not in "biuf":
        raise _missing("desired", "desired-required", "scores must be numbers", str(answer.dtype))
    return answer if answer.dtype.kind == "f" else answer.astype(np.float64)


def _above(answer: Answer, threshold: float) -> Mask:
    if answer.ndim != 1:
        raise _missing("desired", "desired-required", f"one of {answer.shape[1]} columns of scores must be desired")
    return np.asarray(_numbers(answer) > threshold)


def _columns_above(answer: Answer, places: tuple[int, ...], threshold: float | None, columns: int) -> Mask:
    scores = _numbers(answer)
    known = all(type(place) is int for place in places) and set(places) < set(range(columns))
    if scores.ndim != 2 or scores.shape[1] != columns or not known:
        got = f"{list(places)} in an array of shape {answer.shape}"
        raise OutcomeError(expected=f"desired must be some of {columns} columns of scores, not all", got=got)
    chosen = scores[:, list(places)]
    if threshold is not None:
        return np.asarray(chosen.sum(axis=1) > threshold)
    return np.asarray(chosen.max(axis=1) > np.delete(scores, list(places), axis=1).max(axis=1))


def _among(answer: Answer, labels: tuple[Any, ...], threshold: float | None) -> Mask:
    """A function's answer: labels, or a column for every class."""
    if answer.ndim == 2:
        return _columns_above(answer, labels, threshold, answer.shape[1])
    if threshold is not None:
        raise OutcomeError(expected="one number per row needs either a desired class or a threshold", got="both")
    return _labelled(answer, labels)


def describe_target(decision: Decision, margin: float) -> str:
    """What counts as desired, in words, with all digits."""
    return f"desired is {decision.desired}" + (f", where every score may move by {margin!r}" if margin else "")


def compare_targets(document: Target, caller: Target, decision: Decision, model: Any) -> None:
    """Raise InputError unless the caller means the same by desired as the document."""
    classes = getattr(model, "classes_", None) if hasattr(model, "predict") else None
    known = [] if classes is None else [as_python(label) for label in np.asarray(classes).ravel()]
    wanted = resolve_labels(caller.desired, known) if known else caller.desired
    if (wanted is None) != (decision.labels is None) or set(wanted or ()) != set(decision.labels or ()):
        expected = f"the document's desired classes are {list(decision.labels or ())}"
        raise InputError(expected=expected, got=list(wanted or ()))
    if document.threshold != caller.threshold:
        raise InputError(expected=f"the document's threshold is {document.threshold!r}", got=repr(caller.threshold))
