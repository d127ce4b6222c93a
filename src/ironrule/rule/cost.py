"""What changes cost: a table per feature, and how the features' parts are put together.

Searches know costs only as a :class:`CostTable`, which is made for one row. The cost of a point is the sum of its
features' parts, or the largest of them. Parts are never negative, and keeping the row's own value costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ironrule.arrays import Float64Array, Points


@dataclass(frozen=True, slots=True, eq=False)
class CostTable:
    """For every feature and code what changing to it costs, seen from one row; infinite if it may not be chosen.

    ``combine`` says whether the parts of a point are added up, or the largest counts.
    """

    parts: tuple[Float64Array, ...]
    combine: Literal["sum", "max"] = "sum"

    def measure_point(self, point: Points) -> float:
        """What a point costs."""
        parts = [float(part[code]) for part, code in zip(self.parts, point.tolist(), strict=True)]
        return sum(parts) if self.combine == "sum" else max(parts, default=0.0)
