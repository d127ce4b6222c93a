"""The log for others: JSON lines with whole documents, or a CSV of facts that a spreadsheet may open.

A cell that begins like a formula gets an apostrophe in front, so that no spreadsheet computes what somebody's data
says.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from typing import Any

from ironrule.server.audit.record import Record

FACTS = ("number", "at", "who", "kind", "row", "space", "model", "rule", "verdict", "digest", "previous", "hash")
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def as_json_lines(records: Iterable[Record]) -> Iterator[str]:
    """One JSON object per record, its document included."""
    for record in records:
        yield json.dumps({**record.facts, "document": record.document}, ensure_ascii=False) + "\n"


def as_csv(records: Iterable[Record]) -> Iterator[str]:
    """A header, then one line per record; documents are left out."""
    yield _line(FACTS)
    for record in records:
        yield _line([safe_cell(record.facts[name]) for name in FACTS])


def safe_cell(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula.

    >>> safe_cell("=HYPERLINK()"), safe_cell(-3), safe_cell("income <= 3")
    ("'=HYPERLINK()", -3, 'income <= 3')
    """
    if isinstance(value, str) and value.lstrip(" ").startswith(FORMULA):
        return "'" + value
    return value


def _line(cells: Iterable[Any]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer).writerow(cells)
    return buffer.getvalue()
