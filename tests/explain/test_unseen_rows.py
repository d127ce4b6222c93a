"""Rows with values that no past row has: what is proven of them holds for the estimator itself, and the checker agrees.

Points are taken inside the box of a rule, with numbers at its ends, at the numbers of the domain, next to these, and in
between; the estimator is asked about all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from ironrule import Explainer, Explanation, InputError, Proven, Rule, TableError, check
from ironrule.model import read_model

Row = dict[str, Any]
Decide = Callable[[pd.DataFrame], Any]

MODELS: dict[str, Callable[[], Any]] = {
    "tree": lambda: DecisionTreeClassifier(max_depth=5, random_state=0),
    "forest": lambda: RandomForestClassifier(4, max_depth=3, random_state=0),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=5, max_depth=2, random_state=0),
    "logistic": LogisticRegression,
}
MISSING_VALUES = ("tree", "forest")  # these take them
UNSEEN: dict[str, Sequence[Row]] = {
    "whole": (
        {"a": 11, "b": 9, "c": "y"},
        {"a": 3, "b": 19, "c": "new"},
        {"a": -8, "b": 40, "c": "x"},
        {"a": 60, "b": 3, "c": "z"},
    ),
    "real": (
        {"a": 1.2345, "b": 9, "c": "y"},
        {"a": 0.7, "b": 19, "c": "new"},
        {"a": -0.9, "b": 40, "c": "x"},
        {"a": float(np.nextafter(1.225, 2)), "b": 6, "c": "z"},
    ),
}


def build_table(numbers: str, missing: bool = False) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(7)
    size = 90
    table = pd.DataFrame({"a": rng.choice([0, 9, 14, 30, 41], size), "b": rng.choice([2, 6, 17, 20], size)})
    score = table["a"] - table["b"] + rng.normal(0, 3, size)
    if numbers == "real":
        table["a"] = table["a"] / 8 + 0.1
    if missing:
        table["a"] = table["a"].astype(float).mask(rng.random(size) < 0.2)
    table["c"] = rng.choice(["x", "y", "z"], size)
    score += 12 * (table["c"] == "x")
    return table, score


def put_behind_encoder(model: Any) -> Any:
    encoder = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["c"]),
        (StandardScaler() if isinstance(model, LogisticRegression) else "passthrough", ["a", "b"]),
    )
    return make_pipeline(encoder, model)


def build_case(kind: str, numbers: str, missing: bool = False, **more: Any) -> tuple[Any, pd.DataFrame, Explainer]:
    table, score = build_table(numbers, missing)
    model = put_behind_encoder(MODELS[kind]()).fit(table, score > score.quantile(0.6))
    return model, table, Explainer(model, table, desired=True, progress=False, **more)


def list_values(explanation: Explanation, rule: Rule, name: str, table: pd.DataFrame) -> list[Any]:
    """Values of a feature inside a rule's box."""
    domain = explanation.domains[name]
    parts = [part for part in rule.components if part.feature == name]
    if any(part.value is None for part in parts):
        return [None]
    absent = [None] if domain.missing and not parts else []
    if domain.kind == "list":
        return [value for value in domain.values if all(part.value == value for part in parts)] + absent
    low = max([domain.low, *(part.value for part in parts if part.op != "<=")])
    high = min([domain.high, *(part.value for part in parts if part.op != ">=")])
    if domain.kind == "seen":
        known = {*table[name].dropna().tolist(), *explanation.extended_values.get(name, ())}
        return [one for one in sorted(known) if low <= one <= high] + absent
    turns = np.array(sorted({low, high, *(explanation.breakpoints or {})[name]}), dtype=float)
    if domain.kind == "integers":
        some = {int(one) + step for one in turns for step in (-1, 0, 1)}
        return [one for one in sorted(some) if low <= one <= high] + absent
    near = [*turns, *np.nextafter(turns, -np.inf), *np.nextafter(turns, np.inf), *np.linspace(low, high, 5)]
    return [one for one in sorted(set(map(float, near))) if low <= one <= high] + absent


