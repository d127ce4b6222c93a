"""The parser: from a text to a constraint, by recursive descent, one method per level of precedence, loosest first.

    statement    if disjunction then statement | disjunction
    disjunction  conjunction (or conjunction)*
    conjunction  negation (and negation)*
    negation     not negation | comparison
    comparison   sum ((== | != | < | <= | > | >=) sum)* | sum [not] in (sum, ...)
    sum          product ((+ | -) product)*
    product      factor ((* | /) factor)*
    factor       - factor | atom
    atom         number | string | true | false | missing | cf.name | x["any name"] | ( statement )

One regular expression cuts the text into tokens; what it cannot match gets a message that says what was probably meant.
The parser steps over the tokens (accept, expect) and limits nesting. A parenthesis may hold a value or a
condition, and only its inside tells which. So every level passes on what it finds, and a level that needs a condition,
or a value, checks that it got one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from itertools import islice
from typing import Any, TypeVar

from ironrule.errors import ConstraintError, describe_value
from ironrule.space.constraints import syntax


class TokenKind(Enum):
    """What a token is. The names are the groups of the regular expression."""

    NUMBER = auto()
    STRING = auto()
    WORD = auto()
    SYMBOL = auto()
    END = auto()


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the text, as written, and where it starts (counted from 0)."""

    kind: TokenKind
    text: str
    column: int

    def __str__(self) -> str:
        return "the end of the text" if self.kind is TokenKind.END else f"`{self.text[: syntax.MAX_SHOWN_CHARACTERS]}`"


_DIGITS = r"[0-9]+(?:_[0-9]+)*"

_TOKEN = re.compile(
    rf"""(?P<NUMBER>{_DIGITS}(?:\.{_DIGITS})?(?:[eE][+-]?{_DIGITS})?(?!\w))
       | (?P<STRING>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
       | (?P<WORD>{syntax.IDENTIFIER.pattern})
       | (?P<SYMBOL>==|!=|<=|>=|[-+*/<>()\[\],.])""",
    re.VERBOSE,
)

# A name with hyphens that is not in quotes: what comes before the word that cannot be read, and the rest.
_HYPHENED = re.compile(r"\b(?P<of>cf|x)\.(?P<name>(?:\w+-)+)$")
_REST_OF_NAME = re.compile(r"\w+(?:-\w+)*")
_SPACE = re.compile(r"\s*")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}

_SPELLINGS = {
    "=": "equality must be written `==`",
    "!": "negation must be written `not`, inequality `!=`",
    "&": "conjunction must be written `and`",
    "|": "disjunction must be written `or`",
}


def tokenize(text: str) -> Iterator[Token]:
    """The tokens of a text, with an END token after the last; raises ConstraintError where there is none."""
    column = _skip_space(text, 0)
    while column < len(text):
        match = _TOKEN.match(text, column)
        if match is None or match.lastgroup is None:
            raise syntax.build_located_error(text, column, **_explain_unknown_character(text[column]))
        yield Token(TokenKind[match.lastgroup], match.group(), column)
        column = _skip_space(text, match.end())
    yield Token(TokenKind.END, "", len(text.rstrip()))


def read_string(text: str, token: Token) -> str:
    """What a string token stands for, its escapes replaced."""

    def replace(match: re.Match[str]) -> str:
        if match.group(1) not in _ESCAPED:
            allowed = " ".join(f"\\{letter}" for letter in _ESCAPED)
            column = token.column + 1 + match.start()
            raise syntax.build_located_error(
                text, column, expected=f"an escape must be one of {allowed}", got=match.group()
            )
        return _ESCAPED[match.group(1)]

    return _ESCAPE.sub(replace, token.text[1:-1])


def read_number(text: str, token: Token) -> int | float:
    """What a number token stands for: an int where it is written as one."""
    value = float(token.text)
    if value == float("inf"):
        rule = "a number must be at most about 1.8e308"
        raise syntax.build_located_error(text, token.column, expected=rule, got="a larger one")
    digits = token.text.replace("_", "")
    # Python reads integers of up to 4,300 digits; those that are not too large have more only as zeros in front.
    return int(digits.lstrip("0") or "0") if digits.isdigit() else value


def _skip_space(text: str, column: int) -> int:
    match = _SPACE.match(text, column)
    return match.end() if match else column


