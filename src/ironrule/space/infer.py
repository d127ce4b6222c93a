"""From a table to a space: which columns are ordered, which are nominal, which belong together, and their domains.

Numbers and dates are ordered, and so are columns whose type declares an order (a pandas ordered category, a polars
Enum). Text, unordered categories and booleans are nominal. Domains are the distinct values seen (the paper's active
domain), unless the caller declares more. Columns of zeros and ones that share a name prefix and have exactly one 1 in
every row are a one-hot group, and become one nominal feature.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Literal

import numpy as np

from ironrule.errors import SpaceError, TableError, describe_value
from ironrule.progress import track
from ironrule.space.codes import read_one_hot_column
from ironrule.space.feature import Feature, Value
from ironrule.space.table import Table, TableColumn, is_listing, to_python_value
from ironrule.wording import format_count

NONE_OF_THEM = "(none)"  # the value of a one-hot feature whose columns are all zero

PREFIX_SEPARATORS = "_=:.-"  # what stands between the name of a one-hot group and a value in a column's name

OneHotOption = Literal["detect"] | Mapping[str, Sequence[str]] | None


@dataclass(frozen=True, slots=True)
class InferenceOptions:
    """What the caller knows better than the table: which columns are nominal, orders, domains, grids, groups."""

    nominal: Sequence[str] = ()
    ordered: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    domains: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    missing: Sequence[str] = ()
    one_hot: OneHotOption = "detect"
    constant: Literal["refuse", "keep"] = "keep"

    def __post_init__(self) -> None:
        for name in ("nominal", "missing"):
            given = getattr(self, name)
            if not is_listing(given) or not all(isinstance(column, str) for column in given):
                raise SpaceError(expected=f"{name} must be a list of columns", got=describe_value(given))
        for name in ("ordered", "domains"):
            given = getattr(self, name)
            if not isinstance(given, Mapping) or not all(map(is_listing, given.values())):
                rule = f"{name} must be a mapping from columns to lists of values"
                raise SpaceError(expected=rule, got=describe_value(given))
        groups = self.one_hot.values() if isinstance(self.one_hot, Mapping) else ()
        known = isinstance(self.one_hot, (Mapping, NoneType)) or (
            isinstance(self.one_hot, str) and self.one_hot == "detect"
        )
        if not known or not all(is_listing(names) for names in groups):
            rule = 'one_hot must be "detect", None or a mapping from groups to columns'
            raise SpaceError(expected=rule, got=describe_value(self.one_hot))


def infer_features(
    table: Table, columns: Sequence[str], options: InferenceOptions, progress: bool | None
) -> tuple[Feature, ...]:
    """The features of the chosen columns, in the order of the table."""
    _check_options(columns, options)
    groups = dict(_find_one_hot_groups(table, columns, options))
    grouped = {name: group for group, names in groups.items() for name in names}
    features: dict[str, Feature] = {}
    for name in track(columns, "Reading domains", len(columns), progress):  # a group stands where its first column does
        if name not in grouped:
            features[name] = _infer_feature(name, table.column(name), options)
        elif grouped[name] not in features:
            features[grouped[name]] = _build_one_hot_feature(grouped[name], groups[grouped[name]], table)
    _check_not_constant(list(features.values()), options)
    return tuple(features.values())


def _check_options(columns: Sequence[str], options: InferenceOptions) -> None:
    for name in [*options.nominal, *options.ordered, *options.domains, *options.missing]:
        if name not in columns:
            rule = "nominal, ordered, domains and missing must name columns of the table"
            raise SpaceError(expected=rule, got=describe_value(name), hint=f"the columns are {', '.join(columns)}")


def _check_not_constant(features: list[Feature], options: InferenceOptions) -> None:
    idle = [f.name for f in features if f.size == 1 and f.name not in options.domains]
    if idle and options.constant == "refuse":
        raise TableError(
            expected="a feature must have at least two values",
            got=f"one value, or only missing ones, in {', '.join(map(repr, idle))}",
            hint="drop it, or declare its domain",
            code="constant-column",
        )


def _infer_feature(name: str, column: TableColumn, options: InferenceOptions) -> Feature:
    seen = _list_distinct(name, column)
    declared = _read_declared_values(name, column, options)
    ordered = name in options.ordered or (name not in options.nominal and _is_ordered(column, declared))
    if name in options.ordered or column.categories:
        order = declared or [value for value in column.categories or () if value in seen]
        unknown = [value for value in seen if value not in order]
        if unknown:
            raise SpaceError(f"the order of {name!r} does not list {unknown[0]!r}, which is in the table")
        values = order
    else:
        values = _sort_values({*seen, *declared})
    return Feature(name, tuple(values), ordered, missing=bool(column.missing.any()) or name in options.missing)


def _read_declared_values(name: str, column: TableColumn, options: InferenceOptions) -> list[Value]:
    """The values that the caller lists, in the column's own type where that rounds numbers or tells days from times."""
    listed = [to_python_value(value) for value in options.ordered.get(name, ()) or options.domains.get(name, ())]
    if column.values.dtype.kind not in "iufM" or not listed:
        return listed
    try:
        if column.values.dtype.kind in "iu":
            if any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in listed):
                raise TypeError
            return listed
        return list(np.array(listed, dtype=column.values.dtype).tolist())
    except (ValueError, TypeError):
        rule = f"the domain of {name!r} must fit the type of its column, {column.values.dtype}"
        raise SpaceError(expected=rule, got=listed) from None


