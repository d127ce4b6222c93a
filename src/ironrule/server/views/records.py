"""Lists of what was answered: explanations for those who work with them, and the audit log for those who check it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from cachetools import LRUCache

from ironrule.errors import InputError
from ironrule.results.explanation import Explanation
from ironrule.results.ladder import Ladder
from ironrule.rule.counterfactual import Counterfactual
from ironrule.rule.rule import Rule
from ironrule.server.audit.record import AuditRecord
from ironrule.server.service import RECORD_FOLDERS, Service
from ironrule.server.views.texts import build_changes, list_texts
from ironrule.space.space import Space

LOG_PAGE_SIZE = 25


def build_log_view(service: Service, page: int) -> dict[str, Any]:
    """One page of the audit log, the last records first."""
    records, place = _read_page(service, page)
    return place | {"records": [record.facts | {"folder": RECORD_FOLDERS[record.kind]} for record in records]}


def build_answers_view(service: Service, summaries: AnswerSummaries, page: int) -> dict[str, Any]:
    """One page of what was answered, the last first: the records, and every answer in a few words."""
    records, place = _read_page(service, page)
    space = service.served_model.space
    return place | {
        "records": [
            record.facts | {"folder": RECORD_FOLDERS[record.kind], "answer": summaries.describe(record, space)}
            for record in records
        ]
    }


def _read_page(service: Service, page: int) -> tuple[list[AuditRecord], dict[str, int]]:
    """The records of a page of the log, and which page it is."""
    total = service.audit.get_last_number()
    pages = max(1, -(-total // LOG_PAGE_SIZE))
    page = min(page, pages)
    last = total - (page - 1) * LOG_PAGE_SIZE
    records = list(service.audit.records(max(1, last - LOG_PAGE_SIZE + 1), last))
    return records[::-1], {"total": total, "page": page, "pages": pages}


class AnswerSummaries:
    """Answers of the log in a few words, kept for the records that were read last: documents may be long."""

    def __init__(self, size: int = 2_000) -> None:
        self._lock = threading.Lock()
        self._known: LRUCache[str, list[str]] = LRUCache(size)

    def describe(self, record: AuditRecord, space: Space) -> list[str]:
        """The conditions or changes that a record has, one text each."""
        with self._lock:
            found = self._known.get(record.hash)
        if found is None:
            found = _describe_answer(record, space)
            with self._lock:
                self._known[record.hash] = found
        return found


def _describe_answer(record: AuditRecord, space: Space) -> list[str]:
    try:
        if record.kind == "counterfactuals":
            return _describe_first_change(record.document, space)
        if record.kind == "ladder":
            ladder = Ladder.from_dict(record.document)
            return _describe_rule(ladder.short.rule, ladder.explanation.constraints, space)
        explanation = Explanation.from_dict(record.document)
        return _describe_rule(explanation.shown.rule, explanation.constraints, space)
    except InputError:  # a document of another version: the log has its rule as text
        return [record.rule]


def _describe_rule(rule: Rule, constraints: Sequence[str], space: Space) -> list[str]:
    """The conditions of a rule, and the constraints without which it says nothing."""
    return [*list_texts(rule, space), *([f"Only where {' and '.join(constraints)}."] if constraints else [])]


def _describe_first_change(document: Mapping[str, Any], space: Space) -> list[str]:
    """The nearest way in which the outcome would have been another."""
    if not document["counterfactuals"]:
        return ["no change was found"]
    changes = build_changes(Counterfactual.from_dict(document["counterfactuals"][0]), space)
    return [f"{one['label']}: {one['after']} instead of {one['before']}" for one in changes]
