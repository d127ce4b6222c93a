"""Bounds that people can read: rounded inwards, still proven, covering as many past rows, and checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

from ironrule import Explainer, Explanation, check
from ironrule.verdict.digest import add_digest
from ironrule.wording import round_towards


def lend(rows: int = 300) -> tuple[Any, pd.DataFrame]:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "income": np.round(rng.gamma(3, 300, rows), 1),
            "loan_to_value": np.round(rng.uniform(0.02, 1.95, rows), 3),
            "accounts": rng.integers(0, 12, rows),
        }
    )
    paid = table.income / 900 - table.loan_to_value + rng.normal(0, 0.3, rows) > -0.3
    return RandomForestClassifier(20, max_depth=5, random_state=0).fit(table, paid), table


MODEL, TABLE = lend()
EXPLAINER = Explainer(MODEL, TABLE, desired=True)
DENIED = np.flatnonzero(~EXPLAINER.outcomes)[:8].tolist()


@pytest.mark.parametrize("row", DENIED)
def test_a_rounded_rule_lies_within_the_proven_one_and_covers_the_same_rows(row: int) -> None:
    explanation = EXPLAINER.explain(row)
    assert explanation.wider is not None
    if explanation.rounded is None:
        return
    for short, exact in zip(explanation.rounded.components, explanation.wider.rule.components, strict=True):
        assert (short.feature, short.op) == (exact.feature, exact.op)
        assert short.value <= exact.value if short.op == "<=" else short.value >= exact.value
        assert len(repr(short.value)) <= len(repr(exact.value))
    assert explanation.shown.rule == explanation.rounded
    covered = explanation.rounded.covers(TABLE)
    assert covered.tolist() == explanation.wider.rule.covers(TABLE).tolist()
    assert covered[row]
    assert check(explanation, MODEL, TABLE, desired=True).status == "proven"
    assert Explanation.from_json(explanation.to_json()).rounded == explanation.rounded


def test_some_bounds_are_rounded_and_shown_so() -> None:
    rounded = [one for one in map(EXPLAINER.explain, DENIED) if one.rounded is not None]
    assert rounded
    assert all(str(one).startswith(str(one.rounded)) for one in rounded)
    assert all("to the last digit" in str(one) for one in rounded)


@pytest.mark.parametrize("change", ["too far", "past a row", "another feature", "without the instance"])
def test_a_rounded_rule_that_claims_more_is_refuted(change: str) -> None:
    explanation = next(one for one in map(EXPLAINER.explain, DENIED) if one.rounded is not None)
    document = explanation.to_dict()
    parts = document["rounded"]["components"]
    place = next(
        p for p, (a, b) in enumerate(zip(parts, document["wider"]["rule"]["components"], strict=True)) if a != b
    )
    part, outward = parts[place], 1 if parts[place]["op"] == "<=" else -1
    own = explanation.instance[part["feature"]]
    assert isinstance(own, float)
    if change == "too far":
        part["value"] += outward * 0.5
    elif change == "past a row":
        part["value"] = own  # it still covers the instance
    elif change == "another feature":
        part["feature"] = next(name for name in TABLE.columns if name != part["feature"])
    else:
        part["value"] = own - outward * 1e-9
    del document["digest"]
    found = check(add_digest(document), MODEL, TABLE, desired=True)
    assert found.status == "refuted"


@pytest.mark.parametrize(
    ("value", "limit", "short"),
    [
        (1.7140000462532043, 1.7, 1.71),
        (1.7140000462532043, 1.2, 1.0 + 0.5),
        (975.8999938964844, 976.2, 976.0),
        (-0.12345678, -0.2, -0.2),
        (-0.12345678, 0.5, 0.0),
        (0.1, 0.1, 0.1),
        (1e-300, 5e-301, 1e-300),
        (123456.789, 120000.0, 120000.0),
    ],
)
def test_the_fewest_digits_win(value: float, limit: float, short: float) -> None:
    rounded = round_towards(value, limit)
    assert min(value, limit) <= rounded <= max(value, limit)
    assert len(repr(rounded)) <= len(repr(short))
