"""Wide tables: columns that the model never uses, constant ones, many used ones; more points than floats count."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from ironrule import Checker, Explainer, Explanation, check
from ironrule.errors import InputError, SpaceError
from ironrule.verdict.verdict import Proven, Quality
from waiting import count_readings_as_seconds

USED = (17, 53, 99)
ESTIMATORS: dict[str, Any] = {
    "tree": DecisionTreeClassifier(max_depth=4, random_state=0),
    "forest": RandomForestClassifier(7, max_depth=3, random_state=0),
    "boosting": GradientBoostingClassifier(n_estimators=8, random_state=0),
    "linear": make_pipeline(StandardScaler(), LogisticRegression()),
    "network": MLPClassifier((4,), solver="lbfgs", max_iter=5000, random_state=0),
}


def wide_table(columns: int = 100, rows: int = 150, seed: int = 0) -> pd.DataFrame:
    values = np.random.default_rng(seed).integers(0, 4, size=(rows, columns)).astype(float)
    return pd.DataFrame(values, columns=[f"c{j}" for j in range(columns)])


def decide(table: pd.DataFrame) -> Any:
    first, second, third = (table[f"c{j}"] for j in USED)
    return ((first + second > 3) & (third < 3) | (second - third > 1)).astype(int)


def fit_wide(kind: str, table: pd.DataFrame) -> Any:
    """An estimator fitted on the whole table that can only have learned from three of its columns."""
    flat = table.copy()
    flat.loc[:, [name for name in table if name not in {f"c{j}" for j in USED}]] = 0.0
    model = clone(ESTIMATORS[kind]).fit(flat, decide(table))
    if kind == "network":  # what it never saw change it has random weights for
        model.coefs_[0][(flat == 0.0).all()] = 0.0
    return model


def shortest_length(model: Any, row: dict[str, Any]) -> int:
    """The least number of components of a consistent rule, by brute force over the three columns that count."""
    names = [f"c{j}" for j in USED]
    every = pd.DataFrame([row] * 64)
    every[names] = list(product(range(4), repeat=3))
    desired = every[model.predict(every) == 1]
    components = [(name, sign) for name in names for sign in (1, -1)]
    for length in range(len(components) + 1):
        for chosen in combinations(components, length):
            inside = np.ones(len(desired), dtype=bool)
            for name, sign in chosen:
                inside &= sign * desired[name].to_numpy() <= sign * row[name]
            if not inside.any():
                return length
    raise AssertionError("the row itself is desired")


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_columns_that_the_model_never_uses_drop_out(kind: str) -> None:
    table = wide_table()
    model = fit_wide(kind, table)
    explainer = Explainer(model, table, desired=1, progress=False)
    assert explainer.unreadable_reason is None
    checker = Checker(model, table)
    used = {name for name in table if name not in explainer.unused_features}
    assert used <= {f"c{j}" for j in USED}
    assert f"{len(explainer.unused_features)} features unused" in repr(explainer)
    for row in np.flatnonzero(~explainer.outcomes)[:3].tolist():
        explanation = explainer.explain(row)
        assert explanation.minimum
        assert set(explanation.instance) == set(table)
        assert {component.feature for component in explanation.rule.components} <= used
        assert explanation.cardinality == shortest_length(model, explanation.instance)
        for counterfactual in (*explanation.counterfactuals, *explainer.counterfactuals(row, 2)):
            assert model.predict(pd.DataFrame([counterfactual.values])[list(table)])[0] == 1
            assert {change.feature for change in counterfactual.changes} <= used
        assert checker.check(explanation).status == "proven"
        assert Explanation.from_json(explanation.to_json()).to_json() == explanation.to_json()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["tree", "forest", "linear"]))
def test_a_reduced_space_gives_the_answers_of_the_whole_one(seed: int, kind: str) -> None:
    """A model of two of four columns: what is found must hold in all 81 points, and nothing shorter may."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.integers(0, 3, size=(30, 4)).astype(float), columns=list("abcd"))
    flat, target = table.assign(a=0.0, c=0.0), (table["b"] + table["d"] + rng.integers(0, 2, 30) > 2).astype(int)
    if target.nunique() < 2:
        return
    model = clone(ESTIMATORS[kind]).fit(flat, target)
    if not 0 < model.predict(table).sum() < len(table):
        return
    explainer = Explainer(model, table, desired=1, progress=False)
    assert {"a", "c"} <= set(explainer.unused_features)
    every = pd.DataFrame(list(product(*(sorted(set(table[name])) for name in table))), columns=list("abcd"))
    desired = every[model.predict(every) == 1]
    explanation = explainer.explain(int(np.flatnonzero(~explainer.outcomes)[0]))
    assert explanation.minimum
    inside = np.ones(len(desired), dtype=bool)
    for one in explanation.rule.components:
        column = desired[one.feature].to_numpy()
        inside &= {"<=": column <= one.value, ">=": column >= one.value, "==": column == one.value}[one.op]
    assert not inside.any()
    assert check(explanation, model, table).status == "proven"
    rules = explainer.rules(int(np.flatnonzero(~explainer.outcomes)[0]), minimum_only=True)
    assert {len(rule.rule.components) for rule in rules} <= {explanation.cardinality}


