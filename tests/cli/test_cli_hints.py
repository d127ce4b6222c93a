"""What the command line advises: in its own words, with what to do, and no file lost."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from loans import FEATURES, Files, Run, loans
from sklearn.tree import DecisionTreeRegressor

import ironrule
from ironrule.cli.errors import CLI_HINTS
from ironrule.cli.parser import build_parser
from ironrule.server.errors import SERVER_HINTS
from ironrule.verdict.digest import add_digest
from ironrule.wording import format_count

PYTHON = re.compile(r"\b\w+=(\.\.\.|'|True|False|\[)|\.\w+\(|\b[A-Z]\w+\(")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
OUTSIDE = (  # models and tables are made in Python, and mended there
    "with pandas: ", "call .collect()", "torch", "ensemble=False", "refit=False",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Message:
    """The text of an error or a warning in the source, what is filled in left out."""

    place: str
    text: str
    hint: str
    code: str
    is_error: bool


def in_python(text: str) -> bool:
    return bool(PYTHON.search(text)) and not any(words in text for words in OUTSIDE)


def messages_in(source: str, name: str = "") -> Iterator[Message]:
    """Every call that raises or makes an error or a warning, and every set of fields for one."""
    nodes = list(ast.walk(ast.parse(source)))
    raised = [node.exc for node in nodes if isinstance(node, ast.Raise)]
    assigned = values_by_name(nodes)
    for node in nodes:
        if isinstance(node, ast.Call):
            fields = {word.arg: word.value for word in node.keywords if word.arg}
            called = ast.unparse(node.func).rpartition(".")[2]
            if node in raised or "hint" in fields or called == "warn" or called.endswith("Error"):
                fields |= {str(place): one for place, one in enumerate(node.args)}
                yield message_of(fields, assigned, f"{name}:{node.lineno}", called.endswith("Error"))
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            fields = {str(key.value): value for key, value in pairs if isinstance(key, ast.Constant)}
            if "hint" in fields:
                yield message_of(fields, assigned, f"{name}:{node.lineno}")


def values_by_name(nodes: Iterable[ast.AST]) -> dict[str, list[ast.expr]]:
    """All that a module assigns to each name."""
    found: dict[str, list[ast.expr]] = {}
    for one in nodes:
        if isinstance(one, ast.Assign):
            for name in {to.id for to in one.targets if isinstance(to, ast.Name)}:
                found.setdefault(name, []).append(one.value)
    return found


def message_of(
    fields: dict[str, ast.expr], assigned: dict[str, list[ast.expr]], place: str, is_error: bool = False
) -> Message:
    hint, code = (fields.pop(name, ast.Constant(None)) for name in ("hint", "code"))
    text = "".join(strings(value, assigned) for value in fields.values())
    return Message(place, text, strings(hint, assigned), joined(code), is_error)


def strings(node: ast.expr, assigned: dict[str, list[ast.expr]]) -> str:
    """The strings in an expression; a name stands for all that is assigned to it in the module."""
    names = sorted({one.id for one in ast.walk(node) if isinstance(one, ast.Name)})
    values = [value for name in names for value in assigned.get(name, ())]
    return "".join(map(joined, (node, *values)))


def joined(node: ast.expr) -> str:
    found = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)]
    return "".join(one for one in found if isinstance(one, str))


@cache
def messages() -> list[Message]:
    """Those of the library, without the command line and the server."""
    root = Path(ironrule.__file__).parent
    paths = [path for path in root.rglob("*.py") if not {"cli", "server"} & set(path.relative_to(root).parts)]
    found = [(path.relative_to(root), path.read_text(encoding="utf-8")) for path in paths]
    return [message for path, source in found for message in messages_in(source, str(path))]


@pytest.mark.parametrize("hints", [CLI_HINTS, SERVER_HINTS], ids=["command line", "server"])
def test_every_hint_that_is_python_has_a_code_that_the_command_line_and_the_server_know(
    hints: dict[str, str | None],
) -> None:
    python = [message for message in messages() if in_python(message.hint)]
    assert len(python) > 10
    assert [message for message in python if message.code not in hints] == []
    assert [hint for hint in hints.values() if hint and PYTHON.search(hint)] == []
    assert set(hints) <= {message.code for message in messages()}


def test_no_error_of_the_library_is_python_outside_its_hint_or_names_an_option() -> None:
    told = messages()
    assert len(told) > 300
    assert [message for message in told if in_python(message.text)] == []
    assert [message for message in told if OPTION.search(message.hint + message.text * message.is_error)] == []


def test_every_option_in_a_hint_is_one_of_the_command_line() -> None:
    known = {
        option
        for action in build_parser()._actions
        if isinstance(action.choices, dict)
        for command in action.choices.values()
        for option in command._option_string_actions
    }
    for hints in (CLI_HINTS, SERVER_HINTS):
        named = {option for hint in hints.values() for option in OPTION.findall(hint or "")}
        assert named
        assert named <= known


@pytest.mark.parametrize(
    ("source", "hint", "code"),
    [
        ("raise InputError('no', hint='pass desired=...')", "pass desired=...", ""),
        ("return InputError('no', hint=f'pass {a}.extend_domains(row)', code='c')", "pass .extend_domains(row)", "c"),
        ("HINT = 'set missing=True'\ndef f():\n    raise complaint(text, hint=HINT)", "set missing=True", ""),
        ("raise complaint(**{'statement': 'no', 'hint': 'use algorithm=\\'geco\\''})", "use algorithm='geco'", ""),
    ],
)
def test_advice_in_python_is_noticed_wherever_it_stands(source: str, hint: str, code: str) -> None:
    found = [message for message in messages_in(source) if message.hint]
    assert [(message.hint, message.code) for message in found] == [(hint, code)]
    assert in_python(hint)


def test_advice_in_python_is_noticed_in_a_warning_and_outside_a_hint() -> None:
    sources = ["warnings.warn('pass desired=... instead')", "raise Unreadable('no; leave intervals=True out')"]
    assert all(in_python(message.text) for source in sources for message in messages_in(source))


def test_a_hint_of_the_library_is_replaced_in_the_message_and_in_its_fields(
    run: Callable[..., Run], refused: Callable[..., str], files: Files
) -> None:
    ask = ["explain", files.model, files.data, "--row", "0"]
    message = "the desired class must be one of ['no', 'yes'], got none; add --desired LABEL"
    assert refused(*ask) == f"error: {message}\n"
    assert json.loads(run(*ask, "--json").err) == {
        "error": {
            "type": "OutcomeError",
            "code": "desired-required",
            "message": message,
            "expected": "the desired class must be one of ['no', 'yes']",
            "got": "none",
            "hint": "add --desired LABEL",
        }
    }


def test_a_value_outside_its_domain_is_explained_and_said(run: Callable[..., Run], files: Files) -> None:
    row = json.dumps({"age": 95, "income": 1, "job": "cook"})
    result = run("explain", files.model, files.data, "--desired", "yes", "--row", row)
    assert result.code == 0
    assert "No past row has age = 95" in " ".join(result.out.split())


ABSENT = {
    ("explain", "nothing.skops", "DATA", "--row", "0"): "or save one: skops.io.dump(model, 'model.skops')",
    ("explain", "mode.skops", "DATA", "--row", "0"): "did you mean 'model.skops'?",
    ("inspect", "loan.csv"): "did you mean 'loans.csv'?",
    ("inspect", "elsewhere/loan.csv"): "check the path",
    ("inspect", "."): "the data file must be a file, got the folder '.'; name the file in it",
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
    ("report", "nothing", "--output", "why.html"): "check the path: 'nothing' does not exist",
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
    assert f"row {granted} already has the desired outcome; rows that it denies: {files.denied}, " in message
    nobody = refused("explain", files.model, files.data, "--desired", "yes", "--threshold", "0", "--row", granted)
    assert "it denies no row of this data" in nobody


@pytest.mark.parametrize("threshold", ["2", "-0.5", "1.000001"])
def test_a_threshold_that_is_no_probability_is_refused(
    refused: Callable[..., str], files: Files, threshold: str
) -> None:
    message = refused("explain", *files.ask("--threshold", threshold))
    assert f"must be a probability from 0 to 1, got {float(threshold)!r}" in message


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
    assert "no robust rule exists for this row" in refused("explain", *files.ask("--margin", "5"))


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
    assert f"the output file already exists: {str(output)!r}; add --overwrite to replace it" in message
    assert output.read_text() == "precious"
    assert run(command, *asked, "--output", str(output), "--overwrite").code == 0
    assert output.read_text() != "precious"


def test_explanations_of_other_data_are_refused_by_recheck_with_what_does_not_fit(
    run: Callable[..., Run], refused: Callable[..., str], files: Files, tmp_path: Path
) -> None:
    why = tmp_path / "why.json"
    run("explain", *files.ask("--output", str(why)))
    document = json.loads(why.read_text())
    document["instance"]["income"] = "much"
    why.write_text(json.dumps(add_digest({name: part for name, part in document.items() if name != "digest"})))
    message = refused("recheck", str(why), "--model", files.model, "--data", files.data, "--desired", "yes")
    assert f"the stored explanation {str(why)!r} does not fit the data: 'income' must be a number" in message
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
            assert f"cannot read {name} as an explanation: " in message
            assert message.endswith("; make one with: ironrule explain MODEL DATA --row N --output why.json\n")


def test_a_space_file_that_is_no_text_is_refused(refused: Callable[..., str], files: Files, tmp_path: Path) -> None:
    (tmp_path / "space.toml").write_bytes(b"\xff\xfe")
    assert "space.toml is not well-formed TOML: " in refused(
        "inspect", files.data, "--space", str(tmp_path / "space.toml")
    )


@pytest.mark.parametrize("date", ['{"date": "x"}', '{"date": 5}'])
def test_a_date_that_is_none_is_refused(refused: Callable[..., str], files: Files, date: str) -> None:
    row = f'{{"age": {date}, "income": 1, "job": "cook"}}'
    assert 'must be written as {"date": "2024-12-31"}, got ' in refused(
        "explain", files.model, files.data, "--desired", "yes", "--row", row
    )


def test_an_interrupted_batch_says_what_is_safe_and_how_to_go_on(
    run: Callable[..., Run], files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ironrule.explain.batch.worker import RowExplainer

    whole, left = RowExplainer.explain_task, 1

    def stopping(self: RowExplainer, task: object) -> object:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        return whole(self, task)  # type: ignore[arg-type]

    monkeypatch.setattr(RowExplainer, "explain_task", stopping)
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
    monkeypatch.setattr(RowExplainer, "explain_task", whole)
    assert "26 denied rows explained." in run(*command).out


def test_an_interrupt_before_a_batch_has_begun_says_to_start_again(
    run: Callable[..., Run], files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ironrule.explain.batch.run.run_batch", interrupted)
    result = run("batch", files.model, files.data, "--desired", "yes", "--output", str(tmp_path / "batch"))
    assert result.code == 130
    assert result.err == "error: interrupted before a row was finished; run the same command again\n"
    as_json = run("batch", files.model, files.data, "--desired", "yes", "--output", str(tmp_path / "batch"), "--json")
    told = json.loads(as_json.err)["error"]
    assert (told["code"], told["hint"]) == ("interrupted", "run the same command again")
    assert told["message"] == "interrupted before a row was finished; run the same command again"


def test_one_of_something_is_told_in_the_singular(run: Callable[..., Run], files: Files, tmp_path: Path) -> None:
    assert (format_count(0, "row"), format_count(1, "row"), format_count(2, "row")) == ("0 rows", "1 row", "2 rows")
    loans().iloc[[files.denied]].drop(columns="paid").to_csv(tmp_path / "one.csv", index=False)
    more = ["--rows", str(tmp_path / "one.csv"), "--output", str(tmp_path / "batch"), "--workers", "1"]
    told = run("batch", files.model, files.data, "--desired", "yes", *more).out
    assert "1 denied row explained." in told
    assert "1 rule is minimum." in told
    assert "1 proven rule covers the 1 row that has one, and fewer cannot:" in told
    assert "1 row  Everyone" in told
    (tmp_path / "single.csv").write_text("a,b\n1,2\n")
    assert "1 row, 2 features" in run("inspect", str(tmp_path / "single.csv")).out
