"""The second readings of scikit-learn's models against the models' own decisions.

For random small models: where the model's own decision is desired, the reading says that it is possible; where the
reading is sure, the model's decision is desired; and on ordinary points little is left undecided.
"""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reading_values import decide
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier as Tree
from sklearn_models import CLASSIFIERS, REGRESSIONS, TWO_CLASSES

from ironrule.checker.readers.normal_form import EstimatorTarget, NoReading, SumForm
from ironrule.checker.readers.sklearn_additive import read_sklearn_additive
from ironrule.checker.readers.sklearn_calibrated import read_sklearn_calibrated
from ironrule.checker.readers.sklearn_ensembles import read_sklearn_ensembles
from ironrule.checker.readers.sklearn_trees import _SklearnThresholdSplit, read_sklearn_trees

ROWS = 60
STYLES = ("mixed", "single", "double", "whole")
READERS = (read_sklearn_trees, read_sklearn_ensembles, read_sklearn_additive, read_sklearn_calibrated)
TINY_SHARE = 0.02

WITH_MISSING = ("tree", "extra tree", "forest", "forest of pure leaves", "extra trees", "histogram", "bagging")


def read(estimator: Any, question: EstimatorTarget) -> SumForm:
    """The reading by whichever reader knows the estimator."""
    found = [reading for reader in READERS if (reading := reader(estimator, question)) is not None]
    assert len(found) == 1
    return found[0]


@functools.cache
def make_data(style: str) -> tuple[pd.DataFrame, pd.Series]:
    """A table whose columns have the types of the style, and numbers to predict, all above zero."""
    rng = np.random.default_rng(7)
    table = pd.DataFrame(
        {
            "a": rng.normal(size=ROWS).round(1),
            "b": rng.normal(size=ROWS).astype(np.float32),
            "c": rng.integers(-3, 6, ROWS),
            "d": rng.integers(0, 2, ROWS).astype(bool),
        }
    )
    if style in ("single", "double"):
        table = table.astype({"single": np.float32, "double": np.float64}[style])
    elif style == "whole":
        table = pd.DataFrame({name: rng.integers(-3, 6, ROWS) for name in "abcd"})
    target = table.a.astype(float) + table.b.astype(float) * table.c.astype(float) + table.d + rng.normal(size=ROWS)
    return table, target - target.min() + 0.1


def fit(make: Callable[[], Any], table: pd.DataFrame, target: Any) -> Any:
    """A fitted model; what a library says about convergence or its next release is not under test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make().fit(table, target)


def into_classes(target: pd.Series, classes: int) -> np.ndarray:
    """The target cut into classes of about equal size."""
    return np.array(["no", "so", "yes"])[pd.qcut(target, classes, labels=False)]


def draw_points(reading: SumForm, table: pd.DataFrame, rng: np.random.Generator, missing: bool = False) -> pd.DataFrame:
    """Rows of values seen and of thresholds and their neighbours, in single and in double precision."""
    parts = [part for alternative in reading.alternatives for margin in alternative for part in margin.parts]
    splits = [
        split
        for part in parts
        for tree in part.trees
        for split in tree.splits
        if isinstance(split, _SklearnThresholdSplit)
    ]
    columns = {}
    for place, name in enumerate(table.columns):
        seen = table[name].to_numpy()
        cuts = np.unique([split.threshold for split in splits if split.column == place])
        cuts = cuts[np.isfinite(cuts)]
        pool = [seen]
        if seen.dtype.kind == "i":
            pool += [np.floor(cuts).astype(seen.dtype), np.ceil(cuts).astype(seen.dtype)]
        elif seen.dtype.kind == "f":
            single = cuts.astype(np.float32)
            above = np.nextafter(single, np.float32(np.inf))
            middle = (single.astype(np.float64) + above) / 2  # a tie of the rounding to single precision
            near = [cuts, middle, single, above, np.nextafter(single, np.float32(-np.inf))]
            near += [np.nextafter(found, way) for found in (cuts, middle) for way in (-np.inf, np.inf)]
            pool += [found.astype(seen.dtype) for found in near]
        columns[name] = rng.choice(np.concatenate(pool), 100)
        if missing and seen.dtype.kind == "f":
            columns[name][rng.random(100) < 0.15] = np.nan
    return pd.DataFrame(columns)


def ask(estimator: Any, question: EstimatorTarget, rows: pd.DataFrame) -> np.ndarray:
    """The model's own answer."""
    if not question.desired_classes:
        return estimator.predict(rows) > question.threshold
    if question.threshold is None:
        return np.isin(estimator.predict(rows), estimator.classes_[list(question.desired_classes)])
    return estimator.predict_proba(rows)[:, list(question.desired_classes)].sum(axis=1) > question.threshold