def _is_ordered(column: TableColumn, declared: list[Value]) -> bool:
    if len(column.present) == 0:
        return all(isinstance(value, (int, float)) for value in declared) and bool(declared)
    return column.values.dtype.kind in "iufM" or column.categories is not None


def _list_distinct(name: str, column: TableColumn) -> list[Value]:
    present = column.present
    if present.dtype.kind in "iuf":
        if present.dtype.kind == "f" and np.isinf(present).any():
            got, hint = f"infinity in column {name!r}", "replace it by a number or by missing"
            raise TableError(expected="numbers must be finite", got=got, hint=hint)
        return list(np.unique(present + 0 if present.dtype.kind != "f" else present + 0.0).tolist())
    if present.dtype.kind == "M":
        return list(np.unique(present).tolist())
    return _sort_values({to_python_value(value) for value in dict.fromkeys(present.tolist())})


def _sort_values(values: set[Value]) -> list[Value]:
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=lambda value: (type(value).__name__, str(value)))


def _find_one_hot_groups(
    table: Table, columns: Sequence[str], options: InferenceOptions
) -> Iterator[tuple[str, tuple[str, ...]]]:
    if isinstance(options.one_hot, Mapping):
        for group, names in options.one_hot.items():
            absent = [name for name in names if name not in columns]
            if absent or len(names) < 2:
                rule = f"one-hot group {group!r} must name two or more columns of the table"
                raise SpaceError(expected=rule, got=absent or list(names))
            if group in columns and group not in names:
                raise SpaceError(f"one-hot group {group!r} has the same name as a column")
            yield group, tuple(names)
    elif options.one_hot == "detect":
        for group, names in group_by_prefix(columns).items():
            if group not in columns and _is_one_hot_group(table, names):
                yield group, tuple(names)


def group_by_prefix(columns: Sequence[str]) -> dict[str, list[str]]:
    """Columns that may form a one-hot group by their names, by group."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in columns:
        parts = re.match(rf"(.+)[{PREFIX_SEPARATORS}](.+)$", name)
        if parts:
            groups[parts[1]].append(name)
    return {group: names for group, names in groups.items() if len(names) > 1}


def _is_one_hot_group(table: Table, names: Sequence[str]) -> bool:
    """Whether the columns hold 0 and 1 only, with exactly one 1 in every row."""
    counts = np.zeros(len(table), dtype=np.int64)
    for name in names:
        try:
            counts += read_one_hot_column(table.column(name), name)
        except TableError:
            return False
    return bool((counts == 1).all())


def _build_one_hot_feature(group: str, names: Sequence[str], table: Table) -> Feature:
    hot = np.sum([read_one_hot_column(table.column(name), name) for name in names], axis=0, dtype=np.int64)
    if (hot > 1).any():
        rows = format_count(int((hot > 1).sum()), "row")
        raise TableError(expected=f"one-hot group {group!r} must be exclusive", got=f"several 1s in {rows}")
    labels = [re.sub(rf"^{re.escape(group)}[{PREFIX_SEPARATORS}](?=.)", "", name) for name in names]
    labels = labels if len(set(labels)) == len(labels) else list(names)
    return Feature(group, (*labels, *([NONE_OF_THEM] if (hot == 0).any() else [])), ordered=False, columns=tuple(names))
