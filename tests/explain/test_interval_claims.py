"""Every claim over whole intervals against the estimator itself, at all whole numbers or at many numbers between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from sklearn.base import is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from ironrule import ConstraintError, Explainer, Explanation, ModelError, Proven, check
from ironrule.model.intervals import MAX_LISTED_INTEGERS

Mask = npt.NDArray[np.bool_]

SUMS: dict[str, Callable[[], Any]] = {
    "logistic": LogisticRegression,
    "svc": lambda: LinearSVC(random_state=0),
    "ridge": RidgeClassifier,
    "discriminant": LinearDiscriminantAnalysis,
    "gradient descent": lambda: SGDClassifier(random_state=0),
    "calibrated": lambda: make_pipeline(StandardScaler(), CalibratedClassifierCV(LinearSVC(), ensemble=False, cv=2)),
    "calibrated folds": lambda: make_pipeline(StandardScaler(), CalibratedClassifierCV(LinearSVC(), cv=2)),
    "scaled": lambda: make_pipeline(StandardScaler(), LogisticRegression()),
    "linear regression": LinearRegression,
    "ridge regression": Ridge,
}
TREES: dict[str, Callable[[], Any]] = {
    "tree": lambda: DecisionTreeClassifier(max_depth=4, random_state=0),
    "forest": lambda: RandomForestClassifier(n_estimators=4, max_depth=3, random_state=0),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=6, max_depth=2, random_state=0),
    "regression tree": lambda: DecisionTreeRegressor(max_depth=4, random_state=0),
}


@dataclass(frozen=True)
class Small:
    """A small model over three numbers, and every point that its claims are compared with."""

    model: Any
    table: pd.DataFrame
    settings: dict[str, Any]
    points: pd.DataFrame
    desired: Mask

    @classmethod
    def build(cls, make: Callable[[], Any], seed: int, real: bool) -> Small:
        rng = np.random.default_rng(seed)
        table = pd.DataFrame(
            {
                "income": rng.choice([0, 9, 14, 30, 41], 80),
                "debt": rng.choice([2, 6, 17, 20], 80),
                "age": rng.choice([20, 31, 33], 80),
            }
        )
        if real:
            table = table / 8 + 0.1
        score = table @ (rng.choice([-1, 1], 3) * rng.uniform(0.5, 1.5, 3) * (1, 2, 3))
        outcome = score + rng.normal(0, 0.1 * score.std(), 80) > score.quantile(0.6)
        model = make()
        regression = is_regressor(model)
        model.fit(table, score if regression else outcome)
        settings = {"threshold": float(score.quantile(0.6))} if regression else {"desired": True}
        explainer = Explainer(model, table, domain="interval", **settings)
        numbers = [_real(explainer, name) if real else _whole(table[name]) for name in table]
        points = pd.DataFrame(product(*numbers), columns=list(table))
        points = points.astype(float) if real else points
        return cls(model, table, settings, points, decided(model, points, settings))

    def explainer(self, **more: Any) -> Explainer:
        return Explainer(self.model, self.table, domain="interval", **self.settings, **more)


def decided(model: Any, points: pd.DataFrame, settings: dict[str, Any]) -> Mask:
    answers = np.asarray(model.predict(points))
    return np.asarray(answers > settings["threshold"] if "threshold" in settings else answers == settings["desired"])


def _whole(column: pd.Series) -> list[int]:
    return list(range(int(column.min()), int(column.max()) + 1))


def _real(explainer: Explainer, name: str) -> list[float]:
    """The values of the domain, the numbers next to some of them, and numbers in between."""
    values = np.array(explainer.space[name].values)
    chosen = values[np.linspace(0, len(values) - 1, 14).astype(int)]
    near = np.concatenate([chosen, np.nextafter(chosen, -np.inf), np.nextafter(chosen, np.inf)])
    some = np.concatenate([near, np.linspace(values[0], values[-1], 19)])
    return sorted({float(one) for one in some if values[0] <= one <= values[-1]})


def undesired_rows(explainer: Explainer, many: int) -> Iterator[dict[str, Any]]:
    rows = np.unique(explainer.codes.points()[~explainer.outcomes], axis=0)
    for point in rows[np.linspace(0, len(rows) - 1, min(many, len(rows))).astype(int)]:
        yield explainer.space.decode_row(point)


def sides(small: Small, row: dict[str, Any]) -> dict[tuple[str, str], Mask]:
    """Where every component of a row holds, the ones that exclude something."""
    held = {}
    for name in small.points:
        values = small.points[name].to_numpy()
        held[name, "<="], held[name, ">="] = values <= row[name], values >= row[name]
    return {one: mask for one, mask in held.items() if not mask.all()}


def consistent(small: Small, row: dict[str, Any]) -> set[frozenset[tuple[str, str]]]:
    """All rules for a row that have no exception among the points and nothing redundant."""
    held, found = sides(small, row), set[frozenset[tuple[str, str]]]()
    for size in range(len(held) + 1):
        for rule in map(frozenset, combinations(held, size)):
            inside = np.logical_and.reduce([held[one] for one in rule]) if rule else np.ones(len(small.points), bool)
            if not small.desired[inside].any() and not any(other <= rule for other in found):
                found.add(rule)
    return found


def component_names(rule: Any) -> frozenset[tuple[str, str]]:
    return frozenset((one.feature, one.op) for one in rule.components)


def least_changes(small: Small, row: dict[str, Any], allowed: Mask) -> set[frozenset[str]]:
    """The minimal sets of features whose change gives a desired point among those allowed."""
    points = small.points[small.desired & allowed]
    changed = {frozenset(c for c, one in zip(points, some, strict=True) if one) for some in _changed(points, row)}
    return {one for one in changed if not any(other < one for other in changed)}


def _changed(points: pd.DataFrame, row: dict[str, Any]) -> set[tuple[bool, ...]]:
    return set(map(tuple, (points.to_numpy() != np.array([row[c] for c in points])).tolist()))


def costs(small: Small, row: dict[str, Any], points: pd.DataFrame) -> npt.NDArray[np.float64]:
    """Changes first, then the distance; all distances together are less than one change."""
    away = np.abs(points.to_numpy(dtype=float) - np.array([float(row[c]) for c in points]))
    ranges = (small.table.max() - small.table.min()).to_numpy(dtype=float)
    return np.asarray((away > 0).sum(axis=1) + (away / ranges).sum(axis=1) / (len(row) + 1))


def assert_rule_is_true(small: Small, explainer: Explainer, row: dict[str, Any]) -> Explanation:
    explanation = explainer.explain(row)
    assert isinstance(explanation.verdict, Proven)
    for rule in (explanation.rule, explanation.wider.rule):
        assert not small.desired[rule.covers(small.points)].any()
    rules = consistent(small, row)
    if explanation.minimum:
        assert component_names(explanation.rule) in rules
        assert explanation.cardinality == min(map(len, rules))
    listing = explainer.rules(row)
    listed = {component_names(one.rule) for one in listing}
    assert listed == rules if listing.complete else listed <= rules
    if explanation.wider_is_maximal:
        assert_widest(small, explainer, explanation)
    return explanation


def assert_widest(small: Small, explainer: Explainer, explanation: Explanation) -> None:
    """Each bound moved to the very next number lets a counterfactual in that the explanation shows."""
    limits = [explainer.space.decode_row(np.array(codes)) for codes in explanation.wider_witnesses]
    wider = explanation.wider.rule.components
    whole = small.points.dtypes.iloc[0].kind == "i"
    for place, one in enumerate(wider):
        numbers = small.table[one.feature]
        if one.value == (numbers.max() if one.op == "<=" else numbers.min()):
            continue
        up = 1 if one.op == "<=" else -1
        further = one.value + up if whole else np.nextafter(one.value, up * np.inf)
        rest = wider[:place] + wider[place + 1 :]
        inside = [limit for limit in limits if all(_holds(other, limit) for other in rest)]
        assert any(abs(limit[one.feature] - one.value) <= abs(further - one.value) for limit in inside)
    assert not limits or decided(small.model, pd.DataFrame(limits)[list(small.table)], small.settings).all()


def _holds(component: Any, point: dict[str, Any]) -> bool:
    value = point[component.feature]
    return bool(value <= component.value if component.op == "<=" else value >= component.value)


def assert_changes_are_true(
    small: Small, explainer: Explainer, row: dict[str, Any], allowed: Mask | None = None, *, one_sum: bool = True
) -> bool:
    """The nearest counterfactual and the sets of changes; whether the nearest is claimed.

    Where the model is no single sum, numbers are put where a search leaves too much open: the nearest is known up to
    the resolution, also before it is rounded.
    """
    some = np.ones(len(small.points), bool) if allowed is None else allowed
    least = least_changes(small, row, some)
    listing = explainer.change_sets(row)
    sets = list(listing)
    if listing.complete:
        assert {frozenset(one.features) for one in sets} == least
    assert all(frozenset(one.features) in least for one in sets if one.minimal)
    found = explainer.counterfactuals(row, k=1)
    for one in found:
        assert decided(small.model, pd.DataFrame([one.values])[list(row)], small.settings).all()
    points = small.points[small.desired & some]
    if found.proven:
        assert (len(found) == 0) == (len(points) == 0)
        if len(found):
            near, changed = found[0], len(found[0].changes)
            least = costs(small, row, points).min()
            cost = costs(small, row, pd.DataFrame([near.values], columns=list(row)))[0]
            assert changed == int(least)
            assert cost <= least + found.resolution * changed / (len(row) + 1) + 1e-6
            if near.exact:  # before its numbers were rounded it was the nearest of all
                exact = costs(small, row, pd.DataFrame([{**near.values, **near.exact}], columns=list(row)))[0]
                assert exact <= least + 1e-6 + (0 if one_sum else found.resolution * changed / (len(row) + 1))
    return found.proven


def test_where_a_sum_turns_between_values_that_were_seen() -> None:
    data = pd.DataFrame({"income": [0, 10, 20, 30, 40] * 4, "age": [20, 30, 40, 50] * 5})
    model = LogisticRegression().fit(data, data.income >= 25)
    explainer = Explainer(model, data, desired=True, domain="interval")
    row = {"income": 10, "age": 30}
    explanation, found = explainer.explain(row), explainer.counterfactuals(row)
    assert str(explanation.wider.rule) == "Everyone with income <= 24 gets: False."
    assert explanation.wider_is_maximal
    assert found.proven
    assert found[0].values == {"income": 25, "age": 30}
    real = Explainer(model, data.astype(float), desired=True, domain="interval")
    explanation, found = real.explain(row), real.counterfactuals(row)
    assert isinstance(explanation.verdict, Proven)
    assert explanation.minimum
    assert (explanation.wider_is_maximal, explanation.wider_witnesses) == (False, ())
    assert (found.proven, found.resolution, str(found)) == (True, 0.001, "1. income: 10 -> 25")
    assert real.counterfactuals(row, features_to_vary="age").proven  # there is none
    assert [one.wider_is_maximal for one in real.explain_many(progress=False, workers=1)] == [False] * 12
    assert not any(one.wider_is_maximal for one in real.explain_many(progress=False, workers=1, reuse=True))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", [*SUMS, *TREES])
def test_every_claim_is_true_for_all_whole_numbers(kind: str, seed: int) -> None:
    small = Small.build({**SUMS, **TREES}[kind], seed, real=False)
    explainer = small.explainer()
    for row in undesired_rows(explainer, 4):
        explanation = assert_rule_is_true(small, explainer, row)
        assert explanation.minimum
        assert explanation.wider_is_maximal
        assert assert_changes_are_true(small, explainer, row)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", [*SUMS, *TREES])
def test_every_claim_is_true_for_numbers_between(kind: str, seed: int) -> None:
    small = Small.build({**SUMS, **TREES}[kind], seed, real=True)
    explainer = small.explainer()
    for row in undesired_rows(explainer, 3):
        explanation = assert_rule_is_true(small, explainer, row)
        nearest = assert_changes_are_true(small, explainer, row, one_sum=kind != "calibrated folds")
        assert explanation.minimum
        assert explanation.wider_is_maximal or kind in SUMS
        assert nearest or kind == "calibrated folds"  # a sum of two logistic functions


@pytest.mark.parametrize("real", [False, True], ids=["whole", "real"])
@pytest.mark.parametrize("kind", ["logistic", "tree", "forest"])
def test_constraints_between_values_are_part_of_every_claim(kind: str, real: bool) -> None:
    small = Small.build({**SUMS, **TREES}[kind], 1, real)
    low, high = (1.3, 3.45) if real else (11, 28)
    ruled_out = f"cf.income <= {low} or cf.income > {high}"
    income = small.points["income"]
    kept = ((income <= low) | (income > high)).to_numpy()
    part = Small(small.model, small.table, small.settings, small.points[kept], small.desired[kept])
    with pytest.warns(UserWarning, match="left out"):
        explainers = [small.explainer(constraints=[ruled_out])]
    explainers.append(small.explainer().where(ruled_out))
    assert explainers[0].space.fingerprint == explainers[1].space.fingerprint
    for row in undesired_rows(explainers[0], 3):
        for explainer in explainers:
            assert_rule_is_true(part, explainer, row)
            assert_changes_are_true(part, explainer, row)


@pytest.mark.parametrize("real", [False, True], ids=["whole", "real"])
@pytest.mark.parametrize("kind", ["logistic", "tree", "forest"])
@pytest.mark.parametrize("text", ["cf.income >= x.income", "cf.income > x.income", "cf.debt <= x.debt + 0.7"])
def test_constraints_on_changes_are_part_of_every_claim(kind: str, real: bool, text: str) -> None:
    small = Small.build({**SUMS, **TREES}[kind], 2, real)
    explainer = small.explainer(constraints=[text])
    for row in undesired_rows(explainer, 4):
        income, debt = small.points["income"], small.points["debt"]
        allowed = income >= row["income"] if ">=" in text else income > row["income"]
        allowed = debt <= row["debt"] + 0.7 if "debt" in text else allowed
        try:
            assert_changes_are_true(small, explainer, row, allowed.to_numpy())
        except ConstraintError:
            assert real or not allowed.any()


def test_a_range_between_two_values_is_not_said_to_have_nothing() -> None:
    table = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0] * 5})
    explainer = Explainer(LogisticRegression().fit(table, table.a > 1.5), table, desired=True, domain="interval")
    between = explainer.counterfactuals({"a": 0.0}, permitted_range={"a": [2.2, 2.8]})
    assert (between.proven, str(between)) == (True, "1. a: 0 -> 2.2")
    nothing = explainer.counterfactuals({"a": 0.0}, permitted_range={"a": [1.2, 1.3]})
    assert (nothing.proven, len(nothing)) == (True, 0)
    found = explainer.counterfactuals({"a": 0.0}, permitted_range={"a": [0.0, 1.8]})
    assert (found.proven, str(found)) == (True, "1. a: 0 -> 1.5")
    assert explainer.counterfactuals({"a": 0.0}, permitted_range={"a": [0.0, 1.0]}).proven


def test_comparing_two_numbers_needs_all_their_values() -> None:
    small = Small.build(SUMS["logistic"], 0, real=False)
    kept = (small.points["debt"] <= small.points["income"]).to_numpy()
    part = Small(small.model, small.table, small.settings, small.points[kept], small.desired[kept])
    with pytest.warns(UserWarning, match="left out"):
        explainer = small.explainer(constraints=["cf.debt <= cf.income"])
    for row in undesired_rows(explainer, 3):
        assert assert_rule_is_true(part, explainer, row).wider_is_maximal
    real = Small.build(TREES["tree"], 0, real=True)
    with pytest.raises(ModelError, match=r"'income': the constraint 'cf\.debt <= cf\.income' does not compare"):
        real.explainer(constraints=["cf.debt <= cf.income"])


def test_a_constraint_that_ties_two_numbers_costs_only_their_intervals() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({name: np.round(rng.uniform(0, 9, 80), 2) for name in ("a", "b", "c", "d")})
    model = DecisionTreeClassifier(max_depth=4, random_state=0).fit(table, table.a + table.c > table.b + table.d)
    constraint = "cf.a <= cf.b + 9.5 and cf.d >= 0"
    explainer = Explainer(model, table, desired=True, constraints=[constraint])
    assert list(explainer.obstacles) == ["a", "b"]
    assert all(constraint in reason for reason in explainer.obstacles.values())
    assert explainer.space["c"].interval
    assert explainer.space["d"].interval
    explanation = explainer.explain(int(np.flatnonzero(~explainer.outcomes)[0]))
    assert check(explanation, model, table, constraints=[constraint]).status == "proven"


def test_a_class_in_the_middle_is_explained_for_whole_numbers_and_refused_for_others() -> None:
    table = pd.DataFrame({"a": [0, 10, 40, 50] * 10, "b": [0, 1] * 20})
    train = pd.DataFrame(product(range(51), range(2)), columns=["a", "b"])
    kinds = np.array(["low", "middle", "high"])[np.digitize(train.a + train.b, [18, 33])]
    model = LogisticRegression(max_iter=10_000).fit(train, kinds)
    points = pd.DataFrame(product(range(51), range(2)), columns=["a", "b"])
    small = Small(model, table, {"desired": "middle"}, points, model.predict(points) == "middle")
    assert small.desired.any()
    assert (model.predict(table) != "middle").all()
    explainer = small.explainer()
    for row in undesired_rows(explainer, 4):
        assert_rule_is_true(small, explainer, row)
        assert assert_changes_are_true(small, explainer, row)
    with pytest.raises(ModelError, match="rises in one sum and falls in another"):
        Explainer(model, table.astype(float), desired="middle", domain="interval")


def test_a_column_that_rises_and_falls_in_one_sum_is_refused() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": np.round(rng.gamma(2, 3, 200), 1)})
    twice = make_column_transformer((StandardScaler(), ["a"]), (Binarizer(threshold=2.0), ["a"]))
    model = make_pipeline(twice, LogisticRegression(C=100.0)).fit(table, (table.a > 2) & (table.a < 9))
    with pytest.raises(ModelError, match="rises in one sum and falls in another"):
        Explainer(model, table, desired=True, domain="interval")


def test_curves_are_explained_for_whole_numbers() -> None:
    table = pd.DataFrame({"a": [0, 9, 12, 30, 41] * 8, "b": [2, 5, 17, 20] * 10})
    model = GaussianNB().fit(table, (table.a > 10) & (table.a < 40))
    points = pd.DataFrame(product(range(42), range(2, 21)), columns=["a", "b"])
    small = Small(model, table, {"desired": True}, points, model.predict(points))
    explainer = small.explainer()
    for row in undesired_rows(explainer, 4):
        assert assert_rule_is_true(small, explainer, row).wider_is_maximal
        assert assert_changes_are_true(small, explainer, row)


def test_long_ranges_of_whole_numbers_are_not_listed_but_every_one_is_an_option_of_changes() -> None:
    table = pd.DataFrame({"a": [0, 100, MAX_LISTED_INTEGERS] * 6})
    model = LogisticRegression().fit(table, table.a > 60)
    explainer = Explainer(model, table, desired=True, domain="interval")
    assert len(explainer.space["a"].values) == 3
    assert not explainer.explain({"a": 0}).wider_is_maximal
    found = explainer.counterfactuals({"a": 0})
    assert (found.proven, found.resolution) == (True, 0.0)
    least = next(number for number in range(MAX_LISTED_INTEGERS) if model.predict(pd.DataFrame({"a": [number]}))[0])
    assert found[0].values == {"a": least}
    listed = Explainer(model, table.clip(upper=MAX_LISTED_INTEGERS - 1), desired=True, domain="interval")
    assert len(listed.space["a"].values) == MAX_LISTED_INTEGERS
    assert listed.explain({"a": 0}).wider_is_maximal


def test_a_number_that_stands_for_missing_is_refused() -> None:
    table = pd.DataFrame({"a": [-9.0, 1.0, 2.0, 3.0] * 5})
    model = make_pipeline(SimpleImputer(missing_values=-9.0), DecisionTreeClassifier()).fit(table, table.a > 1.5)
    with pytest.raises(ModelError, match=r"takes the single number -9\.0 for missing"):
        Explainer(model, table, desired=True, domain="interval")


def test_thresholds_of_numbers_on_both_sides_of_zero_are_found() -> None:
    table = pd.DataFrame({"b": [-20.0, -20.0, 3.0, 3.0, 20.0, 20.0, -20.0, 20.0] * 4, "c": [0, 1] * 16})
    model = DecisionTreeClassifier(random_state=0).fit(table, table.b == 3)
    past = table[table.b != 3].reset_index(drop=True)
    explanation = Explainer(model, past, desired=True, domain="interval").explain(0)
    assert explanation.minimum
    covered = explanation.wider.rule.covers(table) if explanation.wider else explanation.rule.covers(table)
    assert not model.predict(table[covered]).any()
    assert covered.any()


def test_what_rounding_could_turn_between_two_values_is_not_proven() -> None:
    """The score is exactly zero at a value; between it and the next one nobody could ask about every number."""
    table = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0] * 5, "b": [0.0, 1.0] * 10})
    model = LinearRegression().fit(table, table.a - table.b)
    model.coef_, model.intercept_ = np.array([1.0, -1.0]), 0.0
    explainer = Explainer(model, table, threshold=1.0, domain="interval")
    explanation = explainer.explain({"a": 1.0, "b": 0.0})
    doubtful = [
        one for one in explanation.ranked if isinstance(one.verdict, Proven) and one.rule.covers(table).sum() > 5
    ]
    assert doubtful == []


@pytest.mark.parametrize("given", [{"margin": 0.1}, {"margin": 0.1, "threshold": 0.5}, {"models": True}], ids=str)
def test_margins_and_several_models_go_with_intervals(given: dict[str, Any]) -> None:
    table = pd.DataFrame(list(product(range(6), range(5))), columns=["a", "b"]).astype(float)
    model, other = (RandomForestClassifier(5, random_state=seed).fit(table, table.a > table.b) for seed in (0, 1))
    others = [other] if given.pop("models", False) else []
    explainer = Explainer(model, table, desired=True, domain="interval", models=others, **given)
    explanation = explainer.explain({"a": 0.0, "b": 4.0})
    assert isinstance(explanation.verdict, Proven)
    rng = np.random.default_rng(0)
    points = pd.DataFrame(rng.uniform(0, [5, 4], size=(4000, 2)), columns=["a", "b"])
    points = points[(explanation.wider or explanation.ranked[0]).rule.covers(points)]
    assert len(points)
    level = given.get("threshold", 0.5) - given.get("margin", 0.0)
    assert not any((one.predict_proba(points)[:, 1] > level).any() for one in (model, *others))
