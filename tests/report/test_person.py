"""The person's report: one rule throughout, reasons that are true of the model, any language, a letterhead."""

from __future__ import annotations

import datetime
import re
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import ironrule
from ironrule import ReportOptions
from ironrule.errors import InputError
from ironrule.report.audiences import render_batch_report
from ironrule.report.notice.language import load_language
from ironrule.report.notice.wording import NoticeWording
from ironrule.report.person import LetterWriter
from ironrule.report.plots.comparison import ComparisonTexts, build_comparisons
from ironrule.report.text import collect_labels
from ironrule.results.advice import SuggestedChanges
from ironrule.results.explanation import Explanation
from ironrule.results.ladder import Ladder
from ironrule.rule.counterfactual import LazyValue
from notice_examples import GOOD, make_ladder, with_verdicts
from report_examples import proven, read, refuted, unrefuted, widened

DAY = datetime.date(2026, 3, 31)


def get_text(html: str) -> str:
    return " ".join(read(html).text.split())


@cache
def make_loans() -> tuple[Any, pd.DataFrame]:
    """A jagged model of three numbers and a category, whose rules need several conditions."""
    rng = np.random.default_rng(5)
    table = pd.DataFrame(
        {
            "income": rng.integers(10, 90, 400),
            "debt": rng.integers(0, 50, 400),
            "age": rng.integers(18, 80, 400),
            "home": rng.integers(0, 3, 400),
        }
    )
    good = table["income"] - table["debt"] + 4 * (table["home"] == 1) + rng.normal(0, 8, 400) > 25
    return RandomForestClassifier(12, max_depth=4, random_state=0, n_jobs=1).fit(table, good.astype(int)), table


@cache
def explain_some() -> tuple[Explanation, ...]:
    model, table = make_loans()
    explainer = ironrule.Explainer(model, table, desired=1, progress=False)
    denied = [row for row, desired in enumerate(explainer.outcomes) if not desired][:12]
    return tuple(explainer.explain(row) for row in denied)


def list_counts(explanation: Explanation) -> list[str]:
    counts: list[str] = LetterWriter().build(explanation)["counts"]
    return counts


def test_the_rule_in_the_box_is_the_rule_in_the_pictures_and_in_the_reasons():
    letter = LetterWriter().build(widened(proven()))
    told = [(label, condition) for label, condition, _ in letter["conditions"]]
    assert told == [("Monthly income", "680 EUR or less"), ("Home", "rent")]
    assert [(one.label, one.condition) for one in letter["comparisons"]] == told
    for one in letter["comparisons"]:
        assert not {shape.kind for shape in one.drawing.shapes if hasattr(shape, "kind")} & {"wider"}
    labels = [label for label, _ in told]
    assert all(any(label in sentence for sentence in letter["counts"]) for label in labels)


def test_a_picture_marks_the_part_that_the_rule_admits_and_the_persons_own_place():
    explanation = widened(proven())
    wording = NoticeWording(load_language("en", "report"), collect_labels(explanation, friendly=True))
    income, home = build_comparisons(explanation, wording, ComparisonTexts())
    kinds = [shape.kind for shape in income.drawing.shapes if hasattr(shape, "kind")]
    assert kinds.count("admitted") == 1
    assert [shape.kind for shape in home.drawing.shapes if hasattr(shape, "kind")].count("admitted") == 1
    assert home.drawing.texts.count("you") == 1
    assert {"rent", "own", "family"} <= set(home.drawing.texts)


def test_every_reason_has_at_most_one_change_and_is_true_of_the_model():
    model, _ = make_loans()
    checked = 0
    for explanation in explain_some():
        shown, counts = explanation.shown.rule, list_counts(explanation)
        assert explanation.background is not None
        assert all(sentence.count(" instead of ") <= 1 for sentence in counts)
        alone = [sentence for sentence in counts if " instead of " in sentence]
        for sentence in alone:  # the row with this change gets the other outcome from the user's own model
            found = re.fullmatch(
                r"(\w+): with (\d+) instead of (\d+), the result would have been: a different decision\.", sentence
            )
            assert found is not None, sentence
            name = found[1].lower()
            assert explanation.instance[name] == int(found[3])
            changed = dict(explanation.instance) | {name: int(found[2])}
            assert model.predict(pd.DataFrame([changed])) == [1], sentence
            checked += 1
        for need in explanation.background.needs:  # the others: without them the rule would have this exception
            if need.counterfactual is not None:
                values = pd.DataFrame([need.counterfactual.values])
                assert model.predict(values) == [1]
                others = [one for one in shown.components if one.feature != need.component.feature]
                assert all(one.covers(values).all() for one in others)
                assert not shown.covers(values).any()
    assert checked > 10


