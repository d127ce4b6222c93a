"""Explanations in logs: one line of JSON for each, through Python's own ``logging``.

    handler = logging.FileHandler("explanations.jsonl")
    handler.setFormatter(JsonLineFormatter())
    logging.getLogger(LOGGER_NAME).addHandler(handler)
    log_explanation(explanation, subject="application 4711")

A line has the fields of OpenTelemetry's log data model, in their JSON form: ``timestamp``, ``severity_text``,
``severity_number``, ``body`` and ``attributes``, the names of which begin with ``ironrule.`` and stay as they are. The
person's values are left out unless they are asked for; the rule's bounds may be close to them.
"""

from __future__ import annotations

import datetime
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ironrule.errors import InputError, StorageError, describe_value
from ironrule.results.explanation import Explanation
from ironrule.results.ladder import Ladder
from ironrule.space.feature import value_to_json

LOGGER_NAME = "ironrule.explanations"
EVENT = "ironrule.explanation"
ATTRIBUTES_FIELD = "ironrule_attributes"  # of a log record
SEVERITIES = ((logging.CRITICAL, 21), (logging.ERROR, 17), (logging.WARNING, 13), (logging.INFO, 9))  # OpenTelemetry's
DEBUG_NUMBER = 5


def build_log_attributes(
    explanation: Explanation | Ladder, subject: str | None = None, include_instance: bool = False
) -> dict[str, Any]:
    """What a line says of an explanation: plain values under stable names."""
    ladder = explanation if isinstance(explanation, Ladder) else None
    found = explanation.explanation if isinstance(explanation, Ladder) else explanation
    if not isinstance(found, Explanation):
        raise InputError(expected="an explanation or a ladder", got=describe_value(explanation))
    document, statistics = found.to_dict(), found.statistics
    attributes: dict[str, Any] = {
        "event.name": EVENT,
        "ironrule.rule": str(found.shown.rule),
        "ironrule.verdict": type(found.verdict).__name__.lower(),
        "ironrule.components": found.cardinality,
        "ironrule.minimum": found.minimum,
        "ironrule.past_rows_covered": found.shown.coverage,
        "ironrule.past_rows": found.history_rows,
        "ironrule.features": sorted({component.feature for component in found.rule.components}),
        "ironrule.model.fingerprint": found.model,
        "ironrule.space.fingerprint": found.space,
        "ironrule.confirmed_by_model": found.confirmed,
        "ironrule.algorithm": statistics.algorithm,
        "ironrule.seed": statistics.seed,
        "ironrule.search.seconds": statistics.seconds,
        "ironrule.search.stopped_by": statistics.stopped_by,
        "ironrule.document.digest": document["digest"],
    }
    if ladder is not None and len(ladder.rungs) > 1:
        best = ladder.rungs[-2]
        attributes["ironrule.short_rule"] = str(best.rule)
        attributes["ironrule.short_rule.exception_bound"] = best.exception_bound
    if subject is not None:
        attributes["ironrule.subject"] = subject
    if include_instance:
        attributes["ironrule.instance"] = {name: value_to_json(value) for name, value in found.instance.items()}
    return attributes


def log_explanation(
    explanation: Explanation | Ladder,
    *,
    subject: str | None = None,
    include_instance: bool = False,
    level: int = logging.INFO,
    logger: logging.Logger | None = None,
) -> None:
    """Log an explanation; ``subject`` says whose it is, such as the number of an application."""
    attributes = build_log_attributes(explanation, subject, include_instance)
    body = f"{attributes['ironrule.verdict']}: {attributes['ironrule.rule']}"
    (logger or logging.getLogger(LOGGER_NAME)).log(level, "%s", body, extra={ATTRIBUTES_FIELD: attributes})


def append_to_log(path: Path, explanation: Explanation | Ladder, subject: str | None = None) -> None:
    """Append one line to a file; raises StorageError if that is not possible."""
    logger = logging.Logger(LOGGER_NAME)  # of its own: what the program does with the shared one does not matter
    try:
        handler = logging.FileHandler(path, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write {str(path)!r}: {error.strerror or error}") from error
    handler.setFormatter(JsonLineFormatter())
    logger.addHandler(handler)
    try:
        log_explanation(explanation, subject=subject, logger=logger)
    finally:
        handler.close()


class JsonLineFormatter(logging.Formatter):
    """A record as one line of JSON; ``resource`` has attributes of the program itself, such as ``service.name``."""

    def __init__(self, resource: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.resource = dict(resource or {})

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        number = next((number for level, number in SEVERITIES if record.levelno >= level), DEBUG_NUMBER)
        attributes = getattr(record, ATTRIBUTES_FIELD, {})
        if record.exc_info:
            attributes = attributes | {"exception.stacktrace": self.formatException(record.exc_info)}
        line = {
            "timestamp": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "severity_text": record.levelname,
            "severity_number": number,
            "body": record.getMessage(),
            "attributes": attributes,
            "instrumentation_scope": {"name": record.name},
        }
        if self.resource:
            line["resource"] = self.resource
        return json.dumps(line, ensure_ascii=True, default=str)
