"""Explanations as HTML for notebooks: well formed, escaped, and honest in colour."""

from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from ironrule.report.plots.drawing import VERDICT_STYLES
from ironrule.results.counterfactuals import Counterfactuals
from ironrule.results.explanation import Explanation, RankedRule, Statistics
from ironrule.rule.counterfactual import Change, Counterfactual
from ironrule.rule.rule import Component, Rule
from ironrule.verdict.certificate import Certificate
from ironrule.verdict.verdict import Proven, Refuted, Unrefuted

EVIL = "<script>alert('x & y')</script>"
VERDICT_COLOURS = {style.word: style.colour for style in VERDICT_STYLES}
STATISTICS = Statistics(
    algorithm="GreedyRuleCF",
    seed=0,
    seconds=0.1,
    generations=1,
    candidates=2,
    oracle_calls=3,
    model_calls=4,
    evaluations=5,
    operator_seconds={},
)
VERDICTS = {
    "proven": Proven(Certificate("enumeration", 12, "f", "m", (0,), (1,))),
    "refuted": Refuted(Counterfactual({EVIL: EVIL}, (Change(EVIL, EVIL, None),)), np.zeros((1, 1))),
    "unrefuted": Unrefuted(10, 10, 0.95),
}


class Reader(HTMLParser):
    """Collects tags, and checks that they close in order."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.text = [], set(), ""

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.add(tag)
        assert not any(name.startswith("on") or "http" in (value or "") for name, value in attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def read(html):
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader


def explanation(verdict, rules=1):
    rule = Rule((Component(EVIL, "==", EVIL), Component("age", "<=", 20)), EVIL)
    counterfactual = Counterfactual({EVIL: "b", "age": 20}, (Change(EVIL, EVIL, "b"),))
    return Explanation(
        instance={},
        ranked=(RankedRule(rule, verdict, 7),) * rules,
        counterfactuals=(counterfactual,),
        statistics=STATISTICS,
        history_rows=1000,
        space="f",
    )


@pytest.mark.parametrize("word", VERDICTS)
@pytest.mark.parametrize("rules", [1, 3])
def test_html_is_well_formed_and_everything_is_escaped(word, rules):
    found = read(explanation(VERDICTS[word], rules)._repr_html_())
    assert "script" not in found.seen
    assert EVIL in found.text
    assert "covers 7 of 1,000 past rows" in found.text
    assert ("2 other rules" in found.text) == (rules == 3)


@pytest.mark.parametrize("word", VERDICTS)
def test_every_verdict_has_its_own_word_and_colour(word):
    html = explanation(VERDICTS[word])._repr_html_()
    assert (f"background:{VERDICT_COLOURS[word]}" in html) == (word == "proven")
    assert f"border:2px {'solid' if word == 'proven' else 'dashed'} {VERDICT_COLOURS[word]}" in html
    assert not any(colour in html for other, colour in VERDICT_COLOURS.items() if other != word)
    assert len(set(VERDICT_COLOURS.values())) == 3
    text = read(html).text.replace("not proven", "")
    assert ("proven" in text) == (word == "proven")


def test_the_verdict_of_an_unrefuted_rule_keeps_its_numbers():
    assert (
        "no exception among 10 points tried; with 95% confidence"
        in read(explanation(VERDICTS["unrefuted"])._repr_html_()).text
    )


def test_counterfactuals_are_a_table_of_changes():
    item = Counterfactual({EVIL: None}, (Change(EVIL, EVIL, None),))
    found = read(Counterfactuals({}, (item,), STATISTICS)._repr_html_())
    assert {"table", "td"} <= found.seen
    assert "script" not in found.seen
    assert "missing" in found.text


def test_no_counterfactuals_are_told_in_words():
    assert read(Counterfactuals({}, (), STATISTICS)._repr_html_()).text.strip() == "no counterfactual was found"


def test_a_search_that_was_stopped_says_so():
    stopped = replace(STATISTICS, stopped="budget")
    assert (
        "stopped early (budget)"
        in read(replace(explanation(VERDICTS["proven"]), statistics=stopped)._repr_html_()).text
    )
    assert "stopped early" not in read(explanation(VERDICTS["proven"])._repr_html_()).text
    assert "stopped early (budget)" in read(Counterfactuals({}, (), stopped)._repr_html_()).text
