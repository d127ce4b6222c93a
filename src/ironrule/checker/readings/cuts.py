"""Where a probability passes a threshold, on the scale of the score behind it."""

from __future__ import annotations

import math

from ironrule.checker.readings.normal_form import Unreadable

DOUBLE = 2.0**-53
SINGLE = 2.0**-24


def logit_cut(threshold: float, noise: float) -> tuple[float, float]:
    """Where a probability passes a threshold, in log odds, and how far off that may be if the probability is off by
    ``noise * (1 + threshold)``; raises Unreadable where that cannot be told.
    """
    blur = 2.0 * noise * (1.0 + threshold)
    if not 0.0 < threshold - blur < threshold + blur < 1.0:
        raise Unreadable(f"a threshold of {threshold!r} on a probability is too near 0 or 1")
    low, cut, high = (math.log(p) - math.log1p(-p) for p in (threshold - blur, threshold, threshold + blur))
    return cut, max(high - cut, cut - low) + 8 * DOUBLE * (1.0 + abs(math.log(threshold)) + abs(math.log1p(-threshold)))
