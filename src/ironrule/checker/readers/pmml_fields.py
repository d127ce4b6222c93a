"""The fields of a PMML file, by the specification of the Data Mining Group: what its dictionary, its mining schemas and
its derived fields make of the values of one column.

A value is missing, a number in double precision (rounded to single precision in fields of the type ``float``), or a
text; truth values are the texts "true" and "false". Values come to a field as the table has them; it then applies, in
this order: values listed as missing, values that are not valid, outliers, and the replacement of what is missing. A
value for which the file gives no prediction is refused with NoReading, and so is whatever is not written here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np

from ironrule.checker.arrays import AnyArray, BoolArray, Float64Array
from ironrule.checker.readers import normal_form
from ironrule.checker.readers.normal_form import DOUBLE_ROUNDOFF, NoReading
from ironrule.checker.space.table import is_missing

Constant = float | str
DataKind = Literal["number", "text", "truth"]
KINDS: dict[str, DataKind] = {
    "double": "number", "float": "number", "integer": "number", "string": "text", "boolean": "truth",
}  # fmt: skip
SAYING_NOTHING = ("Extension", "ModelStats", "ModelExplanation", "ModelVerification", "Header", "MiningBuildTask")


class _SafeBuilder(ElementTree.TreeBuilder):
    """Builds a tree, and refuses declarations, through which a file could name others or grow without end."""

    def doctype(self, *_: object) -> None:
        raise NoReading("its file has a DOCTYPE")


def parse_file(source: bytes) -> Element:
    """The root of a file, its tags without namespaces."""
    parser = ElementTree.XMLParser(target=_SafeBuilder())  # no DOCTYPE, so no entities
    try:
        parser.feed(source)
        root: Element = parser.close()
    except ElementTree.ParseError as error:
        raise NoReading(f"its file is not XML: {error}") from None
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    if root.tag != "PMML":
        raise NoReading("its file holds no PMML")
    return root


def list_children(element: Element, *known: str) -> list[Element]:
    """The children that say something; raises NoReading if one has no known tag."""
    found = [child for child in element if child.tag not in SAYING_NOTHING]
    unknown = next((child.tag for child in found if child.tag not in known), None)
    if unknown is not None:
        raise NoReading(f"{unknown} inside {element.tag} is not read")
    return found


def get_attribute(element: Element, name: str) -> str:
    """An attribute that must be there."""
    found = element.get(name)
    if found is None:
        raise NoReading(f"{element.tag} has no {name}")
    return found


def parse_number(text: str) -> float:
    """A finite number."""
    try:
        number = float(text) if "_" not in text else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise NoReading(f"{text!r} is no finite number")
    return number


def get_number(element: Element, name: str, default: float | None = None) -> float:
    """A number in an attribute."""
    if default is not None and name not in element.attrib:
        return default
    return parse_number(get_attribute(element, name))


def find_missing(values: AnyArray) -> BoolArray:
    """Which values of a field are missing."""
    if values.dtype == np.float64:
        return np.isnan(values)
    return np.array([value is None for value in values.tolist()], dtype=np.bool_)


def find_listed(values: AnyArray, listed: frozenset[Constant]) -> BoolArray:
    """Which values of a field are in a list."""
    return np.array([value in listed for value in values.tolist()], dtype=np.bool_)


def _clear(values: AnyArray, chosen: BoolArray) -> AnyArray:
    """The values, with those chosen missing."""
    blank: Any = math.nan if values.dtype == np.float64 else None
    return np.where(chosen, blank, values)


Step = Callable[[AnyArray], AnyArray]


@dataclass(frozen=True, slots=True)
class PmmlField:
    """A field that follows one column. ``steps`` are done one after the other to what the table has.

    ``ordered``: its numbers never fall as those of the column rise. A number may be off by at most ``error`` plus
    ``relative_error`` times its size, by the way that the model computes it.
    """

    column: int
    steps: tuple[Step, ...]
    kind: DataKind
    single: bool = False
    ordered: bool = False
    error: float = 0.0
    relative_error: float = 0.0

    def compute(self, values: AnyArray) -> AnyArray:
        """The field for values of the column: numbers with NaN, or texts with None, where it is missing."""
        for step in self.steps:
            values = step(values)
        return values

    def parse(self, text: str) -> Constant:
        """A constant that the field is compared with or replaced by."""
        if self.kind == "truth" and text not in ("true", "false"):
            raise NoReading(f"{text!r} is neither true nor false")
        if self.kind != "number":
            return text
        number = parse_number(text)
        return float(np.float32(number)) if self.single else number

    def then(self, step: Step, *, ordered: bool = True) -> PmmlField:
        """The field with one step more."""
        return replace(self, steps=(*self.steps, step), ordered=self.ordered and ordered)


@dataclass(frozen=True, slots=True)
class _Raw:
    """What a table has, as values of a field's type."""

    kind: DataKind
    single: bool

    def __call__(self, values: AnyArray) -> AnyArray:
        if self.kind == "number":
            return normal_form.round_to_float32(values) if self.single else normal_form.to_float64(values)
        found = [None if is_missing(value) else value for value in values.tolist()]
        expected = str if self.kind == "text" else bool
        wrong = next((value for value in found if value is not None and type(value) is not expected), None)
        if wrong is not None:
            raise NoReading(f"a field of the kind {self.kind} holds {wrong!r}")
        if self.kind == "truth":
            found = [value if value is None else str(value).lower() for value in found]
        return np.array([*found, None], dtype=object)[:-1]


