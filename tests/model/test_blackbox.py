"""Models as black boxes: estimators and functions of every kind are asked with the user's own kind of table."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from ironrule.errors import ModelError, OutcomeError, SpaceError
from ironrule.explain.explainer import Explainer
from ironrule.model.blackbox import build_black_box
from ironrule.model.decision import DecisionTarget
from ironrule.space.space import Space
from ironrule.space.table import read_table

DATA = pd.DataFrame({"age": [20, 30, 40, 50], "job": ["cook", "clerk", "cook", None], "score": [0.1, 0.6, 0.7, 0.2]})
NUMBERS = DATA[["age", "score"]]
GOOD = [0, 1, 1, 0]


def compute_outcomes(model, table, desired=None, threshold=None, **hints):
    """The outcomes of the table's own rows by way of codes."""
    space = Space.infer(table, **hints)
    box = build_black_box(model, read_table(table), space, DecisionTarget.from_arguments(desired, threshold))
    return box.compute_outcomes(space.encode(table)).tolist()


def test_a_function_gets_the_library_that_the_data_came_in():
    seen = []

    def model(table):
        seen.append(type(table))
        return np.asarray(table["score"] if not isinstance(table, np.ndarray) else table[:, 1])

    for table in (NUMBERS, pl.DataFrame(NUMBERS), pa.Table.from_pandas(NUMBERS), NUMBERS.to_numpy()):
        seen.clear()
        assert compute_outcomes(model, table) == [False, True, True, False]
        assert set(seen) == {type(table)}


def pipeline():
    columns = make_column_transformer(
        (OneHotEncoder(), ["job"]), (StandardScaler(), ["age", "score"]), verbose_feature_names_out=False
    )
    return make_pipeline(columns, LogisticRegression(C=100))


@pytest.mark.parametrize("missing", [None, np.nan])
def test_a_pipeline_on_raw_columns_is_asked_with_raw_columns(missing):
    data = DATA.assign(job=pd.Series(["cook", "clerk", "cook", missing], dtype=object))
    model = pipeline().fit(data, ["bad", "good", "good", "bad"])
    assert compute_outcomes(model, data, "good") == [False, True, True, False]


def test_a_pipeline_ignores_columns_that_it_was_not_fitted_on():
    model = pipeline().fit(DATA, GOOD)
    space = Space.infer(DATA, columns=list(model.feature_names_in_))
    box = build_black_box(model, read_table(DATA.assign(target=GOOD)), space, DecisionTarget())
    assert box.layout.names == ("age", "job", "score")


def test_an_estimator_gets_its_columns_in_the_order_it_was_fitted_on():
    model = DecisionTreeClassifier(random_state=0).fit(NUMBERS[["score", "age"]], GOOD)
    assert compute_outcomes(model, NUMBERS) == [False, True, True, False]
    assert compute_outcomes(model, pl.DataFrame(NUMBERS)) == [False, True, True, False]


def test_an_estimator_fitted_without_names_is_asked_without_names():
    model = DecisionTreeClassifier(random_state=0).fit(NUMBERS.to_numpy(), GOOD)
    for table in (NUMBERS, pl.DataFrame(NUMBERS), pa.Table.from_pandas(NUMBERS), NUMBERS.to_numpy()):
        assert compute_outcomes(model, table) == [False, True, True, False]


def test_a_threshold_reads_probabilities_and_a_regression_reads_predictions():
    model = LogisticRegression(C=1e4).fit(NUMBERS, GOOD)
    shares = model.predict_proba(NUMBERS)[:, 1]
    level = float(np.sort(shares)[2])
    assert compute_outcomes(model, NUMBERS, threshold=level) == (shares > level).tolist()
    regression = LinearRegression().fit(NUMBERS, DATA["score"])
    assert compute_outcomes(regression, NUMBERS, threshold=0.5) == [False, True, True, False]


def test_the_space_must_have_every_column_of_the_model():
    model = DecisionTreeClassifier().fit(NUMBERS, GOOD)
    with pytest.raises(SpaceError, match="the space lacks a column of the model: 'score'"):
        compute_outcomes(model, NUMBERS, columns=["age"])


