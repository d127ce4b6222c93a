"""Reasons: only what counts against the person, in a fixed order, with the codes of a catalogue."""

from __future__ import annotations

import pytest

from ironrule.errors import InputError
from ironrule.results.reasons import ReasonCatalogue, RungPart, build_reasons
from ironrule.rule.rule import Component
from ironrule.space.feature import Feature

COMPONENTS = (Component("income", "<=", 500), Component("age", ">=", 60), Component("job", "==", "cook"))
INSTANCE = {"income": 450, "age": 62, "job": "cook"}


def make_parts(against=(True, True, True), bounds=(0.1, 0.3, 0.2)):
    return [
        RungPart(counts_against=one, bound_without=bound, approved_share=0.05, other_value=None)
        for one, bound in zip(against, bounds, strict=True)
    ]


CATALOGUE = ReasonCatalogue.from_dict(
    {
        "income": {"low": {"code": "R1", "en": "Income is too low", "de": "Einkommen zu niedrig"}},
        "age": {"high": {"code": "R2", "en": "Term ends too late"}},
        "job": {"is": {"code": "R1", "en": "Income is not regular"}},
    }
)


def test_what_adds_most_comes_first():
    reasons = build_reasons(COMPONENTS, make_parts(), INSTANCE)
    assert [reason.feature for reason in reasons] == ["age", "job", "income"]
    assert [reason.direction for reason in reasons] == ["high", "is", "low"]
    assert reasons[2].text == "income is 450: 5% of those approved have 500 or less"


def test_a_condition_that_does_not_count_against_the_person_is_no_reason():
    reasons = build_reasons(COMPONENTS, make_parts(against=(True, False, True)), INSTANCE)
    assert [reason.feature for reason in reasons] == ["job", "income"]


def test_features_with_one_code_count_once():
    reasons = build_reasons(COMPONENTS, make_parts(), INSTANCE, catalogue=CATALOGUE)
    assert [str(reason) for reason in reasons] == ["R2: Term ends too late", "R1: Income is not regular"]


def test_nobody_is_told_that_a_value_is_both_too_low_and_too_high():
    components = (Component("income", "<=", 500), Component("income", ">=", 400), COMPONENTS[1])
    reasons = build_reasons(components, make_parts(), INSTANCE)
    assert [(reason.feature, reason.direction) for reason in reasons] == [("income", "high"), ("age", "high")]


def test_equal_parts_have_a_fixed_order():
    parts = make_parts(bounds=(0.2, 0.2, 0.2))
    for order in ((0, 1, 2), (2, 0, 1)):
        reasons = build_reasons([COMPONENTS[i] for i in order], [parts[i] for i in order], INSTANCE)
        assert [reason.feature for reason in reasons] == ["age", "income", "job"]


def test_a_feature_that_must_not_be_named_is_refused():
    catalogue = ReasonCatalogue.from_dict({"never_name": ["age"]})
    with pytest.raises(InputError, match="must never be named") as error:
        build_reasons(COMPONENTS, make_parts(), INSTANCE, catalogue=catalogue)
    assert "forbid the feature 'age'" in error.value.hint


@pytest.mark.parametrize(("language", "name"), [("de", "age.high in the language 'de'"), ("fr", "age.high")])
def test_a_sentence_that_is_missing_is_named(language, name):
    with pytest.raises(InputError, match=name):
        build_reasons(COMPONENTS, make_parts(), INSTANCE, catalogue=CATALOGUE, language=language)


def test_missing_entries_are_listed():
    features = (
        Feature("income", (1, 2), ordered=True, missing=True),
        Feature("age", (1, 2), ordered=True),
        Feature("job", ("cook",), ordered=False),
    )
    assert CATALOGUE.find_missing(features) == ["income.high", "income.is", "age.low"]
    assert CATALOGUE.find_missing(features, "de") == ["income.high", "income.is", "age.low", "age.high", "job.is"]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"income": 3}, "must be a table"),
        ({"income": {"low": 3}}, "must be a table"),
        ({"income": {"big": {"code": "R", "en": "x"}}}, "must end in .low, .high or .is"),
        ({"income": {"low": {"en": "x"}}}, "must have a code"),
        ({"income": {"low": {"code": "R"}}}, "a sentence per language"),
        ({"income": {"low": {"code": "R", "en": 3}}}, "a sentence per language"),
        ({"never_name": "age"}, "list of features"),
    ],
)
def test_catalogues_that_cannot_be_used_are_refused(document, message):
    with pytest.raises(InputError, match=message):
        ReasonCatalogue.from_dict(document)


def test_a_catalogue_is_read_from_a_file(tmp_path):
    path = tmp_path / "reasons.toml"
    path.write_text('[income.low]\ncode = "R07"\nen = "Income is too low"\n', encoding="utf-8")
    assert ReasonCatalogue.from_file(path).entries["income", "low"].texts == {"en": "Income is too low"}
    path.write_text("[income", encoding="utf-8")
    with pytest.raises(InputError, match="not well-formed TOML"):
        ReasonCatalogue.from_file(path)
    with pytest.raises(InputError, match="not found"):
        ReasonCatalogue.from_file(tmp_path / "none.toml")


@pytest.mark.parametrize("document", [None, 5, [], "reasons.toml"])
def test_a_catalogue_must_be_a_table(document):
    with pytest.raises(InputError, match="a reason catalogue must be a table of entries, got"):
        ReasonCatalogue.from_dict(document)


@pytest.mark.parametrize("path", [None, 5, b"reasons.toml", ".", "a" * 5000, "\0"])
def test_a_catalogue_that_cannot_be_read_is_refused(path):
    with pytest.raises(InputError, match=r"reason catalogue|TOML"):
        ReasonCatalogue.from_file(path)


@pytest.mark.parametrize("chosen", [{"catalogue": {}}, {"catalogue": "reasons.toml"}, {"language": ["en"]}])
def test_reasons_need_a_catalogue_and_a_language(chosen):
    with pytest.raises(InputError, match="must be"):
        build_reasons(COMPONENTS, make_parts(), INSTANCE, **chosen)
