"""Normal forms as plain data: which classes may stand in the file of a saved explainer, and what each field may hold.

A file names classes of this list alone, by the names given here, and every field is checked when it is read. So reading
a file makes no other objects than these, whoever wrote it. Numbers are written as hexadecimal text, and lists of them
as arrays, so that none of them loses a bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ironrule.arrays import AnyArray
from ironrule.errors import describe_value
from ironrule.explain.saved.archive import ArrayPool, StoredParts, build_damage_error
from ironrule.model.normal_form.splits import Lookup, LookupSplit
from ironrule.model.normal_form.tree_sum import NegatedContribution
from ironrule.model.readers.catboost_models import CatBoostCategorySplit, CatBoostThresholdSplit, make_catboost_split
from ironrule.model.readers.file_formats.onnx_trees import OnnxSplit, make_onnx_split
from ironrule.model.readers.file_formats.pmml_conditions import MissingSplit, NumberSplit, ValueSplit
from ironrule.model.readers.handwritten_models import BinLocator, ComponentSplit
from ironrule.model.readers.interpret_models import CategoryBins, ContinuousBins
from ironrule.model.readers.lightgbm_models import LightGBMCategorySplit, LightGBMThresholdSplit, make_lightgbm_split
from ironrule.model.readers.sklearn_additive import (
    IdentityShape,
    PresentNumberShape,
    ScaledShape,
    SquaredDistanceShape,
    StepShape,
    TableShape,
    UnitIntervalShape,
)
from ironrule.model.readers.sklearn_trees import (
    SklearnCategorySplit,
    SklearnThresholdSplit,
    make_float32_split,
    make_float64_split,
)
from ironrule.model.readers.xgboost_models import XGBoostCategorySplit, XGBoostSplitFactory, XGBoostThresholdSplit
from ironrule.model.saved_model import ListedContribution
from ironrule.model.wrappers.handwritten_models import Bins
from ironrule.rule.rule import Component
from ironrule.space.feature import value_from_json, value_to_json
from ironrule.space.table import to_python_value


class NotStorable(Exception):  # noqa: N818  # an answer, not a failure: the model itself is needed then
    """Why a model's reading cannot be written; the message is for the user."""


@dataclass(frozen=True, slots=True)
class FieldKind:
    """How a field is written, and how it is read again and checked."""

    write: Callable[[Any, ArrayPool], Any]
    read: Callable[[Any, StoredParts], Any]


def require_int(value: Any) -> int:
    """A whole number of 63 bits."""
    if type(value) is not int or abs(value) >= 2**63:
        raise build_damage_error("a whole number", describe_value(value))
    return value


def require_flag(value: Any) -> bool:
    """True or false."""
    if type(value) is not bool:
        raise build_damage_error("true or false", describe_value(value))
    return value


def require_text(value: Any) -> str:
    """A text."""
    if not isinstance(value, str):
        raise build_damage_error("a text", describe_value(value))
    return value


def require_list(value: Any) -> list[Any]:
    """A list."""
    if not isinstance(value, list):
        raise build_damage_error("a list", describe_value(value))
    return value


def require_object(value: Any) -> dict[str, Any]:
    """An object of JSON."""
    if not isinstance(value, dict):
        raise build_damage_error("an object", describe_value(value))
    return value


def write_float(number: float) -> str:
    """A number without loss."""
    return float(number).hex()


def read_float(text: Any) -> float:
    """The number that :func:`write_float` wrote; NaN is none."""
    try:
        number = float.fromhex(require_text(text))
    except (ValueError, OverflowError):
        raise build_damage_error("a number in hexadecimal", describe_value(text)) from None
    if math.isnan(number):
        raise build_damage_error("a number", "NaN")
    return number


def write_value(value: Any) -> Any:
    """A value of a table: a text, a number, true or false, a date, or none."""
    plain = to_python_value(value)
    if isinstance(plain, float):
        return {"float": write_float(plain)}
    if plain is not None and not isinstance(plain, (str, int)) and not isinstance(value_to_json(plain), dict):
        raise NotStorable(f"the value {describe_value(value)} cannot be written")
    return value_to_json(plain)


