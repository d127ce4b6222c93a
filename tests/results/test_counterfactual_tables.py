"""Counterfactuals as tables and as documents that are read back."""

import datetime
import json
import sys
from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import given, strategies as st

from applications import DENIED, decide, past
from ironrule import Counterfactuals, Explainer
from ironrule.cli.render import render_counterfactuals
from ironrule.errors import InputError, MissingExtraError
from ironrule.report.plots.changes import build_changes_plot
from ironrule.results.explanation import Statistics
from ironrule.rule.counterfactual import Counterfactual
from ironrule.server.views.counterfactuals import _describe_proof
from ironrule.verdict.digest import add_digest

ROW = {"income": 3, "since": datetime.date(2024, 1, 1), "job": "cook", "rate": None}
STATISTICS = Statistics(
    algorithm="Nearest",
    seed=0,
    seconds=0.5,
    generations=0,
    candidates=0,
    oracle_calls=1,
    model_calls=2,
    evaluations=3,
    operator_seconds={"x": 0.25},
    stopped=None,
)
ITEMS = (
    Counterfactual.from_values(ROW, ROW | {"income": 4}),
    replace(Counterfactual.from_values(ROW, ROW | {"job": None, "rate": 0.2}), exact={"rate": 0.1987}),
)
FOUND = Counterfactuals(ROW, ITEMS, STATISTICS, proven=True, resolution=0.001)


def test_a_table_has_one_row_per_counterfactual():
    table = FOUND.to_frame()
    assert list(table.columns) == list(ROW)
    assert list(table.index) == [1, 2]
    assert table.index.name == "counterfactual"
    assert list(table["income"]) == [4, 3]
    assert table.loc[2, "rate"] == 0.2
    assert list(table["since"]) == [datetime.date(2024, 1, 1)] * 2


def test_a_table_of_changes_has_dashes_elsewhere():
    table = FOUND.to_frame(only_changes=True)
    assert table.to_dict("list") == {
        "income": [4, "-"],
        "since": ["-", "-"],
        "job": ["-", None],
        "rate": ["-", 0.2],
    }


def test_no_counterfactuals_are_an_empty_table():
    table = replace(FOUND, items=()).to_frame()
    assert table.shape == (0, 4)
    assert list(table.columns) == list(ROW)


def test_without_pandas_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'ironrule\[pandas\]'"):
        FOUND.to_frame()


def test_json_is_read_back():
    text = FOUND.to_json(indent=1)
    again = Counterfactuals.from_json(text)
    assert again == FOUND
    assert again.to_json(indent=1) == text


def test_what_an_explainer_finds_is_read_back_and_fits_its_table():
    found = Explainer(decide, past(), desired="good").counterfactuals(DENIED, k=3)
    again = Counterfactuals.from_json(found.to_json())
    assert again == found
    table = again.to_frame()
    assert len(table) == len(found) > 1
    for (_, cells), item in zip(table.iterrows(), found, strict=True):
        assert decide(pd.DataFrame([dict(item.values)]))[0] == "good"
        assert dict(cells) == dict(item.values)


@pytest.mark.parametrize(
    ("alter", "words"),
    [
        (lambda d: d | {"counterfactuals_format": 7}, "must have format 2, got 7"),
        (lambda d: {k: v for k, v in d.items() if k != "counterfactuals_format"}, "must have format 2, got None"),
        (lambda d: d | {"proven": False}, "digest mismatch"),
        (lambda d: add_digest(d | {"proven": "yes"}), "must be true or false"),
        (lambda d: add_digest(d | {"instance": {"income": 3}}), "must have the features of their row"),
        (lambda d: add_digest({k: v for k, v in d.items() if k != "statistics"}), "malformed"),
        (lambda d: add_digest(d | {"statistics": {"wrong": 1}}), "malformed"),
        (lambda d: add_digest(d | {"counterfactuals": [{"values": d["instance"]}]}), "malformed"),
    ],
)
def test_another_document_is_refused(alter, words):
    with pytest.raises(InputError, match=words):
        Counterfactuals.from_dict(alter(FOUND.to_dict()))


@pytest.mark.parametrize("text", ["", "[1, 2", "[]", "3", "null", None, '"x"'])
def test_what_is_no_document_is_refused(text):
    with pytest.raises(InputError, match="counterfactuals"):
        Counterfactuals.from_json(text)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=3), st.lists, max_leaves=4))
def test_any_field_may_be_anything(value):
    plain = FOUND.to_dict()
    for name in plain:
        document = add_digest(plain | {name: value})
        if json.loads(json.dumps(document)) == plain:
            continue
        try:
            read = Counterfactuals.from_dict(document)
        except InputError:
            continue
        str(read), read.to_frame(), read._repr_html_()


def test_in_a_notebook_it_is_said_what_is_proven():
    assert "Proven: each is the nearest" in FOUND._repr_html_()
    assert "nearer ones may exist" in replace(FOUND, proven=False)._repr_html_()


def test_where_a_search_ended_early_it_is_said_of_how_many_something_is_proven():
    part = replace(FOUND, proven=False, partly_proven=1)
    assert [one.proven_count for one in (part, replace(part, proven=True), replace(FOUND, proven=False))] == [1, 2, 0]
    assert "Proven to be the nearest: the first, to within 0.1% of the range" in part._repr_html_()
    assert "Proven of the first: each is the nearest" in render_counterfactuals(part)
    assert build_changes_plot(part).note == "Proven to be the nearest: the first."
    said = _describe_proof(part.to_dict(), part.cost)
    assert said[0] == "Proven to be the nearest: the first. Nearer ones than the others may exist."
    assert repr(part).startswith("<Counterfactuals: 2 counterfactuals, the first proven to be the nearest")
