"""Stated rules: bounds anywhere round the row become intervals of codes, and come back as components."""

from __future__ import annotations

import datetime

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ironrule.errors import InputError, SpaceError
from ironrule.oracles.protocol import Case
from ironrule.rule.condition import (
    ComponentInterval,
    build_box,
    decode_rule,
    encode_own_components,
    encode_rule,
    find_code_range,
    find_own_components,
)
from ironrule.rule.instance_components import InstanceComponents, build_instance_components
from ironrule.rule.parsing import StatedComponent, parse_condition, split_condition
from ironrule.rule.rule import Component, Rule
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from stated_rules import stated_rules
from tiny_cases import cases, rules_of

DAYS = tuple(datetime.date(2024, 1, day) for day in (1, 10, 20))
SPACE = Space(
    (
        Feature("age", (20, 30, 40, 50), ordered=True, missing=True),
        Feature("job", ("clerk", "cook", "missing", "7"), ordered=False),
        Feature("grade", ("low", "middle", "high"), ordered=True),
        Feature("since", DAYS, ordered=True),
        Feature("a <= b", (1, 2, 3), ordered=True),
        Feature("age of car", (0.5, 1.5), ordered=True),
    )
)
AGE, JOB, GRADE, SINCE, ODD, CAR = range(6)


def row(age: int = 1, job: int = 0) -> InstanceComponents:
    """A row of codes: 30 years old, a clerk, in the middle of everything else."""
    return build_instance_components(SPACE, np.array([age, job, 1, 1, 1, 1], dtype=np.int32))


def parts(*texts: str, of: InstanceComponents | None = None) -> tuple[ComponentInterval, ...]:
    conditions = [condition for text in texts for condition in parse_condition(text, SPACE)]
    return encode_rule(of or row(), conditions)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("age <= 30", [(2 * AGE, 0, 1)]),
        ("age<=30", [(2 * AGE, 0, 1)]),
        ("  age  ≤  30.0 ", [(2 * AGE, 0, 1)]),
        ("age <= 39.5", [(2 * AGE, 0, 1)]),
        ("age < 40", [(2 * AGE, 0, 1)]),
        ("age <= 1000", [(2 * AGE, 0, 3)]),
        ("age >= 30", [(2 * AGE + 1, 1, 3)]),
        ("age > 20", [(2 * AGE + 1, 1, 3)]),
        ("age > 20.5", [(2 * AGE + 1, 1, 3)]),
        ("age ≥ -7", [(2 * AGE + 1, 0, 3)]),
        ("30 >= age", [(2 * AGE, 0, 1)]),
        ("20 < age", [(2 * AGE + 1, 1, 3)]),
        ("20 < age <= 37", [(2 * AGE + 1, 1, 3), (2 * AGE, 0, 1)]),
        ("20.00<age<=37.00", [(2 * AGE + 1, 1, 3), (2 * AGE, 0, 1)]),
        ("40 > age >= 20", [(2 * AGE, 0, 1), (2 * AGE + 1, 0, 3)]),
        ("age = 30", [(2 * AGE, 0, 1), (2 * AGE + 1, 1, 3)]),
        ("age == 30", [(2 * AGE, 0, 1), (2 * AGE + 1, 1, 3)]),
        ("job = clerk", [(2 * JOB, 0, 0)]),
        ("job == 'clerk'", [(2 * JOB, 0, 0)]),
        ('job = "clerk"', [(2 * JOB, 0, 0)]),
        ("grade <= middle", [(2 * GRADE, 0, 1)]),
        ("grade < 'high'", [(2 * GRADE, 0, 1)]),
        ("grade > low", [(2 * GRADE + 1, 1, 2)]),
        ("low < grade <= high", [(2 * GRADE + 1, 1, 2), (2 * GRADE, 0, 2)]),
        ("since <= 2024-01-15", [(2 * SINCE, 0, 1)]),
        ("since >= '2024-01-10'", [(2 * SINCE + 1, 1, 2)]),
        ("a <= b <= 2", [(2 * ODD, 0, 1)]),
        ("1 < a <= b", [(2 * ODD + 1, 1, 2)]),
        ("age of car > 1", [(2 * CAR + 1, 1, 1)]),
    ],
)
def test_a_condition_is_read_as_it_is_written(text: str, expected: list[tuple[int, int, int]]) -> None:
    assert list(parts(text)) == expected


