"""What the framework refuses, in the one shape of errors, from the fields of its own errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from ironrule.counting import counted
from ironrule.server.problem import STATUSES, Problem, brief

SEE = "see /api/openapi.json"
LONGEST_PLACE = 200
INTEGER, NUMBER, BOOLEAN, STRING, OBJECT = "an integer", "a number", "true or false", "a string", "an object"
MUST = {  # what pydantic's types of errors say of a value; the names in braces are its context
    "bool_parsing": f"be {BOOLEAN}",
    "bool_type": f"be {BOOLEAN}",
    "dict_type": f"be {OBJECT}",
    "finite_number": "be a finite number",
    "float_parsing": f"be {NUMBER}",
    "float_type": f"be {NUMBER}",
    "greater_than": "be greater than {gt}",
    "greater_than_equal": "be at least {ge}",
    "int_from_float": f"be {INTEGER}",
    "int_parsing": f"be {INTEGER}",
    "int_parsing_size": "be an integer with fewer digits",
    "int_type": f"be {INTEGER}",
    "less_than": "be less than {lt}",
    "less_than_equal": "be at most {le}",
    "list_type": "be a list",
    "literal_error": "be one of {expected}",
    "model_attributes_type": f"be {OBJECT}",
    "model_type": f"be {OBJECT}",
    "none_required": "be null",
    "string_too_long": "have at most {max_length} characters",
    "string_too_short": "have {min_length} or more characters",
    "string_type": f"be {STRING}",
    "string_unicode": "be valid Unicode",
    "too_long": "have at most {max_length} entries",
    "too_short": "have {min_length} or more entries",
}


def refusal(request: Request, error: HTTPException) -> Problem:
    """An address or a method that is not there."""
    status, headers = error.status_code, error.headers or {}
    path = brief(request.url.path)
    if status == 404:
        return Problem(404, "not-found", f"not found: {path}", hint="see /api")
    if status == 405:
        use = f"use {headers['Allow']}" if "Allow" in headers else "see /api"
        said = f"{request.method} is not allowed at {path}"
        return Problem(405, "method-not-allowed", said, hint=use, headers=headers)
    code = STATUSES.get(status, "HTTP error").lower().replace(" ", "-")
    return Problem(status, code, str(error.detail), hint="see /api", headers=headers)


def invalid_request(error: RequestValidationError) -> Problem:
    """The first field that is not valid, in all ways in which it could be read, and how many others there are."""
    found: Sequence[Any] = error.errors()
    first = found[0]
    if first["type"] == "json_invalid":
        why = first.get("ctx", {}).get("error", "something else was expected")
        said = f"the body is not valid JSON: {why} at character {first['loc'][-1]}"
        return Problem(422, "invalid-json", said, hint=SEE)
    place = _place(first, error.body)
    same = [one for one in found if _place(one, error.body) == place]
    others = len(found) - len(same)
    hint = f"{counted(others, 'other problem')} in this request; {SEE}" if others else SEE
    if first["type"] == "missing":
        return Problem(422, "invalid-request", f"{place} is required", hint=hint)
    if first["type"] == "extra_forbidden":
        return Problem(422, "invalid-request", f"unknown field {place} (value {brief(first['input'])})", hint=hint)
    expected = f"{place} must {' or '.join(dict.fromkeys(map(_must, same)))}"
    return Problem(422, "invalid-request", expected=expected, got=brief(first["input"]), hint=hint)


def _must(error: Any) -> str:
    """What must hold of a value, by the type of the error; pydantic's own words for a type that is not listed."""
    if error["type"] not in MUST:
        return f"be valid ({error['msg']})"
    return MUST[error["type"]].format(**error.get("ctx", {}))


def _place(error: Any, body: Any) -> str:
    """Where a field is. pydantic also names the ways in which it tried to read it, which are not in the body."""
    kind, *parts = error["loc"]
    if kind != "body":
        return ".".join(map(str, error["loc"]))[:LONGEST_PLACE]
    names, value = ["body"], body
    for part in parts:
        if _has(value, part):
            value = value[part]
        elif error["type"] != "missing" or part != parts[-1]:
            continue
        names.append(str(part))
    return ".".join(names)[:LONGEST_PLACE]


def _has(value: Any, part: str | int) -> bool:
    if isinstance(value, list):
        return isinstance(part, int) and part < len(value)
    return isinstance(value, dict) and part in value
