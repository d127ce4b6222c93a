"""Fields of a PMML file: from a table's values to the columns that its models look at.

A :class:`FieldPlan` lists columns, each by how it is computed: a data field read and treated as a mining schema says
(:class:`InputColumn`), a derived field (:class:`DerivedColumn`), or what a model of a chain answers
(:class:`AnswerColumn`), which the models themselves compute. Columns of numbers are float64 with NaN where missing;
columns of texts hold texts, and None where missing.

By the specification, a value is first looked at for being missing, then for being invalid, then for being an outlier;
what was made missing by that gets the replacement of missing values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ironrule.arrays import AnyArray, BoolArray
from ironrule.errors import ModelError, describe_value
from ironrule.model.pmml.document import Element
from ironrule.space.feature import is_missing

NUMBER_TYPES = ("integer", "float", "double")
TRUE_TEXTS, FALSE_TEXTS = ("true", "1", "1.0"), ("false", "0", "0.0")


@dataclass(frozen=True, slots=True)
class Interval:
    """A range of numbers; ends that are left out are infinite."""

    low: float
    high: float
    low_open: bool
    high_open: bool

    def contains(self, numbers: AnyArray) -> BoolArray:
        """Which numbers lie inside; missing ones do not."""
        above = numbers > self.low if self.low_open else numbers >= self.low
        below = numbers < self.high if self.high_open else numbers <= self.high
        return np.asarray(above & below, dtype=np.bool_)


def read_interval(element: Element) -> Interval:
    """The range that an element Interval says."""
    closure = element.require_value("closure", "closedClosed", "openOpen", "openClosed", "closedOpen")
    low = element.get_number("leftMargin", -math.inf)
    high = element.get_number("rightMargin", math.inf)
    return Interval(low, high, closure.startswith("open"), closure.endswith("Open"))


@dataclass(frozen=True, slots=True)
class FieldType:
    """The type of a field: numbers, in single precision for ``float``, or texts; truth values are texts, true or false.

    A field of the type ``integer`` takes fractions as they are, so that no number stands apart from its neighbours.
    """

    name: str

    @property
    def is_number(self) -> bool:
        """Whether values are numbers."""
        return self.name in NUMBER_TYPES

    def parse(self, text: str, element: Element) -> float | str:
        """A value that the file gives, as values of the field are compared."""
        if not self.is_number:
            return self._to_truth(text) or text if self.name == "boolean" else text
        return float(self.round(np.array([element.parse_number(text, "the value")]))[0])

    def round(self, numbers: AnyArray) -> AnyArray:
        """Numbers in the field's precision."""
        if self.name != "float":
            return numbers
        with np.errstate(over="ignore"):
            return numbers.astype(np.float32).astype(np.float64)

    def read(self, values: AnyArray) -> tuple[AnyArray, BoolArray]:
        """A table's values as the field holds them, and which of these are no value of the type."""
        if self.is_number:
            numbers, wrong = _read_numbers(values)
            return self.round(numbers), wrong | np.isinf(numbers)
        texts = np.empty(len(values), dtype=object)
        texts[:] = [None if is_missing(value) else _write_text(value) for value in values.tolist()]
        if self.name != "boolean":
            return texts, np.zeros(len(values), dtype=np.bool_)
        truths = [None if text is None else self._to_truth(text) for text in texts]
        wrong = np.array([text is not None and truth is None for text, truth in zip(texts, truths, strict=True)], bool)
        texts[:] = truths
        return texts, wrong

    @staticmethod
    def _to_truth(text: str) -> str | None:
        lowered = text.lower()
        return "true" if lowered in TRUE_TEXTS else "false" if lowered in FALSE_TEXTS else None


def _read_numbers(values: AnyArray) -> tuple[AnyArray, BoolArray]:
    if values.dtype.kind in "biuf":
        return values.astype(np.float64), np.zeros(len(values), dtype=np.bool_)
    numbers, wrong = np.full(len(values), np.nan), np.zeros(len(values), dtype=np.bool_)
    for row, value in enumerate(values.tolist()):
        if is_missing(value):
            continue
        try:
            numbers[row] = float(value)
        except (TypeError, ValueError):
            wrong[row] = True
    return numbers, wrong


