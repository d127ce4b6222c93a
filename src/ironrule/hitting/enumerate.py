"""List minimal hitting sets: all of them (MMCS), or those up to a weight (branch and bound). Compiled.

MMCS (Murakami and Uno, "Efficient algorithms for dualizing large-scale hypergraphs", Discrete Applied Mathematics 170,
2014) grows a set S one element at a time and keeps it minimal on the way: every member must be the only one that hits
some dual. It branches on an open dual with fewest candidates; a child that takes one of its elements may use later
those that come before it, not those after it, so that no set is met twice. Here the duals that S hits, and those that
it hits exactly once, are two bit sets per level; the duals that need member i are then `hit[i] & once`, and going back
up costs nothing. To prefer small sets when there are too many, the search is repeated with size 0, 1, 2, ... and only
sets of that size counted; pairwise disjoint open duals bound the size from below.

The sets up to a weight are found by the search of :mod:`ironrule.hitting.minimum` with two changes. The ceiling stays
where it is, so that nothing within it is cut off. And as in MMCS every element taken must stay the only one to hit some
dual, so that every set met in the end is minimal. A child may not use what its elder siblings took, so that no set is
met twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, Int64Array, UInt64Array
from ironrule.hitting.bounds import (
    compute_counting_bound,
    enter_child,
    list_children,
    list_open_duals,
    mark_taken,
    open_root,
    run_subgradient_ascent,
)
from ironrule.jit import ONE, ZERO, kernel, kernel_helper, lowest_bit

ALL_SIZES = -1


@kernel_helper
def _are_members_needed(hit: Any, chosen: Int64Array, size: Any, once: UInt64Array) -> bool:
    """Whether every member is the only one to hit some dual."""
    for c in range(size):
        # Look for a dual that this member hits and no other member does.
        k = 0
        while k < once.size and hit[chosen[c], k] & once[k] == ZERO:
            k += 1
        if k == once.size:
            return False
    return True


@kernel_helper
def _choose_open_dual(
    starts: Int64Array, elements: Int64Array, covered: UInt64Array, allowed: BoolArray, used: BoolArray
) -> Any:
    """An open dual with fewest candidates (-1 if none is open), how many, and the size of a disjoint family."""
    d, pick, fewest, family = starts.size - 1, -1, elements.size + 1, 0
    for i in range(used.size):
        used[i] = False
    # Walk over the open duals, the zeros of `covered`. Those that share no allowed element with a dual of the family
    # join it: each dual of the family needs an element of its own, which bounds the size from below.
    for k in range(covered.size):
        word = ~covered[k]
        while word != ZERO:
            e = 64 * k + lowest_bit(word)
            word &= word - ONE
            # The last word has bits beyond the last dual.
            if e >= d:
                break
            size, free = 0, True
            for p in range(starts[e], starts[e + 1]):
                size += 1 if allowed[elements[p]] else 0
                free &= not (allowed[elements[p]] and used[elements[p]])
            if size < fewest:
                pick, fewest = e, size
            if free:
                family += 1
                for p in range(starts[e], starts[e + 1]):
                    used[elements[p]] |= allowed[elements[p]]
    return pick, fewest, family


@kernel_helper
def _forbid_candidates(dual: Int64Array, allowed: BoolArray, branch: Int64Array) -> int:
    """Write the allowed elements of a dual, forbid them, and return how many there were."""
    count = 0
    for i in dual:
        if allowed[i]:
            branch[count] = i
            allowed[i] = False
            count += 1
    return count


@kernel_helper
def _take_element(taken: UInt64Array, covered: Any, once: Any, level: Any) -> None:
    """Write which duals the next level hits, and which of them once, when it takes an element with these duals."""
    # Hit once from now on: what was hit once and is not hit again, and what is hit for the first time.
    for k in range(taken.size):
        once[level + 1, k] = (once[level, k] & ~taken[k]) | (taken[k] & ~covered[level, k])
        covered[level + 1, k] = covered[level, k] | taken[k]


@kernel_helper
def _double_rows(found: Any) -> Any:
    larger = np.zeros((2 * found.shape[0], found.shape[1]), np.bool_)
    for r in range(found.shape[0]):
        for i in range(found.shape[1]):
            larger[r, i] = found[r, i]
    return larger


@kernel
def _search_transversals(incidence: Any, exact: int, found: Any, count: int, limit: int, nodes: int, work: Any) -> Any:
    """Append minimal hitting sets to `found`, all or of one exact size; stop beyond `limit` or without nodes left.

    Returns (found, count, nodes left, whether a larger size may hold more).
    """
    hit, starts, elements = incidence
    covered, once, branch, total, left, chosen, allowed, used = work
    # Per level: the duals hit, those hit exactly once, the elements to branch on, how many these are, how many are
    # left. `chosen` is the path, `allowed` the candidates of the current node (CAND in the paper).
    for i in range(allowed.size):
        allowed[i] = True
    level, entered, more = np.int64(0), True, False
    # Depth-first search; `level` is the size of the set. `entered` says that the node is new; invariant: every member
    # of the path is the only one that hits some dual, so the path is a minimal hitting set of what it hits.
    while level >= 0:
        if entered:
            entered = False
            nodes -= 1
            if nodes < 0:
                return found, count, nodes, True
            left[level] = 0
            pick, fewest, family = _choose_open_dual(starts, elements, covered[level], allowed, used)
            if pick < 0:
                # Nothing is open: the path is a minimal hitting set. `count` beyond the limit: there are more.
                if exact == ALL_SIZES or level == exact:
                    if count == limit:
                        return found, count + 1, nodes, True
                    if count == found.shape[0]:
                        found = _double_rows(found)
                    for c in range(level):
                        found[count, chosen[c]] = True
                    count += 1
            elif exact != ALL_SIZES and level + family > exact:
                # No set of this exact size below this node, but perhaps a larger one.
                more = True
            elif fewest > 0:
                # The candidates of this dual become the children. They are taken from the last to the first, and each
                # is allowed again only when its own subtree is done: so no set is found twice.
                left[level] = _forbid_candidates(elements[starts[pick] : starts[pick + 1]], allowed, branch[level])
            total[level] = left[level]
        if left[level] == 0:
            # All children are done: allow all of them again and go up, where the element of this node is allowed too.
            for c in range(total[level]):
                allowed[branch[level, c]] = True
            level -= 1
            if level >= 0:
                allowed[chosen[level]] = True
            continue
        left[level] -= 1
        one = branch[level, left[level]]
        _take_element(hit[one], covered, once, level)
        chosen[level] = one
        # A member that is not needed now is not needed in any larger set either, so this child is skipped and its
        # element stays forbidden for the later siblings.
        if _are_members_needed(hit, chosen, level, once[level + 1]):
            level += 1
            entered = True
    return found, count, nodes, more


def list_minimal_sets(
    hit: UInt64Array, starts: Int64Array, elements: Int64Array, limit: int, nodes: int
) -> tuple[BoolArray, bool]:
    """The minimal hitting sets as flags per element, and whether these are all."""
    u, levels = len(hit), min(len(hit), len(starts) - 1) + 2
    work = (
        *np.zeros((2, levels, hit.shape[1]), np.uint64),
        np.zeros((levels, u), np.int64),
        *np.zeros((3, levels), np.int64),
        *np.zeros((2, u), np.bool_),
    )
    # First all sizes at once. If these are more than the limit, start again with size 0, 1, 2, ... so that the sets
    # returned are of least size; the nodes spent count on.
    found, count, left, more, size = np.zeros((min(limit, 64), u), np.bool_), 0, nodes, True, ALL_SIZES
    while more and count < limit and left >= 0:
        found, count, left, more = _search_transversals((hit, starts, elements), size, found, count, limit, left, work)
        if size == ALL_SIZES and not more:
            return found[:count], True
        if size == ALL_SIZES and left >= 0:
            found, count = np.zeros((min(limit, 64), u), np.bool_), 0
        size += 1
    return found[: min(count, limit)], False


ROOT_ASCENT_STEPS = 40
NODE_ASCENT_STEPS = 8


def allocate_listing_workspace(elements: int, duals: int, limit: int) -> Any:
    """What :func:`list_light_sets` works on; the sets found are the flags that come first."""
    # A node takes an element that hits an open dual, so no path is longer than the smaller of both numbers.
    u, d, words, levels = elements, duals, -(-duals // 64), min(elements, duals) + 2
    sets = np.zeros((limit, u), np.bool_), *np.zeros((2, levels, words), np.uint64), np.ones((levels, u), np.bool_)
    numbers = np.zeros((levels, d)), np.zeros(levels), np.zeros(levels), np.zeros(u), np.zeros(d), np.zeros(d)
    positions = (np.zeros((levels, u), np.int64), *np.zeros((2, levels), np.int64), np.zeros(d, np.int64))
    return sets, numbers, positions


@kernel_helper
def _are_taken_needed(hit: Any, once: UInt64Array, branch: Any, child: Int64Array, level: Any) -> bool:
    """Whether every element taken on the way to a level is the only one to hit some dual."""
    # For each element on the path, look for a dual that it hits and no other element of the path does.
    for above in range(level):
        one, k = branch[above, child[above] - 1], 0
        while k < once.size and hit[one, k] & once[k] == ZERO:
            k += 1
        if k == once.size:
            return False
    return True


@kernel_helper
def _has_unhittable_dual(starts: Int64Array, elements: Int64Array, active: Int64Array, allowed: Any) -> bool:
    """Whether some open dual has nothing left to hit it with."""
    for e in active:
        # Look for an element of this dual that is allowed.
        p = starts[e]
        while p < starts[e + 1] and not allowed[elements[p]]:
            p += 1
        if p == starts[e + 1]:
            return True
    return False


@kernel_helper
def _bound_within(
    incidence: Any, weights: Float64Array, active: Int64Array, work: Any, level: Any, ceiling: float
) -> Any:
    """Bound a node: by counting, and where that does not suffice by prices, from those of the parent (Held-Karp).

    Returns an element that every set within the ceiling contains, or -1, and the least that sets weigh which were ruled
    out on the way. The bound is left in `bounds`.
    """
    hit, starts, elements = incidence
    open_, allowed = work[0][1], work[0][3]
    prices, cost, bounds, reduced, slope, trial = work[1]
    counting = compute_counting_bound(hit, weights, open_[level], allowed[level], active.size, reduced, cost[level])
    bounds[level] = max(bounds[level], counting)
    if bounds[level] > ceiling:
        return -1, np.inf
    for e in active:
        trial[e] = prices[level, e]
    top, _factor, forced, ruled_out = run_subgradient_ascent(
        starts, elements, active, weights, allowed[level], prices[level], (reduced, slope, trial),
        cost[level], weights.sum(), ceiling, ceiling, ROOT_ASCENT_STEPS if level == 0 else NODE_ASCENT_STEPS,
        1.0, -np.inf,
    )  # fmt: skip
    bounds[level] = max(bounds[level], top)
    return forced, ruled_out


@kernel
def list_light_sets(
    hit: Any,
    starts: Int64Array,
    elements: Int64Array,
    weights: Float64Array,
    ceiling: float,
    node_limit: int,
    work: Any,
) -> Any:
    """How many minimal hitting sets within the ceiling were found, the least that any other weighs, and completeness.

    It ends early, which is then said, when the room for sets is full or the nodes are spent.
    """
    # Per level: the open duals, those hit exactly once, the elements allowed, the best prices, the cost of what was
    # taken, a lower bound, the elements to branch on, how many these are, and which comes next.
    found, open_, once, allowed = work[0]
    prices, cost, bounds, reduced, _slope, _trial = work[1]
    branch, children, child, room = work[2]
    open_root(hit, starts, elements, weights, open_[0], prices[0])
    level, nodes, count, beyond, fresh = np.int64(0), 0, 0, np.inf, True
    # Depth-first branch and bound as in `search_minimum`, with a ceiling that stays. `beyond` is the least weight, or
    # bound, of all that was cut off so far.
    while level >= 0:
        if not fresh:
            if child[level] == children[level]:
                level -= 1  # all children are done
                continue
            pick, down = branch[level, child[level]], level + 1
            child[level] += 1
            # Hit once from now on: what was hit once and is not hit again, and what is hit for the first time.
            for k in range(hit.shape[1]):
                once[down, k] = (once[level, k] & ~hit[pick, k]) | (hit[pick, k] & open_[level, k])
            # Later siblings do not use this element, so no set is found twice. A child in which an element is no
            # longer needed leads to no minimal set and is skipped.
            allowed[level, pick] = False
            if not _are_taken_needed(hit, once[down], branch, child, down):
                continue
            enter_child(hit[pick], weights[pick], open_, allowed, prices, cost, bounds, level)
            level = down
        fresh = False
        if nodes == node_limit:
            return count, beyond, False
        nodes += 1
        children[level], child[level] = 0, 0
        active = room[: list_open_duals(open_[level], room)]
        if active.size == 0:
            # Nothing is open: the path is a minimal hitting set, within the ceiling or not.
            if cost[level] > ceiling:
                beyond = min(beyond, cost[level])
            elif count == found.shape[0]:
                return count, beyond, False
            else:
                mark_taken(found[count], branch, child, level)
                count += 1
            continue
        # Elements that are not allowed belong to elder siblings or were ruled out, and `beyond` counts the latter.
        if _has_unhittable_dual(starts, elements, active, allowed[level]):
            continue
        forced, ruled_out = _bound_within((hit, starts, elements), weights, active, work, level, ceiling)
        beyond = min(beyond, ruled_out)
        if bounds[level] > ceiling:
            beyond = min(beyond, bounds[level])
        elif forced >= 0:
            # Every set within the ceiling contains this element, so it is the only child.
            branch[level, 0], children[level] = forced, 1
        else:
            children[level] = list_children(
                starts, elements, active, weights, allowed[level], prices[level], reduced, branch[level]
            )
    return count, beyond, True
