"""From a request to an answer that is in the audit log. Every explanation that leaves the server comes from here.

A request starts a job; the job explains, appends a record to the log, and its result is the number of that record. A
handler waits for the job without blocking other requests, then reads the record back; if its client leaves, the job is
cancelled. Equal rows of a batch are
explained once and recorded each, as in :meth:`ironrule.Explainer.explain_many`; an explanation is kept only as long as
a later row of the same batch needs it, because both batches and proofs may be long.

A what-if is a past row with some values changed: what the model decides then, and whether a rule still applies to it.
It explains nothing, so it is not recorded.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from starlette.requests import Request

from ironrule.errors import InputError, ModelError
from ironrule.explain.explainer import Explainer
from ironrule.explain.options import SearchOptions, parse_budget
from ironrule.explain.roles import list_role_constraints
from ironrule.report.ladder import describe_rung
from ironrule.report.text import describe_scope, get_verdict_name
from ironrule.results.explanation import Explanation
from ironrule.results.ladder import Ladder
from ironrule.rule.condition import find_code_range
from ironrule.rule.rule import Component, Rule
from ironrule.server.applicants import Applicants, SavedSearches
from ironrule.server.audit.log import AuditLog
from ironrule.server.audit.record import AuditEntry, AuditRecord
from ironrule.server.counterfactuals import CounterfactualsRequest, find_recorded_counterfactuals
from ironrule.server.errors import LOG_HINT, ApiError, build_not_found_error, format_brief, to_api_error
from ironrule.server.jobs import UNFINISHED, Job, JobQueue
from ironrule.server.served_model import ConstraintTexts, RowInput, ServedModel, validate_constraints
from ironrule.server.settings import ServerSettings
from ironrule.space.constraints.binding import bind_constraint
from ironrule.space.constraints.parser import parse_constraint
from ironrule.space.feature import Feature, Value, value_to_json
from ironrule.space.space import Space
from ironrule.verdict.bounded import DEFAULT_CONFIDENCE
from ironrule.verdict.budget import Budget
from ironrule.wording import format_count, format_value


class EqualRows:
    """The rows of one batch, and the explanations that equal rows share."""

    def __init__(self, applicants: Applicants, rows: Sequence[int]) -> None:
        self._applicants = applicants
        self._remaining = Counter(map(self._build_key, rows))
        self._explanations: dict[bytes, Explanation] = {}

    def explain_once(self, row: int, explain: Callable[[], Explanation]) -> Explanation:
        """The explanation of an equal row, or a new one; errors are not shared."""
        values = self._build_key(row)
        self._remaining[values] -= 1
        found = self._explanations.pop(values, None) or explain()
        if self._remaining[values] > 0 and found.statistics.stopped is None:  # a stopped one may do better next time
            self._explanations[values] = found
        return found

    def _build_key(self, row: int) -> bytes:
        return self._applicants.codes.row(self._applicants.find_position(row)).tobytes()


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """A row to explain, and how to search for a rule."""

    row: RowInput
    options: SearchOptions = field(default_factory=SearchOptions)
    where: tuple[str, ...] = ()  # constraints on what can occur, on top of those that are served


@dataclass(frozen=True, slots=True)
class LadderRequest:
    """A row to explain by short rules too: how long they may be, and how certain their bounds."""

    explain: ExplainRequest
    most: int = 6
    nested: bool = True
    at_least: float | None = None
    confidence: float = DEFAULT_CONFIDENCE


@dataclass(frozen=True, slots=True)
class Service:
    """Everything that a request may need."""

    served_model: ServedModel
    settings: ServerSettings
    applicants: Applicants
    audit: AuditLog
    jobs: JobQueue
    searches: SavedSearches

    def start_explanation(self, request: ExplainRequest, who: str) -> Job:
        """Start the search for a rule; the job's result is the number of the record."""
        row, asked = self._check_row(request.row), self._validate_request(request)

        def record_explanation(job: Job) -> int:
            found = self.explain(self.prepare_explainer(asked, job), asked, job)
            return self.audit.append(_build_explanation_entry(found, row, who)).number

        return self.jobs.start("explanation", record_explanation, who, row)

    def start_ladder(self, request: LadderRequest, who: str) -> Job:
        """Start the search for a ladder; the job's result is the number of the record."""
        row, asked = self._check_row(request.explain.row), self._validate_request(request.explain)

        def record_ladder(job: Job) -> int:
            found = self._build_ladder(replace(request, explain=asked), job)
            return self.audit.append(build_ladder_entry(found, row, who)).number

        return self.jobs.start("ladder", record_ladder, who, row)

    def start_counterfactuals(self, request: CounterfactualsRequest, who: str) -> Job:
        """Start the search for counterfactuals; the result is the number of the record."""
        row, explainer = self._check_row(request.row), self.served_model.explainer

        def record_counterfactuals(job: Job) -> int:
            answer = find_recorded_counterfactuals(explainer, request, self._limit_budget(request.options, job))
            found, document = answer.found, dict(answer.document)
            count, status = format_count(len(found), "counterfactual"), "proven" if found.proven else "found"
            space, model = explainer.space.fingerprint, explainer.fingerprint
            entry = AuditEntry(who, "counterfactuals", row, space, model, rule=count, verdict=status, document=document)
            return self.audit.append(entry).number

        return self.jobs.start("counterfactuals", record_counterfactuals, who, row)

    def start_batch(self, rows: Sequence[int], request: ExplainRequest, who: str) -> Job:
        """Explain many rows, one after the other, equal ones once; the result has a line per row."""
        for row in rows:
            self.applicants.find_position(row)
        batch = BatchRun(self, tuple(rows), self._validate_request(request), who)
        return self.jobs.start("batch", batch.explain_next, who, by_rows=True)

    def start_check(self, document: Any, who: str) -> Job:
        """Check an explanation; nothing is recorded, since nothing is explained."""
        return self.jobs.start("check", lambda _: self.served_model.check(document).to_dict(), who)

    def close(self) -> None:
        """End all jobs, and close the log."""
        self.jobs.close()
        self.audit.close()

    def _check_row(self, row: RowInput) -> int | None:
        if not isinstance(row, int):
            return None
        self.applicants.find_position(row)
        return row

    def _validate_request(self, request: ExplainRequest) -> ExplainRequest:
        """The request with valid constraints; whether any row satisfies them is found by the job."""
        return replace(request, where=validate_constraints(request.where, self.served_model.space))

    def prepare_explainer(self, request: ExplainRequest, job: Job) -> Explainer:
        """The explainer of the subspace that is asked about."""
        job.progress = replace(job.progress, phase="preparing")
        explainer = self.served_model.get_subspace(request.where).explainer
        job.progress = replace(job.progress, phase="searching")
        return explainer

    def explain(
        self, explainer: Explainer, request: ExplainRequest, job: Job, seconds: float | None = None
    ) -> Explanation:
        """The explanation of one row, within the limits of the server and in at most so many seconds."""
        budget = self._limit_budget(request.options, job)
        if seconds is not None:
            budget = replace(budget, seconds=min(budget.seconds or seconds, seconds))
        options = replace(request.options, budget=budget)
        return explainer.explain(request.row, progress=False, **options.to_kwargs())

    def _build_ladder(self, request: LadderRequest, job: Job) -> Ladder:
        explainer, asked = self.prepare_explainer(request.explain, job), request.explain
        options = replace(asked.options, budget=self._limit_budget(asked.options, job))
        return explainer.ladder(
            asked.row,
            request.most,
            nested=request.nested,
            at_least=request.at_least,
            confidence=request.confidence,
            progress=False,
            **options.to_kwargs(),
        )

    def _limit_budget(self, options: SearchOptions, job: Job) -> Budget:
        """What is asked for, but no more than the server allows, under which the job can be watched and stopped."""
        asked, limits = parse_budget(options.budget), self.settings.limits
        return replace(
            asked,
            seconds=min(asked.seconds or limits.seconds, limits.seconds),
            evaluations=min(asked.evaluations or limits.evaluations, limits.evaluations),
            callback=job.update_progress,
        )


