"""Numbers between the values of a domain: where they are, and which claims they leave standing.

With whole intervals a feature may be any number between its smallest and its largest value, but its domain is a list.
Two neighbours of the list that have further numbers between them enclose a *gap*.

- No test of a tree changes its answer inside a gap, so trees decide there as they do at both ends.
- What a sum adds for the number (a term) lies between what it adds at the two ends. So if some number in a gap has the
  desired outcome, an end of the gap has it too: proofs hold for all numbers. But where exactly the decision turns is
  not known. A rule's bound may move into the gap, and a counterfactual in it may be nearer than one at its end.
- A constraint may hold inside a gap and at neither end. Then nothing follows from the values of the domain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ironrule.model.readable import Read, groups_of
from ironrule.space import Feature, Points, Space
from ironrule.space.plaf import Predicate
from ironrule.space.plaf.meaning import Codes, Compared, Computed, Every, OfPoint, Opposite, Quantity, Some, Test
from ironrule.space.plaf.syntax import Relation

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

MIRRORED = {
    Relation.EQUAL: Relation.EQUAL,
    Relation.DIFFERENT: Relation.DIFFERENT,
    Relation.LESS: Relation.GREATER,
    Relation.AT_MOST: Relation.AT_LEAST,
    Relation.GREATER: Relation.LESS,
    Relation.AT_LEAST: Relation.AT_MOST,
}
NEGATED = {
    Relation.EQUAL: Relation.DIFFERENT,
    Relation.DIFFERENT: Relation.EQUAL,
    Relation.LESS: Relation.AT_LEAST,
    Relation.AT_MOST: Relation.GREATER,
    Relation.GREATER: Relation.AT_MOST,
    Relation.AT_LEAST: Relation.LESS,
}


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """The gaps of every feature: for every value but the last, whether numbers lie between it and the next one."""

    open: tuple[Mask, ...]
    in_sums: tuple[bool, ...]  # per feature, whether a term of the model speaks of it

    @property
    def turning(self) -> tuple[Mask, ...]:
        """The gaps in which the decision may turn."""
        return tuple(gaps & summed for gaps, summed in zip(self.open, self.in_sums, strict=True))

    def may_turn_within(self, low: Points, high: Points) -> bool:
        """Whether the decision may turn in a gap of a box."""
        ends = zip(self.turning, low.tolist(), high.tolist(), strict=True)
        return any(bool(gaps[first:last].any()) for gaps, first, last in ends)

    def may_turn_after(self, feature: int, code: int) -> bool:
        """Whether the decision may turn in the gap between a value and the next one."""
        return bool(self.turning[feature][code])

    def respected_by(self, predicates: Sequence[Predicate], instance: Points | None = None) -> bool:
        """Whether each constraint that holds for a number in a gap also holds at both ends of the gap."""
        return all(self._respected(predicate.test, instance) for predicate in predicates)

    def _respected(self, test: Test, instance: Points | None, negated: bool = False) -> bool:
        match test:
            case Compared():
                return self._compares_at_values(test, instance, negated)
            case Opposite(inner):
                return self._respected(inner, instance, not negated)
            case Every(tests) | Some(tests):
                return all(self._respected(one, instance, negated) for one in tests)
            case _:  # whether a value is missing: no number is
                return True

    def _compares_at_values(self, comparison: Compared, instance: Points | None, negated: bool) -> bool:
        if not any(self.open[index].any() for index in point_features(comparison)):
            return True
        bound = bound_of(comparison, instance)
        if bound is None:
            return False
        relation = NEGATED[bound.relation] if negated else bound.relation
        return _holds_at_ends(bound.place.table, relation, bound.constant, self.open[bound.place.index])


def gaps_of(space: Space, reads: Sequence[Read]) -> Gaps:
    """The gaps of a space of whole intervals; ``reads`` are the models, read over the same features."""
    opened = tuple(open_gaps(feature) for feature in space.features)
    summed = set().union(*map(features_in_sums, reads))
    return Gaps(opened, tuple(j in summed for j in range(len(space))))


def features_in_sums(read: Read) -> set[int]:
    """The features that a term of a model speaks of; a column that is the same everywhere is of none."""
    columns = {term.column for group in groups_of(read.sums) for term in group.terms}
    varying = (column for column in columns if (read.columns.values[column] != read.columns.values[column][0]).any())
    return {int(read.columns.features[column]) for column in varying}


def is_number(feature: Feature) -> bool:
    """Whether a feature is a number that may lie between the values of its domain."""
    return feature.ordered and feature.numeric and feature.natural and not feature.one_hot


def is_whole(feature: Feature) -> bool:
    """Whether all values of a feature are whole numbers."""
    return all(isinstance(value, int) for value in feature.values)


def open_gaps(feature: Feature) -> Mask:
    """For every value of a feature but the last, whether numbers lie between it and the next one."""
    count = max(len(feature.values) - 1, 0)
    if not is_number(feature):
        return np.zeros(count, dtype=np.bool_)
    if is_whole(feature):
        pairs = zip(feature.values, feature.values[1:], strict=False)
        return np.array([high - low > 1 for low, high in pairs], dtype=np.bool_)
    values = np.array(feature.values, dtype=np.float64) + 0.0  # no negative zero
    return np.asarray(np.nextafter(values[:-1], np.inf) < values[1:], dtype=np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """A comparison of one feature with a constant."""

    place: OfPoint
    relation: Relation
    constant: float


def bound_of(comparison: Compared, instance: Points | None = None) -> Bound | None:
    """A comparison as one of a single feature with a constant, which may be a value of the instance; None if it is
    another.
    """
    left, relation, right = comparison.left, comparison.relation, comparison.right
    if isinstance(right, OfPoint):
        left, relation, right = right, MIRRORED[relation], left
    if not isinstance(left, OfPoint) or any(_places(right)):
        return None
    with np.errstate(all="ignore"):
        constant = right.measure(Codes({}, np.empty(0, dtype=np.int64) if instance is None else instance))
    return Bound(left, relation, float(constant))


def _holds_at_ends(values: Floats, relation: Relation, constant: float, gaps: Mask) -> bool:
    """Whether a comparison that holds for a number in a gap also holds at both ends of the gap."""
    if np.isnan(constant):  # a comparison with missing is the same for all numbers
        return True
    low, high = values[: len(gaps)][gaps], values[1 : len(gaps) + 1][gaps]
    inside = bool(((low < constant) & (constant < high)).any())
    below = bool((high == constant).any()) and relation in (Relation.LESS, Relation.DIFFERENT)
    above = bool((low == constant).any()) and relation in (Relation.GREATER, Relation.DIFFERENT)
    return not (inside or below or above)


def comparisons(test: Test) -> Iterator[Compared]:
    """Every comparison in a constraint."""
    match test:
        case Compared():
            yield test
        case Opposite(inner):
            yield from comparisons(inner)
        case Every(tests) | Some(tests):
            for one in tests:
                yield from comparisons(one)


def point_features(comparison: Compared) -> set[int]:
    """The features of the point that a comparison reads."""
    return {place.index for side in (comparison.left, comparison.right) for place in _places(side)}


def _places(quantity: Quantity) -> Iterator[OfPoint]:
    """Where a quantity reads the point."""
    if isinstance(quantity, OfPoint):
        yield quantity
    elif isinstance(quantity, Computed):
        for part in (quantity.first, *(part for _, part in quantity.steps)):
            yield from _places(part)
