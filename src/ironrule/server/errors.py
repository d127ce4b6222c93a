"""Errors as the API and the pages show them: a status, a code, a message, and its parts.

The fields are those of :class:`ironrule.IronruleError`; no text is parsed. Three kinds of errors are converted:

1. errors of the library. Their hints are for Python: where one names a Python argument, its error has a code, and the
   hint of the server is in ``SERVER_HINTS``;
2. errors of the framework (unknown address, invalid body), from the fields of FastAPI's and pydantic's own errors;
3. unexpected failures. The log gets their type and place under a random name, never their message, which may hold
   values of applicants.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException

from ironrule.errors import AuditError, IronruleError, ModelError, list_error_fields
from ironrule.wording import format_count

MAX_SHOWN_LENGTH = 100
LOG_HINT = "see /explanations for all explanations"

STATUS_TITLES = {
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

MODEL_HINT = "GET /api/model lists the features and their values; if the row has them, tell the operator of the server"
SERVER_HINTS: dict[str, str | None] = {
    "value-outside-domain": "GET /api/model lists the domain of every feature",
    "desired-required": "start the server with --desired LABEL",
    "threshold-required": "start the server with --threshold T",
    "threshold-per-model": "start the server with --threshold T",
    "exact-counterfactuals-unavailable": "use the algorithm geco",
    **dict.fromkeys(("missing-among-values", "unknown-algorithm", "batch-without-documents")),
    **dict.fromkeys(("ray-address-without-engine", "output-required", "probabilities-required", "network-classes")),
    **dict.fromkeys(
        ("bad-cost", "unknown-cost", "bad-target", "scores-required", "past-rows-required", "models-required")
    ),
    **dict.fromkeys(
        ("change-cost-without-changes", "unsuitable-model", "onnx-classes", "onnx-without-labels", "file-exists")
    ),  # of files and starts
    **dict.fromkeys(("unknown-to-saved-model", "target-not-saved", "undecided-point", "model-required")),
    "measured-rows-in-data": None,
    "no-past-rows-saved": "give the row by its values",
    **dict.fromkeys(("model-columns", "model-categories", "model-unknown-category", "model-text"), MODEL_HINT),
    "model-missing-values": MODEL_HINT,
}


class ErrorDetail(BaseModel):
    """What went wrong. An error that has no expected value, or no hint, has null there."""

    code: str = Field(description="a stable name for programs, such as row-not-denied")
    message: str = Field(description="the whole message")
    expected: str | None = Field(description="what must hold")
    got: str | None = Field(description="what was found instead")
    hint: str | None = Field(description="what to do about it")


class ErrorResponse(BaseModel):
    """Every error looks like this."""

    error: ErrorDetail


@dataclass(eq=False)
class ApiError(Exception):
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
        return STATUS_TITLES.get(self.status, "Error")

    def to_dict(self) -> dict[str, Any]:
        """The error as plain data."""
        return {"error": {name: getattr(self, name) for name in ErrorDetail.model_fields}}


def to_api_error(error: BaseException) -> ApiError:
    """Any error as an ``ApiError``: one of the library with the server's own hint where it has one for the code, an
    unexpected one as a failure of the server.

    >>> found = to_api_error(IronruleError(expected="k must be a positive integer", got=0, hint="leave it out"))
    >>> found.status, found.code, found.got, found.hint
    (422, 'ironrule', '0', 'leave it out')
    """
    if isinstance(error, ApiError):
        return error
    if not isinstance(error, IronruleError):
        return _log_unexpected_error(error)
    status = 500 if isinstance(error, (AuditError, ModelError)) else 422
    hint = SERVER_HINTS.get(error.code, error.hint)
    return ApiError(status, statement=error.statement, **list_error_fields(error, hint))


def format_brief(value: Any) -> str:
    """A value of a request, as one short line; it goes back to the client, and into no log.

    >>> format_brief("age\\n"), format_brief([1, 2]), format_brief("x" * 500)[-5:]
    ('"age\\\\n"', '[1, 2]', 'xxxx…')
    """
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= MAX_SHOWN_LENGTH else f"{text[:MAX_SHOWN_LENGTH]}…"


def build_not_found_error(what: str, hint: str = "see /applicants") -> ApiError:
    """An error for an unknown name or number.

    >>> build_not_found_error("explanation 17").message
    'not found: explanation 17; see /applicants'
    """
    return ApiError(404, "not-found", f"not found: {what}", hint=hint)


def build_busy_error(reason: str) -> ApiError:
    """Too many requests or jobs at the same time."""
    return ApiError(429, "too-many-requests", reason, hint="try again in a moment", headers={"Retry-After": "1"})


SCHEMA_HINT = "see /api/openapi.json"
MAX_LOCATION_LENGTH = 200

REQUIREMENTS = {  # what pydantic's types of errors say of a value; the names in braces are its context
    **dict.fromkeys(("bool_parsing", "bool_type"), "be true or false"),
    **dict.fromkeys(("dict_type", "model_attributes_type", "model_type"), "be an object"),
    **dict.fromkeys(("float_parsing", "float_type"), "be a number"),
    **dict.fromkeys(("int_from_float", "int_parsing", "int_type"), "be an integer"),
    "finite_number": "be a finite number",
    "greater_than": "be greater than {gt}",
    "greater_than_equal": "be at least {ge}",
    "int_parsing_size": "be an integer with fewer digits",
    "less_than": "be less than {lt}",
    "less_than_equal": "be at most {le}",
    "list_type": "be a list",
    "literal_error": "be one of {expected}",
    "none_required": "be null",
    "string_too_long": "have at most {max_length} characters",
    "string_too_short": "have {min_length} or more characters",
    "string_type": "be a string",
    "string_unicode": "be valid Unicode",
    "too_long": "have at most {max_length} entries",
    "too_short": "have {min_length} or more entries",
}


def convert_http_exception(request: Request, error: HTTPException) -> ApiError:
    """An error of Starlette: an unknown path or method, or a broken form."""
    status, headers = error.status_code, error.headers or {}
    path = format_brief(request.url.path)
    if status == 404:
        return ApiError(404, "not-found", f"not found: {path}", hint="see /api")
    if status == 405:
        hint = f"use {headers['Allow']}" if "Allow" in headers else "see /api"
        statement = f"{request.method} is not allowed at {path}"
        return ApiError(405, "method-not-allowed", statement, hint=hint, headers=headers)
    code = STATUS_TITLES.get(status, "HTTP error").lower().replace(" ", "-")
    return ApiError(status, code, str(error.detail), hint="see /api", headers=headers)


def convert_validation_error(error: RequestValidationError) -> ApiError:
    """The first field that is not valid, in all ways in which it could be read, and how many others there are."""
    found: Sequence[Any] = error.errors()
    first, schema_hint = found[0], None if isinstance(error.body, FormData) else SCHEMA_HINT
    if first["type"] == "json_invalid":
        why = first.get("ctx", {}).get("error", "something else was expected")
        statement = f"the body is not valid JSON: {why} at character {first['loc'][-1]}"
        return ApiError(422, "invalid-json", statement, hint=schema_hint)
    place = _locate_field(first, error.body)
    same = [one for one in found if _locate_field(one, error.body) == place]
    others = len(found) - len(same)
    count = f"{format_count(others, 'other problem')} in this request" if others else None
    hint = "; ".join(filter(None, (count, schema_hint))) or None
    if first["type"] == "missing":
        return ApiError(422, "invalid-request", f"{place} is required", hint=hint)
    if first["type"] == "extra_forbidden":
        statement = f"unknown field {place} (value {format_brief(first['input'])})"
        return ApiError(422, "invalid-request", statement, hint=hint)
    expected = f"{place} must {' or '.join(dict.fromkeys(map(_describe_requirement, same)))}"
    return ApiError(422, "invalid-request", expected=expected, got=format_brief(first["input"]), hint=hint)


def _describe_requirement(error: Any) -> str:
    """What must hold of a value, by the type of the error; pydantic's own words for a type that is not listed."""
    if error["type"] not in REQUIREMENTS:
        return f"be valid ({error['msg']})"
    return REQUIREMENTS[error["type"]].format(**error.get("ctx", {}))


