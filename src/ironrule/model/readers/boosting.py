"""Scores of boosted trees, and the decisions that boosting libraries make by them.

A booster's raw score for a class is a base plus one leaf of every tree. What decides is a monotone function of the
scores:

- two classes, or a regression: the score against the inverse of the link at the threshold (:func:`read_two_classes`,
  :func:`read_prediction`);
- the largest of several (:func:`read_largest_score`): a margin for every pair of a desired and an undesired class;
- a sum of softmax probabilities against a threshold (:func:`read_softmax_threshold`);
- a sum of each class's own sigmoid against a threshold (:func:`read_sigmoid_threshold`).

How the errors are bounded. Let u be half a unit in the last place of 1 (2^-24 or 2^-53). A sum s_k = fl(s_(k-1) +
v_k) has an error of at most u |s_k| per addition, so at most u times the sum of the largest |s_k| in all; growth of
higher order is covered by a factor. A probability has a relative error of a few u (exp within 2 units, an addition, a
division, 1 - p, a sum over K classes, the threshold cast to the answer's own type): (16 + 2K) u is more than that. It
is carried through the inverse link at the threshold, where alone it can matter, into the score.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ironrule.arrays import AnyArray, Int32Array, IntpArray
from ironrule.model.decision import list_labels, split_classes
from ironrule.model.normal_form.network import DOUBLE_ROUNDOFF
from ironrule.model.normal_form.tree_sum import Link, LinkedGroup, Margin, Tree, TreeSum
from ironrule.model.protocol import Unreadable, require_readable

HIGHER_ORDER_FACTOR = 1.01  # the terms of higher order in u, for any ensemble of fewer than 2^16 trees


@dataclass(frozen=True, slots=True)
class Response:
    """A rising function from scores to answers, told by its inverse and by the range of its answers."""

    inverse: Callable[[float], float]
    minimum: float
    maximum: float


@dataclass(frozen=True, slots=True, eq=False)
class BoostedScore:
    """A raw score, offset + sum of trees. The library's own is within ``error``; none is beyond ``size_bound``."""

    offset: float
    trees: tuple[Tree, ...]
    error: float
    size_bound: float


def build_constant_sum(outcome: bool) -> TreeSum:
    """The normal form of a model that always decides the same."""
    return TreeSum(((Margin(1.0 if outcome else -1.0, ()),),))


def sum_trees(offset: float, trees: Sequence[Tree], unit: float, extra: float = 0.0) -> BoostedScore:
    """The score of trees that a library adds in this order, the offset first or last, with roundings of ``unit``."""
    if len(trees) >= 2**16:
        raise Unreadable(f"it has {len(trees):,} trees, more than the 65,535 that can be bounded")
    leaves = [tree.value[tree.left < 0] for tree in trees]
    high, low = np.cumsum([0.0, *(v.max() for v in leaves)]), np.cumsum([0.0, *(v.min() for v in leaves)])
    sizes = np.maximum(np.maximum(np.abs(high), np.abs(low)), np.maximum(np.abs(high + offset), np.abs(low + offset)))
    # Adding up our tables in float64, in any order, errs too: by DOUBLE_ROUNDOFF times count times the sum of sizes.
    whole = abs(offset) + float(sum(np.abs(v).max() for v in leaves))
    error = HIGHER_ORDER_FACTOR * (unit * float(sizes.sum()) + 2 * DOUBLE_ROUNDOFF * (len(trees) + 2) * whole) + extra
    size_bound = HIGHER_ORDER_FACTOR * float(sizes.max()) + error
    return BoostedScore(offset, tuple(trees), error + sys.float_info.min, size_bound)


def bound_probability_error(unit: float, classes: int = 2) -> float:
    """A bound on the relative error of a computed probability, of sums of them, and of the threshold's own type."""
    return (16 + 2 * classes) * unit


def logit(probability: float) -> float:
    """The inverse of the logistic function; a ValueError outside 0 to 1."""
    return math.log(probability) - math.log1p(-probability)


IDENTITY_RESPONSE = Response(float, -math.inf, math.inf)
LOGISTIC_RESPONSE = Response(logit, 0.0, 1.0)
EXPONENTIAL_RESPONSE = Response(math.log, 0.0, math.inf)
STEP_RESPONSE = Response(lambda _: 0.0, 0.0, 1.0)