def test_missing_is_a_value_of_its_own_unless_a_category_is_called_so() -> None:
    assert parts("age = missing", of=row(age=4)) == ((2 * AGE, 4, 4),)
    assert parts("job = missing", of=row(job=2)) == ((2 * JOB, 2, 2),)
    assert parts("job = 7", of=row(job=3)) == ((2 * JOB, 3, 3),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("age", "a condition must look like"),
        ("years <= 3", "a condition must look like"),
        ("job != cook", "a condition must look like"),
        ("job in (clerk, cook)", "a condition must look like"),
        ("age <= old", "the value in a condition on 'age' must be one of"),
        ("age <=", "the value in a condition on 'age' must be one of"),
        ("job = nobody", "the value in a condition on 'job' must be one of"),
        ("since <= yesterday", "the value in a condition on 'since' must be one of"),
        ("job <= cook", "a condition on the nominal feature 'job' must be an equality, got <= "),
        ("age <= missing", "a missing value must be an equality, got <= missing"),
        ("age = 31", "'age' must be one of"),
        ("age <= 20", "the row must satisfy the rule's condition age <= 20, got age = 30"),
        ("age > 1000", "the row must satisfy the rule's condition age > 1000, got age = "),
        ("age < 3", "the row must satisfy the rule's condition age < 3"),
        ("age = missing", "the row must satisfy the rule's condition age = missing, got age = "),
        ("job = cook", "the row must satisfy the rule's condition job = 'cook', got job = 'clerk'"),
        ("since <= 2024-01-10T12:00:00", "must be comparable with its values"),
    ],
)
def test_what_cannot_be_a_condition_that_holds_for_the_row_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(InputError) as refusal:
        parts(text)
    assert said in str(refusal.value)


def test_a_bound_is_false_on_a_missing_value() -> None:
    with pytest.raises(InputError, match="age <= 50, got age = missing"):
        parts("age <= 50", of=row(age=4))


def test_an_unknown_feature_is_named_with_the_nearest_one() -> None:
    with pytest.raises(SpaceError, match="did you mean 'age'"):
        encode_rule(row(), [StatedComponent("agee", "<=", 30)])


def test_numbers_of_numpy_are_numbers() -> None:
    assert encode_rule(row(), [StatedComponent("age", "<=", np.int64(30))]) == ((2 * AGE, 0, 1),)


def test_a_rule_comes_back_with_its_bounds_at_values_of_the_domain() -> None:
    rule = decode_rule(row(), parts("20 < age <= 37", "job = clerk", "grade < high"), "denied")
    ages, job = (Component("age", ">=", 30), Component("age", "<=", 30)), Component("job", "==", "clerk")
    assert rule == Rule((*ages, job, Component("grade", "<=", "middle", allowed=("low", "middle"))), "denied")
    assert (
        str(decode_rule(row(age=4), parts("age = missing", of=row(age=4)), "denied").components[0]) == "age = missing"
    )


@given(st.data(), cases())
def test_stated_rules_survive_being_said_in_the_users_terms(data: st.DataObject, case: Case) -> None:
    stated = data.draw(stated_rules(case))
    rule = decode_rule(case.components, stated, "denied")
    again = encode_rule(case.components, [StatedComponent(c.feature, c.op, c.value) for c in rule.components])
    assert again == stated
    for component, part in zip(rule.components, stated, strict=True):  # "x = 4" and "x is known" are bounds, too
        said = encode_rule(case.components, parse_condition(str(component), case.space))
        assert len(said) == 1
        read, meant = (build_box(case.components, one) for one in (said, (part,)))
        assert (read.low.tolist(), read.high.tolist()) == (meant.low.tolist(), meant.high.tolist())


@given(st.data(), cases())
def test_the_rows_own_components_on_the_same_sides_admit_less(data: st.DataObject, case: Case) -> None:
    stated = data.draw(stated_rules(case))
    outer, inner = build_box(case.components, stated), case.components.box(find_own_components(stated))
    assert (outer.low <= inner.low).all()
    assert (outer.high >= inner.high).all()
    assert (outer.low <= case.instance).all()
    assert (outer.high >= case.instance).all()


@given(st.data(), cases())
def test_a_rule_of_the_rows_own_components_has_the_same_box_when_it_is_stated(data: st.DataObject, case: Case) -> None:
    bits = data.draw(rules_of(case))
    own, stated = case.components.box(bits), build_box(case.components, encode_own_components(case.components, bits))
    assert np.array_equal(own.low, stated.low)
    assert np.array_equal(own.high, stated.high)
    assert find_own_components(encode_own_components(case.components, bits)) == bits
    rule = case.components.rule(bits, "denied")
    assert decode_rule(case.components, encode_own_components(case.components, bits), "denied") == rule


@given(st.data(), cases())
def test_a_component_admits_the_codes_that_its_kernel_says(data: st.DataObject, case: Case) -> None:
    bit = data.draw(st.sampled_from(case.components.usable_numbers or (None,)))
    if bit is not None:
        component, feature = case.components.component(bit), case.space.features[bit // 2]
        low, high = find_code_range(feature, component.op, component.value)
        assert (low, high) == (case.components.low[bit], case.components.high[bit])


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("age <= 3", ("age", "<=", " 3")),
        (" age of car≥3 ", ("age of car", ">=", "3 ")),
        ("age", None),
        ("age of", None),
        ("3 < age", None),
        ("age != 3", ("age", "!=", " 3")),
        ("age ==", ("age", "==", "")),
        ("a = b = c", ("a = b", "==", " c")),
        ("a = c", ("a", "==", " c")),
    ],
)
def test_a_condition_is_cut_after_the_longest_name(text: str, parts: tuple[str, str, str] | None) -> None:
    assert split_condition(text, ["a", "age", "a = b", "age of car"]) == parts
