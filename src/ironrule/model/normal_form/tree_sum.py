"""A model as sums of trees over the columns that it sees: what readers give for all models but networks.

A sum of trees says when a point is desired:

    for some alternative, every margin is positive;   margin = offset + sum of link(sum of trees and terms)

A binary classifier has one alternative with one margin (its raw score less the threshold). A multi-class one has an
alternative per desired class, with a margin against every undesired class. A linear model has a term per column; a
decision tree is one tree; links are monotone and rising (identity, logistic, step).

Margins are exact in real arithmetic. ``error`` bounds how far the model's own floating-point arithmetic may be from
that: where a margin lies within it, only the model itself can say what it decides, and it is asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np

from ironrule.arrays import AnyArray, BoolArray, Float64Array, Int32Array
from ironrule.model.normal_form.alternatives import intersect_alternatives, negate_alternatives
from ironrule.model.protocol import NormalForm, require_readable


class TreeSplit(Hashable, Protocol):
    """What a node of a tree asks about one column that the model sees."""

    @property
    def column(self) -> int:
        """The column's position."""

    def goes_left(self, values: AnyArray) -> BoolArray:
        """Which of these values of the column go left."""


def turns_once(split: TreeSplit) -> bool:
    """Whether a split's answer changes at one number at the most, missing aside; it must say so itself."""
    return bool(getattr(split, "turns_once", False))


class TreeSplits(Protocol):
    """The splits of a tree's nodes, None for a leaf: a tuple, or ``ThresholdSplits`` of :mod:`.splits`."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[TreeSplit | None]: ...

    def __getitem__(self, node: int, /) -> TreeSplit | None: ...


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A tree whose children come after their parents: node i asks ``splits[i]`` and goes to ``left[i]`` or
    ``right[i]``; where ``left[i]`` is -1 it is ``value[i]``.
    """

    splits: TreeSplits
    left: Int32Array
    right: Int32Array
    value: Float64Array

    def negate(self) -> Tree:
        """The same tree with the other sign."""
        return replace(self, value=-1.0 * self.value)

    def evaluate(self, seen: AnyArray) -> Float64Array:
        """The tree's value for rows of what the model sees: the plain meaning, not the fast one."""
        values = np.empty(len(seen))
        waiting = [(0, np.arange(len(seen)))]
        while waiting:  # nodes with the rows that reach them
            node, rows = waiting.pop()
            split = self.splits[node]
            if split is None or self.left[node] < 0:
                values[rows] = self.value[node]
                continue
            goes = split.goes_left(seen[rows, split.column])
            sides = ((int(self.left[node]), rows[goes]), (int(self.right[node]), rows[~goes]))
            waiting += [(child, child_rows) for child, child_rows in sides if len(child_rows)]
        return values


Contribution = Callable[[AnyArray], Float64Array]


@runtime_checkable
class NegatableContribution(Protocol):
    """A contribution that knows what it is with the other sign."""

    def negate(self) -> Contribution: ...


@dataclass(frozen=True, slots=True)
class NegatedContribution:
    """A contribution with the other sign."""

    contribution: Contribution

    def __call__(self, values: AnyArray) -> Float64Array:
        return np.asarray(-1.0 * self.contribution(values))


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """What one column adds by itself: ``contribution`` gives that for each of its values, or raises Unreadable."""

    column: int
    contribution: Contribution

    def negate(self) -> Term:
        """The same with the other sign."""
        own = self.contribution
        return Term(self.column, own.negate() if isinstance(own, NegatableContribution) else NegatedContribution(own))

    def evaluate(self, seen: AnyArray) -> Float64Array:
        """The contribution for rows of what the model sees."""
        return self.contribution(seen[:, self.column])


@dataclass(frozen=True, slots=True)
class Link:
    """Rising: ``identity``; ``logistic``: scale / (1 + exp(-(slope s + shift))); ``step``: scale where s > shift."""

    kind: Literal["identity", "logistic", "step"] = "identity"
    scale: float = 1.0
    slope: float = 1.0
    shift: float = 0.0

    def apply(self, total: Float64Array) -> Float64Array:
        """The function itself."""
        if self.kind == "identity":
            return total
        if self.kind == "step":
            return np.where(total > self.shift, self.scale, 0.0)
        with np.errstate(over="ignore"):
            return np.asarray(self.scale / (1.0 + np.exp(-(self.slope * total + self.shift))))


