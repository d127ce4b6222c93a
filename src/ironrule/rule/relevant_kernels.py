"""The compiled half of :mod:`ironrule.rule.relevant`: a dozen tiny array operations in one call."""

from __future__ import annotations

from typing import Any

import numpy as np

from ironrule.rule.bit_kernels import ONE, Integers, Words, kernel


@kernel
def fill_bounds(instance: Any, last: Integers, top: Integers, low: Integers, high: Integers, usable: Words) -> None:
    """Write the codes that every component admits, and which components exclude any.

    ``last`` is the code of an ordered feature's last value and -1 for a nominal one, ``top`` the highest code.
    """
    for j in range(instance.size):
        code = instance[j]
        compared = code <= last[j]  # neither a category nor a missing value has an order
        low[2 * j], high[2 * j] = (0 if compared else code), code
        low[2 * j + 1], high[2 * j + 1] = (code, last[j]) if compared else (0, top[j])
        for bit in range(2 * j, 2 * j + 2):
            usable[bit >> 6] |= np.uint64(high[bit] - low[bit] < top[j]) << np.uint64(bit & 63)


@kernel
def fill_boxes(rules: Words, low: Integers, high: Integers, top: Integers, lows: Any, highs: Any) -> None:
    """Write the box of every rule, a row each: the codes that all of its components admit."""
    for r in range(rules.shape[0]):
        for j in range(top.size):
            lows[r, j], highs[r, j] = 0, top[j]
        for bit in range(low.size):
            if (rules[r, bit >> 6] >> np.uint64(bit & 63)) & ONE:
                j = bit >> 1
                lows[r, j] = max(lows[r, j], low[bit])
                highs[r, j] = min(highs[r, j], high[bit])
