"""What a bound says at an end of its feature's range: that the value is known, or that it is this one.

``x <= 100`` where 100 is the largest excludes a missing value alone: people read "x is known". ``x >= 4`` where 4 is
the largest of a short scale of whole numbers, or of a declared order, is 4: people read "x = 4". What a bound admits
does not depend on that, and documents keep the bound.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ironrule.space.feature import Feature, Value

Reading = Literal["bound", "known", "equal"]
KNOWN = "is known"  # behind the name of a feature
LONGEST_SCALE = 12  # values: of more, as of ages, people say "75 or more", even if nobody was older


def read_bound(op: str, value: Value, feature: Feature) -> Reading:
    """How people read a bound on a feature.

    >>> from ironrule.space.feature import Feature
    >>> grade = Feature("grade", (1, 2, 3, 4), ordered=True, missing=True)
    >>> read_bound("<=", 3, grade), read_bound("<=", 4, grade), read_bound(">=", 4, grade)
    ('bound', 'known', 'equal')
    """
    if op == "==" or not feature.values:
        return "bound"
    first, last = feature.values[0], feature.values[-1]
    size = len(feature.values) if not feature.naturally_ordered else count_scale(first, last)
    return read_bound_of_range(op, value, first, last, missing=feature.missing, size=size)


def read_bound_of_range(op: str, value: Value, first: Value, last: Value, *, missing: bool, size: int) -> Reading:
    """The same of a range that may have missing values; ``size``: how many values a scale has, 0 where it is none."""
    nearest, farthest = (first, last) if op == "<=" else (last, first)
    if op == "==":
        return "bound"
    if value == nearest and 0 < size <= LONGEST_SCALE:
        return "equal"
    return "known" if missing and value == farthest else "bound"


def count_scale(first: Value, last: Value) -> int:
    """How many whole numbers there are from one to another; 0 where these are no whole numbers.

    >>> count_scale(1, 4), count_scale(0.0, 3.0), count_scale(0.5, 3.0)
    (4, 4, 0)
    """
    if not all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in (first, last)):
        return 0
    assert isinstance(first, (int, float))
    assert isinstance(last, (int, float))
    if not (math.isfinite(first) and math.isfinite(last) and first == int(first) and last == int(last)):
        return 0
    return int(last) - int(first) + 1
