"""The normal form in the file of a saved explainer, as the checker's own, with all that a hostile file may say checked.

A file names the tests of trees, what columns add, and layers of networks by the names of their kinds. What each kind
means is written here a second time. Kinds that are not, and fields that are not as they must be, leave the file
unread. Bounds on rounding are the file's own: whoever wrote it has read the model, and this reads what was written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ironrule.checker.arrays import AnyArray, BoolArray, Float64Array
from ironrule.checker.readers import normal_form
from ironrule.checker.readers.network_form import ActivationFunction, NetworkForm, NetworkLayer, NetworkMargin
from ironrule.checker.readers.normal_form import (
    ColumnTerm,
    LinkFunction,
    MarginPart,
    NoReading,
    RegressionTree,
    Split,
    SumForm,
    SumMargin,
)
from ironrule.checker.space.table import is_missing

GetArray = Callable[[Any, str, int], AnyArray]  # an array by its reference, its type and its dimensions
COMPARISONS = (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal)  # as ONNX numbers them
ZERO = float(np.float32(1e-35))  # what LightGBM takes for zero


def parse_hex(text: Any) -> float:
    """A number that is written in hexadecimal."""
    try:
        number = float.fromhex(text)
    except (TypeError, ValueError, OverflowError):
        raise NoReading(f"{text!r} is no number in hexadecimal") from None
    if math.isnan(number):
        raise NoReading("a number is NaN")
    return number


def parse_value(plain: Any) -> Any:
    """A value of a table."""
    if isinstance(plain, dict) and set(plain) == {"float"}:
        return parse_hex(plain["float"])
    if plain is None or isinstance(plain, (str, int)):
        return plain
    raise NoReading(f"the value {plain!r} is not read")


Test = Callable[[AnyArray], BoolArray]


@dataclass(frozen=True, slots=True)
class StoredSplit:
    """A test of a column; ``fields`` say which, and stand for it in comparisons."""

    column: int
    kind: str
    fields: tuple[Any, ...]
    turns_once: bool

    def goes_left(self, values: AnyArray) -> BoolArray:
        """Which values of the column go left."""
        return np.asarray(TESTS[self.kind](values, *self.fields), dtype=np.bool_)


def _round(values: AnyArray, single: bool) -> Float64Array:
    return normal_form.round_to_float32(values) if single else normal_form.to_float64(values)


def _test_below(values: AnyArray, threshold: float, missing_left: bool) -> AnyArray:
    """XGBoost: below the threshold, both in single precision."""
    numbers = _round(values, True)
    return np.where(np.isnan(numbers), missing_left, numbers < float(np.float32(threshold)))


def _test_at_most(values: AnyArray, threshold: float, missing_left: bool, single: bool) -> AnyArray:
    """scikit-learn, and CatBoost, whose borders are in single precision already."""
    numbers = _round(values, single)
    return np.where(np.isnan(numbers), missing_left, numbers <= threshold)


def _test_lightgbm(values: AnyArray, threshold: float, missing_left: bool, missing: int) -> AnyArray:
    """Missing are: nothing, with NaN for zero (0); zero and NaN (1); NaN (2)."""
    numbers = _round(values, False)
    absent, zero = np.isnan(numbers), np.abs(numbers) <= ZERO
    if missing != 2:
        zero, absent = zero | absent, (zero | absent) & (missing == 1)
    return np.where(absent, missing_left, np.where(zero, 0.0, numbers) <= threshold)


def _test_onnx(values: AnyArray, threshold: float, mode: int, missing_left: bool, single: bool) -> AnyArray:
    numbers = _round(values, single)
    return np.where(np.isnan(numbers), missing_left, COMPARISONS[mode](numbers, threshold))


def _test_range(values: AnyArray, low: float, high: float, low_open: bool, high_open: bool) -> AnyArray:
    numbers = _round(values, False)
    above = numbers > low if low_open else numbers >= low
    return above & (numbers < high if high_open else numbers <= high)


def _test_listed(values: AnyArray, listed: frozenset[Any]) -> AnyArray:
    return np.array([not is_missing(value) and value in listed for value in values.tolist()], dtype=np.bool_)


def _test_missing(values: AnyArray, reason: str | None) -> AnyArray:
    missing = np.array([is_missing(value) for value in values.tolist()], dtype=np.bool_)
    if reason is not None and missing.any():
        raise NoReading(reason)
    return missing


def _test_categories(values: AnyArray, left: frozenset[Any], right: frozenset[Any], missing_left: bool) -> AnyArray:
    """scikit-learn's histogram trees."""
    return np.array([one in left or (missing_left and one not in right) for one in values.tolist()], dtype=np.bool_)


