"""What somebody signs: hashes of the files at hand, the score that the model gives, and no more than is known."""

from __future__ import annotations

import datetime
import hashlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import ironrule
from ironrule import ReportOptions
from ironrule.report.case_facts import collect_case_facts
from ironrule.results.explanation import Explanation
from report_examples import proven, read

DAY = datetime.date(2026, 3, 31)
RNG = np.random.default_rng(2)
TABLE = pd.DataFrame({"a": RNG.integers(0, 9, 80), "b": RNG.integers(0, 9, 80)})
GOOD = (TABLE["a"] + TABLE["b"] > 8).astype(int)


def explain(model, **options) -> tuple[ironrule.Explainer, Explanation]:
    explainer = ironrule.Explainer(model, TABLE, progress=False, **options)
    return explainer, explainer.explain(int(np.flatnonzero(~explainer.outcomes)[0]))


def collect(explanation: Explanation, **options) -> dict[str, str]:
    return dict(collect_case_facts(explanation, ReportOptions(date=DAY, **options)))


@pytest.mark.parametrize("desired", [0, 1])
@pytest.mark.parametrize(
    "model",
    [DecisionTreeClassifier(max_depth=2, random_state=0), make_pipeline(StandardScaler(), LogisticRegression())],
)
def test_the_score_is_that_of_the_model(model, desired):
    fitted = model.fit(TABLE, GOOD)
    _, explanation = explain(fitted, desired=desired)
    expected = fitted.predict_proba(pd.DataFrame([dict(explanation.instance)]))[0, desired]
    facts = collect(explanation)
    assert float(facts["Score of the row"].partition(" (")[0]) == pytest.approx(expected, abs=1e-5)
    assert "probability of the desired outcome" in facts["Score of the row"]
    assert facts["Threshold of the score"] == "0.5"


def test_a_threshold_of_the_users_own_is_told():
    fitted = LogisticRegression().fit(TABLE, GOOD)
    _, explanation = explain(fitted, desired=1, threshold=0.7)
    expected = fitted.predict_proba(pd.DataFrame([dict(explanation.instance)]))[0, 1]
    facts = collect(explanation)
    assert float(facts["Score of the row"].partition(" (")[0]) == pytest.approx(expected, abs=1e-5)
    assert facts["Threshold of the score"] == "0.7"


def test_the_score_of_a_function_that_must_be_low_is_told_as_it_is():
    explainer = ironrule.Explainer(lambda t: t["a"] * 2.0, TABLE, threshold=7.0, desired="below", progress=False)
    explanation = explainer.explain(int(np.flatnonzero(~explainer.outcomes)[0]))
    facts = collect(explanation)
    assert float(facts["Score of the row"].partition(" (")[0]) == 2.0 * float(explanation.instance["a"])
    assert facts["Threshold of the score"] == "7"
    assert facts["Model"] == "<lambda>"


def test_a_threshold_that_does_not_explain_the_decisions_is_not_named():
    class Odd(DecisionTreeClassifier):
        """Decides against its own probabilities where b is 0."""

        def predict(self, rows):
            own = super().predict(rows)
            return np.where(np.asarray(rows)[:, 1] == 0, 1 - own, own)

    _, explanation = explain(Odd(max_depth=2, random_state=0).fit(TABLE, GOOD), desired=1)
    assert "do not follow from the score alone" in collect(explanation)["Threshold of the score"]


def test_scores_of_other_kinds_and_none_are_told():
    _, explanation = explain(RidgeClassifier().fit(TABLE, GOOD), desired=1)
    assert collect(explanation)["Threshold of the score"] == "0"
    labels = SVC().fit(TABLE, GOOD).predict
    _, explanation = explain(labels, desired=1)
    assert "probability" not in collect(explanation)["Score of the row"]


def test_files_have_the_hashes_of_what_they_hold(tmp_path: Path):
    model, data = tmp_path / "model.bin", tmp_path / "data.csv"
    model.write_bytes(b"model" * 300_000)
    facts = collect(proven(), model_file=model, data_file=data)
    assert facts["Model file (SHA-256)"] == hashlib.sha256(model.read_bytes()).hexdigest()
    assert facts["Data file"] == str(data)
    assert "could not be read when this report was made" in facts["Data file (SHA-256)"]


def test_other_past_rows_have_another_hash():
    model = DecisionTreeClassifier(max_depth=2, random_state=0).fit(TABLE, GOOD)
    explainer, explanation = explain(model, desired=1)
    name = "Past rows (SHA-256 of their codes in the space)"
    own = collect(explanation)[name]
    back = Explanation.from_json(explanation.to_json())
    assert collect(back.with_history(TABLE))[name] == collect(back.with_history(explainer))[name] == own
    assert name not in collect(back)
    swapped = TABLE.iloc[::-1].reset_index(drop=True)
    assert collect(back.with_history(swapped))[name] != own


def test_what_is_not_known_is_said_not_to_be():
    facts = collect(Explanation.from_json(proven().to_json()))
    for name in ("Model", "Library of the model", "Score of the row", "Made with"):
        assert facts[name] == "not recorded in the explanation"
    assert facts["Model file"] == facts["Data file"] == facts["Asked for by"] == "not stated"
    assert facts["Past rows"] == "200"


def test_with_the_explainer_model_and_score_come_back():
    model = DecisionTreeClassifier(max_depth=2, random_state=0).fit(TABLE, GOOD)
    explainer, explanation = explain(model, desired=1)
    back = Explanation.from_json(explanation.to_json()).with_history(explainer)
    assert back.background is not None
    assert explanation.background is not None
    assert back.background.model == explanation.background.model
    assert collect(back)["Model"] == "DecisionTreeClassifier"
    assert collect(back)["Library of the model"].startswith("scikit-learn ")


def test_the_validators_report_can_be_signed_and_is_the_same_each_day():
    options = ReportOptions(date=DAY, fields={"asked_by": "Internal audit <J. Doe>", "reference": "V-3"})
    html = proven().to_html("validator", report=options)
    text = " ".join(read(html).text.split())
    for wanted in ("31 March 2026", "Internal audit <J. Doe>", "V-3", "Signatures", "Prepared by", "Checked by"):
        assert wanted in text
    same = proven()
    assert same.to_html("validator", report=options) == same.to_html("validator", report=options)
