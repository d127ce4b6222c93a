"""Decision trees through the public face: the oracle by leaves, against asking the model about every point."""

from __future__ import annotations

import copy
import itertools
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier

from ironrule import Explainer, OutcomeError, Proven, Space
from ironrule.backends.tree.oracle import TreeOracle
from ironrule.explain import query
from ironrule.rule.instance_components import build_instance_components


def applications(seed: int, rows: int = 150) -> pd.DataFrame:
    """Three numbers, one of them sometimes missing, and a one-hot colour."""
    rng = np.random.default_rng(seed)
    colour = rng.integers(0, 3, rows)
    return pd.DataFrame(
        {
            "a": rng.integers(0, 4, rows) * 1.5,
            "b": np.where(rng.random(rows) < 0.2, np.nan, rng.integers(0, 3, rows)),
            "c": rng.integers(0, 3, rows),
            **{f"hue_{k}": (colour == k).astype(int) for k in range(3)},
        }
    )


def classes(table: pd.DataFrame, seed: int, count: int) -> np.ndarray:
    noise = np.random.default_rng(seed).integers(0, 3, len(table))
    return (table["a"] + table["b"].fillna(4) + table["hue_1"] * 2 + noise).astype(int).to_numpy() % count


def shortest_by_looking(explainer: Explainer, row: dict[str, Any]) -> int:
    """The least number of components that excludes every desired point, by asking the model about all points."""
    space = explainer.space
    points = np.array(list(itertools.product(*(range(size) for size in space.sizes))), dtype=np.int32)
    desired = points[explainer._context.model.desired(points)]
    relevant = build_instance_components(space, space.encode_row(row))
    for count in range(len(relevant.usable_numbers) + 1):
        for chosen in itertools.combinations(relevant.usable_numbers, count):
            if not relevant.box(sum(1 << bit for bit in chosen)).contains(desired).any():
                return count
    raise AssertionError("the row itself is desired")


def check(explainer: Explainer, table: pd.DataFrame, rows: int = 5) -> None:
    assert isinstance(explainer._context.oracle, TreeOracle)
    for place in np.flatnonzero(~explainer.outcomes)[:rows].tolist():
        explanation = explainer.explain(place)
        assert isinstance(explanation.verdict, Proven)
        assert explanation.minimum
        assert explanation.cardinality == shortest_by_looking(explainer, table.iloc[place].to_dict())
        assert explanation.coverage == int(explanation.rule.covers(table).sum())
        changed = pd.DataFrame([dict(one.values) for one in explanation.counterfactuals])
        points = np.stack([explainer.space.encode_row(one) for one in changed.to_dict("records")])
        assert explainer._context.model.desired(points).all()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("model", "count", "given"),
    [
        (DecisionTreeClassifier(random_state=0), 2, {"desired": 1}),
        (DecisionTreeClassifier(random_state=0, max_leaf_nodes=6), 2, {"desired": 0, "threshold": 0.6}),
        (DecisionTreeClassifier(random_state=0, max_depth=4), 4, {"desired": 2}),
        (DecisionTreeClassifier(random_state=0, max_depth=4), 4, {"desired": [0, 3]}),
        (ExtraTreeClassifier(random_state=0, max_depth=5), 2, {"desired": 1}),
        (DecisionTreeRegressor(random_state=0, max_depth=4), 5, {"threshold": 2.0}),
    ],
    ids=["plain", "threshold", "one of four", "two of four", "extra tree", "regression"],
)
def test_rules_of_trees_are_proven_and_shortest(model: Any, count: int, given: dict[str, Any], seed: int) -> None:
    table = applications(seed)
    check(Explainer(model.fit(table, classes(table, seed, count)), table, **given), table, rows=3)


def test_values_that_lie_on_a_threshold_go_left() -> None:
    table = applications(0)
    model = DecisionTreeClassifier(random_state=0).fit(table, classes(table, 0, 2))
    inner = model.tree_
    cuts = {name: set(inner.threshold[inner.feature == j].tolist()) for j, name in enumerate("abc")}
    near = {name: [v for cut in some for v in (cut, np.nextafter(cut, np.inf))] for name, some in cuts.items()}
    space = Space.infer(table, domains={"a": near["a"][:4], "b": near["b"][:2]})
    explainer = Explainer(model, table, desired=1, space=space)
    check(explainer, table)


