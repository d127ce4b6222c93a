"""Files: the document of a record, and its report as one HTML file.

A report shows past rows only if the model and the data served now are those of the explanation.
"""

from __future__ import annotations

import json

from fastapi import APIRouter
from starlette.responses import Response

from ironrule.report.audiences import render_report
from ironrule.report.validator import CheckCommand
from ironrule.results.audience import Audience, LadderAudience
from ironrule.results.explanation import Explanation
from ironrule.results.ladder import Ladder
from ironrule.server.audit.record import AuditRecord
from ironrule.server.responses import build_download
from ironrule.server.routes.dependencies import ServiceDependency
from ironrule.server.served_model import ServedModel, find_extra_constraints
from ironrule.server.service import read_record


def build_file_name(record: AuditRecord) -> str:
    """What the document of a record is called as a file."""
    return f"{record.kind}-{record.number}.json"


def render_record_report(record: AuditRecord, served_model: ServedModel, audience: Audience) -> str:
    """A whole HTML file; with pictures of the past rows, if the model and the data are those of the explanation."""
    explanation = Explanation.from_dict(record.document)
    subspace = served_model.find_subspace(explanation)
    if subspace is not None and record.model == subspace.explainer.fingerprint:
        explanation = explanation.with_history(subspace.explainer)
    where = find_extra_constraints(explanation.constraints, served_model.space)
    options = ("--constraint", *where) if where else ()
    return render_report(explanation, audience, CheckCommand(build_file_name(record), options=options))


REPORT_CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; frame-ancestors 'none'"
router = APIRouter(include_in_schema=False)


@router.get("/explanations/{number:int}/explanation.json")
def download_document(service: ServiceDependency, number: int) -> Response:
    """The explanation with its certificate, as a file for ``ironrule check``."""
    record = read_record(service, number)
    text = json.dumps(record.document, indent=2, ensure_ascii=False)
    return build_download(text, "application/json", build_file_name(record))


@router.get("/explanations/{number:int}/report.html")
def download_report(
    service: ServiceDependency, number: int, audience: Audience = "person", show: bool = False
) -> Response:
    """The report, as a file that needs nothing else; ``show`` to look at it first."""
    text = render_record_report(read_record(service, number, "explanation"), service.served_model, audience)
    headers = {"Content-Security-Policy": REPORT_CONTENT_POLICY}
    return build_download(text, "text/html", f"report-{number}-{audience}.html", headers, show)


@router.get("/ladders/{number:int}/report.html")
def download_ladder_report(
    service: ServiceDependency, number: int, audience: LadderAudience = "person", show: bool = False
) -> Response:
    """The report of a ladder, or a notice, as a file that needs nothing else; ``show`` to look at it first."""
    record = read_record(service, number, "ladder")
    ladder = Ladder.from_dict(record.document)
    subspace = service.served_model.find_subspace(ladder.explanation)
    if subspace is not None and record.model == subspace.explainer.fingerprint:
        ladder = ladder.with_history(subspace.explainer)
    headers = {"Content-Security-Policy": REPORT_CONTENT_POLICY}
    name = f"ladder-{number}-{audience}.html"
    return build_download(ladder.to_html(audience), "text/html", name, headers, show)
