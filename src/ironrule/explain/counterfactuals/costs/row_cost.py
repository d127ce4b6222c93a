"""What changes of one row cost, by a user's :class:`~ironrule.rule.cost.Cost`: for any number, and as a table of codes.

A feature's *part* is what it adds to the number that searches make small:

=========  =============================================  =======================
norm       part of a feature that changes                 the user's own measure
=========  =============================================  =======================
"l1"       distance x price + per_change                  the sum
"l2"       (distance x price) squared                     the root of the sum
"linf"     distance x price                               the largest
"fewest"   1 + a small share of distance x price          see ``distance_unit``
=========  =============================================  =======================

The small shares of all features are together below one, so fewer changes always cost less. Tables are rounded to whole
multiples of a small power of two, so that sums of them are exact in whatever order they are added.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ironrule.arrays import AnyArray, BoolArray, Float64Array, Int64Array
from ironrule.backends.nearest import GapCostKind
from ironrule.errors import InputError, describe_value
from ironrule.explain.context import ExplainerContext
from ironrule.oracles.protocol import Case
from ironrule.rule.cost import Cost, CostScale, CostTable, DirectedPrice
from ironrule.space.constraints.parser import parse_constraint
from ironrule.space.constraints.syntax import Constraint, Reference, Subject, format_literal
from ironrule.space.feature import Feature, Value, is_missing
from ironrule.space.space import Space

STEP_TOLERANCE = 1e-6  # the share of a step that rounding may take
NUMBER_TOLERANCE = 2.0**-22  # the share of a number: columns may be in single precision
MAX_STEPS = 5_000  # values that a number may take by its step
MAX_SHARE = 0.05  # of a cost: what is only known more coarsely is not called the nearest
MAX_SHARE_OF_LARGEST = 0.005  # the same of the largest change of one feature, for changes that cost little
DOUBLE = np.dtype(np.float64)
HIDDEN_SHARE = 1e-9  # of a cost: what tables round away, if it is less
TABLE_BITS = 40  # of the largest part: smaller ones are rounded to multiples of its share by this power of two


@dataclass(frozen=True, slots=True, eq=False)
class FeatureCost:
    """What one feature's values are away from the row's own, times the price.

    Numbers have places on a scale: the numbers themselves, divided by ``unit``; with ``seen``, the share of past rows
    below each of these numbers. Other ordered values have the places of their codes.
    """

    feature: Feature
    own: Value
    price: DirectedPrice
    unit: float
    seen: tuple[Float64Array, Float64Array] | None = None
    step: float | None = None
    held_as: np.dtype[Any] = DOUBLE  # the numbers of the column: shorter ones hold 0.1 as another number

    def measure(self, values: Sequence[Value] | AnyArray) -> Float64Array:
        """The priced distance of some values of the feature; infinite where it may not be chosen."""
        either = math.inf if math.inf in self.price else max(self.price)
        costs = np.full(len(values), either)
        costs[[value == self.own or (is_missing(value) and self.own is None) for value in values]] = 0.0
        if not self.feature.ordered or self.own is None:
            return costs
        present = [place for place, value in enumerate(values) if not is_missing(value)]
        numbers, own = self._place([values[place] for place in present]), self._place([self.own])
        apart = numbers - own
        moved = self._scale(numbers) - self._scale(own)
        with np.errstate(invalid="ignore"):  # a price of infinity for a value that does not move
            priced = np.where(moved > 0, moved * self.price.up, -moved * self.price.down)
        forbidden = (apart > 0) & (self.price.up == math.inf) | (apart < 0) & (self.price.down == math.inf)
        if self.step is not None:
            forbidden |= ~is_multiple(apart, self.step, np.maximum(np.abs(numbers), abs(own)))
        costs[present] = np.where(apart == 0, 0.0, np.where(forbidden, math.inf, np.where(moved == 0, 0.0, priced)))
        return costs

    def hold(self, number: float) -> Any:
        """A number as the column holds it."""
        return number if self.feature.has_only_integers else float(self.held_as.type(number))

    def _place(self, values: Sequence[Value]) -> Float64Array:
        if self.feature.numeric:
            return np.array(values, dtype=np.float64).astype(self.held_as).astype(np.float64)
        return np.array([self.feature.code_by_value[value] for value in values], dtype=np.float64)

    def _scale(self, places: Float64Array) -> Float64Array:
        if self.seen is None:
            return places / self.unit
        known, below = self.seen
        return below[np.searchsorted(known, places)]


@dataclass(frozen=True, slots=True, eq=False)
class RowCost:
    """What changes of one row cost, over the features that searches work on.

    ``distance_unit``: with the norm "fewest", the distance for which a part has one more; 1 otherwise. ``largest`` is
    the largest distance of any value of one feature.
    """

    cost: Cost
    features: tuple[FeatureCost, ...]
    distance_unit: float
    largest: float
    table: CostTable

    @property
    def least_part(self) -> float:
        """What the least change of a feature costs at least."""
        return 1.0 if self.cost.norm == "fewest" else self.cost.per_change

    def find_gap_cost(self, j: int) -> GapCostKind:
        """What numbers between two neighbouring values of a feature cost, where a network sees them in a line."""
        if self.features[j].seen is not None:
            return "unknown"
        return "squared" if self.cost.norm == "l2" else "straight"

    def measure_parts(self, j: int, values: Sequence[Value] | AnyArray) -> Float64Array:
        """What some values of a feature add; infinite where they may not be chosen."""
        one = self.features[j]
        changed = np.array([not (value == one.own or (is_missing(value) and one.own is None)) for value in values])
        return self._build_parts(one.measure(values), changed)

    def _build_parts(self, distances: Float64Array, changed: BoolArray) -> Float64Array:
        return _build_parts(self.cost, distances, changed, self.distance_unit)

    def list_turns(self, j: int) -> Sequence[Value]:
        """The numbers of a domain at which costs do not just go on rising: steps, and values that past rows have."""
        one = self.features[j]
        return one.feature.values if one.step is not None or one.seen is not None else ()

    def measure_row(self, values: Mapping[str, Value]) -> float:
        """What a changed row costs, as searches count; of features that searches leave out nothing is counted."""
        parts = [float(self.measure_parts(j, [values[one.feature.name]])[0]) for j, one in enumerate(self.features)]
        return self.table.combine_parts(parts)

    def measure_distance(self, values: Mapping[str, Value]) -> float:
        """What a changed row costs in the user's own terms; with the norm "fewest" the sum of its distances."""
        apart = [float(one.measure([values[one.feature.name]])[0]) for one in self.features]
        if self.cost.norm == "linf":
            return max(apart, default=0.0)
        if self.cost.norm == "l2":
            return math.hypot(*apart)
        changes = sum(bool(values[one.feature.name] != one.own) for one in self.features)
        return math.fsum(apart) + self.cost.per_change * changes

    def measure_difference(self, more: float, less: float) -> float:
        """By how much one cost is above another, in the user's own terms; infinite where that is a whole change."""
        if self.cost.norm == "l2":
            return max(0.0, math.sqrt(more) - math.sqrt(max(less, 0.0)))
        if self.cost.norm == "fewest" and less < math.floor(more):
            return math.inf
        return max(0.0, more - less) * self.distance_unit

    def find_resolution(self, values: Mapping[str, Value], bound: float) -> float:
        """By how much something may cost less than a counterfactual, where nothing is below a bound in the table. Since
        tables are rounded down, that is so without rounding too; a difference that is nothing beside the cost is none.
        """
        apart = self.measure_difference(self.measure_row(values), bound)
        return apart if apart > HIDDEN_SHARE * self.measure_distance(values) else 0.0

    def is_close(self, values: Mapping[str, Value], apart: float) -> bool:
        """Whether a counterfactual of which it is known that nothing costs less by more than ``apart`` is to be called
        the nearest.
        """
        return apart <= max(MAX_SHARE * self.measure_distance(values), MAX_SHARE_OF_LARGEST * self.largest, 1e-9)


