"""What the checker reads out of a model: when a point has the desired outcome, as sums of trees and of single columns.

A point is desired exactly if

    for some alternative every margin is positive;  margin = offset + sum over its parts of link(sum of trees and terms)

A classifier of two classes has one alternative with one margin: its raw score less the threshold. One of several
classes has an alternative for every desired class, with a margin against every undesired class. A decision tree is one
tree; a linear model has a term for every column; links rise (identity, logistic, step).

Numbers here are exact in real arithmetic. ``Margin.error`` bounds how far the model's own floating-point arithmetic may
be from that: where a margin lies within it, only the model itself can say what it decides.

A split or a term looks at one *column that the estimator sees*. Its values come in the type that reaches the estimator
(int64, float32, float64; objects for text and categories), so that a reading casts them exactly as the library does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]


class Unreadable(Exception):  # noqa: N818  # an answer about a model, not a failure of the checker
    """Why there is no second reading of a model; the message is for the user."""


class Split(Hashable, Protocol):
    """A test of one column at a node of a tree. Equal splits must be equal as Python values.

    ``turns_once`` says that its answer changes at one number at the most as numbers rise, missing aside.
    """

    @property
    def column(self) -> int:
        """The column's position among those that the estimator sees."""
        ...

    @property
    def turns_once(self) -> bool:
        """Whether its answer changes at one number at the most."""
        ...

    def goes_left(self, values: Values) -> Mask:
        """Which of these values of the column go left; raises Unreadable for values that it cannot answer for."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """Node i asks ``splits[i]`` and goes to ``left[i]`` or ``right[i]``; a leaf has no split and ``value[i]``.

    Node 0 is the root and children come after their parents; ``left`` and ``right`` are -1 at a leaf.
    """

    splits: Sequence[Split | None]
    left: Integers
    right: Integers
    value: Floats

    def scale(self, factor: float) -> Tree:
        """The same tree with every value times a factor."""
        return self if factor == 1.0 else Tree(self.splits, self.left, self.right, factor * self.value)


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """What one column adds by itself; ``add`` gives it for values of the column, or raises Unreadable.

    ``monotone``: between two numbers it adds no less than the smaller and no more than the larger of what they add.
    """

    column: int
    add: Callable[[Values], Floats]
    monotone: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """A rising function: ``identity``; ``logistic``: scale / (1 + exp(-(slope s + shift))); ``step``: scale where
    s > shift, else 0. Scale and slope are not negative.
    """

    kind: Literal["identity", "logistic", "step"] = "identity"
    scale: float = 1.0
    slope: float = 1.0
    shift: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Trees and terms whose sum goes through one link."""

    trees: tuple[Tree, ...] = ()
    terms: tuple[Term, ...] = ()
    link: Link = Link()


@dataclass(frozen=True, slots=True, eq=False)
class Margin:
    """A sum that must be positive. The model's own arithmetic is off by at most ``error`` plus ``relative`` times the
    sum of the sizes of the offset and of the largest absolute value of every tree and term.
    """

    offset: float
    parts: tuple[Part, ...] = ()
    error: float = 0.0
    relative: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class SumReading:
    """A model as sums of trees and terms: desired where, for some alternative, all margins are positive."""

    alternatives: tuple[tuple[Margin, ...], ...]


ALWAYS = SumReading(((Margin(1.0),),))
"""Everything is desired."""

NEVER = SumReading(((Margin(-1.0),),))
"""Nothing is desired."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of an estimator.

    For a classifier ``wanted`` has the positions of the desired classes among its ``classes_``, some but not all.
    Without a threshold a row is desired where ``predict`` gives one of these classes; with one, where the sum of their
    ``predict_proba`` columns is above it. For a regression ``wanted`` is empty, and a row is desired where ``predict``
    is above the threshold.
    """

    wanted: tuple[int, ...]
    threshold: float | None
