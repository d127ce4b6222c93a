"""DiCE: valid counterfactuals by all three ways, diverse ones where that counts, and the measure of diversity."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from linear_models import LINEAR_SPACE, FunctionModel, linear_query
from mixed_models import explain_people, forget_normal_form, query_about

from ironrule.errors import InputError
from ironrule.oracles.heuristics.candidates import CandidateSearch
from ironrule.oracles.heuristics.dice import DiCE
from ironrule.oracles.heuristics.diversity import MeanDistance, choose_diverse, compute_diversity
from ironrule.rule.box import Box
from ironrule.verdict.verdict import Refuted, Unrefuted
from tiny_cases import run_of

METHODS: list[Any] = ["random", "genetic", "gradient"]
every_method = pytest.mark.parametrize("method", METHODS)


@every_method
@pytest.mark.parametrize("name", ["linear", "network"])
def test_k_different_counterfactuals_are_found_without_useless_changes(method: Any, name: str) -> None:
    for row in range(2):
        query = query_about(name, row, k=4)
        verdict = DiCE(method=method, samples=200).find(query, run_of(seed=row))
        assert isinstance(verdict, Refuted)
        assert len(np.unique(verdict.points, axis=0)) == len(verdict.points) == 4
        assert query.case.model.desired(verdict.points).all()
        first = verdict.points[0]
        for feature in np.flatnonzero(first != query.case.instance):
            without = first.copy()
            without[feature] = query.case.instance[feature]
            assert not query.case.model.desired(without[None, :])[0]


@every_method
def test_the_same_seed_gives_the_same_set(method: Any) -> None:
    found = [DiCE(method=method, samples=100, steps=60).find(query_about("linear", k=3), run_of()) for _ in range(2)]
    first, second = (verdict.points for verdict in found if isinstance(verdict, Refuted))
    assert np.array_equal(first, second)


def test_ways_without_a_gradient_need_answers_alone() -> None:
    query = query_about("forest", k=2)
    silent = replace(query, case=replace(forget_normal_form(query.case), scoring_model=None))
    for method in METHODS[:2]:
        assert isinstance(DiCE(method=method, samples=200).find(silent, run_of()), Refuted)
    with pytest.raises(InputError, match="needs a model that gives scores"):
        DiCE(method="gradient").find(silent, run_of())


@every_method
def test_what_the_box_fixes_stays_and_where_nothing_may_change_nothing_is_found(method: Any) -> None:
    query = linear_query([1.0, -2.0, 0.5], limit=-30.0, instance=[30, 60, 40], k=3)
    box = Box(np.array([30, 60, 40], np.int32), np.array([100, 60, 100], np.int32))
    dice = DiCE(method=method, samples=200)
    verdict = dice.find(replace(query, box=box), run_of())
    assert isinstance(verdict, Refuted)
    assert box.contains(verdict.points).all()
    nothing = Box(query.case.instance.copy(), query.case.instance.copy())
    assert isinstance(dice.find(replace(query, box=nothing), run_of()), Unrefuted)


@pytest.mark.parametrize("method", ["random", "genetic"])
def test_a_diverse_set_goes_both_ways_and_a_near_one_the_shorter(method: Any) -> None:
    # Either a or b above 60: a differs more among past rows, so that the way along a is shorter by far.
    query = linear_query([0.0] * 3, 0.0, [55, 40, 50], k=2)
    model = FunctionModel(lambda points: ((points[:, 0] > 60) | (points[:, 1] > 60)) - 0.5)
    query = replace(query, case=replace(query.case, model=model, scoring_model=None, tabulated_model=None))
    sets = []
    for weight in (0.0, 10.0):
        verdict = DiCE(method=method, proximity_weight=0.05, diversity_weight=weight).find(query, run_of())
        assert isinstance(verdict, Refuted)
        sets.append({tuple(np.flatnonzero(point != query.case.instance).tolist()) for point in verdict.points})
    assert sets == [{(0,)}, {(0,), (1,)}]


def test_the_descent_makes_a_set_more_diverse_where_diversity_counts() -> None:
    values = []
    for weight in (0.0, 2.0):
        query = linear_query([1.0, -1.0, 0.7], limit=20.0, instance=[30, 60, 40], k=3)
        verdict = DiCE(method="gradient", diversity_weight=weight, undo_changes=False).find(query, run_of())
        search = CandidateSearch.build(query, run_of())
        assert isinstance(verdict, Refuted)
        assert search is not None
        values.append(compute_diversity(MeanDistance.build(search), search.encoding.encode(verdict.points))[0])
    assert values[1] > 2.0 * values[0]


def test_the_gradient_of_the_diversity_is_what_differences_give() -> None:
    search = CandidateSearch.build(query_about("linear"), run_of())
    assert search is not None
    distance, width = MeanDistance.build(search), 1e-6
    vectors = np.random.default_rng(0).uniform(size=(3, search.encoding.width))
    value, gradient = compute_diversity(distance, vectors)
    assert 0.0 < value < 1.0
    for place in np.ndindex(*vectors.shape):
        step = np.zeros_like(vectors)
        step[place] = width
        ends = [compute_diversity(distance, vectors + side * step)[0] for side in (1.0, -1.0)]
        assert gradient[place] == pytest.approx((ends[0] - ends[1]) / (2 * width), rel=1e-4, abs=1e-7)
    assert compute_diversity(distance, vectors[[0, 0]])[0] == pytest.approx(0.0, abs=1e-5)


def test_a_pair_is_chosen_that_is_best_beside_the_nearest_one() -> None:
    query = linear_query([0.0] * 3, 0.0, [50, 50, 50])
    search = CandidateSearch.build(query, run_of())
    assert search is not None
    distance = MeanDistance.build(search)
    vectors = np.random.default_rng(0).uniform(size=(30, len(LINEAR_SPACE)))
    weights: dict[str, Any] = {"proximity_weight": 0.3, "diversity_weight": 1.0}
    chosen = choose_diverse(distance, vectors, search.center, 2, **weights)
    far = distance.measure(vectors, search.center)
    assert chosen[0] == far.argmin()

    def value(pair: tuple[int, ...]) -> float:
        return compute_diversity(distance, vectors[list(pair)])[0] - 0.3 / 2 * float(far[list(pair)].sum())

    best = max((pair for pair in combinations(range(30), 2) if chosen[0] in pair), key=value)
    assert set(best) == set(chosen.tolist())
    near = choose_diverse(distance, vectors, search.center, 5, proximity_weight=1.0, diversity_weight=0.0)
    assert near.tolist() == np.argsort(far)[:5].tolist()


def test_distances_are_means_over_numbers_and_over_categories() -> None:
    search = CandidateSearch.build(query_about("linear"), run_of())
    assert search is not None
    job = search.query.case.space.names.index("job")
    other = search.start.copy()
    other[job] = (other[job] + 1) % 3
    vector = search.encoding.encode(other[None, :])
    assert MeanDistance.build(search).measure(vector, search.center) == pytest.approx([1.0])


def test_an_explainer_finds_counterfactuals_by_it() -> None:
    explainer = explain_people("network")
    denied = int(np.flatnonzero(~explainer._context.outcomes)[0])
    found = explainer.counterfactuals(denied, k=3, algorithm=DiCE(), constraints=["cf.income == x.income"])
    assert len(found) == 3
    assert all(item.values["income"] == found.instance["income"] for item in found)
    assert found.statistics.algorithm == "DiCE"


@pytest.mark.parametrize(
    "wrong", [{"method": "best"}, {"samples": 0}, {"diversity_weight": -1}, {"learning_rate": 0}, {"steps": 1.5}]
)
def test_options_that_make_no_sense_are_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="must be"):
        DiCE(**wrong)