def build_row_cost(context: ExplainerContext, case: Case, cost: Cost) -> RowCost:
    """The costs seen from the row of a case."""
    features = []
    for j, feature in enumerate(case.space.features):
        counts = context.search_history.frequencies[j]
        unit, seen = _build_scale(feature, counts, cost.scale)
        own = feature.value(int(case.instance[j]))
        price, step = cost.get_price(feature.name), cost.steps.get(feature.name)
        column = context.table.column(feature.columns[0]).values.dtype
        held_as = column if feature.numeric and column.kind == "f" else DOUBLE
        features.append(FeatureCost(feature, own, price, unit, seen, step=step, held_as=held_as))
    distances = [one.measure((*one.feature.values, None)[: one.feature.size]) for one in features]
    largest = [float(np.max(some[np.isfinite(some)], initial=0.0)) for some in distances]
    distance_unit = (math.fsum(largest) + 1.0) * (1.0 + 2.0**-20) if cost.norm == "fewest" else 1.0
    parts = []
    for own, some in zip(case.instance.tolist(), distances, strict=True):
        parts.append(_build_parts(cost, some, np.arange(len(some)) != own, distance_unit))
    table = CostTable(_round_parts(parts), "max" if cost.norm == "linf" else "sum")
    return RowCost(cost, tuple(features), distance_unit, max(largest, default=0.0), table)


