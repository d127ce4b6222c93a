"""Take a scikit-learn Pipeline apart: its preprocessing of the user's table, and the final estimator behind it.

Only transformers that work column by column are let through, by their class; a user's function
(FunctionTransformer) if it gets a single column: that is what makes their result a table
over one feature's codes (:func:`ironrule.model.model_input.tabulate`, which also checks it on points).

Most of what a pipeline takes for a few rows goes into preparing them, although all that its preprocessing can give is
tabulated already. So a few points are put to the final estimator directly (:class:`FinalEstimator`), on the columns
that the tables give. That serves only if it decides as the whole pipeline does wherever the two were compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from ironrule.arrays import AnyArray, BoolArray, Float64Array, IntpArray, Points
from ironrule.model.decision import Decision, DecisionTarget, build_target_decision
from ironrule.model.joint_model import JointModel
from ironrule.model.model_input import TabulatedColumns
from ironrule.model.protocol import Unreadable, require_readable
from ironrule.model.readers.library_class import get_library_class_name, require_own_methods
from ironrule.model.readers.sklearn_thresholds import get_wrapped_estimator, is_threshold_wrapper, wrap_estimator
from ironrule.model.saved_model import SavedModel, SavedTransform
from ironrule.model.scores import Score, build_score, raise_without_scores
from ironrule.model.wrappers.pretrained import ModelPreparation, ModelWithPreparation
from ironrule.space.feature import is_missing

MONOTONE_TRANSFORMERS = frozenset(
    ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler", "Binarizer", "VarianceThreshold")
)
ORDER_KEEPING_TRANSFORMERS = MONOTONE_TRANSFORMERS - {"VarianceThreshold"}  # one column for each, in the same order
NON_MONOTONE_TRANSFORMERS = frozenset(("PowerTransformer", "QuantileTransformer"))
ENCODERS = frozenset(("OneHotEncoder", "OrdinalEncoder", "TargetEncoder"))
IMPUTERS = frozenset(("SimpleImputer", "MissingIndicator"))
SELECTIONS = frozenset(
    {"SelectKBest", "SelectPercentile", "SelectFpr", "SelectFdr", "SelectFwe", "GenericUnivariateSelect"}
    | {"SelectFromModel", "SequentialFeatureSelector", "RFE", "RFECV"}
)
COLUMNWISE_TRANSFORMERS = MONOTONE_TRANSFORMERS | NON_MONOTONE_TRANSFORMERS | ENCODERS | IMPUTERS | SELECTIONS
COLUMNWISE_TRANSFORMERS |= {"KBinsDiscretizer", "SplineTransformer"}
HYPERPARAMETER_SEARCHES = frozenset(
    ("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV")
)
NO_OPERATIONS = (None, "passthrough", "drop")


@dataclass(frozen=True, slots=True, eq=False)
class TransformerSteps:
    """Fitted transformers, one after the other."""

    transformers: tuple[Any, ...]

    @property
    def runs_user_function(self) -> bool:
        """Whether one of them runs a user's function, which may look at other rows."""
        return any(True for step in self.transformers for _ in _list_functions(step))

    def __call__(self, table: Any) -> Any:
        for part in self.transformers:
            table = part.transform(table)
        return table


def split_pipeline(model: Any) -> tuple[TransformerSteps | SavedTransform | None, Any]:
    """What prepares a table for the final estimator (None: nothing), and that estimator; raises Unreadable."""
    if isinstance(model, SavedModel):
        return model.transform, model
    if isinstance(model, JointModel):
        require_readable(model.shared is not None, "several models have no final estimator in common")
        model = model.shared
    parts: list[Any] = []
    wrappers: list[Any] = []  # what moves the threshold of the final estimator, from the outside in
    while True:  # peel off what stands around the final estimator, from the outside in
        name = get_library_class_name(model, "sklearn")
        if name in HYPERPARAMETER_SEARCHES | {"FrozenEstimator", "Pipeline"}:
            require_own_methods(model, deep=False)
        if name in HYPERPARAMETER_SEARCHES and not hasattr(model, "best_estimator_"):
            raise Unreadable(f"the {name} keeps no best model (refit=False)")
        if name in HYPERPARAMETER_SEARCHES:
            model = model.best_estimator_
        elif name == "FrozenEstimator":
            model = model.estimator
        elif is_threshold_wrapper(model):
            require_own_methods(model, deep=False)
            wrappers.append(model)
            model = get_wrapped_estimator(model)
        elif name == "Pipeline":
            *before, (_, model) = model.steps
            for label, step in before:
                _require_columnwise(step, label)
            parts += [step for _, step in before if not is_no_operation(step)]
        elif isinstance(model, ModelWithPreparation) and model.preparation is not None:
            require_own_methods(model, model.preparation)
            parts.append(model.preparation)
            model = model.final
        else:
            break
    require_readable(not is_no_operation(model), "the last step of the Pipeline is not a model")
    for wrapper in reversed(wrappers):
        model = wrap_estimator(wrapper, model)
    return (TransformerSteps(tuple(parts)) if parts else None), model


