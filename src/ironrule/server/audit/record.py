"""One record of the log, and how each is chained to the one before.

The hash of a record is the SHA-256 of the canonical JSON of all its fields, the hash of the record before among them.
Whoever alters or removes a record in the middle breaks the chain there; whoever removes the last ones leaves a chain
that is whole but shorter, so keep the number and hash of the last record elsewhere now and then (``ironrule audit
verify`` prints them, and compares them with those you kept).
"""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import dataclass, fields
from typing import Any

from ironrule.verdict.digest import canonical

GENESIS = "0" * 64


@dataclass(frozen=True, slots=True)
class Entry:
    """What is to be recorded: who asked, about which row, and what was answered. ``row`` is None where values came."""

    who: str
    kind: str  # "explanation" or "counterfactuals"
    row: int | None
    space: str
    model: str
    rule: str
    verdict: str
    document: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Record:
    """One line of the log. ``digest`` is that of the document's bytes, which are kept compressed."""

    number: int
    at: str
    who: str
    kind: str
    row: int | None
    space: str
    model: str
    rule: str
    verdict: str
    digest: str
    previous: str
    hash: str
    packed: bytes

    @classmethod
    def of(cls, entry: Entry, at: str, number: int, previous: str) -> Record:
        """The record of an entry, chained to the one before."""
        packed, digest = pack(entry.document)
        said = {name: getattr(entry, name) for name in ("who", "kind", "row", "space", "model", "rule", "verdict")}
        whole = {"number": number, "at": at, **said, "digest": digest, "previous": previous}
        return cls(**whole, hash=_hash(whole), packed=packed)

    @property
    def facts(self) -> dict[str, Any]:
        """All fields but the document, as plain data."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "packed"}

    @property
    def document(self) -> dict[str, Any]:
        """The whole answer, certificate and all."""
        whole: dict[str, Any] = json.loads(zlib.decompress(self.packed))
        return whole

    def flaw(self, number: int, previous: str) -> str | None:
        """What is wrong with the record in its place in the chain; None if nothing is."""
        if self.number != number:
            return f"record {number} is missing"
        if self.previous != previous:
            return f"record {self.number} does not follow from the one before it"
        if self.hash != _hash({name: value for name, value in self.facts.items() if name != "hash"}):
            return f"record {self.number} was altered"
        return None if self._document_fits() else f"the document of record {self.number} was altered"

    def _document_fits(self) -> bool:
        try:
            return hashlib.sha256(zlib.decompress(self.packed)).hexdigest() == self.digest
        except zlib.error:
            return False


def pack(document: dict[str, Any]) -> tuple[bytes, str]:
    """A document's bytes, compressed, and their digest."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False).encode()
    return zlib.compress(text, 3), hashlib.sha256(text).hexdigest()


def _hash(facts: dict[str, Any]) -> str:
    return hashlib.sha256(canonical(facts).encode("ascii")).hexdigest()
