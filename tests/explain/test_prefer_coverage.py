"""Explanations that prefer coverage to length, against all proven rules of the same row."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier

from ironrule import Budget, Explainer, Explanation, Proven, check

ROWS = 300


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return pd.DataFrame(np.random.default_rng(3).integers(0, 20, (ROWS, 6)), columns=list("abcdef"))


@pytest.fixture(scope="module")
def model(table: pd.DataFrame) -> GradientBoostingClassifier:
    wanted = np.where(table.a + table.b + table.c - table.d + (table.e - table.f) ** 2 / 9 > 35, "yes", "no")
    return GradientBoostingClassifier(random_state=0, n_estimators=40).fit(table, wanted)


@pytest.fixture(scope="module")
def explainer(model: GradientBoostingClassifier, table: pd.DataFrame) -> Explainer:
    return Explainer(model, table, desired="yes")


def list_denied(explainer: Explainer, count: int) -> list[int]:
    return [int(row) for row in np.flatnonzero(~explainer.outcomes)[:count]]


def test_no_proven_rule_that_is_two_longer_at_most_covers_more(explainer: Explainer) -> None:
    longer = 0
    for row in list_denied(explainer, 25):
        shortest = explainer.explain(row, widen=False)
        found = explainer.explain(row, widen=False, prefer="coverage")
        rules = list(explainer.rules(row))
        permitted = [one for one in rules if one.rule.cardinality <= shortest.cardinality + 2]
        assert shortest.minimum
        assert found.preference is not None
        assert found.preference.is_complete
        assert found.preference.shortest == shortest.cardinality == found.lower_bound
        assert found.coverage == max(one.coverage for one in permitted)
        assert found.minimum == (found.cardinality == shortest.cardinality)
        assert isinstance(found.verdict, Proven)
        assert found.statistics.stopped_by == "finished"
        longer += not found.minimum
    assert longer > 0


def test_widened_rules_are_compared_as_they_are_shown(explainer: Explainer) -> None:
    more = 0
    for row in list_denied(explainer, 25):
        shortest, found = explainer.explain(row), explainer.explain(row, prefer="coverage")
        assert found.shown.coverage >= shortest.shown.coverage
        assert found.cardinality <= shortest.cardinality + 2
        assert found.shown.coverage > shortest.shown.coverage or found.minimum
        assert found.minimum or shortest.rule in found.rules  # the shortest comes next, with its proof
        more += found.shown.coverage > shortest.shown.coverage
    assert more > 0


def test_what_is_preferred_is_said_kept_and_checked(
    explainer: Explainer, model: GradientBoostingClassifier, table: pd.DataFrame
) -> None:
    found = [explainer.explain(row, prefer="coverage") for row in list_denied(explainer, 25)]
    longer = next(one for one in found if not one.minimum)
    least = longer.lower_bound
    assert f"rules need at least {least}" in str(longer)
    assert f"The shortest has {least}." in str(longer)
    assert "no shorter rule holds" not in str(longer)
    again = Explanation.from_json(longer.to_json())
    assert (again.prefer, again.preference) == (longer.prefer, longer.preference)
    assert str(again) == str(longer)
    assert check(longer, model, table, desired="yes").status == "proven"
    shortest = explainer.explain(list_denied(explainer, 1)[0])
    assert "prefer" not in shortest.to_dict()


def test_a_batch_prefers_what_a_single_row_prefers(explainer: Explainer) -> None:
    rows = list_denied(explainer, 4)
    batch = explainer.explain_many(rows, workers=1, prefer="coverage")
    assert [one.rule for one in batch] == [explainer.explain(row, prefer="coverage").rule for row in rows]


def test_weights_count(explainer: Explainer) -> None:
    weights = {"a": 1.5, "b": 0.5}
    for row in list_denied(explainer, 5):
        found = explainer.explain(row, widen=False, prefer="coverage", weights=weights)
        assert found.preference is not None
        permitted = [
            one
            for one in explainer.rules(row, weights=weights)
            if sum(weights.get(part.feature, 1) for part in one.rule.components) <= found.preference.shortest + 2
        ]
        assert found.coverage == max(one.coverage for one in permitted)


@pytest.mark.parametrize("evaluations", [1, 50, 1_000_000])
def test_a_model_that_can_only_be_asked_says_what_it_can(table: pd.DataFrame, evaluations: int) -> None:
    asked = Explainer(lambda rows: (rows.a * rows.b > 25).to_numpy(dtype=float), table[["a", "b", "c"]])
    row = list_denied(asked, 1)[0]
    found = asked.explain(row, prefer="coverage", budget=Budget(evaluations=evaluations))
    if found.preference is None:
        assert "Coverage could not be preferred" in str(found)
    else:
        assert isinstance(found.verdict, Proven)
        assert "Preferred for coverage" in str(found)


def test_a_row_that_nobody_is_like_is_said_to_be_alone(explainer: Explainer) -> None:
    alone = [explainer.explain(row, widen=False) for row in list_denied(explainer, 40)]
    said = [one.covers_only_instance for one in alone]
    assert said == [one.shown.coverage == 1 for one in alone]
    assert 0 < sum(said) < len(said)
    assert [Explanation.from_json(one.to_json()).covers_only_instance for one in alone] == said


@pytest.mark.parametrize("b", [1, 2])
def test_a_rule_that_describes_one_other_row_is_not_said_to_describe_the_applicant_alone(b: int) -> None:
    past = pd.DataFrame({"a": [1, 9, 9, 9], "b": [1, 2, 1, 2]})
    asked = Explainer(lambda rows: (rows.a > 5).to_numpy(dtype=float), past)
    found = asked.explain({"a": 1, "b": b})
    assert str(found.rule) == "Everyone with a = 1 gets: a score of at most 0.5."
    assert found.coverage == 1
    assert found.covers_only_instance == (b == 1)
    assert ("This rule describes only this applicant: no other past row satisfies it." in str(found)) == (b == 1)
