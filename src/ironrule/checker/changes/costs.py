"""What changes of one row cost, computed anew from what a document says of prices and from the user's data.

The distance of a number is how far it moves: in ranges of its feature, in median absolute deviations of the past rows
(their mean absolute deviation where that is 0), or as the share of past rows that it moves past. Another category, and
a value that becomes missing or no longer is, has distance 1. A price multiplies a distance, upwards or downwards. What
a feature adds to the cost of a change is its *part*:

    fewest   1 and a share of the distance, so small that all shares together are less than 1
    l1       the distance, and what every change costs besides
    l2       the square of the distance
    linf     the distance; the largest counts

Counterfactuals are compared by these sums. The numbers in documents are rounded: differences of less than
``TOLERANCE`` are not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ironrule.checker.arrays import AnyArray, Float64Array, Int32Array
from ironrule.checker.result import ClaimFailed
from ironrule.checker.space.space import CheckerFeature, CheckerSpace

TOLERANCE = 1e-6  # of a range, or of the cost: what a document's rounding may hide
STEP_TOLERANCE = 1e-6  # of a step: so near to a multiple of it a number is one
NUMBER_TOLERANCE = 2.0**-22  # of a number, for the same: columns may be of single precision


@dataclass(frozen=True, slots=True)
class CostClaim:
    """What a document says of costs. Prices are pairs, upwards and downwards."""

    norm: Literal["fewest", "l1", "l2", "linf"] = "fewest"
    scale: Literal["range", "mad", "percentile"] = "range"
    prices: Mapping[str, tuple[float, float]] | None = None
    steps: Mapping[str, float] | None = None
    per_change: float = 0.0

    @property
    def is_default(self) -> bool:
        """Whether only changes are counted and distances compared in ranges."""
        prices = (price for pair in (self.prices or {}).values() for price in pair)
        plain = all(price in (1.0, math.inf) for price in prices)
        return (self.norm, self.scale) == ("fewest", "range") and not self.steps and plain


DEFAULT_COST = CostClaim()


@dataclass(frozen=True, slots=True, eq=False)
class FeaturePrices:
    """What changing one feature of the row costs. ``places`` and ``below`` have, for percentiles, numbers that past
    rows have, rising, and the share of rows below each.
    """

    feature: CheckerFeature
    own: Any
    up: float
    down: float
    unit: float
    places: Float64Array | None = None
    below: Float64Array | None = None
    step: float | None = None
    stored_as: Any = np.float64

    def measure(self, values: Sequence[Any]) -> Float64Array:
        """The priced distances of some values; infinite where these may not be chosen."""
        jump = math.inf if math.inf in (self.up, self.down) else max(self.up, self.down)
        costs = np.full(len(values), jump)
        numbered = np.array([value is not None for value in values], dtype=np.bool_)
        if self.feature.ordered and self.own is not None:
            known = [value for value in values if value is not None]
            costs[numbered] = self._measure_moves(self._number(known), float(self._number([self.own])[0]))
        costs[np.array([_are_same(value, self.own) for value in values], dtype=np.bool_)] = 0.0
        return costs

    def _number(self, values: Sequence[Any]) -> Float64Array:
        """Numbers as the column stores them, other ordered values by their place in the domain."""
        if self.feature.numeric:
            return np.array(values, dtype=np.float64).astype(self.stored_as).astype(np.float64)
        places = {value: code for code, value in enumerate(self.feature.values)}
        return np.array([places[value] for value in values], dtype=np.float64)

    def _measure_moves(self, numbers: Float64Array, own: float) -> Float64Array:
        apart = numbers - own
        if self.places is None or self.below is None:
            moved = numbers / self.unit - own / self.unit
        else:
            ranks = self.below[np.searchsorted(self.places, np.append(numbers, own))]
            moved = ranks[:-1] - ranks[-1]
        costs = np.zeros(len(numbers))
        for direction, price in ((1.0, self.up), (-1.0, self.down)):
            towards = direction * apart > 0
            if price == math.inf:
                costs[towards] = math.inf
            else:
                costs[towards] = np.maximum(direction * moved[towards], 0.0) * price
        if self.step is not None:
            size = np.maximum(np.abs(numbers), abs(own))
            lost = np.minimum(self.step / 4, STEP_TOLERANCE * self.step + NUMBER_TOLERANCE * size)
            with np.errstate(over="ignore", invalid="ignore"):  # of a step next to nothing, nothing is a multiple
                costs[~(np.abs(apart - np.round(apart / self.step) * self.step) <= lost)] = math.inf
        return costs


@dataclass(frozen=True, slots=True, eq=False)
class ChangePrices:
    """What changes of one row cost. ``unit`` divides distances where changes are counted first."""

    claim: CostClaim
    features: tuple[FeaturePrices, ...]
    unit: float

    @property
    def adds_up(self) -> bool:
        """Whether the parts of features are added up; else the largest counts."""
        return self.claim.norm != "linf"

    def build_parts(self, distances: Float64Array, changes: Any) -> Float64Array:
        """What features with these distances add; ``changes`` says of which the value is another one."""
        if self.claim.norm == "l2":
            return np.asarray(distances**2)
        if self.claim.norm == "linf":
            return distances
        each = 1.0 if self.claim.norm == "fewest" else self.claim.per_change
        return np.where(changes, each + distances / self.unit, 0.0)

    def describe_parts(self) -> tuple[bool, float, float]:
        """Whether parts are squared distances; or else what each change costs, and what divides its distance."""
        if self.claim.norm == "fewest":
            return False, 1.0, self.unit
        return self.claim.norm == "l2", self.claim.per_change if self.claim.norm == "l1" else 0.0, 1.0

    def measure_change(self, values: Mapping[str, Any]) -> tuple[int, float]:
        """How many features a changed row changes, and its distance: what people are told of its cost."""
        every = [float(one.measure([values[one.feature.name]])[0]) for one in self.features]
        count = sum(not _are_same(values[one.feature.name], one.own) for one in self.features)
        if self.claim.norm == "linf":
            return count, max(every, default=0.0)
        if self.claim.norm == "l2":
            return count, math.hypot(*every)
        return count, math.fsum(every) + self.claim.per_change * count

    def find_limit(self, count: int, distance: float, resolution: float) -> float:
        """What another change must not cost less than, in parts, for this one to be the nearest up to a resolution."""
        if self.claim.norm == "fewest":
            away = resolution * count if self.claim.is_default else resolution
            room = distance - away - TOLERANCE * max(1.0, distance)
            return count + max(room, 0.0) / self.unit if count else 0.0
        least = max(distance * (1.0 - TOLERANCE) - resolution, 0.0)
        return least**2 if self.claim.norm == "l2" else least

    def is_before(self, one: tuple[int, float], other: tuple[int, float], resolution: float) -> bool:
        """Whether a change may be listed before another one: it costs no more, up to a resolution."""
        room = resolution * max(1, one[0]) + TOLERANCE * max(1.0, one[1])
        if self.claim.norm == "fewest" and one[0] != other[0]:
            return one[0] < other[0]
        return one[1] <= other[1] + room


def _are_same(value: Any, own: Any) -> bool:
    """Whether two values are the same one; true is not 1."""
    return isinstance(value, bool) == isinstance(own, bool) and bool(value == own)


def build_prices(
    claim: CostClaim, space: CheckerSpace, own: Int32Array, past_rows: Int32Array, stored_as: Sequence[Any]
) -> ChangePrices:
    """The prices seen from a row; raises ClaimFailed for features that cannot have them."""
    for name in (*(claim.prices or {}), *(claim.steps or {})):
        if name not in space.names:
            raise ClaimFailed(f"prices and steps must be of features of the space, got {name!r}")
    features = []
    for j, feature in enumerate(space.features):
        up, down = (claim.prices or {}).get(feature.name, (1.0, 1.0))
        step = (claim.steps or {}).get(feature.name)
        if (up != down and not feature.ordered) or (step is not None and not (feature.ordered and feature.numeric)):
            raise ClaimFailed(f"{feature.name!r} has no order, but a price of its directions or a step is claimed")
        counts = np.bincount(past_rows[:, j], minlength=feature.size)[: len(feature.values)]
        unit, places, below = _find_scale(feature, counts, claim.scale)
        features.append(
            FeaturePrices(
                feature,
                feature.value(int(own[j])),
                up,
                down,
                unit,
                places=places,
                below=below,
                step=step,
                stored_as=stored_as[j],
            )
        )
    unit = 1.0
    if claim.norm == "fewest":
        every = [one.measure([one.feature.value(code) for code in range(one.feature.size)]) for one in features]
        unit = 2.0 + math.fsum(float(some[np.isfinite(some)].max(initial=0.0)) for some in every)
    return ChangePrices(claim, tuple(features), unit)


def _find_scale(
    feature: CheckerFeature, counts: AnyArray, scale: str
) -> tuple[float, Float64Array | None, Float64Array | None]:
    """The unit of an ordered feature's distances; for percentiles its numbers, and the share of rows below each."""
    if not feature.ordered or len(feature.values) < 2:
        return 1.0, None, None
    numbers = np.array(feature.values if feature.numeric else range(len(feature.values)), dtype=np.float64)
    reach = float(np.ptp(numbers)) or 1.0
    if scale == "range" or counts.sum() == 0:
        return abs(float(numbers[-1]) - float(numbers[0])) or reach, None, None
    if scale == "percentile":
        order = np.argsort(numbers, kind="stable")
        shares = np.concatenate([[0.0], np.cumsum(counts[order])]) / counts.sum()
        return 1.0, numbers[order], shares
    middle = _find_median(numbers, counts)
    away = np.abs(numbers - middle)
    deviation = _find_median(away, counts) or float(np.average(away, weights=counts))
    return deviation or abs(float(numbers[-1]) - float(numbers[0])) or 1.0, None, None


def _find_median(numbers: Float64Array, counts: AnyArray) -> float:
    """The median of numbers that occur so often; of an even number of them the mean of the two in the middle."""
    return float(np.median(np.repeat(numbers, counts)))
