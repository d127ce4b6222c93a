"""Any Python object as any argument: there is a result, or an error of ours; never an exception of Python's own."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from bad_input_checks import HUGE, BrokenRepr, build_data, build_explainer, decide
from hypothesis import given, settings, strategies as st

import ironrule
from ironrule import Budget, Cost, Counterfactuals, Explanation, Feature, Role, Space, Target
from ironrule.errors import CONTROL_CHARACTERS, IronruleError
from ironrule.space.constraints.parser import parse_constraint

EXPLAINER = build_explainer()
EXPLANATION = EXPLAINER.explain(0)
ODD_OBJECTS = (
    *(None, True, False, math.nan, math.inf, HUGE, -HUGE, 2**63, 1j, Decimal("1.5"), Fraction(1, 3), b"x", ..., object),
    *(BrokenRepr(), decide, int, pd.DataFrame, np.int64(-1), np.float32(0.5), np.datetime64("NaT"), pd.NA, pd.NaT),
    *(datetime.date(2024, 1, 1), datetime.timedelta(1), np.zeros(0), np.zeros((2, 2)), np.array(3), pl.Series([1])),
    *(pd.Series([1, 2]), EXPLANATION, EXPLAINER, Budget(evaluations=1), Role(direction="rise"), "\x1b[2J", "\ud800"),
)
odd_objects = st.integers(0, len(ODD_OBJECTS) - 1).map(lambda place: ODD_OBJECTS[place])  # some cannot be shown
scalars = st.one_of(
    odd_objects,
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["age", "age <=", "job"]),
)
objects = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.one_of(st.text(max_size=4), st.sampled_from(["age", "income", "job"])), inner, max_size=3),
    ),
    max_leaves=5,
)
few = Budget(evaluations=50)
CALLS: dict[str, Callable[[Any], Any]] = {
    "model": lambda x: build_explainer(model=x),
    "answer": lambda x: build_explainer(model=lambda _: x),
    "answers": lambda x: build_explainer(model=lambda table: [x] * len(table)),
    "answers as labels": lambda x: build_explainer(model=lambda table: [x] * len(table), desired=1),
    "data": lambda x: ironrule.Explainer(decide, x),
    "column": lambda x: ironrule.Explainer(
        lambda t: [0] * len(t), pd.DataFrame({"a": pd.Series([x, 1], dtype=object)})
    ),
    "desired": lambda x: build_explainer(desired=x),
    "threshold": lambda x: build_explainer(threshold=x),
    "margin": lambda x: build_explainer(margin=x),
    "models": lambda x: build_explainer(models=x),
    "space": lambda x: build_explainer(space=x),
    "constraints": lambda x: build_explainer(constraints=x),
    "columns": lambda x: build_explainer(columns=x),
    "domain": lambda x: build_explainer(domain=x),
    "oracle": lambda x: build_explainer(oracle=x),
    "roles": lambda x: build_explainer(roles=x),
    "role of a feature": lambda x: build_explainer(roles={"age": x}),
    "guess_roles": lambda x: build_explainer(guess_roles=x),
    "row": lambda x: EXPLAINER.explain(x, budget=few),
    "value of a number": lambda x: EXPLAINER.explain({"age": x, "income": 0, "job": "cook"}, budget=few),
    "value of a category": lambda x: EXPLAINER.explain({"age": 20, "income": 0, "job": x}, budget=few),
    "k": lambda x: EXPLAINER.explain(0, k=x, budget=few),
    "seed": lambda x: EXPLAINER.explain(0, seed=x, budget=few),
    "budget": lambda x: Budget(seconds=x),
    "evaluations": lambda x: Budget(evaluations=x),
    "algorithm": lambda x: EXPLAINER.explain(0, x, budget=few),
    "prefer": lambda x: EXPLAINER.explain(0, prefer=x, budget=few),
    "change_cost": lambda x: EXPLAINER.explain(0, change_cost=x, budget=few),
    "widen": lambda x: EXPLAINER.explain(0, widen=x, budget=few),
    "require": lambda x: EXPLAINER.explain(0, require=x, budget=few),
    "forbid": lambda x: EXPLAINER.explain(0, forbid=x, budget=few),
    "weights": lambda x: EXPLAINER.explain(0, weights=x, budget=few),
    "weight of a feature": lambda x: EXPLAINER.explain(0, weights={"age": x}, budget=few),
    "rule": lambda x: EXPLAINER.judge(0, x, budget=few),
    "condition": lambda x: EXPLAINER.judge(0, [x], budget=few),
    "features_to_vary": lambda x: EXPLAINER.counterfactuals(0, features_to_vary=x, budget=few),
    "permitted_range": lambda x: EXPLAINER.counterfactuals(0, permitted_range=x, budget=few),
    "cost": lambda x: EXPLAINER.counterfactuals(0, cost=x, budget=few),
    "norm of a cost": lambda x: EXPLAINER.counterfactuals(0, cost=Cost(x), budget=few),
    "scale of a cost": lambda x: EXPLAINER.counterfactuals(0, cost=Cost("l1", x), budget=few),
    "prices": lambda x: EXPLAINER.counterfactuals(0, cost=Cost(prices=x), budget=few),
    "price of a feature": lambda x: EXPLAINER.counterfactuals(0, cost=Cost(prices={"age": x}), budget=few),
    "step of a feature": lambda x: EXPLAINER.counterfactuals(0, cost=Cost(steps={"age": x}), budget=few),
    "cost per change": lambda x: EXPLAINER.counterfactuals(0, cost=Cost("l1", per_change=x), budget=few),
    "ONNX file": lambda x: ironrule.OnnxModel(x),
    "PMML file": lambda x: ironrule.PmmlModel(x),
    "target": lambda x: EXPLAINER.counterfactuals(0, target=x, budget=few),
    "class of a target": lambda x: EXPLAINER.counterfactuals(0, target=Target(x), budget=few),
    "score of a target": lambda x: EXPLAINER.counterfactuals(0, target=Target(above=x), budget=few),
    "range of a feature": lambda x: EXPLAINER.counterfactuals(0, permitted_range={"age": x}, budget=few),
    "counterfactual of a region": lambda x: EXPLAINER.counterfactual_region(x, "all", budget=few),
    "target of a region": lambda x: EXPLAINER.counterfactual_region(0, "all", target=x, budget=few),
    "margin of a region": lambda x: EXPLAINER.counterfactual_region(0, "all", margin=x, budget=few),
    "models of a region": lambda x: EXPLAINER.counterfactual_region(0, "all", models=x, budget=few),
    "groups": lambda x: EXPLAINER.group_changes(0, x, budget=few),
    "group": lambda x: EXPLAINER.group_changes(0, {"money": x}, budget=few),
    "spread": lambda x: EXPLAINER.diverse_counterfactuals(0, spread=x, budget=few),
    "range that forbids": lambda x: EXPLAINER.find_forbidding_restrictions(0, permitted_range={"age": x}, budget=few),
    "document of counterfactuals": lambda x: Counterfactuals.from_dict(x),
    "JSON of counterfactuals": lambda x: Counterfactuals.from_json(x),
    "limit": lambda x: EXPLAINER.rules(0, limit=x, budget=few),
    "where": lambda x: EXPLAINER.where(x),
    "diagnose": lambda x: EXPLAINER.diagnose(x, budget=few),
    "recheck": lambda x: EXPLAINER.recheck(x, budget=few),
    "attach": lambda x: EXPLAINER.attach(x),
    "name": lambda x: Feature(x, (1, 2), True),
    "values": lambda x: Space((Feature("age", x, True),)),
    "value": lambda x: Space((Feature("age", (x,), False),)),
    "role": lambda x: Feature("age", (1, 2), True, role=x),
    "step": lambda x: Role(minimum_step=x),
    "features": lambda x: Space(x),
    "infer": lambda x: Space.infer(x),
    "nominal": lambda x: Space.infer(build_data(), nominal=x),
    "ordered": lambda x: Space.infer(build_data(), ordered=x),
    "domains": lambda x: Space.infer(build_data(), domains=x),
    "domain of a column": lambda x: Space.infer(build_data(), domains={"age": x}),
    "one_hot": lambda x: Space.infer(build_data(), one_hot=x),
    "document of a space": lambda x: Space.from_dict(x),
    "entry of a space": lambda x: Space.from_dict({"features": {"age": x}}, build_data()),
    "values of a space": lambda x: Space.from_dict({"features": {"age": {"values": x}}}),
    "grid of a space": lambda x: Space.from_dict({"features": {"age": {"grid": {"start": 0, "stop": x}}}}),
    "constraint": lambda x: parse_constraint(x),
    "document": lambda x: Explanation.from_dict(x),
    "JSON": lambda x: Explanation.from_json(x),
    "check": lambda x: ironrule.check(x, decide, build_data()),
    "checked data": lambda x: ironrule.check(EXPLANATION, decide, x),
    "checked model": lambda x: ironrule.check(EXPLANATION, x, build_data()),
    "checked constraints": lambda x: ironrule.check(EXPLANATION, decide, build_data(), constraints=x),
    "checked models": lambda x: ironrule.check(EXPLANATION, decide, build_data(), models=x),
    "checked desired": lambda x: ironrule.check(EXPLANATION, decide, build_data(), desired=x),
    "checked threshold": lambda x: ironrule.check(EXPLANATION, decide, build_data(), threshold=x),
    "checked margin": lambda x: ironrule.check(EXPLANATION, decide, build_data(), margin=x),
}


@pytest.mark.filterwarnings("ignore")  # of pandas and NumPy, about what they are given
@pytest.mark.parametrize("argument", CALLS)
@settings(max_examples=25)
@given(given_object=objects)
def test_there_is_a_result_or_an_error_of_ours(argument, given_object):
    try:
        CALLS[argument](given_object)
    except IronruleError as error:
        text = str(error)
    else:
        return
    assert len(text) > 10
    assert len(text) < 4000
    assert not CONTROL_CHARACTERS.search(text.replace("\n", ""))


@settings(max_examples=300)
@given(st.text(alphabet="cfx.age job()<>=!+-*/,'\"[]0123456789 notandifhen\n\t\x1b", max_size=60))
def test_any_text_is_a_constraint_or_a_constraint_error(text):
    try:
        parse_constraint(text)
    except IronruleError as error:
        kind = type(error)
    else:
        return
    assert kind is ironrule.ConstraintError