def _number_categories(values: AnyArray, labels: Sequence[Any] | None) -> Float64Array:
    """The numbers of categories, NaN where one is missing; refused where it is not in the list."""
    if labels is None:
        return normal_form.to_float64(values)
    numbers = {label: float(place) for place, label in enumerate(labels)}
    listed = [None if is_missing(value) else value for value in values.tolist()]
    unknown = [value for value in listed if value is not None and value not in numbers]
    if unknown:
        raise NoReading(f"the category {unknown[0]!r} is none of those that the model was fitted on")
    return np.array([math.nan if value is None else numbers[value] for value in listed], dtype=np.float64)


def _test_xgboost_category(
    values: AnyArray, chosen: frozenset[int], missing_left: bool, labels: tuple[Any, ...] | None
) -> AnyArray:
    numbers = _number_categories(values, labels)
    known = np.array([not (one % 1 or one < 0 or one > 2**24) for one in numbers.tolist()], dtype=np.bool_)
    if not (known | np.isnan(numbers)).all():
        raise NoReading("a category is no whole number from 0 on")
    return np.where(np.isnan(numbers), missing_left, ~np.isin(numbers, sorted(chosen)))


def _test_lightgbm_category(values: AnyArray, chosen: frozenset[int], labels: tuple[Any, ...] | None) -> AnyArray:
    return np.isin(np.trunc(_number_categories(values, labels)), sorted(chosen))


TESTS: dict[str, Callable[..., AnyArray]] = {
    "XGBoostThresholdSplit": _test_below,
    "SklearnThresholdSplit": _test_at_most,
    "CatBoostThresholdSplit": _test_at_most,
    "LightGBMThresholdSplit": _test_lightgbm,
    "OnnxSplit": _test_onnx,
    "NumberSplit": _test_range,
    "ValueSplit": _test_listed,
    "MissingSplit": _test_missing,
    "SklearnCategorySplit": _test_categories,
    "XGBoostCategorySplit": _test_xgboost_category,
    "LightGBMCategorySplit": _test_lightgbm_category,
}


def _build_threshold_split(make: str, column: int, threshold: float, kind: int) -> StoredSplit:
    """A test of a number with a threshold, by who makes it and its kind."""
    flag = bool(kind & 1)
    match make:
        case "XGBoostSplitFactory":
            return StoredSplit(column, "XGBoostThresholdSplit", (threshold, bool(kind)), turns_once=True)
        case "make_float32_split" | "make_float64_split":
            fields: tuple[Any, ...] = (threshold, bool(kind), make == "make_float32_split")
            return StoredSplit(column, "SklearnThresholdSplit", fields, turns_once=True)
        case "make_catboost_split":
            fields = (float(np.float32(threshold)), bool(kind), True)
            return StoredSplit(column, "CatBoostThresholdSplit", fields, turns_once=True)
        case "make_lightgbm_split" if 0 <= kind >> 1 <= 2:
            once = kind >> 1 != 1 or flag == (threshold >= 0)
            return StoredSplit(column, "LightGBMThresholdSplit", (threshold, flag, kind >> 1), once)
        case "make_onnx_split" if 0 <= kind >> 2 < len(COMPARISONS):
            fields = (threshold, kind >> 2, bool(kind & 2), flag)
            return StoredSplit(column, "OnnxSplit", fields, turns_once=kind >> 2 < 4)
        case _:
            raise NoReading(f"tests that {make} makes are not read from a file")


def _build_split(given: Mapping[str, Any]) -> StoredSplit:
    """A test that is written by itself."""
    kind, column = given["is"], given["column"]
    match kind:
        case "XGBoostThresholdSplit" if given["missing"] is None:
            fields: tuple[Any, ...] = (parse_hex(given["threshold"]), given["missing_left"])
        case "SklearnThresholdSplit":
            fields = (parse_hex(given["threshold"]), given["missing_left"], given["as_float32"])
        case "CatBoostThresholdSplit":
            fields = (float(np.float32(parse_hex(given["border"]))), given["nan_left"], True)
        case "LightGBMThresholdSplit" if given["labels"] is None and given["missing"] in (0, 1, 2):
            fields = (parse_hex(given["threshold"]), given["missing_left"], given["missing"])
        case "OnnxSplit" if given["mode"] in range(len(COMPARISONS)):
            fields = (parse_hex(given["threshold"]), given["mode"], given["missing_left"], given["single"])
        case "NumberSplit":
            ends = parse_hex(given["low"]), parse_hex(given["high"])
            fields = (*ends, given["low_open"], given["high_open"])
        case "ValueSplit":
            fields = (frozenset(map(parse_value, given["values"])),)
        case "MissingSplit":
            fields = (given["reason"],)
        case "SklearnCategorySplit":
            sides = [frozenset(map(parse_value, given[side])) for side in ("left", "right")]
            fields = (*sides, given["missing_left"])
        case "XGBoostCategorySplit" if given["missing"] is None:
            fields = (frozenset(given["chosen"]), given["missing_left"], _parse_labels(given["labels"]))
        case "LightGBMCategorySplit":
            fields = (frozenset(given["chosen"]), _parse_labels(given["labels"]))
        case _:
            raise NoReading(f"a {kind} is not read from a file")
    return StoredSplit(column, kind, fields, turns_once=_turns_once(kind, fields))


