"""What clients send and get: JSON bodies and responses, as OpenAPI documents them, and the HTML forms of the pages.

Forms are URL-encoded bodies, parsed without python-multipart. Both kinds become the same requests to the service.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, cast, get_args
from urllib.parse import parse_qs

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from ironrule.errors import InputError, TableError
from ironrule.explain.options import DEFAULTS, SearchOptions
from ironrule.search.algorithms import ALGORITHM_CHOICES, AlgorithmChoice
from ironrule.server.errors import ErrorDetail, format_brief
from ironrule.server.served_model import MAX_CONSTRAINT_LENGTH, MAX_CONSTRAINTS
from ironrule.server.service import (
    CounterfactualAlgorithm,
    CounterfactualsRequest,
    ExplainRequest,
    RowInput,
    parse_typed_value,
)
from ironrule.space.feature import value_from_json
from ironrule.space.space import Space
from ironrule.verdict.budget import Budget


class DateValue(BaseModel):
    """A date or a time, which JSON has no type for."""

    model_config = ConfigDict(extra="forbid")

    date: str = Field(max_length=40, description="such as 2024-12-31")


JsonValue = Annotated[
    StrictBool | StrictInt | StrictFloat | StrictStr | DateValue | None, Field(description="null: missing")
]

FeatureNames = Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=256)]

ConstraintList = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=MAX_CONSTRAINT_LENGTH)]], Field(max_length=MAX_CONSTRAINTS)
]

RowNumber = Annotated[int, Field(ge=0, le=2**62, strict=True, description="a row number, from 0")]
RowValues = Annotated[dict[str, JsonValue], Field(max_length=1000, description="a row by column: value")]


class RequestBody(BaseModel):
    """Anything that comes in: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class SearchOptionsBody(RequestBody):
    """How to search for a rule, and which rules are wanted."""

    algorithm: AlgorithmChoice = cast(AlgorithmChoice, DEFAULTS.algorithm)
    k: int = Field(DEFAULTS.k, ge=1, le=50, description="how many rules at the most")
    seed: int = Field(DEFAULTS.seed, ge=0, le=2**62)
    seconds: float | None = Field(None, gt=0, le=86400, description="no more than the server allows")
    evaluations: int | None = Field(None, gt=0, le=2**62, description="no more than the server allows")
    require: FeatureNames = Field([], description="features, or components such as 'age <=', that the rule must use")
    forbid: FeatureNames = Field([], description="features or components that it must not use")
    weights: Annotated[dict[str, float], Field(max_length=256)] | Literal["paper"] | None = None
    where: ConstraintList = Field([], description="explain only where these hold, such as 'cf.age >= 60'")
    widen: bool = Field(DEFAULTS.widen, description="move the bounds of a proven rule as far as they go")

    def to_request(self, row: RowInput) -> ExplainRequest:
        """The request in the service's terms."""
        given = {name: getattr(self, name) for name in SearchOptions.__slots__ if name != "budget"}
        options = SearchOptions(**given, budget=Budget(self.evaluations, self.seconds))
        return ExplainRequest(row, options, tuple(self.where))


class ExplainBody(SearchOptionsBody):
    """One row to explain: a row number of the data, or a row by itself."""

    row: RowNumber | RowValues


class BatchBody(SearchOptionsBody):
    """Rows to explain, one after the other."""

    rows: list[RowNumber] = Field(min_length=1, max_length=100_000)


class CounterfactualsBody(RequestBody):
    """What may change, and how many ways are wanted."""

    row: RowNumber | RowValues
    k: int = Field(DEFAULTS.k, ge=1, le=50)
    algorithm: CounterfactualAlgorithm = "auto"
    features_to_vary: FeatureNames | Literal["all"] = "all"
    permitted_range: Annotated[dict[str, list[JsonValue]], Field(max_length=256)] = Field({})
    constraints: FeatureNames = Field([], description="such as 'cf.age >= x.age'")
    seed: int = Field(DEFAULTS.seed, ge=0, le=2**62)
    seconds: float | None = Field(None, gt=0, le=86400)
    evaluations: int | None = Field(None, gt=0, le=2**62)

    def to_request(self) -> CounterfactualsRequest:
        """The request in the service's terms."""
        vary = self.features_to_vary
        ranges = {name: [convert_value(value) for value in values] for name, values in self.permitted_range.items()}
        return CounterfactualsRequest(
            convert_row(self.row),
            SearchOptions(k=self.k, seed=self.seed, budget=Budget(self.evaluations, self.seconds)),
            algorithm=self.algorithm,
            features_to_vary=vary if vary == "all" else tuple(vary),
            permitted_range=ranges,
            constraints=tuple(self.constraints),
        )


class CheckBody(RequestBody):
    """An explanation, as explain gives it."""

    explanation: dict[str, Any]


class WhatIfBody(RequestBody):
    """A past row, what to change, and the number of an explanation whose rule to try on it."""

    row: RowNumber
    changes: RowValues = Field({})
    explanation: int | None = Field(None, ge=1, le=2**62)


class ApplicantSearchBody(RequestBody):
    """Conditions such as ``age >= 40 and job = cook``, or a word among the values."""

    text: str = Field(min_length=1, max_length=200)


