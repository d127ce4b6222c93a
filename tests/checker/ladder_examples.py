"""Ladders to check, of all kinds of tables, and what they are checked against."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from sklearn.ensemble import RandomForestClassifier

import ironrule
from ironrule.verdict.digest import add_digest

FIRST_DAY = pd.Timestamp("2024-01-01")
NUMBERS = ["income", "savings", "debts", "age"]


@dataclass(frozen=True)
class LadderExample:
    """A ladder as plain data, the model and the data, and what else the checker must be told."""

    document: dict[str, Any]
    model: Any
    data: Any
    given: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def checker(self) -> ironrule.Checker:
        """One checker for all documents about this model."""
        return ironrule.Checker(self.model, self.data, desired=True, **self.given)

    def check(self, document: Any = None, **changed: Any) -> ironrule.Check:
        """Check the ladder, or another document in its place; with other arguments, if some are given."""
        chosen = self.document if document is None else document
        if not changed:
            return self.checker.check(chosen)
        return ironrule.check(chosen, self.model, self.data, **{"desired": True, **self.given, **changed})

    def alter(self, change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """The document with something changed in it, and a digest that fits."""
        altered = copy.deepcopy(self.document)
        change(altered)
        return add_digest(altered)


class AskedModel:
    """A forest behind columns of all kinds, which can only be asked."""

    classes_ = np.array([False, True])

    def __init__(self, forest: RandomForestClassifier) -> None:
        self.forest = forest

    def predict(self, table: pd.DataFrame) -> np.ndarray:
        """The labels of rows."""
        return self.forest.predict(encode_kinds(table))


def make_numbers(rows: int, seed: int) -> pd.DataFrame:
    """Numbers, whole and others, some of them missing, and many equal rows."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({name: rng.integers(0, 5, rows) for name in NUMBERS})
    table["savings"] = table["savings"] / 4
    table["age"] = table["age"].astype(float).mask(rng.random(rows) < 0.15)
    table["income"] = np.round(rng.normal(2.0, 1.0, rows), 1)
    repeated = table.iloc[rng.integers(0, rows, rows // 2)]
    return pd.concat([table, repeated], ignore_index=True)


def make_kinds(rows: int, seed: int) -> pd.DataFrame:
    """Categories with and without an order, dates, true and false, a one-hot group, and equal rows."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"count": rng.integers(0, 4, rows), "job": rng.choice(["cook", "zoë", "clerk"], rows)})
    table["level"] = pd.Categorical(rng.choice(["low", "mid", "high"], rows), ["low", "mid", "high"], ordered=True)
    table["since"] = FIRST_DAY + pd.to_timedelta(rng.integers(0, 6, rows), unit="D")
    table["owner"] = rng.random(rows) < 0.5
    for place, chosen in enumerate(np.eye(3, dtype=int)[rng.integers(0, 3, rows)].T):
        table[f"home_{place}"] = chosen
    repeated = table.iloc[rng.integers(0, rows, rows // 2)]
    return pd.concat([table, repeated], ignore_index=True)


def encode_kinds(table: pd.DataFrame) -> np.ndarray:
    """The numbers that the forest works on."""
    levels = table["level"].astype(str).map({"low": 0, "mid": 1, "high": 2})
    days = (pd.to_datetime(table["since"]) - FIRST_DAY).dt.days
    columns = [table["count"], table["job"] == "zoë", levels, days, table["owner"], table["home_0"], table["home_1"]]
    return np.column_stack([np.asarray(column, dtype=float) for column in columns])


def fit_numbers(seed: int) -> RandomForestClassifier:
    """A forest that can be read."""
    table = make_numbers(300, 50)
    score = table["income"] + 2 * table["savings"] - table["debts"] + table["age"].fillna(2)
    noise = np.random.default_rng(seed).normal(0, 1, len(table))
    return RandomForestClassifier(7, max_depth=4, random_state=seed).fit(table, score + noise > 3.5)


def build_example(model: Any, data: Any, asked: dict[str, Any], **given: Any) -> LadderExample:
    """The ladder of the first denied row whose rule has three components or more, or of a row that is asked for."""
    own = {name: value for name, value in given.items() if name != "where"}
    explainer = ironrule.Explainer(model, data, desired=True, **own)
    told = {name: value for name, value in own.items() if name != "domain"}
    if "where" in given:
        explainer = explainer.where(given["where"])
        told["constraints"] = [given["where"]]
    asked = {"budget": ironrule.Budget(evaluations=4000), **asked}
    row = asked.pop("row", None)
    rows = explainer.row_numbers[~explainer._context.history.outcomes] if row is None else [row]
    for number in rows:
        ladder = explainer.ladder(number if row is not None else int(number), **asked)
        if len(ladder) > 2 or row is not None:
            return LadderExample(ladder.to_dict(), model, data, told)
    raise AssertionError("every rule is short")


@cache
def build_examples() -> dict[str, LadderExample]:
    """One ladder of every kind."""
    forest, other, numbers, fresh = fit_numbers(0), fit_numbers(1), make_numbers(160, 1), make_numbers(120, 2)
    kinds, fresh_kinds = make_kinds(140, 3), make_kinds(90, 4)
    asked = AskedModel(
        RandomForestClassifier(6, max_depth=5, random_state=0).fit(
            encode_kinds(kinds), encode_kinds(kinds) @ [1, 1, 1, 0.5, 1, -1, 1] > 4.5
        )
    )
    fresh.loc[0, "income"], fresh_kinds.loc[0, "job"] = 1.05, "baker"  # values that no past row has
    mask = np.random.default_rng(0).random(len(numbers)) < 0.6
    low = {"income": 0.25, "savings": 0.1, "debts": 9, "age": 1.0}
    array = numbers.fillna({"age": 2.0}).to_numpy()
    plain = RandomForestClassifier(5, max_depth=4, random_state=0).fit(array, forest.predict(numbers))
    return {
        "split": build_example(forest, numbers, {}),
        "not nested": build_example(forest, numbers, {"nested": False, "most": 3}),
        "values seen": build_example(forest, numbers, {"confidence": 0.8}, domain="seen"),
        "mask": build_example(forest, numbers, {"most": 4}, measure=mask),
        "table": build_example(forest, numbers, {"nested": False}, measure=fresh),
        "constraints": build_example(forest, numbers, {}, constraints=["cf.debts >= 1 or cf.savings <= 0.75"]),
        "constraints and table": build_example(
            forest, numbers, {}, constraints=["cf.debts >= 1 or cf.savings <= 0.75"], measure=fresh
        ),
        "where": build_example(forest, numbers, {}, where="cf.debts >= 1"),
        "unseen values": build_example(forest, numbers, {"row": low}),
        "a missing value": build_example(forest, numbers, {"row": low | {"age": None}, "nested": False}),
        "margin": build_example(forest, numbers, {}, margin=0.1),
        "models": build_example(forest, numbers, {}, models=[other]),
        "models and table": build_example(forest, numbers, {}, models=[other], measure=fresh),
        "kinds": build_example(asked, kinds, {}),
        "kinds, table": build_example(asked, kinds, {"nested": False}, measure=fresh_kinds),
        "array": build_example(plain, array, {}),
        "array, table": build_example(plain, array, {}, measure=array[::2] + np.array([0.05, 0, 0, 0])),
        "polars": build_example(forest, pl.from_pandas(numbers.astype({"age": float})), {}),
        "forbidden": build_example(forest, numbers, {"forbid": ["income >="], "at_least": 0.8}),
    }
