"""Bind a constraint to the features of a space: check that it makes sense for their kinds, and give a predicate on
codes.

Everything that can be wrong with a constraint is found here, before any point is looked at: an unknown feature, an
order asked of a nominal feature, arithmetic on a category, a category that is not in the domain.

Values become numbers, in one way per kind of feature. Numbers stand for themselves. A category's number is its position
in the domain, a date's its rank among all dates that the comparison can meet; both keep what can be asked of them,
equality and order, and nothing more. Ranks rather than time stamps, because they are exact for every date.

A predicate costs time per part of the constraint, not per point: every part is one NumPy operation. A constraint on one
feature costs one lookup per point, since it is evaluated on the feature's codes instead.

A predicate is made of evaluators: a :class:`NumberEvaluator` gives numbers for whole arrays of codes at once, with NaN
for missing, a :class:`TruthEvaluator` gives truth. IEEE arithmetic then does what the language says: a comparison with
NaN is false, except between two features that are both missing. Division by zero gives NaN, not infinity, so that its
comparisons are false as well.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from enum import Enum
from functools import reduce
from itertools import chain
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ironrule.arrays import BoolArray, Float64Array
from ironrule.errors import ConstraintError, describe_value
from ironrule.space.constraints.syntax import (
    Arithmetic,
    Comparison,
    Conjunction,
    Constraint,
    Disjunction,
    Expression,
    Formula,
    Implication,
    Literal,
    Membership,
    Negation,
    Operation,
    Reference,
    Relation,
    Subject,
    UnaryMinus,
    build_located_error,
    collect_names,
)
from ironrule.space.feature import Feature, Value

MAX_LISTED_NAMES = 12  # how many names an error lists

MAX_SHOWN_INTEGER = 10**400
"""From here on an error does not write an integer out: Python refuses to do that beyond 4,300 digits."""


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


@dataclass(frozen=True, slots=True)
class NameResolver:
    """The text of one constraint, and the features it may speak of: by name, with their index."""

    text: str
    features_by_name: Mapping[str, tuple[int, Feature]]

    def feature(self, reference: Reference) -> Feature:
        """The feature that is meant; raises ConstraintError, suggesting a name, if there is none."""
        return self._resolve(reference)[1]

    def bind_reference(self, reference: Reference, numbers: Iterable[float]) -> NumberEvaluator:
        """The feature's value as a number, given the number of each value in the domain; missing is NaN."""
        index, feature = self._resolve(reference)
        padded = chain(numbers, [np.nan] * feature.missing)
        table = np.fromiter(padded, dtype=np.float64, count=feature.size)
        return PointValue(index, table) if reference.subject is Subject.POINT else InstanceValue(index, table)

    def error_at(self, column: int, **fields: str) -> ConstraintError:
        """The error that points at a column of the text."""
        return build_located_error(self.text, column, **fields)

    def _resolve(self, reference: Reference) -> tuple[int, Feature]:
        if reference.name not in self.features_by_name:
            raise self.error_at(
                reference.column,
                statement=f"unknown feature {reference.name!r}",
                hint=self._suggest(reference),
                code="unknown-feature",
            )
        return self.features_by_name[reference.name]

    def _suggest(self, reference: Reference) -> str:
        """The name that was probably meant, or those there are."""
        folded = {name.casefold(): name for name in self.features_by_name}
        close = difflib.get_close_matches(reference.name.casefold(), folded, n=1)
        if close:
            return f"did you mean {Reference(reference.subject, folded[close[0]])}?"
        names = list(self.features_by_name)
        listed = ", ".join(names[:MAX_LISTED_NAMES]) + (", ..." if len(names) > MAX_LISTED_NAMES else "")
        return f"the features are {listed}" if listed else "the space has no features"


class ValueKind(Enum):
    """What a feature's values are, and so what may be done with them."""

    NUMBER = "number"
    DATE = "date"
    CATEGORY = "category"


def find_value_kind(feature: Feature) -> ValueKind:
    """The kind of a feature: all numbers, all dates, or anything else."""
    if feature.numeric:
        return ValueKind.NUMBER
    dates = all(isinstance(value, (date, np.datetime64)) for value in feature.values)
    return ValueKind.DATE if dates else ValueKind.CATEGORY


# Numbers.


