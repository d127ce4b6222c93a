"""A scikit-learn pipeline in two parts: the steps before the estimator, and the columns that the estimator sees.

A feature has finitely many codes, so preprocessing that works column by column is a table: the user's own transformers
are run on every value of every domain, once. For every column that the estimator sees this gives the feature it comes
from and its value for every code. Values keep the type in which they reach the estimator, so that a reader can cast
them as the library does.

Only transformers that work column by column are let through, by their exact class. Preprocessing that mixes columns all
the same is noticed, because a column then depends on two features, or because points put together from the tables
differ from what the transformers really give.

For claims about whole intervals a transformer must moreover rise or fall all the way with a number, in floating point:
a sum, a difference, a product or a quotient with one constant does, since a correctly rounded operation never changes
the order of two numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from ironrule.checker.arrays import AnyArray, BoolArray, Int32Array
from ironrule.checker.readers.normal_form import NoReading
from ironrule.checker.readers.registry import (
    THRESHOLD_WRAPPERS,
    get_estimator_inside,
    identify_class,
    replace_estimator_inside,
)

FEATURE_SELECTORS = frozenset((
    "VarianceThreshold", "SelectKBest", "SelectPercentile", "SelectFpr", "SelectFdr", "SelectFwe",
    "GenericUnivariateSelect", "SelectFromModel", "SequentialFeatureSelector", "RFE", "RFECV",
))  # fmt: skip
SCALERS = frozenset(("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler"))
MONOTONE_TRANSFORMERS = SCALERS | {"Binarizer", "VarianceThreshold"}
IMPUTERS = frozenset(("SimpleImputer", "MissingIndicator"))
ENCODERS = frozenset(("OneHotEncoder", "OrdinalEncoder", "TargetEncoder"))
COLUMNWISE_TRANSFORMERS = FEATURE_SELECTORS | MONOTONE_TRANSFORMERS | ENCODERS | IMPUTERS | frozenset(
    ("KBinsDiscretizer", "PowerTransformer", "QuantileTransformer", "SplineTransformer")
)  # fmt: skip
HYPERPARAMETER_SEARCHES = ("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV")
STEP_CONTAINERS = {"Pipeline": "steps", "FeatureUnion": "transformer_list", "ColumnTransformer": "transformers_"}
FILES = ("PmmlModel", "OnnxModel", "SavedFileModel")  # the first may be read with its steps, where none stands before
FILE_PREPARATIONS = ("OnnxPreparation", "PmmlPreparation", "SavedFilePreparation")  # run; tables show if they mix
CHECKED_POINTS, CHECKED_ALONE = 2048, 16
MAX_TABULATED_ROWS = 4_000_000
MAX_TABULATED_CODES = 1 << 26  # in all points; beyond, features change together


@dataclass(frozen=True, slots=True, eq=False)
class ColumnwisePreprocessing:
    """Fitted transformers, one after the other."""

    steps: tuple[Any, ...]

    def __call__(self, table: Any) -> Any:
        for step in self.steps:
            table = step.transform(table)
        return table

    @property
    def runs_user_function(self) -> bool:
        """Whether a step runs a function of the user's, which might look at the rows beside."""
        functions = (one for one in _list_transformers(self.steps) if hasattr(one, "func"))
        return any(not _is_elementwise(one.func) for one in functions)

    def find_unordered_columns(self, width: int) -> dict[int, str]:
        """The columns of the user's table, by position, that may reach a step which does not let them rise or fall all
        the way, with what is wrong with that step.
        """
        unordered: dict[int, str] = {}
        _follow_columns(self.steps, [{place} for place in range(width)], unordered)
        return unordered

    def find_bent_columns(self, width: int) -> set[int]:
        """The columns of the user's table, by position, that may reach a step which does not map their numbers by an
        affine function but for rounding, or several such steps.
        """
        bent, scaled = set[int](), [set[int]()]
        _follow_scales(self.steps, [{place} for place in range(width)], bent, scaled[0])
        return bent


