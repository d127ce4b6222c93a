"""Explanations as text."""

from dataclasses import replace

import numpy as np
import pytest

from ironrule.report.text import format_explanation, get_verdict_name
from ironrule.results.advice import RuleMark, SuggestedChanges
from ironrule.results.explanation import Explanation, RankedRule, Statistics
from ironrule.rule.counterfactual import Change, Counterfactual, LazyValue
from ironrule.rule.rule import Component, Rule
from ironrule.verdict.certificate import Certificate
from ironrule.verdict.verdict import Proven, Refuted, Unrefuted

POINT = Counterfactual({"age": 30}, (Change("age", 20, 30),))
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
RULE = Rule((Component("age", "<=", 20),), "denied")
VERDICTS = {
    "proven": Proven(Certificate("enumeration", 12, "f", "m", (0,), (1,))),
    "refuted": Refuted(POINT, np.zeros((1, 1))),
    "unrefuted": Unrefuted(10, 10, 0.95),
}


def explanation(verdict, changes=(POINT,), statistics=STATISTICS):
    suggested = SuggestedChanges(tuple(changes), proven=True, complete=True)
    return Explanation(
        instance={"age": 20},
        ranked=(RankedRule(RULE, verdict, 7),),
        counterfactuals=(POINT,),
        statistics=statistics,
        history_rows=100,
        space="f",
        lazy_changes=LazyValue(lambda: suggested),
    )


@pytest.mark.parametrize("word", VERDICTS)
def test_the_text_tells_rule_verdict_coverage_and_counterfactuals(word):
    verdict = VERDICTS[word]
    assert format_explanation(explanation(verdict)) == "\n".join(
        [
            "Everyone with age <= 20 gets: denied.",
            f"Verdict: {verdict}.",
            "Components: 1. Past rows covered: 7 of 100.",
            "What would have changed the outcome:",
            "  - age: 20 -> 30",
            "Each is proven to be the nearest of its kind.",
        ]
    )
    assert str(explanation(verdict)) == format_explanation(explanation(verdict))


def test_that_there_is_no_change_to_suggest_is_said():
    text = str(explanation(VERDICTS["proven"], ()))
    assert "changed the outcome" not in text
    assert "No change that respects the roles of the features gives the desired outcome; that is proven." in text


def test_parts_of_a_rule_are_marked():
    marked = replace(
        explanation(VERDICTS["proven"]), marks=(RuleMark(0, "against direction"), RuleMark(0, "protected", False))
    )
    assert "Note: age <= 20 goes against the declared direction: lower was declared better." in str(marked)
    assert "Note: age <= 20 uses a feature that looks protected." in str(marked)


def test_a_search_that_was_stopped_says_so():
    stopped = Statistics(
        algorithm="GreedyRuleCF",
        seed=0,
        seconds=0.1,
        generations=1,
        candidates=2,
        oracle_calls=3,
        model_calls=4,
        evaluations=5,
        operator_seconds={},
        stopped="budget",
    )
    assert "The search was stopped early (budget)." in str(explanation(VERDICTS["unrefuted"], (), stopped))


@pytest.mark.parametrize("word", VERDICTS)
def test_only_a_proven_rule_is_called_proven(word):
    assert get_verdict_name(VERDICTS[word]) == word
    text = str(replace(explanation(VERDICTS[word]), lazy_changes=None)).replace("not proven", "")
    assert ("proven" in text) == (word == "proven")
