"""One record of the log, how each is chained to the one before, and how records are exported.

The hash of a record is the SHA-256 of the canonical JSON of all its fields, the hash of the record before among them.
Altering or removing a record in the middle breaks the chain there; removing the last ones leaves a chain that is intact
but shorter, so keep the number and hash of the last record elsewhere now and then (``ironrule audit verify`` prints
them, and compares them with those you kept).

Records are exported as JSON lines with whole documents, or as a CSV of facts. A CSV cell that begins like a formula
gets an apostrophe in front, so that no spreadsheet evaluates what is in the data.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any

from ironrule.verdict.digest import to_canonical_json

AUDIT_FORMAT = 2
GENESIS = "0" * 64


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """What is to be recorded: who asked, about which row, and what was answered. ``row`` is None where values came."""

    user_name: str
    kind: str  # "explanation" or "counterfactuals"
    row: int | None
    space: str
    model: str
    rule: str
    verdict: str
    document: dict[str, Any]


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One line of the log. ``document_digest`` is that of the document's bytes, which are kept compressed."""

    format: int
    number: int
    recorded_at: str
    user_name: str
    kind: str
    row: int | None
    space: str
    model: str
    rule: str
    verdict: str
    document_digest: str
    previous_hash: str
    hash: str
    compressed_document: bytes

    @classmethod
    def from_entry(cls, entry: AuditEntry, recorded_at: str, number: int, previous_hash: str) -> AuditRecord:
        """The record of an entry, chained to the one before."""
        compressed, digest = compress_document(entry.document)
        said = {one.name: getattr(entry, one.name) for one in fields(entry) if one.name != "document"}
        whole = {"format": AUDIT_FORMAT, "number": number, "recorded_at": recorded_at, **said}
        whole |= {"document_digest": digest, "previous_hash": previous_hash}
        return cls(**whole, hash=_compute_hash(whole), compressed_document=compressed)

    @property
    def facts(self) -> dict[str, Any]:
        """All fields but the document, as plain data."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "compressed_document"}

    @property
    def document(self) -> dict[str, Any]:
        """The whole answer, certificate and all."""
        whole: dict[str, Any] = json.loads(zlib.decompress(self.compressed_document))
        return whole

    def find_flaw(self, number: int, previous_hash: str) -> str | None:
        """What is wrong with the record in its place in the chain; None if nothing is."""
        if self.number != number:
            return f"record {number} is missing"
        if self.previous_hash != previous_hash:
            return f"record {self.number} does not follow from the one before it"
        if self.hash != _compute_hash({name: value for name, value in self.facts.items() if name != "hash"}):
            return f"record {self.number} was altered"
        return None if self._is_document_intact() else f"the document of record {self.number} was altered"

    def _is_document_intact(self) -> bool:
        try:
            return hashlib.sha256(zlib.decompress(self.compressed_document)).hexdigest() == self.document_digest
        except zlib.error:
            return False


def compress_document(document: dict[str, Any]) -> tuple[bytes, str]:
    """A document's bytes, compressed, and their digest."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False).encode()
    return zlib.compress(text, 3), hashlib.sha256(text).hexdigest()


def _compute_hash(facts: dict[str, Any]) -> str:
    return hashlib.sha256(to_canonical_json(facts).encode("ascii")).hexdigest()


CSV_COLUMNS = tuple(one.name for one in fields(AuditRecord) if one.name != "compressed_document")
FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r", "\n")


def export_json_lines(records: Iterable[AuditRecord]) -> Iterator[str]:
    """One JSON object per record, its document included."""
    for record in records:
        yield json.dumps({**record.facts, "document": record.document}, ensure_ascii=False) + "\n"


def export_csv(records: Iterable[AuditRecord]) -> Iterator[str]:
    """A header, then one line per record; documents are left out."""
    yield _format_csv_line(CSV_COLUMNS)
    for record in records:
        yield _format_csv_line([escape_formula(record.facts[name]) for name in CSV_COLUMNS])


def escape_formula(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula.

    >>> escape_formula("=HYPERLINK()"), escape_formula(-3), escape_formula("income <= 3")
    ("'=HYPERLINK()", -3, 'income <= 3')
    """
    if isinstance(value, str) and value.lstrip(" ").startswith(FORMULA_PREFIXES):
        return "'" + value
    return value


def _format_csv_line(cells: Iterable[Any]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer).writerow(cells)
    return buffer.getvalue()