def read_value(value: Any) -> Any:
    """The value that :func:`write_value` wrote."""
    if isinstance(value, dict) and set(value) == {"float"}:
        return read_float(value["float"])
    if isinstance(value, dict) and set(value) == {"date"} and isinstance(value["date"], str):
        try:
            return value_from_json(value)
        except ValueError:
            raise build_damage_error("a date", describe_value(value)) from None
    if value is None or isinstance(value, (str, int)):
        return value
    raise build_damage_error("a value", describe_value(value))


def _plain(read: Callable[[Any], Any], write: Callable[[Any], Any] = lambda value: value) -> FieldKind:
    return FieldKind(lambda value, _: write(value), lambda value, _: read(value))


def _list_of(read: Callable[[Any], Any], write: Callable[[Any], Any], make: Callable[[Any], Any]) -> FieldKind:
    return FieldKind(
        lambda values, _: [write(value) for value in values],
        lambda values, _: make(read(value) for value in require_list(values)),
    )


def _set_of(read: Callable[[Any], Any], write: Callable[[Any], Any]) -> FieldKind:
    return FieldKind(
        lambda values, _: sorted((write(value) for value in values), key=repr),  # sets have no order of their own
        lambda values, _: frozenset(read(value) for value in require_list(values)),
    )


def _or_none(kind: FieldKind) -> FieldKind:
    return FieldKind(
        lambda value, pool: None if value is None else kind.write(value, pool),
        lambda value, parts: None if value is None else kind.read(value, parts),
    )


def _array(kind: str) -> FieldKind:
    return FieldKind(
        lambda array, pool: pool.add(np.asarray(array, dtype=np.dtype(kind))),
        lambda reference, parts: parts.get_array(reference, kind),
    )


def _write_bins(bins: Mapping[str, int]) -> list[Any]:
    return [[text, int(place)] for text, place in bins.items()]


def _read_bins(pairs: Any) -> dict[str, int]:
    return {require_text(text): require_int(place) for text, place in map(_require_pair, require_list(pairs))}


def _require_pair(pair: Any) -> list[Any]:
    if len(require_list(pair)) != 2:
        raise build_damage_error("a pair", describe_value(pair))
    return list(pair)


INT, FLAG, FLOAT = _plain(require_int, int), _plain(require_flag, bool), _plain(read_float, write_float)
TEXT = _plain(require_text)
VALUES = _list_of(read_value, write_value, tuple)
FLOATS, DOUBLES = _list_of(read_float, write_float, tuple), _array("f8")
VALUE_SET, INT_SET = _set_of(read_value, write_value), _set_of(require_int, int)
BINS = _plain(_read_bins, _write_bins)
OWN_BINS = _plain(lambda data: Bins.from_dict(require_object(data)), Bins.to_dict)
COMPONENT = _plain(lambda data: Component.from_dict(require_object(data)), Component.to_dict)

OBJECT = FieldKind(lambda value, pool: write_object(value, pool), lambda data, parts: read_object(data, parts))

