"""Models whose code is not their library's own: what they were fitted to does not tell what they decide."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from catboost import CatBoostClassifier, CatBoostRegressor
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import all_estimators
from xgboost import Booster, XGBClassifier, XGBRegressor, XGBRFClassifier

from ironrule import Bins, Budget, Explainer, Proven, Scorecard
from ironrule.model.protocol import Unreadable
from ironrule.model.readers.library_class import get_library_class_name, require_own_methods

RNG = np.random.default_rng(0)
VALUES = np.tile(np.arange(60.0), 5)
DATA = pd.DataFrame({name: RNG.permutation(VALUES) for name in "abcd"})
LABELS = (DATA["a"] + DATA["b"] > 70).astype(int).to_numpy()
SPECIAL = (3.0, 5.0, 7.0)  # of a, c and d: too rare to be noticed by asking about a few thousand points

KINDS: dict[str, Callable[[], Any]] = {
    "xgboost": lambda: XGBClassifier(n_estimators=5, max_depth=2),
    "xgboost forest": lambda: XGBRFClassifier(n_estimators=5, max_depth=2),
    "xgboost regressor": lambda: XGBRegressor(n_estimators=5, max_depth=2),
    "lightgbm": lambda: LGBMClassifier(n_estimators=5, verbose=-1),
    "lightgbm regressor": lambda: LGBMRegressor(n_estimators=5, verbose=-1),
    "catboost": lambda: CatBoostClassifier(iterations=5, depth=2, verbose=0, allow_writing_files=False),
    "catboost regressor": lambda: CatBoostRegressor(iterations=5, depth=2, verbose=0, allow_writing_files=False),
    "forest": lambda: RandomForestClassifier(5, max_depth=3, random_state=0),
    "forest regressor": lambda: RandomForestRegressor(5, max_depth=3, random_state=0),
    "histograms": lambda: HistGradientBoostingClassifier(max_iter=3),
    "tree": lambda: DecisionTreeClassifier(max_depth=3),
    "logistic": lambda: LogisticRegression(max_iter=1000),
    "linear": LinearRegression,
    "bayes": GaussianNB,
    "network": lambda: MLPClassifier((3,), solver="lbfgs", max_iter=50, random_state=0, tol=1.0),
}


def is_special(table: Any) -> np.ndarray:
    values = table.to_numpy() if hasattr(table, "to_numpy") else np.asarray(table)
    return np.asarray((values[:, 0] == SPECIAL[0]) & (values[:, 2] == SPECIAL[1]) & (values[:, 3] == SPECIAL[2]))


def with_policy(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, but the rare people get the desired outcome."""

    @functools.wraps(method)
    def changed(*arguments: Any, **options: Any) -> Any:
        answers = np.array(method(*arguments, **options))
        rare = is_special(arguments[-1])
        answers[rare] = 1 if answers.ndim == 1 else [0.0, 1.0]
        return answers

    return changed


def wanted(model: Any) -> dict[str, Any]:
    return {"desired": 1} if len(getattr(model, "classes_", ())) else {"threshold": 0.5}


def assert_nothing_false_is_proven(model: Any, reason: str | None = "was replaced") -> None:
    """Explain a rare person's neighbour; by brute force, no covered person may have the desired outcome if proven."""
    explainer = Explainer(model, DATA, **wanted(model))
    person = {"a": SPECIAL[0], "b": 2.0, "c": SPECIAL[1], "d": 1.0}
    explanation = explainer.explain(person, budget=Budget(seconds=20))
    table = pd.DataFrame([{**person, "b": b, "d": SPECIAL[2]} for b in range(3)])[list(DATA.columns)].astype(float)
    answers = np.asarray(model.predict(table)).ravel() > 0.5
    assert answers.all()  # the policy is at work
    covered = explanation.rule.covers(table)
    assert not (isinstance(explanation.verdict, Proven) and (answers & covered).any())
    assert explainer.unreadable_reason is not None
    assert reason is None or reason in explainer.unreadable_reason


@pytest.mark.parametrize("kind", KINDS)
def test_a_method_that_was_assigned_on_the_model_is_noticed(kind: str) -> None:
    model = KINDS[kind]().fit(DATA, LABELS)
    require_own_methods(model)
    model.predict = with_policy(model.predict)
    assert_nothing_false_is_proven(model, "the predict of this")


