"""The pages without a browser: every one answers, also as JSON, and works without JavaScript."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
import pytest
from server_examples import DENIED, GRANTED, build_gated_model, open_client

from ironrule import Explanation, Ladder
from ironrule.server.served_model import ServedModel
from ironrule.server.settings import ServerLimits


def explain_by_form(client: httpx.Client, **fields: str) -> str:
    """Explain by the form; gives the address of the answer."""
    return follow_to_result(client, client.post(f"/applicants/{DENIED}/explain", data=fields))


def follow_to_result(client: httpx.Client, answer: httpx.Response) -> str:
    """The address of what a job has found, when it has ended."""
    assert answer.status_code == 303
    where = answer.headers["location"]
    while where.startswith("/jobs/"):
        page = client.get(where)
        assert "failed" not in page.text
        where = page.headers.get("location", where)
    return where


@pytest.mark.parametrize(
    "path", ["/applicants", "/applicants/1", "/applicants/0", "/applicants/1/what-if", "/check", "/api"]
)
def test_every_page_is_also_there_as_json(client: httpx.Client, path: str) -> None:
    page, data = client.get(path), client.get(f"{path}.json")
    assert page.headers["content-type"].startswith("text/html")
    assert data.headers["content-type"] == "application/json"
    assert client.get(path, headers={"accept": "application/json"}).json() == data.json()
    assert client.get(path, headers={"accept": "text/html,application/json;q=0.9"}).text == page.text


def test_an_error_is_a_page_for_people_and_data_for_programs(client: httpx.Client) -> None:
    page, data = client.get("/applicants/12345"), client.get("/applicants/12345.json")
    assert (page.status_code, data.status_code) == (404, 404)
    assert "<h1>Not found</h1>" in page.text
    assert "Not found: applicant 12345; see /applicants." in page.text
    error = {"code": "not-found", "message": "not found: applicant 12345; see /applicants", "hint": "see /applicants"}
    assert data.json()["error"] == error | {"expected": None, "got": None}


def test_the_list_pages_on_and_keeps_the_filter(client: httpx.Client) -> None:
    page = client.get("/applicants?outcome=undesired")
    following = re.search(r'href="([^"]+)" rel="next"', page.text)
    assert following is not None
    second = client.get(following[1].replace("&amp;", "&"))
    assert "page 2 of" in second.text
    assert "✓" not in second.text


def test_a_search_leads_to_what_was_found_or_to_the_row(client: httpx.Client) -> None:
    found = client.post("/applicants", data={"text": "age in years >= 60", "outcome": "undesired"})
    assert "9 applicants found" in client.get(found.headers["location"]).text
    assert client.post("/applicants", data={"text": "row 17"}).headers["location"] == "/applicants/17"
    assert (
        client.post("/applicants", data={"text": ""}).headers["location"].startswith("/applicants?outcome=any&sort=row")
    )
    assert client.post("/applicants", data={"text": "housing >= own"}).status_code == 422


def test_an_explanation_is_shown_with_its_verdict_and_its_record(client: httpx.Client) -> None:
    where = explain_by_form(client)
    page, data = client.get(where).text, client.get(f"{where}.json").json()
    assert data["verdict"] == "proven"
    assert "Everyone like this gets the same" in page
    assert data["record"]["hash"] in page
    assert [one["text"] for one in data["conditions"]][1] == "48 or more"
    assert all(sum(bar["is_own"] for bar in one["bars"]) == 1 for one in data["conditions"])


def test_what_is_not_proven_is_never_called_so(client: httpx.Client) -> None:
    where = explain_by_form(client, algorithm="min_set_cover")
    page, data = client.get(where).text, client.get(f"{where}.json").json()
    assert data["verdict"] == "refuted"
    assert "This does not hold for everyone" in page
    assert "An exception to the rule" in page
    assert "verdict proven" not in page


def test_the_form_takes_algorithm_and_constraints(client: httpx.Client) -> None:
    where = explain_by_form(
        client, algorithm="greedy_cf", require="age_in_years", forbid="duration_in_month", plain="yes"
    )
    data = client.get(f"{where}.json").json()
    features = [one["feature"] for one in data["conditions"]]
    assert data["algorithm"] == "GreedyRuleCF"
    assert "age_in_years" in features
    assert "duration_in_month" not in features
    assert data["wider"] is None


@pytest.mark.parametrize("fields", [{"algorithm": "guess"}, {"seconds": "soon"}, {"seconds": "-1"}, {"require": "x"}])
def test_a_form_that_makes_no_sense_is_refused(client: httpx.Client, fields: dict[str, str]) -> None:
    answer = client.post(f"/applicants/{DENIED}/explain", data=fields)
    if answer.status_code == 303:  # what only the search can refuse is told on the job's page
        answer = client.get(answer.headers["location"])
        assert "The search failed" in answer.text
    else:
        assert answer.status_code == 422


def test_who_was_granted_gets_no_explanation(client: httpx.Client) -> None:
    assert "nothing to explain" in client.get(f"/applicants/{GRANTED}").text
    answer = client.post(f"/applicants/{GRANTED}/explain")
    assert "The search failed" in client.get(answer.headers["location"]).text


def test_a_what_if_shows_the_outcome_and_the_rule(client: httpx.Client) -> None:
    number = explain_by_form(client).rpartition("/")[2]
    page = client.post(f"/applicants/{DENIED}/what-if", data={"f1": "42", "explanation": number}).text
    assert "no longer applies" in page
    assert "does not hold" in page
    same = client.post(f"/applicants/{DENIED}/what-if", data={"f1": "48", "explanation": number}).text
    assert "still applies" in same
    assert client.post(f"/applicants/{DENIED}/what-if", data={"f4": "5950"}).status_code == 200
    assert client.post(f"/applicants/{DENIED}/what-if", data={"f4": "much"}).status_code == 422


def test_counterfactuals_keep_what_must_stay(client: httpx.Client) -> None:
    body = {"fixed": ["duration_in_month", "credit_amount"]}
    where = client.post(f"/applicants/{DENIED}/counterfactuals", data=body).headers["location"]
    while where.startswith("/jobs/"):
        where = client.get(where).headers.get("location", where)
    data = client.get(f"{where}.json").json()
    assert data["counterfactuals"]
    assert not {one["feature"] for way in data["counterfactuals"] for one in way} & set(body["fixed"])
    assert client.get(where).status_code == 200
    assert client.get(where.replace("counterfactuals", "explanations")).status_code == 404


def test_counterfactuals_obey_constraints_that_are_typed(client: httpx.Client) -> None:
    about = client.get(f"/applicants/{DENIED}.json").json()
    assert about["change_example"] == "cf.age_in_years >= x.age_in_years"
    now = {one["feature"]: one["value"] for one in about["values"]}
    for algorithm in ("exact", "geco"):
        lines = "cf.duration_in_month >= x.duration_in_month\r\n\r\ncf.job == x.job"
        typed = {"algorithm": algorithm, "constraints": lines}
        where = client.post(f"/applicants/{DENIED}/counterfactuals", data=typed).headers["location"]
        while not where.startswith("/counterfactuals"):
            where = client.get(where).headers.get("location", where)
        data = client.get(f"{where}.json").json()
        changes = [one for way in data["counterfactuals"] for one in way]
        assert data["proven"] == (algorithm == "exact")
        assert changes
        assert not [one for one in changes if one["feature"] == "job"]
        durations = [int(one["after"]) for one in changes if one["feature"] == "duration_in_month"]
        assert all(after >= now["duration_in_month"] for after in durations)


def test_counterfactuals_obey_prices_that_are_typed(client: httpx.Client) -> None:
    typed = {"cost": "l1", "scale": "mad", "prices": "duration_in_month=inf\r\njob=2", "steps": "credit_amount=500"}
    where = client.post(f"/applicants/{DENIED}/counterfactuals", data=typed).headers["location"]
    while not where.startswith("/counterfactuals"):
        where = client.get(where).headers.get("location", where)
    data = client.get(f"{where}.json").json()
    assert data["counterfactuals"]
    assert not [one for way in data["counterfactuals"] for one in way if one["feature"] == "duration_in_month"]
    assert "by the cost asked for" in data["within"]
    wrong = client.post(f"/applicants/{DENIED}/counterfactuals", data={"prices": "job=cheap"}, follow_redirects=True)
    assert "must have numbers" in wrong.text


def test_a_constraint_that_cannot_be_read_is_told(client: httpx.Client) -> None:
    answers = [
        client.post(f"/applicants/{DENIED}/counterfactuals", data={"constraints": text}, follow_redirects=True)
        for text in ("cf.shoe > 3", "cf.age_in_years >")
    ]
    assert "unknown feature" in answers[0].text
    assert "got the end of the text" in answers[1].text
    wrong = client.post(f"/applicants/{DENIED}/counterfactuals", data={"algorithm": "magic"})
    assert wrong.status_code == 422
    assert (
        "Algorithm must be one of &#39;auto&#39;, &#39;exact&#39; or &#39;geco&#39;, got &#34;magic&#34;." in wrong.text
    )


def test_a_ladder_leads_with_the_short_rule_and_says_what_each_rule_is_worth(client: httpx.Client) -> None:
    where = follow_to_result(client, client.post(f"/applicants/{DENIED}/ladder"))
    page, data = client.get(where).text, client.get(f"{where}.json").json()
    number = where.rpartition("/")[2]
    assert where == f"/ladders/{number}"
    assert [one["verdict"] for one in data["rungs"]] == ["bounded"] * (len(data["rungs"]) - 1) + ["proven"]
    assert len(data["rungs"]) > 2
    for one in data["rungs"][:-1]:
        assert one["worth"].startswith("bounded: at most ")
    assert page.count('<span class="verdict bounded">') == len(data["rungs"]) - 1
    assert data["verdict"] == "proven"  # three conditions are short, and no weaker rule comes first
    assert "Why you can rely on it" not in page
    assert f'<a href="/ladders/{number}"' in client.get("/explanations").text


def test_a_bounded_rule_leads_and_the_proven_one_is_folded_below_it(client: httpx.Client) -> None:
    number = client.post("/api/ladder", json={"row": DENIED, "at_least": 0.5}).json()["number"]
    page, data = client.get(f"/ladders/{number}").text, client.get(f"/ladders/{number}.json").json()
    assert data["verdict"] == "bounded"
    first, folded = page.split("<details", 1)
    assert "bounded, not proven" in first
    assert "proven" not in first.replace("not proven", "")
    assert "Why you can rely on it: the whole rule, with 3 conditions" in " ".join(folded.split())
    assert '<span class="verdict proven">' in folded
    assert page.count('<span class="verdict bounded">') == len(data["rungs"])  # once more, of the one that leads


def test_the_files_of_a_ladder_can_be_downloaded_and_checked(client: httpx.Client) -> None:
    number = client.post("/api/ladder", json={"row": DENIED}).json()["number"]
    file = client.get(f"/explanations/{number}/explanation.json")
    assert file.headers["content-disposition"] == f'attachment; filename="ladder-{number}.json"'
    assert Ladder.from_json(file.text).rungs
    for audience in ("person", "validator", "notice"):
        report = client.get(f"/ladders/{number}/report.html?audience={audience}")
        assert report.headers["content-disposition"].endswith(f'"ladder-{number}-{audience}.html"')
        assert "sandbox" in report.headers["content-security-policy"]
        assert "</html>" in report.text
    assert client.get(f"/ladders/{number}/report.html?audience=nobody").status_code == 422
    assert client.get(f"/counterfactuals/{number}").status_code == 404
    logged = client.post("/check", data={"number": str(number)})
    assert "holds" in logged.text


def test_the_log_is_shown_the_last_record_first(german: ServedModel, tmp_path: Path) -> None:
    with open_client(german, tmp_path) as client:
        assert "0 records" in client.get("/explanations").text
        for _ in range(26):
            client.post("/api/explain", json={"row": DENIED})
        client.post("/api/counterfactuals", json={"row": DENIED})
        first, second = client.get("/explanations.json").json(), client.get("/explanations.json?page=2").json()
        assert [one["number"] for one in first["records"] + second["records"]] == list(range(27, 0, -1))
        assert (first["pages"], first["records"][0]["kind"]) == (2, "counterfactuals")
        assert client.get("/explanations.json?page=99").json() == second
        assert '<a href="/counterfactuals/27"' in client.get("/explanations").text


def test_the_certificate_can_be_downloaded_and_checked(client: httpx.Client) -> None:
    where = explain_by_form(client)
    file = client.get(f"{where}/explanation.json")
    assert file.headers["content-disposition"].startswith("attachment")
    assert Explanation.from_json(file.text).rule
    pasted = client.post("/check", data={"explanation": file.text})
    assert "Every claim was checked" in pasted.text
    logged = client.post("/check", data={"number": where.rpartition("/")[2]})
    assert "Every claim was checked" in logged.text
    altered = client.post("/check", data={"explanation": file.text.replace('"coverage": 12', '"coverage": 13')})
    assert "A claim is false or was altered" in altered.text
    assert client.post("/check", data={"explanation": "{"}).status_code == 422
    long = client.post("/check", data={"explanation": file.text + " " * 2_000_000})  # more than FastAPI's forms take
    assert "Every claim was checked" in long.text


@pytest.mark.parametrize("body", [b"text=%FF", b"text=\xff", b"text=age%3D\xc3"])
def test_a_form_that_is_not_utf_8_is_refused(client: httpx.Client, body: bytes) -> None:
    kind = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
    response = client.post("/applicants", content=body, headers=kind)
    assert response.status_code == 422
    assert "form must be encoded in UTF-8" in response.text
    assert client.post("/applicants", content=b"text=&outcome=any&other=%C3%A9", headers=kind).status_code < 400


@pytest.mark.parametrize("path", ["/check", f"/applicants/{DENIED}/explain", f"/applicants/{DENIED}/what-if", "/login"])
def test_a_form_with_too_many_fields_or_a_file_is_refused_or_ignored(client: httpx.Client, path: str) -> None:
    many = client.post(path, data={f"x{number}": "1" for number in range(20_000)})
    status, told = (413, "at most 4,096 bytes") if path == "/login" else (400, "Too many fields")
    assert (many.status_code, told in many.text) == (status, True)
    file = client.post(path, files={"explanation": b"{}", "algorithm": b"auto", "f1": b"42", "token": b"x"})
    assert file.status_code in (200, 401, 422)


@pytest.mark.parametrize("audience", ["person", "validator"])
def test_the_report_is_a_file_that_may_run_nothing(client: httpx.Client, audience: str) -> None:
    where = explain_by_form(client)
    report = client.get(f"{where}/report.html", params={"audience": audience})
    assert report.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in report.headers["content-security-policy"]
    assert "script-src" not in report.headers["content-security-policy"]
    assert report.text.lower().startswith("<!doctype html>")
    assert "<svg" in report.text  # with pictures of the past rows
    assert "<script" not in report.text
    assert client.get(f"{where}/report.html", params={"audience": "whisper"}).status_code == 422
    assert client.get("/explanations/99999/report.html").status_code == 404


def test_without_javascript_progress_is_shown_by_loading_again(tmp_path: Path) -> None:
    gate, served_model = build_gated_model()
    with open_client(served_model, tmp_path, ServerLimits(workers=1)) as client:
        row = client.get("/applicants.json?outcome=undesired").json()["applicants"][0]["row"]
        gate.open.clear()
        where = client.post(f"/applicants/{row}/explain").headers["location"]
        page = client.get(where).text
        assert "Searching" in page
        assert '<noscript><meta http-equiv="refresh"' in page
        assert client.get(f"{where}.json").json()["result_path"] is None
        waiting = client.post(f"/applicants/{row}/explain").headers["location"]
        stopped = client.post(f"{waiting}/cancel")
        assert "cancelled before it had a result" in client.get(stopped.headers["location"]).text
        gate.open.set()
        while client.get(where).status_code == 200:
            pass
        assert client.get(where).headers["location"].startswith("/explanations/")


def test_an_explanation_of_another_model_says_so(client: httpx.Client, german: ServedModel, tmp_path: Path) -> None:
    _, served_model = build_gated_model()
    with open_client(served_model, tmp_path) as other:
        row = other.get("/applicants.json?outcome=undesired").json()["applicants"][0]["row"]
        document = other.post("/api/explain", json={"row": row}).json()["document"]
    assert "Not everything could be checked" in client.post("/check", data={"explanation": json.dumps(document)}).text
    with open_client(german, tmp_path) as later:  # the same log, behind another model
        assert "about another model" in later.get("/explanations/1").text
        assert later.get("/explanations/1.json").json()["is_current"] is False
