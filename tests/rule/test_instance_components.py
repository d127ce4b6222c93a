"""The components relevant to an instance: which are usable, what they admit, and how they are named."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ironrule.errors import InputError, SpaceError
from ironrule.rule.instance_components import build_instance_components
from ironrule.rule.kernels import compute_duals
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from tiny_cases import cases, every_point, rules_of

SPACE = Space(
    (
        Feature("age", (20, 30, 40), ordered=True),
        Feature("debt", (1, 2), ordered=True, missing=True),
        Feature("job", ("cook", "clerk"), ordered=False, missing=True),
        Feature("same", (1,), ordered=True),
        Feature("a <=", (1, 2), ordered=True),
    )
)


def components_of(*codes):
    return build_instance_components(SPACE, np.array(codes, dtype=np.int32))


def name_components(found, bits):
    return [str(component) for component in found.rule(bits, "").components]


def test_components_that_exclude_nothing_are_not_usable():
    found = components_of(1, 1, 0, 0, 0)
    assert name_components(found, found.usable) == [
        "age <= 30", "age >= 30", "debt is known", "debt = 2", "job = 'cook'", "a <= = 1",
    ]  # fmt: skip
    lowest = components_of(0, 0, 2, 0, 1)
    assert name_components(lowest, lowest.usable) == [
        "age <= 20",
        "debt = 1",
        "debt is known",
        "job = missing",
        "a <= = 2",
    ]


def test_a_missing_instance_has_one_component_for_equality():
    found = components_of(0, 2, 2, 0, 0)
    assert [(c.feature, c.op, c.value) for c in found.rule(found.select(["debt", "job"]), "").components] == [
        ("debt", "==", None),
        ("job", "==", None),
    ]


@given(cases(), st.data())
@settings(max_examples=80, deadline=None)
def test_a_point_is_in_the_box_exactly_if_no_component_of_the_rule_is_in_its_dual(case, data):
    rule = data.draw(rules_of(case))
    points = every_point(case.space)
    duals = [
        int.from_bytes(row.tobytes(), "little")
        for row in compute_duals(points, case.components.low, case.components.high)
    ]
    inside = case.components.box(rule).contains(points)
    assert inside.tolist() == [dual & rule == 0 for dual in duals]
    assert inside[(points == case.instance).all(axis=1)].all()
    assert all(dual & ~case.components.usable == 0 for dual in duals)


def test_selecting_by_feature_and_by_component():
    found = components_of(1, 1, 0, 0, 0)
    assert name_components(found, found.select(["age"])) == ["age <= 30", "age >= 30"]
    assert name_components(found, found.select(["age <=", "job"])) == ["age <= 30", "job = 'cook'"]
    assert name_components(found, found.select(["age >="])) == ["age >= 30"]
    assert name_components(found, found.select(["job =="])) == ["job = 'cook'"]
    assert name_components(found, found.select(["a <="])) == ["a <= = 1"]
    assert found.select(["same"]) == 0
    assert components_of(2, 0, 0, 0, 0).select(["age <="]) == 0
    assert found.select(["debt =="]) == 0
    assert name_components(components_of(0, 2, 0, 0, 0), components_of(0, 2, 0, 0, 0).select(["debt =="])) == [
        "debt = missing"
    ]


@pytest.mark.parametrize("text", ["job <=", "job >=", "age =="])
def test_a_component_must_suit_its_feature(text):
    with pytest.raises(InputError, match=f"a component of '.*' must use .*, got '{text}'"):
        components_of(0, 0, 0, 0, 0).select([text])


@pytest.mark.parametrize("text", ["aeg", "age<=", "age <", ""])
def test_an_unknown_feature_is_refused(text):
    with pytest.raises(SpaceError, match="unknown feature"):
        components_of(0, 0, 0, 0, 0).select([text])
