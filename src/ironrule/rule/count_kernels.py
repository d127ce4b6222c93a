"""How many rows of a history lie in a box: one pass over the columns that the box restricts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ironrule.rule.bit_kernels import Bytes, add_if_outside, kernel

HIT = np.uint8(1)


@kernel
def flag_outside(column: Any, low: Any, span: Any, outside: Bytes) -> None:
    """Flag the rows whose code is not among the ``span`` + 1 codes from ``low`` on; all three of one type."""
    for r in range(np.uint64(column.size)):
        outside[r] = add_if_outside(outside[r], column[r], low, span, HIT)
