"""Additive and calibrated models: where a margin is outside its error, the sum decides as the estimator itself."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import (
    ElasticNet,
    Lasso,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    PassiveAggressiveClassifier,
    Perceptron,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    SGDClassifier,
    SGDRegressor,
)
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC, NuSVC, NuSVR
from sklearn.tree import DecisionTreeClassifier

from ironrule.model.decision import build_decision
from ironrule.model.normal_form.tree_sum import LinkedGroup, Margin, Tree, TreeSum
from ironrule.model.protocol import Unreadable
from ironrule.model.readers.sklearn_additive import read_additive
from ironrule.model.readers.sklearn_calibrated import read_calibrated

CLASSIFIERS = {
    "logistic": lambda seed: LogisticRegression(C=10.0 ** (seed % 3 - 1)),
    "logistic cv": lambda _: LogisticRegressionCV(Cs=2, cv=2, l1_ratios=(0,), use_legacy_attributes=False),
    "liblinear svc": lambda _: LinearSVC(),
    "svc without intercept": lambda _: LinearSVC(fit_intercept=False),
    "support vectors": lambda _: SVC(kernel="linear"),
    "nu support vectors": lambda _: NuSVC(kernel="linear", nu=0.3),
    "crammer singer": lambda _: LinearSVC(multi_class="crammer_singer"),
    "sgd hinge": lambda seed: SGDClassifier(random_state=seed),
    "sgd huber": lambda seed: SGDClassifier(loss="modified_huber", penalty="l1", random_state=seed),
    "sparse sgd": lambda seed: Sparse(random_state=seed),
    "ridge": lambda _: RidgeClassifier(),
    "ridge cv": lambda _: RidgeClassifierCV(),
    "perceptron": lambda seed: Perceptron(random_state=seed),
    "passive aggressive": lambda seed: PassiveAggressiveClassifier(random_state=seed),
    "discriminant": lambda _: LinearDiscriminantAnalysis(),
    "gaussian bayes": lambda _: GaussianNB(),
    "bernoulli bayes": lambda seed: BernoulliNB(binarize=0.1 * seed),
    "categorical bayes": lambda _: CategoricalNB(min_categories=12),
}
WITH_CHANCES = {
    "logistic": lambda _: LogisticRegression(),
    "logistic cv": lambda _: LogisticRegressionCV(Cs=2, cv=2, l1_ratios=(0,), use_legacy_attributes=False),
    "sgd log loss": lambda seed: SGDClassifier(loss="log_loss", random_state=seed),
    "sgd huber": lambda seed: SGDClassifier(loss="modified_huber", random_state=seed),
    "discriminant": lambda _: LinearDiscriminantAnalysis(),
    "gaussian bayes": lambda _: GaussianNB(),
    "bernoulli bayes": lambda _: BernoulliNB(),
    "categorical bayes": lambda _: CategoricalNB(min_categories=12),
}
REGRESSIONS = {
    "least squares": lambda _: LinearRegression(),
    "ridge": lambda _: Ridge(),
    "lasso": lambda _: Lasso(alpha=0.01),
    "elastic net": lambda _: ElasticNet(alpha=0.01),
    "support vectors": lambda _: SVR(kernel="linear"),
    "nu support vectors": lambda _: NuSVR(kernel="linear"),
    "sgd": lambda seed: SGDRegressor(random_state=seed),
}


def Sparse(**settings):  # noqa: N802  # stands for an estimator
    """A classifier that is made sparse after it was fitted."""
    model = SGDClassifier(loss="hinge", penalty="l1", alpha=0.05, **settings)
    fit = model.fit
    model.fit = lambda X, y: fit(X, y).sparsify()
    return model


def fitted(make, seed, classes, dtype=np.float64, whole=False):
    """A model fitted on random rows with these classes, and rows to ask it about."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    X = rng.normal(size=(120, n)) * rng.uniform(0.2, 3, size=n)
    score = X @ rng.normal(size=n) + rng.normal(size=120) * 0.5
    y = np.array(classes)[np.digitize(score, np.quantile(score, np.linspace(0, 1, len(classes) + 1)[1:-1]))]
    ask = np.concatenate([X, rng.normal(size=(1500, n)) * 2])
    if whole:
        X, ask = np.clip(np.floor(X + 3), 0, 11), np.clip(np.floor(ask + 3), 0, 11)
    X, ask = X.astype(dtype), ask.astype(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the fit: convergence, deprecation
        model = make(seed)
        model.fit(X, y)
    return model, ask


def require_agreement(tree_sum, model, desired, threshold, ask, most_undecided=0.02):
    """The sum decides as the model wherever it is sure, and it seldom is not."""
    own = build_decision(model, desired, threshold)(ask, len(ask))
    possible, sure = np.zeros(len(ask), dtype=bool), np.zeros(len(ask), dtype=bool)
    for margins in tree_sum.alternatives:
        pairs = [(margin.evaluate(ask), margin.bound_error(ask)) for margin in margins]
        sure |= np.all([value > error for value, error in pairs], axis=0)
        possible |= np.all([value > -error for value, error in pairs], axis=0)
    assert not (sure & ~own).any()
    assert not (own & ~possible).any()
    assert (possible & ~sure).mean() <= most_undecided


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_a_classifier_with_two_classes_is_read_as_it_decides(kind, dtype):
    for seed in range(1 if kind == "logistic cv" else 4):
        model, ask = fitted(CLASSIFIERS[kind], seed, ["bad", "good"], dtype, kind.startswith("cat"))
        for desired in ("bad", "good"):
            tree_sum = pickle.loads(pickle.dumps(read_additive(model, (desired,), None)))
            require_agreement(tree_sum, model, desired, None, ask)


@pytest.mark.parametrize("kind", [kind for kind in CLASSIFIERS if "support" not in kind])  # which let pairs vote
def test_a_classifier_with_more_classes_is_read_as_it_decides(kind):
    for seed in range(1 if kind == "logistic cv" else 3):
        model, ask = fitted(CLASSIFIERS[kind], seed, [1, 2, 3, 5], whole=kind.startswith("cat"))
        for desired in ((1,), (2, 5), (1, 2, 3)):
            ties = 0.4 if kind in ("bernoulli bayes", "categorical bayes") else 0.02  # few cells, equal counts
            require_agreement(read_additive(model, desired, None), model, desired, None, ask, ties)


def near(model, ask):
    """The rows that a Gaussian model finds likely."""
    far = (ask[:, None] - model.theta_) ** 2 / model.var_
    return ask[far.max(axis=(1, 2)) < 20]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", WITH_CHANCES)
def test_a_threshold_on_the_probability_becomes_a_cut_of_the_score(kind, dtype):
    for seed in range(1 if kind == "logistic cv" else 4):
        model, ask = fitted(WITH_CHANCES[kind], seed, [0, 1], dtype, kind.startswith("cat"))
        edge = 0.01
        if kind == "gaussian bayes" and dtype == np.float32:  # further away, float32 cannot tell the chances
            ask, edge = near(model, ask), 0.2
        for desired in (0, 1):
            own = np.asarray(model.predict_proba(ask)[:, desired])
            inside = own[(own > edge) & (own < 1 - edge)]
            for threshold in (0.5, 1 - edge, 3 * edge, *(float(p) for p in inside[:3])):  # on rows' own chances too
                require_agreement(read_additive(model, (desired,), threshold), model, desired, threshold, ask, 0.3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", REGRESSIONS)
def test_a_regression_is_read_with_a_threshold(kind, dtype):
    for seed in range(5):
        model, ask = fitted(REGRESSIONS[kind], seed, [0.0, 1.0, 4.0], dtype)
        for threshold in (0.0, 1.3, float(model.predict(ask[:1])[0])):
            require_agreement(read_additive(model, (), threshold), model, None, threshold, ask)


def test_large_numbers_that_cancel_are_left_to_the_model():
    model = LogisticRegression().fit([[0.0, 0.0], [1.0, 1.0]], [0, 1])
    model.coef_, model.intercept_ = np.array([[1e9, -1e9]]), np.array([1e-9])
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 1))
    ask = np.concatenate([x, x + rng.integers(-3, 4, size=(3000, 1)) * 2.0**-52], axis=1)
    tree_sum = read_additive(model, (1,), None)
    require_agreement(tree_sum, model, 1, None, ask, 1.0)
    wide = tree_sum.alternatives[0][0]
    assert (np.abs(wide.evaluate(ask)) < wide.bound_error(ask)).any()


