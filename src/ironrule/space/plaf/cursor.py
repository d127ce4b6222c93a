"""A cursor over the tokens of one text: what the grammar's levels are written with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from ironrule.errors import ConstraintError
from ironrule.space.plaf.tokens import Token, complaint, tokenise

MAX_DEPTH = 32
"""How deep parentheses, ``not``, ``-`` and ``if`` may nest: deep enough for people, shallow enough for the stack."""

_Choice = TypeVar("_Choice")


class Cursor:
    """Where in a text the parser stands, and how deep."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = list(tokenise(text))
        self._position = 0
        self._depth = 0

    @property
    def token(self) -> Token:
        """The token that comes next."""
        return self._tokens[self._position]

    def advance(self) -> Token:
        """Step over the next token."""
        self._position += 1
        return self._tokens[self._position - 1]

    def take(self, text: str) -> Token | None:
        """Step over a word or symbol if it comes next. A string's text has quotes, so it is never mistaken for one."""
        return self.advance() if self.token.text == text else None

    def choose(self, choices: Mapping[str, _Choice]) -> tuple[Token, _Choice] | None:
        """Step over one of several words or symbols if it comes next, and say which."""
        text = self.token.text
        return (self.advance(), choices[text]) if text in choices else None

    def expect(self, text: str, rule: str) -> Token:
        """Step over a word or symbol that must come next."""
        token = self.take(text)
        if token is None:
            raise self.must(rule)
        return token

    def nested(self, level: Callable[[Token], _Choice], start: Token) -> _Choice:
        """Parse one level deeper; raises ConstraintError where that is too deep."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self.complaint(start.column, statement=f"the constraint is nested more than {MAX_DEPTH} levels deep")
        inside = level(start)
        self._depth -= 1
        return inside

    def must(self, rule: str, **fields: str) -> ConstraintError:
        """The error that says what is expected next, and which token is there."""
        return self.complaint(self.token.column, expected=rule, got=str(self.token), **fields)

    def complaint(self, column: int, **fields: str) -> ConstraintError:
        """The error that points at a column of the text."""
        return complaint(self.text, column, **fields)
