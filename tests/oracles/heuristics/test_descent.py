"""FISTA and Adam on losses whose least is known, MAD weights by hand, and what is asked only once."""

from __future__ import annotations

import numpy as np
import pytest
from mixed_models import PEOPLE, query_about

from ironrule.arrays import Float64Array
from ironrule.oracles.heuristics.asked_points import AskedPoints
from ironrule.oracles.heuristics.candidates import CandidateSearch
from ironrule.oracles.heuristics.descent import Adam, ChangePenalty, PermittedRange, descend
from ironrule.oracles.heuristics.distances import MadDistance, compute_weighted_median
from ironrule.oracles.heuristics.gradients import SlopedScore
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
