"""Weights are exact: whatever their sizes, the lightest rule is the lightest of all that can be written down."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from ironrule import Explainer, Explanation, InputError
from ironrule.search.min_set_cover import HighsSolver, MinSetCover
from ironrule.verdict.verdict import Proven, Quality

NAMES = list("abcdefg")
POINTS = np.array(list(product((0, 1), repeat=len(NAMES))))
FAR_APART: list[dict[str, Any]] = [
    {"a": 1e-12, "d": 5e-10},
    {"a": 5e-10},
    {"b": 5e-10, "c": 1e-12, "e": 2e-10, "g": 1e-12},
    {"a": 1e12, "b": 1e12, "c": 1e12},
    {"d": 10**12, "e": 10**12 + 1, "f": 10**12 - 1},
    {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.7, "e": 0.6, "f": 0.4, "g": 0.1},
    {"a": Fraction(1, 3), "b": Fraction(2, 3), "c": Decimal("0.1"), "d": np.float32(0.1), "e": np.int64(2)},
    {"a": 1.000000000001, "b": 0.999999999999, "c": 2},
]


@cache
def explainer_of(seed: int) -> Explainer:
    """A tree or a small forest that has learned a random table by heart, or nearly so."""
    outcomes = np.random.default_rng(seed).random(len(POINTS)) < 0.15
    model = DecisionTreeClassifier(random_state=0) if seed % 2 else RandomForestClassifier(4, random_state=0)
    data = pd.DataFrame(POINTS, columns=NAMES)
    return Explainer(model.fit(data, outcomes), data, desired=True, progress=False)


def denied(explainer: Explainer, count: int) -> list[int]:
    return [int(row) for row in np.flatnonzero(~explainer.outcomes)[:: max(1, (~explainer.outcomes).sum() // count)]]


def weights_of_rules(explainer: Explainer, row: int, weights: dict[str, Any]) -> dict[frozenset[str], Fraction]:
    """All rules without exceptions, by looking, and what they weigh; a set of features keeps the row's values."""
    differs = POINTS[np.asarray(explainer.outcomes)] != POINTS[row]
    each = [Fraction(str(weights.get(name, 1))) for name in NAMES]
    kept = [np.flatnonzero(flags).tolist() for flags in POINTS.astype(bool)]
    return {
        frozenset(NAMES[j] for j in some): sum((each[j] for j in some), Fraction(0))
        for some in kept
        if differs[:, some].any(axis=1).all()
    }


def features_of(rule: Any) -> frozenset[str]:
    return frozenset(component.feature for component in rule.components)


@pytest.mark.parametrize("weights", FAR_APART, ids=str)
@pytest.mark.parametrize("seed", range(8))
def test_the_lightest_rule_is_the_lightest_of_all(seed: int, weights: dict[str, Any]) -> None:
    explainer = explainer_of(seed)
    for row in denied(explainer, 12):
        every = weights_of_rules(explainer, row, weights)
        explanation = explainer.explain(row, weights=weights, widen=False)
        assert explanation.minimum_among_permitted
        assert explanation.weight == explanation.lower_bound == every[features_of(explanation.rule)]
        assert explanation.weight == min(every.values())


@pytest.mark.parametrize("weights", FAR_APART, ids=str)
def test_rules_come_lightest_first_and_the_judge_knows_the_lightest(weights: dict[str, Any]) -> None:
    explainer = explainer_of(1)
    for row in denied(explainer, 4):
        every = weights_of_rules(explainer, row, weights)
        irredundant = {some for some in every if not any(some - {name} in every for name in some)}
        listing = explainer.rules(row, weights=weights)
        found = list(listing)
        assert listing.complete
        assert {features_of(one.rule) for one in found} == irredundant
        heavier = [every[features_of(one.rule)] for one in found]
        assert heavier == sorted(heavier)
        least = min(heavier)
        minimum = {features_of(one.rule) for one in explainer.rules(row, weights=weights, minimum_only=True)}
        assert minimum == {some for some in irredundant if every[some] == least}
        judged = explainer.judge(row, [one.rule for one in found], weights=weights)
        for one, weight in zip(judged, heavier, strict=True):
            assert one.weight == weight
            assert (one.quality is Quality.MINIMUM) == (weight == least)