@dataclass(frozen=True, slots=True)
class _Interval:
    """Numbers between two margins."""

    low: float
    high: float
    low_closed: bool
    high_closed: bool

    def contains(self, numbers: Float64Array) -> BoolArray:
        above = numbers >= self.low if self.low_closed else numbers > self.low
        below = numbers <= self.high if self.high_closed else numbers < self.high
        return np.asarray(above & below)


@dataclass(frozen=True, slots=True)
class _Validity:
    """Values that stand for missing, and what becomes of values that are not valid."""

    missing: frozenset[Constant]
    invalid: frozenset[Constant]
    valid: frozenset[Constant]
    intervals: tuple[_Interval, ...]
    treatment: str

    def __call__(self, values: AnyArray) -> AnyArray:
        values = _clear(values, find_listed(values, self.missing))
        wrong = find_listed(values, self.invalid)
        if self.valid:
            wrong |= ~find_listed(values, self.valid)
        if self.intervals:
            wrong |= ~np.any([one.contains(values) for one in self.intervals], axis=0)
        wrong &= ~find_missing(values)
        if self.treatment == "returnInvalid" and wrong.any():
            raise NoReading("the file gives no prediction for a value that is not valid")
        return _clear(values, wrong) if self.treatment == "asMissing" else values


@dataclass(frozen=True, slots=True)
class _Outliers:
    """Numbers beyond two limits are missing, or become the limits."""

    low: float
    high: float
    missing: bool

    def __call__(self, values: AnyArray) -> AnyArray:
        if self.missing:
            return _clear(values, (values < self.low) | (values > self.high))
        return np.clip(values, self.low, self.high)


@dataclass(frozen=True, slots=True)
class _Replacement:
    """A constant where a value is missing."""

    constant: Constant

    def __call__(self, values: AnyArray) -> AnyArray:
        return np.where(find_missing(values), self.constant, values)


@dataclass(frozen=True, slots=True)
class _Lookup:
    """A table from values to constants, or from intervals; None stands for missing."""

    entries: tuple[tuple[Constant | _Interval, Constant], ...]
    default: Constant | None
    for_missing: Constant | None
    kind: DataKind

    def __call__(self, values: AnyArray) -> AnyArray:
        found = np.full(len(values), self.default, dtype=object)
        for key, result in reversed(self.entries):  # the first that fits counts
            found[key.contains(values) if isinstance(key, _Interval) else values == key] = result
        found[find_missing(values)] = self.for_missing
        return found.astype(np.float64) if self.kind == "number" else found


