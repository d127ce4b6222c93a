"""The problem that every algorithm solves, and what it hands back.

Rules are integers here: bit i stands for component i (see :mod:`ironrule.rule.relevant`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ironrule.oracles.memory import Remembering
from ironrule.oracles.protocol import Case
from ironrule.rule.bits import members, pack
from ironrule.rule.duals import DistinctDuals, PastDuals, duals_of, hits_all, minimal
from ironrule.rule.units import are_units
from ironrule.rule.weights import Number, times
from ironrule.space import Points
from ironrule.verdict import Meter, Refuted, Verdict


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Find short consistent rules for the instance of a case.

    ``allowed`` are the components that may be used, each of ``required`` a set of which at least one must be;
    ``history`` holds the distinct duals of the desired past rows. ``weights`` are whole multiples of ``unit`` that add
    up to less than 2**53 (:mod:`ironrule.rule.weights`); searches count in this unit, and their sums are exact.
    """

    case: Case
    oracle: Remembering
    history: DistinctDuals | PastDuals
    allowed: int
    required: tuple[int, ...]
    weights: npt.NDArray[np.float64]
    k: int
    meter: Meter
    rng: np.random.Generator
    unit: Fraction = Fraction(1)

    @property
    def n(self) -> int:
        """The number of features."""
        return len(self.case.space)

    def weight(self, rule: int) -> float:
        """The cardinality of a rule, weights counted in units."""
        if are_units(self.weights) or (self.weights == 1.0).all():
            return float(rule.bit_count())
        return float(sum(self.weights[bit] for bit in members(rule)))

    def in_user_terms(self, weight: float) -> Number:
        """What so many units are, exactly."""
        return times(weight, self.unit)

    def ask(self, rule: int, k: int | None = None) -> Verdict:
        """The oracle's verdict on a rule, with up to k counterfactuals; a rule is asked about once."""
        return self.oracle.find(self.case, self.case.relevant.box(rule), k or self.k, self.meter, self.rng)

    def try_for(self, share: float, rule: int, k: int | None = None) -> Verdict:
        """The same with a share of the patience that the oracle usually has; what it left undecided is tried anew."""
        return self.oracle.try_for(share, self.case, self.case.relevant.box(rule), k or self.k, self.meter, self.rng)

    def exceptions(self, rule: int) -> Refuted | None:
        """What counterfactuals found so far and past rows say against a rule, if anything; nobody is asked."""
        box, points = self.case.relevant.box(rule), self.oracle.points
        inside = np.empty((0, self.n), dtype=np.int32) if points is None else points[box.contains(points)]
        if len(inside) == 0 and not hits_all(pack(rule, self.n), self.history.bits)[0]:
            past = self.case.history.desired
            rows = np.flatnonzero(past.inside(box.low, box.high, self.case.space.sizes))
            inside = np.unique(past.points(rows[: self.k]), axis=0)
        return self.case.refuted(inside[: self.k]) if len(inside) else None

    def duals(self, points: Points) -> npt.NDArray[np.uint64]:
        """What counterfactuals demand of a rule, restricted to what may be used."""
        relevant = self.case.relevant
        return np.asarray(duals_of(points, relevant.low, relevant.high) & pack(self.allowed, self.n))

    def all_demands(self) -> npt.NDArray[np.uint64] | None:
        """All that a rule must hit to be consistent, where the oracle can name counterfactuals that speak for all."""
        witnesses = self.oracle.witnesses(self.case, self.meter)
        if witnesses is None or (not self.required and self.allowed == self.case.relevant.usable):
            return None if witnesses is None else witnesses.duals
        return np.concatenate([witnesses.duals, pack(self.required, self.n)]) & pack(self.allowed, self.n)

    def demands(self, past: bool = True) -> npt.NDArray[np.uint64]:
        """What is known that a consistent rule must hit: requirements, counterfactuals found, and desired past rows."""
        known = [pack(self.required, self.n), *([self.history.bits] if past else [])]
        if self.oracle.points is not None:
            known.append(duals_of(self.oracle.points, self.case.relevant.low, self.case.relevant.high))
        return minimal(np.asarray(np.concatenate(known) & pack(self.allowed, self.n)))

    def meets(self, rule: int) -> bool:
        """Whether the rule has one of each required set."""
        return all(rule & some for some in self.required)

    def words(self, rule: int) -> npt.NDArray[np.uint64]:
        """A rule as a row of words."""
        return np.asarray(pack(rule, self.n)[0])


@dataclass(slots=True)
class Trail:
    """What a search has at any moment, for the case that it is stopped."""

    best: list[int] = field(default_factory=list)
    lower_bound: float = 0.0  # no consistent rule weighs less, in units
    needing: npt.NDArray[np.uint64] | None = None  # the demands by which that was shown
    checked: dict[int, Verdict] = field(default_factory=dict)  # rules that the search ended with, checked since

    def bound(self, weight: float, needing: npt.NDArray[np.uint64] | None = None) -> None:
        """Note a lower bound, and the demands by which it was shown, unless a better one is known."""
        if weight > self.lower_bound:
            self.lower_bound, self.needing = weight, needing


class Algorithm(Protocol):
    """A search for rules."""

    def run(self, problem: Problem, trail: Trail) -> list[int]:
        """The best rules found, best first; ``trail.best`` is kept up to date on the way."""
        ...

    @property
    def attempts(self) -> int:
        """How often a rule that a final check refutes may be replaced by searching on."""
        ...


def joined(known: npt.NDArray[np.uint64], new: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The inclusion-minimal rows of both, if those of ``known`` are so among themselves and ``new`` ones are few."""
    for row in new:
        if not ((known & ~row) == 0).all(axis=1).any():
            known = np.concatenate([known[(row & ~known).any(axis=1)], row[None, :]])
    return known
