"""Sums of tree values in real arithmetic, with a bound on what a library's doubles make of them.

Every model made of trees computes columns (one per class, or one number) that are sums of leaf values, some through a
link, and compares them. :class:`Scores` holds the columns in real arithmetic with one bound on the library's rounding.
Models come in three kinds by what they compare: :class:`Classes` (the largest column wins, the first one in a tie),
:class:`Binary` (the sign of one raw score) and :class:`Number` (a prediction against the threshold).

How the bound is proven: adding k numbers in any order and any double arithmetic (threads, fused multiply-add) is off by
at most about k u times the sum of their sizes, u = 2**-53. We take four times that (:func:`rounding`), which leaves
room for scaling values, for forming differences of columns and for evaluating the margin itself in doubles. Where all
leaf values lie on a coarse binary grid (pure leaves, whole votes), sums are exact, and ties go as in the library.

A hard vote of an ensemble jumps where its raw score is zero, and so rounding cannot be bounded by a small error there.
Then two alternatives are given: a careful one, which counts a doubtful vote as lost, and a hopeful one, which counts it
as won and whose error is so large that it never decides for a point, only against it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf, log
from typing import Any, Literal

import numpy as np

from ironrule.model.readers.boosting import Score, softmax_above
from ironrule.model.reading import Floats, Group, Ints, Link, Margin, Reading, Tree, Unreadable
from ironrule.model.thresholds import Thresholds

UNIT = 2.0**-53


LINK_ERROR = 2.0**-46  # exp, expit and softmax are good to a few units; this is 128


GRID, GRID_SIZE = 2.0**-20, 2.0**20  # sums of multiples of GRID below GRID_SIZE are exact, also after a division


TINY = 1e-290  # above whatever underflow can do, so that a tie is never sure


CLOSEST = 1e-6  # a threshold on a probability behind a link must keep this distance from 0 and 1


@dataclass(frozen=True, slots=True, eq=False)
class Bush:
    """A tree with a row of values, one per column of the scores, at every leaf (zeros elsewhere)."""

    tests: Thresholds
    left: Ints
    right: Ints
    values: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Linked:
    """A raw score (bushes of one column) whose link, times ``share``, is added to the columns.

    ``blur`` is how far from a step's jump rounding may still turn it.
    """

    raw: Scores
    kind: Literal["logistic", "step"]
    slope: float
    share: Floats
    blur: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Columns of sums: ``error`` bounds the library's rounding in each, ``size`` what the parts of one add up to.

    ``exact``: all values are multiples of GRID and size is at most GRID_SIZE, so the library makes no error at all.
    """

    offset: Floats
    bushes: tuple[Bush, ...] = ()
    linked: tuple[Linked, ...] = ()
    error: float = 0.0
    size: float = 0.0
    exact: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """The class of the largest column; columns over ``divisor`` are probabilities, unless a softmax makes them so."""

    scores: Scores
    divisor: float = 1.0
    softmax: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Binary:
    """The second class where the one raw column is positive; its probability is logistic(slope raw)."""

    raw: Scores
    slope: float


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """A prediction: the one column over ``divisor``, or exp of it."""

    scores: Scores
    divisor: float = 1.0
    exponential: bool = False


Model = Classes | Binary | Number


Case = tuple[Floats, float, float]  # a margin: weights of the columns, a constant, the error


def constant(outcome: bool) -> Reading:
    """The reading of a model that always decides the same."""
    return Reading(((Margin(1.0 if outcome else -1.0, ()),),))


def read_binary(model: Binary, wanted: Sequence[int], threshold: float | None) -> Reading:
    """Desired by the sign of a raw score, or by its logistic against a threshold."""
    sign = 1.0 if wanted == [1] else -1.0
    limit, slack = (0.0, LINK_ERROR) if threshold is None else log_odds_at(float(threshold), model.slope)
    if abs(limit) == inf:
        return constant(limit < 0)
    error = model.raw.error + slack + rounding(4, model.raw.size + abs(limit))
    return reading(model.raw, [[(np.full(1, sign), -limit, error)]])