@dataclass(frozen=True, slots=True)
class _Interpolation:
    """Straight lines between knots; beyond them the lines go on, or the ends count, or nothing does."""

    knots: tuple[tuple[float, float], ...]
    outliers: str
    for_missing: float | None

    def __call__(self, values: AnyArray) -> AnyArray:
        before, after = np.array(self.knots).T
        place = np.clip(np.searchsorted(before, values, side="right") - 1, 0, len(before) - 2)
        share = (values - before[place]) / (before[place + 1] - before[place])
        found: Float64Array = after[place] + share * (after[place + 1] - after[place])
        if self.outliers == "asExtremeValues":
            found = np.where(values <= before[0], after[0], np.where(values >= before[-1], after[-1], found))
        elif self.outliers == "asMissingValues":
            found = np.asarray(_clear(found, (values < before[0]) | (values > before[-1])))
        return found if self.for_missing is None else np.where(np.isnan(values), self.for_missing, found)


def read_data_field(element: Element, column: int, invalid_treatment: str) -> PmmlField:
    """A field of the dictionary before outliers and replacements."""
    type_name = get_attribute(element, "dataType")
    kind = KINDS.get(type_name)
    if kind is None or element.get("isCyclic", "0") not in ("0", "false") or "taxonomy" in element.attrib:
        raise NoReading(f"a field of the type {type_name} is not read")
    single = type_name == "float"
    field = PmmlField(column, (_Raw(kind, single),), kind, single, ordered=kind == "number")
    listed: dict[str, set[Constant]] = {"valid": set(), "invalid": set(), "missing": set()}
    intervals = []
    for child in list_children(element, "Value", "Interval"):
        if child.tag == "Interval":
            intervals.append(_read_interval(child))
        else:
            listed.setdefault(child.get("property", "valid"), set()).add(field.parse(get_attribute(child, "value")))
    some = any(listed.values())
    if len(listed) > 3 or (intervals and (kind != "number" or some)):
        raise NoReading("the valid values of a field are given in a way that is not read")
    if invalid_treatment not in ("returnInvalid", "asIs", "asMissing"):
        raise NoReading(f"invalidValueTreatment {invalid_treatment} is not read")
    if not (some or intervals):
        return field
    sets = {name: frozenset(values) for name, values in listed.items()}
    ordered = not some and len(intervals) == 1 and invalid_treatment != "asMissing"
    return field.then(_Validity(**sets, intervals=tuple(intervals), treatment=invalid_treatment), ordered=ordered)


def _read_interval(element: Element) -> _Interval:
    closure = get_attribute(element, "closure")
    if closure not in ("openOpen", "openClosed", "closedOpen", "closedClosed"):
        raise NoReading(f"an interval that is {closure} is not read")
    low, high = get_number(element, "leftMargin", -math.inf), get_number(element, "rightMargin", math.inf)
    return _Interval(low, high, closure.startswith("closed"), closure.endswith("Closed"))


def treat_field(field: PmmlField, mining: Element) -> PmmlField:
    """The field after the outliers and the replacement of missing values of a mining schema."""
    outliers, low, high = mining.get("outliers", "asIs"), -math.inf, math.inf
    if outliers != "asIs":
        low, high = (get_number(mining, name) for name in ("lowValue", "highValue"))
        if outliers not in ("asMissingValues", "asExtremeValues") or field.kind != "number" or low > high:
            raise NoReading(f"outliers {outliers} from {low} to {high} are not read")
        missing = outliers == "asMissingValues"
        field = field.then(_Outliers(low, high, missing), ordered=not missing)
    if mining.get("missingValueTreatment") == "returnInvalid":
        raise NoReading("a mining schema refuses missing values")
    text = mining.get("missingValueReplacement")
    if text is None:
        return field
    constant = field.parse(text)
    if isinstance(constant, float) and not low <= constant <= high:
        raise NoReading("the replacement of a missing value is an outlier")
    return field.then(_Replacement(constant))


