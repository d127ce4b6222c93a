"""What every page and its JSON twin show, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ironrule.counting import counted
from ironrule.explain import Explanation
from ironrule.report.text import how_short, verdict_word
from ironrule.report.words import outcome_of, wider_of
from ironrule.server import wording
from ironrule.server.answering import Service
from ironrule.server.applicants import Outcome
from ironrule.server.audit import Record
from ironrule.server.parts import Part, further
from ironrule.server.problem import LOG, missing
from ironrule.server.subject import name_of, text_of
from ironrule.server.waiting import record_of
from ironrule.server.whatif import WhatIf
from ironrule.server.whatif import what_if as decided
from ironrule.space import Space
from ironrule.space.plain import to_plain

COLUMNS = 5
LOG_PAGE = 25


def model(service: Service) -> dict[str, Any]:
    """What is served."""
    explainer, space = service.subject.explainer, service.subject.space
    features = [
        {"feature": f.name, "name": name_of(f), "unit": f.unit, "ordered": f.ordered, "values": f.size,
         "domain": f.describe()}
        for f in space.features
    ]  # fmt: skip
    return {
        "title": service.subject.title,
        "rows": len(explainer.outcomes),
        "desired": int(explainer.outcomes.sum()),
        "readable": explainer.unread is None,
        "unread": explainer.unread,
        "model": explainer.fingerprint,
        "space": space.fingerprint,
        "constraints": [str(one) for one in space.constraints],
        "features": features,
    }


def applicants(service: Service, outcome: Outcome, page: int, size: int, search: str | None) -> dict[str, Any]:
    """One page of the list."""
    text, mask = service.searches.find(search) if search else (None, None)
    listed = service.applicants.listed(mask, outcome, page, min(size, service.settings.limits.page_rows))
    shown = service.subject.space.features[:COLUMNS]
    return {
        "title": service.subject.title,
        "outcome": outcome,
        "search": search,
        "text": text,
        "example": _example(service),
        "page": listed.page,
        "pages": listed.pages,
        "size": size,
        "total": listed.total,
        "columns": [{"feature": f.name, "name": name_of(f)} for f in shown],
        "applicants": [
            _line(service, number, place)
            for number, place in zip(listed.numbers, listed.places, strict=True)
        ],
    }  # fmt: skip


def _example(service: Service) -> str:
    """A condition on each kind of feature, with values that occur."""
    space = service.subject.space
    ordered = [f"{name_of(f)} >= {text_of(f.values[len(f.values) // 2])}" for f in space.features if f.ordered]
    nominal = [f"{name_of(f)} = {text_of(f.values[0])}" for f in space.features if not f.ordered]
    return " and ".join(min(some, key=len) for some in (ordered, nominal) if some)


def _line(service: Service, number: int, place: int) -> dict[str, Any]:
    values, shown = service.applicants.values(place), service.subject.space.names[:COLUMNS]
    outcome = "desired" if service.applicants.outcomes[place] else "undesired"
    return {"row": number, "outcome": outcome, "values": [text_of(values[name]) for name in shown]}


def applicant(service: Service, row: int) -> dict[str, Any]:
    """One applicant, and what can be asked about them."""
    place = service.applicants.place(row)
    values, space = service.applicants.values(place), service.subject.space
    return {
        "row": row,
        "outcome": "desired" if service.applicants.outcomes[place] else "undesired",
        "values": [
            {"feature": f.name, "name": name_of(f), "unit": f.unit, "value": to_plain(values[f.name]),
             "text": text_of(values[f.name]), "options": wording.options_of(f), "domain": f.describe()}
            for f in space.features
        ],
        "seconds": service.settings.limits.seconds,
        "readable": service.subject.explainer.unread is None,
        "example": _constraint(space),
        "place": _place(space, values),
    }  # fmt: skip


def _constraint(space: Space) -> str | None:
    """A constraint on changes, on a feature whose name needs no quotation marks."""
    names = [f.name for f in space.features if f.ordered and f.name.isidentifier()]
    return f"cf.{min(names, key=len)} >= x.{min(names, key=len)}" if names else None


def _place(space: Space, values: Mapping[str, Any]) -> str | None:
    """A constraint on what can occur that a row satisfies, on the same feature."""
    names = [f.name for f in space.features if f.natural and f.numeric and f.name.isidentifier()]
    known = [name for name in names if values[name] is not None]
    return f"cf.{min(known, key=len)} <= {text_of(values[min(known, key=len)])}" if known else None


def log(service: Service, page: int) -> dict[str, Any]:
    """One page of the audit log, the last records first."""
    total = service.audit.count_to()
    pages = max(1, -(-total // LOG_PAGE))
    page = min(page, pages)
    last = total - (page - 1) * LOG_PAGE
    found = list(service.audit.records(max(1, last - LOG_PAGE + 1), last))
    return {"total": total, "page": page, "pages": pages, "records": [one.facts for one in reversed(found)]}


def explanation(service: Service, number: int) -> dict[str, Any]:
    """An explanation that was given, in words."""
    record = record_of(service, number)
    if record.kind != "explanation":
        raise missing(f"explanation {number}", LOG)
    found, space = Explanation.from_dict(record.document), service.subject.space
    part = service.subject.part_of(found)
    proven = wider_of(found)
    wider = None if proven is None else proven.rule
    return {
        "record": record.facts,
        "row": record.row,
        "same": part is not None and record.model == part.explainer.fingerprint,
        "constraints": list(found.constraints),
        "where": [] if part is None else list(further(found.constraints, space) or ()),
        "outcome": outcome_of(found.rule),
        "sentence": str(found.rule),
        "conditions": None if part is None else _conditions(part, found),
        "wider": None if wider is None or wider == found.rule else wording.sentence(wider, space),
        "widest": found.widest,
        "verdict": verdict_word(found.verdict),
        "verdict_text": str(found.verdict),
        "tested": getattr(found.verdict, "tried", 1) > 0,
        "exception": _exception(found, service),
        "cardinality": found.rule.cardinality,
        "length": f"{counted(found.rule.cardinality, 'component')}{how_short(found)}",
        "coverage": found.coverage,
        "history_rows": found.history_rows,
        "unread": found.unread,
        "stopped": found.statistics.stopped,
        "algorithm": found.statistics.algorithm,
        "took": found.statistics.seconds,
        "evaluations": found.statistics.evaluations,
        "permitted": found.permitted.to_dict(),
        "others": [
            {"rule": wording.sentence(one.rule, space), "verdict": verdict_word(one.verdict), "coverage": one.coverage}
            for one in found.ranked[1:]
        ],
        "counterfactuals": [wording.changes(one, space) for one in found.counterfactuals],
    }


def _conditions(part: Part, found: Explanation) -> list[dict[str, Any]]:
    proven = wider_of(found)
    wider = None if proven is None else proven.rule
    return wording.conditions(found.rule, wider, part.explainer.space, dict(found.instance), part.frequencies)


def _exception(found: Explanation, service: Service) -> list[dict[str, str]] | None:
    """Of a rule that is refuted, who breaks it."""
    breaks = getattr(found.verdict, "counterfactual", None)
    return None if breaks is None else wording.changes(breaks, service.subject.space)


def counterfactuals(service: Service, number: int) -> dict[str, Any]:
    """Counterfactuals that were given, in words."""
    from ironrule.rule import Counterfactual

    record = record_of(service, number)
    if record.kind != "counterfactuals":
        raise missing(f"counterfactuals {number}", LOG)
    document, space = record.document, service.subject.space
    found = [Counterfactual.from_dict(one) for one in document["counterfactuals"]]
    told = [wording.changes(one, space) for one in found]
    facts = {"proven": document["proven"], "stopped": document["stopped"]}
    return {"record": record.facts, "row": record.row, "counterfactuals": told, **facts}


def what_if(service: Service, row: int, changes: Mapping[str, Any], number: int | None) -> WhatIf:
    """A past row with changes, and the rule of an explanation tried on it."""
    before = service.applicants.values(service.applicants.place(row))
    said = None if number is None else _said(record_of(service, number))
    where = () if said is None else further(said.constraints, service.subject.space) or ()
    return decided(service.subject, before, changes, None if said is None else said.rule, where)


def _said(record: Record) -> Explanation:
    if record.kind != "explanation":
        raise missing(f"explanation {record.number}", LOG)
    return Explanation.from_dict(record.document)
