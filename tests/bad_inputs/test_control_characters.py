"""No control character of a data file, a space file, a model or a document reaches a terminal, a log or a page.

Names, values, labels, units and classes hold escape sequences, overrides of the direction of writing and line breaks.
Every output is looked at: texts, representations, reports, drawings, plots, the command line, errors.
"""

from __future__ import annotations

import json
import logging
import unicodedata
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import ironrule
from ironrule.cli import main
from ironrule.errors import CONTROL_CHARACTERS, InputError, escape_controls
from ironrule.progress import SearchStatus
from ironrule.report.audiences import render_batch_report, render_report
from ironrule.report.plots.matplotlib_plots import PLOT_KINDS, draw_explanation
from ironrule.report.templating import render_template
from ironrule.rule.rule import Rule
from ironrule.space.feature import Feature
from ironrule.space.space import Space

ATTACK = "\x1b[2J\x1b[1;1HCheck: proven.\x07\x7f\x85\x9b31m\u061c\u200e\u200f\u202e\u2066\u2069\u2028\u2029"
FEATURE, VALUE, LABEL, UNIT, PAID = (f"{kind}{ATTACK}" for kind in ("feature", "value", "label", "unit", "paid"))
BROKEN = f"broken\nFORGED\r{ATTACK}"  # a value with line breaks
ROW = {FEATURE: VALUE, "age": 3}


def find_controls(text: str, lines: bool = True) -> set[str]:
    """The control characters of a text; line breaks are no fault of one that has lines."""
    found = {letter for letter in text if unicodedata.category(letter) in ("Cc", "Zl", "Zp", "Cs")}
    found |= {letter for letter in text if letter in "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e"}
    found |= {letter for letter in text if "\u2066" <= letter <= "\u2069"}
    return found - ({"\n"} if lines else set())


def has_forged_line(text: str) -> bool:
    return any(line.strip().startswith("FORGED") for line in text.splitlines())


@pytest.fixture(scope="module")
def explainer() -> ironrule.Explainer:
    feature = Feature(FEATURE, (VALUE, BROKEN), ordered=False, label=LABEL, unit=UNIT)
    space = Space((feature, Feature("age", tuple(range(30)), ordered=True, label=LABEL, unit=UNIT)))
    rows = pd.DataFrame({FEATURE: [VALUE, BROKEN] * 15, "age": list(range(30))})
    return ironrule.Explainer(decide, rows, desired=PAID, space=space)


def decide(table: pd.DataFrame) -> list[str]:
    return [PAID if paid else BROKEN for paid in (table[FEATURE] == BROKEN) & (table["age"] > 5)]


@pytest.fixture(scope="module")
def explanation(explainer: ironrule.Explainer) -> ironrule.Explanation:
    return explainer.explain(ROW)


def explain_batch(explainer: ironrule.Explainer) -> Any:
    return explainer.explain_many([0], workers=1, progress=False)


Show = Callable[[ironrule.Explainer, ironrule.Explanation], object]
RESULTS: dict[str, Show] = {
    "explanation": lambda _, e: e,
    "rule": lambda _, e: e.rule,
    "component": lambda _, e: e.rule.components[0],
    "verdict": lambda _, e: e.verdict,
    "batch": lambda x, _: explain_batch(x),
    "judgement": lambda x, e: x.judge(ROW, e.rule),
    "refuted judgement": lambda x, e: x.judge(ROW, Rule(e.rule.components[:1], e.rule.outcome)),
    "counterfactuals": lambda x, _: x.counterfactuals(ROW),
    "region": lambda x, _: x.counterfactual_region(x.counterfactuals(ROW)[0], "all"),
    "menu": lambda x, _: x.change_menu(ROW),
    "groups": lambda x, _: x.group_changes(ROW, {BROKEN: [FEATURE], "age": ["age"]}),
    "forbidding restrictions": lambda x, _: x.find_forbidding_restrictions(ROW, features_to_vary=[]),
    "diverse counterfactuals": lambda x, _: x.diverse_counterfactuals(ROW, k=2),
    "past counterfactuals": lambda x, _: x.past_counterfactuals(ROW),
    "batch of counterfactuals": lambda x, _: x.counterfactuals_many([0], k=1, workers=1, progress=False),
    "diagnosis": lambda x, e: x.diagnose(e),
    "recheck": lambda x, e: x.recheck({BROKEN: e}),
    "rechecked": lambda x, e: x.recheck({BROKEN: e})[0],
    "explainer": lambda x, _: x,
    "space": lambda x, _: x.space,
    "listed rule": lambda x, _: next(x.rules(ROW)).rule,
    "change set": lambda x, _: next(x.change_sets(ROW)),
    "changes": lambda _, e: e.changes,
    "explanation read back": lambda _, e: ironrule.Explanation.from_json(e.to_json()),
    "check": lambda x, e: ironrule.check(e, decide, build_rows(), desired=PAID, space=x.space),
}


