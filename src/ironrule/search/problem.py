"""The problem that every algorithm solves, the state of a search, and the steps that searches share.

Rules are integers here: bit i stands for component i. A *demand* is a set of components of which a rule must have at
least one: the dual of a counterfactual, or a requirement of the user. A refuted rule is extended by each minimal
hitting set of its demands (the paper's Steps 1 to 4); a consistent one is reduced until no component is redundant.

Rules are also compared by how many past rows they cover (:func:`count_covered`). Such rules often share components: the
rows in the box of the shared ones are found in one pass, and every rule is counted among them. Where that would read
more than the history holds, one pass reduces the history to its distinct duals, which serve all rules at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from operator import and_, or_
from typing import Protocol

import numpy as np

from ironrule.arrays import Float64Array, Points, UInt64Array
from ironrule.hitting.bits import list_members, pack_sets, unpack_sets
from ironrule.hitting.reduce import count_bits, find_minimal_sets
from ironrule.hitting.solver import list_minimal_hitting_sets
from ironrule.hitting.weights import ExactNumber, are_unit_weights, multiply_exactly
from ironrule.model.history import RowCounter
from ironrule.oracles.caching import CachingOracle
from ironrule.oracles.combine import verify_oracle
from ironrule.oracles.protocol import BoxQuery, Case, Run, UserOracle
from ironrule.rule.duals import DistinctDuals, HistoryDuals, count_covered_rows, count_distinct_duals, hits_all
from ironrule.rule.kernels import compute_duals, has_more_matching_rows
from ironrule.verdict.budget import Meter
from ironrule.verdict.verdict import Refuted, Verdict

MAX_PASSES = 2  # times the rows of the history, before one pass for all rules is better
MAX_ROWS_COMPARED = 10_000  # rows
MAX_ROWS_READ = 1_000_000  # rows, that are soon read even if every rule reads all


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Find short consistent rules for the instance of a case.

    ``allowed`` are the components that may be used, each of ``required`` a set of which at least one must be;
    ``history`` holds the distinct duals of the desired past rows. ``weights`` are whole multiples of ``unit`` that add
    up to less than 2**53 (:mod:`ironrule.hitting.weights`); searches count in this unit, and their sums are exact.
    """

    case: Case
    oracle: CachingOracle
    history: DistinctDuals | HistoryDuals
    allowed: int
    required: tuple[int, ...]
    weights: Float64Array
    k: int
    run: Run
    unit: Fraction = Fraction(1)

    @property
    def meter(self) -> Meter:
        """What the search has used of its budget."""
        return self.run.meter

    @property
    def rng(self) -> np.random.Generator:
        """The random numbers of the search."""
        return self.run.rng

    @property
    def n(self) -> int:
        """The number of features."""
        return len(self.case.space)

    def weigh(self, rule: int) -> float:
        """The cardinality of a rule, weights counted in units."""
        if are_unit_weights(self.weights) or (self.weights == 1.0).all():
            return float(rule.bit_count())
        return float(sum(self.weights[bit] for bit in list_members(rule)))

    def to_user_weight(self, weight: float) -> ExactNumber:
        """A weight in units as an exact number in the user's own weights."""
        return multiply_exactly(weight, self.unit)

    def ask(self, rule: int, k: int | None = None, effort: float | None = None) -> Verdict:
        """The oracle's verdict on a rule, with up to k counterfactuals; a rule is asked about once, except that one
        that was left undecided is tried anew with another effort.
        """
        return self.oracle.find(BoxQuery(self.case, self.case.components.box(rule), k or self.k, effort), self.run)

    def find_known_exceptions(self, rule: int) -> Refuted | None:
        """``Refuted`` if a known counterfactual or desired past row lies in the rule's box; the model is not asked."""
        box, points = self.case.components.box(rule), self.oracle.points
        inside = np.empty((0, self.n), dtype=np.int32) if points is None else points[box.contains(points)]
        # Past rows are looked at only where their duals say that one of them is in the box: that test reads no rows.
        if len(inside) == 0 and not hits_all(pack_sets(rule, self.n), self.history.bits)[0]:
            inside = self.list_past_exceptions(rule, self.k)
        return self.case.build_refuted(inside[: self.k]) if len(inside) else None

    def list_past_exceptions(self, rule: int, most: int) -> Points:
        """Distinct ones of the first past rows with the desired outcome in the rule's box."""
        box, past = self.case.components.box(rule), self.case.history.desired
        rows = np.flatnonzero(past.flag_inside(box.low, box.high, self.case.space.sizes))
        return np.unique(past.points(rows[:most]), axis=0)

    def compute_duals(self, points: Points) -> UInt64Array:
        """What counterfactuals demand of a rule, restricted to what may be used."""
        components = self.case.components
        return np.asarray(compute_duals(points, components.low, components.high) & pack_sets(self.allowed, self.n))

    def list_all_demands(self) -> UInt64Array | None:
        """The demands that every consistent rule must hit and that suffice; None where the oracle cannot list them."""
        complete = self.oracle.enumerate_duals(self.case, self.run)
        if complete is None or (not self.required and self.allowed == self.case.components.usable):
            return None if complete is None else complete.duals
        return np.concatenate([complete.duals, pack_sets(self.required, self.n)]) & pack_sets(self.allowed, self.n)

    def list_demands(self, with_history: bool = True) -> UInt64Array:
        """What is known that a consistent rule must hit: requirements, counterfactuals found, and desired past rows."""
        known = [pack_sets(self.required, self.n), *([self.history.bits] if with_history else [])]
        if self.oracle.points is not None:
            known.append(compute_duals(self.oracle.points, self.case.components.low, self.case.components.high))
        return find_minimal_sets(np.asarray(np.concatenate(known) & pack_sets(self.allowed, self.n)))

    def meets_requirements(self, rule: int) -> bool:
        """Whether the rule has one of each required set."""
        return all(rule & demand for demand in self.required)

    def hits_demands(self, rule: int, demands: UInt64Array) -> bool:
        """Whether the rule has a component of every demand."""
        return bool((demands & self.pack_rule(rule)).any(axis=1).all())

    def pack_rule(self, rule: int) -> UInt64Array:
        """A rule as a row of words."""
        return np.asarray(pack_sets(rule, self.n)[0])