def scale_numbers(names: NameResolver, left: Expression, right: Expression) -> tuple[NumberEvaluator, NumberEvaluator]:
    """Both sides as the numbers they are, arithmetic included; two features with an integer among their values that no
    float equals as ranks, which compare like the values.
    """
    if isinstance(left, Reference) and isinstance(right, Reference):
        sides = [names.feature(side).values for side in (left, right) if names.feature(side).numeric]
        # As floats, two different large integers could be equal; their ranks among all values of both never are.
        if len(sides) == 2 and not all(_is_exact(value) for value in chain(*sides)):
            ranks = {value: float(rank) for rank, value in enumerate(sorted({*sides[0], *sides[1]}))}
            first, second = ([ranks[value] for value in values] for values in sides)
            return names.bind_reference(left, first), names.bind_reference(right, second)
    return _bind_number(names, left), _bind_number(names, right)


def _bind_number(names: NameResolver, expression: Expression) -> NumberEvaluator:
    match expression:
        case Reference():
            return names.bind_reference(expression, _list_feature_numbers(names, expression))
        case Literal():
            return ConstantValue(_read_literal_number(names, expression))
        case UnaryMinus(operand):
            return ArithmeticEvaluator(ConstantValue(-1.0), ((Operation.MULTIPLY, _bind_number(names, operand)),))
        case Arithmetic(first, steps):
            start = _bind_number(names, first)
            return ArithmeticEvaluator(start, tuple((how, _bind_number(names, step)) for how, step in steps))


def _list_feature_numbers(names: NameResolver, expression: Reference) -> list[float]:
    feature = names.feature(expression)
    if not feature.numeric:
        got = f"{expression.name!r}, which is {feature.describe()}"
        raise names.error_at(expression.column, expected="arithmetic needs numeric features", got=got)
    return [_convert_exactly(names, value, expression) for value in feature.values]


def _read_literal_number(names: NameResolver, expression: Literal) -> float:
    if isinstance(expression.value, (int, float)) and expression.is_number:
        return _convert_exactly(names, expression.value, expression)
    raise names.error_at(expression.column, expected="expected a number", got=f"`{expression}`")


def _convert_exactly(names: NameResolver, value: int | float, expression: Expression) -> float:
    """A number as a float. A large integer that no float equals is refused, as it would compare wrongly."""
    if _is_exact(value):
        return float(value)
    rule = "integers must fit a 64-bit float exactly, as all up to 2**53 do"
    shown = value if abs(value) < MAX_SHOWN_INTEGER else "an integer of hundreds of digits"
    raise names.error_at(expression.column, expected=rule, got=f"`{expression}`, which can be {shown}")


def _is_exact(value: int | float) -> bool:
    """Whether a float equals a number."""
    try:
        return float(value) == value
    except OverflowError:
        return False


# Categories.


def scale_categories(
    names: NameResolver, left: Expression, right: Expression
) -> tuple[NumberEvaluator, NumberEvaluator]:
    """Both sides as positions in their domain; values that only the right domain has come after the left one's."""
    position: dict[Hashable, float] = {}
    for value in (*_list_domain(names, left), *_list_domain(names, right)):
        position.setdefault(_build_category_key(value), float(len(position)))
    return _bind_category(names, left, right, position), _bind_category(names, right, left, position)


def _bind_category(
    names: NameResolver, expression: Expression, other: Expression, position: Mapping[Hashable, float]
) -> NumberEvaluator:
    if isinstance(expression, Reference):
        numbers = [position[_build_category_key(value)] for value in _list_domain(names, expression)]
        return names.bind_reference(expression, numbers)
    if isinstance(expression, Literal) and _build_category_key(expression.value) in position:
        return ConstantValue(position[_build_category_key(expression.value)])
    rule = "expected a known value"
    if isinstance(other, Reference):
        rule = f"`{other}` must be {names.feature(other).describe()}"
    raise names.error_at(expression.column, expected=rule, got=f"`{expression}`")


def _list_domain(names: NameResolver, expression: Expression) -> Sequence[Value]:
    return names.feature(expression).values if isinstance(expression, Reference) else ()


def _build_category_key(value: Value) -> Hashable:
    """What equality of categories means: Python's, but ``true`` is not 1."""
    return isinstance(value, (bool, np.bool_)), value


# Dates.


def scale_dates(names: NameResolver, left: Expression, right: Expression) -> tuple[NumberEvaluator, NumberEvaluator]:
    """Both sides as ranks among all dates that either can be."""
    moments = {*_list_datetimes(names, left), *_list_datetimes(names, right)}
    if len({when.utcoffset() is None for when in moments}) > 1:
        rule = "dates must all have a time zone or all have none to be compared"
        raise names.error_at(right.column, expected=rule, got="dates with and without one")
    rank = {when: float(place) for place, when in enumerate(sorted(moments))}
    return _bind_date(names, left, rank), _bind_date(names, right, rank)


def _bind_date(names: NameResolver, expression: Expression, rank: Mapping[datetime, float]) -> NumberEvaluator:
    numbers = [rank[when] for when in _list_datetimes(names, expression)]
    return names.bind_reference(expression, numbers) if isinstance(expression, Reference) else ConstantValue(numbers[0])


