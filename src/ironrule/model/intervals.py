"""Whole intervals instead of single values: a space in which nothing between two neighbouring values is left out.

A proof speaks of the values of a domain. Between two of them a model may tell more values apart.

- **Tests of trees.** Each asks whether its column lies above or below a threshold, and what prepares the column rises
  or falls with the feature: so every test changes its answer at one place at the most. That place is found exactly, by
  halving the stretch between two values of the domain until no number lies between, and the numbers on both sides of it
  join the domain.
- **Terms of sums** (linear and additive models). Where a sum passes zero depends on the other features, so no list has
  all such places. Of a whole number with at most ``MOST_WHOLE`` values between its extremes every value joins the
  domain. Of other numbers the terms must all rise or all fall in each way to the desired outcome: then no number is
  desired where both of its neighbours in the domain are not, and proofs hold for all numbers. Claims that need the
  exact place at which the decision turns are not made there (:mod:`ironrule.model.gaps`).
- **Constraints.** The constants that numbers are compared with join the domain, with the numbers next to them. Where
  two numbers are compared, or computed with, all their values must be in the domain.

Whole numbers stay whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.errors import ConstraintError
from ironrule.model.blackbox import layout_of
from ironrule.model.gaps import (
    Gaps,
    bound_of,
    comparisons,
    features_in_sums,
    gaps_of,
    is_number,
    is_whole,
    open_gaps,
    point_features,
)
from ironrule.model.readable import Read, groups_of
from ironrule.model.readers import intake_of
from ironrule.model.readers.additive import Itself, Scaled
from ironrule.model.readers.steps import require_monotone, split_steps
from ironrule.model.reading import Margin, Test, Unreadable, changes_once
from ironrule.model.seen import EXACT, seen_by
from ironrule.space import Feature, Space, Table
from ironrule.space.plaf.meaning import Compared

Ints = npt.NDArray[np.int64]
SIGN = np.int64(0x7FFFFFFFFFFFFFFF)
MOST_WHOLE = 4096
"""Whole numbers that a sum speaks of are all listed, if there are at most so many between the extremes."""


def between(space: Space, models: Sequence[Any], reads: Sequence[Read], table: Table) -> Space:
    """The space with every place added at which a model or a constraint tells numbers apart.

    Raises Unreadable if these are unknown, and ConstraintError if those of a constraint are.
    """
    values: list[set[Any]] = [set(feature.values) for feature in space.features]
    for model, read in zip(models, reads, strict=True):
        for place, feature in enumerate(_refined(space, model, read, table)):
            values[place] |= set(feature.values)
    for place, some in _constants(space):
        values[place] |= some
    for place in _listed(space, reads):
        first, *_, last = space.features[place].values
        values[place] = set(range(first, last + 1))
    changed = [len(some) > len(feature.values) for some, feature in zip(values, space.features, strict=True)]
    features = (
        replace(feature, values=tuple(sorted(some))) if more else feature
        for feature, some, more in zip(space.features, values, changed, strict=True)
    )
    refined = replace(space, features=tuple(features))
    _require_constraints_that_keep_to_values(refined, gaps_of(refined, reads))
    return refined


def _listed(space: Space, reads: Sequence[Read]) -> set[int]:
    """The features of which every whole number joins the domain."""
    wanted = {place for read in reads for place in features_in_sums(read)}
    for comparison in _comparisons(space):
        if bound_of(comparison) is None:
            wanted |= point_features(comparison)
    return {place for place in wanted if _can_be_listed(space.features[place])}


def _can_be_listed(feature: Feature) -> bool:
    whole = is_number(feature) and is_whole(feature) and len(feature.values) > 1
    return whole and feature.values[-1] - feature.values[0] < MOST_WHOLE


def _comparisons(space: Space) -> chain[Compared]:
    return chain.from_iterable(comparisons(predicate.test) for predicate in space.feasible.predicates)


def _constants(space: Space) -> list[tuple[int, set[Any]]]:
    """For features that constraints compare with a constant, the numbers on both sides of it, and the constant."""
    found = []
    for bound in map(bound_of, _comparisons(space)):
        if bound is None or not is_number(feature := space.features[bound.place.index]) or not feature.values:
            continue
        if math.isfinite(constant := bound.constant + 0.0):  # no negative zero
            near = _next_to(constant, is_whole(feature))
            found.append((bound.place.index, {v for v in near if feature.values[0] <= v <= feature.values[-1]}))
    return found


def _next_to(constant: float, whole: bool) -> set[Any]:
    if whole:
        floor, ceiling = math.floor(constant), math.ceil(constant)
        return {ceiling - 1, floor, ceiling, floor + 1}
    return {math.nextafter(constant, -math.inf), constant, math.nextafter(constant, math.inf)}


def _require_constraints_that_keep_to_values(space: Space, gaps: Gaps) -> None:
    """Raise ConstraintError if a constraint may hold between two values and at neither of them."""
    for predicate in space.feasible.predicates:
        if not gaps.respected_by([predicate]):
            tied = {place for one in comparisons(predicate.test) for place in point_features(one)}
            names = ", ".join(repr(space.features[place].name) for place in sorted(tied) if gaps.open[place].any())
            raise ConstraintError(
                expected=f"with intervals, a constraint must compare each number with a constant, or be about integers "
                f"with at most {MOST_WHOLE:,} values between their extremes",
                got=f"'{predicate.constraint}' about {names}",
                hint="leave intervals out, or write the constraint with constants",
            )


def _refined(space: Space, model: Any, read: Read, table: Table) -> list[Feature]:
    transform, final = split_steps(model)
    require_monotone(transform)
    _require_exact_between(space)
    _require_doubles(space, table)
    _require_straight_terms(space, read)
    layout = layout_of(model, table)
    stretches = [_stretch(feature, j, read) for j, feature in enumerate(space.features)]
    while any(stretch.open.any() for stretch in stretches):
        middles = [stretch.middles for stretch in stretches]
        features = [_with(feature, some) for feature, some in zip(space.features, middles, strict=True)]
        ends = np.array([max(len(some), 1) - 1 for some in middles], dtype=np.int32)
        points = np.minimum(np.arange(ends.max() + 1, dtype=np.int32)[:, None], ends)
        laid = layout(features)
        seen = seen_by(transform, laid.decode(points), intake_of(final), laid.names)
        for stretch in stretches:
            stretch.halve(seen)
    return [stretch.refined for stretch in stretches]


def _with(feature: Feature, values: npt.NDArray[Any]) -> Feature:
    return replace(feature, values=tuple(values.tolist()), missing=False) if len(values) else feature


def _require_exact_between(space: Space) -> None:
    """Between whole numbers beyond 2**53 there are some that float64 cannot hold, even where it holds both."""
    for feature in space.features:
        if is_number(feature) and is_whole(feature) and not all(-EXACT <= value <= EXACT for value in feature.values):
            raise Unreadable(
                f"feature {feature.name!r} has whole numbers beyond 2**53, and float64 cannot hold all those in "
                f"between; make it a string if it is an identifier, or rescale it (seconds instead of nanoseconds)"
            )


def _require_doubles(space: Space, table: Table) -> None:
    """A column of a shorter type cannot hold the numbers on both sides of a threshold."""
    for feature in filter(is_number, space.features):
        kind = table.column(feature.columns[0]).values.dtype
        if kind.kind == "f" and kind != np.float64:
            raise Unreadable(
                f"feature {feature.name!r} comes as {kind}, which does not hold every number in between; convert the "
                f"column to float64"
            )


def _require_straight_terms(space: Space, read: Read) -> None:
    """Terms of numbers that are not all listed must rise or fall all the way, and in one direction for each way to the
    desired outcome; else a number could be desired although its neighbours in the domain are not.
    """
    for place in sorted(features_in_sums(read) - _listed(space, [read])):
        feature = space.features[place]
        if not open_gaps(feature).any():
            continue
        for term in (term for group in groups_of(read.sums) for term in group.terms):
            straight = isinstance(term.of, Scaled) and isinstance(term.of.shape, Itself)
            if read.columns.features[term.column] == place and not straight:
                raise Unreadable(f"what it adds for {feature.name!r} may be more between two values than at both")
        for margins in read.sums.alternatives:
            if len(_directions(read, margins, place, len(feature.values))) > 1:
                raise Unreadable(
                    f"what it adds for {feature.name!r} rises in one sum and falls in another, so that its decision "
                    f"may turn twice between two values"
                )


def _directions(read: Read, margins: Sequence[Margin], place: int, values: int) -> set[int]:
    """Whether the terms of a feature with so many values rise (1) or fall (-1) with it, over all sums of one way to the
    desired outcome.
    """
    found = set()
    for group in (group for margin in margins for group in margin.groups):
        factors: dict[int, list[float]] = {}
        for term in group.terms:
            if read.columns.features[term.column] == place and isinstance(term.of, Scaled):
                factors.setdefault(term.column, []).append(term.of.factor)
        for column, some in factors.items():
            seen = np.asarray(read.columns.values[column][:values], dtype=np.float64)  # missing comes after them
            found |= {int(np.sign(math.fsum(some)) * np.sign(seen[-1] - seen[0]))} - {0}
    return found


@dataclass(slots=True, eq=False)
class _Stretch:
    """For the tests of one feature, the numbers between which each changes its answer."""

    feature: Feature
    tests: list[Test]
    low: Ints  # as whole numbers in the same order
    high: Ints
    first: npt.NDArray[np.bool_]  # the answer at the lower end

    @property
    def open(self) -> npt.NDArray[np.bool_]:
        """Which tests have numbers left between."""
        return np.asarray(self.high > self.low + 1)  # a difference of numbers on both sides of zero could overflow

    @property
    def _middle(self) -> Ints:
        return (self.low & self.high) + ((self.low ^ self.high) >> 1)

    @property
    def middles(self) -> npt.NDArray[Any]:
        """The numbers to look at next, each once."""
        return self._numbers(np.unique(self._middle))

    def _numbers(self, places: Ints) -> npt.NDArray[Any]:
        return places if is_whole(self.feature) else _as_floats(places)

    def halve(self, seen: npt.NDArray[Any]) -> None:
        """Take the half in which each test changes its answer."""
        middle, opened = self._middle, self.open
        row = np.searchsorted(np.unique(middle), middle)
        for place in np.flatnonzero(opened).tolist():
            test = self.tests[place]
            answer = test.goes_left(seen[row[place] : row[place] + 1, test.column])[0]
            (self.low if answer == self.first[place] else self.high)[place] = middle[place]

    @property
    def refined(self) -> Feature:
        """The feature with the numbers on both sides of every change."""
        if not self.tests:
            return self.feature
        found = self._numbers(np.concatenate([self.low, self.high])).tolist()
        return replace(self.feature, values=tuple(sorted({*self.feature.values, *found})))


def _stretch(feature: Feature, j: int, read: Read) -> _Stretch:
    """Where in the domain each test of a feature changes its answer."""
    places = _places(feature) if is_number(feature) else np.zeros(0, dtype=np.int64)
    tests, first = [], []
    ends: list[tuple[int, int]] = []
    for test in _tests_of(read, j) if len(places) else ():
        answers = test.goes_left(read.columns.values[test.column])[: len(places)]
        changes = np.flatnonzero(answers[1:] != answers[:-1]).tolist()
        if len(changes) > 1 or not changes_once(test):
            raise Unreadable(f"it tells single values of {feature.name!r} apart, not only lower from higher ones")
        if changes:
            tests.append(test)
            first.append(bool(answers[0]))
            ends.append((int(places[changes[0]]), int(places[changes[0] + 1])))
    low, high = np.array(ends, dtype=np.int64).reshape(-1, 2).T
    return _Stretch(feature, tests, low.copy(), high.copy(), np.array(first, dtype=np.bool_))


def _tests_of(read: Read, j: int) -> list[Test]:
    groups = groups_of(read.sums)
    trees = (tree for group in groups for tree in group.trees)
    distinct = dict.fromkeys(test for tree in trees for test in tree.tests if test is not None)
    return [test for test in distinct if read.columns.features[test.column] == j]


def _places(feature: Feature) -> Ints:
    """The values as whole numbers in the same order, neighbours for neighbouring numbers."""
    if is_whole(feature):
        return np.array(feature.values, dtype=np.int64)
    bits = (np.array(feature.values, dtype=np.float64) + 0.0).view(np.int64)  # no negative zero
    return np.asarray(bits ^ ((bits >> 63) & SIGN))


def _as_floats(places: Ints) -> npt.NDArray[np.float64]:
    return np.asarray((places ^ ((places >> 63) & SIGN)).view(np.float64))