def _write_text(value: Any) -> str:
    """A value as a file writes it: whole numbers without a fraction."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)


def read_type(element: Element, name: str | None = None) -> FieldType:
    """The type that a field says; raises InputError for dates and the like."""
    name = element.get("dataType", "double") if name is None else name
    if name not in (*NUMBER_TYPES, "string", "boolean"):
        element.refuse(f"has dataType={describe_value(name)}; numbers, texts and truth values are read")
    return FieldType(str(name))


def find_missing(values: AnyArray) -> BoolArray:
    """Which values of a column are missing."""
    if values.dtype == object:
        return np.array([value is None for value in values], dtype=np.bool_)
    return np.asarray(np.isnan(values), dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class DataField:
    """A field of the data dictionary: its type, and which of its values are valid, invalid or missing."""

    name: str
    type: FieldType
    valid: frozenset[Any]
    invalid: frozenset[Any]
    missing: frozenset[Any]
    intervals: tuple[Interval, ...]
    values: tuple[Any, ...]  # the valid ones in their order

    def find_invalid(self, values: AnyArray) -> BoolArray:
        """Which values are not valid; missing ones are neither."""
        bad = np.zeros(len(values), dtype=np.bool_)
        if self.intervals:
            bad |= ~np.any([interval.contains(values) for interval in self.intervals], axis=0)
        if self.valid and not self.intervals:
            bad |= np.array([value not in self.valid for value in values.tolist()], dtype=np.bool_)
        if self.invalid:
            bad |= np.array([value in self.invalid for value in values.tolist()], dtype=np.bool_)
        return bad & ~find_missing(values)


def read_data_field(element: Element) -> DataField:
    """A field of the data dictionary."""
    element.require_only("Value", "Interval")
    kind = read_type(element, element.require("dataType"))
    listed: dict[str, list[Any]] = {"valid": [], "invalid": [], "missing": []}
    for value in element.find_all("Value"):
        place = value.require_value("property", "valid", "invalid", "missing")
        text = value.require("value")
        try:
            listed[place].append(kind.parse(text, value))
        except ValueError:
            if place == "valid":
                raise
            listed[place].append(text)
    if element.get("isCyclic", "0") not in ("0", "false"):
        element.refuse("is cyclic, which is not understood")
    intervals = tuple(map(read_interval, element.find_all("Interval")))
    sets = {place: frozenset(values) for place, values in listed.items()}
    return DataField(
        name=element.require("name"),
        type=kind,
        valid=sets["valid"],
        invalid=sets["invalid"],
        missing=sets["missing"],
        intervals=intervals,
        values=tuple(listed["valid"]),
    )


@dataclass(frozen=True, slots=True)
class Treatment:
    """What a mining schema does to a field."""

    replacement: Any = None  # of missing values; None: they stay missing
    invalid: str = "returnInvalid"
    invalid_replacement: Any = None
    missing: str = "asIs"
    outliers: str = "asIs"
    low: float = -math.inf
    high: float = math.inf

    @property
    def leaves_none_missing(self) -> bool:
        """Whether no value is missing afterwards."""
        return self.replacement is not None or self.missing == "returnInvalid"

    def apply(self, name: str, values: AnyArray, wrong: BoolArray) -> AnyArray:
        """The values treated; ``wrong`` says which are invalid. Raises ModelError where there is no prediction."""
        missing = find_missing(values) & ~wrong
        values = values.copy()
        if wrong.any():
            if self.invalid == "returnInvalid":
                _raise_no_prediction(f"the value of {name!r} is not valid", int(np.flatnonzero(wrong)[0]))
            if self.invalid == "asMissing":
                missing |= wrong
            elif self.invalid == "asValue":
                values[wrong] = self.invalid_replacement
        if values.dtype != object and self.outliers != "asIs":
            outside = ((values < self.low) | (values > self.high)) & ~missing
            if self.outliers == "asMissingValues":
                missing |= outside
            else:
                values = np.where(outside, np.clip(values, self.low, self.high), values)
        if missing.any():
            if self.missing == "returnInvalid":
                _raise_no_prediction(f"the value of {name!r} is missing", int(np.flatnonzero(missing)[0]))
            values[missing] = self.replacement if self.replacement is not None else _get_missing(values)
        return values


def _get_missing(values: AnyArray) -> Any:
    return None if values.dtype == object else np.nan


def _raise_no_prediction(why: str, row: int) -> None:
    raise ModelError(f"the PMML model gives no prediction for row {row}: {why}", code="no-prediction")


TREATMENTS = ("asIs", "asMean", "asMode", "asMedian", "asValue")


def read_treatment(element: Element, kind: FieldType) -> Treatment:
    """What an element MiningField says."""
    outliers = element.require_value("outliers", "asIs", "asMissingValues", "asExtremeValues")
    invalid = element.require_value("invalidValueTreatment", "returnInvalid", "asIs", "asMissing", "asValue")
    replacement = element.get("missingValueReplacement")
    other = element.get("invalidValueReplacement")
    if invalid == "asValue" and other is None:
        element.refuse("lacks its invalidValueReplacement")
    return Treatment(
        replacement=None if replacement is None else kind.parse(replacement, element),
        invalid="asValue" if invalid == "asIs" and other is not None else invalid,
        invalid_replacement=None if other is None else kind.parse(other, element),
        missing=element.require_value("missingValueTreatment", "asIs", *TREATMENTS, "returnInvalid"),
        outliers=outliers,
        low=element.get_number("lowValue", -math.inf),
        high=element.get_number("highValue", math.inf),
    )


@dataclass(frozen=True, slots=True)
class InputColumn:
    """A data field, as a mining schema treats it."""

    source: DataField
    treatment: Treatment

    def compute(self, raw: Mapping[str, AnyArray], known: Sequence[AnyArray]) -> AnyArray:  # noqa: ARG002
        """The column, of the table's values."""
        given = raw[self.source.name]
        values, wrong = self.source.type.read(given)
        if self.source.missing:
            gone = np.array([value in self.source.missing for value in values.tolist()], dtype=np.bool_)
            gone |= np.array([value in self.source.missing for value in given.tolist()], dtype=np.bool_)
            values[gone], wrong = _get_missing(values), wrong & ~gone
        return self.treatment.apply(self.source.name, values, wrong | self.source.find_invalid(values))


