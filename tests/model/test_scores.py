"""Scores of models of every kind: above 0 where the model itself gives the desired outcome."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.svm import LinearSVC

import ironrule
from ironrule.arrays import BoolArray, Float64Array
from ironrule.errors import InputError
from ironrule.explain.query import build_case
from ironrule.model.decision import DecisionTarget
from ironrule.model.scores import build_score
from ironrule.verdict.budget import Budget, BudgetExhausted, Meter

ROWS = np.random.default_rng(0).integers(0, 20, size=(200, 3)).astype(float)
SUMS = ROWS @ [1.0, 1.0, 0.0]
CLASSES = np.digitize(SUMS, [12, 25])
BINARY = LogisticRegression().fit(ROWS, SUMS > 20)
THREE = LogisticRegression().fit(ROWS, CLASSES)


def scores_of(model: Any, **target: Any) -> tuple[Float64Array, BoolArray]:
    """The scores and the outcomes of all past rows, by the case of a denied row."""
    explainer = ironrule.Explainer(model, ROWS, **target)
    context = explainer._context
    row = int(np.flatnonzero(~context.outcomes)[0])
    case = build_case(context, row, own_model_only=True)
    points = context.reduced.reduce(context.history.codes.points())
    assert case.scoring_model is not None
    return case.scoring_model.scores(points), case.model.desired(points)


@pytest.mark.parametrize(
    ("model", "target"),
    [
        (BINARY, {"desired": True}),
        (BINARY, {"desired": False}),
        (BINARY, {"desired": True, "threshold": 0.7}),
        (THREE, {"desired": 2}),
        (THREE, {"desired": [0, 2]}),
        (THREE, {"desired": [0, 2], "threshold": 0.6}),
        (LinearSVC().fit(ROWS, SUMS > 20), {"desired": True}),
        (LinearSVC().fit(ROWS, SUMS > 20), {"desired": False}),
        (LinearSVC().fit(ROWS, CLASSES), {"desired": [1]}),
        (LinearRegression().fit(ROWS, SUMS), {"threshold": 20.0}),
        (LinearRegression().fit(ROWS, SUMS), {"threshold": 20.0, "desired": "below"}),
        (lambda rows: np.asarray(rows)[:, 0] / 20.0, {}),
        (lambda rows: np.asarray(rows)[:, 0], {"threshold": 7.0, "desired": "below"}),
        (THREE.predict_proba, {"desired": 1}),
        (THREE.predict_proba, {"desired": [0, 1], "threshold": 0.8}),
    ],
)
def test_a_score_is_above_0_exactly_where_the_model_gives_the_desired_outcome(model: Any, target: Any) -> None:
    scores, desired = scores_of(model, **target)
    assert 0 < desired.sum() < len(desired)
    assert np.array_equal(scores > 0, desired)


def test_a_model_that_answers_labels_alone_has_no_scores() -> None:
    with pytest.raises(InputError, match="needs a model that gives scores") as refused:
        scores_of(BINARY.predict, desired=True)
    assert refused.value.code == "scores-required"
    assert "GrowingSpheres" in str(refused.value)


def test_the_score_of_several_models_is_the_largest() -> None:
    explainer = ironrule.Explainer(BINARY, ROWS, desired=True, margin=0.1)
    context = explainer._context
    points = context.history.codes.points()
    scores = context.model.scores(points)
    assert np.array_equal(scores > 0, context.model.desired(points))
    assert (scores >= context.model.primary.scores(points)).all()


def test_scores_are_charged_as_outcomes_are() -> None:
    explainer = ironrule.Explainer(BINARY, ROWS, desired=True)
    box, points = explainer._context.model.primary, explainer._context.history.codes.points()[:10]
    meter = Meter(Budget(evaluations=15))
    assert len(meter.scores(box, points)) == 10
    assert (meter.calls, meter.evaluations) == (1, 10)
    with pytest.raises(BudgetExhausted):
        meter.scores(box, points)
    assert len(box.scores(points[:0])) == 0


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (DecisionTarget(threshold=1.0, upper=3.0), [-1.0, 0.0, 1.0, 0.0, -1.0]),
        (DecisionTarget(upper=3.0), [3.0, 2.0, 1.0, 0.0, -1.0]),
    ],
)
def test_the_score_of_a_band_is_how_far_inside_the_nearer_end_is(target, expected):
    score = build_score(lambda table: table[:, 0], target)
    assert score is not None
    assert score(np.arange(5.0)[:, None], 5).tolist() == expected
