"""What bounds at the ends of ranges say, in every output: that a value is known, or that it is the last one."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from ironrule import Explainer, Explanation, Ladder, Rule
from ironrule.errors import InputError
from ironrule.report.notice.language import load_language
from ironrule.report.notice.wording import NoticeWording
from ironrule.results.scope import DomainSummary, describe_domains
from ironrule.rule.parsing import parse_condition
from ironrule.rule.phrasing import FeatureLabels, group_conditions, phrase_condition
from ironrule.rule.rule import Component
from ironrule.space.feature import Feature
from ironrule.space.labels import Labels
from ironrule.space.space import Space

SCALE = Feature("grade", (1, 2, 3, 4), ordered=True, missing=True)
AGE = Feature("age", tuple(range(19, 76)), ordered=True)
SIZE = Feature("size", ("small", "large"), ordered=True, missing=True)
SCORE = Feature("score", (0.5, 1.25, 3.5), ordered=True, missing=True)
LABELS = Labels.from_dict({"grade": "Grade", "score": {"unit": "points"}})


@pytest.mark.parametrize(
    ("feature", "op", "value", "text"),
    [
        (SCALE, "<=", 4, "grade is known"),
        (SCALE, ">=", 1, "grade is known"),
        (SCALE, ">=", 4, "grade = 4"),
        (SCALE, "<=", 1, "grade = 1"),
        (SCALE, "<=", 3, "grade <= 3"),
        (AGE, ">=", 75, "age >= 75"),  # nobody says of ages that they end there
        (AGE, "<=", 75, "age <= 75"),  # excludes nothing: that is what is said
        (SIZE, ">=", "large", "size = 'large'"),
        (SIZE, "<=", "large", "size is known"),
        (SCORE, ">=", 3.5, "score >= 3.5"),
        (SCORE, "<=", 3.5, "score is known"),
    ],
)
def test_a_bound_at_an_end_of_a_range_reads_naturally(feature: Feature, op: str, value: object, text: str) -> None:
    component = Component.from_feature(feature, op, value)  # type: ignore[arg-type]
    assert str(component) == text
    assert str(Rule((component,), "'no'")) == f"Everyone with {text} gets: 'no'."
    space = Space((feature,))
    (stated,) = parse_condition(text, space)
    table = pd.DataFrame({feature.name: pd.Series([*feature.values, None], dtype=object)})
    stated_component = Component.from_feature(feature, stated.operator, stated.value)  # type: ignore[arg-type]
    assert stated_component.covers(table).tolist() == component.covers(table).tolist()


def test_every_way_to_put_it_into_words_knows_it() -> None:
    known, equal = (Rule((Component.from_feature(SCALE, op, 4),)) for op in ("<=", ">="))  # type: ignore[arg-type]
    ((first,), (second,)) = group_conditions(known), group_conditions(equal)
    assert [phrase_condition(one, LABELS) for one in (first, second)] == ["Grade is known", "Grade = 4"]
    letter, page = FeatureLabels(LABELS), FeatureLabels(LABELS, value_style="unquoted")
    assert [letter.format_sentence(one) for one in (first, second)] == ["any value that is given", "4"]
    assert page.format_sentence(first) == "any known value"
    assert [page.format_short(one) for one in (first, second)] == ["known", "= 4"]
    german = NoticeWording.from_labels(load_language("de"), LABELS)
    assert [german.format_condition(one) for one in (first, second)] == ["jeder angegebene Wert", "4"]
    assert known.to_sql() == '"grade" <= 4'  # which is what a table has to be asked
    assert known.to_sql(comments=True) == '"grade" <= 4 -- grade is known'


def test_an_infinite_end_is_the_end_of_no_scale() -> None:
    assert str(Component.from_feature(Feature("x", (1, float("inf")), ordered=True), ">=", float("inf"))) == "x >= inf"


def test_two_bounds_are_told_as_a_range_and_two_far_ends_as_known() -> None:
    ends = Rule((Component.from_feature(SCALE, ">=", 1), Component.from_feature(SCALE, "<=", 4)))
    upper = Rule((Component.from_feature(SCALE, ">=", 2), Component.from_feature(SCALE, "<=", 4)))
    assert (ends.conditions, upper.conditions) == (("grade is known",), ("2 <= grade <= 4",))


@pytest.mark.parametrize("text", ["age is known", "job is known"])
def test_only_a_feature_with_an_order_and_missing_values_can_be_known(text: str) -> None:
    space = Space((AGE, Feature("job", ("cook", "clerk"), ordered=False, missing=True)))
    with pytest.raises(InputError, match="is known"):
        parse_condition(text, space)


def test_an_equality_at_an_end_is_one_bound_when_it_is_judged() -> None:
    table = pd.DataFrame({"grade": [1, 2, 3, 4] * 10, "age": np.arange(40) % 7})
    explainer = Explainer(lambda rows: np.asarray(rows["grade"]) <= 3, table, threshold=0.5)
    row = {"grade": 4, "age": 3}
    judged, meant = (explainer.judge(row, [text], progress=False) for text in ("grade = 4", "grade >= 4"))
    assert judged.rule == meant.rule
    assert str(judged.rule).startswith("Everyone with grade = 4 ")


@pytest.fixture(scope="module")
def explained() -> tuple[Explainer, Ladder]:
    """A row with a known score, explained by the fact that it is known, and by the last class."""
    rng = np.random.default_rng(0)
    score = np.where(rng.random(300) < 0.4, np.nan, rng.integers(0, 101, 300))
    table = pd.DataFrame({"score": score, "klass": rng.integers(1, 5, 300)})

    def approve(rows: pd.DataFrame) -> np.ndarray:
        return np.asarray(np.isnan(rows["score"].astype(float)) | (rows["klass"] < 4))

    explainer = Explainer(approve, table, threshold=0.5, domain="seen")
    row = int(np.flatnonzero(~explainer.outcomes)[0])
    return explainer, explainer.ladder(row, algorithm="min_set_cover", progress=False)


def test_documents_are_read_back_with_the_same_words(explained: tuple[Explainer, Ladder]) -> None:
    explainer, ladder = explained
    explanation = explainer.explain(dict(ladder.explanation.instance), progress=False)
    high = Component.from_feature(explainer.space["score"], "<=", explainer.space["score"].values[-1])
    shown = explanation.ranked[0].rule
    known = Rule((high, *(one for one in shown.components if one.feature != "score")), shown.outcome)
    assert "score is known" in str(known)
    document = json.loads(explanation.to_json())
    document["rules"][0]["rule"] = known.to_dict()
    again = Explanation.from_dict(_seal(document))
    assert str(again.ranked[0].rule) == str(known)
    assert "klass = 4" in str(again.ranked[0].rule)
    back = Ladder.from_json(ladder.to_json())
    assert [str(rung.rule) for rung in back.rungs] == [str(rung.rule) for rung in ladder.rungs]
    assert any("klass = 4" in str(rung.rule) for rung in back.rungs)
    page, letter = explanation.to_html("validator"), explanation.to_html("person")
    assert "klass = 4" in page
    assert "4 or more" not in letter


def _seal(document: dict[str, object]) -> dict[str, object]:
    """The document with the digest of what it says now."""
    from ironrule.verdict.digest import DIGEST_FIELD, add_digest

    return add_digest({name: value for name, value in document.items() if name != DIGEST_FIELD})


def test_no_label_of_the_bundled_data_leaves_a_class_without_words() -> None:
    from ironrule.data import load_german, load_german_labels

    labels, space = Labels.from_dict(load_german_labels()), Space.infer(load_german()[0], progress=False)
    space = space.with_labels(labels)
    assert not [name for name in space.names if "class" in (space.labels.get_label(name) or "").lower()]
    assert all(labels.get_label(name) for name in space.names)
    for name in ("installment_rate_in_percentage_of_disposable_income", "present_residence_since"):
        told = [space.labels.get_value_text(name, value) for value in space[name].values]
        assert None not in told
    component = Component.from_feature(space["present_residence_since"], ">=", 4)
    assert phrase_condition(group_conditions(Rule((component,)))[0], space.labels) == (
        "Time at this address = 7 years or more"
    )


def test_codes_with_texts_are_named_last_among_the_numbers_that_a_rule_speaks_of() -> None:
    domain = DomainSummary("integers", False, 1, 4)
    texts = {"label": "Time", "values": {str(code): f"class {code}" for code in range(1, 5)}}
    labels = Labels.from_dict({"time": texts}).mark_complete({"time": (1, 4)})
    table = pd.DataFrame({"time": [1, 2, 3, 4] * 10, "age": np.arange(40)})
    explainer = Explainer(lambda rows: np.asarray(rows["time"]) > 2, table, threshold=0.5, labels=labels)
    explanation = explainer.explain(0, progress=False)
    interval = replace(explanation, domains={"time": domain, "age": DomainSummary("integers", False, 0, 39)})
    (sentence, *_) = describe_domains(interval)
    assert sentence.index("age from 0 to 39") < sentence.index("Time")