@pytest.mark.parametrize("algorithm", [MinSetCover(), MinSetCover(HighsSolver()), "greedy_cf"], ids=str)
@pytest.mark.parametrize("weights", FAR_APART, ids=str)
def test_no_algorithm_claims_too_much(weights: dict[str, Any], algorithm: Any) -> None:
    explainer = explainer_of(0)
    for row in denied(explainer, 6):
        every = weights_of_rules(explainer, row, weights)
        explanation = explainer.explain(row, algorithm, weights=weights, widen=False)
        assert explanation.lower_bound <= min(every.values())
        if isinstance(algorithm, MinSetCover) and isinstance(explanation.verdict, Proven):
            assert explanation.weight == explanation.lower_bound == min(every.values())


@pytest.mark.parametrize("weights", FAR_APART, ids=str)
def test_a_document_keeps_exact_weights(weights: dict[str, Any]) -> None:
    explainer = explainer_of(2)
    explanation = explainer.explain(denied(explainer, 1)[0], weights=weights)
    document = json.loads(explanation.to_json())
    for name in ("weight", "lower_bound"):
        written = document[name]
        assert isinstance(written, int) or Fraction(written).denominator > 1
        assert Fraction(written) == getattr(explanation, name)
    assert Explanation.from_json(explanation.to_json()) == explanation
    kept = document["restrictions"]["weights"]
    assert {name: Fraction(str(one)) for name, one in kept.items()} == {
        name: Fraction(str(one)) for name, one in weights.items()
    }
    again = explainer.explain(denied(explainer, 1)[0], weights=Explanation.from_dict(document).restrictions.weights)
    assert again.weight == explanation.weight
    assert explanation.minimum_among_permitted
    assert str(explanation)
    assert explanation.to_html("validator")


def test_without_weights_all_numbers_are_whole() -> None:
    explainer = explainer_of(1)
    for weights in (None, "paper"):
        explanation = explainer.explain(denied(explainer, 1)[0], weights=weights)
        assert type(explanation.weight) is int
        assert type(explanation.lower_bound) is int
        assert type(explanation.to_dict()["weight"]) is int


@pytest.mark.parametrize("written", [0.5, 2.0, True, "2", "2/1", "2/4", "-1/2", "1/0", "1 / 2", "", None, -1, [1]])
@pytest.mark.parametrize("name", ["weight", "lower_bound"])
def test_other_numbers_are_refused_when_a_document_is_read(name: str, written: Any) -> None:
    from ironrule.verdict.digest import add_digest

    explainer = explainer_of(1)
    document = explainer.explain(denied(explainer, 1)[0]).to_dict()
    del document["digest"]
    with pytest.raises(InputError, match="exact number must be a non-negative integer or a string"):
        Explanation.from_dict(add_digest(document | {name: written}))


@pytest.mark.parametrize(
    "weights", [{"a": 1e-12, "b": 1e12}, {"a": 1 / 3}, {"a": 10**17}, {"a": 1e300, "b": 1e-300}], ids=str
)
def test_weights_too_far_apart_are_refused_whatever_the_row(weights: dict[str, Any]) -> None:
    explainer = explainer_of(1)
    for row in denied(explainer, 3):
        with pytest.raises(InputError, match=r"less than 2\*\*53 units, got .* beside .*; use weights closer"):
            explainer.explain(row, weights=weights)


@pytest.mark.parametrize(
    "weight",
    [0, -1, float("nan"), float("inf"), 10**400, Fraction(1, 10**400), Decimal("NaN"), Decimal("Infinity"),
     Decimal("1e999999"), Decimal("1e-999999"), "1", True, np.True_, np.complex128(1), None],
    ids=str,
)  # fmt: skip
def test_a_weight_that_is_no_positive_number_is_refused(weight: Any) -> None:
    explainer = explainer_of(1)
    with pytest.raises(InputError, match="the weight of 'a' must be a positive number"):
        explainer.explain(denied(explainer, 1)[0], weights={"a": weight})


def test_what_a_rule_of_another_row_weighs_is_exact_in_a_batch() -> None:
    explainer, weights = explainer_of(1), {"a": 0.1, "b": 0.2, "c": Fraction(1, 3)}
    batch = explainer.explain_many(denied(explainer, 20), weights=weights, reuse=True, workers=1)
    assert any(explanation.statistics.algorithm == "reused" for explanation in batch)
    for explanation in batch:
        each = [Fraction(str(weights.get(one.feature, 1))) for one in explanation.rule.components]
        assert explanation.weight == sum(each, Fraction(0))
