"""The minimum rule, by implicit hitting sets, and the counterfactuals that prove its lower bound.

A rule is consistent exactly if it hits the dual of every counterfactual. So take a hitting set of the duals known so
far and ask an exact oracle: if it has counterfactuals, add their duals and repeat. A *minimum* hitting set that is
proven consistent is a minimum rule, because every consistent rule hits the known duals too (Reiter 1987; for
explanations Ignatiev, Narodytska and Marques-Silva 2019).

First comes a rule without redundant components, so that there is an answer at any time: a few quick hitting sets are
tried, which collects duals, and if none is consistent, components of the longest rule are left out one by one. From
then on any hitting set lighter than the rule at hand is asked about: one that local search finds, or else branch and
bound (Davies and Bacchus 2011 also solve exactly only where they must). A consistent one, reduced, is the next rule at
hand. When there is no lighter hitting set, the rule is minimum. Where the oracle has a miner
(:mod:`ironrule.oracles.protocol`), both halves begin with that.

Some queries are too hard for the oracle. One with adjustable effort is asked about all components of a rule with
little effort first, which decides the easy ones, and then about the others with more and more, as far as a budget in
seconds goes. A component whose removal stays undecided is kept.

Often there are several minimum rules. Among those at hand the one that covers most of the history is preferred.

The lower bound is shown by *witnesses*: counterfactuals whose duals together need a rule of that weight. What the
search has found serves first. Where that does not suffice, past rows with the desired outcome are added, each one
inside the lightest rule that the others leave: it shows that this rule fails too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

import numpy as np

from ironrule.arrays import Points, UInt64Array
from ironrule.hitting.bits import list_members, pack_sets, unpack_sets
from ironrule.hitting.reduce import count_bits, find_minimal_sets
from ironrule.hitting.solver import (
    find_greedy_hitting_set,
    find_lighter_hitting_set,
    find_minimum_hitting_set,
    list_light_hitting_sets,
    repair_hitting_set,
)
from ironrule.oracles.protocol import Miner, MiningRequest
from ironrule.search.problem import Problem, SearchState, count_covered, may_cover_more, merge_minimal
from ironrule.verdict.budget import BudgetExhausted
from ironrule.verdict.verdict import Proven, Refuted, Unrefuted

FIRST_NODES = 1_000  # of the first portion of an exact search; the next ones grow
BOUND_NODES = 100  # for a look at the lower bound on the way
MAX_SINGLE_STEPS = 64  # units that a lower bound is raised by one by one; beyond that, steps are larger
MAX_LISTED, MAX_LIST_NODES = 256, 1_000  # for a list of hitting sets of one weight
# Shares of the oracle's usual effort: at first, in the end, and by what factor it grows.
FIRST_EFFORT, FULL_EFFORT, EFFORT_FACTOR = 1 / 16, 1.0, 4.0
MAX_EFFORT = 4.0**8  # what is not decided with this much cannot be: rounding decides between two values, for example
QUICK_EFFORT = 1 / 4


@dataclass(frozen=True, slots=True)
class Minimum:
    """The implicit hitting set search.

    What an oracle finds easily is mined in up to ``rounds`` rounds at a time; else ``quick`` hitting sets are tried
    for a first rule. ``steps`` bounds the local search for a lighter hitting set and ``nodes`` the exact one; the
    oracle is asked for ``per_query`` counterfactuals at a time. In the end up to ``ties`` hitting sets of the same
    weight that cover more of the history are asked about; 0 takes the rule found first.

    With an exact oracle its rule is proven and minimum. With one that only searches it is the shortest that nothing
    found refutes; the bound on the cardinality holds all the same, since it rests on counterfactuals alone.
    """

    rounds: int = 80
    quick: int = 40
    steps: int = 300
    nodes: int = 2_000_000
    per_query: int = 1
    ties: int = 10
    attempts: int = 20

    def run(self, problem: Problem, state: SearchState, start: int | None = None) -> list[int]:
        """A rule of least weight; the shortest so far that stands if the search is stopped.

        Where a rule is known that stands, the search may ``start`` with it.
        """
        everything = problem.list_all_demands()
        if everything is not None:
            return self._solve_known_demands(problem, state, everything)
        # What a miner finds is soon richer than what past rows demand.
        past = problem.oracle.capabilities.miner is None
        search = _MinimumSearch(problem, state, self, problem.list_demands(past))
        rule = search.find_first() if start is None else search.start_with(start)
        if rule is None:
            return []
        search.adopt(rule)
        # Implicit hitting sets: the rule at hand stands and gives an upper bound, the demands give a lower bound. Each
        # round either makes the rule lighter or adds demands that the last hitting set misses, so the loop ends.
        while (rule := search.find_lighter()) is not None:
            if search.is_confirmed(rule):
                search.adopt(rule)
            elif search.hits_demands(rule):  # its limit kept the oracle from deciding: nothing lighter is known to hold
                break
        # Only a minimum rule is compared with others of the same weight: a heavier one could still be replaced.
        if self.ties and state.lower_bound >= search.weight:
            search.prefer_coverage()
        return state.best

    def _solve_known_demands(self, problem: Problem, state: SearchState, demands: UInt64Array) -> list[int]:
        """Where all demands are known, one hitting set is the answer; the oracle confirms it."""
        with problem.meter.time_block("hitting set"):
            problem.meter.events["candidates"] += 1
            shortest = find_minimum_hitting_set(demands, problem.weights, node_limit=self.nodes)
        if not shortest.feasible:
            return []
        state.raise_lower_bound(shortest.lower_bound, demands)
        state.best = unpack_sets(shortest.members[None, :])
        search = _MinimumSearch(problem, state, self, demands)
        if search.is_unrefuted(state.best[0]) and self.ties and shortest.optimal:
            search.prefer_coverage()
        return state.best


@dataclass(slots=True)
class _MinimumSearch:
    """One run. ``demands`` are the minimal duals known, ``last_set`` the hitting set looked at last."""

    problem: Problem
    state: SearchState
    settings: Minimum
    demands: UInt64Array
    last_set: int = 0
    mined: int = 0  # how many counterfactuals were easily found
    demands_at_bound: int = 0  # how many demands there were when the lower bound was last looked at
    miner: Miner | None = field(init=False)  # what finds counterfactuals easily, where the oracle has that
    is_adjustable: bool = field(init=False)  # whether the oracle can try for a shorter or a longer while

    def __post_init__(self) -> None:
        self.miner = self.problem.oracle.capabilities.miner
        self.is_adjustable = self.problem.oracle.capabilities.adjustable_effort is not None

    @property
    def weight(self) -> float:
        """The weight of the rule at hand, in units."""
        return self.problem.weigh(self.state.best[0])

    def is_unrefuted(self, rule: int, effort: float = FULL_EFFORT) -> bool:
        """Whether the oracle cannot refute a rule; if it can, what its counterfactuals demand is kept."""
        meter = self.problem.meter
        meter.events["candidates"] += 1
        with meter.time_block("oracle"):
            verdict = self.problem.ask(rule, self.settings.per_query, effort)
        if isinstance(verdict, Refuted):
            self.demands = merge_minimal(self.demands, self.problem.compute_duals(verdict.points))
        return not isinstance(verdict, Refuted)

    def is_confirmed(self, rule: int) -> bool:
        """Whether a rule stands, and is as sure as the one at hand; hard questions are asked for longer and longer."""
        # `any` stops at the first effort that decides: refuted, or as sure as the rule at hand. If the rule was
        # refuted, the dual that refutes it is now among the demands, so `hits_demands` is False.
        return any(
            not self.is_unrefuted(rule, effort) or self.is_as_sure(rule) for effort in self.iterate_efforts()
        ) and self.hits_demands(rule)

    def iterate_efforts(self) -> Iterator[float]:
        """The efforts to ask the oracle with, rising: up to the usual one, or as long as seconds are left."""
        effort = FIRST_EFFORT if self.is_adjustable else FULL_EFFORT
        while effort <= FULL_EFFORT or (
            self.is_adjustable and effort <= MAX_EFFORT and self.problem.meter.seconds_left
        ):
            yield effort
            effort *= EFFORT_FACTOR

    def hits_demands(self, rule: int) -> bool:
        """Whether a rule meets all that is known to be demanded."""
        return self.problem.hits_demands(rule, self.demands)

    def find_needed(self, rule: int) -> int:
        """The components of a rule that alone meet something that is known to be demanded."""
        # A demand that shares exactly one component with the rule makes that component necessary.
        met = self.demands & self.problem.pack_rule(rule)
        return reduce(or_, unpack_sets(met[count_bits(met) == 1]), 0)

    def find_first(self) -> int | None:
        """A rule that stands: a quick hitting set, or else the longest rule; None if none can."""
        longest, has_miner = self.problem.allowed, self.miner is not None
        # The longest rule has the smallest box. If that is proven quickly, there is an answer from here on.
        if self.problem.oracle.exact and self.is_unrefuted(longest, QUICK_EFFORT) and self.is_decided(longest):
            self.state.best = [longest]  # proven already, whatever stops the search from now on
        # Try cheap hitting sets with little effort. Each failure adds demands: the next hitting set is better.
        for _ in range(self.settings.quick):
            # Some demand has no permitted component at all: no rule is consistent.
            if not self.hits_demands(longest):
                return None
            if has_miner and self.mined >= self.settings.rounds:
                break
            if self._is_proven_quickly(self._mine_first() if has_miner else self._find_quick_set()):
                return self.last_set
            if self.hits_demands(self.last_set):  # neither proven nor refuted: too hard for such a short while
                break
        return longest if self.is_unrefuted(longest) else None

    def _is_proven_quickly(self, rule: int) -> bool:
        """Whether a rule is found to hold in a short while, as surely as the oracle can say."""
        self.last_set = rule
        effort = QUICK_EFFORT if self.miner is None else FIRST_EFFORT
        return self.hits_demands(rule) and self.is_unrefuted(rule, effort) and self.is_decided(rule)

    def _mine_first(self) -> int:
        """The rule that is left when what is easily found has been mined."""
        problem = self.problem
        rule = self._mine(MiningRequest(self.demands, problem.allowed, problem.weights))
        return problem.allowed if rule is None else rule

    def _mine(self, request: MiningRequest) -> int | None:
        """Mine what is easily found, where the oracle has a miner; the last rule that was looked at then."""
        problem, miner, rule = self.problem, self.miner, None
        if miner is None:
            return None
        with problem.meter.time_block("gathering"):
            # The miner gives its counterfactuals in portions; their duals join the demands, of which only the minimal
            # ones stay: a set that hits a dual also hits every dual that contains it.
            for portion in miner.mine(problem.case, request, self.settings.rounds, problem.run):
                duals, rule = problem.compute_duals(portion.points), portion.rule
                self.demands = find_minimal_sets(np.concatenate([self.demands, duals]))
                self.mined += len(portion.points)
                problem.meter.events["candidates"] += len(portion.points)
        return rule

    def _find_quick_set(self) -> int:
        with self.problem.meter.time_block("quick set"):
            return unpack_sets(find_greedy_hitting_set(self.demands, self.problem.weights, self.problem.rng))[0]

    def start_with(self, rule: int) -> int | None:
        """A rule that was found elsewhere, if it stands."""
        self.last_set = rule
        return rule if self.is_unrefuted(rule) else None

    def adopt(self, rule: int) -> None:
        """Make a rule that stands the one at hand, and leave out what is redundant.

        What the last hitting set does without goes first.
        """
        self.state.best = [rule]
        adjustable = self.is_adjustable
        # Components that some demand makes necessary are never tried. Of the others, those that the last hitting set
        # does not have go first, and heavy ones before light ones.
        spare = rule & ~self.find_needed(rule)
        order = sorted(list_members(spare), key=lambda bit: (self.last_set >> bit & 1, -self.problem.weights[bit]))
        # Deletion: try the rule without each component. Easy questions are settled with little effort in the first
        # pass; what stays undecided is tried again with more effort in the next.
        for effort in self.iterate_efforts():
            if adjustable and effort > FIRST_EFFORT and self.hits_demands(self.state.best[0]):
                self._update_bound()
            order = [bit for bit in order if not self._try_without(bit, effort)]
            if not order:
                return
            order.sort(key=self._compute_unexplored)  # what is nearly decided goes first
        for bit in order if adjustable else ():  # what was left out since has made these boxes larger
            self._try_without(bit, FIRST_EFFORT)

    def _try_without(self, bit: int, effort: float) -> bool:
        """Leave out a component of the rule at hand if that is proven to do, or the rule is not proven either; whether
        it is known now that it can go or must stay.
        """
        shorter = self.state.best[0] & ~(1 << bit)
        if not self.hits_demands(shorter) or not self.is_unrefuted(shorter, effort):
            return True
        if self.is_as_sure(shorter):
            self.state.best = [shorter]
            return True
        return False

    def _compute_unexplored(self, bit: int) -> float:
        """How much of the box without a component is not explored, as far as that is known."""
        known = self.problem.oracle.lookup(self.problem.case.components.box(self.state.best[0] & ~(1 << bit)))
        return 1.0 - known.explored if isinstance(known, Unrefuted) else 1.0

    def find_lighter(self) -> int | None:
        """A hitting set lighter than the rule at hand; None if there is none, or if the nodes did not suffice.

        None also if that rule, which an oracle that only searches let pass, has been refuted since: begin again.
        """
        if not self.hits_demands(self.state.best[0]):
            return None
        self._update_bound()
        if self.state.lower_bound >= self.weight:
            return None
        # Weights are whole units, so a lighter set weighs at least one unit less.
        within = self.weight - 1.0
        found = self._repair(within) if self.miner is None else self._mine_within(within)
        # Local search and mining may miss a lighter set. Only branch and bound shows that there is none.
        if found is None:
            found = self._solve_exactly(self.weight, self.settings.nodes)
        self.last_set = self.last_set if found is None else found
        return found

    def _mine_within(self, within: float) -> int | None:
        """The last rule of at most this weight that the miner looked at; the demands that it finds are kept."""
        problem, steps, start = self.problem, self.settings.steps, self.last_set
        return self._mine(MiningRequest(self.demands, problem.allowed, problem.weights, within, start, max_steps=steps))

    def _repair(self, within: float) -> int | None:
        """A hitting set of at most this weight, by local search from the last one; None if it finds none."""
        problem = self.problem
        start, steps, seed = problem.pack_rule(self.last_set), self.settings.steps, int(problem.rng.integers(1 << 62))
        with problem.meter.time_block("local search"):
            found = repair_hitting_set(self.demands, problem.weights, start, max_weight=within, steps=steps, seed=seed)
        return _unpack_optional(found)

    def _solve_exactly(self, below: float, most: int) -> int | None:
        """A hitting set lighter than ``below`` by branch and bound, or None; raises the lower bound on the way."""
        problem, state, nodes, found = self.problem, self.state, 0, None
        # Each portion starts anew with four times the nodes, so all portions together cost little more than the last
        # one, and the meter is checked in between.
        while nodes < most and found is None and state.lower_bound < below:
            problem.meter.check()
            nodes = min(most, max(FIRST_NODES, 4 * nodes))
            with problem.meter.time_block("hitting set"):
                found, lower = find_lighter_hitting_set(
                    self.demands, problem.weights, below_weight=below, node_limit=nodes
                )
            # The bound holds for all consistent rules: they hit these demands too.
            state.raise_lower_bound(lower, self.demands)
        return _unpack_optional(found)

    def _update_bound(self) -> None:
        """Raise the lower bound whenever the demands have doubled."""
        if len(self.demands) >= 2 * self.demands_at_bound:
            self._raise_bound()

    def _raise_bound(self) -> None:
        """Raise the lower bound with few nodes; the search for lighter sets begins with the set that this finds.

        It goes up one unit at a time, or a share of what is left where that is many units.
        """
        problem, state, target = self.problem, self.state, 0.0
        self.demands_at_bound, found = len(self.demands), self._solve_exactly(self.weight, BOUND_NODES)
        # Ask for a set below a target slightly above the bound: either there is none, which raises the bound to it, or
        # one is found. The loop ends when a target is not reached (too few nodes) or the lightest set known is met.
        while target <= state.lower_bound < (least := self.weight if found is None else problem.weigh(found)):
            left = least - state.lower_bound
            target = state.lower_bound + (1.0 if left <= MAX_SINGLE_STEPS else left // 4.0)
            found = self._solve_exactly(target, BOUND_NODES) or found
        self.last_set = found or self.last_set

    def prefer_coverage(self) -> None:
        """Ask about other hitting sets of the same weight, those with most coverage first, until one stands."""
        try:
            for rule in self._list_wider(self.state.best[0])[: self.settings.ties]:
                if self.hits_demands(rule) and self.is_unrefuted(rule) and self.is_as_sure(rule):
                    self.state.best = [rule]
                    return
        except BudgetExhausted:  # the rule at hand is minimum all the same
            return

    def _list_wider(self, best: int) -> list[int]:
        """Other hitting sets of the same weight that cover more past rows, those that cover most first."""
        problem = self.problem
        with problem.meter.time_block("ties"):
            if not may_cover_more(problem.case, best, self.demands):
                return []
            listed = list_light_hitting_sets(
                self.demands, problem.weights, max_weight=self.weight, limit=MAX_LISTED, node_limit=MAX_LIST_NODES
            )
            rules = [best, *unpack_sets(listed.members)]
            # counts[0] belongs to the rule at hand; only rules that cover strictly more are worth a question.
            counts = count_covered(problem.case, rules) if len(rules) > 2 else [0] * len(rules)
            ranked = sorted(zip(counts, rules, strict=True), key=lambda one: (-one[0], one[1]))
        return [rule for count, rule in ranked if count > counts[0]]

    def is_decided(self, rule: int) -> bool:
        """Whether an oracle that reads the model has decided on a rule; one that only asks never can."""
        oracle = self.problem.oracle
        return not oracle.exact or isinstance(oracle.lookup(self.problem.case.components.box(rule)), Proven)

    def is_as_sure(self, rule: int) -> bool:
        """Whether a rule that stands is proven, or the one at hand is not either."""
        known, box = self.problem.oracle.lookup, self.problem.case.components.box
        return isinstance(known(box(rule)), Proven) or not isinstance(known(box(self.state.best[0])), Proven)


def _unpack_optional(found: UInt64Array | None) -> int | None:
    return None if found is None else unpack_sets(found)[0]


WITNESS_NODES = 2_000_000
MAX_WITNESS_ROWS = 64


def find_bound_witnesses(problem: Problem, weight: float, bound_demands: UInt64Array | None = None) -> Points | None:
    """Counterfactuals whose duals need a permitted rule of at least this weight; None if they cannot be found.

    ``bound_demands`` are those by which a search has shown that weight: where all of them are duals of counterfactuals
    that it found, nothing is left to show.
    """
    found = problem.oracle.points
    points, duals = _keep_minimal_duals(problem, np.empty((0, problem.n), dtype=np.int32) if found is None else found)
    # Invariant: `duals` are the minimal duals of `points`. Each round either shows the bound with them, or adds past
    # rows that refute the hitting set which is still too light.
    for _ in range(MAX_WITNESS_ROWS):
        demands = np.concatenate([duals, pack_sets(problem.required, problem.n)])
        # A demand without any permitted component: no rule hits it, so every lower bound holds.
        if len(demands) and not demands.any(axis=1).all():
            return points
        if bound_demands is not None and set(unpack_sets(bound_demands)).issubset(unpack_sets(demands)):
            return points
        lighter, bound = find_lighter_hitting_set(
            find_minimal_sets(demands), problem.weights, below_weight=weight, node_limit=WITNESS_NODES
        )
        if bound >= weight:
            return points
        if lighter is None:
            return None
        rows = problem.list_past_exceptions(unpack_sets(lighter)[0], MAX_WITNESS_ROWS)
        if len(rows) == 0:
            return None
        points, duals = _keep_minimal_duals(problem, np.concatenate([points, rows]))
    return None


def _keep_minimal_duals(problem: Problem, points: Points) -> tuple[Points, UInt64Array]:
    """One point for every dual that contains no other, and these duals."""
    duals = problem.compute_duals(points)
    # Reversed, so that for equal duals the first point is the one that stays.
    places = {dual: place for place, dual in reversed(list(enumerate(unpack_sets(duals))))}
    chosen = sorted(places[dual] for dual in unpack_sets(find_minimal_sets(duals)))
    return points[chosen], duals[chosen]
