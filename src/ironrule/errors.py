"""Every error that Ironrule raises on purpose.

    IronruleError
    ├── InputError               what came in cannot be used; the message says what must hold, what came, what to do
    │   ├── TableError           a table or a row does not fit
    │   ├── SpaceError           a space, a feature or a domain is not well formed
    │   ├── ConstraintError      a constraint cannot be read, names an unknown feature, or nothing satisfies it
    │   ├── OutcomeError         the desired outcome or the threshold does not fit the model, or the row is not denied
    │   └── BudgetError          a budget that allows nothing
    ├── StorageError             a file could not be written; the message says what is safe and what to do
    ├── ModelError               the user's model failed or answered with something that is no decision
    ├── AuditError               the server's audit log cannot be read or written
    └── MissingExtraError        an optional dependency is not installed; the message names the exact command

A search that finds nothing, or runs out of budget, is no error: its outcome is a value (see :mod:`ironrule.verdict`).
"""

from __future__ import annotations


class IronruleError(Exception):
    """The root: catch this to catch everything that Ironrule raises on purpose."""


class InputError(IronruleError, ValueError):
    """What came in cannot be used."""


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
        super().__init__(f"{purpose} needs {package}, which is not installed: pip install 'ironrule[{extra}]'")
