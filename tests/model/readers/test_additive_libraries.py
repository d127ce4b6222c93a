"""Explainable boosting machines and pyGAM's models: where a normal form is sure, it decides as the model itself."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from exhaustive_checks import assert_shortest, measure_undecided_share
from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor
from pygam import GAM, GammaGAM, LinearGAM, LogisticGAM, PoissonGAM, f, intercept, l, s, te
from sklearn.tree import DecisionTreeClassifier

from ironrule import Explainer
from ironrule.model.decision import build_decision
from ironrule.model.model_input import compute_model_input
from ironrule.model.normal_form.tree_sum import TreeSum
from ironrule.model.protocol import Unreadable
from ironrule.model.readers.interpret_models import CategoryBins, ContinuousBins, read_ebm
from ironrule.model.readers.pygam_models import read_gam
from ironrule.model.readers.registry import read_estimator


def require_agreement(tree_sum: TreeSum | None, model: Any, rows: Any, desired: Any, threshold: float | None) -> None:
    """Where margins are outside their errors the sum of trees decides as the model does; elsewhere is rare."""
    assert tree_sum is not None
    seen = compute_model_input(None, rows)
    own = build_decision(model, desired, threshold)(rows, len(rows))
    sure, possible = np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_)
    for margins in tree_sum.alternatives:
        pairs = [(margin.evaluate(seen), margin.bound_error(seen)) for margin in margins]
        sure |= np.all([value > error for value, error in pairs], axis=0)
        possible |= np.all([value > -error for value, error in pairs], axis=0)
    assert not (sure & ~own).any()
    assert not (own & ~possible).any()
    assert (possible & ~sure).mean() < 0.02


def people(seed: int, rows: int = 240, holes: float = 0.1) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers, texts that look like numbers, whole numbers and booleans."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "income": rng.normal(size=rows).round(1),
            "home": rng.choice(np.array(["own", "rent", "1", "1.0", ""], dtype=object), rows),
            "loans": rng.integers(0, 4, rows),
            "owner": rng.choice([True, False], rows),
            "share": rng.choice([0.1, 0.5, 2.0], rows),
        }
    )
    raw = table["income"] * np.where(table["home"] == "own", 2, 1) + table["loans"] * (table["share"] - 0.5)
    table.loc[rng.random(rows) < holes, "income"] = np.nan
    table.loc[rng.random(rows) < holes, "home"] = None
    return table, raw.to_numpy() + rng.normal(size=rows) * 0.3


def strangers(model: Any, table: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Rows on cuts and next to them, with unknown categories and extreme numbers."""
    rng = np.random.default_rng(seed)
    cuts = np.concatenate(list(model.bins_[0]))
    near = [*cuts, *np.nextafter(cuts, -9), *np.nextafter(cuts, 9), 0.0, -0.0, 1e300, -1e300, np.nan, np.inf]
    rows = table.sample(600, replace=True, random_state=seed).reset_index(drop=True)
    rows["income"] = rng.choice(near, 600)
    rows["home"] = rng.choice(np.array(["own", "rent", "1", "never", None], dtype=object), 600)
    rows["loans"] = rng.choice([0, 1, 3, 77], 600)
    rows["share"] = rng.choice([0.1, 0.5, 2.0, 0.25, 1e9], 600)
    return rows


def boosted(kind: Any, table: pd.DataFrame, y: Any, **options: Any) -> Any:
    types = [None, "nominal", "nominal", "nominal", "nominal"]
    few = {"outer_bags": 1, "max_rounds": 40, "n_jobs": 1, "random_state": 0, "interactions": 3, "feature_types": types}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about missing values, which its plots do not show
        return kind(**few | options).fit(table, y)


