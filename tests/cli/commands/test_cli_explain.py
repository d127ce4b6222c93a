"""ironrule explain: what it prints, and what its options do."""

from __future__ import annotations

import json
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from loans import FEATURES, Files, fitted, loans
from sklearn.linear_model import LogisticRegression
from skops import io

import ironrule


def test_explain_prints_the_rule_its_verdict_and_its_coverage(run, files: Files):
    result = run("explain", *files.ask("--target", "paid"))
    assert result.code == 0, result.err
    assert "Everyone with" in result.text
    assert "gets: 'no'" in result.text
    assert "Verdict: proven: no point of the rule's box can be desired" in result.text
    assert "no shorter rule holds" in result.text
    assert "of 60." in result.text
    assert "What would have changed the outcome" in result.text
    assert result.err == ""


def test_json_is_the_explanation_and_nothing_else(run, files: Files):
    result = run("explain", *files.ask("--json"))
    explanation = ironrule.Explanation.from_dict(result.json)
    assert isinstance(explanation.verdict, ironrule.Proven)
    assert set(explanation.instance) == set(FEATURES)


def test_what_makes_the_rule_long_comes_after_the_explanation(run, files: Files):
    model, table = io.load(files.model), loans()
    explainer = ironrule.Explainer(model, table[FEATURES], desired="yes")
    expected = explainer.diagnose(explainer.explain(files.denied))
    shown = run("explain", *files.ask("--diagnose")).text
    assert shown.index("What would have changed") < shown.index("Why the rule is long")
    found = run("explain", *files.ask("--diagnose", "--json")).json
    assert found["diagnosis"] == expected.to_dict()
    assert ironrule.Explanation.from_dict(found["explanation"]).rule == expected.rule


COOK = ("--row", '{"age": 25, "income": 5, "job": "cook"}')  # is denied by two conditions, not by one


def test_a_short_rule_comes_first_with_what_it_is_worth(run, files: Files):
    ask = files.ask("--target", "paid", "--most", "1", *COOK)
    ladder = ironrule.Ladder.from_dict(run("explain", *ask, "--json").json)
    first = ladder.find_best_rung(1)
    assert first is not None
    assert isinstance(first.verdict, ironrule.Bounded)
    shown = " ".join(run("explain", *ask).text.replace("│", " ").split())
    assert shown.startswith("╭─ bounded, not proven")
    worth = f"{first.measured.exceptions} exceptions among {first.measured.rows} measured row"
    whole = "Why you can rely on it: the whole rule, with 2 conditions"
    assert shown.index(worth) < shown.index("All bounds hold together") < shown.index(whole)
    assert shown.index(whole) < shown.index("╭─ proven") < shown.index("What would have changed")


def test_a_whole_rule_that_is_short_enough_needs_no_shorter_one(run, files: Files):
    whole = run("explain", *files.ask("--target", "paid")).text
    short = run("explain", *files.ask("--target", "paid", "--most", "12")).text
    assert short.splitlines()[:-1] == whole.splitlines()[:-1]  # the last line has the seconds


def test_a_short_rule_is_written_with_the_whole_one_as_a_ladder_that_can_be_checked(run, files: Files, tmp_path: Path):
    ask, model = files.ask("--target", "paid", "--most", "1", *COOK), ("--model", files.model, "--data", files.data)
    for ending, part in ((".json", "ladder_format"), (".html", "bounded: at most"), (".txt", "bounded: at most")):
        path = tmp_path / f"why{ending}"
        assert run("explain", *ask, "--output", str(path)).code == 0
        assert part in path.read_text(encoding="utf-8")
    checked = run("check", str(tmp_path / "why.json"), *model, "--desired", "yes", "--target", "paid")
    assert "holds" in checked.text, checked.err
    diagnosed = run("explain", *ask, "--diagnose", "--json").json
    assert set(diagnosed) == {"ladder", "diagnosis"}


def test_short_rules_that_cannot_be_had_are_refused(refused, files: Files, tmp_path: Path):
    asked = refused("explain", *files.ask("--target", "paid", "--most", "-1"))
    assert "most must be a positive integer, got -1" in asked
    fresh = tmp_path / "fresh.csv"
    loans().to_csv(fresh, index=False)
    told = refused("explain", *files.ask("--measure", str(fresh), "--most", "0"))
    assert "--measure must come with a short rule" in told
    assert "leave out --most 0" in told


