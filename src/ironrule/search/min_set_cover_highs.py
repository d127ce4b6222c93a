"""MinSetCover as integer programs, solved by HiGHS through SciPy: the formulation of Rudin and Shaposhnik (2019).

    shortest       min  sum_p w_p x_p     sum of x_p over a demand's components >= 1, for every demand;  x binary
    most support   max  sum_d c_d r_d     the same, sum_p w_p x_p <= the least,  r_d + x_p <= 1 for every p in d

x_p says whether component p is in the rule. d runs over the distinct duals of the undesired past rows, c_d counts the
rows of each, and r_d, which no rule can have as 1 that contains a component of d, says whether these rows are covered.

HiGHS calculates with tolerances. So its rules are held against the demands, their weights are added up exactly, and its
bound on the weight is lowered by what the tolerances may come to. Where that no longer shows that the rule is the
lightest, our own branch and bound decides. Weights that are too far apart for these tolerances have no second program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ironrule.errors import IronruleError
from ironrule.rule.bits import unpack
from ironrule.rule.duals import DistinctDuals, distinct_duals
from ironrule.rule.hitting import lighter_hitting_set
from ironrule.search.min_set_cover import Cover
from ironrule.search.problem import Problem
from ironrule.verdict import Meter, Spent

Words = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]
TOLERANCE = 1e-6  # HiGHS's, by which a variable may miss a whole number, and a sum its bound
LARGEST = 1e6  # larger weights are scaled down for HiGHS, and then it cannot tell rules of one weight from others
NODES = 2_000_000  # of our own search, where HiGHS's bound does not suffice
TIME_IS_UP = 1  # SciPy's status


@dataclass(frozen=True, slots=True)
class HighsProgram:
    """Minimum covers by HiGHS: a second opinion on :class:`ironrule.search.min_set_cover.HittingSets`, and slower."""

    def cover(self, problem: Problem, demands: Words, support: bool) -> Cover | None:
        """A rule of least weight, where the nodes of our own search suffice; raises Spent when the time is up."""
        if not demands.any(axis=1).all():
            return None
        flags = _flags(demands)
        used = np.flatnonzero(flags.any(axis=0))
        weights = problem.weights[used]
        cover = flags[:, used]
        scale = max(1.0, weights.max(initial=1.0) / LARGEST)
        found = _solved(problem.meter, weights / scale, [(cover, 1.0, np.inf)])
        bound = found.bound * scale - TOLERANCE * weights.sum()
        rule, lower = _lightest(problem, demands, _rule(used, found.values), bound)
        weight = problem.weight(rule)
        if not support or lower < weight or scale > 1.0:
            return Cover(rule, lower, False)
        widest = _rule(used, _widest(problem, used, weights, cover, weight + 0.5))
        sound = _hits(problem, demands, widest) and problem.weight(widest) <= weight
        return Cover(widest if sound else rule, lower, sound)


class _Solution(NamedTuple):
    """The values that a program's variables take at its least, and a bound on that."""

    values: Any
    bound: float


def _hits(problem: Problem, demands: Words, rule: int) -> bool:
    return bool((demands & problem.words(rule)).any(axis=1).all())


def _lightest(problem: Problem, demands: Words, rule: int, bound: float) -> tuple[int, float]:
    """The rule, or one that our own search finds to be lighter, and a lower bound on the weight of all."""
    if not _hits(problem, demands, rule):
        raise IronruleError("HiGHS returned a solution that leaves a demand open")
    weight, lower = problem.weight(rule), max(0.0, float(np.ceil(bound)))
    while lower < weight:
        problem.meter.check()
        lighter, known = lighter_hitting_set(demands, problem.weights, below=weight, node_limit=NODES)
        lower = max(lower, known)
        if lighter is None:
            break
        rule = unpack(lighter)[0]
        weight = problem.weight(rule)
    return rule, min(lower, weight)


def _widest(problem: Problem, used: npt.NDArray[np.intp], weights: Any, cover: Flags, most: float) -> Any:
    """The second program's answer: which components the rule has, which weigh no more than ``most``."""
    from scipy.sparse import csr_array, hstack

    past = _undesired(problem)
    excluded = _flags(past.bits)[:, used]
    row, component = np.nonzero(excluded)  # r_row + x_component <= 1
    each, ones = np.arange(len(row)), np.ones(len(row))
    excludes = csr_array((ones, (each, component)), shape=(len(row), len(used)))
    covered = csr_array((ones, (each, row)), shape=(len(row), len(past.bits)))
    none = csr_array((len(cover) + 1, len(past.bits)))
    lightest = np.concatenate([cover, weights[None, :]])
    lower, upper = np.ones(len(lightest)), np.full(len(lightest), np.inf)
    lower[-1], upper[-1] = -np.inf, most
    constraints = [
        (hstack([csr_array(lightest), none]), lower, upper),
        (hstack([excludes, covered]), -np.inf, 1.0),
    ]
    costs = np.concatenate([np.zeros(len(used)), -past.counts.astype(np.float64)])
    return _solved(problem.meter, costs, constraints).values


def _undesired(problem: Problem) -> DistinctDuals:
    """The distinct duals of the past rows that a data consistent rule may cover."""
    history, relevant = problem.case.history, problem.case.relevant
    return distinct_duals(history.codes.columns, relevant.low, relevant.high, rows=~history.outcomes)


def _solved(meter: Meter, costs: Any, constraints: list[Any]) -> _Solution:
    """What HiGHS says of a program with binary variables."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    meter.check()
    if len(costs) == 0:
        return _Solution(costs, 0.0)
    options = {"mip_rel_gap": 0.0}
    if meter.budget.seconds is not None:
        options["time_limit"] = meter.budget.seconds - meter.elapsed
    limits = [LinearConstraint(*constraint) for constraint in constraints if constraint[0].shape[0]]
    found = milp(costs, integrality=1, bounds=Bounds(0, 1), constraints=limits, options=options)
    if found.status == TIME_IS_UP:
        raise Spent
    if found.status:
        raise IronruleError(f"HiGHS failed to solve a program that has a solution: {found.message}")
    bound = found.mip_dual_bound
    return _Solution(found.x, 0.0 if bound is None else float(bound))


def _rule(used: npt.NDArray[np.intp], values: Any) -> int:
    """The rule of the components whose variable is 1."""
    chosen = np.asarray(values)[: len(used)] > 0.5
    return sum(1 << bit for bit in used[chosen].tolist())


def _flags(rows: Words) -> Flags:
    """One flag per component."""
    octets = np.ascontiguousarray(rows, dtype="<u8").view(np.uint8)
    return np.unpackbits(octets, axis=1, bitorder="little").view(np.bool_)
