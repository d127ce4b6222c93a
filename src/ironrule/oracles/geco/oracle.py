"""GeCo (Schleich, Geng, Zhang, Suciu: "GeCo: Quality Counterfactual Explanations in Real Time", VLDB 2021).

A genetic search for counterfactuals near the instance. It begins with changes of single features, then mutates and
crosses what it has, asks the model about what is new, and keeps the fittest: every counterfactual before every other
candidate, nearer before farther. Counterfactuals found are mutated selectively towards the instance. It stops when the
best k counterfactuals stay the same for a generation.

As the verifier behind a rule it must not give up merely because its best candidates stopped changing. While it has no
counterfactual it goes on: desired rows of the history, clipped to the box (where the model's desired regions are boxes
that each hold such a row, as in a decision tree fitted on the history, this alone finds an exception whenever there is
one), restarts from random points of the box, and samples of the box (all of it where it is small). Only then does it
answer ``Unrefuted``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from ironrule.arrays import Points
from ironrule.oracles.exhaustive import enumerate_box
from ironrule.oracles.geco.candidates import (
    Deltas,
    InstanceDistance,
    NormWeights,
    ZobristHash,
    build_deltas,
    join_deltas,
)
from ironrule.oracles.geco.population import (
    CandidatePopulation,
    fill_up,
    find_feasible_changes,
    select_diverse,
    undo_useless_changes,
)
from ironrule.oracles.protocol import NO_CAPABILITIES, BoxQuery, Capabilities, Case, Run
from ironrule.rule.box import Box
from ironrule.verdict.budget import BudgetExhausted, name_stop
from ironrule.verdict.verdict import Refuted, Unrefuted, Verdict

FILL_FACTOR = 20


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
    refine_factor: int = 3
    fill_to_k: bool = False  # where fewer than k differ in what they change, add some that differ in how much
    norm_weights: NormWeights = field(default_factory=NormWeights)
    capabilities: ClassVar[Capabilities] = NO_CAPABILITIES

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        """Up to k diverse counterfactuals without useless changes; ``Unrefuted`` if all efforts find none.

        Stopped early after one was found, it gives those that it has, says so, and some may change too much.
        """
        population = self.build_population(query, run)
        for newcomers in self._propose_candidates(population):
            population.admit(newcomers)
            if population.has_counterfactual:
                return self._improve(query.case, population, query.k)
        return Unrefuted(tried=population.tried, samples=0, confidence=0.0)

    def build_population(self, query: BoxQuery, run: Run) -> CandidatePopulation:
        """An empty population for one query."""
        case, box = query.case, query.box
        distance = InstanceDistance.build(case.space, case.instance, self.norm_weights)
        hashing = ZobristHash.from_sizes(tuple(case.space.sizes.tolist()))
        changes, limit = find_feasible_changes(case, box), self.population
        return CandidatePopulation(case, box, changes, distance=distance, hashing=hashing, run=run, limit=limit)

    def _propose_candidates(self, population: CandidatePopulation) -> Iterator[Deltas]:
        """What to try, in order, while nothing is found."""
        case, box, rng = population.case, population.box, population.run.rng
        # From cheap to expensive: single changes; desired past rows moved into the box; generations with restarts
        # from random points; in the end a sample of the box, or all of it where it is small.
        if population.changes.count:
            yield population.changes.list_single_changes(rng, self.initial)
        for points in self._pull_history(case, box):
            yield build_deltas(points, case.instance)
        for restart in range(self.restarts + 1):
            for _ in range(self.generations if population.changes.count else 0):
                yield population.make_children(self.mutations, self.crossovers)
            if restart < self.restarts:
                population.restart()
                yield build_deltas(case.feasible.draw(rng, box.low, box.high, self.population), case.instance)
        if box.size > self.samples:
            yield build_deltas(case.feasible.draw(rng, box.low, box.high, self.samples), case.instance)
        else:
            yield build_deltas(np.concatenate(list(enumerate_box(box))), case.instance)

    def _pull_history(self, case: Case, box: Box) -> Iterator[Points]:
        """Desired rows of the history clipped to the box, those that move least first, in growing batches."""
        seeds = case.history.seeds[: self.seeds]
        if len(seeds) == 0:
            return
        # Rows that need few values clipped keep most of what made them desired. Batches grow, so an early success is
        # cheap.
        moved = np.count_nonzero((seeds < box.low) | (seeds > box.high), axis=1)
        order = np.argsort(moved, kind="stable")
        start, size = 0, 256
        while start < len(order):
            yield box.clip(seeds[order[start : start + size]])
            start, size = start + size, size * 4

    def _improve(self, case: Case, population: CandidatePopulation, k: int) -> Refuted:
        """The best counterfactuals after some generations; those that are there if something stops it first."""
        stopped = None
        try:
            self._evolve(population, k)
            best = self._select_best(case, population, k)
        except (BudgetExhausted, KeyboardInterrupt) as stop:
            stopped = name_stop(stop, population.run.meter)
            best = select_diverse(case, population.archive, population.distance, k)
        return replace(case.build_refuted(best.expand(case.instance)), stopped=stopped)

    def _evolve(self, population: CandidatePopulation, k: int) -> None:
        """Generations until the best k counterfactuals stay the same for one."""
        # Children and nearer variants join in each generation; it ends when the best k did not change.
        for _ in range(self.generations):
            before = population.hash_best(k)
            children = population.make_children(self.mutations, self.crossovers)
            population.admit(join_deltas([children, population.make_nearer()]))
            if len(before) >= k and np.array_equal(before, population.hash_best(k)):
                return

    def _select_best(self, case: Case, population: CandidatePopulation, k: int) -> Deltas:
        distance = population.distance
        # More than k are refined, since undoing changes may make several of them alike.
        candidates = select_diverse(case, population.archive, distance, self.refine_factor * k)
        refined = undo_useless_changes(case, candidates, distance, population.flag_desired)
        chosen = select_diverse(case, refined, distance, k)
        if not self.fill_to_k or len(chosen) >= k:
            return chosen
        others = population.counterfactuals()[slice(0, FILL_FACTOR * k)]
        spare = undo_useless_changes(case, others, distance, population.flag_desired)
        best = fill_up(case, chosen, spare, k)
        return best[np.argsort(distance(best), kind="stable")]
