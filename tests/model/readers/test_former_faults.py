"""Claims about models that were once false: blanks in names, calibrated trees at their thresholds, wavering steps."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from exhaustive_checks import measure_undecided_share
from lightgbm import LGBMClassifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    MinMaxScaler,
    OneHotEncoder,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
)
from sklearn.tree import DecisionTreeClassifier

from ironrule import Explainer, ModelError, Proven

RNG = np.random.default_rng(0)
DATA = pd.DataFrame({"a": RNG.integers(0, 8, 300).astype(float), "b": RNG.integers(0, 6, 300).astype(float)})
LABELS = (DATA["a"] + DATA["b"] + RNG.normal(0, 2.5, 300) > 6).astype(int)


@pytest.mark.parametrize("wrapped", ["plain", "calibrated", "search"])
def test_lightgbm_is_read_where_names_have_blanks(wrapped: str) -> None:
    data = DATA.rename(columns={"a": "open accounts", "b": "years at  work"}).assign(other=1.0)
    model: Any = LGBMClassifier(n_estimators=5, verbose=-1)
    if wrapped == "calibrated":
        model = CalibratedClassifierCV(model, ensemble=False)
    if wrapped == "search":
        model = GridSearchCV(model, {}, cv=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LightGBM says that it puts underscores there
        model.fit(data[["years at  work", "open accounts"]], LABELS)
    explainer = Explainer(model, data, desired=1)
    assert explainer.unreadable_reason is None
    assert set(explainer.space.names) == {"open accounts", "years at  work"}
    own = model.predict(data[["years at  work", "open accounts"]]) == 1
    explanation = explainer.explain(data.iloc[int(np.flatnonzero(~own)[0])])
    assert isinstance(explanation.verdict, Proven)
    assert not (own & explanation.rule.covers(data)).any()


@pytest.mark.parametrize("method", ["isotonic", "sigmoid"])
@pytest.mark.parametrize("frozen", [False, True])
def test_calibrated_trees_are_left_to_the_model_exactly_at_the_threshold(method: str, frozen: bool) -> None:
    tree = DecisionTreeClassifier(max_depth=4, random_state=0)
    base = FrozenEstimator(tree.fit(DATA[:150], LABELS[:150])) if frozen else tree
    model = CalibratedClassifierCV(base, method=method, ensemble=False, cv=3).fit(DATA[150:], LABELS[150:])
    (one,) = model.calibrated_classifiers_
    chances = np.unique(model.predict_proba(DATA)[:, 1]).tolist()
    leaves = np.unique(one.estimator.predict_proba(DATA)[:, 1]).tolist()
    steps = one.calibrators[0].y_thresholds_.tolist() if method == "isotonic" else []
    read = 0
    for threshold in sorted({*chances, *leaves, *steps}):
        for desired in (0, 1):
            explainer = Explainer(model, DATA, desired=desired, threshold=threshold)
            assert "decides otherwise" not in str(explainer.unreadable_reason)
            if explainer.unreadable_reason is None:
                measure_undecided_share(explainer)
                read += 1
    assert read >= 10


def fitted(step: Any) -> Any:
    return make_pipeline(step, DecisionTreeClassifier(max_depth=3, random_state=0)).fit(DATA, LABELS)


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (SimpleImputer(missing_values=3.0), "takes the single number 3.0 for missing"),
        (MissingIndicator(missing_values=3.0, features="all"), "takes the single number 3.0 for missing"),
        (PowerTransformer(), "PowerTransformer does not rise all the way"),
        (QuantileTransformer(n_quantiles=20), "QuantileTransformer does not rise all the way"),
        (FeatureUnion([("one", make_pipeline(StandardScaler(), SimpleImputer(missing_values=0)))]), "single number 0"),
        (make_column_transformer((PowerTransformer(), ["a"]), remainder="passthrough"), "does not rise"),
    ],
)
def test_steps_that_tell_single_numbers_apart_or_waver_are_refused_between_values(step: Any, reason: str) -> None:
    model = fitted(step)
    with pytest.raises(ModelError, match=reason):
        Explainer(model, DATA, desired=1, domain="interval")


def test_categories_that_are_numbers_among_objects_are_told_apart_too() -> None:
    data = DATA.astype(int).astype(object)
    model = make_pipeline(OneHotEncoder(handle_unknown="ignore"), DecisionTreeClassifier(max_depth=3))
    with pytest.raises(ModelError, match="tells single numbers apart"):
        Explainer(model.fit(data, LABELS), data, desired=1, domain="interval")


@pytest.mark.parametrize(
    "step",
    [
        SimpleImputer(),
        MinMaxScaler(clip=True),
        FeatureUnion([("one", StandardScaler()), ("two", Binarizer(threshold=2))], transformer_weights={"one": -2.0}),
    ],
)
def test_steps_that_rise_or_fall_are_read_between_values(step: Any) -> None:
    model = fitted(step)
    explainer = Explainer(model, DATA, desired=1, domain="interval")
    grid = np.round(np.random.default_rng(1).uniform(0, 7, (4000, 2)), 3)
    table = pd.DataFrame(np.minimum(grid, [7, 5]), columns=["a", "b"])
    own = model.predict(table) == 1
    for row in np.flatnonzero(model.predict(DATA) == 0)[:3]:
        explanation = explainer.explain(DATA.iloc[int(row)])
        assert isinstance(explanation.verdict, Proven)
        assert not (own & explanation.rule.covers(table)).any()
