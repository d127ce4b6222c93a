"""The hitting-set solver: find a minimum, a lighter, a greedy, a repaired hitting set, or list the minimal ones.

A rule is consistent exactly if it hits the dual of every counterfactual, so a minimum hitting set of the duals known so
far is the shortest rule that nothing known refutes, and its weight a lower bound for every consistent rule. All minimal
ones are the irredundant rules (the minimal covers of Geng, Schleich and Suciu).

The minimum is found by branch and bound (:mod:`ironrule.hitting.minimum`) on a reduced problem
(:mod:`ironrule.hitting.reduce`): duals that contain another go, components that a no heavier one can replace everywhere
go, until neither is left. The minimal ones are listed by MMCS of Murakami and Uno, "Efficient algorithms for dualizing
large-scale hypergraphs", Discrete Applied Mathematics 170 (2014) (:mod:`ironrule.hitting.enumerate`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ironrule.arrays import AnyArray, Float64Array, Int64Array, IntpArray, UInt64Array
from ironrule.errors import InputError
from ironrule.hitting.bits import pack_flags, unpack_flags
from ironrule.hitting.enumerate import allocate_listing_workspace, list_light_sets, list_minimal_sets
from ironrule.hitting.minimum import (
    allocate_minimum_workspace,
    allocate_repair_workspace,
    choose_greedily,
    fill_incidence,
    repair_in_place,
    search_minimum,
)
from ironrule.hitting.reduce import FEW_SETS, count_bits, find_minimal_sets, reduce_problem
from ironrule.hitting.weights import MAX_TOTAL_WEIGHT, are_unit_weights, get_unit_weights

TIE_BREAK_SCALE = 1e-9  # relative; costs are changed by less for a random choice among equals
NO_LIMIT = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True)
class MinimumHittingSet:
    """The lightest hitting set that was found.

    `optimal` says that none is lighter; then `lower_bound` is `weight`. If some dual has nothing left to hit it with,
    `feasible` is False, `members` is empty and the weight is infinite.
    """

    members: UInt64Array
    weight: float
    lower_bound: float
    optimal: bool
    feasible: bool = True


def find_minimum_hitting_set(
    duals: UInt64Array, weights: npt.ArrayLike | None = None, node_limit: int = NO_LIMIT
) -> MinimumHittingSet:
    """A hitting set of least weight.

    Weights, one per component, must be whole numbers that add up to less than 2**53 (see
    :mod:`ironrule.hitting.weights`); without them every component weighs 1. Same input, same answer.

    >>> found = find_minimum_hitting_set(np.array([[0b011], [0b110], [0b100]], dtype=np.uint64))
    >>> found.weight, found.optimal
    (2.0, True)
    """
    width = duals.shape[1]
    each = _check_weights(weights, 64 * width)
    problem = _reduce_problem(np.array(duals, dtype=np.uint64, order="C"), each)
    if problem is None:
        return MinimumHittingSet(np.zeros(width, np.uint64), np.inf, np.inf, optimal=True, feasible=False)
    if problem.is_trivial:  # every element is the only one to hit some dual
        weight = float(each[problem.elements].sum())
        return MinimumHittingSet(_pack_elements(problem.elements, width), weight, weight, optimal=True)
    found, weight, lower, complete = _run_search(problem, each, node_limit)
    optimal = complete or lower >= weight
    return MinimumHittingSet(_pack_elements(found, width), weight, weight if optimal else lower, optimal)


def _reduce_problem(duals: UInt64Array, weights: Float64Array) -> _HittingProblem | None:
    """Drop duals that contain another and elements that another can replace; None if a dual is empty. In place."""
    many, width = len(duals) > FEW_SETS, duals.shape[1]
    rows = find_minimal_sets(duals) if many else duals  # many are best sorted first
    # Room for the worst case; the kernel says how much of it is used.
    members, starts = np.empty(64 * width, np.int64), np.empty(len(rows) + 1, np.int64)
    hit = np.empty(64 * width * -(-len(rows) // 64), np.uint64)
    elements = np.empty(int(count_bits(rows).sum()) if many else 64 * rows.size, np.int64)
    size, count, total = reduce_problem(rows, many, weights, members, hit, starts, elements)
    if size == 0 and count > 0:  # an empty row contains no other and is contained in all: it is left alone
        return None
    words = -(-count // 64)
    incidence = hit[: size * words].reshape(size, words), starts[: count + 1], elements[:total]
    return _HittingProblem(members[:size], incidence)


def find_lighter_hitting_set(
    duals: UInt64Array,
    weights: npt.ArrayLike | None = None,
    *,
    below_weight: float,
    node_limit: int = NO_LIMIT,
) -> tuple[UInt64Array | None, float]:
    """A hitting set lighter than `below_weight`, or None, and a lower bound on the weight of every hitting set.

    None with a bound of at least `below_weight` proves that there is none; with a lesser one, the nodes were spent.

    >>> duals = np.array([[0b011], [0b110], [0b101]], dtype=np.uint64)
    >>> find_lighter_hitting_set(duals, below_weight=2)
    (None, 2.0)
    """
    each = _check_weights(weights, 64 * duals.shape[1])
    problem = _reduce_problem(np.array(duals, dtype=np.uint64, order="C"), each)
    if problem is None:
        return None, np.inf
    found, weight, lower, complete = _run_search(problem, each, node_limit, below_weight)
    # Nothing lighter was found: a proof if the search was complete, otherwise only a bound.
    if weight >= below_weight:
        return None, float(below_weight) if complete else min(lower, float(below_weight))
    return _pack_elements(found, duals.shape[1]), lower


def find_greedy_hitting_set(duals: UInt64Array, weights: npt.ArrayLike | None, rng: np.random.Generator) -> UInt64Array:
    """An irredundant hitting set, by always taking what hits most of what is left per weight, ties at random.

    Every dual must have something to hit it with.
    """
    problem, width = _build_problem(duals), duals.shape[1]
    each = _check_weights(weights, 64 * width)[problem.elements]
    chosen = np.zeros(len(each), np.bool_)
    # Costs that differ by next to nothing break ties at random.
    costs = each * (1.0 + TIE_BREAK_SCALE * rng.random(len(each)))
    choose_greedily(problem.incidence[0], each, costs, chosen, np.zeros(problem.incidence[0].shape[1], np.uint64))
    return _pack_elements(problem.elements[chosen], width)


def repair_hitting_set(
    duals: UInt64Array, weights: npt.ArrayLike | None, chosen: UInt64Array, *, max_weight: float, steps: int, seed: int
) -> UInt64Array | None:
    """A hitting set that weighs no more than `max_weight`, by local search from any set; None if it finds none.

    >>> duals = np.array([[0b011], [0b110], [0b100]], dtype=np.uint64)
    >>> repair_hitting_set(duals, None, np.array([0b001], dtype=np.uint64), max_weight=2, steps=10, seed=0)
    array([5], dtype=uint64)
    """
    problem, width = _build_problem(duals), duals.shape[1]
    each = _check_weights(weights, 64 * width)[problem.elements]
    flags = unpack_flags(chosen[None, :])[0][problem.elements]
    work = allocate_repair_workspace(len(each), len(duals))
    if not repair_in_place(*problem.incidence, each, flags, float(max_weight), steps, np.uint64(seed), work):
        return None
    return _pack_elements(problem.elements[flags], width)


@dataclass(frozen=True, slots=True)
class LightHittingSets:
    """Minimal hitting sets up to some weight.

    `complete` says that these are all up to it, and then every other one weighs at least `others_lower_bound`.
    """

    members: UInt64Array
    complete: bool
    others_lower_bound: float  # infinite: there are no others


def list_light_hitting_sets(
    duals: UInt64Array,
    weights: npt.ArrayLike | None = None,
    *,
    max_weight: float,
    limit: int,
    node_limit: int = NO_LIMIT,
) -> LightHittingSets:
    """The minimal hitting sets that weigh no more than `max_weight`, at most `limit` of them.

    >>> found = list_light_hitting_sets(np.array([[0b011], [0b110]], dtype=np.uint64), max_weight=1, limit=10)
    >>> found.members.ravel().tolist(), found.complete, found.others_lower_bound
    ([2], True, 2.0)
    """
    width = duals.shape[1]
    kept = find_minimal_sets(duals)
    if not kept.any(axis=1).all():
        return LightHittingSets(np.zeros((0, width), np.uint64), complete=True, others_lower_bound=np.inf)
    problem = _build_problem(kept)
    each = _check_weights(weights, 64 * width)[problem.elements]
    work = allocate_listing_workspace(len(each), len(kept), limit)
    count, beyond, complete = list_light_sets(*problem.incidence, each, float(max_weight), node_limit, work)
    sets = np.zeros((count, 64 * width), np.bool_)
    sets[:, problem.elements] = work[0][0][:count]
    if np.isfinite(beyond):  # a bound just above `max_weight` stands for the next whole number
        beyond = max(np.ceil(beyond), np.floor(max_weight) + 1)
    return LightHittingSets(pack_flags(sets), bool(complete), float(beyond))


def _run_search(
    problem: _HittingProblem, weights: Float64Array, node_limit: int, below: float = np.inf
) -> tuple[IntpArray, float, float, bool]:
    """The elements of the lightest hitting set found, its weight, a lower bound and whether the search was complete."""
    own = weights[problem.elements]
    work = allocate_minimum_workspace(len(own), len(problem.incidence[1]) - 1)
    # Weights are whole numbers, so `below` and the lower bound can be rounded up to whole numbers.
    weight, lower, complete = search_minimum(*problem.incidence, own, float(np.ceil(below)), node_limit, work)
    return problem.elements[work[0][-2]], weight, float(np.ceil(lower)), bool(complete)


def list_minimal_hitting_sets(duals: UInt64Array, limit: int, node_limit: int = NO_LIMIT) -> tuple[UInt64Array, bool]:
    """The inclusion-minimal hitting sets, by size, then by value, and whether these are all.

    At most `limit` come back. If there are more, those that come back are of least size. `node_limit` bounds the work;
    if it is what stopped the search, the sets are minimal, but smaller ones may be missing.

    >>> sets, complete = list_minimal_hitting_sets(np.array([[0b011], [0b110]], dtype=np.uint64), limit=10)
    >>> sets.ravel().tolist(), complete
    ([2, 5], True)
    """
    if limit < 1:
        raise InputError(expected="limit must be a positive integer", got=limit)
    width = duals.shape[1]
    kept = find_minimal_sets(duals)
    if not kept.any(axis=1).all():
        return np.zeros((0, width), np.uint64), True
    problem = _build_problem(kept)
    found, complete = list_minimal_sets(*problem.incidence, limit, node_limit)
    sets = np.zeros((len(found), 64 * width), np.bool_)
    sets[:, problem.elements] = found
    rows = pack_flags(sets)
    order = np.lexsort((*rows.T, sets.sum(axis=1)))
    return rows[order], bool(complete)


@dataclass(frozen=True, slots=True)
class _HittingProblem:
    """Duals and elements renumbered without gaps, seen from both sides."""

    elements: IntpArray
    incidence: tuple[UInt64Array, Int64Array, Int64Array]

    @property
    def is_trivial(self) -> bool:
        """Whether every dual has one element, and every element one dual."""
        _, starts, entries = self.incidence
        return len(self.elements) == len(starts) - 1 == len(entries)


def _build_problem(duals: UInt64Array) -> _HittingProblem:
    rows = np.ascontiguousarray(duals, dtype=np.uint64)
    used = unpack_flags(np.bitwise_or.reduce(rows, axis=0)[None, :])[0]
    found = np.flatnonzero(used)
    hit = np.zeros((len(found), -(-len(rows) // 64)), np.uint64)
    starts, elements = np.zeros(len(rows) + 1, np.int64), np.empty(int(count_bits(rows).sum()), np.int64)
    fill_incidence(rows, np.cumsum(used) - 1, hit, starts, elements)
    return _HittingProblem(found, (hit, starts, elements))


def _check_weights(weights: npt.ArrayLike | None, size: int) -> Float64Array:
    if weights is None or (isinstance(weights, np.ndarray) and are_unit_weights(weights)):
        return get_unit_weights(size)
    each, given = np.ones(size), np.asarray(weights, dtype=np.float64)
    if given.ndim != 1 or given.size > size or not ((given >= 1) & (given == np.floor(given))).all():
        raise InputError(expected=f"weights must be at most {size} positive integers, one per component", got=given)
    if not given.sum() < MAX_TOTAL_WEIGHT:
        raise InputError(expected="weights must add up to less than 2**53", got=f"a sum of {given.sum():g} for {given}")
    each[: given.size] = given
    return each


def _pack_elements(components: AnyArray, width: int) -> UInt64Array:
    """A set of components as words."""
    members: int = sum(1 << component for component in components.tolist())
    return np.frombuffer(members.to_bytes(8 * width, "little"), dtype="<u8").astype(np.uint64)
