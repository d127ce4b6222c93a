"""Labels: what a labels file may say, how names, values, numbers and outcomes are shown, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ironrule.errors import InputError, OutcomeError, SpaceError
from ironrule.rule.counterfactual import Counterfactual
from ironrule.rule.phrasing import FeatureCondition, FeatureLabels, format_outcome, phrase_condition, phrase_rule
from ironrule.rule.rule import Component, Rule
from ironrule.space.feature import Feature
from ironrule.space.labels import NO_LABELS, Labels
from ironrule.space.space import Space

FILE = """
language = "en"
income = "Monthly income"

[amount]
label = { en = "Amount", de = "Betrag" }
unit = "€"
format = "currency"
decimals = 2

[checking]
label = { en = "Checking account", de = "Girokonto" }
[checking.values]
A11 = { en = "no account", de = "kein Konto" }

[outcomes]
0 = { en = "denied", de = "abgelehnt" }
1 = "approved"
"""
SPACE = Space(
    (
        Feature("income", (500, 1500), ordered=True),
        Feature("amount", (100.0, 2500.5), ordered=True, interval=True),
        Feature("checking", ("A11", "A12"), ordered=False, missing=True),
    )
)
RULE = Rule(
    (
        Component("income", "<=", 1500),
        Component("amount", ">=", 100.0),
        Component("amount", "<=", 2500.5),
        Component("checking", "==", "A11"),
    ),
    "0",
)


@pytest.fixture
def labels(tmp_path: Path) -> Labels:
    path = tmp_path / "labels.toml"
    path.write_text(FILE, encoding="utf-8")
    return Labels.read(path)


def test_a_rule_is_said_in_labels_with_one_condition_per_feature(labels: Labels) -> None:
    assert RULE.conditions == ("income <= 1500", "100 <= amount <= 2500.5", "checking = 'A11'")
    shown = RULE.with_labels(labels)
    assert shown.conditions == (
        "Monthly income <= 1500",
        "Amount from €100.00 to €2,500.50",
        "Checking account = no account",
    )
    assert phrase_rule(shown).endswith("Checking account = no account gets: denied.")
    assert format_outcome(shown) == "denied"
    german = RULE.with_labels(labels.with_language("de"))
    assert german.conditions[1:] == ("Betrag from 100,00 to 2.500,50 €", "Girokonto = kein Konto")
    assert str(german).endswith("gets: abgelehnt.")


def test_labels_change_no_claim(labels: Labels) -> None:
    shown, space = RULE.with_labels(labels), SPACE.with_labels(labels)
    assert shown == RULE
    assert hash(shown) == hash(RULE)
    assert shown.to_dict() == RULE.to_dict()
    assert (shown.to_sql(), shown.to_query()) == (RULE.to_sql(), RULE.to_query())
    assert space.fingerprint == SPACE.fingerprint
    assert "labels" not in SPACE.to_dict()


def test_a_space_keeps_its_labels_in_its_document_and_file(labels: Labels, tmp_path: Path) -> None:
    from ironrule.space.files import to_toml

    space = SPACE.with_labels(labels)
    assert Space.from_dict(space.to_dict()).labels == space.labels
    path = tmp_path / "space.toml"
    path.write_text(to_toml(space.to_dict(), SPACE.to_dict()), encoding="utf-8")
    assert Space.from_file(path).labels == space.labels
    assert space["amount"].unit == "€"
    assert space.with_labels({"income": "Wage"}).labels.get_label("checking") == "Checking account"


@pytest.mark.parametrize(
    ("texts", "value", "en", "de"),
    [
        ({}, 1234.5, "1234.5", "1234,5"),
        ({"format": "grouped"}, 1234567, "1,234,567", "1.234.567"),
        ({"format": "grouped", "decimals": 2}, -1234.5, "-1,234.50", "-1.234,50"),
        ({"decimals": 1}, 0.125, "0.125", "0,125"),  # never rounded: that would be another rule
        ({"format": "percent"}, 0.285, "28.5%", "28,5 %"),
        ({"format": "percent", "decimals": 2}, 0.07, "7.00%", "7,00 %"),
        ({"unit": "%"}, 7, "7%", "7 %"),
        ({"format": "currency", "unit": "$"}, -1500, "-$1,500", "-1.500 $"),
        ({"format": "currency", "unit": "EUR"}, 1500.0, "1,500 EUR", "1.500 EUR"),
        ({"unit": "months"}, 48, "48 months", "48 months"),
        ({"values": {"-9": "no record"}, "unit": "months"}, -9.0, "no record", "no record"),
        ({"values": {"missing": "not asked"}}, None, "not asked", "not asked"),
        ({"values": {"True": "yes"}}, True, "yes", "yes"),
        ({"label": "X"}, None, "missing", "missing"),
        ({"label": "X"}, 1e300, "1e+300", "1e+300"),
        ({"label": "X"}, "a", "'a'", "'a'"),
    ],
)
def test_values_are_written_as_the_labels_say(texts: dict[str, Any], value: Any, en: str, de: str) -> None:
    for language, text in (("en", en), ("de", de)):
        labels = Labels.from_dict({"x": texts, "y": "Y", "language": language})
        component = FeatureCondition("x", (Component("x", "==", value),))
        name = labels.get_label("x") or "x"
        assert phrase_condition(component, labels) == f"{name} = {text}"


def test_plots_and_pages_phrase_with_the_same_texts(labels: Labels) -> None:
    phrased = FeatureLabels.from_space(SPACE.with_labels(labels))
    both = FeatureCondition("amount", RULE.components[1:3])
    assert phrased.format_sentence(both) == "from €100.00 to €2,500.50"
    assert phrased.format_value("checking", "A11") == "no account"
    assert phrased.format_value("checking", "A12") == "A12"
    assert phrased.format_short(FeatureCondition("income", RULE.components[:1])) == "≤ 1500"


def test_counterfactuals_are_said_in_labels(labels: Labels) -> None:
    before = {"income": 500, "amount": 100.0, "checking": "A11"}
    found = Counterfactual.from_values(before, before | {"checking": "A12", "amount": 2500.5})
    shown = found.with_labels(labels)
    assert str(shown) == "Amount: €100.00 -> €2,500.50, Checking account: no account -> 'A12'"
    assert shown == found
    assert shown.to_dict() == found.to_dict()
    assert shown.labels is labels


@pytest.mark.parametrize(
    ("outcome", "outcomes", "text"),
    [
        ("0", {"0": "denied"}, "denied"),
        ("'bad'", {"bad": "denied"}, "denied"),
        ("not 'good'", {"good": "approved"}, "not approved"),
        ("a score of at most 0.5", {"undesired": "denied"}, "denied"),
        ("False", {"False": "denied", "True": "approved"}, "denied"),
        ("2", {"0": "denied"}, "2"),
    ],
)
def test_outcomes_have_labels_by_class_or_by_role(outcome: str, outcomes: dict[str, str], text: str) -> None:
    rule = Rule((), outcome).with_labels({"outcomes": outcomes})
    assert str(rule) == f"Everyone gets: {text}."


def test_the_desired_outcome_is_named_only_where_all_of_its_classes_are() -> None:
    labels = Labels.from_dict({"outcomes": {"1": "approved", "2": "approved later"}})
    assert labels.get_desired((1, 2)) == "approved or approved later"
    assert labels.get_desired((1, 3)) is None
    assert Labels.from_dict({"outcomes": {"desired": "paid"}}).get_desired(None) == "paid"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"incone": "x"}, "unknown feature 'incone' in the labels; did you mean 'income'?"),
        ({"checking": {"values": {"a11": "x"}}}, "unknown value 'a11' of feature 'checking'.*did you mean 'A11'"),
        ({"checking": {"values": {"zzz": "x"}}}, "the values are A11, A12"),
        ({"income": {"values": {"700": "x"}}}, None),  # an interval may take it
        ({"income": {"values": {"9000": "x"}}}, "unknown value '9000' of feature 'income'"),
        ({"checking": {"values": {"missing": "x"}}}, None),
    ],
)
def test_names_that_are_not_there_are_refused_with_the_nearest(document: dict[str, Any], message: str | None) -> None:
    if message is None:
        assert SPACE.with_labels(document).labels
        return
    with pytest.raises(SpaceError, match=message):
        SPACE.with_labels(document)


def test_outcomes_that_are_no_classes_are_refused_with_the_nearest() -> None:
    labels = Labels.from_dict({"outcomes": {"badd": "denied"}})
    with pytest.raises(OutcomeError, match="unknown outcome 'badd' in the labels; did you mean 'bad'"):
        labels.check_outcomes(["good", "bad"])
    labels.check_outcomes(None)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (3, "labels must be a mapping"),
        ({"x": 3}, "the texts of feature 'x' may have label, unit, format, decimals, values"),
        ({"x": {"lable": "a"}}, "the texts of feature 'x' may have"),
        ({"x": {"decimals": -1}}, "decimals of feature 'x' must be a whole number"),
        ({"x": {"format": "big"}}, "must be one of grouped, plain, percent, currency"),
        ({"outcomes": 3}, "outcomes of labels must be a table"),
        ({"outcomes": {"0": ""}}, "a text of an outcome must be a string"),
        ({"language": 3}, "the language of labels"),
        ({"numbers": {"decimal": 3}}, "numbers of labels may have"),
        ({"numbers": {"percent": "%"}}, "numbers of labels may have"),
        ({"features": 3}, "features of labels must be a table"),
    ],
)
def test_labels_that_are_none_are_refused(document: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Labels.from_dict(document)


def test_a_file_that_is_missing_or_broken_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="file of labels not found"):
        Labels.read(tmp_path / "labels.toml")
    (tmp_path / "labels.toml").write_text("a = ")
    with pytest.raises(InputError, match=r"labels\.toml is not well-formed TOML"):
        Labels.read(tmp_path / "labels.toml")


def test_an_unknown_language_is_refused_where_texts_have_languages(labels: Labels) -> None:
    assert labels.languages == ("de", "en")
    with pytest.raises(InputError, match="the language of labels must be one of de, en"):
        labels.with_language("den")
    assert NO_LABELS.with_language("xx").language == "xx"


def test_a_feature_of_a_reserved_name_stands_in_the_table_of_features() -> None:
    labels = Labels.from_dict({"features": {"outcomes": "Results", "language": {"label": "Tongue"}}})
    assert (labels.get_label("outcomes"), labels.get_label("language")) == ("Results", "Tongue")


def test_labels_cannot_write_control_characters_anywhere() -> None:
    labels = Labels.from_dict({"x": {"label": "a\x1b[2J", "unit": "\nproven"}, "outcomes": {"0": "\x07"}})
    rule = Rule((Component("x", "<=", 3), Component("x", ">=", 1)), "0").with_labels(labels)
    assert str(rule).isprintable()
