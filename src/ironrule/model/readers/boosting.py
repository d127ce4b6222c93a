"""Scores of boosted trees, and the decisions that boosting libraries make by them.

A booster's raw score for a class is a base plus one leaf of every tree. What decides is a monotone function of the
scores:

- two classes, or a regression: the score against the inverse of the link at the threshold (:func:`above`);
- the largest of several (:func:`largest`): a margin for every pair of a desired and an undesired class;
- a sum of softmax probabilities against a threshold (:func:`softmax_above`).

How the errors are bounded. Let u be half a unit in the last place of 1 (2^-24 or 2^-53). A sum s_k = fl(s_(k-1) + v_k)
has an error of at most u |s_k| per addition, so at most u times the sum of the largest |s_k| in all; growth of higher
order is covered by a factor. A probability has a relative error of a few u (exp within 2 units, an addition, a
division, 1 - p, a sum over K classes, the threshold cast to the answer's own type): (16 + 2K) u is more than that. It
is carried through the inverse link at the threshold, where alone it can matter, into the score.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.model.reading import Group, Ints, Link, Margin, Reading, Test, Tree, Unreadable
from ironrule.space.table import as_python

SINGLE = 2.0**-24
DOUBLE = 2.0**-53
SLACK = 1.01  # the terms of higher order in u, for any ensemble of fewer than 2^16 trees
ALWAYS = Reading(((Margin(1.0, ()),),))
NEVER = Reading(((Margin(-1.0, ()),),))


@dataclass(frozen=True, slots=True)
class Response:
    """A rising function from scores to answers, told by its inverse and by the range of its answers."""

    inverse: Callable[[float], float]
    least: float
    most: float


@dataclass(frozen=True, slots=True, eq=False)
class Score:
    """A raw score, offset + sum of trees. The library's own is within ``error``; none is beyond ``reach`` in size."""

    offset: float
    trees: tuple[Tree, ...]
    error: float
    reach: float


def add_up(offset: float, trees: Sequence[Tree], unit: float, extra: float = 0.0) -> Score:
    """The score of trees that a library adds in this order, the offset first or last, with roundings of ``unit``."""
    if len(trees) >= 2**16:
        raise Unreadable(f"it has {len(trees):,} trees, more than the 65,535 that can be bounded")
    leaves = [tree.value[tree.left < 0] for tree in trees]
    high, low = np.cumsum([0.0, *(v.max() for v in leaves)]), np.cumsum([0.0, *(v.min() for v in leaves)])
    sizes = np.maximum(np.maximum(np.abs(high), np.abs(low)), np.maximum(np.abs(high + offset), np.abs(low + offset)))
    # Whoever adds up our tables in float64, in any order, errs too: by DOUBLE times count times the sum of sizes.
    whole = abs(offset) + float(sum(np.abs(v).max() for v in leaves))
    error = SLACK * (unit * float(sizes.sum()) + 2 * DOUBLE * (len(trees) + 2) * whole) + extra
    return Score(offset, tuple(trees), error + sys.float_info.min, SLACK * float(sizes.max()) + error)


def noise_of(unit: float, classes: int = 2) -> float:
    """A bound on the relative error of a computed probability, of sums of them, and of the threshold's own type."""
    return (16 + 2 * classes) * unit


def logit(probability: float) -> float:
    """The inverse of the logistic function; a ValueError outside 0 to 1."""
    return math.log(probability) - math.log1p(-probability)


IDENTITY = Response(float, -math.inf, math.inf)
LOGISTIC = Response(logit, 0.0, 1.0)
EXPONENTIAL = Response(math.log, 0.0, math.inf)
STEP = Response(lambda _: 0.0, 0.0, 1.0)