def test_classes_whose_sums_almost_agree_are_told_apart_only_as_far_as_the_model_can():
    model, ask = fitted(lambda _: LogisticRegression(), 3, [0, 1, 2])
    model.coef_ = 1e7 + np.random.default_rng(0).normal(size=model.coef_.shape) * 1e-9
    for desired in ((0,), (1,), (0, 2)):
        require_agreement(read_additive(model, desired, None), model, desired, None, ask, 1.0)


def test_ties_are_left_to_the_model():
    model = Perceptron().fit([[0.0], [1.0]], [0, 1])
    model.coef_, model.intercept_ = np.array([[2.0]]), np.array([-1.0])
    margin = read_additive(model, (0,), None).alternatives[0][0]
    assert abs(margin.evaluate(np.array([[0.5]]))[0]) <= margin.bound_error(np.array([[0.5]]))


def test_missing_and_huge_numbers_are_refused_when_they_come():
    for kind in ("logistic", "gaussian bayes", "bernoulli bayes", "categorical bayes"):
        model, ask = fitted(CLASSIFIERS[kind], 1, [0, 1], whole=kind.startswith("cat"))
        tree_sum = read_additive(model, (1,), None)
        for wrong in (np.nan, np.inf, 1e300 if kind != "bernoulli bayes" else np.nan):
            row = ask[:1].copy()
            row[0, 0] = wrong
            with pytest.raises(Unreadable):
                tree_sum.margins(row)
    with pytest.raises(Unreadable, match="0 to 11"):
        read_additive(model, (1,), None).margins(ask[:1] * 0 + 12)


