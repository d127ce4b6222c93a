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
from typing import Literal

import numpy as np

from ironrule.counting import counted
from ironrule.errors import SpaceError, TableError
from ironrule.progress import track
from ironrule.space.codes import one_hot_column
from ironrule.space.feature import Feature, Value
from ironrule.space.table import Column, Table, as_python

NONE_OF_THEM = "(none)"
"""The value of a one-hot feature whose columns are all zero."""

SEPARATORS = "_=:.-"
"""What stands between the name of a one-hot group and a value in a column's name."""

OneHot = Literal["detect"] | Mapping[str, Sequence[str]] | None


@dataclass(frozen=True, slots=True)
class Hints:
    """What the caller knows better than the table: which columns are nominal, orders, domains, grids, groups."""

    nominal: Sequence[str] = ()
    ordered: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    domains: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    missing: Sequence[str] = ()
    one_hot: OneHot = "detect"
    constant: Literal["refuse", "keep"] = "refuse"


def infer_features(table: Table, columns: Sequence[str], hints: Hints, progress: bool | None) -> tuple[Feature, ...]:
    """The features of the chosen columns, in the order of the table."""
    _check_hints(columns, hints)
    groups = dict(_one_hot_groups(table, columns, hints))
    grouped = {name: group for group, names in groups.items() for name in names}
    features: dict[str, Feature] = {}
    for name in track(columns, "Reading domains", len(columns), progress):
        if name not in grouped:
            features[name] = _plain_feature(name, table.column(name), hints)
        elif grouped[name] not in features:
            features[grouped[name]] = _one_hot_feature(grouped[name], groups[grouped[name]], table)
    _refuse_constant(list(features.values()), hints)
    return tuple(features.values())


def _check_hints(columns: Sequence[str], hints: Hints) -> None:
    for name in [*hints.nominal, *hints.ordered, *hints.domains, *hints.missing]:
        if name not in columns:
            raise SpaceError(
                expected="nominal, ordered, domains and missing must name columns of the table",
                got=repr(name),
                hint=f"the columns are {', '.join(columns)}",
            )


def _refuse_constant(features: list[Feature], hints: Hints) -> None:
    idle = [f.name for f in features if f.size == 1 and f.name not in hints.domains]
    if idle and hints.constant == "refuse":
        raise TableError(
            expected="a feature must have at least two values",
            got=f"one value, or only missing ones, in {', '.join(map(repr, idle))}",
            hint="drop it, declare its domain, or keep it with Space.infer(data, constant='keep')",
            code="constant-column",
        )


def _plain_feature(name: str, column: Column, hints: Hints) -> Feature:
    seen = _distinct(name, column)
    declared = _declared(name, column, hints)
    ordered = name in hints.ordered or (name not in hints.nominal and _is_ordered(column, declared))
    if name in hints.ordered or column.categories:
        order = declared or [value for value in column.categories or () if value in seen]
        unknown = [value for value in seen if value not in order]
        if unknown:
            raise SpaceError(f"the order of {name!r} does not list {unknown[0]!r}, which is in the table")
        values = order
    else:
        values = _in_order({*seen, *declared})
    return Feature(name, tuple(values), ordered, missing=bool(column.missing.any()) or name in hints.missing)


def _declared(name: str, column: Column, hints: Hints) -> list[Value]:
    """The values that the caller lists, in the column's own type where that rounds numbers or tells days from times."""
    listed = [as_python(value) for value in hints.ordered.get(name, ()) or hints.domains.get(name, ())]
    if column.values.dtype.kind not in "fM" or not listed:
        return listed
    try:
        return list(np.array(listed, dtype=column.values.dtype).tolist())
    except (ValueError, TypeError):
        raise SpaceError(
            expected=f"the domain of {name!r} must fit the type of its column, {column.values.dtype}", got=listed
        ) from None


def _is_ordered(column: Column, declared: list[Value]) -> bool:
    if len(column.present) == 0:
        return all(isinstance(value, (int, float)) for value in declared) and bool(declared)
    return column.values.dtype.kind in "iufM" or column.categories is not None


def _distinct(name: str, column: Column) -> list[Value]:
    present = column.present
    if present.dtype.kind in "iuf":
        if present.dtype.kind == "f" and np.isinf(present).any():
            raise TableError(
                expected="numbers must be finite",
                got=f"infinity in column {name!r}",
                hint="replace it by a number or by missing",
            )
        return list(np.unique(present + 0 if present.dtype.kind != "f" else present + 0.0).tolist())
    if present.dtype.kind == "M":
        return list(np.unique(present).tolist())
    return _in_order({as_python(value) for value in dict.fromkeys(present.tolist())})


def _in_order(values: set[Value]) -> list[Value]:
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=lambda value: (type(value).__name__, str(value)))


def _one_hot_groups(table: Table, columns: Sequence[str], hints: Hints) -> Iterator[tuple[str, tuple[str, ...]]]:
    if isinstance(hints.one_hot, Mapping):
        for group, names in hints.one_hot.items():
            absent = [name for name in names if name not in columns]
            if absent or len(names) < 2:
                raise SpaceError(
                    expected=f"one-hot group {group!r} must name two or more columns of the table",
                    got=absent or list(names),
                )
            if group in columns and group not in names:
                raise SpaceError(f"one-hot group {group!r} has the same name as a column")
            yield group, tuple(names)
    elif hints.one_hot == "detect":
        for group, names in same_prefix(columns).items():
            if group not in columns and _exclusive(table, names):
                yield group, tuple(names)


def same_prefix(columns: Sequence[str]) -> dict[str, list[str]]:
    """Columns that may form a one-hot group by their names, by group."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in columns:
        parts = re.match(rf"(.+)[{SEPARATORS}](.+)$", name)
        if parts:
            groups[parts[1]].append(name)
    return {group: names for group, names in groups.items() if len(names) > 1}


def _exclusive(table: Table, names: Sequence[str]) -> bool:
    """Whether the columns hold 0 and 1 only, with exactly one 1 in every row."""
    counts = np.zeros(len(table), dtype=np.int64)
    for name in names:
        try:
            counts += one_hot_column(table.column(name), name)
        except TableError:
            return False
    return bool((counts == 1).all())


def _one_hot_feature(group: str, names: Sequence[str], table: Table) -> Feature:
    hot = np.sum([one_hot_column(table.column(name), name) for name in names], axis=0, dtype=np.int64)
    if (hot > 1).any():
        rows = counted(int((hot > 1).sum()), "row")
        raise TableError(expected=f"one-hot group {group!r} must be exclusive", got=f"several 1s in {rows}")
    labels = [re.sub(rf"^{re.escape(group)}[{SEPARATORS}](?=.)", "", name) for name in names]
    labels = labels if len(set(labels)) == len(labels) else list(names)
    return Feature(group, (*labels, *([NONE_OF_THEM] if (hot == 0).any() else [])), ordered=False, columns=tuple(names))
