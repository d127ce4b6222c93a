"""The tokeniser: cuts a text into words, numbers, strings and symbols, each with its column; and errors that point.

One regular expression does the cutting. What it cannot match gets a message that says what was probably meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from ironrule.errors import ConstraintError
from ironrule.space.plaf.syntax import WORD

SHOWN = 100
"""How much of a long line an error shows."""


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
        return "the end of the text" if self.kind is TokenKind.END else f"`{self.text[:SHOWN]}`"


_DIGITS = r"[0-9]+(?:_[0-9]+)*"
_TOKEN = re.compile(
    rf"""(?P<NUMBER>{_DIGITS}(?:\.{_DIGITS})?(?:[eE][+-]?{_DIGITS})?(?!\w))
       | (?P<STRING>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
       | (?P<WORD>{WORD.pattern})
       | (?P<SYMBOL>==|!=|<=|>=|[-+*/<>()\[\],.])""",
    re.VERBOSE,
)
_SPACE = re.compile(r"\s*")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}
_SPELLINGS = {
    "=": "equality must be written `==`",
    "!": "negation must be written `not`, inequality `!=`",
    "&": "conjunction must be written `and`",
    "|": "disjunction must be written `or`",
}


def tokenise(text: str) -> Iterator[Token]:
    """The tokens of a text, with an END token after the last; raises ConstraintError where there is none."""
    column = _skip_space(text, 0)
    while column < len(text):
        match = _TOKEN.match(text, column)
        if match is None or match.lastgroup is None:
            raise complaint(text, column, **_no_token(text[column]))
        yield Token(TokenKind[match.lastgroup], match.group(), column)
        column = _skip_space(text, match.end())
    yield Token(TokenKind.END, "", len(text.rstrip()))


def string_value(text: str, token: Token) -> str:
    """What a string token stands for, its escapes replaced."""

    def replace(match: re.Match[str]) -> str:
        if match.group(1) not in _ESCAPED:
            allowed = " ".join(f"\\{letter}" for letter in _ESCAPED)
            column = token.column + 1 + match.start()
            raise complaint(text, column, expected=f"an escape must be one of {allowed}", got=match.group())
        return _ESCAPED[match.group(1)]

    return _ESCAPE.sub(replace, token.text[1:-1])


def number_value(text: str, token: Token) -> int | float:
    """What a number token stands for: an int where it is written as one."""
    value = float(token.text)
    if value == float("inf"):
        raise complaint(text, token.column, expected="a number must be at most about 1.8e308", got="a larger one")
    return int(token.text) if token.text.replace("_", "").isdigit() else value


def complaint(text: str, column: int, **fields: str) -> ConstraintError:
    """The error about one place of a text: after its fields it shows the line, and a caret under the place.

    >>> print(complaint("cf.age = 3", 7, expected="equality must be written `==`", got="'='"))
    equality must be written `==`, got '=' (column 8)
      cf.age = 3
             ^
    """
    start = text.rfind("\n", 0, column) + 1
    end = text.find("\n", column)
    line = text[start : end if end >= 0 else len(text)]
    offset = column - start
    cut = max(0, offset - SHOWN // 2) if len(line) > SHOWN else 0
    before = "..." if cut else ""
    after = "..." if len(line) > cut + SHOWN else ""
    pad = re.sub(r"[^\t]", " ", before + line[cut:offset])
    shown = before + line[cut : cut + SHOWN] + after
    row = f"line {text.count(chr(10), 0, column) + 1}, " if "\n" in text else ""
    error = ConstraintError(**fields)
    error.args = (f"{error} ({row}column {offset + 1})\n  {shown}\n  {pad}^",)
    return error


def _skip_space(text: str, column: int) -> int:
    match = _SPACE.match(text, column)
    return match.end() if match else column


def _no_token(character: str) -> dict[str, str]:
    """The fields of the error about a character that begins no token."""
    if character.isdigit():
        return {"statement": "invalid number", "hint": "write it like 12, 1_000, 0.5 or 1e6"}
    if character in ("'", '"'):
        return {"statement": "unterminated string", "hint": f"close it with {character} on the same line"}
    words = "outside quotes, a constraint must consist of words, numbers and operators"
    return {"expected": _SPELLINGS.get(character, words), "got": repr(character)}
