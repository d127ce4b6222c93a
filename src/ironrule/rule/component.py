"""Components and rules in the user's own terms: what an explanation says, and how to apply it to a table.

A component speaks of one feature: ``F <= v`` or ``F >= v`` with v the instance's value where the feature is ordered,
``F == v`` where it is nominal or the value is missing. It is false on a missing value unless it is ``F == missing``.
"""

from __future__ import annotations

import datetime
import keyword
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ironrule.errors import InputError, TableError
from ironrule.space.codes import lookup
from ironrule.space.feature import Feature, Value
from ironrule.space.plain import from_plain, to_plain
from ironrule.space.table import Column, as_python, narrowed, read_table

PANDAS_CONSTANTS = ("inf", "Inf", "datetime", "True", "False")
"""Names that mean something else in a pandas query, quoted or not."""

Op = Literal["<=", ">=", "=="]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Component:
    """One condition of a rule.

    ``column`` is the table column that carries the feature, where its name differs; ``pattern`` says which one-hot
    columns are 0 or 1; ``allowed`` lists the values that a feature may have whose order is a declared one.
    """

    feature: str
    op: Op
    value: Value
    column: str = ""
    pattern: tuple[tuple[str, int], ...] = ()
    allowed: tuple[Value, ...] | None = None

    def __post_init__(self) -> None:
        if not self.column:
            object.__setattr__(self, "column", self.feature)

    @classmethod
    def of(cls, feature: Feature, op: Op, value: Value) -> Component:
        """The component of a feature, with what it needs to be applied to a table later."""
        if feature.one_hot:
            return cls(feature.name, op, value, pattern=_pattern(feature, op, value))
        if op == "==" or feature.natural:
            return cls(feature.name, op, value, feature.columns[0])
        place = feature.places[value]
        allowed = feature.values[: place + 1] if op == "<=" else feature.values[place:]
        return cls(feature.name, op, value, feature.columns[0], allowed=allowed)

    def covers(self, table: Any) -> Mask:
        """Which rows of a table satisfy the component."""
        read = read_table(table)
        if self.pattern:
            matches = [read.column(name).values == wanted for name, wanted in self.pattern]
            return np.asarray(np.all(matches, axis=0), dtype=np.bool_)
        column = read.column(self.column)
        if self.value is None:
            return column.missing
        if self.allowed is not None or self.op == "==":
            return ~column.missing & _is_in(column.values, self.allowed or (self.value,))
        values = _comparable(column, self)
        target = np.datetime64(self.value) if values.dtype.kind == "M" else self.value
        compared = values <= target if self.op == "<=" else values >= target
        return np.asarray(compared, dtype=np.bool_) & ~column.missing

    def to_query(self) -> str:
        """The component as a piece of a pandas query."""
        if self.pattern:
            return " and ".join(f"{_pandas_name(name)} == {wanted}" for name, wanted in self.pattern)
        name = _pandas_name(self.column)
        if self.value is None:
            return f"{name}.isna()"
        if self.allowed is not None:
            return f"{name} in {list(self.allowed)!r}"
        return f"{name} {self.op} {_pandas_value(self.value)}"

    def to_sql(self) -> str:
        """The component as a piece of a WHERE clause in standard SQL."""
        if self.pattern:
            return " AND ".join(f"{_sql_name(name)} = {wanted}" for name, wanted in self.pattern)
        name = _sql_name(self.column)
        if self.value is None:
            return f"{name} IS NULL"
        if self.allowed is not None:
            return f"{name} IN ({', '.join(map(_sql_value, self.allowed))})"
        return f"{name} {'=' if self.op == '==' else self.op} {_sql_value(self.value)}"

    def to_dict(self) -> dict[str, Any]:
        """The component as plain data."""
        data: dict[str, Any] = {"feature": self.feature, "op": self.op, "value": to_plain(self.value)}
        if self.column != self.feature:
            data["column"] = self.column
        if self.pattern:
            data["pattern"] = [list(part) for part in self.pattern]
        if self.allowed is not None:
            data["allowed"] = [to_plain(value) for value in self.allowed]
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Component:
        """The component that :meth:`to_dict` wrote; raises InputError if it is no component."""
        if not {"feature", "op", "value"} <= set(data) or data["op"] not in ("<=", ">=", "=="):
            raise InputError(
                expected="a component must have a feature, an op of <=, >= or == and a value", got=dict(data)
            )
        pattern = tuple((name, wanted) for name, wanted in data.get("pattern", ()))
        allowed = None if data.get("allowed") is None else tuple(map(from_plain, data["allowed"]))
        return cls(data["feature"], data["op"], from_plain(data["value"]), data.get("column", ""), pattern, allowed)

    def __str__(self) -> str:
        value = "missing" if self.value is None else shown(self.value)
        return f"{self.feature} {'=' if self.op == '==' else self.op} {value}"


def shown(value: object) -> str:
    """A value as a person reads it.

    >>> shown(1250.0), shown("own house"), shown(0.25)
    ('1250', "'own house'", '0.25')
    """
    if value is None:
        return "missing"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return value.isoformat() if isinstance(value, (datetime.date, datetime.datetime)) else repr(value)


def _pattern(feature: Feature, op: Op, value: Value) -> tuple[tuple[str, int], ...]:
    """What the one-hot columns must be: the value's own is 1, or all those on the other side of it are 0."""
    place = feature.places[value]
    if op == "==" and place < len(feature.columns):
        return ((feature.columns[place], 1),)
    excluded = feature.columns[place + 1 :] if op == "<=" else feature.columns[:place]
    return tuple((name, 0) for name in excluded)


def _comparable(column: Column, component: Component) -> npt.NDArray[Any]:
    """The column as numbers or dates; an order on anything else is refused, not guessed."""
    values = column.values
    if values.dtype.kind == "O":
        values = narrowed(values, column.missing).values
    wanted = "M" if isinstance(component.value, datetime.date) else "iuf"
    if values.dtype.kind not in wanted and not column.missing.all():
        raise TableError(
            expected=f"{component.feature!r} must hold {'dates' if wanted == 'M' else 'numbers'} for {component}",
            got=repr(as_python(column.present[0])),
        )
    return (
        values
        if values.dtype.kind in wanted
        else np.zeros(len(values), dtype="datetime64[us]" if wanted == "M" else float)
    )


def _is_in(values: npt.NDArray[Any], allowed: tuple[Value, ...]) -> Mask:
    """Which values are among those allowed, as Python compares them: exactly, whatever the types of the numbers."""
    feature = Feature("", allowed, ordered=False)
    return np.asarray(lookup(feature, values) >= 0, dtype=np.bool_)


def _pandas_name(name: str) -> str:
    plain = name.isidentifier()
    read = plain and re.fullmatch(r"\w+", name) and unicodedata.normalize("NFKC", name) == name
    if "`" in name or not name.isprintable() or name in PANDAS_CONSTANTS or (plain and not read):
        raise InputError(
            expected="a column name must be one that a pandas query can quote", got=repr(name), hint="use covers()"
        )
    return name if plain and not keyword.iskeyword(name) else f"`{name}`"


def _pandas_value(value: Value) -> str:
    return repr(value.isoformat()) if isinstance(value, (datetime.date, datetime.datetime)) else repr(value)


def _sql_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _sql_value(value: Value) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, (int, float)):
        return repr(value)
    text = value.isoformat(" ") if isinstance(value, datetime.datetime) else str(value)
    return "'" + text.replace("'", "''") + "'"