@dataclass(slots=True)
class SearchState:
    """What a search has at any moment, for the case that it is stopped."""

    best: list[int] = field(default_factory=list)
    lower_bound: float = 0.0  # no consistent rule weighs less, in units
    bound_demands: UInt64Array | None = None  # the demands by which that was shown
    checked: dict[int, Verdict] = field(default_factory=dict)  # rules that the search ended with, checked since

    def raise_lower_bound(self, weight: float, demands: UInt64Array | None = None) -> None:
        """Note a lower bound, and the demands by which it was shown, unless a better one is known."""
        if weight > self.lower_bound:
            self.lower_bound, self.bound_demands = weight, demands


class Algorithm(Protocol):
    """A search for rules."""

    def run(self, problem: Problem, state: SearchState) -> list[int]:
        """The best rules found, best first; ``state.best`` is kept up to date on the way."""
        ...

    @property
    def attempts(self) -> int:
        """How often a rule that a final check refutes may be replaced by searching on."""
        ...


@contextmanager
def ask_instead(problem: Problem, oracle: UserOracle | None) -> Iterator[Problem]:
    """The problem with another oracle for the search alone, if there is one; what that finds, the problem's own oracle
    knows afterwards. The final check is the problem's own.
    """
    if oracle is None:
        yield problem
        return
    other = replace(problem, oracle=CachingOracle(verify_oracle(oracle), points=problem.oracle.points))
    try:
        yield other
    finally:
        if other.oracle.points is not None:
            problem.oracle.add_counterfactuals(other.oracle.points)


