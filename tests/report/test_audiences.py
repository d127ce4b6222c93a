"""Reports: self-contained, escaped, honest, and each audience with its own words."""

from __future__ import annotations

import base64
import json
import re
import shlex
from dataclasses import replace

import pandas as pd
import pytest

import ironrule
from ironrule.report.audiences import render_batch_report, render_report
from ironrule.report.check_command import CheckCommand
from ironrule.results.audience import AUDIENCES
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from report_examples import SPACE, explainer, past, proven, read, refuted, unrefuted, widened

TRADE = (
    "component", "certificate", "counterfactual", "oracle", "verdict", "hash", "seed", "sha", "digest", "cardinality",
    "redundant", "feature", "algorithm", "dual", "box", "undesired", "refuted", "history", "json", "model",
)  # fmt: skip
EVIL = "<script>alert('x')</script>\"onload=\"&amp;"
EXPLANATION = widened(proven())
MADE = {"proven": lambda one: one, "unrefuted": unrefuted, "refuted": refuted}


def words_of(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", text.lower()))


@pytest.mark.parametrize("audience", ["person", "validator"])
@pytest.mark.parametrize("word", MADE)
def test_a_report_is_one_page_that_needs_nothing_else(audience, word):
    html = MADE[word](EXPLANATION).to_html(audience)
    found = read(html)
    assert html.startswith("<!doctype html>")
    assert {"html", "head", "title", "main", "h1", "h2", "svg"} <= set(found.tags)
    assert found.tags.count("h1") == 1
    assert ("html", "lang", "en") in found.attributes
    policy = next(value for tag, name, value in found.attributes if tag == "meta" and "default-src" in value)
    assert policy.startswith("default-src 'none'")
    assert "@page { size: A4" in html
    assert "@media print" in html


@pytest.mark.parametrize("word", MADE)
def test_the_person_reads_plain_sentences_without_the_words_of_the_trade(word):
    made = MADE[word](EXPLANATION)
    text = read(made.to_html("person")).text
    assert not {name for name in words_of(text) if name.startswith(TRADE)}
    assert "Monthly income" in text
    assert "500 EUR" in text
    assert "What was known about you" in text
    assert "What would have changed the decision" in text
    assert ("proven" in text.replace("not proven", "")) == (word == "proven")


def test_the_person_reads_the_wider_rule_with_the_own_value_beside_it():
    text = " ".join(read(EXPLANATION.to_html("person")).text.split())
    assert "680 EUR or less" in text
    assert "(yours: 500 EUR)" in text
    assert "Of 200 past cases, 48 fit this description." in text


def test_the_person_is_told_what_a_verdict_means():
    texts = {word: " ".join(read(make(EXPLANATION).to_html("person")).text.split()) for word, make in MADE.items()}
    assert "Everyone for whom all of this is true gets this decision:" in texts["proven"]
    assert "This was checked for every combination of " in texts["proven"]
    assert "We tried 500 possible cases that fit this description" in texts["unrefuted"]
    assert "This is not a proof" in texts["unrefuted"]
    assert "Home: “own” instead of “rent”; Grade: “high” instead of “mid”" in texts["refuted"]
    assert "Not everyone for whom all of this is true gets this decision:" in texts["refuted"]
    assert "Why each of these counts" not in texts["refuted"]
    assert "Monthly income; Home: each of these is needed. If one of them were left out, the" in texts["proven"]


@pytest.mark.parametrize("word", MADE)
def test_the_validator_reads_everything_needed_to_verify_it(word):
    made = MADE[word](EXPLANATION)
    text = " ".join(read(made.to_html("validator")).text.split())
    sql = " ".join(made.shown.rule.to_sql(comments=True).split())
    for wanted in (made.space, made.model, made.to_dict()["digest"], ironrule.__version__, sql):
        assert wanted in text
    assert f"Verdict: {made.verdict}." in text
    assert "Seed 0" in text
    assert "GreedyRuleCF" in text
    assert "4 features, 2070 points" in text
    assert "ironrule check explanation.json --model MODEL --data DATA" in text
    assert "Replace MODEL and DATA" in text
    assert "did not check the explanation again" in text
    enumerated = "enumeration: the model was asked about all 315 points of the box"
    assert (enumerated in text) == (word == "proven")
    assert ("none: the rule is not proven" in text) == (word != "proven")
    assert "numpy" in text


def test_the_validator_finds_the_explanation_itself_in_the_file():
    found = read(EXPLANATION.to_html("validator"))
    (link,) = [value for tag, name, value in found.attributes if (tag, name) == ("a", "href")]
    document = base64.b64decode(link.partition("base64,")[2]).decode()
    assert json.loads(document) == EXPLANATION.to_dict()
    assert ("a", "download", "explanation.json") in found.attributes


def test_an_explanation_that_is_too_large_to_attach_says_so(monkeypatch):
    monkeypatch.setattr("ironrule.report.attachments.MAX_ATTACHED_BYTES", 100)
    found = read(EXPLANATION.to_html("validator"))
    assert "too large to be attached" in found.text
    assert "a" not in found.tags


def test_a_cover_and_a_lower_bound_are_told_with_their_sizes():
    from ironrule.cli.commands.demo import build_demo_explainer

    explanation = build_demo_explainer().explain(1)
    text = " ".join(read(explanation.to_html("validator")).text.split())
    certificate = explanation.verdict.certificate.with_built_covers()
    assert f"cover: the box is divided into {certificate.points:,} piece" in text
    assert (
        f"excludes the {len(explanation.witnesses)} counterfactuals found weighs at least 3; this rule weighs 3" in text
    )
    assert "no shorter rule holds" in text
    assert "Proof that the wider rule holds" in text


def test_an_explanation_read_back_says_what_is_not_recorded():
    bare = ironrule.Explanation.from_json(EXPLANATION.to_json())
    text = read(bare.to_html("validator")).text
    assert "not recorded in the explanation" in text
    assert "The past rows are not available" in text
    person = read(bare.to_html("person"))
    assert "svg" not in person.tags
    assert "Monthly income" in person.text
    labelled = bare.with_history(past(), SPACE)
    assert "Monthly income" in read(labelled.to_html("person")).text


def test_labels_may_come_later_than_the_explanation():
    plain = Space(tuple(replace(feature, label=None, unit=None) for feature in SPACE.features))
    made = ironrule.Explainer(lambda t: t["income"] >= 700, past(), space=plain).explain(dict(EXPLANATION.instance))
    assert "Monthly income" not in made.to_html("person")
    assert "Monthly income" in made.with_history(past(), SPACE).to_html("person")


@pytest.mark.parametrize("audience", AUDIENCES)
def test_markup_in_names_values_labels_and_outcomes_stays_text(audience):
    space = Space(
        (
            Feature(EVIL, (EVIL, "b"), ordered=False, label=EVIL + "label", unit=EVIL),
            Feature("age", tuple(range(30)), ordered=True, unit=EVIL),
        ),
        (),
    )
    rows = pd.DataFrame({EVIL: [EVIL, "b"] * 15, "age": list(range(30))})
    explainer = ironrule.Explainer(
        lambda t: [EVIL + "yes" if a and b else EVIL for a, b in zip(t[EVIL] == "b", t["age"] > 5, strict=True)],
        rows,
        desired=EVIL + "yes",
        space=space,
    )
    made = explainer.explain({EVIL: EVIL, "age": 3})
    for one in (made, unrefuted(made), replace(made, unreadable_reason=EVIL)):
        found = read(one.to_html(audience))
        assert EVIL in found.text
        read(one._repr_html_())
    for html in (render_batch_report([made, made], audience, [EVIL, EVIL]),):
        assert EVIL in read(html).text


@pytest.mark.parametrize("value", ["'; DROP", "a b", "$(rm -rf /)", "--x"])
def test_the_command_to_check_quotes_what_a_shell_would_read_otherwise(value):
    command = CheckCommand("why.json", value, value, ("--target", value)).command
    assert shlex.split(command) == [
        "ironrule", "check", "why.json", "--model", value, "--data", value, "--target", value
    ]  # fmt: skip


def test_other_rules_are_told_with_their_verdicts():
    other = refuted(EXPLANATION).ranked[0]
    text = " ".join(read(replace(EXPLANATION, ranked=(*EXPLANATION.ranked, other)).to_html("validator")).text.split())
    assert f"2 Monthly income <= 500 EUR and Home = 'rent' refuted {other.coverage}" in text
    assert "Other rules" not in EXPLANATION.to_html("validator")


def test_a_complete_command_needs_no_hint():
    command = CheckCommand("why.json", "m.skops", "d.csv", ("--target", "paid"))
    text = read(render_report(EXPLANATION, "validator", command)).text
    assert "ironrule check why.json --model m.skops --data d.csv --target paid" in text
    assert "Replace MODEL and DATA" not in text


def test_a_report_can_be_written_to_a_file(tmp_path):
    path = tmp_path / "why.html"
    assert EXPLANATION.to_html(path=path) == path.read_text(encoding="utf-8")


def test_an_audience_that_does_not_exist_is_refused():
    with pytest.raises(ironrule.InputError, match=f"audience must be one of {', '.join(AUDIENCES)}, got 'poet'"):
        EXPLANATION.to_html("poet")
    with pytest.raises(ironrule.InputError, match="got 'poet'"):
        render_batch_report([EXPLANATION], "poet")


def test_a_batch_for_the_validator_has_an_overview_and_a_line_for_each():
    batch = [EXPLANATION, unrefuted(EXPLANATION), refuted(EXPLANATION)]
    found = read(render_batch_report(batch, names=["anna", "bert", "carl"]))
    text = " ".join(found.text.split())
    assert "3 explanations" in text
    assert found.tags.count("svg") == 1
    assert found.tags.count("tr") >= 1 + 3
    for name, word in zip(("anna", "bert", "carl"), MADE, strict=True):
        bound = 680 if word == "proven" else 500
        assert re.search(rf"{name} Monthly income <= {bound} EUR and Home = 'rent' {word} ", text)
    assert EXPLANATION.model in text
    assert EXPLANATION.space in text


def test_a_batch_of_other_models_tells_all_of_them():
    text = read(render_batch_report([EXPLANATION, replace(EXPLANATION, model="f" * 64)])).text
    assert f"{EXPLANATION.model} (1); {'f' * 64} (1)" in text


def test_a_batch_for_the_persons_is_a_letter_each():
    html = render_batch_report([EXPLANATION, unrefuted(EXPLANATION)], "person")
    found = read(html)
    assert found.tags.count("article") == 2
    assert found.tags.count("h1") == 2
    assert ".letter + .letter { break-before: page" in html


def test_a_batch_of_nothing_or_with_missing_names_is_refused():
    with pytest.raises(ironrule.InputError, match="at least one explanation"):
        render_batch_report([])
    with pytest.raises(ironrule.InputError, match="names must have 2 names, one for each explanation, got 1"):
        render_batch_report([EXPLANATION, EXPLANATION], names=["anna"])


def test_what_only_another_model_desires_is_not_told_as_the_decision():
    rows = past()
    made = ironrule.Explainer(
        lambda t: t["income"] >= 700, rows, space=SPACE, models=[lambda t: t["income"] >= 600]
    ).explain(dict(EXPLANATION.instance))
    assert made.background is not None
    assert made.background.is_robust
    assert "Why each of these counts" not in made.to_html("person")
    assert "from one of the models, or have a score within the margin" in made.to_html("validator")


def test_a_rule_without_parts_is_reported_too():
    made = ironrule.Explainer(lambda t: t["income"] > 5000, past(), space=SPACE).explain(dict(EXPLANATION.instance))
    assert "Everyone gets this decision, regardless of what is known about them." in read(made.to_html("person")).text
    assert "Everyone gets" in read(made.to_html("validator")).text


def test_several_explanations_of_one_explainer_share_their_words():
    found = explainer().explain(dict(EXPLANATION.instance) | {"grade": "high"})
    assert "Monthly income" in found.to_html("person")
