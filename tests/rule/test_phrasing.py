"""How rules, conditions, features and values are put into words."""

from __future__ import annotations

import datetime

import pytest

from ironrule.rule.phrasing import (
    FeatureCondition,
    FeatureLabels,
    format_outcome,
    group_conditions,
    join_conditions,
    phrase_condition,
)
from ironrule.rule.rule import Component, Rule
from ironrule.space.labels import Labels
from ironrule.wording import format_value

LABELS = FeatureLabels(
    Labels.from_dict({"months": {"label": "Duration", "unit": "months"}, "job_kind": {}}), friendly=True
)
DAY = datetime.date(2024, 2, 29)


def condition(*components: Component) -> FeatureCondition:
    return FeatureCondition(components[0].feature, components)


@pytest.mark.parametrize(
    ("components", "short", "sentence"),
    [
        ([Component("months", ">=", 48)], "≥ 48 months", "48 months or more"),
        ([Component("months", "<=", 48.0)], "≤ 48 months", "48 months or less"),
        ([Component("months", "<=", 22), Component("months", ">=", 12)], "12 to 22 months", "from 12 to 22 months"),
        ([Component("months", "<=", 12), Component("months", ">=", 12)], "= 12 months", "12 months"),
        ([Component("months", "==", None)], "= not given", "not given"),
        ([Component("job_kind", "==", "cook")], "= cook", "cook"),
        ([Component("day", ">=", DAY)], "≥ 2024-02-29", "2024-02-29 or later"),
        ([Component("day", "<=", DAY)], "≤ 2024-02-29", "2024-02-29 or earlier"),
        ([Component("grade", ">=", "b", allowed=("b", "c"))], "≥ b", "b or c"),
        ([Component("grade", ">=", "c", allowed=("c",))], "≥ c", "c"),
        ([Component("grade", "<=", "f", allowed=tuple("abcdef"))], "≤ f", "f or lower"),
        ([Component("grade", ">=", "a", allowed=tuple("abcdef"))], "≥ a", "a or higher"),
    ],
)
def test_a_condition_is_said_in_signs_and_in_words(components, short, sentence):
    assert LABELS.format_short(condition(*components)) == short
    assert LABELS.format_sentence(condition(*components)) == sentence


@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        ([("<=", 0)], "rent"),
        ([("<=", 1)], "rent or own"),
        ([(">=", 1)], "own, free or with parents"),
        ([(">=", 1), ("<=", 2)], "own or free"),
        ([("<=", 0.5)], "rent"),
    ],
)
def test_bounds_on_codes_are_told_as_the_values_they_admit(bounds, text):
    texts = {"0": "rent", "1": "own", "2": "free", "3": "with parents", "missing": "unknown"}
    labels = Labels.from_dict({"home": {"label": "Home", "values": texts}})
    one = condition(*(Component("home", op, value) for op, value in bounds))
    told = labels.mark_complete({"home": (0, 3)})
    assert FeatureLabels(told).format_sentence(one) == text
    assert FeatureLabels(told).format_short(one) == f"= {text}"
    assert phrase_condition(one, told) == f"Home = {text}"
    for low, high in ((0, 4), (-1, 3)):  # some value has no text
        assert FeatureLabels(labels.mark_complete({"home": (low, high)})).format_sentence(one) != text


def test_components_of_one_feature_make_one_condition():
    rule = Rule((Component("a", "<=", 2), Component("b", "==", "x"), Component("a", ">=", 1)), "denied")
    assert [(one.feature, len(one.components)) for one in group_conditions(rule)] == [("a", 2), ("b", 1)]


def test_a_name_without_a_label_is_made_readable_only_for_the_person():
    assert LABELS.label("job_kind") == "Job kind"
    assert LABELS.label("months") == "Duration"
    assert FeatureLabels(LABELS.labels).label("job_kind") == "job_kind"
    assert LABELS.label("_") == "_"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "not given"),
        (True, "yes"),
        (False, "no"),
        (2.0, "2"),
        (0.25, "0.25"),
        ("x", "x"),
        (" ", "' '"),
        (DAY, "2024-02-29"),
        (datetime.datetime(2024, 2, 29, 12, 30), "2024-02-29 12:30:00"),
    ],
)
def test_a_value_is_shown_as_a_letter_would_have_it(value, text):
    assert format_value(value, "letter") == text


@pytest.mark.parametrize(
    ("outcome", "text"), [("'bad'", "bad"), ("not 'good'", "not 'good'"), ("''", "''"), ("no", "no")]
)
def test_an_outcome_loses_its_quotation_marks(outcome, text):
    assert format_outcome(Rule((), outcome)) == text


@pytest.mark.parametrize(
    ("components", "text"),
    [
        ([Component("months", "<=", 3)], "3 months or less"),
        ([Component("a", ">=", 2.0)], "2 or more"),
        ([Component("a", "==", "own")], "own"),
        ([Component("a", "==", None)], "missing"),
        ([Component("a", "==", True)], "True"),
        ([Component("a", "<=", 3), Component("a", ">=", 3)], "3"),
        ([Component("a", ">=", 1), Component("a", "<=", 3)], "from 1 to 3"),
    ],
)
def test_web_pages_have_the_same_sentence_with_values_as_they_are_typed(components, text):
    labels = FeatureLabels(LABELS.labels, value_style="unquoted")
    assert labels.format_sentence(condition(*components)) == text


def test_the_conditions_of_a_rule_in_one_line():
    both = Component("a", "<=", 2), Component("a", ">=", 2)
    assert join_conditions(Rule((*both, Component("job", "==", "cook")))) == "a = 2 and job = 'cook'"
    assert join_conditions(Rule(())) == "everyone"
