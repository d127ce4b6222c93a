"""From a question to an answer that is in the audit log. Every explanation that leaves the server comes from here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from ironrule.counting import counted
from ironrule.errors import InputError, ModelError
from ironrule.explain import Counterfactuals, Explainer, Explanation
from ironrule.report.text import verdict_word, where_it_holds
from ironrule.server.applicants import Applicants, Searches
from ironrule.server.audit import AuditLog, Entry, Record
from ironrule.server.jobs import Job, Jobs
from ironrule.server.parts import constraints_of
from ironrule.server.problem import problem_of
from ironrule.server.settings import Settings
from ironrule.server.subject import Subject
from ironrule.server.twins import Twins

Row = int | Mapping[str, Any]
RecourseAlgorithm = Literal["auto", "exact", "geco"]


@dataclass(frozen=True, slots=True)
class Question:
    """What somebody wants to know about a row, and how to search for it."""

    row: Row
    algorithm: str = "auto"
    k: int = 5
    seed: int = 0
    seconds: float | None = None
    evaluations: int | None = None
    require: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()
    weights: Mapping[str, float] | Literal["paper"] | None = None
    where: tuple[str, ...] = ()  # constraints on what can occur, on top of those that are served
    widen: bool = True


@dataclass(frozen=True, slots=True)
class Recourse:
    """What somebody may change, and how many ways are wanted."""

    row: Row
    k: int = 5
    algorithm: RecourseAlgorithm = "auto"
    features_to_vary: tuple[str, ...] | Literal["all"] = "all"
    permitted_range: Mapping[str, Sequence[Any]] | None = None
    constraints: tuple[str, ...] = ()
    seed: int = 0
    seconds: float | None = None
    evaluations: int | None = None


@dataclass(frozen=True, slots=True)
class Service:
    """Everything that a request may need."""

    subject: Subject
    settings: Settings
    applicants: Applicants
    audit: AuditLog
    jobs: Jobs
    searches: Searches

    def explain(self, question: Question, who: str) -> Job:
        """Start the search for a rule; the job's result is the number of the record."""
        row, asked = self._past(question.row), self._usable(question)
        return self.jobs.start("explanation", lambda job: self._explained(asked, who, job).number, row)

    def counterfactuals(self, recourse: Recourse, who: str) -> Job:
        """Start the search for counterfactuals; the result is the number of the record."""
        row = self._past(recourse.row)
        return self.jobs.start("counterfactuals", lambda job: self._varied(recourse, who, job).number, row)

    def batch(self, rows: Sequence[int], question: Question, who: str) -> Job:
        """Explain many rows, one after the other, equal ones once; the result has a line per row."""
        for row in rows:
            self.applicants.place(row)
        asked = self._usable(question)
        return self.jobs.start("batch", lambda job: self._batch(rows, asked, who, job))

    def check(self, document: Any) -> Job:
        """Check an explanation; nothing is recorded, since nothing is explained."""
        return self.jobs.start("check", lambda _: self.subject.check(document).to_dict())

    def close(self) -> None:
        """End all jobs, and let go of the log."""
        self.jobs.close()
        self.audit.close()

    def _past(self, row: Row) -> int | None:
        if not isinstance(row, int):
            return None
        self.applicants.place(row)
        return row

    def _usable(self, question: Question) -> Question:
        """The question with its constraints, if they can be read; whether anything satisfies them, the job finds."""
        return replace(question, where=constraints_of(question.where, self.subject.space))

    def _explained(self, question: Question, who: str, job: Job) -> Record:
        explainer = self._explainer(question, job)
        return self.audit.append(_explanation_entry(self._explanation(explainer, question, job), question.row, who))

    def _explainer(self, question: Question, job: Job) -> Explainer:
        """The explainer of the part of the space that is asked about."""
        job.progress = replace(job.progress, doing="preparing")
        explainer = self.subject.part(question.where).explainer
        job.progress = replace(job.progress, doing="searching")
        return explainer

    def _explanation(self, explainer: Explainer, question: Question, job: Job) -> Explanation:
        return explainer.explain(
            question.row,
            question.algorithm,
            k=question.k,
            budget=self._budget(question, job),
            seed=question.seed,
            require=question.require,
            forbid=question.forbid,
            weights=question.weights,
            widen=question.widen,
        )

    def _varied(self, recourse: Recourse, who: str, job: Job) -> Record:
        found = self.subject.explainer.counterfactuals(
            recourse.row,
            recourse.k,
            algorithm=recourse.algorithm,
            features_to_vary=recourse.features_to_vary,
            permitted_range=recourse.permitted_range,
            constraints=recourse.constraints,
            budget=self._budget(recourse, job),
            seed=recourse.seed,
        )
        return self.audit.append(self._counterfactuals_entry(found, recourse.row, who))

    def _batch(self, rows: Sequence[int], question: Question, who: str, job: Job) -> list[dict[str, Any]]:
        lines: list[dict[str, Any]] = []
        twins, explainer = Twins(self.applicants, rows), self._explainer(question, job)
        for row in rows:
            job.progress = replace(job.progress, done=len(lines), total=len(rows))
            if job.wish.is_set():
                break
            try:
                found = twins.explained(row, partial(self._explanation, explainer, replace(question, row=row), job))
                record = self.audit.append(_explanation_entry(found, row, who))
                told = {"rule": record.rule, "verdict": record.verdict, "error": None}
                lines.append({"row": row, "explanation": record.number, **told})
            except (InputError, ModelError) as error:
                told = {"rule": None, "verdict": None, "error": problem_of(error).to_dict()["error"]}
                lines.append({"row": row, "explanation": None, **told})
        job.progress = replace(job.progress, done=len(lines), total=len(rows))
        return lines

    def _budget(self, asked: Question | Recourse, job: Job) -> Any:
        limits = self.settings.limits
        seconds = min(asked.seconds or limits.seconds, limits.seconds)
        return job.budget(seconds, min(asked.evaluations or limits.evaluations, limits.evaluations))

    def _counterfactuals_entry(self, found: Counterfactuals, row: Row, who: str) -> Entry:
        said = counted(len(found), "counterfactual")
        verdict = "proven" if found.proven else "found"
        space, number = self.subject.space.fingerprint, row if isinstance(row, int) else None
        model = self.subject.explainer.fingerprint
        return Entry(who, "counterfactuals", number, space, model, said, verdict, found.to_dict())


def _explanation_entry(explanation: Explanation, row: Row, who: str) -> Entry:
    rule, verdict = " ".join([str(explanation.rule), *where_it_holds(explanation)]), verdict_word(explanation.verdict)
    number = row if isinstance(row, int) else None
    document = explanation.to_dict()
    return Entry(who, "explanation", number, explanation.space, explanation.model, rule, verdict, document)
