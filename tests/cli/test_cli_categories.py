"""Categories that a CSV file has lost are found again from the model's own lists."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from loans import Run
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from ironrule.model.categories import CategoryList, find_category_lists, restore_categories

ENCODED = ["home", "area", "zone"]
BOOSTED = {"n_estimators": 5, "max_depth": 3}
PLAIN, TEXT, CATEGORY = "plain", "text", "category"


def people(kind: str) -> pd.DataFrame:
    """Texts, texts that look like numbers (one begins with a zero), and numbers that are categories."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "home": rng.choice(["own", "rent", "free"], 150),
            "area": rng.choice(["01067", "20095", "80331"], 150),
            "zone": rng.choice([1, 2, 3], 150),
            "income": rng.integers(1, 9, 150),
        }
    )
    if kind == TEXT:
        return table.astype({"zone": str})
    return table.astype(dict.fromkeys(ENCODED, "category")) if kind == CATEGORY else table


def decide(table: pd.DataFrame) -> Any:
    good = (table["income"] > 4) & (table["home"] != "rent") | (table["area"] == "01067")
    return (good & (table["zone"].astype(str) != "3")).astype(int)


def encode(encoder: Any) -> Any:
    return make_pipeline(make_column_transformer((encoder, ENCODED), remainder="passthrough"), LogisticRegression())


MODELS: dict[str, tuple[str, Callable[[], Any]]] = {
    "xgboost": (CATEGORY, lambda: xgb.XGBClassifier(**BOOSTED, n_jobs=1, enable_categorical=True)),
    "lightgbm": (CATEGORY, lambda: lgb.LGBMClassifier(**BOOSTED, n_jobs=1, verbose=-1)),
    "histogram boosting": (CATEGORY, lambda: HistGradientBoostingClassifier(max_iter=5)),
    "one-hot": (TEXT, lambda: encode(OneHotEncoder())),
    "one-hot, unknown ignored": (TEXT, lambda: encode(OneHotEncoder(handle_unknown="ignore"))),
    "one-hot of numbers": (PLAIN, lambda: encode(OneHotEncoder())),
    "ordinal": (TEXT, lambda: encode(OrdinalEncoder())),
    "moved threshold": (TEXT, lambda: FixedThresholdClassifier(encode(OrdinalEncoder()), threshold=0.4)),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_categories_takes_a_csv(run: Callable[..., Run], tmp_path: Path, name: str) -> None:
    kind, make = MODELS[name]
    table = people(kind)
    model = make().fit(table, decide(table))
    table.to_csv(tmp_path / "data.csv", index=False)
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(model))
    read = pd.read_csv(tmp_path / "data.csv")
    assert read["area"].dtype.kind == "i"  # the zero at its beginning is gone
    restored = restore_categories(model, read)
    assert (model.predict(restored) == model.predict(table)).all()
    assert restored["area"].astype(str).tolist() == table["area"].astype(str).tolist()
    row = int(np.flatnonzero(model.predict(table) == 0)[0])
    files = (str(tmp_path / "model.pkl"), str(tmp_path / "data.csv"), "--trust-pickle")
    explained = run("explain", *files, "--row", str(row), "--output", str(tmp_path / "why.json"))
    assert explained.code == 0, explained.err
    document = json.loads((tmp_path / "why.json").read_text())
    assert document["instance"]["area"] == table["area"][row]
    assert document["rules"][0]["verdict"]["kind"] == "proven"
    checked = run("check", str(tmp_path / "why.json"), "--model", files[0], "--data", *files[1:], "--desired", "1")
    assert checked.code == 0, checked.out + checked.err
    given = json.dumps({column: read[column].tolist()[row] for column in read})
    by_value = run("explain", *files, "--row", given, "--json")
    assert by_value.code == 0, by_value.err
    assert by_value.json["rules"][0]["rule"] == document["rules"][0]["rule"]
    with_data = ("--model", files[0], "--data", *files[1:], "--output", str(tmp_path / "why.html"))
    report = run("report", str(tmp_path / "why.json"), *with_data)
    assert report.code == 0, report.err
    batch = run("batch", *files, "--rows", files[1], "--output", str(tmp_path / "all"), "--workers", "1")
    assert batch.code == 0, batch.err


@pytest.mark.parametrize(
    ("kept", "value", "found"),
    [
        (("1", "2"), 1, "1"),
        (("1", "2"), 1.0, "1"),  # a missing value in the column made it a float
        (("01", "02"), 2, "02"),
        (("1", "01"), 1, "1"),  # written like it
        (("01", "001"), 1, "1"),  # which of the two is not known, so it is a category that the model does not know
        ((1, 2), "2", 2),
        ((1.5, 2.0), "2", 2.0),
        (("True", "False"), True, "True"),
        (("a", "b"), "c", "c"),
        (("a", "b"), 3, "3"),
        ((1, 2), 3, 3),
        (("a", "b"), None, None),
    ],
)
def test_which_category_a_value_stands_for(kept: tuple[Any, ...], value: Any, found: Any) -> None:
    answer = CategoryList(kept).find(value)
    assert answer == found
    assert type(answer) is type(found)


def test_categories_that_the_model_does_not_know_stay_visible() -> None:
    table = people(CATEGORY)
    model = lgb.LGBMClassifier(**BOOSTED, n_jobs=1, verbose=-1).fit(table, decide(table))
    other = people(PLAIN).head(3).assign(home=["boat", "own", None])
    restored = restore_categories(model, other)
    assert restored["home"].astype(object).where(restored["home"].notna(), None).tolist() == ["boat", "own", None]
    assert list(restored["home"].cat.categories)[:3] == sorted(["own", "rent", "free"])


def test_columns_that_are_given_by_position_or_by_mask() -> None:
    table = people(TEXT)
    for chosen in ([0, 1, 2], slice(0, 3), [True, True, True, False]):
        steps = make_column_transformer((OrdinalEncoder(), chosen), remainder="passthrough")
        model = make_pipeline(steps, LogisticRegression()).fit(table, decide(table))
        lists = find_category_lists(model, list(table))
        assert {name: kept.values for name, kept in lists.items()} == {
            name: tuple(sorted(table[name].unique())) for name in ENCODED
        }


def test_models_without_lists_leave_the_table_alone() -> None:
    table = people(PLAIN)[["zone", "income"]]
    model = LogisticRegression().fit(table, decide(people(PLAIN)))
    assert restore_categories(model, table) is table
    assert find_category_lists(len, list(table)) == {}