def split_pipeline(model: Any, *, whole_files: bool = False) -> tuple[ColumnwisePreprocessing, Any]:
    """What prepares a table for the final estimator, and that estimator, maybe a PMML file; raises NoReading."""
    steps: list[Any] = []
    wrappers: list[Any] = []
    while True:
        name = identify_class("sklearn", model)
        if name in HYPERPARAMETER_SEARCHES:
            if not hasattr(model, "best_estimator_"):
                raise NoReading(f"the {name} keeps no best model (refit=False)")
            model = model.best_estimator_
        elif name == "FrozenEstimator":
            model = model.estimator
        elif name.startswith(THRESHOLD_WRAPPERS):
            wrappers.append(model)
            model = get_estimator_inside(model)
        elif name == "Pipeline":
            *before, (_, model) = model.steps
            steps += [step for _, step in before if not _is_no_operation(step)]
        elif identify_class("ironrule", model) in FILES[whole_files and not steps :] and model.preparation is not None:
            steps.append(model.preparation)
            model = model.final
        else:
            for step in _list_transformers(steps):
                _require_columnwise(step)
            for wrapper in reversed(wrappers):  # each around the final estimator, without the steps before it
                model = replace_estimator_inside(wrapper, model)
            return ColumnwisePreprocessing(tuple(steps)), model


def _is_no_operation(step: Any) -> bool:
    return step is None or (isinstance(step, str) and step in ("passthrough", "drop"))


def _list_transformers(steps: Iterable[Any]) -> Iterator[Any]:
    """The single transformers that steps run: those of a pipeline, a union or a column transformer one by one."""
    for step in steps:
        inside = STEP_CONTAINERS.get(identify_class("sklearn", step))
        if inside is not None:  # entries are a name, a transformer, and for a column transformer its columns
            yield from _list_transformers(entry[1] for entry in getattr(step, inside))
        elif not _is_no_operation(step):
            yield step


def _require_columnwise(step: Any) -> None:
    name = identify_class("sklearn", step)
    if name == "FunctionTransformer":
        if not _is_elementwise(step.func) and getattr(step, "n_features_in_", 0) != 1:
            raise NoReading("a FunctionTransformer runs a function that may mix columns")
    elif name not in COLUMNWISE_TRANSFORMERS and identify_class("ironrule", step) not in FILE_PREPARATIONS:
        raise NoReading(f"the step {type(step).__name__} mixes columns, or may")


def _is_elementwise(function: Any) -> bool:
    """Whether a function is known to work on every number by itself."""
    return function is None or (isinstance(function, np.ufunc) and function.nin == 1)


def _follow_columns(steps: Iterable[Any], origins: list[set[int]], unordered: dict[int, str]) -> None:
    """Follow columns through steps that stand one behind the other. ``origins`` has, for every column that the first
    of them gets, the columns of the user's table that it may come from.
    """
    for step in steps:
        name, together = identify_class("sklearn", step), set[int]().union(*origins)
        if _is_no_operation(step):
            continue
        if getattr(step, "n_features_in_", len(origins)) != len(origins):
            origins = [together] * step.n_features_in_
        if name == "ColumnTransformer":
            for label, part, _ in step.transformers_:
                places = step._transformer_to_input_indices.get(label, range(len(origins)))
                _follow_columns([part], [origins[place] for place in places], unordered)
        elif name in STEP_CONTAINERS:
            parts = [part for _, part in getattr(step, STEP_CONTAINERS[name])]
            for branch in [parts] if name == "Pipeline" else ([part] for part in parts):
                _follow_columns(branch, origins, unordered)
        else:
            for place, reason in _list_unordered_inputs(step, name, len(origins)):
                unordered |= dict.fromkeys(origins[place], reason)
        if name not in SCALERS | {"Binarizer"}:  # the others may drop columns, or make several of one
            origins = [together] * max(len(origins), 1)


def _follow_scales(steps: Iterable[Any], origins: list[set[int]], bent: set[int], scaled: set[int]) -> None:
    """Follow columns as :func:`_follow_columns` does; ``scaled`` are those that have met a scaler."""
    for step in steps:
        name, together = identify_class("sklearn", step), set[int]().union(*origins)
        if _is_no_operation(step):
            continue
        if getattr(step, "n_features_in_", len(origins)) != len(origins):
            origins = [together] * step.n_features_in_
        if name == "ColumnTransformer":
            for label, part, _ in step.transformers_:
                places = step._transformer_to_input_indices.get(label, range(len(origins)))
                _follow_scales([part], [origins[place] for place in places], bent, scaled)
        elif name in STEP_CONTAINERS:
            for part in (part for _, part in getattr(step, STEP_CONTAINERS[name])):
                _follow_scales([part], origins, bent, scaled)
        elif name in SCALERS and not getattr(step, "clip", False):
            bent |= together & scaled  # the rounding of one is what the next one makes larger
            scaled |= together
        elif not (name in FEATURE_SELECTORS | IMPUTERS or (name == "FunctionTransformer" and step.func is None)):
            bent |= together
        if name not in SCALERS:
            origins = [together] * max(len(origins), 1)