def build_rows() -> pd.DataFrame:
    return pd.DataFrame({FEATURE: [VALUE, BROKEN] * 15, "age": list(range(30))})


@pytest.mark.parametrize("form", [str, repr])
@pytest.mark.parametrize("name", RESULTS)
def test_no_text_of_a_result_has_control_characters(name, form, explainer, explanation):
    text = form(RESULTS[name](explainer, explanation))
    assert text
    assert find_controls(text) == set()
    assert not has_forged_line(text)


PAGES: dict[str, Callable[[ironrule.Explainer, ironrule.Explanation], str]] = {
    "person": lambda _, e: render_report(e),
    "validator": lambda _, e: render_report(e, "validator"),
    "letters": lambda _, e: render_batch_report([e, e], "person", [BROKEN, ""]),
    "account": lambda _, e: render_batch_report([e, e], "validator", [BROKEN, ""]),
    "notebook explanation": lambda _, e: e._repr_html_(),
    "notebook batch": lambda x, _: explain_batch(x)._repr_html_(),
    "notebook counterfactuals": lambda x, _: x.counterfactuals(ROW)._repr_html_(),
    "notebook judgement": lambda x, e: x.judge(ROW, e.rule)._repr_html_(),
    "notebook diagnosis": lambda x, e: x.diagnose(e)._repr_html_(),
    "notebook check": lambda x, e: RESULTS["check"](x, e)._repr_html_(),  # type: ignore[attr-defined]
}


@pytest.mark.parametrize("name", PAGES)
def test_no_page_has_control_characters(name, explainer, explanation):
    page = PAGES[name](explainer, explanation)
    assert "\\x1b[2J" in page  # it is shown, as an escape
    assert find_controls(page) == set()


@pytest.mark.parametrize("kind", PLOT_KINDS)
def test_no_drawing_has_control_characters(kind, explanation):
    drawing = draw_explanation(explanation, kind)
    assert [find_controls(text, lines=False) for text in drawing.texts if find_controls(text, lines=False)] == []
    assert find_controls(render_template("drawing.svg", drawing=drawing)) == set()


def test_no_plot_has_control_characters(explanation):
    pytest.importorskip("matplotlib").use("Agg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fonts
        axes = explanation.plot()
    assert [text for text in axes.texts if find_controls(text.get_text(), lines=False)] == []


def test_no_line_of_progress_has_control_characters():
    assert find_controls(SearchStatus(lambda: BROKEN, lambda: 1.0, None, False).format(), lines=False) == set()


def test_no_error_has_control_characters_or_is_long():
    error = InputError(expected=BROKEN, got=BROKEN * 10_000, hint=BROKEN)
    assert find_controls(str(error), lines=False) == set()
    assert len(str(error)) < 1000
    assert len(str(error.got)) < 500
    with pytest.raises(ironrule.SpaceError) as caught:
        Space((Feature("age", (1, 2), ordered=True),)).index(BROKEN)
    assert find_controls(str(caught.value), lines=False) == set()


def test_no_error_about_a_constraint_has_control_characters():
    with pytest.raises(ironrule.ConstraintError) as caught:
        Space((Feature("age", (1, 2), ordered=True),), constraints=(f'cf["{ATTACK}"] > 3',))
    assert find_controls(str(caught.value)) == set()
    *_, line, caret = str(caught.value).splitlines()
    assert line[caret.index("^") :].startswith("cf[")  # the caret points at the place still


@pytest.mark.parametrize("letter", [chr(code) for code in (0, 7, 9, 10, 13, 27, 127, 133, 155, 0x61C, 0x202E, 0xD800)])
def test_every_control_character_is_escaped_unless_it_is_kept(letter):
    assert escape_controls(f"a{letter}b") == f"a{ascii(letter)[1:-1]}b"
    assert escape_controls(f"a{letter}b", keep=letter) == f"a{letter}b"


@pytest.mark.parametrize("text", ["", "Müller", "日本", "👩‍👩‍👧", "a b", "ﷺ", "नमस्ते", "a\u00a0b"])
def test_what_people_write_stays_as_it_is(text):
    assert escape_controls(text) == text
    assert CONTROL_CHARACTERS.search(text) is None


# -- the command line -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table and a tree whose names, values and classes are an attack; and an explanation of it."""
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OrdinalEncoder
    from sklearn.tree import DecisionTreeClassifier
    from skops import io

    folder = tmp_path_factory.mktemp("hostile")
    rows = build_rows()
    encoder = make_column_transformer((OrdinalEncoder(), [FEATURE]), remainder="passthrough")
    model = make_pipeline(encoder, DecisionTreeClassifier(max_depth=3, random_state=0))
    model.fit(rows, [label[:4] + ATTACK for label in decide(rows)])
    io.dump(model, folder / "model.skops")
    rows.to_parquet(folder / "rows.parquet")
    assert main([*build_command(folder, "explain"), "--row", "0", "--output", str(folder / "why.json")]) == 0
    document = json.loads((folder / "why.json").read_text(encoding="utf-8"))
    document["rules"][0]["rule"]["outcome"] = f"denied{BROKEN}"
    (folder / "refuted.json").write_text(json.dumps(document), encoding="utf-8")
    return folder


def build_command(folder: Path, name: str) -> list[str]:
    files = [str(folder / "model.skops"), str(folder / "rows.parquet")]
    return [name, *files, "--trust", "sklearn.tree._tree.Tree", "--desired", f"paid{ATTACK}"]


COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "explain": lambda f: [*build_command(f, "explain"), "--row", "0", "--diagnose"],
    "explain as JSON": lambda f: [*build_command(f, "explain"), "--row", "0", "--json"],
    "judge": lambda f: [*build_command(f, "judge"), "--row", "0", "--rule", "age <= 5"],
    "judge a wrong rule": lambda f: [*build_command(f, "judge"), "--row", "0", "--rule", BROKEN],
    "counterfactual": lambda f: [*build_command(f, "counterfactual"), "--row", "0"],
    "inspect": lambda f: ["inspect", str(f / "rows.parquet")],
    "inspect as JSON": lambda f: ["inspect", str(f / "rows.parquet"), "--json"],
    "batch": lambda f: [*build_command(f, "batch"), "--workers", "1", "--output", str(f / "batch")],
    "check": lambda f: build_check(f, "why.json"),
    "check a refuted one": lambda f: build_check(f, "refuted.json"),
    "check a refuted one as JSON": lambda f: [*build_check(f, "refuted.json"), "--json"],
    "report": lambda f: ["report", str(f / "why.json"), "--output", str(f / "why.html"), "--overwrite"],
    "recheck": lambda f: [
        *("recheck", str(f / "why.json"), "--model", str(f / "model.skops"), "--data", str(f / "rows.parquet")),
        *build_command(f, "")[3:],
    ],
    "an unknown file": lambda f: ["inspect", str(f / f"{BROKEN}.csv")],
    "an unknown column": lambda f: ["inspect", str(f / "rows.parquet"), "--target", BROKEN],
    "an unknown class": lambda f: [*build_command(f, "explain")[:-1], BROKEN, "--row", "0"],
    "an unknown command": lambda _: [BROKEN],
    "an unknown option": lambda _: ["inspect", f"--{BROKEN}"],
    "a row that is no JSON": lambda f: [*build_command(f, "explain"), "--row", BROKEN],
    "a row that is no JSON, as JSON": lambda f: [*build_command(f, "explain"), "--row", BROKEN, "--json"],
    "a constraint": lambda f: [*build_command(f, "explain"), "--row", "0", "--constraint", f"cf.{ATTACK} > 1"],
}


