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

from ironrule.errors import StorageError


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


REFUSED = "the row cannot be explained, since the model or the data's columns refuse"
ROWS = {
    '{"age": 25, "income": 1, "job": "clerk", "shoe": 4}': "a row may only have columns of the space, got 'shoe'",
    '{"age": 25, "incom": 1, "job": "clerk"}': "got 'incom'; did you mean 'income'?",
    '{"age": 25, "income": 1}': "a row must have a value for 'job'",
    '{"age": "old", "income": 1, "job": "clerk"}': "'age' must be a number, got 'old'",
    '{"age": 25, "income": 1, "job": 3}': "'job' must be a string, one of 'clerk', 'cook', "
    "'none, or other', got the number 3",
    '{"age": 25, "income": 1, "job": "pilot"}': f"{REFUSED} job = 'pilot'",
    '{"age": null, "income": 1, "job": "clerk"}': f"{REFUSED} age = None",
    '{"age": 25, "age": 26}': "a row must have every column once, got 'age' more than once",
    '{"age": 25': "a row must be a row number or a JSON object, got invalid JSON: Expecting",
    "three": "a row must be a row number or a JSON object, got 'three'",
    "[1, 2]": "a row must be a row number or a JSON object, got a list",
    "true": "got a bool",
    "1.5": "got a float",
    "60": "the row number must be from 0 to 59 (60 rows), got 60; row numbers count from 0",
    " -1": "the row number must be a non-negative integer, got -1",
    '{"age": 25, "income": 8, "job": "clerk"}': "the row must have the undesired outcome, got the desired outcome",
}


@pytest.mark.parametrize("row", ROWS)
def test_a_row_that_does_not_fit_is_refused(refused, files: Files, row: str):
    assert ROWS[row] in refused("explain", files.model, files.data, "--desired", "yes", "--row", row)


OPTIONS = {
    ("--seconds", "0"): "a budget's seconds must be positive, got 0.0",
    ("--evaluations", "0"): "a budget's evaluations must be positive, got 0",
    ("--seconds", "nan"): "a budget's seconds must be positive, got nan",
    ("--k", "0"): "k must be a positive integer, got 0",
    ("--k", "x"): "argument --k: invalid int value",
    ("--seed", "-1"): "argument --seed: the seed must be a non-negative integer, got '-1'; see ironrule explain --help",
    ("--algorithm", "magic"): "invalid choice: 'magic'",
    ("--require", "shoe"): "unknown feature 'shoe'",
    ("--forbid", "shoe"): "unknown feature 'shoe'",
    ("--constraint", "cf.shoe > 3"): "unknown feature 'shoe'",
    ("--constraint", "cf.age > 100"): "satisf",
    ("--target", "shoe"): "the target must be a column of the data, got 'shoe'; the columns are age, income, job, paid",
    ("--space", "nowhere.toml"): "space file not found: 'nowhere.toml'",
    ("--output", "why.pdf"): "the output file must end in .json or .html or .txt, got 'why.pdf'",
    ("--output", "nowhere/why.json"): "the folder of the output file does not exist: 'nowhere'; create it first",
    ("--desired", "maybe"): "the desired class must be one of no, yes, got 'maybe'",
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
    "": "data.csv must have a header line and rows, got an empty file",
    "age,income,job\n": "the table must have at least one row, got none",
    "age,income,job,age\n1,2,clerk,3\n": "column names must be distinct, got 'age' more than once",
    "age,income\n20,1\n30,2\n": "'job'",
    "age;income;job\n20;1;clerk\n": "the columns of data.csv must be separated by commas, got semicolons",
    "age,income,job\n20,1,clerk,surplus\n30,1,clerk,surplus\n": "some lines of data.csv have more fields "
    "than its header",
    "age,income,job\n20,1,clerk\n30,1,clerk,surplus\n": "cannot read data.csv as a .csv file: ",
}


@pytest.mark.parametrize("text", DATA)
def test_a_table_that_cannot_be_used_is_refused(refused, files: Files, tmp_path: Path, text: str):
    data = written(tmp_path, text)
    assert DATA[text] in refused("explain", files.model, data, "--row", "0", "--desired", "yes")


def test_data_files_that_cannot_be_read_are_refused(refused, tmp_path: Path):
    assert "data file not found: " in refused("inspect", str(tmp_path / "nowhere.csv"))
    assert "the data file must end in one of .csv, " in refused("inspect", written(tmp_path, "a\n1\n", "data.xlsx"))
    assert "cannot read data.csv.gz as a .csv.gz file: " in refused(
        "inspect", written(tmp_path, "a\n1\n", "data.csv.gz")
    )
    assert "cannot read data.parquet as a .parquet file: " in refused(
        "inspect", written(tmp_path, "a\n1\n", "data.parquet")
    )
    (tmp_path / "latin.csv").write_bytes("straße\n1\n2\n".encode("latin-1"))
    message = refused("inspect", str(tmp_path / "latin.csv"))
    assert "cannot read latin.csv as a .csv file: it is not text in UTF-8; save it with that encoding" in message


