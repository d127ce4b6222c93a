"""Text in a column of numbers is told by column, row and value, whatever the model says of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from ironrule import Explainer
from ironrule.errors import ModelError, TableError

NUMBERS = pd.DataFrame({"age": np.arange(40) % 9, "amount": np.arange(40) * 1.5})
MODEL = LogisticRegression().fit(NUMBERS, NUMBERS["age"] > 4)


def with_texts(*rows: int, value: str = "n.k.") -> pd.DataFrame:
    """The table as a file with typing errors is read: every value of the column is a text then."""
    table = NUMBERS.copy()
    table["amount"] = table["amount"].astype(str)
    table.loc[list(rows), "amount"] = value
    return table


def compare(table: pd.DataFrame) -> Any:
    """A model that fails in its own words."""
    return np.asarray([amount > 20 for amount in table["amount"]])


@pytest.mark.parametrize("model", [MODEL, compare], ids=["scikit-learn", "function"])
def test_the_column_the_row_and_the_value_are_named(model: Any) -> None:
    with pytest.raises(TableError) as raised:
        Explainer(model, with_texts(7, 12), **({"threshold": 0.5} if model is compare else {"desired": True}))
    message = str(raised.value)
    assert "column 'amount' must hold numbers, as 38 of its values are" in message
    assert "got the text 'n.k.' in row 7 (counted from 0), and in 1 other row" in message
    assert raised.value.code == "text-in-numbers"


def test_a_column_of_categories_is_told_by_its_name() -> None:
    table = NUMBERS.assign(amount=np.where(NUMBERS["age"] > 3, "much", "little"))
    with pytest.raises(ModelError, match=r"got the text 'little' in column 'amount'"):
        Explainer(MODEL, table, desired=True)


def test_texts_that_the_model_can_use_are_no_error() -> None:
    explainer = Explainer(lambda rows: (rows["amount"] != "n.k.").to_numpy(), with_texts(7), threshold=0.5)
    assert explainer.space["amount"].ordered is False


def test_a_row_of_a_table_to_explain_is_named_too() -> None:
    explainer = Explainer(MODEL, NUMBERS, desired=True)
    table = NUMBERS.astype(object)
    table.loc[5, "amount"] = "n.k."
    with pytest.raises(TableError, match=r"'amount' must be a number, got 'n.k.' in row 5"):
        explainer.explain_many(table, progress=False)
