"""From scores to decisions: the margins that say when a class is predicted, or a probability is above a threshold.

A library computes a raw score for every class (or one for two classes, or one number for a regression) and decides by
a rising function of the scores. That function is undone here and the threshold turned instead. Its rounding is carried
along: a probability that is off by a relative error d near a threshold t moves the place where it passes t by the
difference of the inverse function at t (1 - d) and t (1 + d).

A raw score S is offset + trees + terms in real arithmetic. The library's own S is within
``error + relative_error * sizes`` of it, where the sizes are the largest absolute values of the offset and of every
tree and term.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ironrule.checker.arrays import AnyArray, Float64Array
from ironrule.checker.readers import normal_form
from ironrule.checker.readers.normal_form import DOUBLE_ROUNDOFF, ColumnTerm, MarginPart, NoReading, SumForm, SumMargin

UNDERFLOW = 1e-290  # more than products lose that are too small for normal numbers; keeps exact ties undecided


@dataclass(frozen=True, slots=True)
class LinearContribution:
    """What a column adds to a linear score: a weight times its number, refused where that is larger than the limit."""

    weight: float
    limit: float

    def __call__(self, values: AnyArray) -> Float64Array:
        """The products; each is rounded once, so they rise or fall with the numbers."""
        numbers = normal_form.to_float64(values)
        if not np.isfinite(numbers).all():
            raise NoReading("a linear score has no value where a number is missing or infinite")
        with np.errstate(over="ignore"):
            products: Float64Array = self.weight * numbers
        if np.any(np.abs(products) > self.limit):
            raise NoReading("a number is so large that a linear score may overflow")
        return products

    def scale(self, factor: float) -> LinearContribution:
        """The same with the weight times a factor."""
        return LinearContribution(self.weight * factor, self.limit * abs(factor))


@dataclass(frozen=True, slots=True, eq=False)
class ScoreSum:
    """A raw score in real arithmetic, and how far the library's own may be from it.

    ``size_bound`` is what the library's score never exceeds in size; it is needed for probabilities of several classes.
    """

    offset: float
    trees: tuple[normal_form.RegressionTree, ...] = ()
    terms: tuple[ColumnTerm, ...] = ()
    error: float = 0.0
    relative_error: float = 0.0
    size_bound: float = math.inf

    @property
    def size(self) -> float:
        """The sizes of the offset and of all trees together."""
        return abs(self.offset) + sum(map(measure_tree, self.trees))

    def _multiply(self, factor: float) -> ScoreSum:
        trees = tuple(tree.scale(factor) for tree in self.trees)
        terms = tuple(_scale_term(term, factor) for term in self.terms)
        return replace(self, offset=self.offset * factor, trees=trees, terms=terms)

    def negate(self) -> ScoreSum:
        """The score with the other sign."""
        return self._multiply(-1.0)

    def scale(self, factor: float) -> ScoreSum:
        """The score times a positive factor, which the library, too, rounds at every step."""
        error = factor * (self.error + 4 * DOUBLE_ROUNDOFF * self.size) + UNDERFLOW
        relative, reach = self.relative_error + 4 * DOUBLE_ROUNDOFF, self.size_bound * factor
        return replace(self._multiply(factor), error=error, relative_error=relative, size_bound=reach)

    def bound_by_error(self, sign: float) -> ScoreSum:
        """A score that is never below (sign 1.0) or never above (sign -1.0) the library's own, wherever the sum of its
        trees and terms is taken in double precision in any order. It has no error of its own.
        """
        share = 2 * self.relative_error + 4 * (len(self.trees) + len(self.terms) + 2) * DOUBLE_ROUNDOFF
        offset = 2 * self.error + share * self.size + UNDERFLOW
        leaning = [_shift_contribution(term.contribution, sign * share) for term in self.terms]
        terms = tuple(replace(term, contribution=add) for term, add in zip(self.terms, leaning, strict=True))
        return ScoreSum(self.offset + sign * offset, self.trees, terms, size_bound=self.size_bound + offset)

    def build_margin_above(self, threshold: float, error: float) -> SumMargin:
        """The margin by which the score is above a threshold that is known up to an error."""
        offset = self.offset - threshold
        parts = (MarginPart(self.trees, self.terms),) if self.trees or self.terms else ()
        own = error + 4 * DOUBLE_ROUNDOFF * (abs(self.offset) + abs(threshold))
        return SumMargin(offset, parts, self.error + own + self.relative_error * abs(threshold), self.relative_error)


def measure_tree(tree: normal_form.RegressionTree) -> float:
    """The largest absolute value of a tree."""
    return float(np.abs(tree.value).max())


def _scale_term(term: ColumnTerm, factor: float) -> ColumnTerm:
    add = term.contribution
    scaled = add.scale(factor) if isinstance(add, LinearContribution) else lambda values: factor * add(values)
    return ColumnTerm(term.column, scaled, term.monotone)


def _shift_contribution(add: Callable[[AnyArray], Float64Array], share: float) -> Callable[[AnyArray], Float64Array]:
    """What a term adds plus a share of its size; a product with a constant rises in floating point as it does in
    truth, so a monotone term stays monotone.
    """

    def lean(values: AnyArray) -> Float64Array:
        added = add(values)
        return added * np.where(added > 0.0, 1.0 + share, 1.0 - share)

    return lean


def subtract_scores(first: ScoreSum, second: ScoreSum) -> ScoreSum:
    """The difference of two scores that the library rounds each for itself.

    Trees that ask the same at every node become one tree, and two linear terms of a column become one, so that they
    are bounded together. Their sizes then no longer tell the library's error, so it is added here.
    """
    relative = max(first.relative_error, second.relative_error) + 2 * DOUBLE_ROUNDOFF
    error = first.error + second.error + (relative + 4 * DOUBLE_ROUNDOFF) * (abs(first.offset) + abs(second.offset))
    other = second.negate()
    trees = first.trees + other.trees
    pairs = list(zip(first.trees, other.trees, strict=False))
    if len(first.trees) == len(other.trees) and all(mine.splits is yours.splits for mine, yours in pairs):
        trees = tuple(replace(mine, value=mine.value + yours.value) for mine, yours in pairs)
        error += relative * sum(measure_tree(mine) + measure_tree(yours) for mine, yours in pairs)
    terms, stretch = _join_linear_terms(first.terms + other.terms)
    offset, relative, reach = first.offset + other.offset, relative * stretch, first.size_bound + second.size_bound
    return ScoreSum(offset, trees, terms, error=error, relative_error=relative, size_bound=reach)


def _join_linear_terms(terms: tuple[ColumnTerm, ...]) -> tuple[tuple[ColumnTerm, ...], float]:
    """The terms with the lines of a column joined, and how many times larger than a joined line its lines were at the
    most; lines that nearly cancel stay apart, for a joined one would not tell how far off the library may be.
    """
    lines: dict[int, list[LinearContribution]] = {}
    for term in terms:
        if isinstance(term.contribution, LinearContribution):
            lines.setdefault(term.column, []).append(term.contribution)
    result, stretch = [term for term in terms if not isinstance(term.contribution, LinearContribution)], 1.0
    for column, found in lines.items():
        weight, size = math.fsum(line.weight for line in found), math.fsum(abs(line.weight) for line in found)
        if size <= 1024.0 * abs(weight):
            joined = LinearContribution(weight, min(line.limit for line in found))
            result.append(ColumnTerm(column, joined, monotone=True))
            stretch = max(stretch, size / abs(weight) if weight else 1.0)
        else:
            result.extend(ColumnTerm(column, line, monotone=True) for line in found)
    return tuple(result), stretch


def decide_number(score: ScoreSum, threshold: float, noise: float = 0.0) -> SumForm:
    """Desired where a predicted number is above the threshold; ``noise`` is a relative error of the comparison."""
    return SumForm(((score.build_margin_above(threshold, noise * abs(threshold)),),))


def decide_exponential(score: ScoreSum, threshold: float, noise: float) -> SumForm:
    """Desired where exp(score) is above the threshold."""
    if threshold < 0.0:
        return normal_form.ALWAYS_DESIRED
    if not threshold * (1.0 - noise) > 1e-300:
        raise NoReading(f"a threshold of {threshold!r} on an exponential decides too closely")
    cut = math.log(threshold)
    return SumForm(((score.build_margin_above(cut, 2 * noise + 4 * DOUBLE_ROUNDOFF * (1 + abs(cut))),),))


def decide_logistic(
    score: ScoreSum, threshold: float, noise: float, slope: float = 1.0, *, first: bool = False
) -> SumForm:
    """Desired where the logistic function of slope * score is above the threshold; with ``first`` where one minus it
    is (the first of two classes). A computed probability p is off by at most ``noise`` times (1 + p).
    """
    if threshold < 0.0 or threshold >= 1.0:
        return normal_form.ALWAYS_DESIRED if threshold < 0.0 else normal_form.NEVER_DESIRED
    cut, error = normal_form.find_logit_threshold(threshold, noise)
    if first:  # 1 - p > t where p < 1 - t, that is where -score > logit(t)
        score = score.negate()
    return SumForm(((score.build_margin_above(cut / slope, error / slope),),))


def decide_largest(scores: Sequence[ScoreSum], wanted: Sequence[int], tie: float) -> SumForm:
    """Desired where the largest score is a wanted one; scores within ``tie`` of each other may be told apart or not."""

    def lead(good: int, bad: int) -> SumMargin:
        return subtract_scores(scores[good], scores[bad]).build_margin_above(0.0, tie)

    return SumForm(normal_form.compare_classes(lead, wanted, len(scores)))


def decide_softmax(scores: Sequence[ScoreSum], wanted: Sequence[int], threshold: float, noise: float) -> SumForm:
    """Desired where the wanted classes' softmax probabilities add up to more than the threshold.

    With one wanted class d the probability is 1 / (1 + sum of exp(s_u - s_d)): it is above t exactly if that sum is
    below c = 1/t - 1. The margin c - sum of exp(s_u - s_d), in units of c, is written with logistic links, which cap
    each exponential at a size M much larger than c: M logistic(x - log M) is at most exp(x), and at least
    exp(x) - c^2 / M where exp(x) is at most c. Where one exponential alone is above c both forms are negative but for
    the same amount.
    """
    others = [place for place in range(len(scores)) if place not in wanted]
    if threshold < 0.0 or threshold >= 1.0 + noise * len(scores):
        return normal_form.ALWAYS_DESIRED if threshold < 0.0 else normal_form.NEVER_DESIRED
    cut, blur = normal_form.find_logit_threshold(threshold, noise)
    if len(wanted) == len(others) == 1:
        return SumForm(((subtract_scores(scores[wanted[0]], scores[others[0]]).build_margin_above(cut, 2 * blur),),))
    if len(wanted) > 1 and len(others) > 1:
        several = "a threshold on the sum of several probabilities, against several others"
        raise NoReading(f"{several}, is not a sum of trees")
    return SumForm((_build_capped_margins(scores, wanted, others, cut, blur=blur, noise=noise),))


def _build_capped_margins(
    scores: Sequence[ScoreSum], wanted: Sequence[int], others: Sequence[int], cut: float, blur: float, noise: float
) -> tuple[SumMargin, ...]:
    """The margin in units of the level c that the sum of exponentials is held against.

    Where the scores have no known bound, their errors are put into the terms: the first margin takes every score as
    large as the library's may be, the second one as small. The second one is raised by its own error, which is larger
    than anything it can be: it is always possible, and sure exactly if the smaller scores suffice.
    """
    gaps = [subtract_scores(scores[good], scores[bad]) for good in wanted for bad in others]
    alone, cap = len(wanted) == 1, 2.0**24
    bounded = all(math.isfinite(gap.size_bound) for gap in gaps)
    # near the level an exponential changes by the level times what its score is off
    off = 2 * blur + 4 * noise + (max(_bound_score_error(gap) for gap in gaps) if bounded else 0.0)
    if not off < 1.0:
        raise NoReading("its scores are rounded too coarsely for a threshold on a probability")
    error = math.exp(off) - math.exp(-off) + 1.0 / cap + 2.0**-46 * len(gaps) * cap
    offset = 1.0 - cap * len(gaps) if alone else -1.0
    if bounded:
        return (SumMargin(offset, _build_capped_parts(gaps, cut, cap, alone), error),)
    large, small = ([gap.bound_by_error(sign) for gap in gaps] for sign in (1.0, -1.0))
    room = 4.0 * cap * len(gaps)
    return (
        SumMargin(offset, _build_capped_parts(large, cut, cap, alone), error),
        SumMargin(offset + room, _build_capped_parts(small, cut, cap, alone), room + error),
    )


def _build_capped_parts(gaps: Sequence[ScoreSum], cut: float, cap: float, alone: bool) -> tuple[MarginPart, ...]:
    parts = []
    for gap in gaps:
        # M - M logistic(-x - log M) = M logistic(x + log M) rises with x = s_good - s_bad, as links must
        shift = gap.offset - cut + math.log(cap) * (1 if alone else -1)
        parts.append(MarginPart(gap.trees, gap.terms, normal_form.LinkFunction("logistic", cap, 1.0, shift)))
    return tuple(parts)


def _bound_score_error(score: ScoreSum) -> float:
    """How far the library's score, and the difference to the largest that a softmax takes, may be off."""
    return score.error + 2 * (score.relative_error + DOUBLE_ROUNDOFF) * score.size_bound


def decide_sigmoids(
    scores: Sequence[ScoreSum], wanted: Sequence[int], threshold: float, noise: float, slope: float = 1.0
) -> SumForm:
    """Desired where the wanted classes' own logistic functions of slope * score add up to more than the threshold."""
    chosen = [scores[good] for good in wanted]
    links = [normal_form.LinkFunction("logistic", 1.0, slope, slope * score.offset) for score in chosen]
    parts = tuple(MarginPart(score.trees, score.terms, link) for score, link in zip(chosen, links, strict=True))
    # a logistic function is nowhere steeper than a quarter of its slope
    error = sum(slope / 4 * _bound_score_error(score) + 2 * noise for score in chosen) + noise * abs(threshold)
    if not math.isfinite(error):
        raise NoReading("its scores have no known bound")
    return SumForm(((SumMargin(-threshold, parts, error),),))
