"""Batches: how far they are, what they found, and the form that starts one."""

from __future__ import annotations

from typing import Any

from ironrule.server.batches import BatchResults
from ironrule.server.service import Service
from ironrule.server.views.texts import format_rule, list_features, list_texts

PAGE_SIZE = 25


def build_batches_view(service: Service, who: str, search: str | None) -> dict[str, Any]:
    """The batches of a user, the newest first, and the form for another one; ``search`` narrows it to those found."""
    text, mask = service.searches.find(search) if search else (None, None)
    own = [(name, one) for name, one in service.batches.list_newest() if one.who == who]
    return {
        "batches": [_build_batch_facts(service, name, results) for name, results in own],
        "search": search,
        "text": text,
        "denied_total": len(service.applicants.select(mask, "undesired")),
        "max_rows": service.settings.limits.batch_rows,
        "outcome_names": service.served_model.outcome_names,
    }


def _build_batch_facts(service: Service, name: str, results: BatchResults) -> dict[str, Any]:
    """How far a batch is, and how many rows have which verdict."""
    job = service.jobs.find_or_none(name)
    return {
        "batch": name,
        "title": results.title,
        "started_at": results.started_at,
        "state": "done" if job is None else job.state,
        "rows_done": len(results.lines),
        "rows_total": len(results.rows),
        "verdicts": dict(results.verdicts),
        "constraints": list(results.constraints),
    }


def build_batch_view(service: Service, name: str, page: int) -> dict[str, Any]:
    """One batch, and one page of its results."""
    results = service.batches.find(name)
    lines = list(results.lines)
    pages = max(1, -(-len(lines) // PAGE_SIZE))
    page = min(page, pages)
    job = service.jobs.find_or_none(name)
    rules, space = results.copy_rules(), service.served_model.space
    shown = [
        line | {"conditions": list_texts(rules[line["row"]], space) if line["row"] in rules else []}
        for line in lines[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    ]
    return _build_batch_facts(service, name, results) | {
        "outcome_names": service.served_model.outcome_names,
        "error": None if job is None or job.error is None else job.error.to_dict()["error"],
        "features": list_features(service.served_model.space, results.count_features(), len(results.rules)),
        "page": page,
        "pages": pages,
        "lines": shown,
    }


def describe_rules(service: Service, results: BatchResults) -> dict[int, str]:
    """The rules of a batch in words, by row."""
    space = service.served_model.space
    return {row: format_rule(rule, space) for row, rule in results.copy_rules().items()}