def test_a_change_of_what_cannot_be_changed_is_no_reason():
    model, table = make_loans()
    roles = dict.fromkeys(table.columns, "immutable")
    explainer = ironrule.Explainer(model, table, desired=1, roles=roles, progress=False)
    row = int(np.flatnonzero(~explainer.outcomes)[0])
    counts = list_counts(explainer.explain(row))
    assert counts
    assert not any("instead of" in sentence for sentence in counts)


def test_reasons_are_left_out_where_they_would_not_be_true():
    assert list_counts(refuted(proven())) == []
    assert list_counts(ironrule.Explanation.from_json(proven().to_json())) == []


def test_a_condition_of_which_nothing_is_known_is_said_to_be_so():
    explanation = proven()
    background = explanation.background
    assert background is not None
    needs = tuple(replace(need, counterfactual=None) for need in background.needs)
    bare = replace(
        explanation,
        lazy_background=LazyValue(lambda: replace(background, needs=needs)),
        lazy_changes=LazyValue(lambda: SuggestedChanges((), proven=False, complete=False)),
    )
    assert list_counts(bare) == [
        f"{label}: we do not know whether this point is needed." for label in ("Monthly income", "Home")
    ]
    claim = "The description above is right only with all of its points."
    assert claim in explanation.to_html("person")
    assert claim not in bare.to_html("person")


@pytest.mark.parametrize("is_known", [True, False])
def test_that_no_change_helps_is_told_as_far_as_it_is_known(is_known: bool):
    none = SuggestedChanges((), proven=is_known, complete=is_known)
    text = get_text(replace(proven(), lazy_changes=LazyValue(lambda: none)).to_html("person"))
    assert ("No change of what a person can change would have led to" in text) == is_known
    assert ("We found no change of what a person can change" in text) != is_known


@pytest.mark.parametrize("make", [lambda one: one, unrefuted, refuted])
def test_a_report_in_german_has_no_english_sentence(make):
    german = make(widened(proven())).to_html("person", report=ReportOptions(language="de", date=DAY))
    assert '<html lang="de" dir="ltr">' in german
    text = get_text(german)
    for sentence in load_language("en").get_section("report").values():
        part = max(re.split(r"\{\w+\}", sentence), key=len).strip(" .:")
        if len(part) > 8:
            assert part not in text, part
    assert "31. März 2026" in text
    assert "höchstens 680 EUR" in text or "höchstens 500 EUR" in text


def test_a_ladders_letter_is_in_one_language_too():
    ladder: Ladder = with_verdicts(make_ladder(), GOOD)
    text = get_text(ladder.to_html("person", report=ReportOptions(language="de", date=DAY)))
    assert "Von Menschen, auf die das alles zutrifft, erhalten mindestens" in text
    assert not re.search(r"\b(the|people|this|cases|gets?)\b", text)


def test_a_language_for_reports_needs_no_sentences_of_notices(tmp_path: Path):
    whole = files("ironrule.report.notice").joinpath("languages", "en.toml").read_text(encoding="utf-8")
    letter, reasons, report = (whole.index(f"[{name}]") for name in ("letter", "worth", "report"))
    path = tmp_path / "mine.toml"
    path.write_text(whole[:letter] + whole[report:].replace("What was known about you", "What we knew"))
    assert "What we knew" in proven().to_html("person", report=ReportOptions(language=path))
    with pytest.raises(InputError, match=r"must have the sentences of a notice: letter\.closing is missing"):
        load_language(path)
    path.write_text(whole[: whole.index("# The report for the person")])  # as files for notices were before
    load_language(path)
    with pytest.raises(InputError, match=r"must have the sentences of a report: report\.\w+ is missing"):
        proven().to_html("person", report=ReportOptions(language=path))
    assert letter < reasons < report


def test_the_same_report_on_the_same_day_is_the_same_text():
    fields = {"creditor": "Example Bank\n12 Market Street", "reference": "L-17", "contact": "help@bank.example"}
    options = ReportOptions(date=DAY, fields=fields)
    html = widened(proven()).to_html("person", report=options)
    assert html == widened(proven()).to_html("person", report=options)
    for text in (*fields.values(), "31 March 2026", "Whom you can ask"):
        assert text in html
    assert "Whom you can ask" not in proven().to_html("person")


