"""The one shape of every error: what kind, what must hold, what came, and what to do.

Ironrule's own messages are written so ("... must ..., but ... came; do ..."), and are taken apart at those places.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ironrule.errors import AuditError, IronruleError, ModelError

CORRECT = "correct that and send it again; /api lists what is taken"
LONGEST = 100
LOG = "look at /explanations, which has all that were given"
STATUSES = {
    400: "this request cannot be used",
    401: "a token is needed",
    403: "this request may not come from there",
    404: "there is no such thing here",
    405: "the method must be one that this address takes",
    413: "too much was sent",
    415: "JSON is needed",
    422: "what was sent cannot be used",
    429: "too much at once",
    500: "the server failed",
    503: "the answer took too long",
}


class ErrorDetail(BaseModel):
    """What went wrong, taken apart."""

    model_config = ConfigDict(populate_by_name=True)

    kind: str = Field(description="a word for programs")
    what: str = Field(description="the whole message")
    must_hold: str = Field(description="what must hold")
    came: str = Field(description="what came instead")
    do: str = Field(description="what to do")


class ErrorAnswer(BaseModel):
    """Every error looks like this."""

    error: ErrorDetail


@dataclass(eq=False)
class Problem(Exception):  # noqa: N818  # it is one, and it is also what is told
    """An error on its way to whoever asked."""

    status: int
    kind: str
    must_hold: str
    came: str
    do: str = ""
    what: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """A few words for people."""
        return STATUSES.get(self.status, "an error")

    def to_dict(self) -> dict[str, Any]:
        """The error as plain data."""
        do = self.do or CORRECT
        what = self.what or f"{self.must_hold}, but {self.came}; {do}"
        detail = {"kind": self.kind, "what": what, "must_hold": self.must_hold, "came": self.came, "do": do}
        return {"error": detail}


def problem_of(error: IronruleError) -> Problem:
    """What Ironrule refuses, as a problem.

    >>> problem_of(IronruleError("k must be 1 or more, but 0 came; leave it out")).to_dict()["error"]["came"]
    '0 came'
    """
    message = str(error)
    must_hold, but, rest = message.replace(", got ", ", but got ", 1).partition(", but ")
    came, _, do = (rest if but else message).partition("; ")
    must_hold = must_hold if but else "what was sent must fit the model and the data"
    status = 500 if isinstance(error, (AuditError, ModelError)) else 422
    return Problem(status, type(error).__name__, must_hold, came, do, message)


def brief(value: Any) -> str:
    """What came, as text on one line that is never long; it goes to whoever sent it, and into no log.

    >>> brief("age\\n"), brief([1, 2]), brief("x" * 500)[-5:]
    ('"age\\\\n"', '[1, 2]', 'xxxx…')
    """
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def missing(what: str, came: object, do: str = "look at /applicants") -> Problem:
    """Nothing is there under the name or the number that came."""
    return Problem(404, "NotFound", f"{what} must exist", f"{brief(came)} came, and there is none such", do)


def busy(what: str) -> Problem:
    """Too much at once."""
    return Problem(429, "Busy", what, "as much is under way", "try again in a moment", headers={"Retry-After": "1"})
