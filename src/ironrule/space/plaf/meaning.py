"""What a bound constraint computes: numbers and truth for whole arrays of codes at once.

Binding has turned every value into a number (see :mod:`.scales`), with NaN for missing. So only two kinds of parts are
left: a :class:`Quantity` gives numbers, a :class:`Test` gives truth. IEEE arithmetic then does what the language says:
a comparison with NaN is false, except between two features that are both missing. Division by zero gives NaN, not
infinity, so that its comparisons are false as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ironrule.space.plaf.syntax import Operation, Relation

Integers: TypeAlias = npt.NDArray[np.integer[Any]]
Floats: TypeAlias = npt.NDArray[np.float64]
Truths: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """What a constraint is evaluated on: the codes of many points per feature, and those of the instance."""

    points: Mapping[int, Integers]
    instance: Integers


class Quantity(Protocol):
    """A number for every point; one number if it is the same for all."""

    def measure(self, codes: Codes) -> Floats: ...


class Test(Protocol):
    """Truth for every point; one truth value if it is the same for all."""

    def holds(self, codes: Codes) -> Truths: ...


@dataclass(frozen=True, slots=True, eq=False)
class OfPoint:
    """The point's value of a feature, looked up by code."""

    index: int
    table: Floats

    def measure(self, codes: Codes) -> Floats:
        return self.table[codes.points[self.index]]


@dataclass(frozen=True, slots=True, eq=False)
class OfInstance:
    """The instance's value of a feature, looked up by code."""

    index: int
    table: Floats

    def measure(self, codes: Codes) -> Floats:
        return np.asarray(self.table[codes.instance[self.index]])


@dataclass(frozen=True, slots=True)
class Constant:
    """A number that was written out."""

    value: float

    def measure(self, codes: Codes) -> Floats:  # noqa: ARG002 - the same for all points
        return np.asarray(self.value)


@dataclass(frozen=True, slots=True)
class Computed:
    """Arithmetic, step by step from the left."""

    first: Quantity
    steps: tuple[tuple[Operation, Quantity], ...]

    def measure(self, codes: Codes) -> Floats:
        result = self.first.measure(codes)
        for operation, quantity in self.steps:
            result = _OPERATIONS[operation](result, quantity.measure(codes))
        return result


@dataclass(frozen=True, slots=True)
class Compared:
    """Two quantities relate in a certain way."""

    left: Quantity
    relation: Relation
    right: Quantity

    def holds(self, codes: Codes) -> Truths:
        left, right = self.left.measure(codes), self.right.measure(codes)
        if self.relation is Relation.DIFFERENT:
            return np.logical_not(self._related(Relation.EQUAL, left, right))
        return self._related(self.relation, left, right)

    def _related(self, relation: Relation, left: Floats, right: Floats) -> Truths:
        """Two features that are both missing are equal, so that what may not change may stay missing."""
        related = _RELATIONS[relation](left, right)
        if relation in _REFLEXIVE and isinstance(self.left, _FEATURES) and isinstance(self.right, _FEATURES):
            return related | (np.isnan(left) & np.isnan(right))
        return related


@dataclass(frozen=True, slots=True)
class IsMissing:
    """A feature's value is missing."""

    quantity: Quantity

    def holds(self, codes: Codes) -> Truths:
        return np.isnan(self.quantity.measure(codes))


@dataclass(frozen=True, slots=True)
class Opposite:
    """A test does not hold."""

    test: Test

    def holds(self, codes: Codes) -> Truths:
        return np.logical_not(self.test.holds(codes))


@dataclass(frozen=True, slots=True)
class Every:
    """All tests hold."""

    tests: tuple[Test, ...]

    def holds(self, codes: Codes) -> Truths:
        return reduce(np.logical_and, (test.holds(codes) for test in self.tests))


@dataclass(frozen=True, slots=True)
class Some:
    """At least one test holds."""

    tests: tuple[Test, ...]

    def holds(self, codes: Codes) -> Truths:
        return reduce(np.logical_or, (test.holds(codes) for test in self.tests))


def _divide(left: Floats, right: Floats) -> Floats:
    return np.asarray(left / np.where(right == 0, np.nan, right))


_OPERATIONS: Mapping[Operation, Callable[[Floats, Floats], Floats]] = {
    Operation.ADD: np.add,
    Operation.SUBTRACT: np.subtract,
    Operation.MULTIPLY: np.multiply,
    Operation.DIVIDE: _divide,
}

_RELATIONS: Mapping[Relation, Callable[[Floats, Floats], Truths]] = {
    Relation.EQUAL: np.equal,
    Relation.LESS: np.less,
    Relation.AT_MOST: np.less_equal,
    Relation.GREATER: np.greater,
    Relation.AT_LEAST: np.greater_equal,
}

_REFLEXIVE = (Relation.EQUAL, Relation.AT_MOST, Relation.AT_LEAST)
_FEATURES = (OfPoint, OfInstance)
