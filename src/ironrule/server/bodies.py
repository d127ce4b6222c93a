"""What the API takes and gives, as OpenAPI documents it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from ironrule.errors import TableError
from ironrule.server.answering import Question, Recourse, RecourseAlgorithm, Row
from ironrule.server.parts import LONGEST_CONSTRAINT, MOST_CONSTRAINTS
from ironrule.server.problem import ErrorDetail, brief
from ironrule.space.plain import from_plain

Algorithm = Literal["auto", "minimum", "greedy_cf", "genetic_cf", "genetic", "min_set_cover", "anchor"]


class Date(BaseModel):
    """A date or a time, which JSON has no type for."""

    model_config = ConfigDict(extra="forbid")

    date: str = Field(max_length=40, description="such as 2024-12-31")


Plain = Annotated[StrictBool | StrictInt | StrictFloat | StrictStr | Date | None, Field(description="null: missing")]
Names = Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=256)]
Constraints = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=LONGEST_CONSTRAINT)]], Field(max_length=MOST_CONSTRAINTS)
]
Number = Annotated[int, Field(ge=0, le=2**62, strict=True, description="a row number, from 0")]
Given = Annotated[dict[str, Plain], Field(max_length=1000, description="a row by column: value")]


class Body(BaseModel):
    """Anything that comes in: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class Search(Body):
    """How to search for a rule, and which rules are wanted."""

    algorithm: Algorithm = "auto"
    k: int = Field(5, ge=1, le=50, description="how many rules at the most")
    seed: int = Field(0, ge=0, le=2**62)
    seconds: float | None = Field(None, gt=0, le=86400, description="no more than the server allows")
    evaluations: int | None = Field(None, gt=0, le=2**62, description="no more than the server allows")
    require: Names = Field([], description="features, or components such as 'age <=', that the rule must use")
    forbid: Names = Field([], description="features or components that it must not use")
    weights: Annotated[dict[str, float], Field(max_length=256)] | Literal["paper"] | None = None
    where: Constraints = Field([], description="explain only where these hold, such as 'cf.age >= 60'")
    widen: bool = Field(True, description="move the bounds of a proven rule as far as they go")

    def question(self, row: Row) -> Question:
        """The question in the service's terms."""
        said = {name: getattr(self, name) for name in Search.model_fields}
        return Question(row, **said | {name: tuple(said[name]) for name in ("require", "forbid", "where")})


class ExplainBody(Search):
    """One row to explain: a row number of the data, or a row by itself."""

    row: Number | Given


class BatchBody(Search):
    """Rows to explain, one after the other."""

    rows: list[Number] = Field(min_length=1, max_length=100_000)


class CounterfactualsBody(Body):
    """What may change, and how many ways are wanted."""

    row: Number | Given
    k: int = Field(5, ge=1, le=50)
    algorithm: RecourseAlgorithm = "auto"
    features_to_vary: Names | Literal["all"] = "all"
    permitted_range: Annotated[dict[str, list[Plain]], Field(max_length=256)] = Field({})
    constraints: Names = Field([], description="such as 'cf.age >= x.age'")
    seed: int = Field(0, ge=0, le=2**62)
    seconds: float | None = Field(None, gt=0, le=86400)
    evaluations: int | None = Field(None, gt=0, le=2**62)

    def recourse(self) -> Recourse:
        """The question in the service's terms."""
        vary = self.features_to_vary
        ranges = {name: [plain(value) for value in values] for name, values in self.permitted_range.items()}
        return Recourse(
            row_of(self.row),
            self.k,
            self.algorithm,
            vary if vary == "all" else tuple(vary),
            ranges,
            tuple(self.constraints),
            self.seed,
            self.seconds,
            self.evaluations,
        )


class CheckBody(Body):
    """An explanation, as explain gives it."""

    explanation: dict[str, Any]


class WhatIfBody(Body):
    """A past row, what to change, and the number of an explanation whose rule to try on it."""

    row: Number
    changes: Given = Field({})
    explanation: int | None = Field(None, ge=1, le=2**62)


class SearchBody(Body):
    """Conditions such as ``age >= 40 and job = cook``, or a word among the values."""

    text: str = Field(min_length=1, max_length=200)


class SearchAnswer(BaseModel):
    """Where a search can be looked at."""

    search: str
    total: int


class Explained(BaseModel):
    """An answer with its record in the audit log."""

    number: int = Field(description="of the record in the audit log")
    hash: str = Field(description="of that record")
    kind: Literal["explanation", "counterfactuals"]
    row: int | None
    at: str
    document: dict[str, Any] = Field(description="the explanation, certificate and all, or the counterfactuals")


class JobProgress(BaseModel):
    """How far a job is."""

    seconds: float
    evaluations: int
    candidates: int
    oracle_calls: int
    best: float | None = Field(description="what the best rule so far weighs; it may not be proven yet")
    at_least: float = Field(description="no rule weighs less")
    doing: Literal["preparing", "searching"] = Field(description="preparing: a part of the space that is new")
    done: int
    total: int


class JobAnswer(BaseModel):
    """A job. When it has ended, ``result`` is the number of a record, or of a batch a line per row."""

    job: str
    kind: str
    row: int | None
    state: Literal["waiting", "running", "done", "failed", "cancelled"]
    progress: JobProgress
    result: Any
    error: ErrorDetail | None


def plain(value: Any) -> Any:
    """A value in the user's terms; raises TableError for a date that is none."""
    if not isinstance(value, Date):
        return value
    try:
        return from_plain({"date": value.date})
    except ValueError:
        raise TableError(expected="a date must be written as 2024-12-31", got=brief(value.date)) from None


def row_of(row: int | dict[str, Any]) -> Row:
    """A row number, or the row's values."""
    return row if isinstance(row, int) else {name: plain(value) for name, value in row.items()}
