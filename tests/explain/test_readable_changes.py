"""Suggested changes over whole intervals: readable numbers, and nearest by what is claimed, against enumeration."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from ironrule import Budget, Explainer, Explanation, check
from ironrule.explain.counterfactuals import nearest, readable_numbers
from ironrule.explain.counterfactuals.readable_numbers import RESOLUTION, list_readable_numbers, round_outwards
from ironrule.space.roles import Role
from ironrule.verdict.budget import Meter
from ironrule.verdict.digest import add_digest


def make_table(seed: int, rows: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "income": np.round(rng.uniform(0, 8, rows), 2),
            "debt": np.round(rng.uniform(-2, 3, rows), 3),
            "accounts": rng.integers(0, 6, rows),
            "home": rng.choice(["rent", "own", "other"], rows),
        }
    )


def fit_linear(table: pd.DataFrame, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    home = table.home.map({"rent": 0.0, "own": 1.5, "other": 0.4})
    signs = rng.choice([-1, 1], 3) * rng.uniform(0.3, 2, 3)
    score = signs[0] * table.income + signs[1] * table.debt + signs[2] * table.accounts + home
    scale = make_column_transformer((OneHotEncoder(), ["home"]), remainder=StandardScaler())
    return make_pipeline(scale, LogisticRegression(C=10.0)).fit(table, score > score.quantile(0.7))


def list_options(explainer: Explainer, instance: dict[str, Any], permits: Any) -> dict[str, list[Any]]:
    """What every feature may become: readable numbers, ends, and what the row has."""
    options = {}
    for feature in explainer.space.features:
        values: list[Any] = list(feature.values)
        if feature.interval and not feature.has_only_integers:
            values = [*list_readable_numbers(values[0], values[-1], whole=False), instance[feature.name]]
        options[feature.name] = [value for value in dict.fromkeys(values) if permits(feature.name, value)]
    return options


def list_costs(explainer: Explainer, instance: dict[str, Any], rows: pd.DataFrame) -> np.ndarray:
    """Changes and distance of every row."""
    changes, distance = np.zeros(len(rows)), np.zeros(len(rows))
    for feature in explainer.space.features:
        own, values = instance[feature.name], rows[feature.name].to_numpy()
        changed = values != own
        changes += changed
        if feature.numeric:
            distance += np.abs(values.astype(float) - own) / (feature.values[-1] - feature.values[0])
        else:
            distance += changed
    return np.stack([changes, distance], axis=1)


def enumerate_rows(options: dict[str, list[Any]], instance: dict[str, Any], size: int) -> pd.DataFrame:
    """All rows that change so many features."""
    parts = []
    for chosen in itertools.combinations(options, size):
        others = [[v for v in options[name] if v != instance[name]] for name in chosen]
        grids = np.meshgrid(*(np.arange(len(some)) for some in others), indexing="ij")
        part = {name: np.repeat(np.array([instance[name]]), grids[0].size) for name in options}
        for name, some, grid in zip(chosen, others, grids, strict=True):
            part[name] = np.array(some)[grid.ravel()]
        parts.append(pd.DataFrame(part))
    return pd.concat(parts, ignore_index=True)


def assert_nearest(explainer: Explainer, model: Any, found: Any, permits: Any = lambda *_: True) -> None:
    """The first is the nearest of all rows of readable numbers, with one or two changes."""
    instance = dict(found.instance)
    options = list_options(explainer, instance, permits)
    first = pd.DataFrame([dict(found[0].values)])
    assert model.predict(first[list(options)])[0]
    for size in (1, 2):
        rows = enumerate_rows(options, instance, size)
        desired = rows[model.predict(rows)]
        if len(desired):
            best = min(map(tuple, list_costs(explainer, instance, desired).tolist()))
            changes, distance = list_costs(explainer, instance, first)[0].tolist()
            assert changes == size
            assert distance == pytest.approx(best[1], abs=2e-9)
            return
    assert len(found[0].changes) > 2


@contextmanager
def few_readable_numbers() -> Iterator[None]:
    """Fewer readable numbers, so that all pairs can be tried."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readable_numbers, "RESOLUTION", 0.02)
        patch.setattr(readable_numbers, "FINER_POWERS", 0)
        yield


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_the_nearest_change_of_a_linear_model_is_nearest_among_readable_numbers(seed):
    with few_readable_numbers():
        table = make_table(seed)
        model = fit_linear(table, seed)
        explainer = Explainer(model, table, desired=True)
        for row in explainer.row_numbers[~explainer.outcomes][:2].tolist():
            found = explainer.counterfactuals(row, k=1)
            assert found.proven
            assert_nearest(explainer, model, found)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.5, 1, 2]))
