"""Rules of a subspace: asked for with constraints, which page, report, document and log then name."""

from __future__ import annotations

import html
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
import pytest
from server_examples import DENIED, build_demo, build_gated_model, open_client

from ironrule import Explanation, Proven
from ironrule.server.audit.log import AuditLog
from ironrule.server.audit.record import export_csv
from ironrule.server.served_model import MAX_SUBSPACES, ServedModel
from waiting import PATIENCE, wait_until

YOUNG, LONG = "cf.age_in_years <= 30", "cf.duration_in_month >= 24"


def explain_by_form(client: httpx.Client, where: str) -> httpx.Response:
    """Explain by the form; gives the page that comes at last."""
    answer = client.post(f"/applicants/{DENIED}/explain", data={"where": where})
    there = answer.headers["location"]

    def look() -> list[httpx.Response]:
        nonlocal there
        answer = client.get(there)
        there = answer.headers.get("location", there)
        return [] if answer.status_code == 303 or "Searching …" in answer.text else [answer]

    return wait_until(look, "the page of the explanation")[0]


def test_a_rule_may_be_asked_for_where_constraints_hold(client: httpx.Client, german: ServedModel) -> None:
    answer = client.post("/api/explain", json={"row": DENIED, "where": [YOUNG, f" {LONG} ", YOUNG]})
    assert answer.status_code == 200, answer.text
    document = answer.json()["document"]
    found = Explanation.from_dict(document)
    assert found.constraints == (YOUNG, LONG)
    assert isinstance(found.verdict, Proven)
    assert found.rule == german.explainer.where([YOUNG, LONG]).explain(DENIED).rule
    assert found.cardinality <= german.explainer.explain(DENIED).cardinality  # fewer can be an exception
    assert found.history_rows < len(german.explainer.outcomes)


def test_the_check_of_such_a_rule_is_under_its_constraints(client: httpx.Client) -> None:
    document = client.post("/api/explain", json={"row": DENIED, "where": [LONG]}).json()["document"]
    checked = client.post("/api/check", json={"explanation": document}).json()
    assert checked["status"] == "proven", checked
    assert LONG in next(one["sentence"] for one in checked["findings"] if one["claim"] == "space")
    wide = {name: part for name, part in document.items() if name != "constraints"}
    assert client.post("/api/check", json={"explanation": wide}).json()["status"] == "refuted"
    other = document | {"constraints": [YOUNG]}
    assert client.post("/api/check", json={"explanation": other}).json()["status"] == "refuted"


def test_the_check_of_a_ladder_is_under_its_constraints_too(client: httpx.Client, german: ServedModel) -> None:
    ladder = german.explainer.where(LONG).ladder(DENIED, 2)
    checked = client.post("/api/check", json={"explanation": ladder.to_dict()}).json()
    assert (checked["status"], checked["document"]) == ("holds", "ladder"), checked


def test_pages_report_and_log_name_the_constraints(client: httpx.Client) -> None:
    page = explain_by_form(client, f"{YOUNG}\r\n\r\n{LONG}")
    text = html.unescape(page.text)
    assert f"The rule applies only where this holds: <code>{YOUNG}</code> and <code>{LONG}</code>." in text
    assert f"{YOUNG}\n{LONG}</textarea>" in text  # to be asked again, or changed
    number = re.search(r"/explanations/(\d+)/explanation\.json", page.text)
    assert number is not None
    where = f"/explanations/{number[1]}"
    data = client.get(f"{where}.json").json()
    assert (data["constraints"], data["is_current"]) == ([YOUNG, LONG], True)
    assert all(one["satisfying_rows"] <= data["history_rows"] for one in data["conditions"])
    assert client.get(f"{where}/explanation.json").json()["constraints"] == [YOUNG, LONG]
    validator = html.unescape(client.get(f"{where}/report.html?audience=validator").text)
    assert f"{YOUNG}; {LONG}" in validator
    assert f"--constraint '{YOUNG}' '{LONG}'" in validator
    person = html.unescape(client.get(f"{where}/report.html?audience=person").text)
    assert "only to cases for which this is true: age_in_years <= 30; duration_in_month >= 24" in person
    assert f"Only where {YOUNG} and {LONG}." in html.unescape(client.get("/explanations").text)
    checked = client.post("/check", data={"number": number[1]})
    assert "Every claim was checked" in checked.text


