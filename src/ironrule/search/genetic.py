"""GeneticRule and GeneticRuleCF (Geng, Schleich, Suciu, VLDB 2022, Algorithms 1 and 2).

GeneticRule begins with every rule of one component. A generation adds mutations (one more component) and crossovers (a
random choice of t = max(|Ri|, |Rj|) + 1 components of both), and keeps the q fittest. It stops when the top k are
consistent on the history and on s points of their boxes, and none of them is new.

GeneticRuleCF also asks the oracle. Rules extended by what counterfactuals demand join the first population, every
third generation, and any generation whose top k are data consistent; the top k must be ones that the oracle cannot
refute; and the best is reduced in the end until no component is redundant.

The fitness score puts consistency first, then cardinality:

    failed data consistency    0.25 (1 - |R| / 2n) + 0.25 (1 - VD / m)
    failed global consistency  0.25 (1 - |R| / 2n) + 0.25 (1 - VS / s) + 0.25
    globally consistent        0.25 (1 - |R| / 2n) + 0.75

VD counts the desired rows of the history that satisfy the rule, VS the desired ones among s points drawn from its box.
A rule whose first s/10 points already show exceptions is drawn no further: its VS is scaled up from these. A rule that
a counterfactual found by then refutes has at least one exception, drawn or not, so its VS is at least 1.

Where the authors' public program differs from the paper, the defaults here are the paper's, and the program's ways are
options. ``sampler=HistorySampler()``: the paper draws any point of the rule's box; the program changes past rows, in
which all features of the rule get the instance's values, which looks at a small part of the box only, so exceptions
elsewhere go unseen. ``crossover=AddOneCrossover()`` adds one component to a rule. ``duals=5`` extends a rule by what
the five smallest duals demand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ironrule.arrays import BoolArray, Int64Array, Points
from ironrule.hitting.bits import list_members, pack_flags, pack_sets, unpack_flags, unpack_sets
from ironrule.oracles.protocol import UserOracle
from ironrule.rule.duals import count_covered_rows, hits_all
from ironrule.rule.kernels import compute_duals
from ironrule.search.problem import Problem, SearchState, ask_instead, extend_rule, reduce_rule
from ironrule.verdict.verdict import Refuted


class PointSampler(Protocol):
    """Draws points of a rule's box."""

    def draw(self, problem: Problem, rule: int, count: int) -> Points:
        """Up to ``count`` points that can occur; fewer where constraints leave too few."""
        ...


@dataclass(frozen=True, slots=True)
class SpaceSampler:
    """Uniformly from all that can occur in the box."""

    def draw(self, problem: Problem, rule: int, count: int) -> Points:
        """Up to ``count`` points; fewer only if rejection finds too few."""
        box = problem.case.components.box(rule)
        return problem.case.feasible.draw(problem.rng, box.low, box.high, count)


