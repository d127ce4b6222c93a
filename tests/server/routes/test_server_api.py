"""The HTTP API: requests, responses, and the one shape of every error."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import httpx
import pytest
from server_examples import DENIED, GRANTED

from ironrule import Explanation, Ladder, Proven
from ironrule.server.served_model import ServedModel
from ironrule.verdict.digest import compute_digest


def check_error(answer: Any, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert set(error) == {"code", "message", "expected", "got", "hint"}
    assert all(value is None or isinstance(value, str) for value in error.values())
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", error["code"])
    assert error["message"]
    assert all(error[part] in error["message"] for part in ("expected", "got", "hint") if error[part] is not None)
    assert "Traceback" not in answer.text
    return error


def test_a_denied_row_is_explained_by_a_rule_with_its_proof(client: httpx.Client, german: ServedModel) -> None:
    answer = client.post("/api/explain", json={"row": DENIED})
    assert answer.status_code == 200
    found = Explanation.from_dict(answer.json()["document"])
    assert isinstance(found.verdict, Proven)
    assert found.rule == german.explainer.explain(DENIED).rule
    assert german.check(answer.json()["document"]).status == "proven"


def test_a_row_may_come_by_its_values(client: httpx.Client, german: ServedModel) -> None:
    values = german.explainer.space.decode_row(german.explainer.codes.row(DENIED))
    answer = client.post("/api/explain", json={"row": values}).json()
    assert answer["row"] is None
    assert answer["document"]["rules"] == client.post("/api/explain", json={"row": DENIED}).json()["document"]["rules"]


def test_what_a_rule_must_and_must_not_use_is_kept(client: httpx.Client) -> None:
    body = {"row": DENIED, "require": ["age_in_years"], "forbid": ["duration_in_month"], "widen": False}
    document = client.post("/api/explain", json=body).json()["document"]
    used = {one["feature"] for one in document["rules"][0]["rule"]["components"]}
    assert "age_in_years" in used
    assert "duration_in_month" not in used
    assert document["wider"] is None


def test_a_budget_is_never_more_than_the_server_allows(client: httpx.Client) -> None:
    body = {"row": DENIED, "algorithm": "genetic", "evaluations": 300}
    statistics = client.post("/api/explain", json=body).json()["document"]["statistics"]
    assert statistics["evaluations"] <= 300
    assert statistics["stopped"] == "budget"


def test_a_ladder_is_that_of_the_library_and_can_be_checked(client: httpx.Client, german: ServedModel) -> None:
    body = {"row": DENIED, "most": 2, "nested": False, "confidence": 0.9}
    record = client.post("/api/ladder", json=body).json()
    expected = german.explainer.ladder(DENIED, 2, nested=False, confidence=0.9)
    found = Ladder.from_dict(record["document"])
    assert record["kind"] == "ladder"
    assert found.rungs[:-1] == expected.rungs[:-1]
    assert [rung.rule for rung in found] == [rung.rule for rung in expected]
    assert [rung.cardinality for rung in found] == [1, 2, 3]
    assert client.get(f"/api/explanations/{record['number']}").json() == record
    assert client.post("/api/check", json={"explanation": record["document"]}).json()["status"] == "holds"
    altered = copy.deepcopy(record["document"])
    altered["rungs"][0]["measured"]["exceptions"] = 0
    altered["digest"] = compute_digest(altered)
    assert client.post("/api/check", json={"explanation": altered}).json()["status"] == "refuted"


@pytest.mark.parametrize(
    ("options", "named"), [({"most": 0}, "most"), ({"most": 99}, "most"), ({"confidence": 1}, "confidence")]
)
def test_a_ladder_with_options_that_cannot_be_used_is_refused(
    options: dict[str, int], named: str, client: httpx.Client
) -> None:
    answer = client.post("/api/ladder", json={"row": DENIED} | options)
    assert answer.status_code == 422
    assert named in json.dumps(answer.json()["error"])


def test_a_ladder_can_be_a_job(client: httpx.Client) -> None:
    name = client.post("/api/jobs/ladder", json={"row": DENIED}).json()["job"]
    with client.stream("GET", f"/api/jobs/{name}/events") as events:
        last = [line for line in events.iter_lines() if line.startswith("data: ")][-1]
    number = json.loads(last.removeprefix("data: "))["result"]
    assert client.get(f"/api/explanations/{number}").json()["kind"] == "ladder"


def test_counterfactuals_change_only_what_may_change(client: httpx.Client) -> None:
    body = {"row": DENIED, "features_to_vary": ["credit_amount", "duration_in_month"], "k": 2}
    document = client.post("/api/counterfactuals", json=body).json()["document"]
    changed = {change["feature"] for one in document["counterfactuals"] for change in one["changes"]}
    assert document["proven"]
    assert changed
    assert changed <= {"credit_amount", "duration_in_month"}


def test_permitted_ranges_and_constraints_hold_for_counterfactuals(client: httpx.Client) -> None:
    body = {"row": DENIED, "permitted_range": {"duration_in_month": [40, 48]}, "constraints": ["cf.age_in_years >= 22"]}
    document = client.post("/api/counterfactuals", json=body).json()["document"]
    durations = [one["values"]["duration_in_month"] for one in document["counterfactuals"]]
    assert all(40 <= duration <= 48 for duration in durations)


def test_counterfactuals_can_have_a_margin(client: httpx.Client) -> None:
    document = client.post("/api/counterfactuals", json={"row": DENIED, "k": 1, "margin": 0.3}).json()["document"]
    assert document["margin"] == 0.3
    plain = client.post("/api/counterfactuals", json={"row": DENIED, "k": 1}).json()["document"]
    assert "margin" not in plain
    assert document["counterfactuals"] != plain["counterfactuals"]


def test_counterfactuals_have_costs_and_targets(client: httpx.Client) -> None:
    cost = {
        "norm": "l1",
        "prices": {"age_in_years": "inf", "credit_amount": {"up": 3}},
        "steps": {"credit_amount": 100},
    }
    body = {"row": DENIED, "cost": cost, "target": {"above": 0.6}}
    document = client.post("/api/counterfactuals", json=body).json()["document"]
    assert document["cost"]["prices"] == {"age_in_years": "inf", "credit_amount": {"up": 3.0, "down": 1.0}}
    assert document["target"] == {"above": 0.6}
    changes = [change for one in document["counterfactuals"] for change in one["changes"]]
    assert changes
    assert "age_in_years" not in {change["feature"] for change in changes}
    amounts = [one["after"] - one["before"] for one in changes if one["feature"] == "credit_amount"]
    assert all(amount % 100 == 0 for amount in amounts)
    plain = client.post("/api/counterfactuals", json={"row": DENIED, "cost": "linf"}).json()["document"]
    assert plain["cost"] == {"norm": "linf", "scale": "range"}


def test_a_check_proves_what_was_said_and_refutes_what_was_altered(client: httpx.Client) -> None:
    document = client.post("/api/explain", json={"row": DENIED}).json()["document"]
    assert client.post("/api/check", json={"explanation": document}).json()["status"] == "proven"
    document["rules"][0]["coverage"] += 1
    assert client.post("/api/check", json={"explanation": document}).json()["status"] == "refuted"
    check_error(client.post("/api/check", json={"explanation": {}}), 422)


def test_many_kinds_of_decisions_do_not_pile_up(german: ServedModel) -> None:
    document = german.explainer.explain(DENIED).to_dict()
    german.check(document)
    first = german._checker._checker
    for place in range(20):
        strange = document | {"decision": document["decision"] | {"threshold": place / 20}}
        assert german.check(strange).status == "refuted"  # at least the digest is wrong
    kept = german._checker._checker
    assert kept is not None
    assert kept is not first
    assert len(kept._scopes) <= 8
    assert german.check(document).status == "proven"


def test_an_answer_can_be_read_again_from_the_log(client: httpx.Client) -> None:
    answer = client.post("/api/explain", json={"row": DENIED}).json()
    assert client.get(f"/api/explanations/{answer['number']}").json() == answer
    check_error(client.get("/api/explanations/999999"), 404)


def test_a_what_if_says_the_outcome_and_whether_the_rule_still_applies(client: httpx.Client) -> None:
    number = client.post("/api/explain", json={"row": DENIED}).json()["number"]
    body = {"row": DENIED, "explanation": number}
    assert client.post("/api/what-if", json=body).json()["rule_applies"] is True
    moved = client.post("/api/what-if", json=body | {"changes": {"duration_in_month": 42}}).json()
    assert (moved["outcome"], moved["rule_applies"], moved["changed"]) == ("desired", False, ["duration_in_month"])


def test_a_what_if_takes_values_that_no_past_row_has(client: httpx.Client) -> None:
    number = client.post("/api/explain", json={"row": DENIED}).json()["number"]
    for amount in (5950, 500_000):
        body = {"row": DENIED, "changes": {"credit_amount": amount}, "explanation": number}
        answer = client.post("/api/what-if", json=body).json()
        assert answer["values"]["credit_amount"] == amount
        assert answer["outcome"] in ("desired", "undesired")
    error = check_error(client.post("/api/what-if", json={"row": DENIED, "changes": {"credit_amount": "much"}}), 422)
    assert "'credit_amount' must be a number" in error["message"]


@pytest.mark.parametrize("amount", [5950, 500_000])
def test_a_row_with_a_value_that_no_past_row_has_is_explained_and_checked(
    client: httpx.Client, german: ServedModel, amount: int
) -> None:
    values = german.explainer.space.decode_row(german.explainer.codes.row(DENIED)) | {"credit_amount": amount}
    answer = client.post("/api/explain", json={"row": values}).json()
    assert answer["document"]["instance"]["credit_amount"] == amount
    assert answer["document"].get("extended_values", {}) == ({} if amount == 5950 else {"credit_amount": [amount]})
    found = client.post("/api/check", json={"explanation": answer["document"]}).json()
    assert found["status"] == "proven"
    assert client.get(f"/explanations/{answer['number']}").status_code == 200
    assert len(client.post("/api/counterfactuals", json={"row": values}).json()["document"]["counterfactuals"]) > 0


def test_the_list_can_be_searched_and_paged(client: httpx.Client, german: ServedModel) -> None:
    found = client.post("/api/searches", json={"text": "age in years >= 60 and housing = own"}).json()
    page = client.get("/api/applicants", params={"search": found["search"], "outcome": "undesired", "size": 3}).json()
    assert 0 < page["total"] < found["total"]
    assert len(page["applicants"]) == min(3, page["total"])
    assert all(one["outcome"] == "undesired" for one in page["applicants"])
    everyone = client.get("/api/applicants", params={"outcome": "undesired"}).json()
    assert everyone["total"] == int((~german.explainer.outcomes).sum())


def test_what_is_served_is_said(client: httpx.Client, german: ServedModel) -> None:
    told = client.get("/api/model").json()
    assert (told["history_rows"], told["readable"], told["model"]) == (1000, True, german.explainer.fingerprint)
    assert len(told["features"]) == 19


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/api/explain", {"row": GRANTED}, 422),
        ("POST", "/api/explain", {"row": 10**6}, 404),
        ("POST", "/api/explain", {"row": -1}, 422),
        ("POST", "/api/explain", {"row": True}, 422),
        ("POST", "/api/explain", {}, 422),
        ("POST", "/api/explain", {"row": 1, "nonsense": 1}, 422),
        ("POST", "/api/explain", {"row": 1, "algorithm": "guess"}, 422),
        ("POST", "/api/explain", {"row": 1, "require": ["nonsense"]}, 422),
        ("POST", "/api/explain", {"row": 1, "weights": {"age_in_years": -1}}, 422),
        ("POST", "/api/explain", {"row": {"age_in_years": {"date": "never"}}}, 422),
        ("POST", "/api/explain", {"row": {"age_in_years": 22}}, 422),
        ("POST", "/api/counterfactuals", {"row": 1, "constraints": ["cf.nonsense > 1"]}, 422),
        ("POST", "/api/counterfactuals", {"row": 1, "permitted_range": {"age_in_years": []}}, 422),
        ("POST", "/api/counterfactuals", {"row": 1, "cost": "l3"}, 422),
        ("POST", "/api/counterfactuals", {"row": 1, "cost": {"prices": {"nonsense": 2}}}, 422),
        ("POST", "/api/counterfactuals", {"row": 1, "cost": {"steps": {"age_in_years": -1}}}, 422),
        ("POST", "/api/counterfactuals", {"row": 1, "margin": -0.1}, 422),
        ("POST", "/api/counterfactuals", {"row": 1, "target": {}}, 422),
        ("POST", "/api/counterfactuals", {"row": 1, "target": {"desired": ["nonsense"]}}, 422),
        ("POST", "/api/what-if", {"row": 1, "changes": {"nonsense": 1}}, 422),
        ("POST", "/api/what-if", {"row": 1, "explanation": 999999}, 404),
        ("POST", "/api/searches", {"text": "  "}, 422),
        ("GET", "/api/explain", None, 405),
        ("DELETE", "/api/jobs/nobody", None, 404),
        ("GET", "/api/jobs/nobody/events", None, 404),
        ("GET", "/api/nothing", None, 404),
        ("GET", "/api/applicants?page=0", None, 422),
        ("GET", "/api/applicants?search=forgotten", None, 404),
        ("GET", "/api/explanations/" + "9" * 5000, None, 404),
        ("POST", "/api/jobs/batch", {"rows": []}, 422),
        ("POST", "/api/jobs/batch", {"rows": [10**6]}, 404),
    ],
)
def test_what_cannot_be_answered_is_refused_in_one_shape(
    client: httpx.Client, method: str, path: str, body: Any, status: int
) -> None:
    check_error(client.request(method, path, json=body), status)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"row": NaN}', '{"row": 1e999}', "[" * 5000 + "]" * 5000])
def test_a_body_that_is_no_request_is_refused(client: httpx.Client, text: str) -> None:
    answer = client.post("/api/explain", content=text, headers={"content-type": "application/json"})
    check_error(answer, 400 if len(text) > 5000 else 422)


def test_a_refusal_says_what_was_expected_what_was_got_and_what_to_do(client: httpx.Client) -> None:
    error = check_error(client.post("/api/explain", json={"row": GRANTED}), 422)
    assert error["code"] == "row-not-denied"
    assert error["expected"] == "the row must have the undesired outcome"
    assert error["got"] == "the desired outcome"
    assert error["hint"] == "choose a row that the model denies, such as row 1, or name another desired class"
    assert error["message"] == f"{error['expected']}, got {error['got']}; {error['hint']}"


def test_the_openapi_document_is_there_and_names_every_call(client: httpx.Client) -> None:
    paths = client.get("/api/openapi.json").json()["paths"]
    assert {"/api/explain", "/api/counterfactuals", "/api/check", "/api/jobs/{name}/events"} <= set(paths)
    assert all(path.startswith("/api/") for path in paths)
    assert "HTTPValidationError" not in json.dumps(paths)
