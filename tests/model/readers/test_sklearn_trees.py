"""scikit-learn's trees as sums of trees: outside the error, a sum decides as the model itself does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor

from ironrule.model.decision import build_decision
from ironrule.model.normal_form.tree_sum import TreeSum
from ironrule.model.protocol import Unreadable
from ironrule.model.readers.sklearn_trees import SklearnCategorySplit, SklearnThresholdSplit, read_sklearn_trees

Table = npt.NDArray[Any]
SEEDS = range(2)
# few trees, shares like 1/3
TIED = ("bagging", "extra trees", "forest", "weighted hard voting", "weighted soft voting")


def most_left_open(kind: str) -> float:
    """The share of points on which a sum of trees may leave the decision to the model."""
    return 0.3 if kind in TIED else 0.02


def ensembles_of(kind: Any, base: Any, **more: Any) -> Callable[[int], Any]:
    return lambda seed: kind(base(seed), n_estimators=5, random_state=seed, **more)


def tree(seed: int) -> Any:
    return DecisionTreeClassifier(max_depth=3, random_state=seed)


def regression_tree(seed: int) -> Any:
    return DecisionTreeRegressor(max_depth=3, random_state=seed)


def forest(seed: int) -> Any:
    return RandomForestClassifier(5, max_depth=3, random_state=seed)


def boosted(seed: int) -> Any:
    return GradientBoostingClassifier(n_estimators=5, max_depth=2, random_state=seed)


def histogram(seed: int) -> Any:
    return HistGradientBoostingClassifier(max_iter=5, max_leaf_nodes=5, min_samples_leaf=3, random_state=seed)


def voting(how: str, *members: Callable[[int], Any], weights: Any = None) -> Callable[[int], Any]:
    return lambda seed: VotingClassifier(
        [(str(k), make(seed + k)) for k, make in enumerate(members)], voting=how, weights=weights
    )


MANY_CLASSES: dict[str, Callable[[int], Any]] = {
    "tree": tree,
    "deep tree": lambda seed: DecisionTreeClassifier(random_state=seed),
    "best-first tree": lambda seed: DecisionTreeClassifier(max_leaf_nodes=6, random_state=seed),
    "extra tree": lambda seed: ExtraTreeClassifier(max_depth=4, random_state=seed),
    "forest": forest,
    "forest of pure leaves": lambda seed: RandomForestClassifier(6, random_state=seed),
    "extra trees": lambda seed: ExtraTreesClassifier(6, max_depth=4, random_state=seed),
    "gradient boosting": boosted,
    "histogram boosting": histogram,
    "bagging": ensembles_of(BaggingClassifier, tree, max_features=0.7, max_samples=0.3),
    "bagging of forests": ensembles_of(BaggingClassifier, forest),
    "AdaBoost": ensembles_of(AdaBoostClassifier, tree),
    "hard voting of trees": voting(
        "hard", tree, tree, lambda seed: ExtraTreeClassifier(max_depth=2, random_state=seed)
    ),
    "weighted hard voting": voting("hard", tree, tree, tree, weights=[0.1, 0.2, 0.3]),
    "soft voting": voting("soft", tree, forest),
    "weighted soft voting": voting("soft", tree, forest, tree, weights=[2, 1, 0]),
}
TWO_CLASSES: dict[str, Callable[[int], Any]] = {
    **MANY_CLASSES,
    "exponential loss": lambda seed: GradientBoostingClassifier(loss="exponential", n_estimators=5, random_state=seed),
    "boosting from zero": lambda seed: GradientBoostingClassifier(init="zero", n_estimators=3, random_state=seed),
    "bagging of boosting": ensembles_of(BaggingClassifier, boosted, max_features=0.7),
    "soft voting of boosting": voting("soft", boosted, histogram, forest, ensembles_of(AdaBoostClassifier, tree)),
    "weighted soft voting of boosting": voting("soft", boosted, histogram, weights=[1, 3]),
    "hard voting of ensembles": voting("hard", forest, boosted, tree),
    "weighted hard voting of ensembles": voting("hard", histogram, forest, tree, boosted, weights=[1, 0.7, 0.3, 1.1]),
    "hard voting of pure forests": voting("hard", MANY_CLASSES["forest of pure leaves"], tree, tree),
}
REGRESSORS: dict[str, Callable[[int], Any]] = {
    "tree": regression_tree,
    "extra tree": lambda seed: ExtraTreeRegressor(max_depth=3, random_state=seed),
    "forest": lambda seed: RandomForestRegressor(5, max_depth=4, random_state=seed),
    "extra trees": lambda seed: ExtraTreesRegressor(5, max_depth=4, random_state=seed),
    "gradient boosting": lambda seed: GradientBoostingRegressor(n_estimators=5, random_state=seed),
    "quantile boosting": lambda seed: GradientBoostingRegressor(loss="quantile", n_estimators=5, random_state=seed),
    "histogram boosting": lambda seed: HistGradientBoostingRegressor(max_iter=5, min_samples_leaf=3, random_state=seed),
    "Poisson boosting": lambda seed: HistGradientBoostingRegressor(
        loss="poisson", max_iter=5, min_samples_leaf=3, random_state=seed
    ),
    "bagging": ensembles_of(BaggingRegressor, regression_tree, max_features=0.7),
    "voting": lambda seed: VotingRegressor(
        [("a", regression_tree(seed)), ("b", RandomForestRegressor(3, random_state=seed))], weights=[1, 2.5]
    ),
}


def data(seed: int, classes: int, rows: int = 80) -> tuple[Table, Table]:
    """Whole numbers, halves, hard floats and huge numbers."""
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [
            rng.integers(-3, 4, rows),
            rng.integers(-4, 5, rows) / 2,
            rng.normal(size=rows),
            rng.integers(0, 2, rows) * 0.1,
            rng.integers(2**24, 2**24 + 20, rows),
        ]
    ).astype(np.float64)
    score = X[:, 0] + X[:, 1] * X[:, 2] + 3 * X[:, 3] + 0.1 * (X[:, 4] - 2**24) + rng.normal(size=rows)
    cuts = np.quantile(score, np.arange(1, classes) / classes)
    y = np.searchsorted(cuts, score)
    y[:classes] = np.arange(classes)
    return X, y


def thresholds(tree_sum: TreeSum) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    trees = [t for some in tree_sum.alternatives for m in some for g in m.groups for t in g.trees]
    for split in {split for t in trees for split in t.splits if isinstance(split, SklearnThresholdSplit)}:
        found.setdefault(split.column, []).append(split.threshold)
    return found


def neighbours(value: float) -> list[float]:
    if not np.isfinite(value):
        return []
    single = np.float32(value)
    near = [np.nextafter(single, np.float32(side)) for side in (-np.inf, np.inf)]
    halves = [(float(single) + float(other)) / 2 for other in near]  # where rounding to float32 turns
    doubles = [np.nextafter(v, side) for v in (value, *halves) for side in (-np.inf, np.inf)]
    return [value, float(single), *map(float, near), *halves, *map(float, doubles)]


def points(tree_sum: TreeSum, X: Table, seed: int, missing: bool, count: int = 800) -> Table:
    """Rows mixed from the data, with many values on and next to thresholds."""
    rng = np.random.default_rng(seed + 100)
    mixed = np.column_stack([rng.choice(column, count) for column in X.T])
    for column, cuts in thresholds(tree_sum).items():
        pool = np.array([v for cut in cuts for v in neighbours(cut)] + [0.0, -0.0, 1e30, -1e30])
        here = rng.random(count) < 0.5
        mixed[here, column] = rng.choice(pool, int(here.sum()))
    if missing:
        mixed[rng.random(mixed.shape) < 0.1] = np.nan
    return mixed


def verdicts(tree_sum: TreeSum, seen: Table) -> tuple[Table, Table]:
    """Where the sum of trees is sure that a point is desired, and where it is sure that it is not."""
    errors = [max(margin.error for margin in margins) for margins in tree_sum.alternatives]
    found = list(zip(tree_sum.margins(seen), errors, strict=True))
    sure = np.any([margin > error for margin, error in found], axis=0)
    never = np.all([margin <= -error for margin, error in found], axis=0)
    return sure, never


def assert_agrees(
    model: Any, X: Table, desired: tuple[Any, ...], threshold: float | None, seed: int = 0, missing: bool = False
) -> float:
    """Check a sum of trees against its model; gives the share of points that are left to the model."""
    tree_sum = read_sklearn_trees(model, desired, threshold)
    assert tree_sum is not None
    seen = points(tree_sum, X, seed, missing)
    outcome = build_decision(model, desired or None, threshold)(seen, len(seen))
    sure, never = verdicts(tree_sum, seen)
    assert outcome[sure].all()
    assert not outcome[never].any()
    return float(1 - (sure | never).mean())


@pytest.mark.parametrize("kind", TWO_CLASSES)
def test_two_classes_are_decided_as_the_model_decides(kind: str) -> None:
    for seed in SEEDS:
        X, y = data(seed, 2)
        model = TWO_CLASSES[kind](seed).fit(X, np.array(["no", "yes"])[y])
        for desired in ("no", "yes"):
            assert assert_agrees(model, X, (desired,), None, seed) < most_left_open(kind)
            if hasattr(model, "predict_proba"):
                assert assert_agrees(model, X, (desired,), 0.37, seed) < 0.02


@pytest.mark.parametrize("kind", MANY_CLASSES)
def test_several_classes_are_decided_as_the_model_decides(kind: str) -> None:
    for seed in SEEDS:
        X, y = data(seed, 4)
        model = MANY_CLASSES[kind](seed).fit(X, y + 10)
        for desired in ((10,), (12, 11), (10, 12, 13)):
            share = assert_agrees(model, X, desired, None, seed)
            assert share < most_left_open(kind)


@pytest.mark.parametrize("kind", ["tree", "forest", "forest of pure leaves", "bagging", "soft voting"])
@pytest.mark.parametrize("threshold", [-0.1, 0.0, 0.29, 0.5, 1.0])
def test_several_classes_pass_a_threshold_together(kind: str, threshold: float) -> None:
    X, y = data(1, 4)
    model = MANY_CLASSES[kind](1).fit(X, y)
    for desired in ((2,), (0, 3)):
        assert_agrees(model, X, desired, threshold)
    assert assert_agrees(model, X, (0, 3), 0.41) < 0.02


@pytest.mark.parametrize("kind", ["gradient boosting", "histogram boosting"])
def test_several_classes_pass_a_threshold_on_their_softmax(kind: str) -> None:
    for seed in SEEDS:
        X, y = data(seed, 3)
        model = MANY_CLASSES[kind](seed).fit(X, y)
        for desired in ((0,), (2,), (0, 1)):
            for threshold in (-0.1, 0.21, 0.5, 0.83, 1.5):
                assert assert_agrees(model, X, desired, threshold, seed) < 0.02


@pytest.mark.parametrize("kind", REGRESSORS)
def test_a_regression_is_decided_by_its_threshold(kind: str) -> None:
    for seed in SEEDS:
        X, y = data(seed, 30)
        model = REGRESSORS[kind](seed).fit(X, y + 0.5)
        for threshold in (0.0, 14.3, float(np.median(model.predict(X)))):
            if kind == "Poisson boosting" and threshold == 0.0:
                continue
            assert_agrees(model, X, (), threshold, seed)
        assert assert_agrees(model, X, (), 14.3, seed) < 0.02


@pytest.mark.parametrize("kind", ["tree", "deep tree", "forest", "histogram boosting", "bagging"])
def test_missing_values_go_where_the_model_sends_them(kind: str) -> None:
    for seed in SEEDS:
        X, y = data(seed, 3)
        X[np.random.default_rng(seed).random(X.shape) < 0.2] = np.nan
        model = MANY_CLASSES[kind](seed).fit(X, y)
        assert assert_agrees(model, X, (1,), None, seed, missing=True) < most_left_open(kind)


def categorical_table(seed: int, rows: int = 200) -> tuple[pd.DataFrame, Table]:
    rng = np.random.default_rng(seed)
    job = rng.choice(np.array(["clerk", "cook", "nurse", "pilot", "smith"], dtype=object), rows)
    size, town = rng.normal(size=rows), rng.choice([3.0, 7.0, 8.0, 40.0], rows)
    town[rng.random(rows) < 0.1] = np.nan
    job[rng.random(rows) < 0.1] = np.nan
    y = ((job == "cook") | (job == "pilot")) ^ (town == 7.0) ^ (size > 0.3)
    return pd.DataFrame({"size": size, "job": job, "age": rng.integers(0, 9, rows), "town": town}), y.astype(int)


def test_categories_of_histogram_boosting_are_sets_of_raw_values() -> None:
    for seed in SEEDS:
        frame, y = categorical_table(seed)
        model = HistGradientBoostingClassifier(categorical_features=["job", "town"], max_iter=15, min_samples_leaf=3)
        model.fit(frame, y)
        tree_sum = read_sklearn_trees(model, (1,), None)
        assert tree_sum is not None
        splits = {t for group in tree_sum.alternatives[0][0].groups for tree in group.trees for t in tree.splits}
        assert {t.column for t in splits if isinstance(t, SklearnCategorySplit)} == {1, 3}
        assert {t.column for t in splits if isinstance(t, SklearnThresholdSplit)} <= {0, 2}
        other = pd.concat([frame, frame.assign(job="never seen", town=-1.0), frame.assign(town=7.5)], ignore_index=True)
        sure, never = verdicts(tree_sum, other.to_numpy(dtype=object))
        assert (sure | never).all()
        assert (sure == (model.predict(other) == 1)).all()


def test_numeric_categories_work_on_plain_arrays_and_in_bags() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=200), rng.integers(0, 300, 200) % 40 * 2.0, rng.integers(0, 3, 200)])
    y = ((X[:, 1] % 6 == 0) ^ (X[:, 0] > 0)).astype(int)
    model = HistGradientBoostingClassifier(categorical_features=[1], max_iter=8, min_samples_leaf=2).fit(X, y)
    X_new = X + np.where(rng.random(X.shape) < 0.2, [0, 1, 0], 0)
    tree_sum = read_sklearn_trees(model, (1,), None)
    assert tree_sum is not None
    sure, never = verdicts(tree_sum, X_new)
    assert (sure | never).all()
    assert (sure == (model.predict(X_new) == 1)).all()


def test_ties_of_whole_votes_go_to_the_first_class_without_asking() -> None:
    X, y = data(2, 2)
    for model in (
        RandomForestClassifier(2, random_state=0).fit(X, y),
        voting("hard", tree, lambda seed: DecisionTreeClassifier(max_depth=1, random_state=seed))(0).fit(X, y),
        voting("hard", *[MANY_CLASSES["forest of pure leaves"]] * 2)(0).fit(X, y),
    ):
        for desired in (0, 1):
            assert assert_agrees(model, X, (desired,), None) == 0.0
    assert assert_agrees(RandomForestClassifier(2, random_state=0).fit(X, y), X, (1,), 0.5) == 0.0


def test_a_doubtful_vote_is_left_to_the_model() -> None:
    X = np.array([[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]])
    y = np.array([0, 0, 1, 0, 1, 1])
    model = voting("hard", boosted, tree, tree)(0).fit(X, y)
    model.estimators_[0].init_ = "zero"
    for stage in model.estimators_[0].estimators_[:, 0]:
        stage.tree_.value[:] = 0.0
    model.estimators_[2] = DecisionTreeClassifier().fit(X, 1 - y)  # the first vote decides, and its raw score is zero
    tree_sum = read_sklearn_trees(model, (1,), None)
    assert tree_sum is not None
    sure, never = verdicts(tree_sum, X)
    assert not sure.any()
    assert not never.any()


@pytest.mark.parametrize("make", [tree, forest, *(TWO_CLASSES[k] for k in ("bagging", "deep tree"))])
@pytest.mark.parametrize("threshold", [None, 0.5])
def test_a_single_class_is_constant(make: Callable[[int], Any], threshold: float | None) -> None:
    X, _ = data(0, 2)
    model = make(0).fit(X, np.full(len(X), "only"))
    for desired, outcome in ((("only",), True), ((), False)):
        tree_sum = read_sklearn_trees(model, desired, threshold)
        assert tree_sum is not None
        sure, never = verdicts(tree_sum, X)
        assert (sure if outcome else never).all()


@pytest.mark.parametrize(
    "kind", ["tree", "forest", "gradient boosting", "histogram boosting", "soft voting of boosting"]
)
def test_trees_of_a_single_leaf_are_read(kind: str) -> None:
    X, y = data(0, 2)
    model = TWO_CLASSES[kind](0).fit(np.zeros_like(X), y)
    assert_agrees(model, X, (1,), None)
    assert_agrees(model, X, (0,), 0.3)


def test_float32_is_replicated_for_whole_numbers_halves_and_objects() -> None:
    split = SklearnThresholdSplit(0, 16777216.0, missing_left=True, as_float32=True)
    assert split.goes_left(np.array([2**24, 2**24 + 1, 2**24 + 2])).tolist() == [True, True, False]
    assert split.goes_left(np.array([None, 3, 1e300, -1e300], dtype=object)).tolist() == [True, True, False, True]
    assert SklearnThresholdSplit(0, -0.0, False, as_float32=False).goes_left(
        np.array([0.0, -0.0, 5e-324])
    ).tolist() == [True, True, False]
    assert SklearnThresholdSplit(0, 0.0, False, as_float32=True).goes_left(
        np.array([1e-60, -1e-60, np.nan])
    ).tolist() == [
        True,
        True,
        False,
    ]


def test_tests_are_hashable_values() -> None:
    assert (
        len(
            {
                SklearnThresholdSplit(0, 1.0, True, True),
                SklearnThresholdSplit(0, 1.0, True, True),
                SklearnCategorySplit(0, frozenset("a"), frozenset(), True),
            }
        )
        == 2
    )


def test_other_models_and_subclasses_are_not_read() -> None:
    class Own(DecisionTreeClassifier):
        """It could decide as it likes."""

    X, y = data(0, 2)
    assert read_sklearn_trees(LogisticRegression(), (1,), None) is None
    assert read_sklearn_trees(Own().fit(X, y), (1,), None) is None
    assert read_sklearn_trees(object(), (1,), None) is None


def unreadable_models() -> list[tuple[str, Any, tuple[Any, ...], float | None]]:
    X, y = data(0, 3)
    two = y % 2
    random_start = GradientBoostingClassifier(init=DummyClassifier(strategy="stratified"), n_estimators=2)
    line = LogisticRegression(max_iter=10_000)
    return [
        ("must be fitted", DecisionTreeClassifier(), (1,), None),
        ("scaled scores", AdaBoostClassifier(tree(0), n_estimators=3).fit(X, y), (1,), 0.5),
        ("against several others", boosted(0).fit(X, np.arange(len(X)) % 4), (1, 2), 0.5),
        ("member's softmax", voting("soft", histogram, tree)(0).fit(X, y), (1,), None),
        ("another model", GradientBoostingClassifier(init=tree(0), n_estimators=2).fit(X, two), (1,), None),
        ("another model", random_start.fit(X, two), (1,), None),
        ("not among", voting("soft", tree, lambda _: line)(0).fit(X % 7, two), (1,), None),
        ("only with a threshold", regression_tree(0).fit(X, y), (), None),
        ("among several classes", voting("hard", tree, forest)(0).fit(X, y), (1,), None),
        ("no probabilities", voting("hard", tree, tree)(0).fit(X, two), (1,), 0.5),
        ("no probabilities", BaggingClassifier(voting("hard", tree, tree)(0), 2).fit(X, two), (1,), None),
        ("two links", voting("hard", tree, voting("soft", boosted, tree))(0).fit(X, two), (1,), None),
        ("multi-output", tree(0).fit(X, np.column_stack([y, y])), (1,), None),
        ("only single trees", AdaBoostClassifier(forest(0), n_estimators=2).fit(X, y), (1,), None),
        ("logistic probability", boosted(0).fit(X, two), (1,), 1e-9),
        ("single class", histogram(0).fit(X, np.zeros(len(X))), (0,), 0.5),
    ]


def test_what_cannot_be_read_says_why() -> None:
    for reason, model, desired, threshold in unreadable_models():
        with pytest.raises(Unreadable, match=reason):
            read_sklearn_trees(model, desired, threshold)
