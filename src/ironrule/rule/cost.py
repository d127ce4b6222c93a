"""What changes cost: as users say it (:class:`Cost`), and as searches know it (:class:`CostTable`).

Of two counterfactuals the one that costs less is the nearer one. A cost is a norm of the distances of all features
that change. The distance of a number is how far it moves, in ranges of the feature, in median absolute deviations of
the past rows (MAD, as in Wachter, Mittelstadt, Russell, "Counterfactual Explanations without Opening the Black Box",
2017), or in the share of the past rows that lie in between (the percentile shift of Ustun, Spangher, Liu, "Actionable
Recourse in Linear Classification", 2019). A category has distance 1 from every other, and so has "missing".

Searches know costs only as a :class:`CostTable`, which is made for one row. The cost of a point is the sum of its
features' parts, or the largest of them. Parts are never negative, and keeping the row's own value costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from ironrule.errors import InputError, describe_value
from ironrule.wording import format_settings

if TYPE_CHECKING:  # the command line reads the names of norms, and loads nothing heavy
    from ironrule.arrays import Float64Array, Points

CostNorm = Literal["fewest", "l1", "l2", "linf"]
CostScale = Literal["range", "mad", "percentile"]
COST_NORMS: tuple[CostNorm, ...] = get_args(CostNorm)
COST_SCALES: tuple[CostScale, ...] = get_args(CostScale)
PRICE_DIRECTIONS = ("up", "down")
LEAST_PRICE, LARGEST_PRICE = 1e-9, 1e12  # others would be lost beside costs of about 1, or their squares be infinite


class DirectedPrice(NamedTuple):
    """What one unit of distance costs upwards, and downwards."""

    up: float = 1.0
    down: float = 1.0


@dataclass(frozen=True, slots=True)
class Cost:
    """What it costs to change a row.

    ``norm``: "fewest" counts the features that change, and of those with as many changes the least sum of distances is
    the nearest; "l1" is the sum of all distances, "l2" the root of the sum of their squares, "linf" the largest of
    them. ``scale`` says in what numbers are measured: their "range", their median absolute deviation ("mad") or the
    share of past rows that they move past ("percentile"). ``prices`` multiply the distance of a feature, one number or
    one for each direction; ``math.inf`` forbids a change. With ``steps``, a number moves by whole multiples of its step
    only. ``per_change`` is what every feature that changes costs besides, with "l1".

    >>> Cost("l1", prices={"income": {"up": 1, "down": 5}, "age": math.inf}).get_price("income")
    DirectedPrice(up=1.0, down=5.0)
    """

    norm: CostNorm = "fewest"
    scale: CostScale = "range"
    prices: Mapping[str, float | Mapping[str, float]] = field(default_factory=dict)
    steps: Mapping[str, float] = field(default_factory=dict)
    per_change: float = 0.0

    def __post_init__(self) -> None:
        for name, value, allowed in (("norm", self.norm, COST_NORMS), ("scale", self.scale, COST_SCALES)):
            if not isinstance(value, str) or value not in allowed:
                listed = ", ".join(allowed)
                raise InputError(
                    expected=f"the {name} of a cost must be one of {listed}",
                    got=describe_value(value),
                    code="unknown-cost",
                )
        for name in ("prices", "steps"):
            given = getattr(self, name)
            if not isinstance(given, Mapping) or not all(isinstance(feature, str) for feature in given):
                expected = f"{name} must be a mapping from names of features to numbers"
                raise InputError(expected=expected, got=describe_value(given), code="bad-cost")
        prices = {name: _parse_price(name, price) for name, price in self.prices.items()}
        object.__setattr__(self, "prices", prices)
        object.__setattr__(self, "steps", {name: _parse_step(name, step) for name, step in self.steps.items()})
        if not _is_number(self.per_change) or not 0 <= self.per_change < math.inf:
            expected = "per_change must be a finite number that is not negative"
            raise InputError(expected=expected, got=describe_value(self.per_change), code="bad-cost")
        if self.per_change and self.norm != "l1":
            raise InputError(
                expected="per_change must be 0 unless the norm is 'l1'",
                got=f"{self.per_change!r} with {self.norm!r}",
                hint="use norm='l1'",
                code="bad-cost",
            )
        object.__setattr__(self, "per_change", float(self.per_change))

    def __repr__(self) -> str:
        return format_settings(self)

    def get_price(self, name: str) -> DirectedPrice:
        """What a unit of distance costs for a feature, upwards and downwards."""
        price = self.prices.get(name, 1.0)
        if isinstance(price, Mapping):
            return DirectedPrice(*(float(price.get(direction, 1.0)) for direction in PRICE_DIRECTIONS))
        return DirectedPrice(float(price), float(price))

    @property
    def names(self) -> tuple[str, ...]:
        """The features that prices and steps speak of."""
        return tuple(dict.fromkeys((*self.prices, *self.steps)))

    @property
    def is_usual(self) -> bool:
        """Whether the order of permitted changes is that of the default: prices do no more than forbid."""
        each = (price for name in self.prices for price in self.get_price(name))
        return (
            (self.norm, self.scale) == ("fewest", "range") and not self.steps and all(p in (1, math.inf) for p in each)
        )

    def to_dict(self) -> dict[str, Any]:
        """The cost as plain data; a price of infinity, which JSON does not have, is "inf"."""
        prices = {
            name: {way: _write_number(one) for way, one in price.items()}
            if isinstance(price, Mapping)
            else _write_number(price)
            for name, price in self.prices.items()
        }
        data: dict[str, Any] = {"norm": self.norm, "scale": self.scale}
        data |= {"prices": prices} if prices else {}
        data |= {"steps": dict(self.steps)} if self.steps else {}
        return data | ({"per_change": self.per_change} if self.per_change else {})

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Cost:
        """The cost that :meth:`to_dict` wrote; raises InputError for what is none."""
        unknown = [key for key in data if key not in cls.__slots__]
        if unknown:
            expected = f"a cost must have the keys {', '.join(cls.__slots__)} alone"
            raise InputError(expected=expected, got=describe_value(unknown[0]), code="bad-cost")
        given = dict(data)
        if isinstance(given.get("prices"), Mapping):
            given["prices"] = {
                name: {way: _read_number(one) for way, one in price.items()}
                if isinstance(price, Mapping)
                else _read_number(price)
                for name, price in given["prices"].items()
            }
        return cls(**given)


def parse_cost(cost: Any) -> Cost:
    """A cost from what a caller gives: a Cost, or the name of a norm.

    >>> parse_cost("l1") == Cost("l1")
    True
    """
    if isinstance(cost, Cost):
        return cost
    if isinstance(cost, str) and cost in COST_NORMS:
        return Cost(cost)
    raise InputError(
        expected=f"cost must be one of {', '.join(COST_NORMS)}, or a Cost",
        got=describe_value(cost),
        hint="such as Cost('l1', scale='mad', prices={'income': 2})",
        code="unknown-cost",
    )


def parse_price_texts(texts: Sequence[str]) -> dict[str, float | dict[str, float]]:
    """Prices as people write them on one line each: one number, or one upwards and one downwards.

    >>> parse_price_texts(["income=2", "debt=1:5", "age=inf"])
    {'income': 2.0, 'debt': {'up': 1.0, 'down': 5.0}, 'age': inf}
    """
    prices: dict[str, float | dict[str, float]] = {}
    for text in texts:
        name, numbers = _split_text(text, "a price must be written as income=2, or as income=1:5 (up:down)")
        each = [_parse_number(number, text) for number in numbers.split(":")]
        if len(each) > len(PRICE_DIRECTIONS):
            expected = "a price must be one number, or one upwards and one downwards"
            raise InputError(expected=expected, got=describe_value(text), code="bad-cost")
        prices[name] = each[0] if len(each) == 1 else dict(zip(PRICE_DIRECTIONS, each, strict=True))
    return prices


def parse_step_texts(texts: Sequence[str]) -> dict[str, float]:
    """Steps as people write them.

    >>> parse_step_texts(["amount=50"])
    {'amount': 50.0}
    """
    pairs = (_split_text(text, "a step must be written as amount=50") for text in texts)
    return {name: _parse_number(number, f"{name}={number}") for name, number in pairs}


def _split_text(text: str, expected: str) -> tuple[str, str]:
    name, sign, numbers = text.rpartition("=")
    if not sign or not name.strip():
        raise InputError(expected=expected, got=describe_value(text), code="bad-cost")
    return name.strip(), numbers.strip()


def _parse_number(text: str, whole: str) -> float:
    try:
        return float(text)
    except ValueError:
        expected = f"{whole!r} must have numbers after the equals sign"
        raise InputError(expected=expected, got=describe_value(text), code="bad-cost") from None


def _is_number(value: Any) -> bool:
    """Whether a value is a real number, infinity included."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return not math.isnan(float(value))
    except OverflowError:
        return False


