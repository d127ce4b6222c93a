"""A feature: one column as a person knows it, with the finite, ordered list of values it can take.

A value's position in the domain is its *code*. "Missing" is a value of its own, outside the order; where a feature has
it, its code comes after all others. A one-hot group of table columns is one nominal feature.

Also here: which of a user's values mean "missing", and how a value is written to JSON and read back (dates are the only
values that JSON cannot hold by itself).
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from itertools import pairwise
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from ironrule.arrays import BoolArray
from ironrule.errors import SpaceError, describe_value, escape_controls

if TYPE_CHECKING:
    from ironrule.space.roles import Role

VALUE_CLASSES = (str, bool, int, float, datetime.date, np.number, np.bool_, np.datetime64)
FLAG_TYPES = (bool, np.bool_, NoneType)
Value = Any  # a domain value in the user's own terms: number, string, bool, date. ``None`` stands for missing


@dataclass(frozen=True, slots=True)
class Feature:
    """One feature: its name, its domain in order, and the table columns that carry it.

    >>> Feature("age", (20, 30, 40), ordered=True).code(30)
    1
    """

    name: str
    values: tuple[Value, ...]
    ordered: bool
    missing: bool = False
    columns: tuple[str, ...] = ()
    label: str | None = None
    unit: str | None = None
    interval: bool | None = None  # any number from the smallest to the largest value; None: as the explainer decides
    role: Role | None = None  # as declared; None where nothing is
    numeric: bool = field(init=False, repr=False, compare=False)  # every value is a number: arithmetic makes sense
    temporal: bool = field(init=False, repr=False, compare=False)  # every value is a date or a time
    has_only_integers: bool = field(init=False, repr=False, compare=False)  # every value is a whole number
    has_integers: bool = field(init=False, repr=False, compare=False)  # some value is a whole number, stored as one
    naturally_ordered: bool = field(init=False, repr=False, compare=False)  # as its numbers or dates are
    code_by_value: dict[Value, int] = field(init=False, repr=False, compare=False)  # the code of every value

    def __post_init__(self) -> None:
        self._check_types()
        numbers = (isinstance(value, (int, float)) and not isinstance(value, bool) for value in self.values)
        object.__setattr__(self, "numeric", all(numbers))
        object.__setattr__(self, "has_only_integers", all(isinstance(value, int) for value in self.values))
        object.__setattr__(self, "has_integers", any(isinstance(value, int) for value in self.values))
        object.__setattr__(self, "temporal", all(isinstance(value, datetime.date) for value in self.values))
        object.__setattr__(self, "naturally_ordered", (self.numeric or self.temporal) and _is_increasing(self.values))
        if not self.columns:
            object.__setattr__(self, "columns", (self.name,))
        if not self.values and not self.missing:
            raise SpaceError(expected=f"feature {self.name!r} must have at least one value", got="an empty domain")
        if any(is_missing(value) for value in self.values):
            raise SpaceError(
                f"the domain of {self.name!r} must not list missing among its values",
                hint="set missing=True instead",
                code="missing-among-values",
            )
        if any(type(value).__hash__ is None for value in self.values):
            raise SpaceError(expected=f"the domain of {self.name!r} must list single values", got=list(self.values))
        if len(set(self.values)) != len(self.values):
            raise SpaceError(expected=f"the domain of {self.name!r} must have distinct values", got="duplicates")
        object.__setattr__(self, "code_by_value", {value: code for code, value in enumerate(self.values)})
        if self.one_hot:
            self._check_one_hot()
        if self.interval and not self.can_be_interval:
            rule = f"feature {self.name!r} must be an ordered number to be an interval"
            raise SpaceError(expected=rule, got=self.describe())
        if self.role is not None:
            self.role.check_fits(self.name, self.ordered, self.numeric)

    def __repr__(self) -> str:
        shown = "" if self.label is None else f" ({self.label})"
        kind = "ordered" if self.ordered else "nominal"
        return escape_controls(f"<Feature {self.name!r}{shown}: {kind}, {self.describe()}>")

    def _check_types(self) -> None:
        """Raise SpaceError for a field of the wrong type; all else may rely on them."""
        if not isinstance(self.name, str):
            raise SpaceError(expected="the name of a feature must be a string", got=describe_value(self.name))
        texts = {"label": self.label, "unit": self.unit}
        flags = {"ordered": self.ordered, "missing": self.missing, "interval": self.interval}
        wrong = [
            *(f"{key} must be a string" for key, text in texts.items() if not isinstance(text, (str, NoneType))),
            *(f"{key} must be True or False" for key, flag in flags.items() if not isinstance(flag, FLAG_TYPES)),
            *(["values must be a tuple"] if not isinstance(self.values, (tuple, list)) else []),
            *(["columns must be a tuple of names"] if not isinstance(self.columns, (tuple, list)) else []),
            *(["role must be a Role"] if self.role is not None and not hasattr(self.role, "check_fits") else []),
        ]
        if wrong:
            got = describe_value(getattr(self, wrong[0].split()[0]))
            raise SpaceError(expected=f"feature {self.name!r}: {wrong[0]}", got=got)
        object.__setattr__(self, "values", tuple(self.values))
        object.__setattr__(self, "columns", tuple(self.columns))
        kinds = set(map(type, self.values))
        odd = [kind for kind in kinds if not issubclass(kind, VALUE_CLASSES) or kind is complex]
        if odd and not any(is_missing(value) for value in self.values):  # which has an error of its own
            rule = f"the domain of {self.name!r} must list single values: numbers, strings, booleans or dates"
            raise SpaceError(expected=rule, got=f"a {odd[0].__name__}")

    def _check_one_hot(self) -> None:
        extra = len(self.values) - len(self.columns)  # 1 if all columns may be zero, which is a value of its own
        if extra not in (0, 1) or self.missing or (self.ordered and extra):
            raise SpaceError(
                expected=f"the one-hot feature {self.name!r} must have one value per column (one more for rows without "
                "a 1 is allowed if it is nominal) and cannot be missing",
                got=f"{len(self.values)} value{'s' * (len(self.values) != 1)} for {len(self.columns)} columns"
                + (" and missing" if self.missing else ""),
            )

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
        """The code of the largest value; missing does not count. -1 where missing is the only value."""
        return len(self.values) - 1

    @property
    def one_hot(self) -> bool:
        """Whether several table columns carry this feature, one per value."""
        return len(self.columns) > 1

    @property
    def can_be_interval(self) -> bool:
        """Whether numbers between the values make sense: ordered numbers in one column."""
        return self.ordered and self.numeric and self.naturally_ordered and not self.one_hot and bool(self.values)

    def value(self, code: int) -> Value:
        """The value that a code stands for; ``None`` for missing."""
        return None if self.missing and code == len(self.values) else self.values[code]

    def code(self, value: Value) -> int:
        """The code of a value; raises SpaceError, saying what is allowed, if the domain does not have it."""
        if is_missing(value):
            if self.missing:
                return self.missing_code
            raise SpaceError(expected=f"{self.name!r} cannot be missing in this space", got="a missing value")
        try:
            return self.code_by_value[value]
        except (KeyError, TypeError):  # TypeError: a list or another value that has no hash
            raise SpaceError(expected=f"{self.name!r} must be {self.describe()}", got=describe_value(value)) from None

    def describe(self) -> str:
        """The domain in a few words, for messages.

        >>> Feature("age", tuple(range(18, 100)), ordered=True).describe()
        'one of 82 values from 18 to 99'
        """
        if self.ordered and len(self.values) > 8:
            text = f"one of {len(self.values)} values from {self.values[0]!r} to {self.values[-1]!r}"
        else:
            shown = ", ".join(repr(value) for value in self.values[:12])
            text = f"one of {shown}" + (f", ... ({len(self.values)} values)" if len(self.values) > 12 else "")
        return text + (" or missing" if self.missing else "")


def _is_increasing(values: tuple[Value, ...]) -> bool:
    try:
        return all(low < high for low, high in pairwise(values))
    except TypeError:  # days among moments have no order
        return False


def is_missing(value: Value) -> bool:
    """Whether a value in the user's terms stands for missing: None, NaN, NaT or pandas' NA."""
    if value is None:
        return True
    if isinstance(value, (float, np.floating)):
        return bool(np.isnan(value))
    if isinstance(value, np.datetime64):
        return bool(np.isnat(value))
    return type(value).__name__ in ("NaTType", "NAType")


def may_be_missing(kind: type) -> bool:
    """Whether a value of this type may stand for missing, as :func:`is_missing` says."""
    missing = (type(None), float, np.floating, np.datetime64)
    return issubclass(kind, missing) or kind.__name__ in ("NaTType", "NAType")


def parse_date(feature: Feature, text: str) -> Value:
    """A date or a moment, as the domain has them; raises ValueError if the text is none."""
    moment = datetime.datetime.fromisoformat(text)
    by_day = type(feature.values[0]) is datetime.date
    return moment.date() if by_day and moment.time() == datetime.time() else moment


def value_to_json(value: Value) -> Any:
    """A value that JSON can hold.

    >>> value_to_json(datetime.date(2024, 2, 29))
    {'date': '2024-02-29'}
    """
    return {"date": value.isoformat()} if isinstance(value, (datetime.date, datetime.datetime)) else value


def value_from_json(value: Any) -> Value:
    """The value that :func:`value_to_json` wrote."""
    if isinstance(value, dict) and set(value) == {"date"}:
        text = value["date"]
        return datetime.datetime.fromisoformat(text) if "T" in text else datetime.date.fromisoformat(text)
    return value


def find_open_gaps(feature: Feature) -> BoolArray:
    """For every value of a feature but the last, whether numbers lie between it and the next one."""
    if not feature.interval:
        return np.zeros(max(len(feature.values) - 1, 0), dtype=np.bool_)
    if feature.has_only_integers:
        pairs = zip(feature.values, feature.values[1:], strict=False)
        return np.array([high - low > 1 for low, high in pairs], dtype=np.bool_)
    values = np.array(feature.values, dtype=np.float64) + 0.0  # no negative zero
    return np.asarray(np.nextafter(values[:-1], np.inf) < values[1:], dtype=np.bool_)