def is_no_operation(step: Any) -> bool:
    """Whether a step does nothing, as scikit-learn writes that."""
    return step is None or (isinstance(step, str) and step in NO_OPERATIONS)


def _require_columnwise(step: Any, label: str) -> None:
    if is_no_operation(step):
        return
    name = get_library_class_name(step, "sklearn")
    if name in COLUMNWISE_TRANSFORMERS or name in STEP_CONTAINERS or name == "FunctionTransformer":
        require_own_methods(step, deep=name not in STEP_CONTAINERS)
    inner = STEP_CONTAINERS.get(name)
    if inner is not None:
        for part_label, part in inner(step):
            _require_columnwise(part, f"{label}.{part_label}")
    elif name == "FunctionTransformer":
        if _runs_user_function(step) and getattr(step, "n_features_in_", 0) != 1:
            raise Unreadable(
                f"step {label!r} (FunctionTransformer) runs a function that may mix columns; give it one column at a "
                f"time, in a ColumnTransformer"
            )
    elif name not in COLUMNWISE_TRANSFORMERS:
        raise Unreadable(f"step {label!r} ({type(step).__name__}) mixes columns, or may")


def _runs_user_function(step: Any) -> bool:
    """Whether a FunctionTransformer runs a function of which nothing is known."""
    return not (step.func is None or (isinstance(step.func, np.ufunc) and step.func.nin == 1))


def _list_functions(step: Any) -> Iterator[Any]:
    """The FunctionTransformers in a step that run a user's function."""
    name = get_library_class_name(step, "sklearn")
    if name in STEP_CONTAINERS:
        for _, part in STEP_CONTAINERS[name](step):
            yield from _list_functions(part)
    elif name == "FunctionTransformer" and _runs_user_function(step):
        yield step


@dataclass(frozen=True, slots=True)
class ColumnSources:
    """The columns of the user's table that the input of a step comes from, by position: of each column of the input
    where that is known (else ``each`` is None), and of all of them together.
    """

    each: tuple[frozenset[int], ...] | None
    every: frozenset[int]

    def choose(self, positions: Iterable[int]) -> ColumnSources:
        """The same for some columns of the input."""
        if self.each is None:
            return self
        chosen = tuple(self.each[place] for place in positions)
        return ColumnSources(chosen, frozenset().union(*chosen))

    def forget_order(self) -> ColumnSources:
        """What is known behind a step that may add, drop or reorder columns."""
        return ColumnSources(None, self.every)


def find_unordered_columns(steps: TransformerSteps | SavedTransform | None, width: int) -> dict[int, str]:
    """The columns of a table of this width, by position, that some step may not let rise or fall all the way, with the
    reason. Every column that may reach such a step counts.
    """
    if steps is None:
        return {}
    if isinstance(steps, SavedTransform):
        return dict(steps.unordered)
    found: dict[int, str] = {}
    sources = ColumnSources(tuple(frozenset((place,)) for place in range(width)), frozenset(range(width)))
    _add_unordered(steps.transformers, sources, found)
    return found


def _add_unordered(steps: Iterable[Any], sources: ColumnSources, found: dict[int, str]) -> None:
    """Go through steps that stand one behind the other, and add the columns that one of them may not keep in order."""
    for step in steps:
        name = get_library_class_name(step, "sklearn")
        if sources.each is not None and getattr(step, "n_features_in_", len(sources.each)) != len(sources.each):
            sources = sources.forget_order()
        if name == "Pipeline":
            _add_unordered((part for _, part in step.steps), sources, found)
        elif name == "FeatureUnion":
            for _, part in step.transformer_list:
                _add_unordered((part,), sources, found)
        elif name == "ColumnTransformer":
            for _, part, chosen in step.transformers_:
                known = None if sources.each is None else list_chosen_positions(step, chosen, len(sources.each))
                _add_unordered((part,), sources.forget_order() if known is None else sources.choose(known), found)
        else:
            for columns, reason in _list_unordered(step, name, sources):
                found |= dict.fromkeys(columns - found.keys(), reason)
        if name not in ORDER_KEEPING_TRANSFORMERS and not is_no_operation(step):
            sources = sources.forget_order()


def list_chosen_positions(transformer: Any, chosen: Any, width: int) -> list[int]:
    """The positions of the columns that a part of a ColumnTransformer gets: given as names, positions, a slice or a
    mask.
    """
    names = [str(name) for name in getattr(transformer, "feature_names_in_", ())]
    if isinstance(chosen, slice):
        start, stop = chosen.start, chosen.stop
        first = names.index(start) if isinstance(start, str) else start
        last = names.index(stop) + 1 if isinstance(stop, str) else stop  # a name is part of its slice
        return list(range(width))[slice(first, last, chosen.step)]
    listed = [chosen] if isinstance(chosen, str | int) else list(chosen)
    if listed and all(isinstance(one, bool | np.bool_) for one in listed):
        return np.flatnonzero(listed).tolist()
    return [names.index(one) if isinstance(one, str) else range(width)[int(one)] for one in listed]


