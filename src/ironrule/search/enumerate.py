"""Enumerate all minimal sets with a monotone property, in levels of rising weight: rules, and changes.

The property (larger sets have it too) is known only through queries: a set either has it, or the answer is a demand,
which is a set of which every set with the property has a member.

* Rules: a rule has the property if it is consistent; the demands are the duals of its counterfactuals. The minimum
  search goes first: it finds the lightest level, and most of the demands, faster than any listing.
* Changes: a set of features has the property if changing only these can give the desired outcome. If it cannot, the
  values of the other features are a reason for the outcome, and so are those of a minimal part of them; every change
  must touch something of every such part. So where rules are made from counterfactuals, changes are made from rules,
  whose components come in whole features: a feature that keeps its value is fixed by all its components.

Level by level, the minimal hitting sets of the demands known so far are listed up to a weight and asked about; answers
become demands, and the level is listed again until all that is listed has the property. Then these are all there are
up to that weight: a minimal set with the property hits the demands, so it contains a minimal hitting set; this has the
property, so it is the set itself. And each of them is minimal for good, whatever else is found later, since every
member is the only one to hit some demand. Where the list has nothing heavier left, the levels end. (Reiter 1987; for
explanations Ignatiev, Narodytska, Asher and Marques-Silva, "From contrastive to abductive explanations and back
again", 2020.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from ironrule.arrays import Float64Array, Points, UInt64Array
from ironrule.hitting.bits import list_members, pack_sets, unpack_sets
from ironrule.hitting.solver import list_light_hitting_sets
from ironrule.search.driver import check_rule
from ironrule.search.minimum import Minimum
from ironrule.search.problem import Problem, SearchState, merge_minimal
from ironrule.verdict.budget import BudgetExhausted, Meter, name_stop
from ironrule.verdict.verdict import Proven, Refuted, Unrefuted, Verdict

FIRST_LIMIT, FIRST_NODES = 64, 4_000  # both grow while all that is listed has the property
MAX_UNIT_WEIGHT = 64  # weights up to it have one level per unit


@dataclass(slots=True)
class LevelEnumeration:
    """The search; ``find_unmet`` answers for a set with the demands that it misses, none if it has the property.

    ``found`` holds the sets found so far, those of a level that is not finished included; ``complete`` says that there
    are no others. Both are only as good as the answers.
    """

    find_unmet: Callable[[int], UInt64Array]
    demands: UInt64Array
    weights: Float64Array
    meter: Meter
    found: dict[int, None] = field(default_factory=dict)
    complete: bool = False

    def __call__(self, within: float = 0.0) -> Iterator[tuple[int, ...]]:
        """The sets of every level, from those up to a weight on; a level without any is handed out too.

        Weights are whole numbers. Where they are small, a level has one weight. Else it is a range of weights, which
        grows while levels are empty: there may be billions of whole numbers between the weights of two sets.
        """
        few, step = bool((self.weights <= MAX_UNIT_WEIGHT).all()), 1.0
        # One level per turn. `beyond` is a lower bound on the weight of all other sets, so empty weights are skipped.
        while not self.complete:
            before = len(self.found)
            beyond = self._finish_level(within)
            self.complete = beyond == np.inf
            step = 1.0 if few or len(self.found) > before else 2.0 * step
            within = max(within + step, beyond)
            yield tuple(self.found)[before:]

    def _finish_level(self, within: float) -> float:
        """Find all sets up to a weight; returns the least that another can weigh, infinite if there is none."""
        limit, nodes = FIRST_LIMIT, FIRST_NODES
        # List, ask, and list again. New demands change the list, so it is repeated with the same limits; if all sets
        # of an incomplete list have the property, the limits were too small and are doubled.
        while True:
            self.meter.check()
            with self.meter.time_block("hitting set"):
                listed = list_light_hitting_sets(
                    self.demands, self.weights, max_weight=within, limit=limit, node_limit=nodes
                )
            settled = self._ask(unpack_sets(listed.members) if len(listed.members) else [])
            if settled and listed.complete:
                return listed.others_lower_bound
            if settled:
                limit, nodes = 2 * limit, 2 * nodes

    def _ask(self, listed: list[int]) -> bool:
        """Ask about the sets that are new; whether all have the property."""
        settled = True
        for candidate in listed:
            # A demand learned from an earlier set of this list may already show that this one lacks the property.
            if candidate in self.found or not self._hits_demands(candidate):
                continue
            lacking = self.find_unmet(candidate)
            if len(lacking) == 0:
                self.found[candidate] = None
            else:
                self.demands, settled = merge_minimal(self.demands, lacking), False
        return settled

    def _hits_demands(self, candidate: int) -> bool:
        words = np.frombuffer(candidate.to_bytes(8 * self.demands.shape[1], "little"), dtype="<u8")
        return bool((self.demands & words).any(axis=1).all())


@dataclass(slots=True)
class RuleEnumeration:
    """The irredundant rules of a problem, level by level, each with its verdict.

    With an exact oracle every rule handed out is proven, and each of its components is needed for a counterfactual that
    was found. Whatever stops the search, which ``stopped`` says, all rules lighter than the last level have been
    handed out. ``complete`` says that there are no others; it is never said where some rule could not be decided.
    """

    problem: Problem
    stopped: str | None = None
    complete: bool = False
    verdicts: dict[int, Verdict] = field(default_factory=dict)
    state: SearchState = field(default_factory=SearchState)

    def levels(self) -> Iterator[dict[int, Verdict]]:
        """The rules of one level after the other; the last one may be unfinished."""
        handed_out: set[int] = set()
        try:
            for _ in self._search_levels():
                yield self._take_new(handed_out)
            self.complete = all(isinstance(verdict, Proven) for verdict in self.verdicts.values())
            return
        except (BudgetExhausted, KeyboardInterrupt) as stop:
            self.stopped = name_stop(stop, self.problem.meter)
        yield self._take_new(handed_out) or self._list_best_proven()

    def _search_levels(self) -> Iterator[tuple[int, ...]]:
        # The lower bound of the minimum search is the weight of the first level that can hold a rule.
        problem = self.problem
        if Minimum(ties=0).run(problem, self.state):
            search = LevelEnumeration(self._find_unmet, problem.list_demands(), problem.weights, problem.meter)
            yield from search(self.state.lower_bound)

    def _take_new(self, handed_out: set[int]) -> dict[int, Verdict]:
        """The rules that were not handed out yet and that nothing found since refutes."""
        new = {rule: verdict for rule, verdict in self.verdicts.items() if rule not in handed_out}
        handed_out |= set(new)
        return {rule: verdict for rule, verdict in new.items() if self._is_unrefuted(rule)}

    def _is_unrefuted(self, rule: int) -> bool:
        return isinstance(self.verdicts[rule], Proven) or self.problem.find_known_exceptions(rule) is None

    def _list_best_proven(self) -> dict[int, Verdict]:
        """What the minimum search had when it was stopped, if nothing in it is redundant."""
        problem, demands = self.problem, self.problem.list_demands()
        best = {rule: problem.oracle.lookup(problem.case.components.box(rule)) for rule in self.state.best}
        return {
            rule: verdict
            for rule, verdict in best.items()
            if isinstance(verdict, Proven)
            and rule not in self.verdicts
            and not any(problem.hits_demands(rule & ~(1 << bit), demands) for bit in list_members(rule))
        }

    def _find_unmet(self, rule: int) -> UInt64Array:
        """The duals of a rule's counterfactuals; if it has none, its verdict is kept."""
        problem = self.problem
        with problem.meter.time_block("oracle"):
            verdict = problem.ask(rule, 1)
        # The oracle could not decide: check the rule as the driver does, which may still prove or refute it.
        if isinstance(verdict, Unrefuted):
            verdict = check_rule(problem, rule, len(self.verdicts) + 1)
            if isinstance(verdict, Refuted):
                problem.oracle.add_counterfactuals(verdict.points)
        if isinstance(verdict, Refuted):
            return problem.compute_duals(verdict.points)
        self.verdicts[rule] = verdict
        return np.zeros((0, problem.pack_rule(0).shape[0]), np.uint64)