def test_single_letters_of_a_batch_have_fields_of_their_own():
    options = ReportOptions(fields={"creditor": "Example Bank"}, fields_by_row={4: {"recipient": "Ms Sample"}})
    html = render_batch_report([proven(), proven()], "person", ["a", "b"], report=options, rows=[3, 4])
    assert html.count("Example Bank") == 2
    assert html.count("Ms Sample") == 1
    assert "Ms Sample" in html[html.rindex("<article") :]


def test_a_template_of_ones_own_replaces_a_block(tmp_path: Path):
    path = tmp_path / "mine.html"
    path.write_text(
        '{% extends "ironrule/person.html" %}{% block title %}<h1>Dear {{ letter.fields.name }}</h1>{% endblock %}'
        "{% block contact %}<p>{{ words.contact_title }}: nobody</p>{% endblock %}"
    )
    (tmp_path / "page.html").write_text("a file of the user's that must not be taken for ours")
    options = ReportOptions(template=path, fields={"name": "Ms <b>Sample</b>"}, date=DAY)
    html = widened(proven()).to_html("person", report=options)
    assert "<h1>Dear Ms &lt;b&gt;Sample&lt;/b&gt;</h1>" in html
    assert "Whom you can ask: nobody" in html
    assert "What was known about you" in html
    assert html.count("<svg") == widened(proven()).to_html("person").count("<svg")
    read(html)
    path.write_text('{% extends "ironrule/person.html" %}{% block title %}{{ nothing.such }}{% endblock %}')
    with pytest.raises(InputError, match=r"the template cannot be used \(mine\.html, line 1\)"):
        proven().to_html("person", report=options)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"language": ""}, "language of a report must be"),
        ({"date": "2026-03-31"}, "date of a report must be a date"),
        ({"fields": {"name": 3}}, "fields of a report must be a mapping"),
        ({"fields_by_row": {3: "x"}}, "fields_by_row of a report must be"),
        ({"template": 3}, "template of a report must be the path"),
        ({"model_file": 3}, "model_file of a report must be the path"),
        ({"check_options": "--target x"}, "check_options of a report must be a list of words"),
    ],
)
def test_options_that_cannot_be_used_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        ReportOptions(**given)
    with pytest.raises(InputError, match="report must be a ReportOptions, got str"):
        proven().to_html("person", report="de")  # type: ignore[arg-type]


@pytest.mark.parametrize("language", ["fr", "xx"])
def test_a_language_that_is_not_there_is_refused(language):
    with pytest.raises(InputError, match="the language of a report must be one of de, en, or the path"):
        proven().to_html("person", report=ReportOptions(language=language))


def test_with_labels_nobody_reads_classes_or_codes():
    labels = {
        "income": {"label": {"en": "Monthly income", "de": "Monatseinkommen"}, "unit": "€"},
        "home": {
            "label": "Home",
            "values": {"0": "rented", "1": {"en": "owned", "de": "Eigentum"}, "2": "with family"},
        },
        "outcomes": {"undesired": {"en": "denied", "de": "abgelehnt"}, "desired": "approved"},
    }
    told = ""
    for explanation in explain_some():
        text = get_text(explanation.to_html("person", report=ReportOptions(labels=labels)))
        assert "Why the decision was: denied" in text
        assert "a different decision" not in text
        assert not re.search(r"Home:? [012]\b", text)
        told += text
    assert {"Home rented", "Home owned", "Home family"} & {found[0] for found in re.finditer(r"Home \w+", told)}
    assert re.search(r"from €\d+ to €\d+|€\d+ or (less|more)", told)
    german = explain_some()[0].to_html("person", report=ReportOptions(labels=labels, language="de"))
    assert "Warum so entschieden wurde: abgelehnt" in german
    assert "Monatseinkommen" in german
    validator = explain_some()[0].with_labels(labels).to_html("validator")
    assert " approved)" in validator
    assert "denied (0)" in validator
    assert "1 (approved)" in validator


def test_labels_of_features_that_are_not_there_are_refused():
    with pytest.raises(InputError, match="unknown feature 'incme' in the labels; did you mean 'income'"):
        proven().to_html("person", report=ReportOptions(labels={"incme": "Income"}))


def test_the_label_of_class_1_is_told_where_it_is_desired_by_default():
    model, table = make_loans()
    labels = {"outcomes": {"0": "denied", "1": {"en": "approved", "de": "bewilligt"}}}
    explainer = ironrule.Explainer(model, table, labels=labels, progress=False)
    row = next(row for row, desired in enumerate(explainer.outcomes) if not desired)
    text = get_text(explainer.explain(row).to_html("person"))
    assert "Why the decision was: denied" in text
    assert "would have led to: approved." in text
    assert "a different decision" not in text
