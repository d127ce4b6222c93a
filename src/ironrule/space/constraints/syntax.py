"""What a constraint is made of: a tree of expressions (values) and formulas (conditions).

Every node knows the column of the text it came from, so that later errors can point at it; two nodes that say the same
are equal wherever they stand. ``str(node)`` writes a node in full parentheses, and parsing that gives the node back.
Long sums and long conjunctions are one flat node each: depth comes only from nesting, which the parser limits.

A :class:`Constraint` is a text with its tree; it also says which features of the point and of the instance it reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from ironrule.errors import ConstraintError, escape_controls
from ironrule.space.feature import Value
from ironrule.space.table import to_python_value

IDENTIFIER = re.compile(r"[^\W\d]\w*")  # what may follow the dot in ``cf.name`` without quotes


class Subject(Enum):
    """Whose value is meant: the point's or the instance's."""

    POINT = "cf"
    INSTANCE = "x"


class Relation(Enum):
    """How two values may relate."""

    EQUAL = "=="
    DIFFERENT = "!="
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="

    @property
    def orders(self) -> bool:
        """Whether the relation needs an order among the values."""
        return self not in (Relation.EQUAL, Relation.DIFFERENT)


class Operation(Enum):
    """What arithmetic does to two numbers."""

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"


@dataclass(frozen=True, slots=True)
class Reference:
    """The value of a feature, of the point (``cf.age``) or of the instance (``x.age``)."""

    subject: Subject
    name: str
    column: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        plain = IDENTIFIER.fullmatch(self.name)
        return f"{self.subject.value}.{self.name}" if plain else f"{self.subject.value}[{quote_string(self.name)}]"


@dataclass(frozen=True, slots=True)
class Literal:
    """A value written out; ``None`` is ``missing``."""

    value: int | float | str | bool | None
    column: int = field(default=0, compare=False, repr=False)

    @property
    def is_number(self) -> bool:
        """Whether arithmetic may use it; ``true`` and ``false`` are no numbers."""
        return isinstance(self.value, (int, float)) and not isinstance(self.value, bool)

    def __str__(self) -> str:
        if self.value is None:
            return "missing"
        if isinstance(self.value, bool):
            return str(self.value).lower()
        return quote_string(self.value) if isinstance(self.value, str) else repr(self.value)


def format_literal(value: Value) -> str:
    """A value as constraints write it.

    >>> format_literal("cook"), format_literal(0.7), format_literal(None)
    ('"cook"', '0.7', 'missing')
    """
    plain = to_python_value(value)
    return str(Literal(plain if plain is None or isinstance(plain, (bool, int, float)) else str(plain)))


@dataclass(frozen=True, slots=True)
class UnaryMinus:
    """The negative of an expression."""

    operand: Expression
    column: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        return f"-({self.operand})"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """A first expression and what is done to it, step by step from the left: ``a + b - c``, or ``a * b / c``."""

    first: Expression
    steps: tuple[tuple[Operation, Expression], ...]
    column: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        steps = "".join(f" {operation.value} {expression}" for operation, expression in self.steps)
        return f"({self.first}{steps})"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two expressions and how they relate. A chain such as ``18 <= cf.age < 65`` is a :class:`Conjunction`."""

    left: Expression
    relation: Relation
    right: Expression
    column: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.left} {self.relation.value} {self.right}"


@dataclass(frozen=True, slots=True)
class Membership:
    """An expression equals one of several."""

    element: Expression
    items: tuple[Expression, ...]
    column: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.element} in ({', '.join(str(item) for item in self.items)})"


@dataclass(frozen=True, slots=True)
class Negation:
    """The opposite of a formula."""

    operand: Formula
    column: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        return f"not ({self.operand})"


@dataclass(frozen=True, slots=True)
class Conjunction:
    """Every part holds: ``and``."""

    parts: tuple[Formula, ...]
    column: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        return " and ".join(f"({part})" for part in self.parts)


@dataclass(frozen=True, slots=True)
class Disjunction:
    """At least one part holds: ``or``."""

    parts: tuple[Formula, ...]
    column: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        return " or ".join(f"({part})" for part in self.parts)


@dataclass(frozen=True, slots=True)
class Implication:
    """Where the condition holds, the consequence must: ``if .. then ..``."""

    condition: Formula
    consequence: Formula
    column: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        return f"if ({self.condition}) then ({self.consequence})"


Expression: TypeAlias = Reference | Literal | UnaryMinus | Arithmetic
Formula: TypeAlias = Comparison | Membership | Negation | Conjunction | Disjunction | Implication
SyntaxNode: TypeAlias = Expression | Formula


def quote_string(text: str) -> str:
    """A text as a string literal of the language."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


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
        return collect_names(self.formula, Subject.POINT)

    @property
    def instance_features(self) -> frozenset[str]:
        """The features whose value on the instance matters."""
        return collect_names(self.formula, Subject.INSTANCE)

    @property
    def mentions_instance(self) -> bool:
        """Whether the constraint means something different for every instance."""
        return bool(self.instance_features)

    @property
    def implication(self) -> tuple[Formula, Formula] | None:
        """Condition and consequence of an ``if .. then ..``; None for every other constraint."""
        formula = self.formula
        return (formula.condition, formula.consequence) if isinstance(formula, Implication) else None


def collect_names(node: SyntaxNode, subject: Subject) -> frozenset[str]:
    """The names of the features that a node reads of one subject."""
    return frozenset(reference.name for reference in iterate_references(node) if reference.subject is subject)


def iterate_references(node: SyntaxNode) -> Iterator[Reference]:
    """Every place where a node reads a feature, from left to right."""
    if isinstance(node, Reference):
        yield node
    for child in list_children(node):
        yield from iterate_references(child)


def list_children(node: SyntaxNode) -> tuple[SyntaxNode, ...]:
    """The nodes that a node is made of, from left to right."""
    match node:
        case UnaryMinus(operand) | Negation(operand):
            return (operand,)
        case Arithmetic(first, steps):
            return (first, *(expression for _, expression in steps))
        case Comparison(left, _, right):
            return (left, right)
        case Membership(expression, items):
            return (expression, *items)
        case Conjunction(parts) | Disjunction(parts):
            return parts
        case Implication(condition, consequence):
            return (condition, consequence)
        case _:
            return ()


MAX_SHOWN_CHARACTERS = 100  # how much of a long line an error shows


def build_located_error(text: str, column: int, **fields: str) -> ConstraintError:
    """The error about one place of a text: after its fields it shows the line, and a caret under the place.

    >>> print(build_located_error("cf.age = 3", 7, expected="equality must be written `==`", got="'='"))
    equality must be written `==`, got '=' (column 8)
      cf.age = 3
             ^
    """
    start = text.rfind("\n", 0, column) + 1
    end = text.find("\n", column)
    line = text[start : end if end >= 0 else len(text)]
    offset = column - start
    cut = max(0, offset - MAX_SHOWN_CHARACTERS // 2) if len(line) > MAX_SHOWN_CHARACTERS else 0
    before = "..." if cut else ""
    after = "..." if len(line) > cut + MAX_SHOWN_CHARACTERS else ""
    pad = re.sub(r"[^\t]", " ", before + escape_controls(line[cut:offset], keep="\t"))
    shown = before + escape_controls(line[cut : cut + MAX_SHOWN_CHARACTERS], keep="\t") + after
    row = f"line {text.count(chr(10), 0, column) + 1}, " if "\n" in text else ""
    error = ConstraintError(**fields)
    error.args = (f"{error} ({row}column {offset + 1})\n  {shown}\n  {pad}^",)
    return error