def test_features_that_a_user_names_are_there_even_if_the_model_never_uses_them() -> None:
    table = wide_table(40)
    table = table.rename(columns={"c3": "c53", "c5": "c99"})
    model = fit_wide("forest", table)
    explainer = Explainer(model, table, desired=1, progress=False)
    assert "c0" in explainer.unused_features
    row = int(np.flatnonzero(~explainer.outcomes & (table["c0"] == 1))[0])
    plain = explainer.explain(row)
    assert explainer.explain(row, forbid=["c0"]).rule == plain.rule
    assert explainer.explain(row, weights={"c0": 3}).rule == plain.rule
    required = explainer.explain(row, require=["c0 <="])
    assert required.cardinality == plain.cardinality + 1
    assert "c0 <= 1" in str(required.rule)
    assert check(required, model, table).status == "proven"
    judged = explainer.judge(row, [*map(str, plain.rule.components), "c0 <= 2"])
    assert judged.quality is Quality.REDUNDANT
    assert judged.redundant_component is not None
    assert judged.redundant_component.feature == "c0"
    assert explainer.recheck([required]).counts["holds"] == 1
    with pytest.raises(SpaceError, match="unknown feature 'c00'"):
        explainer.explain(row, forbid=["c00"])
    with pytest.raises(InputError, match="cannot be required"):
        Explainer(model, table.assign(c0=1.0), desired=1, progress=False).explain(row, require=["c0"])


def test_constraints_about_unused_features_count() -> None:
    table = wide_table(40)
    table = table.rename(columns={"c3": "c53", "c5": "c99"})
    model = fit_wide("forest", table)
    with pytest.warns(UserWarning, match="past rows break the constraints"):
        explainer = Explainer(model, table, desired=1, constraints=["cf.c0 <= cf.c17"], progress=False)
    assert "c0" in explainer.unused_features
    row = int(explainer.row_numbers[np.flatnonzero(~explainer.outcomes)[0]])
    explanation = explainer.explain(row)
    assert explanation.minimum
    assert check(explanation, model, table, constraints=["cf.c0 <= cf.c17"]).status == "proven"
    plain = Explainer(model, table, desired=1, domain="seen", progress=False)
    row = int(np.flatnonzero(~plain.outcomes & (table["c0"] < 3))[0])
    found = plain.counterfactuals(row, 1, constraints=["cf.c0 > x.c0"])
    assert found.proven
    among_all = Explainer(model, table, desired=1, progress=False)
    nearly = among_all.counterfactuals(row, 1, constraints=["cf.c0 > x.c0"])  # no number is the next one
    assert nearly.proven
    assert 0 < nearly.resolution < 0.01
    assert "c0" in {change.feature for change in found[0].changes}
    part = plain.where("cf.c0 >= 2")
    assert all(part.space.decode_row(point)["c0"] >= 2 for point in part.codes.points())


def test_constant_columns_are_fine_and_are_named() -> None:
    table = wide_table(6).assign(same=5.0, text="x", never=np.nan)[["same", *(f"c{j}" for j in range(6)), "text"]]
    target = (table["c1"] + table["c2"] > 3).astype(int)

    def fitted() -> Any:
        return RandomForestClassifier(5, max_depth=3, random_state=0).fit(table.drop(columns="text"), target)

    explainer = Explainer(fitted(), table, desired=1, progress=False)
    assert "same" in explainer.unused_features
    explanation = explainer.explain(int(np.flatnonzero(~explainer.outcomes)[0]))
    assert explanation.minimum
    assert explanation.instance["same"] == 5.0
    assert check(explanation, fitted(), table).status == "proven"
    asked = Explainer(lambda rows: (rows["c1"] + rows["c2"] > 3).astype(int), table, desired=1, progress=False)
    assert asked.unused_features == ()
    assert asked.space["text"].values == ("x",)
    assert asked.explain(int(np.flatnonzero(~asked.outcomes)[0]), budget=5).cardinality >= 1


