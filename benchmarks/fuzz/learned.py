"""Families of scikit-learn: trees, ensembles, linear models, naive Bayes, calibration, networks."""

from __future__ import annotations

from typing import Any

from benchmarks.fuzz.data import Rng, Table, Wish
from benchmarks.fuzz.pipelines import Accepts
from benchmarks.fuzz.recipes import MIXED, Recipe, pick, seed_of

CLASSES = ("binary", "binary", "three")
ALL = ("binary", "binary", "three", "regression")


def _tree(rng: Rng, task: str, _table: Table) -> Any:
    from sklearn.tree import (
        DecisionTreeClassifier,
        DecisionTreeRegressor,
        ExtraTreeClassifier,
        ExtraTreeRegressor,
    )

    kinds = (DecisionTreeRegressor, ExtraTreeRegressor) if task == "regression" else ()
    kind = pick(rng, *(kinds or (DecisionTreeClassifier, ExtraTreeClassifier)))
    return kind(max_depth=pick(rng, 1, 2, 3, 4, None), random_state=seed_of(rng))


def _forest(rng: Rng, task: str, _table: Table) -> Any:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    kind = RandomForestRegressor if task == "regression" else RandomForestClassifier
    return kind(n_estimators=int(rng.integers(1, 7)), max_depth=pick(rng, 1, 2, 3, None), random_state=seed_of(rng))


def _extra(rng: Rng, task: str, _table: Table) -> Any:
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    kind = ExtraTreesRegressor if task == "regression" else ExtraTreesClassifier
    return kind(n_estimators=int(rng.integers(1, 7)), max_depth=pick(rng, 1, 2, 3, None), random_state=seed_of(rng))


def _gradient(rng: Rng, task: str, _table: Table) -> Any:
    from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

    common = {"n_estimators": int(rng.integers(1, 8)), "max_depth": pick(rng, 1, 2, 3), "random_state": seed_of(rng)}
    if task == "regression":
        return GradientBoostingRegressor(loss=pick(rng, "squared_error", "absolute_error"), **common)
    loss = pick(rng, "log_loss", "exponential") if task == "binary" else "log_loss"
    return GradientBoostingClassifier(loss=loss, **common)


def _histogram(rng: Rng, task: str, table: Table) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingRegressor if task == "regression" else HistGradientBoostingClassifier
    categories = "from_dtype" if any(column.kind == "category" for column in table.columns) else None
    return kind(
        max_iter=int(rng.integers(1, 5)),
        max_depth=pick(rng, 2, 3, None),
        min_samples_leaf=pick(rng, 1, 3),
        categorical_features=categories,
        random_state=seed_of(rng),
    )


def _adaboost(rng: Rng, _task: str, _table: Table) -> Any:
    from sklearn.ensemble import AdaBoostClassifier
    from sklearn.tree import DecisionTreeClassifier

    base = DecisionTreeClassifier(max_depth=pick(rng, 1, 2), random_state=seed_of(rng))
    return AdaBoostClassifier(base, n_estimators=int(rng.integers(1, 6)), random_state=seed_of(rng))


def _bagging(rng: Rng, task: str, table: Table) -> Any:
    from sklearn.ensemble import BaggingClassifier, BaggingRegressor

    kind = BaggingRegressor if task == "regression" else BaggingClassifier
    base = pick(rng, _tree, _forest)(rng, task, table)
    return kind(base, n_estimators=int(rng.integers(1, 5)), random_state=seed_of(rng))


def _voting(rng: Rng, task: str, table: Table) -> Any:
    from sklearn.ensemble import VotingClassifier, VotingRegressor

    makers = (_tree, _forest, _extra, _gradient, _linear)
    parts = [(f"m{place}", pick(rng, *makers)(rng, task, table)) for place in range(int(rng.integers(2, 4)))]
    if task == "regression":
        return VotingRegressor(parts)
    return VotingClassifier(parts, voting=pick(rng, "hard", "soft"))


def _linear(rng: Rng, task: str, _table: Table) -> Any:
    from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression

    if task == "regression":
        return pick(rng, LinearRegression(), Lasso(alpha=0.05))
    return LogisticRegression(C=float(rng.choice([1e-6, 0.1, 1.0, 100.0])), max_iter=200)


def _ridge(rng: Rng, task: str, _table: Table) -> Any:
    from sklearn.linear_model import Ridge, RidgeClassifier

    kind = Ridge if task == "regression" else RidgeClassifier
    return kind(alpha=float(rng.choice([0.1, 1.0, 10.0])))


