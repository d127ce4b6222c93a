"""MinSetCover: the shortest rule that no past row contradicts (Rudin and Shaposhnik 2019).

C. Rudin and Y. Shaposhnik, "Globally-consistent rule-based summary-explanations for machine learning models". A rule
is data consistent exactly if it hits the dual of every desired past row, so the shortest one is a minimum hitting set
of these duals: their minimum set cover, with past rows to be covered by the components that exclude them. Often there
are many of one length. Their second question asks for the one with most support, which is the one that covers most
past rows.

The model is never asked: what lies between the past rows is not looked at, so the rule may have exceptions there, and
the final check says so. Its length bounds that of every consistent rule all the same, since past rows are
counterfactuals.

Two solvers agree: our own branch and bound, and the paper's integer programs, solved by HiGHS through SciPy:

    shortest       min  sum_p w_p x_p     sum of x_p over a demand's components >= 1, for every demand;  x binary
    most support   max  sum_d c_d r_d     the same, sum_p w_p x_p <= the least,  r_d + x_p <= 1 for every p in d

x_p says whether component p is in the rule. d runs over the distinct duals of the undesired past rows, c_d counts the
rows of each, and r_d, which no rule can have as 1 that contains a component of d, says whether these rows are covered.

HiGHS calculates with tolerances. So its rules are held against the demands, their weights are added up exactly, and
its bound on the weight is lowered by what the tolerances may come to. Where that no longer shows that the rule is the
lightest, our own branch and bound decides. Weights that are too far apart for these tolerances have no second program.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from ironrule.arrays import BoolArray, IntpArray, UInt64Array
from ironrule.errors import IronruleError
from ironrule.hitting.bits import pack_sets, unpack_flags, unpack_sets
from ironrule.hitting.reduce import find_minimal_sets
from ironrule.hitting.solver import (
    MinimumHittingSet,
    find_lighter_hitting_set,
    find_minimum_hitting_set,
    list_light_hitting_sets,
)
from ironrule.rule.duals import count_distinct_duals
from ironrule.search.problem import Problem, SearchState, count_covered
from ironrule.verdict.budget import Meter

FIRST_NODES, FIRST_LIMIT = 1_000, 256  # of the first portions; the next ones grow


@dataclass(frozen=True, slots=True)
class SetCover:
    """A rule that hits all demands.

    No rule that does weighs less than ``lower_bound``, in units. ``compared``: it is known that none of the same weight
    covers more past rows; False where that was not asked for, or a limit was reached first.
    """

    rule: int
    lower_bound: float
    compared: bool


class SetCoverSolver(Protocol):
    """Finds minimum covers."""

    def find_cover(self, problem: Problem, demands: UInt64Array, support: bool) -> SetCover | None:
        """A rule of least weight, with ``support`` the one of them that covers most; None if nothing hits a demand."""
        ...


@dataclass(frozen=True, slots=True)
class HittingSetSolver:
    """Our own branch and bound; with ``support``, all minimum covers are listed and compared.

    At most ``limit`` covers are listed, and neither search takes more than ``nodes`` nodes.
    """

    nodes: int = 2_000_000
    limit: int = 1 << 16

    def find_cover(self, problem: Problem, demands: UInt64Array, support: bool) -> SetCover | None:
        """A rule of least weight; its lower bound is less than its weight where the nodes did not suffice."""
        shortest = self._find_shortest(problem, demands)
        if not shortest.feasible:
            return None
        rule = unpack_sets(shortest.members[None, :])[0]
        if not support or not shortest.optimal:
            return SetCover(rule, shortest.lower_bound, False)
        others, complete = self._list_covers(problem, demands, shortest.weight)
        rules = list(dict.fromkeys([rule, *others]))
        problem.meter.events["candidates"] += len(rules) - 1
        counts = count_covered(problem.case, rules) if len(rules) > 1 else [0]
        _, best = min(zip(counts, rules, strict=True), key=lambda one: (-one[0], one[1]))
        return SetCover(best, shortest.lower_bound, complete)

    def _find_shortest(self, problem: Problem, demands: UInt64Array) -> MinimumHittingSet:
        """In portions, so that a budget in time is kept."""
        # Each portion starts anew with four times the nodes: together they cost little more than the last one.
        nodes = min(FIRST_NODES, self.nodes)
        while True:
            problem.meter.check()
            found = find_minimum_hitting_set(demands, problem.weights, node_limit=nodes)
            if found.optimal or nodes >= self.nodes:
                return found
            nodes = min(4 * nodes, self.nodes)

    def _list_covers(self, problem: Problem, demands: UInt64Array, within: float) -> tuple[list[int], bool]:
        """The covers of a weight, and whether these are all."""
        # Two limits grow together: the nodes of the search and the number of covers it may list.
        nodes, limit = min(FIRST_NODES, self.nodes), min(FIRST_LIMIT, self.limit)
        while True:
            problem.meter.check()
            found = list_light_hitting_sets(demands, problem.weights, max_weight=within, limit=limit, node_limit=nodes)
            if found.complete or (nodes >= self.nodes and limit >= self.limit):
                return unpack_sets(found.members) if len(found.members) else [], found.complete
            nodes, limit = min(8 * nodes, self.nodes), min(8 * limit, self.limit)


@dataclass(frozen=True, slots=True)
class MinSetCover:
    """The minimum set cover of the past; with ``support``, of several minimum ones the one that covers most past rows.

    Where ``solver`` reached its limit before it had compared them all, ``unlisted ties`` counts that in the meter.
    """

    solver: SetCoverSolver = field(default_factory=HittingSetSolver)
    support: bool = True
    attempts: int = 1

    def run(self, problem: Problem, state: SearchState) -> list[int]:
        """The shortest rule that no past row contradicts; none if past rows contradict all that is allowed."""
        meter = problem.meter
        demands = _list_past_demands(problem)
        with meter.time_block("hitting set"):
            meter.events["candidates"] += 1
            found = self.solver.find_cover(problem, demands, self.support)
        if found is None:
            return []
        meter.events["unlisted ties"] += self.support and not found.compared
        state.best = [found.rule]
        state.raise_lower_bound(found.lower_bound)
        return state.best


def _list_past_demands(problem: Problem) -> UInt64Array:
    """What past rows and requirements demand; nothing else that may be known."""
    every = np.concatenate([problem.history.bits, pack_sets(problem.required, problem.n)])
    return find_minimal_sets(np.asarray(every & pack_sets(problem.allowed, problem.n)))


TOLERANCE = 1e-6  # HiGHS's, by which a variable may miss a whole number, and a sum its bound
MAX_HIGHS_WEIGHT = 1e6  # larger ones are scaled down for HiGHS, which then cannot tell rules of one weight from others
CONFIRM_NODES = 2_000_000  # of our own search, where HiGHS's bound does not suffice
TIME_LIMIT_REACHED = 1  # SciPy's status


@dataclass(frozen=True, slots=True)
class HighsSolver:
    """Minimum covers by HiGHS: a second opinion on :class:`HittingSetSolver`, and slower."""

    def find_cover(self, problem: Problem, demands: UInt64Array, support: bool) -> SetCover | None:
        """A rule of least weight, if our own search needs few enough nodes; BudgetExhausted when the time is up."""
        # A demand without a permitted component cannot be hit.
        if not demands.any(axis=1).all():
            return None
        flags = unpack_flags(demands)
        # Only components of some demand become variables; a minimum rule needs no others.
        used = np.flatnonzero(flags.any(axis=0))
        weights = problem.weights[used]
        cover = flags[:, used]
        scale = max(1.0, weights.max(initial=1.0) / MAX_HIGHS_WEIGHT)
        found = _solve_program(problem.meter, weights / scale, [(cover, 1.0, np.inf)])
        # Each variable may miss 0 or 1 by the tolerance, so the bound is lowered by the most that this can add up to.
        bound = found.bound * scale - TOLERANCE * weights.sum()
        rule, lower = _confirm_lightest(problem, demands, _build_rule(used, found.values), bound)
        weight = problem.weigh(rule)
        if not support or lower < weight or scale > 1.0:
            return SetCover(rule, lower, False)
        # Weights are whole units: half a unit of room admits no heavier rule, and outweighs the tolerance of HiGHS.
        widest = _build_rule(used, _solve_support(problem, used, weights, cover, weight + 0.5))
        sound = problem.hits_demands(widest, demands) and problem.weigh(widest) <= weight
        return SetCover(widest if sound else rule, lower, sound)


class _ProgramSolution(NamedTuple):
    """The values that a program's variables take at its least, and a bound on that."""

    values: Any
    bound: float


