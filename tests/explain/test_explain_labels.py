"""Labels of an explainer: results carry them, documents keep them, and nothing that is claimed changes."""

from __future__ import annotations

import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

import ironrule
from ironrule.space.labels import Labels

LABELS = {
    "income": {"label": "Monthly income", "unit": "EUR", "format": "grouped"},
    "job": {"label": "Job", "values": {"0": {"en": "none", "de": "keine"}}},
    "outcomes": {0: {"en": "denied", "de": "abgelehnt"}, 1: "approved"},
}
ROWS = pd.DataFrame(
    [(income, job) for income in (500, 1500, 2500, 3500) for job in (0, 1, 2)] * 9, columns=["income", "job"]
)
PAID = ((ROWS["income"] > 1000) & (ROWS["job"] > 0) | (ROWS["income"] > 3000)).astype(int)
ROW = {"income": 1500, "job": 0}


@pytest.fixture(scope="module")
def model() -> DecisionTreeClassifier:
    return DecisionTreeClassifier(random_state=0).fit(ROWS, PAID)


def explain(model, labels, **options):
    return ironrule.Explainer(model, ROWS, desired=1, labels=labels, **options)


def test_an_explanation_is_said_in_labels_and_read_back_with_them(model):
    found = explain(model, LABELS).explain(ROW)
    read = ironrule.Explanation.from_json(found.to_json())
    for one in (found, read, ironrule.Explanation.from_json(read.to_json())):
        assert "Monthly income" in str(one)
        assert "Monthly income" in one._repr_html_()
        assert one.shown.rule.conditions[0].startswith("Monthly income <= ")
        assert str(one.shown.rule).endswith("gets: denied.")
        assert "Job: none -> 1" in str(one)
    german = read.with_labels(read.labels.with_language("de"))
    assert str(german.rule).endswith("gets: abgelehnt.")
    assert "Job: keine -> 1" in str(german)


def test_labels_change_no_claim(model):
    plain, labelled = explain(model, None).explain(ROW), explain(model, LABELS).explain(ROW)
    documents = [one.to_dict() for one in (plain, labelled)]
    for document in documents:
        for name in ("statistics", "digest"):
            del document[name]
    assert documents[1].pop("labels") == Labels.from_dict(LABELS).to_dict()
    assert documents[0] == documents[1]
    assert ironrule.check(labelled.to_json(), model, ROWS, desired=1).status == "proven"


def test_a_document_with_labels_that_are_none_is_refused(model):
    from ironrule.verdict.digest import add_digest

    document = explain(model, LABELS).explain(ROW).to_dict() | {"labels": {"features": {"shoe": {}}}}
    with pytest.raises(ironrule.InputError, match="unknown feature 'shoe' in the labels"):
        ironrule.Explanation.from_dict(add_digest(document))


def test_ladders_changes_and_judgements_are_said_in_labels(model):
    explainer = explain(model, LABELS)
    ladder = explainer.ladder(ROW)
    for one in (ladder, ironrule.Ladder.from_json(ladder.to_json())):
        assert "Monthly income" in str(one.short.rule)
        assert "Monthly income" in str(one)
    assert "Job: none -> 1" in str(explainer.counterfactuals(ROW))
    assert "gets: denied" in str(explainer.judge(ROW, ["income <= 1500", "job = 0"]))
    assert all("gets: denied" in str(one.rule) for one in explainer.rules(ROW))


def test_a_notice_is_said_in_the_labels_of_the_explainer_in_its_own_language(model):
    ladder = explain(model, LABELS | {"job": {"label": "Job", "values": {"0": {"en": "none", "de": "keine"}}}}).ladder(
        ROW
    )
    for language, text in (("en", "none"), ("de", "keine")):
        page = ladder.to_html("notice", notice=ironrule.NoticeOptions(language=language, most=2))
        assert f"Job: {text}" in page


def test_a_space_brings_its_labels(model):
    space = ironrule.Space.infer(ROWS).with_labels(LABELS)
    assert "Monthly income" in str(explain(model, None, space=space).explain(ROW))
    own = explain(model, {"income": "Wage"}, space=space)
    assert own.labels.get_label("income") == "Wage"
    assert own.labels.get_label("job") == "Job"


def test_labels_that_do_not_fit_are_refused_before_the_data_is_read(model):
    with pytest.raises(ironrule.SpaceError, match="did you mean 'income'"):
        explain(model, {"incone": "Income"})
    with pytest.raises(ironrule.OutcomeError, match="unknown outcome '2'"):
        explain(model, {"outcomes": {"2": "denied"}})


def test_a_value_that_no_past_row_has_is_never_left_out_of_the_values_that_a_bound_admits(model):
    texts = {"job": {"label": "Job", "values": {"0": "none", "1": "part time", "2": "full time"}}}
    explainer = explain(model, texts)
    known, new = ({"income": 500, "job": job} for job in (2, 3))
    assert explainer.space.labels.list_value_texts("job", 1, None) == ["part time", "full time"]
    component = ironrule.Component("job", ">=", 2)
    for row, text in ((known, "Job = full time"), (new, "Job >= full time")):
        labels = explainer.explain(row).labels
        assert ironrule.Rule((component,)).with_labels(labels).conditions == (text,)


def test_menus_regions_and_plots_are_said_in_labels(model):
    from ironrule.report.plots.changes import draw_menu, draw_region

    explainer = explain(model, LABELS)
    menu, found = explainer.change_menu(ROW), explainer.counterfactuals(ROW)
    assert str(menu[0]).startswith("Job: Job: none -> 1")
    assert any("Job" in text for text in draw_menu(menu).texts)
    region = explainer.counterfactual_region(found[0])
    assert "Job: " in str(region)
    assert any("Job" in text for text in draw_region(region).texts)
    read = ironrule.Counterfactuals.from_json(found.to_json())
    assert str(read) == str(found)
    assert read.labels.get_label("job") == "Job"
    assert "Wage" in str(read.with_labels({"job": "Wage"}))