def _list_unordered(step: Any, name: str, sources: ColumnSources) -> Iterator[tuple[frozenset[int], str]]:
    """Columns that a single step may not let rise or fall all the way, and why."""
    if isinstance(step, ModelPreparation):
        origins = (sources.every,) if sources.each is None else sources.each
        for place, reason in step.find_unordered(len(origins)).items():
            yield (origins[place] if place < len(origins) else sources.every), reason
    elif name in ENCODERS:
        known = getattr(step, "categories_", ())  # one that was given no columns is not fitted
        aligned = sources.each is not None and len(sources.each) == len(known)
        each = sources.each if sources.each is not None and aligned else [sources.every] * len(known)
        for columns, kinds in zip(each, known, strict=True):
            if any(_is_number(kind) for kind in np.asarray(kinds).tolist()):
                yield columns, f"its {name} tells single numbers apart"
    elif name in IMPUTERS:
        if _is_number(step.missing_values):
            reason = f"its {name} takes the single number {step.missing_values!r} for missing and tells that from its "
            yield sources.every, f"{reason}neighbours; put NaN in its place in the data"
    elif name in NON_MONOTONE_TRANSFORMERS:
        reason = f"its {name} does not rise all the way: in floating-point numbers it falls between some neighbours; "
        yield sources.every, f"{reason}use a StandardScaler, MinMaxScaler or RobustScaler"
    elif name not in MONOTONE_TRANSFORMERS and not is_no_operation(step) and not is_passthrough(step):
        yield sources.every, f"its {type(step).__name__} may tell single numbers apart"


def _is_number(value: Any) -> bool:
    """Whether a value is a number that a column of numbers can hold; NaN is none."""
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and not is_missing(value)


def is_passthrough(step: Any) -> bool:
    """Whether a step hands on what it gets, as scikit-learn makes it of "passthrough"."""
    return get_library_class_name(step, "sklearn") == "FunctionTransformer" and step.func is None


STEP_CONTAINERS: dict[str, Callable[[Any], Iterable[tuple[str, Any]]]] = {
    "Pipeline": lambda step: step.steps,
    "FeatureUnion": lambda step: step.transformer_list,
    "ColumnTransformer": lambda step: [(name, part) for name, part, _ in step.transformers_],
}

MAX_TABLE_VALUES = 4_000_000
MAX_SEEN_NUMBERS = 1 << 26  # that are handed to the final estimator at once

T = TypeVar("T", BoolArray, Float64Array)


@dataclass(frozen=True, slots=True, eq=False)
class FinalEstimator:
    """The final estimator of a pipeline, and what it sees of every code: the tables of all columns end to end."""

    features: IntpArray  # per column, where it comes from, and where its table begins
    starts: IntpArray
    values: AnyArray
    decision: Decision
    score: Score | None = None  # None where it has none

    def desired(self, points: Points) -> BoolArray:
        """Which points have the desired outcome."""
        return self._ask(self.decision, points) if len(points) else np.zeros(0, dtype=np.bool_)

    def scores(self, points: Points) -> Float64Array:
        """How close points are to the desired outcome; raises InputError if the estimator has no scores."""
        if self.score is None:
            raise_without_scores("a classifier without them")
        return self._ask(self.score, points) if len(points) else np.zeros(0)

    def _ask(self, answer: Callable[[Any, int], T], points: Points) -> T:
        """The answers about points, some at a time."""
        rows, answers = max(1, MAX_SEEN_NUMBERS // len(self.features)), []
        for some in (points[start : start + rows] for start in range(0, len(points), rows)):
            seen = self.values[self.starts + some[:, self.features]]
            answers.append(answer(np.ascontiguousarray(seen), len(some)))  # by rows, as pipelines hand it on
        return answers[0] if len(answers) == 1 else np.concatenate(answers)


def build_final_estimator(
    model: Any,
    columns: TabulatedColumns,
    row: Any,
    target: DecisionTarget,
    *,
    points: Points,
    outcomes: BoolArray,
) -> FinalEstimator | None:
    """A pipeline's final estimator, if it is handed plain numbers and decides on the points as the pipeline did;
    ``row`` is a table of one row for the pipeline.
    """
    if isinstance(model, JointModel):  # its decisions are more than one question to an estimator
        return None
    steps, final = split_pipeline(model)
    sizes = [len(table) for table in columns.values]
    if steps is None or not 0 < sum(sizes) <= MAX_TABLE_VALUES:
        return None
    seen, values = steps(row), np.concatenate(columns.values)
    if type(seen) is not np.ndarray or seen.dtype.kind != "f" or seen.dtype != values.dtype:
        return None
    starts = np.cumsum([0, *sizes[:-1]])
    decision = build_target_decision(final, target)
    made = FinalEstimator(columns.features, starts, values, decision, build_score(final, target))
    return made if np.array_equal(made.desired(points), outcomes) else None