STORED_CLASSES: dict[type, tuple[tuple[str, FieldKind], ...]] = {
    XGBoostThresholdSplit: (
        *(("column", INT), ("threshold", FLOAT), ("missing_left", FLAG)),
        ("missing", _or_none(FLOAT)),
    ),
    XGBoostCategorySplit: (
        *(("column", INT), ("chosen", INT_SET), ("missing_left", FLAG)),
        *(("missing", _or_none(FLOAT)), ("labels", _or_none(VALUES))),
    ),
    XGBoostSplitFactory: (("missing", _or_none(FLOAT)),),
    SklearnThresholdSplit: (("column", INT), ("threshold", FLOAT), ("missing_left", FLAG), ("as_float32", FLAG)),
    SklearnCategorySplit: (("column", INT), ("left", VALUE_SET), ("right", VALUE_SET), ("missing_left", FLAG)),
    LightGBMThresholdSplit: (
        *(("column", INT), ("threshold", FLOAT), ("missing_left", FLAG)),
        *(("missing", INT), ("labels", _or_none(VALUES))),
    ),
    LightGBMCategorySplit: (("column", INT), ("chosen", INT_SET), ("labels", _or_none(VALUES))),
    CatBoostThresholdSplit: (("column", INT), ("border", FLOAT), ("nan_left", FLAG)),
    CatBoostCategorySplit: (("column", INT), ("hash", INT)),
    OnnxSplit: (
        *(("column", INT), ("threshold", FLOAT), ("mode", INT)),
        *(("missing_left", FLAG), ("single", FLAG)),
    ),
    NumberSplit: (
        *(("column", INT), ("low", FLOAT), ("high", FLOAT)),
        *(("low_open", FLAG), ("high_open", FLAG)),
    ),
    ValueSplit: (("column", INT), ("values", VALUE_SET), ("turns_once", FLAG)),
    MissingSplit: (("column", INT), ("reason", _or_none(TEXT)), ("turns_once", FLAG)),
    LookupSplit: (("lookup", OBJECT), ("end", INT)),
    Lookup: (("column", INT), ("locate", OBJECT), ("is_increasing", FLAG)),
    ContinuousBins: (("cuts", DOUBLES),),
    CategoryBins: (("bins", BINS),),
    BinLocator: (("part", OWN_BINS),),
    ComponentSplit: (("column", INT), ("component", COMPONENT)),
    ScaledShape: (("factor", FLOAT), ("shape", OBJECT), ("limit", FLOAT)),
    IdentityShape: (),
    PresentNumberShape: (),
    UnitIntervalShape: (),
    SquaredDistanceShape: (("centre", FLOAT),),
    StepShape: (("threshold", FLOAT),),
    TableShape: (("entries", FLOATS),),
    NegatedContribution: (("contribution", OBJECT),),
    ListedContribution: (("seen", DOUBLES), ("added", DOUBLES)),
}
CLASS_BY_NAME = {kind.__name__: kind for kind in STORED_CLASSES}
FACTORIES: dict[str, Any] = {
    function.__name__: function
    for function in (
        make_float32_split,
        make_float64_split,
        make_lightgbm_split,
        make_catboost_split,
        make_onnx_split,
    )
}
SPLITS = (
    *(XGBoostThresholdSplit, XGBoostCategorySplit, SklearnThresholdSplit, SklearnCategorySplit),
    *(LightGBMThresholdSplit, LightGBMCategorySplit, CatBoostThresholdSplit, CatBoostCategorySplit),
    *(LookupSplit, ComponentSplit, OnnxSplit, NumberSplit, ValueSplit, MissingSplit),
)
CONTRIBUTIONS = (ScaledShape, NegatedContribution, ListedContribution)
LOCATORS = (ContinuousBins, CategoryBins, BinLocator)
SHAPES = (IdentityShape, PresentNumberShape, UnitIntervalShape, SquaredDistanceShape, StepShape, TableShape)
PARTS: dict[tuple[type, str], tuple[type, ...]] = {  # what an object inside an object may be
    (LookupSplit, "lookup"): (Lookup,),
    (Lookup, "locate"): LOCATORS,
    (ScaledShape, "shape"): SHAPES,
    (NegatedContribution, "contribution"): (ListedContribution,),
}


def write_object(value: Any, pool: ArrayPool) -> dict[str, Any]:
    """An object of a class of the list; raises NotStorable for any other."""
    name = getattr(value, "__name__", "")
    if FACTORIES.get(name) is value:
        return {"is": name}
    fields = STORED_CLASSES.get(type(value))
    if fields is None:
        raise NotStorable(f"its reading has a {type(value).__name__}, which is not stored so far")
    return {"is": type(value).__name__, **{name: kind.write(getattr(value, name), pool) for name, kind in fields}}


def read_object(data: Any, parts: StoredParts, *allowed: type) -> Any:
    """The object that :func:`write_object` wrote, of one of the allowed classes, if any are named."""
    given = dict(require_object(data))
    name = given.pop("is", None)
    if name in FACTORIES and not allowed and not given:
        return FACTORIES[name]
    kind = CLASS_BY_NAME.get(name) if isinstance(name, str) else None
    if kind is None or (allowed and kind not in allowed) or set(given) != {key for key, _ in STORED_CLASSES[kind]}:
        raise build_damage_error("an object of a known class with its fields", describe_value(data))
    values = {}
    for key, field_kind in STORED_CLASSES[kind]:
        inner = PARTS.get((kind, key))
        values[key] = field_kind.read(given[key], parts) if inner is None else read_object(given[key], parts, *inner)
    return kind(**values)


def require_increasing(array: AnyArray, what: str) -> None:
    """Raise InputError unless the numbers of an array rise."""
    if not (np.diff(array) >= 0).all():  # NaN too
        raise build_damage_error(f"{what} that rise", "others")
