"""FISTA and Adam on losses whose least is known, MAD weights by hand, and what is asked only once."""

from __future__ import annotations

import numpy as np
import pytest
from mixed_models import PEOPLE, query_about

from ironrule.arrays import Float64Array
from ironrule.oracles.heuristics.asked_points import AskedPoints
from ironrule.oracles.heuristics.candidates import CandidateSearch
from ironrule.oracles.heuristics.descent import (
    Adam,
    ChangePenalty,
    PermittedRange,
    build_score_loss,
    descend,
    descend_by_fixed_steps,
)
from ironrule.oracles.heuristics.distances import MadDistance, compute_weighted_median
from ironrule.oracles.heuristics.gradients import ScoreGradient, SlopedScore
from tiny_cases import run_of


def search_people(name: str = "linear") -> CandidateSearch:
    found = CandidateSearch.build(query_about(name), run_of())
    assert found is not None
    return found


def test_fista_shrinks_small_changes_to_none_and_stays_in_the_range() -> None:
    # Each column by itself: (v - aim)^2 + weight * |v - start|, so v is nearer to start by weight / 2, or at start.
    start, aim = np.array([0.5, 0.5, 0.5, 0.5]), np.array([0.9, 0.52, 0.1, 2.0])
    penalty = ChangePenalty(start, np.full(4, 0.1), PermittedRange(np.zeros(4), np.ones(4)))
    loss = lambda v: SlopedScore(float(((v - aim) ** 2).sum()), 2.0 * (v - aim))  # noqa: E731
    *_, last = descend(loss, penalty, start, 100)
    assert last == pytest.approx([0.85, 0.5, 0.15, 1.0])
    assert last[1] == 0.5


def test_fista_settles_in_a_long_narrow_valley() -> None:
    penalty = ChangePenalty(np.zeros(2), np.zeros(2), PermittedRange(-np.ones(2), np.ones(2)))
    scale, aim = np.array([1.0, 400.0]), np.array([0.7, 0.3])
    loss = lambda v: SlopedScore(float(scale @ (v - aim) ** 2), 2.0 * scale * (v - aim))  # noqa: E731
    *_, last = descend(loss, penalty, np.zeros(2), 1_000)
    assert last == pytest.approx(aim, abs=1e-5)


def test_fista_gives_up_where_the_gradient_says_nothing_true() -> None:
    penalty = ChangePenalty(np.zeros(1), np.zeros(1), PermittedRange(-np.ones(1), np.ones(1)))
    assert list(descend(lambda v: SlopedScore(float(abs(v[0])), np.array([1.0])), penalty, np.zeros(1), 10)) == []


def test_adam_finds_the_bottom() -> None:
    adam, vector, aim = Adam(0.05), np.zeros(3), np.array([1.0, -2.0, 0.5])
    for _ in range(600):
        vector = adam.move(vector, 2.0 * (vector - aim))
    assert vector == pytest.approx(aim, abs=1e-2)


@pytest.mark.parametrize("counts", [[1, 1, 1, 1], [3, 0, 1, 2], [0, 0, 5, 0], [2, 2, 0, 0]])
def test_a_weighted_median_is_that_of_the_values_written_out(counts: list[int]) -> None:
    values = np.array([3.0, 1.0, 7.0, 2.0])
    assert compute_weighted_median(values, np.array(counts)) == np.median(np.repeat(values, counts))


def test_the_mad_is_that_of_the_past_rows() -> None:
    search = search_people()
    names = search.query.case.space.names
    weights = MadDistance.build(search).weights
    for name in ("income", "debt"):
        column, scale = PEOPLE[name].to_numpy(), float(np.ptp(PEOPLE[name].to_numpy()))
        mad = float(np.median(np.abs(column - np.median(column)))) / scale
        assert weights[search.encoding.starts[names.index(name)]] == pytest.approx(1.0 / mad)
    job = names.index("job")
    other = np.tile(search.start, (2, 1))
    other[1, job] = (other[1, job] + 1) % 3
    assert MadDistance.build(search)(other) == pytest.approx([0.0, 1.0])