def _build_parts(cost: Cost, distances: Float64Array, changed: BoolArray, distance_unit: float) -> Float64Array:
    if cost.norm == "l2":
        return distances**2
    if cost.norm == "linf":
        return distances
    per_change = 1.0 if cost.norm == "fewest" else cost.per_change
    return np.where(changed, per_change + distances / distance_unit, 0.0)


def _round_parts(parts: Sequence[Float64Array]) -> tuple[Float64Array, ...]:
    """The parts as multiples of a small power of two, rounded down."""
    largest = max((float(np.max(part[np.isfinite(part)], initial=0.0)) for part in parts), default=0.0)
    unit = math.ldexp(1.0, math.frexp(largest)[1] - TABLE_BITS) if largest > 2.0**-900 else 1.0
    if largest <= 2.0**-900:  # everything is free, or nothing may change
        return tuple(parts)
    return tuple(np.floor(part / unit) * unit for part in parts)


def _build_scale(
    feature: Feature, counts: Int64Array, scale: CostScale
) -> tuple[float, tuple[Float64Array, Float64Array] | None]:
    """The unit of an ordered feature's distances, and for percentiles the share of past rows below each value."""
    if not feature.ordered or len(feature.values) < 2:
        return 1.0, None
    places = np.array(feature.values if feature.numeric else range(len(feature.values)), dtype=np.float64)
    counts = counts[: len(places)]
    reach = abs(float(places[-1]) - float(places[0])) or 1.0
    if scale == "range" or not counts.sum():
        return reach, None
    if scale == "percentile":
        order = np.argsort(places, kind="stable")
        below = np.concatenate([[0], np.cumsum(counts[order])]) / counts.sum()
        return 1.0, (places[order], below)
    return _find_deviation(places, counts) or reach, None


def _find_deviation(places: Float64Array, counts: Int64Array) -> float:
    """The median absolute deviation of past rows; where it is 0 the mean absolute deviation from the median."""
    middle = _find_median(places, counts)
    apart = np.abs(places - middle)
    return _find_median(apart, counts) or float((apart * counts).sum() / counts.sum())


