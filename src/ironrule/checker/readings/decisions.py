"""From scores to decisions: the margins that say when a class is predicted, or a probability is above a threshold.

A library computes a raw score for every class (or one for two classes, or one number for a regression) and decides by
a rising function of the scores. That function is undone here and the threshold turned instead. Its rounding is carried
along: a probability that is off by a relative error d near a threshold t moves the place where it passes t by the
difference of the inverse function at t (1 - d) and t (1 + d).

A raw score S is offset + trees + terms in real arithmetic. The library's own S is within ``error + relative * sizes``
of it, where the sizes are the largest absolute values of the offset and of every tree and term.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ironrule.checker.readings.normal_form import (
    ALWAYS,
    NEVER,
    Link,
    Margin,
    Part,
    SumReading,
    Term,
    Tree,
    Unreadable,
)

DOUBLE = 2.0**-53
SINGLE = 2.0**-24


@dataclass(frozen=True, slots=True, eq=False)
class Score:
    """A raw score in real arithmetic, and how far the library's own may be from it.

    ``reach`` is what the library's score never exceeds in size; it is needed for probabilities of several classes.
    """

    offset: float
    trees: tuple[Tree, ...] = ()
    terms: tuple[Term, ...] = ()
    error: float = 0.0
    relative: float = 0.0
    reach: float = math.inf

    def negate(self) -> Score:
        """The score with the other sign."""
        trees = tuple(tree.scale(-1.0) for tree in self.trees)
        terms = tuple(Term(term.column, _negated(term.add), term.monotone) for term in self.terms)
        return Score(-self.offset, trees, terms, self.error, self.relative, self.reach)

    def margin_above(self, cut: float, error: float) -> Margin:
        """The margin by which the score is above a cut that is known up to an error."""
        offset = self.offset - cut
        parts = (Part(self.trees, self.terms),) if self.trees or self.terms else ()
        own = error + 4 * DOUBLE * (abs(self.offset) + abs(cut))
        return Margin(offset, parts, self.error + own + self.relative * abs(cut), self.relative)


def _negated(add: Callable) -> Callable:  # type: ignore[type-arg]
    return lambda values: -add(values)


def subtract(first: Score, second: Score) -> Score:
    """The difference of two scores that the library rounds each for itself."""
    other = second.negate()
    return Score(
        first.offset + other.offset,
        first.trees + other.trees,
        first.terms + other.terms,
        first.error
        + second.error
        + 4 * DOUBLE * (abs(first.offset) + abs(second.offset))
        + (first.relative + second.relative) * (abs(first.offset) + abs(second.offset)),
        max(first.relative, second.relative),
        first.reach + second.reach,
    )


def number_above(score: Score, threshold: float, noise: float = 0.0) -> SumReading:
    """Desired where a predicted number is above the threshold; ``noise`` is a relative error of the comparison."""
    return SumReading(((score.margin_above(threshold, noise * abs(threshold)),),))


def exponential_above(score: Score, threshold: float, noise: float) -> SumReading:
    """Desired where exp(score) is above the threshold."""
    if threshold < 0.0:
        return ALWAYS
    if not threshold * (1.0 - noise) > 1e-300:
        raise Unreadable(f"a threshold of {threshold!r} on an exponential decides too closely")
    cut = math.log(threshold)
    return SumReading(((score.margin_above(cut, 2 * noise + 4 * DOUBLE * (1 + abs(cut))),),))


def logistic_above(
    score: Score, threshold: float, noise: float, slope: float = 1.0, *, first: bool = False
) -> SumReading:
    """Desired where the logistic function of slope * score is above the threshold; with ``first`` where one minus it
    is (the first of two classes). A computed probability p is off by at most ``noise`` times (1 + p).
    """
    if threshold < 0.0 or threshold >= 1.0:
        return ALWAYS if threshold < 0.0 else NEVER
    cut, error = logit_cut(threshold, noise)
    if first:  # 1 - p > t where p < 1 - t, that is where -score > logit(t)
        score = score.negate()
    return SumReading(((score.margin_above(cut / slope, error / slope),),))


def logit_cut(threshold: float, noise: float) -> tuple[float, float]:
    """Where a probability passes a threshold, in log odds, and how far off that may be if the probability is off by
    ``noise * (1 + threshold)``; raises Unreadable where that cannot be told.
    """
    blur = 2.0 * noise * (1.0 + threshold)
    if not 0.0 < threshold - blur < threshold + blur < 1.0:
        raise Unreadable(f"a threshold of {threshold!r} on a probability is too near 0 or 1")
    low, cut, high = (math.log(p) - math.log1p(-p) for p in (threshold - blur, threshold, threshold + blur))
    return cut, max(high - cut, cut - low) + 8 * DOUBLE * (1.0 + abs(math.log(threshold)) + abs(math.log1p(-threshold)))


def largest(scores: Sequence[Score], wanted: Sequence[int], tie: float) -> SumReading:
    """Desired where the largest score is a wanted one; scores within ``tie`` of each other may be told apart or not."""
    others = [place for place in range(len(scores)) if place not in wanted]
    return SumReading(
        tuple(tuple(subtract(scores[good], scores[bad]).margin_above(0.0, tie) for bad in others) for good in wanted)
    )


def softmax_above(scores: Sequence[Score], wanted: Sequence[int], threshold: float, noise: float) -> SumReading:
    """Desired where the wanted classes' softmax probabilities add up to more than the threshold.

    With one wanted class d the probability is 1 / (1 + sum of exp(s_u - s_d)): it is above t exactly if that sum is
    below c = 1/t - 1. The margin c - sum of exp(s_u - s_d) is written with logistic links, which cap each exponential
    at a size M much larger than c: M logistic(x - log M) is at most exp(x), and at least exp(x) - c^2 / M where exp(x)
    is at most c. Where one exponential alone is above c both forms are negative but for the same amount.
    """
    others = [place for place in range(len(scores)) if place not in wanted]
    if threshold < 0.0 or threshold >= 1.0 + noise * len(scores):
        return ALWAYS if threshold < 0.0 else NEVER
    cut, blur = logit_cut(threshold, noise)
    if len(wanted) == len(others) == 1:
        return SumReading(((subtract(scores[wanted[0]], scores[others[0]]).margin_above(cut, 2 * blur),),))
    if len(wanted) > 1 and len(others) > 1:
        raise Unreadable(
            "a threshold on the sum of several probabilities, against several others, is not a sum of trees"
        )
    return SumReading(((_capped(scores, wanted, others, cut, blur, noise),),))


def _capped(
    scores: Sequence[Score], wanted: Sequence[int], others: Sequence[int], cut: float, blur: float, noise: float
) -> Margin:
    alone = len(wanted) == 1
    level = math.exp(-cut if alone else cut)  # of the sum of exponentials: below it, or above it
    cap = level * 2.0**24
    pairs = [(good, bad) for good in wanted for bad in others]
    if not all(math.isfinite(scores[good].reach + scores[bad].reach) for good, bad in pairs):
        raise Unreadable("its scores have no known bound")
    off = max(_spread(scores[good]) + _spread(scores[bad]) for good, bad in pairs)
    stretch = math.exp(off + 2 * blur + 4 * noise)
    error = level * (stretch - 1.0 / stretch) + level * level / cap + 2.0**-46 * len(pairs) * cap
    parts = []
    for good, bad in pairs:
        gap = subtract(scores[good], scores[bad])
        # M - M logistic(-x - log M) = M logistic(x + log M) rises with x = s_good - s_bad, as links must
        shift = gap.offset + math.log(cap) * (1 if alone else -1)
        parts.append(Part(gap.trees, gap.terms, Link("logistic", cap, 1.0, shift)))
    return Margin(level - cap * len(pairs) if alone else -level, tuple(parts), error)


def _spread(score: Score) -> float:
    """How far the library's score, and the difference to the largest that a softmax takes, may be off."""
    return score.error + 2 * (score.relative + DOUBLE) * score.reach


def sigmoids_above(
    scores: Sequence[Score], wanted: Sequence[int], threshold: float, noise: float, slope: float = 1.0
) -> SumReading:
    """Desired where the wanted classes' own logistic functions of slope * score add up to more than the threshold."""
    parts = tuple(
        Part(scores[good].trees, scores[good].terms, Link("logistic", 1.0, slope, slope * scores[good].offset))
        for good in wanted
    )
    # a logistic function is nowhere steeper than a quarter of its slope
    error = sum(slope / 4 * _spread(scores[good]) + 2 * noise for good in wanted) + noise * abs(threshold)
    if not math.isfinite(error):
        raise Unreadable("its scores have no known bound")
    return SumReading(((Margin(-threshold, parts, error),),))
