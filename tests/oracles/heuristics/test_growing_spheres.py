"""Growing Spheres on a half-space, whose nearest point is known; constraints, boxes and the encoding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import ironrule
from ironrule.errors import InputError
from ironrule.oracles.heuristics.encoding import NumericEncoding
from ironrule.oracles.heuristics.growing_spheres import GrowingSpheres, draw_in_layer
from ironrule.oracles.protocol import BoxQuery
from ironrule.rule.box import Box
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.verdict.verdict import Refuted, Unrefuted
from tiny_cases import case_of, every_point, run_of

GRID = Space(tuple(Feature(name, tuple(range(101)), ordered=True) for name in "ab"))
HALF = np.add.outer(2 * np.arange(101), np.arange(101)) >= 180  # 2a + b >= 180; the nearest to 20, 20 is 68, 44


def ask_half_space(oracle: GrowingSpheres, box: Box | None = None) -> Any:
    case = case_of(GRID, HALF.copy(), np.array([20, 20], np.int32), np.array([[90, 90], [0, 0]], np.int32))
    return oracle.find(BoxQuery(case, box or case.components.box(0)), run_of())


def test_the_layer_that_holds_the_nearest_point_of_a_half_space_is_found() -> None:
    # The distance of 20, 20 from the line is 120 / sqrt(5) = 53.7 hundredths; layers of 2 end at 54 or, if the small
    # cap of that layer is missed, at 56. Undoing b then needs a = 80, so undone changes come only where a allows it.
    verdict = ask_half_space(GrowingSpheres(samples=20_000, radius=0.02, step=0.02))
    assert isinstance(verdict, Refuted)
    a, b = verdict.points[0].tolist()
    assert 2 * a + b >= 180
    assert np.hypot(a - 20, b - 20) <= 57


def test_a_feature_that_the_box_fixes_keeps_its_value() -> None:
    box = Box(np.array([20, 0], np.int32), np.array([20, 100], np.int32))
    assert isinstance(ask_half_space(GrowingSpheres(), box), Unrefuted)  # 2 * 20 + 100 is below 180
    box = Box(np.array([0, 20], np.int32), np.array([100, 20], np.int32))
    verdict = ask_half_space(GrowingSpheres(samples=5_000, step=0.02), box)
    assert isinstance(verdict, Refuted)
    assert verdict.points.tolist() == [[80, 20]]


def test_layers_are_uniform_between_their_radii() -> None:
    drawn = draw_in_layer(np.random.default_rng(0), 20_000, 3, 1.0, 2.0)
    lengths = np.linalg.norm(drawn, axis=1)
    assert lengths.min() >= 1.0
    assert lengths.max() <= 2.0
    # the sphere of radius 1.5 holds (1.5^3 - 1) / (2^3 - 1) of the layer
    assert abs((lengths < 1.5).mean() - 2.375 / 7) < 0.02
    assert np.abs(drawn.mean(axis=0)).max() < 0.05


def test_every_point_comes_back_from_its_vector() -> None:
    features = (
        Feature("number", (1, 2, 40), ordered=True, missing=True),
        Feature("grade", ("low", "middle", "high"), ordered=True),
        Feature("colour", ("red", "blue"), ordered=False, missing=True),
    )
    space = Space(features)
    encoding, points = NumericEncoding.build(space), every_point(space)
    vectors = encoding.encode(points)
    assert vectors.shape == (len(points), encoding.width) == (36, 6)
    assert (vectors.min(), vectors.max()) == (0.0, 1.0)
    whole = Box(np.zeros(3, np.int32), (space.sizes - 1).astype(np.int32))
    assert np.array_equal(encoding.decode(vectors, whole), points)
    part = Box(np.array([1, 0, 1], np.int32), np.array([2, 1, 2], np.int32))
    assert part.contains(encoding.decode(vectors, part)).all()


@pytest.fixture(scope="module")
def loans() -> Any:
    rows = np.random.default_rng(0).integers(0, 50, size=(300, 3)).astype(float)
    model = LogisticRegression().fit(rows, rows[:, 0] + rows[:, 1] - rows[:, 2] > 30)
    return model, rows


def test_an_explainer_finds_counterfactuals_by_it(loans: Any) -> None:
    model, rows = loans
    explainer = ironrule.Explainer(model, rows, desired=True)
    denied = next(row for row in rows if not model.predict([row])[0])
    found = explainer.counterfactuals(denied, k=2, algorithm=GrowingSpheres())
    assert 1 <= len(found) <= 2
    assert not found.proven
    assert found.statistics.algorithm == "GrowingSpheres"
    assert model.predict([list(item.values.values()) for item in found]).all()
    again = explainer.counterfactuals(denied, k=2, algorithm=GrowingSpheres())
    assert [item.values for item in again] == [item.values for item in found]
    name = explainer.space.names[0]
    kept = explainer.counterfactuals(denied, k=2, algorithm=GrowingSpheres(), constraints=[f"cf.{name} == x.{name}"])
    assert all(item.values[name] == denied[0] for item in kept)


@pytest.mark.parametrize("algorithm", [ironrule.GreedyRuleCF(), ironrule.GeneticRuleCF()])
def test_it_stands_under_the_algorithms_of_the_paper(loans: Any, algorithm: Any) -> None:
    model, rows = loans
    denied = next(row for row in rows if not model.predict([row])[0])
    explainer = ironrule.Explainer(model.predict, rows, desired=True, oracle=GrowingSpheres(samples=200))
    found = explainer.explain(denied, algorithm=algorithm, budget=ironrule.Budget(evaluations=20_000))
    assert not isinstance(found.verdict, ironrule.Proven)


@pytest.mark.parametrize("wrong", [{"samples": 0}, {"radius": -1.0}, {"step": "wide"}])
def test_options_that_make_no_sense_are_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="must be a positive"):
        GrowingSpheres(**wrong)