@pytest.mark.parametrize("options", [{}, {"interactions": 0}, {"interactions": [(1, 2, 3), (2, 4)]}], ids=str)
def test_an_explainable_boosting_classifier_is_read_as_it_decides(options: dict[str, Any]) -> None:
    table, raw = people(0)
    model = boosted(ExplainableBoostingClassifier, table, np.where(raw > 0, "yes", "no"), **options)
    rows = strangers(model, table, 0)
    for desired in ("yes", "no"):
        for threshold in (None, 0.3, 0.5, 0.9):
            require_agreement(read_ebm(model, (desired,), threshold), model, rows, desired, threshold)


def test_an_explainable_boosting_classifier_of_several_classes_is_read() -> None:
    table, raw = people(1)
    model = boosted(ExplainableBoostingClassifier, table, np.digitize(raw, [-0.5, 0.7]), interactions=1)
    rows = strangers(model, table, 1)
    for desired in ([0], [2], [0, 1]):
        for threshold in (None, 0.4):
            require_agreement(read_ebm(model, tuple(desired), threshold), model, rows, desired, threshold)


@pytest.mark.parametrize("objective", ["rmse", "poisson_deviance"])
def test_an_explainable_boosting_regressor_is_read_against_its_threshold(objective: str) -> None:
    table, raw = people(2)
    model = boosted(ExplainableBoostingRegressor, table, np.abs(raw), objective=objective)
    rows = strangers(model, table, 2)
    for threshold in (-0.1, 0.31, 0.7, 1.1):
        require_agreement(read_ebm(model, (), threshold), model, rows, None, threshold)
    with pytest.raises(Unreadable, match="threshold"):
        read_ebm(model, (), None)


def tiny(seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    table, raw = people(seed, rows=160)
    table["income"] = table["income"].clip(-1, 1).round(0)
    return table, (raw > 0).astype(int)


def test_rules_of_an_explainable_boosting_classifier_are_shortest() -> None:
    table, y = tiny(0)
    model = boosted(ExplainableBoostingClassifier, table, y, min_samples_leaf=1)
    explainer = Explainer(model, table, desired=1)
    assert explainer.unreadable_reason is None
    assert measure_undecided_share(explainer) == 0.0
    assert_shortest(explainer)


def test_what_interpret_cannot_say_as_a_sum_is_refused() -> None:
    table, _ = people(0, rows=60)
    single = boosted(ExplainableBoostingClassifier, table, np.zeros(60), interactions=0)
    with pytest.raises(Unreadable, match="monoclassification"):
        read_ebm(single, ("0.0",), None)
    with pytest.raises(Unreadable, match="fitted"):
        read_ebm(ExplainableBoostingClassifier(), (1,), None)
    assert read_ebm(DecisionTreeClassifier(), (1,), None) is None
    with pytest.raises(Unreadable, match="numbers"):
        ContinuousBins(np.array([1.0]))(np.array(["a"], dtype=object))


def test_categories_that_versions_spell_differently_are_refused() -> None:
    bins = CategoryBins({"0.1": 1, "2": 2, "x": 3})
    assert bins(np.array([0.1, 2.0, 5.0, np.nan])).tolist() == [1, 2, 4, 0]
    assert bins(np.array(["x", None, 2, "y"], dtype=object)).tolist() == [3, 0, 2, 4]
    for value in (float(np.float32(0.1)), True, 2.0**60, np.inf):
        with pytest.raises(Unreadable, match="a string"):
            bins(np.array([value], dtype=object))
    with pytest.raises(Unreadable, match="a string"):
        CategoryBins({"True": 1, "False": 2})(np.array([1.0]))


def numbers(seed: int, rows: int = 200) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"a": rng.normal(size=rows), "b": rng.integers(0, 4, rows), "c": rng.integers(-2, 3, rows)})
    return table, (np.sin(2 * table["a"]) + (table["b"] == 2) + table["c"] / 2).to_numpy() + rng.normal(size=rows) / 4


