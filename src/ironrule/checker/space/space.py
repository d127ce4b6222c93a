"""Spaces: features with their domains, and the constraints on what can occur.

A value's position in its feature's domain is its *code*. "Missing" is a value of its own, outside the order; where a
feature has it, its code comes after all others. Several table columns of which exactly one is 1 in every row (a one-hot
group) are one feature.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ironrule.checker.arrays import AnyArray, BoolArray, Int32Array
from ironrule.checker.space.table import MaskedColumn, UserTable, is_missing, read_table, to_python_value
from ironrule.errors import SpaceError, TableError

if TYPE_CHECKING:
    from ironrule.checker.space.constraints import FormulaNode, ParsedConstraint, PointPredicate


PREFIX_SEPARATORS = "_=:.-"  # between the name of a one-hot group and a value in the names of its columns


@dataclass(frozen=True, slots=True)
class CheckerFeature:
    """A feature: its name, its domain in order, and the table columns that carry it."""

    name: str
    values: tuple[Any, ...]
    ordered: bool
    missing: bool = False
    columns: tuple[str, ...] = ()
    interval: bool | None = None  # any number from the smallest to the largest value; None: nothing is declared
    numeric: bool = field(init=False, repr=False, compare=False)  # whether every value is a number
    temporal: bool = field(init=False, repr=False, compare=False)  # whether every value is a date or a time
    naturally_ordered: bool = field(init=False, repr=False, compare=False)  # whether it rises, as numbers or as dates

    def __post_init__(self) -> None:
        numbers = (isinstance(value, (int, float)) and not isinstance(value, bool) for value in self.values)
        object.__setattr__(self, "numeric", all(numbers))
        object.__setattr__(self, "temporal", all(isinstance(value, datetime.date) for value in self.values))
        object.__setattr__(self, "naturally_ordered", (self.numeric or self.temporal) and _is_increasing(self.values))
        object.__setattr__(self, "columns", self.columns or (self.name,))
        for value in self.values:
            if type(value).__hash__ is None or is_missing(value) or (isinstance(value, float) and math.isinf(value)):
                raise SpaceError(expected=f"the domain of {self.name!r} must be finite single values", got=repr(value))
        if self.size == 0 or len(set(self.values)) < len(self.values):
            got = "a value twice" if self.values else "none"
            raise SpaceError(expected=f"the domain of {self.name!r} must have distinct values", got=got)
        extra = len(self.values) - len(self.columns)  # one value more than columns means that all may be 0
        if self.one_hot and (self.missing or extra not in ((0,) if self.ordered else (0, 1))):
            needed = "one value per column (or one more for none of them, if it has no order) and no missing value"
            expected = f"the one-hot feature {self.name!r} must have {needed}"
            got = f"{len(self.values)} values{' and missing' * self.missing} for {len(self.columns)} columns"
            raise SpaceError(expected=expected, got=got)

    @property
    def size(self) -> int:
        """How many codes there are, missing included."""
        return len(self.values) + self.missing

    @property
    def missing_code(self) -> int:
        """The code of missing; -1 where the feature is never missing."""
        return len(self.values) if self.missing else -1

    @property
    def last_code(self) -> int:
        """The code of the last value; missing does not count. -1 where missing is the only one."""
        return len(self.values) - 1

    @property
    def one_hot(self) -> bool:
        """Whether several table columns carry this feature."""
        return len(self.columns) > 1

    @property
    def whole(self) -> bool:
        """Whether every value is a whole number."""
        return self.numeric and all(isinstance(value, int) for value in self.values)

    def value(self, code: int) -> Any:
        """The value of a code; None for missing."""
        return None if self.missing and code == len(self.values) else self.values[code]

    def describe(self) -> str:
        """The domain in a few words, for messages.

        >>> CheckerFeature("age", tuple(range(18, 100)), ordered=True).describe()
        'one of 82 values from 18 to 99'
        """
        if self.ordered and len(self.values) > 8:
            text = f"one of {len(self.values)} values from {self.values[0]!r} to {self.values[-1]!r}"
        else:
            more = f", ... ({len(self.values)} values)" if len(self.values) > 12 else ""
            text = f"one of {', '.join(map(repr, self.values[:12]))}{more}"
        return text + (" or missing" if self.missing else "")


def _is_increasing(values: tuple[Any, ...]) -> bool:
    try:
        return all(low < high for low, high in pairwise(values))
    except TypeError:  # dates and times have no common order
        return False


@dataclass(frozen=True)
class CheckerSpace:
    """Features, and constraints over ``cf`` alone on what can occur; raises ConstraintError if one names ``x``."""

    features: tuple[CheckerFeature, ...]
    constraints: tuple[str, ...] = ()
    formulas: tuple[FormulaNode, ...] = field(init=False, repr=False, compare=False)
    predicates: tuple[PointPredicate, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.features:
            raise SpaceError(expected="a space must have at least one feature", got="none")
        for names in (self.names, self.columns):
            if len(set(names)) < len(names):
                twice = next(name for name, count in Counter(names).items() if count > 1)
                raise SpaceError(expected="names of features and columns must be unique", got=f"{twice!r} twice")
        parsed = parse_constraints(self.constraints)
        object.__setattr__(self, "formulas", tuple(one.formula for one in parsed))
        object.__setattr__(self, "predicates", tuple(one.bind(self) for one in parsed))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The features' names, in order."""
        return tuple(feature.name for feature in self.features)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The table columns that carry the features."""
        return tuple(name for feature in self.features for name in feature.columns)

    @cached_property
    def sizes(self) -> npt.NDArray[np.int32]:
        """How many codes every feature has."""
        return np.array([feature.size for feature in self.features], dtype=np.int32)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of features, domains and constraints: what a certificate names as its scope."""
        entries = {feature.name: _feature_to_json(feature) for feature in self.features}
        text = json.dumps({"features": entries, "constraints": list(self.constraints)}, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def index(self, name: str) -> int:
        """The position of a feature; raises SpaceError if there is no such feature."""
        if name not in self.names:
            hint = f"the features are {', '.join(self.names)}"
            raise SpaceError(f"unknown feature {name!r}", hint=hint, code="unknown-feature")
        return self.names.index(name)

    def admits(self, points: Int32Array) -> BoolArray:
        """Which points satisfy every constraint."""
        mask = np.ones(len(points), dtype=np.bool_)
        for predicate in self.predicates:
            mask &= predicate(points)
        return mask

    def encode(self, table: Any) -> Int32Array:
        """The rows of a table as codes; raises TableError if it lacks columns or has values outside the domains."""
        read = read_table(table, self.columns if isinstance(table, np.ndarray) else None)
        codes = np.empty((len(read), len(self.features)), dtype=np.int32)
        for place, feature in enumerate(self.features):
            codes[:, place] = _encode_one_hot(feature, read) if feature.one_hot else _encode_column(feature, read)
        return codes


def parse_constraints(texts: Sequence[str]) -> tuple[ParsedConstraint, ...]:
    """The constraints; what reads them is loaded when there are any."""
    if not texts:
        return ()
    from ironrule.checker.space.constraints import parse_constraint

    return tuple(map(parse_constraint, texts))


def _encode_column(feature: CheckerFeature, table: UserTable) -> npt.NDArray[np.int64]:
    column = table.column(feature.columns[0])
    if column.values.dtype.kind == "O":
        codes = look_up_codes(feature, column.values.tolist())
    else:  # as Python values, which compare exactly whatever their types
        distinct, inverse = np.unique(column.values, return_inverse=True)
        codes = look_up_codes(feature, distinct.tolist())[inverse]
    codes[column.missing] = feature.missing_code
    wrong = np.flatnonzero(codes < 0)
    if len(wrong):
        got = "missing" if column.missing[wrong[0]] else repr(to_python_value(column.values[wrong[0]]))
        raise TableError(
            expected=f"{feature.name!r} must be {feature.describe()}",
            got=f"other values, such as {got}, in {len(wrong):,} of {len(table):,} rows",
            hint="extend the domain, or leave those rows out",
            code="value-outside-domain",
        )
    return codes


def look_up_codes(feature: CheckerFeature, values: Iterable[Any]) -> npt.NDArray[np.int64]:
    """The codes of values; -1 where the domain does not have one. A date is the moment it begins, as a time is."""

    def key(value: Any) -> Any:
        day = feature.temporal and type(value) is datetime.date
        return datetime.datetime.combine(value, datetime.time()) if day else value

    places = {key(value): code for code, value in enumerate(feature.values)}
    return np.fromiter((places.get(key(value), -1) for value in values), np.int64)


def _encode_one_hot(feature: CheckerFeature, table: UserTable) -> npt.NDArray[np.intp]:
    hot = _read_one_hot_columns(table, feature.columns)
    count = hot.sum(axis=1)
    wrong = (count > 1) | ((count == 0) & (len(feature.values) == len(feature.columns)))
    if wrong.any():
        raise TableError(
            expected=f"the one-hot columns of {feature.name!r} must have exactly one 1 per row",
            got=f"none or several in {int(wrong.sum()):,} of {len(table):,} rows",
        )
    return np.where(count == 0, len(feature.columns), hot.argmax(axis=1))


def _read_one_hot_columns(table: UserTable, names: Sequence[str]) -> BoolArray:
    """Columns of zeros and ones as a matrix; raises TableError if one has anything else."""
    flags = np.empty((len(table), len(names)), dtype=np.bool_)
    for place, name in enumerate(names):
        column = table.column(name)
        if column.missing.any() or not ((column.values == 0) | (column.values == 1)).all():
            raise TableError(expected=f"the one-hot column {name!r} must hold 0 and 1 only", got="other values")
        flags[:, place] = column.values.astype(np.bool_)
    return flags


def infer_space(data: Any, columns: Sequence[str] | None = None) -> CheckerSpace:
    """The space of a table: domains are the distinct values seen.

    Numbers and dates are ordered, and so are columns whose type declares an order; text, other categories and booleans
    are nominal. Columns of zeros and ones that share a name prefix and have exactly one 1 in every row are one feature.
    """
    table = read_table(data)
    chosen = table.names if columns is None else tuple(columns)
    groups = {name: (group, names) for group, names in _find_one_hot_groups(table, chosen).items() for name in names}
    features: dict[str, CheckerFeature] = {}
    for name in chosen:
        feature = _build_one_hot_feature(*groups[name]) if name in groups else _infer_feature(name, table.column(name))
        features[feature.name] = feature
    return CheckerSpace(tuple(features.values()))


def _infer_feature(name: str, column: MaskedColumn) -> CheckerFeature:
    present = column.present
    values = sort_values(present)
    if column.categories is not None:
        seen = set(values)
        values = [value for value in column.categories if value in seen]
    ordered = len(present) > 0 and (column.values.dtype.kind in "iufM" or column.categories is not None)
    return CheckerFeature(name, tuple(values), ordered, bool(column.missing.any()))


def sort_values(present: AnyArray) -> list[Any]:
    """The distinct values in order; by the name of their type and as text where Python has no order for them."""
    if present.dtype.kind in "iufM":
        present = np.unique(present + 0.0 if present.dtype.kind == "f" else present)  # -0.0 is 0.0
    distinct = {to_python_value(value) for value in dict.fromkeys(present.tolist())}
    try:
        return sorted(distinct)
    except TypeError:
        return sorted(distinct, key=lambda value: (type(value).__name__, str(value)))


def _find_one_hot_groups(table: UserTable, columns: Sequence[str]) -> dict[str, list[str]]:
    """The one-hot groups: columns with the same prefix of which exactly one is 1 in every row."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in columns:
        parts = re.match(rf"(.+)[{PREFIX_SEPARATORS}](.+)$", name)
        if parts and parts[1] not in columns:
            groups[parts[1]].append(name)
    return {group: names for group, names in groups.items() if len(names) > 1 and _is_one_hot_group(table, names)}


def _is_one_hot_group(table: UserTable, names: Sequence[str]) -> bool:
    try:
        return bool((_read_one_hot_columns(table, names).sum(axis=1) == 1).all())
    except TableError:  # other values than 0 and 1
        return False


def _build_one_hot_feature(group: str, names: Sequence[str]) -> CheckerFeature:
    labels = [re.sub(rf"^{re.escape(group)}[{PREFIX_SEPARATORS}](?=.)", "", name) for name in names]
    values = labels if len(set(labels)) == len(labels) else names
    return CheckerFeature(group, tuple(values), False, columns=tuple(names))


def _feature_to_json(feature: CheckerFeature) -> dict[str, Any]:
    kind, values = "ordered" if feature.ordered else "nominal", list(map(value_to_json, feature.values))
    entry: dict[str, Any] = {"kind": kind, "values": values, "missing": feature.missing}
    if feature.columns != (feature.name,):
        entry["columns"] = list(feature.columns)
    return entry if feature.interval is None else entry | {"interval": feature.interval}


def space_from_json(document: Any) -> CheckerSpace:
    """The space that plain data declares, every domain listed in full; raises SpaceError for data of another form."""
    try:
        features = [_feature_from_json(name, entry) for name, entry in document["features"].items()]
        return CheckerSpace(tuple(features), tuple(document["constraints"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise SpaceError(f"a space must have 'features' by name and 'constraints': {error}") from None


def _feature_from_json(name: str, entry: Mapping[str, Any]) -> CheckerFeature:
    values, columns = tuple(map(value_from_json, entry["values"])), tuple(entry.get("columns", ()))
    if entry["kind"] not in ("ordered", "nominal") or not isinstance(entry["missing"], bool):
        got = f"{entry['kind']!r} and {entry['missing']!r}"
        raise SpaceError(expected=f"{name!r} must have kind ordered or nominal and missing true or false", got=got)
    interval = entry.get("interval")
    if interval not in (None, True, False):
        raise SpaceError(expected=f"'interval' of {name!r} must be true or false", got=repr(interval))
    ordered, missing = entry["kind"] == "ordered", entry["missing"]
    return CheckerFeature(name, values, ordered=ordered, missing=missing, columns=columns, interval=interval)


def value_to_json(value: Any) -> Any:
    """A value that JSON can hold.

    >>> value_to_json(datetime.date(2024, 2, 29))
    {'date': '2024-02-29'}
    """
    return {"date": value.isoformat()} if isinstance(value, datetime.date) else value


def value_from_json(value: Any) -> Any:
    """The value that :func:`value_to_json` wrote; raises SpaceError for a malformed date."""
    if not isinstance(value, dict) or set(value) != {"date"}:
        return value
    try:
        text = value["date"]
        return datetime.datetime.fromisoformat(text) if "T" in text else datetime.date.fromisoformat(text)
    except (ValueError, TypeError):
        raise SpaceError(expected="a date must be written like '2024-12-31'", got=repr(value["date"])) from None