def draw_points(explanation: Explanation, rule: Rule, table: pd.DataFrame) -> pd.DataFrame:
    """All points of these values, or many of them."""
    values = [list_values(explanation, rule, name, table) for name in explanation.domains]
    points = product(*values)
    if np.prod([len(some) for some in values]) > 20_000:
        rng = np.random.default_rng(0)
        points = (tuple(some[rng.integers(len(some))] for some in values) for _ in range(20_000))  # type: ignore[assignment]
    frame = pd.DataFrame(points, columns=list(explanation.domains))[list(table)]
    types = {name: kind for name, kind in table.dtypes.items() if kind.kind == "f" or not frame[name].isna().any()}
    return frame.astype(types)


def require_true(
    explanation: Explanation,
    model: Any,
    table: pd.DataFrame,
    *,
    decide: Decide | None = None,
    admits: Decide | None = None,
    **arguments: Any,
) -> None:
    """The rules are proven, the estimator knows no exception, and the checker agrees without being told more."""
    result = check(explanation.to_json(), model, table, **({"desired": True} | arguments))
    assert result.status == "proven", str(result)
    for ranked in (explanation.ranked[0], explanation.wider):
        assert ranked is not None
        assert isinstance(ranked.verdict, Proven)
        points = draw_points(explanation, ranked.rule, table)
        points = points if admits is None else points[np.asarray(admits(points))]
        assert len(points)
        assert ranked.rule.covers(points).all()
        desired = np.asarray(model.predict(points) if decide is None else decide(points))
        assert not desired.any(), points[desired].iloc[0].to_dict()


def list_denied(explainer: Explainer, rows: Sequence[Row]) -> Iterator[Row]:
    denied = [row for row in rows if not explainer.is_desired(row)]
    assert denied
    yield from denied


@pytest.mark.parametrize("numbers", list(UNSEEN))
@pytest.mark.parametrize("kind", list(MODELS))
def test_rules_of_unseen_rows_have_no_exception(kind: str, numbers: str) -> None:
    model, table, explainer = build_case(kind, numbers)
    for row in list_denied(explainer, UNSEEN[numbers]):
        explanation = explainer.explain(row)
        assert dict(explanation.instance) == row
        require_true(explanation, model, table)


@pytest.mark.parametrize("kind", MISSING_VALUES)
def test_rows_without_a_value_have_no_exception(kind: str) -> None:
    rows = ({"a": None, "b": 19, "c": "new"}, {"a": 11.0, "b": 33, "c": "y"}, {"a": float("nan"), "b": 9, "c": "z"})
    for missing in (False, True):
        model, table, explainer = build_case(kind, "whole", missing)
        for row in list_denied(explainer, rows):
            require_true(explainer.explain(row), model, table)


@pytest.mark.filterwarnings("ignore:.*past rows break the constraints")
@pytest.mark.parametrize(
    ("constraint", "admits"),
    [
        ("cf.a <= 3", lambda points: points["a"] <= 3),
        ("cf.a <= cf.b", lambda points: points["a"] <= points["b"]),
        ("cf.c != 'x'", lambda points: points["c"] != "x"),
    ],
)
def test_constraints_hold_for_unseen_rows_too(constraint: str, admits: Decide) -> None:
    model, table, whole = build_case("forest", "real")
    rows = ({"a": 1.2345, "b": 9, "c": "y"}, {"a": 0.7, "b": 19, "c": "new"}, {"a": -0.9, "b": 40, "c": "z"})
    for explainer in (build_case("forest", "real", constraints=[constraint])[2], whole.where(constraint)):
        for row in list_denied(explainer, rows):
            require_true(explainer.explain(row), model, table, admits=admits, constraints=[constraint])