def _locate_field(error: Any, body: Any) -> str:
    """Where a field is. pydantic also names the ways in which it tried to read it, which are not in the body."""
    kind, *parts = error["loc"]
    if kind != "body":
        return ".".join(map(str, error["loc"]))[:MAX_LOCATION_LENGTH]
    names, value = [] if isinstance(body, FormData) else ["body"], body
    for part in parts:
        if _has_item(value, part):
            value = value[part]
        elif error["type"] != "missing" or part != parts[-1]:
            continue
        names.append(str(part))
    return ".".join(names)[:MAX_LOCATION_LENGTH]


def _has_item(value: Any, part: str | int) -> bool:
    if isinstance(value, list):
        return isinstance(part, int) and part < len(value)
    return isinstance(value, Mapping) and part in value


DEBUG_VARIABLE = "IRONRULE_DEBUG"
logger = logging.getLogger("ironrule.server")


def _log_unexpected_error(error: BaseException) -> ApiError:
    """Log a failure under a random name, which the response has too; its message may hold values, so it stays out."""
    name = secrets.token_hex(4)
    places = traceback.extract_tb(error.__traceback__)
    where = f"{places[-1].filename}:{places[-1].lineno}" if places else "unknown"
    logger.error("failure %s: %s at %s", name, type(error).__name__, where)
    if os.environ.get(DEBUG_VARIABLE):
        logger.error("failure %s in full", name, exc_info=error)
    hint = f"report failure {name} to the operator of the server; {DEBUG_VARIABLE}=1 logs it in full"
    return ApiError(500, "internal-error", f"the server failed ({type(error).__name__})", hint=hint)
