"""Functions of users on a single column (FunctionTransformer): tabulated, if they look at no other row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from exhaustive_checks import assert_shortest, measure_undecided_share
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from ironrule import Explainer, check
from ironrule.checker.preprocessing import tabulate_columns
from ironrule.checker.readers.normal_form import NoReading
from ironrule.model.model_input import tabulate
from ironrule.model.protocol import Unreadable
from ironrule.space.space import Space


def square_and_flag(column: Any) -> Any:
    values = np.asarray(column, dtype=float)
    return np.column_stack([values**2, values > 3])


def count_vowels(column: Any) -> Any:
    return np.array([[sum(letter in "aeiou" for letter in word)] for word in np.asarray(column).ravel()])


def people() -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "a": rng.integers(0, 6, 90),
            "b": rng.choice([0.5, 1.5, 4.0], 90),
            "city": rng.choice(["Rome", "Oslo", "Aue", "Ulm"], 90),
        }
    )
    vowels = count_vowels(table[["city"]])[:, 0]
    return table, ((table["a"] - 3) ** 2 + table["b"] + vowels > 6).astype(int)


def test_functions_of_one_column_are_tabulated() -> None:
    table, labels = people()
    functions = make_column_transformer(
        (FunctionTransformer(square_and_flag), ["a"]),
        (FunctionTransformer(count_vowels), ["city"]),
        ("passthrough", ["b"]),
    )
    model = make_pipeline(functions, LogisticRegression(max_iter=2000)).fit(table, labels)
    explainer = Explainer(model, table)
    assert explainer.unreadable_reason is None
    measure_undecided_share(explainer)
    assert assert_shortest(explainer, rows=3) > 0
    row = int(np.flatnonzero(~explainer.outcomes)[0])
    assert check(explainer.explain(row), model, table, desired=1).status == "proven"


def centre(values: Any) -> Any:
    return values - values.mean(axis=0)


def zero_small_batches(values: Any) -> Any:
    return values if len(values) > 8 else 0 * values


@pytest.mark.parametrize(("function", "mixed"), [(centre, "mixes"), (zero_small_batches, "mixes rows")])
def test_functions_that_look_at_other_rows_are_noticed(function: Callable[[Any], Any], mixed: str) -> None:
    table = people()[0][["a", "b"]]
    space = Space.infer(table)
    past = space.encode(table).points()
    with pytest.raises(Unreadable, match=mixed):
        tabulate(lambda points: function(points.astype(float)), space, past, alone=True)
    with pytest.raises(NoReading, match=mixed):
        tabulate_columns(lambda points: function(points.astype(float)), space.sizes, past)