@pytest.mark.parametrize("kind", KINDS)
def test_a_method_that_was_replaced_in_the_class_is_noticed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = KINDS[kind]().fit(DATA, LABELS)
    monkeypatch.setattr(type(model), "predict", with_policy(type(model).predict))
    assert_nothing_false_is_proven(model, "the predict of this")


@pytest.mark.parametrize("kind", KINDS)
def test_a_subclass_that_overrides_predict_is_not_read_as_its_base(kind: str) -> None:
    base = type(KINDS[kind]())
    own = type("Own" + base.__name__, (base,), {"predict": with_policy(base.predict), "__module__": __name__})
    model = KINDS[kind]().fit(DATA, LABELS)
    model.__class__ = own
    assert_nothing_false_is_proven(model, None)


def test_a_subclass_that_takes_the_name_of_its_base_is_not_read_either() -> None:
    for base in (RandomForestClassifier, XGBClassifier):
        own = type(base.__name__, (base,), {"predict": with_policy(base.predict), "__module__": base.__module__})
        model = base(n_estimators=3, max_depth=2).fit(DATA, LABELS)
        model.__class__ = own
        assert get_library_class_name(model, "sklearn") == ""
        assert_nothing_false_is_proven(model, None)


def forest() -> Any:
    return RandomForestClassifier(3, max_depth=3, random_state=0)


def decide_for_everybody(table: Any, check_input: bool = True) -> Any:  # noqa: ARG001  # forests pass it
    chances = np.zeros((len(table), 2))
    chances[:, 1] = 1.0
    return chances


def patched_member(model: Any) -> Any:
    model.estimators_[0].predict_proba = decide_for_everybody
    return model


def patched_base(model: Any) -> Any:
    inner = model.calibrated_classifiers_[0].estimator
    inner = getattr(inner, "estimator", inner)
    inner.predict_proba = decide_for_everybody
    return model


def patched_step(model: Any) -> Any:
    model[0].transform = lambda table: np.asarray(table) * 0.0
    return model


INSIDE: dict[str, Callable[[], Any]] = {
    "member of a forest": lambda: patched_member(forest().fit(DATA, LABELS)),
    "member of extra trees": lambda: patched_member(ExtraTreesClassifier(3).fit(DATA, LABELS)),
    "member of a bag": lambda: patched_member(
        BaggingClassifier(DecisionTreeClassifier(max_depth=2), 3).fit(DATA, LABELS)
    ),
    "member of a vote": lambda: patched_member(
        VotingClassifier([("one", forest()), ("two", forest())], voting="soft").fit(DATA, LABELS)
    ),
    "calibrated base": lambda: patched_base(
        CalibratedClassifierCV(DecisionTreeClassifier(max_depth=3), ensemble=False).fit(DATA, LABELS)
    ),
    "frozen calibrated base": lambda: patched_base(
        CalibratedClassifierCV(FrozenEstimator(forest().fit(DATA, LABELS)), ensemble=False).fit(DATA, LABELS)
    ),
    "step": lambda: patched_step(make_pipeline(StandardScaler(), forest()).fit(DATA, LABELS)),
    "step of a union": lambda: patched_step(
        make_pipeline(FeatureUnion([("one", StandardScaler())]), forest()).fit(DATA, LABELS)
    ),
}


@pytest.mark.parametrize("kind", INSIDE)
def test_methods_that_were_replaced_inside_of_a_model_are_noticed(kind: str) -> None:
    explainer = Explainer(INSIDE[kind](), DATA, desired=1)
    assert explainer.unreadable_reason is not None
    assert "was replaced" in explainer.unreadable_reason


def test_boosters_and_losses_and_label_encoders_are_looked_at_too() -> None:
    xgboost = XGBClassifier(n_estimators=3).fit(DATA, LABELS)
    xgboost.get_booster().inplace_predict = None
    histograms = HistGradientBoostingClassifier(max_iter=2).fit(DATA, LABELS)
    histograms._predictors[0][0].predict = None
    boosting = GradientBoostingClassifier(n_estimators=2).fit(DATA, LABELS)
    boosting._loss.predict_proba = None
    votes = VotingClassifier([("one", forest())], voting="soft").fit(DATA, LABELS)
    votes.le_.inverse_transform = None
    for model in (xgboost, histograms, boosting, votes):
        with pytest.raises(Unreadable, match="was replaced"):
            require_own_methods(model)


