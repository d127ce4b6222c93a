"""What a constraint is made of: a tree of terms (values) and formulas (conditions).

Every node knows the column of the text it came from, so that later errors can point at it; two nodes that say the same
are equal wherever they stand. ``str(node)`` writes a node in full parentheses, and parsing that gives the node back.
Long sums and long conjunctions are one flat node each: depth comes only from nesting, which the grammar limits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

WORD = re.compile(r"[^\W\d]\w*")
"""What may follow the dot in ``cf.name`` without quotes."""


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
        plain = WORD.fullmatch(self.name)
        return f"{self.subject.value}.{self.name}" if plain else f"{self.subject.value}[{quote(self.name)}]"


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
        return quote(self.value) if isinstance(self.value, str) else repr(self.value)


@dataclass(frozen=True, slots=True)
class Minus:
    """The negative of a term."""

    operand: Term
    column: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        return f"-({self.operand})"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """A first term and what is done to it, step by step from the left: ``a + b - c``, or ``a * b / c``."""

    first: Term
    steps: tuple[tuple[Operation, Term], ...]
    column: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        return "(" + str(self.first) + "".join(f" {operation.value} {term}" for operation, term in self.steps) + ")"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two terms and how they relate. A chain such as ``18 <= cf.age < 65`` is an :class:`All` of comparisons."""

    left: Term
    relation: Relation
    right: Term
    column: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.left} {self.relation.value} {self.right}"


@dataclass(frozen=True, slots=True)
class Membership:
    """A term equals one of several."""

    term: Term
    items: tuple[Term, ...]
    column: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.term} in ({', '.join(str(item) for item in self.items)})"


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a formula."""

    operand: Formula
    column: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        return f"not ({self.operand})"


@dataclass(frozen=True, slots=True)
class All:
    """Every part holds: ``and``."""

    parts: tuple[Formula, ...]
    column: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        return " and ".join(f"({part})" for part in self.parts)


@dataclass(frozen=True, slots=True)
class Any:
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


Term: TypeAlias = Reference | Literal | Minus | Arithmetic
Formula: TypeAlias = Comparison | Membership | Not | All | Any | Implication
Node: TypeAlias = Term | Formula


def quote(text: str) -> str:
    """A text as a string literal of the language."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