def _confirm_lightest(problem: Problem, demands: UInt64Array, rule: int, bound: float) -> tuple[int, float]:
    """The rule, or one that our own search finds to be lighter, and a lower bound on the weight of all."""
    if not problem.hits_demands(rule, demands):
        raise IronruleError("HiGHS returned a solution that leaves a demand open")
    # Weights are whole units, so the lower bound may be rounded up.
    weight, lower = problem.weigh(rule), max(0.0, float(np.ceil(bound)))
    # The bound of HiGHS leaves a gap: our own search closes it, or finds a lighter rule, which is tried again.
    while lower < weight:
        problem.meter.check()
        lighter, own = find_lighter_hitting_set(demands, problem.weights, below_weight=weight, node_limit=CONFIRM_NODES)
        lower = max(lower, own)
        if lighter is None:
            break
        rule = unpack_sets(lighter)[0]
        weight = problem.weigh(rule)
    return rule, min(lower, weight)


def _solve_support(problem: Problem, used: IntpArray, weights: Any, cover: BoolArray, most: float) -> Any:
    """The second program's answer: which components the rule has, which weigh no more than ``most``."""
    from scipy.sparse import csr_array, hstack

    # The distinct duals of the past rows that a data consistent rule may cover.
    history, components = problem.case.history, problem.case.components
    past = count_distinct_duals(history.codes.columns, components.low, components.high, rows=~history.outcomes)
    excluded = unpack_flags(past.bits)[:, used]
    # Variables are the x of the used components, then one r per distinct dual. Every pair here is a constraint:
    row, component = np.nonzero(excluded)  # r_row + x_component <= 1
    each, ones = np.arange(len(row)), np.ones(len(row))
    excludes = csr_array((ones, (each, component)), shape=(len(row), len(used)))
    covered = csr_array((ones, (each, row)), shape=(len(row), len(past.bits)))
    none = csr_array((len(cover) + 1, len(past.bits)))
    # One row per demand (at least 1), and as the last row the weight of the rule (at most `most`).
    lightest = np.concatenate([cover, weights[None, :]])
    lower, upper = np.ones(len(lightest)), np.full(len(lightest), np.inf)
    lower[-1], upper[-1] = -np.inf, most
    constraints = [(hstack([csr_array(lightest), none]), lower, upper), (hstack([excludes, covered]), -np.inf, 1.0)]
    # milp minimises, so the counts of covered rows are negative.
    costs = np.concatenate([np.zeros(len(used)), -past.counts.astype(np.float64)])
    return _solve_program(problem.meter, costs, constraints).values


def _solve_program(meter: Meter, costs: Any, constraints: list[Any]) -> _ProgramSolution:
    """What HiGHS says of a program with binary variables."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    meter.check()
    if len(costs) == 0:
        return _ProgramSolution(costs, 0.0)
    options = {"mip_rel_gap": 0.0}
    if meter.budget.seconds is not None:
        options["time_limit"] = meter.budget.seconds - meter.elapsed
    limits = [LinearConstraint(*constraint) for constraint in constraints if constraint[0].shape[0]]
    found = milp(costs, integrality=1, bounds=Bounds(0, 1), constraints=limits, options=options)
    if found.status == TIME_LIMIT_REACHED:
        meter.exhaust("seconds")
    if found.status:
        raise IronruleError(f"HiGHS failed to solve a program that has a solution: {found.message}")
    bound = found.mip_dual_bound
    return _ProgramSolution(found.x, 0.0 if bound is None else float(bound))


def _build_rule(used: IntpArray, values: Any) -> int:
    """The rule of the components whose variable is 1."""
    # Values are 0 or 1 within the tolerance, so one half separates them safely.
    chosen = np.asarray(values)[: len(used)] > 0.5
    return sum(1 << bit for bit in used[chosen].tolist())