def test_a_point_is_asked_about_once() -> None:
    asked = AskedPoints(search_people())
    points = asked.case.history.codes.points()[:5]
    first = asked.ask(np.concatenate([points, points[:2]]))
    assert asked.run.meter.evaluations == len(np.unique(points, axis=0))
    assert np.array_equal(asked.ask(points), first[:5])
    assert asked.run.meter.evaluations == len(np.unique(points, axis=0))
    assert len(asked.found) == len(np.unique(points[first[:5]], axis=0))


def test_the_permitted_range_is_that_of_the_codes() -> None:
    search = search_people()
    vectors: Float64Array = search.encoding.encode(search.query.case.history.codes.points())
    permitted = PermittedRange.build(search)
    assert permitted.low.tolist() == vectors.min(axis=0).tolist()
    assert permitted.high.tolist() == vectors.max(axis=0).tolist()
    job = search.query.case.space.names.index("job")
    start = int(search.encoding.starts[job])
    fixed = permitted.fix_categories(search, search.start)
    assert fixed.low[start : start + 3].tolist() == fixed.high[start : start + 3].tolist()
    assert fixed.low[start : start + 3].tolist() == np.eye(3)[search.start[job]].tolist()
    others = [j for j in range(search.encoding.width) if not start <= j < start + 3]
    assert np.array_equal(fixed.high[others], permitted.high[others])


WIDE = PermittedRange(np.full(3, -9.0), np.full(3, 9.0))
SLOPE = np.array([-3.0, 1.0, 0.05])


def slide(vector: Float64Array) -> SlopedScore:
    """A loss with the same slope everywhere."""
    return SlopedScore(float(SLOPE @ vector), SLOPE)


def test_fixed_steps_begin_with_the_whole_rate_and_shrink_changes_by_the_rate_times_their_weight() -> None:
    start = np.array([0.5, 0.5, 0.5])
    penalty = ChangePenalty(start, np.array([0.5, 0.1, 0.1]), WIDE)
    first = next(descend_by_fixed_steps(slide, penalty, start, 10, rate=0.2))
    # Against the slope 0.2 times as far as it is steep, less 0.2 times the weight; what is less than that is nothing.
    assert first == pytest.approx([0.5 + 0.6 - 0.1, 0.5 - 0.2 + 0.02, 0.5])
    assert first[2] == 0.5


def test_fixed_steps_become_shorter_as_a_square_root_and_keep_their_momentum() -> None:
    way = list(descend_by_fixed_steps(slide, ChangePenalty(np.zeros(3), np.zeros(3), WIDE), np.zeros(3), 4))
    moves = np.diff(np.stack([np.zeros(3), *way]), axis=0)
    # Each move is its own step, and so much of the move before as FISTA has: 0, 1/4, 2/5.
    expected = [-0.1 * SLOPE]
    for length, momentum in ((0.75, 0.0), (0.5, 0.25), (0.25, 0.4)):
        expected.append(momentum * expected[-1] - 0.1 * length**0.5 * SLOPE)
    assert moves == pytest.approx(np.stack(expected))


def test_fixed_steps_begin_anew_and_stay_in_the_range() -> None:
    penalty = ChangePenalty(np.zeros(3), np.zeros(3), PermittedRange(np.full(3, -0.25), np.full(3, 0.25)))
    ways = [np.stack(list(descend_by_fixed_steps(slide, penalty, np.zeros(3), 5))) for _ in range(2)]
    assert np.array_equal(*ways)
    assert len(ways[0]) == 5
    assert ways[0][-1].tolist()[:2] == [0.25, -0.25]
    assert -0.25 < ways[0][-1][2] < ways[0][0][2] < 0.0


