"""Explanations as text."""

import re
from dataclasses import replace

import numpy as np
import pytest

from ironrule.cli.render import render_explanation
from ironrule.report.text import format_explanation, get_verdict_name
from ironrule.results.advice import RuleMark, SuggestedChanges
from ironrule.results.explanation import CoveragePreference, Explanation, RankedRule, Statistics
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
            "Conditions: 1. Past rows covered: 7 of 100.",
            *(["Bounds are the row's own values; they were not widened."] if word != "refuted" else []),
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


STOPS = {
    "seconds": "stopped after its 30 s; more time (budget=120, on the command line --seconds 120) may",
    "evaluations": "stopped after its 500 evaluations of the model; more of them (budget=Budget(evaluations=2000), ",
    "interrupted": "was interrupted; going on may",
}


@pytest.mark.parametrize("reason", STOPS)
def test_what_ended_a_search_is_said_with_what_would_help(reason):
    stopped = "interrupted" if reason == "interrupted" else "budget"
    ended = replace(STATISTICS, stopped=stopped, stopped_by=reason, budget_seconds=30.0, budget_evaluations=500)
    short, long = explanation(VERDICTS["unrefuted"], (), ended), explanation(VERDICTS["proven"], (), ended)
    for text, aim in ((str(short), "prove the rule, or find another one"), (str(long), "shorten the rule, or show")):
        assert f"The search {STOPS[reason]}" in text
        assert aim in text
    widening = replace(long, statistics=replace(ended, stopped=None), weight=1, lower_bound=1)
    assert f"Looking for wider bounds or more coverage {STOPS[reason]}" in str(widening)
    assert "move its bounds further" in str(widening)
    for shown in (long._repr_html_(), long.to_html("validator"), render_explanation(long)):
        assert "shorten the rule" in " ".join(re.sub("<[^>]*>|[│|]", " ", shown).split())


def test_questions_that_were_too_hard_are_said_with_what_would_help():
    ended = replace(STATISTICS, stopped_by="work")
    assert "with a budget in seconds (budget=60, on the command line --seconds 60) they are tried for longer" in str(
        explanation(VERDICTS["proven"], (), ended)
    )


def test_nothing_is_said_of_a_search_that_came_to_its_end():
    ended = replace(STATISTICS, stopped_by="finished", budget_seconds=30.0)
    text = str(explanation(VERDICTS["proven"], (), ended))
    assert not [word for word in ("stopped", "budget", "interrupted") if word in text]
    assert "Ended normally" in " ".join(
        re.sub("<[^>]*>", " ", explanation(VERDICTS["proven"]).to_html("validator")).split()
    )


@pytest.mark.parametrize(("coverage", "is_instance"), [(0, False), (1, True), (1, False), (2, False)])
def test_a_rule_that_describes_nobody_else_says_so(coverage, is_instance):
    made = explanation(VERDICTS["proven"])
    alone = replace(made, ranked=(RankedRule(RULE, VERDICTS["proven"], coverage),), covers_only_instance=is_instance)
    for told in (str(alone), alone._repr_html_(), alone.to_html("validator"), render_explanation(alone)):
        assert ("This rule describes only this applicant" in told) == (coverage == 0 or is_instance)
    letter = alone.to_html("person")
    assert ("It describes only your case." in letter) == (coverage == 0)
    assert ("only yours fits this description" in letter) == (coverage > 0 and is_instance)


@pytest.mark.parametrize("complete", [True, False])
def test_a_rule_that_was_preferred_for_coverage_is_not_called_shortest(complete):
    made = replace(
        explanation(VERDICTS["proven"]),
        prefer="coverage",
        preference=CoveragePreference(3, complete, 12),
        weight=5,
        lower_bound=3,
    )
    text = str(made)
    assert not made.minimum
    assert "no shorter rule holds" not in text
    assert "rules need at least 3" in text
    assert "Preferred for coverage" in text
    assert "The shortest has 3." in text
    assert "none covers more past rows" in text
    assert ("of the 12 proven rules compared" in text) != complete
    assert ("of the proven rules that are have at most two bounds more" in text) == complete
    assert "The shortest that was found has 3." in str(replace(made, lower_bound=2))
    assert Explanation.from_json(made.to_json()).preference == made.preference
    assert "Coverage could not be preferred" in str(replace(made, preference=None))


@pytest.mark.parametrize("word", VERDICTS)
def test_only_a_proven_rule_is_called_proven(word):
    assert get_verdict_name(VERDICTS[word]) == word
    text = str(replace(explanation(VERDICTS[word]), lazy_changes=None)).replace("not proven", "")
    assert ("proven" in text) == (word == "proven")