def _parse_labels(given: Any) -> tuple[Any, ...] | None:
    return None if given is None else tuple(map(parse_value, given))


def _turns_once(kind: str, fields: tuple[Any, ...]) -> bool:
    """Whether the answer changes at one number at the most as numbers rise."""
    match kind, fields:
        case "LightGBMThresholdSplit", (threshold, missing_left, missing):
            return bool(missing != 1 or missing_left == (threshold >= 0))
        case "OnnxSplit", (_, mode, _, _):
            return bool(mode < 4)
        case "NumberSplit", (low, high, _, _):
            return bool(low == -math.inf or high == math.inf)
        case _:
            return kind != "ValueSplit" and not kind.endswith("CategorySplit")


@dataclass(frozen=True, slots=True, eq=False)
class StoredContribution:
    """What a column adds: a factor times a function of its number, or the entry of a list."""

    factor: float
    shape: str
    limit: float = math.inf
    centre: float = 0.0
    seen: Float64Array | None = None
    added: Float64Array | None = None

    def __call__(self, values: AnyArray) -> Float64Array:
        numbers = normal_form.to_float64(values)
        match self.shape:
            case "PresentNumberShape":
                numbers = np.where(np.isnan(numbers), 0.0, numbers)
            case "SquaredDistanceShape":
                numbers = (numbers - self.centre) ** 2
            case "ListedContribution":
                assert self.seen is not None
                assert self.added is not None
                at = np.minimum(np.searchsorted(self.seen, numbers), len(self.seen) - 1)
                if not (self.seen[at] == numbers).all():
                    raise NoReading("the file does not know what a column adds for a number")
                numbers = self.added[at]
        with np.errstate(over="ignore"):
            products: Float64Array = self.factor * numbers
        if not (np.abs(products) <= self.limit).all():
            raise NoReading("a sum has no value where a number is missing, infinite or too large")
        return products


def _read_contribution(given: Mapping[str, Any], get: GetArray) -> StoredContribution:
    if given["is"] == "NegatedContribution":
        inner = _read_contribution(given["contribution"], get)
        return replace(inner, factor=-inner.factor)
    if given["is"] == "ListedContribution":
        seen, added = get(given["seen"], "f8", 1), get(given["added"], "f8", 1)
        if not 0 < len(seen) == len(added) or (np.diff(seen) < 0).any() or not np.isfinite(added).all():
            raise NoReading("a list of what a column adds makes no sense")
        return StoredContribution(1.0, "ListedContribution", seen=seen, added=added)
    shape = given["shape"]
    if given["is"] != "ScaledShape" or shape["is"] not in (
        "IdentityShape",
        "PresentNumberShape",
        "SquaredDistanceShape",
    ):
        raise NoReading("what a column adds is not read from a file")
    centre = parse_hex(shape["centre"]) if "centre" in shape else 0.0
    return StoredContribution(parse_hex(given["factor"]), shape["is"], parse_hex(given["limit"]), centre)


def read_stored_form(given: Mapping[str, Any], get: GetArray, width: int) -> SumForm | NetworkForm:
    """The normal form of a model that sees so many columns; raises NoReading for what is not read or makes no sense."""
    try:
        return _read_network(given, get, width) if given["is"] == "Network" else _read_sums(given, get, width)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise NoReading(f"the normal form in the file makes no sense: {type(error).__name__}: {error}") from None


def _read_sums(given: Mapping[str, Any], get: GetArray, width: int) -> SumForm:
    splits = [_read_splits(one, get, width) for one in given["splits"]]
    trees = [_read_tree(one, get, splits) for one in given["trees"]]
    alternatives = tuple(
        tuple(_read_margin(margin, get, trees, width) for margin in margins) for margins in given["alternatives"]
    )
    if given["is"] != "TreeSum" or not alternatives or not all(alternatives):
        raise NoReading("the file has no sum of trees")
    return SumForm(alternatives)