def test_further_models_and_margins_hold_for_unseen_rows() -> None:
    model, table, _ = build_case("forest", "real")
    other = build_case("boosting", "real")[0]
    explainer = build_case("forest", "real", models=[other])[2]
    for row in ({"a": 1.2345, "b": 9, "c": "y"}, {"a": -0.9, "b": 40, "c": "new"}):
        either = explainer.explain(row)
        require_true(either, model, table, decide=lambda p: model.predict(p) | other.predict(p), models=[other])
        careful = build_case("forest", "real", margin=0.05)[2].explain(row)
        require_true(careful, model, table, decide=lambda p: model.predict_proba(p)[:, 1] > 0.4501, margin=0.05)


@pytest.mark.parametrize("regression", [RandomForestRegressor(4, max_depth=3, random_state=0), LinearRegression()])
def test_low_scores_of_unseen_rows(regression: Any) -> None:
    table, score = build_table("real")
    model, threshold = put_behind_encoder(regression).fit(table, score), float(score.quantile(0.4))
    explainer = Explainer(model, table, desired="below", threshold=threshold, progress=False)
    for row in list_denied(explainer, ({"a": 4.321, "b": 3, "c": "x"}, {"a": 6.5, "b": 11, "c": "new"})):
        explanation = explainer.explain(row)
        decided = {"desired": "below", "threshold": threshold}
        require_true(explanation, model, table, decide=lambda p: model.predict(p) < threshold, **decided)


def test_batches_explain_unseen_rows_as_they_are() -> None:
    model, table, explainer = build_case("forest", "real")
    batch = explainer.explain_many(pd.DataFrame(UNSEEN["real"]), workers=1, progress=False)
    assert len(batch) >= 2
    for explanation in batch:
        require_true(explanation, model, table)
        again = Explanation.from_json(explanation.to_json())
        assert again.with_history(explainer).background is not None
    assert {item.status for item in explainer.recheck(batch)} == {"holds"}


def test_with_more_rows_explains_what_is_still_unseen() -> None:
    model, table, explainer = build_case("forest", "real")
    more = pd.DataFrame([{"a": 9.25, "b": 31, "c": "w"}])
    longer, rows = explainer.with_more_rows(more), pd.concat([table, more], ignore_index=True)
    for row in list_denied(longer, ({"a": 0.77, "b": 25, "c": "w"}, {"a": -0.9, "b": 33, "c": "new"})):
        require_true(longer.explain(row), model, rows)


@pytest.mark.parametrize("kind", list(MODELS))
@pytest.mark.parametrize("row", [{"a": -8, "b": 40, "c": "new"}, {"a": -100_000, "b": 19, "c": "y"}])
def test_a_stored_explanation_of_an_unseen_row_finds_its_history_again(kind: str, row: Row) -> None:
    model, table, explainer = build_case(kind, "whole")
    explanation = explainer.explain(row)
    assert explanation.extended_values
    again = Explanation.from_json(explanation.to_json())
    for source in (explainer, table):
        background = again.with_history(source).background
        assert background is not None
        assert [need.component for need in background.needs] == list(explanation.rule.components)
    other = Explainer(model, table, desired=False, progress=False)
    with pytest.raises(InputError, match="another model"):
        again.with_history(other)


def test_counterfactuals_and_judgements_of_unseen_rows() -> None:
    model, table, explainer = build_case("boosting", "real")
    for row in list_denied(explainer, UNSEEN["real"]):
        explanation = explainer.explain(row)
        found = explainer.counterfactuals(row, k=3)
        changed = pd.DataFrame([one.values for one in found])[list(table)].astype(table.dtypes.to_dict())
        assert len(changed)
        assert model.predict(changed).all()
        assert explanation.wider is not None
        for rule in (explanation.rule, explanation.wider.rule):
            assert isinstance(explainer.judge(row, rule).verdict, Proven)