def count_undecided(estimator: Any, question: EstimatorTarget, reading: SumForm, rows: pd.DataFrame) -> int:
    """Hold a reading against the model at these rows; returns how many of them it leaves to the model."""
    truth = ask(estimator, question, rows)
    possible, sure = decide(reading, [rows[name].to_numpy() for name in rows.columns])
    assert not np.any(truth & ~possible), f"desired, but not possible: {question}"
    assert not np.any(sure & ~truth), f"sure, but not desired: {question}"
    return int(np.sum(possible & ~sure))


def check(
    estimator: Any, question: EstimatorTarget, table: pd.DataFrame, *, ordinary: bool, missing: bool = False
) -> None:
    """Hold the reading of a model against the model, near its thresholds and on ordinary points."""
    try:
        reading = read(estimator, question)
    except NoReading:
        assert not ordinary
        return
    rng = np.random.default_rng(3)
    count_undecided(estimator, question, reading, draw_points(reading, table, rng, missing))
    undecided = count_undecided(estimator, question, reading, table)
    if ordinary:
        assert undecided <= TINY_SHARE * len(table)


def check_classifier(estimator: Any, table: pd.DataFrame, missing: bool = False) -> None:
    """Labels, an ordinary threshold, and thresholds that are probabilities of the model or their neighbours."""
    classes = len(estimator.classes_)
    for wanted in ((0,), (1,)) if classes == 2 else ((0,), (2,), (0, 2)):
        # the mean of trees with small leaves ties often, and so do the levels of an isotonic calibration
        exact = not isinstance(estimator, BaggingClassifier)
        ties = getattr(estimator, "method", "") == "isotonic"
        check(estimator, EstimatorTarget(wanted, None), table, ordinary=exact and not ties, missing=missing)
        if not hasattr(estimator, "predict_proba"):
            continue
        normalized = isinstance(estimator, SGDClassifier) and classes > 2
        if normalized:
            with pytest.raises(NoReading, match="no probabilities"):
                read(estimator, EstimatorTarget(wanted, 0.4))
            continue
        check(estimator, EstimatorTarget(wanted, 0.371), table, ordinary=exact, missing=missing)
        found = estimator.predict_proba(table)[:, list(wanted)].sum(axis=1)
        for threshold in (found[0], np.nextafter(found[1], 0.0), np.nextafter(found[2], 1.0)):
            check(estimator, EstimatorTarget(wanted, float(threshold)), table, ordinary=False, missing=missing)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_are_read_as_they_decide(name: str, classes: int) -> None:
    table, target = make_data(STYLES[(len(name) + classes) % 4])
    check_classifier(fit(CLASSIFIERS[name], table, into_classes(target, classes)), table)


@pytest.mark.parametrize("name", TWO_CLASSES)
def test_classifiers_of_two_classes_are_read_as_they_decide(name: str) -> None:
    table, target = make_data(STYLES[len(name) % 4])
    check_classifier(fit(TWO_CLASSES[name], table, into_classes(target, 2)), table)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", WITH_MISSING)
def test_missing_values_go_where_the_nodes_say(name: str, classes: int) -> None:
    table, target = make_data("double")
    table = table.mask(np.random.default_rng(5).random(table.shape) < 0.15)
    estimator = fit(CLASSIFIERS[name], table, into_classes(target, classes))
    if name == "extra trees":  # rows with the same missing values share leaves, so shares tie
        check(estimator, EstimatorTarget((0,), None), table, ordinary=False, missing=True)
    else:
        check_classifier(estimator, table, missing=True)


