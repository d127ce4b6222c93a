"""ironrule counterfactual: what may change, and where it may go."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import skops.io
from loans import FEATURES, Files, fitted, loans

from ironrule import Counterfactuals
from ironrule.errors import InputError
from ironrule.rule.parsing import parse_ranges
from ironrule.space.feature import Feature
from ironrule.space.space import Space

SPACE = Space(
    (
        Feature("age", (20, 30, 40), ordered=True),
        Feature("a=b", (1, 2), ordered=True),
        Feature("job", ("clerk", "cook", "none, or other"), ordered=False),
        Feature("flag", (True, False), ordered=False),
        Feature("school", ("low", "middle", "high"), ordered=True),
    )
)


def changed(result) -> set[str]:
    return {change["feature"] for item in result.json["counterfactuals"] for change in item["changes"]}


def test_counterfactuals_come_as_a_table_of_changes(run, files: Files):
    result = run("counterfactual", *files.ask())
    assert result.code == 0, result.err
    assert "would be" in result.text
    assert "income" in result.text


def test_only_the_features_named_change(run, files: Files):
    assert changed(run("counterfactual", *files.ask("--vary", "income", "--k", "2", "--json"))) == {"income"}


def test_values_stay_in_the_permitted_range(run, files: Files):
    result = run("counterfactual", *files.ask("--range", "income=7:8", "job=clerk", "--json"))
    found = [item["values"] for item in result.json["counterfactuals"]]
    assert found
    assert all(7 <= values["income"] <= 8 and values["job"] == "clerk" for values in found)


def test_constraints_may_speak_of_the_row(run, files: Files):
    result = run("counterfactual", *files.ask("--constraint", "cf.job == x.job", "cf.age == x.age", "--json"))
    assert changed(result) == {"income"}


def test_constraints_bind_the_change_and_not_the_row(run, files: Files):
    result = run("counterfactual", *files.ask("--constraint", "cf.income == 8", "--json"))
    assert result.code == 0, result.err
    assert {item["values"]["income"] for item in result.json["counterfactuals"]} == {8}


def test_costs_prices_and_steps_are_options(run, files: Files):
    prices = ("--price", "age=inf", "job=3", "income=1:2")
    result = run("counterfactual", *files.ask("--cost", "l1", "--scale", "mad", *prices, "--json"))
    assert result.code == 0, result.err
    expected = {"age": "inf", "job": 3.0, "income": {"up": 1.0, "down": 2.0}}
    assert result.json["cost"] == {"norm": "l1", "scale": "mad", "prices": expected}
    assert result.json["proven"]
    assert changed(result) == {"income"}
    stepped = run("counterfactual", *files.ask("--step", "income=3", "--vary", "income", "--json")).json
    rises = [one["after"] - one["before"] for item in stepped["counterfactuals"] for one in item["changes"]]
    assert rises
    assert all(rise % 3 == 0 for rise in rises)


def test_a_cost_is_named_with_the_proof(run, files: Files):
    assert "by the cost asked for" in run("counterfactual", *files.ask("--cost", "linf")).text


def test_another_outcome_can_be_reached(run, files: Files):
    missed = run("counterfactual", *files.ask("--reach", "no", "--json"))
    assert missed.code != 0, "the row has that outcome already"
    result = run("counterfactual", *files.ask("--above", "0.6", "--json"))
    assert result.code == 0, result.err
    assert result.json["target"] == {"above": 0.6}


def test_a_margin_and_further_models_must_be_withstood(run, files: Files, tmp_path: Path):
    table = loans()
    second = fitted(table, np.where(table["income"] >= 7, "yes", "no"))
    path = tmp_path / "second.skops"
    skops.io.dump(second, path)
    plain = run("counterfactual", *files.ask("--vary", "income", "--k", "1", "--json")).json
    apart = run("counterfactual", *files.ask("--vary", "income", "--k", "1", "--margin", "0.45", "--json")).json
    assert apart["margin"] == 0.45
    assert apart["proven"]
    first = skops.io.load(files.model, trusted=skops.io.get_untrusted_types(file=files.model))
    share = first.predict_proba(pd.DataFrame([apart["counterfactuals"][0]["values"]])[FEATURES])[0, 1]
    assert share > 0.95
    result = run("counterfactual", *files.ask("--vary", "income", "--models", str(path), "--json"))
    assert result.code == 0, result.err
    incomes = [item["values"]["income"] for item in result.json["counterfactuals"]]
    assert min(incomes) >= 7 > plain["counterfactuals"][0]["values"]["income"]
    text = run("counterfactual", *files.ask("--vary", "income", "--margin", "0.1", "--models", str(path))).text
    assert "Robust: each is reached even if every score moves by 0.1 and with 1 further model." in text


def test_a_region_is_shown_around_each(run, files: Files):
    result = run("counterfactual", *files.ask("--vary", "income", "--region", "--json"))
    assert result.code == 0, result.err
    assert len(result.json["regions"]) == len(result.json["counterfactuals"]) == 1
    assert result.json["regions"][0]["verdict"]["kind"] == "proven"
    again = Counterfactuals.from_dict(result.json)  # the digest is of all of it
    assert [dict(one.values) for one in again] == [one["values"] for one in result.json["counterfactuals"]]
    text = run("counterfactual", *files.ask("--vary", "income", "--region")).text
    assert "Region 1: income:" in text


def test_a_region_is_of_what_is_to_be_reached(run, files: Files, tmp_path: Path):
    table = loans()
    second, output = tmp_path / "second.skops", tmp_path / "changes.json"
    skops.io.dump(fitted(table, np.where(table["income"] >= 7, "yes", "no")), second)
    asked = ("--vary", "income", "--region", "--above", "0.6", "--margin", "0.1", "--models", str(second))
    result = run("counterfactual", *files.ask(*asked, "--output", str(output)))
    assert result.code == 0, result.err
    assert "a score above 0.6, even if every score moves by 0.1 and with 1 further model, proven" in result.text
    region = json.loads(output.read_text(encoding="utf-8"))["regions"][0]
    assert region["verdict"]["kind"] == "proven"
    assert region["ranges"][0]["low"] >= 7
    checked = run(*map(str, ("check", output, "--model", files.model, "--data", files.data, "--models", second)))
    assert checked.code == 0, checked.err


def test_a_menu_lists_all_minimal_sets_cheapest_first(run, files: Files):
    result = run("counterfactual", *files.ask("--menu", "--json"))
    assert result.code == 0, result.err
    assert result.json["complete"]
    sizes = [len(entry["features"]) for entry in result.json["entries"]]
    assert sizes == sorted(sizes)
    priced = run("counterfactual", *files.ask("--menu", "--cost", "l1", "--price", "income=2", "--json")).json
    costs = [entry["cost"] for entry in priced["entries"]]
    assert costs == sorted(costs)
    limited = run("counterfactual", *files.ask("--menu", "--vary", "income", "--k", "1"))
    assert limited.text.startswith("1. income: income:")


def test_why_there_is_none_is_told_when_asked_and_where_it_is_proven(run, files: Files):
    asked = run("counterfactual", *files.ask("--vary", "age", "--why-none", "--json"))
    assert asked.code == 0, asked.err
    assert asked.json["proven"]
    assert {one["feature"] for one in asked.json["needed"]} <= {"income", "job"}
    found = run("counterfactual", *files.ask("--vary", "age", "--json"))
    assert found.json["why_none"]["needed"] == asked.json["needed"]
    text = run("counterfactual", *files.ask("--vary", "age")).text
    assert "these restrictions together forbid every one" in text
    assert "may not vary" in text
    assert text.count("there is no counterfactual") + text.count("There is no counterfactual") == 1
    beyond = run("counterfactual", *files.ask("--above", "0.4", "--at-most", "0.45")).text
    assert "There is no counterfactual whatever may change, and that is proven" in beyond
    assert "has a score above 0.4 and of at most 0.45" in beyond
    assert "allow more" not in beyond
    assert "why_none" not in run("counterfactual", *files.ask("--json")).json
    priced = run("counterfactual", *files.ask("--vary", "income", "--price", "income=inf", "--why-none", "--json")).json
    assert "price" in {one["kind"] for one in priced["needed"]}
    open_way = run("counterfactual", *files.ask("--why-none")).text
    assert "there is a counterfactual" in open_way


def test_diverse_ones_differ_in_their_values(run, files: Files):
    result = run("counterfactual", *files.ask("--vary", "income", "--k", "3", "--diverse", "0.2", "--json"))
    assert result.code == 0, result.err
    incomes = [item["values"]["income"] for item in result.json["counterfactuals"]]
    assert len(incomes) > 1
    assert all(after - before >= 0.2 * 7 for before, after in pairwise(incomes))
    text = run("counterfactual", *files.ask("--vary", "income", "--diverse")).text
    assert "Proven: each is the nearest that differs so from all above" in text


def test_past_rows_are_people_who_were_there(run, files: Files):
    result = run("counterfactual", *files.ask("--past", "--k", "2", "--json"))
    assert result.code == 0, result.err
    past = {tuple(values) for values in pd.read_csv(files.data)[FEATURES].to_numpy().tolist()}
    assert len(result.json["counterfactuals"]) == 2
    assert all(tuple(one["values"][name] for name in FEATURES) in past for one in result.json["counterfactuals"])
    assert not result.json["proven"]


def test_more_than_counterfactuals_can_be_written_to_a_file(run, files: Files, tmp_path: Path):
    for option in ("--region", "--menu", "--why-none", "--diverse", "--past"):
        output = tmp_path / f"answer{option}.json"
        result = run("counterfactual", *files.ask(option, "--output", str(output), "--json"))
        assert json.loads(output.read_text(encoding="utf-8")) == result.json


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (("--region", "--range", "income=7:8"), "--range"),
        (("--region", "--constraint", "cf.age >= x.age"), "--constraint"),
        (("--region", "--algorithm", "geco"), "--algorithm"),
        (("--why-none", "--algorithm", "geco"), "--algorithm"),
    ],
)
def test_what_an_answer_does_not_know_is_refused(refused, files: Files, more: tuple[str, ...], named: str):
    error = refused("counterfactual", *files.ask(*more))
    assert f"{more[0]} must be asked for without" in error
    assert named in error


@pytest.mark.parametrize("kind", ["--menu", "--why-none", "--diverse", "--past"])
def test_every_kind_of_answer_obeys_steps_and_what_is_to_be_reached(run, files: Files, kind: str):
    told = run(
        "counterfactual", *files.ask(kind, "--step", "income=2", "--above", "0.6", "--cost", "l1", "--json")
    ).json
    assert (told["target"], told["cost"]["steps"]) == ({"above": 0.6}, {"income": 2.0})
    found = told.get("counterfactuals") or [one["counterfactual"] for one in told.get("entries", [])]
    assert found or kind == "--why-none"
    moved = [one["after"] - one["before"] for each in found for one in each["changes"] if one["feature"] == "income"]
    assert all(distance % 2 == 0 for distance in moved)


def test_menus_and_restrictions_are_about_what_is_to_be_reached(run, files: Files):
    plain, dear, high, safe = (
        run("counterfactual", *files.ask("--menu", "--json", *more)).json
        for more in ((), ("--cost", "l1", "--price", "income=3"), ("--above", "0.8"), ("--margin", "0.1"))
    )
    assert "cost" not in plain
    assert dear["cost"]["prices"] == {"income": {"up": 3.0, "down": 3.0}} or dear["cost"]["prices"] == {"income": 3.0}
    assert all(entry["cost"] is not None for entry in dear["entries"])
    assert (high["target"]["above"], safe["margin"]) == (0.8, 0.1)
    frozen = ("--why-none", "--vary", "age", "--range", "age=20:21", "--json")
    for more in ((), ("--above", "0.6"), ("--margin", "0.05"), ("--cost", "l1", "--price", "income=2")):
        why = run("counterfactual", *files.ask(*frozen, *more)).json
        assert why["proven"], more
        assert why["needed"]
        assert all(one["nearest"] for one in why["needed"] if one["without_it"] is not None)
    text = run("counterfactual", *files.ask("--why-none", "--vary", "age", "--range", "age=20:21")).text
    assert "(nearest without it: " in text


def test_finding_none_is_told_as_no_proof(run, files: Files):
    result = run("counterfactual", *files.ask("--vary", "age", "--algorithm", "geco"))
    assert result.code == 0
    assert "No counterfactual was found. That is no proof" in result.text


def test_that_there_is_none_is_told_where_it_is_proven(run, files: Files):
    result = run("counterfactual", *files.ask("--vary", "age"))
    assert result.code == 0
    assert "There is no counterfactual, and that is proven" in result.text


def test_a_spent_budget_is_told(run, files: Files):
    result = run("counterfactual", *files.ask("--evaluations", "1", "--algorithm", "geco"))
    assert result.code == 0
    assert "The search stopped after its 1 evaluation of the model; more of them" in result.text


def test_counterfactuals_can_be_written_to_a_file(run, files: Files, tmp_path: Path):
    output = tmp_path / "changes.json"
    result = run("counterfactual", *files.ask("--output", str(output), "--json"))
    assert json.loads(output.read_text(encoding="utf-8")) == result.json


@pytest.mark.parametrize(
    ("text", "name", "values"),
    [
        ("age=20:30", "age", [20, 30]),
        ("age=25:", "age", [25.0, 40]),
        ("age=:30", "age", [20, 30]),
        ("age=[20, 40]", "age", [20, 40]),
        ("a=b=1:2", "a=b", [1, 2]),
        ("job=clerk, cook", "job", ["clerk", "cook"]),
        ("job=none, or other", "job", ["none, or other"]),
        ('job=["none, or other", "cook"]', "job", ["none, or other", "cook"]),
        ("flag=True", "flag", [True]),
        ("school=low:middle", "school", ["low", "middle"]),
    ],
)
def test_a_range_is_read_in_the_features_own_type(text: str, name: str, values: list[object]):
    assert parse_ranges([text], SPACE) == {name: values}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("agee=1:2", "did you mean 'age'?"),
        ("age", "such as age=20:40"),
        ("age=", "such as age=20:40"),
        ("age=20", "lowest:highest"),
        ("age=a:b", "one of 20, 30, 40"),
        ("age=[20", "is not a JSON list: Expecting"),
        ("job=pilot", "must be one of 'clerk', 'cook', 'none, or other', got 'pilot'"),
        ("school=low:top", "got 'top'"),
    ],
)
def test_a_range_that_cannot_be_read_is_refused(text: str, message: str):
    with pytest.raises(InputError) as error:
        parse_ranges([text], SPACE)
    assert message in str(error.value)


def test_unknown_features_to_vary_are_refused(refused, files: Files):
    assert "did you mean 'income'?" in refused("counterfactual", *files.ask("--vary", "incom"))


def ask_many(files: Files, *more: str) -> list[str]:
    """The same command without ``--row``."""
    asked = files.ask(*more)
    place = asked.index("--row")
    return [*asked[:place], *asked[place + 2 :]]


def test_all_denied_rows_are_searched_and_a_folder_is_continued(run, files: Files, tmp_path: Path):
    folder = tmp_path / "changes"
    first = run("counterfactual", *ask_many(files, "--all", "--workers", "1", "--output", str(folder), "--json"))
    assert first.code == 0, first.err
    assert first.json["searched"] == len(first.json["rows"]) > 1
    again = run("counterfactual", *ask_many(files, "--all", "--workers", "1", "--output", str(folder), "--json"))
    assert again.json == first.json  # times included: nothing was searched again
    shown = run("counterfactual", *ask_many(files, "--all", "--workers", "1", "--output", str(folder)))
    assert "Counterfactuals of" in shown.text


def test_the_rows_of_a_file_are_searched_into_a_table(run, files: Files, tmp_path: Path):
    output = tmp_path / "changes.csv"
    more = ("--rows", str(files.data), "--workers", "1", "--k", "2", "--output", str(output), "--json")
    result = run("counterfactual", *ask_many(files, *more))
    assert result.code == 0, result.err
    lines = output.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("row,counterfactual,")
    assert len(lines) - 1 == result.json["counterfactuals"]


def test_a_json_file_has_the_documents(run, files: Files, tmp_path: Path):
    output = tmp_path / "changes.json"
    result = run("counterfactual", *ask_many(files, "--all", "--workers", "1", "--output", str(output), "--json"))
    assert json.loads(output.read_text(encoding="utf-8")) == result.json


@pytest.mark.parametrize("more", [(), ("--all", "--row", "1"), ("--rows", "x.csv", "--all")])
def test_it_must_be_said_which_rows_are_meant(refused, files: Files, more: tuple[str, ...]):
    assert "one of --row, --rows and --all must be given" in refused("counterfactual", *ask_many(files, *more))


def test_what_is_written_besides_counterfactuals_can_be_checked(run, files: Files, tmp_path: Path):
    labels = tmp_path / "labels.toml"
    labels.write_text('language = "en"\n[features.income]\nlabel = "Monthly income"\n')
    own = ["--model", files.model, "--data", files.data, "--desired", "yes", "--target", "paid"]
    asked = {
        "menu": ["--menu"],
        "none": ["--vary", "age", "--why-none"],
        "embedded": ["--vary", "age"],
        "labelled": ["--menu", "--vary", "income", "--labels", str(labels)],
    }
    for name, options in asked.items():
        path = tmp_path / f"{name}.json"
        written = run("counterfactual", *files.ask(*options, "--target", "paid", "--output", str(path)))
        assert written.code == 0, written.err
        told = run("check", str(path), *own, "--json")
        assert (told.code, told.json["status"]) == (0, "proven"), told.out + told.err
        document = json.loads(path.read_text())
        assert ("labels" in document) == (name == "labelled")
        document["digest"] = "0"
        path.write_text(json.dumps(document))
        assert run("check", str(path), *own).code == 1
    inner = json.loads((tmp_path / "embedded.json").read_text())["why_none"]
    assert inner["needed"] == json.loads((tmp_path / "none.json").read_text())["needed"]
    (tmp_path / "menu.json").write_text('{"menu_format": 7}')
    refused = run("check", str(tmp_path / "menu.json"), *own)
    assert refused.code == 2
    assert "menu" in refused.err
