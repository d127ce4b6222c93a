"""Reports of what the audit log holds: with the past rows that are served, or without where they are others."""

from __future__ import annotations

import pytest
from server_examples import build_demo

from ironrule.data import load_german
from ironrule.server.audit.key import AuditKey
from ironrule.server.audit.record import AuditEntry, AuditRecord, ChainEnd
from ironrule.server.routes.downloads import render_record_report
from ironrule.server.served_model import ServedModel


@pytest.fixture(scope="module")
def served_model() -> ServedModel:
    return build_demo()


@pytest.fixture(scope="module")
def record(served_model: ServedModel) -> AuditRecord:
    explanation = served_model.explainer.explain(1)
    document = explanation.to_dict()
    said = ("anna", "explanation", 1, explanation.space, explanation.model, str(explanation.rule), "proven")
    return AuditRecord.from_entry(AuditEntry(*said, document), "2024-02-29T12:00:00", ChainEnd(6), AuditKey(bytes(32)))


def test_a_report_shows_the_past_rows_and_names_the_file_to_check(
    served_model: ServedModel, record: AuditRecord
) -> None:
    html = render_record_report(record, served_model, "validator")
    assert "739 good" in html
    assert "ironrule check explanation-7.json --model MODEL" in html


def test_what_another_model_decided_is_reported_without_them(served_model: ServedModel, record: AuditRecord) -> None:
    features, _, _ = load_german(as_frame=False)
    other = ServedModel.from_model(lambda rows: rows[:, 1] < 12, features, "another", {"space": served_model.space})
    assert "The past rows are not available" in render_record_report(record, other, "validator")
