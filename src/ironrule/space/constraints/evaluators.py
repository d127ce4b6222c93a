"""What a bound constraint computes: numbers and truth for whole arrays of codes at once.

Binding has turned every value into a number (see :mod:`.binding`), with NaN for missing. So only two kinds of
evaluators are left: a :class:`NumberEvaluator` gives numbers, a :class:`TruthEvaluator` gives truth. IEEE arithmetic
then does what the language says: a comparison with NaN is false, except between two features that are both missing.
Division by zero gives NaN, not infinity, so that its comparisons are false as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ironrule.arrays import BoolArray, Float64Array
from ironrule.space.constraints.syntax import Operation, Relation

Integers: TypeAlias = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class PredicateInput:
    """What a constraint is evaluated on: the codes of many points per feature, and those of the instance."""

    points: Mapping[int, Integers]
    instance: Integers


class NumberEvaluator(Protocol):
    """A number for every point; one number if it is the same for all."""

    def evaluate(self, codes: PredicateInput) -> Float64Array: ...


class TruthEvaluator(Protocol):
    """Truth for every point; one truth value if it is the same for all."""

    def evaluate(self, codes: PredicateInput) -> BoolArray: ...


@dataclass(frozen=True, slots=True, eq=False)
class PointValue:
    """The point's value of a feature, looked up by code."""

    index: int
    table: Float64Array

    def evaluate(self, codes: PredicateInput) -> Float64Array:
        return self.table[codes.points[self.index]]


@dataclass(frozen=True, slots=True, eq=False)
class InstanceValue:
    """The instance's value of a feature, looked up by code."""

    index: int
    table: Float64Array

    def evaluate(self, codes: PredicateInput) -> Float64Array:
        return np.asarray(self.table[codes.instance[self.index]])


@dataclass(frozen=True, slots=True)
class ConstantValue:
    """A number that was written out."""

    value: float

    def evaluate(self, codes: PredicateInput) -> Float64Array:  # noqa: ARG002 - the same for all points
        return np.asarray(self.value)


@dataclass(frozen=True, slots=True)
class ArithmeticEvaluator:
    """Arithmetic, step by step from the left."""

    first: NumberEvaluator
    steps: tuple[tuple[Operation, NumberEvaluator], ...]

    def evaluate(self, codes: PredicateInput) -> Float64Array:
        result = self.first.evaluate(codes)
        for operation, operand in self.steps:
            result = _OPERATIONS[operation](result, operand.evaluate(codes))
        return result


@dataclass(frozen=True, slots=True)
class ComparisonEvaluator:
    """Two numbers relate in a certain way."""

    left: NumberEvaluator
    relation: Relation
    right: NumberEvaluator

    def evaluate(self, codes: PredicateInput) -> BoolArray:
        left, right = self.left.evaluate(codes), self.right.evaluate(codes)
        if self.relation is Relation.DIFFERENT:
            return np.logical_not(self._relate(Relation.EQUAL, left, right))
        return self._relate(self.relation, left, right)

    def _relate(self, relation: Relation, left: Float64Array, right: Float64Array) -> BoolArray:
        """Two features that are both missing are equal, so that what may not change may stay missing."""
        related = _RELATIONS[relation](left, right)
        if relation in _REFLEXIVE and isinstance(self.left, _FEATURES) and isinstance(self.right, _FEATURES):
            return related | (np.isnan(left) & np.isnan(right))
        return related


@dataclass(frozen=True, slots=True)
class MissingEvaluator:
    """A feature's value is missing."""

    operand: NumberEvaluator

    def evaluate(self, codes: PredicateInput) -> BoolArray:
        return np.isnan(self.operand.evaluate(codes))


@dataclass(frozen=True, slots=True)
class NegationEvaluator:
    """The operand does not hold."""

    operand: TruthEvaluator

    def evaluate(self, codes: PredicateInput) -> BoolArray:
        return np.logical_not(self.operand.evaluate(codes))


@dataclass(frozen=True, slots=True)
class ConjunctionEvaluator:
    """All parts hold."""

    parts: tuple[TruthEvaluator, ...]

    def evaluate(self, codes: PredicateInput) -> BoolArray:
        return reduce(np.logical_and, (part.evaluate(codes) for part in self.parts))


@dataclass(frozen=True, slots=True)
class DisjunctionEvaluator:
    """At least one part holds."""

    parts: tuple[TruthEvaluator, ...]

    def evaluate(self, codes: PredicateInput) -> BoolArray:
        return reduce(np.logical_or, (part.evaluate(codes) for part in self.parts))


def _divide(left: Float64Array, right: Float64Array) -> Float64Array:
    return np.asarray(left / np.where(right == 0, np.nan, right))


_OPERATIONS: Mapping[Operation, Callable[[Float64Array, Float64Array], Float64Array]] = {
    Operation.ADD: np.add,
    Operation.SUBTRACT: np.subtract,
    Operation.MULTIPLY: np.multiply,
    Operation.DIVIDE: _divide,
}

_RELATIONS: Mapping[Relation, Callable[[Float64Array, Float64Array], BoolArray]] = {
    Relation.EQUAL: np.equal,
    Relation.LESS: np.less,
    Relation.AT_MOST: np.less_equal,
    Relation.GREATER: np.greater,
    Relation.AT_LEAST: np.greater_equal,
}

_REFLEXIVE = (Relation.EQUAL, Relation.AT_MOST, Relation.AT_LEAST)
_FEATURES = (PointValue, InstanceValue)