def test_every_form_of_a_row_is_the_same_row() -> None:
    _, _, explainer = build_case("forest", "real")
    row = {"a": 1.2345, "b": 9, "c": "new"}
    forms: list[Any] = [
        {"a": np.float64(1.2345), "b": np.int64(9), "c": np.str_("new")},
        {"a": 1.2345, "b": 9.0, "c": "new"},  # a whole number as a table with missing values has it
        pd.Series(row),
        pd.DataFrame([row]),
    ]
    expected = explainer.explain(row)
    for form in forms:
        explanation = explainer.explain(form)
        assert dict(explanation.instance) == row
        assert explanation.shown.rule == expected.shown.rule


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"b": 3.5}, "must be a whole number"),
        ({"a": float("inf")}, "must be a finite number"),
        ({"a": "1.2"}, "must be a number"),
        ({"b": True}, "must be a number"),
        ({"c": 7}, "must be a string"),
        ({"b": 2**63}, "64 bits"),
        ({"a": 1e300}, "the model or the data's columns refuse a = 1e\\+300"),
    ],
)
def test_values_that_cannot_be_are_refused(change: Row, message: str) -> None:
    _, _, explainer = build_case("forest", "real")
    with pytest.raises(TableError, match=message):
        explainer.explain({"a": 1.2345, "b": 9, "c": "y"} | change)


def test_negative_zero_is_zero() -> None:
    table = pd.DataFrame({"a": [0.0, 1.5, 3.0, -2.0] * 10, "b": [1, 2, 3, 4, 5] * 8})
    model = DecisionTreeClassifier(random_state=0).fit(table, (table["a"] >= 1) & (table["b"] > 2))
    explainer = Explainer(model, table, desired=True, progress=False)
    explanation = explainer.explain({"a": -0.0, "b": 4})
    assert not explanation.extended_values
    assert explanation.shown.rule == explainer.explain({"a": 0.0, "b": 4}).shown.rule
    require_true(explanation, model, table)


def test_whole_numbers_that_floats_cannot_tell_apart() -> None:
    last = 2**53
    table = pd.DataFrame(
        {"a": [last - 40, last - 20, last - 2, last - 1, 5, 9] * 6, "b": [1, 2, 3, 4, 5, 6, 7, 8, 9] * 4}
    )
    model = DecisionTreeClassifier(random_state=0).fit(table, (table["a"] > last - 30) & (table["b"] > 3))
    explainer = Explainer(model, table, desired=True, progress=False)
    for value in (last - 19, last, last + 1, 2**60, -(2**60)):
        explanation = explainer.explain({"a": value, "b": 2})
        assert explanation.instance["a"] == value
        assert check(explanation.to_json(), model, table, desired=True).status == "proven"
        assert explanation.with_history(explainer).background is not None


def test_the_text_says_which_values_are_new() -> None:
    _, _, explainer = build_case("forest", "whole", missing=False)
    text = str(explainer.explain({"a": -8, "b": 40, "c": "new"}))
    assert "No past row has a = -8: the range of a was extended to it." in text
    assert "No past row has c = 'new': it counts as one more value, and the model itself says" in text
    assert "The rule speaks of everyone with" in text
    missing = str(explainer.explain({"a": None, "b": 40, "c": "y"}))
    assert "No past row has a missing: it counts as one more value" in missing


@pytest.mark.parametrize("domain", ["auto", "seen"])
def test_a_model_is_read_once_whatever_rows_come(monkeypatch: pytest.MonkeyPatch, domain: Any) -> None:
    table = pd.DataFrame({"a": [0.5, 1.5, 2.5, 3.5] * 6, "b": [0, 1, 2] * 8})
    model = DecisionTreeClassifier(random_state=0).fit(table, table.a + table.b > 3)
    reads: list[Any] = []
    read = read_model.read_estimator
    monkeypatch.setattr(read_model, "read_estimator", lambda *given: reads.append(given) or read(*given))
    explainer = Explainer(model, table, desired=True, domain=domain)
    assert len(reads) == 1
    explainer.explain({"a": -4.25, "b": 1})
    explainer.where("cf.b <= 1").explain({"a": 0.7, "b": 0})
    assert len(reads) == 1
