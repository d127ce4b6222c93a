"""One record of the log, how each is chained to the one before, and how records are exported.

The hash of a record is the HMAC-SHA256, with the log's key, of the canonical JSON of all its fields, the hash of the
record before among them. Without the key nobody can make a record that fits; removing the last ones leaves a chain that
is intact but shorter, which only heads that are kept elsewhere show (:mod:`ironrule.server.audit.heads`).

What a database holds may be hostile, so a record is built from anything, and :meth:`AuditRecord.find_flaw` looks at
types and sizes before it computes.

Records are exported as JSON lines with whole documents, or as a CSV of facts. A CSV cell that begins like a formula
gets an apostrophe in front, so that no spreadsheet evaluates what is in the data.
"""

from __future__ import annotations

import csv
import hashlib
import hmac
import io
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any

from ironrule.errors import AuditError
from ironrule.server.audit.key import AuditKey
from ironrule.verdict.digest import to_canonical_json

AUDIT_FORMAT = 3
GENESIS = "0" * 64
MAX_DOCUMENT_BYTES = 1 << 28  # before compression
MAX_FACTS_BYTES = 1 << 24  # of all other fields together
PIECE_BYTES = 1 << 20  # of a document that is unpacked at a time
TIME_PATTERN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00")


@dataclass(frozen=True, slots=True)
class ChainEnd:
    """Where a chain ends: what the next record must follow from."""

    number: int = 0
    hash: str = GENESIS
    recorded_at: str = ""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """What is to be recorded: who asked, about which row, and what was answered. ``row`` is None where values came."""

    user_name: str
    kind: str  # "explanation", "ladder" or "counterfactuals"
    row: int | None
    space: str
    model: str
    rule: str
    verdict: str
    document: dict[str, Any]


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One line of the log. ``document_digest`` is that of the document's bytes, which are kept compressed; ``key_id``
    says with which key ``hash`` was made.
    """

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
    key_id: str
    previous_hash: str
    hash: str
    compressed_document: bytes

    @classmethod
    def from_entry(cls, entry: AuditEntry, recorded_at: str, end: ChainEnd, key: AuditKey) -> AuditRecord:
        """The record of an entry, chained to the one before; raises AuditError for one that is too large."""
        compressed, digest = compress_document(entry.document)
        said = {one.name: getattr(entry, one.name) for one in fields(entry) if one.name != "document"}
        whole = {"format": AUDIT_FORMAT, "number": end.number + 1, "recorded_at": recorded_at, **said}
        whole |= {"document_digest": digest, "key_id": key.id, "previous_hash": end.hash}
        content = to_canonical_json(whole).encode("ascii")
        if len(content) > MAX_FACTS_BYTES:
            expected = f"a record must have at most {MAX_FACTS_BYTES:,} bytes besides its document"
            raise AuditError(expected=expected, got=f"{len(content):,}")
        return cls(**whole, hash=key.sign(content), compressed_document=compressed)

    @property
    def facts(self) -> dict[str, Any]:
        """All fields but the document, as plain data."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "compressed_document"}

    @property
    def document(self) -> dict[str, Any]:
        """The whole answer, certificate and all."""
        whole: dict[str, Any] = json.loads(b"".join(unpack_pieces(self.compressed_document)))
        return whole

    @property
    def end(self) -> ChainEnd:
        """The end of a chain whose last record this is."""
        return ChainEnd(self.number, self.hash, self.recorded_at)

    def find_flaw(self, end: ChainEnd, key: AuditKey) -> str | None:
        """What is wrong with the record after the end of a chain; None if nothing is."""
        if type(self.number) is not int:
            return f"a record after record {end.number} has a number that is no integer"
        if self.number < 1:
            return f"there is a record with the number {self.number}, and the first must have 1"
        if self.number != end.number + 1:
            return f"record {end.number + 1} is missing"
        flaw = self._find_type_flaw() or self._find_key_flaw(key)
        if flaw is not None:
            return flaw
        if self.previous_hash != end.hash:
            return f"record {self.number} does not follow from the one before it"
        return self.find_alteration(key) or self._find_time_flaw(end)

    def find_alteration(self, key: AuditKey) -> str | None:
        """What is wrong with the record, wherever it stands; None if it is as the owner of the key wrote it."""
        flaw = self._find_type_flaw() or self._find_key_flaw(key)
        if flaw is not None:
            return flaw
        content = to_canonical_json({name: value for name, value in self.facts.items() if name != "hash"})
        if not hmac.compare_digest(self.hash.encode("utf-8", "replace"), key.sign(content.encode("ascii")).encode()):
            return f"record {self.number} was altered"
        return None if self._is_document_intact() else f"the document of record {self.number} was altered"

    def _find_type_flaw(self) -> str | None:
        for name, kind in FIELD_TYPES.items():
            value = getattr(self, name)
            if type(value) is not kind and not (name == "row" and value is None):
                return f"{name} of record {self.number} is no {TYPE_NAMES[kind]}, or is too long"
        if self.format != AUDIT_FORMAT:
            return f"record {self.number} must have format {AUDIT_FORMAT}, got {self.format}"
        return None

    def _find_key_flaw(self, key: AuditKey) -> str | None:
        if self.key_id == key.id:
            return None
        shown = self.key_id if re.fullmatch("[0-9a-f]{16}", self.key_id) else "another id"
        return f"record {self.number} was written with another key ({shown}) than the one given ({key.id})"

    def _find_time_flaw(self, end: ChainEnd) -> str | None:
        if not TIME_PATTERN.fullmatch(self.recorded_at):
            return f"the time of record {self.number} is no time"
        return f"record {self.number} is older than the one before it" if self.recorded_at < end.recorded_at else None

    def _is_document_intact(self) -> bool:
        digest = hashlib.sha256()
        try:
            for piece in unpack_pieces(self.compressed_document):
                digest.update(piece)
        except AuditError:
            return False
        return digest.hexdigest() == self.document_digest


TYPE_NAMES = {int: "integer", str: "text", bytes: "sequence of bytes"}
FIELD_TYPES = {
    one.name: {"int": int, "int | None": int, "str": str, "bytes": bytes}[str(one.type)] for one in fields(AuditRecord)
}


def compress_document(document: dict[str, Any]) -> tuple[bytes, str]:
    """A document's bytes, compressed, and their digest; raises AuditError if there are too many."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False).encode()
    if len(text) > MAX_DOCUMENT_BYTES:
        expected = f"a document in the audit log must have at most {MAX_DOCUMENT_BYTES:,} bytes"
        raise AuditError(expected=expected, got=f"{len(text):,}")
    return zlib.compress(text, 3), hashlib.sha256(text).hexdigest()


def unpack_pieces(compressed: bytes) -> Iterator[bytes]:
    """The bytes of a document, a piece at a time; raises AuditError if they are damaged or too many."""
    unpacker, rest, total = zlib.decompressobj(), compressed, 0
    while not unpacker.eof:
        try:
            piece = unpacker.decompress(rest, PIECE_BYTES)
        except zlib.error:
            raise AuditError("a document of the audit log is damaged") from None
        total += len(piece)
        if total > MAX_DOCUMENT_BYTES or not (piece or unpacker.eof):
            raise AuditError("a document of the audit log is damaged or too long")
        rest = unpacker.unconsumed_tail
        yield piece
    if unpacker.unused_data:
        raise AuditError("a document of the audit log has further bytes after its end")


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
