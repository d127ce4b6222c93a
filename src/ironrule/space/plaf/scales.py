"""How values become numbers: one scale per kind of feature.

Numbers stand for themselves. A category's number is its position in the domain, a date's its rank among all dates that
the comparison can meet; both keep what can be asked of them, equality and order, and nothing more. Ranks rather than
time stamps, because they are exact for every date.

A scale is a function from the two sides of a comparison to their quantities.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from datetime import date, datetime, time
from enum import Enum

import numpy as np

from ironrule.space.feature import Feature, Value
from ironrule.space.plaf.meaning import Computed, Constant, Quantity
from ironrule.space.plaf.naming import Names
from ironrule.space.plaf.syntax import Arithmetic, Literal, Minus, Operation, Reference, Term


class Kind(Enum):
    """What a feature's values are, and so what may be done with them."""

    NUMBER = "number"
    DATE = "date"
    CATEGORY = "category"


def kind_of(feature: Feature) -> Kind:
    """The kind of a feature: all numbers, all dates, or anything else."""
    if feature.numeric:
        return Kind.NUMBER
    dates = all(isinstance(value, (date, np.datetime64)) for value in feature.values)
    return Kind.DATE if dates else Kind.CATEGORY


# Numbers.


def scale_numbers(names: Names, left: Term, right: Term) -> tuple[Quantity, Quantity]:
    """Both sides as the numbers they are, arithmetic included."""
    return _number(names, left), _number(names, right)


def _number(names: Names, term: Term) -> Quantity:
    match term:
        case Reference():
            return names.lookup(term, _feature_numbers(names, term))
        case Literal():
            return Constant(_literal_number(names, term))
        case Minus(operand):
            return Computed(Constant(-1.0), ((Operation.MULTIPLY, _number(names, operand)),))
        case Arithmetic(first, steps):
            return Computed(_number(names, first), tuple((how, _number(names, step)) for how, step in steps))


def _feature_numbers(names: Names, term: Reference) -> list[float]:
    feature = names.feature(term)
    if not feature.numeric:
        got = f"{term.name!r}, which is {feature.describe()}"
        raise names.error(term.column, expected="arithmetic needs numeric features", got=got)
    return [_exact(names, value, term) for value in feature.values]


def _literal_number(names: Names, term: Literal) -> float:
    if isinstance(term.value, (int, float)) and term.is_number:
        return _exact(names, term.value, term)
    raise names.error(term.column, expected="expected a number", got=f"`{term}`")


def _exact(names: Names, value: int | float, term: Term) -> float:
    """A number as a float. A large integer that no float equals is refused, as it would compare wrongly."""
    try:
        if float(value) == value:
            return float(value)
    except OverflowError:
        pass
    rule = "integers must fit a 64-bit float exactly, as all up to 2**53 do"
    raise names.error(term.column, expected=rule, got=f"`{term}`, which can be {value}")


# Categories.


def scale_categories(names: Names, left: Term, right: Term) -> tuple[Quantity, Quantity]:
    """Both sides as positions in their domain; values that only the right domain has come after the left one's."""
    position: dict[Hashable, float] = {}
    for value in (*_domain(names, left), *_domain(names, right)):
        position.setdefault(_key(value), float(len(position)))
    return _category(names, left, right, position), _category(names, right, left, position)


def _category(names: Names, term: Term, other: Term, position: Mapping[Hashable, float]) -> Quantity:
    if isinstance(term, Reference):
        return names.lookup(term, [position[_key(value)] for value in _domain(names, term)])
    if isinstance(term, Literal) and _key(term.value) in position:
        return Constant(position[_key(term.value)])
    domain = (
        f"`{other}` must be {names.feature(other).describe()}"
        if isinstance(other, Reference)
        else "expected a known value"
    )
    raise names.error(term.column, expected=domain, got=f"`{term}`")


def _domain(names: Names, term: Term) -> Sequence[Value]:
    return names.feature(term).values if isinstance(term, Reference) else ()


def _key(value: Value) -> Hashable:
    """What equality of categories means: Python's, but ``true`` is not 1."""
    return isinstance(value, (bool, np.bool_)), value


# Dates.


def scale_dates(names: Names, left: Term, right: Term) -> tuple[Quantity, Quantity]:
    """Both sides as ranks among all dates that either can be."""
    moments = {*_moments(names, left), *_moments(names, right)}
    if len({when.utcoffset() is None for when in moments}) > 1:
        rule = "dates must all have a time zone or all have none to be compared"
        raise names.error(right.column, expected=rule, got="dates with and without one")
    rank = {when: float(place) for place, when in enumerate(sorted(moments))}
    return _date(names, left, rank), _date(names, right, rank)


def _date(names: Names, term: Term, rank: Mapping[datetime, float]) -> Quantity:
    numbers = [rank[when] for when in _moments(names, term)]
    return names.lookup(term, numbers) if isinstance(term, Reference) else Constant(numbers[0])


def _moments(names: Names, term: Term) -> list[datetime]:
    """The dates that a term can be, in the order of its domain."""
    try:
        if isinstance(term, Reference):
            return [_moment(value) for value in names.feature(term).values]
        return [datetime.fromisoformat(term.value if isinstance(term, Literal) and isinstance(term.value, str) else "")]
    except ValueError:
        raise names.error(term.column, expected='a date must look like "2024-12-31"', got=f"`{term}`") from None


def _moment(value: Value) -> datetime:
    """A date as the moment it begins, so that dates and times compare; ValueError where Python has no such moment."""
    if isinstance(value, np.datetime64):
        whole = value.astype("datetime64[us]")
        if whole != value or not isinstance(whole.item(), datetime):
            raise ValueError
        value = whole.item()
    return value if isinstance(value, datetime) else datetime.combine(value, time())