def test_naive_bayes_of_given_chances_is_read_between_0_and_1():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(200, 4)).astype(float)
    model = BernoulliNB(binarize=None).fit(X, (X[:, 0] + X[:, 1] + rng.random(200) > 1.5).astype(int))
    tree_sum = read_additive(model, (1,), None)
    require_agreement(tree_sum, model, 1, None, np.concatenate([X, rng.random((1000, 4))]))
    with pytest.raises(Unreadable, match="between 0 and 1"):
        tree_sum.margins(X * 2)


def test_what_is_no_cut_of_a_sum_is_refused_with_a_reason():
    three, _ = fitted(lambda _: LogisticRegression(), 0, [0, 1, 2])
    bayes, _ = fitted(lambda _: GaussianNB(), 0, [0, 1, 2])
    svc, _ = fitted(lambda _: LinearSVC(), 0, [0, 1])
    two, _ = fitted(lambda _: LogisticRegression(), 0, [0, 1])
    line, ask = fitted(lambda _: LinearRegression(), 0, [0.0, 1.0])
    several = LinearRegression().fit(ask, np.stack([ask[:, 0], ask[:, 0]], axis=1))
    for model, desired, threshold, reason in (
        (three, (1,), 0.5, "more than two classes"),
        (bayes, (1,), 0.5, "more than two classes"),
        (svc, (1,), 0.5, "cannot be cut"),
        (two, (1,), 1.0, "decides nothing"),
        (line, (), None, "with a threshold"),
        (line, (1,), 0.5, "with a threshold"),
        (several, (), 0.5, "2 numbers"),
    ):
        with pytest.raises(Unreadable, match=reason):
            read_additive(model, desired, threshold)


def test_estimators_of_other_kinds_are_left_to_other_readers():
    class Own(LogisticRegression):
        """A user's own class may predict otherwise."""

    assert read_additive(SVC(), (1,), None) is None
    assert read_additive(Own(), (1,), None) is None
    assert read_calibrated(LogisticRegression(), (1,), None, read_additive) is None


class AtMostSplit:
    """A split of scikit-learn's trees."""

    def __init__(self, column, threshold):
        self.column, self.threshold = column, threshold

    def goes_left(self, values):
        return values.astype(np.float32) <= self.threshold


def read_base(estimator, desired, threshold):
    """Additive models, and decision trees by their probability."""
    if not isinstance(estimator, DecisionTreeClassifier):
        return read_additive(estimator, desired, threshold)
    t = estimator.tree_
    splits = tuple(AtMostSplit(f, x) if f >= 0 else None for f, x in zip(t.feature, t.threshold, strict=True))
    shares = t.value[:, 0, list(estimator.classes_).index(desired[0])] / t.value[:, 0].sum(axis=1)
    tree = Tree(splits, t.children_left.astype(np.int32), t.children_right.astype(np.int32), shares)
    return TreeSum(((Margin(-(0.5 if threshold is None else threshold), (LinkedGroup((tree,)),), 1e-12),),))


BASES = {
    "svc": lambda: LinearSVC(),
    "discriminant": lambda: LinearDiscriminantAnalysis(),
    "tree": lambda: DecisionTreeClassifier(max_depth=3),
    "gaussian bayes": lambda: GaussianNB(),
}


