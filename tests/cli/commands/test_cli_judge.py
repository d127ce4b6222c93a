"""ironrule judge: what it prints, and what its options do."""

from __future__ import annotations

import json
from pathlib import Path

from loans import FEATURES, Files, loans
from skops import io

import ironrule


def conditions(files: Files, *features: str) -> list[str]:
    """Equalities that the denied row satisfies."""
    row = loans().iloc[files.denied]
    return [f"{name} = {row[name]}" for name in features]


def test_judge_prints_the_rule_under_its_quality_and_what_shows_it(run, files: Files):
    result = run("judge", *files.ask("--target", "paid", "--rule", *conditions(files, *FEATURES)))
    assert result.code == 0, result.err
    assert "consistent but redundant" in result.text
    assert "Everyone with" in result.text
    assert "it still holds" in result.text
    assert result.err == ""


def test_several_rules_are_judged_at_once_as_the_library_does(run, files: Files):
    explainer = ironrule.Explainer(io.load(files.model), loans()[FEATURES], desired="yes")
    best = explainer.explain(files.denied)
    texts = [str(component) for component in best.rule.components]
    rules = [texts, conditions(files, "age"), conditions(files, *FEATURES)]
    options = [word for rule in rules for word in ("--rule", *rule)]
    result = run("judge", *files.ask("--target", "paid", *options, "--json"))
    found = result.json["judgements"]
    expected = explainer.judge(files.denied, rules)
    assert found == json.loads(json.dumps([one.to_dict() for one in expected]))
    assert found[0]["quality"] == "minimum"
    assert "minimum" in run("judge", *files.ask("--target", "paid", *options)).text


def test_the_judgements_go_to_a_file_too(run, files: Files, tmp_path: Path):
    path = tmp_path / "judged.json"
    result = run("judge", *files.ask("--rule", *conditions(files, "age"), "--output", str(path)))
    assert result.code == 0, result.err
    assert json.loads(path.read_text())["judgements"][0]["quality"].startswith("failed")


def test_a_budget_that_ends_is_told(run, files: Files):
    result = run("judge", *files.ask("--rule", *conditions(files, *FEATURES), "--seconds", "1e-9"))
    assert result.code == 0, result.err
    assert "not judged" in result.text
    assert "the budget ended first" in result.text


def test_a_margin_is_heeded(run, files: Files):
    qualities = [
        run("judge", *files.ask("--rule", "income <= 3", "--margin", margin, "--json")).json["judgements"][0]["quality"]
        for margin in ("0", "0.49")
    ]
    assert qualities == ["minimum", "failed data consistency"]


def test_a_rule_that_cannot_be_judged_is_refused(refused, files: Files):
    assert "--rule" in refused("judge", *files.ask())
    assert "a condition must look like age <= 30, " in refused("judge", *files.ask("--rule", "years <= 3"))
    assert "the row must satisfy the rule" in refused("judge", *files.ask("--rule", "age <= 0"))
    assert "must end in .json" in refused("judge", *files.ask("--rule", "age <= 99", "--output", "judged.html"))
