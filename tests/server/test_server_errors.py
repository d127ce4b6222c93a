"""Errors of the API: each says what was expected, what was got, and what to do; values are short, and in no log."""

from __future__ import annotations

import logging
from typing import Any

import httpx
import pytest
from server_examples import GRANTED
from starlette.requests import Request

from ironrule.errors import AuditError, InputError, ModelError, SpaceError
from ironrule.server.auth import BrowserSessions
from ironrule.server.errors import MAX_SHOWN_LENGTH, ApiError, format_brief, to_api_error
from ironrule.server.settings import ServerSettings

LONG = "<script>" + "x" * 5000
INVALID = "invalid-request"
REFUSED: list[tuple[str, str, Any, str, str | None, str]] = [  # with the code, what was got, and the message up to it
    ("GET", "/api/nothing", None, "not-found", None, 'not found: "/api/nothing"; see /api'),
    ("PUT", "/api/model", None, "method-not-allowed", None, 'PUT is not allowed at "/api/model"; use GET'),
    ("GET", "/api/applicants?page=0", None, INVALID, '"0"', "query.page must be at least 1"),
    ("GET", "/api/applicants?page=x", None, INVALID, '"x"', "query.page must be an integer"),
    ("GET", "/api/applicants?outcome=maybe", None, INVALID, '"maybe"',
     "query.outcome must be one of 'any', 'desired' or 'undesired'"),
    ("GET", "/api/applicants?search=old", None, "not-found", None, 'not found: search "old"; old searches are dropped'),
    ("POST", "/api/searches", {"text": 5}, INVALID, "5", "body.text must be a string"),
    ("POST", "/api/searches", {}, INVALID, None, "body.text is required; see /api/openapi.json"),
    ("POST", "/api/searches", [], INVALID, "[]", "body must be an object"),
    ("POST", "/api/searches", {"text": "duration in month >= long"}, "input", "'long'",
     "the value in a condition on 'duration_in_month' must be one of "),
    ("POST", "/api/searches", {"text": "purpose >= business"}, "input", ">= 'business'",
     "a condition on the nominal feature 'purpose' must be an equality"),
    ("POST", "/api/explain", {"row": -1}, INVALID, "-1", "body.row must be at least 0 or be an object"),
    ("POST", "/api/explain", {"row": [1]}, INVALID, "[1]", "body.row must be an integer or be an object"),
    ("POST", "/api/explain", {"row": 99_999}, "not-found", None, "not found: applicant 99999; see /applicants"),
    ("POST", "/api/explain", {"row": GRANTED}, "row-not-denied", "the desired outcome",
     "the row must have the undesired outcome"),
    ("POST", "/api/explain", {"row": 1, "algorithm": "magic"}, INVALID, '"magic"',
     "body.algorithm must be one of 'auto', 'minimum', "),
    ("POST", "/api/explain", {"row": 1, "shoe": 4}, INVALID, None,
     "unknown field body.shoe (value 4); see /api/openapi.json"),
    ("POST", "/api/explain", {"row": 1, "k": 0, "seed": -3}, INVALID, "0", "body.k must be at least 1"),
    ("POST", "/api/explain", {"row": 1, "widen": "perhaps"}, INVALID, '"perhaps"', "body.widen must be true or false"),
    ("POST", "/api/explain", {"row": 1, "seconds": 0}, INVALID, "0", "body.seconds must be greater than 0"),
    ("POST", "/api/explain", {"row": 1, "require": ["a", 5]}, INVALID, "5", "body.require.1 must be a string"),
    ("POST", "/api/explain", {"row": 1, "require": ["shoe"]}, "unknown-feature", None, "unknown feature 'shoe'; "),
    ("POST", "/api/explain", {"row": {"purpose": "business"}}, "table", "none", "a row must have a value for "),
    ("POST", "/api/counterfactuals", {"row": 1, "constraints": ["cf.x >"]}, "constraint", "the end of the text", ""),
    ("POST", "/api/counterfactuals", {"row": 1, "permitted_range": {"purpose": [{"date": "now"}]}}, "table", '"now"',
     "a date must be written as 2024-12-31"),
    ("POST", "/api/check", {"explanation": {"format": 99}}, "wrong-format", "99", "an explanation must have format "),
    ("POST", "/api/check", {"explanation": 5}, INVALID, "5", "body.explanation must be an object"),
    ("POST", "/api/what-if", {"row": 1, "changes": {"credit_amount": "moon"}}, "table", "'moon'",
     "'credit_amount' must be a number"),
    ("POST", "/api/what-if", {"row": 1, "changes": {"purpose": []}}, INVALID, "[]",
     "body.changes.purpose must be true or false or be an integer or be a number or be a string or be an object"),
    ("POST", "/api/what-if", {"row": 1, "changes": {"purpose": {"date": 5}}}, INVALID, '{"date": 5}',
     "body.changes.purpose must be true or false or "),
    ("POST", "/api/what-if", {"row": 1, "explanation": 77_777}, "not-found", None,
     "not found: explanation 77777; see /explanations"),
    ("GET", "/api/explanations/none", None, INVALID, '"none"', "path.number must be an integer"),
    ("POST", "/api/jobs/batch", {"rows": []}, INVALID, "[]", "body.rows must have 1 or more entries"),
    ("GET", "/api/jobs/none", None, "not-found", None, 'not found: job "none"; old jobs are dropped'),
    ("POST", "/api/explain", {"row": 1, "k": LONG}, INVALID, f'"{LONG}'[:MAX_SHOWN_LENGTH] + "…",
     "body.k must be an integer"),
    ("POST", "/api/what-if", {"row": 1, "changes": {LONG: 1}}, "unknown-feature", None, "unknown feature "),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "body", "code", "got", "message"), REFUSED, ids=lambda one: str(one)[:40])
