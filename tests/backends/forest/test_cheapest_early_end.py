"""The search for the cheapest counterfactuals, ended early: what is called proven by then, against every point."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier
from test_cheapest_search import FEATURES, SIZE, SPACES, Space, measure_points
from test_cheapest_sequence import NO_SETS, assert_each_is_cheapest

from ironrule import Explainer
from ironrule.arrays import BoolArray, Points
from ironrule.backends.backend import NearestRequest
from ironrule.backends.forest import cheapest
from ironrule.backends.forest.backend import build_nearest_search
from ironrule.backends.forest.cheapest import CheapestSearch, prove_cheapest
from ironrule.backends.forest.cheapest_sequence import CheapestSequence
from ironrule.backends.forest.compile import decide_points
from ironrule.backends.forest.nearest import ForestNearestSearch
from ironrule.backends.forest.workspace import allocate_forest_workspace
from ironrule.backends.registry import find_nearest
from ironrule.explain.query import build_case
from ironrule.oracles.protocol import BoxQuery, Run
from ironrule.rule.cost import CostTable
from ironrule.verdict.budget import Budget, BudgetExhausted, Meter
from tiny_cases import every_point, run_of

WANTED, LIMIT = 4, 150.0  # above all costs


def draw_cost(space: Space, seed: int) -> CostTable:
    """Random costs, far lower for some features than for others, so that counterfactuals differ in cost."""
    rng = np.random.default_rng(seed)
    parts = [rng.choice([0.3, 1.0, 2.0]) * rng.random(int(size)) * 10 for size in space.case.space.sizes]
    for part, own in zip(parts, space.case.instance, strict=True):
        part[own] = 0.0
    return CostTable(tuple(parts), "sum")


def build_search(space: Space, query: BoxQuery) -> ForestNearestSearch:
    search = build_nearest_search(NearestRequest(space.tabulated, query, 100_000, None, None))
    assert isinstance(search, ForestNearestSearch)
    return search


def start_searches(search: ForestNearestSearch, sequence: CheapestSequence) -> list[CheapestSearch]:
    """One for each forest, that makes problems of their own of small boxes too."""
    searches = []
    for place, forest in enumerate(search.forests):
        tables = sequence.prepare(search._start(place, forest, sequence.earlier).tables)
        searches.append(CheapestSearch(forest, tables, allocate_forest_workspace(forest), least_leaves=0))
    return searches


def check_prefix(sequence: CheapestSequence, space: Space, desired: BoolArray, cost: CostTable) -> int:
    """Compare what is proven of a sequence with every desired point; how many are."""
    points, count = space.points[desired], sequence.proven_count
    is_whole = sequence.proven_below == math.inf and sequence.limit == LIMIT
    found = sequence.candidates[:count]
    assert_each_is_cheapest(found, measure_points(cost, points), points != space.case.instance, is_whole=is_whole)
    return count


@pytest.mark.parametrize("most_deferred", [1, 2_000])
def test_what_is_proven_after_any_number_of_boxes(most_deferred: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cheapest, "MAX_DEFERRED", most_deferred)
    partial = 0
    for number, space in enumerate(SPACES.values()):
        cost = draw_cost(space, number)
        query = BoxQuery(space.case, space.case.components.box(0), WANTED, cost=cost)
        search, whole = build_search(space, query), CheapestSequence(WANTED, LIMIT, NO_SETS)
        used = 100_000 - prove_cheapest(start_searches(search, whole), query, search.costs, whole, 100_000, run_of())
        assert check_prefix(whole, space, space.desired, cost) == len(whole.candidates)
        for boxes in {*range(0, used, max(1, used // 15)), *range(max(0, used - 15), used)}:
            sequence = CheapestSequence(WANTED, LIMIT, NO_SETS)
            prove_cheapest(start_searches(search, sequence), query, search.costs, sequence, boxes, run_of())
            partial += 0 < check_prefix(sequence, space, space.desired, cost) < len(sequence.candidates)
    assert partial  # some are known before the others


def test_what_is_proven_of_several_forests_that_are_searched_in_turn() -> None:
    """One of two classes of three: a point is desired where one of two forests says so."""
    rng = np.random.default_rng(3)
    table = rng.integers(0, SIZE, (400, FEATURES))
    table[:SIZE] = np.arange(SIZE)[:, None]
    classes = rng.choice(3, len(table), p=[0.7, 0.15, 0.15])
    model = GradientBoostingClassifier(n_estimators=25, max_depth=5, random_state=0).fit(table, classes)
    explainer = Explainer(model, table, desired=[1, 2], progress=False)
    context, partial, lengths = explainer._context, 0, set[int]()
    assert context.compiled_model is not None
    for row in explainer.row_numbers[~explainer.outcomes][:3].tolist():
        case = build_case(context, row)
        points = every_point(case.space)
        points = points[case.model.desired(points)]
        parts = [rng.random(int(size)) * 10 for size in case.space.sizes]
        for part, own in zip(parts, case.instance, strict=True):
            part[own] = 0.0
        cost = CostTable(tuple(parts), "sum")
        query = BoxQuery(case, case.components.box(0), WANTED, cost=cost)
        search = build_nearest_search(NearestRequest(context.compiled_model.tabulated, query, 100_000, None, None))
        assert isinstance(search, ForestNearestSearch)
        assert len(search.forests) > 1
        for boxes in itertools.count(0, 3):
            sequence = CheapestSequence(WANTED, LIMIT, NO_SETS)
            prove_cheapest(start_searches(search, sequence), query, search.costs, sequence, boxes, run_of())
            found = sequence.candidates[: sequence.proven_count]
            assert_each_is_cheapest(found, measure_points(cost, points), points != case.instance)
            partial += 0 < len(found) < len(sequence.candidates)
            if sequence.proven_below == math.inf:
                break
        lengths.add(len(sequence.candidates))
    assert partial
    assert max(lengths) > 1


@dataclass(frozen=True, slots=True)
class LastWord:
    """A model that decides otherwise where its reading leaves that open."""

    desired_points: frozenset[tuple[int, ...]]

    def desired(self, points: Points) -> BoolArray:
        return np.array([tuple(point) in self.desired_points for point in points.tolist()], dtype=np.bool_)


def test_what_is_proven_where_the_model_denies_what_its_reading_leaves_open() -> None:
    """Half of the points that rounding could turn are denied; others of the same cells are not."""
    asked, partial = 0, 0
    for number, space in enumerate(SPACES.values()):
        rng, cost = np.random.default_rng(number), draw_cost(space, number)
        plain = build_search(space, BoxQuery(space.case, space.case.components.box(0), WANTED, cost=cost))
        (forest,) = plain.forests
        size = np.abs(forest.leaf_values[np.isfinite(forest.leaf_values)]).max()
        forest = forest._replace(slack=np.maximum(forest.slack, size))
        possible, sure = decide_points(forest, space.points)
        desired = sure | (possible & (rng.random(len(possible)) < 0.5))
        model: Any = LastWord(frozenset(map(tuple, space.points[desired].tolist())))
        query = BoxQuery(replace(space.case, model=model), space.case.components.box(0), WANTED, cost=cost)
        search = replace(plain, forests=[forest], query=query)
        whole, run = CheapestSequence(WANTED, LIMIT, NO_SETS), run_of()
        used = 100_000 - prove_cheapest(start_searches(search, whole), query, search.costs, whole, 100_000, run)
        asked += run.meter.evaluations > 0
        assert check_prefix(whole, space, desired, cost) == len(whole.candidates)
        for boxes in {*range(0, used, max(1, used // 15)), *range(max(0, used - 15), used)}:
            sequence = CheapestSequence(WANTED, LIMIT, NO_SETS)
            prove_cheapest(start_searches(search, sequence), query, search.costs, sequence, boxes, run_of())
            partial += 0 < check_prefix(sequence, space, desired, cost) < len(sequence.candidates)
    assert asked == len(SPACES)
    assert partial


@pytest.mark.parametrize("stop", [BudgetExhausted, KeyboardInterrupt])
@pytest.mark.parametrize("key", [("boosted", 0), ("forest", 2)])
def test_what_is_proven_wherever_the_budget_ends(
    key: tuple[str, int], stop: Callable[[], BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every place where the search looks at its budget."""
    monkeypatch.setattr(cheapest, "BOXES_PER_LOOK", 1)
    space, seen = SPACES[key], set[int]()
    cost = draw_cost(space, 1)
    query = BoxQuery(space.case, space.case.components.box(0), WANTED, cost=cost)
    points = space.points[space.desired]
    costs, changed = measure_points(cost, points), points != space.case.instance
    looks, ended = 0, False
    while not ended:
        left = looks

        def count_down(_: Meter) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise stop

        run = Run(Meter(Budget(callback=count_down)), np.random.default_rng(0))
        found = find_nearest(space.tabulated, query, run)
        ended, looks = left >= 0, looks + 1
        assert (found.stopped is not None) == (not ended)
        assert found.proven == ended
        is_left = np.ones(len(costs), dtype=np.bool_)
        for point in found.points[: found.proven_count]:
            own = measure_points(cost, point[None, :])[0]
            assert own == pytest.approx(costs[is_left].min(), rel=1e-9)
            is_left &= ~changed[:, point != space.case.instance].all(axis=1)
        assert all((points == point).all(axis=1).any() for point in found.points)
        seen.add(found.proven_count)
    assert {0, WANTED} <= seen
    assert len(seen) > 2