class ApplicantSearchResponse(BaseModel):
    """Where a search can be looked at."""

    search: str
    total: int


class RecordResponse(BaseModel):
    """An answer with its record in the audit log."""

    number: int = Field(description="of the record in the audit log")
    hash: str = Field(description="of that record")
    kind: Literal["explanation", "counterfactuals"]
    row: int | None
    recorded_at: str
    document: dict[str, Any] = Field(description="the explanation, certificate and all, or the counterfactuals")


class JobProgressResponse(BaseModel):
    """How far a job is."""

    seconds: float
    evaluations: int
    candidates: int
    oracle_calls: int
    best_weight: float | None = Field(description="what the best rule so far weighs; it may not be proven yet")
    lower_bound: float = Field(description="no rule weighs less")
    phase: Literal["preparing", "searching"] = Field(description="preparing: a new subspace")
    rows_done: int = Field(description="of a batch")
    rows_total: int


class JobResponse(BaseModel):
    """A job. When it has ended, ``result`` is the number of a record, or of a batch a line per row."""

    job: str
    kind: str
    row: int | None
    state: Literal["waiting", "running", "done", "failed", "cancelled"]
    progress: JobProgressResponse
    result: Any
    error: ErrorDetail | None


def convert_value(value: Any) -> Any:
    """A value in the user's terms; raises TableError for a date that is none."""
    if not isinstance(value, DateValue):
        return value
    try:
        return value_from_json({"date": value.date})
    except ValueError:
        raise TableError(expected="a date must be written as 2024-12-31", got=format_brief(value.date)) from None


def convert_row(row: int | dict[str, Any]) -> RowInput:
    """A row number, or the row's values."""
    return row if isinstance(row, int) else {name: convert_value(value) for name, value in row.items()}


MAX_FIELDS = 2000
FormFields = Mapping[str, Sequence[str]]


async def read_form(request: Request) -> FormFields:
    """The fields of a form."""
    try:
        return parse_qs((await request.body()).decode("utf-8"), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:  # no UTF-8, or too many fields
        raise InputError(f"the form is not UTF-8 or has more than {MAX_FIELDS:,} fields") from None


def get_field(fields: FormFields, name: str, default: str = "") -> str:
    """A field that comes once."""
    return fields.get(name, [default])[-1].strip()


def parse_explain_form(fields: FormFields, row: int) -> ExplainRequest:
    """How to explain."""
    algorithm = get_field(fields, "algorithm", "auto")
    if algorithm not in ALGORITHM_CHOICES:
        raise _build_algorithm_error(algorithm, ALGORITHM_CHOICES)
    return ExplainRequest(
        row,
        SearchOptions(
            algorithm=algorithm,
            budget=Budget(seconds=_parse_seconds(get_field(fields, "seconds"))),
            require=fields.get("require", ()),
            forbid=fields.get("forbid", ()),
            widen=get_field(fields, "keep_bounds") != "yes",
        ),
        _split_lines(get_field(fields, "where")),
    )


def parse_counterfactuals_form(fields: FormFields, row: int) -> CounterfactualsRequest:
    """What may change."""
    fixed = set(fields.get("fixed", ()))
    vary = tuple(name for name in fields.get("feature", ()) if name not in fixed)
    algorithm = get_field(fields, "algorithm", "auto")
    if algorithm not in get_args(CounterfactualAlgorithm):
        raise _build_algorithm_error(algorithm, get_args(CounterfactualAlgorithm))
    return CounterfactualsRequest(
        row,
        SearchOptions(budget=Budget(seconds=_parse_seconds(get_field(fields, "seconds")))),
        algorithm=cast(CounterfactualAlgorithm, algorithm),
        features_to_vary=vary if fixed else "all",
        constraints=_split_lines(get_field(fields, "constraints")),
    )


def parse_what_if_form(fields: FormFields, space: Space) -> dict[str, Any]:
    """The values of the what-if form, one field per feature: its position."""
    given = {f"f{place}": feature for place, feature in enumerate(space.features)}
    return {
        given[name].name: parse_typed_value(given[name], get_field(fields, name)) for name in fields if name in given
    }


def parse_check_form(fields: FormFields) -> Any:
    """An explanation that was pasted."""
    try:
        return json.loads(get_field(fields, "explanation"))
    except (ValueError, RecursionError):
        pasted = format_brief(get_field(fields, "explanation"))
        raise InputError(expected="an explanation must be JSON", got=pasted, hint="paste the whole file") from None


def _split_lines(text: str) -> tuple[str, ...]:
    """The lines of a text that have something in them."""
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def _build_algorithm_error(algorithm: str, known: Sequence[str]) -> InputError:
    return InputError(
        expected=f"the algorithm must be one of {', '.join(known)}",
        got=format_brief(algorithm),
        code="unknown-algorithm",
    )


def _parse_seconds(text: str) -> float | None:
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        raise InputError(expected="seconds must be a number", got=format_brief(text)) from None
    if not 0 < seconds < float("inf"):
        raise InputError(expected="seconds must be a positive number", got=format_brief(text))
    return seconds
