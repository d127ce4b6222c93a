"""The compiled half of :mod:`ironrule.oracles.leaves`: what the desired leaves of a tree demand of a rule.

A tree is a matrix of nodes, children after their parents; only what leads to a desired leaf is in it. A node says which
codes of one feature are left below it: for an ordered feature those from LOW to HIGH and perhaps MISSING (-1 where it
is not), for a nominal one those of the bit mask that begins at MASK (-1 where there is none). Below a node fewer codes
are left, so more components exclude all of them: duals only grow on the way down. The walk therefore takes the child
that demands nothing new first, which soon finds small duals, and leaves out whatever lies below a node whose dual
contains one found before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.rule.bit_kernels import ONE, ZERO, Flags, Integers, Words, kernel, part, popcount

Nodes = npt.NDArray[np.int32]
Codes = npt.NDArray[np.int32]

FEATURE, LOW, HIGH, MISSING, MASK, CHILD, SIBLING, PARENT = range(8)


@part
def meets(nodes: Nodes, masks: Words, node: int, low: int, high: int) -> bool:
    """Whether some code from ``low`` to ``high`` is left at a node."""
    first, last = max(nodes[node, LOW], low), min(nodes[node, HIGH], high)
    start, missing = nodes[node, MASK], nodes[node, MISSING]
    if start >= 0:  # not a function of its own: passing an array on costs more than the loop
        while first <= last and not (masks[start + (first >> 6)] >> np.uint64(first & 63)) & ONE:
            first += 1
    return bool((first <= last) | ((low <= missing) & (missing <= high)))  # no branch to mispredict


@part
def contains_one(duals: Words, top: int, found: Words, count: int, wide: Any) -> bool:
    """Whether the dual on top of a stack contains one of those found."""
    for place in range(count):
        outside = ZERO
        for w in range(len(wide)):
            outside |= found[place, w] & ~duals[top, w]
        if outside == ZERO:
            return True
    return False


@part
def add_minimal(duals: Words, top: int, leaf: int, found: Words, leaves: Codes, count: int, wide: Any) -> int:
    """Put the dual on top of a stack, which contains none of those found, in place of those that contain it."""
    kept = 0
    for place in range(count):
        outside = ZERO
        for w in range(len(wide)):
            outside |= duals[top, w] & ~found[place, w]
        if outside != ZERO:
            leaves[kept] = leaves[place]
            for w in range(len(wide)):
                found[kept, w] = found[place, w]
            kept += 1
    leaves[kept] = leaf
    for w in range(len(wide)):
        found[kept, w] = duals[top, w]
    return kept + 1


@part
def excluded(nodes: Nodes, masks: Words, node: int, low: int, high: int, lows: Integers, highs: Integers) -> Any:
    """Two bits: which components of a node's feature exclude all that it has from ``low`` to ``high``."""
    bit, bits = 2 * nodes[node, FEATURE], ZERO
    for second in range(2):
        least, most = max(low, lows[bit + second]), min(high, highs[bit + second])
        bits |= np.uint64(not meets(nodes, masks, node, least, most)) << np.uint64(second)
    return bits


@kernel
def list_duals(
    nodes: Nodes,
    masks: Words,
    box: tuple[Codes, Codes],
    bounds: tuple[Integers, Integers],
    found: Words,
    leaves: Codes,
    stack: Codes,
    duals: Words,
    wide: Any,
) -> tuple[int, int]:
    """Write the minimal duals of the desired leaves in a box, with a leaf for each; how many, and how many nodes were
    looked at.

    ``bounds`` are the codes that every component admits; ``wide`` has as many numbers as a dual has words, so that
    the compiler knows; the last row of ``duals`` is scratch.
    """
    (low, high), (lows, highs), here = box, bounds, duals.shape[0] - 1
    for w in range(len(wide)):
        duals[0, w] = ZERO
    for bit in range(lows.shape[0]):
        if max(low[bit >> 1], lows[bit]) > min(high[bit >> 1], highs[bit]):
            duals[0, bit >> 6] |= ONE << np.uint64(bit & 63)
    stack[0] = 0
    count, top, seen = 0, int(nodes.shape[0] > 0), 0
    while top > 0:
        top -= 1
        node = stack[top]
        seen += 1
        if contains_one(duals, top, found, count, wide):
            continue
        child = nodes[node, CHILD]
        if child < 0:
            count = add_minimal(duals, top, node, found, leaves, count, wide)
            continue
        for w in range(len(wide)):
            duals[here, w] = duals[top, w]
        near = -1
        while child >= 0:
            feature = nodes[child, FEATURE]
            if feature < 0 or meets(nodes, masks, child, low[feature], high[feature]):
                stack[top] = child
                for w in range(len(wide)):
                    duals[top, w] = duals[here, w]
                bits = ZERO
                if feature >= 0:
                    bits = excluded(nodes, masks, child, low[feature], high[feature], lows, highs)
                    word, shift = feature >> 5, np.uint64(2 * (feature & 31))
                    near = top if (duals[here, word] >> shift) & bits == bits else near
                    duals[top, word] |= bits << shift
                top += 1
            child = nodes[child, SIBLING]
        if near >= 0:
            stack[near], stack[top - 1] = stack[top - 1], stack[near]
            for w in range(len(wide)):
                duals[near, w], duals[top - 1, w] = duals[top - 1, w], duals[near, w]
    return count, seen


