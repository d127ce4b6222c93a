"""Reports of what the audit log holds: with the past rows that are served, or without where they are others."""

from __future__ import annotations

import pytest

from ironrule.cli.demo import demo_explainer
from ironrule.data import load_german
from ironrule.explain import Explainer
from ironrule.server.audit import Entry, Record
from ironrule.server.report import report_html


@pytest.fixture(scope="module")
def explainer() -> Explainer:
    return demo_explainer()


@pytest.fixture(scope="module")
def record(explainer: Explainer) -> Record:
    explanation = explainer.explain(1)
    document = explanation.to_dict()
    said = ("anna", "explanation", 1, explanation.space, explanation.model, str(explanation.rule), "proven")
    return Record.of(Entry(*said, document), "2024-02-29T12:00:00", 7, "")


def test_a_report_shows_the_past_rows_and_names_the_file_to_check(explainer: Explainer, record: Record) -> None:
    html = report_html(record, explainer, "validator")
    assert "739 desired" in html
    assert "ironrule check explanation-7.json --model MODEL" in html


def test_what_another_model_decided_is_reported_without_them(explainer: Explainer, record: Record) -> None:
    features, _, _ = load_german(as_frame=False)
    other = Explainer(lambda rows: rows[:, 1] < 12, features, space=explainer.space)
    assert "The past rows are not at hand" in report_html(record, other, "validator")
