"""GeCo (Schleich, Geng, Zhang, Suciu: "GeCo: Quality Counterfactual Explanations in Real Time", VLDB 2021).

A genetic search for counterfactuals near the instance. It begins with changes of single features, then mutates and
crosses what it has, asks the model about what is new, and keeps the fittest: every counterfactual before every other
candidate, nearer before farther. Counterfactuals found are mutated selectively towards the instance. It stops when the
best k counterfactuals stay the same for a generation.

As the verifier behind a rule it must not give up merely because its best candidates stopped changing. While it has no
counterfactual it goes on: desired rows of the history, pulled into the box (where the model's desired regions are boxes
that each hold such a row, as in a decision tree fitted on the history, this alone finds an exception whenever there is
one), restarts from random points of the box, and samples of the box (all of it where it is small). Only then does it
answer ``Unrefuted``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ironrule.oracles.exhaustive import enumerate_box
from ironrule.oracles.geco.deltas import Deltas, Hashing, from_points, join
from ironrule.oracles.geco.distance import Distance, Mix
from ironrule.oracles.geco.options import options_in
from ironrule.oracles.geco.population import Population
from ironrule.oracles.geco.refine import diverse, filled, without_useless_changes
from ironrule.oracles.protocol import Case
from ironrule.rule import Box
from ironrule.space import Points
from ironrule.verdict import Meter, Refuted, Spent, Unrefuted, Verdict

FILLERS = 20


@dataclass(frozen=True, slots=True)
class GeCo:
    """The counterfactual system. Counts are points; ``seeds``, ``restarts`` and ``samples`` matter to a verifier."""

    population: int = 100
    initial: int = 20
    mutations: int = 3
    crossovers: int = 100
    generations: int = 8
    seeds: int = 50_000
    restarts: int = 2
    samples: int = 2_000
    refined: int = 3
    fill: bool = False  # where fewer than k differ in what they change, whether to add some that differ in how much
    mix: Mix = field(default_factory=Mix)

    def find(self, case: Case, box: Box, k: int, meter: Meter, rng: np.random.Generator) -> Verdict:
        """Up to k diverse counterfactuals without useless changes; ``Unrefuted`` if all efforts find none.

        Stopped early after one was found, it gives those that it has, says so, and some may change too much.
        """
        population = self.start(case, box, meter, rng)
        for newcomers in self._efforts(case, box, population, rng):
            population.admit(newcomers)
            if population.found:
                return self._improved(case, population, k)
        return Unrefuted(tried=population.tried, samples=0, confidence=0.0)

    def start(self, case: Case, box: Box, meter: Meter, rng: np.random.Generator) -> Population:
        """An empty population for one query."""
        distance = Distance.of(case.space, case.instance, self.mix)
        hashing = Hashing.of(tuple(case.space.sizes.tolist()))
        return Population(case, box, options_in(case, box), distance, hashing, meter, rng, self.population)

    def _efforts(self, case: Case, box: Box, population: Population, rng: np.random.Generator) -> Iterator[Deltas]:
        """What to try, in order, while nothing is found."""
        if population.options.count:
            yield population.options.singles(rng, self.initial)
        for points in self._pulled(case, box):
            yield from_points(points, case.instance)
        for restart in range(self.restarts + 1):
            for _ in range(self.generations if population.options.count else 0):
                yield population.children(self.mutations, self.crossovers)
            if restart < self.restarts:
                population.forget()
                yield from_points(case.feasible.draw(rng, box.low, box.high, self.population), case.instance)
        if box.size > self.samples:
            yield from_points(case.feasible.draw(rng, box.low, box.high, self.samples), case.instance)
        else:
            yield from_points(np.concatenate(list(enumerate_box(box))), case.instance)

    def _pulled(self, case: Case, box: Box) -> Iterator[Points]:
        """Desired rows of the history pulled into the box, those that move least first, in growing batches."""
        seeds = case.history.seeds[: self.seeds]
        if len(seeds) == 0:
            return
        moved = np.count_nonzero((seeds < box.low) | (seeds > box.high), axis=1)
        order = np.argsort(moved, kind="stable")
        start, size = 0, 256
        while start < len(order):
            yield box.pull(seeds[order[start : start + size]])
            start, size = start + size, size * 4

    def _improved(self, case: Case, population: Population, k: int) -> Refuted:
        """The best counterfactuals after some generations; those that are there if something stops it first."""
        stopped = None
        try:
            self._evolve(population, k)
            best = self._best(case, population, k)
        except (Spent, KeyboardInterrupt) as stop:
            stopped = "budget" if isinstance(stop, Spent) else "interrupted"
            best = diverse(case, population.archive, population.distance, k)
        return replace(case.refuted(best.expand(case.instance)), stopped=stopped)

    def _evolve(self, population: Population, k: int) -> None:
        """Generations until the best k counterfactuals stay the same for one."""
        for _ in range(self.generations):
            before = population.best(k)
            population.admit(join([population.children(self.mutations, self.crossovers), population.nearer()]))
            if len(before) >= k and np.array_equal(before, population.best(k)):
                return

    def _best(self, case: Case, population: Population, k: int) -> Deltas:
        distance = population.distance
        candidates = diverse(case, population.archive, distance, self.refined * k)
        chosen = diverse(
            case, without_useless_changes(case, candidates, distance, population.desired_among), distance, k
        )
        if not self.fill or len(chosen) >= k:
            return chosen
        others = population.counterfactuals()[slice(0, FILLERS * k)]
        spare = without_useless_changes(case, others, distance, population.desired_among)
        best = filled(case, chosen, spare, k)
        return best[np.argsort(distance(best), kind="stable")]
