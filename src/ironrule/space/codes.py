"""Codes: a table inside the engine, one small-integer array per feature, and how a table becomes one."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ironrule.arrays import AnyArray, BoolArray, Int64Array, Points
from ironrule.errors import TableError
from ironrule.space.feature import Feature
from ironrule.space.table import Table, TableColumn, to_python_value
from ironrule.wording import format_count


@dataclass(frozen=True, slots=True, eq=False)
class EncodedTable:
    """Many rows as codes, column by column, each column in the smallest integer type that holds its feature."""

    columns: tuple[AnyArray, ...]

    def __len__(self) -> int:
        return len(self.columns[0])

    def points(self, rows: Any = slice(None)) -> Points:
        """The chosen rows as a dense matrix of codes."""
        chosen = [column[rows] for column in self.columns]
        matrix = np.empty((len(chosen[0]), len(chosen)), dtype=np.int32)
        for j, column in enumerate(chosen):
            matrix[:, j] = column
        return matrix

    def row(self, position: int) -> Points:
        """One row as a point."""
        return np.array([column[position] for column in self.columns], dtype=np.int32)

    def take(self, rows: Any) -> EncodedTable:
        """The chosen rows, still column by column."""
        return EncodedTable(tuple(np.ascontiguousarray(column[rows]) for column in self.columns))

    def recode(self, old: Sequence[Feature], new: Sequence[Feature]) -> EncodedTable:
        """The same rows as codes of other domains, which must have the rows' values; columns that stay are shared."""
        tables = [build_recoding(before, after) for before, after in zip(old, new, strict=True)]
        pairs = zip(self.columns, tables, strict=True)
        return EncodedTable(tuple(column if table is None else table[column] for column, table in pairs))

    def flag_inside(self, low: AnyArray, high: AnyArray, sizes: Iterable[int]) -> BoolArray:
        """Which rows lie in the box; only columns that the box restricts are read."""
        mask = np.ones(len(self), dtype=np.bool_)
        for column, lo, hi, size in zip(self.columns, low, high, sizes, strict=True):
            if lo > 0:
                mask &= column >= lo
            if hi < size - 1:
                mask &= column <= hi
        return mask


def choose_code_type(size: int) -> type[np.unsignedinteger[Any]]:
    """The smallest unsigned integer type that holds codes below ``size``."""
    return np.uint8 if size <= 1 << 8 else np.uint16 if size <= 1 << 16 else np.uint32


def build_recoding(old: Feature, new: Feature) -> AnyArray | None:
    """The new code for every old code of a feature; None if all stay as they are.

    An old value that the new domain lacks has no code. No row may have it: its entry lies beyond all codes.
    """
    if old.values == new.values and old.missing == new.missing:
        return None
    codes = [new.code_by_value.get(value, new.size) for value in old.values]
    codes += [new.missing_code if new.missing else new.size] if old.missing else []
    table = np.array(codes, dtype=choose_code_type(new.size + (new.size in codes)))
    same_type = choose_code_type(old.size) == choose_code_type(new.size)
    return None if same_type and np.array_equal(table, np.arange(len(table))) else table


def encode_feature(feature: Feature, table: Table) -> AnyArray:
    """The codes of one feature for every row; raises TableError, naming values, if some are outside the domain."""
    codes = _encode_one_hot(feature, table) if feature.one_hot else _encode_plain(feature, table)
    return codes.astype(choose_code_type(feature.size))


def _encode_plain(feature: Feature, table: Table) -> Int64Array:
    column = table.column(feature.columns[0])
    codes = look_up_codes(feature, column.values)
    codes[column.missing] = feature.missing_code
    wrong = (codes < 0) if feature.missing else (codes < 0) & ~column.missing
    if wrong.any():
        examples = ", ".join(sorted({repr(to_python_value(value)) for value in column.values[wrong][:1000]})[:3])
        raise TableError(
            expected=f"{feature.name!r} must be {feature.describe()}",
            got=f"other values in {format_count(int(wrong.sum()), 'row')} ({examples})",
            hint="extend the domain: Explainer(..., space=space.extend_domains(row)), or leave those rows out",
            code="value-outside-domain",
        )
    if not feature.missing and column.missing.any():
        raise TableError(
            expected=f"{feature.name!r} cannot be missing in this space",
            got=f"missing values in {format_count(int(column.missing.sum()), 'row')}",
            hint="declare it with missing = true",
        )
    return codes


def look_up_codes(feature: Feature, values: AnyArray) -> Int64Array:
    """Positions in the domain, -1 where a value is not in it."""
    if values.dtype.kind in "iuf" and feature.numeric and feature.values:
        domain = np.asarray(feature.values)
        if np.result_type(domain, values).kind == domain.dtype.kind == values.dtype.kind:
            return _look_up_sorted(domain, values)
    if values.dtype.kind == "O":
        return _look_up_values(feature, values.tolist())
    distinct, inverse = np.unique(values, return_inverse=True)  # Python compares numbers of different types exactly
    return _look_up_values(feature, distinct.tolist())[inverse]


def _look_up_values(feature: Feature, values: Sequence[Any]) -> Int64Array:
    if feature.temporal:
        values = [_to_datetime(value) for value in values]
    position = {_to_datetime(value): code for code, value in enumerate(feature.values)}
    return np.fromiter((position.get(value, -1) for value in values), np.int64, len(values))


def _to_datetime(value: Any) -> Any:
    """A date as the moment it begins, so that a domain of dates fits a column of times; all else as it is."""
    if type(value) is datetime.date:
        return datetime.datetime.combine(value, datetime.time())
    return value


def _look_up_sorted(domain: AnyArray, values: AnyArray) -> Int64Array:
    order = np.argsort(domain, kind="stable")
    ranked = domain[order]
    places = np.minimum(np.searchsorted(ranked, values), len(ranked) - 1)
    return np.where(ranked[places] == values, order[places], -1)


def _encode_one_hot(feature: Feature, table: Table) -> Int64Array:
    hot = [read_one_hot_column(table.column(name), name) for name in feature.columns]
    counts = np.sum(hot, axis=0, dtype=np.int64)
    allows_none = len(feature.values) > len(feature.columns)
    if (counts > 1).any() or (not allows_none and (counts == 0).any()):
        rule = f"the one-hot columns of {feature.name!r} must have exactly one 1 per row"
        raise TableError(expected=rule, got=f"none or several in {format_count(int((counts != 1).sum()), 'row')}")
    codes = np.full(len(table), len(feature.columns), dtype=np.int64)
    for code, column in enumerate(hot):
        codes[column] = code
    return codes


def read_one_hot_column(column: TableColumn, name: str) -> BoolArray:
    """A 0/1 column as a mask; raises TableError if it holds anything else."""
    if column.missing.any() or not ((column.values == 0) | (column.values == 1)).all():
        raise TableError(expected=f"the one-hot column {name!r} must hold 0 and 1 only", got="other values")
    return column.values.astype(np.bool_)
