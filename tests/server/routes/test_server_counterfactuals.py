"""Counterfactuals over HTTP and on their page: changes, ranges, a menu, targets, and what forbids every change."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest
from server_examples import DENIED, open_client, open_server
from sklearn.linear_model import LogisticRegression

from ironrule.explain.counterfactuals.options import ChangeOptions
from ironrule.explain.options import SearchOptions
from ironrule.results.counterfactuals import Counterfactuals
from ironrule.server import counterfactuals
from ironrule.server.audit.record import AuditEntry
from ironrule.server.counterfactuals import CounterfactualsRequest, find_recorded_counterfactuals
from ironrule.server.served_model import ServedModel
from ironrule.verdict.budget import Budget, Meter

EVIL = "<script>alert(1)</script>"


def ask_by_api(client: httpx.Client, **body: Any) -> dict[str, Any]:
    """The document that the API answers with."""
    answer = client.post("/api/counterfactuals", json={"row": DENIED, **body})
    assert answer.status_code == 200
    document: dict[str, Any] = answer.json()["document"]
    return document


def press_menu_button(client: httpx.Client, page: str) -> str:
    """The address of the page that the button for the menu leads to."""
    found = re.search(r'action="(/counterfactuals/\d+/menu)"', page)
    assert found is not None
    return follow_jobs(client, client.post(found[1]))


def ask_by_form(client: httpx.Client, row: int = DENIED, **fields: Any) -> str:
    """The address of the page that a form leads to."""
    return follow_jobs(client, client.post(f"/applicants/{row}/counterfactuals", data=fields))


def follow_jobs(client: httpx.Client, answer: httpx.Response) -> str:
    """Where an answer leads to in the end."""
    assert answer.status_code == 303, answer.text
    where = answer.headers["location"]
    while where.startswith("/jobs/"):
        page = client.get(where)
        assert "failed" not in page.text, page.text
        where = page.headers.get("location", where)
    return str(where)


def test_a_document_with_everything_is_still_one_of_counterfactuals(client: httpx.Client) -> None:
    document = ask_by_api(client, region=True, menu=True)
    found = Counterfactuals.from_dict(document)  # which computes the digest again
    assert len(document["measures"]) == len(found) > 0
    assert [one["l0"] for one in document["measures"]] == [len(one.changes) for one in found]
    assert document["unfinished"] == []
    assert document["asked"]["features_to_vary"] == "all"
    plain = ask_by_api(client)
    assert not {"region", "menu", "infeasibility"} & set(plain)


def test_every_value_in_the_ranges_does(client: httpx.Client, german: ServedModel) -> None:
    region = ask_by_api(client, region=True)["region"]
    (only,) = region["ranges"]
    assert region["verdict"]["kind"] == "proven"
    assert region["maximal"]
    desired = {
        value: german.explainer.is_desired({**region["counterfactual"]["values"], only["feature"]: value})
        for value in range(only["first"], only["last"] + 1)
    }
    assert {value for value, does in desired.items() if does} == set(range(only["low"], only["high"] + 1))


def test_the_menu_is_that_of_the_explainer(client: httpx.Client, german: ServedModel) -> None:
    body = {"features_to_vary": ["credit_amount", "savings_account_and_bonds", "duration_in_month"]}
    menu = ask_by_api(client, menu=True, **body)["menu"]
    same = german.explainer.change_menu(DENIED, **body, progress=False).to_dict()
    assert menu == same
    assert menu["complete"]
    assert [one["features"] for one in menu["entries"]] == [
        ["duration_in_month"],
        ["credit_amount", "savings_account_and_bonds"],
    ]


def test_what_forbids_every_change_is_named(client: httpx.Client, german: ServedModel) -> None:
    document = ask_by_api(client, features_to_vary=["job", "housing"])
    found = document["infeasibility"]
    assert document["proven"]
    assert document["counterfactuals"] == []
    assert found["proven"]
    assert found["minimal"]
    needed = {one["feature"]: one["without_it"] for one in found["needed"]}
    assert needed
    for name, without in needed.items():
        changed = {change["feature"] for change in without["changes"]}
        assert name in changed
        assert not changed & (set(needed) - {name})
        assert german.explainer.is_desired(without["values"])


@pytest.mark.parametrize(
    "body", [{"cost": {"norm": "l1", "prices": {"job": "inf"}}}, {"target": {"above": 0.6}}, {"margin": 0.05}]
)
def test_a_menu_is_of_the_cost_and_for_what_is_to_be_reached(
    client: httpx.Client, german: ServedModel, body: dict[str, Any]
) -> None:
    document = ask_by_api(client, menu=True, **body)
    entries = document["menu"]["entries"]
    assert entries
    assert all("job" not in one["features"] for one in entries) or "cost" not in body
    assert all((one.get("cost") is not None) == ("cost" in body) for one in entries)
    threshold = 0.6 if "target" in body else 0.55 if "margin" in body else 0.5
    rows = pd.DataFrame([one["counterfactual"]["values"] for one in entries])
    model = german.explainer._context.arguments.models[0]
    place = list(model.classes_).index("good")
    table = rows[list(german.explainer.space.names)].to_numpy()
    assert (model.predict_proba(table)[:, place] > threshold).all()


def test_a_menu_obeys_steps(client: httpx.Client) -> None:
    entries = ask_by_api(client, menu=True, cost={"steps": {"credit_amount": 500}})["menu"]["entries"]
    changes = [change for one in entries for change in one["counterfactual"]["changes"]]
    moved = [one["after"] - one["before"] for one in changes if one["feature"] == "credit_amount"]
    assert moved
    assert all(distance % 500 == 0 for distance in moved)


def test_a_region_is_of_the_target_and_with_the_margin(client: httpx.Client, german: ServedModel) -> None:
    document = ask_by_api(client, region=True, target={"above": 0.6}, margin=0.05)
    region = document["region"]
    assert (region["target"], region["margin"], region["verdict"]["kind"]) == ({"above": 0.6}, 0.05, "proven")
    assert region["rule"]["outcome"] == "a score above 0.6, even if every score moves by 0.05"
    values = dict(region["counterfactual"]["values"])
    (only,) = region["ranges"]
    numbers = [*range(int(only["low"]), int(only["high"]) + 1)]
    rows = pd.DataFrame([{**values, only["feature"]: number} for number in numbers])
    model = german.explainer._context.arguments.models[0]
    shares = model.predict_proba(rows[list(german.explainer.space.names)].to_numpy())
    assert (shares[:, list(model.classes_).index("good")] > 0.65).all()


def test_the_page_shows_what_changes_and_how_far(client: httpx.Client) -> None:
    where = ask_by_form(client)
    page, data = client.get(where).text, client.get(f"{where}.json").json()
    assert page.count("<caption>Change ") == len(data["counterfactuals"]) == len(data["costs"])
    assert '<tr><th scope="row">duration in month</th><td>48</td><td>43</td></tr>' in page
    assert data["costs"][0] == "1 change, distance 0.0735"  # 5 of the 68 months between the ends of the domain
    assert data["proof_text"][-1] == "This is exact: nothing was rounded."
    assert data["region"]["ranges"][0]["range"] == "43 or less"
    drawing = re.search(r"<svg[^>]*>.*?</svg>", page, re.DOTALL)
    assert drawing is not None
    assert "48 → 43" in drawing[0]
    assert 'class="drawing"' in drawing[0]
    assert "style=" not in page  # the policy for content refuses it
    assert data["menu"] is None


def test_a_button_asks_for_the_menu_with_the_same_restrictions(client: httpx.Client) -> None:
    where = ask_by_form(client, fixed=["duration_in_month", "job"], constraints="cf.credit_amount <= x.credit_amount")
    page = client.get(where).text
    second = press_menu_button(client, page)
    menu = client.get(f"{second}.json").json()["menu"]
    assert menu["complete"]
    assert len(menu["entries"]) > 1
    assert not {"duration in month", "job"} & {name for one in menu["entries"] for name in one["features"]}
    text = client.get(second).text
    assert "These are all" in text
    assert "Show all sets of features" not in text


def test_the_button_works_for_a_cost_and_a_target_of_ones_own(client: httpx.Client) -> None:
    good = client.get(f"/applicants/{DENIED}.json").json()["classes"].index("good")
    asked = {"cost": "l1", "prices": "duration_in_month=3\njob=inf", "reach": good, "above": "0.6"}
    page = client.get(ask_by_form(client, **asked)).text
    where = press_menu_button(client, page)
    page, data = client.get(where).text, client.get(f"{where}.json").json()
    document = client.get(f"/api/explanations/{data['record']['number']}").json()["document"]
    assert document["target"] == {"desired": ["good"], "above": 0.6}
    assert document["cost"] == document["menu"]["cost"]
    assert document["cost"]["prices"] == {"duration_in_month": 3.0, "job": "inf"}
    costs = [one["cost"] for one in document["menu"]["entries"]]
    assert len(costs) > 1
    assert [one["distance"] for one in data["menu"]["entries"]] == costs  # as shown, under the word cost
    assert data["menu"]["measure"] == "cost"
    assert '<th scope="col">cost</th>' in page
    assert not any("job" in one["features"] for one in document["menu"]["entries"])


def test_the_button_repeats_ranges_and_a_margin_of_the_api(client: httpx.Client) -> None:
    body = {"row": DENIED, "margin": 0.05, "permitted_range": {"credit_amount": [1000, 4000]}, "k": 2, "seed": 3}
    number = client.post("/api/counterfactuals", json=body).json()["number"]
    where = press_menu_button(client, client.get(f"/counterfactuals/{number}").text)
    second = client.get(f"/api/explanations/{where.rpartition('/')[2]}").json()["document"]
    first = client.get(f"/api/explanations/{number}").json()["document"]
    assert second["asked"] == first["asked"]
    assert (second["margin"], second["seed"]) == (0.05, 3)
    assert "region" not in second
    assert second["menu"]["margin"] == 0.05


def test_the_button_repeats_steps(client: httpx.Client) -> None:
    where = ask_by_form(client, steps="credit_amount=50")
    menu = press_menu_button(client, client.get(where).text)
    assert client.get(f"{menu}.json").json()["menu"]


def test_suggested_changes_are_the_cheapest_by_the_cost_of_the_request(client: httpx.Client) -> None:
    cost = {"norm": "l1", "prices": {"duration_in_month": {"up": 1.0, "down": "inf"}}}
    form = {"change_cost": "l1", "change_prices": "duration_in_month=1:inf"}
    usual = client.post("/api/explain", json={"row": DENIED}).json()["document"]["changes"]
    asked = client.post("/api/explain", json={"row": DENIED, "change_cost": cost}).json()["document"]["changes"]
    ladder = client.post("/api/ladder", json={"row": DENIED, "change_cost": "l2"}).json()["document"]["explanation"]
    where = follow_jobs(client, client.post(f"/applicants/{DENIED}/explain", data=form))
    typed = client.get(f"/api/explanations/{where.rpartition('/')[2]}").json()["document"]["changes"]
    assert (asked["cost"]["prices"], "cost" in usual) == (cost["prices"], False)
    assert typed == asked
    assert ladder["changes"]["cost"]["norm"] == "l2"
    assert "cheapest by the cost asked for" in client.get(where).text
    assert "cheapest by the cost asked for" not in client.get("/explanations/1").text
    for wrong in ({"change_cost": "cheap"}, {"change_cost": {"prices": {"wage": 2}}}):
        assert client.post("/api/explain", json={"row": DENIED, **wrong}).status_code == 422


def test_a_target_can_be_typed(client: httpx.Client) -> None:
    about = client.get(f"/applicants/{DENIED}.json").json()
    good = about["classes"].index("good")
    where = ask_by_form(client, reach=good, above="0.6", at_most="", seconds="")
    data = client.get(f"{where}.json").json()
    assert data["target"] == data["region"]["target"] == "a score for good above 0.6"
    assert data["counterfactuals"]
    assert data["can_have_menu"]
    page = client.get(where).text
    assert "To be reached: a score for good above 0.6." in page
    assert "every combination of values in these ranges has a score for good above 0.6" in page
    for wrong in ({"reach": 7}, {"reach": -1}, {"above": "much"}, {"above": "nan"}, {"above": "0.8", "at_most": "0.2"}):
        assert client.post(f"/applicants/{DENIED}/counterfactuals", data=wrong).status_code == 422


def test_the_page_tells_what_forbids_every_change(client: httpx.Client, german: ServedModel) -> None:
    fixed = [name for name in german.space.names if name != "job"]
    where = ask_by_form(client, fixed=fixed)
    page, data = client.get(where).text, client.get(f"{where}.json").json()
    assert "Proven: these restrictions together forbid every change" in page
    assert "Without any one of them, there is such a change." in page
    assert "without it: duration in month <strong>" in page
    assert data["infeasibility"]["minimal"]
    assert not data["can_have_menu"]


def test_prices_that_forbid_every_change_are_told_apart(client: httpx.Client, german: ServedModel) -> None:
    where = ask_by_form(client, prices="\n".join(f"{name}=inf" for name in german.space.names))
    page, data = client.get(where).text, client.get(f"{where}.json").json()
    assert data["proven"]
    needed = data["infeasibility"]["needed"]
    assert needed
    assert {one["kind"] for one in needed} == {"price"}
    assert "a price of infinity" in page
    assert "without it: " in page


def test_a_region_ignores_typed_limits_and_says_so(client: httpx.Client) -> None:
    where = ask_by_form(client, constraints="cf.duration_in_month >= 30")
    data = client.get(f"{where}.json").json()
    assert data["region"]["ranges"][0]["range"] == "43 or less"
    assert data["region"]["ignores_limits"]
    assert "do not look at the constraints" in client.get(where).text


def test_no_range_is_shown_where_there_is_only_one_value(client: httpx.Client) -> None:
    where = ask_by_form(client, prices="duration_in_month=inf")  # the nearest change is then that of a category
    page, data = client.get(where).text, client.get(f"{where}.json").json()
    assert not data["region"]["has_room"]
    assert "no wider range was found" in page
    assert "Any value in these ranges would do" not in page


def test_how_far_numbers_were_rounded_is_told(tmp_path: Path) -> None:
    rows = pd.DataFrame(np.random.default_rng(2).uniform(0, 1000, (300, 3)), columns=["income", "debt", "age"])
    model = LogisticRegression(max_iter=10_000).fit(rows, rows["income"] - rows["debt"] > 123.456)
    served = ServedModel.from_model(model, rows, "numbers", desired=True)
    with open_client(served, tmp_path) as client:
        row = client.get("/api/applicants?outcome=undesired").json()["applicants"][0]["row"]
        usual, summed = (
            client.get(f"{ask_by_form(client, row=row, cost=cost)}.json").json() for cost in ("fewest", "l1")
        )
        record = client.get(f"/api/explanations/{usual['record']['number']}").json()["document"]
    assert usual["proven"]
    assert summed["proven"]
    assert record["resolution"] > 0
    assert usual["proof_text"][1] == (
        "Numbers were rounded to readable ones. Fewer changes cannot do, and as many changes can be nearer by "
        f"{100 * record['resolution']:g}% of the range of each number that changes, at the most."
    )
    assert summed["costs"][0].startswith(("1 change, cost", "2 changes, cost"))
    assert "nothing costs less by more than" in summed["proof_text"][1]
    assert summed["cost_note"].startswith("Nearest means the least sum of distances.")


def test_roles_and_values_with_markup(tmp_path: Path) -> None:
    values = np.random.default_rng(1).integers(0, 10, (200, 2))
    table = pd.DataFrame({"a": values[:, 0], EVIL: values[:, 1], "kind": np.where(values[:, 1] > 5, EVIL, "plain")})

    def decide(rows: pd.DataFrame) -> Any:
        return ((rows["a"] > 4) & (rows[EVIL] > 3) & (rows["kind"] == EVIL)).to_numpy(dtype=float)

    served = ServedModel.from_model(decide, table, "markup", {"roles": {"a": "immutable"}}, threshold=0.5)
    row = int(np.flatnonzero((table["a"] > 4) & (table[EVIL] <= 3))[0])
    with open_client(served, tmp_path) as client:
        where = ask_by_form(client, row=row, menu="yes")
        page, data = client.get(where).text, client.get(f"{where}.json").json()
        assert data["counterfactuals"]
        assert EVIL in {one["feature"] for way in data["counterfactuals"] for one in way}
        assert EVIL not in page
        assert "&lt;script&gt;" in page
        fixed = client.get(f"{ask_by_form(client, row=row, fixed=['kind'])}.json").json()
        assert "a" not in {one["feature"] for way in fixed["counterfactuals"] for one in way}


def test_a_job_that_is_stopped_keeps_what_it_has(german: ServedModel) -> None:
    looked = []

    def stop_after_the_first_search(meter: Meter) -> None:
        looked.append(meter)
        if meter is not looked[0]:
            raise KeyboardInterrupt

    request = CounterfactualsRequest(DENIED, SearchOptions(), ChangeOptions(), region=True, menu=True)
    budget = Budget(seconds=60, callback=stop_after_the_first_search)
    answer = find_recorded_counterfactuals(german.explainer, request, budget)
    assert len(answer.found) > 0
    menu = answer.document.get("menu")
    assert "menu" in answer.document["unfinished"] or (menu is not None and not menu["complete"])
    assert Counterfactuals.from_dict(answer.document).items == answer.found.items


def test_where_no_time_is_left_the_rest_is_not_begun(german: ServedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter((0.0, 59.0, 60.0))  # when it began, before the region, before the menu
    monkeypatch.setattr(counterfactuals, "time", SimpleNamespace(monotonic=lambda: next(times)))
    request = CounterfactualsRequest(DENIED, region=True, menu=True)
    answer = find_recorded_counterfactuals(german.explainer, request, Budget(seconds=60))
    assert "region" in answer.document
    assert answer.document["unfinished"] == ["menu"]


def test_records_of_earlier_versions_are_shown(german: ServedModel, tmp_path: Path) -> None:
    found = german.explainer.counterfactuals(DENIED, k=1, progress=False)
    document = {
        name: value for name, value in found.to_dict().items() if name in ("counterfactuals", "proven", "stopped")
    }
    with open_server(german, tmp_path) as (client, app):
        entry = AuditEntry("ann", "counterfactuals", DENIED, "a space", "a model", "1", "proven", document)
        number = app.state.service.audit.append(entry).number
        assert client.post(f"/counterfactuals/{number}/menu").status_code == 422
        page, data = client.get(f"/counterfactuals/{number}"), client.get(f"/counterfactuals/{number}.json").json()
    assert page.status_code == 200
    assert "about another model" in page.text
    assert data["costs"] == ["1 change"]
    assert (data["region"], data["menu"], data["infeasibility"], data["can_have_menu"]) == (None, None, None, False)