def test_fixed_steps_end_where_the_penalised_loss_is_least() -> None:
    start, aim = np.array([0.5, 0.5, 0.5]), np.array([0.9, 0.52, 0.1])
    penalty = ChangePenalty(start, np.full(3, 0.1), PermittedRange(np.zeros(3), np.ones(3)))
    loss = lambda v: SlopedScore(float(((v - aim) ** 2).sum()), 2.0 * (v - aim))  # noqa: E731
    *_, last = descend_by_fixed_steps(loss, penalty, start, 400)
    assert last == pytest.approx([0.85, 0.5, 0.15], abs=1e-4)
    assert last[1] == 0.5


def test_steps_ask_about_the_next_vectors_together_and_pass_the_same_ones() -> None:
    aim, told = np.array([0.7, 0.3, -0.4]), list[list[Float64Array]]()
    loss = lambda v: SlopedScore(float(50.0 * ((v - aim) ** 2).sum()), 100.0 * (v - aim))  # noqa: E731
    penalty = ChangePenalty(np.zeros(3), np.full(3, 0.1), WIDE)
    unprepared = list[Float64Array]()

    def measure(vector: Float64Array) -> SlopedScore:
        if not any(np.array_equal(vector, one) for group in told for one in group):
            unprepared.append(vector)
        return loss(vector)

    def prepare(vectors: list[Float64Array]) -> None:
        told.append(list(vectors))

    passed = list(descend(loss, penalty, np.zeros(3), 30))
    prepared = list(descend(measure, penalty, np.zeros(3), 30, prepare))
    assert np.array_equal(np.stack(passed), np.stack(prepared))
    assert {len(one) for one in told} == {2, 3}  # the end of a step and where the next begins; three halved steps
    assert [one.tolist() for one in unprepared] == [[0.0, 0.0, 0.0]]  # where the way begins


def test_the_loss_of_a_score_is_in_units_of_the_row_and_has_the_gradient_that_differences_give() -> None:
    search = search_people()

    class Linear:
        """Two at the row, and steeper in the first column."""

        def evaluate(self, vector: Float64Array) -> SlopedScore:
            slope = np.linspace(3.0, 1.0, search.encoding.width)
            return SlopedScore(-2.0 + float(slope @ (vector - search.center)), slope)

        def prepare(self, _: object) -> None:
            raise AssertionError

    gradient: ScoreGradient = Linear()
    loss = build_score_loss(search, gradient, lambda score: (score**2, 2.0 * score), square_weight=0.5)
    assert loss(search.center).score == 1.0  # the row is one unit away
    away = search.center + np.linspace(0.1, 0.3, search.encoding.width)
    change = away - search.center
    score = (-2.0 + float(np.linspace(3.0, 1.0, search.encoding.width) @ change)) / 2.0
    assert loss(away).score == pytest.approx(score**2 + 0.5 * float(change @ change))
    steps = np.eye(len(away)) * 1e-6
    differences = [(loss(away + one).score - loss(away - one).score) / 2e-6 for one in steps]
    assert loss(away).gradient == pytest.approx(differences, rel=1e-5)


def test_a_way_is_asked_about_some_vectors_at_a_time_and_says_where_it_ends() -> None:
    search = search_people()
    rows = search.query.case.history.codes.points()[:120]
    vectors, one_by_one = search.encoding.encode(rows), AskedPoints(search_people())
    reached = [one_by_one.ask_vector(vector) for vector in vectors]
    asked = AskedPoints(search)
    end = asked.ask_way(iter(vectors), at_once=50)
    assert end is not None
    assert np.array_equal(end.vector, vectors[-1])
    assert end.reached == reached[-1]
    assert {point.tobytes() for point in asked.found} == {point.tobytes() for point in one_by_one.found}
    assert asked.run.meter.evaluations == one_by_one.run.meter.evaluations
    assert asked.run.meter.calls <= 6 < one_by_one.run.meter.calls  # each time the nearest points, then those beyond
    assert asked.ask_way(iter(vectors[:0])) is None
