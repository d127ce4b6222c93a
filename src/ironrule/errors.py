"""Every error that Ironrule raises on purpose.

    IronruleError
    ├── InputError               an argument, a file or a request cannot be used
    │   ├── TableError           a table or a row does not fit
    │   ├── SpaceError           a space, a feature or a domain is not well formed
    │   ├── ConstraintError      a constraint cannot be read, names an unknown feature, or nothing satisfies it
    │   ├── OutcomeError         the desired outcome or the threshold does not fit the model, or the row is not denied
    │   └── BudgetError          a budget that allows nothing
    ├── StorageError             a file could not be written
    ├── ModelError               the user's model failed or answered with something that is no decision
    ├── AuditError               the server's audit log cannot be read or written
    └── MissingExtraError        an optional dependency is not installed

An error carries fields, so that no code has to parse its text:

``code``
    A stable name for programs, such as ``"value-outside-domain"``; the class has one for the general case.
``expected``, ``got``
    What must hold, and what was found instead.
``hint``
    What to do about it, in terms of the Python interface. The command line and the server have hints of their own for
    the codes whose hint names a Python argument.

The text is "expected, got ...; hint", in one line. All fields survive pickling, so an error may cross from a worker
process. Much of it comes from outside: names, values, what other libraries say. So every field is short whatever was
given, and control characters are shown as escapes (:func:`escape_controls`), so that no file or request can write to
somebody's terminal, forge a line of a log, or fill it.

A search that finds nothing, or runs out of budget, is no error: its outcome is a value (see :mod:`ironrule.verdict`).
"""

from __future__ import annotations

import re
from typing import Any, TypedDict

# C0 with escape and delete, C1, marks and overrides of the direction of writing, separators of lines, lone surrogates
CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_LINE_BREAKS = re.compile(r"\s*[\n\r]\s*")
MAX_GOT_CHARACTERS = 400
MAX_FIELD_CHARACTERS = 2000  # of the other fields


def escape_controls(text: str, keep: str = "") -> str:
    """A text from outside, safe to show: every control character as its escape.

    These are C0 and C1 controls, delete, marks and overrides of the direction of writing, separators of lines and
    paragraphs, and lone surrogates. ``keep`` has those that stay, such as the line breaks of a text that has lines.

    >>> escape_controls("\\x1b[2Jproven"), escape_controls("a\\nb"), escape_controls("a\\nb", keep="\\n")
    ('\\\\x1b[2Jproven', 'a\\\\nb', 'a\\nb')
    """
    return CONTROL_CHARACTERS.sub(lambda found: found[0] if found[0] in keep else ascii(found[0])[1:-1], text)


def shorten(text: str, most: int) -> str:
    """A text of about ``most`` characters: what is too much is cut out, and it is said how much.

    >>> shorten("a" * 1000, 10), shorten("short", 10)
    ('aaaaaaaaaa... (990 more characters)', 'short')
    """
    return text if len(text) <= most else f"{text[:most]}... ({len(text) - most:,} more characters)"


def describe_value(value: object, most: int = 100) -> str:
    """A value as a programmer writes it, short; of one that cannot be written so, its type.

    >>> describe_value("own"), describe_value(-(10**5000)), describe_value("a" * 1000, most=5)
    ("'own'", 'an int that cannot be shown', "'aaaa... (997 more characters)")
    """
    try:
        return _clean(repr(value), most)
    except Exception:  # any error in a repr that users wrote; or an int of too many digits
        name = type(value).__name__
        return f"{'an' if name[:1] in 'aeiou' else 'a'} {name} that cannot be shown"


def _clean(text: object, most: int = MAX_FIELD_CHARACTERS) -> str:
    """A field of an error: one line, short, without control characters."""
    try:
        shown = str(text)
    except Exception:  # as above
        return describe_value(text)
    return shorten(escape_controls(_LINE_BREAKS.sub(" ", shown)), most)


