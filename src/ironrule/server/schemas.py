"""What clients send and get: JSON bodies and responses, as OpenAPI documents them, and the HTML forms of the pages.

Bodies and forms become the same requests to the service.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal, cast
from urllib.parse import urlencode

from fastapi import Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from ironrule.errors import InputError, TableError
from ironrule.explain.counterfactuals.options import ChangeOptions, CounterfactualAlgorithm
from ironrule.explain.options import DEFAULTS, Preference, SearchOptions
from ironrule.model.target import Target
from ironrule.rule.cost import Cost, CostNorm, CostScale, parse_price_texts, parse_step_texts
from ironrule.search.algorithms import AlgorithmChoice
from ironrule.server.applicants import OutcomeFilter, SortOrder
from ironrule.server.auth import check_unicode
from ironrule.server.counterfactuals import CounterfactualsRequest
from ironrule.server.errors import ErrorDetail, format_brief
from ironrule.server.jobs import JobProgress, JobState
from ironrule.server.served_model import MAX_CONSTRAINT_LENGTH, MAX_CONSTRAINTS, RowInput, ServedModel
from ironrule.server.service import ExplainRequest, LadderRequest
from ironrule.space.feature import value_from_json
from ironrule.space.space import Space
from ironrule.verdict.bounded import DEFAULT_CONFIDENCE
from ironrule.verdict.budget import Budget


class RequestBody(BaseModel):
    """Any JSON body: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class DateValue(RequestBody):
    """A date or a time, which JSON has no type for."""

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


def _build_budget(seconds: float | None, evaluations: int | None = None) -> Budget | float | None:
    """What a request asks for; where it says nothing, the default."""
    return DEFAULTS.budget if seconds is None and evaluations is None else Budget(evaluations, seconds)


Price = Annotated[float, Field(ge=0)] | Literal["inf"]


class PriceBody(RequestBody):
    """What a unit of distance costs upwards, and downwards."""

    up: Price = 1.0
    down: Price = 1.0


class CostBody(RequestBody):
    """What changes cost; "inf" as a price forbids a change."""

    norm: CostNorm = "fewest"
    scale: CostScale = "range"
    prices: Annotated[dict[str, Price | PriceBody], Field(max_length=256)] = Field({})
    steps: Annotated[dict[str, float], Field(max_length=256)] = Field({}, description="whole multiples only")
    per_change: float = Field(0.0, ge=0, description="what every changed feature costs besides, with l1")


def _build_cost(cost: CostNorm | CostBody) -> Cost:
    """The cost in the engine's terms."""
    return Cost.from_dict(cost.model_dump()) if isinstance(cost, CostBody) else Cost(cost)


class SearchOptionsBody(RequestBody):
    """How to search for a rule, and which rules are wanted."""

    algorithm: AlgorithmChoice = cast(AlgorithmChoice, DEFAULTS.algorithm)
    k: int = Field(DEFAULTS.k, ge=1, le=50, description="how many rules at the most")
    seed: int = Field(DEFAULTS.seed, ge=0, le=2**62)
    seconds: float | None = Field(None, gt=0, le=86400, description="30 by default; no more than the server allows")
    evaluations: int | None = Field(None, gt=0, le=2**62, description="no more than the server allows")
    require: FeatureNames = Field([], description="features, or components such as 'age <=', that the rule must use")
    forbid: FeatureNames = Field([], description="features or components that it must not use")
    weights: Annotated[dict[str, float], Field(max_length=256)] | Literal["paper"] | None = None
    where: ConstraintList = Field([], description="explain only where these hold, such as 'cf.age >= 60'")
    widen: bool = Field(DEFAULTS.widen, description="move the bounds of a proven rule as far as they go")
    prefer: Preference = Field(DEFAULTS.prefer, description="the shortest rule, or one that covers most past rows")
    change_cost: CostNorm | CostBody = Field("fewest", description="what nearest means for suggested changes")

    def to_request(self, row: RowInput) -> ExplainRequest:
        """The request in the service's terms."""
        said = ("budget", "change_cost")  # otherwise
        given = {name: getattr(self, name) for name in SearchOptions.__slots__ if name not in said}
        budget, cost = _build_budget(self.seconds, self.evaluations), _build_cost(self.change_cost)
        options = SearchOptions(**given, budget=budget, change_cost=cost)
        return ExplainRequest(row, options, tuple(self.where))


class ExplainBody(SearchOptionsBody):
    """One row to explain: a row number of the data, or a row by itself."""

    row: RowNumber | RowValues