def test_a_column_named_like_a_renamed_duplicate_is_fine(run, tmp_path: Path):
    assert run("inspect", written(tmp_path, "a,a.1\n1,2\n2,3\n")).code == 0


def test_a_missing_or_corrupt_model_file_is_refused(refused, files: Files, tmp_path: Path):
    arguments = [files.data, "--row", "0", "--trust-pickle"]
    assert "model file not found: " in refused("explain", str(tmp_path / "nowhere.skops"), *arguments)
    for name in ("bad.skops", "bad.joblib", "bad.pkl"):
        assert f"cannot load the model in {name}: " in refused("explain", written(tmp_path, "hi", name), *arguments)
    assert "must end in one of .skops, .onnx, " in refused("explain", written(tmp_path, "hi", "model.h5"), *arguments)
    assert "the model must take one input, a matrix of all columns, got 0 inputs" in refused(
        "explain", written(tmp_path, "hi", "model.onnx"), *arguments
    )


def test_a_file_that_is_no_model_is_refused_with_what_to_do(refused, files: Files, tmp_path: Path):
    booster = written(tmp_path, "{}", "booster.json")
    assert "got 'booster.json'; save the fitted model itself, with skops" in refused(
        "explain", booster, files.data, "--row", "0"
    )
    assert "got 'loans.csv'; name the model before the data" in refused(
        "explain", files.data, files.model, "--row", "0"
    )


def test_a_model_whose_library_is_missing_says_what_to_install(refused, files: Files, tmp_path: Path):
    (tmp_path / "model.pkl").write_bytes(b"cno_such_library.models\nModel\n.")
    message = refused("explain", str(tmp_path / "model.pkl"), files.data, "--row", "0", "--trust-pickle")
    assert "the model needs no_such_library: install it" in message


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
    assert "cannot load the model in model.joblib: SystemExit" in message


def test_untrusted_types_in_a_skops_file_are_listed_with_the_option_that_accepts_them(run, refused, tmp_path: Path):
    table = pd.DataFrame({"a": [1, 2, 3, 4], "b": [1, 1, 2, 2]})
    io.dump(DecisionTreeClassifier(random_state=0).fit(table, [0, 0, 1, 1]), tmp_path / "tree.skops")
    table.to_csv(tmp_path / "data.csv", index=False)
    arguments = ["explain", str(tmp_path / "tree.skops"), str(tmp_path / "data.csv"), "--row", "0"]
    message = refused(*arguments)
    assert (
        "tree.skops has types that are not trusted: sklearn.tree._tree.Tree; if you trust them, add --trust " in message
    )
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
    model = saved(tmp_path, Failing(KeyboardInterrupt(), answers=14))  # the explainer asks for less
    result = run("explain", model, str(data), "--row", '{"age": 25, "income": 1}', "--trust-pickle")
    assert result.code == 0, result.err
    assert "The search was interrupted; going on may" in result.text
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
    assert json.loads(result.err)["error"] == {
        "type": "InputError",
        "code": "input",
        "message": "k must be a positive integer, got 0",
        "expected": "k must be a positive integer",
        "got": "0",
        "hint": None,
    }


def test_an_unexpected_failure_is_one_line_that_says_how_to_see_more(run, files: Files, monkeypatch):
    from ironrule.space.space import Space

    def broken(*_args, **_options):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(Space, "infer", broken)
    result = run("inspect", files.data)
    assert result.code == 1
    assert result.err == "error: unexpected ZeroDivisionError: oops; set IRONRULE_DEBUG=1 to see the traceback\n"
    assert result.err.count("\n") == 1
    monkeypatch.setenv("IRONRULE_DEBUG", "1")
    assert "Traceback" in run("inspect", files.data).err


FAILURES = {
    "file": (PermissionError(13, "Permission denied", "loans.csv"), 2, "cannot use 'loans.csv': Permission denied"),
    "interrupted": (KeyboardInterrupt(), 130, "interrupted"),
    "storage": (
        StorageError("cannot write the batch: disk full", hint="make room"),
        2,
        "cannot write the batch: disk full",
    ),
    "unexpected": (ZeroDivisionError("oops"), 1, "unexpected ZeroDivisionError: oops"),
}


@pytest.mark.parametrize("code", FAILURES)
def test_every_failure_has_a_code_and_all_fields_with_json(run, files: Files, monkeypatch, code: str):
    from ironrule.space.space import Space

    error, exit_code, statement = FAILURES[code]

    def broken(*_args, **_options):
        raise error

    monkeypatch.setattr(Space, "infer", broken)
    result = run("inspect", files.data, "--json")
    told = json.loads(result.err)["error"]
    assert (result.code, told["code"]) == (exit_code, code)
    assert list(told) == ["type", "code", "message", "expected", "got", "hint"]
    assert told["type"] == ("Interrupted" if code == "interrupted" else type(error).__name__)
    assert told["message"] == (f"{statement}; {told['hint']}" if told["hint"] else statement)


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
