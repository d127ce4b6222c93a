"""MinSetCover: the shortest rule that no past row contradicts (Rudin and Shaposhnik, "Globally-consistent rule-based
summary-explanations for machine learning models", 2019).

A rule is data consistent exactly if it hits the dual of every desired past row, so the shortest one is a minimum
hitting set of these duals: Rudin and Shaposhnik's minimum set cover, with past rows to be covered by the components
that exclude them. Often there are many of one length. Their second question asks for the one with most support, which
is the one that covers most past rows.

Nobody asks the model: what lies between the past rows is not looked at, so the rule may have exceptions there, and the
final check says so. Its length bounds that of every consistent rule all the same, since past rows are counterfactuals.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ironrule.rule.bits import pack, unpack
from ironrule.rule.duals import minimal
from ironrule.rule.hitting import MinimumHittingSet, light_hitting_sets, minimum_hitting_set
from ironrule.search.coverage import coverages
from ironrule.search.problem import Problem, Trail

Words = npt.NDArray[np.uint64]
FIRST_NODES, FIRST_LISTED = 1_000, 256  # of the first portions; the next ones grow


@dataclass(frozen=True, slots=True)
class Cover:
    """A rule that hits all demands.

    No rule that does weighs less than ``lower_bound``, in units. ``compared``: it is known that none of the same weight
    covers more past rows; False where that was not asked for, or a limit was reached first.
    """

    rule: int
    lower_bound: float
    compared: bool


class CoverSolver(Protocol):
    """Finds minimum covers."""

    def cover(self, problem: Problem, demands: Words, support: bool) -> Cover | None:
        """A rule of least weight, with ``support`` the one of them that covers most; None if nothing hits a demand."""
        ...


@dataclass(frozen=True, slots=True)
class HittingSets:
    """Our own branch and bound; with ``support``, all minimum covers are listed and compared.

    At most ``limit`` covers are listed, and neither search takes more than ``nodes`` nodes.
    """

    nodes: int = 2_000_000
    limit: int = 1 << 16

    def cover(self, problem: Problem, demands: Words, support: bool) -> Cover | None:
        """A rule of least weight; its lower bound is less than its weight where the nodes did not suffice."""
        shortest = self._shortest(problem, demands)
        if not shortest.feasible:
            return None
        rule = unpack(shortest.members[None, :])[0]
        if not support or not shortest.optimal:
            return Cover(rule, shortest.lower_bound, False)
        others, complete = self._listed(problem, demands, shortest.weight)
        rules = list(dict.fromkeys([rule, *others]))
        problem.meter.events["candidates"] += len(rules) - 1
        counts = coverages(problem.case, rules) if len(rules) > 1 else [0]
        _, best = min(zip(counts, rules, strict=True), key=lambda one: (-one[0], one[1]))
        return Cover(best, shortest.lower_bound, complete)

    def _shortest(self, problem: Problem, demands: Words) -> MinimumHittingSet:
        """In portions, so that a budget in time is kept."""
        nodes = min(FIRST_NODES, self.nodes)
        while True:
            problem.meter.check()
            found = minimum_hitting_set(demands, problem.weights, node_limit=nodes)
            if found.optimal or nodes >= self.nodes:
                return found
            nodes = min(4 * nodes, self.nodes)

    def _listed(self, problem: Problem, demands: Words, within: float) -> tuple[list[int], bool]:
        """The covers of a weight, and whether these are all."""
        nodes, limit = min(FIRST_NODES, self.nodes), min(FIRST_LISTED, self.limit)
        while True:
            problem.meter.check()
            found = light_hitting_sets(demands, problem.weights, within=within, limit=limit, node_limit=nodes)
            if found.complete or (nodes >= self.nodes and limit >= self.limit):
                return unpack(found.members) if len(found.members) else [], found.complete
            nodes, limit = min(8 * nodes, self.nodes), min(8 * limit, self.limit)


@dataclass(frozen=True, slots=True)
class MinSetCover:
    """The minimum set cover of the past; with ``support``, of several minimum ones the one that covers most past rows.

    Where ``solver`` reached its limit before it had compared them all, ``unlisted ties`` counts that in the meter.
    """

    solver: CoverSolver = field(default_factory=HittingSets)
    support: bool = True
    attempts: int = 1

    def run(self, problem: Problem, trail: Trail) -> list[int]:
        """The shortest rule that no past row contradicts; none if past rows contradict all that is allowed."""
        meter = problem.meter
        demands = _demands(problem)
        with meter.timed("hitting set"):
            meter.events["candidates"] += 1
            found = self.solver.cover(problem, demands, self.support)
        if found is None:
            return []
        meter.events["unlisted ties"] += self.support and not found.compared
        trail.best = [found.rule]
        trail.bound(found.lower_bound)
        return trail.best


def _demands(problem: Problem) -> Words:
    """What past rows and requirements demand; nothing else that may be known."""
    every = np.concatenate([problem.history.bits, pack(problem.required, problem.n)])
    return minimal(np.asarray(every & pack(problem.allowed, problem.n)))
