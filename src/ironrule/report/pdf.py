"""Reports as PDF, by WeasyPrint (``pip install 'ironrule[pdf]'``), from the same page that a browser prints.

WeasyPrint itself needs Pango, a library of the system. A report needs nothing from elsewhere, and whatever a template
of the user's asks for is refused: only data that stands in the page is read.
"""

from __future__ import annotations

import datetime
from typing import Any

from ironrule.errors import InputError, MissingExtraError
from ironrule.report.attachments import list_attachments

NO_DATE = datetime.datetime(1980, 1, 1, tzinfo=datetime.UTC)  # of attachments, which else have the time of writing
SYSTEM_HINT = "install Pango (Debian: apt install libpango-1.0-0 libpangoft2-1.0-0), or print the page with a browser"


def import_weasyprint() -> Any:
    """The library; raises MissingExtraError if it is not installed, and says what else is missing."""
    try:
        import weasyprint
    except ImportError:
        raise MissingExtraError("WeasyPrint", "pdf", "a report as PDF") from None
    except OSError as error:  # WeasyPrint is there, what it loads is not
        message = f"WeasyPrint cannot be used: {error}"
        raise InputError(message, hint=SYSTEM_HINT, code="missing-system-library") from None
    return weasyprint


def render_pdf(html: str) -> bytes:
    """The page as PDF; the same page gives the same bytes. Raises InputError if it needs what does not stand in it."""
    weasyprint = import_weasyprint()
    from weasyprint.urls import FatalURLFetchingError, URLFetcher

    dates = {"created": NO_DATE, "modified": NO_DATE}
    attachments = [
        weasyprint.Attachment(string=content, name=name, **dates) for name, content in list_attachments(html)
    ]
    fetcher = URLFetcher(allowed_protocols=("data",), fail_on_errors=True)
    try:
        pdf: bytes = weasyprint.HTML(string=html, url_fetcher=fetcher).write_pdf(attachments=attachments)
    except FatalURLFetchingError as error:
        raise InputError(f"a report must need nothing but itself: {error}", hint="put pictures in as data:") from None
    return pdf
