"""The opposite of a decision in normal form.

A point is desired if for some alternative every margin is positive. It is undesired if every alternative has a margin
that is not, which by De Morgan is again such a form: an alternative for every way to choose one margin of each
alternative, with the margins chosen, negated. Where a margin is within its error nothing is known of it, nor of its
negative. A margin of exactly zero without an error would be neither, so readers must not give one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import TypeVar

from ironrule.model.protocol import require_readable

MAX_ALTERNATIVES = 256
AnyMargin = TypeVar("AnyMargin")


def negate_alternatives(
    alternatives: Sequence[Sequence[AnyMargin]], negate: Callable[[AnyMargin], AnyMargin]
) -> tuple[tuple[AnyMargin, ...], ...]:
    """The alternatives of the opposite decision; raises Unreadable if they would be too many.

    >>> negate_alternatives([[1, 2], [3]], lambda margin: -margin)
    ((-1, -3), (-2, -3))
    """
    count = math.prod(len(margins) for margins in alternatives)
    require_readable(count <= MAX_ALTERNATIVES, f"the opposite of its decision has {count:,} alternatives")
    negated = [[negate(margin) for margin in margins] for margins in alternatives]
    return tuple(product(*negated))


def intersect_alternatives(
    first: Sequence[tuple[AnyMargin, ...]], second: Sequence[tuple[AnyMargin, ...]]
) -> tuple[tuple[AnyMargin, ...], ...]:
    """The alternatives of what two decisions both desire; raises Unreadable if they would be too many.

    >>> intersect_alternatives([(1,), (2,)], [(3,)])
    ((1, 3), (2, 3))
    """
    count = len(first) * len(second)
    require_readable(count <= MAX_ALTERNATIVES, f"what both decisions desire has {count:,} alternatives")
    return tuple((*one, *other) for one, other in product(first, second))
