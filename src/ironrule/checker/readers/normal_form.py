"""The normal form of a model as sums: when a point has the desired outcome, by trees and terms of single columns.

A point is desired exactly if

    for some alternative every margin is positive;  margin = offset + sum over its parts of link(sum of trees and terms)

A classifier of two classes has one alternative with one margin: its raw score less the threshold. One of several
classes has an alternative for every desired class, with a margin against every undesired class. A decision tree is one
tree; a linear model has a term for every column; links rise (identity, logistic, step).

Numbers here are exact in real arithmetic. ``SumMargin.error`` bounds how far the model's own floating-point arithmetic
may be from that: where a margin lies within it, only the model itself can say what it decides.

A split or a term looks at one *column that the estimator sees*. Its values come in the type that reaches the estimator
(int64, float32, float64; objects for text and categories), so that a reader casts them exactly as the library does.
Values that double precision cannot hold exactly are refused before a reading is asked, so the way to double precision
never rounds, and a further cast to single precision rounds once, as it does in the libraries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, TypeVar

import numpy as np

from ironrule.checker.arrays import AnyArray, BoolArray, Float64Array, IntpArray
from ironrule.checker.space.table import is_missing

if TYPE_CHECKING:
    from ironrule.checker.preprocessing import EstimatorColumns
    from ironrule.checker.scope import MarginBounds

Margin = TypeVar("Margin")
Direction = Literal["above", "below"]
MAX_NEGATED_ALTERNATIVES = 256
DOUBLE_ROUNDOFF = 2.0**-53
SINGLE_ROUNDOFF = 2.0**-24


class NoReading(Exception):  # noqa: N818  # an answer about a model, not a failure of the checker
    """Why there is no second reading of a model; the message is for the user."""


class Reading(Protocol):
    """A model in one of the normal forms, over the columns that the estimator sees; messages name its ``kind``."""

    @property
    def kind(self) -> str: ...

    def prepare_bounds(self, columns: EstimatorColumns, sizes: Sequence[int]) -> MarginBounds:
        """What bounds its margins, loaded when it is needed; raises NoReading where it cannot answer for a value."""

    def negate(self) -> Reading:
        """The reading of the opposite decision; raises NoReading where it has too many alternatives."""


class Split(Hashable, Protocol):
    """A test of one column at a node of a tree. Equal splits must be equal as Python values.

    ``column`` is the column's position among those that the estimator sees. ``turns_once`` says that its answer changes
    at one number at the most as numbers rise, missing aside.
    """

    @property
    def column(self) -> int: ...
    @property
    def turns_once(self) -> bool: ...

    def goes_left(self, values: AnyArray) -> BoolArray:
        """Which of these values of the column go left; raises NoReading for values that it cannot answer for."""


@dataclass(frozen=True, slots=True, eq=False)
class RegressionTree:
    """Node i asks ``splits[i]`` and goes to ``left[i]`` or ``right[i]``; a leaf has no split and ``value[i]``.

    Node 0 is the root and children come after their parents; ``left`` and ``right`` are -1 at a leaf.
    """

    splits: Sequence[Split | None]
    left: IntpArray
    right: IntpArray
    value: Float64Array

    def scale(self, factor: float) -> RegressionTree:
        """The same tree with every value times a factor."""
        return self if factor == 1.0 else RegressionTree(self.splits, self.left, self.right, factor * self.value)


@dataclass(frozen=True, slots=True, eq=False)
class ColumnTerm:
    """What one column adds by itself; ``contribution`` gives it for values of the column, or raises NoReading.

    ``monotone``: between two numbers it adds no less than the smaller and no more than the larger of what they add.
    """

    column: int
    contribution: Callable[[AnyArray], Float64Array]
    monotone: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class OppositeContribution:
    """A contribution with the other sign."""

    contribution: Callable[[AnyArray], Float64Array]

    def __call__(self, values: AnyArray) -> Float64Array:
        return np.asarray(-1.0 * self.contribution(values))


@dataclass(frozen=True, slots=True)
class LinkFunction:
    """A rising function: ``identity``; ``logistic``: scale / (1 + exp(-(slope s + shift))); ``step``: scale where
    s > shift, else 0. Scale and slope are not negative.
    """

    kind: Literal["identity", "logistic", "step"] = "identity"
    scale: float = 1.0
    slope: float = 1.0
    shift: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class MarginPart:
    """Trees and terms whose sum goes through one link."""

    trees: tuple[RegressionTree, ...] = ()
    terms: tuple[ColumnTerm, ...] = ()
    link: LinkFunction = LinkFunction()

    def negate(self) -> tuple[MarginPart, float]:
        """A part, and a constant to add to it, that together are this part with the other sign."""
        terms = tuple(
            ColumnTerm(term.column, OppositeContribution(term.contribution), term.monotone) for term in self.terms
        )
        link = self.link
        if link.kind == "step":  # not s > a, or -s >= -a
            link = replace(link, shift=math.nextafter(-link.shift, -math.inf))
        elif link.kind == "logistic":  # -f(z) = f(-z) - 1
            link = replace(link, shift=-link.shift)
        constant = 0.0 if link.kind == "identity" else -link.scale
        return MarginPart(tuple(tree.scale(-1.0) for tree in self.trees), terms, link), constant


@dataclass(frozen=True, slots=True, eq=False)
class SumMargin:
    """A sum that must be positive. The model's own arithmetic is off by at most ``error`` plus ``relative_error`` times
    the sum of the sizes of the offset and of the largest absolute value of every tree and term.
    """

    offset: float
    parts: tuple[MarginPart, ...] = ()
    error: float = 0.0
    relative_error: float = 0.0

    def negate(self) -> SumMargin:
        """The margin with the other sign; the model's arithmetic is as far from it."""
        parts = [part.negate() for part in self.parts]
        constants = [constant for _, constant in parts if constant]
        offset = math.fsum([-self.offset, *constants])
        # the offset's own share of the relative error, and the rounding of the offset; whole votes have neither
        error = self.error + self.relative_error * max(abs(self.offset) - abs(offset), 0.0)
        error += 2 * DOUBLE_ROUNDOFF * abs(offset) if error and constants else 0.0
        return SumMargin(offset, tuple(part for part, _ in parts), error, self.relative_error)


