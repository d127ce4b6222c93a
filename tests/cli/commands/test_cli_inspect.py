"""ironrule inspect: the space as inferred, and the way back through a file."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
from loans import FEATURES, Files
from sklearn.linear_model import LogisticRegression
from skops import io

from ironrule import Feature, Space
from ironrule.cli.render import describe_guessed_roles
from ironrule.rule.counterfactual import Change, Counterfactual


def test_the_space_is_shown_feature_by_feature(run, files: Files):
    result = run("inspect", files.data, "--target", "paid")
    assert result.code == 0, result.err
    assert "20 to 29" in result.text
    assert "'clerk', 'cook', 'none, or other'" in result.text
    assert "60 rows, 3 features" in result.text


def test_json_is_a_document_that_declares_the_space(run, files: Files):
    document = run("inspect", files.data, "--target", "paid", "--json").json
    assert Space.from_dict(document).names == tuple(FEATURES)


def test_a_written_space_can_be_corrected_and_passed_back(run, files: Files, tmp_path: Path):
    path = tmp_path / "space.toml"
    assert run("inspect", files.data, "--target", "paid", "--output", str(path)).code == 0
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("constraints = []", 'constraints = ["cf.age >= 20"]'), encoding="utf-8")
    assert "Constraint: cf.age >= 20" in run("inspect", files.data, "--space", str(path)).text
    result = run("explain", *files.ask("--space", str(path), "--json"))
    assert result.code == 0, result.err
    assert set(result.json["instance"]) == set(FEATURES)


def test_a_space_written_as_json_reads_back_the_same(run, files: Files, tmp_path: Path):
    path = tmp_path / "space.json"
    first = run("inspect", files.data, "--output", str(path), "--json").json
    assert run("inspect", files.data, "--space", str(path), "--json").json == first


def test_one_hot_groups_and_missing_values_are_seen(run, tmp_path: Path):
    table = pd.DataFrame({"job_cook": [1, 0, 0], "job_clerk": [0, 1, 1], "age": [20, None, 30]})
    table.to_csv(tmp_path / "data.csv", index=False)
    features = run("inspect", str(tmp_path / "data.csv"), "--json").json["features"]
    assert features["job"]["columns"] == ["job_cook", "job_clerk"]
    assert features["age"]["missing"] is True
    assert "job_cook, job_clerk" in run("inspect", str(tmp_path / "data.csv")).text


def test_guessed_roles_are_told_from_declared_ones_and_hold_once_they_are_declared(run, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({"age": np.arange(60) % 10 + 20, "income": np.arange(60) % 7})
    io.dump(LogisticRegression(C=100).fit(table, table["age"] > 24), tmp_path / "model.skops")
    table.to_csv(tmp_path / "data.csv", index=False)
    guessed = run("inspect", "data.csv").text
    assert "immutable (guessed)" in guessed
    assert "may change it until its role is declared, in ironrule.toml" in guessed
    ask, said = ("model.skops", "data.csv", "--row", "0"), "no advice should change these: age (immutable)"
    assert said in run("counterfactual", *ask).text
    assert 'then age = "immutable")' in run("counterfactual", *ask).text
    assert said in run("counterfactual", *ask, "--menu").text
    assert said in run("counterfactual", *ask, "--diverse").text
    assert said not in run("counterfactual", *ask, "--vary", "age").text  # it was asked for
    (tmp_path / "ironrule.toml").write_text('[roles]\nage = "immutable"\n', encoding="utf-8")
    declared = run("inspect", "data.csv").text
    assert "immutable" in declared
    assert "guessed" not in declared
    assert "There is no counterfactual, and that is proven" in run("counterfactual", *ask).text


def test_constant_columns_are_features_with_one_value(run, tmp_path: Path):
    path = tmp_path / "data.csv"
    pd.DataFrame({"same": [1, 1], "none": [None, None], "age": [20, 30]}).to_csv(path, index=False)
    text = run("inspect", str(path)).text
    assert "always missing" in text
    assert "2 features have one value, so no rule needs them: same, none." in " ".join(text.split())


def test_a_table_of_three_lines_and_one_of_more_points_than_floats_can_count(run, tmp_path: Path):
    path = tmp_path / "data.csv"
    path.write_text("a,b\n1,x\n2,y\n", encoding="utf-8")
    assert "2 rows, 2 features, 4 points." in run("inspect", str(path)).text
    wide = pd.DataFrame({f"f{j}": range(1000) for j in range(120)})
    wide.to_csv(path, index=False)
    assert "1,000 rows, 120 features, 10^360 points." in run("inspect", str(path)).text


def test_names_that_look_like_markup_are_shown_as_they_are(run, tmp_path: Path):
    path = tmp_path / "data.csv"
    pd.DataFrame({"[bold]age[/bold]": [20, 30]}).to_csv(path, index=False)
    assert "[bold]age[/bold]" in run("inspect", str(path)).out


def test_what_to_declare_is_written_as_the_file_wants_it() -> None:
    space = Space((Feature("Age (years)", (20, 30, 40), ordered=True), Feature("income", (1, 2), ordered=True)))
    change = Change("Age (years)", 20, 30)
    (said,) = describe_guessed_roles(space, [Counterfactual({"Age (years)": 30, "income": 1}, (change,))])
    found = re.search(r"then (.+)\) or", said)
    assert found is not None
    assert tomllib.loads(found[1]) == {"Age (years)": "immutable"}