def test_a_model_that_uses_nothing_needs_no_component() -> None:
    table = wide_table(5)
    model = LogisticRegression().fit(table, (table["c0"] > 1).astype(int))
    model.coef_[:], model.intercept_[:] = 0.0, -1.0
    explainer = Explainer(model, table, desired=1, progress=False)
    assert explainer.unused_features == tuple(table)
    explanation = explainer.explain(0)
    assert explanation.cardinality == 0
    assert check(explanation, model, table).status == "proven"


@pytest.mark.parametrize("kind", ["linear", "forest"])
def test_150_used_columns_are_explained_and_checked(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = wide_table(150, rows=120, seed=1)
    target = (table.iloc[:, :5].sum(axis=1) > 8).astype(int)
    shallow = RandomForestClassifier(300, max_depth=2, max_features=1, random_state=0)
    model = LogisticRegression(C=0.1).fit(table, target) if kind == "linear" else shallow.fit(table, target)
    weights = {"class_weight": "balanced"} if kind == "forest" else {}
    model = model.set_params(**weights).fit(table, target)
    explainer = Explainer(model, table, desired=1, progress=False)
    assert len(explainer.unused_features) < 10
    row = int(np.flatnonzero(~explainer.outcomes)[0])
    with monkeypatch.context() as made_up:
        count_readings_as_seconds(made_up, 0.005)
        explanation = explainer.explain(row, budget=3)
    assert check(explanation, model, table).status == "proven"
    inside = np.random.default_rng(0).integers(0, 4, size=(3000, 150)).astype(float)
    for one in explanation.rule.components:
        place = table.columns.get_loc(one.feature)
        low, high = {"<=": (0.0, one.value), ">=": (one.value, 3.0)}[one.op]
        inside[:, place] = np.clip(inside[:, place], low, high)
    assert not (model.predict(pd.DataFrame(inside, columns=table.columns)) == 1).any()


def test_more_points_than_floating_point_numbers_can_count_are_shown_as_a_power_of_ten() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.random((400, 130)).round(6), columns=[f"c{j}" for j in range(130)])
    model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(table, (table["c0"] > 0.5).astype(int))
    explainer = Explainer(model, table, desired=1, progress=False)
    power = len(str(explainer.space.size)) - 1
    assert power > 308
    assert f"10^{power} points" in repr(explainer)
    explanation = explainer.explain(int(np.flatnonzero(~explainer.outcomes)[0]))
    page = explanation.to_html(audience="validator")
    assert f"10^{power} points" in page
    assert "Never used by the model" in page
    assert check(explanation, model, table).status == "proven"


def test_batches_of_wide_tables_are_the_explanations_of_their_rows() -> None:
    table = wide_table()
    model = fit_wide("boosting", table)
    explainer = Explainer(model, table, desired=1, progress=False)
    rows = np.flatnonzero(~explainer.outcomes)[:4].tolist()
    batch = explainer.explain_many(rows, workers=1, progress=False)
    assert [explanation.rule for explanation in batch] == [explainer.explain(row).rule for row in rows]
    reused = explainer.explain_many(rows, workers=1, reuse=True, progress=False)
    assert all(isinstance(explanation.verdict, Proven) for explanation in reused)


