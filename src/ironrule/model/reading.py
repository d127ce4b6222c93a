"""What an adapter reads out of a model: sums of trees over the columns that the model sees.

A reading says when a point is desired:

    for some alternative, every margin is positive;   margin = offset + sum of link(sum of trees)

A binary classifier has one alternative with one margin (its raw score less the threshold). A multi-class one has an
alternative per desired class, with a margin against every undesired class. A linear model is a sum of trees of one
split level per column; a decision tree is one tree; links are monotone and rising (identity, logistic, step).

Margins are exact in real arithmetic. ``error`` bounds how far the model's own floating-point arithmetic may be from
that: where a margin lies within it, only the model itself can say what it decides, and it is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]


class Test(Hashable, Protocol):
    """A question that a tree asks about one column that the model sees."""

    @property
    def column(self) -> int:
        """The column's position."""
        ...

    def goes_left(self, values: npt.NDArray[Any]) -> Mask:
        """Which of these values of the column go left."""
        ...


def changes_once(test: Test) -> bool:
    """Whether a test's answer changes at one number at the most, missing aside; so it must say itself."""
    return bool(getattr(test, "changes_once", False))


class Tests(Protocol):
    """The tests of a tree's nodes, None for a leaf: a tuple, or :class:`~ironrule.model.thresholds.Thresholds`."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Test | None]: ...

    def __getitem__(self, node: int, /) -> Test | None: ...


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A tree whose children come after their parents: node i asks ``tests[i]`` and goes to ``left[i]`` or
    ``right[i]``; where ``left[i]`` is -1 it is ``value[i]``.
    """

    tests: Tests
    left: Ints
    right: Ints
    value: Floats

    def at(self, seen: npt.NDArray[Any]) -> Floats:
        """The tree's value for rows of what the model sees: the plain meaning, not the fast one."""
        values = np.empty(len(seen))
        waiting = [(0, np.arange(len(seen)))]
        while waiting:
            node, rows = waiting.pop()
            test = self.tests[node]
            if test is None or self.left[node] < 0:
                values[rows] = self.value[node]
                continue
            goes = test.goes_left(seen[rows, test.column])
            sides = ((int(self.left[node]), rows[goes]), (int(self.right[node]), rows[~goes]))
            waiting += [(child, some) for child, some in sides if len(some)]
        return values


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """What one column adds by itself: ``of`` gives the contribution of each of its values, or raises Unreadable."""

    column: int
    of: Callable[[npt.NDArray[Any]], Floats]

    def at(self, seen: npt.NDArray[Any]) -> Floats:
        """The contribution for rows of what the model sees."""
        return self.of(seen[:, self.column])


@dataclass(frozen=True, slots=True)
class Link:
    """A rising function: ``identity``; ``logistic``: scale / (1 + exp(-(slope s + shift))); ``step``: scale if s >
    shift.
    """

    kind: Literal["identity", "logistic", "step"] = "identity"
    scale: float = 1.0
    slope: float = 1.0
    shift: float = 0.0

    def of(self, total: Floats) -> Floats:
        """The function itself."""
        if self.kind == "identity":
            return total
        if self.kind == "step":
            return np.where(total > self.shift, self.scale, 0.0)
        with np.errstate(over="ignore"):
            return np.asarray(self.scale / (1.0 + np.exp(-(self.slope * total + self.shift))))


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Trees and terms whose sum goes through one link. ``rounding`` is what was lost where terms were added before."""

    trees: tuple[Tree, ...]
    link: Link = Link()
    terms: tuple[Term, ...] = ()
    rounding: float = 0.0

    def parts_at(self, seen: npt.NDArray[Any]) -> list[Floats]:
        """The value of every tree and term for rows of what the model sees."""
        return [*(tree.at(seen) for tree in self.trees), *(term.at(seen) for term in self.terms)]


@dataclass(frozen=True, slots=True, eq=False)
class Margin:
    """A sum that must be positive. The model's own arithmetic is off by at most ``error``, plus ``relative`` for every
    unit of the offset and of each tree's and term's largest absolute value; these are added before any are merged.
    """

    offset: float
    groups: tuple[Group, ...]
    error: float = 0.0
    relative: float = 0.0

    def at(self, seen: npt.NDArray[Any]) -> Floats:
        """The margin for rows of what the model sees."""
        total = np.full(len(seen), self.offset)
        for group in self.groups:
            total += group.link.of(np.sum(group.parts_at(seen), axis=0) + np.zeros(len(seen)))
        return total

    def error_over(self, seen: npt.NDArray[Any]) -> float:
        """How far the model's own arithmetic may be off on these rows."""
        parts = [part for group in self.groups for part in group.parts_at(seen)] if self.relative else []
        largest = sum(float(np.abs(part).max(initial=0.0)) for part in parts)
        return self.error + self.relative * (abs(self.offset) + largest)


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """A model in normal form over the columns that it sees."""

    alternatives: tuple[tuple[Margin, ...], ...]
    notes: tuple[str, ...] = field(default=())

    def margins(self, seen: npt.NDArray[Any]) -> tuple[Floats, ...]:
        """For rows of what the model sees, per alternative the smallest margin; desired is where one is positive."""
        return tuple(np.min([margin.at(seen) for margin in margins], axis=0) for margins in self.alternatives)

    @property
    def errors(self) -> tuple[float, ...]:
        """Per alternative, how far a margin may be from what the model itself computes."""
        return tuple(max(margin.error for margin in margins) for margins in self.alternatives)


class Unreadable(Exception):  # noqa: N818  # an answer, not a failure: the black-box search serves instead
    """Why a model cannot be read; the message is for the user."""


Reader = Callable[[Any, tuple[Any, ...], float | None], Reading | None]
"""An adapter: a fitted estimator, the desired labels and the threshold give a reading, or None for a stranger."""
