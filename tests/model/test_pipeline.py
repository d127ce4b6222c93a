"""Pipelines taken apart: what the final estimator sees is a table over single features, or the pipeline is refused."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_matrix
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectFromModel, SelectKBest, VarianceThreshold
from sklearn.impute import KNNImputer, MissingIndicator, SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)
from sklearn.tree import DecisionTreeClassifier

from ironrule.model.model_input import compute_model_input, tabulate
from ironrule.model.pipeline import TransformerSteps, split_pipeline
from ironrule.model.protocol import Unreadable
from ironrule.model.readers.sklearn_additive import read_additive
from ironrule.space.layout import build_layout
from ironrule.space.space import Space
from ironrule.space.table import read_table

RNG = np.random.default_rng(0)
ROWS = 120
RAW = pd.DataFrame(
    {
        "age": RNG.integers(18, 40, ROWS).astype(float),
        "income": np.round(RNG.lognormal(3, 1, ROWS), 1),
        "home": RNG.choice(np.array(["rent", "own", "other"], dtype=object), ROWS),
        "job": RNG.choice(np.array(["a", "b", "c", None], dtype=object), ROWS),
    }
)
LABELS = (RAW["age"] / 40 + (RAW["home"] == "own") + RNG.normal(size=ROWS) * 0.3 > 1.0).astype(int).to_numpy()
NUMBERS, NAMES = ["age", "income"], ["home", "job"]
NUMERIC = {
    "standard": StandardScaler(),
    "min max": MinMaxScaler(),
    "max abs": MaxAbsScaler(),
    "robust": RobustScaler(),
    "binarizer": Binarizer(threshold=25.0),
    "bins": KBinsDiscretizer(4, encode="onehot", quantile_method="averaged_inverted_cdf"),
    "power": PowerTransformer(),
    "quantile": QuantileTransformer(n_quantiles=20),
    "spline": SplineTransformer(n_knots=4),
    "logarithm": FunctionTransformer(np.log1p),
    "nothing": FunctionTransformer(),
    "two steps": make_pipeline(SimpleImputer(), "passthrough", StandardScaler()),
    "union": FeatureUnion([("one", StandardScaler()), ("two", Binarizer()), ("none", "drop")]),
    "best": SelectKBest(k=1),
    "varying": VarianceThreshold(),
    "chosen": SelectFromModel(DecisionTreeClassifier(random_state=0)),
    "passthrough": "passthrough",
}
NOMINAL = {
    "one-hot": OneHotEncoder(handle_unknown="ignore"),
    "one-hot less the first": OneHotEncoder(drop="first", sparse_output=False),
    "one-hot with rare ones": OneHotEncoder(min_frequency=35, handle_unknown="infrequent_if_exist"),
    "ordinal": OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2),
    "target": TargetEncoder(),
    "imputed": make_pipeline(SimpleImputer(strategy="constant", fill_value="none"), OneHotEncoder()),
    "missing": MissingIndicator(features="all"),
    "drop": "drop",
}
MIXING = {
    "PCA": PCA(n_components=2),
    "PolynomialFeatures": PolynomialFeatures(interaction_only=True),
    "Normalizer": Normalizer(),
}


def fitted(numeric="passthrough", nominal="drop", final=None):
    """A pipeline over raw columns."""
    columns = ColumnTransformer([("num", numeric, NUMBERS), ("cat", nominal, NAMES)])
    return Pipeline([("prepare", columns), ("model", final or RidgeClassifier())]).fit(RAW, LABELS)


def laid_out(data, transform):
    """A space over data, its past points, and what the final estimator sees of points."""
    table = read_table(data)
    space = Space.infer(data)
    layout = build_layout(space.features, table)
    return (
        space,
        space.encode(table, progress=False).points(),
        lambda points: compute_model_input(transform, layout.decode(points)),
    )


def same(left, right):
    return bool(((left == right) | ((left != left) & (right != right))).all())


def check_tables(data, transform):
    """The tables give what the transform gives, on past rows and on random points."""
    space, past, see = laid_out(data, transform)
    columns = tabulate(see, space, past)
    random = np.random.default_rng(1).integers(0, space.sizes, size=(500, len(space)), dtype=np.int32)
    assert same(columns.look_up(past), compute_model_input(transform, data))
    assert same(columns.look_up(random), see(random))
    return columns


@pytest.mark.parametrize("kind", NUMERIC)
def test_numbers_prepared_column_by_column_become_tables(kind):
    transform, final = split_pipeline(fitted(numeric=NUMERIC[kind]))
    assert isinstance(final, RidgeClassifier)
    check_tables(RAW, transform)


@pytest.mark.parametrize("kind", NOMINAL)
def test_categories_prepared_column_by_column_become_tables(kind):
    transform, _ = split_pipeline(fitted(nominal=NOMINAL[kind]))
    check_tables(RAW, pickle.loads(pickle.dumps(transform)))


def test_categories_that_the_encoder_never_saw_become_zeros():
    transform, _ = split_pipeline(fitted(nominal=NOMINAL["one-hot"]))
    strange = RAW.assign(home=np.where(np.arange(ROWS) == 5, "boat", RAW["home"]).astype(object))
    columns = check_tables(strange, transform)
    assert len(columns.values) == 2 + 3 + 4


def test_an_additive_model_behind_a_pipeline_is_read_over_what_it_sees():
    model = fitted(StandardScaler(), OneHotEncoder())
    transform, final = split_pipeline(model)
    space, past, see = laid_out(RAW, transform)
    margin = read_additive(final, (1,), None).alternatives[0][0]
    seen = tabulate(see, space, past).look_up(past)
    assert (np.abs(margin.evaluate(seen)) > margin.bound_error(seen)).all()
    assert ((margin.evaluate(seen) > 0) == (model.predict(RAW) == 1)).all()


def test_nested_pipelines_and_searches_are_taken_apart():
    inner = GridSearchCV(make_pipeline(StandardScaler(), LogisticRegression()), {}, cv=2)
    model = make_pipeline(SimpleImputer(), "passthrough", inner).fit(RAW[NUMBERS], LABELS)
    transform, final = split_pipeline(model)
    assert isinstance(final, LogisticRegression)
    assert isinstance(transform, TransformerSteps)
    assert [type(part).__name__ for part in transform.transformers] == ["SimpleImputer", "StandardScaler"]
    assert (final.predict(compute_model_input(transform, RAW[NUMBERS])) == model.predict(RAW[NUMBERS])).all()


def test_a_model_without_steps_sees_the_table_itself():
    model = LogisticRegression().fit(RAW[NUMBERS], LABELS)
    assert split_pipeline(model) == (None, model)
    assert split_pipeline(make_pipeline("passthrough", model)) == (None, model)


def test_probing_many_features_at_a_time_gives_the_same_tables(monkeypatch):
    model = fitted()
    space, past, see = laid_out(RAW, model[0].transform)
    each = tabulate(see, space, past)
    monkeypatch.setattr("ironrule.model.model_input.MAX_PROBED_CODES", 0)
    together = tabulate(see, space, past)
    assert together.features.tolist() == each.features.tolist()
    assert all(map(same, together.values, each.values))


@pytest.mark.parametrize("kind", MIXING)
def test_probing_many_features_at_a_time_notices_mixing(kind, monkeypatch):
    monkeypatch.setattr("ironrule.model.model_input.MAX_PROBED_CODES", 0)
    space, past, see = laid_out(RAW, fitted(numeric=MIXING[kind])[0].transform)
    with pytest.raises(Unreadable, match="mixes columns"):
        tabulate(see, space, past)


@pytest.mark.parametrize("kind", MIXING)
def test_preprocessing_that_mixes_columns_is_refused_by_name_and_by_the_tables(kind):
    model = fitted(numeric=MIXING[kind])
    with pytest.raises(Unreadable, match=rf"'prepare\.num' \({kind}\)"):
        split_pipeline(model)
    space, past, see = laid_out(RAW, model[0].transform)
    with pytest.raises(Unreadable, match="mixes columns"):
        tabulate(see, space, past)


def shifted(X):
    return X - X.mean(axis=1, keepdims=True)


class Own(StandardScaler):
    """A user's own transformer may do anything."""


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (KNNImputer(), "KNNImputer"),
        (FunctionTransformer(shifted), "runs a function that may mix columns; give it one column at a time"),
        (FunctionTransformer(np.add), "runs a function that may mix"),
        (Own(), "Own"),
        (make_pipeline(StandardScaler(), PCA()), r"scale\.pca"),
        (FeatureUnion([("one", StandardScaler()), ("two", PCA())]), r"scale\.two"),
        (make_column_transformer((StandardScaler(), [0]), remainder=PCA()), r"scale\.remainder"),
    ],
    ids=["neighbours", "function", "two arguments", "own class", "pipeline", "union", "remainder"],
)
def test_steps_that_may_mix_columns_are_refused_by_name(step, reason):
    model = Pipeline([("scale", step), ("model", LogisticRegression())])
    if getattr(step, "func", None) is not np.add:
        model.fit(RAW[NUMBERS].to_numpy(), LABELS)
    with pytest.raises(Unreadable, match=reason):
        split_pipeline(model)