def test_the_audit_log_says_where_a_rule_holds(german: ServedModel, tmp_path: Path) -> None:
    with open_client(german, tmp_path) as client:
        given = client.post("/api/explain", json={"row": DENIED, "where": [LONG]}).json()
    log = AuditLog(f"sqlite:///{tmp_path}/audit.sqlite")
    record = log.read(given["number"])
    assert record is not None
    assert record.rule.endswith(f"Only where {LONG}.")
    assert record.document["constraints"] == [LONG]
    assert record.space == given["document"]["space"] != german.space.fingerprint
    assert f"Only where {LONG}." in "".join(export_csv(log.records()))
    assert log.verify().flaw is None
    log.close()


@pytest.mark.parametrize(
    ("where", "told"),
    [
        (["cf.age_in_years >"], "got the end of the text"),
        (["cf.shoe > 3"], "unknown feature 'shoe'"),
        (["cf.age_in_years <= x.age_in_years"], "a constraint on the space must name cf only, got "),
        (["cf.age_in_years <=\n30"], "one line"),
        (["cf.age_in_years >= 60"], "the row does not satisfy 'cf.age_in_years >= 60'"),
        (["cf.age_in_years <= 30 and cf.age_in_years > 30"], "no point of the space satisfies the constraints: "),
        (["x" * 501], "at most 500 characters"),
        ([f"cf.age_in_years <= {age}" for age in range(30, 47)], "body.where must have at most 16 entries"),
        ([""], "body.where.0 must have 1 or more characters"),
        ("cf.age_in_years <= 30", "body.where must be a list, got "),
    ],
    ids=lambda one: str(one)[:30],
)
def test_constraints_that_cannot_be_used_are_refused_in_the_one_shape(
    client: httpx.Client, where: Any, told: str
) -> None:
    answer = client.post("/api/explain", json={"row": DENIED, "where": where})
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert set(error) == {"code", "message", "expected", "got", "hint"}
    assert told in error["message"]


def test_the_page_tells_what_is_wrong_with_a_constraint(client: httpx.Client) -> None:
    wrong = client.post(f"/applicants/{DENIED}/explain", data={"where": "cf.age_in_years >"})
    assert wrong.status_code == 422
    assert "got the end of the text" in wrong.text
    outside = html.unescape(explain_by_form(client, "cf.age_in_years >= 60").text)
    assert "the row does not satisfy 'cf.age_in_years >= 60'" in outside
    many = client.post(f"/applicants/{DENIED}/explain", data={"where": "\n".join(f"cf.x > {n}" for n in range(17))})
    assert (many.status_code, "at most 16 constraints" in many.text.lower()) == (422, True)


def test_a_batch_tells_of_each_row_whether_it_is_in_the_subspace(client: httpx.Client, german: ServedModel) -> None:
    explainer = german.explainer
    denied = explainer.row_numbers[~explainer.outcomes][:6].tolist()
    inside = set(explainer.where(LONG).row_numbers.tolist())
    job = client.post("/api/jobs/batch", json={"rows": denied, "where": [LONG]}).json()
    while job["state"] not in ("done", "failed", "cancelled"):
        job = client.get(f"/api/jobs/{job['job']}").json()
    assert job["progress"]["phase"] == "searching"
    assert {line["row"] for line in job["result"] if line["error"] is None} == inside & set(denied)
    told = [line["error"]["message"] for line in job["result"] if line["error"]]
    assert told
    assert all("the row does not satisfy" in one for one in told)
    nobody = client.post("/api/jobs/batch", json={"rows": denied, "where": ["cf.shoe > 3"]})
    assert nobody.status_code == 422