@dataclass(frozen=True, slots=True, eq=False)
class LinkedGroup:
    """Trees and terms whose sum goes through one link.

    ``rounding_error`` is what was lost where terms were added before.
    """

    trees: tuple[Tree, ...]
    link: Link = Link()
    terms: tuple[Term, ...] = ()
    rounding_error: float = 0.0

    def negate(self) -> tuple[LinkedGroup, float]:
        """A group, and a constant to add to it: together the same with the other sign. Links rise, so the sum inside
        is negated: -c / (1 + exp(-z)) = c / (1 + exp(z)) - c, and -c where s > shift is c where -s >= -shift, less c.
        """
        trees, terms = tuple(tree.negate() for tree in self.trees), tuple(term.negate() for term in self.terms)
        link = self.link
        constant = 0.0 if link.kind == "identity" else -link.scale
        if link.kind == "step":
            link = replace(link, shift=math.nextafter(-link.shift, -math.inf))
        elif link.kind == "logistic":
            link = replace(link, shift=-link.shift)
        return replace(self, trees=trees, terms=terms, link=link), constant

    def evaluate_parts(self, seen: AnyArray) -> list[Float64Array]:
        """The value of every tree and term for rows of what the model sees."""
        return [*(tree.evaluate(seen) for tree in self.trees), *(term.evaluate(seen) for term in self.terms)]


@dataclass(frozen=True, slots=True, eq=False)
class Margin:
    """A sum that must be positive. The model's own arithmetic is off by at most ``error``, plus ``relative_error`` for
    every unit of the offset and of each tree's and term's largest absolute value; these are added before any are
    merged.
    """

    offset: float
    groups: tuple[LinkedGroup, ...]
    error: float = 0.0
    relative_error: float = 0.0

    def evaluate(self, seen: AnyArray) -> Float64Array:
        """The margin for rows of what the model sees."""
        total = np.full(len(seen), self.offset)
        for group in self.groups:
            total += group.link.apply(np.sum(group.evaluate_parts(seen), axis=0) + np.zeros(len(seen)))
        return total

    def negate(self) -> Margin:
        """The same with the other sign; its error is the same."""
        negated = [group.negate() for group in self.groups]
        constants = [constant for _, constant in negated if constant]
        offset = math.fsum([-self.offset, *constants])
        error = self.error + self.relative_error * max(abs(self.offset) - abs(offset), 0.0)
        if error and constants:
            error += 2.0**-50 * abs(offset)  # what adding them rounds; votes that are whole numbers stay exact
        return Margin(offset, tuple(group for group, _ in negated), error, self.relative_error)

    def bound_error(self, seen: AnyArray) -> float:
        """How far the model's own arithmetic may be off on these rows."""
        parts = [part for group in self.groups for part in group.evaluate_parts(seen)] if self.relative_error else []
        largest = sum(float(np.abs(part).max(initial=0.0)) for part in parts)
        return self.error + self.relative_error * (abs(self.offset) + largest)


@dataclass(frozen=True, slots=True, eq=False)
class TreeSum:
    """A model in normal form over the columns that it sees."""

    alternatives: tuple[tuple[Margin, ...], ...]
    kind: ClassVar[str] = "sum of trees"

    @property
    def groups(self) -> list[LinkedGroup]:
        """The groups of all margins."""
        return [group for margins in self.alternatives for margin in margins for group in margin.groups]

    @property
    def node_count(self) -> int:
        """How many nodes its trees have."""
        return sum(len(tree.left) for group in self.groups for tree in group.trees)

    def negate(self) -> TreeSum:
        """The normal form of the opposite decision; raises Unreadable if it would have too many alternatives."""
        return TreeSum(negate_alternatives(self.alternatives, Margin.negate))

    def intersect(self, other: NormalForm) -> TreeSum:
        """The normal form of what both desire; raises Unreadable if it would have too many alternatives."""
        require_readable(isinstance(other, TreeSum), "a sum of trees is not read together with another normal form")
        assert isinstance(other, TreeSum)
        return TreeSum(intersect_alternatives(self.alternatives, other.alternatives))

    def margins(self, seen: AnyArray) -> tuple[Float64Array, ...]:
        """For rows of what the model sees, per alternative the smallest margin; desired is where one is positive."""
        return tuple(np.min([margin.evaluate(seen) for margin in margins], axis=0) for margins in self.alternatives)


Reader = Callable[[Any, tuple[Any, ...], float | None], TreeSum | None]
"""A fitted estimator, the desired labels and the threshold give a normal form; None: the estimator is not its own."""