def _list_datetimes(names: NameResolver, expression: Expression) -> list[datetime]:
    """The dates that an expression can be, in the order of its domain."""
    try:
        if isinstance(expression, Reference):
            return [_to_datetime(value) for value in names.feature(expression).values]
        text = expression.value if isinstance(expression, Literal) else None
        return [datetime.fromisoformat(text if isinstance(text, str) else "")]
    except ValueError:
        rule = 'a date must look like "2024-12-31"'
        raise names.error_at(expression.column, expected=rule, got=f"`{expression}`") from None


def _to_datetime(value: Value) -> datetime:
    """A date as the moment it begins, so that dates and times compare; ValueError where Python has no such moment."""
    if isinstance(value, np.datetime64):
        whole = value.astype("datetime64[us]")
        if whole != value or not isinstance(whole.item(), datetime):
            raise ValueError
        value = whole.item()
    return value if isinstance(value, datetime) else datetime.combine(value, time())


_SCALES = {ValueKind.NUMBER: scale_numbers, ValueKind.CATEGORY: scale_categories, ValueKind.DATE: scale_dates}


def bind_formula(names: NameResolver, formula: Formula) -> TruthEvaluator:
    """The meaning of a formula; ``in`` is several ``==`` joined by ``or``."""
    match formula:
        case Comparison():
            return _bind_comparison(names, formula)
        case Membership(expression, items, column):
            equalities = (Comparison(expression, Relation.EQUAL, item, column) for item in items)
            return DisjunctionEvaluator(tuple(_bind_comparison(names, equality) for equality in equalities))
        case Negation(operand):
            return NegationEvaluator(bind_formula(names, operand))
        case Conjunction(parts):
            return ConjunctionEvaluator(tuple(bind_formula(names, part) for part in parts))
        case Disjunction(parts):
            return DisjunctionEvaluator(tuple(bind_formula(names, part) for part in parts))
        case Implication(condition, consequence):
            fails = NegationEvaluator(bind_formula(names, condition))
            return DisjunctionEvaluator((fails, bind_formula(names, consequence)))


def _bind_comparison(names: NameResolver, comparison: Comparison) -> TruthEvaluator:
    left, relation, right = comparison.left, comparison.relation, comparison.right
    if _is_missing_literal(left) or _is_missing_literal(right):
        return _bind_missing_comparison(names, comparison)
    kind = _find_common_kind(names, comparison)
    if relation.orders:
        _require_order(names, comparison, kind)
    first, second = _SCALES[kind](names, left, right)
    return ComparisonEvaluator(first, relation, second)


def _bind_missing_comparison(names: NameResolver, comparison: Comparison) -> TruthEvaluator:
    """``cf.income == missing``, or the opposite."""
    expression = comparison.right if _is_missing_literal(comparison.left) else comparison.left
    if comparison.relation.orders:
        rule = "missing has no place in an order and can only be compared by == or !="
        raise names.error_at(comparison.column, expected=rule, got=comparison.relation.value)
    if not isinstance(expression, Reference):
        rule = "missing must be compared with a feature"
        raise names.error_at(expression.column, expected=rule, got=f"`{expression}`")
    evaluator = MissingEvaluator(names.bind_reference(expression, range(len(names.feature(expression).values))))
    return evaluator if comparison.relation is Relation.EQUAL else NegationEvaluator(evaluator)


def _find_common_kind(names: NameResolver, comparison: Comparison) -> ValueKind:
    """The kind of both sides; a literal takes the kind of the other side, and two literals must be numbers."""
    left, right = comparison.left, comparison.right
    kinds = [kind for kind in (_find_expression_kind(names, left), _find_expression_kind(names, right)) if kind]
    if len(set(kinds)) == 1:
        return kinds[0]
    if kinds:
        rule = "both sides of a comparison must be of the same kind"
        got = f"`{left}`, a {kinds[0].value}, and `{right}`, a {kinds[1].value}"
    elif all(isinstance(side, Literal) and side.is_number for side in (left, right)):
        return ValueKind.NUMBER
    else:
        rule, got = "one side of a comparison must be a feature", f"`{left}` and `{right}`"
    raise names.error_at(comparison.column, expected=rule, got=got)


def _find_expression_kind(names: NameResolver, expression: Expression) -> ValueKind | None:
    """The kind of an expression; None for a literal."""
    if isinstance(expression, Literal):
        return None
    return find_value_kind(names.feature(expression)) if isinstance(expression, Reference) else ValueKind.NUMBER


