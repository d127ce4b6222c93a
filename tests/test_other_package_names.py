"""What users of SHAP, anchor-exp, alibi and DiCE type first: an error that says what to type here."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from ironrule import Counterfactuals, Explainer, Explanation
from ironrule.errors import ConstraintError, InputError, ModelError, OutcomeError, TableError
from ironrule.other_packages import COUNTERFACTUALS_HINTS, EXPLAINER_HINTS, EXPLANATION_HINTS, KEYWORD_HINTS

TABLE = pd.DataFrame({"months-open": [1, 2, 3, 4, 5, 6], "rate": [1.5, 2.0, 2.5, 1.0, 3.0, 4.0]})
CLASSES = [0, 0, 0, 1, 1, 1]
TREE = DecisionTreeClassifier(random_state=0).fit(TABLE, CLASSES)
EXPLAINER = Explainer(TREE, TABLE)
EXPLANATION = EXPLAINER.explain(0)
FOUND = EXPLAINER.counterfactuals(0)


@pytest.mark.parametrize(
    ("value", "hints"),
    [(EXPLAINER, EXPLAINER_HINTS), (EXPLANATION, EXPLANATION_HINTS), (FOUND, COUNTERFACTUALS_HINTS)],
    ids=["explainer", "explanation", "counterfactuals"],
)
def test_attributes_of_other_packages_are_refused_with_what_to_do(value: object, hints: Mapping[str, str]) -> None:
    for name, hint in hints.items():
        assert not hasattr(type(value), name), "our own name needs no hint"
        with pytest.raises(AttributeError) as caught:
            getattr(value, name)
        assert str(caught.value).endswith(f"has no attribute {name!r}; {hint}")
        assert (caught.value.name, caught.value.obj) == (name, value)
    assert not hasattr(value, "nothing_of_the_kind")


def test_the_error_of_a_property_stays_what_it_is() -> None:
    class Broken(Explainer):
        @property
        def space(self) -> Any:
            raise AttributeError("from within")

    broken = copy.copy(EXPLAINER)
    broken.__class__ = Broken
    with pytest.raises(AttributeError, match=r"^from within$"):
        _ = broken.space


def test_what_has_hints_can_be_copied_and_pickled() -> None:
    assert pickle.loads(pickle.dumps(EXPLANATION)) == EXPLANATION
    assert copy.deepcopy(FOUND) == FOUND
    assert copy.copy(EXPLAINER).space is EXPLAINER.space


def test_keywords_that_replace_others_exist() -> None:
    methods = (
        Explainer.__init__,
        Explainer.explain,
        Explainer.ladder,
        Explainer.explain_many,
        Explainer.counterfactuals,
    )
    known = {name for method in methods for name in inspect.signature(method).parameters}
    assert {ours for ours, _ in KEYWORD_HINTS.values() if ours} <= known
    assert "features_to_vary" in inspect.signature(Explainer.counterfactuals).parameters


WRONG_CALLS: dict[str, tuple[Callable[[], Any], type[Exception], tuple[str, ...]]] = {
    "outcomes by position": (
        lambda: Explainer(TREE, TABLE, CLASSES),  # type: ignore[misc]
        TypeError,
        ("takes 3 positional arguments but 4 were given", "pass all else by name, such as desired=..."),
    ),
    "names of columns": (
        lambda: Explainer(TREE, TABLE, feature_names=["a"]),  # type: ignore[call-arg]
        TypeError,
        ("unexpected keyword argument 'feature_names'", "whose columns have names"),
    ),
    "data first": (
        lambda: Explainer(TABLE, TREE),
        InputError,
        ("the model comes first", "pass the model, then the data"),
    ),
    "an array for a model of names": (
        lambda: Explainer(TREE, TABLE.to_numpy()),
        TableError,
        ("'months-open'", "names that the model was fitted with"),
    ),
    "a classifier that is not fitted": (
        lambda: Explainer(LogisticRegression(), TABLE),
        ModelError,
        ("the model must be fitted, got a LogisticRegression that is not", "call its fit(...) first"),
    ),
    "a pipeline that is not fitted": (
        lambda: Explainer(make_pipeline(StandardScaler(), LogisticRegression()), TABLE, desired=1),
        ModelError,
        ("must be fitted", "Pipeline"),
    ),
    "a regression without a threshold": (
        lambda: Explainer(LinearRegression().fit(TABLE, CLASSES), TABLE),
        OutcomeError,
        ("needs a threshold",),
    ),
    "a label that became a number": (
        lambda: Explainer(TREE, TABLE, desired=">50K"),
        OutcomeError,
        ("one of [0, 1], got '>50K'", "fitted on these numbers", "1 unless you say otherwise"),
    ),
    "a score for a class": (
        lambda: EXPLAINER.counterfactuals(0, target=0.8),
        OutcomeError,
        ("got 0.8", "target=Target(above=0.8)"),
    ),
    "probabilities of a model": (
        lambda: Explainer(TREE.predict_proba, TABLE),
        OutcomeError,
        ("desired=...", "the fitted model in the place of its function"),
    ),
    "several rows": (
        lambda: EXPLAINER.explain(TABLE.iloc[:2]),
        TableError,
        ("a single row", "explain_many or counterfactuals_many"),
    ),
    "precision of an anchor": (
        lambda: EXPLAINER.explain(0, threshold=0.95),  # type: ignore[call-arg]
        TypeError,
        ("Explainer.explain() got an unexpected keyword argument 'threshold'", "ladder(row, at_least=0.95)"),
    ),
    "a number of counterfactuals": (
        lambda: EXPLAINER.counterfactuals(0, total_CFs=4),  # type: ignore[call-arg]
        TypeError,
        ("'total_CFs'; say k=...",),
    ),
    "workers": (lambda: EXPLAINER.explain_many(n_jobs=2), TypeError, ("'n_jobs'; say workers=...",)),  # type: ignore[call-overload]
    "a keyword that another method has": (
        lambda: EXPLAINER.explain(0, n_jobs=2),  # type: ignore[call-arg]
        TypeError,
        ("unexpected keyword argument 'n_jobs'",),
    ),
    "a misspelt keyword": (
        lambda: EXPLAINER.ladder(0, confidance=0.9),  # type: ignore[call-arg]
        TypeError,
        ("did you mean confidence=...?",),
    ),
    "a file in the place of an indent": (
        lambda: EXPLANATION.to_json("why.json"),  # type: ignore[arg-type]
        InputError,
        ("indent must be a number of blanks", "write it to a file yourself"),
    ),
    "a file in the place of an audience": (
        lambda: EXPLANATION.to_html("why.html"),  # type: ignore[arg-type]
        InputError,
        ("audience must be one of person, validator", "the file comes second"),
    ),
    "a name with hyphens": (
        lambda: EXPLAINER.counterfactuals(0, constraints=["cf.months-open >= 3"]),
        ConstraintError,
        ('if the feature is called months-open, write cf["months-open"]',),
    ),
}


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_a_wrong_call_says_what_to_do(name: str) -> None:
    call, kind, parts = WRONG_CALLS[name]
    with pytest.raises(kind) as caught:
        call()
    for part in parts:
        assert part in str(caught.value)


def test_a_keyword_hint_is_only_given_where_it_helps() -> None:
    with pytest.raises(TypeError) as caught:
        EXPLAINER.explain(0, n_jobs=2)  # type: ignore[call-arg]
    assert "workers" not in str(caught.value)


def test_a_method_of_a_model_is_asked_and_the_reason_names_the_model() -> None:
    reason = Explainer(TREE.predict, TABLE, desired=1).unreadable_reason
    assert reason is not None
    assert "pass the DecisionTreeClassifier itself" in reason


def test_a_difference_of_features_is_no_name_with_hyphens() -> None:
    with pytest.raises(ConstraintError, match=r"write a feature as cf\.open"):
        EXPLAINER.counterfactuals(0, constraints=["cf.rate - open >= 3"])


def test_results_are_still_documents() -> None:
    assert Explanation.from_json(EXPLANATION.to_json(2)) == EXPLANATION
    assert Counterfactuals.from_json(FOUND.to_json()) == FOUND