def draw_covered(explanation: Explanation, table: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Numbers of all intervals that a rule covers: at random, at its bounds, and at the next floats inside them."""
    rng = np.random.default_rng(seed)
    drawn = {name: rng.uniform(table[name].min(), table[name].max(), 4000) for name in table}
    for one in explanation.shown.rule.components:
        low, high = table[one.feature].min(), table[one.feature].max()
        low, high = (low, one.value) if one.op == "<=" else (one.value, high)
        column = np.clip(drawn[one.feature], low, high)
        edge = np.array([one.value, np.nextafter(one.value, low if one.op == "<=" else high)])
        column[::3] = rng.choice(edge, len(column[::3]))
        drawn[one.feature] = np.clip(column, low, high)
    return pd.DataFrame(drawn)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_rows_with_unseen_numbers_are_explained_over_whole_intervals(kind: str) -> None:
    table = wide_table(30).rename(columns={"c3": "c53", "c5": "c99"})
    model = fit_wide(kind, table)
    explainer, checker = Explainer(model, table, desired=1, progress=False), Checker(model, table)
    assert all(feature.interval for feature in explainer.space.features)
    base = table.iloc[int(np.flatnonzero(~explainer.outcomes)[0])].to_dict()
    inside_unused, inside_used = {**base, "c0": 1.25, "c1": 0.75}, {**base, "c53": base["c53"] + 0.001, "c0": 2.5}
    beyond_unused, beyond_used = {**base, "c0": 9.0}, {**base, "c0": 9.0, "c99": 3.5}
    plain = explainer.explain(base)
    for row in (inside_unused, inside_used, beyond_unused, beyond_used):
        if model.predict(pd.DataFrame([row])[list(table)])[0] == 1:
            continue
        explanation = explainer.explain(row)
        assert explanation.minimum
        assert dict(explanation.instance) == row
        assert set(explanation.domains) == set(table)
        assert {component.feature for component in explanation.rule.components} <= {f"c{j}" for j in USED}
        if "c99" not in explanation.extended_values and row["c53"] == base["c53"]:
            assert explanation.rule == plain.rule
        wider = pd.concat([table, pd.DataFrame([row])[list(table)]])
        assert not (model.predict(draw_covered(explanation, wider, seed=0)[list(table)]) == 1).any()
        assert checker.check(explanation).status == "proven"
        for counterfactual in (*explanation.counterfactuals, *explainer.counterfactuals(row, 2)):
            assert model.predict(pd.DataFrame([counterfactual.values])[list(table)])[0] == 1
        assert explainer.recheck([explanation]).counts["holds"] == 1
        own = min(row["c1"] + 0.25, 3.0)
        judged = explainer.judge(row, [*map(str, explanation.rule.components), f"c1 <= {own}"])
        assert judged.quality is Quality.REDUNDANT
    assert explainer.explain(beyond_unused).extended_values == {"c0": (9.0,)}


@pytest.mark.parametrize("kind", ["tree", "forest", "linear"])
def test_numbers_that_join_unused_intervals_are_not_read_again(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = wide_table()
    model = fit_wide(kind, table)
    explainer, checker = Explainer(model, table, desired=1, progress=False), Checker(model, table)
    base = table.iloc[int(np.flatnonzero(~explainer.outcomes)[0])].to_dict()
    monkeypatch.setattr("ironrule.explain.extend.derive_context", lambda *_: pytest.fail("the model is read again"))
    for row in ({**base, "c0": 1.25}, {**base, "c0": 1.25, "c17": np.nextafter(base["c17"], 1.5)}):
        explanation = explainer.explain(row)
        assert explanation.instance["c0"] == 1.25
        assert checker.check(explanation).status == "proven"
        required = explainer.explain(row, require=["c0 <="])
        assert "c0 <= 1.25" in str(required.rule)
        assert checker.check(required).status == "proven"


@pytest.mark.parametrize("kind", ["tree", "forest", "boosting"])
def test_suggested_changes_are_the_nearest_in_the_features_that_count(kind: str) -> None:
    table = wide_table()
    model = fit_wide(kind, table)
    explainer, checker = Explainer(model, table, desired=1, progress=False), Checker(model, table)
    names = [f"c{j}" for j in USED]
    for row in np.flatnonzero(~explainer.outcomes)[:3].tolist():
        explanation = explainer.explain(row)
        assert explanation.changes is not None
        limits = explanation.changes.limits
        own = pd.Series(dict(explanation.instance))
        domains = [explainer.space[name].values for name in names]
        every = pd.DataFrame([dict(explanation.instance)] * int(np.prod([len(values) for values in domains])))
        every[names] = list(product(*domains))
        every = every[model.predict(every[list(table)]) == 1]
        for name in names:
            moves, steps = limits[name].moves if name in limits else ("rise", "fall"), every[name] - own[name]
            every = every[(steps == 0) | ((steps > 0) & ("rise" in moves)) | ((steps < 0) & ("fall" in moves))]
        assert explanation.changes.proven
        assert bool(len(explanation.changes)) == bool(len(every))
        if len(every):
            steps = (every[names] - own[names]).abs()
            nearest = min(zip((steps != 0).sum(axis=1), steps.sum(axis=1), strict=True))
            first = explanation.changes[0]
            assert {change.feature for change in first.changes} <= set(names)
            found = sum(abs(first.values[name] - own[name]) for name in names)
            assert len(first.changes) == nearest[0]
            ranges = sum(max(explainer.space[change.feature].values) - min(explainer.space[change.feature].values)
                         for change in first.changes)  # fmt: skip
            assert found <= nearest[1] + explanation.changes.resolution * ranges + 1e-6
        assert checker.check(explanation).status == "proven"
