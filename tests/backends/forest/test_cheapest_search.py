"""The cheapest change under sums of costs, in spaces of thousands of points, where many boxes are bounded and split."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

from ironrule import Explainer
from ironrule.arrays import BoolArray, Int32Array
from ironrule.backends.backend import NearestRequest
from ironrule.backends.forest.backend import build_nearest_search
from ironrule.backends.forest.cheapest import CheapestSearch, prove_cheapest
from ironrule.backends.forest.cheapest_sequence import CheapestSequence
from ironrule.backends.forest.nearest import ForestNearestSearch
from ironrule.backends.forest.workspace import allocate_forest_workspace
from ironrule.explain.query import build_case
from ironrule.oracles.protocol import BoxQuery, Case
from ironrule.rule.cost import CostTable
from tiny_cases import every_point, run_of

SIZE, FEATURES = 4, 7
KINDS = {
    "boosted": lambda seed: GradientBoostingClassifier(n_estimators=30, max_depth=5, random_state=seed),
    "forest": lambda seed: RandomForestClassifier(n_estimators=15, random_state=seed),
}


class Space:
    """A trained model, one of its denied rows, and what the model says of every point."""

    def __init__(self, kind: str, seed: int) -> None:
        rng = np.random.default_rng(seed)
        table = rng.integers(0, SIZE, (400, FEATURES))
        table[:SIZE] = np.arange(SIZE)[:, None]
        # Nothing but noise: desired points lie scattered, and trees disagree.
        model = KINDS[kind](seed).fit(table, rng.random(len(table)) < 0.15)
        explainer = Explainer(model, table, desired=True, progress=False)
        context = explainer._context
        assert context.compiled_model is not None
        self.tabulated = context.compiled_model.tabulated
        rows = explainer.row_numbers[~explainer.outcomes]
        self.case: Case = build_case(context, int(rows[seed % len(rows)]))
        self.points: Int32Array = every_point(self.case.space)
        self.desired: BoolArray = self.case.model.desired(self.points)


SPACES = {(kind, seed): Space(kind, seed) for kind in KINDS for seed in range(3)}


@st.composite
def cost_tables(draw: st.DrawFn, case: Case) -> CostTable:
    """A weight for each feature, times how far a value is away, or its square; some changes are forbidden or free."""
    weights = draw(st.lists(st.sampled_from([0.1, 1.0, 1.3, 2.0, 17.0]), min_size=FEATURES, max_size=FEATURES))
    power, own_charge = draw(st.sampled_from([1, 2])), draw(st.sampled_from([0.0, 0.0, 0.5]))
    random: Random = draw(st.randoms(use_true_random=False))
    parts = []
    for weight, size, own in zip(weights, case.space.sizes.tolist(), case.instance.tolist(), strict=True):
        part = weight * np.abs(np.arange(size) - own) ** power + own_charge
        part += np.array([random.choice([0.0, 0.0, 0.01 * random.random(), np.inf]) for _ in range(size)])
        part[own] = 0.0
        parts.append(part)
    return CostTable(tuple(parts), "sum")


def measure_points(cost: CostTable, points: Int32Array) -> Any:
    return np.sum([part[points[:, j]] for j, part in enumerate(cost.parts)], axis=0)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(sorted(SPACES)), st.integers(1, 3), st.data())
def test_each_is_the_cheapest_of_thousands_of_points(key: tuple[str, int], k: int, data: st.DataObject) -> None:
    space = SPACES[key]
    case, cost = space.case, data.draw(cost_tables(space.case))
    query = BoxQuery(case, case.components.box(0), k, cost=cost)
    search = build_nearest_search(NearestRequest(space.tabulated, query, 100_000, None, None))
    assert isinstance(search, ForestNearestSearch)
    left, found = space.desired & np.isfinite(measure_points(cost, space.points)), list[Int32Array]()
    for _ in range(k):
        search.best = None
        assert search.next(found, run_of())
        if search.best is None:
            assert not left.any()
            return
        place = np.flatnonzero((space.points == search.best).all(axis=1))
        assert left[place].all()
        own = measure_points(cost, search.best[None, :])[0]
        assert own == pytest.approx(measure_points(cost, space.points[left]).min(), rel=1e-9, abs=1e-9)
        changed = search.best != case.instance
        left &= ~(space.points != case.instance)[:, changed].all(axis=1)
        found.append(search.best)


def test_the_search_without_a_first_answer_ends_with_the_same_proof() -> None:
    """From a limit above all costs; the quick answers are not what makes it right."""
    seen = 0
    for key, space in SPACES.items():
        rng = np.random.default_rng(key[1])
        parts = [rng.random(int(size)) * 10 for size in space.case.space.sizes]
        for part, own in zip(parts, space.case.instance, strict=True):
            part[own] = 0.0
        query = BoxQuery(space.case, space.case.components.box(0), 1, cost=CostTable(tuple(parts), "sum"))
        search = build_nearest_search(NearestRequest(space.tabulated, query, 100_000, None, None))
        assert isinstance(search, ForestNearestSearch)
        none = np.zeros((0, FEATURES), dtype=np.bool_)
        sequence = CheapestSequence(1, 1e9, none)
        tables = sequence.prepare(search._start(0, search.forests[0], none).tables)
        one = CheapestSearch(search.forests[0], tables, allocate_forest_workspace(search.forests[0]))
        boxes = prove_cheapest([one], query, search.costs, sequence, 100_000, run_of())
        assert sequence.proven_below == math.inf
        seen += 100_000 - boxes
        least = measure_points(query.cost, space.points[space.desired]).min()
        (point,) = sequence.points
        assert search.costs.measure_point(point) == pytest.approx(least)
    assert seen > 20 * len(SPACES)  # boxes were split, and not all closed at once
