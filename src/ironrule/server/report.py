"""The report of an explanation as one file: the one place where the server meets the reports."""

from __future__ import annotations

from ironrule.explain import Explanation
from ironrule.report.recheck import Recheck
from ironrule.report.reports import Voice, explanation_report
from ironrule.server.audit import Record
from ironrule.server.parts import further
from ironrule.server.subject import Subject

__all__ = ["Voice", "file_name", "report_html"]


def file_name(record: Record) -> str:
    """What the document of a record is called as a file."""
    return f"{record.kind}-{record.number}.json"


def report_html(record: Record, subject: Subject, voice: Voice) -> str:
    """A whole HTML file; with pictures of the past rows, if the model and the data are those of the explanation."""
    explanation = Explanation.from_dict(record.document)
    part = subject.part_of(explanation)
    if part is not None and record.model == part.explainer.fingerprint:
        explanation = explanation.with_history(part.explainer)
    where = further(explanation.constraints, subject.space)
    return explanation_report(explanation, voice, Recheck(file_name(record), options=_options(where)))


def _options(where: tuple[str, ...] | None) -> tuple[str, ...]:
    return ("--constraint", *where) if where else ()