def test_calls_are_batched_and_nothing_is_asked_about_no_points():
    sizes = []

    def model(table):
        sizes.append(len(table))
        return table["score"]

    space = Space.infer(NUMBERS)
    box = build_black_box(model, read_table(NUMBERS), space, DecisionTarget())
    sizes.clear()
    small = type(box)(box.layout, box.decision, max_rows=3)
    points = np.zeros((7, 2), dtype=np.int32)
    assert small.desired(points).tolist() == [False] * 7
    assert sizes == [3, 3, 1]
    assert small.desired(points[:0]).shape == (0,)
    assert sizes == [3, 3, 1]


def test_a_model_that_reads_more_than_the_space_is_found_out():
    def by_index(table):
        return (table.index >= 10).astype(float)

    with pytest.raises(ModelError, match="must decide by the values of the space alone, got another outcome for row 0"):
        compute_outcomes(by_index, NUMBERS.set_index(pd.Index([10, 1, 2, 3])))


@pytest.mark.parametrize(
    "model",
    [
        lambda rows: rows["a"] - rows["a"].mean() + rows["b"],
        lambda rows: rows["a"].rank(pct=True),
        lambda rows: np.where(rows["a"] > rows["a"].iloc[0], "yes", "no"),
    ],
    ids=["mean", "rank", "first"],
)
def test_a_model_that_compares_rows_with_each_other_is_found_out(model):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.integers(0, 8, 40), "b": rng.integers(0, 3, 40)})
    desired = {"desired": "yes"} if np.asarray(model(table)).dtype.kind == "U" else {}
    with pytest.raises(ModelError, match="when other rows stand beside it"):
        Explainer(model, table, progress=False, **desired)


def test_sums_in_single_precision_are_no_comparison_of_rows():
    """Where large numbers cancel out, a score is off by far more alone than its own size would let it."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(200, 4)).round(2)
    first, second = rng.normal(size=(4, 300)).astype(np.float32), rng.normal(size=300).astype(np.float32)

    def network(rows):
        # What a library does that adds otherwise for one row than for many, whatever machine this is.
        sums = np.maximum(np.asarray(rows, dtype=np.float32) @ first, 0) * second
        return np.cumsum(sums if len(rows) > 1 else sums[:, ::-1], axis=1)[:, -1]

    for place, score in enumerate(network(table[:32]).tolist()):
        if network(table[place : place + 1])[0] > score:  # alone it would pass what it just reaches among others
            explainer = Explainer(network, table, threshold=score, progress=False)
            assert not explainer.outcomes[place]
            return
    pytest.fail("no row is added up to more alone")


def test_a_model_that_decides_by_chance_is_found_out():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": np.arange(200)})
    with pytest.raises(ModelError, match="chance"):
        compute_outcomes(lambda rows: rng.random(len(rows)), table)


def test_labels_that_never_match_the_desired_one_are_listed():
    def model(table):
        return np.where(table["score"] > 0.5, "approved", "denied")

    assert compute_outcomes(model, NUMBERS, "approved") == [False, True, True, False]
    with pytest.raises(OutcomeError, match=r"one of \['good'\], got labels 'approved', 'denied'"):
        compute_outcomes(model, NUMBERS, "good")
    with pytest.raises(OutcomeError, match=r"one of \[1\], got labels 'approved', 'denied'"):
        compute_outcomes(model, NUMBERS, 1)


def test_scores_and_known_classes_may_leave_every_past_row_undesired():
    assert compute_outcomes(lambda table: np.zeros(len(table)), NUMBERS) == [False] * 4
    assert compute_outcomes(lambda table: np.tile([1.0, 0.0], (len(table), 1)), NUMBERS, desired=1) == [False] * 4
    tree = DecisionTreeClassifier(max_depth=1).fit(NUMBERS, GOOD)
    tree.predict = lambda table: np.zeros(len(table))
    assert compute_outcomes(tree, NUMBERS) == [False] * 4
