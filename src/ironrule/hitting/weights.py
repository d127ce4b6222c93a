"""Weights of elements as exact numbers.

A weight means the decimal number that is written: 0.1 is one tenth, not the binary fraction next to it. All weights of
a problem are whole multiples of one unit, so a search works with whole numbers that add up to less than 2**53: every
sum is then exact, in float64 as well, and no comparison needs a tolerance.

Where every element weighs 1, one array per size is kept, so that a solver recognises it by identity.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from ironrule.arrays import Float64Array
from ironrule.errors import InputError, describe_value
from ironrule.wording import format_number, format_ratio

ExactNumber = int | Fraction
"""An exact number: an int where it is whole."""

MAX_TOTAL_WEIGHT = 2**53  # whole numbers below it, and their sums below it, are exact in float64
NUMBER_TYPES = (int, float, Fraction, Decimal, np.integer, np.floating)
RATIO_PATTERN = re.compile(r"[1-9][0-9]*/[1-9][0-9]*")


def parse_weight(name: str, weight: Any) -> Fraction:
    """One weight that a user gave; raises InputError if it is not a positive number that a float can hold too.

    >>> parse_weight("age", 0.1)
    Fraction(1, 10)
    """
    if isinstance(weight, bool) or not isinstance(weight, NUMBER_TYPES) or not _is_positive(weight):
        raise InputError(expected=f"the weight of {name!r} must be a positive number", got=describe_value(weight))
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


def scale_to_integers(weights: Sequence[Fraction]) -> tuple[Float64Array, Fraction]:
    """The weights as whole multiples of the largest unit that divides them all, and this unit.

    Raises InputError if the multiples do not add up to less than 2**53.

    >>> scale_to_integers([Fraction(1), Fraction("0.25"), Fraction("1.5")])
    (array([4., 1., 6.]), Fraction(1, 4))
    """
    # In units of 1 / parts every weight is a whole number; their common divisor makes the unit as large as possible.
    parts = math.lcm(*(weight.denominator for weight in weights))
    whole = [weight.numerator * (parts // weight.denominator) for weight in weights]
    common = math.gcd(*whole)
    unit = Fraction(common, parts)
    multiples = [number // common for number in whole]
    if sum(multiples) >= MAX_TOTAL_WEIGHT:
        # For the message: the weight with the finest fraction, and one to compare it with.
        finest = max(weights, key=lambda weight: (weight.denominator, -weight))
        largest = max(weights)
        other = largest if largest != finest else min(weights)
        raise InputError(
            expected="weights must be integer multiples of one unit that add up to less than 2**53 units",
            got=f"{format_number(simplify_number(finest))} beside {format_number(simplify_number(other))}",
            hint="use weights closer together or with fewer digits",
        )
    return np.array(multiples, dtype=np.float64), unit


def simplify_number(number: Fraction) -> ExactNumber:
    """An int where the number is whole."""
    return number.numerator if number.denominator == 1 else number


def multiply_exactly(multiple: float, unit: Fraction) -> ExactNumber:
    """A whole multiple of a unit, as an exact number."""
    return simplify_number(int(multiple) * unit)


def number_to_json(number: ExactNumber) -> int | str:
    """An exact number as a document has it: an int where it is whole, else the text "p/q".

    >>> number_to_json(Fraction(3, 10)), number_to_json(4)
    ('3/10', 4)
    """
    return number if isinstance(number, int) else format_ratio(number)


def number_from_json(written: Any) -> ExactNumber:
    """What :func:`number_to_json` wrote; raises InputError for anything else."""
    if isinstance(written, int) and not isinstance(written, bool) and written >= 0:
        return written
    if isinstance(written, str) and RATIO_PATTERN.fullmatch(written):
        try:
            number = Fraction(written)
        except ValueError:  # more digits than Python reads
            number = Fraction(0)
        # Only the one way in which `number_to_json` writes a number is accepted.
        if number.denominator > 1 and number_to_json(number) == written:
            return number
    shown = repr(written)[:40]
    raise InputError(
        expected='an exact number must be a non-negative integer or a string "p/q" in lowest terms', got=shown
    )


def to_storable_weight(name: str, weight: Any) -> int | float | Fraction:
    """A weight that a user gave, in a type that a document can keep: its meaning does not change."""
    exact = parse_weight(name, weight)
    if isinstance(weight, (int, np.integer)):
        return int(weight)
    if isinstance(weight, (float, np.floating)):
        near = float(weight if isinstance(weight, float) else str(weight))
        return near if Fraction(repr(near)) == exact else exact
    return simplify_number(exact)


@cache
def get_unit_weights(size: int) -> Float64Array:
    """As many ones; not to be written to (which nothing enforces: kernels would be compiled once more for that)."""
    return np.ones(size)


def are_unit_weights(weights: Float64Array) -> bool:
    """Whether these are the weights that :func:`get_unit_weights` gave."""
    return weights is get_unit_weights(weights.size)
