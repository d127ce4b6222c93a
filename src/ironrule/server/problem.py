"""Errors as the API and the pages show them: a status, a code, a message, and its parts.

The fields are those of :class:`ironrule.IronruleError`; no text is taken apart. The hints of the library are for
Python: where one names a Python argument, its error has a code, and the hint of the server is in ``HINTS``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, Field

from ironrule.errors import AuditError, IronruleError, ModelError, text_with_hint

LONGEST = 100
LOG = "see /explanations for all explanations"
STATUSES = {
    400: "Bad request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    413: "Content too large",
    415: "Unsupported media type",
    422: "Invalid request",
    429: "Too many requests",
    500: "Server error",
    503: "Service unavailable",
}
HINTS: dict[str, str | None] = {
    "value-outside-domain": "GET /api/model lists the domain of every feature",
    "constant-column": None,
    "missing-among-values": None,
    "desired-required": "start the server with --desired LABEL",
    "threshold-required": "start the server with --threshold T",
    "threshold-per-model": "start the server with --threshold T",
    "unknown-algorithm": None,
    "exact-counterfactuals-unavailable": "use the algorithm geco",
    "batch-without-documents": None,
    "ray-address-without-engine": None,
    "output-required": None,
    "probabilities-required": None,
    "network-classes": None,
}


class ErrorDetail(BaseModel):
    """What went wrong. An error that has no expected value, or no hint, has null there."""

    code: str = Field(description="a stable name for programs, such as row-not-denied")
    message: str = Field(description="the whole message")
    expected: str | None = Field(description="what must hold")
    got: str | None = Field(description="what was found instead")
    hint: str | None = Field(description="what to do about it")


class ErrorAnswer(BaseModel):
    """Every error looks like this."""

    error: ErrorDetail


@dataclass(eq=False)
class Problem(Exception):  # noqa: N818  # it is one, and it is also what is told
    """An error on its way to the client: one ``statement``, or what was ``expected`` and what was ``got``."""

    status: int
    code: str
    statement: str = ""
    expected: str | None = None
    got: str | None = None
    hint: str | None = None
    message: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.statement = self.statement or f"{self.expected}, got {self.got}"
        self.message = self.message or (f"{self.statement}; {self.hint}" if self.hint else self.statement)

    def __str__(self) -> str:
        return self.message

    @property
    def title(self) -> str:
        """The name of the status."""
        return STATUSES.get(self.status, "Error")

    def to_dict(self) -> dict[str, Any]:
        """The error as plain data."""
        return {"error": {name: getattr(self, name) for name in ErrorDetail.model_fields}}


def problem_of(error: IronruleError) -> Problem:
    """An error of the library as a problem, with the server's own hint where it has one for the code.

    >>> found = problem_of(IronruleError(expected="k must be a positive integer", got=0, hint="leave it out"))
    >>> found.status, found.code, found.got, found.hint
    (422, 'error', '0', 'leave it out')
    """
    status = 500 if isinstance(error, (AuditError, ModelError)) else 422
    hint = HINTS.get(error.code, error.hint)
    message = text_with_hint(error, hint)
    return Problem(status, error.code, error.statement, error.expected, error.got, hint, message)


def brief(value: Any) -> str:
    """A value of a request, as one short line; it goes back to the client, and into no log.

    >>> brief("age\\n"), brief([1, 2]), brief("x" * 500)[-5:]
    ('"age\\\\n"', '[1, 2]', 'xxxx…')
    """
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def missing(what: str, hint: str = "see /applicants") -> Problem:
    """Nothing has this name or number.

    >>> missing("explanation 17").message
    'not found: explanation 17; see /applicants'
    """
    return Problem(404, "not-found", f"not found: {what}", hint=hint)


def busy(why: str) -> Problem:
    """Too much at once."""
    return Problem(429, "too-many-requests", why, hint="try again in a moment", headers={"Retry-After": "1"})
