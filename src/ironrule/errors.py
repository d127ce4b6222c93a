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

The text is "expected, got ...; hint". All fields survive pickling, so an error may cross from a worker process.

A search that finds nothing, or runs out of budget, is no error: its outcome is a value (see :mod:`ironrule.verdict`).
"""

from __future__ import annotations

import re
from typing import Any


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
        self.expected = expected
        self.got = None if got is None else str(got)
        self.hint = hint
        self.code = code or _derive_code(type(self))
        if statement is None:
            statement = f"{expected or 'something else was expected'}" + (f", got {got}" if got is not None else "")
        self.statement = statement
        super().__init__(f"{statement}; {hint}" if hint else statement)

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


def format_with_hint(error: IronruleError, hint: str | None) -> str:
    """The text of an error with another hint than its own, such as one that names an option of the command line.

    >>> format_with_hint(InputError("unknown feature 'shoe'", hint="see space.names"), "see --help")
    "unknown feature 'shoe'; see --help"
    """
    if hint == error.hint:
        return str(error)
    return f"{error.statement}; {hint}" if hint else error.statement
