"""The explanation that is attached to a validator's report: a link that holds the whole file.

``ironrule check report.html`` reads it from there, and a report as PDF has it as an attachment.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass

from ironrule.errors import InputError

MAX_ATTACHED_BYTES = 2_000_000
LINK = re.compile(r'<a download="([\w.-]+)" href="data:application/json;base64,([A-Za-z0-9+/=]*)">')


@dataclass(frozen=True, slots=True)
class AttachedDocument:
    """A document as the link of a report has it; ``content`` is None where it is too large for that."""

    name: str
    size: int
    content: str | None

    @classmethod
    def build(cls, name: str, document: bytes) -> AttachedDocument:
        """The document under a name."""
        is_small = len(document) <= MAX_ATTACHED_BYTES
        return cls(name, len(document), base64.b64encode(document).decode("ascii") if is_small else None)


def list_attachments(html: str) -> list[tuple[str, bytes]]:
    """The files that stand in a report, by name; raises InputError if one is damaged."""
    try:
        return [(name, base64.b64decode(content, validate=True)) for name, content in LINK.findall(html)]
    except binascii.Error as error:
        raise InputError(f"the file that is attached to the report is damaged: {error}") from None


def read_attached_document(html: str) -> str:
    """The JSON of the one explanation or ladder in a report; raises InputError if there is none, or several."""
    found = list_attachments(html)
    if len(found) != 1:
        expected = "the report must have one explanation attached, as a validator's report has"
        hint = "name the JSON file of the explanation instead"
        raise InputError(expected=expected, got=str(len(found)), hint=hint, code="no-attachment")
    try:
        return found[0][1].decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"the file that is attached to the report is damaged: {error}") from None