def build_check(folder: Path, document: str) -> list[str]:
    files = ["--model", str(folder / "model.skops"), "--data", str(folder / "rows.parquet")]
    return ["check", str(folder / document), *files, *build_command(folder, "")[3:]]


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_prints_control_characters(name, hostile_files, capsys):
    capsys.readouterr()
    code = main(COMMANDS[name](hostile_files))
    out, err = capsys.readouterr()
    assert out or err
    assert code in (0, 1, 2, 3)
    assert "unexpected" not in err
    assert (find_controls(out), find_controls(err)) == (set(), set())
    assert not has_forged_line(out)
    assert not has_forged_line(err)


def test_a_refuted_document_cannot_show_that_it_is_proven(hostile_files, capsys):
    assert main(COMMANDS["check a refuted one"](hostile_files)) == 1
    out = capsys.readouterr().out
    assert "refuted" in out.splitlines()[0]
    assert "\\x1b[2J" in out


def test_json_is_the_same_data_with_escapes(hostile_files, capsys):
    main(COMMANDS["inspect as JSON"](hostile_files))
    assert FEATURE in json.loads(capsys.readouterr().out)["features"]
    assert FEATURE in json.loads((hostile_files / "why.json").read_text(encoding="utf-8"))["instance"]
    assert find_controls((hostile_files / "why.json").read_text(encoding="utf-8")) == set()


def test_a_terminal_shows_our_styles_and_no_others(monkeypatch):
    from ironrule.cli import terminal

    monkeypatch.setattr(terminal, "_shows_styles", lambda: True)
    styled = terminal.format_line("proven", "bold green")
    assert terminal.escape_output(f"{styled}\n") == f"{styled}\n" == "\x1b[1;32mproven\x1b[0m\n"
    assert terminal.escape_output("\x1b[8mhidden\x1b[2J") == "\\x1b[8mhidden\\x1b[2J"
    monkeypatch.setattr(terminal, "_shows_styles", lambda: False)
    assert terminal.escape_output(styled) == "\\x1b[1;32mproven\\x1b[0m"


def test_what_is_logged_has_no_control_characters(caplog, explainer):
    with caplog.at_level(logging.DEBUG):
        explainer.explain(ROW)
    assert [record for record in caplog.records if find_controls(record.getMessage())] == []
