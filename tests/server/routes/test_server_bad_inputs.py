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


@pytest.mark.parametrize("name", BODIES)
def test_a_body_that_is_no_request_is_refused(name: str, client: httpx.Client) -> None:
    headers = {"content-type": "application/json"}
    assert_refused(client.post("/api/explain", content=BODIES[name], headers=headers), ())
