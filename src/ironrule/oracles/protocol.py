"""The one question that algorithms ask: is there a counterfactual in this box?

An oracle answers with a verdict on the rule whose box it is: ``Refuted`` with counterfactuals (up to k, diverse),
``Proven``, or ``Unrefuted``. An algorithm sees this protocol, never a concrete oracle.

Many searches find one counterfactual at a time. :func:`find_disjoint_counterfactuals` turns such a search into one for
k of them: the next one is sought in the part of the box where every component of the duals found so far holds. So all
duals are disjoint, and a hitting set needs one component for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from ironrule.arrays import Points
from ironrule.model.history import History
from ironrule.model.protocol import Model
from ironrule.rule.box import Box
from ironrule.rule.counterfactual import Counterfactual
from ironrule.rule.instance_components import InstanceComponents
from ironrule.space.constraints.feasible import FeasibleRegion
from ironrule.space.space import Space
from ironrule.verdict.budget import Meter
from ironrule.verdict.certificate import Certificate, CoverSource
from ironrule.verdict.verdict import Proven, Refuted, Verdict


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """The case at hand: one instance of a space, the model that denied it, the history, and what can occur."""

    space: Space
    model: Model
    history: History
    components: InstanceComponents
    feasible: FeasibleRegion
    fingerprint: str = ""  # of the model, for certificates

    @property
    def instance(self) -> Points:
        """The row being explained."""
        return self.components.instance

    def build_refuted(self, points: Points) -> Refuted:
        """The verdict that follows from exceptions, the best one first."""
        return Refuted(Counterfactual.from_point(self.space, self.instance, points[0]), points)

    def build_proven(self, box: Box, points: int, covers: tuple[CoverSource, ...] = ()) -> Proven:
        """The verdict on a box without exceptions: covered by pieces, or every one of its points asked about."""
        low, high = (tuple(codes.tolist()) for codes in (box.low, box.high))
        method: Literal["cover", "enumeration"] = "cover" if covers else "enumeration"
        scope = (self.space.fingerprint, self.fingerprint)
        return Proven(Certificate(method, points, *scope, low, high, covers))


class Oracle(Protocol):
    """Answers whether a box contains a counterfactual."""

    def find(self, case: Case, box: Box, k: int, meter: Meter, rng: np.random.Generator) -> Verdict:
        """``Refuted`` with up to ``k`` counterfactuals in it, ``Proven`` if there is none, ``Unrefuted`` if unsure."""
        ...


class PointFinder(Protocol):
    """A search for one counterfactual in a box, which ends early."""

    def __call__(self, case: Case, box: Box, meter: Meter, rng: np.random.Generator, /) -> object:
        """A point, or anything else if it has found none."""
        ...


def find_disjoint_counterfactuals(
    first: Points, find: PointFinder, case: Case, box: Box, k: int, meter: Meter, rng: np.random.Generator
) -> Points:
    """A counterfactual and up to k - 1 more whose duals are disjoint."""
    found, here = [first], box
    # `here` shrinks: each turn keeps only the points that satisfy all components of the last dual. A point found
    # there has none of these components in its own dual, so all duals are disjoint.
    while len(found) < k:
        here = _restrict_to_dual(case, here, found[-1])
        if (here.low > here.high).any():  # a box without the instance need not hold what satisfies a dual
            break
        another = find(case, here, meter, rng)
        if not isinstance(another, np.ndarray):
            break
        found.append(another)
    return np.stack(found)


def _restrict_to_dual(case: Case, box: Box, point: Points) -> Box:
    """The part of a box that satisfies every component of the point's dual."""
    components = case.components
    # Components 2j and 2j + 1 belong to feature j, so each code is compared twice. A component that is false on the
    # point restricts the box to the codes it admits; the others restrict nothing.
    doubled = np.repeat(point, 2)
    false = (doubled < components.low) | (doubled > components.high)
    low = np.where(false, components.low, 0).reshape(-1, 2).max(axis=1)
    high = np.where(false, components.high, np.iinfo(np.int32).max).reshape(-1, 2).min(axis=1)
    return Box(np.maximum(box.low, low).astype(np.int32), np.minimum(box.high, high).astype(np.int32))
