"""Actionable recourse against exhaustive search over whole grids, under constraints, and on models that were read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from linear_models import FunctionModel, Slope, linear_query, tabulate_codes
from mixed_models import explain_people, query_about

from ironrule.arrays import Float64Array, Points
from ironrule.errors import ConstraintError, InputError
from ironrule.model.normal_form.tree_sum import Link, LinkedGroup, Margin, Term, TreeSum
from ironrule.oracles.heuristics.actionable_recourse import SUM_SHARE, ActionableRecourse, tabulate_costs
from ironrule.oracles.heuristics.candidates import CandidateSearch
from ironrule.oracles.protocol import BoxQuery
from ironrule.rule.box import Box
from ironrule.space.constraints.binding import bind_constraint
from ironrule.space.constraints.feasible import build_feasible_region
from ironrule.space.constraints.parser import parse_constraint
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.verdict.verdict import Refuted, Unrefuted
from tiny_cases import case_of, every_point, run_of

FEATURES = (
    Feature("age", (20, 30, 40, 50), ordered=True),
    Feature("grade", ("low", "middle", "high"), ordered=True, missing=True),
    Feature("colour", ("red", "blue", "green"), ordered=False),
    Feature("size", (0, 10, 20, 30, 40), ordered=True),
)
CONSTRAINTS = [
    ("cf.age >= x.age",),
    ("cf.age + cf.size <= 60",),
    ("if cf.colour == 'red' then cf.size >= x.size", "cf.grade != missing"),
    ("cf.age + cf.size + cf.age <= 130", "if cf.age == 30 then cf.colour == 'blue' or cf.size == 0"),
    (),
]


def random_query(seed: int, k: int) -> BoxQuery:
    """A small space, a sum with random tables (of two margins for some seeds), and random past rows."""
    rng = np.random.default_rng(seed)
    space = Space(FEATURES)
    margins = []
    for _ in range(1 + seed % 2):
        tables = [rng.normal(size=feature.size).round(2) for feature in FEATURES]
        link = Link("logistic") if seed % 3 == 0 else Link()
        terms = tuple(Term(j, lambda codes, t=table: t[np.asarray(codes, np.intp)]) for j, table in enumerate(tables))
        limit = 0.7 if seed % 3 == 0 else 0.9
        margins.append(Margin(-limit, (LinkedGroup((), link, terms),)))
    read = tabulate_codes(TreeSum((tuple(margins),)), space)
    model = FunctionModel(lambda points: read.normal_form.margins(points.astype(np.float64))[0])
    points = every_point(space)
    denied = points[~model.desired(points)]
    instance, past = denied[rng.integers(len(denied))], points[rng.integers(len(points), size=25)]
    bound = [bind_constraint(parse_constraint(text), FEATURES) for text in CONSTRAINTS[seed % len(CONSTRAINTS)]]
    try:
        allowed = build_feasible_region(FEATURES, bound, instance)
    except ConstraintError:
        return random_query(seed + 1000, k)
    table = np.zeros(space.sizes, np.bool_)
    case = replace(case_of(space, table, instance, past, allowed, model), tabulated_model=read)
    box = case.components.box(0)
    if seed % 4 == 3:  # a part of the space, which need not hold the instance
        low = rng.integers(0, 2, size=4).astype(np.int32)
        box = Box(low, box.high)
    return BoxQuery(case, box, k)


def add_costs(query: BoxQuery, points: Points, cost: Any) -> Float64Array:
    """What points cost, by their definition."""
    search = CandidateSearch.build(query, run_of())
    assert search is not None
    tables = tabulate_costs(query.case, search, cost)
    each = np.stack([table[points[:, j]] for j, table in enumerate(tables)], axis=1)
    return each.sum(axis=1) if cost == "total" else each.max(axis=1) + SUM_SHARE * each.sum(axis=1)


@pytest.mark.parametrize("seed", range(60))
def test_nothing_on_the_grid_is_cheaper(seed: int) -> None:
    query, cost = random_query(seed, k=3), ("max", "total")[seed % 2]
    points = every_point(query.case.space)
    allowed = points[query.box.contains(points) & query.case.feasible.admits(points)]
    every = allowed[query.case.model.desired(allowed)]
    verdict = ActionableRecourse(cost=cost, programs=500).find(query, run_of())
    if len(every) == 0:
        assert isinstance(verdict, Unrefuted)
        return
    assert isinstance(verdict, Refuted)
    # For every set of changed features the cheapest change, and of these the three cheapest.
    costs, cheapest = add_costs(query, every, cost), dict[bytes, float]()
    for changed, price in zip((every != query.case.instance), costs.tolist(), strict=True):
        cheapest[changed.tobytes()] = min(price, cheapest.get(changed.tobytes(), np.inf))
    assert add_costs(query, verdict.points, cost) == pytest.approx(sorted(cheapest.values())[:3], abs=1e-5)
    assert len({changed.tobytes() for changed in verdict.points != query.case.instance}) == len(verdict.points)
    assert {point.tobytes() for point in verdict.points} <= {point.tobytes() for point in every}


def test_percentiles_are_those_of_past_rows() -> None:
    past = np.array([[10, 0, 0]] * 6 + [[20, 0, 0]] * 3 + [[90, 0, 0]], np.int32)
    query = linear_query([1.0, 0.0, 0.0], 1_000.0, [10, 50, 50], past=past)
    search = CandidateSearch.build(query, run_of())
    assert search is not None
    (a, *_), (logs, *_) = (tabulate_costs(query.case, search, cost) for cost in ("max", "total"))
    assert a[[10, 15, 20, 95]] == pytest.approx([0.0, 0.0, 3 / 11, 4 / 11], abs=1e-4)
    assert logs[[9, 20, 95]] == pytest.approx([np.log(11 / 5), np.log(5 / 2), np.log(5)], abs=1e-4)


def test_a_long_domain_is_tried_at_places_spread_evenly() -> None:
    query = linear_query([1.0, 0.0, 0.0], 33.0, [10, 50, 50])
    verdict = ActionableRecourse(grid=11).find(query, run_of())
    assert isinstance(verdict, Refuted)
    assert verdict.points.tolist() == [[40, 50, 50]]


def test_several_classes_and_several_alternatives_are_served() -> None:
    for row in range(3):
        query = query_about("linear", row, grades=True, k=3)
        verdict = ActionableRecourse().find(query, run_of())
        assert isinstance(verdict, Refuted)
        assert query.case.model.desired(verdict.points).all()
    up, down = ((Margin(-60.0, (LinkedGroup((), terms=(Term(0, Slope(s)),)),)),) for s in (1.0, -1.0))
    query = linear_query([0.0] * 3, 0.0, [50, 0, 0])
    either = FunctionModel(lambda points: (points[:, 0] > 60).astype(float) - 0.5)
    read = tabulate_codes(TreeSum((down, up)), query.case.space)
    query = replace(query, case=replace(query.case, model=either, tabulated_model=read))
    verdict = ActionableRecourse().find(query, run_of())
    assert isinstance(verdict, Refuted)
    assert verdict.points.tolist() == [[61, 0, 0]]


def test_an_explainer_finds_counterfactuals_by_it() -> None:
    explainer = explain_people("linear")
    denied = int(np.flatnonzero(~explainer._context.outcomes)[0])
    found = explainer.counterfactuals(denied, k=2, algorithm=ActionableRecourse(), constraints=["cf.job == x.job"])
    assert len(found) == 2
    assert all(item.values["job"] == found.instance["job"] for item in found)
    assert found.statistics.algorithm == "ActionableRecourse"


@pytest.mark.parametrize("name", ["forest", "network"])
def test_other_models_are_refused_with_what_would_do(name: str) -> None:
    with pytest.raises(InputError, match="needs a model that was read as") as refused:
        ActionableRecourse().find(query_about(name), run_of())
    assert refused.value.code == "unsuitable-model"


@pytest.mark.parametrize("wrong", [{"cost": "least"}, {"grid": 0}, {"programs": True}])
def test_options_that_make_no_sense_are_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="must be"):
        ActionableRecourse(**wrong)
