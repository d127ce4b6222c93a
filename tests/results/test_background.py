"""The background of an explanation, against what looking at every row and every point tells."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

import ironrule
from ironrule.explain.model_facts import list_library_versions
from ironrule.results.background import HistoryRows, build_background
from ironrule.rule.condition import find_code_range
from ironrule.rule.rule import Component, Rule
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from tiny_cases import codes_of, every_point

SPACE = Space(
    (
        Feature("age", (20, 30, 40, 50), ordered=True, missing=True, label="Age", unit="years"),
        Feature("job", ("clerk", "cook"), ordered=False),
        Feature("grade", ("low", "mid", "high"), ordered=True),
    )
)
COMPONENTS = [
    [Component("age", "<=", 30), Component("age", ">=", 30), Component("job", "==", "cook")],
    [Component("age", "==", None), Component("grade", ">=", "mid")],
    [Component("grade", "<=", "low"), Component("age", ">=", 40)],
    [],
]
INSTANCE = {"age": 30, "job": "cook", "grade": "mid"}


def admits(component: Component, value: object) -> bool:
    """A component on a value, by its meaning."""
    order = {"grade": ["low", "mid", "high"], "age": [20, 30, 40, 50]}.get(component.feature, [])
    if component.op == "==" or value is None or component.value is None:
        return value == component.value and component.op == "=="
    here, bound = order.index(value), order.index(component.value)
    return here <= bound if component.op == "<=" else here >= bound


def rows_of(points: np.ndarray) -> list[dict[str, object]]:
    return [SPACE.decode_row(point) for point in points]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**16), st.sampled_from(COMPONENTS), st.booleans())
def test_counts_growth_and_needs_are_those_of_every_row(seed, components, asked):
    rng = np.random.default_rng(seed)
    points = every_point(SPACE)
    history = points[rng.integers(len(points), size=12)]
    table = rng.random(tuple(SPACE.sizes)) < 0.4
    desired = table[tuple(history.T)] if asked else None
    known = points[table[tuple(points.T)]][:6]
    rule = Rule(tuple(components), "denied")
    found = build_background(HistoryRows(SPACE, codes_of(SPACE, history), desired), rule, INSTANCE, known, False)

    for one in found.distributions:
        column = [row[one.feature.name] for row in rows_of(history)]
        assert list(one.counts) == [column.count(one.feature.value(code)) for code in range(one.feature.size)]
    assert [one.feature.name for one in found.distributions] == list(rule.features)

    grown: list[Component] = []
    assert {step.component for step in found.growth[1:]} == set(components)
    for step in found.growth:
        grown += [] if step.component is None else [step.component]
        inside = [all(admits(c, row[c.feature]) for c in grown) for row in rows_of(history)]
        assert step.covered == sum(inside)
        assert step.desired == (int((np.array(inside) & desired).sum()) if asked else None)

    candidates = rows_of(known) + (rows_of(history[desired]) if asked else [])
    for need, component in zip(found.needs, components, strict=True):
        assert need.component == component
        others = [c for c in components if c != component]
        alone = [
            sum(row[name] != INSTANCE[name] for name in INSTANCE)
            for row in candidates
            if not admits(component, row[component.feature]) and all(admits(c, row[c.feature]) for c in others)
        ]
        assert (need.counterfactual is None) == (not alone)
        if need.counterfactual is not None:
            values = dict(need.counterfactual.values)
            assert len(need.counterfactual.changes) == min(alone)
            assert values in (rows_of(history[desired]) if need.is_past_row else rows_of(known))


def test_a_code_range_is_the_codes_that_a_component_admits():
    for components in COMPONENTS:
        for component in components:
            feature = SPACE[component.feature]
            low, high = find_code_range(feature, component.op, component.value)
            wanted = [code for code in range(feature.size) if admits(component, feature.value(code))]
            assert list(range(low, high + 1)) == wanted


def past_rows() -> pd.DataFrame:
    return pd.DataFrame({"income": [300, 500, 500, 700, 900], "accounts": [4, 5, 2, 4, 1]})


@pytest.fixture(scope="module")
def explainer() -> ironrule.Explainer:
    return ironrule.Explainer(lambda table: (table["income"] >= 700) & (table["accounts"] <= 4), past_rows())


def test_an_explanation_has_its_background_and_it_is_neither_compared_nor_written(explainer):
    explanation = explainer.explain({"income": 500, "accounts": 4})
    background = explanation.background
    assert background is not None
    assert background.growth[0].covered == 5
    assert background.growth[-1].covered == explanation.coverage
    assert background.growth[-1].desired == 0
    assert all(need.counterfactual is not None for need in background.needs)
    assert dict(background.libraries)["ironrule"] == ironrule.__version__
    assert replace(explanation, lazy_background=None) == explanation
    assert "lazy_background" not in explanation.to_dict()
    assert "Background" not in repr(explanation)


def test_a_copy_in_another_process_keeps_the_background_if_it_was_read_before(explainer):
    explanation = explainer.explain({"income": 500, "accounts": 4})
    assert pickle.loads(pickle.dumps(explanation)).background is None  # it was not read yet
    background = explanation.background
    assert background is not None
    copy = pickle.loads(pickle.dumps(explanation))
    assert copy.background == background
    assert pickle.loads(pickle.dumps(copy)).background == background


def test_an_explainer_attaches_its_history_to_an_explanation(explainer):
    explanation = explainer.explain({"income": 500, "accounts": 4})
    again = ironrule.Explanation.from_json(explanation.to_json()).with_history(explainer).background
    assert again is not None
    assert explanation.background is not None
    assert again.growth == explanation.background.growth
    assert again.distributions == explanation.background.distributions
    other = ironrule.Explainer(lambda table: table["income"] >= 500, past_rows())
    with pytest.raises(ironrule.InputError, match="about another model"):
        explanation.with_history(other)


def test_attach_gives_what_with_history_gives(explainer):
    explanation = explainer.explain({"income": 500, "accounts": 4})
    read = ironrule.Explanation.from_json(explanation.to_json())
    again = explainer.attach(read)
    assert again == read
    assert again.background == read.with_history(explainer).background
    assert again.background is not None
    assert [step.desired for step in again.background.growth][-1] == 0
    assert read.background is None
    other = ironrule.Explainer(lambda table: table["income"] >= 500, past_rows())
    with pytest.raises(ironrule.InputError, match="about another model"):
        other.attach(read)


@pytest.mark.parametrize("robust", [{"models": [lambda table: table["accounts"] / 10]}, {"margin": 0.1}, {}])
def test_what_is_attached_knows_whether_rules_hold_for_several_models_or_within_a_margin(robust):
    explainer = ironrule.Explainer(lambda table: table["income"] / 1000, past_rows(), threshold=0.7, **robust)
    explanation = explainer.explain({"income": 500, "accounts": 4})
    again = explainer.attach(ironrule.Explanation.from_json(explanation.to_json())).background
    assert again is not None
    assert explanation.background is not None
    assert again.is_robust == explanation.background.is_robust == bool(robust)


def test_a_table_with_columns_named_like_an_explainer_is_a_table():
    past = past_rows().assign(**dict.fromkeys(["space", "codes", "outcomes", "fingerprint"], range(5)))
    explanation = ironrule.Explainer(lambda table: table["income"] >= 700, past).explain(0)
    again = ironrule.Explanation.from_json(explanation.to_json()).with_history(past).background
    assert again is not None
    assert {step.desired for step in again.growth} == {None}


def test_an_explanation_read_back_has_none_until_the_data_is_attached(explainer):
    explanation = explainer.explain({"income": 500, "accounts": 4})
    read = ironrule.Explanation.from_json(explanation.to_json())
    assert read.background is None
    past = pd.DataFrame({"accounts": [4, 5, 2, 4, 1], "other": list("abcde"), "income": [300, 500, 500, 700, 900]})
    again = read.with_history(past[["income", "accounts", "other"]]).background
    assert again is not None
    assert explanation.background is not None
    assert again.distributions == explanation.background.distributions
    assert again.growth[-1].covered == explanation.coverage
    assert {step.desired for step in again.growth} == {None}
    assert again.libraries == ()


def test_other_data_is_refused(explainer):
    read = ironrule.Explanation.from_json(explainer.explain({"income": 500, "accounts": 4}).to_json())
    past = pd.DataFrame({"income": [300, 500, 500, 700, 900], "accounts": [4, 5, 2, 4, 1]})
    with pytest.raises(ironrule.InputError, match="made with another space"):
        read.with_history(past.assign(income=[300, 500, 500, 700, 901]))
    with pytest.raises(ironrule.InputError, match=r"must have 5 past rows, .*, got 6"):
        read.with_history(pd.concat([past, past.head(1)]))


def test_constraints_leave_out_the_rows_that_break_them():
    past = pd.DataFrame({"income": [300, 500, 500, 700, 900], "accounts": [4, 5, 2, 4, 1]})
    with pytest.warns(UserWarning, match="1 of 5 past rows break"):
        explainer = ironrule.Explainer(lambda t: t["income"] >= 700, past, constraints=["cf.accounts <= 4"])
    explanation = explainer.explain({"income": 500, "accounts": 4})
    read = ironrule.Explanation.from_json(explanation.to_json()).with_history(past, explainer.space)
    assert read.background is not None
    assert read.background.growth[0].covered == 4
    assert read.background.constraints == ("cf.accounts <= 4",)


def test_labels_and_units_are_for_readers_and_leave_the_scope_as_it_is():
    plain = Space(tuple(replace(feature, label=None, unit=None) for feature in SPACE.features))
    assert plain.fingerprint == SPACE.fingerprint
    assert plain.to_dict() != SPACE.to_dict()
    renamed = Space((replace(SPACE.features[0], name="years"), *SPACE.features[1:]))
    assert renamed.fingerprint != SPACE.fingerprint
    labelled_value = Space((Feature("label", ("unit", "label"), ordered=False),))
    assert json.dumps(labelled_value.to_dict())
    assert labelled_value.fingerprint != Space((Feature("label", ("label", "unit"), ordered=False),)).fingerprint


def test_a_space_takes_labels_and_units_later():
    plain = Space(tuple(replace(feature, label=None, unit=None) for feature in SPACE.features))
    told = plain.with_labels({"age": "Age"}, {"age": "years"})
    assert told == SPACE
    assert plain.with_labels({}) == plain
    assert SPACE.with_labels({"job": "Job"})["age"].label == "Age"
    with pytest.raises(ironrule.SpaceError, match="unknown feature 'agee' in the labels; did you mean 'age'"):
        plain.with_labels({"agee": "Age"})


@pytest.mark.parametrize("key", ["label", "unit"])
def test_a_label_that_is_no_text_is_refused(key):
    with pytest.raises(ironrule.SpaceError, match=f"'{key}' of feature 'age' must be a string, got 5"):
        Space.from_dict({"features": {"age": {"values": [1, 2], key: 5}}})


def test_the_libraries_at_work_are_told_with_their_versions():
    names = [name for name, _ in list_library_versions()]
    assert names[:5] == ["ironrule", "Python", "numpy", "numba", "scikit-learn"]
    assert all(text for _, text in list_library_versions())
