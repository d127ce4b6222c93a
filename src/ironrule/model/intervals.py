"""Whole intervals instead of single values: a space in which nothing between two neighbouring values is left out.

A proof speaks of the values of a domain. Between two of them a model's tests may tell more values apart. But each test
asks whether its column lies above or below a threshold, and what prepares the column rises or falls with the feature:
so every test changes its answer at one place at the most. That place is found exactly, by halving the stretch between
two values of the domain until no number lies between, and the numbers on both sides of it join the domain. Afterwards
any number between the feature's extremes is decided like a value of the domain, and where columns are added up (linear
models) its contribution lies between those of its neighbours. Whole numbers stay whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.model.blackbox import layout_of
from ironrule.model.readable import Read, groups_of
from ironrule.model.readers import intake_of
from ironrule.model.readers.additive import Itself, Scaled
from ironrule.model.readers.steps import require_monotone, split_steps
from ironrule.model.reading import Test, Unreadable, changes_once
from ironrule.model.seen import EXACT, seen_by
from ironrule.space import Feature, Space, Table

Ints = npt.NDArray[np.int64]
SIGN = np.int64(0x7FFFFFFFFFFFFFFF)


def between(space: Space, models: Sequence[Any], reads: Sequence[Read], table: Table) -> Space:
    """The space with every place added at which a model tells numbers apart; raises Unreadable if these are unknown."""
    values: list[set[Any]] = [set(feature.values) for feature in space.features]
    for model, read in zip(models, reads, strict=True):
        for place, feature in enumerate(_refined(space, model, read, table)):
            values[place] |= set(feature.values)
    changed = [len(some) > len(feature.values) for some, feature in zip(values, space.features, strict=True)]
    features = (
        replace(feature, values=tuple(sorted(some))) if more else feature
        for feature, some, more in zip(space.features, values, changed, strict=True)
    )
    return replace(space, features=tuple(features))


def _refined(space: Space, model: Any, read: Read, table: Table) -> list[Feature]:
    transform, final = split_steps(model)
    require_monotone(transform)
    _require_exact_between(space)
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
        if _numbered(feature) and _whole(feature) and not all(-EXACT <= value <= EXACT for value in feature.values):
            raise Unreadable(
                f"feature {feature.name!r} has whole numbers beyond 2**53, and float64 cannot hold all those in "
                f"between; make it text if it is an identifier, or rescale it (seconds instead of nanoseconds)"
            )


def _require_straight_terms(space: Space, read: Read) -> None:
    """Terms of numbers must rise or fall all the way, so that between two values they add something in between."""
    groups = groups_of(read.sums)
    for term in (term for group in groups for term in group.terms):
        feature = space.features[int(read.columns.features[term.column])]
        straight = isinstance(term.of, Scaled) and isinstance(term.of.shape, Itself)
        if _numbered(feature) and not straight:
            raise Unreadable(f"what it adds for {feature.name!r} may be more between two values than at both")


def _numbered(feature: Feature) -> bool:
    return feature.ordered and feature.numeric and feature.natural and not feature.one_hot


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
        return np.asarray(self.high - self.low > 1)

    @property
    def _middle(self) -> Ints:
        return (self.low & self.high) + ((self.low ^ self.high) >> 1)

    @property
    def middles(self) -> npt.NDArray[Any]:
        """The numbers to look at next, each once."""
        return self._numbers(np.unique(self._middle))

    def _numbers(self, places: Ints) -> npt.NDArray[Any]:
        return places if _whole(self.feature) else _as_floats(places)

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
    places = _places(feature) if _numbered(feature) else np.zeros(0, dtype=np.int64)
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
    if _whole(feature):
        return np.array(feature.values, dtype=np.int64)
    bits = (np.array(feature.values, dtype=np.float64) + 0.0).view(np.int64)  # no negative zero
    return np.asarray(bits ^ ((bits >> 63) & SIGN))


def _as_floats(places: Ints) -> npt.NDArray[np.float64]:
    return np.asarray((places ^ ((places >> 63) & SIGN)).view(np.float64))


def _whole(feature: Feature) -> bool:
    return all(isinstance(value, int) for value in feature.values)
