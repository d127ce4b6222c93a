"""What the models of a PMML file answer, and what is decided by it.

An answer is a number, a class per leaf of a tree, scores of classes, or one of these per case. Numbers are sums of
trees and terms, in real arithmetic, with a bound on how far off double precision may be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from ironrule.checker.arrays import AnyArray, Float64Array
from ironrule.checker.readers import decisions, normal_form
from ironrule.checker.readers.decisions import UNDERFLOW, ScoreSum
from ironrule.checker.readers.normal_form import (
    DOUBLE_ROUNDOFF,
    ColumnTerm,
    EstimatorTarget,
    MarginPart,
    NoReading,
    RegressionTree,
    SumForm,
    SumMargin,
)
from ironrule.checker.readers.pmml import regressions
from ironrule.checker.readers.pmml.fields import PmmlField
from ironrule.checker.readers.pmml.regressions import LINKS

LARGEST_NUMBER = 1e290
GRID = 2.0**-20  # sums of multiples of it are exact while they are small
LARGEST_ON_GRID = 2.0**30


@dataclass(frozen=True, slots=True)
class PowerContribution:
    """A weight times a power of a field's number; refused where it is missing, or too large."""

    field: PmmlField
    weight: float
    exponent: int

    def __call__(self, values: AnyArray) -> Float64Array:
        """The products; with the exponent 1 they rise or fall with the numbers."""
        numbers = self.field.compute(values)
        with np.errstate(over="ignore"):
            products: Float64Array = self.weight * numbers**self.exponent
        if not (np.abs(products) < LARGEST_NUMBER).all():
            raise NoReading("a regression has no value where a number is missing, infinite or too large")
        return products

    def scale(self, factor: float) -> PowerContribution:
        """The same with the weight times a factor."""
        return replace(self, weight=self.weight * factor)


@dataclass(frozen=True, slots=True, eq=False)
class Total:
    """A number that a model answers, in real arithmetic: an offset, trees and terms, and how far off the model may be:
    by ``error`` plus ``relative_error`` times the sizes of the offset, trees and terms. ``plain``: only added up.
    """

    offset: float = 0.0
    trees: tuple[RegressionTree, ...] = ()
    terms: tuple[ColumnTerm, ...] = ()
    error: float = 0.0
    relative_error: float = 0.0
    plain: bool = True

    def to_score(self) -> ScoreSum:
        """The same for decisions."""
        size = abs(self.offset) + sum(map(decisions.measure_tree, self.trees))
        reach = 1.001 * ((1.0 + self.relative_error) * size + self.error) + UNDERFLOW
        if not reach < LARGEST_NUMBER:
            raise NoReading("its scores may be too large")
        bound = math.inf if self.terms else reach
        return ScoreSum(
            self.offset, self.trees, self.terms, error=self.error, relative_error=self.relative_error, size_bound=bound
        )

    def is_on_grid(self) -> bool:
        """Whether every way to add it up in double precision is exact."""
        leaves = np.concatenate([[self.offset], *(tree.value for tree in self.trees)])
        size = abs(self.offset) + sum(map(decisions.measure_tree, self.trees))
        return self.plain and not self.terms and size < LARGEST_ON_GRID and not np.any(leaves % GRID)


def add_up(parts: Sequence[tuple[float, Total]], constant: float = 0.0) -> Total:
    """The sum of a constant and of totals with factors, which the model may multiply, or divide by what the factors
    have in common, and add in any order: less than 2 n + 8 roundings of what is no larger than the sizes together.
    """
    count = len(parts) + sum(len(one.trees) + len(one.terms) for _, one in parts)
    roundings = (2 * count + 8) * 1.01 * DOUBLE_ROUNDOFF
    relative = roundings + 1.01 * max((one.relative_error for _, one in parts), default=0.0)
    offsets = [constant, *(factor * one.offset for factor, one in parts)]
    error = 1.01 * sum(abs(factor) * one.error for factor, one in parts) + relative * sum(map(abs, offsets)) + UNDERFLOW
    trees = tuple(tree.scale(factor) for factor, one in parts for tree in one.trees)
    terms = tuple(_scale_term(term, factor) for factor, one in parts for term in one.terms)
    plain = all(one.plain and factor == 1.0 for factor, one in parts)
    return Total(math.fsum(offsets), trees, terms, error=error, relative_error=relative, plain=plain)


def _scale_term(term: ColumnTerm, factor: float) -> ColumnTerm:
    contribution: Any = term.contribution
    return term if factor == 1.0 else replace(term, contribution=contribution.scale(factor))


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """A regression: a total, through a link: ``none``, ``exp``, ``logit`` or one of LINKS."""

    total: Total
    link: str = "none"


@dataclass(frozen=True, slots=True, eq=False)
class LeafClasses:
    """A classification by one tree: per leaf the class, and the classes' shares where the file has them."""

    tree: RegressionTree
    classes: Sequence[int]
    shares: Sequence[Sequence[Fraction]] | None

    def spread(self, values: Sequence[float]) -> RegressionTree:
        """The tree with a value per leaf, in the order of the lists here."""
        return put_values(self.tree, dict(enumerate(values)))