class BatchRun:
    """A batch on its way: explains one row a call, so that other jobs have their turn in between."""

    def __init__(self, service: Service, rows: Sequence[int], request: ExplainRequest, who: str) -> None:
        self._service, self._rows, self._request, self._who = service, rows, request, who
        self._equal_rows = EqualRows(service.applicants, rows)
        self._explainer: Explainer | None = None
        self._lines: list[dict[str, Any]] = []
        self._seconds_left = service.settings.limits.batch_seconds

    def explain_next(self, job: Job) -> Any:
        """Explain the next row; gives a line per row at the end, also where the batch is cancelled or out of time."""
        started = time.monotonic()
        job.progress = replace(job.progress, rows_total=len(self._rows))
        if self._explainer is None:
            self._explainer = self._service.prepare_explainer(self._request, job)
        if not job.cancel_requested.is_set():
            self._lines.append(self._explain_row(self._rows[len(self._lines)], self._explainer, job))
            self._seconds_left -= time.monotonic() - started
            if self._seconds_left <= 0:
                self._lines.extend(map(self._build_late_line, self._rows[len(self._lines) :]))
        job.progress = replace(job.progress, rows_done=len(self._lines))
        finished = job.cancel_requested.is_set() or len(self._lines) == len(self._rows)
        return self._lines if finished else UNFINISHED

    def _explain_row(self, row: int, explainer: Explainer, job: Job) -> dict[str, Any]:
        request, seconds = replace(self._request, row=row), self._seconds_left
        try:
            found = self._equal_rows.explain_once(row, lambda: self._service.explain(explainer, request, job, seconds))
        except (InputError, ModelError) as error:
            return _build_error_line(row, to_api_error(error))
        record = self._service.audit.append(_build_explanation_entry(found, row, self._who))
        told = {"rule": record.rule, "verdict": record.verdict, "error": None}
        return {"row": row, "explanation": record.number, **told}

    def _build_late_line(self, row: int) -> dict[str, Any]:
        limit = self._service.settings.limits.batch_seconds
        statement = f"the batch has used the {limit:g} s that it may take"
        return _build_error_line(row, ApiError(503, "batch-timeout", statement, hint="send the remaining rows again"))


