"""Sums of tree values in real arithmetic, with a bound on what a library's doubles make of them.

Every model made of trees computes columns (one per class, or one number) that are sums of leaf values, some through a
link, and compares them. :class:`ScoreColumns` holds the columns in real arithmetic with one bound on the library's
rounding. Models come in three kinds by what they compare: :class:`ClassScores` (the largest column wins, the first
one in a tie), :class:`BinaryScore` (the sign of one raw score) and :class:`NumberScore` (a prediction against the
threshold).

How the bound is proven: adding k numbers in any order and any double arithmetic (threads, fused multiply-add) is off
by at most about k u times the sum of their sizes, u = 2**-53. We take four times that (:func:`bound_rounding`), which
leaves room for scaling values, for forming differences of columns and for evaluating the margin itself in doubles.
Where all leaf values lie on a coarse binary grid (pure leaves, whole votes), sums are exact, and ties go as in the
library.

A hard vote of an ensemble jumps where its raw score is zero, and so rounding cannot be bounded by a small error
there. Then two alternatives are given: a careful one, which counts a doubtful vote as lost, and a hopeful one, which
counts it as won and whose error is so large that it never decides for a point, only against it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf, log
from typing import Any, Literal

import numpy as np

from ironrule.arrays import Float64Array, Int32Array
from ironrule.model.normal_form.network import DOUBLE_ROUNDOFF
from ironrule.model.normal_form.splits import ThresholdSplits
from ironrule.model.normal_form.tree_sum import Link, LinkedGroup, Margin, Tree, TreeSum
from ironrule.model.protocol import Unreadable, require_readable
from ironrule.model.readers.boosting import BoostedScore, build_constant_sum, read_softmax_threshold

LINK_ERROR = 2.0**-46  # exp, expit and softmax are good to a few units; this is 128
GRID, MAX_GRID_SUM = 2.0**-20, 2.0**20  # sums of multiples of GRID below MAX_GRID_SUM are exact, also after a division
UNDERFLOW_BOUND = 1e-290  # above whatever underflow can do, so that a tie is never sure
MIN_PROBABILITY = 1e-6  # a threshold on a probability behind a link must keep this distance from 0 and 1


@dataclass(frozen=True, slots=True, eq=False)
class VectorTree:
    """A tree with a row of values, one per column of the scores, at every leaf (zeros elsewhere)."""

    splits: ThresholdSplits
    left: Int32Array
    right: Int32Array
    values: Float64Array


@dataclass(frozen=True, slots=True, eq=False)
class LinkedScore:
    """A raw score (trees of one column) whose link, times ``weights``, is added to the columns.

    ``uncertainty`` is how far from a step's jump rounding may still turn it.
    """

    raw: ScoreColumns
    kind: Literal["logistic", "step"]
    slope: float
    weights: Float64Array
    uncertainty: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class ScoreColumns:
    """Columns of sums: ``error`` bounds the library's rounding in each, ``size`` what the parts of one add up to.

    ``exact``: all values are multiples of GRID and size is at most MAX_GRID_SUM, so the library makes no error at all.
    """

    offset: Float64Array
    trees: tuple[VectorTree, ...] = ()
    linked: tuple[LinkedScore, ...] = ()
    error: float = 0.0
    size: float = 0.0
    exact: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ClassScores:
    """The class of the largest column; columns over ``divisor`` are probabilities, unless a softmax makes them so."""

    scores: ScoreColumns
    divisor: float = 1.0
    softmax: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class BinaryScore:
    """The second class where the one raw column is positive; its probability is logistic(slope raw)."""

    raw: ScoreColumns
    slope: float


@dataclass(frozen=True, slots=True, eq=False)
class NumberScore:
    """A prediction: the one column over ``divisor``, or exp of it."""

    scores: ScoreColumns
    divisor: float = 1.0
    exponential: bool = False


ScoredModel = ClassScores | BinaryScore | NumberScore
MarginSpec = tuple[Float64Array, float, float]  # a margin: weights of the columns, a constant, the error


def read_binary(model: BinaryScore, wanted: Sequence[int], threshold: float | None) -> TreeSum:
    """Desired by the sign of a raw score, or by its logistic against a threshold."""
    sign = 1.0 if wanted == [1] else -1.0
    limit, slack = (0.0, LINK_ERROR) if threshold is None else find_log_odds(float(threshold), model.slope)
    if abs(limit) == inf:
        return build_constant_sum(limit < 0)
    error = model.raw.error + slack + bound_rounding(4, model.raw.size + abs(limit))
    return build_tree_sum(model.raw, [[(np.full(1, sign), -limit, error)]])


def find_log_odds(threshold: float, slope: float) -> tuple[float, float]:
    """The raw score at which a probability passes the threshold, and how far rounding of the probability moves it."""
    if threshold < 0 or threshold >= 1:
        return (-inf if threshold < 0 else inf), 0.0
    require_readable(
        MIN_PROBABILITY <= threshold <= 1 - MIN_PROBABILITY,
        f"a threshold on a logistic probability must be between {MIN_PROBABILITY} and 1 - {MIN_PROBABILITY}",
    )
    low, middle, high = (log(p / (1 - p)) / slope for p in (threshold - LINK_ERROR, threshold, threshold + LINK_ERROR))
    return middle, 2 * (high - low) + LINK_ERROR * (1 + abs(middle))


def read_classes(model: ScoredModel, wanted: Sequence[int], threshold: float | None) -> TreeSum:
    """Desired by the largest column, or by the desired ones together against a threshold."""
    assert isinstance(model, ClassScores)
    scores, columns = model.scores, np.eye(len(model.scores.offset))
    if threshold is not None and model.softmax:
        return read_softmax_threshold(_split_by_class(model), wanted, float(threshold), LINK_ERROR)
    if threshold is not None:
        return build_tree_sum(scores, [[_build_threshold_case(model, wanted, float(threshold))]])
    others = [place for place in range(len(columns)) if place not in wanted]
    error = 0.0 if scores.exact else 2 * scores.error + bound_rounding(8, scores.size) + LINK_ERROR * model.softmax
    tie = GRID / 2 if scores.exact else 0.0  # the first of equal columns wins
    cases = [[(columns[d] - columns[u], tie if d < u else -tie, error) for u in others] for d in wanted]
    return build_tree_sum(scores, cases)


def _split_by_class(model: ClassScores) -> list[BoostedScore]:
    """A score for every class, where a softmax of the scores themselves makes them probabilities."""
    scores = model.scores
    require_readable(model.divisor == 1.0 and not scores.linked, "its probabilities are a softmax of scaled scores")
    reach = scores.size + scores.error
    each = zip(scores.offset.tolist(), np.eye(len(scores.offset)), strict=True)
    return [BoostedScore(offset, _build_trees(scores.trees, column), scores.error, reach) for offset, column in each]


def _build_threshold_case(model: ClassScores, wanted: Sequence[int], threshold: float) -> MarginSpec:
    scores, count = model.scores, len(wanted)
    weights = np.zeros(len(scores.offset))
    weights[list(wanted)] = 1.0
    if scores.exact and count == 1:
        most = int(scores.size / GRID) + 1
        passing = bisect_left(range(most), True, key=lambda m: m * GRID / model.divisor > threshold)
        return weights, GRID / 2 - passing * GRID, 0.0
    limit = threshold * model.divisor
    return weights, -limit, count * scores.error + bound_rounding(count + 8, count * scores.size + abs(limit))


def build_tree_sum(scores: ScoreColumns, cases: Sequence[Sequence[MarginSpec]]) -> TreeSum:
    """One alternative per list of cases; two where a doubtful vote makes a careful and a hopeful one."""

    def build(lean: float) -> tuple[tuple[Margin, ...], ...]:
        return tuple(tuple(_build_margin(scores, case, lean) for case in alternative) for alternative in cases)

    if not any(part.uncertainty for part in scores.linked):
        return TreeSum(build(0.0))
    left = tuple(tuple(_leave_to_model(margin, scores.size) for margin in margins) for margins in build(-1.0))
    return TreeSum(build(1.0) + left)


def _leave_to_model(margin: Margin, size: float) -> Margin:
    """A margin that rules out what the given one rules out, and leaves everything else to the model."""
    most = 2.0 ** np.ceil(np.log2(4 * size + 4))  # a power of two, so that whole votes stay exact
    error = max(margin.error, most * 2.0**-40) if margin.error else 0.0
    return Margin(margin.offset - most, margin.groups, most + error)


def _build_margin(scores: ScoreColumns, case: MarginSpec, lean: float) -> Margin:
    weights, constant, error = case
    offset = constant + float(weights @ scores.offset)
    trees = _build_trees(scores.trees, weights)
    groups = [LinkedGroup(trees)] if trees else []
    for part in scores.linked:
        share = float(weights @ part.weights)
        if share:
            offset += min(share, 0.0)  # a falling link is a rising one of the negated score: -f(s) = f(-s) - 1
            groups.append(_build_group(part, share, lean))
    inexact = not scores.exact
    return Margin(offset, tuple(groups), max(error, UNDERFLOW_BOUND) if inexact else error)


def _build_group(part: LinkedScore, share: float, lean: float) -> LinkedGroup:
    sign = 1.0 if share > 0 else -1.0
    trees, start = _build_trees(part.raw.trees, np.full(1, sign)), sign * float(part.raw.offset[0])
    if part.kind == "step":
        return LinkedGroup(trees, Link("step", abs(share), 1.0, lean * part.uncertainty - start))
    return LinkedGroup(trees, Link("logistic", abs(share), part.slope, part.slope * start))


def _build_trees(vector_trees: Iterable[VectorTree], weights: Float64Array) -> tuple[Tree, ...]:
    """The trees of a weighted sum of columns, without those that add nothing."""
    trees = [Tree(tree.splits, tree.left, tree.right, tree.values @ weights) for tree in vector_trees]
    return tuple(tree for tree in trees if tree.value.any())


def bound_rounding(terms: int, size: float) -> float:
    """Four times what adding so many terms, whose sizes add up to ``size``, can lose in doubles."""
    return 4 * (terms + 1) * DOUBLE_ROUNDOFF * size + UNDERFLOW_BOUND


def is_on_grid(values: Float64Array) -> bool:
    """Whether all values are multiples of GRID."""
    return bool((np.rint(values / GRID) * GRID == values).all())


def score_tree(tree: VectorTree) -> ScoreColumns:
    """The scores of one tree."""
    zero, size = np.zeros(tree.values.shape[1]), float(np.abs(tree.values).max(initial=0.0))
    return ScoreColumns(zero, (tree,), size=size, exact=is_on_grid(tree.values))


def add_scores(parts: Sequence[ScoreColumns], columns: int) -> ScoreColumns:
    """The sum that a library forms of computed scores."""
    size = sum(part.size for part in parts)
    exact = all(part.exact for part in parts) and size <= MAX_GRID_SUM
    return ScoreColumns(
        np.sum([part.offset for part in parts], axis=0) + np.zeros(columns),
        tuple(tree for part in parts for tree in part.trees),
        tuple(linked for part in parts for linked in part.linked),
        error=0.0 if exact else sum(part.error for part in parts) + bound_rounding(len(parts) + 4, size),
        size=size,
        exact=exact,
    )


def map_scores(scores: ScoreColumns, matrix: Float64Array) -> ScoreColumns:
    """The columns of ``scores`` times a matrix; whole numbers keep what is exact exact."""
    most = float(np.abs(matrix).sum(axis=0).max(initial=0.0))
    size = most * scores.size
    exact = scores.exact and size <= MAX_GRID_SUM and bool((matrix == np.rint(matrix)).all())
    return ScoreColumns(
        scores.offset @ matrix,
        tuple(replace(tree, values=tree.values @ matrix) for tree in scores.trees),
        tuple(replace(part, weights=part.weights @ matrix) for part in scores.linked),
        error=0.0 if exact else most * scores.error + bound_rounding(len(matrix) + 4, size),
        size=size,
        exact=exact,
    )


def scale_scores(scores: ScoreColumns, factor: float) -> ScoreColumns:
    """The scores times a factor."""
    return scores if factor == 1.0 else map_scores(scores, factor * np.eye(len(scores.offset)))


def apply_logistic(model: BinaryScore, columns: int) -> ScoreColumns:
    """The two probabilities of a raw score."""
    require_readable(columns == 2 and not model.raw.linked, "a member's score goes through two links")
    part = LinkedScore(model.raw, "logistic", model.slope, np.array([-1.0, 1.0]))
    error = LINK_ERROR + model.slope * (model.raw.error + bound_rounding(4, model.raw.size))
    return ScoreColumns(np.array([1.0, 0.0]), (), (part,), error, 2.0)


def find_deciding_score(model: ScoredModel) -> tuple[ScoreColumns, float]:
    """The raw score that is positive for the second class, and how near to zero rounding may turn it."""
    if isinstance(model, BinaryScore):
        return model.raw, 2 * (model.raw.error + LINK_ERROR + bound_rounding(8, model.raw.size))
    assert isinstance(model, ClassScores)
    require_readable(len(model.scores.offset) == 2, "its members know different classes")
    raw = map_scores(model.scores, np.array([[-1.0], [1.0]]))
    if raw.exact:
        return replace(raw, offset=raw.offset - GRID / 2), 0.0
    return raw, 2 * (raw.error + bound_rounding(8, raw.size))


def require_fitted(estimator: Any) -> None:
    """Raise Unreadable unless an estimator of scikit-learn is fitted."""
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(estimator)
    except NotFittedError as error:
        raise Unreadable(f"the {type(estimator).__name__} must be fitted first") from error
