"""ironrule check: what it prints, and its exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loans import FEATURES, Files, Run, fitted, loans
from skops import io

import ironrule
from ironrule.cli import output
from ironrule.verdict.digest import add_digest


@pytest.fixture
def explanation(run: Callable[..., Run], files: Files, tmp_path: Path) -> Path:
    path = tmp_path / "why.json"
    assert run("explain", *files.ask("--target", "paid", "--output", str(path))).code == 0
    return path


def rewritten(path: Path, change: Callable[[dict[str, Any]], Any], *, digest: bool = True) -> str:
    """The path of the explanation with something changed in it."""
    document = json.loads(path.read_text())
    change(document)
    other = path.with_name("altered.json")
    other.write_text(json.dumps(add_digest(document) if digest else document))
    return str(other)


def given(files: Files, *more: str) -> list[str]:
    return ["--model", files.model, "--data", files.data, *more]


def test_a_true_explanation_is_proven(run, files: Files, explanation: Path):
    result = run("check", str(explanation), *given(files))
    assert result.code == 0, result
    assert "proven" in result.text
    assert "Everyone with" in result.text
    assert "Every claim was checked against the model" in result.text
    assert "the document is as it was written" in result.text
    assert "fails" not in result.text
    assert result.err == ""


def test_what_counts_as_desired_is_compared_with_what_the_caller_means(run, files: Files, explanation: Path):
    unsaid = run("check", str(explanation), *given(files))
    assert "was taken from the document" in unsaid.text
    said = run("check", str(explanation), *given(files, "--desired", "yes"))
    assert said.code == 0, said
    assert "as the caller says" in said.text
    assert "was taken from the document" not in said.text
    other = run("check", str(explanation), *given(files, "--desired", "no"))
    assert other.code == 1
    assert "another decision than the caller" in other.text
    assert run("check", str(explanation), *given(files, "--desired", "yes", "--threshold", "0.7")).code == 1


def test_strictly_nothing_may_be_left_uncompared(run, files: Files, explanation: Path):
    assert run("check", str(explanation), *given(files, "--strict")).code == 3
    strict = run("check", str(explanation), *given(files, "--strict", "--desired", "yes", "--json"))
    assert strict.code == 0
    assert (strict.json["reading"], strict.json["strict"]) == ("own", True)


def test_json_says_the_same_for_programs(run, files: Files, explanation: Path):
    result = run("check", str(explanation), *given(files, "--target", "paid", "--json"))
    assert result.code == 0
    assert result.json["status"] == "proven"
    assert {finding["status"] for finding in result.json["findings"]} == {"holds"}
    model, table = io.load(files.model), loans()
    assert ironrule.check(explanation.read_text(), model, table[FEATURES]).to_dict() == result.json


def test_a_false_claim_is_refuted_with_the_reason(run, files: Files, explanation: Path):
    path = rewritten(explanation, lambda document: document["rules"][0]["rule"]["components"].pop())
    result = run("check", path, *given(files))
    assert result.code == 1
    assert "refuted" in result.text
    assert "the certificate's box must hold all that the rule covers" in result.text


def test_an_altered_document_is_refuted_even_where_nothing_follows_from_it(run, files: Files, explanation: Path):
    path = rewritten(explanation, lambda document: document["statistics"].update(seconds=0.0), digest=False)
    result = run("check", path, *given(files, "--json"))
    assert result.code == 1
    assert [f["claim"] for f in result.json["findings"] if f["status"] == "fails"] == ["digest"]


def test_another_model_or_space_is_not_decidable(run, files: Files, explanation: Path, tmp_path: Path):
    table = loans()
    io.dump(fitted(table, table["paid"].sample(frac=1, random_state=0).to_numpy()), tmp_path / "other.skops")
    result = run("check", str(explanation), "--model", str(tmp_path / "other.skops"), "--data", files.data)
    assert result.code == 3
    assert "about another model" in result.text
    assert "Pass the model and the past rows that it was made with (--model, --data)." in result.text
    result = run("check", str(explanation), *given(files, "--constraint", "cf.income <= 8"))
    assert result.code == 3
    assert "about another space" in result.text
    assert "Pass the data that it was made with (--data)" in result.text


def test_constraints_and_extended_domains_are_those_of_the_explanation(run, files: Files, tmp_path: Path):
    path, row = str(tmp_path / "why.json"), '{"age": 17, "income": 1, "job": "clerk"}'
    shared = ["--constraint", "cf.income <= 8 or cf.age >= 20"]
    asked = ["explain", files.model, files.data, "--desired", "yes", "--row", row, "--output", path]
    assert run(*asked, *shared).code == 0
    assert run("check", path, *given(files, *shared)).code == 0
    assert run("check", path, *given(files)).code == 3


def test_margins_and_models_are_those_of_the_explanation(run, files: Files, tmp_path: Path):
    path, table = str(tmp_path / "why.json"), loans()
    other = fitted(table.iloc[:50], table["paid"].iloc[:50])
    io.dump(other, tmp_path / "other.skops")
    worst = np.max([model.predict_proba(table[FEATURES])[:, 1] for model in (io.load(files.model), other)], axis=0)
    row, shared = str(int(worst.argmin())), ["--models", str(tmp_path / "other.skops")]
    asked = ["explain", files.model, files.data, "--desired", "yes", "--row", row, "--margin", "0.1", "--output", path]
    assert run(*asked, *shared).code == 0
    assert run("check", path, *given(files, *shared)).code == 0
    assert run("check", path, *given(files)).code == 3
    assert run("check", path, *given(files, *shared, "--intervals")).code == 0
    assert run(*asked, *shared, "--domain", "seen", "--overwrite").code == 0
    assert run("check", path, *given(files, *shared, "--intervals")).code == 3  # it speaks of values seen alone


def test_an_explanation_without_a_proof_is_not_decidable(run, files: Files, tmp_path: Path):
    path = str(tmp_path / "why.json")
    assert run("explain", *files.ask("--forbid", "income", "job", "--output", path)).code == 0
    assert run("check", path, *given(files)).code == 1  # it shows an exception to its own rule
    more = ["--algorithm", "genetic", "--evaluations", "50", "--output", path, "--overwrite", "--json"]
    searched = run("explain", *files.ask(*more))
    code = {"proven": 0, "refuted": 1, "unrefuted": 3}[searched.json["rules"][0]["verdict"]["kind"]]
    assert run("check", path, *given(files)).code == code


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format": 5}', "\x00", '{"format": 5, "format": 5}', '{"format": 4}']
)
def test_what_is_no_explanation_is_refused(refused, files: Files, tmp_path: Path, text: str):
    path = tmp_path / "why.json"
    path.write_text(text)
    assert "cannot read why.json as an explanation: " in refused("check", str(path), *given(files))


def test_an_explanation_of_an_older_format_is_refused_with_what_to_do(refused, files: Files, tmp_path: Path):
    path = tmp_path / "why.json"
    path.write_text('{"format": 4}')
    for command in (["check", str(path), *given(files)], ["report", str(path), "--output", str(tmp_path / "why.html")]):
        message = refused(*command)
        assert "cannot read why.json as an explanation: an explanation must have format 5, got 4" in message
        assert "explain the row again, or use the version of ironrule that wrote it" in message


def test_files_that_are_not_there_are_refused(refused, files: Files, explanation: Path, tmp_path: Path):
    assert "explanation not found: 'nowhere.json'" in refused("check", "nowhere.json", *given(files))
    assert "model file not found: 'no.skops'" in refused(
        "check", str(explanation), "--model", "no.skops", "--data", files.data
    )
    assert "data file not found: 'no.csv'" in refused(
        "check", str(explanation), "--model", files.model, "--data", "no.csv"
    )
    assert "--model" in refused("check", str(explanation), "--data", files.data)
    binary = tmp_path / "why.json"
    binary.write_bytes(b"\xff\xfe\x00")
    assert "utf-8" in refused("check", str(binary), *given(files))


def test_a_reader_that_leaves_early_does_not_turn_a_refutation_into_success(
    run, files: Files, explanation: Path, monkeypatch: pytest.MonkeyPatch
):
    def leaves(_: str) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(output, "_write_stdout", leaves)
    monkeypatch.setattr("ironrule.cli.errors.os.dup2", lambda *_: None)
    path = rewritten(explanation, lambda document: document.update(history_rows=7))
    assert run("check", path, *given(files)).code == 1


@pytest.fixture
def ladder(run: Callable[..., Run], files: Files, tmp_path: Path) -> Path:
    path, cooks = tmp_path / "ladder.json", loans().query("job == 'cook' and income in (4, 5)")
    model = io.load(files.model)
    denied = cooks.index[model.predict(cooks[FEATURES]) == "no"]  # their rule needs two components
    asked = ("--row", str(denied[0]), "--desired", "yes", "--target", "paid", "--output", str(path))
    assert run("ladder", files.model, files.data, *asked).code == 0
    return path


def test_a_true_ladder_holds_and_is_not_called_proven(run, files: Files, ladder: Path):
    result = run("check", str(ladder), *given(files, "--desired", "yes", "--strict"))
    assert result.code == 0, result
    assert "bounded, not proven: at most" in result.text
    found = run("check", str(ladder), *given(files, "--json")).json
    assert (found["status"], found["document"]) == ("holds", "ladder")


def test_an_altered_ladder_is_refuted(run, files: Files, ladder: Path):
    smaller = rewritten(ladder, lambda document: document["rungs"][0]["verdict"].update(exceptions=0.01))
    assert run("check", smaller, *given(files)).code == 1
    unsigned = rewritten(ladder, lambda document: document.update(measured_rows=9), digest=False)
    assert run("check", unsigned, *given(files)).code == 1
    proven = rewritten(ladder, lambda document: document["rungs"][0]["verdict"].update(kind="proven"))
    result = run("check", proven, *given(files))
    assert result.code == 2
    assert "malformed ladder" in result.err


def test_rows_that_a_ladder_was_measured_on_are_read_again(run, files: Files, tmp_path: Path):
    fresh, path = tmp_path / "fresh.csv", tmp_path / "ladder.json"
    loans(seed=1).head(30).to_csv(fresh, index=False)
    row = '{"age": 25, "income": 5, "job": "cook"}'  # whose rule has two components, so that one rung is bounded
    asked = [files.model, files.data, "--row", row, "--desired", "yes", "--target", "paid", "--measure", str(fresh)]
    assert run("ladder", *asked, "--output", str(path)).code == 0
    result = run("check", str(path), *given(files, "--target", "paid", "--measure", str(fresh)))
    assert result.code == 0, result
    without = run("check", str(path), *given(files, "--target", "paid"))
    assert without.code == 3
    assert "pass it again as measure= (--measure)" in without.text
