"""Bad input on the command line: one clear message on standard error, exit code 2 (3 for the model), no traceback."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from loans import Files, fitted, loans
from sklearn.base import BaseEstimator
from sklearn.tree import DecisionTreeClassifier
from skops import io


class Failing(BaseEstimator):
    """A model that raises what it is told to, after a number of answers."""

    classes_ = np.array([0, 1])

    def __init__(self, error: BaseException, answers: int = 0, score: float = 0.0):
        self.error, self.answers, self.score = error, answers, score

    def predict(self, table):
        if self.answers == 0:
            raise self.error
        self.answers -= 1
        print("the model says something")
        return (np.asarray(table)[:, 1] > 4).astype(int)

    def predict_proba(self, table):
        return np.full((len(table), 2), self.score)


def saved(tmp_path: Path, model: object) -> str:
    joblib.dump(model, tmp_path / "model.joblib")
    return str(tmp_path / "model.joblib")


def written(tmp_path: Path, text: str, name: str = "data.csv") -> str:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return str(tmp_path / name)


ROWS = {
    '{"age": 25, "income": 1, "job": "clerk", "shoe": 4}': "only columns of the space, but 'shoe' came",
    '{"age": 25, "income": 1}': "a row must have a value for 'job'",
    '{"age": "old", "income": 1, "job": "clerk"}': "'age' must be a number, but 'old' came",
    '{"age": 25, "income": 1, "job": 3}': "'job' must be text",
    '{"age": 25, "income": 1, "job": "pilot"}': "'job' must be one of 'clerk', 'cook'",
    '{"age": null, "income": 1, "job": "clerk"}': "'age' is never missing in this space",
    '{"age": 25, "age": 26}': "one occurs twice",
    '{"age": 25': "a row must be a number or a JSON object",
    "[1, 2]": "a row must be a number or a JSON object, but list came",
    "true": "but bool came",
    "1.5": "but float came",
    "60": "the row number must be below 60",
    " -1": "a row number must count from 0, but -1 came",
    '{"age": 25, "income": 8, "job": "clerk"}': "already gives it the desired one",
}


@pytest.mark.parametrize("row", ROWS)
def test_a_row_that_does_not_fit_is_refused(refused, files: Files, row: str):
    assert ROWS[row] in refused("explain", files.model, files.data, "--desired", "yes", "--row", row)


OPTIONS = {
    ("--seconds", "0"): "a budget's seconds must be more than zero",
    ("--evaluations", "0"): "a budget's evaluations must be more than zero",
    ("--seconds", "nan"): "must be more than zero",
    ("--k", "0"): "k must be a whole number of at least 1",
    ("--k", "x"): "argument --k: invalid int value",
    ("--seed", "-1"): "a seed must be a whole number from 0",
    ("--algorithm", "magic"): "invalid choice: 'magic'",
    ("--require", "shoe"): "'shoe' is no feature of this space",
    ("--forbid", "shoe"): "'shoe' is no feature of this space",
    ("--constraint", "cf.shoe > 3"): "'shoe' is none",
    ("--constraint", "cf.age > 100"): "satisf",
    ("--target", "shoe"): "the target must be a column of the data, but 'shoe' came; columns: age, income, job, paid",
    ("--space", "nowhere.toml"): "there is no file 'nowhere.toml'",
    ("--output", "why.pdf"): "must end in .json or .html or .txt",
    ("--output", "nowhere/why.json"): "there is no 'nowhere'",
    ("--desired", "maybe"): "the desired class must be one of no, yes, but 'maybe' came",
    ("--shoe",): "unrecognized arguments: --shoe",
}


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_that_cannot_be_used_is_refused(refused, files: Files, option: tuple[str, ...]):
    assert OPTIONS[option] in refused("explain", *files.ask(*option))


def test_a_constraint_that_cannot_be_read_is_shown_with_a_caret(refused, files: Files):
    lines = refused("explain", *files.ask("--constraint", "cf.age >= ")).splitlines()
    assert lines[1].strip() == "cf.age >="
    assert lines[2].strip() == "^"


def test_the_desired_class_must_be_named_unless_it_is_1(refused, files: Files):
    assert "desired" in refused("explain", files.model, files.data, "--row", "0")


DATA = {
    "": "it is empty",
    "age,income,job\n": "at least one row, but it is empty",
    "age,income,job,age\n1,2,clerk,3\n": "column names must be distinct, but 'age' occur more than once",
    "age,income\n20,1\n30,2\n": "'job'",
    "age,income,job\n20,1,clerk,surplus\n30,1,clerk,surplus\n": "as many fields as its header",
    "age,income,job\n20,1,clerk\n30,1,clerk,surplus\n": "must be a well-formed .csv file",
    "age,income,job\n20,1,clerk\n20,2,cook\n": "'age' never changes",
}


@pytest.mark.parametrize("text", DATA)
def test_a_table_that_cannot_be_used_is_refused(refused, files: Files, tmp_path: Path, text: str):
    data = written(tmp_path, text)
    assert DATA[text] in refused("explain", files.model, data, "--row", "0", "--desired", "yes")


def test_data_files_that_cannot_be_read_are_refused(refused, tmp_path: Path):
    assert "there is no file" in refused("inspect", str(tmp_path / "nowhere.csv"))
    assert "must end in .csv" in refused("inspect", written(tmp_path, "a\n1\n", "data.xlsx"))
    assert "well-formed .csv.gz" in refused("inspect", written(tmp_path, "a\n1\n", "data.csv.gz"))
    assert "well-formed .parquet" in refused("inspect", written(tmp_path, "a\n1\n", "data.parquet"))
    (tmp_path / "latin.csv").write_bytes("straße\n1\n2\n".encode("latin-1"))
    assert "well-formed .csv" in refused("inspect", str(tmp_path / "latin.csv"))


def test_a_column_named_like_a_renamed_duplicate_is_fine(run, tmp_path: Path):
    assert run("inspect", written(tmp_path, "a,a.1\n1,2\n2,3\n")).code == 0


def test_a_missing_or_corrupt_model_file_is_refused(refused, files: Files, tmp_path: Path):
    arguments = [files.data, "--row", "0", "--trust-pickle"]
    assert "there is no file" in refused("explain", str(tmp_path / "nowhere.skops"), *arguments)
    for name in ("bad.skops", "bad.joblib", "bad.pkl"):
        assert f"{name} must be a readable model file" in refused("explain", written(tmp_path, "hi", name), *arguments)
    assert "must end in .skops, .onnx" in refused("explain", written(tmp_path, "hi", "model.h5"), *arguments)
    assert "must take one matrix" in refused("explain", written(tmp_path, "hi", "model.onnx"), *arguments)


def test_a_pickle_is_not_loaded_unless_it_is_trusted(run, refused, files: Files, tmp_path: Path):
    model = saved(tmp_path, fitted(loans(), loans()["paid"]))
    arguments = ["explain", model, files.data, "--row", str(files.denied), "--desired", "yes"]
    message = refused(*arguments)
    assert "can run any code" in message
    assert "--trust-pickle" in message
    assert run(*arguments, "--trust-pickle").code == 0


class Ending:
    """An object whose unpickling ends the program."""

    def __reduce__(self):
        return sys.exit, (0,)


def test_a_pickle_that_ends_the_program_is_refused_like_any_other_broken_file(refused, files: Files, tmp_path: Path):
    message = refused("explain", saved(tmp_path, Ending()), files.data, "--row", "0", "--trust-pickle")
    assert "must be a readable model file, but loading it failed: SystemExit" in message


def test_untrusted_types_in_a_skops_file_are_listed_with_the_option_that_accepts_them(run, refused, tmp_path: Path):
    table = pd.DataFrame({"a": [1, 2, 3, 4], "b": [1, 1, 2, 2]})
    io.dump(DecisionTreeClassifier(random_state=0).fit(table, [0, 0, 1, 1]), tmp_path / "tree.skops")
    table.to_csv(tmp_path / "data.csv", index=False)
    arguments = ["explain", str(tmp_path / "tree.skops"), str(tmp_path / "data.csv"), "--row", "0"]
    message = refused(*arguments)
    assert "must hold only types that are trusted" in message
    assert run(*arguments, "--trust", *message.partition("--trust ")[2].split()).code == 0


def test_a_models_own_exception_is_shown(run, files: Files, tmp_path: Path):
    model = saved(tmp_path, Failing(RuntimeError("no more coffee")))
    result = run("explain", model, files.data, "--row", "0", "--trust-pickle")
    assert result.code == 3
    assert "RuntimeError: no more coffee" in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize("code", [0, None, 1])
@pytest.mark.parametrize("answers", [0, 3])
def test_a_model_that_ends_the_program_has_failed(run, tmp_path: Path, code: int | None, answers: int):
    data = tmp_path / "data.csv"
    loans()[["age", "income"]].to_csv(data, index=False)
    model = saved(tmp_path, Failing(SystemExit(code), answers=answers))
    result = run("explain", model, str(data), "--row", '{"age": 25, "income": 1}', "--trust-pickle")
    assert result.code == 3
    assert result.out == ""
    assert "the model failed" in result.err
    assert "SystemExit" in result.err


def test_scores_that_are_no_numbers_are_the_models_failure(run, files: Files, tmp_path: Path):
    model = saved(tmp_path, Failing(RuntimeError(), score=float("nan")))
    result = run("explain", model, files.data, "--row", "0", "--trust-pickle", "--threshold", "0.5")
    assert result.code == 3
    assert "must be finite" in result.err


def test_ctrl_c_in_a_search_prints_the_best_rule_so_far(run, tmp_path: Path):
    data = tmp_path / "data.csv"
    loans()[["age", "income"]].to_csv(data, index=False)
    model = saved(tmp_path, Failing(KeyboardInterrupt(), answers=5))
    result = run("explain", model, str(data), "--row", '{"age": 25, "income": 1}', "--trust-pickle")
    assert result.code == 0, result.err
    assert "Interrupted: this is the best rule so far" in result.text
    assert "proven: all" not in result.text
    assert "the model says something" in result.err
    assert "the model says something" not in result.out


def test_ctrl_c_before_a_search_ends_quietly(run, files: Files, tmp_path: Path):
    model = saved(tmp_path, Failing(KeyboardInterrupt()))
    result = run("explain", model, files.data, "--row", "0", "--trust-pickle")
    assert result.code == 130
    assert result.err == "error: interrupted\n"


def test_errors_come_as_json_on_standard_error_with_json(run, files: Files):
    result = run("explain", *files.ask("--k", "0", "--json"))
    assert result.code == 2
    assert result.out == ""
    assert json.loads(result.err)["error"]["type"] == "InputError"


def test_an_unexpected_failure_is_one_line_that_says_how_to_see_more(run, files: Files, monkeypatch):
    from ironrule.space import Space

    def broken(*_args, **_options):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(Space, "infer", broken)
    result = run("inspect", files.data)
    assert result.code == 1
    assert "unexpected ZeroDivisionError: oops" in result.err
    assert "IRONRULE_DEBUG=1" in result.err
    assert result.err.count("\n") == 1
    monkeypatch.setenv("IRONRULE_DEBUG", "1")
    assert "Traceback" in run("inspect", files.data).err


@pytest.mark.parametrize(
    ("module", "name", "extra"),
    [("pandas", "data.csv", "pandas"), ("pandas", "data.parquet", "parquet"), ("pyarrow", "data.parquet", "parquet")],
)
def test_a_missing_extra_is_named_with_the_command_that_installs_it(
    refused, monkeypatch, tmp_path: Path, module: str, name: str, extra: str
):
    monkeypatch.setitem(sys.modules, module, None)
    assert f"pip install 'ironrule[{extra}]'" in refused("inspect", written(tmp_path, "a\n1\n", name))


def test_a_missing_skops_is_named_with_the_command_that_installs_it(refused, files: Files, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops", None)
    assert "pip install 'ironrule[skops]'" in refused("explain", *files.ask())