@dataclass(frozen=True, slots=True, eq=False)
class ClassTotals:
    """A classification by the largest of several scores. ``kind``: shares are the probabilities, votes are whole ones
    in ``count`` members, softmax, logit and LINKS (whose one score is of the class ``first``) give them.
    """

    kind: str
    scores: Sequence[Total]
    first: int = 0
    count: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Cases:
    """Several answers, each with a tree that is 1.0 where it counts and else -1.0."""

    answers: Sequence[tuple[RegressionTree, Answer]]


Answer = Number | LeafClasses | ClassTotals | Cases


def put_values(tree: RegressionTree, values: Mapping[int, float]) -> RegressionTree:
    """The tree of answers with numbers in their place."""
    leaves = zip(tree.left.tolist(), tree.value.tolist(), strict=True)
    return replace(tree, value=np.array([values.get(int(place), 0.0) if left < 0 else 0.0 for left, place in leaves]))


def decide_answer(answer: Answer, target: EstimatorTarget) -> SumForm:
    """What is decided by an answer; NoReading if that cannot be said."""
    if isinstance(answer, Cases):
        alternatives = [
            (SumMargin(0.0, (MarginPart((tree,)),)), *margins)
            for tree, one in answer.answers
            for margins in decide_answer(one, target).alternatives
        ]
        return SumForm(tuple(alternatives))
    if isinstance(answer, Number):
        return _decide_number(answer, target)
    return _decide_leaves(answer, target) if isinstance(answer, LeafClasses) else _decide_scores(answer, target)


def _decide_number(answer: Number, target: EstimatorTarget) -> SumForm:
    threshold = target.threshold
    if threshold is None:
        raise NoReading("a regression is read with a threshold")
    total = answer.total
    if answer.link == "none":
        if not (total.is_on_grid() and abs(threshold) < LARGEST_ON_GRID):
            return decisions.decide_number(total.to_score(), threshold)
        level = math.floor(threshold / GRID) * GRID  # on the grid: above the threshold is above this by one step
        return SumForm(((SumMargin(total.offset - level - GRID / 2, (MarginPart(total.trees),)),),))
    if answer.link in LINKS:
        level, blur = regressions.find_link_level(answer.link, threshold)
        return SumForm(((total.to_score().build_margin_above(level, blur),),))
    if answer.link == "exp":
        return decisions.decide_exponential(total.to_score(), threshold, 16 * DOUBLE_ROUNDOFF)
    return decisions.decide_logistic(total.to_score(), threshold, 16 * DOUBLE_ROUNDOFF)


def _decide_leaves(answer: LeafClasses, target: EstimatorTarget) -> SumForm:
    wanted = target.desired_classes
    if target.threshold is None:
        tree = answer.spread([1.0 if one in wanted else -1.0 for one in answer.classes])
        return SumForm(((SumMargin(0.0, (MarginPart((tree,)),)),),))
    if answer.shares is None:
        raise NoReading("a tree gives no probabilities")
    chances = answer.spread([float(sum(one[place] for place in wanted)) for one in answer.shares])
    rounding = (len(answer.shares[0]) + 8) * DOUBLE_ROUNDOFF
    return decisions.decide_number(ScoreSum(0.0, (chances,), error=rounding), target.threshold)


def _decide_scores(answer: ClassTotals, target: EstimatorTarget) -> SumForm:
    wanted, threshold = target.desired_classes, target.threshold
    noise = (4 * len(answer.scores) + 64) * DOUBLE_ROUNDOFF  # of a share, an exponential or a quotient
    if answer.kind in ("logit", *LINKS):
        score, is_first = answer.scores[0].to_score(), wanted == (answer.first,)
        if answer.kind in LINKS:
            wish = 0.5 if threshold is None else threshold
            level, blur = regressions.find_link_level(answer.kind, wish if is_first else 1.0 - wish)
            chosen = score if is_first else score.negate()
            return SumForm(((chosen.build_margin_above(level if is_first else -level, blur),),))
        if threshold is not None:
            return decisions.decide_logistic(score, threshold, noise, first=not is_first)
        score = score if is_first else score.negate()
        return SumForm(((score.build_margin_above(0.0, noise),),))
    if threshold is None and answer.kind == "votes":
        return _decide_votes(answer.scores, wanted)
    scores = [one.to_score() for one in answer.scores]
    if threshold is None:
        return decisions.decide_largest(scores, wanted, noise)
    if answer.kind == "softmax":
        return decisions.decide_softmax(scores, wanted, threshold, (len(scores) + 2) * noise)
    factor = 1.0 / answer.count if answer.kind == "votes" else 1.0
    total = add_up([(factor, answer.scores[place]) for place in wanted])
    return decisions.decide_number(replace(total, error=total.error + noise).to_score(), threshold)


def _decide_votes(scores: Sequence[Total], wanted: Sequence[int]) -> SumForm:
    """Whole votes are exact; of equally many the first class wins."""

    def lead(good: int, bad: int) -> SumMargin:
        pairs = zip(scores[good].trees, scores[bad].trees, strict=True)
        trees = tuple(replace(mine, value=mine.value - yours.value) for mine, yours in pairs)
        return SumMargin(0.5 if good < bad else -0.5, (MarginPart(trees),))

    return SumForm(normal_form.compare_classes(lead, wanted, len(scores)))