def _list_unordered_inputs(step: Any, name: str, width: int) -> Iterator[tuple[int, str]]:
    """The columns, by position, that a transformer gets and may not let rise or fall all the way."""
    if identify_class("ironrule", step) == "OnnxPreparation":
        from ironrule.checker.readers.onnx_trees import list_unordered_inputs

        yield from list_unordered_inputs(step.model, width)
    elif identify_class("ironrule", step) in FILE_PREPARATIONS:
        yield from step.find_unordered(width).items()
    elif name in ENCODERS:
        known = getattr(step, "categories_", ())  # one that was given no columns is not fitted
        for place, kinds in enumerate(known):
            if any(isinstance(one, (int, float)) and one == one for one in np.asarray(kinds).tolist()):
                yield place, f"a {name} tells single numbers apart"
    elif name in IMPUTERS:
        if not (isinstance(step.missing_values, float) and np.isnan(step.missing_values)):
            reason = f"a {name} for a value other than NaN tells single numbers apart"
            yield from ((place, reason) for place in range(width))
    elif not (name in MONOTONE_TRANSFORMERS or (name == "FunctionTransformer" and step.func is None)):
        reason = f"a {type(step).__name__} may fall between two neighbouring numbers, or tell single ones apart"
        yield from ((place, reason) for place in range(width))


@dataclass(frozen=True, slots=True, eq=False)
class EstimatorColumn:
    """One column that the estimator sees; one that no feature changes belongs to feature 0."""

    feature: int
    values: AnyArray


EstimatorColumns = Sequence[EstimatorColumn]


def tabulate_columns(
    preprocess: Callable[[Int32Array], Any],
    sizes: AnyArray,
    past: Int32Array,
    absent_value: float | None = 0.0,
    alone: bool = True,
) -> tuple[EstimatorColumn, ...]:
    """The tables of what ``preprocess`` gives for points, checked on past rows and random points, with ``alone`` also
    on single rows; raises NoReading.

    ``absent_value`` is what the estimator's library takes an entry for that a sparse matrix does not store; None if a
    sparse matrix cannot be read.
    """
    wide = int(sizes.sum()) * len(sizes) > MAX_TABULATED_CODES
    rows = int(sizes.max()) * 2 * len(sizes).bit_length() if wide else int(sizes.sum())
    if rows * 4 > MAX_TABULATED_ROWS:
        raise NoReading(f"the domains have {int(sizes.sum()):,} values in all, too many to tabulate")

    def see(points: Int32Array) -> list[AnyArray]:
        return split_columns(preprocess(points), absent_value)

    columns = (_tabulate_together if wide else _tabulate_one_by_one)(see, sizes, past[0])
    _check_tables(columns, see, sizes, past, alone)
    return tuple(columns)


def _tabulate_one_by_one(
    see: Callable[[Int32Array], list[AnyArray]], sizes: AnyArray, base: Int32Array
) -> list[EstimatorColumn]:
    starts = np.concatenate([[0], np.cumsum(sizes)])
    probes = np.repeat(base[None, :], int(sizes.sum()), axis=0)  # every value of every feature once
    for j, size in enumerate(sizes.tolist()):
        probes[starts[j] : starts[j + 1], j] = np.arange(size)
    columns = []
    for values in see(probes):
        unchanged = _flag_same(values, np.repeat(values[starts[:-1] + base], sizes))  # from the base point
        moved = np.flatnonzero(~np.logical_and.reduceat(unchanged, starts[:-1])).tolist()
        if len(moved) > 1:
            raise NoReading(f"the preprocessing mixes columns: features {moved[0]} and {moved[1]} meet in one")
        feature = moved[0] if moved else 0
        columns.append(EstimatorColumn(feature, _require_exact(values[starts[feature] : starts[feature + 1]])))
    return columns


