"""Files: the document of a record, its report as one HTML file, and the static files of the pages.

A report shows past rows only if the model and the data served now are those of the explanation.
"""

from __future__ import annotations

import json
from importlib.resources import files

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

from ironrule.report.audiences import render_report
from ironrule.report.validator import CheckCommand
from ironrule.results.audience import Audience
from ironrule.results.explanation import Explanation
from ironrule.server.audit.record import AuditRecord
from ironrule.server.errors import LOG_HINT, build_not_found_error, format_brief
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
    return render_report(
        explanation, audience, CheckCommand(build_file_name(record), options=_list_check_options(where))
    )


def _list_check_options(where: tuple[str, ...] | None) -> tuple[str, ...]:
    return ("--constraint", *where) if where else ()


MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
REPORT_CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; frame-ancestors 'none'"
router = APIRouter(include_in_schema=False)


@router.get("/explanations/{number:int}/explanation.json")
def download_document(service: ServiceDependency, number: int) -> Response:
    """The explanation with its certificate, as a file for ``ironrule check``."""
    record = read_record(service, number)
    text = json.dumps(record.document, indent=2, ensure_ascii=False)
    return _build_download(text, "application/json", build_file_name(record))


@router.get("/explanations/{number:int}/report.html")
def download_report(service: ServiceDependency, number: int, audience: Audience = "person") -> Response:
    """The report, as a file that needs nothing else."""
    record = read_record(service, number)
    if record.kind != "explanation":
        raise build_not_found_error(f"explanation {number}", LOG_HINT)
    text = render_record_report(record, service.served_model, audience)
    return _build_download(text, "text/html", f"report-{number}-{audience}.html", REPORT_CONTENT_POLICY)


@router.get("/static/{name}")
def send_static_file(name: str) -> Response:
    """A file of the pages."""
    found = files("ironrule.server").joinpath("static", name)
    ending = name[name.rfind(".") :]
    if ending not in MEDIA_TYPES or not name.replace(".", "").replace("-", "").isalnum() or not found.is_file():
        raise build_not_found_error(f"file {format_brief(name)}")
    return Response(
        found.read_text(encoding="utf-8"), media_type=MEDIA_TYPES[ending], headers={"Cache-Control": "max-age=3600"}
    )


def _build_download(text: str, kind: str, name: str, policy: str | None = None) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    if policy is not None:
        headers["Content-Security-Policy"] = policy
    return Response(text, media_type=kind, headers=headers) if policy is None else HTMLResponse(text, headers=headers)
