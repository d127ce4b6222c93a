"""The minimum rule, by implicit hitting sets.

A rule is consistent exactly if it hits the dual of every counterfactual. So take a hitting set of the duals known so
far and ask an exact oracle: if it has counterfactuals, add their duals and repeat. A *minimum* hitting set that is
proven consistent is a minimum rule, because every consistent rule hits the known duals too (Reiter 1987; for
explanations Ignatiev, Narodytska and Marques-Silva 2019).

First comes a rule without redundant components, so that there is an answer at any time: a few quick hitting sets are
tried, which gathers duals, and if none is consistent, components of the longest rule are left out one by one. From then
on any hitting set lighter than the rule at hand is asked about: one that local search finds, or else branch and bound
(Davies and Bacchus 2011 also solve exactly only where they must). A consistent one, reduced, is the next rule at hand.
When there is no lighter hitting set, the rule is minimum. Where the oracle can gather counterfactuals that are easily
found (:mod:`ironrule.oracles.gathering`), both halves begin with that.

Some questions are too hard for the oracle. One that can be told how long to try is asked about all components of a rule
for a short while first, which decides the easy ones, and then about those left for longer and longer, as far as a
budget in seconds goes. A component whose removal stays undecided is kept.

Often there are several. Among those at hand the rule that covers most of the history is preferred.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np
import numpy.typing as npt

from ironrule.oracles.gathering import Sought
from ironrule.rule.bits import members, popcount, unpack
from ironrule.rule.duals import minimal
from ironrule.rule.hitting import (
    light_hitting_sets,
    lighter_hitting_set,
    minimum_hitting_set,
    quick_hitting_set,
    repaired,
)
from ironrule.search.coverage import coverages, may_be_wider
from ironrule.search.problem import Problem, Trail, joined
from ironrule.verdict import Proven, Refuted, Spent, Unrefuted

Words = npt.NDArray[np.uint64]
FIRST_NODES = 1_000  # of the first portion of an exact search; the next ones grow
BOUND_NODES = 100  # for a look at the lower bound on the way
SINGLE_STEPS = 64  # units that a lower bound is raised by one by one; beyond that, steps are larger
MOST_LISTED, LIST_NODES = 256, 1_000  # for a list of hitting sets of one weight
LEAST_EFFORT, USUAL_EFFORT, LONGER = 1 / 16, 1.0, 4.0  # shares of the oracle's patience: at first, in the end, per step
QUICK_EFFORT = 1 / 4


@dataclass(frozen=True, slots=True)
class Minimum:
    """The implicit hitting set search.

    What an oracle finds easily is gathered in up to ``rounds`` rounds at a time; else ``quick`` hitting sets are tried
    for a first rule. ``steps`` bounds the local search for a lighter hitting set and ``nodes`` the exact one; the
    oracle is asked for ``each`` counterfactuals at a time. In the end up to ``ties`` hitting sets of the same weight
    that cover more of the history are asked about; 0 takes the rule found first.

    With an exact oracle its rule is proven and minimum. With one that only searches it is the shortest that nothing
    found refutes; the bound on the cardinality holds all the same, since it rests on counterfactuals alone.
    """

    rounds: int = 80
    quick: int = 40
    steps: int = 300
    nodes: int = 2_000_000
    each: int = 1
    ties: int = 10
    attempts: int = 20

    def run(self, problem: Problem, trail: Trail, start: int | None = None) -> list[int]:
        """A rule of least weight; the shortest so far that stands if the search is stopped.

        Where a rule is known that stands, the search may ``start`` with it.
        """
        everything = problem.all_demands()
        if everything is not None:
            return self._hit_all(problem, trail, everything)
        past = not problem.oracle.gathers  # which is soon richer than what past rows demand
        hunt = _Hunt(problem, trail, self, problem.demands(past))
        rule = hunt.first() if start is None else hunt.begun(start)
        if rule is None:
            return []
        hunt.adopt(rule)
        while (rule := hunt.lighter()) is not None:
            if hunt.stands_for_sure(rule):
                hunt.adopt(rule)
            elif hunt.hits(rule):  # its limit kept the oracle from deciding: nothing lighter is known to hold
                break
        if self.ties and trail.lower_bound >= hunt.weight:
            hunt.prefer_coverage()
        return trail.best

    def _hit_all(self, problem: Problem, trail: Trail, demands: Words) -> list[int]:
        """Where all demands are known, one hitting set is the answer; the oracle confirms it."""
        with problem.meter.timed("hitting set"):
            problem.meter.events["candidates"] += 1
            shortest = minimum_hitting_set(demands, problem.weights, node_limit=self.nodes)
        if not shortest.feasible:
            return []
        trail.bound(shortest.lower_bound, demands)
        trail.best = unpack(shortest.members[None, :])
        hunt = _Hunt(problem, trail, self, demands)
        if hunt.stands(trail.best[0]) and self.ties and shortest.optimal:
            hunt.prefer_coverage()
        return trail.best


@dataclass(slots=True)
class _Hunt:
    """One run. ``demands`` are the minimal duals known, ``last`` is the hitting set looked at last."""

    problem: Problem
    trail: Trail
    settings: Minimum
    demands: Words
    last: int = 0
    gathered: int = 0  # how many counterfactuals were easily found
    bounded: int = 0  # how many demands there were when the lower bound was last looked at

    @property
    def weight(self) -> float:
        """Of the rule at hand."""
        return self.problem.weight(self.trail.best[0])

    def stands(self, rule: int, effort: float = USUAL_EFFORT) -> bool:
        """Whether the oracle cannot refute a rule; if it can, what its counterfactuals demand is kept."""
        meter = self.problem.meter
        meter.events["candidates"] += 1
        with meter.timed("oracle"):
            verdict = self.problem.try_for(effort, rule, self.settings.each)
        if isinstance(verdict, Refuted):
            self.demands = joined(self.demands, self.problem.duals(verdict.points))
        return not isinstance(verdict, Refuted)

    def stands_for_sure(self, rule: int) -> bool:
        """Whether a rule stands, and is as sure as the one at hand; hard questions are asked for longer and longer."""
        return any(not self.stands(rule, effort) or self.as_sure(rule) for effort in self.efforts()) and self.hits(rule)

    def efforts(self) -> Iterator[float]:
        """How patient the oracle shall be, from short to long: up to what is usual, or as long as seconds are left."""
        effort = LEAST_EFFORT if self.problem.oracle.has_patience else USUAL_EFFORT
        while effort <= USUAL_EFFORT or (self.problem.oracle.has_patience and self.problem.meter.left):
            yield effort
            effort *= LONGER

    def hits(self, rule: int) -> bool:
        """Whether a rule meets all that is known to be demanded."""
        return bool((self.demands & self.problem.words(rule)).any(axis=1).all())

    def needed(self, rule: int) -> int:
        """The components of a rule that alone meet something that is known to be demanded."""
        met = self.demands & self.problem.words(rule)
        return reduce(or_, unpack(met[popcount(met) == 1]), 0)

    def first(self) -> int | None:
        """A rule that stands: a quick hitting set, or else the longest rule; None if none can."""
        problem, gathers = self.problem, self.problem.oracle.gathers
        if problem.oracle.reads and self.stands(problem.allowed, QUICK_EFFORT) and self.decided(problem.allowed):
            self.trail.best = [problem.allowed]  # proven already, whatever stops the search from now on
        for _ in range(self.settings.quick):
            if not self.hits(problem.allowed):
                return None
            if gathers and self.gathered >= self.settings.rounds:
                break
            if self._proven_soon(self._easy() if gathers else self._quick()):
                return self.last
            if self.hits(self.last):  # neither proven nor refuted: questions are too hard for such a short while
                break
        return problem.allowed if self.stands(problem.allowed) else None

    def _proven_soon(self, rule: int) -> bool:
        """Whether a rule is found to hold in a short while, as surely as the oracle can say."""
        self.last = rule
        effort = LEAST_EFFORT if self.problem.oracle.gathers else QUICK_EFFORT
        return self.hits(rule) and self.stands(rule, effort) and self.decided(rule)

    def _easy(self) -> int:
        """The rule that is left when what is easily found has been gathered."""
        problem = self.problem
        rule = self._gathered(Sought(self.demands, problem.allowed, problem.weights))
        return problem.allowed if rule is None else rule

    def _gathered(self, sought: Sought) -> int | None:
        """Gather what is easily found, where the oracle has a way to; the last rule that was looked at then."""
        problem, rule = self.problem, None
        with problem.meter.timed("gathering"):
            for some in problem.oracle.gather(problem.case, sought, self.settings.rounds, problem.meter, problem.rng):
                self.demands, rule = minimal(np.concatenate([self.demands, problem.duals(some.points)])), some.rule
                self.gathered += len(some.points)
                problem.meter.events["candidates"] += len(some.points)
        return rule

    def _quick(self) -> int:
        with self.problem.meter.timed("quick set"):
            return unpack(quick_hitting_set(self.demands, self.problem.weights, self.problem.rng))[0]

    def begun(self, rule: int) -> int | None:
        """A rule that somebody else has found, if it stands."""
        self.last = rule
        return rule if self.stands(rule) else None

    def adopt(self, rule: int) -> None:
        """Make a rule that stands the one at hand, and leave out what is redundant.

        What the last hitting set does without goes first.
        """
        self.trail.best = [rule]
        patient = self.problem.oracle.has_patience
        spare = rule & ~self.needed(rule)
        order = sorted(members(spare), key=lambda bit: (self.last >> bit & 1, -self.problem.weights[bit]))
        for effort in self.efforts():
            if patient and effort > LEAST_EFFORT and self.hits(self.trail.best[0]):
                self._look_at_bound()
            order = [bit for bit in order if not self._settled(bit, effort)]
            if not order:
                return
            order.sort(key=self._doubt)  # what is nearly decided goes first
        for bit in order if patient else ():  # what was left out since has made these boxes larger
            self._settled(bit, LEAST_EFFORT)

    def _settled(self, bit: int, effort: float) -> bool:
        """Leave out a component of the rule at hand if that is proven to do, or the rule is not proven either; whether
        it is known now that it can go or must stay.
        """
        shorter = self.trail.best[0] & ~(1 << bit)
        if not self.hits(shorter) or not self.stands(shorter, effort):
            return True
        if self.as_sure(shorter):
            self.trail.best = [shorter]
            return True
        return False

    def _doubt(self, bit: int) -> float:
        """How much of the box without a component is not explored, as far as that is known."""
        known = self.problem.oracle.recall(self.problem.case.relevant.box(self.trail.best[0] & ~(1 << bit)))
        return 1.0 - known.explored if isinstance(known, Unrefuted) else 1.0

    def lighter(self) -> int | None:
        """A hitting set lighter than the rule at hand; None if there is none, or if the nodes did not suffice.

        None also if that rule, which an oracle that only searches let pass, has been refuted since: begin again.
        """
        if not self.hits(self.trail.best[0]):
            return None
        self._look_at_bound()
        if self.trail.lower_bound >= self.weight:
            return None
        within = self.weight - 1.0
        found = self._gathered_within(within) if self.problem.oracle.gathers else self._repaired(within)
        if found is None:
            found = self._exact(self.weight, self.settings.nodes)
        self.last = self.last if found is None else found
        return found

    def _gathered_within(self, within: float) -> int | None:
        """By local search too, as long as what it finds is easily refuted."""
        given = self.problem.allowed, self.problem.weights, within, self.last, self.settings.steps
        return self._gathered(Sought(self.demands, *given))

    def _repaired(self, within: float) -> int | None:
        """By local search from the last one."""
        problem = self.problem
        start, seed = problem.words(self.last), int(problem.rng.integers(1 << 62))
        with problem.meter.timed("local search"):
            steps = self.settings.steps
            return _only(repaired(self.demands, problem.weights, start, within=within, steps=steps, seed=seed))

    def _exact(self, below: float, most: int) -> int | None:
        """By branch and bound; raises the lower bound. Nodes come in portions, so that a budget in time is kept."""
        problem, trail, nodes, found = self.problem, self.trail, 0, None
        while nodes < most and found is None and trail.lower_bound < below:
            problem.meter.check()
            nodes = min(most, max(FIRST_NODES, 4 * nodes))
            with problem.meter.timed("hitting set"):
                found, lower = lighter_hitting_set(self.demands, problem.weights, below=below, node_limit=nodes)
            trail.bound(lower, self.demands)
        return _only(found)

    def _look_at_bound(self) -> None:
        """Raise the lower bound whenever the demands have doubled."""
        if len(self.demands) >= 2 * self.bounded:
            self._raise_bound()

    def _raise_bound(self) -> None:
        """As far as a little work goes; the search for lighter sets begins with what that finds.

        It goes up one unit at a time, or a share of what is left where that is many units.
        """
        problem, trail, target = self.problem, self.trail, 0.0
        self.bounded, found = len(self.demands), self._exact(self.weight, BOUND_NODES)
        while target <= trail.lower_bound < (least := self.weight if found is None else problem.weight(found)):
            left = least - trail.lower_bound
            target = trail.lower_bound + (1.0 if left <= SINGLE_STEPS else left // 4.0)
            found = self._exact(target, BOUND_NODES) or found
        self.last = found or self.last

    def prefer_coverage(self) -> None:
        """Ask about other hitting sets of the same weight, those with most coverage first, until one stands."""
        try:
            for rule in self._wider(self.trail.best[0])[: self.settings.ties]:
                if self.hits(rule) and self.stands(rule) and self.as_sure(rule):
                    self.trail.best = [rule]
                    return
        except Spent:  # the rule at hand is minimum all the same
            return

    def _wider(self, best: int) -> list[int]:
        """Other hitting sets of the same weight that cover more past rows, those that cover most first."""
        problem = self.problem
        with problem.meter.timed("ties"):
            if not may_be_wider(problem.case, best, self.demands):
                return []
            listed = light_hitting_sets(
                self.demands, problem.weights, within=self.weight, limit=MOST_LISTED, node_limit=LIST_NODES
            )
            rules = [best, *unpack(listed.members)]
            counts = coverages(problem.case, rules) if len(rules) > 2 else [0] * len(rules)
            ranked = sorted(zip(counts, rules, strict=True), key=lambda one: (-one[0], one[1]))
        return [rule for count, rule in ranked if count > counts[0]]

    def decided(self, rule: int) -> bool:
        """Whether an oracle that reads the model has decided on a rule; one that only asks never can."""
        oracle = self.problem.oracle
        return not oracle.reads or isinstance(oracle.recall(self.problem.case.relevant.box(rule)), Proven)

    def as_sure(self, rule: int) -> bool:
        """Whether a rule that stands is proven, or the one at hand is not either."""
        known, box = self.problem.oracle.recall, self.problem.case.relevant.box
        return isinstance(known(box(rule)), Proven) or not isinstance(known(box(self.trail.best[0])), Proven)


def _only(found: Words | None) -> int | None:
    return None if found is None else unpack(found)[0]