def far(table: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Rows at the ends of what was seen, next to them and beyond."""
    rng = np.random.default_rng(seed)
    ends = np.array([table["a"].min(), table["a"].max()])
    rows = table.sample(500, replace=True, random_state=seed).reset_index(drop=True)
    rows["a"] = rng.choice([*table["a"], *ends, *np.nextafter(ends, -9), *np.nextafter(ends, 9), 4.0, -5.0, -0.0], 500)
    rows["c"] = rng.choice([-2, 0, 1, 9, -7], 500)
    return rows


TERMS = {
    "all kinds": lambda: s(0) + f(1) + l(2),
    "two of a column": lambda: s(0, n_splines=6) + l(0) + f(1, coding="dummy") + s(2, basis="cp", n_splines=5),
    "no intercept": lambda: s(0, spline_order=1, n_splines=4) + l(1),
    "steps": lambda: s(0, spline_order=0, n_splines=5) + intercept,
}


@pytest.mark.parametrize("kind", TERMS)
def test_a_logistic_gam_is_read_as_it_decides(kind: str) -> None:
    table, raw = numbers(0)
    model = LogisticGAM(TERMS[kind](), fit_intercept=kind != "no intercept").fit(table, raw > 0.3)
    for desired in (True, False, 1, 0):
        require_agreement(read_gam(model, (desired,), None), model, far(table, 0), desired, None)
    for threshold in (-1.0, 0.0, 0.5, 1.0):
        require_agreement(read_gam(model, (), threshold), model, far(table, 0), None, threshold)


@pytest.mark.parametrize("kind", [LinearGAM, PoissonGAM, GammaGAM])
def test_other_gams_are_read_against_a_threshold(kind: Any) -> None:
    table, raw = numbers(1)
    y = np.round(np.abs(raw)) if kind is PoissonGAM else np.abs(raw) + 0.1
    model = kind(s(0, n_splines=6) + f(1) + l(2)).fit(table, y)
    for threshold in (-0.5, 0.4, 1.3):
        require_agreement(read_gam(model, (), threshold), model, far(table, 1), None, threshold)
    with pytest.raises(Unreadable, match="threshold"):
        read_gam(model, (), None)


@pytest.mark.parametrize("desired", [True, False])
def test_rules_of_a_logistic_gam_are_shortest(desired: bool) -> None:
    table, raw = numbers(2)
    table["a"] = table["a"].round(0)
    model = LogisticGAM(s(0, n_splines=5) + f(1) + l(2)).fit(table, raw > 0.3)
    explainer = Explainer(model, table, desired=desired)
    assert explainer.unreadable_reason is None
    assert measure_undecided_share(explainer) == 0.0
    assert_shortest(explainer)


def test_what_pygam_does_not_add_column_by_column_is_refused() -> None:
    table, raw = numbers(0)
    tensor = LinearGAM(te(0, 2, n_splines=4)).fit(table, raw)
    by = LinearGAM(s(0, by=2, n_splines=5)).fit(table, raw)
    for model in (tensor, by):
        with pytest.raises(Unreadable, match="mixes columns"):
            read_estimator(model, None, 0.5)
    line = LinearGAM(l(0)).fit(table, raw)
    for values, reason in (([np.nan], "missing"), (["a"], "numbers")):
        with pytest.raises(Unreadable, match=reason):
            read_estimator(line, None, 0.5).margins(np.array([values * 3], dtype=object))
    inverse = GAM(l(0), distribution="gamma", link="inverse").fit(table, np.abs(raw) + 0.5)
    with pytest.raises(Unreadable, match="InverseLink"):
        read_estimator(inverse, None, 0.5)
    with pytest.raises(Unreadable, match="fitted"):
        read_estimator(LinearGAM(), None, 0.5)
    logistic = LogisticGAM(l(0)).fit(table, raw > 0)
    with pytest.raises(Unreadable, match="far outside"):
        read_estimator(logistic, True, None).margins(np.array([[1e6, 0.0, 0.0]]))