def crossing(
    response: Response, threshold: float, noise: float, slope: float = 1.0, *, first: bool = False
) -> tuple[float, float] | None:
    """Where a score passes a threshold on its response (for the first of two classes: on 1 - response), and how far
    rounding of the response may move that; None if the threshold is outside of what can be answered.
    """
    if not response.least <= threshold < response.most:
        return None
    place, blur = (1 - threshold, noise * (1 + abs(threshold))) if first else (threshold, noise * abs(threshold))
    try:
        low, cut, high = (response.inverse(x) / slope for x in (place - blur, place, place + blur))
    except ValueError:
        raise Unreadable(f"a threshold of {threshold:g} is too near the end of what the model can answer") from None
    return cut, max(high - cut, cut - low) + 4 * DOUBLE * (abs(cut) + 1)


def above(
    score: Score, response: Response, threshold: float, noise: float, slope: float = 1.0, *, first: bool = False
) -> Reading:
    """Desired where response(slope score) > threshold; for the first of two classes, where 1 - response > threshold."""
    crossed = crossing(response, threshold, noise, slope, first=first)
    if crossed is None:
        return ALWAYS if threshold < response.least else NEVER
    cut, wide = crossed
    sign = -1.0 if first else 1.0
    return Reading(((Margin(sign * (score.offset - cut), _group(_times(score.trees, sign)), score.error + wide),),))


def largest(scores: Sequence[Score], wanted: Sequence[int], tie: float) -> Reading:
    """Desired where the largest score is a wanted one; scores within ``tie`` may be told apart or not."""
    others = [place for place in range(len(scores)) if place not in wanted]
    return Reading(tuple(tuple(_lead(scores[d], scores[u], 0.0, tie) for u in others) for d in wanted))


def softmax_above(scores: Sequence[Score], wanted: Sequence[int], threshold: float, unit: float) -> Reading:
    """Desired where the wanted classes' softmax probabilities add up to more than the threshold.

    One class d against many: p > t iff the sum of E_u = exp(s_u - s_d) is below c = 1/t - 1. Many against one class u:
    iff the sum of E_d = exp(s_d - s_u) is above c = t/(1-t). A link M logistic(x - log M) is A(E) = E/(1 + E/M), which
    is E but for a cap. Since A <= E, and since a sum of E's of at least c gives a sum of A's of at least A(c), which is
    at least c - c^2/M, sums of A's are on the same side of c as sums of E's, but for c^2/M. Scores off by e multiply E
    by at most exp(e) and at least exp(-e).
    """
    others = [place for place in range(len(scores)) if place not in wanted]
    noise = noise_of(unit, len(scores))
    if threshold < 0 or threshold > 1 + noise:
        return ALWAYS if threshold < 0 else NEVER
    if len(others) > 1 and len(wanted) > 1:
        raise Unreadable("a threshold on the sum of several classes' probabilities, against several others, is no sum")
    if not 0 < threshold < 1 - 8 * noise or noise > threshold / 8:
        raise Unreadable(f"a threshold of {threshold:g} is too near the end of what the model can answer")
    if len(others) == len(wanted) == 1:
        edge = noise / (
            threshold * (1 - threshold)
        )  # logit' = 1/(t(1-t)); noise is below an eighth of either: twice is enough
        return Reading(((_lead(scores[wanted[0]], scores[others[0]], logit(threshold), 2 * edge),),))
    return Reading(((_capped(scores, wanted, others, threshold, unit),),))


def _capped(scores: Sequence[Score], wanted: Sequence[int], others: Sequence[int], t: float, unit: float) -> Margin:
    noise = noise_of(unit, len(scores))
    alone = len(wanted) == 1
    c = 1 / t - 1 if alone else t / (1 - t)
    low, high = t * (1 - 2 * noise), t * (1 + 2 * noise)
    c_low, c_high = (1 / high - 1, 1 / low - 1) if alone else (low / (1 - low), high / (1 - high))
    cap = c * 2.0**24
    pairs = [(d, u) for d in wanted for u in others]
    # the errors of both scores, and of the differences to the largest score that softmax takes
    stretch = math.exp(
        max(scores[d].error + scores[u].error + 2 * unit * (scores[d].reach + scores[u].reach) for d, u in pairs)
    )
    error = max(stretch * c_high - c, c - c_low / stretch) + c * c / cap + 2.0**-48 * len(pairs) * cap
    groups = []
    for d, u in pairs:
        trees = scores[d].trees + _times(scores[u].trees, -1.0)
        gap = scores[d].offset - scores[u].offset
        # alone: -M logistic(-x - log M) = -M + M logistic(x + log M), x = s_d - s_u: rising as links must
        groups.append(Group(trees, Link("logistic", cap, 1.0, gap + math.log(cap) * (1 if alone else -1))))
    return Margin(c - cap * len(pairs) if alone else -c, tuple(groups), error)


