"""The one question that algorithms ask: is there a counterfactual in this box?

An oracle answers with a verdict on the rule whose box it is: ``Refuted`` with counterfactuals (up to k, diverse),
``Proven``, or ``Unrefuted``. An algorithm sees this protocol, never a concrete oracle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ironrule.model import History, Model
from ironrule.rule import Box, Counterfactual, Relevant
from ironrule.space import Feasible, Points, Space
from ironrule.verdict import Certificate, Cutting, Meter, Proven, Refuted, Verdict


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """The case at hand: one instance of a space, the model that denied it, the history, and what can occur."""

    space: Space
    model: Model
    history: History
    relevant: Relevant
    feasible: Feasible
    fingerprint: str = ""  # of the model, for certificates

    @property
    def instance(self) -> Points:
        """The row being explained."""
        return self.relevant.instance

    def refuted(self, points: Points) -> Refuted:
        """The verdict that follows from exceptions, the best one first."""
        return Refuted(Counterfactual.between(self.space, self.instance, points[0]), points)

    def proven(self, box: Box, points: int, covers: tuple[Cutting, ...] = ()) -> Proven:
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


class Witnesses(NamedTuple):
    """Counterfactuals that speak for all: every rule that excludes them is consistent. With their duals."""

    points: Points
    duals: npt.NDArray[np.uint64]


class Witnessing(Oracle, Protocol):
    """An oracle that can also name, at once, counterfactuals that speak for all."""

    def witnesses(self, case: Case) -> Witnesses | None:
        """Such counterfactuals; None if it knows none for this case."""
        ...