@kernel
def choose_diverse(sets: Words, chosen: Integers) -> int:
    """Choose sets to fill ``chosen``: disjoint ones before others, small ones before large; how many there were."""
    union = np.zeros(sets.shape[1], np.uint64)
    taken = np.zeros(sets.shape[0], np.bool_)
    many = min(chosen.shape[0], sets.shape[0])
    for place in range(many):
        best, least = -1, 1 << 30
        for one in range(sets.shape[0]):
            size, common = 0, 0
            for w in range(union.shape[0]):
                size += int(popcount(sets[one, w]))
                common |= int(sets[one, w] & union[w] != ZERO)
            cost = size + common * 1024
            if not taken[one] and cost < least:
                best, least = one, cost
        chosen[place] = best
        taken[best] = True
        for w in range(union.shape[0]):
            union[w] |= sets[best, w]
    return int(many)


@part
def nearest_code(nodes: Nodes, masks: Words, node: int, code: int, low: int, high: int) -> int:
    """The code from ``low`` to ``high`` that is left at a node and nearest to the given one; the first of a nominal
    feature.
    """
    first, last = int(max(nodes[node, LOW], low)), int(min(nodes[node, HIGH], high))
    if low <= code <= high and meets(nodes, masks, node, code, code):
        first = code
    elif nodes[node, MASK] < 0:
        first = min(max(code, first), last) if first <= last else int(nodes[node, MISSING])
    else:
        while not meets(nodes, masks, node, first, first):
            first += 1
    return first


@kernel
def fill_nearest(
    nodes: Nodes, masks: Words, leaves: Codes, instance: Codes, box: tuple[Codes, Codes], points: Codes
) -> None:
    """Write for every leaf its point in the box that is nearest to the instance."""
    for row in range(leaves.shape[0]):
        for feature in range(instance.shape[0]):
            points[row, feature] = -1
        node = leaves[row]
        while node >= 0:  # the lowest node that speaks of a feature says what the leaf has of it
            feature = nodes[node, FEATURE]
            if feature >= 0 and points[row, feature] < 0:
                low, high = box[0][feature], box[1][feature]
                points[row, feature] = nearest_code(nodes, masks, node, instance[feature], low, high)
            node = nodes[node, PARENT]
        for feature in range(instance.shape[0]):
            if points[row, feature] < 0:
                points[row, feature] = min(max(instance[feature], box[0][feature]), box[1][feature])


@kernel
def flag_desired(nodes: Nodes, masks: Words, points: Codes, stack: Codes, flags: Flags) -> None:
    """Which points lie in a desired leaf."""
    for row in range(points.shape[0]):
        stack[0] = 0
        top = int(nodes.shape[0] > 0)
        while top > 0 and not flags[row]:
            top -= 1
            child = nodes[stack[top], CHILD]
            flags[row] = child < 0
            while child >= 0:
                feature = nodes[child, FEATURE]
                code = points[row, max(feature, 0)]
                if feature < 0 or meets(nodes, masks, child, code, code):
                    stack[top] = child
                    top += 1
                child = nodes[child, SIBLING]


@kernel
def list_leaves(nodes: Nodes, masks: Words, box: tuple[Codes, Codes], stack: Codes, leaves: Codes) -> int:
    """Write the desired leaves that have a point in the box; how many there are."""
    stack[0], count = 0, 0
    top = int(nodes.shape[0] > 0)
    while top > 0:
        top -= 1
        node = stack[top]
        child = nodes[node, CHILD]
        if child < 0:
            leaves[count] = node
            count += 1
        while child >= 0:
            feature = nodes[child, FEATURE]
            if feature < 0 or meets(nodes, masks, child, box[0][max(feature, 0)], box[1][max(feature, 0)]):
                stack[top] = child
                top += 1
            child = nodes[child, SIBLING]
    return int(count)
