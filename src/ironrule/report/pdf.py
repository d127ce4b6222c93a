"""Reports as PDF, by WeasyPrint (``pip install 'ironrule[pdf]'``), from the same page that a browser prints.

WeasyPrint itself needs Pango, a library of the system. A report needs nothing from elsewhere, and whatever a template of
the user's asks for is refused: only data that stands in the page is read.
"""

from __future__ import annotations

from typing import Any

from ironrule.errors import InputError, IronruleError, MissingExtraError
from ironrule.report.attachments import list_attachments

SYSTEM_HINT = "install Pango (Debian: apt install libpango-1.0-0 libpangoft2-1.0-0), or print the page with a browser"

class MissingSystemLibraryError(IronruleError, OSError):
    """A library of the system that a package needs is not there."""


def import_weasyprint() -> Any:
    """The library; raises MissingExtraError if it is not installed, and says what else is missing."""
    try:
        import weasyprint
    except ImportError:
        raise MissingExtraError("WeasyPrint", "pdf", "a report as PDF") from None
    except OSError as error:  # WeasyPrint is there, what it loads is not
        message = f"WeasyPrint cannot be used: {error}"
        raise MissingSystemLibraryError(message, hint=SYSTEM_HINT, code="missing-system-library") from None
    return weasyprint


def render_pdf(html: str) -> bytes:
    """The page as PDF; the same page gives the same bytes."""
    weasyprint = import_weasyprint()
    attachments = [weasyprint.Attachment(string=content, name=name) for name, content in list_attachments(html)]
    document = weasyprint.HTML(string=html, url_fetcher=_fetch_data)
    pdf: bytes = document.write_pdf(attachments=attachments)
    return pdf


def _fetch_data(url: str, *arguments: Any, **options: Any) -> Any:
    """What an address in the page stands for; raises InputError if it is not in the page itself."""
    if not url.startswith("data:"):
        raise InputError(expected="a report must need nothing but itself", got=url[:100], code="report-needs-file")
    from weasyprint.urls import default_url_fetcher

    return default_url_fetcher(url, *arguments, **options)