def merge_minimal(known: UInt64Array, new: UInt64Array) -> UInt64Array:
    """The inclusion-minimal rows of both, if those of ``known`` are so among themselves and ``new`` ones are few."""
    # Invariant: no row of `known` contains another. A new row that contains a known one adds nothing; otherwise it is
    # added, and the known rows that contain it are dropped.
    for row in new:
        if not ((known & ~row) == 0).all(axis=1).any():
            known = np.concatenate([known[(row & ~known).any(axis=1)], row[None, :]])
    return known


def extend_rule(problem: Problem, rule: int, limit: int, max_duals: int | None = None) -> list[int]:
    """The paper's Steps 1 to 4: a refuted rule with each minimal hitting set of the duals of its counterfactuals added.

    What is required and not met yet is hit as well. Every consistent rule that contains the rule and meets what is
    required contains one of these, as long as they are not more than ``limit``. A rule that cannot be refuted, and
    lacks nothing, has no extensions. With ``max_duals``, only so many duals are hit, the smallest ones: then an
    extension may leave a counterfactual that is known, and is extended again.
    """
    verdict = problem.ask(rule)
    # Step 1: the demands that the rule does not meet, from requirements and from the duals of its counterfactuals.
    demands = pack_sets([demand & problem.allowed for demand in problem.required if not demand & rule], problem.n)
    if isinstance(verdict, Refuted):
        duals = problem.compute_duals(verdict.points)
        if max_duals is not None:
            duals = duals[np.argsort(count_bits(duals), kind="stable")[:max_duals]]
        demands = np.concatenate([duals, demands])
    if len(demands) == 0:
        return []
    # Steps 2 to 4: every minimal way to meet them is one extension.
    sets, _ = list_minimal_hitting_sets(demands, limit)
    problem.meter.events["extensions"] += len(sets)
    return [rule | added for added in unpack_sets(sets)] if len(sets) else []


def reduce_rule(problem: Problem, rule: int) -> int:
    """The rule without redundant components: each is dropped if the oracle cannot refute the rule without it."""
    # Deletion, heavy components first. One pass suffices: a component that a rule needs, every part of it needs.
    for bit in sorted(list_members(rule), key=lambda bit: -problem.weights[bit]):
        shorter = rule & ~(1 << bit)
        if problem.meets_requirements(shorter) and not isinstance(problem.ask(shorter), Refuted):
            rule = shorter
    return rule


def count_covered(case: Case, rules: Sequence[int]) -> list[int]:
    """The number of past rows in every rule's box, whatever their outcome."""
    if not rules:
        return []
    past = RowCounter.from_history(case.history, case.space.sizes)
    # Few rows are all read for every rule. Otherwise: all boxes lie in the box of the components that the rules share.
    # If few rows lie in it, only these are read per rule; if not, one pass reduces the history to distinct duals.
    if len(case.history) * len(rules) > MAX_ROWS_READ:
        shared = case.components.box(reduce(and_, rules))
        if past.count(shared) * len(rules) > MAX_PASSES * len(case.history):
            every = count_distinct_duals(case.history.codes.columns, case.components.low, case.components.high)
            covered = count_covered_rows(pack_sets(rules, len(case.space)), every.bits, every.counts)
            return [int(count) for count in covered]
        past = past.restrict(shared, sorted({bit // 2 for bit in list_members(reduce(or_, rules))}))
    counts: list[int] = past.count_each(case.components.boxes(rules)).tolist()
    return counts


def may_cover_more(case: Case, rule: int, demands: UInt64Array) -> bool:
    """Whether a rule that meets all demands may cover more past rows than this one: it only covers rows in which some
    component of every demand holds. Where there are too many to look at, it may.
    """
    history, components = case.history, case.components
    if len(history) > MAX_ROWS_COMPARED:
        return True
    # Count the past rows in which a component of every demand holds, until they are more than the rule covers.
    columns, bounds = (history.addresses, history.item_sizes), (components.low, components.high)
    covered = history.count_covered(components.box(rule), case.space.sizes)
    return has_more_matching_rows(columns, bounds, demands, len(history), covered)