def test_roles_and_ranges_are_kept_by_what_is_nearest(seed, step):
    with few_readable_numbers():
        table = make_table(seed)
        model = fit_linear(table, seed)
        roles = {"income": Role(minimum_step=step), "home": "immutable", "accounts": Role(direction="rise")}
        explainer = Explainer(model, table, desired=True, roles=roles)
        row = int(explainer.row_numbers[~explainer.outcomes][0])
        found = explainer.counterfactuals(row, k=1, permitted_range={"debt": [-1.234, 2.345]})
        own = dict(found.instance)

        def permits(name, value):
            if name == "income":
                return value == own[name] or abs(value - own[name]) >= step * (1 - 1e-6)
            if name == "home":
                return value == own[name]
            if name == "accounts":
                return value >= own[name]
            return -1.234 <= value <= 2.345

        if not found.items:
            assert found.proven
            return
        assert all(permits(name, value) for name, value in found[0].values.items())
        if not permits("debt", own["debt"]):
            assert "debt" in {change.feature for change in found[0].changes}
            return
        options = list_options(explainer, own, permits)
        rows = enumerate_rows(options, own, 1)
        rows = rows[model.predict(rows)]
        if len(found[0].changes) == 1:
            # bounds that constraints name are options too, so that it may be nearer than every readable number
            least = min(map(tuple, list_costs(explainer, own, rows).tolist()))
            assert list_costs(explainer, own, pd.DataFrame([dict(found[0].values)]))[0, 1] <= least[1] + 1e-9
        else:
            assert not len(rows)


MODELS = {
    "tree": DecisionTreeClassifier(max_depth=4, random_state=0),
    "forest": RandomForestClassifier(8, max_depth=4, random_state=0),
    "boosted": GradientBoostingClassifier(n_estimators=8, max_depth=2, random_state=0),
    "stumps": GradientBoostingClassifier(n_estimators=20, max_depth=1, random_state=0),
    "linear": LogisticRegression(),
}


def fit_numbers(kind: str) -> tuple[Any, pd.DataFrame]:
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"income": rng.gamma(3, 300, 200), "ratio": rng.uniform(0.02, 1.95, 200)})
    return MODELS[kind].fit(table, table.income / 900 - table.ratio + rng.normal(0, 0.3, 200) > -0.3), table


@pytest.mark.parametrize("kind", MODELS)
def test_numbers_have_few_digits_and_are_rounded_away_from_the_row_within_the_resolution(kind: str) -> None:
    model, table = fit_numbers(kind)
    explainer = Explainer(model, table, desired=True)
    short = 0
    for row in explainer.row_numbers[~explainer.outcomes][:6].tolist():
        explanation = explainer.explain(row)
        changes = explanation.changes
        assert changes.proven
        assert changes.resolution == RESOLUTION
        assert "to within 0.1% of the range of each number" in changes.note
        for item in changes:
            assert model.predict(pd.DataFrame([dict(item.values)]))[0]
            short += all(float(f"{change.after:.4g}") == change.after for change in item.changes)
            for change in item.changes:
                if change.feature in item.exact:
                    exact, spread = item.exact[change.feature], np.ptp(table[change.feature])
                    assert min(change.before, change.after) < exact < max(change.before, change.after)
                    assert abs(exact - change.after) <= RESOLUTION * spread
                    # one number less, and a tree is on the other side of its threshold
                    nearer = np.nextafter(exact, change.before)
                    if len(item.changes) == 1:
                        undone = {**item.values, change.feature: nearer}
                        assert not model.predict(pd.DataFrame([undone]))[0]
        assert Explanation.from_json(explanation.to_json()).changes == changes
        assert check(explanation, model, table, desired=True).status == "proven"
    assert short >= 6
    assert nearest.RESOLUTION == RESOLUTION  # it is loaded before a test takes another one