def _build_error_line(row: int, error: ApiError) -> dict[str, Any]:
    return {"row": row, "explanation": None, "rule": None, "verdict": None, "error": error.to_dict()["error"]}


def _build_explanation_entry(explanation: Explanation, row: int | None, who: str) -> AuditEntry:
    rule, document = " ".join([str(explanation.rule), *describe_scope(explanation)]), explanation.to_dict()
    space, model, verdict = explanation.space, explanation.model, get_verdict_name(explanation.verdict)
    return AuditEntry(who, "explanation", row, space, model, rule=rule, verdict=verdict, document=document)


def build_ladder_entry(ladder: Ladder, row: int | None, who: str) -> AuditEntry:
    """The record of a ladder. Its rule and verdict are those of the rung that is read first."""
    rule, verdict = describe_rung(ladder, ladder.short), get_verdict_name(ladder.short.verdict)
    space, model = ladder.explanation.space, ladder.explanation.model
    return AuditEntry(who, "ladder", row, space, model, rule=rule, verdict=verdict, document=ladder.to_dict())


GRACE_SECONDS = 30.0


async def wait_for_end(job: Job, seconds: float) -> bool:
    """Whether a job ends in time; it runs on if not."""
    waiting = asyncio.wrap_future(job.future)
    try:
        await asyncio.wait_for(asyncio.shield(waiting), seconds)
    except TimeoutError:
        return False
    except (asyncio.CancelledError, CancelledError):
        if not job.future.cancelled():
            raise
    return True


async def wait_for_client(service: Service, job: Job, request: Request, seconds: float) -> bool:
    """Whether a job ends in time, for a client who waits for it; if the client leaves, the job is cancelled."""
    leaving = asyncio.create_task(_wait_for_leave(request))
    ending = asyncio.create_task(wait_for_end(job, seconds))
    try:
        await asyncio.wait((leaving, ending), return_when=asyncio.FIRST_COMPLETED)
        if not ending.done():
            service.jobs.cancel(job)
            raise ApiError(503, "cancelled", "the client left before there was a result", hint="ask again")
        return ending.result()
    finally:
        leaving.cancel()
        ending.cancel()