def _svc(rng: Rng, task: str, _table: Table) -> Any:
    from sklearn.svm import LinearSVC, LinearSVR

    if task == "regression":
        return LinearSVR(max_iter=300, random_state=seed_of(rng))
    return LinearSVC(C=float(rng.choice([0.1, 1.0])), max_iter=300, random_state=seed_of(rng))


def _discriminant(rng: Rng, _task: str, _table: Table) -> Any:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    return LinearDiscriminantAnalysis(solver=pick(rng, "svd", "lsqr"))


def _descent(rng: Rng, task: str, _table: Table) -> Any:
    from sklearn.linear_model import Perceptron, SGDClassifier, SGDRegressor

    if task == "regression":
        return SGDRegressor(max_iter=50, random_state=seed_of(rng))
    if rng.random() < 0.2 and task == "three":
        return Perceptron(max_iter=20, random_state=seed_of(rng))
    return SGDClassifier(loss=pick(rng, "log_loss", "modified_huber"), max_iter=50, random_state=seed_of(rng))


def _gaussian(rng: Rng, _task: str, _table: Table) -> Any:
    from sklearn.naive_bayes import GaussianNB

    return GaussianNB(var_smoothing=float(rng.choice([1e-9, 1e-2])))


def _bernoulli(rng: Rng, _task: str, _table: Table) -> Any:
    from sklearn.naive_bayes import BernoulliNB

    return BernoulliNB(binarize=float(rng.choice([0.0, 0.5, 4.0])))


def _categorical(_rng: Rng, _task: str, _table: Table) -> Any:
    from sklearn.naive_bayes import CategoricalNB

    return CategoricalNB(min_categories=12)


def _calibrated(rng: Rng, task: str, table: Table) -> Any:
    from sklearn.calibration import CalibratedClassifierCV

    base = pick(rng, _linear, _tree, _forest, _svc, _gradient)(rng, task, table)
    method = pick(rng, "sigmoid", "isotonic")
    return CalibratedClassifierCV(base, method=method, cv=2, ensemble=bool(rng.random() < 0.5))


def _network(rng: Rng, task: str, _table: Table) -> Any:
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    kind = MLPRegressor if task == "regression" else MLPClassifier
    return kind(
        hidden_layer_sizes=pick(rng, (2,), (4,), (3, 2)),
        activation=pick(rng, "relu", "relu", "tanh", "logistic", "identity"),
        solver="lbfgs",
        max_iter=15,
        random_state=seed_of(rng),
    )


def _tuned(rng: Rng, task: str, table: Table) -> Any:
    from sklearn.model_selection import FixedThresholdClassifier

    base = pick(rng, _linear, _tree, _forest)(rng, task, table)
    return FixedThresholdClassifier(base, threshold=float(rng.choice([0.3, 0.5, 0.7])))


NAN = Accepts(missing=True)
CATEGORIES = Wish(kinds=(*MIXED, "category"), missing=True, forms=("pandas", "pandas", "numpy"))

RECIPES = (
    Recipe("tree", _tree, ALL, accepts=NAN, threshold_of_three=True),
    Recipe("forest", _forest, ALL, accepts=NAN, threshold_of_three=True),
    Recipe("extra trees", _extra, ALL, accepts=NAN, threshold_of_three=True),
    Recipe("gradient boosting", _gradient, ALL),
    Recipe("histogram boosting", _histogram, ALL, accepts=NAN),
    Recipe(
        "histogram boosting with categories",
        _histogram,
        ALL,
        Wish(kinds=("int", "float", "category", "category"), missing=True, forms=("pandas",)),
        NAN,
        bare=True,
    ),
    Recipe("adaboost", _adaboost, CLASSES),
    Recipe("bagging", _bagging, ALL),
    Recipe("voting", _voting, ALL, threshold=False),
    Recipe("linear", _linear, ALL),
    Recipe("ridge", _ridge, ALL, threshold=False),
    Recipe("linear svm", _svc, ALL, threshold=False),
    Recipe("discriminant analysis", _discriminant, CLASSES),
    Recipe("gradient descent", _descent, ALL),
    Recipe("gaussian bayes", _gaussian, CLASSES),
    Recipe("bernoulli bayes", _bernoulli, CLASSES),
    Recipe("categorical bayes", _categorical, CLASSES, accepts=Accepts(positive=True)),
    Recipe("calibrated", _calibrated),
    Recipe("network", _network, ALL, intervals=0.02),
    Recipe("fixed threshold", _tuned, threshold=False, intervals=0.0),
)
"""The families of scikit-learn."""
