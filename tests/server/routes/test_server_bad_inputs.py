"""Bad inputs over HTTP: every one is refused with a status of 400 to 499 and an error that says what is wrong."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from server_examples import DENIED, GRANTED

from ironrule.errors import CONTROL_CHARACTERS

LONG = "x" * 100_000
ROWS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "-1": (-1, ("row",)),
    "1.5": (1.5, ("row",)),
    "too large": (10**9, ("not found", "1000000000")),
    "10**30": (10**30, ("row",)),
    "None": (None, ("row",)),
    "True": (True, ("row",)),
    "text": ("0", ("row",)),
    "long text": (LONG, ("row",)),
    "list": ([1], ("row",)),
    "empty": ({}, ("must have a value for",)),
    "unknown column": ({"shoe": 3}, ("shoe",)),
    "control characters": ({"\x1b[2J": "\x1b[2J"}, ("x1b",)),
    "nested": ({"age": {"age": {"age": 3}}}, ("row",)),
    "list for a number": ({"age": [3]}, ("row",)),
    "an approved row": (GRANTED, ("desired outcome",)),
}
OPTIONS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "k 0": ({"k": 0}, ("k",)),
    "k text": ({"k": "many"}, ("k",)),
    "k huge": ({"k": 10**30}, ("k",)),
    "seed -1": ({"seed": -1}, ("seed",)),
    "seconds 0": ({"seconds": 0}, ("seconds",)),
    "seconds text": ({"seconds": "long"}, ("seconds",)),
    "evaluations -1": ({"evaluations": -1}, ("evaluations",)),
    "algorithm": ({"algorithm": "magic"}, ("algorithm",)),
    "prefer": ({"prefer": "speed"}, ("prefer",)),
    "change cost": ({"change_cost": "l3"}, ("change_cost",)),
    "price of a change": ({"change_cost": {"prices": {"shoe": 2}}}, ("shoe",)),
    "widen": ({"widen": "perhaps"}, ("widen",)),
    "require": ({"require": ["shoe"]}, ("shoe",)),
    "require number": ({"require": 3}, ("require",)),
    "require long": ({"require": [LONG]}, ("require",)),
    "forbid": ({"forbid": ["shoe"]}, ("shoe",)),
    "weights": ({"weights": {"shoe": 2}}, ("shoe",)),
    "weights zero": ({"weights": {"age": 0}}, ("age",)),
    "weights text": ({"weights": "heavy"}, ("weights",)),
    "where": ({"where": ["cf.age ="]}, ("equality must be written",)),
    "where unknown": ({"where": ["cf.shoe > 3"]}, ("shoe",)),
    "where deep": ({"where": ["(" * 400]}, ("nested more than 32 levels",)),
    "where long": ({"where": [LONG]}, ("where",)),
    "where nobody": ({"where": ["cf.age_in_years > 1000"]}, ("satisfies the constraints",)),
    "where digits": ({"where": ["cf.age_in_years > " + "9" * 400]}, ("1.8e308",)),
    "where control characters": ({"where": ["cf.age > \x1b[2J"]}, ("constraint must be", "u001b")),
    "unknown field": ({"magic": 3}, ("magic",)),
}
DOCUMENTS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "empty": ({}, ("explanation",)),
    "None": (None, ("explanation",)),
    "list": ([], ("explanation",)),
    "format": ({"format": 99}, ("format",)),
    "rules": ({"format": 5, "rules": [{}]}, ("explanation",)),
    "deep": ({"a": [[[[[[[[[[]]]]]]]]]]}, ("explanation",)),
}
BODIES: dict[str, bytes] = {
    "empty": b"",
    "no JSON": b"{",
    "deep": b"[" * 50_000,
    "digits": b'{"row": ' + b"9" * 5000 + b"}",
    "binary": bytes(range(256)),
    "a number": b"3",
    "a list": b"[]",
    "NaN": b'{"row": NaN}',
    "infinity": b'{"row": 1, "seconds": Infinity}',
}
CASES: dict[str, tuple[str, Any, tuple[str, ...]]] = {
    **{f"row: {name}": ("/api/explain", {"row": row}, words) for name, (row, words) in ROWS.items()},
    **{f"option: {name}": ("/api/explain", {"row": DENIED} | more, words) for name, (more, words) in OPTIONS.items()},
    **{f"check: {name}": ("/api/check", {"explanation": one}, words) for name, (one, words) in DOCUMENTS.items()},
    "what if: row": ("/api/what-if", {"row": -1}, ("row",)),
    "what if: changes": ("/api/what-if", {"row": DENIED, "changes": {"shoe": 3}}, ("shoe",)),
    "counterfactuals: vary": ("/api/counterfactuals", {"row": DENIED, "features_to_vary": ["shoe"]}, ("shoe",)),
    "counterfactuals: range": ("/api/counterfactuals", {"row": DENIED, "permitted_range": {"shoe": [1]}}, ("shoe",)),
    "counterfactuals: k": ("/api/counterfactuals", {"row": DENIED, "k": 0}, ("k",)),
}


PAGES: dict[str, tuple[str, str, dict[str, str] | None, tuple[str, ...]]] = {
    "sort: word": ("GET", "/applicants?sort=magic", None, ("sort must be",)),
    "sort: feature": (
        "GET",
        "/applicants?sort=feature:durations_in_month",
        None,
        ("mean 'duration_in_month'",),
    ),
    "sort: long": ("GET", f"/applicants?sort={'x' * 270}", None, ("sort",)),
    "sort: control characters": ("GET", "/applicants?sort=%1b%5b2J", None, ("u001b",)),
    "sort: order": ("GET", "/applicants?order=sideways", None, ("order",)),
    "list: page": ("GET", "/applicants?page=0", None, ("page",)),
    "list: search": ("GET", "/applicants?search=unknown", None, ("not found", "search again")),
    "search: no feature": ("POST", "/applicants", {"text": "shoe >= 3"}, ("shoe", "features are")),
    "search: near": ("POST", "/applicants", {"text": "age in yaers >= 3"}, ("did you mean age in years",)),
    "search: value": ("POST", "/applicants", {"text": "housing = castle"}, ("housing", "castle")),
    "search: no value": ("POST", "/applicants", {"text": "housing = "}, ("must have a value",)),
    "search: long": ("POST", "/applicants", {"text": "x" * 300}, ("1 to 200 characters",)),
    "search: huge": ("POST", "/applicants", {"text": LONG}, ("text",)),
    "search: operator": ("POST", "/applicants", {"column": "housing", "operator": "~", "value": "own"}, ("operator",)),
    "search: column": ("POST", "/applicants", {"column": "shoe", "value": "3"}, ("shoe",)),
    "search: control characters": ("POST", "/applicants", {"text": "\x1b[2J = 3"}, ("u001b",)),
    "new: empty": ("POST", "/applicants/new", {}, ("a value is needed",)),
    "new: text for a number": ("POST", "/applicants/new", {"f0": "no checking account", "f1": "x"}, ("whole number",)),
    "new: category": ("POST", "/applicants/new", {"f0": "castle"}, ("choose one of the values", "castle")),
    "new: control characters": ("POST", "/applicants/new", {"f0": "\x1b[2J"}, ("u001b",)),
    "new: long": ("POST", "/applicants/new", {"f0": LONG}, ("choose one of the values",)),
    "new: explanation": ("GET", "/applicants/new?explanation=99999", None, ("not found",)),
    "new: explanation 0": ("GET", "/applicants/new?explanation=0", None, ("explanation",)),
    "new: explanation text": ("GET", "/applicants/new?explanation=x", None, ("explanation",)),
    "what if: typed": ("POST", f"/applicants/{DENIED}/what-if", {"f1": "1e999"}, ("whole number",)),
    "what if: row": ("POST", "/applicants/99999/what-if", {"f1": "24"}, ("not found",)),
    "overview: feature": ("GET", "/overview?by=shoe", None, ("unknown feature 'shoe'",)),
    "overview: long": ("GET", f"/overview?by={'x' * 250}", None, ("by",)),
    "overview: control characters": ("GET", "/overview?by=%1b%5b2J", None, ("x1b",)),
    "batch: unknown": ("GET", "/batches/x", None, ("not found",)),
    "batch: page": ("GET", "/batches/x?page=-1", None, ("page",)),
    "batch: cancel": ("POST", "/batches/x/cancel", {}, ("not found",)),
    "batch: csv": ("GET", "/batches/x/results.csv", None, ("not found",)),
    "batch: json": ("GET", "/batches/x/results.json", None, ("not found",)),
    "batch: most": ("POST", "/batches", {"most": "0"}, ("most",)),
    "batch: most text": ("POST", "/batches", {"most": "all"}, ("most",)),
    "batch: seconds": ("POST", "/batches", {"seconds": "-1"}, ("seconds",)),
    "batch: search": ("POST", "/batches", {"search": "x"}, ("not found",)),
    "batch: form of a search": ("GET", "/batches?search=x", None, ("not found",)),
    "log: page": ("GET", "/log?page=0", None, ("page",)),
    "explanations: page": ("GET", "/explanations?page=x", None, ("page",)),
    "report: show": ("GET", "/explanations/1/report.html?show=perhaps", None, ("show",)),
}


def assert_refused(answer: httpx.Response, words: tuple[str, ...]) -> None:
    assert 400 <= answer.status_code < 500, answer.text[:300]
    assert answer.headers["content-type"].startswith("application/json")
    text = str(answer.json())
    assert len(text) < 5000
    assert not CONTROL_CHARACTERS.search(answer.text)
    assert [word for word in words if word.lower() not in text.lower()] == [], text


@pytest.mark.parametrize("name", CASES)
def test_a_bad_request_is_refused(name: str, client: httpx.Client) -> None:
    path, body, words = CASES[name]
    assert_refused(client.post(path, json=body), words)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_refuses_what_makes_no_sense(name: str, client: httpx.Client) -> None:
    method, path, form, words = PAGES[name]
    data = {} if form is None else {"data": form}
    assert_refused(client.request(method, path, headers={"accept": "application/json"}, **data), words)  # type: ignore[arg-type]
    page = client.request(method, path, **data)  # type: ignore[arg-type]
    assert 400 <= page.status_code < 500
    assert page.headers["content-type"].startswith("application/json" if path.endswith(".json") else "text/html")
    assert not CONTROL_CHARACTERS.search(page.text.replace("\n", ""))


@pytest.mark.parametrize("name", BODIES)
def test_a_body_that_is_no_request_is_refused(name: str, client: httpx.Client) -> None:
    headers = {"content-type": "application/json"}
    assert_refused(client.post("/api/explain", content=BODIES[name], headers=headers), ())
