"""FACE on a graph small enough to compute its paths by hand; constraints, boxes, and what cannot be used."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import ironrule
from ironrule.errors import InputError
from ironrule.oracles.heuristics.face import FACE
from ironrule.oracles.protocol import BoxQuery
from ironrule.rule.box import Box
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.verdict.verdict import Refuted, Unrefuted
from tiny_cases import case_of, meter_of, run_of

GRID = Space(tuple(Feature(name, tuple(range(101)), ordered=True) for name in "ab"))
START = np.array([20, 20], np.int32)
# Three steps of 0.08 lead to the desired 44, 20; one of 0.12 leads to the desired 20, 32.
ROWS = np.array([[28, 20], [36, 20], [44, 20], [20, 32]], np.int32)


def ask(oracle: FACE, box: Box | None = None, k: int = 1, rows: np.ndarray = ROWS) -> Any:
    table = np.zeros((101, 101), dtype=np.bool_)
    table[44, 20] = table[20, 32] = True
    case = case_of(GRID, table, START, rows)
    return oracle.find(BoxQuery(case, box or case.components.box(0), k), run_of())


def test_costs_of_paths_between_nearest_neighbours_are_those_of_hand_calculation() -> None:
    vectors = np.concatenate([START[None, :], ROWS]) / 100
    costs = FACE(neighbours=2).compute_path_costs(vectors, 2, meter_of())
    step, long_step = (d * math.log(1 + d**2 * 5 * math.pi / 2) for d in (0.08, 0.12))  # r = 2 / (5 pi)
    assert (round(step, 5), round(long_step, 5)) == (0.00392, 0.01286)
    assert costs == pytest.approx([0, step, 2 * step, 3 * step, long_step])


def test_costs_of_paths_within_a_radius_are_those_of_hand_calculation() -> None:
    vectors = np.concatenate([START[None, :], ROWS]) / 100
    wide = FACE("epsilon", radius=0.2).compute_path_costs(vectors, 2, meter_of())
    step, long_step = (d * math.log(1 + (d / 0.2) ** 2) for d in (0.08, 0.12))
    assert (round(step, 5), round(long_step, 5)) == (0.01187, 0.0369)
    assert wide == pytest.approx([0, step, 2 * step, 3 * step, long_step])
    narrow = FACE("epsilon", radius=0.1).compute_path_costs(vectors, 2, meter_of())
    assert np.isfinite(narrow).tolist() == [True, True, True, True, False]


@pytest.mark.parametrize("oracle", [FACE(neighbours=2), FACE("epsilon", radius=0.2)])
def test_a_desired_row_at_the_end_of_small_steps_comes_before_a_nearer_one(oracle: FACE) -> None:
    verdict = ask(oracle, k=2)
    assert isinstance(verdict, Refuted)
    assert verdict.points.tolist() == [[44, 20], [20, 32]]


def test_a_path_takes_only_rows_of_the_box() -> None:
    box = Box(np.array([20, 20], np.int32), np.array([20, 100], np.int32))
    verdict = ask(FACE(neighbours=2), box)
    assert isinstance(verdict, Refuted)
    assert verdict.points.tolist() == [[20, 32]]
    hole = Box(np.array([40, 0], np.int32), np.array([100, 100], np.int32))  # the steps to 44, 20 are outside
    assert isinstance(ask(FACE("epsilon", radius=0.1), hole), Unrefuted)
    assert isinstance(ask(FACE("epsilon"), hole), Refuted)  # with one neighbour, the radius is the distance to it


def test_history_without_desired_rows_is_searched_without_success() -> None:
    assert isinstance(ask(FACE(), rows=ROWS[:2]), Unrefuted)


def test_past_rows_are_needed() -> None:
    with pytest.raises(InputError, match=r"FACE needs past rows, got none; .* GrowingSpheres\(\)"):
        ask(FACE(), rows=ROWS[:0])


@pytest.fixture(scope="module")
def loans() -> Any:
    rows = np.random.default_rng(0).integers(0, 20, size=(300, 3)).astype(float)
    model = LogisticRegression().fit(rows, rows[:, 0] + rows[:, 1] - rows[:, 2] > 12)
    return model, rows


@pytest.mark.parametrize("variant", ["knn", "epsilon"])
def test_an_explainer_finds_past_rows_by_it(loans: Any, variant: Any) -> None:
    model, rows = loans
    explainer = ironrule.Explainer(model, rows, desired=True)
    denied = next(row for row in rows if not model.predict([row])[0])
    found = explainer.counterfactuals(denied, k=3, algorithm=FACE(variant, rows=200))
    assert len(found) == 3
    assert not found.proven
    assert found.statistics.algorithm == "FACE"
    values = [list(item.values.values()) for item in found]
    assert model.predict(values).all()
    assert {tuple(one) for one in values} <= {tuple(row) for row in rows.tolist()}
    name = explainer.space.names[0]
    limited = explainer.counterfactuals(denied, k=3, algorithm=FACE(variant), constraints=[f"cf.{name} >= x.{name}"])
    assert len(limited) == 3
    assert all(item.values[name] >= denied[0] for item in limited)


@pytest.mark.parametrize("wrong", [{"variant": "kde"}, {"neighbours": 0}, {"radius": -1.0}, {"rows": 2.5}])
def test_options_that_make_no_sense_are_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match=r"must be (a positive|one of)"):
        FACE(**wrong)
