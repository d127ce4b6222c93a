"""Tables whose columns are no longer the pandas categories that a booster was fitted on: they are restored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn.model_selection import FixedThresholdClassifier
from xgboost import XGBClassifier

from ironrule import Explainer, ModelError, TableError, check

MODELS = {
    "LightGBM": lambda: LGBMClassifier(n_estimators=6, min_child_samples=5, min_data_per_group=1, verbose=-1),
    "XGBoost": lambda: XGBClassifier(n_estimators=6, max_depth=3, enable_categorical=True),
}


def categories(kind: str, rows: int = 200) -> tuple[pd.DataFrame, Any]:
    """A number, a column of categories that decides, and the outcome."""
    rng = np.random.default_rng(0)
    known = np.array(["north", "east", "south", "west"], dtype=object) if kind == "text" else np.array([3, 1, 4, 7])
    table = pd.DataFrame({"a": np.round(rng.normal(size=rows), 2), "c": rng.choice(known, rows)})
    return table.astype({"c": "category"}), ((table["a"] > 0) ^ table["c"].isin(known[:2])).astype(int)


@pytest.mark.parametrize("kind", ["text", "integers"])
@pytest.mark.parametrize("library", MODELS)
def test_columns_that_lost_their_categories_are_explained_alike(library: str, kind: str) -> None:
    table, outcome = categories(kind)
    model = MODELS[library]().fit(table, outcome)
    lost = table.astype({"c": object if kind == "text" else int})
    intact, explainer = Explainer(model, table, desired=1), Explainer(model, lost, desired=1)
    assert explainer.unreadable_reason is None
    assert explainer.space.fingerprint == intact.space.fingerprint
    row = int(np.flatnonzero(~explainer.outcomes)[0])
    explanation = explainer.explain(row)
    assert explanation.rule == intact.explain(row).rule
    given = lost.iloc[row].to_dict()
    for one in (given, {**given, "c": str(given["c"])}, lost.iloc[row], lost.iloc[[row]]):
        assert explainer.explain(one).rule == explanation.rule
    assert [one.rule for one in explainer.explain_many(lost.iloc[[row]], progress=False)] == [explanation.rule]
    assert len(explainer.with_more_rows(lost.iloc[:5], progress=False).outcomes) == len(lost) + 5
    assert check(explanation.to_json(), model, table).status == "proven"
    with pytest.raises(ModelError, match="pass the data with the column types that the model was fitted on"):
        check(explanation.to_json(), model, lost)


def test_categories_inside_a_wrapper_are_found() -> None:
    table, outcome = categories("text")
    model = FixedThresholdClassifier(MODELS["LightGBM"](), threshold=0.4).fit(table, outcome)
    explainer = Explainer(model, table.astype({"c": object}), desired=1)
    assert explainer.outcomes.tolist() == (model.predict(table) == 1).tolist()


def test_a_value_that_is_none_of_the_categories_is_refused_with_its_name() -> None:
    table, outcome = categories("text")
    model = MODELS["LightGBM"]().fit(table, outcome)
    explainer = Explainer(model, table.astype({"c": object}), desired=1)
    with pytest.raises(TableError, match="centre"):
        explainer.explain({"a": 0.5, "c": "centre"})