def read_derived_field(element: Element, find: Callable[[str], Any]) -> PmmlField:
    """A derived field of one other field, which ``find`` gives by name."""
    kind = KINDS.get(get_attribute(element, "dataType"))
    (how,) = list_children(element, "FieldRef", "NormContinuous", "NormDiscrete", "Discretize", "MapValues")
    pair = how.find("FieldColumnPair") if how.tag == "MapValues" else how
    if pair is None or kind not in ("number", "text"):
        raise NoReading("a derived field is of a type that is not read")
    source = find(get_attribute(pair, "field"))
    if not isinstance(source, PmmlField):
        raise NoReading("a field that is derived from a model's answer is not read")
    type_name, single = element.get("dataType"), element.get("dataType") == "float"
    result = replace(source, kind=kind, single=single)
    if how.tag == "FieldRef":
        if kind != source.kind or type_name == "integer" or "mapMissingTo" in how.attrib:
            raise NoReading("a derived field that changes the type is not read")
        return result.then(_Raw("number", single=True)) if single else result
    if how.tag == "NormContinuous":
        if (source.kind, kind, single, type_name) != ("number", "number", False, "double"):
            raise NoReading("a NormContinuous of this type is not read")
        return _interpolate(how, result)
    for_missing, default = how.get("mapMissingTo"), how.get("defaultValue")
    if how.tag == "NormDiscrete":
        rows: list[tuple[Constant | _Interval, str]] = [(source.parse(get_attribute(how, "value")), "1")]
        default = "0"
    elif how.tag == "Discretize":
        if source.kind != "number":
            raise NoReading("a Discretize of texts is not read")
        rows = list(_read_bins(how))
    else:
        rows = list(_read_rows(how, pair, source))
    if type_name == "integer" and any(parse_number(value) % 1 for _, value in rows):
        raise NoReading("a derived field of whole numbers holds fractions")
    if source.error or source.relative_error:
        raise NoReading("a value that is looked up by a computed number is not read")
    other, absent = (None if text is None else result.parse(text) for text in (default, for_missing))
    table = _Lookup(tuple((key, result.parse(value)) for key, value in rows), other, absent, kind)
    return result.then(table, ordered=False)


def _interpolate(element: Element, field: PmmlField) -> PmmlField:
    knots = [(get_number(one, "orig"), get_number(one, "norm")) for one in list_children(element, "LinearNorm")]
    befores = [before for before, _ in knots]
    if len(knots) < 2 or sorted(set(befores)) != befores or field.error:
        raise NoReading("a NormContinuous must have rising knots")
    for_missing = element.get("mapMissingTo")
    outliers = element.get("outliers", "asIs")
    if outliers not in ("asIs", "asMissingValues", "asExtremeValues"):
        raise NoReading(f"outliers {outliers} are not read")
    step = _Interpolation(tuple(knots), outliers, None if for_missing is None else parse_number(for_missing))
    # differences, a quotient, a product and a sum, from either knot: few roundings of a line's ends and of its value
    size = max(abs(after) for _, after in knots)
    stretch = max(
        (abs(a) + abs(b)) / (b - a) * abs(d - c) for (a, c), (b, d) in pairwise(knots)
    )  # a line written as slope times number plus intercept is off by this much more
    ways = field.then(step, ordered=False)
    return replace(ways, error=32 * DOUBLE_ROUNDOFF * (2 * size + stretch), relative_error=32 * DOUBLE_ROUNDOFF)


def _read_bins(element: Element) -> Iterator[tuple[Constant | _Interval, str]]:
    for child in list_children(element, "DiscretizeBin"):
        (interval,) = list_children(child, "Interval")
        yield _read_interval(interval), get_attribute(child, "binValue")


def _read_rows(element: Element, pair: Element, source: PmmlField) -> Iterator[tuple[Constant | _Interval, str]]:
    pairs, tables = (element.findall(tag) for tag in ("FieldColumnPair", "InlineTable"))
    if len(list_children(element, "FieldColumnPair", "InlineTable")) != 2 or len(pairs) != 1 or len(tables) != 1:
        raise NoReading("a MapValues of several fields is not read")
    names = get_attribute(pair, "column"), get_attribute(element, "outputColumn")
    for row in list_children(tables[0], "row"):
        key, result = (row.findtext(name) for name in names)
        if key is None or result is None or key != key.strip() or result != result.strip():
            raise NoReading("a row of a MapValues lacks a value, or has blanks around one")
        yield source.parse(key), result
