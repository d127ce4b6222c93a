"""What the command line advises: in its own words, with what to do, and no file lost."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from loans import FEATURES, Files, Run, loans
from sklearn.tree import DecisionTreeRegressor

import ironrule
from ironrule.cli.spoken import spoken
from ironrule.counting import counted

PYTHON = re.compile(r"\b\w+=(\.\.\.|'|True|False|\[)|\.\w+\(|\b[A-Z]\w+\(")
OUTSIDE = (  # models and tables are made in Python, and mended there
    "with pandas: ", "call .collect()", "torch", "ensemble=False", "refit=False", "probabilities=True", "classes=[",
)  # fmt: skip


def messages() -> Iterator[str]:
    """The text of every error that the library raises, what is filled in left out."""
    for path in Path(ironrule.__file__).parent.rglob("*.py"):
        if {"cli", "server"} & set(path.parts[-3:]):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                parts = [one.value for one in ast.walk(node.exc) if isinstance(one, ast.Constant)]
                yield "".join(part for part in parts if isinstance(part, str))


def test_no_advice_of_the_library_reaches_the_command_line_in_python() -> None:
    told = [text for text in map(spoken, messages()) if not any(words in text for words in OUTSIDE)]
    assert len(told) > 100
    assert [text for text in told if PYTHON.search(text)] == []


def test_the_desired_class_is_asked_for_by_its_option(refused: Callable[..., str], files: Files) -> None:
    message = refused("explain", files.model, files.data, "--row", "0")
    assert "(--desired LABEL), one of ['no', 'yes']" in message
    assert "desired=" not in message


def test_a_value_outside_its_domain_is_let_in_by_an_option(refused: Callable[..., str], files: Files) -> None:
    row = json.dumps({"age": 95, "income": 1, "job": "cook"})
    message = refused("explain", files.model, files.data, "--desired", "yes", "--row", row)
    assert message.endswith("; add --extend-domain, or list the value in a --space file\n")


ABSENT = {
    ("explain", "nothing.skops", "DATA", "--row", "0"): "or save one: skops.io.dump(model, 'model.skops')",
    ("explain", "mode.skops", "DATA", "--row", "0"): "did you mean 'model.skops'?",
    ("inspect", "loan.csv"): "did you mean 'loans.csv'?",
    ("inspect", "elsewhere/loan.csv"): "check the path",
    ("inspect", "."): "'.' is a folder",
    ("inspect", "loans.csv", "--space", "none.toml"): "ironrule inspect DATA --output space.toml",
    (
        "check",
        "why.json",
        "--model",
        "MODEL",
        "--data",
        "DATA",
    ): "ironrule explain MODEL DATA --row N --output why.json",
    ("report", "why.json", "--output", "why.html"): "ironrule explain MODEL DATA --row N --output why.json",
    ("recheck", "why.json", "--model", "MODEL", "--data", "DATA"): "ironrule explain MODEL DATA --row N",
    ("report", "nothing", "--output", "why.html"): "there is no 'nothing': check the path",
    ("serve", "--tokens", "none.txt"): "one 'name token' per line",
}


@pytest.mark.parametrize("command", ABSENT)
def test_a_file_that_is_not_there_is_refused_with_what_to_do(
    refused: Callable[..., str], files: Files, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(files.folder)
    places = {"MODEL": files.model, "DATA": files.data}
    assert ABSENT[command] in refused(*(places.get(one, one) for one in command))


def test_a_row_that_is_not_denied_is_refused_with_some_that_are(refused: Callable[..., str], files: Files) -> None:
    granted = str(int((loans()["paid"] == "yes").to_numpy().argmax()))
    message = refused("explain", files.model, files.data, "--desired", "yes", "--row", granted)
    assert f"row {granted} must have the undesired outcome" in message
    assert f"rows that it denies: {files.denied}, " in message
    nobody = refused("explain", files.model, files.data, "--desired", "yes", "--threshold", "0", "--row", granted)
    assert "it denies no row of this data" in nobody


@pytest.mark.parametrize("threshold", ["2", "-0.5", "1.000001"])
def test_a_threshold_that_is_no_probability_is_refused(
    refused: Callable[..., str], files: Files, threshold: str
) -> None:
    message = refused("explain", *files.ask("--threshold", threshold))
    assert f"must be a probability, from 0 to 1, but {float(threshold)!r} came" in message


def test_a_regression_takes_any_threshold_and_a_margin_may_move_a_probability_anywhere(
    run: Callable[..., Run], refused: Callable[..., str], files: Files, tmp_path: Path
) -> None:
    import joblib

    table = loans()
    model = DecisionTreeRegressor(max_depth=3, random_state=0).fit(table[FEATURES[:2]], (table.paid == "yes") * 100.0)
    joblib.dump(model, tmp_path / "model.joblib")
    table[FEATURES[:2]].to_csv(tmp_path / "loans.csv", index=False)
    command = ["explain", str(tmp_path / "model.joblib"), str(tmp_path / "loans.csv"), "--trust-pickle"]
    assert run(*command, "--row", "0", "--threshold", "200").code == 0
    assert "no rule can withstand so much" in refused("explain", *files.ask("--margin", "5"))


@pytest.mark.parametrize(
    ("command", "name"),
    [("explain", "why.json"), ("counterfactual", "ways.json"), ("judge", "judged.json"), ("inspect", "space.toml")],
)
def test_a_file_that_is_there_is_kept_unless_it_is_to_be_overwritten(
    run: Callable[..., Run], refused: Callable[..., str], files: Files, tmp_path: Path, command: str, name: str
) -> None:
    output = tmp_path / name
    output.write_text("precious")
    asked = [files.data] if command == "inspect" else files.ask(*(["--rule", "income <= 3"] * (command == "judge")))
    message = refused(command, *asked, "--output", str(output))
    assert f"must be a new file, but {str(output)!r} exists; to replace it, add --overwrite" in message
    assert output.read_text() == "precious"
    assert run(command, *asked, "--output", str(output), "--overwrite").code == 0
    assert output.read_text() != "precious"


def test_explanations_of_other_data_are_refused_by_recheck_with_what_does_not_fit(
    run: Callable[..., Run], refused: Callable[..., str], files: Files, tmp_path: Path
) -> None:
    why, other = str(tmp_path / "why.json"), tmp_path / "other.csv"
    run("explain", *files.ask("--output", why))
    table = loans()
    table.assign(income=table["income"] * 10).to_csv(other, index=False)
    message = refused("recheck", why, "--model", files.model, "--data", str(other), "--desired", "yes")
    assert f"but that of {why!r} is not: 'income' must be one of 10, 20" in message
    assert "use the data, the space and the constraints that it was made with" in message
    assert "extend" not in message


def test_what_is_no_explanation_is_refused_by_its_name(
    refused: Callable[..., str], files: Files, tmp_path: Path
) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "empty.json").write_text("{}")
    more = ["--model", files.model, "--data", files.data]
    for name in ("deep.json", "bytes.json", "empty.json"):
        for command in (["check", *more], ["recheck", *more], ["report", "--output", str(tmp_path / "r.html")]):
            message = refused(command[0], str(tmp_path / name), *command[1:])
            assert f"{name} must be an explanation as JSON" in message


def test_a_space_file_that_is_no_text_is_refused(refused: Callable[..., str], files: Files, tmp_path: Path) -> None:
    (tmp_path / "space.toml").write_bytes(b"\xff\xfe")
    assert "space.toml must be well-formed TOML" in refused(
        "inspect", files.data, "--space", str(tmp_path / "space.toml")
    )


@pytest.mark.parametrize("date", ['{"date": "x"}', '{"date": 5}'])
def test_a_date_that_is_none_is_refused(refused: Callable[..., str], files: Files, date: str) -> None:
    row = f'{{"age": {date}, "income": 1, "job": "cook"}}'
    assert 'must be written {"date": "2024-12-31"}' in refused(
        "explain", files.model, files.data, "--desired", "yes", "--row", row
    )


def test_an_interrupted_batch_says_what_is_safe_and_how_to_go_on(
    run: Callable[..., Run], files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ironrule.explain.batches.worker import Work

    whole, left = Work.lines, 1

    def stopping(self: Work, task: object) -> object:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        return whole(self, task)  # type: ignore[arg-type]

    monkeypatch.setattr(Work, "lines", stopping)
    folder = str(tmp_path / "batch")
    command = ["batch", files.model, files.data, "--desired", "yes", "--output", folder, "--workers", "1"]
    result = run(*command)
    assert result.code == 130
    found = re.fullmatch(
        r"error: interrupted: (\d+) of 26 denied rows explained and safe in '.*'; run the same command again for the "
        r"others\n",
        result.err,
    )
    assert found is not None, result.err
    assert 0 < int(found[1]) < 26
    monkeypatch.setattr(Work, "lines", whole)
    assert "26 denied rows explained." in run(*command).out


def test_an_interrupt_before_a_batch_has_begun_says_to_start_again(
    run: Callable[..., Run], files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ironrule.explain.batches.making.make_batch", interrupted)
    result = run("batch", files.model, files.data, "--desired", "yes", "--output", str(tmp_path / "batch"))
    assert result.code == 130
    assert result.err == "error: interrupted before a row was finished; run the same command again\n"


def test_one_of_something_is_told_in_the_singular(run: Callable[..., Run], files: Files, tmp_path: Path) -> None:
    assert (counted(0, "row"), counted(1, "row"), counted(2, "row")) == ("0 rows", "1 row", "2 rows")
    loans().iloc[[files.denied]].drop(columns="paid").to_csv(tmp_path / "one.csv", index=False)
    more = ["--rows", str(tmp_path / "one.csv"), "--output", str(tmp_path / "batch"), "--workers", "1"]
    told = run("batch", files.model, files.data, "--desired", "yes", *more).out
    assert "1 denied row explained." in told
    assert "1 rule is minimum." in told
    assert "1 proven rule covers the 1 row that has one, and no fewer do:" in told
    assert "1 row  Everyone" in told
    (tmp_path / "single.csv").write_text("a,b\n1,2\n")
    assert "1 row, 2 features" in run("inspect", str(tmp_path / "single.csv"), "--keep-constant").out