def _explain_unknown_character(character: str) -> dict[str, str]:
    """The fields of the error about a character that begins no token."""
    if character.isdigit():
        return {"statement": "invalid number", "hint": "write it like 12, 1_000, 0.5 or 1e6"}
    if character in ("'", '"'):
        return {"statement": "unterminated string", "hint": f"close it with {character} on the same line"}
    words = "outside quotes, a constraint must consist of words, numbers and operators"
    return {"expected": _SPELLINGS.get(character, words), "got": repr(character)}


MAX_CHARACTERS = 100_000
"""How long a constraint may be: long enough for people and for lists of thousands of values."""

MAX_TOKENS = 50_000
"""How many words, numbers, strings and operators it may have."""

MAX_CONSTRAINTS, MAX_TOTAL_CHARACTERS = 1_000, 200_000
"""How many constraints a space may have, and how long they may be together."""

TOO_LONG_HINT = "write a shorter one, such as a range in the place of a list of numbers"

MAX_NESTING = 32
"""How deep parentheses, ``not``, ``-`` and ``if`` may nest: deep enough for people, shallow enough for the stack."""

_Choice = TypeVar("_Choice")


_RELATION_SIGNS = {relation.value: relation for relation in syntax.Relation}
_SUM_SIGNS = {operation.value: operation for operation in (syntax.Operation.ADD, syntax.Operation.SUBTRACT)}
_PRODUCT_SIGNS = {operation.value: operation for operation in (syntax.Operation.MULTIPLY, syntax.Operation.DIVIDE)}
_SUBJECTS = {subject.value: subject for subject in syntax.Subject}
_KEYWORDS = ("if", "then", "or", "and", "not", "in")
_CONSTANTS: Mapping[str, bool | None] = {"true": True, "false": False, "missing": None}


def parse_constraint(text: str) -> syntax.Constraint:
    """Read one constraint; raises ConstraintError, pointing at the place, if the text is none.

    >>> constraint = parse_constraint("if cf.education > x.education then cf.age >= x.age + 4")
    >>> sorted(constraint.features), constraint.mentions_instance
    (['age', 'education'], True)
    """
    if isinstance(text, str) and len(text) > MAX_CHARACTERS:
        rule = f"a constraint must have at most {MAX_CHARACTERS:,} characters"
        raise ConstraintError(expected=rule, got=f"{len(text):,}", hint=TOO_LONG_HINT)
    if not isinstance(text, str):
        raise ConstraintError(
            expected="a constraint must be a string such as 'cf.age >= x.age'", got=describe_value(text)
        )
    parser = _Parser(text)
    formula = parser.formula(parser.statement())
    parser.finish()
    return syntax.Constraint(text, formula)


def require_few(constraints: Iterable[Any]) -> list[Any]:
    """The constraints of a space; raises ConstraintError if there are too many."""
    listed = list(islice(constraints, MAX_CONSTRAINTS + 1))
    if len(listed) > MAX_CONSTRAINTS:
        rule = f"a space must have at most {MAX_CONSTRAINTS:,} constraints"
        raise ConstraintError(expected=rule, got="more", hint="join some of them with `and`")
    texts = (one.text if isinstance(one, syntax.Constraint) else one for one in listed)
    total = sum(len(text) for text in texts if isinstance(text, str))
    if total > MAX_TOTAL_CHARACTERS:
        rule = f"the constraints of a space must have at most {MAX_TOTAL_CHARACTERS:,} characters together"
        raise ConstraintError(expected=rule, got=f"{total:,}", hint=TOO_LONG_HINT)
    return listed


