"""The user's own models: how they are asked about points, and how their answers become decisions.

A model that gives labels decides by them. A model that gives scores is desired where the score is above the threshold,
or below it where that is asked for; a tie is undesired. Scores for several classes are desired where a desired class
beats every other one, or, with a threshold, where the desired classes together are above it. Nothing here computes what
a model would say: it is asked.

Points are laid out as a table of the user's own kind, and every point is asked about once. Rows rebuilt from their
codes must get the outcome of the user's own rows.

Every answer is checked before it is read: something for every row, numbers that are finite, labels of the classes,
probabilities of all classes; and scores are not taken for labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from ironrule.checker.arrays import AnyArray, BoolArray, Int32Array, IntpArray
from ironrule.checker.components import describe_changes
from ironrule.checker.readers.normal_form import Direction, EstimatorTarget
from ironrule.checker.result import ClaimFailed, ClaimUndecided
from ironrule.checker.space.layout import build_layout
from ironrule.checker.space.space import CheckerSpace
from ironrule.checker.space.table import UserTable, to_python_value
from ironrule.errors import InputError, ModelError, OutcomeError, TableError, describe_value

DEFAULT_THRESHOLD = 0.5
PROBABILITY_TOLERANCE = 1e-6  # rounding may take a probability so far beyond 0 and 1
MAX_FRACTIONAL_LABELS = 20
PLAIN_TYPES = (str, bytes, int, float, Decimal, date)
BATCH_ROWS, CHECKED_ROWS = 1 << 16, 512
Models = Sequence[Any]
PointClassifier: TypeAlias = "UserModel | UserModelSet"  # whatever says which points have the desired outcome


@dataclass(frozen=True, slots=True)
class OutcomeTarget:
    """What counts as desired: the classes (None: the estimator's second of two, or a score), a threshold on scores and
    on which side of it they are desired, and the margin by which every score may move.
    """

    desired: tuple[Any, ...] | None = None
    threshold: float | None = None
    margin: float = 0.0
    direction: Direction = "above"

    def move_threshold(self, model: Any) -> float | None:
        """The threshold that a score passes if it may move by the margin; raises OutcomeError if the model's decision
        has no score to move.
        """
        if self.margin == 0 or self.threshold is not None:
            towards = 1.0 if self.direction == "below" else -1.0
            return None if self.threshold is None else self.threshold + towards * self.margin
        classes = getattr(model, "classes_", None)
        scored = classes is not None and len(classes) == 2 and hasattr(model, "predict_proba")
        if not (scored or (classes is None and not hasattr(model, "predict"))):
            raise _build_missing_error("threshold", "threshold-per-model", "a margin needs a score with a threshold")
        return DEFAULT_THRESHOLD - self.margin


def parse_target(desired: Any, threshold: Any, margin: Any = 0.0, direction: Direction = "above") -> OutcomeTarget:
    """What a document says, or a caller who names no direction in the place of a class; raises OutcomeError."""
    level = None if threshold is None else _parse_finite(threshold, "threshold")
    moved = _parse_finite(margin, "margin")
    if moved < 0:
        raise OutcomeError(expected="margin must be a non-negative number", got=repr(margin))
    if direction == "below" and (level is None or desired is not None):
        raise OutcomeError(expected='direction "below" must come with a threshold alone', got=f"desired={desired!r}")
    return OutcomeTarget(None if desired is None else parse_labels(desired), level, moved, direction)


def parse_callers_target(desired: Any, threshold: Any, model: Any) -> OutcomeTarget:
    """What a caller says, who may name a direction in the place of a class: with a threshold "above" and "below" mean
    scores on that side of it, unless the model has a class of this name.
    """
    target = parse_target(desired, threshold)
    if threshold is None or target.desired not in (("above",), ("below",)) or target.desired[0] in list_classes(model):
        return target
    return replace(target, desired=None, direction=target.desired[0])


def _parse_finite(value: Any, what: str) -> float:
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    try:
        if number and np.isfinite(float(value)):
            return float(value)
    except OverflowError:
        pass
    raise OutcomeError(expected=f"{what} must be a finite number", got=describe_value(value))


def parse_labels(desired: Any) -> tuple[Any, ...]:
    """The desired labels, each once; raises OutcomeError if there are none."""
    given = desired.tolist() if isinstance(desired, np.ndarray) else desired
    several = given if isinstance(given, (list, tuple, set, frozenset)) else (given,)
    try:
        labels = tuple(dict.fromkeys(to_python_value(label) for label in several))
    except TypeError:
        raise OutcomeError(expected="a desired class must be one value", got=describe_value(desired)) from None
    if not labels:
        raise OutcomeError(expected="at least one desired class must be named", got="an empty collection")
    return labels


@dataclass(frozen=True, slots=True)
class ModelDecision:
    """How a model is asked (``ask``), how its answer is read (``criterion``), and both outcomes in words."""

    ask: Callable[[Any], Any]
    criterion: Callable[[AnyArray], BoolArray]
    desired_name: str
    undesired_name: str
    target: EstimatorTarget
    labels: tuple[Any, ...] | None  # the desired labels

    def __call__(self, table: Any, rows: int) -> BoolArray:
        """Which rows of the table have the desired outcome; raises ModelError if the model fails."""
        try:
            given = self.ask(table)
            dense = given.detach().cpu() if callable(getattr(given, "detach", None)) else given  # of torch
            answer = np.asarray(dense)
        except ClaimUndecided:  # of a saved file, which does not know all that its model does
            raise
        except (Exception, SystemExit) as error:  # whatever the user's model raises is reported as its failure
            raise ModelError(
                f"the model failed on a table of {rows} rows: {type(error).__name__}: {error}",
                hint="pass the data with the column types that the model was fitted on",
            ) from error
        if np.ma.is_masked(given):
            raise ModelError(expected="the model must answer something for every row", got="a masked array")
        if answer.ndim not in (1, 2) or len(answer) != rows or answer.size == 0:
            got = f"a {type(given).__name__} of shape {answer.shape} for {rows} rows"
            raise ModelError(expected="the model must answer one value per row", got=got)
        return self.criterion(_require_plain(answer))


def _require_plain(answer: AnyArray) -> AnyArray:
    """Labels or finite real numbers; what is missing among labels is None."""
    if answer.dtype == object:
        labels = [to_python_value(label) for label in answer.ravel()]
        odd = {type(label).__name__ for label in labels if label is not None and not isinstance(label, PLAIN_TYPES)}
        plain = np.empty(len(labels), dtype=object)
        plain[:] = labels
        answer = plain.reshape(answer.shape)
    else:
        odd = set() if answer.dtype.kind in "biufSUM" else {str(answer.dtype)}
    if odd:
        raise ModelError(expected="the model must answer labels or real numbers", got=", ".join(sorted(odd)))
    if answer.dtype.kind == "f" and not np.isfinite(answer).all():
        raise ModelError(expected="the model's answers must be finite", got="NaN or infinity")
    return answer


def list_classes(model: Any) -> list[Any]:
    """The classes that an estimator knows, in its own order; none for a regression or a function."""
    classes = getattr(model, "classes_", None) if hasattr(model, "predict") else None
    try:
        return [] if classes is None else [to_python_value(label) for label in np.asarray(classes).ravel()]
    except ValueError as error:
        raise ModelError(f"classes_ of the model is no list of labels: {error}") from None


def build_decision(model: Any, target: OutcomeTarget, threshold: float | None) -> ModelDecision:
    """The decision of an estimator (anything with ``predict``) or of a function; raises OutcomeError or ModelError."""
    if list_classes(model):
        return _build_classifier_decision(model, target, threshold)
    if not hasattr(model, "predict") and not callable(model):
        raise ModelError(expected="a model must be a function or have a predict method", got=type(model).__name__)
    ask, labels = model.predict if hasattr(model, "predict") else model, target.desired
    if labels is None and threshold is None and hasattr(model, "predict"):
        expected = "a model without classes (regression) needs a threshold"
        raise _build_missing_error("threshold", "threshold-required", expected)
    if labels is None:
        level = DEFAULT_THRESHOLD if threshold is None else threshold
        below = target.direction == "below"
        names = (f"a score {target.direction} {level!r}", f"a score of at {'least' if below else 'most'} {level!r}")
        criterion = partial(_flag_scores, threshold=level, direction=target.direction)
        return ModelDecision(ask, criterion, *names, EstimatorTarget((), level, target.direction), None)
    named = " or ".join(map(repr, labels))
    names = (named, f"not {named}") if threshold is None else _name_outcomes(named, threshold)
    return ModelDecision(
        ask,
        partial(_flag_function_answer, labels=labels, threshold=threshold),
        *names,
        EstimatorTarget((), threshold),
        labels,
    )


def _build_classifier_decision(model: Any, target: OutcomeTarget, threshold: float | None) -> ModelDecision:
    known = list_classes(model)
    labels = resolve_desired_labels(target.desired, known)
    places = tuple(place for place, label in enumerate(known) if label in labels)
    others = [label for label in known if label not in labels]
    named = " or ".join(map(repr, labels))
    estimator_target = EstimatorTarget(places, threshold, target.direction)
    if threshold is None:
        names = (named, repr(others[0]) if len(others) == 1 else f"not {named}")
        criterion = partial(_flag_labels, labels=labels, known=known)
        return ModelDecision(model.predict, criterion, *names, estimator_target, labels)
    if not hasattr(model, "predict_proba"):
        raise OutcomeError(expected="a threshold needs a classifier with predict_proba", got=type(model).__name__)
    direction = target.direction
    flag = partial(_flag_probabilities, places=places, threshold=threshold, columns=len(known), direction=direction)
    names = _name_outcomes(named, threshold, direction)
    return ModelDecision(model.predict_proba, flag, *names, estimator_target, labels)


def _name_outcomes(named: str, threshold: float, direction: Direction = "above") -> tuple[str, str]:
    missed = "at least" if direction == "below" else "at most"
    return f"{direction} {threshold!r} for {named}", f"{missed} {threshold!r} for {named}"


def resolve_desired_labels(desired: tuple[Any, ...] | None, known: Sequence[Any]) -> tuple[Any, ...]:
    """The desired labels among those that a classifier knows; raises OutcomeError."""
    if desired is None:
        if len(known) == 2 and set(known) <= {0, 1}:
            return (1,)
        raise _build_missing_error("desired", "desired-required", f"the desired class must be one of {list(known)}")
    unknown = [label for label in desired if label not in known]
    if unknown or len(desired) == len(known):
        raise OutcomeError(expected=f"the desired classes must be some of {list(known)}, not all", got=list(desired))
    return desired


def require_probability_threshold(model: Any, threshold: float | None) -> None:
    """Raise OutcomeError for a threshold on a probability that is none."""
    classes = getattr(model, "classes_", None)
    if threshold is not None and classes is not None and len(classes) and not 0 <= threshold <= 1:
        raise OutcomeError(expected="the threshold of a classifier must be a probability from 0 to 1", got=threshold)


def _build_missing_error(argument: str, code: str, expected: str, got: str = "none") -> OutcomeError:
    return OutcomeError(expected=expected, got=got, hint=f"pass {argument}=...", code=code)


def _drop_column(answer: AnyArray) -> AnyArray:
    """A single column is one value per row."""
    return answer[:, 0] if answer.ndim == 2 and answer.shape[1] == 1 else answer


def _flag_labels(answer: AnyArray, labels: tuple[Any, ...], known: Sequence[Any] = ()) -> BoolArray:
    given = _drop_column(answer)
    if given.ndim != 1:
        raise ModelError(expected="the model must answer one label per row", got=f"an array of shape {answer.shape}")
    mask, listed = np.zeros(len(given), dtype=np.bool_), np.full(len(given), not known)
    for label in known or labels:
        same = np.asarray(given == label, dtype=np.bool_)
        listed |= same
        mask |= same & (label in labels)
    if not listed.all():
        got = describe_value(to_python_value(given[~listed][0]))
        raise ModelError(expected=f"the model must answer labels of its classes, {list(known)}", got=got)
    return mask


def _require_labels(answer: AnyArray, labels: tuple[Any, ...]) -> None:
    """Raise OutcomeError for scores in the place of labels: numbers that are not whole, unless few of them are, and
    one of these is desired.
    """
    scores = np.unique(answer[answer % 1 != 0]) if answer.dtype.kind == "f" else answer[:0]
    if len(scores) > (MAX_FRACTIONAL_LABELS if any(type(label) is float and label % 1 for label in labels) else 0):
        got = f"scores such as {float(scores[0])!r}"
        raise _build_missing_error("threshold", "threshold-required", "the model must answer labels", got)


def _require_numbers(answer: AnyArray) -> AnyArray:
    if answer.dtype == object and all(isinstance(score, (int, float, Decimal)) for score in answer.ravel()):
        return _require_plain(answer.astype(np.float64))
    if answer.dtype.kind not in "biuf":
        raise _build_missing_error("desired", "desired-required", "scores must be numbers", str(answer.dtype))
    return answer if answer.dtype.kind == "f" else answer.astype(np.float64)


def _flag_passing(scores: AnyArray, threshold: float, direction: Direction) -> BoolArray:
    return np.asarray(scores < threshold if direction == "below" else scores > threshold)


def _flag_scores(answer: AnyArray, threshold: float, direction: Direction) -> BoolArray:
    answer = _drop_column(answer)
    if answer.ndim != 1:
        expected = f"one of {answer.shape[1]} columns of scores must be desired"
        raise _build_missing_error("desired", "desired-required", expected)
    return _flag_passing(_require_numbers(answer), threshold, direction)


def _flag_probabilities(
    answer: AnyArray, places: tuple[int, ...], threshold: float, columns: int, direction: Direction
) -> BoolArray:
    if answer.ndim != 2 or answer.shape[1] != columns or answer.dtype.kind not in "biuf":
        got = f"{answer.dtype} of shape {answer.shape}"
        raise ModelError(expected=f"predict_proba must answer {columns} columns, one per class", got=got)
    odd = answer[((answer < -PROBABILITY_TOLERANCE) | (answer > 1 + PROBABILITY_TOLERANCE)).any(axis=1)]
    room = PROBABILITY_TOLERANCE * (1.0 + np.abs(odd).sum(axis=1))
    if (np.abs(odd.sum(axis=1) - 1.0) > room).any():  # scores s as 1 - s and s, as XGBoost may answer, add up to 1
        got = f"{float(answer.min())!r} to {float(answer.max())!r}"
        raise ModelError(expected="predict_proba must answer probabilities from 0 to 1", got=got)
    return _flag_columns(answer, places, threshold, columns, direction)


def _flag_columns(
    answer: AnyArray,
    places: tuple[int, ...],
    threshold: float | None,
    columns: int,
    direction: Direction = "above",
) -> BoolArray:
    scores = _require_numbers(answer)
    known = all(type(place) is int for place in places) and set(places) < set(range(columns))
    if scores.ndim != 2 or scores.shape[1] != columns or not known:
        got = f"{list(places)} in an array of shape {answer.shape}"
        raise OutcomeError(expected=f"desired must be some of {columns} columns of scores, not all", got=got)
    chosen = scores[:, list(places)]
    if threshold is not None:
        return _flag_passing(chosen.sum(axis=1), threshold, direction)
    return np.asarray(chosen.max(axis=1) > np.delete(scores, list(places), axis=1).max(axis=1))


def _flag_function_answer(answer: AnyArray, labels: tuple[Any, ...], threshold: float | None) -> BoolArray:
    """A function's answer: labels, or a column for every class."""
    answer = _drop_column(answer)
    if answer.ndim == 2:
        return _flag_columns(answer, labels, threshold, answer.shape[1])
    if threshold is not None:
        raise OutcomeError(expected="one number per row needs either a desired class or a threshold", got="both")
    _require_labels(answer, labels)
    return _flag_labels(answer, labels)


def require_same_target(document: OutcomeTarget, caller: OutcomeTarget, decision: ModelDecision, model: Any) -> None:
    """Raise InputError unless the caller means the same by desired as the document."""
    known = list_classes(model)
    wanted = resolve_desired_labels(caller.desired, known) if known else caller.desired
    if (wanted is None) != (decision.labels is None) or set(wanted or ()) != set(decision.labels or ()):
        expected = f"the document's desired classes are {list(decision.labels or ())}"
        raise InputError(expected=expected, got=list(wanted or ()))
    if document.threshold != caller.threshold:
        raise InputError(expected=f"the document's threshold is {document.threshold!r}", got=repr(caller.threshold))
    if document.direction != caller.direction:
        raise InputError(expected=f"the document's scores are desired {document.direction} it", got=caller.direction)


@dataclass(frozen=True, slots=True, eq=False)
class UserModel:
    """One model with its decision, and how points of a space are laid out as a table for it."""

    layout: Callable[[Int32Array], Any]
    decision: ModelDecision
    layout_for: Callable[[CheckerSpace], Callable[[Int32Array], Any]]  # the same for a space of other values
    column_features: tuple[int, ...]  # for every column of that table the feature that it carries

    def desired(self, points: Int32Array) -> BoolArray:
        """Which points have the desired outcome, by the model's own decision."""
        starts = range(0, len(points), BATCH_ROWS)
        parts = [points[start : start + BATCH_ROWS] for start in starts]
        return np.concatenate([np.zeros(0, np.bool_), *(self.decision(self.layout(some), len(some)) for some in parts)])


@dataclass(frozen=True, slots=True, eq=False)
class UserModelSet:
    """Models that are asked together; ``primary`` is the first as it is, whose decision was explained. A point is
    desired where one of ``members`` says so, its threshold moved by the margin.
    """

    primary: PointClassifier
    members: tuple[PointClassifier, ...]
    decision: ModelDecision

    def desired(self, points: Int32Array) -> BoolArray:
        """Which points some member gives the desired outcome."""
        return np.asarray(np.any([member.desired(points) for member in self.members], axis=0), dtype=np.bool_)


def build_user_models(models: Models, table: UserTable, space: CheckerSpace, target: OutcomeTarget) -> UserModelSet:
    """The models as they are asked, checked; raises OutcomeError or ModelError."""
    require_probability_threshold(models[0], target.threshold)  # as it was given: a margin may move it anywhere
    build = partial(_build_user_model, table, space, target)
    own = build(models[0], target.threshold)
    if len(models) == 1 and target.margin == 0:
        return UserModelSet(own, (own,), own.decision)
    asked = list_models_with_thresholds(models, target)
    return UserModelSet(own, tuple(build(model, level) for model, level in asked), own.decision)


def list_models_with_thresholds(models: Models, target: OutcomeTarget) -> list[tuple[Any, float | None]]:
    """The models with the thresholds of their members. Classifiers that decide by their labels are asked for these
    too: labels need not be those of the largest probability.
    """
    if len(models) == 1 and target.margin == 0:
        return [(models[0], target.threshold)]
    levels = [(model, target.move_threshold(model)) for model in models]
    labels_decide = target.margin and target.threshold is None
    return [*((model, None) for model in models), *levels] if labels_decide else levels


def find_fitted_columns(model: Any, table: UserTable) -> tuple[str, ...] | None:
    """The table's columns that a model was fitted on, where it says so; raises TableError if the table lacks one.

    LightGBM keeps underscores in the place of blanks, so that its names are not always those of the table.
    """
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return None
    return tuple(_find_column(str(name), set(map(str, names)), table) for name in names)


def _find_column(name: str, fitted: set[str], table: UserTable) -> str:
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


def _build_user_model(
    table: UserTable, space: CheckerSpace, target: OutcomeTarget, model: Any, threshold: float | None
) -> UserModel:
    """A model over a space; rows rebuilt from codes must get the outcome of the user's own rows."""
    order, as_array = find_input_form(model, table)
    layout_for = partial(build_layout, table=table, as_array=as_array, order=order)
    names = order if order is not None else tuple(name for name in table.names if name in space.columns)
    layout, carriers = layout_for(space), {name: j for j, one in enumerate(space.features) for name in one.columns}
    column_features = tuple(carriers[name] for name in names)
    user_model = UserModel(layout, build_decision(model, target, threshold), layout_for, column_features)
    rows = np.unique(np.linspace(0, len(table) - 1, CHECKED_ROWS).astype(np.intp))
    original = user_model.decision(select_rows(table, rows, names, as_array), len(rows))
    rebuilt = user_model.desired(space.encode(select_rows(table, rows, table.names, False)))
    if (original != rebuilt).any():
        got = f"another outcome for row {int(rows[np.flatnonzero(original != rebuilt)[0]])} rebuilt from them"
        raise ModelError(expected="the model must decide by the values of the space alone", got=got)
    return user_model


def find_input_form(model: Any, table: UserTable) -> tuple[tuple[str, ...] | None, bool]:
    """The columns that a model was fitted on, where it says so, and whether it takes an array without names."""
    order = find_fitted_columns(model, table)
    return order, hasattr(model, "predict") and hasattr(model, "n_features_in_") and order is None


def select_rows(table: UserTable, rows: IntpArray, names: Sequence[str], as_array: bool) -> Any:
    """Some of the user's own rows and columns, in the user's own kind of table or as an array."""
    if table.frame is None:
        return table.native[rows][:, [table.names.index(name) for name in names]]
    frame = table.frame[rows.tolist()].select(list(names))
    return frame.to_numpy() if as_array else frame.to_native()


@dataclass(frozen=True, slots=True, eq=False)
class AnswerCache:
    """What a model said of points, seen from an instance; each point is asked about once."""

    model: PointClassifier
    space: CheckerSpace
    instance: Int32Array
    answers: dict[bytes, bool] = field(default_factory=dict)

    def for_model(self, model: PointClassifier) -> AnswerCache:
        """The answers of one model alone."""
        return AnswerCache(model, self.space, self.instance)

    def desired(self, points: Int32Array) -> BoolArray:
        """Which points have the desired outcome."""
        keys = [point.tobytes() for point in np.ascontiguousarray(points, dtype=np.int32)]
        new = {key: place for place, key in enumerate(keys) if key not in self.answers}
        answers = self.model.desired(points[list(new.values())]) if new else ()
        self.answers.update(zip(new, map(bool, answers), strict=True))
        return np.array([self.answers[key] for key in keys], dtype=np.bool_)

    def list_desired_inside(self, low: Int32Array, high: Int32Array) -> list[Int32Array]:
        """The points in a box that are known to have the desired outcome."""
        points = [np.frombuffer(key, dtype=np.int32) for key, desired in self.answers.items() if desired]
        return [point for point in points if ((low <= point) & (point <= high)).all()]

    def refute_with(self, point: Int32Array) -> None:
        """Raise ClaimFailed with a point that has the desired outcome and can occur."""
        raise ClaimFailed(f"there is an exception: {describe_changes(self.space, self.instance, point)}")