def log_odds_at(threshold: float, slope: float) -> tuple[float, float]:
    """The raw score at which a probability passes the threshold, and how far rounding of the probability moves it."""
    if threshold < 0 or threshold >= 1:
        return (-inf if threshold < 0 else inf), 0.0
    require(
        CLOSEST <= threshold <= 1 - CLOSEST,
        f"a threshold on a logistic probability must be between {CLOSEST} and 1 - {CLOSEST}",
    )
    low, middle, high = (log(p / (1 - p)) / slope for p in (threshold - LINK_ERROR, threshold, threshold + LINK_ERROR))
    return middle, 2 * (high - low) + LINK_ERROR * (1 + abs(middle))


def read_classes(model: Model, wanted: Sequence[int], threshold: float | None) -> Reading:
    """Desired by the largest column, or by the desired ones together against a threshold."""
    assert isinstance(model, Classes)
    scores, columns = model.scores, np.eye(len(model.scores.offset))
    if threshold is not None and model.softmax:
        return softmax_above(_by_class(model), wanted, float(threshold), LINK_ERROR)
    if threshold is not None:
        return reading(scores, [[_threshold_case(model, wanted, float(threshold))]])
    others = [place for place in range(len(columns)) if place not in wanted]
    error = 0.0 if scores.exact else 2 * scores.error + rounding(8, scores.size) + LINK_ERROR * model.softmax
    tie = GRID / 2 if scores.exact else 0.0  # the first of equal columns wins
    cases = [[(columns[d] - columns[u], tie if d < u else -tie, error) for u in others] for d in wanted]
    return reading(scores, cases)


def _by_class(model: Classes) -> list[Score]:
    """A score for every class, where a softmax of the scores themselves makes them probabilities."""
    scores = model.scores
    require(model.divisor == 1.0 and not scores.linked, "its probabilities are a softmax of scaled scores")
    reach = scores.size + scores.error
    each = zip(scores.offset.tolist(), np.eye(len(scores.offset)), strict=True)
    return [Score(offset, _trees(scores.bushes, column), scores.error, reach) for offset, column in each]


def _threshold_case(model: Classes, wanted: Sequence[int], threshold: float) -> Case:
    scores, count = model.scores, len(wanted)
    weights = np.zeros(len(scores.offset))
    weights[list(wanted)] = 1.0
    if scores.exact and count == 1:
        passing = bisect_left(
            range(int(scores.size / GRID) + 1), True, key=lambda m: m * GRID / model.divisor > threshold
        )
        return weights, GRID / 2 - passing * GRID, 0.0
    limit = threshold * model.divisor
    return weights, -limit, count * scores.error + rounding(count + 8, count * scores.size + abs(limit))


def reading(scores: Scores, cases: Sequence[Sequence[Case]]) -> Reading:
    """One alternative per list of cases; two where a doubtful vote makes a careful and a hopeful one."""
    if not any(part.blur for part in scores.linked):
        return Reading(tuple(tuple(_margin(scores, case, 0.0) for case in some) for some in cases))
    careful = tuple(tuple(_margin(scores, case, 1.0) for case in some) for some in cases)
    hopeful = tuple(tuple(_never_sure(_margin(scores, case, -1.0), scores.size) for case in some) for some in cases)
    return Reading(careful + hopeful, ("votes on which rounding could decide are left to the model",))


def _never_sure(margin: Margin, size: float) -> Margin:
    """A margin that rules out what the given one rules out, and leaves everything else to the model."""
    most = 2.0 ** np.ceil(np.log2(4 * size + 4))  # a power of two, so that whole votes stay exact
    error = max(margin.error, most * 2.0**-40) if margin.error else 0.0
    return Margin(margin.offset - most, margin.groups, most + error)


def _margin(scores: Scores, case: Case, lean: float) -> Margin:
    weights, constant, error = case
    offset = constant + float(weights @ scores.offset)
    trees = _trees(scores.bushes, weights)
    groups = [Group(trees)] if trees else []
    for part in scores.linked:
        share = float(weights @ part.share)
        if share:
            offset += min(share, 0.0)  # a falling link is a rising one of the negated score: -f(s) = f(-s) - 1
            groups.append(_group(part, share, lean))
    inexact = not scores.exact
    return Margin(offset, tuple(groups), max(error, TINY) if inexact else error)


