"""The parser: recursive descent, one method per level of precedence, from the loosest to the tightest.

    statement    if disjunction then statement | disjunction
    disjunction  conjunction (or conjunction)*
    conjunction  negation (and negation)*
    negation     not negation | comparison
    comparison   sum ((== | != | < | <= | > | >=) sum)* | sum [not] in (sum, ...)
    sum          product ((+ | -) product)*
    product      factor ((* | /) factor)*
    factor       - factor | atom
    atom         number | string | true | false | missing | cf.name | x["any name"] | ( statement )

A parenthesis may hold a value or a condition, and only its inside tells which. So every level passes on what it finds,
and whoever needs a condition, or a value, checks that it got one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ironrule.errors import ConstraintError
from ironrule.space.plaf.constraint import Constraint
from ironrule.space.plaf.cursor import Cursor
from ironrule.space.plaf.syntax import (
    All,
    Any,
    Arithmetic,
    Comparison,
    Formula,
    Implication,
    Literal,
    Membership,
    Minus,
    Node,
    Not,
    Operation,
    Reference,
    Relation,
    Subject,
    Term,
)
from ironrule.space.plaf.tokens import Token, TokenKind, number_value, string_value

_RELATIONS = {relation.value: relation for relation in Relation}
_SUMS = {operation.value: operation for operation in (Operation.ADD, Operation.SUBTRACT)}
_PRODUCTS = {operation.value: operation for operation in (Operation.MULTIPLY, Operation.DIVIDE)}
_SUBJECTS = {subject.value: subject for subject in Subject}
_KEYWORDS = ("if", "then", "or", "and", "not", "in")
_CONSTANTS: Mapping[str, bool | None] = {"true": True, "false": False, "missing": None}


def parse(text: str) -> Constraint:
    """Read one constraint; raises ConstraintError, pointing at the place, if the text is none.

    >>> constraint = parse("if cf.education > x.education then cf.age >= x.age + 4")
    >>> sorted(constraint.features), constraint.mentions_instance
    (['age', 'education'], True)
    """
    if not isinstance(text, str):
        raise ConstraintError(expected="a constraint must be a string such as 'cf.age >= x.age'", got=repr(text))
    parser = _Parser(text)
    formula = parser.formula(parser.statement())
    parser.finish()
    return Constraint(text, formula)


class _Parser:
    """A method per level of the grammar, each reading on from where the cursor is."""

    def __init__(self, text: str) -> None:
        self.at = Cursor(text)

    def statement(self) -> Node:
        start = self.at.take("if")
        return self.at.nested(self.implication, start) if start else self.disjunction()

    def implication(self, start: Token) -> Implication:
        condition = self.formula(self.disjunction())
        self.at.expect("then", "`if` must be followed by a condition and `then`")
        return Implication(condition, self.formula(self.statement()), start.column)

    def disjunction(self) -> Node:
        first = self.conjunction()
        parts = [first]
        while self.at.take("or"):
            parts.append(self.conjunction())
        return Any(tuple(self.formula(part) for part in parts), first.column) if len(parts) > 1 else first

    def conjunction(self) -> Node:
        first = self.negation()
        parts = [first]
        while self.at.take("and"):
            parts.append(self.negation())
        return All(tuple(self.formula(part) for part in parts), first.column) if len(parts) > 1 else first

    def negation(self) -> Node:
        start = self.at.take("not")
        return self.at.nested(self.negated, start) if start else self.comparison()

    def negated(self, start: Token) -> Not:
        return Not(self.formula(self.negation()), start.column)

    def comparison(self) -> Node:
        left = self.sum()
        parts: list[Formula] = []
        while choice := self.at.choose(_RELATIONS):
            token, relation = choice
            right = self.sum()
            parts.append(Comparison(self.term(left), relation, self.term(right), token.column))
            left = right
        if not parts:
            return self.membership(left)
        return parts[0] if len(parts) == 1 else All(tuple(parts), parts[0].column)

    def membership(self, left: Node) -> Node:
        negative = self.at.take("not")
        if negative:
            operator = self.at.expect("in", "`not` after a value must be followed by `in`")
            return Not(self.member(left, operator), negative.column)
        positive = self.at.take("in")
        return self.member(left, positive) if positive else left

    def member(self, left: Node, operator: Token) -> Membership:
        self.at.expect("(", "`in` must be followed by values in parentheses")
        items = [self.term(self.sum())]
        while self.at.take(",") and self.at.token.text != ")":
            items.append(self.term(self.sum()))
        self.at.expect(")", "the values after `in` must be separated by `,` and closed by `)`")
        return Membership(self.term(left), tuple(items), operator.column)

    def sum(self) -> Node:
        return self.arithmetic(self.product, _SUMS)

    def product(self) -> Node:
        return self.arithmetic(self.factor, _PRODUCTS)

    def arithmetic(self, operand: Callable[[], Node], operations: Mapping[str, Operation]) -> Node:
        first = operand()
        steps = []
        while choice := self.at.choose(operations):
            steps.append((choice[1], self.term(operand())))
        return Arithmetic(self.term(first), tuple(steps), first.column) if steps else first

    def factor(self) -> Node:
        start = self.at.take("-")
        return self.at.nested(self.minus, start) if start else self.atom()

    def minus(self, start: Token) -> Term:
        operand = self.term(self.factor())
        if isinstance(operand, Literal) and isinstance(operand.value, (int, float)) and operand.is_number:
            return Literal(-operand.value, start.column)
        return Minus(operand, start.column)

    def atom(self) -> Node:
        token = self.at.token
        if start := self.at.take("("):
            return self.at.nested(self.parenthesis, start)
        if choice := self.at.choose(_SUBJECTS):
            return Reference(choice[1], self.name(token), token.column)
        if token.kind is TokenKind.NUMBER:
            return Literal(number_value(self.at.text, self.at.advance()), token.column)
        if token.kind is TokenKind.STRING:
            return Literal(string_value(self.at.text, self.at.advance()), token.column)
        if choice_of_constant := self.at.choose(_CONSTANTS):
            return Literal(choice_of_constant[1], token.column)
        raise self.no_value(token)

    def parenthesis(self, start: Token) -> Node:
        inside = self.statement()
        self.at.expect(")", f"the parenthesis opened at column {start.column + 1} must be closed by `)`")
        return inside

    def name(self, subject: Token) -> str:
        """A feature's name: ``["any text"]``, or parts after dots, each a word or a string."""
        if self.at.take("["):
            name = self.name_part("`[` must be followed by a feature's name in quotes", words=False)
            self.at.expect("]", "a feature's name must be closed by `]`")
            return name
        self.at.expect(".", f"`{subject.text}` must be followed by a feature's name, as in {subject.text}.age")
        parts = [self.name_part("`.` must be followed by a feature's name", words=True)]
        while self.at.take("."):
            parts.append(self.name_part("`.` must be followed by a feature's name", words=True))
        return ".".join(parts)

    def name_part(self, rule: str, *, words: bool) -> str:
        token = self.at.token
        if token.kind is TokenKind.STRING:
            return string_value(self.at.text, self.at.advance())
        if words and token.kind is TokenKind.WORD:
            return self.at.advance().text
        raise self.at.must(rule)

    def formula(self, node: Node) -> Formula:
        """The node, if it is a condition. Where something stray follows a value, the error points at that."""
        if isinstance(node, Formula):
            return node
        if self.at.token.kind is not TokenKind.END and self.at.token.text not in ("and", "or", "then", ")"):
            raise self.stray()
        raise self.at.complaint(
            node.column,
            expected="expected a condition",
            got=f"the value `{node}`",
            hint=f"compare it, as in `{node} == ...`",
        )

    def term(self, node: Node) -> Term:
        """The node, if it is a value."""
        if isinstance(node, Term):
            return node
        raise self.at.complaint(node.column, expected="expected a value", got="a condition")

    def finish(self) -> None:
        if self.at.token.kind is not TokenKind.END:
            raise self.stray()

    def stray(self) -> ConstraintError:
        return self.at.must("expected an operator, `and`, `or` or the end of the constraint")

    def no_value(self, token: Token) -> ConstraintError:
        rule = "expected a value or a condition"
        if token.kind is not TokenKind.WORD or token.text in _KEYWORDS:
            return self.at.must(rule)
        hint = f'write a feature as cf.{token.text} or cf["a name"], a string as "{token.text}"'
        return self.at.must(rule, hint=hint)