def _tabulate_together(
    see: Callable[[Int32Array], list[AnyArray]], sizes: AnyArray, base: Int32Array
) -> list[EstimatorColumn]:
    """The same for wide spaces: all features change at once. Which of them a column follows is found by halving: it
    must change with exactly one half of the features that it may still come from, and does not with the other.
    """
    cycles = np.arange(int(sizes.max()))[:, None] % sizes

    def probe(varying: Callable[[int], bool]) -> list[AnyArray]:
        chosen = [j for j in range(len(sizes)) if varying(j)]
        points = np.repeat(base[None, :], len(cycles), axis=0)
        points[:, chosen] = cycles[:, chosen]
        return see(points)

    every = probe(lambda _: True)
    moved = [not _flag_same(values, values[0]).all() for values in every]
    feature = [0] * len(every)
    for digit in range((len(sizes) - 1).bit_length()):
        ones, zeros = probe(lambda j: bool(j >> digit & 1)), probe(lambda j: not j >> digit & 1)  # noqa: B023
        for place, (with_one, with_zero) in enumerate(zip(ones, zeros, strict=True)):
            changes = [not _flag_same(values, values[0]).all() for values in (with_one, with_zero)]
            if sum(changes) != moved[place]:
                raise NoReading("the preprocessing mixes columns: one follows several features")
            feature[place] += changes[0] << digit
    return [EstimatorColumn(j, _require_exact(values[: sizes[j]])) for j, values in zip(feature, every, strict=True)]


def split_columns(seen: Any, absent_value: float | None) -> list[AnyArray]:
    """The columns of what reaches an estimator: a matrix, dense or sparse, or a table of any library."""
    if hasattr(seen, "tocoo"):
        if absent_value is None:
            raise NoReading("its members take what a sparse matrix does not store in different ways")
        stored, dense = seen.tocoo(), np.full(seen.shape, absent_value, dtype=np.result_type(seen.dtype, np.float32))
        dense[stored.row, stored.col] = stored.data
        seen = dense
    if isinstance(seen, np.ndarray):
        matrix = seen.reshape(len(seen), -1)
        return [np.ascontiguousarray(matrix[:, k]) for k in range(matrix.shape[1])]
    frame = nw.from_native(seen, eager_only=True)
    return [_read_series(frame[name]) for name in frame.columns]


def _read_series(series: nw.Series[Any]) -> AnyArray:
    """Numbers in their own type, as floats with NaN where some are missing; anything else as its values, or None."""
    if series.dtype.is_numeric() or series.dtype == nw.Boolean:
        plain = series.to_numpy()
        if plain.dtype.kind in "biuf":
            return plain
        numbers = [np.nan if value is None or value != value else value for value in series.to_list()]
        return np.array(numbers, dtype=np.float64)
    values = np.empty(len(series), dtype=object)
    values[:] = series.to_list()
    values[series.is_null().to_numpy().astype(np.bool_)] = None
    return values


def _require_exact(values: AnyArray) -> AnyArray:
    """The values; raises NoReading for whole numbers that float64 cannot hold: each library rounds them its own way."""
    whole = [value for value in values.tolist() if isinstance(value, int)] if values.dtype.kind in "iuO" else []
    if any(abs(value) > 2**53 and int(float(value)) != value for value in whole):
        raise NoReading("a column holds integers beyond 2**53 that float64 cannot hold; rescale it, or use strings")
    return values


def _flag_same(left: AnyArray, right: Any) -> BoolArray:
    """Equal, or both missing."""
    return np.asarray((left == right) | ((left != left) & (right != right)), dtype=np.bool_)


def _check_tables(
    columns: EstimatorColumns,
    preprocess: Callable[[Int32Array], list[AnyArray]],
    sizes: Any,
    past: Int32Array,
    alone: bool,
) -> None:
    random = np.random.default_rng(0).integers(0, sizes, size=(CHECKED_POINTS, len(sizes)), dtype=np.int32)
    points = np.concatenate([random, past[np.unique(np.linspace(0, len(past) - 1, CHECKED_POINTS).astype(np.intp))]])
    for column, values in zip(columns, preprocess(points), strict=True):
        if not _flag_same(values, column.values[points[:, column.feature]]).all():
            raise NoReading("the preprocessing mixes columns: what it gives does not follow from single values")
    for point in points[:CHECKED_ALONE] if alone else ():  # a user's function might look at the rows beside
        for column, values in zip(columns, preprocess(point[None, :]), strict=True):
            if not _flag_same(values, column.values[point[column.feature]]).all():
                raise NoReading("the preprocessing mixes rows: what it gives for one depends on those beside it")
