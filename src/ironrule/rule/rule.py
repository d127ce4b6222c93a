"""Components and rules in the user's own terms: what an explanation says, and how to apply it to a table.

A component speaks of one feature: ``F <= v`` or ``F >= v`` with v the instance's value where the feature is ordered,
``F == v`` where it is nominal or the value is missing. It is false on a missing value unless it is ``F == missing``. A
rule is a set of components, read as "and"; both can be applied to a table, or written as a pandas query, as SQL or as
JSON.
"""

from __future__ import annotations

import datetime
import keyword
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ironrule.arrays import AnyArray, BoolArray
from ironrule.errors import InputError, TableError, describe_value
from ironrule.rule.ends import Reading, read_bound
from ironrule.rule.phrasing import (
    UNNAMED_OUTCOME,
    group_conditions,
    phrase_component,
    phrase_condition,
    phrase_conditions,
    phrase_rule,
)
from ironrule.space.codes import look_up_codes
from ironrule.space.feature import Feature, Value, value_from_json, value_to_json
from ironrule.space.labels import NO_LABELS, Labels
from ironrule.space.table import TableColumn, narrow_column, read_table, to_python_value
from ironrule.wording import format_repr, render_text

PANDAS_RESERVED_NAMES = ("inf", "Inf", "datetime", "True", "False")
"""Names that mean something else in a pandas query, quoted or not."""

Operator = Literal["<=", ">=", "=="]


