"""Errors of the API: each says what must hold, what came, and what to do; what came is short, and in no log."""

from __future__ import annotations

import logging
from typing import Any

import httpx
import pytest
from served import GRANTED

from ironrule.server.problem import LONGEST, brief, problem_of

LONG = "<script>" + "x" * 5000
REFUSED: list[tuple[str, str, Any, str]] = [
    ("GET", "/api/nothing", None, '"/api/nothing" came'),
    ("PUT", "/api/model", None, "PUT came"),
    ("GET", "/api/applicants?page=0", None, '"0" came'),
    ("GET", "/api/applicants?outcome=maybe", None, '"maybe" came'),
    ("GET", "/api/applicants?search=forgotten", None, '"forgotten" came, and there is none such'),
    ("POST", "/api/searches", {"text": 5}, "5 came"),
    ("POST", "/api/searches", {}, "it is missing"),
    ("POST", "/api/searches", {"text": "duration in month >= long"}, '"long" came'),
    ("POST", "/api/searches", {"text": "purpose >= business"}, ">= came"),
    ("POST", "/api/explain", {"row": -1}, "-1 came"),
    ("POST", "/api/explain", {"row": [1]}, "[1] came"),
    ("POST", "/api/explain", {"row": 99_999}, "99999 came, and there is none such"),
    ("POST", "/api/explain", {"row": GRANTED}, "the model already gives it the desired one"),
    ("POST", "/api/explain", {"row": 1, "algorithm": "magic"}, '"magic" came'),
    ("POST", "/api/explain", {"row": 1, "shoe": 4}, "4 came"),
    ("POST", "/api/explain", {"row": 1, "k": 0, "seed": -3}, "0 came (and 1 more does not fit)"),
    ("POST", "/api/explain", {"row": 1, "require": ["shoe"]}, "'shoe' is no feature of this space"),
    ("POST", "/api/explain", {"row": {"purpose": "business"}}, "none came"),
    ("POST", "/api/counterfactuals", {"row": 1, "constraints": ["cf.x >"]}, "the end of the text came"),
    ("POST", "/api/counterfactuals", {"row": 1, "permitted_range": {"purpose": [{"date": "now"}]}}, '"now" came'),
    ("POST", "/api/check", {"explanation": {"format": 99}}, "got 99"),
    ("POST", "/api/check", {"explanation": 5}, "5 came"),
    ("POST", "/api/what-if", {"row": 1, "changes": {"purpose": "moon"}}, '"moon" came'),
    ("POST", "/api/what-if", {"row": 1, "explanation": 77_777}, "77777 came, and there is none such"),
    ("GET", "/api/explanations/none", None, '"none" came'),
    ("POST", "/api/jobs/batch", {"rows": []}, "[] came"),
    ("GET", "/api/jobs/none", None, '"none" came, and there is none such'),
    ("POST", "/api/explain", {"row": 1, "k": LONG}, "x… came"),
    ("POST", "/api/what-if", {"row": 1, "changes": {"purpose": LONG}}, "x… came"),
]


@pytest.mark.parametrize(("method", "path", "body", "came"), REFUSED, ids=lambda one: str(one)[:40])
def test_every_refusal_says_what_must_hold_what_came_and_what_to_do(
    client: httpx.Client, method: str, path: str, body: Any, came: str
) -> None:
    answer = client.request(method, path, json=body)
    assert 400 <= answer.status_code < 500
    error = answer.json()["error"]
    assert list(answer.json()) == ["error"]
    assert set(error) == {"kind", "what", "must_hold", "came", "do"}
    assert all(error.values())
    assert came in error["came"]
    assert error["came"] in error["what"]
    assert len(error["came"]) < LONGEST + 200


@pytest.mark.parametrize(
    ("headers", "came"),
    [
        ({"host": "evil.example"}, '"evil.example" came'),
        ({"origin": "https://evil.example"}, 'from "https://evil.example"'),
        ({"content-type": "text/plain"}, '"text/plain" came'),
    ],
)
def test_headers_that_are_refused_are_shown(client: httpx.Client, headers: dict[str, str], came: str) -> None:
    content = {"content-type": "application/json"} | headers
    assert came in client.post("/api/searches", content=b"{}", headers=content).json()["error"]["came"]


def test_a_body_that_is_no_json_is_told_where(client: httpx.Client) -> None:
    answer = client.post("/api/searches", content=b'{"text" 5}', headers={"content-type": "application/json"})
    assert answer.json()["error"]["came"].startswith("at character 8: Expecting")


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
    from ironrule.server.guard import _nobody

    assert (_nobody(True).came, _nobody(False).came) == ("one came that is not known here, or no longer", "none came")


def test_what_cannot_be_written_as_json_is_named_by_its_type() -> None:
    assert brief(object()) == "object"
    assert brief("ä\n") == '"\\u00e4\\n"'


def test_a_message_without_a_but_is_taken_apart_too() -> None:
    from ironrule.errors import SpaceError

    told = problem_of(SpaceError("'shoe' is no feature of this space; did you mean 'show'?")).to_dict()["error"]
    assert told["came"] == "'shoe' is no feature of this space"
    assert told["do"] == "did you mean 'show'?"
