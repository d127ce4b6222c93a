"""GeneticRule and GeneticRuleCF (Geng, Schleich, Suciu, VLDB 2022, Algorithms 1 and 2).

GeneticRule begins with every rule of one component. A generation adds mutations (one more component) and crossings (a
random choice of t = max(|Ri|, |Rj|) + 1 components of both), and keeps the q fittest. It stops when the top k are
consistent on the history and on s points of their boxes, and none of them is new.

GeneticRuleCF also asks the oracle. Rules extended by what counterfactuals demand join the first population, every third
generation, and any generation whose top k are data consistent; the top k must be ones that the oracle cannot refute;
and the best is reduced in the end until no component is redundant.

Where the authors' public program differs from the paper, the defaults here are the paper's, and the program's ways are
options: ``draws=FromHistory()`` (:mod:`ironrule.search.drawing`), ``crossing=OneMore()``
(:mod:`ironrule.search.crossing`), and ``duals=5``, which extends a rule by what the five smallest duals demand.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ironrule.rule.bits import members, pack, unpack
from ironrule.search.crossing import Crossing, RandomChoice
from ironrule.search.drawing import Drawing, FromSpace
from ironrule.search.extend import extensions, reduced
from ironrule.search.fitness import Scores
from ironrule.search.problem import Problem, Trail
from ironrule.verdict import Refuted


@dataclass(frozen=True, slots=True)
class GeneticRule:
    """The paper's base line: no counterfactuals, so its rules are only as good as their samples.

    ``q`` rules live on, each judged on ``s`` points; a rule has ``m`` mutations, a pair of rules ``c`` crossings.
    """

    q: int = 50
    s: int = 1000
    m: int = 3
    c: int = 2
    generations: int = 200
    attempts: int = 1
    draws: Drawing = field(default_factory=FromSpace)
    crossing: Crossing = field(default_factory=RandomChoice)

    def run(self, problem: Problem, trail: Trail) -> list[int]:
        """The fittest k rules."""
        return _Evolution(problem, trail, self).run()


@dataclass(frozen=True, slots=True)
class GeneticRuleCF:
    """The genetic search with counterfactuals.

    The oracle is asked for extensions ``every`` so many generations; ``reduce`` says how many of the best rules are
    reduced in the end; ``duals`` how many duals, the smallest first, an extension hits: all of them where it is None.
    """

    q: int = 50
    s: int = 1000
    m: int = 3
    c: int = 2
    generations: int = 200
    every: int = 3
    reduce: int = 1
    attempts: int = 20
    draws: Drawing = field(default_factory=FromSpace)
    crossing: Crossing = field(default_factory=RandomChoice)
    duals: int | None = None

    def run(self, problem: Problem, trail: Trail) -> list[int]:
        """The fittest k rules among those that the oracle cannot refute, the best ones reduced."""
        top = _Evolution(problem, trail, self, self.every, self.duals).run()
        with problem.meter.timed("reduction"):
            best = [reduced(problem, rule) for rule in top[: self.reduce]]
        trail.best = list(dict.fromkeys([*best, *top[self.reduce :]]))
        return trail.best


@dataclass(slots=True)
class _Evolution:
    """One run. ``retired`` rules are known to be inconsistent and have had their children: they do not come back.

    The score alone can hold a population of short rules that a few past rows contradict for ever, since one component
    more costs as much as many such rows. So rules that the oracle refuted give way to their extensions, and when a
    generation changes nothing, the inconsistent rules give way to the next best.
    """

    problem: Problem
    trail: Trail
    settings: GeneticRule | GeneticRuleCF
    every: int | None = None  # how often the oracle is asked for extensions; None: there is no oracle
    duals: int | None = None  # how many of them an extension hits
    retired: set[int] = field(default_factory=set)

    def run(self) -> list[int]:
        meter, scores = self.problem.meter, Scores(self.problem, self.settings.s, self.settings.draws)
        with meter.timed("preparation"):
            population = [0, *(1 << bit for bit in members(self.problem.allowed))]
            population += self._cf_rules([0]) if self.every is not None else []
            population = self._fittest(population, scores)
        for generation in range(1, self.settings.generations + 1):
            meter.events["generations"] += 1
            before, candidates = population, self._candidates(generation, population, scores)
            with meter.timed("selection"):
                population = self._fittest([*population, *sorted(candidates)], scores)
            top = self.trail.best = population[: self.problem.k]
            consistent = [self._consistent(rule, scores) for rule in top]
            if not top or (all(consistent) and not candidates & set(top)):
                break
            if population == before:
                self.retired |= {rule for rule in population if not scores.fitness(rule).consistent}
        return population[: self.problem.k]

    def _candidates(self, generation: int, population: list[int], scores: Scores) -> set[int]:
        meter = self.problem.meter
        with meter.timed("crossover"):
            candidates = self._crossover(population)
        with meter.timed("mutate"):
            candidates |= self._mutate(population)
        if self.every is not None and self._cf_due(generation, population, scores):
            candidates |= set(self._cf_rules(population))
        candidates -= {*self.retired, *population}
        meter.events["candidates"] += len(candidates)
        return candidates

    def _fittest(self, rules: list[int], scores: Scores) -> list[int]:
        return scores.ranked([rule for rule in rules if rule not in self.retired])[: self.settings.q]

    def _consistent(self, rule: int, scores: Scores) -> bool:
        if not scores.fitness(rule).consistent:
            return False
        if self.every is None:
            return True
        with self.problem.meter.timed("cf rules"):
            return not isinstance(self.problem.ask(rule), Refuted)

    def _cf_due(self, generation: int, population: list[int], scores: Scores) -> bool:
        top = population[: self.problem.k]
        return generation % (self.every or 1) == 0 or all(scores.fitness(rule).data_consistent for rule in top)

    def _cf_rules(self, rules: Iterable[int]) -> list[int]:
        """The rules extended by what their counterfactuals demand; those that are refuted retire."""
        extended: list[int] = []
        with self.problem.meter.timed("cf rules"):
            for rule in rules:
                longer = extensions(self.problem, rule, self.settings.q, self.duals)
                self.retired |= {rule} if longer else set()
                extended += longer
        return extended

    def _mutate(self, population: list[int]) -> set[int]:
        rng, children = self.problem.rng, set()
        for rule in population:
            absent = members(self.problem.allowed & ~rule)
            count = min(self.settings.m, len(absent))
            children |= {rule | 1 << absent[place] for place in rng.permutation(len(absent))[:count].tolist()}
        return children

    def _crossover(self, population: list[int]) -> set[int]:
        """Every pair of rules crossed c times."""
        flags = self._flags(population)
        first, second = np.triu_indices(len(population), k=1)
        first, second = np.repeat(first, self.settings.c), np.repeat(second, self.settings.c)
        return set(_as_ints(self.settings.crossing.children(flags[first], flags[second], self.problem.rng)))

    def _flags(self, rules: list[int]) -> npt.NDArray[np.bool_]:
        words = pack(rules, self.problem.n).view(np.uint8)
        return np.unpackbits(words, axis=1, bitorder="little").view(np.bool_)


def _as_ints(flags: npt.NDArray[np.bool_]) -> list[int]:
    return unpack(np.unique(np.packbits(flags, axis=1, bitorder="little").view(np.uint64), axis=0))
