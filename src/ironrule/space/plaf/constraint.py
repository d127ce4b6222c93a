"""A constraint that has been read, and what it speaks of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ironrule.space.plaf.syntax import (
    All,
    Any,
    Arithmetic,
    Comparison,
    Formula,
    Implication,
    Membership,
    Minus,
    Node,
    Not,
    Reference,
    Subject,
)


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint as it was written (``text``) and as it was understood (``formula``)."""

    text: str
    formula: Formula

    def __str__(self) -> str:
        return self.text

    @property
    def features(self) -> frozenset[str]:
        """The features whose value on the point matters."""
        return names(self.formula, Subject.POINT)

    @property
    def instance_features(self) -> frozenset[str]:
        """The features whose value on the instance matters."""
        return names(self.formula, Subject.INSTANCE)

    @property
    def mentions_instance(self) -> bool:
        """Whether the constraint means something different for every instance."""
        return bool(self.instance_features)

    @property
    def implication(self) -> tuple[Formula, Formula] | None:
        """Condition and consequence of an ``if .. then ..``; None for every other constraint."""
        formula = self.formula
        return (formula.condition, formula.consequence) if isinstance(formula, Implication) else None


def names(node: Node, subject: Subject) -> frozenset[str]:
    """The names of the features that a node reads of one subject."""
    return frozenset(reference.name for reference in references(node) if reference.subject is subject)


def references(node: Node) -> Iterator[Reference]:
    """Every place where a node reads a feature, from left to right."""
    if isinstance(node, Reference):
        yield node
    for child in children(node):
        yield from references(child)


def children(node: Node) -> tuple[Node, ...]:
    """The nodes that a node is made of, from left to right."""
    match node:
        case Minus(operand) | Not(operand):
            return (operand,)
        case Arithmetic(first, steps):
            return (first, *(term for _, term in steps))
        case Comparison(left, _, right):
            return (left, right)
        case Membership(term, items):
            return (term, *items)
        case All(parts) | Any(parts):
            return parts
        case Implication(condition, consequence):
            return (condition, consequence)
        case _:
            return ()
