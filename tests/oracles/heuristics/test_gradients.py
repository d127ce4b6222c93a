"""Gradients of scores against differences of the scores themselves, and scores against those of the normal form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from mixed_models import forget_normal_form, query_about

from ironrule.arrays import Float64Array
from ironrule.errors import InputError
from ironrule.model.normal_form.tree_sum import Link
from ironrule.oracles.heuristics.candidates import CandidateSearch
from ironrule.oracles.heuristics.encoding import NumericEncoding
from ironrule.oracles.heuristics.feature_sums import TabulatedSum
from ironrule.oracles.heuristics.gradients import (
    DifferenceGradient,
    ScoreGradient,
    build_curve,
    build_point_score,
    build_score_gradient,
)
from ironrule.oracles.protocol import BoxQuery
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from tiny_cases import run_of

SMOOTH = [("linear", False), ("linear", True), ("network", False), ("network", True)]


def search_for(query: BoxQuery) -> CandidateSearch:
    found = CandidateSearch.build(query, run_of())
    assert found is not None
    return found


def difference(gradient: ScoreGradient, vector: Float64Array, width: float = 1e-7) -> Float64Array:
    """The gradient of the score by differences of the score."""
    steps = np.eye(len(vector)) * width
    return np.array(
        [(gradient.evaluate(vector + s).score - gradient.evaluate(vector - s).score) / (2 * width) for s in steps]
    )


@pytest.mark.parametrize(("name", "grades"), SMOOTH)
def test_an_analytic_gradient_is_what_differences_of_the_score_give(name: str, grades: bool) -> None:
    search = search_for(query_about(name, grades=grades))
    gradient = build_score_gradient(search)
    assert not isinstance(gradient, DifferenceGradient)
    for vector in np.random.default_rng(1).uniform(size=(20, search.encoding.width)):
        assert gradient.evaluate(vector).gradient == pytest.approx(difference(gradient, vector), rel=1e-4, abs=1e-5)
    assert search.run.meter.evaluations == 0


@pytest.mark.parametrize(("name", "grades"), SMOOTH)
def test_at_points_the_score_is_that_of_the_normal_form_and_has_the_sign_of_the_outcome(
    name: str, grades: bool
) -> None:
    query = query_about(name, grades=grades)
    search, points = search_for(query), query.case.history.codes.points()[:100]
    gradient, score_points = build_score_gradient(search), build_point_score(query.case, run_of())
    own = [gradient.evaluate(vector).score for vector in search.encoding.encode(points)]
    assert own == pytest.approx(score_points(points))
    assert np.array_equal(np.array(own) > 0, query.case.model.desired(points))


@pytest.mark.parametrize(("name", "grades"), SMOOTH)
def test_differences_of_points_come_near_to_the_analytic_gradient(name: str, grades: bool) -> None:
    query = query_about(name, grades=grades)
    search = search_for(query)
    exact = build_score_gradient(search)
    differences = DifferenceGradient(search, build_point_score(query.case, search.run))
    for vector in search.encoding.encode(query.case.history.codes.points()[:10]):
        found, expected = differences.evaluate(vector), exact.evaluate(vector)
        assert found.score == pytest.approx(expected.score)
        if name == "linear" and not grades:  # a sum: in each feature the same slope everywhere
            numbers = [search.encoding.starts[j] for j in range(3) if search.encoding.ordered[j]]
            assert found.gradient[numbers] == pytest.approx(expected.gradient[numbers])
        cosine = found.gradient @ expected.gradient / np.linalg.norm(found.gradient) / np.linalg.norm(expected.gradient)
        assert cosine > 0.5


def test_of_a_model_that_was_not_read_the_scores_are_asked_for_and_charged() -> None:
    query = query_about("forest")
    query = replace(query, case=forget_normal_form(query.case))
    search = search_for(query)
    gradient = build_score_gradient(search)
    assert isinstance(gradient, DifferenceGradient)
    found = gradient.evaluate(search.center)
    assert found.score < 0  # the row is denied
    assert found.gradient.any()
    assert search.run.meter.evaluations == 1 + 2 + 2 + 2  # itself, two numbers from both sides, two other categories


def test_only_feasible_points_are_asked_for_scores() -> None:
    query = query_about("forest")
    asked: list[Float64Array] = []
    score_points = build_point_score(query.case, run_of())
    search = search_for(query)

    def remember(points: Float64Array) -> Float64Array:
        asked.append(points)
        return score_points(points)

    low, high = query.case.instance.copy(), query.box.high
    up = search_for(replace(query, box=replace(query.box, low=low, high=high)))
    DifferenceGradient(up, remember).evaluate(search.center)
    assert all((points >= low).all() for points in asked)


def test_a_model_without_scores_is_refused_with_what_would_do() -> None:
    query = query_about("linear")
    case = replace(forget_normal_form(query.case), scoring_model=None)
    with pytest.raises(InputError, match="needs a model that gives scores") as refused:
        build_score_gradient(search_for(replace(query, case=case)))
    assert refused.value.code == "scores-required"


def test_curves_are_linear_between_values_and_mix_missing_by_its_share() -> None:
    feature = Feature("size", (1, 2, 5), ordered=True, missing=True)
    encoding = NumericEncoding.build(Space((feature,)))
    curve = build_curve(encoding, 0, np.array([[10.0], [20.0], [50.0], [7.0]]))
    value, slope = curve.evaluate(np.array([0.625, 0.0]))  # 3.5, in the middle of 2 and 5
    assert (float(value[0]), slope[:, 0].tolist()) == (35.0, [40.0, 7.0 - 35.0])
    value, slope = curve.evaluate(np.array([0.5, 1.0]))
    assert (float(value[0]), slope[0, 0]) == (7.0, 0.0)
    alone = build_curve(NumericEncoding.build(Space((Feature("one", (3,), ordered=True),))), 0, np.array([[4.0]]))
    assert [part.tolist() for part in alone.evaluate(np.array([0.3]))] == [[4.0], [[0.0]]]


@pytest.mark.parametrize(
    "link", [Link(), Link("logistic", scale=2.0, slope=3.0, shift=0.5), Link("logistic", scale=0.5)]
)
def test_the_limit_of_a_sum_is_where_its_margin_is_zero(link: Link) -> None:
    one = TabulatedSum((), constant=0.25, offset=-0.4, link=link, has_steps=False)
    value, slope = one.apply(one.limit)
    assert value == pytest.approx(0.0, abs=1e-12)
    assert slope == pytest.approx((one.apply(one.limit + 1e-6)[0] - one.apply(one.limit - 1e-6)[0]) / 2e-6, rel=1e-4)


def forest_search() -> CandidateSearch:
    query = query_about("forest")
    return search_for(replace(query, case=forget_normal_form(query.case)))


def test_vectors_that_are_prepared_together_take_one_question_and_have_the_same_gradients() -> None:
    alone, together = forest_search(), forest_search()
    vectors = list(alone.encoding.encode(alone.query.case.history.codes.points()[:40]))
    by_itself, prepared = build_score_gradient(alone), build_score_gradient(together)
    expected = [by_itself.evaluate(vector) for vector in vectors]
    prepared.prepare(vectors)
    assert together.run.meter.calls == 1 < alone.run.meter.calls
    found = [prepared.evaluate(vector) for vector in vectors]
    assert together.run.meter.calls == 1
    for one, other in zip(found, expected, strict=True):
        assert one.score == other.score
        assert np.array_equal(one.gradient, other.gradient)
    assert together.run.meter.evaluations <= alone.run.meter.evaluations


def test_where_nothing_nearby_changes_the_score_all_longer_steps_are_one_question() -> None:
    search = forest_search()
    income = search.query.case.space.names.index("income")
    last, asked = int(search.query.case.space.sizes[income]) - 1, list[Float64Array]()

    def jump(points: Float64Array) -> Float64Array:
        asked.append(points)
        return np.asarray(points[:, income] == last) - 0.5

    start = search.center.copy()
    start[search.encoding.starts[income]] = 0.0
    found = DifferenceGradient(search, jump).evaluate(start)
    assert len(asked) == 2
    assert np.count_nonzero(found.gradient) == 1
    assert found.gradient.max() == pytest.approx(1.0)  # from one end of the range to the other, by the longest step
    everything = np.concatenate(asked)
    assert len(np.unique(everything, axis=0)) == len(everything)


def test_each_column_can_take_the_shortest_step_that_shows_anything_there() -> None:
    search = forest_search()
    income, debt = (search.query.case.space.names.index(name) for name in ("income", "debt"))

    def score(points: Float64Array) -> Float64Array:
        return 0.01 * points[:, debt] + (points[:, income] >= 30) - 0.9

    start = search.center.copy()
    start[search.encoding.starts[income]] = 0.0
    columns = [int(search.encoding.starts[j]) for j in (income, debt)]
    nearby = DifferenceGradient(search, score).evaluate(start).gradient[columns]
    assert nearby[0] == 0.0 < nearby[1]  # debt shows something nearby, so that income gets no longer step
    each = DifferenceGradient(search, score, each_column=True).evaluate(start).gradient[columns]
    assert each[0] > 0.0
    assert each[1] == nearby[1]


def test_the_gradient_of_a_model_is_built_once_for_all_rows() -> None:
    first, second = (build_score_gradient(search_for(query_about("network", row))) for row in (0, 1))
    assert first is second
    assert build_score_gradient(search_for(query_about("network", grades=True))) is not first