def test_what_hides_the_model_is_refused_with_a_reason():
    unfit = GridSearchCV(LogisticRegression(), {}, cv=2, refit=False).fit(RAW[NUMBERS], LABELS)
    for model, reason in (
        (unfit, "keeps no best model"),
        (make_pipeline(StandardScaler(), "passthrough"), "not a model"),
    ):
        with pytest.raises(Unreadable, match=reason):
            split_pipeline(model)


@pytest.mark.parametrize(
    "table",
    [
        np.array([[1, 0], [2, 1]]),
        np.array([[True, False], [False, True]]),
        csr_matrix([[1.0, 0.0], [2.0, 1.0]]),
        pd.DataFrame({"a": [1, 2], "b": [False, True]}),
        pd.DataFrame({"a": pd.array([1, None], "Int64"), "b": pd.array([True, None], "boolean")}),
        pl.DataFrame({"a": [1, None], "b": [0.5, 1.0]}),
    ],
    ids=["integers", "booleans", "sparse", "pandas", "nullable pandas", "polars"],
)
def test_numbers_are_seen_as_floats_with_nan_where_they_are_missing(table):
    seen = compute_model_input(None, table)
    assert seen.shape == (2, 2)
    assert seen.dtype == np.float64
    assert seen[0, 0] == 1.0
    assert seen[1, 0] in (0.0, 2.0) or np.isnan(seen[1, 0])


def test_single_precision_stays_single():
    assert compute_model_input(None, np.zeros((2, 2), dtype=np.float32)).dtype == np.float32
    assert (
        compute_model_input(None, pd.DataFrame(np.zeros((2, 2), dtype=np.float32), columns=["a", "b"])).dtype
        == np.float32
    )


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_mixed_tables_are_seen_as_objects_with_none_where_missing(library):
    data = {"a": [1.5, float("nan")], "b": ["x", None]}
    frame = library(data)
    if library is pd.DataFrame:
        frame["b"] = frame["b"].astype("category")
    seen = compute_model_input(None, frame)
    assert seen.dtype == object
    assert seen[:, 1].tolist() == ["x", None]
    assert seen[0, 0] == 1.5
    assert np.isnan(seen[1, 0])