@pytest.mark.parametrize("last", ["pipeline", "final", "search", "subclassed search"])
def test_wrappers_with_code_of_their_own_are_noticed(last: str) -> None:
    model: Any
    if "search" in last:
        model = GridSearchCV(DecisionTreeClassifier(max_depth=3), {}, cv=2).fit(DATA, LABELS)
    else:
        model = make_pipeline(FunctionTransformer(), DecisionTreeClassifier(max_depth=3)).fit(DATA, LABELS)
    if last == "subclassed search":
        model.__class__ = type("Own", (GridSearchCV,), {"predict": with_policy(GridSearchCV.predict)})
        assert_nothing_false_is_proven(model, None)
        return
    changed = model[-1] if last == "final" else model
    changed.predict = with_policy(changed.predict)
    assert_nothing_false_is_proven(model)


def test_a_scorecard_with_code_of_its_own_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Scorecard((Bins("a", edges=(5,), points=(0, 10)), Bins("b", edges=(5,), points=(0, 10))), cutoff=15)

    plain = Scorecard.predict

    class Generous(Scorecard):
        """A policy on top."""

        def predict(self, table: Any) -> Any:
            return np.maximum(plain(self, table), table["a"] == 3)

    generous = Generous(card.parts, card.cutoff)
    assert Explainer(card, DATA, desired=1).unreadable_reason is None
    assert "subclass of Scorecard" in str(Explainer(generous, DATA, desired=1).unreadable_reason)
    monkeypatch.setattr(Scorecard, "predict", Generous.predict)
    assert "the predict of this Scorecard was replaced" in str(Explainer(card, DATA, desired=1).unreadable_reason)


def test_classes_that_were_changed_after_fitting_are_noticed() -> None:
    network = KINDS["network"]().fit(DATA, LABELS)
    network.classes_ = network.classes_[::-1]
    lightgbm = KINDS["lightgbm"]().fit(DATA, LABELS)
    lightgbm._classes = lightgbm._classes[::-1]
    votes = VotingClassifier([("one", forest())], voting="soft").fit(DATA, LABELS)
    votes.classes_ = votes.classes_[::-1]
    for model in (network, lightgbm, votes):
        assert "classes_" in str(Explainer(model, DATA, desired=1).unreadable_reason)


def test_a_loss_that_was_set_after_fitting_changes_nothing() -> None:
    model = GradientBoostingClassifier(n_estimators=5, max_depth=2, random_state=0).fit(DATA, LABELS)
    model.set_params(loss="exponential")
    assert Explainer(model, DATA, desired=1, threshold=0.7).unreadable_reason is None


def test_an_objective_that_was_set_after_fitting_is_noticed() -> None:
    model = XGBClassifier(n_estimators=2, max_depth=2).fit(DATA, (LABELS + (DATA["c"] > 30)).to_numpy())
    assert Explainer(model, DATA, desired=1).unreadable_reason is None
    model.set_params(objective="multi:softmax")  # of the booster, too
    assert Explainer(model, DATA, desired=1).unreadable_reason is None
    model.objective = "multi:softprob"
    assert "its objective was set" in str(Explainer(model, DATA, desired=1).unreadable_reason)


def test_the_methods_of_every_library_are_its_own() -> None:
    kinds = [kind for _, kind in all_estimators()]
    kinds += [AdaBoostClassifier, Booster, *(type(make()) for make in KINDS.values())]
    for kind in kinds:
        require_own_methods(object.__new__(kind), deep=False)


def test_what_no_decision_depends_on_may_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    model = forest().fit(DATA, LABELS)
    monkeypatch.setattr(RandomForestClassifier, "fit", lambda *_: None)
    assert Explainer(model, DATA, desired=1).unreadable_reason is None


def test_a_reader_of_a_library_that_is_not_listed_fails_at_once() -> None:
    with pytest.raises(ValueError, match="'numpy' must be in LIBRARIES"):  # its objects would not be looked at
        get_library_class_name(np.zeros(1), "numpy")