@dataclass(frozen=True, slots=True, eq=False)
class FoundChange:
    """Features as a set of bits, and a counterfactual that changes just these; ``minimal``: proven to be so."""

    features: int
    point: Points
    minimal: bool


@dataclass(slots=True)
class ChangeEnumeration:
    """The minimal sets of features, among the ``varying`` ones, whose change can give the desired outcome.

    Whatever stops the search, which ``stopped`` says, all smaller sets than those of the last level have been handed
    out, as far as the oracle could tell. ``complete`` says that there are no others; it is never said where some box
    could not be decided.
    """

    problem: Problem
    varying: int
    trusted: bool = True  # whether a proof for the values of the domains is one for all that can occur
    stopped: str | None = None
    complete: bool = False
    points: dict[int, Points] = field(default_factory=dict)
    reasons: UInt64Array = field(init=False)  # minimal sets of varying features that, kept, are proven to suffice
    unsure: bool = False  # whether some reason could not be proven

    def __post_init__(self) -> None:
        self.reasons = pack_sets([], self.problem.n)

    def levels(self) -> Iterator[list[FoundChange]]:
        """The sets of one level after the other; the last one may be unfinished."""
        handed_out, n = set[int](), self.problem.n
        search = LevelEnumeration(self._find_unmet, pack_sets([], n), np.ones(n), self.problem.meter)
        try:
            for _ in search():
                yield self._take_new(handed_out)
            self.complete = self.trusted and not self.unsure
            return
        except (BudgetExhausted, KeyboardInterrupt) as stop:
            self.stopped = name_stop(stop, self.problem.meter)
        yield self._take_new(handed_out)

    def _take_new(self, handed_out: set[int]) -> list[FoundChange]:
        new = [(features, point) for features, point in self.points.items() if features not in handed_out]
        handed_out |= set(self.points)
        return [FoundChange(features, point, self._is_minimal(features)) for features, point in new]

    def _is_minimal(self, features: int) -> bool:
        """Whether every feature is the only one to touch some reason that is proven."""
        if not self.trusted:
            return False
        # Without a feature that is needed, some proven reason is no longer touched.
        rows = [pack_sets(features & ~(1 << feature), self.problem.n)[0] for feature in list_members(features)]
        return all(not (self.reasons & row).any(axis=1).all() for row in rows)

    def _find_unmet(self, features: int) -> UInt64Array:
        """A reason among the other features; if there is none, the change that shows it is kept."""
        # Keep all features but these. If a counterfactual exists, this change suffices, and the point shows it.
        kept = self.varying & ~features
        verdict = self._ask(kept)
        if isinstance(verdict, Refuted):
            point = verdict.points[0]
            changed = np.flatnonzero(point != self.problem.case.instance).tolist()
            self.points.setdefault(sum(1 << feature for feature in changed), point)
            return pack_sets([], self.problem.n)
        # No counterfactual: the kept features are a reason. Deletion makes the reason minimal, one feature at a time;
        # a smaller reason is a stronger demand.
        for feature in list_members(kept):
            answer = self._ask(kept & ~(1 << feature))
            if not isinstance(answer, Refuted):
                kept, verdict = kept & ~(1 << feature), answer
        reason = pack_sets(kept, self.problem.n)
        # Only a proven reason may show that a change is minimal; one that was merely not refuted guides the search.
        self.unsure |= not isinstance(verdict, Proven)
        self.reasons = merge_minimal(self.reasons, reason) if isinstance(verdict, Proven) else self.reasons
        return reason

    def _ask(self, kept: int) -> Verdict:
        """Whether a counterfactual exists that keeps these features, and those that may not vary."""
        fixed = kept | ((1 << self.problem.n) - 1 & ~self.varying)
        usable = self.problem.case.components.usable
        # Both components of a feature together fix its value: bits 2j and 2j + 1.
        rule = sum(0b11 << 2 * feature for feature in list_members(fixed)) & usable
        with self.problem.meter.time_block("oracle"):
            return self.problem.ask(rule, 1)
