"""Reports as PDF: without the extra an error that names it; with it the report, the same bytes, nothing fetched."""

from __future__ import annotations

import builtins
import datetime
import sys
from pathlib import Path

import pytest

import ironrule
from ironrule import ReportOptions
from ironrule.errors import InputError, MissingExtraError
from ironrule.report.attachments import list_attachments, read_attached_document
from ironrule.report.pdf import render_pdf
from report_examples import proven, widened

OPTIONS = ReportOptions(date=datetime.date(2026, 3, 31))


def is_usable() -> bool:
    try:
        import weasyprint  # noqa: F401
    except (ImportError, OSError):  # the package, or the libraries of the system that it loads
        return False
    return True


needs_weasyprint = pytest.mark.skipif(not is_usable(), reason="WeasyPrint, or Pango, is not installed")


def fail_import(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    original = builtins.__import__

    def import_or_fail(name, *arguments, **options):
        if name == "weasyprint":
            raise error
        return original(name, *arguments, **options)

    monkeypatch.delitem(sys.modules, "weasyprint", raising=False)
    monkeypatch.setattr(builtins, "__import__", import_or_fail)


def test_without_the_extra_the_error_names_it(monkeypatch):
    fail_import(monkeypatch, ImportError("no such module"))
    with pytest.raises(MissingExtraError, match=r"a report as PDF needs WeasyPrint.*pip install 'ironrule\[pdf\]'"):
        proven().to_pdf()


def test_without_its_system_libraries_the_error_says_what_to_install(monkeypatch):
    fail_import(monkeypatch, OSError("cannot load library 'libpango-1.0-0'"))
    with pytest.raises(InputError, match=r"cannot load library 'libpango-1\.0-0'; install Pango"):
        proven().to_pdf()


@needs_weasyprint
def test_a_report_as_pdf_is_written_and_the_same_each_time(tmp_path: Path):
    path = tmp_path / "why.pdf"
    explanation = widened(proven())
    for audience in ("person", "validator"):
        pdf = explanation.to_pdf(audience, path, report=OPTIONS)
        assert pdf.startswith(b"%PDF-")
        assert path.read_bytes() == pdf == explanation.to_pdf(audience, report=OPTIONS)


@needs_weasyprint
def test_the_validators_pdf_has_the_explanation_attached():
    pdf = proven().to_pdf("validator", report=OPTIONS)
    assert b"/EmbeddedFile" in pdf
    assert pdf.count(b"(D:") == pdf.count(b"(D:1980") > 0  # no time of writing, so that the bytes stay the same
    assert b"/EmbeddedFile" not in proven().to_pdf("person", report=OPTIONS)


@needs_weasyprint
@pytest.mark.parametrize("address", ["https://elsewhere.example/x.png", "file:///etc/hostname", "http://127.0.0.1/"])
def test_nothing_from_elsewhere_is_read(address):
    with pytest.raises(InputError, match="a report must need nothing but itself"):
        render_pdf(f"<p>text</p><img alt='x' src='{address}'>")


def test_a_validators_page_has_one_explanation_attached():
    explanation = proven()
    html = explanation.to_html("validator")
    assert ironrule.Explanation.from_json(read_attached_document(html)).to_dict() == explanation.to_dict()
    assert list_attachments(proven().to_html("person")) == []
    link = '<a download="explanation.json" href="data:application/json;base64,'
    for damaged in (html.replace(link, link + "A"), html.replace(link, link + "/w=="), html + html, ""):
        with pytest.raises(InputError):
            read_attached_document(damaged)