class LadderBody(ExplainBody):
    """One row to explain by short rules, each with a bound on its exceptions, and by the whole rule."""

    most: int = Field(6, ge=1, le=16, description="components of short rules, at the most")
    nested: bool = Field(True, description="every short rule is part of the next; false: the best rule of each length")
    at_least: float | None = Field(
        None, gt=0, lt=1, description="read first: the shortest rule for this share of people"
    )
    confidence: float = Field(DEFAULT_CONFIDENCE, gt=0, lt=1, description="with which all bounds hold together")

    def to_ladder_request(self) -> LadderRequest:
        """The request in the service's terms."""
        asked = self.to_request(convert_row(self.row))
        return LadderRequest(asked, self.most, self.nested, self.at_least, self.confidence)


class BatchBody(SearchOptionsBody):
    """Rows to explain, one after the other."""

    rows: list[RowNumber] = Field(min_length=1, max_length=100_000)


class TargetBody(RequestBody):
    """What is to be reached: classes, a score above a number, one up to a number, or both."""

    desired: Annotated[list[JsonValue], Field(min_length=1, max_length=256)] | None = None
    above: float | None = None
    at_most: float | None = None

    def to_target(self) -> Target:
        """The target in the engine's terms."""
        labels = None if self.desired is None else [convert_value(value) for value in self.desired]
        return Target(labels, self.above, self.at_most)


class CounterfactualsBody(RequestBody):
    """What may change, and how many ways are wanted."""

    row: RowNumber | RowValues
    k: int = Field(DEFAULTS.k, ge=1, le=50)
    algorithm: CounterfactualAlgorithm = "auto"
    features_to_vary: FeatureNames | Literal["all"] = "all"
    permitted_range: Annotated[dict[str, list[JsonValue]], Field(max_length=256)] = Field({})
    constraints: FeatureNames = Field([], description="such as 'cf.age >= x.age'")
    cost: CostNorm | CostBody = Field("fewest", description="what nearest means")
    target: TargetBody | None = Field(None, description="what to reach, if not the desired outcome")
    margin: float = Field(0.0, ge=0, allow_inf_nan=False)
    region: bool = Field(False, description="ranges around the first counterfactual in which any value would do")
    menu: bool = Field(False, description="all minimal sets of features to change")
    seed: int = Field(DEFAULTS.seed, ge=0, le=2**62)
    seconds: float | None = Field(None, gt=0, le=86400)
    evaluations: int | None = Field(None, gt=0, le=2**62)

    def to_request(self) -> CounterfactualsRequest:
        """The request in the service's terms."""
        vary = self.features_to_vary
        ranges = {name: [convert_value(value) for value in values] for name, values in self.permitted_range.items()}
        return CounterfactualsRequest(
            convert_row(self.row),
            SearchOptions(k=self.k, seed=self.seed, budget=_build_budget(self.seconds, self.evaluations)),
            ChangeOptions(
                algorithm=self.algorithm,
                features_to_vary=vary,
                permitted_range=ranges,
                constraints=self.constraints,
                cost=_build_cost(self.cost),
                target=None if self.target is None else self.target.to_target(),
                margin=self.margin,
            ),
            region=self.region,
            menu=self.menu,
        )


class CheckBody(RequestBody):
    """An explanation as explain gives it, or a ladder."""

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
    kind: Literal["explanation", "ladder", "counterfactuals"]
    row: int | None
    recorded_at: str
    document: dict[str, Any] = Field(
        description="the explanation, certificate and all, the ladder, or the counterfactuals with what was asked, "
        "their measures, region, menu and infeasibility, and what is unfinished"
    )


class JobResponse(BaseModel):
    """A job. When it has ended, ``result`` is the number of a record, or for a batch a line per row."""

    job: str
    kind: str
    row: int | None
    state: JobState
    progress: JobProgress
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


Lines = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda texts: [line.strip() for text in texts for line in text.splitlines() if line.strip()]),
]


class ExplainForm(BaseModel):
    """How to explain; ``where``, ``change_prices`` and ``change_steps`` have one constraint, price or step per line."""

    algorithm: AlgorithmChoice = cast(AlgorithmChoice, DEFAULTS.algorithm)
    seconds: float | None = Field(None, gt=0, le=86400)
    require: FeatureNames = Field([])
    forbid: FeatureNames = Field([])
    where: Lines = ()
    keep_bounds: bool = Field(False, description="do not widen the rule")
    prefer: Preference = DEFAULTS.prefer
    change_cost: CostNorm = "fewest"
    change_scale: CostScale = "range"
    change_prices: Lines = ()
    change_steps: Lines = ()

    def to_request(self, row: int) -> ExplainRequest:
        """The request in the service's terms."""
        options = SearchOptions(
            algorithm=self.algorithm,
            budget=_build_budget(self.seconds),
            require=self.require,
            forbid=self.forbid,
            widen=not self.keep_bounds,
            prefer=self.prefer,
            change_cost=Cost(
                self.change_cost,
                self.change_scale,
                parse_price_texts(self.change_prices),
                parse_step_texts(self.change_steps),
            ),
        )
        return ExplainRequest(row, options, self.where)