def find_crossing(
    response: Response, threshold: float, noise: float, slope: float = 1.0, *, first: bool = False
) -> tuple[float, float] | None:
    """Where a score passes a threshold on its response (for the first of two classes: on 1 - response), and how far
    rounding of the response may move that; None if the threshold is outside of what can be answered.
    """
    if not response.minimum <= threshold < response.maximum:
        return None
    place, blur = (1 - threshold, noise * (1 + abs(threshold))) if first else (threshold, noise * abs(threshold))
    try:
        low, cut, high = (response.inverse(x) / slope for x in (place - blur, place, place + blur))
    except ValueError:
        raise Unreadable(f"a threshold of {threshold:g} is too near the end of what the model can answer") from None
    return cut, max(high - cut, cut - low) + 4 * DOUBLE_ROUNDOFF * (abs(cut) + 1)


def read_threshold(
    score: BoostedScore, response: Response, threshold: float, noise: float, slope: float = 1.0, *, first: bool = False
) -> TreeSum:
    """Desired where response(slope score) > threshold; for the first of two classes, where 1 - response > threshold."""
    crossed = find_crossing(response, threshold, noise, slope, first=first)
    if crossed is None:
        return build_constant_sum(threshold < response.minimum)
    cut, wide = crossed
    sign, trees = (-1.0, _negate_trees(score.trees)) if first else (1.0, score.trees)
    return TreeSum(((Margin(sign * (score.offset - cut), _as_groups(trees), score.error + wide),),))


def read_two_classes(
    score: BoostedScore,
    response: Response,
    wanted: Sequence[int],
    threshold: float | None,
    unit: float,
    slope: float = 1.0,
) -> TreeSum:
    """Desired where the probability of the desired one of two classes is above the threshold, one half if None."""
    require_readable(len(wanted) == 1, "one of two classes must be desired")
    level = 0.5 if threshold is None else threshold
    return read_threshold(score, response, level, bound_probability_error(unit), slope, first=list(wanted) == [0])


def read_prediction(
    scores: Sequence[BoostedScore],
    response: Response | None,
    desired: tuple[Any, ...],
    threshold: float | None,
    unit: float,
    no_response: str | None = None,
) -> TreeSum:
    """Desired where the prediction of a regressor is above the threshold; ``no_response`` says why there is none."""
    required = "a regressor is read where one prediction is compared with a threshold, which must be given"
    if threshold is None or desired or len(scores) != 1:
        raise Unreadable(required)
    if response is None:
        raise Unreadable(no_response or required)
    return read_threshold(scores[0], response, threshold, bound_probability_error(unit))


def read_largest_score(scores: Sequence[BoostedScore], wanted: Sequence[int], tie: float) -> TreeSum:
    """Desired where the largest score is a wanted one; scores within ``tie`` may be told apart or not."""
    others = [place for place in range(len(scores)) if place not in wanted]
    return TreeSum(tuple(tuple(_build_lead_margin(scores[d], scores[u], 0.0, tie) for u in others) for d in wanted))


def read_class_scores(
    scores: Sequence[BoostedScore],
    wanted: Sequence[int],
    threshold: float | None,
    unit: float,
    tie: float | None = None,
    *,
    own_sigmoids: bool = False,
    slope: float = 1.0,
) -> TreeSum:
    """Desired where the largest score is a wanted one, or where the wanted probabilities add up to more than the
    threshold: those of a softmax, or of a sigmoid per class.
    """
    if threshold is None:
        return read_largest_score(scores, wanted, bound_probability_error(unit, len(scores)) if tie is None else tie)
    if own_sigmoids:
        return read_sigmoid_threshold(scores, wanted, threshold, unit, slope)
    return read_softmax_threshold(scores, wanted, threshold, unit)


def read_softmax_threshold(
    scores: Sequence[BoostedScore], wanted: Sequence[int], threshold: float, unit: float
) -> TreeSum:
    """Desired where the wanted classes' softmax probabilities add up to more than the threshold.

    One class d against many: p > t iff the sum of E_u = exp(s_u - s_d) is below c = 1/t - 1. Many against one class u:
    iff the sum of E_d = exp(s_d - s_u) is above c = t/(1-t). A link M logistic(x - log M) is A(E) = E/(1 + E/M), which
    is E but for a cap. Since A <= E, and since a sum of E's of at least c gives a sum of A's of at least A(c), which is
    at least c - c^2/M, sums of A's are on the same side of c as sums of E's, but for c^2/M. Scores off by e multiply E
    by at most exp(e) and at least exp(-e).
    """
    others = [place for place in range(len(scores)) if place not in wanted]
    noise = bound_probability_error(unit, len(scores))
    if threshold < 0 or threshold > 1 + noise:
        return build_constant_sum(threshold < 0)
    if len(others) > 1 and len(wanted) > 1:
        raise Unreadable("a threshold on the sum of several classes' probabilities, against several others, is no sum")
    if not 0 < threshold < 1 - 8 * noise or noise > threshold / 8:
        raise Unreadable(f"a threshold of {threshold:g} is too near the end of what the model can answer")
    if len(others) == len(wanted) == 1:
        # logit' = 1/(t(1-t)); noise is below an eighth of either: twice is enough
        edge = noise / (threshold * (1 - threshold))
        return TreeSum(((_build_lead_margin(scores[wanted[0]], scores[others[0]], logit(threshold), 2 * edge),),))
    return TreeSum(((_build_capped_margin(scores, wanted, others, threshold, unit),),))


