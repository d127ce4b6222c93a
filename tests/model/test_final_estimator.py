"""A pipeline's final estimator, asked directly: only where that is the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import ironrule
from ironrule.errors import ModelError
from ironrule.model.blackbox import ModelSet
from ironrule.model.pipeline import FinalEstimator, build_final_estimator

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "income": RNG.integers(0, 40, 300),
        "debt": RNG.normal(size=300).round(1),
        "home": RNG.choice(["rent", "own"], 300),
    }
)
TARGET = (TABLE.income + 10 * (TABLE.home == "own") - 4 * TABLE.debt > 25).astype(int)


def fitted(*steps: Any) -> Pipeline:
    model = GradientBoostingClassifier(n_estimators=10, max_depth=2, random_state=0)
    return make_pipeline(*steps, model).fit(TABLE, TARGET)


def prepared_by(sparse_output: bool) -> Any:
    return make_column_transformer(
        (OneHotEncoder(sparse_output=sparse_output), ["home"]),
        remainder="passthrough",
        sparse_threshold=1.0,
        verbose_feature_names_out=False,
    )


def explained(model: Any, **given: Any) -> ironrule.Explainer:
    return ironrule.Explainer(model, TABLE, desired=1, progress=False, **given)


def test_the_final_estimator_decides_every_point_as_its_pipeline_does() -> None:
    explainer = explained(fitted(prepared_by(sparse_output=False)))
    ready = explainer._context
    points = np.random.default_rng(1).integers(0, ready.space.sizes, size=(5000, 3), dtype=np.int32)
    assert isinstance(ready.point_model, FinalEstimator)
    assert (ready.point_model.desired(points) == ready.model.desired(points)).all()
    assert ready.point_model.desired(points[:0]).tolist() == []
    row = TABLE.iloc[3].to_dict()
    assert explainer.is_desired(row) == bool(fitted(prepared_by(sparse_output=False)).predict(TABLE.iloc[[3]])[0])


@pytest.mark.parametrize("given", [{}, {"threshold": 0.8}])
def test_its_scores_are_those_of_the_pipeline(given: Any) -> None:
    ready = explained(fitted(prepared_by(sparse_output=False)), **given)._context
    points = np.random.default_rng(1).integers(0, ready.space.sizes, size=(500, 3), dtype=np.int32)
    assert isinstance(ready.point_model, FinalEstimator)
    scores = ready.point_model.scores(points)
    assert np.array_equal(scores, ready.model.scores(points))
    assert np.array_equal(scores > 0.0, ready.model.desired(points))
    assert ready.point_model.scores(points[:0]).tolist() == []


def test_tables_that_are_too_long_leave_it_to_the_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ironrule.model.pipeline.MAX_TABLE_VALUES", 10)
    ready = explained(fitted(prepared_by(sparse_output=False)))._context
    assert not isinstance(ready.point_model, FinalEstimator)
    assert ready.point_model is ready.model


def test_it_is_asked_about_scores_and_their_threshold_too() -> None:
    ready = explained(fitted(prepared_by(sparse_output=False)), threshold=0.8)._context
    points = np.random.default_rng(1).integers(0, ready.space.sizes, size=(2000, 3), dtype=np.int32)
    assert isinstance(ready.point_model, FinalEstimator)
    assert (ready.point_model.desired(points) == ready.model.desired(points)).all()


@pytest.mark.parametrize(
    "steps",
    [
        (prepared_by(sparse_output=True),),  # a sparse matrix may mean something else than a dense one
        (prepared_by(sparse_output=False).set_output(transform="pandas"),),  # which the estimator has the names of
        (make_column_transformer((OrdinalEncoder(dtype=int), ["home", "income"])),),  # whole numbers
    ],
)
def test_where_the_estimator_sees_anything_but_plain_numbers_the_pipeline_is_asked(steps: Any) -> None:
    ready = explained(fitted(*steps))._context
    assert ready.compiled_model is not None
    assert ready.compiled_model.final_estimator is None
    assert ready.point_model is ready.model


def test_without_steps_and_with_more_to_withstand_the_models_are_asked() -> None:
    numbers, whole = TABLE[["income", "debt"]], fitted(prepared_by(sparse_output=False))
    alone = GradientBoostingClassifier(n_estimators=5, random_state=0).fit(numbers, TARGET)
    ready = ironrule.Explainer(alone, numbers, desired=1, progress=False)._context
    assert ready.point_model is ready.model
    for given in ({"margin": 0.01}, {"models": [fitted(prepared_by(sparse_output=False), StandardScaler())]}):
        ready = explained(whole, **given)._context
        assert ready.point_model is ready.model


def test_one_that_decides_otherwise_anywhere_does_not_serve() -> None:
    model = fitted(prepared_by(sparse_output=False))
    ready = explained(model)._context
    assert ready.compiled_model is not None
    points = ready.history.codes.points()
    outcomes = ready.model.desired(points)
    row = ready.model.primary.layout.decode(points[:1])
    given = (model, ready.compiled_model.tabulated.columns, row, ready.target)
    assert isinstance(build_final_estimator(*given, points=points, outcomes=outcomes), FinalEstimator)
    outcomes[-1] = not outcomes[-1]
    assert build_final_estimator(*given, points=points, outcomes=outcomes) is None


def test_its_word_on_counterfactuals_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    explainer = explained(fitted(prepared_by(sparse_output=False)))
    row = int(np.flatnonzero(~explainer.outcomes)[0])
    assert explainer.explain(row).minimum
    asked = []

    def denied(self: object, points: np.ndarray) -> np.ndarray:
        asked.append((type(self), len(points)))
        return np.zeros(len(points), dtype=np.bool_)

    monkeypatch.setattr(FinalEstimator, "desired", denied)
    explainer.explain(row)  # the pipeline has the last word
    monkeypatch.setattr(ModelSet, "desired", denied)
    with pytest.raises(ModelError, match="the model's decisions differ from its reading"):
        explainer.explain(row)
    assert [kind for kind, _ in asked] == [FinalEstimator, FinalEstimator, ModelSet]
    assert asked[-1][1] == 1
