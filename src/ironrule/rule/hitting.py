"""Hitting sets: sets of components that meet every dual.

A rule is consistent exactly if it hits the dual of every counterfactual, so a minimum hitting set of the duals known so
far is the shortest rule that nothing known refutes, and its weight a lower bound for every consistent rule. All minimal
ones are the irredundant rules (the minimal covers of Geng, Schleich and Suciu).

The minimum is found by branch and bound (:mod:`ironrule.rule.hitting_kernels`) on a reduced problem: duals that contain
another go, components that a no heavier one can replace everywhere go, until neither is left. The minimal ones are
listed by MMCS of Murakami and Uno, "Efficient algorithms for dualizing large-scale hypergraphs", Discrete Applied
Mathematics 170 (2014) (:mod:`ironrule.rule.transversal_kernels`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.errors import InputError
from ironrule.rule.bit_kernels import Flags, Floats, Integers, Words
from ironrule.rule.bits import popcount
from ironrule.rule.duals import FEW, minimal
from ironrule.rule.hitting_kernels import choose_quickly, fill_sides, search_minimum, work_arrays
from ironrule.rule.hitting_list_kernels import list_light
from ironrule.rule.hitting_list_kernels import work_arrays as list_arrays
from ironrule.rule.hitting_repair_kernels import repair
from ironrule.rule.hitting_repair_kernels import work_arrays as repair_arrays
from ironrule.rule.reduction_kernels import reduce_problem
from ironrule.rule.transversal_kernels import list_minimal
from ironrule.rule.units import are_units, unit_weights
from ironrule.rule.weights import LIMIT

TIES = 1e-9  # relative; costs are changed by less for a random choice among equals
NO_LIMIT = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class MinimumHittingSet:
    """The lightest hitting set that was found.

    `optimal` says that none is lighter; then `lower_bound` is `weight`. If some dual has nothing left to hit it with,
    `feasible` is False, `members` is empty and the weight is infinite.
    """

    members: Words
    weight: float
    lower_bound: float
    optimal: bool
    feasible: bool = True


def minimum_hitting_set(
    duals: Words,
    weights: npt.ArrayLike | None = None,
    required: int | Words = 0,
    forbidden: int | Words = 0,
    node_limit: int | None = None,
) -> MinimumHittingSet:
    """A hitting set of least weight that contains all of `required` and nothing of `forbidden`.

    Weights, one per component, must be whole numbers that add up to less than 2**53 (see
    :mod:`ironrule.rule.weights`); without them every component weighs 1. Same input, same answer.

    >>> found = minimum_hitting_set(np.array([[0b011], [0b110], [0b100]], dtype=np.uint64))
    >>> found.weight, found.optimal
    (2.0, True)
    """
    width = duals.shape[1]
    each = _weights(weights, 64 * width)
    must, left = _left(duals, required, forbidden)
    fixed = 0.0 if must is None else float(each[_flags(must[None, :])[0]].sum())
    problem = _reduced(left, each)
    if problem is None:
        return MinimumHittingSet(np.zeros(width, np.uint64), np.inf, np.inf, optimal=True, feasible=False)
    if problem.single:  # every element is the only one to hit some dual
        weight = fixed + float(each[problem.elements].sum())
        return MinimumHittingSet(_pack(problem.elements, width, must), weight, weight, optimal=True)
    found, weight, lower, complete = _searched(problem, each, node_limit)
    optimal = complete or lower >= weight
    members = _pack(found, width, must)
    return MinimumHittingSet(members, fixed + weight, fixed + (weight if optimal else lower), optimal)


def _reduced(duals: Words, weights: Floats) -> _Problem | None:
    """Without the duals that contain another and the elements that another replaces, until there are none; None if
    some dual is empty. The duals are overwritten.
    """
    many, width = len(duals) > FEW, duals.shape[1]
    rows = minimal(duals) if many else duals  # many are best sorted first
    members, starts = np.empty(64 * width, np.int64), np.empty(len(rows) + 1, np.int64)
    hit = np.empty(64 * width * -(-len(rows) // 64), np.uint64)
    elements = np.empty(int(popcount(rows).sum()) if many else 64 * rows.size, np.int64)
    size, count, total = reduce_problem(rows, many, weights, members, hit, starts, elements)
    if size == 0 and count > 0:  # an empty row contains no other and is contained in all: it is left alone
        return None
    words = -(-count // 64)
    return _Problem(members[:size], (hit[: size * words].reshape(size, words), starts[: count + 1], elements[:total]))


def _left(duals: Words, required: int | Words, forbidden: int | Words) -> tuple[Words | None, Words]:
    """What is required, if anything, and a copy of the duals that this leaves, without what is forbidden."""
    width = duals.shape[1]
    if isinstance(required, int) and isinstance(forbidden, int) and required == forbidden == 0:
        return None, np.array(duals, dtype=np.uint64, order="C")
    must, never = _words(required, width), _words(forbidden, width)
    if (must & never).any():
        raise InputError("a component cannot be both required and forbidden")
    return must, np.ascontiguousarray(duals[~(duals & must).any(axis=1)] & ~never)


def lighter_hitting_set(
    duals: Words,
    weights: npt.ArrayLike | None = None,
    *,
    below: float,
    enough: float = 0.0,
    node_limit: int | None = None,
) -> tuple[Words | None, float]:
    """A hitting set lighter than `below`, or None, and a lower bound on the weight of every hitting set.

    One that weighs no more than `enough` is as good as any lighter. None with a bound of at least `below` is a proof
    that there is none; None with a lesser bound says that the nodes were spent.

    >>> duals = np.array([[0b011], [0b110], [0b101]], dtype=np.uint64)
    >>> lighter_hitting_set(duals, below=2)
    (None, 2.0)
    """
    each = _weights(weights, 64 * duals.shape[1])
    problem = _reduced(np.array(duals, dtype=np.uint64, order="C"), each)
    if problem is None:
        return None, np.inf
    found, weight, lower, complete = _searched(problem, each, node_limit, below, enough)
    if weight >= below:
        return None, float(below) if complete else min(lower, float(below))
    return _pack(found, duals.shape[1]), lower


def quick_hitting_set(duals: Words, weights: npt.ArrayLike | None, rng: np.random.Generator) -> Words:
    """An irredundant hitting set, by always taking what hits most of what is left per weight, ties at random.

    Every dual must have something to hit it with.
    """
    problem, width = _problem(duals), duals.shape[1]
    each = _weights(weights, 64 * width)[problem.elements]
    chosen = np.zeros(len(each), np.bool_)
    costs = each * (1.0 + TIES * rng.random(len(each)))
    choose_quickly(problem.sides[0], each, costs, chosen, np.zeros(problem.sides[0].shape[1], np.uint64))
    return _pack(problem.elements[chosen], width)


def repaired(
    duals: Words, weights: npt.ArrayLike | None, chosen: Words, *, within: float, steps: int, seed: int
) -> Words | None:
    """A hitting set that weighs no more than `within`, by local search from any set; None if it finds none.

    >>> duals = np.array([[0b011], [0b110], [0b100]], dtype=np.uint64)
    >>> repaired(duals, None, np.array([0b001], dtype=np.uint64), within=2, steps=10, seed=0)
    array([5], dtype=uint64)
    """
    problem, width = _problem(duals), duals.shape[1]
    each = _weights(weights, 64 * width)[problem.elements]
    flags = _flags(chosen[None, :])[0][problem.elements]
    work = repair_arrays(len(each), len(duals))
    if not repair(*problem.sides, each, flags, float(within), steps, np.uint64(seed), work):
        return None
    return _pack(problem.elements[flags], width)


@dataclass(frozen=True, slots=True)
class LightHittingSets:
    """Minimal hitting sets up to some weight.

    `complete` says that these are all up to it, and then every other one weighs at least `beyond`.
    """

    members: Words
    complete: bool
    beyond: float  # infinite: there are no others


def light_hitting_sets(
    duals: Words,
    weights: npt.ArrayLike | None = None,
    *,
    within: float,
    limit: int,
    node_limit: int | None = None,
) -> LightHittingSets:
    """The minimal hitting sets that weigh no more than `within`, at most `limit` of them.

    >>> found = light_hitting_sets(np.array([[0b011], [0b110]], dtype=np.uint64), within=1, limit=10)
    >>> found.members.ravel().tolist(), found.complete, found.beyond
    ([2], True, 2.0)
    """
    width = duals.shape[1]
    kept = minimal(duals)
    if not kept.any(axis=1).all():
        return LightHittingSets(np.zeros((0, width), np.uint64), complete=True, beyond=np.inf)
    problem = _problem(kept)
    each = _weights(weights, 64 * width)[problem.elements]
    work = list_arrays(len(each), len(kept), limit)
    count, beyond, complete = list_light(*problem.sides, each, float(within), _limit(node_limit), work)
    sets = np.zeros((count, 64 * width), np.bool_)
    sets[:, problem.elements] = work[0][0][:count]
    if np.isfinite(beyond):  # a bound just above `within` stands for the next whole number
        beyond = max(np.ceil(beyond), np.floor(within) + 1)
    return LightHittingSets(_pack_rows(sets), bool(complete), float(beyond))


def _searched(
    problem: _Problem, weights: Floats, node_limit: int | None, below: float = np.inf, enough: float = -np.inf
) -> tuple[npt.NDArray[np.intp], float, float, bool]:
    """The elements of the lightest hitting set found, its weight, a lower bound and whether the search was complete."""
    own = weights[problem.elements]
    work = work_arrays(len(own), len(problem.sides[1]) - 1)
    most = float(np.ceil(below))
    weight, lower, complete = search_minimum(*problem.sides, own, most, enough, _limit(node_limit), work)
    return problem.elements[work[0][-2]], weight, float(np.ceil(lower)), bool(complete)


def _limit(nodes: int | None) -> int:
    return NO_LIMIT if nodes is None else nodes


def minimal_hitting_sets(duals: Words, limit: int, node_limit: int | None = None) -> tuple[Words, bool]:
    """The inclusion-minimal hitting sets, by size, then by value, and whether these are all.

    At most `limit` come back. If there are more, those that come back are of least size. `node_limit` bounds the work;
    if it is what stopped the search, the sets are minimal, but smaller ones may be missing.

    >>> sets, complete = minimal_hitting_sets(np.array([[0b011], [0b110]], dtype=np.uint64), limit=10)
    >>> sets.ravel().tolist(), complete
    ([2, 5], True)
    """
    if limit < 1:
        raise InputError(expected="limit must be a positive integer", got=limit)
    width = duals.shape[1]
    kept = minimal(duals)
    if not kept.any(axis=1).all():
        return np.zeros((0, width), np.uint64), True
    problem = _problem(kept)
    found, complete = list_minimal(*problem.sides, limit, NO_LIMIT if node_limit is None else node_limit)
    sets = np.zeros((len(found), 64 * width), np.bool_)
    sets[:, problem.elements] = found
    rows = _pack_rows(sets)
    order = np.lexsort((*rows.T, sets.sum(axis=1)))
    return rows[order], bool(complete)


@dataclass(frozen=True, slots=True)
class _Problem:
    """Duals and elements renumbered without gaps, seen from both sides."""

    elements: npt.NDArray[np.intp]
    sides: tuple[Words, Integers, Integers]

    @property
    def single(self) -> bool:
        """Whether every dual has one element, and every element one dual."""
        _, starts, entries = self.sides
        return len(self.elements) == len(starts) - 1 == len(entries)


def _problem(duals: Words) -> _Problem:
    rows = np.ascontiguousarray(duals, dtype=np.uint64)
    used = _flags(np.bitwise_or.reduce(rows, axis=0)[None, :])[0]
    found = np.flatnonzero(used)
    hit = np.zeros((len(found), -(-len(rows) // 64)), np.uint64)
    starts, elements = np.zeros(len(rows) + 1, np.int64), np.empty(int(popcount(rows).sum()), np.int64)
    fill_sides(rows, np.cumsum(used) - 1, hit, starts, elements)
    return _Problem(found, (hit, starts, elements))


def _weights(weights: npt.ArrayLike | None, size: int) -> Floats:
    if weights is None or (isinstance(weights, np.ndarray) and are_units(weights)):
        return unit_weights(size)
    each, given = np.ones(size), np.asarray(weights, dtype=np.float64)
    if given.ndim != 1 or given.size > size or not ((given >= 1) & (given == np.floor(given))).all():
        raise InputError(expected=f"weights must be at most {size} positive integers, one per component", got=given)
    if not given.sum() < LIMIT:
        raise InputError(expected="weights must add up to less than 2**53", got=f"a sum of {given.sum():g} for {given}")
    each[: given.size] = given
    return each


def _words(components: int | Words, width: int) -> Words:
    if isinstance(components, int):
        return np.frombuffer(components.to_bytes(8 * width, "little"), dtype="<u8").astype(np.uint64)
    return np.asarray(components, dtype=np.uint64).reshape(width)


def _flags(rows: Words) -> Flags:
    octets = np.ascontiguousarray(rows, dtype="<u8").view(np.uint8)
    return np.unpackbits(octets, axis=1, bitorder="little").view(np.bool_)


def _pack_rows(flags: Flags) -> Words:
    words: Words = np.packbits(flags, axis=1, bitorder="little").view("<u8").astype(np.uint64)
    return words


def _pack(components: npt.NDArray[Any], width: int, others: Words | None = None) -> Words:
    """A set of components as words, with others joined to them."""
    row = 0
    for component in components.tolist():
        row |= 1 << component
    return _words(row, width) if others is None else _words(row, width) | others
