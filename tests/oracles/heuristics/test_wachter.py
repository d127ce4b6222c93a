"""Wachter on linear models, whose least loss has a closed form, on a network, and by differences of scores alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from linear_models import LINEAR_SPACE, linear_query
from mixed_models import explain_people, forget_normal_form, query_about

from ironrule.errors import InputError
from ironrule.oracles.heuristics.asked_points import AskedPoints
from ironrule.oracles.heuristics.candidates import CandidateSearch
from ironrule.oracles.heuristics.descent import PermittedRange
from ironrule.oracles.heuristics.distances import MadDistance
from ironrule.oracles.heuristics.gradients import build_score_gradient
from ironrule.oracles.heuristics.wachter import Wachter
from ironrule.rule.box import Box
from ironrule.verdict.verdict import Refuted, Unrefuted
from tiny_cases import run_of

SLOPES = [1.0, -2.0, 0.5]


@pytest.mark.parametrize("weight", [5.0, 50.0, 500.0])
def test_on_a_linear_model_the_least_loss_is_that_of_the_closed_form(weight: float) -> None:
    query = linear_query(SLOPES, limit=25.0, instance=[30, 60, 40])
    search = CandidateSearch.build(query, run_of())
    assert search is not None
    gradient, weights = build_score_gradient(search), MadDistance.build(search).weights
    wachter = Wachter(target=0.2, steps=2_000)
    *_, last = wachter.descend_with(weight, gradient, AskedPoints(search), PermittedRange.build(search), search.center)
    # In the encoding a slope is 100 times that of the codes; the row is at 30 - 120 + 20 = -70, so 95 from the limit.
    slopes = 100.0 * np.array(SLOPES) / 95.0
    best = int(np.argmax(np.abs(slopes) / weights))
    # d/dx of weight * (slope x - 1.2)^2 + |x| * (1 / MAD) is 0
    change = 1.2 / slopes[best] - np.sign(slopes[best]) * weights[best] / (2.0 * weight * slopes[best] ** 2)
    expected = search.center.copy()
    expected[best] += change if abs(1.2 / slopes[best]) > abs(1.2 / slopes[best] - change) else 0.0
    assert last == pytest.approx(np.clip(expected, 0.0, 1.0), abs=1e-5)


def test_the_counterfactual_of_a_linear_model_changes_the_steepest_feature_alone() -> None:
    query = linear_query(SLOPES, limit=-40.5, instance=[30, 60, 40])  # 29.5 short: b must fall by 14.75 or more
    verdict = Wachter(target=0.05).find(query, run_of())
    assert isinstance(verdict, Refuted)
    assert verdict.points[0].tolist() == [30, 45, 40]


def test_what_the_box_fixes_stays_and_what_it_forbids_is_not_asked() -> None:
    query = linear_query(SLOPES, limit=-40.0, instance=[30, 60, 40])
    box = Box(np.array([30, 60, 40], np.int32), np.array([100, 60, 100], np.int32))
    verdict = Wachter(target=0.05).find(replace(query, box=box), run_of())
    assert isinstance(verdict, Refuted)
    assert box.contains(verdict.points).all()
    assert verdict.points[0, 1] == 60
    nothing = Box(query.case.instance.copy(), query.case.instance.copy())
    assert isinstance(Wachter().find(replace(query, box=nothing), run_of()), Unrefuted)


@pytest.mark.parametrize("name", ["linear", "network"])
@pytest.mark.parametrize("read", [True, False])
def test_people_get_counterfactuals_by_slopes_or_by_differences(name: str, read: bool) -> None:
    for row in range(2):
        query = query_about(name, row, k=2)
        query = query if read else replace(query, case=forget_normal_form(query.case))
        run = run_of()
        verdict = Wachter().find(query, run)
        assert isinstance(verdict, Refuted)
        assert query.case.model.desired(verdict.points).all()
        assert run.meter.evaluations < 2_000


def test_more_starts_find_what_one_does_not() -> None:
    # Two humps: the way up from the instance ends on a hill that is too low.
    space = LINEAR_SPACE
    verdicts = [
        Wachter(starts=starts, rounds=12).find(linear_query([0.0, 0.0, 0.0], 0.5, [20, 0, 0], hills=True), run_of())
        for starts in (1, 8)
    ]
    assert isinstance(verdicts[0], Unrefuted)
    assert isinstance(verdicts[1], Refuted)
    assert len(space) == verdicts[1].points.shape[1]


def test_an_explainer_finds_counterfactuals_by_it() -> None:
    explainer = explain_people("network")
    denied = int(np.flatnonzero(~explainer._context.outcomes)[0])
    found = explainer.counterfactuals(denied, k=2, algorithm=Wachter())
    assert 1 <= len(found) <= 2
    assert (found.proven, found.statistics.algorithm) == (False, "Wachter")
    before = found.instance["income"]
    kept = explainer.counterfactuals(denied, algorithm=Wachter(), constraints=["cf.income == x.income"])
    assert all(item.values["income"] == before for item in kept)


@pytest.mark.parametrize("wrong", [{"target": 0.0}, {"growth": 1}, {"rounds": 0}, {"starts": 1.5}, {"weight": "much"}])
def test_options_that_make_no_sense_are_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="must be a"):
        Wachter(**wrong)
