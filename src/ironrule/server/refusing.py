"""What the framework refuses, in the one shape of errors: what must hold, what came, what to do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from ironrule.server.problem import STATUSES, Problem, brief

SEE = "see /api/openapi.json"
SHOULD = re.compile(r"^(Input|String|List|Dictionary|Value|Tuple) should ")
SAID = {"Field required": "must be there", "Extra inputs are not permitted": "must not be there"}
BRANCH = re.compile(r"[^A-Za-z0-9_]")  # a place such as constrained-int or dict[str,...] is a way to read a field


def refusal(request: Request, error: HTTPException) -> Problem:
    """An address or a method that is not there."""
    status, headers = error.status_code, error.headers or {}
    if status == 404:
        came = f"{brief(request.url.path)} came"
        return Problem(404, "NotFound", "the address must be one of this server", came, "see /api")
    if status == 405:
        use = f"use {headers['allow']}" if "allow" in headers else "see /api"
        return Problem(405, "Method", STATUSES[405], f"{request.method} came", use, headers=headers)
    must_hold = STATUSES.get(status, "the request must be one that can be answered")
    return Problem(status, "Http", must_hold, str(error.detail), "see /api", headers=headers)


def invalid_request(error: RequestValidationError) -> Problem:
    """The first thing that does not fit, in all ways in which it could be read, and how many others there are."""
    found: Sequence[Any] = error.errors()
    first = found[0]
    if first["type"] == "json_invalid":
        came = f"at character {first['loc'][-1]}: {first.get('ctx', {}).get('error', 'something else')}"
        return Problem(422, "Invalid", "the body must be JSON", came, SEE)
    where = _where(first)
    same = [one for one in found if _where(one) == where]
    told = " or ".join(dict.fromkeys(_must(one) for one in same))
    others = len(found) - len(same)
    more = f" (and {others} more {'does' if others == 1 else 'do'} not fit)" if others else ""
    return Problem(422, "Invalid", f"{where} {told}", _came(first) + more, SEE)


def _where(error: Any) -> str:
    """The field, without the ways in which it could be read."""
    parts: list[str] = []
    for part in map(str, error["loc"]):
        if BRANCH.search(part) and error["type"] != "extra_forbidden":
            break
        parts.append(part)
    return ".".join(parts)[:200]


def _must(error: Any) -> str:
    message = str(error["msg"])
    return SAID.get(message, SHOULD.sub("must ", message))


def _came(error: Any) -> str:
    return "it is missing" if error["type"] == "missing" else f"{brief(error['input'])} came"