async def _wait_for_leave(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def wait_for_result(service: Service, job: Job, request: Request) -> Any:
    """The result of a job; raises its error if it failed, and a 503 if it was cancelled or takes too long."""
    limit = service.settings.limits.seconds + GRACE_SECONDS
    if not await wait_for_client(service, job, request, limit):
        service.jobs.cancel(job)
        raise ApiError(503, "timeout", f"no answer within {limit:g} s", hint="start a job and watch it")
    if job.error is not None:
        raise job.error
    if job.result is None:
        raise ApiError(503, "cancelled", "the job was cancelled before it had a result", hint="start another")
    return job.result


def read_record(service: Service, number: int, kind: str | None = None) -> AuditRecord:
    """A record of the audit log; raises a 404 for an unknown number, or one of another kind."""
    record = service.audit.read(number)
    if record is None or kind not in (None, record.kind):
        raise build_not_found_error(f"{kind or 'explanation'} {number}", LOG_HINT)
    return record


@dataclass(frozen=True, slots=True)
class WhatIfResult:
    """The outcome of a changed row; ``components`` says of every component of a rule whether it still holds."""

    values: Mapping[str, Value]
    changed: tuple[str, ...]
    desired: bool
    components: tuple[tuple[str, bool], ...] | None = None
    not_permitted: tuple[str, ...] = ()  # changed features whose declared role does not permit this change

    @property
    def rule_applies(self) -> bool | None:
        """Whether the whole rule still holds for the row; None where no rule was given."""
        return None if self.components is None else all(holds for _, holds in self.components)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        components = [{"component": text, "holds": holds} for text, holds in self.components or ()]
        return {
            "values": {name: value_to_json(value) for name, value in self.values.items()},
            "changed": list(self.changed),
            "not_permitted": list(self.not_permitted),
            "outcome": "desired" if self.desired else "undesired",
            "rule_applies": self.rule_applies,
            "components": None if self.components is None else components,
        }


def evaluate_what_if(
    served_model: ServedModel,
    before: Mapping[str, Value],
    changes: Mapping[str, Any],
    rule: Rule | None,
    where: ConstraintTexts = (),
) -> WhatIfResult:
    """Decide on a row with changes, whether its values were seen before or not.

    A rule of a subspace speaks of the row only if the constraints ``where`` hold too.
    """
    unknown = [name for name in changes if name not in served_model.space.names]
    if unknown:
        served_model.space[unknown[0]]  # raises the error that names the features
    new = served_model.space.find_new_values(changes)
    space = served_model.space.extend_domains(new)
    values = dict(before)
    for name, value in changes.items():
        values[name] = space[name].value(space[name].code(new.get(name, value)))
    changed = tuple(name for name in values if values[name] != before[name])
    components = None
    if rule is not None:
        holds = [(str(c), _satisfies_component(space[c.feature], values, c)) for c in rule.components]
        components = (*holds, *((text, _satisfies_constraint(space, values, text)) for text in where))
    forbidden = tuple(name for name in changed if not _is_permitted(space[name], before, values))
    return WhatIfResult(values, changed, served_model.explainer.is_desired(values), components, forbidden)


def _is_permitted(feature: Feature, before: Mapping[str, Value], after: Mapping[str, Value]) -> bool:
    """Whether the declared role of a feature permits the change of its value."""
    x, point = (np.array([feature.code(values[feature.name])], dtype=np.int32) for values in (before, after))
    limits = list_role_constraints(feature)
    return all(bind_constraint(limit, (feature,))(point[None, :], x)[0] for limit in limits)


def _satisfies_constraint(space: Space, values: Mapping[str, Value], text: str) -> bool:
    point = np.array([[feature.code(values[feature.name]) for feature in space.features]], dtype=np.int32)
    return bool(bind_constraint(parse_constraint(text), space.features)(point, None)[0])


def _satisfies_component(feature: Feature, values: Mapping[str, Value], component: Component) -> bool:
    low, high = find_code_range(feature, component.op, component.value)
    return low <= feature.code(values[feature.name]) <= high


def _build_value_error(feature: Feature, got: str) -> ApiError:
    expected = f"{feature.name!r} must be {feature.describe()}"
    return ApiError(422, "value-outside-domain", expected=expected, got=got)


def parse_typed_value(feature: Feature, text: str) -> Value:
    """A value that was typed, or chosen from a list, in the feature's own type."""
    text = text.strip()
    known = {format_value(feature.value(code), "unquoted"): feature.value(code) for code in range(feature.size)}
    if text in known:
        return known[text]
    if feature.numeric:
        try:
            number = float(text)
        except ValueError:
            raise _build_value_error(feature, format_brief(text)) from None
        return int(number) if number.is_integer() else number
    return text
