"""Counterfactuals that differ in value: their claims are proven again, and false ones are refuted."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from change_examples import BUILDERS, Document, failing, fit, rewrite, write_changes
from sklearn.ensemble import HistGradientBoostingClassifier

from ironrule import Explainer, check
from ironrule.checker.changes.spread import build_spread_constraints
from ironrule.checker.space.space import CheckerFeature, CheckerSpace

SPREADS = [0.1, 0.3, 0.6]


def is_apart(feature: CheckerFeature, value: Any, earlier: Any, own: Any, spread: float) -> bool:
    """Whether a value is far enough from the one that an earlier counterfactual changes to, from the definition."""
    if value == own:
        return True
    if value is None or earlier is None:
        return value is not earlier
    if not feature.numeric:
        return bool(value != earlier)
    return bool(abs(value - earlier) >= spread * (max(feature.values) - min(feature.values)) - 1e-9)


FEATURES = (
    CheckerFeature("age", (20, 25, 26, 40), ordered=True),
    CheckerFeature("rate", (0.0, 0.5, 2.0), ordered=True, missing=True),
    CheckerFeature("grade", ("low", "mid", "high"), ordered=True, missing=True),
    CheckerFeature("job", ("cook", "smith", "clerk"), ordered=False),
)


@pytest.mark.parametrize("spread", SPREADS)
def test_far_enough_means_the_same_as_by_definition(spread: float) -> None:
    """For every row, every earlier counterfactual and every point of a space with missing values."""
    space = CheckerSpace(FEATURES)
    points = np.array(list(itertools.product(*(range(one.size) for one in FEATURES))), dtype=np.int32)
    rng = np.random.default_rng(0)
    for own, earlier in rng.choice(points, (60, 2)):
        changed = np.flatnonzero(own != earlier)
        if not len(changed):
            continue
        named = [(FEATURES[j], int(own[j]), int(earlier[j])) for j in changed]
        listed = [
            {"feature": one.name, "before": one.value(before), "after": one.value(after)}
            for one, before, after in named
        ]
        (constraint,) = build_spread_constraints(space, [{"changes": listed}], spread)
        expected = [
            any(
                is_apart(FEATURES[j], *(FEATURES[j].value(int(one[j])) for one in (point, earlier, own)), spread)
                for j in changed
            )
            for point in points
        ]
        assert constraint.bind(space, own)(points).tolist() == expected


@pytest.mark.parametrize("domain", ["seen", "auto"])
@pytest.mark.parametrize("kind", BUILDERS)
def test_what_is_proven_is_proven_again(kind: str, domain: str) -> None:
    proven = 0
    spreads = [0.3] if kind == "network" else [0.1, 0.6]  # a network takes its time
    for cost, spread in itertools.product(("fewest", "l1"), spreads):
        model, table, row = fit(kind)
        explainer = Explainer(model, table, domain=domain, progress=False)
        found = explainer.diverse_counterfactuals(row, k=3, cost=cost, spread=spread)
        result = check(found, model, table)
        assert result.status == ("proven" if found.proven else "undecided"), str(result)
        assert not result.failures, str(result)
        proven += found.proven and len(found) > 1
    assert proven


def test_categories_and_missing_values_are_far_enough_where_they_differ() -> None:
    rng = np.random.default_rng(2)
    table = pd.DataFrame(
        {
            "job": rng.choice(["cook", "smith", "clerk"], 200),
            "rate": rng.choice([0.5, 1.0, 2.0, np.nan], 200),
            "age": rng.integers(20, 30, 200),
        }
    ).astype({"job": "category"})
    score = (table["job"] == "cook") + table["rate"].fillna(3.0) + table["age"] / 20
    model = HistGradientBoostingClassifier(max_iter=8, min_samples_leaf=5, categorical_features="from_dtype")
    model.fit(table, (score > 4).astype(int))
    explainer = Explainer(model, table, desired=1, progress=False)
    kinds = set[str]()
    for row in explainer.row_numbers[~explainer.outcomes][:6].tolist():
        found = explainer.diverse_counterfactuals(row, k=4, spread=0.3)
        result = check(found, model, table, desired=1)
        assert (found.proven, result.status) == (True, "proven"), str(result)
        kinds |= {type(change.after).__name__ for item in found for change in item.changes}
    assert {"str", "NoneType", "float"} <= kinds


def find_all(kind: str, k: int, spread: float = 0.3) -> tuple[Any, np.ndarray, np.ndarray, Document]:
    model, table, row = fit(kind)
    found = Explainer(model, table, domain="seen", progress=False).diverse_counterfactuals(row, k=k, spread=spread)
    assert found.proven
    return model, table, row, json.loads(found.to_json())


@pytest.mark.parametrize("kind", ["tree", "forest", "logistic"])
def test_any_other_point_in_the_place_of_the_nearest_is_refuted(kind: str) -> None:
    """Every desired point of the space in the place of the second: a farther one, or one beside the first."""
    model, table, row, document = find_all(kind, 2)
    axes = [np.unique(table[:, j]) for j in range(3)]
    points = np.array(list(itertools.product(*axes)))
    points = points[np.asarray(model.predict(points)) == 1]
    given = [list(one["values"].values()) for one in document["counterfactuals"]]
    size = np.ptp(table, axis=0)
    changes = (points != row).sum(axis=1)
    keys = 10.0 * changes + (np.abs(points - row) / size).sum(axis=1)
    own = keys[(points == np.array(given[1])).all(axis=1)][0]
    claims = set[str]()
    for point, key in zip(points, keys, strict=True):
        worse = rewrite(document, counterfactuals=[document["counterfactuals"][0], write_changes(row, point)])
        result = check(worse, model, table)
        if result.status == "proven":
            assert key == pytest.approx(own)  # one that costs the same will do
        else:
            assert result.status == "refuted", str(result)
            claims |= {*failing(result)}
    assert claims == {"counterfactuals", "nearest 2"}


@pytest.mark.parametrize("kind", ["tree", "forest", "logistic"])
def test_an_answer_that_is_left_out_is_missed(kind: str) -> None:
    model, table, _, document = find_all(kind, 30)
    every = document["counterfactuals"]
    assert check(document, model, table).status == "proven"
    assert 1 < len(every) < 30
    for place in range(len(every)):
        left = [one for other, one in enumerate(every) if other != place]
        result = check(rewrite(document, counterfactuals=left), model, table)
        assert result.status == "refuted"
        if place == len(every) - 1:
            assert failing(result) == ["no other"]
        else:
            assert failing(result)[0] in (f"nearest {place + 1}", "nearest", "counterfactuals")
    none = check(rewrite(document, counterfactuals=[]), model, table)
    assert failing(none) == ["no other"]


def test_another_spread_than_that_of_the_search_is_refuted() -> None:
    model, table, _, document = find_all("forest", 3)
    assert failing(check(rewrite(document, spread=0.7), model, table)) == ["counterfactuals"]
    model, table, _, document = find_all("tree", 3, 0.7)
    assert failing(check(rewrite(document, spread=0.1), model, table)) == ["no other"]


def test_of_a_search_that_ended_early_the_first_are_proven_again() -> None:
    model, table, _, document = find_all("forest", 3)
    part = rewrite(document, proven=False, proven_count=1)
    result = check(part, model, table)
    assert result.status == "undecided"
    assert [one.claim for one in result.findings if one.claim.startswith("nearest")] == ["nearest 1"]
    farther = rewrite(part, counterfactuals=[document["counterfactuals"][1]])
    assert failing(check(farther, model, table)) == ["nearest"]