def _group(part: Linked, share: float, lean: float) -> Group:
    sign = 1.0 if share > 0 else -1.0
    trees, start = _trees(part.raw.bushes, np.full(1, sign)), sign * float(part.raw.offset[0])
    if part.kind == "step":
        return Group(trees, Link("step", abs(share), 1.0, lean * part.blur - start))
    return Group(trees, Link("logistic", abs(share), part.slope, part.slope * start))


def _trees(bushes: Iterable[Bush], weights: Floats) -> tuple[Tree, ...]:
    """The trees of a weighted sum of columns, without those that add nothing."""
    trees = [Tree(bush.tests, bush.left, bush.right, bush.values @ weights) for bush in bushes]
    return tuple(tree for tree in trees if tree.value.any())


def rounding(terms: int, size: float) -> float:
    """Four times what adding so many terms, whose sizes add up to ``size``, can lose in doubles."""
    return 4 * (terms + 1) * UNIT * size + TINY


def _largest(values: Floats) -> float:
    return float(np.abs(values).max(initial=0.0))


def on_grid(values: Floats) -> bool:
    """Whether all values are multiples of GRID."""
    return bool((np.rint(values / GRID) * GRID == values).all())


def single(bush: Bush) -> Scores:
    """The scores of one bush."""
    zero = np.zeros(bush.values.shape[1])
    return Scores(zero, (bush,), size=_largest(bush.values), exact=on_grid(bush.values))


def added(parts: Sequence[Scores], columns: int) -> Scores:
    """The sum that a library forms of computed scores."""
    size = sum(part.size for part in parts)
    exact = all(part.exact for part in parts) and size <= GRID_SIZE
    return Scores(
        np.sum([part.offset for part in parts], axis=0) + np.zeros(columns),
        tuple(bush for part in parts for bush in part.bushes),
        tuple(linked for part in parts for linked in part.linked),
        0.0 if exact else sum(part.error for part in parts) + rounding(len(parts) + 4, size),
        size,
        exact,
    )


def mapped(scores: Scores, matrix: Floats) -> Scores:
    """The columns of ``scores`` times a matrix; whole numbers keep what is exact exact."""
    most = float(np.abs(matrix).sum(axis=0).max(initial=0.0))
    size = most * scores.size
    exact = scores.exact and size <= GRID_SIZE and bool((matrix == np.rint(matrix)).all())
    return Scores(
        scores.offset @ matrix,
        tuple(replace(bush, values=bush.values @ matrix) for bush in scores.bushes),
        tuple(replace(part, share=part.share @ matrix) for part in scores.linked),
        0.0 if exact else most * scores.error + rounding(len(matrix) + 4, size),
        size,
        exact,
    )


def scaled(scores: Scores, factor: float) -> Scores:
    """The scores times a factor."""
    return scores if factor == 1.0 else mapped(scores, factor * np.eye(len(scores.offset)))


def logistic(model: Binary, columns: int) -> Scores:
    """The two probabilities of a raw score."""
    require(columns == 2 and not model.raw.linked, "a member's score goes through two links")
    part = Linked(model.raw, "logistic", model.slope, np.array([-1.0, 1.0]))
    error = LINK_ERROR + model.slope * (model.raw.error + rounding(4, model.raw.size))
    return Scores(np.array([1.0, 0.0]), (), (part,), error, 2.0)


def doubt(model: Model) -> tuple[Scores, float]:
    """The raw score that is positive for the second class, and how near to zero rounding may turn it."""
    if isinstance(model, Binary):
        return model.raw, 2 * (model.raw.error + LINK_ERROR + rounding(8, model.raw.size))
    assert isinstance(model, Classes)
    require(len(model.scores.offset) == 2, "its members know different classes")
    raw = mapped(model.scores, np.array([[-1.0], [1.0]]))
    if raw.exact:
        return replace(raw, offset=raw.offset - GRID / 2), 0.0
    return raw, 2 * (raw.error + rounding(8, raw.size))


def require_fitted(estimator: Any) -> None:
    """Raise Unreadable unless an estimator of scikit-learn is fitted."""
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(estimator)
    except NotFittedError as error:
        raise Unreadable(f"the {type(estimator).__name__} must be fitted first") from error


def require(holds: bool, reason: str) -> None:
    """Raise Unreadable with the reason unless this holds."""
    if not holds:
        raise Unreadable(reason)
