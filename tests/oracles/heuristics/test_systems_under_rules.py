"""Counterfactual systems under the rule algorithms of the paper: of models that are only asked, and of those read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from mixed_models import PEOPLE, explain_people, fit_pipeline, query_about

import ironrule
from ironrule.errors import InputError
from ironrule.oracles.registry import ORACLES
from ironrule.search.driver import solve
from ironrule.search.greedy_cf import GreedyRuleCF
from ironrule.verdict.verdict import Proven, Refuted
from tiny_cases import problem_of

BUDGET = ironrule.Budget(evaluations=20_000)
ALGORITHMS: dict[str, Any] = {
    "greedy": lambda oracle: ironrule.GreedyRuleCF(attempts=1, oracle=oracle),
    "genetic": lambda oracle: ironrule.GeneticRuleCF(q=10, s=100, generations=6, attempts=1, oracle=oracle),
}
every_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS)
SYSTEMS: list[tuple[str, Any]] = [
    ("linear", ironrule.Wachter(rounds=5, steps=20, starts=2)),
    ("linear", ironrule.CEM(searches=4, steps=30)),
    ("linear", ironrule.ActionableRecourse(grid=20)),
    ("linear", ironrule.DiCE("gradient", steps=30)),
    ("forest", ironrule.DiCE("random", samples=100)),
    ("forest", ironrule.DiCE("genetic", samples=50)),
    ("forest", ironrule.FeatureTweak()),
    ("forest", ironrule.FOCUS(steps=60)),
]


def find_denied(explainer: ironrule.Explainer) -> int:
    return int(np.flatnonzero(~explainer._context.outcomes)[0])


@every_algorithm
@pytest.mark.parametrize("name", ["wachter", "cem", "dice"])
def test_by_name_they_serve_a_model_that_answers_scores(name: str, algorithm: str) -> None:
    model = fit_pipeline("linear")
    explainer = ironrule.Explainer(lambda rows: model.predict_proba(rows)[:, 1], PEOPLE, threshold=0.5, oracle=name)
    found = explainer.explain(find_denied(explainer), algorithm=ALGORITHMS[algorithm](None), budget=BUDGET)
    assert found.rule.cardinality > 0
    assert found.statistics.oracle_calls > 0


@every_algorithm
@pytest.mark.parametrize(("name", "system"), SYSTEMS, ids=lambda one: str(one).partition("(")[0])
def test_of_a_model_that_was_read_the_rule_is_judged_by_proof(name: str, system: Any, algorithm: str) -> None:
    explainer = explain_people(name)
    found = explainer.explain(find_denied(explainer), algorithm=ALGORITHMS[algorithm](system), budget=BUDGET)
    assert isinstance(found.verdict, Proven | Refuted)
    assert found.rule.cardinality > 0


@pytest.mark.parametrize("name", ["actionable_recourse", "feature_tweak", "focus"])
def test_those_that_need_a_normal_form_refuse_a_model_that_is_only_asked(name: str) -> None:
    explainer = ironrule.Explainer(fit_pipeline("linear").predict, PEOPLE, desired=True, oracle=name)
    with pytest.raises(InputError, match="needs a model that was read as") as refused:
        explainer.explain(find_denied(explainer), algorithm="greedy_cf", budget=BUDGET)
    assert refused.value.code == "unsuitable-model"


def test_what_another_oracle_finds_is_known_to_the_check() -> None:
    query = query_about("linear")
    problem = problem_of(query.case, ORACLES["sampling"]())
    result = solve(problem, GreedyRuleCF(oracle=ironrule.ActionableRecourse(grid=20)))
    assert problem.oracle.points is not None
    assert query.case.model.desired(problem.oracle.points).all()
    assert len(result.rules) == 1
    assert replace(GreedyRuleCF(), oracle=None) == GreedyRuleCF()