def test_a_what_if_asks_whether_the_row_is_still_in_the_subspace(client: httpx.Client) -> None:
    number = client.post("/api/explain", json={"row": DENIED, "where": [YOUNG]}).json()["number"]
    body = {"row": DENIED, "explanation": number, "changes": {"age_in_years": 31}}
    found = client.post("/api/what-if", json=body).json()
    assert {"component": YOUNG, "text": YOUNG, "holds": False} in found["components"]
    assert found["rule_applies"] is False


def test_constraints_of_the_server_stay_and_are_named(tmp_path: Path) -> None:
    table = pd.DataFrame({"a": [0, 1, 2, 3] * 8, "b": [0, 0, 0, 0, 1, 1, 1, 1] * 4})
    served_model = ServedModel.from_model(
        lambda rows: (rows.a > 1).astype(float), table, "small", {"constraints": ["cf.a >= 0"]}
    )
    with open_client(served_model, tmp_path) as client:
        assert client.get("/api/model").json()["constraints"] == ["cf.a >= 0"]
        answer = client.post("/api/explain", json={"row": 4, "where": ["cf.b >= 1"]}).json()
        assert answer["document"]["constraints"] == ["cf.a >= 0", "cf.b >= 1"]
        checked = client.post("/api/check", json={"explanation": answer["document"]}).json()
        assert [one["claim"] for one in checked["findings"] if one["status"] == "fails"] == []
        assert client.get(f"/explanations/{answer['number']}.json").json()["where"] == ["cf.b >= 1"]


def test_an_old_explanation_of_a_subspace_is_shown_by_a_new_server(german: ServedModel, tmp_path: Path) -> None:
    with open_client(german, tmp_path) as client:
        number = client.post("/api/explain", json={"row": DENIED, "where": [LONG]}).json()["number"]
    with open_client(build_demo(), tmp_path) as client:
        data = client.get(f"/explanations/{number}.json").json()
        assert (data["is_current"], data["where"]) == (True, [LONG])
    with open_client(
        build_gated_model()[1], tmp_path
    ) as client:  # another model, to which the constraint means nothing
        page = client.get(f"/explanations/{number}")
        assert "another model or other data" in page.text
        assert html.escape(LONG) in page.text


def build_recording_model(build: Callable[[tuple[str, ...]], None]) -> ServedModel:
    """A served model whose explainer calls ``build`` for every subspace."""

    class RecordingExplainer:
        def where(self, texts: tuple[str, ...]) -> Any:
            build(texts)
            return self

    return ServedModel(RecordingExplainer(), lambda _: None, "nothing")  # type: ignore[arg-type,return-value]


def test_only_the_last_few_subspaces_are_cached() -> None:
    built: list[tuple[str, ...]] = []
    served_model = build_recording_model(built.append)
    for number in range(20):
        served_model.get_subspace((str(number),))
    for number in range(20 - MAX_SUBSPACES, 20):
        served_model.get_subspace((str(number),))
    assert len(built) == 20
    served_model.get_subspace(("0",))
    assert len(built) == 21


def test_a_thread_waits_for_a_subspace_that_another_one_builds_and_for_no_other() -> None:
    begun, go, built = threading.Event(), threading.Event(), []

    def build(texts: tuple[str, ...]) -> None:
        built.append(texts)
        if texts == ("slow",):
            begun.set()
            assert go.wait(PATIENCE)

    served_model = build_recording_model(build)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(served_model.get_subspace, ("slow",))
        assert begun.wait(PATIENCE)
        second = pool.submit(served_model.get_subspace, ("slow",))
        served_model.get_subspace(("quick",))
        go.set()
        assert first.result() is second.result()
    assert built == [("slow",), ("quick",)]


def test_what_could_not_be_built_is_tried_again() -> None:
    tries: list[int] = []

    def build(_: tuple[str, ...]) -> None:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("not yet")

    served_model = build_recording_model(build)
    with pytest.raises(ValueError, match="not yet"):
        served_model.get_subspace(("a",))
    assert served_model.get_subspace(("a",)) is served_model.get_subspace(("a",))
    assert len(tries) == 2