def _require_order(names: NameResolver, comparison: Comparison, kind: ValueKind) -> None:
    """Raise unless the features on both sides have an order, and categories the same one."""
    sides = [side for side in (comparison.left, comparison.right) if isinstance(side, Reference)]
    for side in sides:
        if not names.feature(side).ordered:
            raise names.error_at(
                side.column,
                expected=f"{comparison.relation.value} needs an ordered feature",
                got=f"{side.name!r}, which is nominal",
                hint="use ==, != or in",
            )
    domains = {side.name: names.feature(side) for side in sides}
    if kind is ValueKind.CATEGORY and len({feature.values for feature in domains.values()}) > 1:
        listed = " and ".join(f"{name!r} ({feature.describe()})" for name, feature in domains.items())
        rule = "ordered categories must have the same domain to be compared"
        raise names.error_at(comparison.column, expected=rule, got=listed)


def _is_missing_literal(expression: Expression) -> bool:
    return isinstance(expression, Literal) and expression.value is None


_NO_INSTANCE = np.empty(0, dtype=np.int64)


def bind_constraint(constraint: Constraint, features: Sequence[Feature]) -> Predicate:
    """Tie a constraint to features; raises ConstraintError if it names others, or asks of one what its kind cannot do.

    >>> from ironrule.space.constraints.parser import parse_constraint
    >>> income = Feature("income", (500, 1000, 2000), ordered=True, missing=True)
    >>> bind_constraint(parse_constraint("cf.income >= 2 * x.income or cf.income == missing"), [income]).columns
    (0,)
    """
    places = {feature.name: (index, feature) for index, feature in enumerate(features)}
    evaluator = bind_formula(NameResolver(constraint.text, places), constraint.formula)

    def columns(formula: Formula) -> tuple[int, ...]:
        return tuple(sorted(places[name][0] for name in collect_names(formula, Subject.POINT)))

    consequence = constraint.implication[1] if constraint.implication else constraint.formula
    return Predicate(constraint, tuple(features), columns(constraint.formula), columns(consequence), evaluator)


@dataclass(frozen=True, slots=True)
class Predicate:
    """A constraint bound to features. Call it with codes of points, and of the instance, to learn where it holds.

    ``columns`` are the features of the point that it reads; ``consequence_columns`` those that an ``if .. then ..``
    reads in its consequence, and all of them for any other constraint.
    """

    constraint: Constraint
    features: tuple[Feature, ...] = field(repr=False)
    columns: tuple[int, ...]
    consequence_columns: tuple[int, ...]
    evaluator: TruthEvaluator = field(repr=False, compare=False)

    def __call__(self, points: Integers, instance: Integers | None = None) -> BoolArray:
        """Where the constraint holds: one truth value per row of codes.

        Raises ConstraintError if the constraint speaks of the instance and none is given, or the shapes do not fit.
        """
        self._require_codes(points, "points", 2)
        if len(self.columns) == 1 and self.features[self.columns[0]].size <= len(points):
            index = self.columns[0]
            return self.holds_per_code(index, instance)[points[:, index]]
        return self._evaluate({index: points[:, index] for index in self.columns}, instance, len(points))

    def holds_per_code(self, feature_index: int, instance: Integers | None = None) -> BoolArray:
        """Truth for every code of a feature; raises ConstraintError unless the constraint reads exactly that one."""
        if self.columns != (feature_index,):
            read = ", ".join(self.features[index].name for index in self.columns) or "none"
            rule = "truth per code needs a constraint that reads exactly that feature of the point"
            raise ConstraintError(expected=rule, got=f"`{self.constraint}`, which reads {read}")
        size = self.features[feature_index].size
        return self._evaluate({feature_index: np.arange(size)}, instance, size)

    def _evaluate(self, points: Mapping[int, Integers], instance: Integers | None, count: int) -> BoolArray:
        if instance is not None:
            self._require_codes(instance, "the instance", 1)
        elif self.constraint.mentions_instance:
            raise ConstraintError(
                expected=f"`{self.constraint}` refers to x and needs an instance", got=describe_value(None)
            )
        with np.errstate(all="ignore"):
            holds = self.evaluator.evaluate(PredicateInput(points, _NO_INSTANCE if instance is None else instance))
        return np.array(np.broadcast_to(holds, (count,)))

    def _require_codes(self, codes: Integers, what: str, dimensions: int) -> None:
        fits = codes.ndim == dimensions and codes.shape[-1] == len(self.features)
        if not fits or not np.issubdtype(codes.dtype, np.integer):
            rule = f"{what} must be {dimensions}-dimensional integer codes, {len(self.features)} per row"
            raise ConstraintError(expected=rule, got=f"shape {codes.shape} of {codes.dtype}")