def sigmoids_above(
    scores: Sequence[Score], wanted: Sequence[int], threshold: float, unit: float, slope: float = 1.0
) -> Reading:
    """Desired where the wanted classes' own sigmoids, logistic(slope score), add up to more than the threshold."""
    noise = noise_of(unit, len(scores))
    groups = [Group(scores[d].trees, Link("logistic", 1.0, slope, slope * scores[d].offset)) for d in wanted]
    # a sigmoid is nowhere steeper than a quarter of its slope
    error = sum(slope * scores[d].error / 4 + 2 * noise for d in wanted) + noise * abs(threshold)
    return Reading(((Margin(-threshold, tuple(groups), error),),))


def places_of(estimator: Any, desired: tuple[Any, ...]) -> list[int]:
    """The positions of the desired labels among the estimator's classes."""
    labels = [as_python(label) for label in np.asarray(estimator.classes_).ravel()]
    return [place for place, label in enumerate(labels) if label in desired]


def preorder(root: Hashable, look: Callable[[Any], tuple[Test, Any, Any] | float]) -> Tree:
    """The tree under a root, where ``look`` gives a leaf's value or a node's test, left and right; parents first."""
    tests: list[Test | None] = []
    left, right, value = [], [], []
    waiting: list[tuple[Any, list[int], int]] = [(root, [], 0)]
    while waiting:
        node, slots, slot = waiting.pop()
        if slots:
            slots[slot] = len(tests)
        seen = look(node)
        left.append(-1)
        right.append(-1)
        if isinstance(seen, tuple):
            waiting += [(seen[2], right, len(tests)), (seen[1], left, len(tests))]
            tests.append(seen[0])
            value.append(0.0)
        else:
            tests.append(None)
            value.append(seen)
    return Tree(tuple(tests), np.array(left, np.int32), np.array(right, np.int32), np.array(value, np.float64))


def parents_first(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> tuple[npt.NDArray[np.intp], Ints, Ints]:
    """The nodes under node 0 level by level, and their children in that order; a child below 0 is none."""
    levels = [np.zeros(1, dtype=np.intp)]
    while len(levels[-1]):
        inner = levels[-1][left[levels[-1]] >= 0]
        levels.append(np.concatenate([left[inner], right[inner]]).astype(np.intp))
        if len(levels) > len(left) + 1:
            raise Unreadable("a tree's nodes must not form a circle")
    order = np.concatenate(levels)
    place = np.full(len(left) + 1, -1, dtype=np.int32)  # the last one stands for none
    place[order] = np.arange(len(order))
    below = left[order] < 0
    return order, place[np.where(below, -1, left[order])], place[np.where(below, -1, right[order])]


def _lead(first: Score, second: Score, least: float, tie: float) -> Margin:
    offset = first.offset - second.offset - least
    error = first.error + second.error + tie + 4 * DOUBLE * (abs(offset) + abs(least))
    return Margin(offset, _group(first.trees + _times(second.trees, -1.0)), error)


def _group(trees: tuple[Tree, ...]) -> tuple[Group, ...]:
    return (Group(trees),) if trees else ()


def _times(trees: tuple[Tree, ...], factor: float) -> tuple[Tree, ...]:
    return (
        tuple(Tree(tree.tests, tree.left, tree.right, factor * tree.value) for tree in trees) if factor != 1 else trees
    )