class _Parser:
    """Where in a text it stands and how deep, and a method per level of the grammar, each reading on from there."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = list(islice(tokenize(text), MAX_TOKENS + 1))
        if len(self._tokens) > MAX_TOKENS:
            rule = f"a constraint must have at most {MAX_TOKENS:,} words, numbers and operators"
            raise ConstraintError(expected=rule, got="more", hint=TOO_LONG_HINT)
        self._position = 0
        self._depth = 0

    @property
    def current(self) -> Token:
        """The token that comes next."""
        return self._tokens[self._position]

    def advance(self) -> Token:
        """Step over the next token."""
        self._position += 1
        return self._tokens[self._position - 1]

    def accept(self, text: str) -> Token | None:
        """Step over a word or symbol if it comes next. A string's text has quotes, so it is never mistaken for one."""
        return self.advance() if self.current.text == text else None

    def accept_any(self, choices: Mapping[str, _Choice]) -> tuple[Token, _Choice] | None:
        """Step over one of several words or symbols if it comes next, and say which."""
        text = self.current.text
        return (self.advance(), choices[text]) if text in choices else None

    def expect(self, text: str, rule: str) -> Token:
        """Step over a word or symbol that must come next."""
        token = self.accept(text)
        if token is None:
            raise self.expected_error(rule)
        return token

    def parse_nested(self, level: Callable[[Token], _Choice], start: Token) -> _Choice:
        """Parse one level deeper; raises ConstraintError where that is too deep."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise self.error_at(start.column, statement=f"the constraint is nested more than {MAX_NESTING} levels deep")
        inside = level(start)
        self._depth -= 1
        return inside

    def expected_error(self, rule: str, **fields: str) -> ConstraintError:
        """The error that says what is expected next, and which token is there."""
        return self.error_at(self.current.column, expected=rule, got=str(self.current), **fields)

    def error_at(self, column: int, **fields: str) -> ConstraintError:
        """The error that points at a column of the text."""
        return syntax.build_located_error(self.text, column, **fields)

    def statement(self) -> syntax.SyntaxNode:
        start = self.accept("if")
        return self.parse_nested(self.implication, start) if start else self.disjunction()

    def implication(self, start: Token) -> syntax.Implication:
        condition = self.formula(self.disjunction())
        self.expect("then", "`if` must be followed by a condition and `then`")
        return syntax.Implication(condition, self.formula(self.statement()), start.column)

    def disjunction(self) -> syntax.SyntaxNode:
        first = self.conjunction()
        parts = [first]
        while self.accept("or"):
            parts.append(self.conjunction())
        return (
            syntax.Disjunction(tuple(self.formula(part) for part in parts), first.column) if len(parts) > 1 else first
        )

    def conjunction(self) -> syntax.SyntaxNode:
        first = self.negation()
        parts = [first]
        while self.accept("and"):
            parts.append(self.negation())
        return (
            syntax.Conjunction(tuple(self.formula(part) for part in parts), first.column) if len(parts) > 1 else first
        )

    def negation(self) -> syntax.SyntaxNode:
        start = self.accept("not")
        return self.parse_nested(self.negation_operand, start) if start else self.comparison()

    def negation_operand(self, start: Token) -> syntax.Negation:
        return syntax.Negation(self.formula(self.negation()), start.column)

    def comparison(self) -> syntax.SyntaxNode:
        left = self.sum()
        parts: list[syntax.Formula] = []
        while choice := self.accept_any(_RELATION_SIGNS):
            token, relation = choice
            right = self.sum()
            parts.append(syntax.Comparison(self.expression(left), relation, self.expression(right), token.column))
            left = right
        if not parts:
            return self.membership(left)
        return parts[0] if len(parts) == 1 else syntax.Conjunction(tuple(parts), parts[0].column)

    def membership(self, left: syntax.SyntaxNode) -> syntax.SyntaxNode:
        negative = self.accept("not")
        if negative:
            operator = self.expect("in", "`not` after a value must be followed by `in`")
            return syntax.Negation(self.membership_items(left, operator), negative.column)
        positive = self.accept("in")
        return self.membership_items(left, positive) if positive else left

    def membership_items(self, left: syntax.SyntaxNode, operator: Token) -> syntax.Membership:
        self.expect("(", "`in` must be followed by values in parentheses")
        items = [self.expression(self.sum())]
        while self.accept(",") and self.current.text != ")":
            items.append(self.expression(self.sum()))
        self.expect(")", "the values after `in` must be separated by `,` and closed by `)`")
        return syntax.Membership(self.expression(left), tuple(items), operator.column)

    def sum(self) -> syntax.SyntaxNode:
        return self.arithmetic(self.product, _SUM_SIGNS)

    def product(self) -> syntax.SyntaxNode:
        return self.arithmetic(self.factor, _PRODUCT_SIGNS)

    def arithmetic(
        self, operand: Callable[[], syntax.SyntaxNode], operations: Mapping[str, syntax.Operation]
    ) -> syntax.SyntaxNode:
        first = operand()
        steps = []
        while choice := self.accept_any(operations):
            steps.append((choice[1], self.expression(operand())))
        return syntax.Arithmetic(self.expression(first), tuple(steps), first.column) if steps else first

    def factor(self) -> syntax.SyntaxNode:
        start = self.accept("-")
        return self.parse_nested(self.minus, start) if start else self.atom()

    def minus(self, start: Token) -> syntax.Expression:
        operand = self.expression(self.factor())
        if isinstance(operand, syntax.Literal) and isinstance(operand.value, (int, float)) and operand.is_number:
            return syntax.Literal(-operand.value, start.column)
        return syntax.UnaryMinus(operand, start.column)

    def atom(self) -> syntax.SyntaxNode:
        token = self.current
        if start := self.accept("("):
            return self.parse_nested(self.parenthesis, start)
        if choice := self.accept_any(_SUBJECTS):
            return syntax.Reference(choice[1], self.name(token), token.column)
        if token.kind is TokenKind.NUMBER:
            return syntax.Literal(read_number(self.text, self.advance()), token.column)
        if token.kind is TokenKind.STRING:
            return syntax.Literal(read_string(self.text, self.advance()), token.column)
        if choice_of_constant := self.accept_any(_CONSTANTS):
            return syntax.Literal(choice_of_constant[1], token.column)
        raise self.missing_value_error(token)

    def parenthesis(self, start: Token) -> syntax.SyntaxNode:
        inside = self.statement()
        self.expect(")", f"the parenthesis opened at column {start.column + 1} must be closed by `)`")
        return inside

    def name(self, subject: Token) -> str:
        """A feature's name: ``["any text"]``, or parts after dots, each a word or a string."""
        if self.accept("["):
            name = self.name_part("`[` must be followed by a feature's name in quotes", words=False)
            self.expect("]", "a feature's name must be closed by `]`")
            return name
        self.expect(".", f"`{subject.text}` must be followed by a feature's name, as in {subject.text}.age")
        parts = [self.name_part("`.` must be followed by a feature's name", words=True)]
        while self.accept("."):
            parts.append(self.name_part("`.` must be followed by a feature's name", words=True))
        return ".".join(parts)

    def name_part(self, rule: str, *, words: bool) -> str:
        token = self.current
        if token.kind is TokenKind.STRING:
            return read_string(self.text, self.advance())
        if words and token.kind is TokenKind.WORD:
            return self.advance().text
        raise self.expected_error(rule)

    def formula(self, node: syntax.SyntaxNode) -> syntax.Formula:
        """The node, if it is a condition. Where something stray follows a value, the error points at that."""
        if isinstance(node, syntax.Formula):
            return node
        if self.current.kind is not TokenKind.END and self.current.text not in ("and", "or", "then", ")"):
            raise self.stray_error()
        got, hint = f"the value `{node}`", f"compare it, as in `{node} == ...`"
        raise self.error_at(node.column, expected="expected a condition", got=got, hint=hint)

    def expression(self, node: syntax.SyntaxNode) -> syntax.Expression:
        """The node, if it is a value."""
        if isinstance(node, syntax.Expression):
            return node
        raise self.error_at(node.column, expected="expected a value", got="a condition")

    def finish(self) -> None:
        if self.current.kind is not TokenKind.END:
            raise self.stray_error()

    def stray_error(self) -> ConstraintError:
        return self.expected_error("expected an operator, `and`, `or` or the end of the constraint")

    def missing_value_error(self, token: Token) -> ConstraintError:
        rule = "expected a value or a condition"
        if token.kind is not TokenKind.WORD or token.text in _KEYWORDS:
            return self.expected_error(rule)
        if (hyphened := _HYPHENED.search(self.text[: token.column])) and self.text[token.column - 1] == "-":
            rest = _REST_OF_NAME.match(self.text, token.column)
            name = hyphened["name"] + (rest.group() if rest else token.text)
            hint = f'if the feature is called {name}, write {hyphened["of"]}["{name}"]'
            return self.expected_error(rule, hint=hint)
        hint = f'write a feature as cf.{token.text} or cf["a name"], a string as "{token.text}"'
        return self.expected_error(rule, hint=hint)
