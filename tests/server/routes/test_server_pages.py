"""The pages without a browser: every one answers, also as JSON, and works without JavaScript."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
import pytest
from server_examples import DENIED, GRANTED, build_gated_model, open_client

from ironrule import Explanation, Ladder
from ironrule.cli.commands.demo import DESIRED_CLASS, build_demo_model
from ironrule.data import load_german_labels
from ironrule.server.served_model import ServedModel
from ironrule.server.settings import ServerLimits
from ironrule.space.labels import Labels


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
    "path",
    [
        "/applicants",
        "/applicants/1",
        "/applicants/0",
        "/applicants/1/what-if",
        "/applicants/new",
        "/batches",
        "/check",
        "/overview",
        "/explanations",
        "/log",
        "/api",
    ],
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
    page = client.get(f"/applicants/{DENIED}").text
    about = client.get(f"/applicants/{DENIED}.json").json()["cost_examples"]
    assert all(f"<code>{about[key]}</code>" in page for key in ("price", "directions", "never", "step"))
    assert {about[key].partition("=")[0] for key in ("price", "directions", "never", "step")} <= {
        one["feature"] for one in client.get(f"/applicants/{DENIED}.json").json()["values"]
    }
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
        first, second = client.get("/log.json").json(), client.get("/log.json?page=2").json()
        assert [one["number"] for one in first["records"] + second["records"]] == list(range(27, 0, -1))
        assert (first["pages"], first["records"][0]["kind"]) == (2, "counterfactuals")
        assert client.get("/log.json?page=99").json() == second
        assert '<a href="/counterfactuals/27"' in client.get("/log").text
        answers = client.get("/explanations.json").json()
        assert [one["number"] for one in answers["records"]] == [one["number"] for one in first["records"]]
        page = client.get("/explanations").text
        assert '<a href="/counterfactuals/27"' in page
        assert "duration in month: 44 or more" in page  # in words, where the log has names
        assert first["records"][0]["hash"] not in page
        assert first["records"][0]["hash"] in client.get("/log").text


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


@pytest.mark.parametrize("folder", ["explanations", "ladders"])
def test_a_report_can_be_looked_at_before_it_is_downloaded(client: httpx.Client, folder: str) -> None:
    where = (
        explain_by_form(client)
        if folder == "explanations"
        else follow_to_result(client, client.post(f"/applicants/{DENIED}/ladder"))
    )
    page = client.get(where).text
    for audience in ("person", "validator"):
        shown = client.get(f"{where}/report.html", params={"audience": audience, "show": "true"})
        kept = client.get(f"{where}/report.html", params={"audience": audience})
        assert f'{where}/report.html?audience={audience}&amp;show=true"' in page
        assert shown.headers["content-disposition"].startswith("inline")
        assert kept.headers["content-disposition"].startswith("attachment")
        assert shown.text == kept.text
        policy = shown.headers["content-security-policy"]
        assert "sandbox" in policy
        assert "script-src" not in policy
        assert "default-src 'none'" in policy
    assert client.get(f"{where}/report.html?show=perhaps").status_code == 422


def test_every_case_has_its_score_and_how_far_it_is_from_the_threshold(client: httpx.Client) -> None:
    where = explain_by_form(client)
    ladder = follow_to_result(client, client.post(f"/applicants/{DENIED}/ladder"))
    for path in (f"/applicants/{DENIED}", where, ladder):
        score = client.get(f"{path}.json").json()["score"]
        assert score["value"] < score["threshold"] == 0.5
        assert score["distance"] == pytest.approx(score["value"] - 0.5)
        page = client.get(path).text
        assert f"Score {score['text']}" in page
        assert "“good” needs more than 0.5: 0.286 too little." in page
    listed = client.get("/applicants.json?sort=score&order=descending").json()["applicants"]
    values = [one["score"]["value"] for one in listed]
    assert values == sorted(values, reverse=True)
    assert all((one["outcome"] == "desired") == (one["score"]["distance"] > 0) for one in listed)


def test_a_list_is_sorted_by_its_headers(client: httpx.Client) -> None:
    page = client.get("/applicants?outcome=undesired").text
    first = re.search(r'href="([^"]*sort=feature%3Aduration_in_month[^"]*)"', page)
    assert first is not None
    where = first[1].replace("&amp;", "&")
    rows = client.get(where.replace("/applicants?", "/applicants.json?")).json()
    durations = [int(one["values"][1]) for one in rows["applicants"]]
    assert durations == sorted(durations)
    assert all(one["outcome"] == "undesired" for one in rows["applicants"])
    text = client.get(where).text
    assert 'aria-sort="ascending"' in text
    again = re.search(r'href="([^"]*sort=feature%3Aduration_in_month&amp;order=descending[^"]*)"', text)
    assert again is not None
    assert client.get("/applicants.json?sort=feature:job").json()["columns"][-1]["feature"] == "job"


def test_a_search_that_is_not_understood_keeps_its_text_and_names_the_nearest_feature(client: httpx.Client) -> None:
    answer = client.post("/applicants", data={"text": "durration >= 24 and housing = own", "outcome": "undesired"})
    assert answer.status_code == 422
    assert "did you mean duration in month?" in answer.text
    assert 'value="durration &gt;= 24 and housing = own"' in answer.text
    suggested = "duration in month >= 24 and housing = own"
    assert f'name="text" value="{suggested.replace(">", "&gt;")}"' in answer.text
    data = client.post("/applicants", data={"text": "durration >= 24"}, headers={"accept": "application/json"}).json()
    assert data["error"]["code"] == "search-not-understood"
    assert data["error"]["hint"] == "did you mean duration in month?"
    found = client.post("/applicants", data={"text": suggested, "outcome": "undesired"}).headers["location"]
    added = client.post("/applicants", data={"text": "duration in month >= 24", "outcome": "undesired",
                                             "column": "housing", "operator": "=", "value": "own"})  # fmt: skip
    totals = {client.get(path.replace("?", ".json?")).json()["total"] for path in (found, added.headers["location"])}
    assert len(totals) == 1
    page = client.get(found).text
    assert 'aria-label="Remove housing = own"' in page
    assert (
        "No value has “durration” in it"
        in client.get(client.post("/applicants", data={"text": "durration"}).headers["location"]).text
    )


def build_form(client: httpx.Client, row: int = DENIED) -> dict[str, str]:
    """The form for a new applicant with the values of a past one."""
    values = client.get(f"/applicants/{row}.json").json()["values"]
    return {f"f{place}": one["typed"] for place, one in enumerate(values)}


def test_a_new_applicant_starts_with_usual_values_and_is_explained_like_a_past_one(client: httpx.Client) -> None:
    fields = client.get("/applicants/new.json").json()["fields"]
    assert [one["kind"] for one in fields][:3] == ["choice", "number", "choice"]
    assert fields[1]["default"] == "18"
    page = client.get("/applicants/new").text
    assert page.count('<label for="f') == len(fields) == 19
    form = build_form(client)
    for action, folder in (("explain", "explanations"), ("ladder", "ladders")):
        where = follow_to_result(client, client.post("/applicants/new", data=form | {"action": action}))
        assert where.startswith(f"/{folder}/")
        data = client.get(f"{where}.json").json()
        assert data["row"] is None
        assert data["record"]["user_name"] == "local"
        assert [one["typed"] for one in data["values"]] == list(form.values())
        again = client.get(f"/applicants/new.json?explanation={data['record']['number']}").json()
        assert list(again["texts"].values()) == list(form.values())
    past = client.get(f"{explain_by_form(client)}.json").json()
    new = follow_to_result(client, client.post("/applicants/new", data=form | {"action": "explain"}))
    for name in ("conditions", "verdict", "score", "coverage"):
        assert client.get(f"{new}.json").json()[name] == past[name]


def test_a_new_applicant_who_is_granted_gets_an_outcome_and_no_record(client: httpx.Client) -> None:
    before = client.get("/log.json").json()["total"]
    for form in (build_form(client, GRANTED), build_form(client) | {"action": "decide"}):
        answer = client.post("/applicants/new", data=form)
        assert answer.status_code == 200
        assert "The outcome is" in answer.text
        assert "Nothing was recorded" in answer.text
    assert client.get("/log.json").json()["total"] == before


def test_a_form_keeps_what_was_typed_and_says_what_is_wrong_beside_the_field(client: httpx.Client) -> None:
    form = build_form(client) | {"f1": "two years", "f4": "9000", "f0": "castle"}
    for path in ("/applicants/new", f"/applicants/{DENIED}/what-if"):
        answer = client.post(path, data=form)
        assert answer.status_code == 422
        assert "2 values cannot be used" in answer.text
        assert 'id="e1">Enter a whole number.' in answer.text
        assert re.search(r'name="f1" value="two years"[^>]*aria-invalid="true" aria-describedby="e1 d1"', answer.text)
        assert 'name="f4" value="9000"' in answer.text
        assert "<option selected>castle</option>" in answer.text
        data = client.post(path, data=form, headers={"accept": "application/json"})
        assert (data.status_code, data.json()["error"]["code"]) == (422, "value-outside-domain")
    empty = client.post("/applicants/new", data={})
    assert "19 values cannot be used" in empty.text


def test_a_batch_is_started_watched_stopped_and_downloaded(tmp_path: Path) -> None:
    gate, served_model = build_gated_model()
    with open_client(served_model, tmp_path) as client:
        assert client.get("/applicants.json").json()["has_scores"] is False  # it only decides
        search = client.post("/applicants", data={"text": "a = 3", "outcome": "undesired"}).headers["location"]
        name = search.rpartition("=")[2]
        wanted = client.get(f"/batches.json?search={name}").json()["denied_total"]
        assert 0 < wanted < client.get("/batches.json").json()["denied_total"]
        gate.open.clear()
        where = client.post("/batches", data={"search": name, "most": "3"}).headers["location"]
        page = client.get(where).text
        assert '<noscript><meta http-equiv="refresh"' in page
        assert "3 applicants found for “a = 3”" in page
        assert client.get(f"/jobs/{where.rpartition('/')[2]}").headers["location"] == where
        stopped = client.post(f"{where}/cancel")
        assert stopped.headers["location"] == where
        gate.open.set()
        while client.get(f"{where}.json").json()["state"] == "running":
            pass
        data = client.get(f"{where}.json").json()
        assert data["state"] == "cancelled"
        assert "Stopped" in client.get(where).text
        lines = client.get(f"{where}/results.json")
        assert lines.headers["content-disposition"] == 'attachment; filename="batch.json"'
        assert len(lines.json()["lines"]) == data["rows_done"]
        table = client.get(f"{where}/results.csv")
        assert table.text.splitlines()[0] == "applicant,explanation,verdict,rule,error"
        assert client.get("/batches.json").json()["batches"][0]["batch"] == where.rpartition("/")[2]
        for bad in ({"search": "unknown"}, {"most": "0"}, {"most": "many"}, {"seconds": "-1"}):
            answer = client.post("/batches", data=bad, headers={"accept": "application/json"})
            assert answer.status_code in (404, 422)
            assert set(answer.json()) == {"error"}
        nobody = client.post("/applicants", data={"text": "a = 11 and b = 11 and c = 11"}).headers["location"]
        empty = client.post("/batches", data={"search": nobody.rpartition("=")[2]})
        assert "at least one applicant" in empty.text


def test_a_table_of_a_batch_is_safe_for_spreadsheets(tmp_path: Path) -> None:
    import numpy as np
    import pandas as pd

    table = pd.DataFrame({"=cmd": np.arange(40)})
    served_model = ServedModel.from_model(lambda rows: (rows["=cmd"] > 20).to_numpy(dtype=float), table, "formulas")
    with open_client(served_model, tmp_path) as client:
        where = client.post("/batches", data={"most": "1"}).headers["location"]
        while client.get(f"{where}.json").json()["state"] in ("waiting", "running"):
            pass
        assert ",'=cmd" in client.get(f"{where}/results.csv").text.splitlines()[1]


def test_only_the_last_batches_are_kept(german: ServedModel, tmp_path: Path) -> None:
    with open_client(german, tmp_path, ServerLimits(kept_batches=2)) as client:
        paths = [client.post("/batches", data={"most": "1"}).headers["location"] for _ in range(3)]
        assert [client.get(path).status_code for path in paths] == [404, 200, 200]


def test_the_title_is_shown_to_users_and_to_nobody_else(tmp_path: Path) -> None:
    import pandas as pd

    titled = ServedModel.from_model(
        lambda rows: (rows["n"] > 20).to_numpy(dtype=float), pd.DataFrame({"n": range(40)}), "Loans <of> Ann"
    )
    with open_client(titled, tmp_path) as client:
        page = client.get("/overview").text
        assert "<title>Overview · Loans &lt;of&gt; Ann</title>" in page
        assert "Loans &lt;of&gt; Ann</span>" in page
    with open_client(titled, tmp_path, tokens={"a-secret-of-many-letters": "ann"}) as client:
        assert "Ann" not in client.get("/login").text


def test_labels_are_used_on_every_page(tmp_path: Path) -> None:
    model, data, space = build_demo_model()
    labels = Labels.from_dict(load_german_labels())
    served_model = ServedModel.from_model(model, data, "x", {"space": space.with_labels(labels)}, desired=DESIRED_CLASS)
    with open_client(served_model, tmp_path) as client:
        where = explain_by_form(client)
        ladder = follow_to_result(client, client.post(f"/applicants/{DENIED}/ladder"))
        changes = follow_to_result(client, client.post(f"/applicants/{DENIED}/counterfactuals"))
        batch = client.post("/batches", data={"most": "1"}).headers["location"]
        while client.get(f"{batch}.json").json()["state"] in ("waiting", "running"):
            pass
        tried = client.post(f"/applicants/{DENIED}/what-if", data={"f1": "42 months", "explanation": "1"}).text
        refused = client.post("/applicants/new", data={"f1": "x"}).text
        paths = ("/applicants", f"/applicants/{DENIED}", where, ladder, changes, batch, "/overview", "/explanations")
        pages = {path: client.get(path).text for path in paths} | {"what-if": tried, "new": refused}
        for path, text in pages.items():
            said = re.sub(r'(name|value|href|for|id|class)="[^"]*"|<code>.*?</code>', "", text)
            assert "Duration" in said, path
            assert not re.search(r"duration.in.month|\.\.\. &lt; 100 DM|undesired|desired outcome", said), path
            assert path in ("/explanations", "new") or re.search(r"denied|approved", said), path
        assert "44 months or more" in pages[where]
        assert "3 conditions; no shorter rule holds" in pages[where]
        assert "component" not in pages[where].replace("Components", "")
        assert "Then the outcome is" in tried
        assert "below 100 DM" in pages[where]
        found = client.post("/applicants", data={"text": "Checking account = overdrawn and amount >= 5,000 DM"})
        assert found.status_code == 303


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
