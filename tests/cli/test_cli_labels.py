"""Labels on the command line: one file or a table of the project file, in every command; programs still read codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from loans import Files

LABELS = """
income = { label = { en = "Monthly income", de = "Monatseinkommen" }, unit = "k€" }

[job]
label = { en = "Occupation", de = "Beruf" }
[job.values]
cook = { en = "chef", de = "Koch" }
clerk = "office clerk"
"none, or other" = { en = "another", de = "anderer" }

[outcomes]
yes = { en = "approved", de = "bewilligt" }
no = { en = "denied", de = "abgelehnt" }
"""


@pytest.fixture
def labels(tmp_path: Path) -> str:
    path = tmp_path / "labels.toml"
    path.write_text(LABELS, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("explain", []),
        ("ladder", []),
        ("judge", ["--rule", "income <= 5"]),
    ],
)
def test_rules_are_said_in_labels(run, files: Files, labels: str, command: str, more: list[str]):
    text = run(command, *files.ask(*more, "--labels", labels)).text
    assert "Monthly income <= " in text
    assert "denied" in text
    german = run(command, *files.ask(*more, "--labels", labels, "--language", "de")).text
    assert "Monatseinkommen <= " in german
    assert "abgelehnt" in german


def test_changes_and_domains_are_said_in_labels(run, files: Files, labels: str):
    changes = run("counterfactual", *files.ask("--labels", labels)).text
    assert "Monthly income" in changes
    assert "k€" in changes
    space = run("inspect", files.data, "--target", "paid", "--labels", labels).text
    assert "Monthly income" in space
    assert "office clerk, chef, another" in space


def test_json_keeps_names_and_codes_and_the_check_says_both(run, files: Files, labels: str, tmp_path: Path):
    output = str(tmp_path / "why.json")
    document = run("explain", *files.ask("--labels", labels, "--output", output, "--json")).json
    plain = run("explain", *files.ask("--json")).json
    assert document["rules"] == plain["rules"]
    assert document["labels"]["features"]["income"]["unit"] == "k€"
    given = [output, "--model", files.model, "--data", files.data, "--target", "paid", "--desired", "yes"]
    checked = run("check", *given)
    assert checked.code == 0
    assert "income <= " in checked.text
    assert "In the words of the labels: Everyone with Monthly income <= " in checked.text
    assert "Monatseinkommen" in run("check", *given, "--language", "de").text


def test_the_project_file_names_the_labels_or_has_them(run, files: Files, labels: str, tmp_path: Path):
    project = tmp_path / "ironrule.toml"
    for line in (f"labels = {json.dumps(labels)}", '[labels]\nincome = "Monthly income"'):
        project.write_text(line, encoding="utf-8")
        assert "Monthly income" in run("explain", *files.ask("--project", str(project))).text


def test_labels_that_do_not_fit_are_refused_with_the_nearest_name(refused, files: Files, tmp_path: Path):
    path = tmp_path / "labels.toml"
    for text, message in (
        ('incone = "Income"', "unknown feature 'incone' in the labels; did you mean 'income'?"),
        ('[job.values]\nchef = "x"', "unknown value 'chef' of feature 'job' in the labels"),
        ('[outcomes]\nyse = "x"', "unknown outcome 'yse' in the labels; did you mean 'yes'?"),
    ):
        path.write_text(text, encoding="utf-8")
        assert message in refused("explain", *files.ask("--labels", str(path)))
    path.write_text(LABELS, encoding="utf-8")
    said = refused("explain", *files.ask("--labels", str(path), "--language", "ed"))
    assert "the language of labels must be one of de, en" in said


def test_people_count_conditions(run, files: Files):
    text = run("explain", *files.ask()).text
    assert "Conditions: " in text
    assert "omponent" not in text
    assert "omponent" not in run("ladder", *files.ask()).text