class IronruleError(Exception):
    """The root: catch this to catch everything that Ironrule raises on purpose.

    >>> error = InputError(expected="k must be a positive integer", got=0, hint="leave it out for one rule")
    >>> print(error)
    k must be a positive integer, got 0; leave it out for one rule
    >>> error.code, error.expected, error.got, error.hint
    ('input', 'k must be a positive integer', '0', 'leave it out for one rule')
    >>> print(InputError("digest mismatch: the document was modified after it was written"))
    digest mismatch: the document was modified after it was written
    """

    def __init__(
        self,
        statement: str | None = None,
        *,
        expected: str | None = None,
        got: object = None,
        hint: str | None = None,
        code: str | None = None,
    ) -> None:
        """Give either one ``statement``, or what was ``expected`` and, as it should be read, what was ``got``."""
        self.expected = None if expected is None else _clean(expected)
        self.got = None if got is None else _clean(got, MAX_GOT_CHARACTERS)
        self.hint = None if hint is None else _clean(hint)
        self.code = code or _derive_code(type(self))
        if statement is None:
            rule = self.expected or "something else was expected"
            self.statement = rule if self.got is None else f"{rule}, got {self.got}"
        else:
            self.statement = _clean(statement)
        super().__init__(f"{self.statement}; {self.hint}" if hint else self.statement)

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild an error from its fields: a subclass may take other arguments than its text."""
        return _restore, (type(self), self.args, self.__dict__)


def _derive_code(cls: type[IronruleError]) -> str:
    """The general code of a class, or of the class of this module above it: MissingExtraError has "missing-extra"."""
    own = next(base for base in cls.__mro__ if base.__module__ == __name__)
    return re.sub(r"(?<!^)(?=[A-Z])", "-", own.__name__.removesuffix("Error")).lower()


def _restore(cls: type[IronruleError], args: tuple[Any, ...], fields: dict[str, Any]) -> IronruleError:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(fields)
    if isinstance(error, ImportError):
        error.msg = str(args[0])  # what ImportError's own text is made of
    return error


class InputError(IronruleError, ValueError):
    """An argument, a file or a request cannot be used."""


class TableError(InputError):
    """A table or a row does not fit the space."""


class SpaceError(InputError):
    """A space, a feature or a domain is not well formed."""


class ConstraintError(InputError):
    """A constraint cannot be read, names an unknown feature, or nothing satisfies it."""


class OutcomeError(InputError):
    """The desired outcome does not fit the model, or the row already has it."""


class BudgetError(InputError):
    """A budget that allows nothing."""


class StorageError(IronruleError, OSError):
    """A file could not be written, such as on a full disk."""


class ModelError(IronruleError, RuntimeError):
    """The user's model failed, or answered with something that is no decision."""


class AuditError(IronruleError, RuntimeError):
    """The audit log cannot be read or written; an answer without a record is not given."""


class MissingExtraError(IronruleError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs {package}, which is not installed", hint=f"run pip install 'ironrule[{extra}]'"
        )


def build_format_error(what: str, expected: int, got: object, remedy: str) -> InputError:
    """The error for a file of another format than this version of Ironrule reads and writes.

    >>> print(build_format_error("an explanation", 5, 4, "explain the row again"))
    an explanation must have format 5, got 4; explain the row again, or use the version of ironrule that wrote it
    """
    newer = isinstance(got, int) and got > expected
    hint = "install a newer version of ironrule" if newer else f"{remedy}, or use the version of ironrule that wrote it"
    must = f"{what} must have format {expected}"
    return InputError(expected=must, got=str(got)[:40], hint=hint, code="wrong-format")


class ErrorFields(TypedDict):
    """The parts of an error as programs read them, the same on the command line (``--json``) and over HTTP."""

    code: str
    message: str
    expected: str | None
    got: str | None
    hint: str | None


def list_error_fields(error: IronruleError, hint: str | None) -> ErrorFields:
    """The fields of an error, with a hint for its readers there.

    >>> fields = list_error_fields(InputError(expected="k must be positive", got=0), "leave k out")
    >>> fields["message"], fields["code"], fields["hint"]
    ('k must be positive, got 0; leave k out', 'input', 'leave k out')
    """
    return {
        "code": error.code,
        "message": format_with_hint(error, hint),
        "expected": error.expected,
        "got": error.got,
        "hint": hint,
    }


def format_with_hint(error: IronruleError, hint: str | None) -> str:
    """The text of an error with another hint than its own, such as one that names an option of the command line.

    >>> format_with_hint(InputError("unknown feature 'shoe'", hint="see space.names"), "see --help")
    "unknown feature 'shoe'; see --help"
    """
    if hint == error.hint:
        return str(error)
    return f"{error.statement}; {hint}" if hint else error.statement