def _build_capped_margin(
    scores: Sequence[BoostedScore], wanted: Sequence[int], others: Sequence[int], t: float, unit: float
) -> Margin:
    noise = bound_probability_error(unit, len(scores))
    alone = len(wanted) == 1
    c = 1 / t - 1 if alone else t / (1 - t)
    low, high = t * (1 - 2 * noise), t * (1 + 2 * noise)
    c_low, c_high = (1 / high - 1, 1 / low - 1) if alone else (low / (1 - low), high / (1 - high))
    cap = c * 2.0**24
    pairs = [(d, u) for d in wanted for u in others]
    # the errors of both scores, and of the differences to the largest score that softmax takes
    both = [(scores[d], scores[u]) for d, u in pairs]
    stretch = math.exp(max(a.error + b.error + 2 * unit * (a.size_bound + b.size_bound) for a, b in both))
    error = max(stretch * c_high - c, c - c_low / stretch) + c * c / cap + 2.0**-48 * len(pairs) * cap
    groups = []
    for d, u in pairs:
        trees = scores[d].trees + _negate_trees(scores[u].trees)
        gap = scores[d].offset - scores[u].offset
        # alone: -M logistic(-x - log M) = -M + M logistic(x + log M), x = s_d - s_u: rising as links must
        groups.append(LinkedGroup(trees, Link("logistic", cap, 1.0, gap + math.log(cap) * (1 if alone else -1))))
    return Margin(c - cap * len(pairs) if alone else -c, tuple(groups), error)


def read_sigmoid_threshold(
    scores: Sequence[BoostedScore], wanted: Sequence[int], threshold: float, unit: float, slope: float = 1.0
) -> TreeSum:
    """Desired where the wanted classes' own sigmoids, logistic(slope score), add up to more than the threshold."""
    noise = bound_probability_error(unit, len(scores))
    groups = [LinkedGroup(scores[d].trees, Link("logistic", 1.0, slope, slope * scores[d].offset)) for d in wanted]
    # a sigmoid is nowhere steeper than a quarter of its slope
    error = sum(slope * scores[d].error / 4 + 2 * noise for d in wanted) + noise * abs(threshold)
    return TreeSum(((Margin(-threshold, tuple(groups), error),),))


def find_class_positions(estimator: Any, desired: tuple[Any, ...]) -> list[int]:
    """The positions of the desired labels among the estimator's classes."""
    return split_classes(list_labels(estimator.classes_), desired)[0]


def order_parents_first(left: AnyArray, right: AnyArray) -> tuple[IntpArray, Int32Array, Int32Array]:
    """The nodes under node 0 level by level, and their children in that order; a child below 0 is none."""
    levels = [np.zeros(1, dtype=np.intp)]
    while len(levels[-1]):  # the children of a level are the next one
        inner = levels[-1][left[levels[-1]] >= 0]
        levels.append(np.concatenate([left[inner], right[inner]]).astype(np.intp))
        if len(levels) > len(left) + 1:
            raise Unreadable("a tree's nodes must not form a circle")
    order = np.concatenate(levels)
    place = np.full(len(left) + 1, -1, dtype=np.int32)  # the last one stands for none
    place[order] = np.arange(len(order))
    below = left[order] < 0
    return order, place[np.where(below, -1, left[order])], place[np.where(below, -1, right[order])]


def _build_lead_margin(first: BoostedScore, second: BoostedScore, least: float, tie: float) -> Margin:
    offset = first.offset - second.offset - least
    error = first.error + second.error + tie + 4 * DOUBLE_ROUNDOFF * (abs(offset) + abs(least))
    return Margin(offset, _as_groups(first.trees + _negate_trees(second.trees)), error)


def _as_groups(trees: tuple[Tree, ...]) -> tuple[LinkedGroup, ...]:
    return (LinkedGroup(trees),) if trees else ()


def _negate_trees(trees: tuple[Tree, ...]) -> tuple[Tree, ...]:
    return tuple(tree.negate() for tree in trees)
