"""The minimum rule, by implicit hitting sets.

A rule is consistent exactly if it hits the dual of every counterfactual. So take a hitting set of the duals known so
far and ask an exact oracle: if it has counterfactuals, add their duals and repeat. A *minimum* hitting set that is
proven consistent is a minimum rule, because every consistent rule hits the known duals too (Reiter 1987; for
explanations Ignatiev, Narodytska and Marques-Silva 2019). Minimum ones are dear, so first any quick one is refuted as
long as that works (Davies and Bacchus 2011): it gathers duals cheaply, and ends with a consistent rule, which is
reduced and bounds the rest from above.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ironrule.rule.bits import unpack
from ironrule.rule.duals import minimal
from ironrule.rule.hitting import minimum_hitting_set
from ironrule.search.extend import reduced
from ironrule.search.problem import Problem, Trail
from ironrule.verdict import Refuted

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Minimum:
    """The implicit hitting set search; ``nodes`` bounds the work on one hitting set.

    With an exact oracle its rule is proven and minimum. With one that only searches it is the shortest that nothing
    found refutes; the bound on the cardinality holds all the same, since it rests on counterfactuals alone.
    """

    nodes: int = 2_000_000
    attempts: int = 20

    def run(self, problem: Problem, trail: Trail) -> list[int]:
        """A rule of least weight; the shortest proven one so far if the search is stopped."""
        everything = problem.all_demands()
        if everything is not None:
            return self._hit_all(problem, trail, everything)
        demands = problem.demands()
        while True:
            demands = self._with_quick_sets(problem, trail, demands)
            if len(demands) and not demands.any(axis=1).all():
                return []
            trail.lower_bound = packed_bound(demands, problem.weights)
            if trail.best and problem.weight(trail.best[0]) <= trail.lower_bound:
                return trail.best
            with problem.meter.timed("hitting set"):
                problem.meter.events["candidates"] += 1
                shortest = minimum_hitting_set(demands, problem.weights, node_limit=self.nodes)
            rule = unpack(shortest.members[None, :])[0]
            trail.lower_bound = max(trail.lower_bound, shortest.lower_bound)
            if trail.best and problem.weight(trail.best[0]) <= shortest.lower_bound:
                return trail.best
            with problem.meter.timed("oracle"):
                verdict = problem.ask(rule)
            if not isinstance(verdict, Refuted):
                trail.best = [rule]
                return trail.best
            demands = minimal(np.concatenate([demands, problem.duals(verdict)]))

    def _hit_all(self, problem: Problem, trail: Trail, demands: Words) -> list[int]:
        """Where all demands are known, one hitting set is the answer; the oracle confirms it."""
        with problem.meter.timed("hitting set"):
            problem.meter.events["candidates"] += 1
            shortest = minimum_hitting_set(demands, problem.weights, node_limit=self.nodes)
        if not shortest.feasible:
            return []
        trail.lower_bound = shortest.lower_bound
        trail.best = unpack(shortest.members[None, :])
        with problem.meter.timed("oracle"):
            problem.ask(trail.best[0])
        return trail.best

    def _with_quick_sets(self, problem: Problem, trail: Trail, demands: Words) -> Words:
        """Refute quick hitting sets until one is consistent; the demands that this has brought to light."""
        while True:
            with problem.meter.timed("quick set"):
                rule = quick_hitting_set(demands, problem.weights, problem.rng)
            if rule is None:
                return demands
            problem.meter.events["candidates"] += 1
            with problem.meter.timed("oracle"):
                verdict = problem.ask(rule)
            if not isinstance(verdict, Refuted):
                with problem.meter.timed("reduction"):
                    rule = reduced(problem, rule)
                if not trail.best or problem.weight(rule) < problem.weight(trail.best[0]):
                    trail.best = [rule]
                return problem.demands() if problem.oracle.points is not None else demands
            demands = minimal(np.concatenate([demands, problem.duals(verdict)]))


def quick_hitting_set(demands: Words, weights: npt.NDArray[np.float64], rng: np.random.Generator) -> int | None:
    """An irredundant hitting set, by always taking what hits most of what is left; None if some demand is empty."""
    flags = _flags(demands, len(weights))
    if not flags.any(axis=1).all():
        return None
    chosen: list[int] = []
    left = flags
    while len(left):
        gains = left.sum(axis=0) / weights
        best = int(rng.choice(np.flatnonzero(gains == gains.max())))
        chosen.append(best)
        left = left[~left[:, best]]
    for component in list(chosen):
        others = [other for other in chosen if other != component]
        if flags[:, others].any(axis=1).all():
            chosen = others
    return sum(1 << component for component in chosen)


def packed_bound(demands: Words, weights: npt.NDArray[np.float64]) -> float:
    """A quick lower bound on every hitting set: disjoint demands need a component each."""
    flags = _flags(demands, len(weights))
    bound = 0.0
    while len(flags):
        smallest = flags[flags.sum(axis=1).argmin()]
        bound += float(weights[smallest].min())
        flags = flags[~(flags & smallest).any(axis=1)]
    return bound


def _flags(demands: Words, components: int) -> npt.NDArray[np.bool_]:
    bits = np.unpackbits(np.ascontiguousarray(demands).view(np.uint8), axis=1, bitorder="little")
    return np.asarray(bits[:, :components].view(np.bool_))
