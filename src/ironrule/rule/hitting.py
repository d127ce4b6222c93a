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

import numpy as np
import numpy.typing as npt

from ironrule.errors import InputError
from ironrule.rule.bit_kernels import Flags, Floats, Integers, Words
from ironrule.rule.duals import FEW, minimal
from ironrule.rule.reduction_kernels import lightest
from ironrule.rule.transversal_kernels import list_minimal

LARGEST_EXACT = 1e6  # beyond, rounding in the bounds might exceed the slack that whole weights are given
NO_LIMIT = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class MinimumHittingSet:
    """The lightest hitting set that was found.

    `optimal` says that none is lighter (where weights are not whole: by more than one part in 10^9); then
    `lower_bound` is `weight`. If some dual has nothing left to hit it with, `feasible` is False, `members` is empty and
    the weight is infinite.
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

    Weights, one per component, must be positive; without them every component weighs 1. Same input, same answer.

    >>> found = minimum_hitting_set(np.array([[0b011], [0b110], [0b100]], dtype=np.uint64))
    >>> found.weight, found.optimal
    (2.0, True)
    """
    width = duals.shape[1]
    each = _weights(weights, 64 * width)
    must, left = _left(duals, required, forbidden)
    fixed = float(each[_flags(must[None, :])[0]].sum()) if must.any() else 0.0
    many, members = len(left) > FEW, np.zeros(width, np.uint64)
    rows = minimal(left) if many else left  # many are best sorted first
    limit = NO_LIMIT if node_limit is None else node_limit
    weight, lower, complete, whole = lightest(rows, many, each, LARGEST_EXACT, limit, members)
    if np.isinf(weight):
        return MinimumHittingSet(members, np.inf, np.inf, optimal=True, feasible=False)
    members |= must
    lower = np.ceil(lower - 1e-6) if whole else lower
    total = fixed + weight
    optimal = bool(complete or fixed + lower >= total)
    return MinimumHittingSet(members, total, total if optimal else fixed + float(lower), optimal)


def minimal_hitting_sets(duals: Words, limit: int, node_limit: int | None = None) -> tuple[Words, bool]:
    """The inclusion-minimal hitting sets, by size, then by value, and whether these are all.

    At most `limit` come back. If there are more, those that come back are of least size. `node_limit` bounds the work;
    if it is what stopped the search, the sets are minimal, but smaller ones may be missing.

    >>> sets, complete = minimal_hitting_sets(np.array([[0b011], [0b110]], dtype=np.uint64), limit=10)
    >>> sets.ravel().tolist(), complete
    ([2, 5], True)
    """
    if limit < 1:
        raise InputError(f"At least one hitting set must be asked for, but the limit is {limit}.")
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


def _left(duals: Words, required: int | Words, forbidden: int | Words) -> tuple[Words, Words]:
    """What is required, and a copy of the duals that it does not hit, without what is forbidden."""
    if isinstance(required, int) and isinstance(forbidden, int) and not required and not forbidden:
        return np.zeros(duals.shape[1], np.uint64), np.array(duals, order="C")
    must, never = _words(required, duals.shape[1]), _words(forbidden, duals.shape[1])
    if (must & never).any():
        raise InputError("No component may be both required and forbidden.")
    return must, duals[~(duals & must).any(axis=1)] & ~never


@dataclass(frozen=True, slots=True)
class _Problem:
    """Duals and elements renumbered without gaps, seen from both sides."""

    elements: npt.NDArray[np.intp]
    sides: tuple[Words, Integers, Integers]


def _problem(duals: Words) -> _Problem:
    flags = _flags(duals)
    elements = np.flatnonzero(flags.any(axis=0))
    table = flags[:, elements]
    rows, columns = np.nonzero(table)
    starts = np.searchsorted(rows, np.arange(len(duals) + 1)).astype(np.int64)
    padded = np.zeros((len(elements), -(-len(duals) // 64) * 64), np.bool_)
    padded[:, : len(duals)] = table.T
    return _Problem(elements, (_pack_rows(padded), starts, columns.astype(np.int64)))


def _weights(weights: npt.ArrayLike | None, size: int) -> Floats:
    each = np.ones(size)
    if weights is not None:
        given = np.asarray(weights, dtype=np.float64)
        if given.ndim != 1 or given.size > size or not (np.isfinite(given) & (given > 0)).all():
            raise InputError(f"Weights must be at most {size} positive numbers, one per component, but are {given}.")
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
