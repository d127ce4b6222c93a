"""From whatever a model answers to a decision, and what is refused."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from ironrule.errors import ModelError, OutcomeError
from ironrule.model.decision import build_decision


def decided(answer, desired=None, threshold=None):
    """The decision of a function that answers this."""
    return build_decision(lambda _: answer, desired, threshold)(None, 3).tolist()


class Classifier:
    """An estimator that knows its classes."""

    def __init__(self, classes, labels=None, scores=None):
        self.classes_ = np.asarray(classes)
        self.labels, self.scores = labels, scores
        if scores is not None:
            self.predict_proba = lambda _: np.asarray(scores)

    def predict(self, _):
        return np.asarray(self.labels)


class Regressor:
    def predict(self, _):
        return np.array([1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    "scores",
    [
        [0.4, 0.5, 0.6],
        np.array([[0.4], [0.5], [0.6]], dtype=np.float32),
        pd.Series([0.4, 0.5, 0.6]),
        pl.Series([0.4, 0.5, 0.6]),
        pd.DataFrame({"score": [0.4, 0.5, 0.6]}),
        [False, False, True],
        np.array([0, 0, 1], dtype=np.uint8),
    ],
    ids=["list", "column", "pandas", "polars", "frame", "booleans", "integers"],
)
def test_scores_are_desired_above_one_half_and_a_tie_is_not(scores):
    assert decided(scores) == [False, False, True]


def test_a_threshold_moves_the_decision():
    assert decided([0.4, 0.5, 0.6], threshold=0.45) == [False, True, True]
    assert decided([0.4, 0.5, 0.6], threshold=0.6) == [False, False, False]


@pytest.mark.parametrize(
    ("labels", "desired", "outcome"),
    [
        (["good", "bad", "fair"], "good", [True, False, False]),
        (["good", "bad", "fair"], {"good", "fair"}, [True, False, True]),
        (["good", "bad", "fair"], np.array(["bad", "fair"]), [False, True, True]),
        ([2, 0, 1], 2, [True, False, False]),
        ([2, 0, 1], [0, 1], [False, True, True]),
        ([True, False, True], True, [True, False, True]),
        (pd.Series(["good", "bad", None], dtype="category"), "good", [True, False, False]),
        (np.array(["good", 1, None], dtype=object), 1, [False, True, False]),
    ],
)
def test_labels_are_desired_if_among_the_named_ones(labels, desired, outcome):
    assert decided(labels, desired) == outcome


def test_columns_of_scores_are_desired_where_a_desired_one_beats_all_others():
    scores = [[0.5, 0.3, 0.2], [0.4, 0.4, 0.2], [0.1, 0.2, 0.7]]
    assert decided(scores, desired=0) == [True, False, False]
    assert decided(scores, desired=[1, 2]) == [False, False, True]
    assert decided(scores, desired=[0, 1], threshold=0.79) == [True, True, False]


@pytest.mark.parametrize(
    ("answer", "desired", "threshold", "error", "message"),
    [
        (["good", "bad", "bad"], None, None, OutcomeError, "scores must be numbers, got .* such as .*'good'.*desired="),
        (
            [[0.1, 0.9]] * 3,
            None,
            None,
            OutcomeError,
            r"one of the 2 columns .* must be desired, got none; .*desired=\.\.\.",
        ),
        ([[0.1, 0.9]] * 3, 2, None, OutcomeError, "one of the columns 0 to 1 that the model answers, got 2"),
        ([[0.1, 0.9]] * 3, "good", None, OutcomeError, "one of the columns 0 to 1 .*, got 'good'; pass the number"),
        ([[0.1, 0.9]] * 3, -1, None, OutcomeError, "columns 0 to 1 .*, got -1"),
        ([[0.1, 0.9]] * 3, [0, 1], None, OutcomeError, "one class must be undesired, got all of 2 columns as desired"),
        ([0.1, 0.2, 0.3], 1, 0.5, OutcomeError, "either a desired class or a threshold must be given, got both"),
        ([0.1, np.nan, np.inf], None, None, ModelError, "must be finite, got NaN or infinity in 2 of 3"),
        ([[0.1, 0.9], [0.1, 0.9], [np.nan, 0]], 1, None, ModelError, "must be finite"),
        ([1.0, np.nan, 0.0], 1, None, ModelError, "must be finite"),
        ([0.1, 0.2], None, None, ModelError, r"one label or score per row, got an array of shape \(2,\) for 3 rows"),
        (0.5, None, None, ModelError, r"got an array of shape \(\) for 3 rows"),
        (np.ones((3, 2, 2)), None, None, ModelError, r"got an array of shape \(3, 2, 2\) for 3 rows"),
        (None, None, None, ModelError, "one label or score per row, got None for 3 rows"),
        ([[1, 2], [3], [4]], None, None, ModelError, "the model failed on a table of 3 rows: ValueError"),
    ],
)
def test_an_answer_that_is_no_decision_is_refused(answer, desired, threshold, error, message):
    with pytest.raises(error, match=message):
        decided(answer, desired, threshold)


def test_an_exception_of_the_model_is_shown_and_chained():
    def broken(_):
        raise KeyError("no column 'x'")

    with pytest.raises(ModelError, match=r"the model failed on a table of 3 rows: KeyError: .*no column 'x'") as caught:
        build_decision(broken, None, None)(None, 3)
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("threshold", [float("nan"), float("inf"), "0.5"])
def test_a_threshold_must_be_a_finite_number(threshold):
    with pytest.raises(OutcomeError, match=f"threshold must be a finite number, got {threshold!r}"):
        build_decision(lambda _: None, None, threshold)


@pytest.mark.parametrize("model", [None, 5, "model.skops"])
def test_what_is_no_model_is_refused(model):
    with pytest.raises(ModelError, match=f"a function or have a predict method, got {type(model).__name__}"):
        build_decision(model, None, None)


def test_classes_zero_and_one_need_no_name_and_others_do():
    for classes in ([0, 1], [False, True], [0.0, 1.0]):
        assert build_decision(Classifier(classes, [0, 1, 1]), None, None)(None, 3).tolist() == [False, True, True]
    for classes in ([-1, 1], ["bad", "good"], [0, 1, 2]):
        with pytest.raises(OutcomeError) as caught:
            build_decision(Classifier(classes), None, None)
        assert str(caught.value) == f"the desired class must be one of {classes}, got none; pass desired=..."
        assert caught.value.code == "desired-required"


@pytest.mark.parametrize(
    ("desired", "message"),
    [
        ("best", r"must be one of \['bad', 'fair', 'good'\], got 'best'"),
        (1, r"\], got 1"),
        (["good", "best"], r"\], got 'best'"),
        (["bad", "fair", "good"], r"one class must be undesired, got all of \['bad', 'fair', 'good'\] as desired"),
        ([], "at least one desired class must be named, got an empty collection"),
    ],
)
def test_a_desired_class_must_be_one_of_several_that_the_model_knows(desired, message):
    with pytest.raises(OutcomeError, match=message):
        build_decision(Classifier(["bad", "fair", "good"]), desired, None)


def test_a_class_named_twice_counts_once():
    decision = build_decision(Classifier(["bad", "good"], ["bad", "good", "bad"]), ["good", "good"], None)
    assert decision(None, 3).tolist() == [False, True, False]


def test_several_classes_of_many_may_be_desired():
    model = Classifier(["bad", "fair", "good"], ["bad", "fair", "good"])
    assert build_decision(model, {"fair", "good"}, None)(None, 3).tolist() == [False, True, True]


def test_with_a_threshold_the_desired_classes_together_must_pass_it():
    scores = [[0.5, 0.25, 0.25], [0.4, 0.3, 0.3], [0.9, 0.05, 0.05]]
    model = Classifier(["bad", "fair", "good"], ["bad"] * 3, scores)
    assert build_decision(model, ["fair", "good"], 0.5)(None, 3).tolist() == [False, True, False]
    with pytest.raises(
        OutcomeError, match="a threshold needs a classifier with predict_proba, got Classifier without it"
    ):
        build_decision(Classifier(["bad", "good"]), "good", 0.5)


def test_a_regression_needs_a_threshold():
    assert build_decision(Regressor(), None, 2.0)(None, 3).tolist() == [False, False, True]
    with pytest.raises(
        OutcomeError, match=r"needs a threshold above which .* got none; pass threshold=\.\.\."
    ) as caught:
        build_decision(Regressor(), None, None)
    assert caught.value.code == "threshold-required"


@pytest.mark.parametrize(
    ("model", "desired", "name"),
    [
        (Classifier([0, 1]), None, "0"),
        (Classifier(["bad", "good"]), "good", "'bad'"),
        (Classifier(["bad", "fair", "good"]), ["fair", "good"], "'bad'"),
        (Classifier(["bad", "fair", "good"]), "good", "not 'good'"),
        (len, None, "a score of at most 0.5"),
        (len, ["a", "b"], "not 'a' or 'b'"),
    ],
)
def test_the_undesired_outcome_has_a_name(model, desired, name):
    assert build_decision(model, desired, None).undesired_name == name


def test_with_a_threshold_the_undesired_outcome_is_named_by_it():
    model = Classifier(["bad", "fair", "good"], scores=[[0.2, 0.3, 0.5]])
    assert build_decision(model, "good", 0.7).undesired_name == "at most 0.7 for 'good'"
    assert build_decision(model, ["fair", "good"], 0.25).undesired_name == "at most 0.25 for 'fair' or 'good'"


@pytest.mark.parametrize("code", [None, 0, 1, "enough"])
def test_a_model_that_ends_the_program_has_failed(code):
    def model(_):
        raise SystemExit(code)

    with pytest.raises(ModelError, match="the model failed on a table of 3 rows: SystemExit"):
        build_decision(model, None, None)(None, 3)


def test_ctrl_c_in_a_model_is_no_failure_of_the_model():
    def model(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_decision(model, None, None)(None, 3)