@pytest.mark.parametrize("change", ["denied", "outside", "not rounded so", "rounded far", "not changed"])
def test_a_document_with_other_changes_is_refuted(change: str) -> None:
    model, table = fit_numbers("tree")
    explainer = Explainer(model, table, desired=True)
    rows = explainer.row_numbers[~explainer.outcomes].tolist()
    explanation = next(one for one in map(explainer.explain, rows) if one.changes and one.changes[0].exact)
    document = explanation.to_dict()
    item = document["changes"]["counterfactuals"][0]
    name, moved = next(iter(item["exact"].items()))
    step = next(step for step in item["changes"] if step["feature"] == name)
    upwards = 1 if step["after"] > step["before"] else -1
    if change in ("denied", "outside"):
        other = step["before"] + upwards * 1e-9 if change == "denied" else table[name].max() * 2
        item["values"][name] = step["after"] = other
        del item["exact"]
    elif change == "not rounded so":
        item["exact"][name] = step["after"] + upwards * 1e-3
    elif change == "rounded far":
        document["changes"]["resolution"] = abs(moved - step["after"]) / np.ptp(table[name]) / 2
    else:
        item["exact"] = {next(other for other in table if other != name): 1.0}
        assert len(item["changes"]) == 1
    del document["digest"]
    found = check(add_digest(document), model, table, desired=True)
    assert found.status == "refuted"
    assert [finding.claim for finding in found.findings if finding.status == "fails"] == ["suggested changes"]


def test_a_budget_of_no_evaluations_leaves_numbers_as_they_are() -> None:
    model, table = fit_numbers("forest")
    explainer = Explainer(model, table, desired=True)
    row = int(explainer.row_numbers[~explainer.outcomes][0])
    found = explainer.counterfactuals(row, k=2, budget=Budget(evaluations=1))  # two rows would have to be asked about
    assert all(not item.exact for item in found)
    assert found.statistics.evaluations <= 3


def test_a_long_domain_costs_no_cell_per_value() -> None:
    """Ten thousand values, of which most are written with many digits."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"amount": rng.gamma(2, 5000, 4000), "rate": rng.uniform(0, 1, 4000)})
    model = LogisticRegression().fit(table / [10_000, 1], table.amount / 10_000 + table.rate > 2)
    scaled = make_pipeline(StandardScaler(), model).fit(table, table.amount / 10_000 + table.rate > 2)
    explainer = Explainer(scaled, table, desired=True)
    found = explainer.counterfactuals({"amount": 1234.5, "rate": 0.25}, k=2)
    assert found.proven
    assert [change.feature for item in found for change in item.changes] == ["amount"]
    assert found[0].values["amount"] % 10 == 0


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.booleans(), st.floats(0, 1))
def test_rounded_numbers_lie_beyond_the_number_within_the_resolution(low, length, upwards, share):
    high = low + length
    number = min(max(low + share * length, low), high)
    listed = list(round_outwards(number, upwards, low, high))
    for one in listed:
        assert low <= one <= high
        assert (one > number) == upwards
        assert abs(one - number) <= RESOLUTION * (high - low) + 1e-15 * max(abs(low), abs(high))
    assert sorted(set(listed), reverse=upwards) == listed  # each with more digits is nearer


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_readable_numbers_are_dense_and_have_both_ends(low, length):
    high = low + length
    numbers = np.array(list_readable_numbers(low, high, whole=False))
    assert (numbers[0], numbers[-1]) == (low, high)
    gaps = np.diff(numbers)
    assert (gaps > 0).all()
    assert gaps.max() <= RESOLUTION * (high - low) + 1e-15 * max(abs(low), abs(high))


@given(st.integers(-(10**9), 10**9), st.integers(1, 10**9))
def test_readable_whole_numbers_are_whole_and_dense(low, length):
    numbers = list_readable_numbers(low, low + length, whole=True)
    assert all(isinstance(number, int) for number in numbers)
    assert (numbers[0], numbers[-1]) == (low, low + length)
    assert max(b - a for a, b in itertools.pairwise(numbers)) <= max(1, RESOLUTION * length)


@pytest.mark.parametrize("number", [0.1, 0.3, -0.7, 0.0])
def test_a_number_with_few_digits_stays_as_it_is(number: float) -> None:
    assert list(round_outwards(number, True, -2.0, 2.0)) == []
    assert list(round_outwards(number, False, -2.0, 2.0)) == []


def list_numbers(feature: Any, own: Any, count: int) -> np.ndarray:
    """Many numbers of a feature, and the row's own."""
    low, high = feature.values[0], feature.values[-1]
    if feature.has_only_integers:
        return np.arange(low, high + 1)
    return np.unique(np.concatenate([np.linspace(low, high, count), [own]]))


