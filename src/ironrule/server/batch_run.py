"""The work on a batch: many rows, one after the other, equal ones once, each recorded in the audit log.

As in :meth:`ironrule.Explainer.explain_many`, an explanation is kept only as long as a later row of the same batch
needs it, because both batches and proofs may be long.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ironrule.errors import InputError, ModelError
from ironrule.explain.explainer import Explainer
from ironrule.results.explanation import Explanation
from ironrule.server.applicants import Applicants
from ironrule.server.batches import BatchResults
from ironrule.server.errors import ApiError, to_api_error
from ironrule.server.jobs import UNFINISHED, Job
from ironrule.server.service import ExplainRequest, Service, build_explanation_entry
from ironrule.wording import format_count


def start_batch(
    service: Service, rows: Sequence[int], request: ExplainRequest, who: str, title: str | None = None
) -> Job:
    """Explain many rows, one after the other, equal ones once; the result has a line per row. Raises a 413 for too many
    rows.
    """
    most = service.settings.limits.batch_rows
    if len(rows) > most:
        expected = f"a batch must have at most {most:,} rows"
        raise ApiError(413, "too-large", expected=expected, got=f"{len(rows):,}", hint="split it")
    for row in rows:
        service.applicants.find_position(row)
    asked = service.validate_request(request)
    results = BatchResults(title or format_count(len(rows), "applicant"), tuple(rows), who, constraints=asked.where)
    job = service.jobs.start("batch", BatchRun(service, asked, results).explain_next, who, by_rows=True)
    service.batches.add(job.name, results)
    return job


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


class BatchRun:
    """A batch on its way: explains one row a call, so that other jobs have their turn in between."""

    def __init__(self, service: Service, request: ExplainRequest, results: BatchResults) -> None:
        self._service, self._request, self._results = service, request, results
        self._rows = results.rows
        self._equal_rows = EqualRows(service.applicants, results.rows)
        self._explainer: Explainer | None = None
        self._seconds_left = service.settings.limits.batch_seconds

    def explain_next(self, job: Job) -> Any:
        """Explain the next row; gives a line per row at the end, also where the batch is cancelled or out of time."""
        started = time.monotonic()
        job.progress = replace(job.progress, rows_total=len(self._rows))
        if self._explainer is None:
            self._explainer = self._service.prepare_explainer(self._request, job)
        lines = self._results.lines
        if not job.cancel_requested.is_set():
            self._explain_row(self._rows[len(lines)], self._explainer, job)
            self._seconds_left -= time.monotonic() - started
            if self._seconds_left <= 0:
                for row in self._rows[len(lines) :]:
                    self._results.add(self._build_late_line(row))
        job.progress = replace(job.progress, rows_done=len(lines))
        finished = job.cancel_requested.is_set() or len(lines) == len(self._rows)
        return lines if finished else UNFINISHED

    def _explain_row(self, row: int, explainer: Explainer, job: Job) -> None:
        request, seconds = replace(self._request, row=row), self._seconds_left
        try:
            found = self._equal_rows.explain_once(row, lambda: self._service.explain(explainer, request, job, seconds))
        except (InputError, ModelError) as error:
            self._results.add(_build_error_line(row, to_api_error(error)))
            return
        record = self._service.audit.append(build_explanation_entry(found, row, self._results.who))
        told = {"rule": record.rule, "verdict": record.verdict, "error": None}
        applicants = self._service.applicants
        point = tuple(applicants.codes.row(applicants.find_position(row)).tolist())
        self._results.add({"row": row, "explanation": record.number, **told}, point, found)

    def _build_late_line(self, row: int) -> dict[str, Any]:
        limit = self._service.settings.limits.batch_seconds
        statement = f"the batch has used the {limit:g} s that it may take"
        return _build_error_line(row, ApiError(503, "batch-timeout", statement, hint="send the remaining rows again"))


def _build_error_line(row: int, error: ApiError) -> dict[str, Any]:
    return {"row": row, "explanation": None, "rule": None, "verdict": None, "error": error.to_dict()["error"]}
