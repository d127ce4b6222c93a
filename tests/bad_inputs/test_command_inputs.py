"""Bad inputs of the command line: options, rows, data files, space files, model files, explanations.

Every case ends with one message on standard error, nothing on standard output, no traceback, and exit code 2 (3 where
the model failed). With ``--json`` the same error is one JSON document.
"""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from bad_input_checks import build_data
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeRegressor
from skops import io

from ironrule.cli import main

DEEP, DIGITS = "[" * 100_000, "9" * 5000
NUMBERS = ["age", "income"]
LONG_CONSTRAINT = " and ".join(["cf.age > 3"] * 70_000)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table, a model, an explanation, and files that are none of these."""
    home = tmp_path_factory.mktemp("files")
    data = build_data()
    data.to_csv(home / "rows.csv", index=False)
    data.to_parquet(home / "rows.parquet")
    model = LogisticRegression(max_iter=1000).fit(data[NUMBERS], data["income"] >= 300)
    io.dump(model, home / "model.skops")
    io.dump(DecisionTreeRegressor(max_depth=2).fit(data[NUMBERS], data["income"] / 7), home / "regression.skops")
    write_other_files(home)
    assert main([*build_explain(home), "--row", "0", "--output", str(home / "why.json")]) == 0
    return home


def write_other_files(home: Path) -> None:
    texts = {
        "empty.csv": "",
        "header.csv": "age,income,job\n",
        "twice.csv": "age,age\n1,2\n",
        "wide.csv": "age,income,job\n1,2,3,4,5\n1,2,3,4,5\n",
        "ragged.csv": 'age,income,job\n1,2,"a\n',
        "noise.parquet": "no parquet",
        "noise.skops": "no model",
        "noise.onnx": "no model",
        "noise.pmml": "no model",
        "entity.pmml": '<!DOCTYPE a [<!ENTITY b "c">]><PMML version="4.4"/>',
        "noise.pkl": "no model",
        "model.txt": "no model",
        "noise.json": "{",
        "deep.json": DEEP,
        "number.json": "3",
        "space.xyz": "[features]",
        "noise.toml": "= 3",
        "noise.yaml": "a: [",
        "list.json": "[]",
        "nothing.toml": "",
        "keys.toml": "shoe = 3\n",
        "kind.toml": '[features.age]\nkind = "holy"\n',
        "values.toml": "[features.age]\nvalues = 3\n",
        "grid.toml": "[features.age]\ngrid = { start = 1 }\n",
        "long_grid.toml": "[features.age]\ngrid = { start = 0, stop = 1e12, step = 1 }\n",
        "down_grid.toml": "[features.age]\ngrid = { start = 5, stop = 1 }\n",
        "infinite_grid.toml": "[features.age]\ngrid = { start = 1, stop = inf }\n",
        "text_grid.toml": '[features.age]\ngrid = "1 to 5"\n',
        "absent.toml": '[features.shoe]\nkind = "ordered"\n',
        "declared.toml": "[features.shoe]\nvalues = [1, 2]\n",
        "missing.toml": "[features.age]\nvalues = [nan, 1.0]\n",
        "digits.toml": f"[features.age]\nvalues = [{DIGITS}]\n",
        "digits.json": '{"features": {"age": {"values": [' + DIGITS + "]}}}",
        "digits.yaml": f"features:\n  age:\n    values: [{DIGITS}]\n",
        "digits_grid.toml": f"[features.age]\ngrid = {{ start = 0, stop = {DIGITS} }}\n",
        "digits_step.toml": f"[features.income]\nminimum_step = {DIGITS}\n",
        "digits_constraint.toml": f'constraints = ["cf.age > {DIGITS}"]\n[features.age]\nkind = "ordered"\n',
        "nested.toml": "[features.age]\nvalues = [[1], [2]]\n",
        "dates.toml": '[features.age]\nvalues = [{ date = "tomorrow" }]\n',
        "role.toml": '[features.age]\nrole = "holy"\n',
        "step.toml": "[features.age]\nminimum_step = -5\n",
        "columns.toml": '[features.age]\ncolumns = ["shoe"]\n',
        "columns_number.toml": "[features.age]\ncolumns = [3, 4]\n",
        "columns_empty.toml": "[features.age]\ncolumns = []\n",
        "constraint.toml": 'constraints = ["cf.age ="]\n[features.age]\nkind = "ordered"\n',
        "constraint_number.toml": 'constraints = [3]\n[features.age]\nkind = "ordered"\n',
        "constraint_text.toml": 'constraints = "cf.age > 3"\n[features.age]\nkind = "ordered"\n',
        "constraints.toml": f"constraints = {json.dumps(['cf.age > 18'] * 1001)}\n[features.age]\nkind = 'ordered'\n",
        "long_constraint.toml": f'constraints = ["{LONG_CONSTRAINT}"]\n[features.age]\nkind = "ordered"\n',
        "number_name.json": '{"features": []}',
        "interval.toml": "[features.job]\ninterval = true\n",
        "order.toml": '[features.job]\nkind = "ordered"\n',
    }
    for name, text in texts.items():
        (home / name).write_text(text, encoding="utf-8")
    (home / "binary.csv").write_bytes(bytes(range(256)) * 10)
    (home / "binary.toml").write_bytes(b"\xff\xfe\x00")
    (home / "binary.json").write_bytes(b"\xff\xfe\x00")
    (home / "cut.csv.gz").write_bytes(gzip.compress(b"age,income\n" * 100)[:30])
    write_archive(home / "bomb.skops", {"schema.json": b"0" * 300_000_000})
    write_archive(home / "odd.skops", {"schema.json": b"{}"})
    for name, kind in {
        "os": ("posix", "system"),
        "stranger": ("mallory", "Model"),
        "eval": ("builtins", "eval"),
    }.items():
        write_archive(home / f"{name}.skops", {"schema.json": json.dumps(build_schema(*kind)).encode()})


def write_archive(path: Path, entries: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)


def build_schema(module: str, name: str) -> dict[str, object]:
    """A .skops file that holds a type."""
    return {
        "__class__": name,
        "__module__": module,
        "__loader__": "TypeNode",
        "__id__": 1,
        "content": None,
        "protocol": 2,
        "_skops_version": "0.12",
    }


def build_explain(
    home: Path, command: str = "explain", model: str = "model.skops", data: str = "rows.csv"
) -> list[str]:
    return [command, str(home / model), str(home / data)]


class Command(NamedTuple):
    """A command that must be refused, with words of its message."""

    build: Callable[[Path], list[str]]
    words: tuple[str, ...]
    code: int = 2


def explain(*options: str, words: tuple[str, ...], **files: str) -> Command:
    return Command(lambda home: [*build_explain(home, **files), *("--row", "0"), *options], words)


def row(text: str, *words: str) -> Command:
    return Command(lambda home: [*build_explain(home), f"--row={text}"], words)


def with_space(file: str, *words: str) -> Command:
    return Command(lambda home: [*build_explain(home), "--row", "0", "--space", str(home / file)], words)


def with_model(file: str, *words: str) -> Command:
    return Command(lambda home: [*build_explain(home, model=file), "--row", "0"], words)


def with_data(file: str, *words: str) -> Command:
    return Command(lambda home: [*build_explain(home, data=file), "--row", "0"], words)


def check(file: str, *words: str) -> Command:
    return Command(
        lambda home: [
            "check",
            str(home / file),
            "--model",
            str(home / "model.skops"),
            "--data",
            str(home / "rows.csv"),
        ],
        words,
    )


def plain(*arguments: str, words: tuple[str, ...]) -> Command:
    return Command(lambda home: [argument.replace("HOME", str(home)) for argument in arguments], words)


ROW_RULE = "a row must be a row number or a JSON object"
ROWS: dict[str, Command] = {
    "row -1": row("-1", "non-negative integer", "-1", "count from 0"),
    "row 30": row("30", "from 0 to 29", "30"),
    "row 10**30": row(str(10**30), "from 0 to 29"),
    "row of 5000 digits": row(DIGITS, ROW_RULE, "too many digits"),
    "row 1.5": row("1.5", ROW_RULE, "float"),
    "row true": row("true", ROW_RULE, "bool"),
    "row null": row("null", ROW_RULE, "NoneType"),
    "row text": row('"0"', ROW_RULE, "str"),
    "row word": row("first", ROW_RULE, "got 'first'"),
    "row empty": row("", ROW_RULE),
    "row list": row("[1]", ROW_RULE, "list"),
    "row deep": row(DEEP, ROW_RULE, "too deep"),
    "row deep objects": row('{"age": ' * 50_000, ROW_RULE, "too deep"),
    "row huge": row('{"age": "' + "x" * 1_100_000 + '"}', "at most 1,000,000 characters"),
    "row open": row('{"age": 3', ROW_RULE, "invalid JSON"),
    "row single quotes": row("{'age': 3}", ROW_RULE, "invalid JSON"),
    "row twice": row('{"age": 1, "age": 2}', "every column once", "'age'"),
    "row empty object": row("{}", "must have a value for"),
    "row unknown column": row('{"age": 20, "income": 0, "shoe": 4}', "'shoe'"),
    "row without a column": row('{"age": 20}', "'income'"),
    "row text for a number": row('{"age": "old", "income": 0}', "'age' must be a number", "'old'"),
    "row list for a number": row('{"age": [20], "income": 0}', "'age'", "[20]"),
    "row object for a number": row('{"age": {"a": 1}, "income": 0}', "'age'"),
    "row NaN": row('{"age": Infinity, "income": 0}', "'age'", "inf"),
    "row digits for a number": row('{"age": ' + DIGITS + ', "income": 0}', "too many digits"),
    "row date": row('{"age": {"date": "tomorrow"}, "income": 0}', "a date must be written as"),
    "row that is not denied": row("5", "already has the desired outcome"),
}
OPTIONS: dict[str, Command] = {
    "unknown command": plain("magic", words=("magic", "--help")),
    "unknown option": explain("--magic", words=("--magic", "--help")),
    "no row": Command(lambda home: build_explain(home), ("--row", "--help")),
    "no data": plain("explain", "HOME/model.skops", "--row", "3", words=("DATA", "--help")),
    "k 0": explain("--k", "0", words=("k must be a positive integer", "0")),
    "k text": explain("--k", "many", words=("--k", "'many'")),
    "k of 5000 digits": explain("--k", DIGITS, words=("--k",)),
    "seed -1": explain("--seed=-1", words=("seed", "-1")),
    "seed text": explain("--seed", "x", words=("seed", "'x'")),
    "seconds 0": explain("--seconds", "0", words=("seconds", "0")),
    "seconds NaN": explain("--seconds", "nan", words=("seconds", "nan")),
    "seconds text": explain("--seconds", "long", words=("--seconds", "'long'")),
    "evaluations 0": explain("--evaluations", "0", words=("evaluations", "0")),
    "algorithm": explain("--algorithm", "magic", words=("--algorithm", "magic")),
    "prefer": explain("--prefer", "speed", words=("--prefer", "speed")),
    "change cost": explain("--change-cost", "l3", words=("--change-cost", "l3")),
    "price of a change": explain("--price", "age=much", words=("age=much",)),
    "step of a change": explain("--step", "age", words=("amount=50", "age")),
    "cost per change": explain("--change-cost", "l1", "--per-change", "-1", words=("per_change", "-1")),
    "domain": explain("--domain", "all", words=("--domain", "all")),
    "margin -1": explain("--margin=-1", words=("margin", "-1")),
    "margin NaN": explain("--margin", "nan", words=("margin", "nan")),
    "threshold 2": explain("--threshold", "2", words=("probability from 0 to 1", "2")),
    "threshold NaN": explain("--threshold", "nan", words=("threshold", "nan")),
    "threshold text": explain("--threshold", "half", words=("--threshold", "'half'")),
    "desired unknown": explain("--desired", "maybe", words=("one of False, True", "'maybe'")),
    "desired all": explain("--desired", "True", "False", words=("at least one class must be undesired",)),
    "target unknown": explain("--target", "shoe", words=("target must be a column", "'shoe'", "the columns are")),
    "require unknown": explain("--require", "shoe", words=("'shoe'",)),
    "forbid unknown": explain("--forbid", "shoe", words=("'shoe'",)),
    "constraint": explain("--constraint", "cf.age =", words=("equality must be written",)),
    "constraint unknown": explain("--constraint", "cf.shoe > 3", words=("unknown feature 'shoe'",)),
    "constraint deep": explain("--constraint", "(" * 5000, words=("nested more than 32 levels",)),
    "constraint long": explain("--constraint", "cf.age > 3 " + " " * 110_000, words=("at most 100,000 characters",)),
    "constraint digits": explain("--constraint", f"cf.age > {DIGITS}", words=("at most about 1.8e308",)),
    "nobody": explain("--constraint", "cf.age > 1000", words=("satisfies the constraints",)),
    "models absent": explain("--models", "none.skops", words=("model file not found",)),
    "output ending": explain("--output", "why.exe", words=("must end in", "'why.exe'")),
    "output folder": explain("--output", "/none/why.json", words=("folder of the output file does not exist",)),
    "judge without rule": Command(lambda home: [*build_explain(home, "judge"), "--row", "0"], ("--rule",)),
    "judge": Command(
        lambda home: [*build_explain(home, "judge"), "--row", "0", "--rule", "shoe <= 3"],
        ("a condition must look like",),
    ),
    "counterfactual k": Command(
        lambda home: [*build_explain(home, "counterfactual"), "--row", "0", "--k", "0"],
        ("k must be a positive integer",),
    ),
    "counterfactual price": Command(
        lambda home: [*build_explain(home, "counterfactual"), "--row", "0", "--price", "age=cheap"],
        ("must have numbers", "'cheap'"),
    ),
    "counterfactual step": Command(
        lambda home: [*build_explain(home, "counterfactual"), "--row", "0", "--step", "age=0"], ("positive", "0")
    ),
    "counterfactual band": Command(
        lambda home: [*build_explain(home, "counterfactual"), "--row", "0", "--above", "0.9", "--at-most", "0.1"],
        ("must rise",),
    ),
    "batch workers": Command(
        lambda home: [*build_explain(home, "batch"), "--workers", "0", "--output", str(home / "b")], ("workers", "0")
    ),
    "inspect": plain("inspect", "HOME/none.csv", words=("data file not found", "none.csv")),
    "report": plain("report", "HOME/none.json", "--output", "HOME/r.html", words=("not found", "none.json")),
    "report output": plain("report", "HOME/why.json", "--output", "HOME/r.txt", words=("must end in .html", "r.txt")),
    "report audience": plain(
        "report", "HOME/why.json", "--output", "HOME/r.html", "--audience", "king", words=("king",)
    ),
    "recheck": plain(
        "recheck", "HOME/none.json", "--model", "HOME/model.skops", "--data", "HOME/rows.csv", words=("none.json",)
    ),
    "audit": plain("audit", "magic", words=("magic",)),
    "serve port": plain("serve", "HOME/model.skops", "HOME/rows.csv", "--port", "many", words=("--port", "many")),
}
REGRESSION_OPTIONS = ("--row", "0", "--desired", "1", "--trust", "sklearn.tree._tree.Tree")
FILES: dict[str, Command] = {
    "data absent": with_data("none.csv", "data file not found", "none.csv"),
    "data similar": with_data("row.csv", "data file not found", "did you mean", "rows.csv"),
    "data folder": with_data("", "must be a file", "folder"),
    "data ending": with_data("model.txt", "must end in one of", "model.txt"),
    "data empty": with_data("empty.csv", "header line", "an empty file"),
    "data header": with_data("header.csv", "at least one row"),
    "data twice": with_data("twice.csv", "distinct", "'age'"),
    "data wide": with_data("wide.csv", "more fields than its header"),
    "data ragged": with_data("ragged.csv", "cannot read ragged.csv"),
    "data binary": with_data("binary.csv", "cannot read binary.csv"),
    "data cut": with_data("cut.csv.gz", "cannot read cut.csv.gz"),
    "data noise": with_data("noise.parquet", "cannot read noise.parquet"),
    "model absent": with_model("none.skops", "model file not found", "none.skops"),
    "model folder": with_model("", "must be a file", "folder"),
    "model ending": with_model("model.txt", "must end in one of", "model.txt"),
    "model noise": with_model("noise.skops", "no .skops file", "save the model again"),
    "model bomb": with_model("bomb.skops", "at most 200 times its size", "300 MB", "IRONRULE_MAX_MODEL_MB"),
    "model odd": with_model("odd.skops", "cannot load the model in odd.skops"),
    "model noise onnx": with_model("noise.onnx", "cannot load the model in noise.onnx"),
    "model noise pmml": with_model("noise.pmml", "not an XML file"),
    "model entity pmml": with_model("entity.pmml", "DOCTYPE", "entities are not expanded"),
    "model pickle": with_model("noise.pkl", "is a pickle", "--trust-pickle"),
    "model os": with_model("os.skops", "can run any code", "posix.system", "do not load it"),
    "model eval": with_model("eval.skops", "can run any code", "builtins.eval", "do not load it"),
    "model stranger": with_model("stranger.skops", "no well-known library", "mallory.Model", "who wrote it"),
    "model tree": with_model("regression.skops", "not trusted", "add --trust sklearn.tree._tree.Tree"),
    "regression with desired": Command(
        lambda home: [*build_explain(home, model="regression.skops"), *REGRESSION_OPTIONS],
        ("must answer labels", "scores such as", "add --threshold T"),
    ),
    "space absent": with_space("none.toml", "space file not found", "none.toml"),
    "space ending": with_space("space.xyz", "must end in .toml, .yaml or .json", ".xyz"),
    "space noise": with_space("noise.toml", "not well-formed TOML"),
    "space noise yaml": with_space("noise.yaml", "not well-formed YAML"),
    "space noise json": with_space("noise.json", "not well-formed JSON"),
    "space deep": with_space("deep.json", "not well-formed JSON"),
    "space binary": with_space("binary.toml", "not well-formed TOML"),
    "space list": with_space("list.json", "must hold a mapping", "list"),
    "space nothing": with_space("nothing.toml", "non-empty mapping"),
    "space keys": with_space("keys.toml", "may only have the keys", "'shoe'"),
    "space kind": with_space("kind.toml", "kind 'ordered' or 'nominal'", "holy"),
    "space values": with_space("values.toml", "'values'", "a list", "3"),
    "space grid": with_space("grid.toml", "start, stop and step"),
    "space long grid": with_space("long_grid.toml", "1 to 1,000,000 values"),
    "space down grid": with_space("down_grid.toml", "go up from start to stop"),
    "space infinite grid": with_space("infinite_grid.toml", "grid of 'age'"),
    "space text grid": with_space("text_grid.toml", "start, stop and step"),
    "space absent feature": with_space("absent.toml", "'shoe'", "not found in the table"),
    "space declared feature": with_space("declared.toml", "'shoe'"),
    "space missing": with_space("missing.toml", "must not list missing", "missing to true"),
    "space digits": with_space("digits.toml", "not well-formed TOML", "digits"),
    "space digits json": with_space("digits.json", "not well-formed JSON", "digits"),
    "space digits yaml": with_space("digits.yaml", "not well-formed YAML", "digits"),
    "space digits grid": with_space("digits_grid.toml", "not well-formed TOML", "digits"),
    "space digits step": with_space("digits_step.toml", "not well-formed TOML", "digits"),
    "space digits constraint": with_space("digits_constraint.toml", "at most about 1.8e308"),
    "space nested": with_space("nested.toml", "'age'", "single values"),
    "space dates": with_space("dates.toml", "'age'", "date"),
    "space role": with_space("role.toml", "role of feature 'age'", "holy"),
    "space step": with_space("step.toml", "role of feature 'age'", "-5"),
    "space columns": with_space("columns.toml", "'shoe'", "not found in the table"),
    "space columns of numbers": with_space("columns_number.toml", "'age'", "columns"),
    "space no columns": with_space("columns_empty.toml", "'age'", "columns"),
    "space constraint": with_space("constraint.toml", "equality must be written"),
    "space constraint number": with_space("constraint_number.toml", "must be a string", "3"),
    "space constraint text": with_space("constraint_text.toml", "'constraints' must be a list"),
    "space constraints": with_space("constraints.toml", "at most 1,000 constraints"),
    "space long constraint": with_space("long_constraint.toml", "at most 100,000 characters"),
    "space features list": with_space("number_name.json", "non-empty mapping", "[]"),
    "space interval": with_space("interval.toml", "'job'", "interval"),
    "space order": with_space("order.toml", "'job'", "list its 'values' in order"),
    "explanation absent": check("none.json", "explanation not found", "none.json"),
    "explanation noise": check("noise.json", "cannot read noise.json", "make one with"),
    "explanation deep": check("deep.json", "cannot read deep.json"),
    "explanation number": check("number.json", "cannot read number.json"),
    "explanation binary": check("binary.json", "cannot read binary.json"),
    "explanation of another kind": check("list.json", "cannot read list.json"),
}
CASES = {
    f"{table}: {name}": case
    for table, cases in {"row": ROWS, "option": OPTIONS, "file": FILES}.items()
    for name, case in cases.items()
}


@pytest.mark.parametrize("name", CASES)
def test_a_bad_command_is_refused_in_one_message(name, folder, capsys, monkeypatch):
    monkeypatch.delenv("IRONRULE_DEBUG", raising=False)
    case = CASES[name]
    arguments = case.build(folder)
    capsys.readouterr()
    code = main(arguments)
    out, err = capsys.readouterr()
    assert (code, out) == (case.code, ""), err[:500]
    assert err.startswith("error: ")
    assert "Traceback" not in err
    assert "unexpected" not in err
    assert len(err) < 3000
    lines = err.rstrip("\n").split("\n")
    assert len(lines) == (3 if lines[-1].strip() == "^" else 1)  # a constraint is shown with its place
    assert [word for word in case.words if word.lower() not in err.lower()] == [], err


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("row")])
def test_the_same_error_is_one_json_document(name, folder, capsys):
    assert main([*CASES[name].build(folder), "--json"]) == CASES[name].code
    out, err = capsys.readouterr()
    assert out == ""
    error = json.loads(err)["error"]
    assert {"type", "code", "message", "expected", "got", "hint"} == set(error)
    assert error["message"]


def test_a_larger_model_file_is_read_if_the_limit_is_raised(folder, capsys, monkeypatch):
    monkeypatch.setenv("IRONRULE_MAX_MODEL_MB", "many")
    assert main([*build_explain(folder), "--row", "0"]) == 2
    assert "must be a number of megabytes" in capsys.readouterr().err
    monkeypatch.setenv("IRONRULE_MAX_MODEL_MB", "3000")
    assert main([*build_explain(folder), "--row", "0"]) == 0