class SearchForm(BaseModel):
    """What is searched for, and how the list is sorted; ``column``, ``operator`` and ``value`` add one condition."""

    text: str = Field("", max_length=400)
    outcome: OutcomeFilter = "any"
    sort: str = Field("row", max_length=250)
    order: SortOrder = "ascending"
    column: str = Field("", max_length=200)
    operator: Literal["=", "!=", ">=", "<="] = "="
    value: str = Field("", max_length=200)

    def build_text(self) -> str:
        """The whole search."""
        more = f"{self.column} {self.operator} {self.value.strip()}" if self.column else ""
        return " and ".join(filter(None, (self.text.strip(), more)))

    def build_query(self) -> str:
        """The address of the list without a search; no value is in it."""
        return f"/applicants?{urlencode({'outcome': self.outcome, 'sort': self.sort, 'order': self.order})}"


class BatchForm(BaseModel):
    """Which applicants to explain: all with the undesired outcome, or those of a search; not more than so many."""

    search: str = Field("", max_length=64)
    most: Annotated[int | None, BeforeValidator(lambda text: text or None), Field(ge=1, le=100_000)] = None
    seconds: Annotated[float | None, BeforeValidator(lambda text: text or None), Field(gt=0, le=86400)] = None

    def to_request(self) -> ExplainRequest:
        """The request in the service's terms; the rows come from the search."""
        return ExplainRequest(0, SearchOptions(budget=_build_budget(self.seconds)))


class CounterfactualsForm(BaseModel):
    """The features that must not change; constraints on changes, prices and steps, one per line; what to reach."""

    algorithm: CounterfactualAlgorithm = "auto"
    seconds: float | None = Field(None, gt=0, le=86400)
    fixed: list[str] = Field([])
    constraints: Lines = ()
    cost: CostNorm = "fewest"
    scale: CostScale = "range"
    prices: Lines = ()
    steps: Lines = ()
    reach: int | None = Field(None, ge=0, description="the place of a class among those of the model")
    above: float | None = Field(None, allow_inf_nan=False)
    at_most: float | None = Field(None, allow_inf_nan=False)
    menu: bool = Field(False, description="all minimal sets of features to change, too")

    def to_request(self, row: int, served_model: ServedModel) -> CounterfactualsRequest:
        """The request in the service's terms."""
        target = self._build_target(served_model.classes)
        return CounterfactualsRequest(
            row,
            SearchOptions(budget=_build_budget(self.seconds)),
            ChangeOptions(
                algorithm=self.algorithm,
                features_to_vary=self._list_varying(served_model.space) if self.fixed else "all",
                constraints=self.constraints,
                cost=Cost(self.cost, self.scale, parse_price_texts(self.prices), parse_step_texts(self.steps)),
                target=target,
            ),
            region=True,
            menu=self.menu,
        )

    def _list_varying(self, space: Space) -> tuple[str, ...]:
        """All features but the fixed ones, and those that must not change by their declared role."""
        movable = (one for one in space.features if one.role is None or one.role.kind == "actionable")
        return tuple(one.name for one in movable if one.name not in self.fixed)

    def _build_target(self, classes: Sequence[Any]) -> Target | None:
        if self.reach is not None and self.reach >= len(classes):
            expected = "reach must be the place of a class among those of the model"
            raise InputError(expected=expected, got=str(self.reach), hint="choose from the list", code="bad-target")
        label = None if self.reach is None else classes[self.reach]
        if label is None and self.above is None and self.at_most is None:
            return None
        return Target(label, self.above, self.at_most)


MAX_FIELDS = 10_000  # of a form: the form for a what-if has one per feature


async def read_form(request: Request, max_bytes: int) -> dict[str, str]:
    """The fields of a form that may be long: FastAPI's own ``Form`` allows 1,000 fields of 1 MB at most."""
    async with request.form(max_fields=MAX_FIELDS, max_part_size=max_bytes) as fields:
        return {name: value.strip() for name, value in fields.items() if isinstance(value, str)}


def parse_number(text: str) -> int | None:
    """The number of a record, or None."""
    return int(text) if text.isdecimal() and len(text) < 19 else None


def parse_pasted_explanation(text: str) -> Any:
    """An explanation from a text field."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        pasted = format_brief(text)
        raise InputError(expected="an explanation must be JSON", got=pasted, hint="paste the whole file") from None
    check_unicode(found)
    return found
