"""The paper's fitness score, against its formula."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ironrule.arrays import Points
from ironrule.oracles.exhaustive import Exhaustive
from ironrule.oracles.protocol import Case
from ironrule.search.genetic import Fitness, FitnessScores
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from tiny_cases import Flags, TableModel, case_of, cases, exceptions_in, problem_of, rules_of

SAMPLES = 100


def score_of(case: Case, rule: int, samples: int = SAMPLES) -> tuple[Fitness, FitnessScores]:
    scores = FitnessScores(problem_of(case, Exhaustive()), samples)
    scores.score([rule])
    return scores.fitness(rule), scores


def violations(case: Case, rule: int) -> int:
    past = case.history.desired.points()
    return int(case.components.box(rule).contains(past).sum())


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_the_score_follows_the_papers_formula(data: st.DataObject) -> None:
    case = data.draw(cases())
    rule = data.draw(rules_of(case))
    assert isinstance(case.model, TableModel)
    case.model.asked.clear()
    fitness, _ = score_of(case, rule)
    base = 0.25 * (1 - rule.bit_count() / (2 * len(case.space)))
    violated = violations(case, rule)
    drawn = np.concatenate([np.empty((0, len(case.space)), np.int32), *case.model.asked])
    if violated:
        assert fitness == Fitness(pytest.approx(base + 0.25 * (1 - violated / len(case.history))), False, False)
        assert len(drawn) == 0
        return
    found = int(case.model.table[tuple(drawn.T)].sum())
    assert case.components.box(rule).contains(drawn).all()
    if found == 0:
        assert fitness == Fitness(pytest.approx(base + 0.75), True, True)
    else:
        assert len(drawn) <= SAMPLES
        assert fitness == Fitness(pytest.approx(base + 0.25 * (1 - found / len(drawn)) + 0.25), True, False)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_consistent_rules_score_above_all_others_and_the_levels_stand_in_order_at_one_length(
    data: st.DataObject,
) -> None:
    case = data.draw(cases())
    rules = data.draw(st.lists(rules_of(case), min_size=2, max_size=6))
    scores = FitnessScores(problem_of(case, Exhaustive()), SAMPLES)
    scores.score(rules)
    for one in rules:
        for other in rules:
            first, second = scores.fitness(one), scores.fitness(other)
            if first.consistent and not second.consistent:
                assert first.score > second.score
            if first.data_consistent and not second.data_consistent and one.bit_count() == other.bit_count():
                assert first.score > second.score


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_the_ranking_is_by_score_and_a_known_counterfactual_costs_a_level(data: st.DataObject) -> None:
    case = data.draw(cases())
    rules = data.draw(st.lists(rules_of(case), min_size=1, max_size=6))
    problem = problem_of(case, Exhaustive())
    scores = FitnessScores(problem, SAMPLES)
    scores.score(rules)
    before = {rule: scores.fitness(rule) for rule in rules}
    for rule in rules:
        problem.ask(rule)
    ranked = scores.rank(rules)
    assert sorted(set(rules)) == sorted(ranked)
    values = [scores.fitness(rule).score for rule in ranked]
    assert values == sorted(values, reverse=True)
    for rule in rules:
        after, exception = scores.fitness(rule), len(exceptions_in(case, case.components.box(rule)))
        assert after.consistent == (before[rule].consistent and not exception)
        if before[rule].consistent and exception:
            base = 0.25 * (1 - rule.bit_count() / (2 * len(case.space)))
            assert after.score == pytest.approx(base + 0.25 * (1 - 1 / SAMPLES) + 0.25)


def test_a_rule_that_lacks_what_is_required_never_counts_as_consistent() -> None:
    space = Space((Feature("age", (1, 2, 3), ordered=True), Feature("debt", (1, 2, 3), ordered=True)))
    instance = np.ones(2, dtype=np.int32)
    case = case_of(space, np.zeros((3, 3), dtype=np.bool_), instance, instance[None, :])
    scores = FitnessScores(problem_of(case, Exhaustive(), required=(0b0011,)), SAMPLES)
    scores.score([0b0100, 0b0001])
    assert not scores.fitness(0b0100).consistent
    assert scores.fitness(0b0001).consistent


def test_a_rule_is_drawn_for_once() -> None:
    space = Space((Feature("age", (1, 2, 3), ordered=True), Feature("debt", (1, 2, 3), ordered=True)))
    instance = np.ones(2, dtype=np.int32)
    case = case_of(space, np.zeros((3, 3), dtype=np.bool_), instance, instance[None, :])
    problem = problem_of(case, Exhaustive())
    scores = FitnessScores(problem, SAMPLES)
    scores.score([0, 1])
    scores.score([1, 0, 1])
    assert problem.meter.evaluations == 2 * SAMPLES


@dataclass(frozen=True, slots=True, eq=False)
class Answering:
    """A model that desires so many of the points of each of its calls."""

    desires: tuple[int, ...]
    calls: list[int] = field(default_factory=list)

    def desired(self, points: Points) -> Flags:
        self.calls.append(len(points))
        return np.arange(len(points)) < self.desires[len(self.calls) - 1]


@pytest.mark.parametrize(
    ("desires", "calls", "exceptions"),
    [((0, 45), [10, 90], 45), ((0, 90), [10, 90], 90), ((0, 1), [10, 90], 1), ((3,), [10], 30), ((10,), [10], 100)],
)
def test_exceptions_count_as_if_all_points_had_been_drawn(
    desires: tuple[int, ...], calls: list[int], exceptions: int
) -> None:
    space = Space((Feature("age", (1, 2, 3), ordered=True), Feature("debt", (1, 2, 3), ordered=True)))
    instance, model = np.ones(2, dtype=np.int32), Answering(desires)
    case = case_of(space, np.zeros((3, 3), dtype=np.bool_), instance, instance[None, :], model=model)
    fitness, _ = score_of(case, 0b0001)
    assert model.calls == calls
    assert not fitness.consistent
    assert fitness.score == pytest.approx(0.25 * (1 - 1 / 4) + 0.25 * (1 - exceptions / SAMPLES) + 0.25)
