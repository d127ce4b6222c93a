"""Where the genetic algorithms draw from: the space, or past rows with the instance's values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ironrule.oracles.exhaustive import Exhaustive
from ironrule.search.genetic import FitnessScores, HistorySampler, PointSampler, SpaceSampler
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from tiny_cases import TableModel, case_of, cases, problem_of, rules_of


@pytest.mark.parametrize("sampler", [SpaceSampler(), HistorySampler()], ids=["space", "history"])
@settings(deadline=None, max_examples=60)
@given(st.data())
def test_points_lie_in_the_rules_box_and_can_occur(sampler: PointSampler, data: st.DataObject) -> None:
    case = data.draw(cases())
    rule = data.draw(rules_of(case))
    points = sampler.draw(problem_of(case, Exhaustive()), rule, 30)
    assert len(points) <= 30
    assert len(points) == 30 or case.feasible.predicates
    assert case.components.box(rule).contains(points).all()
    assert case.feasible.admits(points).all()


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_points_from_the_history_have_the_instances_values_where_the_rule_speaks_and_a_past_rows_elsewhere(
    data: st.DataObject,
) -> None:
    case = data.draw(cases())
    rule = data.draw(rules_of(case))
    points = HistorySampler().draw(problem_of(case, Exhaustive()), rule, 1_000)
    spoken_of = sorted({bit // 2 for bit in range(rule.bit_length()) if rule >> bit & 1})
    past = case.history.codes.points()
    past[:, spoken_of] = case.instance[spoken_of]
    possible = {row.tobytes() for row in past[case.feasible.admits(past)]}
    assert {point.tobytes() for point in points} == possible


def test_an_exception_that_no_changed_past_row_shows_is_seen_only_by_drawing_from_the_space() -> None:
    space = Space((Feature("age", (1, 2, 3), ordered=True), Feature("debt", (1, 2, 3), ordered=True)))
    table = np.zeros((3, 3), dtype=np.bool_)
    table[0, :] = True  # the young are desired
    instance = np.ones(2, dtype=np.int32)
    case = case_of(space, table, instance, instance[None, :])
    rule = case.components.select(["age <="])
    found = {}
    for sampler in (SpaceSampler(), HistorySampler()):
        scores = FitnessScores(problem_of(case, Exhaustive()), 100, sampler)
        scores.score([rule])
        found[sampler] = scores.fitness(rule).consistent
    assert found == {SpaceSampler(): False, HistorySampler(): True}


def test_where_nothing_can_be_drawn_the_model_is_not_asked() -> None:
    space = Space(
        (Feature("age", (1, 2, 3), ordered=True), Feature("debt", (1, 2, 3), ordered=True)), ("cf.age == cf.debt",)
    )
    instance, past = np.ones(2, dtype=np.int32), np.zeros((1, 2), dtype=np.int32)
    case = case_of(space, np.zeros((3, 3), dtype=np.bool_), instance, past)
    scores = FitnessScores(problem_of(case, Exhaustive()), 100, HistorySampler())
    scores.score([case.components.select(["age >="])])
    assert isinstance(case.model, TableModel)
    assert case.model.asked == []