@dataclass(frozen=True, slots=True, eq=False)
class SumForm:
    """A model as sums of trees and terms: desired where, for some alternative, all margins are positive."""

    alternatives: tuple[tuple[SumMargin, ...], ...]
    kind: ClassVar[str] = "sum of trees"

    def prepare_bounds(self, columns: EstimatorColumns, sizes: Sequence[int]) -> MarginBounds:
        """Upper bounds by the best leaves."""
        from ironrule.checker.bounds.sum_bounds import prepare_sum_bounds

        return prepare_sum_bounds(self, columns, sizes)

    def negate(self) -> SumForm:
        """The form of the opposite decision; raises NoReading where it has too many alternatives."""
        return SumForm(negate_alternatives(self.alternatives, SumMargin.negate))


ALWAYS_DESIRED = SumForm(((SumMargin(1.0),),))
NEVER_DESIRED = SumForm(((SumMargin(-1.0),),))


@dataclass(frozen=True, slots=True)
class EstimatorTarget:
    """What is asked of an estimator.

    For a classifier ``desired_classes`` has their positions among its ``classes_``, some but not all. Without a
    threshold a row is desired where ``predict`` gives one of these classes; with one, where the sum of their
    ``predict_proba`` columns is above it. For a regression ``desired_classes`` is empty, and a row is desired where
    ``predict`` is above the threshold. With the direction "below" it is desired where the sum, or the prediction, is
    below the threshold; equal to it is neither above nor below.
    """

    desired_classes: tuple[int, ...]
    threshold: float | None
    direction: Direction = "above"


def compare_classes(
    build: Callable[[int, int], Margin], desired: Sequence[int], classes: int
) -> tuple[tuple[Margin, ...], ...]:
    """An alternative for every desired class, with the margin ``build(good, bad)`` against every other class."""
    others = [place for place in range(classes) if place not in desired]
    return tuple(tuple(build(good, bad) for bad in others) for good in desired)


def negate_alternatives(
    alternatives: Sequence[Sequence[Margin]], negate: Callable[[Margin], Margin]
) -> tuple[tuple[Margin, ...], ...]:
    """When no alternative has all its margins positive: one margin of each must be negative, in every possible choice.

    >>> negate_alternatives([[1, 2], [3]], lambda margin: -margin)
    ((-1, -3), (-2, -3))
    """
    choices: list[tuple[Margin, ...]] = [()]
    for margins in alternatives:  # every choice so far with each of the next alternative's margins
        choices = [(*chosen, negate(margin)) for chosen in choices for margin in margins]
        if len(choices) > MAX_NEGATED_ALTERNATIVES:
            raise NoReading("the opposite of its decision has too many alternatives")
    return tuple(choices)


def to_float64(values: AnyArray) -> Float64Array:
    """The values in double precision, with NaN for missing ones; raises NoReading for what is no number.

    >>> to_float64(np.array([True, 2, None], dtype=object))
    array([ 1.,  2., nan])
    """
    kind = values.dtype.kind
    if kind in "biu" or (kind == "f" and values.dtype.itemsize <= 8):
        return values.astype(np.float64)
    if kind != "O":
        raise NoReading(f"a column must hold numbers only, got values of the type {values.dtype}")
    found = [math.nan if is_missing(value) else value for value in values.tolist()]
    wrong = next((value for value in found if not isinstance(value, (np.bool_, Real))), None)
    if wrong is not None:
        raise NoReading(f"a column must hold numbers only, got {wrong!r}")
    return np.array(list(map(float, found)), dtype=np.float64)


def round_to_float32(values: AnyArray) -> Float64Array:
    """The values rounded to single precision, each held in double precision; too large ones become infinite.

    Every value is a float64 exactly, so that going through float64 rounds but once.
    """
    with np.errstate(over="ignore"):
        return to_float64(values).astype(np.float32).astype(np.float64)


def find_logit_threshold(threshold: float, noise: float) -> tuple[float, float]:
    """Where a probability passes a threshold, in log odds, and how far off that may be if the probability is off by
    ``noise * (1 + threshold)``; raises NoReading where that cannot be told.
    """
    blur = 2.0 * noise * (1.0 + threshold)
    if not 0.0 < threshold - blur < threshold + blur < 1.0:
        raise NoReading(f"a threshold of {threshold!r} on a probability is too near 0 or 1")
    low, cut, high = (math.log(p) - math.log1p(-p) for p in (threshold - blur, threshold, threshold + blur))
    sizes = 1.0 + abs(math.log(threshold)) + abs(math.log1p(-threshold))
    return cut, max(high - cut, cut - low) + 8 * DOUBLE_ROUNDOFF * sizes