def draw_people(count: int, seed: int) -> pd.DataFrame:
    values = np.random.default_rng(seed).integers(0, 10, (count, 8))
    return pd.DataFrame(values, columns=[f"f{number}" for number in range(8)])


@pytest.fixture(scope="module")
def long_rules(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """People whom a linear model over eight features denies: its proven rules are long."""
    folder, people = tmp_path_factory.mktemp("long"), draw_people(1500, seed=0)
    model = LogisticRegression(max_iter=5000).fit(people, people @ [3, 2, 1, 1, 1, 1, 1, 1] > 60)
    people.to_csv(folder / "people.csv", index=False)
    io.dump(model, folder / "model.skops")
    return Files(folder, str(folder / "model.skops"), str(folder / "people.csv"), denied=7)


def ask_of(files: Files, *more: str) -> list[str]:
    return [files.model, files.data, "--row", str(files.denied), *more]


def test_a_long_proven_rule_comes_below_a_short_one_and_is_what_is_stored(run, long_rules: Files, tmp_path: Path):
    result = run("explain", *ask_of(long_rules, "--output", str(tmp_path / "why.json")))
    assert result.code == 0, result.err
    assert result.out.startswith("╭─ bounded, not proven")
    first, whole = result.out.split("Why you can rely on it: the whole rule")
    assert "proven" not in first.replace("not proven", "")
    assert "╭─ proven" in whole
    stored = ironrule.Explanation.from_json((tmp_path / "why.json").read_text(encoding="utf-8"))
    assert stored.cardinality > 4
    assert str(stored.shown.rule) in " ".join(whole.replace("│", " ").split())
    printed = ironrule.Explanation.from_dict(run("explain", *ask_of(long_rules, "--json")).json)
    assert printed.shown.rule == stored.shown.rule
    letter = tmp_path / "letter.html"
    assert "(bounded)" in run("report", *ask_of(long_rules, "--output", str(letter))).text
    assert "<details>" in letter.read_text(encoding="utf-8")


def test_the_whole_rule_stands_alone_where_that_is_asked_for(run, long_rules: Files):
    alone = run("explain", *ask_of(long_rules, "--most", "0")).out
    assert alone.startswith("╭─ proven")
    assert "bounded" not in alone
    sampled = run("explain", *ask_of(long_rules, "--algorithm", "anchor")).out
    assert "Why you can rely on it" not in sampled


def test_fresh_rows_measure_the_short_rule_without_its_length(run, long_rules: Files, tmp_path: Path):
    draw_people(700, seed=1).to_csv(tmp_path / "fresh.csv", index=False)
    shown = run("explain", *ask_of(long_rules, "--measure", str(tmp_path / "fresh.csv"))).text
    assert shown.startswith("╭─ bounded, not proven")
    assert "Whether the model was trained on them" not in shown


def test_it_is_said_where_no_short_rule_is_good_enough(run, long_rules: Files, tmp_path: Path):
    draw_people(8, seed=1).to_csv(tmp_path / "few.csv", index=False)
    shown = run("explain", *ask_of(long_rules, "--measure", str(tmp_path / "few.csv"))).text
    assert shown.startswith("╭─ proven")
    assert "No rule of at most 4 bounds is known to hold for 90% of people like past ones" in shown


def test_the_command_answers_as_the_library_does(run, files: Files):
    model, table = io.load(files.model), loans()
    explainer = ironrule.Explainer(model, table[FEATURES], desired="yes")
    expected = explainer.explain(files.denied, "genetic_cf", k=2, seed=3)
    result = run("explain", *files.ask("--algorithm", "genetic_cf", "--k", "2", "--seed", "3", "--json"))
    assert ironrule.Explanation.from_dict(result.json).rules == expected.rules


def test_a_row_can_be_json_and_may_hold_the_target(run, files: Files):
    row = {"age": 25, "income": 1, "job": "clerk", "paid": "no"}
    arguments = [files.model, files.data, "--desired", "yes", "--target", "paid", "--json"]
    result = run("explain", *arguments, "--row", json.dumps(row))
    assert result.json["instance"] == {"age": 25, "income": 1, "job": "clerk"}


def test_a_row_may_have_a_value_that_the_data_lacks(run, files: Files):
    row = '{"age": 17, "income": 1, "job": "clerk"}'
    made = run("explain", files.model, files.data, "--desired", "yes", "--row", row, "--json").json
    assert made["instance"]["age"] == 17
    assert made["extended_values"] == {"age": [17]}


def test_required_and_forbidden_features_are_heeded(run, files: Files):
    rule = run("explain", *files.ask("--require", "age", "--json")).json["rules"][0]["rule"]
    assert "age" in {component["feature"] for component in rule["components"]}
    result = run("explain", *files.ask("--forbid", "income", "job"))
    assert result.code == 0
    assert "refuted: this does not hold" in result.text


def test_a_constraint_on_the_space_is_heeded(run, files: Files):
    result = run("explain", *files.ask("--constraint", "cf.income <= 8", "cf.age >= 20", "--json"))
    assert result.code == 0, result.err


@pytest.mark.filterwarnings("default")
def test_a_warning_is_one_line(run, files: Files):
    row = '{"age": 25, "income": 1, "job": "clerk"}'
    arguments = ["explain", files.model, files.data, "--desired", "yes", "--row", row]
    result = run(*arguments, "--constraint", "cf.age >= 21")
    assert result.code == 0, result.err
    assert result.err.startswith("warning: ")
    assert result.err.count("\n") == 1
    as_json = run(*arguments, "--constraint", "cf.age >= 21", "--json")
    assert json.loads(as_json.err)["warning"]["type"] == "UserWarning"


def test_a_spent_budget_is_told(run, files: Files):
    result = run("explain", *files.ask("--evaluations", "1", "--algorithm", "genetic"))
    assert result.code == 0, result.err
    assert "The search stopped after its 1 evaluation of the model; more of them" in result.text
    assert "Verdict: proven" not in result.text


@pytest.mark.parametrize(("ending", "start"), [("json", "{"), ("html", "<!doctype html>"), ("txt", "Everyone with")])
def test_the_explanation_can_be_written_to_a_file(run, files: Files, tmp_path: Path, ending: str, start: str):
    output = tmp_path / f"why.{ending}"
    result = run("explain", *files.ask("--output", str(output)))
    assert "Everyone with" in result.text
    assert output.read_text(encoding="utf-8").startswith(start)


def test_parquet_and_compressed_csv_are_read_like_csv(run, files: Files, tmp_path: Path):
    expected = run("explain", *files.ask("--json")).json["rules"]
    table = loans()
    table.to_parquet(tmp_path / "loans.parquet")
    table.to_csv(tmp_path / "loans.csv.gz", index=False)
    table.to_csv(tmp_path / "loans.tsv", index=False, sep="\t")
    for name in ("loans.parquet", "loans.csv.gz", "loans.tsv"):
        data = str(tmp_path / name)
        result = run("explain", files.model, data, "--row", str(files.denied), "--desired", "yes", "--json")
        assert result.json["rules"] == expected


def test_labels_are_matched_to_classes_of_any_type(run, refused, files: Files, tmp_path: Path):
    table = loans()
    io.dump(fitted(table, (table["paid"] == "yes").astype(int)), tmp_path / "model.skops")
    arguments = ["explain", str(tmp_path / "model.skops"), files.data, "--row", str(files.denied)]
    assert run(*arguments, "--desired", "1", "1").code == 0
    assert run(*arguments, "--threshold", "0.5").code == 0
    assert "the desired class must be one of 0, 1, got 'yes'" in refused(*arguments, "--desired", "yes")


def test_a_regression_is_desired_above_a_threshold(run, refused, files: Files, tmp_path: Path):
    from sklearn.linear_model import LinearRegression

    table = loans()
    io.dump(LinearRegression().fit(table[["age", "income"]], table["income"]), tmp_path / "model.skops")
    arguments = ["explain", str(tmp_path / "model.skops"), files.data, "--row", '{"age": 25, "income": 2}']
    assert "gets: a score of at most 4.0" in run(*arguments, "--threshold", "4").text
    assert "threshold" in refused(*arguments)


def test_a_model_without_column_names_needs_the_target_left_out(run, files: Files, tmp_path: Path):
    from sklearn.tree import DecisionTreeClassifier

    table = loans().drop(columns="job")
    table.to_csv(tmp_path / "numbers.csv", index=False)
    model = DecisionTreeClassifier(random_state=0).fit(table[["age", "income"]].to_numpy(), table["paid"])
    joblib.dump(model, tmp_path / "model.joblib")
    arguments = ["explain", str(tmp_path / "model.joblib"), str(tmp_path / "numbers.csv"), "--trust-pickle"]
    result = run(*arguments, "--row", str(files.denied), "--desired", "yes", "--target", "paid", "--json")
    assert set(result.json["instance"]) == {"age", "income"}


def test_missing_values_are_values_of_their_own(run, tmp_path: Path):
    from sklearn.tree import DecisionTreeClassifier

    table = pd.DataFrame({"a": [1.0, 2.0, None, 4.0] * 5, "b": [1, 2, 1, 2] * 5})
    model = DecisionTreeClassifier(random_state=0).fit(table, [1, 1, 0, 1] * 5)
    joblib.dump(model, tmp_path / "model.joblib")
    table.to_csv(tmp_path / "data.csv", index=False)
    arguments = [str(tmp_path / "model.joblib"), str(tmp_path / "data.csv"), "--trust-pickle"]
    assert "a = missing" in run("explain", *arguments, "--row", '{"a": null, "b": 1}').text


def test_a_network_in_an_onnx_file_is_read_and_its_rule_proven(run, tmp_path: Path):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    helper, numbers = onnx.helper, onnx.numpy_helper.from_array
    weights = {"w": [[1.0], [-1.0]], "b": [-0.5]}
    constants = [numbers(np.array(values, dtype=np.float32), name) for name, values in weights.items()]
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w", "b"], ["z"]), helper.make_node("Sigmoid", ["z"], ["p"])],
        "one unit",
        [helper.make_tensor_value_info("x", kind, ["rows", 2])],
        [helper.make_tensor_value_info("p", kind, ["rows", 1])],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "network.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "data.csv").write_text("income,debt\n0,0\n1,0\n2,1\n1,2\n0,2\n")
    result = run("explain", str(tmp_path / "network.onnx"), str(tmp_path / "data.csv"), "--row", "3", "--desired", "1")
    assert result.code == 0, result.err
    assert "Everyone with income <= 1 and debt = 2 gets" in result.text or "debt = 2 gets" in result.text
    assert "Verdict: proven" in result.text


def test_a_log_gets_a_line_for_every_explanation(files, run, refused, tmp_path):
    log = tmp_path / "explanations.jsonl"
    for _ in range(2):
        assert run("explain", *files.ask("--target", "paid", "--log", str(log))).code == 0
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert [line["attributes"]["ironrule.verdict"] for line in lines] == ["proven", "proven"]
    assert "ironrule.instance" not in lines[0]["attributes"]
    assert "cannot write" in refused("explain", *files.ask("--target", "paid", "--log", str(tmp_path / "no" / "x")))


def test_converted_trees_and_pmml_files_are_read_and_their_rules_proven(run, tmp_path: Path):
    pytest.importorskip("onnxruntime")
    forest = Path(__file__).parents[2] / "model" / "readers" / "onnx_files" / "columns_forest.onnx"
    (tmp_path / "people.csv").write_text("income,age,home\n1,3,rent\n5,16,own\n2,9,other\n6,2,own\n,12,rent\n")
    card = """<PMML version="4.4"><DataDictionary><DataField name="income" dataType="double"/></DataDictionary>
      <Scorecard functionName="regression"><MiningSchema><MiningField name="income"/></MiningSchema>
      <Characteristics><Characteristic>
        <Attribute partialScore="1"><SimplePredicate field="income" operator="lessThan" value="4"/></Attribute>
        <Attribute partialScore="2"><True/></Attribute>
      </Characteristic></Characteristics></Scorecard></PMML>"""
    (tmp_path / "card.pmml").write_text(card)
    for model, options in ((forest, ["--desired", "1"]), (tmp_path / "card.pmml", ["--threshold", "1.5"])):
        result = run("explain", str(model), str(tmp_path / "people.csv"), "--row", "0", *options)
        assert result.code == 0, result.err
        assert "Verdict: proven" in result.text