@dataclass(frozen=True, slots=True)
class RetreatedColumn:
    """A column, as the mining schema of a model inside another one treats it once more."""

    name: str
    column: int
    treatment: Treatment

    def compute(self, raw: Mapping[str, AnyArray], known: Sequence[AnyArray]) -> AnyArray:  # noqa: ARG002
        """The column, of those before it."""
        values = known[self.column]
        return self.treatment.apply(self.name, values, np.zeros(len(values), dtype=np.bool_))


Expression = Callable[[Sequence[AnyArray], int], AnyArray]


@dataclass(frozen=True, slots=True)
class DerivedColumn:
    """A derived field: an expression of columns before it, its sources."""

    name: str
    expression: Expression
    type: FieldType
    sources: frozenset[int] = frozenset()

    def compute(self, raw: Mapping[str, AnyArray], known: Sequence[AnyArray]) -> AnyArray:
        """The column, of those before it."""
        rows = len(next(iter(raw.values())))
        values = self.expression(known, rows)
        read, wrong = self.type.read(values)
        if (wrong & ~find_missing(values)).any():
            first = int(np.flatnonzero(wrong)[0])
            raise ModelError(f"the derived field {self.name!r} of row {first} is no {self.type.name}")
        return read


@dataclass(frozen=True, slots=True)
class AnswerColumn:
    """What a model of a chain answers, for the models after it."""

    name: str


@dataclass(frozen=True, slots=True)
class PlannedColumn:
    """A column with what is known of it: whether values may be missing, and the texts that it may hold (None: any)."""

    how: InputColumn | RetreatedColumn | DerivedColumn | AnswerColumn
    type: FieldType
    never_missing: bool = False
    texts: frozenset[str] | None = None


@dataclass(slots=True)
class FieldPlan:
    """The columns of a file, each after those that it is computed from, and the data fields that are read."""

    columns: list[PlannedColumn] = field(default_factory=list)
    inputs: dict[str, DataField] = field(default_factory=dict)

    def add(self, column: PlannedColumn) -> int:
        """A column more; its number."""
        self.columns.append(column)
        return len(self.columns) - 1

    @property
    def prepared(self) -> list[int]:
        """The columns that do not come from models."""
        return [place for place, one in enumerate(self.columns) if not isinstance(one.how, AnswerColumn)]

    def compute(self, raw: Mapping[str, AnyArray], rows: int) -> list[AnyArray]:
        """All columns for rows of data fields; those that come from models are empty so far."""
        known: list[AnyArray] = []
        for column in self.columns:
            how = column.how
            known.append(np.full(rows, np.nan) if isinstance(how, AnswerColumn) else how.compute(raw, known))
        return known
