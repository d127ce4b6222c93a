"""A constraint bound to features: truth for whole arrays of codes.

The cost of a call is per part of the constraint, not per point: every part is one NumPy operation. A constraint on one
feature costs one lookup per point, since it is evaluated on the feature's codes instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ironrule.errors import ConstraintError
from ironrule.space.feature import Feature
from ironrule.space.plaf.binding import bind_formula
from ironrule.space.plaf.constraint import Constraint, names
from ironrule.space.plaf.meaning import Codes, Integers, Test, Truths
from ironrule.space.plaf.naming import Names
from ironrule.space.plaf.syntax import Formula, Subject

_NO_INSTANCE = np.empty(0, dtype=np.int64)


def bind(constraint: Constraint, features: Sequence[Feature]) -> Predicate:
    """Tie a constraint to features; raises ConstraintError if it names others, or asks of one what its kind cannot do.

    >>> from ironrule.space.plaf.grammar import parse
    >>> income = Feature("income", (500, 1000, 2000), ordered=True, missing=True)
    >>> bind(parse("cf.income >= 2 * x.income or cf.income == missing"), [income]).columns
    (0,)
    """
    places = {feature.name: (index, feature) for index, feature in enumerate(features)}
    test = bind_formula(Names(constraint.text, places), constraint.formula)

    def columns(formula: Formula) -> tuple[int, ...]:
        return tuple(sorted(places[name][0] for name in names(formula, Subject.POINT)))

    consequence = constraint.implication[1] if constraint.implication else constraint.formula
    return Predicate(constraint, tuple(features), columns(constraint.formula), columns(consequence), test)


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
    test: Test = field(repr=False, compare=False)

    def __call__(self, points: Integers, instance: Integers | None = None) -> Truths:
        """Where the constraint holds: one truth value per row of codes.

        Raises ConstraintError if the constraint speaks of the instance and none is given, or the shapes do not fit.
        """
        self._require_codes(points, "points", 2)
        if len(self.columns) == 1 and self.features[self.columns[0]].size <= len(points):
            index = self.columns[0]
            return self.holds_per_code(index, instance)[points[:, index]]
        return self._evaluate({index: points[:, index] for index in self.columns}, instance, len(points))

    def holds_per_code(self, feature_index: int, instance: Integers | None = None) -> Truths:
        """Truth for every code of a feature; raises ConstraintError unless the constraint reads exactly that one."""
        if self.columns != (feature_index,):
            read = ", ".join(self.features[index].name for index in self.columns) or "none"
            raise ConstraintError(
                expected="truth per code needs a constraint that reads exactly that feature of the point",
                got=f"`{self.constraint}`, which reads {read}",
            )
        size = self.features[feature_index].size
        return self._evaluate({feature_index: np.arange(size)}, instance, size)

    def _evaluate(self, points: Mapping[int, Integers], instance: Integers | None, count: int) -> Truths:
        if instance is not None:
            self._require_codes(instance, "the instance", 1)
        elif self.constraint.mentions_instance:
            raise ConstraintError(expected=f"`{self.constraint}` refers to x and needs an instance", got=repr(None))
        with np.errstate(all="ignore"):
            holds = self.test.holds(Codes(points, _NO_INSTANCE if instance is None else instance))
        return np.array(np.broadcast_to(holds, (count,)))

    def _require_codes(self, codes: Integers, what: str, dimensions: int) -> None:
        fits = codes.ndim == dimensions and codes.shape[-1] == len(self.features)
        if not fits or not np.issubdtype(codes.dtype, np.integer):
            raise ConstraintError(
                expected=f"{what} must be {dimensions}-dimensional integer codes, {len(self.features)} per row",
                got=f"shape {codes.shape} of {codes.dtype}",
            )