@dataclass(frozen=True, slots=True)
class HistorySampler:
    """Past rows in which the features that the rule speaks of have the instance's values."""

    def draw(self, problem: Problem, rule: int, count: int) -> Points:
        """``count`` points, less those that constraints exclude."""
        case = problem.case
        points = case.history.codes.points(problem.rng.integers(len(case.history), size=count))
        spoken_of = np.unique([bit // 2 for bit in list_members(rule)]).astype(np.intp)
        # Every feature of the rule gets the instance's value, also where the past row's own value satisfies the rule.
        points[:, spoken_of] = case.instance[spoken_of]
        return points[case.feasible.admits(points)]


class Crossover(Protocol):
    """Makes one child of every pair of parents; rules are rows of flags, one per component."""

    def cross(self, first: BoolArray, second: BoolArray, rng: np.random.Generator) -> BoolArray:
        """A child of every first and second parent."""
        ...


@dataclass(frozen=True, slots=True)
class RandomSubsetCrossover:
    """A random choice of t = max(|Ri|, |Rj|) + 1 components of both parents, or all if they have no more."""

    def cross(self, first: BoolArray, second: BoolArray, rng: np.random.Generator) -> BoolArray:
        """A child of every first and second parent."""
        most = np.maximum(first.sum(axis=1), second.sum(axis=1)) + 1
        return _choose_flags(first | second, most, rng)


@dataclass(frozen=True, slots=True)
class AddOneCrossover:
    """One of the parents, either at random, with one component of the other; itself if it has all of them."""

    def cross(self, first: BoolArray, second: BoolArray, rng: np.random.Generator) -> BoolArray:
        """A child of every first and second parent."""
        swapped = rng.random((len(first), 1)) < 0.5
        parent, other = np.where(swapped, second, first), np.where(swapped, first, second)
        return parent | _choose_flags(other & ~parent, np.ones(len(parent), np.int64), rng)


def _choose_flags(flags: BoolArray, most: Int64Array, rng: np.random.Generator) -> BoolArray:
    """So many of every row's flags at random, or all if it has no more."""
    # Set flags get random keys below 1, the others 2: the ranks of a row list its set flags first, in random order.
    keys = np.where(flags, rng.random(flags.shape), 2.0)
    ranks = np.argsort(np.argsort(keys, axis=1), axis=1)
    return np.asarray(flags & (ranks < most[:, None]))


POINTS_PER_CALL = 1 << 17


@dataclass(frozen=True, slots=True)
class Fitness:
    """A rule's score and how it came about."""

    score: float
    data_consistent: bool
    consistent: bool  # on the history and on the points drawn


@dataclass(slots=True)
class FitnessScores:
    """Scores of the rules of one search; a rule is scored once."""

    problem: Problem
    samples: int
    sampler: PointSampler = field(default_factory=SpaceSampler)
    cache: dict[int, Fitness] = field(default_factory=dict)

    def score(self, rules: Sequence[int]) -> None:
        """Score the rules that were not scored yet."""
        # Rules that fail on the history or on the requirements need no points: only the others are sampled.
        new = [rule for rule in dict.fromkeys(rules) if rule not in self.cache]
        if not new:
            return
        history = self.problem.history
        violations = count_covered_rows(pack_sets(new, self.problem.n), history.bits, history.counts)
        unmet = np.array([not self.problem.meets_requirements(rule) for rule in new])
        clean = [rule for rule, bad in zip(new, (violations > 0) | unmet, strict=True) if not bad]
        shares = dict(zip(clean, self._estimate_exception_shares(clean), strict=True))
        for rule, violated in zip(new, violations.tolist(), strict=True):
            self.cache[rule] = self._fitness(rule, violated, shares.get(rule))

    def _fitness(self, rule: int, violated: int, share: float | None) -> Fitness:
        weight = float(self.problem.to_user_weight(self.problem.weigh(rule)))
        base = 0.25 * (1.0 - weight / (2 * self.problem.n))
        # The three cases of the score, as in the module's docstring: share is None if the rule was not sampled.
        if share is None:
            return Fitness(base + 0.25 * (1.0 - violated / len(self.problem.case.history)), False, False)
        return Fitness(base + (0.25 * (1.0 - share) + 0.25 if share else 0.75), True, share == 0.0)

    def fitness(self, rule: int) -> Fitness:
        """A scored rule's fitness, in the light of the counterfactuals known by now."""
        return self._adjust_if_refuted(rule, bool(self._flag_refuted([rule])[0]))

    def rank(self, rules: Sequence[int]) -> list[int]:
        """The rules, fittest first."""
        self.score(rules)
        distinct = list(dict.fromkeys(rules))
        refuted = dict(zip(distinct, self._flag_refuted(distinct).tolist(), strict=True))
        return sorted(distinct, key=lambda rule: (-self._adjust_if_refuted(rule, refuted[rule]).score, rule))

    def _adjust_if_refuted(self, rule: int, refuted: bool) -> Fitness:
        fitness = self.cache[rule]
        # From "globally consistent" to "failed global consistency" with VS = 1: 0.75 becomes 0.25 (1 - 1 / s) + 0.25.
        if fitness.consistent and refuted:
            return Fitness(fitness.score - 0.25 - 0.25 / self.samples, True, False)
        return fitness

    def _flag_refuted(self, rules: list[int]) -> BoolArray:
        """Which rules a known counterfactual refutes; the model is not asked."""
        components, points = self.problem.case.components, self.problem.oracle.points
        if points is None or not rules:
            return np.zeros(len(rules), dtype=np.bool_)
        return ~hits_all(pack_sets(rules, self.problem.n), compute_duals(points, components.low, components.high))

    def _estimate_exception_shares(self, rules: list[int]) -> list[float]:
        """Per rule the share of exceptions among points drawn from its box."""
        # Two stages: a tenth of the points finds most bad rules, and only rules without an exception get the rest.
        few = max(1, self.samples // 10)
        first = self._sample_shares(rules, few)
        passed = [rule for rule, share in zip(rules, first, strict=True) if share == 0.0]
        rest = dict(zip(passed, self._sample_shares(passed, self.samples - few), strict=True))
        part = 1.0 - few / self.samples  # the first few, without an exception, count as well
        return [rest[rule] * part if rule in rest else share for rule, share in zip(rules, first, strict=True)]

    def _sample_shares(self, rules: list[int], each: int) -> list[float]:
        shares: list[float] = []
        per_call = max(1, POINTS_PER_CALL // max(1, each))
        for start in range(0, len(rules), per_call):
            shares += self._sample_shares_at_once(rules[start : start + per_call], each)
        return shares

    def _sample_shares_at_once(self, rules: list[int], each: int) -> list[float]:
        problem = self.problem
        drawn = [self.sampler.draw(problem, rule, each) for rule in rules]
        points = np.concatenate(drawn)
        desired = problem.meter.desired(problem.case.model, points) if len(points) else np.zeros(0, np.bool_)
        # The model was asked about the points of all rules at once; now its answers are split again, rule by rule.
        ends = np.cumsum([len(points) for points in drawn])[:-1]
        return [float(part.mean()) if len(part) else 0.0 for part in np.split(desired, ends)]


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
    sampler: PointSampler = field(default_factory=SpaceSampler)
    crossover: Crossover = field(default_factory=RandomSubsetCrossover)

    def run(self, problem: Problem, state: SearchState) -> list[int]:
        """The fittest k rules."""
        return _Evolution(problem, state, self).run()


@dataclass(frozen=True, slots=True)
class GeneticRuleCF:
    """The genetic search with counterfactuals.

    The oracle is asked for extensions ``every`` so many generations; ``reduce`` says how many of the best rules are
    reduced in the end; ``duals`` how many duals, the smallest first, an extension hits: all of them where it is None.
    ``oracle`` looks for counterfactuals in place of the explainer's own, which checks the rules that come out.
    """

    q: int = 50
    s: int = 1000
    m: int = 3
    c: int = 2
    generations: int = 200
    every: int = 3
    reduce: int = 1
    attempts: int = 20
    sampler: PointSampler = field(default_factory=SpaceSampler)
    crossover: Crossover = field(default_factory=RandomSubsetCrossover)
    duals: int | None = None
    oracle: UserOracle | None = None

    def run(self, problem: Problem, state: SearchState) -> list[int]:
        """The fittest k rules among those that the oracle cannot refute, the best ones reduced."""
        with ask_instead(problem, self.oracle) as searched:
            return self._search(searched, state)

    def _search(self, problem: Problem, state: SearchState) -> list[int]:
        top = _Evolution(problem, state, self, self.every, self.duals).run()
        with problem.meter.time_block("reduction"):
            best = [reduce_rule(problem, rule) for rule in top[: self.reduce]]
        state.best = list(dict.fromkeys([*best, *top[self.reduce :]]))
        return state.best


@dataclass(slots=True)
class _Evolution:
    """One run. ``retired`` rules are known to be inconsistent and have had their children: they do not come back.

    The score alone can hold a population of short rules that a few past rows contradict for ever, since one component
    more costs as much as many such rows. So rules that the oracle refuted give way to their extensions, and when a
    generation changes nothing, the inconsistent rules give way to the next best.
    """

    problem: Problem
    state: SearchState
    settings: GeneticRule | GeneticRuleCF
    every: int | None = None  # how often the oracle is asked for extensions; None: there is no oracle
    duals: int | None = None  # how many of them an extension hits
    retired: set[int] = field(default_factory=set)

    def run(self) -> list[int]:
        meter, scores = self.problem.meter, FitnessScores(self.problem, self.settings.s, self.settings.sampler)
        with meter.time_block("preparation"):
            # The empty rule, all rules of one component; with an oracle, what counterfactuals demand of the empty rule.
            population = [0, *(1 << bit for bit in list_members(self.problem.allowed))]
            population += self._extend_by_counterfactuals([0]) if self.every is not None else []
            population = self._select_fittest(population, scores)
        # One generation: make candidates, keep the q fittest of old and new, stop if the top k are consistent and old.
        for generation in range(1, self.settings.generations + 1):
            meter.events["generations"] += 1
            before, candidates = population, self._make_candidates(generation, population, scores)
            with meter.time_block("selection"):
                population = self._select_fittest([*population, *sorted(candidates)], scores)
            top = self.state.best = population[: self.problem.k]
            consistent = [self._is_consistent(rule, scores) for rule in top]
            if not top or (all(consistent) and not candidates & set(top)):
                break
            # Nothing changed: inconsistent rules would stay for ever, so they retire and make room.
            if population == before:
                self.retired |= {rule for rule in population if not scores.fitness(rule).consistent}
        return population[: self.problem.k]

    def _make_candidates(self, generation: int, population: list[int], scores: FitnessScores) -> set[int]:
        meter = self.problem.meter
        with meter.time_block("crossover"):
            candidates = self._crossover(population)
        with meter.time_block("mutate"):
            candidates |= self._mutate(population)
        if self.every is not None and self._is_cf_due(generation, population, scores):
            candidates |= set(self._extend_by_counterfactuals(population))
        candidates -= {*self.retired, *population}
        meter.events["candidates"] += len(candidates)
        return candidates

    def _select_fittest(self, rules: list[int], scores: FitnessScores) -> list[int]:
        return scores.rank([rule for rule in rules if rule not in self.retired])[: self.settings.q]

    def _is_consistent(self, rule: int, scores: FitnessScores) -> bool:
        if not scores.fitness(rule).consistent:
            return False
        if self.every is None:
            return True
        with self.problem.meter.time_block("cf rules"):
            return not isinstance(self.problem.ask(rule), Refuted)

    def _is_cf_due(self, generation: int, population: list[int], scores: FitnessScores) -> bool:
        # Before the top rules pass the history, asking the oracle is worth it only now and then.
        top = population[: self.problem.k]
        return generation % (self.every or 1) == 0 or all(scores.fitness(rule).data_consistent for rule in top)

    def _extend_by_counterfactuals(self, rules: Iterable[int]) -> list[int]:
        """The rules extended by what their counterfactuals demand; those that are refuted retire."""
        extended: list[int] = []
        with self.problem.meter.time_block("cf rules"):
            for rule in rules:
                longer = extend_rule(self.problem, rule, self.settings.q, self.duals)
                self.retired |= {rule} if longer else set()
                extended += longer
        return extended

    def _mutate(self, population: list[int]) -> set[int]:
        rng, children = self.problem.rng, set()
        # Each rule has up to m children, each with a different component that the rule lacks.
        for rule in population:
            absent = list_members(self.problem.allowed & ~rule)
            count = min(self.settings.m, len(absent))
            children |= {rule | 1 << absent[place] for place in rng.permutation(len(absent))[:count].tolist()}
        return children

    def _crossover(self, population: list[int]) -> set[int]:
        """Every pair of rules crossed c times."""
        flags = unpack_flags(pack_sets(population, self.problem.n))
        # All pairs of different rules, each repeated c times.
        first, second = np.triu_indices(len(population), k=1)
        first, second = np.repeat(first, self.settings.c), np.repeat(second, self.settings.c)
        children = pack_flags(self.settings.crossover.cross(flags[first], flags[second], self.problem.rng))
        return set(unpack_sets(np.unique(children, axis=0)))
