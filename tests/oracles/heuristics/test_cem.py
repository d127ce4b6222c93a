"""CEM on linear models, whose smallest elastic net has a closed form, and on people."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from linear_models import FunctionModel, linear_query
from mixed_models import explain_people, forget_normal_form, query_about
from scipy.optimize import brentq
from sklearn.ensemble import GradientBoostingClassifier

from ironrule import Explainer
from ironrule.arrays import Float64Array
from ironrule.errors import InputError
from ironrule.oracles.heuristics.asked_points import AskedPoints
from ironrule.oracles.heuristics.candidates import CandidateSearch
from ironrule.oracles.heuristics.cem import CEM
from ironrule.oracles.heuristics.descent import PermittedRange, descend_by_fixed_steps
from ironrule.oracles.heuristics.gradients import build_score_gradient
from ironrule.oracles.protocol import BoxQuery
from ironrule.rule.box import Box
from ironrule.verdict.verdict import Refuted, Unrefuted
from tiny_cases import run_of

SLOPES = [1.0, -2.0, 0.5]
INSTANCE = [30, 60, 40]


def smallest_change(slopes: Float64Array, pull: float, beta: float) -> Float64Array:
    """The change where the slope of ``beta * |change| + change^2`` is a multiple of the score's, or 0."""
    return np.sign(slopes) * np.maximum(pull * np.abs(slopes) - beta, 0.0) / 2.0


@pytest.mark.parametrize("constant", [0.2, 1.0, 30.0])
@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_on_a_linear_model_the_least_loss_is_that_of_the_closed_form(constant: float, beta: float) -> None:
    query = linear_query(SLOPES, limit=-30.0, instance=INSTANCE)  # the row's score is -70, which is 40 short
    search = CandidateSearch.build(query, run_of())
    assert search is not None
    cem, slopes = CEM(beta=beta, kappa=0.2, steps=5_000), 100.0 * np.array(SLOPES) / 40.0
    permitted = PermittedRange.build(search)
    *_, last = cem.descend_with(constant, build_score_gradient(search), AskedPoints(search), permitted)

    def excess(pull: float) -> float:
        """Of the slope that the hinge has where the change of this pull ends, over the pull."""
        missed = 0.2 + 1.0 - float(slopes @ smallest_change(slopes, pull, beta))
        return constant * float(np.clip(missed / 0.1, 0.0, 1.0)) - pull

    pull = constant if excess(constant) >= 0.0 else brentq(excess, 0.0, constant, xtol=1e-14)
    assert last - search.center == pytest.approx(smallest_change(slopes, pull, beta), abs=1e-4)


def test_the_answer_has_nearly_the_smallest_elastic_net_of_all_counterfactuals() -> None:
    query = linear_query(SLOPES, limit=-30.0, instance=INSTANCE)
    cem = CEM(beta=0.1, kappa=0.02)
    verdict = cem.find(query, run_of())
    assert isinstance(verdict, Refuted)
    grid = np.stack(np.meshgrid(*[np.arange(101)] * 3, indexing="ij"), axis=-1).reshape(-1, 3).astype(np.int32)
    every = grid[query.case.model.desired(grid)]
    nets = [
        0.1 * np.abs(points - INSTANCE).sum(axis=1) / 100.0 + (((points - INSTANCE) / 100.0) ** 2).sum(axis=1)
        for points in (verdict.points, every)
    ]
    assert nets[0][0] <= 1.05 * nets[1].min()


def test_what_the_box_fixes_stays() -> None:
    query = linear_query(SLOPES, limit=-30.0, instance=INSTANCE)
    box = Box(np.array([30, 60, 40], np.int32), np.array([100, 60, 100], np.int32))
    verdict = CEM().find(replace(query, box=box), run_of())
    assert isinstance(verdict, Refuted)
    assert box.contains(verdict.points).all()
    nothing = Box(query.case.instance.copy(), query.case.instance.copy())
    assert isinstance(CEM().find(replace(query, box=nothing), run_of()), Unrefuted)


@pytest.mark.parametrize("name", ["linear", "network"])
@pytest.mark.parametrize("read", [True, False])
def test_people_get_counterfactuals_by_slopes_or_by_differences(name: str, read: bool) -> None:
    for row in range(2):
        query = query_about(name, row, k=2)
        query = query if read else replace(query, case=forget_normal_form(query.case))
        run = run_of()
        verdict = CEM().find(query, run)
        assert isinstance(verdict, Refuted)
        assert query.case.model.desired(verdict.points).all()
        assert run.meter.evaluations < 5_000


