"""What a model answers: everything that is no decision is refused, by the explainer and by the checker alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from bad_input_checks import BadInput, assert_refused, build_data, build_explainer, decide, refuse
from scipy import sparse

import ironrule
from ironrule.errors import ModelError, OutcomeError

ROWS = len(build_data())


class Classifier:
    """A classifier of two classes that answers what it is told to."""

    def __init__(self, labels: Any = None, shares: Any = None, classes: Any = (0, 1)) -> None:
        self.classes_, self.labels, self.shares = classes, labels, shares

    def predict(self, table: pd.DataFrame) -> Any:
        return decide(table).astype(int) if self.labels is None else self.labels(len(table))

    def predict_proba(self, table: pd.DataFrame) -> Any:
        yes = decide(table).astype(float)
        return np.stack([1 - yes, yes], axis=1) if self.shares is None else self.shares(len(table))


class Regression:
    """A model without classes."""

    def predict(self, table: pd.DataFrame) -> Any:
        return np.asarray(table["income"] / 1000.0)


def explain_function(answer: Any, **options: Any) -> Any:
    return build_explainer(model=lambda table: answer(len(table)), **options)


def explain_labels(answer: Any, **options: Any) -> Any:
    return build_explainer(model=Classifier(labels=answer), **options)


def explain_shares(answer: Any, **options: Any) -> Any:
    return build_explainer(model=Classifier(shares=answer), threshold=0.5, **options)


def make_scores(rows: int) -> np.ndarray:
    return np.linspace(0.0, 1.0, rows)  # its last is exactly 1


PER_ROW = "one label or score per row"
ONE_EACH = "predict_proba must answer 2 columns, one per class"
FUNCTIONS: dict[str, BadInput] = {
    "None": refuse(lambda: explain_function(lambda _: None), ModelError, PER_ROW, "got None"),
    "text": refuse(lambda: explain_function(lambda _: "denied"), ModelError, PER_ROW, "a str"),
    "bytes": refuse(lambda: explain_function(lambda n: b"1" * n), ModelError, PER_ROW, "a bytes"),
    "a dictionary": refuse(lambda: explain_function(lambda n: dict.fromkeys(range(n))), ModelError, PER_ROW, "a dict"),
    "a set": refuse(lambda: explain_function(lambda n: set(range(n))), ModelError, PER_ROW, "a set"),
    "a number": refuse(lambda: explain_function(lambda _: 0.5), ModelError, PER_ROW, "shape ()"),
    "too few": refuse(lambda: explain_function(lambda n: [0] * (n - 1)), ModelError, PER_ROW, "for 30 rows"),
    "too many": refuse(lambda: explain_function(lambda n: [0] * (n + 1)), ModelError, PER_ROW, "for 30 rows"),
    "no columns": refuse(lambda: explain_function(lambda n: np.zeros((n, 0))), ModelError, PER_ROW, "(30, 0)"),
    "three dimensions": refuse(lambda: explain_function(lambda n: np.zeros((n, 2, 2))), ModelError, "(30, 2, 2)"),
    "transposed": refuse(lambda: explain_function(lambda n: np.zeros((2, n)), desired=1), ModelError, "(2, 30)"),
    "a generator": refuse(lambda: explain_function(lambda n: (i for i in range(n))), ModelError, PER_ROW, "shape ()"),
    "sparse": refuse(lambda: explain_function(lambda n: sparse.eye(n, 2).tocsr()), ModelError, "sparse", "toarray"),
    "masked": refuse(
        lambda: explain_function(lambda n: np.ma.masked_array(np.zeros(n), [True] + [False] * (n - 1))),
        ModelError,
        "something for every row",
        "masked",
    ),
    "complex": refuse(lambda: explain_function(lambda n: np.ones(n) * 1j), ModelError, "real numbers", "complex128"),
    "durations": refuse(
        lambda: explain_function(lambda n: np.zeros(n, "m8[s]")), ModelError, "real numbers", "timedelta"
    ),
    "records": refuse(lambda: explain_function(lambda n: np.zeros(n, "i4,i4")), ModelError, "real numbers"),
    "NaN": refuse(lambda: explain_function(lambda n: [np.nan] * n), ModelError, "must be finite", "30 of 30"),
    "infinity": refuse(lambda: explain_function(lambda n: [np.inf] * n), ModelError, "must be finite"),
    "strings as scores": refuse(
        lambda: explain_function(lambda n: ["a"] * n), OutcomeError, "must be numbers", "desired="
    ),
    "missing scores": refuse(lambda: explain_function(lambda n: [None] * n), OutcomeError, "must be numbers"),
    "pandas' NA": refuse(lambda: explain_function(lambda n: pd.Series([pd.NA] * n)), OutcomeError, "must be numbers"),
    "lists": refuse(
        lambda: explain_function(lambda n: pd.Series([[1]] * n), desired=1),
        ModelError,
        "labels or real numbers",
        "a list",
    ),
    "objects": refuse(lambda: explain_function(lambda n: [object()] * n, desired=1), ModelError, "a object"),
    "columns of several lengths": refuse(
        lambda: explain_function(lambda n: [[1]] + [[1, 2]] * (n - 1)), ModelError, "failed"
    ),
    "an exception": refuse(
        lambda: explain_function(lambda _: 1 / 0), ModelError, "the model failed", "ZeroDivisionError"
    ),
    "the end of the program": refuse(lambda: explain_function(lambda _: exit(3)), ModelError, "failed", "SystemExit"),
    "columns without desired": refuse(
        lambda: explain_function(lambda n: np.eye(n, 2)), OutcomeError, "2 columns", "desired="
    ),
    "a column that is not there": refuse(
        lambda: explain_function(lambda n: np.eye(n, 2), desired=2), OutcomeError, "columns 0 to 1", "got 2"
    ),
    "True as a column": refuse(
        lambda: explain_function(lambda n: np.eye(n, 2), desired=True), OutcomeError, "columns 0 to 1", "True"
    ),
    "1.0 as a column": refuse(
        lambda: explain_function(lambda n: np.eye(n, 2), desired=1.0), OutcomeError, "columns 0 to 1", "1.0"
    ),
    "all columns": refuse(
        lambda: explain_function(lambda n: np.eye(n, 2), desired=[0, 1]), OutcomeError, "one class must be undesired"
    ),
    "scores with desired=1": refuse(
        lambda: explain_function(make_scores, desired=1), OutcomeError, "labels", "scores such as", "threshold="
    ),
    "scores with desired=True": refuse(
        lambda: explain_function(make_scores, desired=True), OutcomeError, "scores such as", "threshold="
    ),
    "scores with desired=1.0": refuse(
        lambda: explain_function(make_scores, desired=1.0), OutcomeError, "scores such as", "threshold="
    ),
    "scores with desired=[0, 1]": refuse(
        lambda: explain_function(make_scores, desired=[0, 1]), OutcomeError, "scores such as", "threshold="
    ),
    "scores with desired=0.5": refuse(
        lambda: explain_function(make_scores, desired=0.5), OutcomeError, "scores such as", "threshold="
    ),
    "scores with desired='yes'": refuse(
        lambda: explain_function(make_scores, desired="yes"), OutcomeError, "labels", "threshold="
    ),
    "few scores": refuse(
        lambda: explain_function(lambda n: [0.0, 0.3, 1.0] * (n // 3), desired=1), OutcomeError, "0.3", "threshold="
    ),
    "scores of 32 bits": refuse(
        lambda: explain_function(lambda n: make_scores(n).astype("f4"), desired=1), OutcomeError, "threshold="
    ),
    "scores in a column": refuse(
        lambda: explain_function(lambda n: make_scores(n)[:, None], desired=1), OutcomeError, "threshold="
    ),
    "a regression with desired=1": refuse(
        lambda: build_explainer(model=Regression(), desired=1), OutcomeError, "threshold="
    ),
    "a regression alone": refuse(
        lambda: build_explainer(model=Regression()), OutcomeError, "needs a threshold", "threshold="
    ),
    "labels without the desired one": refuse(
        lambda: explain_function(lambda n: (["a", "b"] * n)[:n], desired="c"),
        OutcomeError,
        "desired label",
        "'a', 'b'",
    ),
}
ESTIMATORS: dict[str, BadInput] = {
    "three columns of two classes": refuse(
        lambda: explain_shares(lambda n: np.full((n, 3), 1 / 3)), ModelError, ONE_EACH, f"({ROWS}, 3)"
    ),
    "one column": refuse(lambda: explain_shares(lambda n: np.full((n, 1), 0.3)), ModelError, ONE_EACH, f"({ROWS}, 1)"),
    "one dimension": refuse(lambda: explain_shares(lambda n: np.full(n, 0.3)), ModelError, ONE_EACH, f"({ROWS},)"),
    "no rows": refuse(lambda: explain_shares(lambda _: np.zeros((0, 2))), ModelError, PER_ROW),
    "above one": refuse(lambda: explain_shares(lambda n: np.full((n, 2), 1.3)), ModelError, "from 0 to 1", "1.3"),
    "below zero": refuse(lambda: explain_shares(lambda n: np.full((n, 2), -0.3)), ModelError, "from 0 to 1", "-0.3"),
    "percent": refuse(lambda: explain_shares(lambda n: np.full((n, 2), 50)), ModelError, "from 0 to 1", "50"),
    "probabilities that are NaN": refuse(
        lambda: explain_shares(lambda n: np.full((n, 2), np.nan)), ModelError, "finite"
    ),
    "probabilities that are strings": refuse(
        lambda: explain_shares(lambda n: np.full((n, 2), "0.5")), ModelError, "numbers"
    ),
    "sparse probabilities": refuse(lambda: explain_shares(lambda n: sparse.eye(n, 2).tocsr()), ModelError, "sparse"),
    "labels of two outputs": refuse(
        lambda: explain_labels(lambda n: np.zeros((n, 2), int)), ModelError, "one label per row"
    ),
    "labels that are no classes": refuse(
        lambda: explain_labels(lambda n: np.full(n, 2)), ModelError, "its classes, [0, 1]", "got 2"
    ),
    "labels as strings": refuse(lambda: explain_labels(lambda n: np.full(n, "1")), ModelError, "its classes", "'1'"),
    "missing labels": refuse(lambda: explain_labels(lambda n: [None] * n), ModelError, "its classes", "None"),
    "labels that are NaN": refuse(lambda: explain_labels(lambda n: np.full(n, np.nan)), ModelError, "finite"),
    "scores in the place of labels": refuse(lambda: explain_labels(make_scores), ModelError, "its classes"),
    "classes of several lengths": refuse(
        lambda: build_explainer(model=Classifier(classes=[[0, 1], [0]])), ModelError, "classes_", "list of labels"
    ),
    "classes that are no list": refuse(
        lambda: build_explainer(model=Classifier(classes=2)), ModelError, "classes_", "got 2"
    ),
    "classes that are objects": refuse(
        lambda: build_explainer(model=Classifier(classes=[{}, {}])), ModelError, "classes_"
    ),
    "one class": refuse(
        lambda: build_explainer(model=Classifier(classes=[1]), desired=1), OutcomeError, "one class must be undesired"
    ),
    "an unknown class": refuse(
        lambda: build_explainer(model=Classifier(), desired=7), OutcomeError, "one of [0, 1]", "got 7"
    ),
    "all classes": refuse(
        lambda: build_explainer(model=Classifier(), desired=[0, 1]), OutcomeError, "one class must be undesired"
    ),
}
CASES = FUNCTIONS | ESTIMATORS


@pytest.mark.parametrize("name", CASES)
def test_an_answer_that_is_no_decision_is_refused(name):
    assert_refused(CASES[name])


FINE = {
    "booleans": (lambda table: decide(table), {}),
    "0.0 and 1.0 as labels": (lambda table: decide(table).astype(float), {"desired": 1}),
    "0.0 and 1.0 as labels, True desired": (lambda table: decide(table).astype(float), {"desired": True}),
    "integers as labels": (lambda table: decide(table).astype(int), {"desired": 1}),
    "many integers as labels": (lambda table: np.where(decide(table), 700, np.asarray(table["age"])), {"desired": 700}),
    "a few fractions as labels": (lambda table: np.where(decide(table), 1.5, 0.5), {"desired": 1.5}),
    "strings": (lambda table: np.where(decide(table), "yes", "no"), {"desired": "yes"}),
    "strings as objects": (lambda table: np.where(decide(table), "yes", None), {"desired": "yes"}),
    "a list": (lambda table: decide(table).tolist(), {}),
    "a column": (lambda table: decide(table)[:, None], {}),
    "pandas": (lambda table: pd.Series(decide(table)), {}),
    "pandas with NA": (lambda table: pd.Series(np.where(decide(table), 1, pd.NA), dtype=object), {"desired": 1}),
    "polars": (lambda table: pl.Series(decide(table)), {}),
    "a frame": (lambda table: pd.DataFrame({"no": ~decide(table), "yes": decide(table)}), {"desired": 1}),
    "scores": (lambda table: np.asarray(table["income"]) / 1000, {"threshold": 0.25}),
    "scores as objects": (lambda table: (np.asarray(table["income"]) / 1000).astype(object), {"threshold": 0.25}),
    "masked without gaps": (lambda table: np.ma.masked_array(decide(table)), {}),
    "a classifier": (Classifier(), {}),
    "a classifier with a threshold": (Classifier(), {"threshold": 0.5}),
    "a regression": (Regression(), {"threshold": 0.25}),
    "rounded beyond one": (Classifier(shares=lambda n: np.full((n, 2), 1 + 1e-9)), {"threshold": 0.5}),
}


@pytest.mark.parametrize("name", FINE)
def test_an_answer_that_is_a_decision_is_accepted_by_both(name):
    model, options = FINE[name]
    explainer = build_explainer(model=model, **options)
    if "rounded" in name:
        assert explainer.outcomes.all()
        return
    assert explainer.outcomes.tolist() == decide(build_data()).tolist()
    found = ironrule.check(explainer.explain(0), model, build_data(), **options)
    assert found.status == "proven"


def test_a_tensor_is_an_answer_even_if_it_has_a_gradient():
    torch = pytest.importorskip("torch")
    scale = torch.ones((), requires_grad=True)
    explainer = build_explainer(model=lambda table: torch.tensor(decide(table), dtype=torch.float32) * scale)
    assert explainer.outcomes.tolist() == decide(build_data()).tolist()


@pytest.fixture(scope="module")
def proven() -> dict[str, ironrule.Explanation]:
    """Explanations by what the answers are said to be."""
    by_label = build_explainer(model=lambda table: decide(table).astype(int), desired=1)
    classifier = build_explainer(model=Classifier())
    by_share = build_explainer(model=Classifier(), threshold=0.5)
    by_score = build_explainer(model=decide)
    by_column = build_explainer(model=lambda table: np.stack([~decide(table), decide(table)], axis=1), desired=1)
    both = {"label": by_label, "class": classifier, "share": by_share, "score": by_score, "column": by_column}
    return {name: explainer.explain(0) for name, explainer in both.items()}


def function(answer: Any) -> Any:
    return lambda table: answer(len(table))


CHECKED: dict[str, tuple[str, Any, type[ironrule.IronruleError], str]] = {
    "None": ("score", function(lambda _: None), ModelError, "one value per row"),
    "text": ("score", function(lambda _: "denied"), ModelError, "one value per row"),
    "too few": ("score", function(lambda n: [0] * (n - 1)), ModelError, "for 30 rows"),
    "no columns": ("score", function(lambda n: np.zeros((n, 0))), ModelError, "one value per row"),
    "sparse": ("score", function(lambda n: sparse.eye(n, 2).tocsr()), ModelError, "csr"),
    "masked": ("score", function(lambda n: np.ma.masked_all(n)), ModelError, "masked"),
    "complex": ("score", function(lambda n: np.ones(n) * 1j), ModelError, "complex128"),
    "NaN": ("score", function(lambda n: [np.nan] * n), ModelError, "finite"),
    "strings": ("score", function(lambda n: ["a"] * n), OutcomeError, "must be numbers"),
    "lists": ("label", function(lambda n: pd.Series([[1]] * n)), ModelError, "list"),
    "scores": ("label", function(make_scores), OutcomeError, "scores such as"),
    "a regression": ("label", Regression(), OutcomeError, "scores such as"),
    "three columns": ("share", Classifier(shares=lambda n: np.full((n, 3), 1 / 3)), ModelError, "2 columns"),
    "one column": ("share", Classifier(shares=lambda n: np.full((n, 1), 0.3)), ModelError, "2 columns"),
    "one dimension": ("share", Classifier(shares=lambda n: np.full(n, 0.3)), ModelError, "2 columns"),
    "above one": ("share", Classifier(shares=lambda n: np.full((n, 2), 1.3)), ModelError, "from 0 to 1"),
    "no classes": ("class", Classifier(labels=lambda n: np.full(n, 2)), ModelError, "labels of its classes"),
    "two outputs": ("class", Classifier(labels=lambda n: np.zeros((n, 2), int)), ModelError, "one label per row"),
    "classes of several lengths": ("class", Classifier(classes=[[0, 1], [0]]), ModelError, "classes_"),
    "another number of columns": ("column", function(lambda n: np.full((n, 1), 0.3)), OutcomeError, "scores such as"),
    "an exception": ("score", function(lambda _: 1 / 0), ModelError, "ZeroDivisionError"),
}


@pytest.mark.parametrize("name", CHECKED)
def test_the_checker_refuses_the_same(name, proven):
    kind, model, error, words = CHECKED[name]
    options = {"desired": 1} if kind in ("label", "column") else {"threshold": 0.5} if kind == "share" else {}
    assert ironrule.check(proven[kind], ORIGINALS[kind], build_data(), **options).status == "proven"
    if error is ModelError:
        assert_refused(refuse(lambda: ironrule.check(proven[kind], model, build_data(), **options), error, words))
    else:  # the model's outcomes are not those that the document speaks of, so nothing can be said about it
        found = ironrule.check(proven[kind], model, build_data(), **options)
        assert found.status == "undecided"
        assert words in str(found)


ORIGINALS = {
    "label": lambda table: decide(table).astype(int),
    "class": Classifier(),
    "share": Classifier(),
    "score": decide,
    "column": lambda table: np.stack([~decide(table), decide(table)], axis=1),
}
