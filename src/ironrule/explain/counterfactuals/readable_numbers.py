"""Numbers as people write them, for suggested changes: 976 instead of 975.8999938964844.

A number of an interval is *readable* if it has few digits: three significant ones, more where that would be coarser
than a thousandth of the range (years from 1990 to 2020), fewer where it would be finer than a hundred-thousandth of it.
Two neighbours among the readable numbers are never further apart than a thousandth of the range (``RESOLUTION``).
Whole numbers are readable as they are, unless the range has very many.

Changes are rounded away from the row, so a rounded change does at least as much; that it still gives the desired
outcome is for the model to say.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from typing import Any

from ironrule.arrays import AnyArray
from ironrule.model.normal_form.separable import FeatureContribution

RESOLUTION = 1e-3  # by how much of the range a rounded number may be further away than an exact one
FINER_POWERS = 2  # of ten: how much finer the steps near zero are than those of the largest numbers
MAX_WHOLE_NUMBERS = 20_000  # between the extremes; with more of them, only the readable ones are looked at
MAX_DIGITS = 17
LEAST_RANGE = 1e-290


def is_long_enough(low: float, high: float) -> bool:
    """Whether a range has numbers to round to: more than the smallest that floating point can tell apart."""
    return high / 2 - low / 2 > LEAST_RANGE


def find_coarsest_power(low: float, high: float) -> int:
    """The largest power of ten that is at most a thousandth of a range.

    >>> find_coarsest_power(0.0, 3000.0), find_coarsest_power(0.0, 1.0)
    (0, -3)
    """
    spread = (high / 2 - low / 2) * RESOLUTION  # half of it: no overflow
    power = math.floor(math.log10(spread)) + 1
    while not Decimal(1).scaleb(power) <= 2 * Decimal(spread):
        power -= 1
    return power


def find_power(number: float, coarsest: int) -> int:
    """The power of ten of which a readable number of this size is a multiple."""
    size = math.floor(math.log10(abs(number))) - 2 if number else coarsest - FINER_POWERS
    return max(coarsest - FINER_POWERS, min(coarsest, size))


def list_readable_numbers(low: float, high: float, whole: bool) -> list[int] | list[float]:
    """The readable numbers of a range, its ends included, rising.

    >>> list_readable_numbers(3, 7, whole=True)
    [3, 4, 5, 6, 7]
    >>> len(list_readable_numbers(0.0, 3000.0, whole=False)), list_readable_numbers(0.0, 3000.0, whole=False)[-3:]
    (4801, [2998.0, 2999.0, 3000.0])
    """
    if whole and high - low <= MAX_WHOLE_NUMBERS:
        return list(range(int(low), int(high) + 1))
    coarsest = find_coarsest_power(low, high)
    numbers = {number for number in map(float, _list_multiples(low, high, coarsest)) if low < number < high}
    if whole:
        return sorted({int(low), int(high)} | {int(number) for number in numbers if number.is_integer()})
    return sorted({low, high} | {number + 0.0 for number in numbers})  # no negative zero


def _list_multiples(low: float, high: float, coarsest: int) -> Iterator[str]:
    """The readable numbers of a range as texts, and some beyond its ends."""
    for power in range(coarsest - FINER_POWERS, coarsest + 1):
        first, last = (int(Decimal(end).scaleb(-power)) for end in (low, high))
        if power < coarsest:  # from 100 to 999 steps away from zero; the coarsest steps go on from there
            first, last = max(first, -999), min(last, 999)
        begins = 0 if power == coarsest - FINER_POWERS else 100
        yield from (f"{count}e{power}" for count in range(first - 1, last + 2) if abs(count) >= begins)


def round_outwards(number: float, upwards: bool, low: float, high: float) -> Iterator[float]:
    """Readable numbers beyond a number of a range, the one with the fewest digits first; none beyond the range.

    >>> list(round_outwards(975.8999938964844, True, 0.0, 3000.0))[:2]
    [976.0, 975.9]
    """
    rounding = ROUND_CEILING if upwards else ROUND_FLOOR
    power = find_power(number, find_coarsest_power(low, high))
    with localcontext() as context:
        context.prec = 400  # a double has up to 308 digits before the point
        exact, last = Decimal(repr(number)), math.nan  # as it is written: 0.1 is not a little more than 0.1
        for digits in range(MAX_DIGITS):
            rounded = float(exact.quantize(Decimal(1).scaleb(power - digits), rounding=rounding)) + 0.0
            if rounded == number:
                return
            if low <= rounded <= high and rounded != last:
                yield rounded
            last = rounded


@dataclass(frozen=True, slots=True, eq=False)
class NumberGrid:
    """The readable numbers of a feature, and what each adds to a model that is a sum."""

    numbers: AnyArray
    contribution: FeatureContribution


class NumberGridCache(dict[Any, NumberGrid]):
    """Grids by what the model adds for the feature and by the ends of its domain. Not copied along with its owner."""

    def __reduce__(self) -> tuple[Any, ...]:
        return NumberGridCache, ()