@dataclass(frozen=True, slots=True)
class Component:
    """One condition of a rule.

    ``column`` is the table column that carries the feature, where its name differs; ``one_hot_columns`` says which
    columns of a one-hot group are 0 or 1; ``allowed`` lists the values that a feature may have whose order is a
    declared one. ``reading`` says how a bound at an end of the feature's range is shown.
    """

    feature: str
    op: Operator
    value: Value
    column: str = ""
    one_hot_columns: tuple[tuple[str, int], ...] = ()
    allowed: tuple[Value, ...] | None = None
    reading: Reading = field(default="bound", compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.column:
            object.__setattr__(self, "column", self.feature)

    @classmethod
    def from_feature(cls, feature: Feature, op: Operator, value: Value) -> Component:
        """The component of a feature, with what it needs to be applied to a table later."""
        reading = read_bound(op, value, feature)
        if feature.one_hot:
            pattern = _build_one_hot_pattern(feature, op, value)
            return cls(feature.name, op, value, one_hot_columns=pattern, reading=reading)
        if op == "==" or feature.naturally_ordered:
            return cls(feature.name, op, value, feature.columns[0], reading=reading)
        place = feature.code_by_value[value]
        allowed = feature.values[: place + 1] if op == "<=" else feature.values[place:]
        return cls(feature.name, op, value, feature.columns[0], allowed=allowed, reading=reading)

    def covers(self, table: Any) -> BoolArray:
        """Which rows of a table satisfy the component."""
        read = read_table(table)
        if self.one_hot_columns:
            matches = [read.column(name).values == wanted for name, wanted in self.one_hot_columns]
            return np.asarray(np.all(matches, axis=0), dtype=np.bool_)
        column = read.column(self.column)
        if self.value is None:
            return column.missing
        if self.allowed is not None or self.op == "==":
            return ~column.missing & _flag_members(column.values, self.allowed or (self.value,))
        values = _get_comparable_values(column, self)
        target = np.datetime64(self.value) if values.dtype.kind == "M" else self.value
        compared = values <= target if self.op == "<=" else values >= target
        return np.asarray(compared, dtype=np.bool_) & ~column.missing

    def to_query(self) -> str:
        """The component as a piece of a pandas query."""
        if self.one_hot_columns:
            return " and ".join(f"{_quote_pandas_name(name)} == {wanted}" for name, wanted in self.one_hot_columns)
        name = _quote_pandas_name(self.column)
        if self.value is None:
            return f"{name}.isna()"
        if self.allowed is not None:
            return f"{name} in {list(self.allowed)!r}"
        value = self.value.isoformat() if isinstance(self.value, datetime.date) else self.value
        return f"{name} {self.op} {value!r}"

    def to_sql(self) -> str:
        """The component as a piece of a WHERE clause in standard SQL."""
        if self.one_hot_columns:
            return " AND ".join(f"{_quote_sql_name(name)} = {wanted}" for name, wanted in self.one_hot_columns)
        name = _quote_sql_name(self.column)
        if self.value is None:
            return f"{name} IS NULL"
        if self.allowed is not None:
            return f"{name} IN ({', '.join(map(_format_sql_value, self.allowed))})"
        return f"{name} {'=' if self.op == '==' else self.op} {_format_sql_value(self.value)}"

    def to_dict(self) -> dict[str, Any]:
        """The component as plain data."""
        data: dict[str, Any] = {"feature": self.feature, "op": self.op, "value": value_to_json(self.value)}
        if self.column != self.feature:
            data["column"] = self.column
        if self.one_hot_columns:
            data["one_hot_columns"] = [list(part) for part in self.one_hot_columns]
        if self.allowed is not None:
            data["allowed"] = [value_to_json(value) for value in self.allowed]
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Component:
        """The component that :meth:`to_dict` wrote; raises InputError if it is no component."""
        if not {"feature", "op", "value"} <= set(data) or data["op"] not in ("<=", ">=", "=="):
            rule = "a component must have a feature, an op of <=, >= or == and a value"
            raise InputError(expected=rule, got=dict(data))
        pattern = tuple((name, wanted) for name, wanted in data.get("one_hot_columns", ()))
        allowed = None if data.get("allowed") is None else tuple(map(value_from_json, data["allowed"]))
        return cls(
            data["feature"],
            data["op"],
            value_from_json(data["value"]),
            column=data.get("column", ""),
            one_hot_columns=pattern,
            allowed=allowed,
        )

    def __str__(self) -> str:
        return phrase_component(self)

    def __repr__(self) -> str:
        return format_repr(self)


def _build_one_hot_pattern(feature: Feature, op: Operator, value: Value) -> tuple[tuple[str, int], ...]:
    """What the one-hot columns must be: the value's own is 1, or all those on the other side of it are 0."""
    place = feature.code_by_value[value]
    if op == "==" and place < len(feature.columns):
        return ((feature.columns[place], 1),)
    excluded = feature.columns[place + 1 :] if op == "<=" else feature.columns[:place]
    return tuple((name, 0) for name in excluded)


def _get_comparable_values(column: TableColumn, component: Component) -> AnyArray:
    """The column as numbers or dates; an order on anything else is refused, not guessed."""
    values = column.values
    if values.dtype.kind == "O":
        values = narrow_column(values, column.missing).values
    wanted = "M" if isinstance(component.value, datetime.date) else "iuf"
    if values.dtype.kind in wanted:
        return values
    if not column.missing.all():
        raise TableError(
            expected=f"{component.feature!r} must hold {'dates' if wanted == 'M' else 'numbers'} for {component}",
            got=describe_value(to_python_value(column.present[0])),
        )
    return np.zeros(len(values), dtype="datetime64[us]" if wanted == "M" else float)


def _flag_members(values: AnyArray, allowed: tuple[Value, ...]) -> BoolArray:
    """Which values are among those allowed, as Python compares them: exactly, whatever the types of the numbers."""
    feature = Feature("", allowed, ordered=False)
    return np.asarray(look_up_codes(feature, values) >= 0, dtype=np.bool_)


def _quote_pandas_name(name: str) -> str:
    plain = name.isidentifier()
    read = plain and re.fullmatch(r"\w+", name) and unicodedata.normalize("NFKC", name) == name
    if "`" in name or not name.isprintable() or name in PANDAS_RESERVED_NAMES or (plain and not read):
        rule = "a column name must be one that a pandas query can quote"
        raise InputError(expected=rule, got=describe_value(name), hint="use covers()")
    return name if plain and not keyword.iskeyword(name) else f"`{name}`"


def _quote_sql_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _format_sql_value(value: Value) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, (int, float)):
        return repr(value)
    text = value.isoformat(" ") if isinstance(value, datetime.datetime) else str(value)
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class Rule:
    """Everyone who satisfies all components gets the outcome. No components: everyone does.

    ``labels`` say how the rule is shown; without them it is shown with its own names and values, and can be parsed.

    >>> rule = Rule((Component("income", "<=", 500), Component("accounts", ">=", 4)), outcome="denied")
    >>> print(rule)
    Everyone with income <= 500 and accounts >= 4 gets: denied.
    """

    components: tuple[Component, ...]
    outcome: str = UNNAMED_OUTCOME
    labels: Labels = field(default=NO_LABELS, repr=False, compare=False)

    @property
    def cardinality(self) -> int:
        """The number of components."""
        return len(self.components)

    @property
    def features(self) -> tuple[str, ...]:
        """The features that the rule names, each once, in order."""
        return tuple(dict.fromkeys(component.feature for component in self.components))

    def __len__(self) -> int:
        return len(self.components)

    def covers(self, table: Any) -> BoolArray:
        """Which rows of a table satisfy the rule."""
        read = read_table(table)
        mask = np.ones(len(read), dtype=np.bool_)
        for component in self.components:
            mask &= component.covers(read)
        return mask

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions as text, one per feature, as people count them."""
        return phrase_conditions(self)

    def with_labels(self, labels: Labels | Mapping[str, Any] | str | Path) -> Rule:
        """The same rule, shown with these labels."""
        return replace(self, labels=Labels.parse(labels))

    def to_query(self) -> str:
        """The rule as a pandas query; one that holds everywhere for the empty rule."""
        return " and ".join(component.to_query() for component in self.components) or "index.isna() or index.notna()"

    def to_sql(self, comments: bool = False) -> str:
        """The rule as a WHERE clause in standard SQL; with ``comments`` a line per condition, with what it says.

        >>> rule = Rule((Component("a", ">=", 1), Component("a", "<=", 3)))
        >>> print(rule.with_labels({"a": "Age"}).to_sql(comments=True))
        "a" >= 1 AND "a" <= 3 -- Age from 1 to 3
        """
        if not comments:
            return " AND ".join(component.to_sql() for component in self.components) or "1 = 1"
        lines = []
        for one in group_conditions(self):
            clause = " AND ".join(component.to_sql() for component in one.components)
            lines.append(f"{clause} -- {phrase_condition(one, self.labels)}")
        return "\nAND ".join(lines) or "1 = 1 -- everyone"

    def to_dict(self) -> dict[str, Any]:
        """The rule as plain data."""
        return {"components": [component.to_dict() for component in self.components], "outcome": self.outcome}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Rule:
        """The rule that :meth:`to_dict` wrote."""
        return cls(tuple(Component.from_dict(component) for component in data["components"]), data["outcome"])

    def __str__(self) -> str:
        return phrase_rule(self)

    def __repr__(self) -> str:
        return format_repr(self)

    def _repr_html_(self) -> str:
        return render_text(self)