def test_every_refusal_says_what_was_expected_what_was_got_and_what_to_do(
    client: httpx.Client, method: str, path: str, body: Any, code: str, got: str | None, message: str
) -> None:
    answer = client.request(method, path, json=body)
    assert 400 <= answer.status_code < 500
    error = answer.json()["error"]
    assert list(answer.json()) == ["error"]
    assert list(error) == ["code", "message", "expected", "got", "hint"]
    assert (error["code"], error["got"]) == (code, got)
    assert error["message"].startswith(message)
    if got is not None:
        assert f"{error['expected']}, got {got}" in error["message"]
    assert error["hint"] is None or error["hint"] in error["message"]
    assert len(error["got"] or "") < MAX_SHOWN_LENGTH + 200


def test_other_fields_that_are_not_valid_are_counted(client: httpx.Client) -> None:
    error = client.post("/api/explain", json={"row": 1, "k": 0, "seed": -3}).json()["error"]
    assert error["hint"] == "1 other problem in this request; see /api/openapi.json"


def test_every_type_of_error_that_pydantic_has_is_told() -> None:
    from typing import get_args

    from fastapi.exceptions import RequestValidationError
    from pydantic_core.core_schema import ErrorType

    from ironrule.server.errors import REQUIREMENTS, convert_validation_error

    assert set(REQUIREMENTS) <= set(get_args(ErrorType))
    strange = {"type": "url_parsing", "loc": ("body", "link"), "msg": "Input should be a valid URL", "input": 5}
    found = convert_validation_error(RequestValidationError([strange], body={"link": 5}))
    assert found.message == "body.link must be valid (Input should be a valid URL), got 5; see /api/openapi.json"


@pytest.mark.parametrize(
    ("headers", "code", "got"),
    [
        ({"host": "evil.example"}, "unknown-host", '"evil.example"'),
        ({"origin": "https://evil.example"}, "cross-site-request", 'one from "https://evil.example"'),
        ({"content-type": "text/plain"}, "not-json", '"text/plain"'),
    ],
)
def test_headers_that_are_refused_are_shown(client: httpx.Client, headers: dict[str, str], code: str, got: str) -> None:
    content = {"content-type": "application/json"} | headers
    error = client.post("/api/searches", content=b"{}", headers=content).json()["error"]
    assert (error["code"], error["got"]) == (code, got)


def test_a_body_that_is_no_json_is_told_where(client: httpx.Client) -> None:
    answer = client.post("/api/searches", content=b'{"text" 5}', headers={"content-type": "application/json"})
    error = answer.json()["error"]
    assert error["code"] == "invalid-json"
    assert error["message"].startswith("the body is not valid JSON: Expecting ':' delimiter at character 8; ")


def test_what_came_is_escaped_on_a_page(client: httpx.Client) -> None:
    page = client.post("/applicants/1/explain", data={"seconds": "<b>soon</b>"})
    assert page.status_code == 422
    assert "<b>soon" not in page.text
    assert "&lt;b&gt;soon" in page.text