@pytest.mark.parametrize("name", REGRESSIONS)
def test_regressions_are_read_as_they_predict(name: str) -> None:
    style = STYLES[len(name) % 4]
    table, target = make_data(style)
    if style == "whole":
        target = target.round() + 1.0
    estimator = fit(REGRESSIONS[name], table, target)
    found = estimator.predict(table)
    check(estimator, EstimatorTarget((), float(found.mean())), table, ordinary=True)
    for threshold in (found[0], np.nextafter(found[1], np.inf), np.nextafter(found[2], -np.inf), np.median(found)):
        check(estimator, EstimatorTarget((), float(threshold)), table, ordinary=False)


@pytest.mark.parametrize("kind", ["text", "category", "whole"])
@pytest.mark.parametrize("classes", [2, 3])
def test_histogram_trees_encode_categories_themselves(kind: str, classes: int) -> None:
    rng = np.random.default_rng(11)
    color = rng.choice(np.array(["red", "blue", "green", "black"], dtype=object), 90)
    table = pd.DataFrame({"size": rng.normal(size=90), "color": color, "weight": rng.integers(0, 9, 90)})
    if kind == "whole":
        table["color"] = table.color.map({"red": 3, "blue": -2, "green": 70, "black": 9})
    else:
        table.loc[rng.random(90) < 0.2, "color"] = None
        table["color"] = table.color.astype("category" if kind == "category" else object)
    score = table["size"] + table.color.isin(["red", "green", 3, 70]) * 2.0 + (table.weight > 4)
    estimator = HistGradientBoostingClassifier(max_iter=8, min_samples_leaf=4, categorical_features=["color"])
    estimator.fit(table, into_classes(score, classes))
    unknown = table.head(10).assign(color=pd.Series([4] * 10 if kind == "whole" else ["pink"] * 10))
    rows = pd.concat([table.astype({"color": object}), unknown.astype({"color": object})], ignore_index=True)
    for wanted in (0,), (1,):
        for threshold in (None, 0.4):
            question = EstimatorTarget(wanted, threshold)
            assert count_undecided(estimator, question, read(estimator, question), rows) == 0


def test_categorical_bayes_reads_a_table_per_column() -> None:
    rng = np.random.default_rng(2)
    table = pd.DataFrame({name: rng.integers(0, 4, 80) for name in "abc"})
    for classes in (2, 3):
        estimator = CategoricalNB().fit(table, into_classes(table.sum(axis=1) + rng.random(80), classes))
        check_classifier(estimator, table)
        with pytest.raises(NoReading, match="0 to 3"):
            decide(read(estimator, EstimatorTarget((0,), None)), [np.array([4]), np.array([0]), np.array([0])])


def test_a_threshold_that_single_precision_cannot_hold_is_refused_next_to_it() -> None:
    table, target = make_data("single")
    estimator = BernoulliNB(binarize=0.1).fit(table, into_classes(target, 2))
    reading = read(estimator, EstimatorTarget((1,), None))
    with pytest.raises(NoReading, match="too near the threshold"):
        decide(reading, [np.array([0.1], dtype=np.float32)] * 4)
    for value in (np.array([0.1]), np.nextafter(np.array([0.1], dtype=np.float32), np.float32(1.0))):
        rows = pd.DataFrame(dict.fromkeys("abcd", value))
        assert count_undecided(estimator, EstimatorTarget((1,), None), reading, rows) == 0


def test_pure_forests_leave_no_tie_undecided() -> None:
    table, target = make_data("double")
    estimator = RandomForestClassifier(4, random_state=0).fit(table, into_classes(target, 2))
    tied = draw_points(read(estimator, EstimatorTarget((0,), None)), table, np.random.default_rng(0))
    assert np.any(estimator.predict_proba(tied)[:, 0] == 0.5)
    for wanted in (0,), (1,):
        for threshold in (None, 0.5, 0.25, 0.75, np.nextafter(0.25, 0.0)):
            question = EstimatorTarget(wanted, threshold)
            assert count_undecided(estimator, question, read(estimator, question), tied) == 0


