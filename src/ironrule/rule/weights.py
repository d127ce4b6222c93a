"""Weights of components as exact numbers.

A weight means the decimal number that is written: 0.1 is one tenth, not the binary fraction next to it. All weights of
a problem are whole multiples of one unit, so a search works with whole numbers that add up to less than 2**53: every
sum is then exact, in float64 as well, and no comparison needs a tolerance.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.errors import InputError

Number = int | Fraction
"""An exact number: an int where it is whole."""

LIMIT = 2**53  # whole numbers below it, and their sums below it, are exact in float64
NUMBERS = (int, float, Fraction, Decimal, np.integer, np.floating)
TEXT = re.compile(r"[1-9][0-9]*/[1-9][0-9]*")


def exact_weight(name: str, weight: Any) -> Fraction:
    """One weight that a user gave; raises InputError if it is not a positive number that a float can hold too.

    >>> exact_weight("age", 0.1)
    Fraction(1, 10)
    """
    if isinstance(weight, bool) or not isinstance(weight, NUMBERS) or not _is_positive(weight):
        raise InputError(expected=f"the weight of {name!r} must be a positive number", got=repr(weight))
    if isinstance(weight, float):
        return Fraction(repr(float(weight)))  # the shortest decimal number that stands for this float
    if isinstance(weight, np.floating):
        return Fraction(str(weight))
    return Fraction(int(weight)) if isinstance(weight, np.integer) else Fraction(weight)


def _is_positive(weight: Any) -> bool:
    """Whether a number is positive, finite, and neither too large nor too small for a float."""
    try:
        return 0.0 < float(weight) < math.inf
    except (OverflowError, ValueError):
        return False


def in_units(weights: Sequence[Fraction]) -> tuple[npt.NDArray[np.float64], Fraction]:
    """The weights as whole multiples of the largest unit that divides them all, and this unit.

    Raises InputError if the multiples do not add up to less than 2**53.

    >>> in_units([Fraction(1), Fraction("0.25"), Fraction("1.5")])
    (array([4., 1., 6.]), Fraction(1, 4))
    """
    parts = math.lcm(*(weight.denominator for weight in weights))
    whole = [weight.numerator * (parts // weight.denominator) for weight in weights]
    common = math.gcd(*whole)
    unit = Fraction(common, parts)
    multiples = [number // common for number in whole]
    if sum(multiples) >= LIMIT:
        finest = max(weights, key=lambda weight: (weight.denominator, -weight))
        largest = max(weights)
        other = largest if largest != finest else min(weights)
        raise InputError(
            expected="weights must be integer multiples of one unit that add up to less than 2**53 units",
            got=f"{as_text(plain(finest))} beside {as_text(plain(other))}",
            hint="use weights closer together or with fewer digits",
        )
    return np.array(multiples, dtype=np.float64), unit


def plain(number: Fraction) -> Number:
    """An int where the number is whole."""
    return number.numerator if number.denominator == 1 else number


def times(multiple: float, unit: Fraction) -> Number:
    """A whole multiple of a unit, as an exact number."""
    return plain(int(multiple) * unit)


def to_document(number: Number) -> int | str:
    """An exact number as a document has it: an int where it is whole, else the text "p/q".

    >>> to_document(Fraction(3, 10)), to_document(4)
    ('3/10', 4)
    """
    return number if isinstance(number, int) else _as_ratio(number)


def from_document(written: Any) -> Number:
    """What :func:`to_document` wrote; raises InputError for anything else."""
    if isinstance(written, int) and not isinstance(written, bool) and written >= 0:
        return written
    if isinstance(written, str) and TEXT.fullmatch(written):
        try:
            number = Fraction(written)
        except ValueError:  # more digits than Python reads
            number = Fraction(0)
        if number.denominator > 1 and to_document(number) == written:
            return number
    shown = repr(written)[:40]
    raise InputError(
        expected='an exact number must be a non-negative integer or a string "p/q" in lowest terms', got=shown
    )


def as_written(name: str, weight: Any) -> int | float | Fraction:
    """A weight that a user gave, in a type that a document can keep: its meaning does not change."""
    exact = exact_weight(name, weight)
    if isinstance(weight, (int, np.integer)):
        return int(weight)
    if isinstance(weight, (float, np.floating)):
        near = float(weight if isinstance(weight, float) else str(weight))
        return near if Fraction(repr(near)) == exact else exact
    return plain(exact)


def as_text(number: int | Fraction) -> str:
    """An exact number for people: with a decimal point where that is exact and short, else as p/q.

    >>> as_text(Fraction(3, 10)), as_text(Fraction(1, 3)), as_text(12), as_text(Fraction(1, 2 * 10**9))
    ('0.3', '1/3', '12', '5e-10')
    """
    if isinstance(number, int):
        return str(number)
    near = f"{float(number):.15g}"
    return near if Fraction(near) == number else _as_ratio(number)


def _as_ratio(number: Fraction) -> str:
    return f"{number.numerator}/{number.denominator}"