def _require_column(column: Any, width: int) -> None:
    if type(column) is not int or not 0 <= column < width:
        raise NoReading(f"a test is of the column {column!r} of {width}")


def _read_splits(given: Any, get: GetArray, width: int) -> list[Split | None]:
    if isinstance(given, list):
        listed: list[Split | None] = [None if one is None else _build_split(one) for one in given]
    else:
        maker = given["make"]
        if maker.get("missing") is not None:
            raise NoReading("a number that stands for missing is not read from a file")
        arrays = [get(one, kind, 1).tolist() for one, kind in zip(given["arrays"], ("i4", "f8", "i4"), strict=True)]
        listed = [
            None if column < 0 else _build_threshold_split(maker["is"], column, threshold, kind)
            for column, threshold, kind in zip(*arrays, strict=True)
        ]
        for node, one in given["others"]:
            if listed[node] is None:
                listed[node] = _build_split(one)
    for split in listed:
        if split is not None:
            _require_column(split.column, width)
    return listed


def _read_tree(given: Sequence[Any], get: GetArray, splits: Sequence[list[Split | None]]) -> RegressionTree:
    own = _take(splits, given[0])
    left, right = (get(one, "i4", 1).astype(np.intp) for one in given[1:3])
    value, nodes = get(given[3], "f8", 1), np.arange(len(left))
    inner = left >= 0
    behind = (left > nodes) & (right > nodes) & (left < len(nodes)) & (right < len(nodes))
    asked = np.array([split is not None for split in own], dtype=np.bool_)
    lengths = {len(left), len(right), len(value), len(own)}
    if lengths != {len(nodes)} or not len(nodes) or not np.isfinite(value).all() or not (behind & asked)[inner].all():
        raise NoReading("a tree of the file makes no sense")
    return RegressionTree(
        [split if there else None for split, there in zip(own, inner.tolist(), strict=True)],
        np.where(inner, left, -1),
        np.where(inner, right, -1),
        np.where(inner, 0.0, value),
    )


def _take(listed: Sequence[Any], place: Any) -> Any:
    if type(place) is not int or not 0 <= place < len(listed):
        raise NoReading("the file names a tree that is not there")
    return listed[place]


def _read_margin(given: Mapping[str, Any], get: GetArray, trees: Sequence[RegressionTree], width: int) -> SumMargin:
    parts, lost = [], 0.0
    for group in given["groups"]:
        own = tuple(_take(trees, place) for place in group["trees"])
        terms = []
        for column, contribution in group["terms"]:
            _require_column(column, width)
            add = _read_contribution(contribution, get)
            terms.append(ColumnTerm(column, add, monotone=add.shape in ("IdentityShape", "PresentNumberShape")))
        kind, *numbers = group["link"]
        scale, slope, shift = map(parse_hex, numbers)
        rounding = parse_hex(group["rounding_error"])
        fits = kind in ("identity", "logistic", "step") and math.isfinite(shift)
        if (
            not fits
            or min(scale, slope, rounding) < 0
            or not math.isfinite(scale * slope)
            or (rounding and kind == "step")
        ):
            raise NoReading("a link of the file makes no sense")
        lost += rounding * (1.0 if kind == "identity" else scale * slope)
        parts.append(MarginPart(own, tuple(terms), LinkFunction(kind, scale, slope, shift)))
    offset, error, relative = (parse_hex(given[name]) for name in ("offset", "error", "relative_error"))
    if not math.isfinite(offset) or min(error, relative) < 0:
        raise NoReading("a margin of the file makes no sense")
    return SumMargin(offset, tuple(parts), error + lost, relative)


def _read_network(given: Mapping[str, Any], get: GetArray, width: int) -> NetworkForm:
    layers = []
    for layer in given["layers"]:
        weights, bias = get(layer["weights"], "f8", 2), get(layer["bias"], "f8", 1)
        kind, slope = layer["activation"]
        layers.append(NetworkLayer(weights, bias, ActivationFunction(kind, parse_hex(slope))))
    alternatives = tuple(
        tuple(
            NetworkMargin(get(one["coefficients"], "f8", 1), parse_hex(one["offset"]), parse_hex(one["error"]))
            for one in margins
        )
        for margins in given["alternatives"]
    )
    roundoff = parse_hex(given["roundoff"])
    errors = [margin.error for margins in alternatives for margin in margins]
    if not layers or len(layers[0].weights) != width or not 0 < roundoff < 1 or min(errors, default=-1.0) < 0:
        raise NoReading("the network of the file makes no sense")
    return NetworkForm(tuple(layers), alternatives, roundoff)