def _parse_price(name: str, price: Any) -> float | Mapping[str, float]:
    if isinstance(price, Mapping) and price and all(way in PRICE_DIRECTIONS for way in price):
        return {way: _require_price(name, price[way]) for way in PRICE_DIRECTIONS if way in price}
    return _require_price(name, price)


def _require_price(name: str, price: Any) -> float:
    if not _is_number(price) or price < 0:
        raise InputError(
            expected=f"the price of {name!r} must be a number that is not negative, or one each for 'up' and 'down'",
            got=describe_value(price),
            hint="math.inf forbids a change",
            code="bad-cost",
        )
    if price not in (0, math.inf) and not LEAST_PRICE <= price <= LARGEST_PRICE:
        raise InputError(
            expected=f"the price of {name!r} must be from {LEAST_PRICE:g} to {LARGEST_PRICE:g}, 0, or math.inf",
            got=describe_value(price),
            hint="math.inf forbids a change",
            code="bad-cost",
        )
    return float(price)


def _parse_step(name: str, step: Any) -> float:
    if not _is_number(step) or not 0 < step < math.inf:
        expected = f"the step of {name!r} must be a positive number"
        raise InputError(expected=expected, got=describe_value(step), code="bad-cost")
    return float(step)


def _write_number(number: float) -> float | str:
    return "inf" if number == math.inf else number


def _read_number(number: Any) -> Any:
    return math.inf if number == "inf" else number


DEFAULT_COST = Cost()


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
        return self.combine_parts(parts)

    def combine_parts(self, parts: list[float]) -> float:
        """What the parts of several features cost together."""
        return math.fsum(parts) if self.combine == "sum" else max(parts, default=0.0)