def test_a_tree_that_never_gives_the_desired_outcome_needs_no_condition() -> None:
    table = applications(0)
    model = DecisionTreeRegressor(random_state=0).fit(table, np.zeros(len(table)))
    explanation = Explainer(model, table, threshold=0.5).explain(0)
    assert explanation.cardinality == 0
    assert explanation.minimum
    assert not explanation.counterfactuals


def test_a_tree_that_always_gives_the_desired_outcome_has_nobody_to_explain() -> None:
    table = applications(0)
    model = DecisionTreeRegressor(random_state=0).fit(table, np.ones(len(table)))
    explainer = Explainer(model, table, threshold=0.5)
    for row in (0, table.iloc[0].to_dict()):
        with pytest.raises(OutcomeError, match="undesired outcome"):
            explainer.explain(row)


def without_times(explanation: Any) -> dict[str, Any]:
    plain = explanation.to_dict()
    no_times = {"seconds": 0, "operator_seconds": {}, "compile_seconds": 0}
    return plain | {"statistics": plain["statistics"] | no_times, "digest": ""}


def test_a_past_row_gets_the_same_explanation_by_number_and_by_its_values() -> None:
    table = applications(1)
    explainer = Explainer(DecisionTreeClassifier(random_state=0).fit(table, classes(table, 1, 2)), table, desired=1)
    for place in np.flatnonzero(~explainer.outcomes)[:5].tolist():
        by_number, by_values = explainer.explain(place), explainer.explain(table.iloc[place].to_dict())
        assert without_times(by_number) == without_times(by_values)


def test_row_numbers_count_the_table_even_where_rows_break_a_constraint() -> None:
    table = applications(1).dropna().reset_index(drop=True)
    model = DecisionTreeClassifier(random_state=0).fit(table, classes(table, 1, 2))
    with pytest.warns(UserWarning, match="break the constraints"):
        explainer = Explainer(model, table, desired=1, constraints=["cf.c >= 1"])
    undesired = np.flatnonzero((model.predict(table) == 0) & (table["c"] >= 1))
    place = int(undesired[-1])
    assert dict(explainer.explain(place).instance) == dict(explainer.explain(table.iloc[place].to_dict()).instance)


def test_the_history_is_not_searched_where_leaves_say_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    table = applications(2)
    explainer = Explainer(DecisionTreeClassifier(random_state=0).fit(table, classes(table, 2, 2)), table, desired=1)
    place = int(np.flatnonzero(~explainer.outcomes)[0])
    explainer.explain(place)
    for name in ("count_distinct_duals", "count_distinct_point_duals"):
        monkeypatch.setattr(query, name, lambda *_: pytest.fail("the history was searched"))
    assert explainer.explain(place).minimum


@pytest.mark.parametrize("algorithm", ["greedy_cf", "genetic_cf"])
def test_other_algorithms_ask_the_leaves_too(algorithm: str) -> None:
    table = applications(2)
    explainer = Explainer(DecisionTreeClassifier(random_state=0).fit(table, classes(table, 2, 2)), table, desired=1)
    place = int(np.flatnonzero(~explainer.outcomes)[0])
    explanation = explainer.explain(place, algorithm)
    assert isinstance(explanation.verdict, Proven)
    assert explanation.cardinality >= explainer.explain(place).cardinality


@pytest.mark.parametrize("way", [copy.deepcopy, lambda explainer: pickle.loads(pickle.dumps(explainer))])
def test_a_copied_explainer_explains_alike(way: Any) -> None:
    table = applications(2)
    explainer = Explainer(DecisionTreeClassifier(random_state=0).fit(table, classes(table, 2, 2)), table, desired=1)
    place = int(np.flatnonzero(~explainer.outcomes)[0])
    before = without_times(explainer.explain(place))
    copied = way(explainer)
    del explainer
    assert without_times(copied.explain(place)) == before