def test_it_finds_counterfactuals_of_trees_whose_score_has_jumps_and_no_slopes() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"income": rng.integers(0, 101, 400), "debt": rng.integers(0, 101, 400)})
    labels = table["income"] >= 60
    boosting = GradientBoostingClassifier(n_estimators=10, max_depth=2, random_state=0).fit(table, labels)
    explainer = Explainer(boosting, table, desired=True, progress=False)
    found = explainer.counterfactuals({"income": 20, "debt": 10}, k=1, algorithm=CEM())
    assert len(found) == 1
    assert explainer.is_desired(dict(found[0].values))
    nearest = explainer.counterfactuals({"income": 20, "debt": 10}, k=1, cost="l1")
    assert found.measure()[0].l1 <= 1.5 * nearest.measure()[0].l1


def test_an_explainer_finds_counterfactuals_by_it() -> None:
    explainer = explain_people("network")
    denied = int(np.flatnonzero(~explainer._context.outcomes)[0])
    found = explainer.counterfactuals(denied, k=1, algorithm=CEM())
    assert len(found) == 1
    assert (found.proven, found.statistics.algorithm) == (False, "CEM")


@pytest.mark.parametrize("wrong", [{"beta": -0.1}, {"kappa": 0}, {"c": None}, {"searches": 0}, {"steps": 1.5}])
def test_options_that_make_no_sense_are_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="must be"):
        CEM(**wrong)


@pytest.mark.parametrize("constant", [0.02, 0.2])
@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_fixed_steps_come_to_the_same_least_loss(constant: float, beta: float) -> None:
    query = linear_query(SLOPES, limit=-30.0, instance=INSTANCE)
    search = CandidateSearch.build(query, run_of())
    assert search is not None
    cem, slopes = CEM(beta=beta, kappa=2.0, steps=2_000), 100.0 * np.array(SLOPES) / 40.0
    given = build_score_gradient(search), AskedPoints(search), PermittedRange.build(search)
    first, *_, last = cem.descend_with(constant, *given, descend_by_fixed_steps)
    # The first step is a tenth of the slope, which is that of the score alone, less a tenth of beta.
    far = np.sign(slopes) * np.maximum(0.1 * constant * np.abs(slopes) - 0.1 * beta, 0.0)
    assert first - search.center == pytest.approx(far)
    # Near the end the hinge, over kappa / 2 = 1, is not steep any more: its slope is what is still missed.
    excess = lambda pull: (  # noqa: E731
        constant * float(np.clip(3.0 - slopes @ smallest_change(slopes, pull, beta), 0.0, 1.0)) - pull
    )
    pull = constant if excess(constant) >= 0.0 else brentq(excess, 0.0, constant, xtol=1e-14)
    assert last - search.center == pytest.approx(smallest_change(slopes, pull, beta), abs=1e-3)
    again, *_ = cem.descend_with(10.0 * constant, *given, descend_by_fixed_steps)
    far = np.sign(slopes) * np.maximum(constant * np.abs(slopes) - 0.1 * beta, 0.0)
    assert again - search.center == pytest.approx(np.clip(far, -search.center, 1.0 - search.center))


def ask_by_scores(score: Any, instance: list[int]) -> BoxQuery:
    """A question about a model of which only scores are known, desired above 0."""
    query, model = linear_query(SLOPES, limit=0.0, instance=instance), FunctionModel(score)
    return replace(query, case=replace(query.case, model=model, scoring_model=model, tabulated_model=None))


@pytest.mark.parametrize("instance", [[58, 10, 0], [30, 10, 0], [10, 57, 3]])
def test_jumps_in_two_features_are_both_made_and_the_third_stays(
    instance: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By fixed steps alone: no feature takes a longer step than the others."""
    monkeypatch.setattr("ironrule.oracles.heuristics.cem.DifferenceGradient", type(None))
    query = ask_by_scores(lambda p: 1.0 * (p[:, 0] >= 60) + (p[:, 1] >= 60) - 1.5, instance)
    verdict = CEM().find(query, run_of())
    assert isinstance(verdict, Refuted)
    a, b, c = verdict.points[0].tolist()
    assert (a, b) == (pytest.approx(61, abs=2), pytest.approx(61, abs=2))  # 60 and 60 is the nearest
    assert c == instance[2]


@pytest.mark.parametrize("instance", [[10, 50, 0], [50, 50, 20]])
def test_a_jump_far_away_is_found_although_another_feature_shows_a_slope_nearby(instance: list[int]) -> None:
    """That slope leads nowhere: all of c is worth a third of what is wanted, a from 60 on is worth all of it."""
    query = ask_by_scores(lambda p: 0.01 * (p[:, 2] // 3) + (p[:, 0] >= 60) - 0.9, instance)
    verdict = CEM().find(query, run_of())
    assert isinstance(verdict, Refuted)
    assert verdict.points[0].tolist() == [60, *instance[1:]]