def _find_median(values: Float64Array, counts: Int64Array) -> float:
    """The median of values that occur so often, the mean of the two in the middle where their number is even.

    >>> _find_median(np.array([1.0, 2.0, 10.0]), np.array([1, 2, 1]))
    2.0
    """
    order = np.argsort(values, kind="stable")
    ranks, total = np.cumsum(counts[order]), int(counts.sum())
    low, high = (values[order][np.searchsorted(ranks, rank)] for rank in ((total + 1) // 2, total // 2 + 1))
    return float(low + high) / 2


def is_multiple(apart: Float64Array, step: float, size: Float64Array) -> BoolArray:
    """Which differences of numbers of some size are whole multiples of a step, as far as rounding tells."""
    lost = np.minimum(step / 4, STEP_TOLERANCE * step + NUMBER_TOLERANCE * size)
    return np.asarray(np.abs(apart - np.round(apart / step) * step) <= lost, dtype=np.bool_)


def list_stepped_numbers(feature: Feature, own: Value, step: float) -> list[Value]:
    """The numbers of a domain that are whole multiples of a step away from the row's own; raises InputError for more
    than can be listed.
    """
    low, high = feature.values[0], feature.values[-1]
    first, last = math.ceil((low - own) / step), math.floor((high - own) / step)
    if last - first > MAX_STEPS:
        expected = f"the step of {feature.name!r} must leave at most {MAX_STEPS:,} values"
        raise InputError(expected=expected, got=f"{last - first + 1:,}", hint="use a larger step", code="bad-cost")
    numbers = [own + count * step for count in range(first, last + 1) if count]
    if feature.has_only_integers:
        numbers = [int(number) for number in numbers if float(number).is_integer()]
    return [number for number in numbers if low <= number <= high]


def list_step_constraints(context: ExplainerContext, case: Case, cost: Cost) -> dict[str, Constraint]:
    """What steps forbid, as a constraint on a counterfactual for every feature that has one and may not become every
    value: its own value, those of its domain that are whole steps away, and missing.
    """
    if not cost.steps:
        return {}
    limits: dict[str, Constraint] = {}
    for one in build_row_cost(context, case, Cost(steps=cost.steps)).features:
        if one.step is None or one.own is None:
            continue
        free = np.isfinite(one.measure(one.feature.values)).tolist()
        permitted = {value for value, good in zip(one.feature.values, free, strict=True) if good}
        if one.feature.interval:  # those between the values of the domain, where they are not in it
            permitted |= {one.hold(number) for number in list_stepped_numbers(one.feature, one.own, one.step)}
        literals = [*map(format_literal, sorted(permitted)), *(["missing"] if one.feature.missing else [])]
        name = Reference(Subject.POINT, one.feature.name)
        limits[one.feature.name] = parse_constraint(f"{name} in ({', '.join(literals)})")
    return limits


def check_cost_names(space: Space, cost: Cost) -> None:
    """Raise an error if prices or steps speak of a feature that there is not, or that cannot have them."""
    for name in cost.names:
        feature = space[name]
        directed = isinstance(cost.prices.get(name), Mapping)
        if directed and not feature.ordered:
            expected = f"the price of {name!r}, which has no order, must be one number"
            raise InputError(expected=expected, got=describe_value(cost.prices[name]), code="bad-cost")
        if name in cost.steps and not (feature.ordered and feature.numeric):
            expected = "a feature with a step must be an ordered number"
            raise InputError(expected=expected, got=f"{name!r}, which is none", code="bad-cost")


def list_price_constraints(cost: Cost) -> list[Constraint]:
    """What prices of infinity forbid, as constraints on a counterfactual."""
    limits = {(True, True): "==", (True, False): "<=", (False, True): ">="}
    texts = []
    for name in cost.prices:
        price = cost.get_price(name)
        forbidden = price.up == math.inf, price.down == math.inf
        if any(forbidden):
            own, other = (Reference(subject, name) for subject in (Subject.POINT, Subject.INSTANCE))
            texts.append(f"{own} {limits[forbidden]} {other}")
    return list(map(parse_constraint, texts))