def calibrated(base, dtype=np.float64, **settings):
    return lambda seed: fitted(lambda _: CalibratedClassifierCV(BASES[base](), **settings), seed, [0, 1], dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("base", ["svc", "discriminant", "tree"])
def test_the_mean_of_several_sigmoids_is_read_as_it_decides(base, dtype):
    for seed in range(3):
        model, ask = calibrated(base, dtype, cv=3)(seed)
        for desired in (0, 1):
            for threshold in (None, 0.3, 0.8):
                tree_sum = read_calibrated(model, (desired,), threshold, read_base)
                require_agreement(tree_sum, model, desired, threshold, ask)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_the_mean_of_calibrated_trees_is_a_sum_of_trees(method, dtype):
    for seed in range(3):
        model, ask = calibrated("tree", dtype, cv=4, method=method)(seed)
        chances = np.unique(model.predict_proba(ask)[:, 1])
        inner = chances[(chances > 0.01) & (chances < 0.99)]
        for desired in (0, 1):
            for threshold in (None, 0.3, 0.8):
                tree_sum = read_calibrated(model, (desired,), threshold, read_base)
                require_agreement(tree_sum, model, desired, threshold, ask)
            for threshold in inner[:: max(len(inner) // 4, 1)].tolist():  # rounding may decide
                tree_sum = read_calibrated(model, (desired,), threshold, read_base)
                require_agreement(tree_sum, model, desired, threshold, ask, 0.7)


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("base", BASES)
def test_a_single_calibrator_moves_the_threshold(base, method):
    read = 0
    for seed in range(5):
        model, ask = calibrated(base, cv=3, ensemble=False, method=method)(seed)
        for desired in (0, 1):
            for threshold in (None, 0.4):
                try:
                    tree_sum = read_calibrated(model, (desired,), threshold, read_base)
                except Unreadable as refusal:
                    assert method == "isotonic" or base in ("tree", "gaussian bayes"), refusal  # noqa: PT017
                    continue
                require_agreement(tree_sum, model, desired, threshold, ask, 0.3 if base == "tree" else 0.02)
                read += 1
    assert read >= 4


def test_a_falling_sigmoid_is_read_too():
    for settings in ({"cv": 3}, {"cv": 3, "ensemble": False}):
        model, ask = calibrated("svc", **settings)(2)
        for one in model.calibrated_classifiers_:
            one.calibrators[0].a_ *= -1
        for desired in (0, 1):
            require_agreement(read_calibrated(model, (desired,), None, read_base), model, desired, None, ask)


def test_a_frozen_base_is_read():
    model, ask = fitted(lambda _: LogisticRegression(), 1, [0, 1])
    outer = CalibratedClassifierCV(FrozenEstimator(model)).fit(ask, model.predict(ask))
    require_agreement(read_calibrated(outer, (1,), None, read_base), outer, 1, None, ask)


def test_calibrated_models_that_are_no_sum_are_refused_with_a_reason():
    scaled, _ = fitted(lambda _: CalibratedClassifierCV(make_pipeline(StandardScaler(), LinearSVC()), cv=2), 0, [0, 1])
    three, _ = fitted(lambda _: CalibratedClassifierCV(LinearSVC(), cv=2), 0, [0, 1, 2])
    steps, _ = calibrated("svc", cv=2, method="isotonic")(0)
    bayes, _ = calibrated("gaussian bayes", cv=2)(0)
    other, _ = fitted(lambda _: CalibratedClassifierCV(SVC(), cv=2), 0, [0, 1])
    for model, reason in (
        (scaled, "inside the Pipeline"),
        (three, "two classes"),
        (steps, "mean of step functions, not a sum of trees; fit it with ensemble=False"),
        (bayes, "no plain sum"),
        (other, "SVC is not one"),
    ):
        with pytest.raises(Unreadable, match=reason):
            read_calibrated(model, (1,), None, read_base)


def test_a_step_that_lies_on_the_threshold_is_refused():
    model, _ = calibrated("svc", cv=2, ensemble=False, method="isotonic")(0)
    steps = model.calibrated_classifiers_[0].calibrators[0]
    steps.X_thresholds_, steps.y_thresholds_ = np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.0, 0.5, 0.5, 1.0])
    with pytest.raises(Unreadable, match="over an interval"):
        read_calibrated(model, (1,), None, read_base)
    steps.y_thresholds_ = np.array([0.0, 0.1, 0.2, 0.5])
    with pytest.raises(Unreadable, match="does not pass"):
        read_calibrated(model, (1,), None, read_base)
