"""Documents of explanations that were altered, with a digest that fits: shown or refused, never a Python error."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from bad_input_checks import BadInput, assert_refused, build_data, build_explainer, refuse
from sklearn.tree import DecisionTreeClassifier

import ironrule
from ironrule.cli import main
from ironrule.errors import InputError, IronruleError
from ironrule.report.audiences import render_report
from ironrule.verdict.digest import DIGEST_FIELD, compute_digest

VALUES = (None, "x", -1, 1.5, [], {}, True, 10**20)
REMOVED = object()


def build_documents() -> dict[str, dict[str, Any]]:
    asked = build_explainer(roles={"job": "protected"})
    data = build_data()[["age", "income"]]
    tree = DecisionTreeClassifier(max_depth=3, random_state=0).fit(data, (data.income >= 300) & (data.age > 25))
    read = ironrule.Explainer(tree, data, desired=True, roles={"age": "immutable"})
    explanations = {
        "asked": asked.explain(0, prefer="coverage", require=["job"], weights={"age": 2}),
        "read": read.explain(1),
    }
    return {name: json.loads(explanation.to_json()) for name, explanation in explanations.items()}


DOCUMENTS = build_documents()


def list_places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a document; of lists the first entry."""
    if place:
        yield place
    if isinstance(value, dict):
        for key in value:
            yield from list_places(value[key], (*place, key))
    elif isinstance(value, list) and value:
        yield from list_places(value[0], (*place, 0))


def alter(document: dict[str, Any], place: tuple[Any, ...], value: Any) -> str:
    """The document with another value at a place, and a digest that fits."""
    altered = copy.deepcopy(document)
    inside: Any = altered
    for key in place[:-1]:
        inside = inside[key]
    if value is REMOVED:
        del inside[place[-1]]
    else:
        inside[place[-1]] = value
    altered[DIGEST_FIELD] = compute_digest(altered)
    return json.dumps(altered)


def show_everything(text: str) -> None:
    explanation = ironrule.Explanation.from_json(text)
    assert str(explanation)
    assert repr(explanation)
    assert render_report(explanation)
    assert render_report(explanation, "validator")


def find_error(text: str) -> IronruleError | None:
    try:
        show_everything(text)
    except IronruleError as error:
        return error
    return None


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("value", [*VALUES, REMOVED], ids=[*map(repr, VALUES), "removed"])
def test_an_altered_document_is_shown_or_refused(name, value):
    shown = refused = 0
    for place in list_places(DOCUMENTS[name]):
        if place == (DIGEST_FIELD,):
            continue
        error = find_error(alter(DOCUMENTS[name], place, value))
        shown += error is None
        refused += error is not None
        assert error is None or (isinstance(error, InputError) and 10 < len(str(error)) < 2500)
    assert refused > 20
    assert shown > 0


def change_first_rule(key: str, value: Any) -> str:
    return alter(DOCUMENTS["read"], ("rules", 0, key), value)


MALFORMED: dict[str, BadInput] = {
    name: refuse(lambda text=text: ironrule.Explanation.from_json(text), InputError, *words)
    for name, text, *words in [
        ("no JSON", "{", "not valid JSON"),
        ("empty", "", "not valid JSON"),
        ("None", None, "not valid JSON"),
        ("a number", "3", "must be a JSON object", "int"),
        ("a list", "[]", "must be a JSON object", "list"),
        ("deep", "[" * 100_000, "not valid JSON"),
        ("an integer of 5000 digits", '{"format": ' + "9" * 5000 + "}", "not valid JSON"),
        ("no format", "{}", "must have format 5"),
        ("another format", '{"format": 99}', "must have format 5", "newer version"),
        ("a format that is a text", '{"format": "5"}', "must have format 5"),
        ("no rules", '{"format": 5}', "at least one rule"),
        ("no digest", '{"format": 5, "rules": [{}]}', "digest"),
        ("altered", json.dumps(DOCUMENTS["read"] | {"history_rows": 3}), "modified after it was written"),
        ("a row without the rule's feature", alter(DOCUMENTS["read"], ("instance",), {}), "features that its row has"),
        (
            "a mark of no component",
            alter(DOCUMENTS["read"], ("marks",), [{"component": 9, "reason": "protected", "declared": True}]),
            "mark",
        ),
        ("coverage as a text", change_first_rule("coverage", "all"), "coverage", "an integer", "'all'"),
        ("an unknown verdict", change_first_rule("verdict", {"kind": "certain"}), "proven, refuted or unrefuted"),
        ("a long text", change_first_rule("coverage", "x" * 1_000_000), "coverage", "more characters"),
    ]
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_explanation_is_refused(name):
    assert_refused(MALFORMED[name])


def test_a_report_of_a_hostile_document_is_one_line_and_exit_code_2(tmp_path, capsys):
    file, report = tmp_path / "why.json", tmp_path / "why.html"
    file.write_text(alter(DOCUMENTS["read"], ("instance",), {}))
    assert main(["report", str(file), "--output", str(report)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: cannot read why.json as an explanation: rules and changes of an explanation must")
    assert err.count("\n") == 1
    assert not report.exists()