def test_sums_that_cancel_are_left_to_the_model() -> None:
    table, target = make_data("double")
    forest = RandomForestRegressor(4, max_depth=1, random_state=0).fit(table, target)
    linear = LinearRegression().fit(table, target)
    ones = pd.DataFrame(1.0, index=range(2), columns=table.columns)
    wrong = 0
    for values in itertools.permutations([1.0, 2.0**53, -(2.0**53), 0.0]):
        for member, value in zip(forest.estimators_, values, strict=True):
            member.tree_.value[:] = value
        linear.coef_, linear.intercept_ = np.array(values), 0.0
        for estimator, threshold in ((forest, 0.125), (linear, 0.5)):
            wrong += int(np.sum(estimator.predict(ones) < threshold))  # the true sum is above it
            question = EstimatorTarget((), threshold)
            assert count_undecided(estimator, question, read(estimator, question), ones) == len(ones)
    assert wrong > 0


def test_single_precision_coefficients_have_larger_errors() -> None:
    table, target = make_data("single")
    coarse = LinearRegression().fit(table, target.astype(np.float32))
    fine = LinearRegression().fit(table.astype(np.float64), target)
    coarse.coef_ = coarse.coef_.astype(np.float32)
    errors = [
        read(estimator, EstimatorTarget((), 1.0)).alternatives[0][0].relative_error for estimator in (coarse, fine)
    ]
    assert errors[0] > 2.0**-24 * 4 > errors[1]


class Lenient(RandomForestClassifier):
    """A subclass with a policy of its own."""

    def predict(self, X: Any) -> Any:
        """Approve everybody."""
        return np.full(len(X), "yes")


def test_subclasses_and_patched_instances_are_not_read() -> None:
    table, target = make_data("double")
    labels = into_classes(target, 2)
    question = EstimatorTarget((1,), None)
    assert all(reader(Lenient(3).fit(table, labels), question) is None for reader in READERS)
    for make in (Tree, LogisticRegression, lambda: AdaBoostClassifier(n_estimators=2)):
        patched = make().fit(table, labels)
        patched.predict = lambda rows: np.full(len(rows), "yes")
        with pytest.raises(NoReading, match="replaced"):
            read(patched, question)
    vote = VotingClassifier([("a", Lenient(3)), ("b", Tree())]).fit(table, labels)
    with pytest.raises(NoReading, match="Lenient"):
        read(vote, question)


def test_what_cannot_be_read_is_refused_with_a_reason() -> None:
    table, target = make_data("double")
    labels = into_classes(target, 2)
    guess = GradientBoostingClassifier(n_estimators=2, init=LogisticRegression()).fit(table, labels)
    with pytest.raises(NoReading, match="not a constant"):
        read(guess, EstimatorTarget((1,), None))
    neighbours = KNeighborsClassifier().fit(table, labels)
    assert all(reader(neighbours, EstimatorTarget((1,), None)) is None for reader in READERS)
    with pytest.raises(NoReading, match="no probabilities"):
        read(LinearSVC().fit(table, labels), EstimatorTarget((1,), 0.5))
    folds = CalibratedClassifierCV(LinearSVC(), method="isotonic", cv=3).fit(table, labels)
    with pytest.raises(NoReading, match="3 folds"):
        read(folds, EstimatorTarget((1,), None))


def test_values_that_the_model_refuses_are_refused() -> None:
    table, target = make_data("double")
    labels = into_classes(target, 2)
    ordinary = np.zeros(1)
    for make, value in (
        (GradientBoostingClassifier, np.nan),
        (LogisticRegression, np.nan),
        (LogisticRegression, np.inf),
        (RandomForestClassifier, 1e300),
        (AdaBoostClassifier, np.nan),
        (GaussianNB, np.nan),
    ):
        reading = read(make().fit(table, labels), EstimatorTarget((1,), None))
        with pytest.raises(NoReading):
            decide(reading, [np.array([value])] * 4)
        decide(reading, [ordinary] * 4)
    with pytest.raises(NoReading, match="number"):
        decide(read(Tree().fit(table, labels), EstimatorTarget((1,), None)), [np.array(["text"], dtype=object)] * 4)
