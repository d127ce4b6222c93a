"""Reports of what the audit log holds: with the past rows that are served, or without where they are others."""

from __future__ import annotations

import pytest
from served import bundled

from ironrule.data import load_german
from ironrule.server.audit import Entry, Record
from ironrule.server.report import report_html
from ironrule.server.subject import Subject


@pytest.fixture(scope="module")
def subject() -> Subject:
    return bundled()


@pytest.fixture(scope="module")
def record(subject: Subject) -> Record:
    explanation = subject.explainer.explain(1)
    document = explanation.to_dict()
    said = ("anna", "explanation", 1, explanation.space, explanation.model, str(explanation.rule), "proven")
    return Record.of(Entry(*said, document), "2024-02-29T12:00:00", 7, "")


def test_a_report_shows_the_past_rows_and_names_the_file_to_check(subject: Subject, record: Record) -> None:
    html = report_html(record, subject, "validator")
    assert "739 desired" in html
    assert "ironrule check explanation-7.json --model MODEL" in html


def test_what_another_model_decided_is_reported_without_them(subject: Subject, record: Record) -> None:
    features, _, _ = load_german(as_frame=False)
    other = Subject.of(lambda rows: rows[:, 1] < 12, features, "another", {"space": subject.space})
    assert "The past rows are not at hand" in report_html(record, other, "validator")
