"""Anchor: its bounds against a root finder, its draws against their distribution, its rules against their precision."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st
from scipy.optimize import brentq

from ironrule.arrays import Points
from ironrule.errors import InputError
from ironrule.oracles.exhaustive import Exhaustive
from ironrule.oracles.protocol import Case
from ironrule.search.anchor import (
    Anchor,
    CoverageEstimate,
    KLLucb,
    Perturbation,
    PrecisionEstimates,
    bound_above,
    bound_below,
    compute_divergence,
    compute_exploration_rate,
)
from ironrule.search.problem import SearchState
from ironrule.space.constraints import feasible
from ironrule.space.constraints.parser import parse_constraint
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.verdict.budget import Budget, BudgetExhausted
from tiny_cases import Flags, TableModel, case_of, cases, every_point, problem_of, rules_of, subsets

shares = st.floats(0.0, 1.0)
levels = st.floats(1e-4, 20.0)


def kl(p: float, q: float) -> float:
    """The divergence of two coins, for q inside (0, 1)."""
    heads = p * np.log(p / q) if p > 0 else 0.0
    tails = (1 - p) * np.log((1 - p) / (1 - q)) if p < 1 else 0.0
    return float(heads + tails)


@settings(deadline=None, max_examples=200)
@given(p=shares, level=levels)
def test_the_bounds_are_the_roots_that_a_root_finder_finds(p: float, level: float) -> None:
    inner = 1e-13
    high = bound_above(np.array([p]), np.array([level]))[0]
    low = bound_below(np.array([p]), np.array([level]))[0]
    if p < 1 - 1e-9 and kl(p, 1 - inner) > level:
        assert high == pytest.approx(brentq(lambda q: kl(p, q) - level, max(p, inner), 1 - inner, xtol=1e-12), abs=1e-6)
    if p > 1e-9 and kl(p, inner) > level:
        assert low == pytest.approx(brentq(lambda q: kl(p, q) - level, inner, min(p, 1 - inner), xtol=1e-12), abs=1e-6)
    assert 0 <= low <= p <= high <= 1


def test_bounds_at_the_ends_have_their_closed_form() -> None:
    each = np.array([0.01, 0.1, 1.0, 5.0])
    assert bound_below(np.ones(4), each) == pytest.approx(np.exp(-each), abs=1e-6)
    assert bound_above(np.zeros(4), each) == pytest.approx(1 - np.exp(-each), abs=1e-6)
    assert bound_above(np.ones(4), each).tolist() == [1.0] * 4
    assert bound_below(np.zeros(4), each).tolist() == [0.0] * 4


@given(p=shares, q=st.floats(1e-9, 1 - 1e-9))
def test_the_divergence_is_that_of_two_coins(p: float, q: float) -> None:
    assert compute_divergence(np.array([p]), np.array([q]))[0] == pytest.approx(kl(p, q), abs=1e-9)


def test_exploration_grows_with_arms_rounds_and_confidence() -> None:
    rates = [
        compute_exploration_rate(2, 1, 0.1),
        compute_exploration_rate(3, 1, 0.1),
        compute_exploration_rate(3, 5, 0.1),
        compute_exploration_rate(3, 5, 0.01),
    ]
    assert rates == sorted(rates)
    assert len(set(rates)) == 4
    assert rates[0] == pytest.approx(np.log(8110) + np.log(np.log(8110)))


def distribution(case: Case, rule: int) -> dict[tuple[int, ...], float]:
    """How probable every point is under the perturbation, constraints aside, from its definition."""
    box, past = case.components.box(rule), case.history.codes.points()
    total: dict[tuple[int, ...], float] = {}
    for row in past:
        options = []
        for j, code in enumerate(row):
            inside = [int(c) for c in past[:, j] if box.low[j] <= c <= box.high[j]] or [int(case.instance[j])]
            options.append([int(code)] if box.low[j] <= code <= box.high[j] else inside)
        each = 1.0 / len(past) / np.prod([len(choice) for choice in options])
        for point in itertools.product(*options):
            total[point] = total.get(point, 0.0) + float(each)
    return total


def precision(case: Case, rule: int) -> float:
    assert isinstance(case.model, TableModel)
    return sum(share for point, share in distribution(case, rule).items() if not case.model.table[point])


def a_space(sizes: tuple[int, ...] = (4, 3, 3), constraints: tuple[str, ...] = ()) -> Space:
    features = (Feature(f"f{j}", tuple(range(size)), ordered=j != 1) for j, size in enumerate(sizes))
    return Space(tuple(features), tuple(map(parse_constraint, constraints)))


def random_case(seed: int, density: float = 0.2) -> Case:
    """Three features; twelve past rows, some codes of which never occur."""
    rng = np.random.default_rng(seed)
    space, instance = a_space(), np.ones(3, dtype=np.int32)
    table = rng.random((4, 3, 3)) < density
    table[tuple(instance)] = False
    rows = np.stack([rng.integers(0, size - (seed % 2), size=12) for size in space.sizes], axis=1)
    return case_of(space, table, instance, rows.astype(np.int32))


@pytest.mark.parametrize("seed", range(6))
def test_points_are_drawn_as_the_distribution_says(seed: int) -> None:
    case = random_case(seed)
    rules = [case.components.select(names) for names in ([], ["f0 <="], ["f0", "f1"], ["f1", "f2 >="])]
    count = 40_000
    drawn = Perturbation(case).draw(np.random.default_rng(seed), rules, count).reshape(len(rules), count, 3)
    for rule, points in zip(rules, drawn, strict=True):
        found, counts = np.unique(points, axis=0, return_counts=True)
        seen = dict(zip(map(tuple, found.tolist()), (counts / count).tolist(), strict=True))
        expected = distribution(case, rule)
        assert set(seen) <= set(expected)
        assert all(abs(seen.get(point, 0.0) - share) < 0.015 for point, share in expected.items())


def test_where_no_past_value_satisfies_a_component_the_instances_own_is_taken() -> None:
    space, instance = a_space(), np.array([3, 2, 1], dtype=np.int32)
    case = case_of(space, np.zeros((4, 3, 3), dtype=np.bool_), instance, np.zeros((5, 3), dtype=np.int32))
    rule = case.components.select(["f0 >=", "f1"])
    points = Perturbation(case).draw(np.random.default_rng(0), [rule], 50)
    assert (points == [3, 2, 0]).all()


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_points_lie_in_their_boxes_and_can_occur(data: st.DataObject) -> None:
    case = data.draw(cases())
    rules = data.draw(st.lists(rules_of(case), min_size=1, max_size=3))
    each = data.draw(st.integers(1, 7))
    points = Perturbation(case).draw(np.random.default_rng(0), rules, each)
    assert len(points) == each * len(rules)
    assert case.feasible.admits(points).all()
    for place, rule in enumerate(rules):
        assert case.components.box(rule).contains(points[place * each : (place + 1) * each]).all()


@pytest.mark.parametrize("listed", [200_000, 0])
def test_points_that_past_rows_cannot_give_are_drawn_from_what_can_occur(
    listed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feasible, "MAX_LISTED_COMBINATIONS", listed)
    sizes = (4, 2, 4)
    space = a_space(sizes, ("cf.f0 == cf.f2",))
    instance, past = np.array([2, 0, 2], dtype=np.int32), np.array([[0, 0, 0]], dtype=np.int32)
    case = case_of(space, np.zeros(sizes, dtype=np.bool_), instance, past)
    rule = case.components.select(["f0 >="])  # the past row's f0 becomes 2, its f2 stays 0
    points = Perturbation(case).draw(np.random.default_rng(0), [0, rule], 60)
    assert (points[:60] == past).all()
    assert set(map(tuple, points[60:, ::2].tolist())) == {(2, 2), (3, 3)}


def test_where_nothing_else_is_found_that_can_occur_the_instance_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feasible, "MAX_LISTED_COMBINATIONS", 0)
    monkeypatch.setattr(feasible, "MAX_REJECTION_ROUNDS", 1)
    sizes = (2000, 1, 2000)
    space = a_space(sizes, ("cf.f0 == cf.f2",))
    instance, past = np.array([7, 0, 7], dtype=np.int32), np.zeros((1, 3), dtype=np.int32)
    case = case_of(space, np.zeros(sizes, dtype=np.bool_), instance, past)
    points = Perturbation(case).draw(np.random.default_rng(0), [case.components.select(["f0 >="])], 10)
    assert case.feasible.admits(points).all()
    assert (points == instance).all(axis=1).any()


def test_coverage_is_that_of_the_rows_drawn_for_it() -> None:
    case = random_case(1)
    rules = subsets(case.components.usable)
    shares = CoverageEstimate(problem_of(case, Exhaustive()), 20_000).estimate(rules)
    past = case.history.codes.points()
    exact = [case.components.box(rule).contains(past).mean() for rule in rules]
    assert shares == pytest.approx(exact, abs=0.02)
    assert shares[0] == 1.0


@pytest.mark.parametrize("count", [1, 2])
def test_the_bandit_chooses_rules_that_are_as_precise_as_any_up_to_tau(count: int) -> None:
    good = []
    for seed in range(60):
        case = random_case(seed, density=0.4)
        rules = [1 << bit for bit in case.components.usable_numbers]
        chosen = KLLucb(tau=0.05, delta=0.1, batch=50).select_best(
            PrecisionEstimates(problem_of(case, Exhaustive())), rules, count
        )
        ranked = sorted((precision(case, rule) for rule in rules), reverse=True)
        assert len(set(chosen)) == count
        good.append(min(precision(case, rule) for rule in chosen) >= ranked[count - 1] - 0.05)
    assert np.mean(good) >= 0.9


def test_a_bandit_with_no_more_rules_than_it_may_choose_draws_one_point_for_each() -> None:
    problem = problem_of(random_case(0), Exhaustive())
    assert sorted(KLLucb(0.1, 0.1, 50).select_best(PrecisionEstimates(problem), [1, 2], 5)) == [1, 2]
    assert (problem.meter.calls, problem.meter.evaluations) == (1, 2)


@dataclass(frozen=True, slots=True, eq=False)
class Counting:
    """A model that keeps how many points came with every call."""

    table: Flags
    calls: list[int] = field(default_factory=list)

    def desired(self, points: Points) -> Flags:
        self.calls.append(len(points))
        return np.asarray(self.table[tuple(points.T)])


def test_a_round_of_the_bandit_is_one_call_for_two_rules() -> None:
    plain = random_case(3, density=0.4)
    assert isinstance(plain.model, TableModel)
    model = Counting(plain.model.table)
    case = case_of(plain.space, model.table, plain.instance, plain.history.codes.points(), model=model)
    problem = problem_of(case, Exhaustive())
    KLLucb(tau=0.05, delta=0.1, batch=30).select_best(
        PrecisionEstimates(problem), [1 << bit for bit in case.components.usable_numbers], 1
    )
    assert model.calls[0] == len(case.components.usable_numbers)
    assert len(model.calls) > 2
    assert set(model.calls[1:]) == {60}


def find_anchor(case: Case, seed: int = 0, **options: Any) -> int:
    (rule,) = Anchor(**options).run(problem_of(case, Exhaustive(), seed=seed), SearchState())
    return rule


def test_the_rule_found_is_nearly_always_as_precise_as_it_must_be_wherever_some_rule_is() -> None:
    precise, safe = [], []
    for seed in range(120):
        case = random_case(seed)
        truth = precision(case, find_anchor(case, seed))
        precise.append(truth >= 0.95)
        safe.append(truth >= 0.90)
        assert precision(case, case.components.usable) == pytest.approx(1.0)  # so that some rule is an anchor
    assert np.mean(precise) >= 0.9
    assert np.mean(safe) >= 0.95


def _one_feature_decides(threshold: int = 1) -> Case:
    """Desired is whoever has more than the threshold in f0; all points are past rows."""
    space, instance = a_space(), np.ones(3, dtype=np.int32)
    table = np.zeros((4, 3, 3), dtype=np.bool_)
    table[threshold + 1 :] = True
    return case_of(space, table, instance, every_point(space))


def test_the_component_that_decides_is_the_anchor() -> None:
    case = _one_feature_decides()
    for seed in range(10):
        assert find_anchor(case, seed) == case.components.select(["f0 <="])


def test_the_empty_rule_is_an_anchor_where_nearly_everybody_is_denied() -> None:
    assert find_anchor(_one_feature_decides(threshold=3)) == 0


def _two_ways() -> Case:
    """f0 <= 0 is one anchor, with few past rows; f2 <= 0, with many, another; the instance has both."""
    space, instance = a_space(), np.zeros(3, dtype=np.int32)
    table = np.zeros((4, 3, 3), dtype=np.bool_)
    table[1:, :, 1:] = True
    rows = np.array([[0, 0, 1]] * 3 + [[1, 0, 0]] * 9 + [[2, 1, 2]] * 8, dtype=np.int32)
    return case_of(space, table, instance, rows)


def test_of_several_anchors_the_one_that_covers_most_is_taken() -> None:
    case = _two_ways()
    for seed in range(10):
        assert find_anchor(case, seed, beam_size=3) == case.components.select(["f2 <="])


def test_where_there_is_no_anchor_the_most_precise_rule_is_returned() -> None:
    space, instance = a_space(), np.ones(3, dtype=np.int32)
    table = np.ones((4, 3, 3), dtype=np.bool_)
    table[1, 1, 1] = False
    case = case_of(space, table, instance, every_point(space))
    allowed = case.components.select(["f0", "f2"])
    problem = problem_of(case, Exhaustive(), allowed=allowed)
    assert Anchor().run(problem, SearchState()) == [allowed]
    assert precision(case, allowed) < 0.95


def test_a_limit_on_the_size_of_anchors_is_kept() -> None:
    for seed in range(20):
        case = random_case(seed, density=0.6)
        assert find_anchor(case, seed, max_anchor_size=1).bit_count() <= 1


def test_the_first_anchor_will_do_if_asked_for() -> None:
    case = _two_ways()
    problems = [problem_of(case, Exhaustive()) for _ in range(2)]
    (first,) = Anchor(stop_on_first=True).run(problems[0], SearchState())
    (best,) = Anchor().run(problems[1], SearchState())
    assert precision(case, first) == pytest.approx(1.0)
    assert case.components.box(best).contains(case.history.codes.points()).sum() >= (
        case.components.box(first).contains(case.history.codes.points()).sum()
    )
    assert problems[0].meter.evaluations <= problems[1].meter.evaluations


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_what_is_required_is_in_every_rule_that_is_drawn_for(data: st.DataObject) -> None:
    case = data.draw(cases(most_features=4, most_codes=3))
    usable = case.components.usable_numbers
    assume(len(usable) > 1)
    required = tuple(1 << bit for bit in usable if data.draw(st.booleans()))
    problem = problem_of(case, Exhaustive(), required=required)
    (rule,) = Anchor(batch_size=20, min_samples_start=5).run(problem, SearchState())
    assert problem.meets_requirements(rule)


def test_a_budget_stops_the_search_with_the_best_so_far_in_its_state() -> None:
    case = random_case(4, density=0.4)
    full = problem_of(case, Exhaustive())
    Anchor().run(full, SearchState())
    state = SearchState()
    problem = problem_of(case, Exhaustive(), budget=Budget(evaluations=full.meter.evaluations - 1))
    with pytest.raises(BudgetExhausted):
        Anchor().run(problem, state)
    assert state.best
    assert problem.meter.evaluations < full.meter.evaluations


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("threshold", 0.0), ("threshold", 1.5), ("delta", 0.0), ("tau", -1.0), ("epsilon_stop", 0.0)),
        *(("batch_size", 0), ("beam_size", 0), ("coverage_samples", 0), ("min_samples_start", 0)),
    ],
)
def test_parameters_that_make_no_sense_are_refused(option: str, value: float) -> None:
    with pytest.raises(InputError, match=f"{option} must be .*, got {value}"):
        Anchor(**{option: value})  # type: ignore[arg-type]
