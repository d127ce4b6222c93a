"""Two batches compared: what is said of old rules is true, and figures are those of the batches."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier

import ironrule
from ironrule import Batch, Component, Explainer, InputError, Rule
from ironrule.results.comparison import _implies, _satisfies

mpl.use("Agg")
FEATURES = ["income", "debt", "age"]


def build_table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.integers(0, 9, size=(160, 3)), columns=FEATURES)


def build_explainer(weights: tuple[float, float, float], rows: slice = slice(None)) -> Explainer:
    table = build_table()
    labels = np.where(table[FEATURES].to_numpy() @ np.array(weights) > np.array(weights).sum() * 4, "good", "bad")
    model = GradientBoostingClassifier(n_estimators=8, max_depth=2, random_state=0).fit(table, labels)
    return Explainer(model, table.iloc[rows], desired="good")


@pytest.fixture(scope="module")
def explainers() -> tuple[Explainer, Explainer]:
    return build_explainer((1.0, -1.0, 0.2)), build_explainer((1.0, -0.6, 0.6))


@pytest.fixture(scope="module")
def batches(explainers: tuple[Explainer, Explainer], tmp_path_factory: pytest.TempPathFactory) -> tuple[Batch, Batch]:
    folder = tmp_path_factory.mktemp("batches")
    old, new = explainers
    options = {"workers": 1, "progress": False, "ladders": True}
    return old.explain_many(output=folder / "old", **options), new.explain_many(output=folder / "new", **options)


def test_what_is_said_of_old_rules_is_what_the_new_model_says(explainers, batches) -> None:
    compared = batches[0].compare(batches[1])
    recheck = explainers[1].recheck(batches[0])
    asked = {one.rule: one.status for one in batches[0].compare(batches[1], recheck=recheck).rules}
    known = {one.rule: one.status for one in compared.rules if one.status != "open"}
    assert {"holds", "breaks"} <= set(known.values())  # of each kind some, so that this test says something
    assert all(asked[rule] == status for rule, status in known.items())
    assert "open" not in asked.values()
    table, predict = build_table(), explainers[1]._context.arguments.models[0].predict
    good = predict(table) == "good"
    by_text = {str(one.shown.rule): one.shown.rule for one in batches[0]}
    for rule, status in asked.items():
        assert not (status == "holds" and good[by_text[rule].covers(table)].any())


def test_figures_are_those_of_the_batches(batches) -> None:
    old, new = batches
    compared = old.compare(new)
    assert (compared.old.explained, compared.new.explained) == (len(old), len(new))
    assert compared.old.explained + compared.old.desired == 160
    assert sum(compared.new.lengths.values()) == len(new)
    income = next(one for one in compared.features if one.name == "income")
    assert income.old_count == sum("income" in one.rule.features for one in old)
    assert income.new_share == sum("income" in one.rule.features for one in new) / len(new)
    assert [abs(one.difference) for one in compared.features] == sorted(
        (abs(one.difference) for one in compared.features), reverse=True
    )
    matched = compared.matched
    assert matched.both == matched.same_rule + matched.shorter + matched.longer + matched.other_rule
    assert (matched.both + matched.only_old, matched.both + matched.only_new) == (len(old), len(new))
    named = {
        f"{reason.component.feature} ({reason.direction})" for ladder in old.ladders() for reason in ladder.reasons()
    }
    assert named == {one.name for one in compared.reasons if one.old_count}


def test_a_batch_compared_with_itself_has_not_changed(batches) -> None:
    same = batches[0].compare(batches[0])
    assert same.same_model
    assert (same.matched.same_rule, same.matched.only_old, same.matched.only_new) == (len(batches[0]), 0, 0)
    assert {one.difference for one in same.features} == {0.0}
    assert set(same.rule_counts) == {"holds", "breaks", "open"}
    assert same.rule_counts == {"holds": len(same.rules), "breaks": 0, "open": 0}


def test_a_comparison_is_shown_in_every_form(batches, tmp_path: Path) -> None:
    compared = batches[0].compare(batches[1])
    text, page = str(compared), compared.to_html(tmp_path / "drift.html")
    assert f"Explained: {len(batches[0])} rows before, {len(batches[1])} now." in text
    assert (tmp_path / "drift.html").read_text(encoding="utf-8") == page
    assert "Proven rules from before" in page
    assert "default-src 'none'" in page
    assert json.loads(compared.to_json()) == json.loads(json.dumps(compared.to_dict()))
    frame = compared.to_frame()
    assert list(frame.columns) == ["kind", "name", "old", "new", "difference"]
    assert set(frame[frame.kind == "feature"].name) == {one.name for one in compared.features}
    texts = [shown.get_text() for shown in compared.plot().texts]
    assert "Which features rules name, before and now" in texts
    assert "<p>" in compared._repr_html_()
    assert "BatchComparison" in repr(compared)


def test_features_and_reasons_have_their_labels(explainers) -> None:
    labels = {"income": "Monthly income", "debt": {"label": "Debt", "unit": "EUR"}}
    old, new = (
        Explainer(one._context.arguments.models[0], build_table(), desired="good", labels=labels) for one in explainers
    )
    rows = old.row_numbers[~old.outcomes & ~new.outcomes][:12]
    options = {"workers": 1, "progress": False, "ladders": True}
    compared = old.explain_many(rows, **options).compare(new.explain_many(rows, **options))
    assert {one.name: one.label for one in compared.features} == {
        "income": "Monthly income",
        "debt": "Debt",
        "age": None,
    }
    assert {one.label for one in compared.reasons} == {"Monthly income (low)", "Debt (high)", None}
    text, page = str(compared), compared.to_html()
    assert "Monthly income" in text
    assert "income" not in text.replace("Monthly income", "")
    assert "income" not in page.replace("Monthly income", "")
    assert any("EUR" in rule.shown_by for rule in compared.rules if rule.shown_by and "Debt" in rule.shown_by)
    frame = compared.to_frame()
    assert "income" in set(frame[frame.kind == "feature"].name)  # for programs


def test_what_cannot_be_compared_is_refused(explainers, batches) -> None:
    denied = explainers[0].row_numbers[~explainers[0].outcomes]
    without = explainers[0].explain_many(denied[:2], workers=1, progress=False, documents=False)
    with pytest.raises(InputError, match="documents"):
        without.compare(batches[1])
    approved = explainers[0].row_numbers[explainers[0].outcomes][:1]
    with pytest.raises(InputError, match="an empty batch"):
        batches[0].compare(explainers[0].explain_many(approved, workers=1, progress=False))
    with pytest.raises(InputError, match=r"what Explainer\.recheck returns"):
        batches[0].compare(batches[1], recheck=[])  # type: ignore[arg-type]


COMPONENTS = [
    *(Component("a", op, value) for op in ("<=", ">=", "==") for value in (1, 2, 2.5)),
    *(Component("a", "==", value) for value in ("x", None)),
    Component("a", "<=", "x", allowed=("w", "x")),
    Component("a", "<=", "y", allowed=("w", "x", "y")),
    Component("a", "==", "w"),
    Component("b", "<=", 1),
]


def test_what_is_implied_covers_every_value() -> None:
    values, implied = [None, 0, 1, 1.5, 2, 2.5, 3, "w", "x", "y", "z"], 0
    for own, wanted in product(COMPONENTS, COMPONENTS):
        if _implies(own, wanted):
            implied += own != wanted
            assert all(_satisfies(wanted, value) for value in values if _satisfies(own, value)), (own, wanted)
    assert implied > 15
    assert all(_implies(own, own) for own in COMPONENTS)


def test_a_value_satisfies_a_component_as_in_a_table() -> None:
    for value, column in ((2, [0, 2, 9]), (2.5, [0.0, 2.5, 9.0])):
        for op in ("<=", ">=", "=="):
            component = Component("a", op, value)
            own = [_satisfies(component, one) for one in column]
            assert own == Rule((component,), "x").covers(pd.DataFrame({"a": column})).tolist()
    assert ironrule.Component("a", "==", None).covers(pd.DataFrame({"a": [None, 1.0]})).tolist() == [True, False]
