"""Numbers that PMML models answer, as sums of trees and terms, and the margins by which they pass a threshold.

The file is evaluated in double precision in a known order; n numbers whose sizes add up to S err by less than
(n + 1) u S. Whole points, and fine fractions of them, add up exactly, and so do whole votes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ironrule.arrays import AnyArray, Float64Array
from ironrule.model.normal_form.network import DOUBLE_ROUNDOFF
from ironrule.model.normal_form.tree_sum import LinkedGroup, Margin, Term, Tree, TreeSum
from ironrule.model.pmml.links import LINKS, find_crossing
from ironrule.model.protocol import Unreadable
from ironrule.model.readers.boosting import BoostedScore, build_constant_sum
from ironrule.model.readers.file_formats.pmml_conditions import PredicateCompiler
from ironrule.model.readers.sklearn_additive import ScaledShape
from ironrule.model.readers.tree_scores import (
    GRID,
    LINK_ERROR,
    MAX_GRID_SUM,
    UNDERFLOW_BOUND,
    find_log_odds,
    is_on_grid,
)


@dataclass(frozen=True, slots=True)
class ScoreForm:
    """A number as a sum: its trees and terms, and how many numbers are added.

    ``exact``: all numbers are multiples of GRID and small enough to add up without rounding. ``cancelled``: how much
    larger the numbers that were added to the offset are than the offset.
    """

    offset: float = 0.0
    trees: tuple[Tree, ...] = ()
    terms: tuple[Term, ...] = ()
    count: int = 1
    exact: bool = True
    cancelled: float = 0.0

    @property
    def offset_size(self) -> float:
        """The sizes of all numbers that make up the offset."""
        return abs(self.offset) + self.cancelled

    @property
    def size(self) -> float:
        """The sizes of the offset and of all trees."""
        return self.offset_size + sum(float(np.abs(tree.value).max()) for tree in self.trees)

    def add(self, other: ScoreForm) -> ScoreForm:
        """The sum of both."""
        exact = self.exact and other.exact and self.size + other.size <= MAX_GRID_SUM
        offset = self.offset + other.offset
        return ScoreForm(
            offset,
            self.trees + other.trees,
            self.terms + other.terms,
            count=self.count + other.count,
            exact=exact,
            cancelled=max(self.offset_size + other.offset_size - abs(offset), 0.0),
        )

    def scale(self, factor: float) -> ScoreForm:
        """The number times a factor."""
        if factor == 1.0:
            return self
        trees = tuple(replace(tree, value=factor * tree.value) for tree in self.trees)
        terms = tuple(Term(term.column, _scale_shape(term.contribution, factor)) for term in self.terms)
        whole = float(factor).is_integer() and abs(factor) * self.size <= MAX_GRID_SUM
        return ScoreForm(
            factor * self.offset,
            trees,
            terms,
            count=self.count + 2,
            exact=self.exact and whole,
            cancelled=abs(factor) * self.cancelled,
        )

    def build_margin(self, cut: float = 0.0, error: float = 0.0, wins_ties: bool = False) -> Margin:
        """The margin above a number that is known up to an error; exact numbers pass it in a tie, too, if they win."""
        if self.exact and not error and is_exact(cut):
            return Margin(self.offset - cut + (GRID / 2 if wins_ties else -GRID / 2), _as_groups(self))
        relative = 8 * (self.count + 4) * DOUBLE_ROUNDOFF
        own = error + relative * (self.offset_size + abs(cut)) + UNDERFLOW_BOUND
        return Margin(self.offset - cut, _as_groups(self), own, relative)


def _as_groups(score: ScoreForm) -> tuple[LinkedGroup, ...]:
    return (LinkedGroup(score.trees, terms=score.terms),) if score.trees or score.terms else ()


def _scale_shape(contribution: Any, factor: float) -> ScaledShape:
    assert isinstance(contribution, ScaledShape)
    return ScaledShape(factor * contribution.factor, contribution.shape, contribution.limit)


MAX_TERM_SIZE = 1e200


@dataclass(frozen=True, slots=True)
class PowerShape:
    """A whole power of the value."""

    exponent: int

    def __call__(self, values: AnyArray) -> Float64Array:
        with np.errstate(over="ignore"):
            return np.asarray(values.astype(np.float64) ** self.exponent)


def build_score(compiler: PredicateCompiler) -> ScoreForm:
    """The number that a compiled tree gives."""
    tree = compiler.builder.build()
    value = np.where(tree.left < 0, tree.value, 0.0)
    return ScoreForm(
        0.0, (replace(tree, value=value),), exact=is_on_grid(value) and float(np.abs(value).max()) <= MAX_GRID_SUM
    )


def is_exact(number: float) -> bool:
    """Whether a number adds up without rounding."""
    return is_on_grid(np.array([number])) and abs(number) <= MAX_GRID_SUM


def build_lead(first: ScoreForm, second: ScoreForm, wins_ties: bool) -> Margin:
    """The margin of one class over another; the first in order wins a tie."""
    return first.add(second.scale(-1.0)).build_margin(wins_ties=wins_ties)


def read_log_odds(score: ScoreForm, threshold: float) -> TreeSum:
    """Desired where the logistic function of a number is above a threshold."""
    limit, error = find_log_odds(float(threshold), 1.0)
    if math.isinf(limit):
        return build_constant_sum(limit < 0)
    return TreeSum(((score.build_margin(limit, error),),))


def to_boosted(score: ScoreForm) -> BoostedScore:
    """The number as boosted trees have it."""
    error = 8 * (score.count + 4) * DOUBLE_ROUNDOFF * score.size + UNDERFLOW_BOUND
    return BoostedScore(score.offset, score.trees, error, score.size + error)


def read_link(score: ScoreForm, link: str, threshold: float, complement: bool = False) -> TreeSum:
    """Desired where a link's answer for a number is above a threshold; with ``complement``, where 1 less it is."""
    if link == "none":
        return TreeSum(((score.build_margin(threshold),),))
    if link == "logit":
        return read_log_odds(score.scale(-1.0) if complement else score, threshold)
    if link == "exp":
        if threshold <= 0:
            return build_constant_sum(threshold < 0) if threshold < 0 else _refuse_threshold(threshold)
        cut = math.log(threshold)
        return TreeSum(((score.build_margin(cut, LINK_ERROR * (4 + abs(cut))),),))
    crossing = find_crossing(link, 1.0 - threshold if complement else threshold)
    if crossing is None:
        return _refuse_threshold(threshold)
    return read_crossing(score, link, crossing, above=not complement)


def read_crossing(score: ScoreForm, link: str, crossing: tuple[float, float], above: bool) -> TreeSum:
    """Desired where a link's answer is above the place of a crossing, or below it."""
    cut, error = crossing
    if math.isinf(cut):
        return build_constant_sum((cut < 0) == above)
    sign = 1.0 if above else -1.0
    turned = -sign if LINKS[link].falls else sign
    return TreeSum(((score.scale(turned).build_margin(sign * cut, error),),))


def _refuse_threshold(threshold: float) -> TreeSum:
    raise Unreadable(f"a threshold of {threshold!r} is too near the end of what its link answers")