def test_what_came_is_in_no_log(client: httpx.Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client.post("/api/what-if", json={"row": 1, "changes": {"purpose": "a secret purpose"}})
    client.post("/api/explain", json={"row": {"purpose": "a secret purpose"}, "k": "a secret purpose"})
    ours = [record.getMessage() for record in caplog.records if record.name.startswith(("ironrule", "uvicorn"))]
    assert not [line for line in ours if "secret" in line]


def test_a_token_that_is_not_known_is_told_from_none() -> None:
    sessions = BrowserSessions(ServerSettings(tokens={"a-token-of-16-chars": "ann"}))
    for headers, got in ([(b"authorization", b"Bearer x")], "an unknown or expired token"), ([], "none"):
        with pytest.raises(ApiError) as refused:
            sessions.authenticate(Request({"type": "http", "path": "/applicants", "headers": headers}))
        assert (refused.value.status, refused.value.got) == (401, got)


def test_what_cannot_be_written_as_json_is_named_by_its_type() -> None:
    assert format_brief(object()) == "object"
    assert format_brief("ä\n") == '"\\u00e4\\n"'


def test_the_fields_of_an_error_of_the_library_are_those_of_the_answer() -> None:
    error = InputError(
        expected="k must be a positive integer, not 1, 2", got="'x; y', got 5", hint="leave; it, got out"
    )
    assert to_api_error(error).to_dict()["error"] == {
        "code": "input",
        "message": "k must be a positive integer, not 1, 2, got 'x; y', got 5; leave; it, got out",
        "expected": "k must be a positive integer, not 1, 2",
        "got": "'x; y', got 5",
        "hint": "leave; it, got out",
    }
    plain = to_api_error(SpaceError("unknown feature 'shoe'", hint="did you mean 'show'?", code="unknown-feature"))
    assert (plain.expected, plain.got, plain.hint) == (None, None, "did you mean 'show'?")
    assert (plain.status, plain.code) == (422, "unknown-feature")


def test_a_failure_of_the_model_or_of_the_log_is_the_servers() -> None:
    assert [to_api_error(kind("no")).status for kind in (ModelError, AuditError, InputError)] == [500, 500, 422]


def test_the_hint_of_the_server_replaces_one_in_python() -> None:
    error = InputError("no exact search here", hint="use algorithm='geco'", code="exact-counterfactuals-unavailable")
    assert to_api_error(error).message == "no exact search here; use the algorithm geco"
    error = InputError(
        expected="algorithm must be one of a, b", got="'c'", hint="or pass C()", code="unknown-algorithm"
    )
    assert to_api_error(error).to_dict()["error"]["hint"] is None
    assert to_api_error(error).message == "algorithm must be one of a, b, got 'c'"


HALF = b'"\\ud800"'
HALF_CHARACTERS = [
    ("/api/explain", b'{"row": {"purpose": %s}}'),
    ("/api/explain", b'{"row": {%s: 1}}'),
    ("/api/explain", b'{"row": 1, "require": [%s]}'),
    ("/api/explain", b'{"row": 1, "where": [%s]}'),
    ("/api/explain", b'{"row": 1, %s: 1}'),
    ("/api/explain", b"%s"),
    ("/api/counterfactuals", b'{"row": 1, "permitted_range": {"purpose": [%s]}}'),
    ("/api/what-if", b'{"row": 1, "changes": {"purpose": %s}}'),
    ("/api/what-if", b'{"row": 1, "changes": {%s: 1}}'),
    ("/api/searches", b'{"text": %s}'),
    ("/api/jobs/batch", b'{"rows": [%s]}'),
    ("/api/check", b'{"explanation": {"format": %s}}'),
    ("/api/check", b'{"explanation": {"constraints": [%s]}}'),
    ("/api/check", b'{"explanation": {%s: 1}}'),
]


@pytest.mark.parametrize(("path", "body"), HALF_CHARACTERS, ids=str)
@pytest.mark.parametrize("half", [HALF, b'"\\uDFFF\\uD800"', b'"a\\udc00b"'], ids=str)
def test_half_a_character_is_refused(client: httpx.Client, path: str, body: bytes, half: bytes) -> None:
    answer = client.post(path, content=body.replace(b"%s", half), headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert list(answer.json()["error"]) == ["code", "message", "expected", "got", "hint"]
    assert answer.json()["error"]["message"].startswith("all texts must be valid Unicode, got the lone surrogate '\\ud")


def test_a_whole_character_in_two_halves_and_an_escaped_backslash_are_taken(client: httpx.Client) -> None:
    for text in (b'"\\ud83d\\ude00"', b'"\\\\ud800"'):
        body = b'{"text": ' + text + b"}"
        answer = client.post("/api/searches", content=body, headers={"content-type": "application/json"})
        assert (answer.status_code, answer.json()["total"]) == (200, 0)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/x-www-form-urlencoded", b"explanation=%22%5Cud800%22"),
        ("application/x-www-form-urlencoded", b"explanation=%ED%A0%80"),
        ("multipart/form-data; boundary=a; charset=unicode_escape",
         b'--a\r\nContent-Disposition: form-data; name="explanation"\r\n\r\n\\ud800\r\n--a--\r\n'),
    ],
    ids=["pasted", "in the form", "by its encoding"],
)  # fmt: skip
def test_half_a_character_in_a_form_is_refused(client: httpx.Client, kind: str, body: bytes) -> None:
    headers = {"content-type": kind, "accept": "application/json"}
    answer = client.post("/check", content=body, headers=headers)
    assert answer.status_code in (415, 422)
    assert list(answer.json()["error"]) == ["code", "message", "expected", "got", "hint"]


@pytest.mark.parametrize(
    "path", ["/api/jobs/%ED%A0%80", "/api/applicants?search=%ED%A0%80", "/api/%ED%A0%80", "/api/explanations/%ED%A0%80"]
)
def test_half_a_character_in_an_address_is_not_found(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code in (404, 422)
    assert list(answer.json()) == ["error"]