def assert_nothing_is_nearer(explainer: Explainer, model: Any, found: Any) -> None:
    """No row of many numbers has fewer changes than what is called nearest, or is nearer by more than is claimed."""
    instance, earlier = dict(found.instance), list[list[str]]()
    numbers = [feature.name for feature in explainer.space.features if feature.numeric]
    for item in found:
        size, distance = list_costs(explainer, instance, pd.DataFrame([dict(item.values)]))[0].tolist()
        for changed in range(1, int(size) + 1):
            count = {1: 2001, 2: 301, 3: 41}[changed]
            options = {
                feature.name: list_numbers(feature, instance[feature.name], count)
                if feature.name in numbers
                else list(feature.values)
                for feature in explainer.space.features
            }
            rows = enumerate_rows(options, instance, changed)
            costs = list_costs(explainer, instance, rows)
            claimed = costs[:, 1] < (distance - found.resolution - 1e-9 if changed == size else np.inf)
            for names in earlier:
                claimed &= ~np.all([rows[name].to_numpy() != instance[name] for name in names], axis=0)
            assert not claimed.any() or not model.predict(rows[claimed]).any()
        earlier.append([change.feature for change in item.changes])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_changes_of_a_network_are_nearest_to_within_the_resolution() -> None:
    sizes = list[int]()
    for seed in range(3):
        table = make_table(seed, 150).drop(columns="home")
        score = table.income - 2 * table.debt + np.sin(table.income) + 0.3 * table.accounts
        network = MLPClassifier((8,), max_iter=400, random_state=seed)
        model = make_pipeline(StandardScaler(), network).fit(table, score > score.quantile(0.6))
        explainer = Explainer(model, table, desired=True)
        for row in explainer.row_numbers[~explainer.outcomes][:8].tolist():
            found = explainer.counterfactuals(row, k=1)
            if found.proven:
                sizes.append(len(found[0].changes))
                assert 0 < found.resolution < 0.06
                assert_nothing_is_nearer(explainer, model, found)
    assert sizes.count(1) >= 12
    assert sizes.count(2) >= 1


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["relu", "tanh"]))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_changes_of_several_features_of_a_network_are_nearest(seed, activation):
    """Ranges so narrow that one feature is seldom enough."""
    table = make_table(seed, 80)
    home = table.home.map({"rent": 0.0, "own": 1.5, "other": 0.4})
    score = table.income - 2 * table.debt + np.sin(2 * table.income) + 0.3 * table.accounts + home
    network = MLPClassifier((5,), activation, max_iter=150, random_state=seed % 100, learning_rate_init=0.02)
    scale = make_column_transformer((OneHotEncoder(), ["home"]), remainder=StandardScaler())
    model = make_pipeline(scale, network).fit(table, score > score.quantile(0.7))
    explainer = Explainer(model, table, desired=True)
    rows = explainer.row_numbers[~explainer.outcomes].tolist()
    far = sorted(rows, key=lambda row: score[row])[len(rows) // 3 :][:2]
    for row in far:
        found = explainer.counterfactuals(row, k=2)
        if found.proven and all(len(item.changes) < 4 for item in found):
            assert_nothing_is_nearer(explainer, model, found)


class Interrupter:
    """Interrupts a search at the given look at its budget."""

    def __init__(self, at: int) -> None:
        self.looks, self.at = 0, at

    def __call__(self, meter: Meter) -> None:  # noqa: ARG002  # as every callback
        self.looks += 1
        if self.looks == self.at:
            raise KeyboardInterrupt


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_proof_that_is_interrupted_claims_no_more_than_it_has_proven() -> None:
    table = make_table(2, 150).drop(columns="home")
    score = table.income - 2 * table.debt + np.sin(table.income) + 0.3 * table.accounts
    network = MLPClassifier((8,), max_iter=400, random_state=2)
    model = make_pipeline(StandardScaler(), network).fit(table, score > score.quantile(0.6))
    explainer = Explainer(model, table, desired=True)
    rows = explainer.row_numbers[~explainer.outcomes][:8].tolist()
    row = next(row for row in rows if len(explainer.counterfactuals(row, k=1)[0].changes) == 2)
    whole = Interrupter(-1)
    assert explainer.counterfactuals(row, k=1, budget=Budget(callback=whole)).proven
    unproven = 0
    for at in range(1, whole.looks + 1, max(1, whole.looks // 25)):
        found = explainer.counterfactuals(row, k=1, budget=Budget(callback=Interrupter(at)))
        assert found.statistics.stopped == "interrupted" or found.proven
        unproven += not found.proven
        if found.proven:
            assert_nothing_is_nearer(explainer, model, found)
    assert unproven
