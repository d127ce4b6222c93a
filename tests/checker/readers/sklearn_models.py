"""Small scikit-learn models of every class that the checker reads, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
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
from sklearn.linear_model import (
    ElasticNet,
    HuberRegressor,
    Lars,
    Lasso,
    LassoLars,
    LinearRegression,
    LogisticRegression,
    OrthogonalMatchingPursuit,
    PassiveAggressiveClassifier,
    PassiveAggressiveRegressor,
    Perceptron,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
    SGDClassifier,
    SGDRegressor,
    TheilSenRegressor,
)
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.svm import LinearSVC, LinearSVR
from sklearn.tree import (
    DecisionTreeClassifier as Tree,
    DecisionTreeRegressor as TreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)

CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "tree": lambda: Tree(max_depth=4, random_state=1),
    "extra tree": lambda: ExtraTreeClassifier(random_state=1),
    "forest": lambda: RandomForestClassifier(9, max_depth=4, random_state=1),
    "forest of pure leaves": lambda: RandomForestClassifier(10, random_state=1, n_jobs=2),
    "extra trees": lambda: ExtraTreesClassifier(8, random_state=1),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=6, random_state=1),
    "boosting from zero": lambda: GradientBoostingClassifier(n_estimators=6, init="zero", random_state=1),
    "boosting from a dummy": lambda: GradientBoostingClassifier(
        n_estimators=6, init=DummyClassifier(strategy="prior"), random_state=1
    ),
    "histogram": lambda: HistGradientBoostingClassifier(max_iter=6, min_samples_leaf=4),
    "AdaBoost": lambda: AdaBoostClassifier(Tree(max_depth=2, random_state=1), n_estimators=6, random_state=1),
    "bagging": lambda: BaggingClassifier(
        Tree(max_depth=4), n_estimators=6, max_features=0.6, bootstrap_features=True, max_samples=12, random_state=1
    ),
    "hard vote of trees": lambda: VotingClassifier(
        [("a", Tree(max_depth=3)), ("b", Tree(max_depth=2)), ("c", Tree(max_depth=1)), ("d", Tree(max_depth=5))]
    ),
    "soft vote of forests": lambda: VotingClassifier(
        [("a", Tree(max_depth=3)), ("b", RandomForestClassifier(5, max_depth=3, random_state=1)), ("c", "drop")],
        voting="soft",
        weights=[1, 2.5, 7],
    ),
    "logistic regression": lambda: LogisticRegression(),
    "discriminant analysis": lambda: LinearDiscriminantAnalysis(),
    "support vectors": lambda: LinearSVC(),
    "SGD, log loss": lambda: SGDClassifier(loss="log_loss", random_state=1),
    "SGD, modified Huber": lambda: SGDClassifier(loss="modified_huber", random_state=1),
    "SGD, hinge": lambda: SGDClassifier(random_state=1),
    "ridge": lambda: RidgeClassifier(),
    "ridge, cross-validated": lambda: RidgeClassifierCV(),
    "perceptron": lambda: Perceptron(random_state=1),
    "passive aggressive": lambda: PassiveAggressiveClassifier(random_state=1),
    "normal Bayes": lambda: GaussianNB(),
    "Bernoulli Bayes": lambda: BernoulliNB(binarize=0.25),
}
TWO_CLASSES: dict[str, Callable[[], Any]] = {
    "boosting, exponential loss": lambda: GradientBoostingClassifier(loss="exponential", n_estimators=6),
    "hard vote of models": lambda: VotingClassifier(
        [
            ("a", LogisticRegression()),
            ("b", RandomForestClassifier(6, random_state=1)),
            ("c", Tree(max_depth=2)),
            ("d", GaussianNB()),
        ]
    ),
    "soft vote of models": lambda: VotingClassifier(
        [
            ("a", LogisticRegression()),
            ("b", RandomForestClassifier(5, random_state=1)),
            ("c", GradientBoostingClassifier(n_estimators=5)),
            ("d", GaussianNB()),
        ],
        voting="soft",
        weights=[1, 2, 0.5, 1],
    ),
    "sigmoid, one fold": lambda: CalibratedClassifierCV(LinearSVC(), ensemble=False, cv=3),
    "sigmoid, three folds": lambda: CalibratedClassifierCV(RandomForestClassifier(5, random_state=1), cv=3),
    "sigmoid of a tree": lambda: CalibratedClassifierCV(Tree(max_depth=3), ensemble=False, cv=3),
    "isotonic": lambda: CalibratedClassifierCV(LinearSVC(), method="isotonic", ensemble=False, cv=3),
    "isotonic of boosting": lambda: CalibratedClassifierCV(
        GradientBoostingClassifier(n_estimators=5), method="isotonic", ensemble=False, cv=3
    ),
}
REGRESSIONS: dict[str, Callable[[], Any]] = {
    "tree": lambda: TreeRegressor(max_depth=4),
    "extra tree": lambda: ExtraTreeRegressor(max_depth=4, random_state=1),
    "forest": lambda: RandomForestRegressor(9, random_state=1),
    "extra trees": lambda: ExtraTreesRegressor(9, random_state=1),
    "boosting": lambda: GradientBoostingRegressor(n_estimators=6),
    "boosting, quantile": lambda: GradientBoostingRegressor(n_estimators=6, loss="quantile"),
    "histogram": lambda: HistGradientBoostingRegressor(max_iter=6),
    "histogram, Poisson": lambda: HistGradientBoostingRegressor(max_iter=6, loss="poisson"),
    "histogram, gamma": lambda: HistGradientBoostingRegressor(max_iter=6, loss="gamma"),
    "bagging": lambda: BaggingRegressor(TreeRegressor(max_depth=3), n_estimators=6, max_features=0.7, random_state=1),
    "vote": lambda: VotingRegressor(
        [("a", TreeRegressor(max_depth=3)), ("b", RandomForestRegressor(5, random_state=1)), ("c", LinearRegression())],
        weights=[1, 2, 0.3],
    ),
    "least squares": lambda: LinearRegression(),
    "ridge": lambda: Ridge(),
    "ridge, cross-validated": lambda: RidgeCV(),
    "lasso": lambda: Lasso(0.01),
    "elastic net": lambda: ElasticNet(0.01),
    "SGD": lambda: SGDRegressor(random_state=1),
    "Lars": lambda: Lars(),
    "LassoLars": lambda: LassoLars(0.01),
    "matching pursuit": lambda: OrthogonalMatchingPursuit(n_nonzero_coefs=2),
    "Huber": lambda: HuberRegressor(),
    "Theil-Sen": lambda: TheilSenRegressor(max_subpopulation=50, random_state=1),
    "passive aggressive": lambda: PassiveAggressiveRegressor(random_state=1),
    "support vectors": lambda: LinearSVR(),
}
