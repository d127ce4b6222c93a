"""Expressions of PMML: how derived fields are computed from others, whole columns at a time.

A missing value makes what is computed from it missing, unless ``mapMissingTo`` says otherwise. What has no value
(a division by zero, the logarithm of a negative number) is missing too.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ironrule.arrays import AnyArray, BoolArray, Float64Array
from ironrule.errors import describe_value
from ironrule.model.pmml.document import Element
from ironrule.model.pmml.fields import Expression, FieldType, find_missing, read_interval, read_type

Resolve = Callable[[str, Element], int]  # the number of the column that a name means


def read_expression(element: Element, resolve: Resolve, kind: FieldType) -> Expression:
    """The expression that an element says; raises InputError for one that is not understood."""
    if element.tag not in EXPRESSIONS:
        element.refuse("is no expression that is understood")
    return EXPRESSIONS[element.tag](element, resolve, kind)


def _fill(rows: int, value: Any) -> AnyArray:
    if isinstance(value, str) or value is None:
        filled = np.empty(rows, dtype=object)
        filled[:] = [value] * rows
        return filled
    return np.full(rows, float(value))


def _parse_constant(text: str | None, element: Element, kind: FieldType) -> Any:
    return None if text is None else kind.parse(text, element)


def _replace(values: AnyArray, chosen: BoolArray, value: Any) -> AnyArray:
    if value is None or not chosen.any():
        return values
    values = values.copy()
    values[chosen] = value
    return values


def _read_constant(element: Element, resolve: Resolve, kind: FieldType) -> Expression:  # noqa: ARG001
    if element.get("missing", "false") == "true":
        return lambda known, rows: _fill(rows, np.nan if kind.is_number else None)  # noqa: ARG005
    own = read_type(element) if element.get("dataType") else kind
    value = own.parse(element.text, element)
    return lambda known, rows: _fill(rows, value)  # noqa: ARG005


def _read_reference(element: Element, resolve: Resolve, kind: FieldType) -> Expression:
    column = resolve(element.require("field"), element)
    missing = _parse_constant(element.get("mapMissingTo"), element, kind)
    return lambda known, rows: _replace(known[column], find_missing(known[column]), missing)  # noqa: ARG005


def _read_norm_continuous(element: Element, resolve: Resolve, kind: FieldType) -> Expression:
    """A line through points; outside of them as the nearest two say, the nearest point, or missing."""
    column = resolve(element.require("field"), element)
    points = [(one.get_number("orig"), one.get_number("norm")) for one in element.find_all("LinearNorm")]
    outliers = element.require_value("outliers", "asIs", "asMissingValues", "asExtremeValues")
    missing = _parse_constant(element.get("mapMissingTo"), element, kind)
    origins = np.array([point[0] for point in points])
    norms = np.array([point[1] for point in points])
    if len(points) < 2 or (np.diff(origins) <= 0).any():
        element.refuse("must have two LinearNorm or more, whose orig rise")

    def compute(known: Sequence[AnyArray], rows: int) -> AnyArray:  # noqa: ARG001
        numbers = known[column]
        place = np.clip(np.searchsorted(origins, numbers, "right") - 1, 0, len(origins) - 2)
        slope = (norms[place + 1] - norms[place]) / (origins[place + 1] - origins[place])
        values = norms[place] + (numbers - origins[place]) * slope
        outside = (numbers < origins[0]) | (numbers > origins[-1])
        if outliers == "asMissingValues":
            values = np.where(outside, np.nan, values)
        elif outliers == "asExtremeValues":
            values = np.where(outside, np.where(numbers < origins[0], norms[0], norms[-1]), values)
        return _replace(values, find_missing(numbers), missing)

    return compute


def _read_norm_discrete(element: Element, resolve: Resolve, kind: FieldType) -> Expression:  # noqa: ARG001
    """1 where a field has a value, else 0."""
    column, wanted = resolve(element.require("field"), element), element.require("value")
    missing = None if element.get("mapMissingTo") is None else element.get_number("mapMissingTo")

    def compute(known: Sequence[AnyArray], rows: int) -> AnyArray:  # noqa: ARG001
        values = known[column]
        target: Any = wanted if values.dtype == object else float(wanted)
        hits = np.where(np.asarray(values == target, dtype=np.bool_), 1.0, 0.0)
        hits[find_missing(values)] = np.nan if missing is None else missing
        return hits

    return compute


def _read_discretize(element: Element, resolve: Resolve, kind: FieldType) -> Expression:
    """The value of the first bin that a number lies in."""
    column = resolve(element.require("field"), element)
    own = read_type(element) if element.get("dataType") else kind
    bins = []
    for one in element.find_all("DiscretizeBin"):
        interval = one.find("Interval")
        if interval is None:
            one.refuse("lacks its Interval")
        bins.append((read_interval(interval), own.parse(one.require("binValue"), one)))
    missing = _parse_constant(element.get("mapMissingTo"), element, own)
    other = _parse_constant(element.get("defaultValue"), element, own)

    def compute(known: Sequence[AnyArray], rows: int) -> AnyArray:
        numbers = known[column]
        values = _fill(rows, np.nan if own.is_number else None)
        left = ~find_missing(numbers)
        for interval, value in bins:
            inside = interval.contains(numbers) & left
            values[inside] = value
            left &= ~inside
        return _replace(_replace(values, left, other), find_missing(numbers), missing)

    return compute


def _read_map_values(element: Element, resolve: Resolve, kind: FieldType) -> Expression:
    """A table that is looked up; of several columns all must agree."""
    own = read_type(element) if element.get("dataType") else kind
    pairs = [(resolve(one.require("field"), one), one.require("column")) for one in element.find_all("FieldColumnPair")]
    table, output = element.find("InlineTable"), element.require("outputColumn")
    if table is None or not pairs:
        element.refuse("must have an InlineTable and a FieldColumnPair")
    entries: dict[tuple[str, ...], Any] = {}
    for row in table.find_all("row"):
        cells = {cell.tag: cell.text for cell in row.children}
        if any(name not in cells for _, name in pairs) or output not in cells:
            row.refuse("lacks one of the table's columns")
        entries.setdefault(tuple(cells[name] for _, name in pairs), own.parse(cells[output], row))
    missing = _parse_constant(element.get("mapMissingTo"), element, own)
    other = _parse_constant(element.get("defaultValue"), element, own)

    def compute(known: Sequence[AnyArray], rows: int) -> AnyArray:
        columns = [FieldType("string").read(known[column])[0] for column, _ in pairs]
        gone = np.any([find_missing(column) for column in columns], axis=0)
        values = _fill(rows, np.nan if own.is_number else None)
        for place, key in enumerate(zip(*columns, strict=True)):
            found = missing if gone[place] else entries.get(key, other)
            if found is not None:
                values[place] = found
        return values

    return compute


Function = Callable[[list[Float64Array]], Float64Array]


def _fold(combine: Callable[..., Any]) -> Function:
    def compute(parts: list[Float64Array]) -> Float64Array:
        total = parts[0]
        for part in parts[1:]:
            total = combine(total, part)
        return np.asarray(total, dtype=np.float64)

    return compute


def _apply_once(function: Callable[..., Any]) -> Function:
    return lambda parts: np.asarray(function(parts[0]), dtype=np.float64)


FUNCTIONS: dict[str, tuple[tuple[int, int], Function]] = {  # how many arguments, and the function
    "+": ((2, 2), _fold(operator.add)),
    "-": ((2, 2), _fold(operator.sub)),
    "*": ((2, 2), _fold(operator.mul)),
    "/": ((2, 2), _fold(np.divide)),
    "min": ((1, 99), _fold(np.minimum)),
    "max": ((1, 99), _fold(np.maximum)),
    "sum": ((1, 99), _fold(operator.add)),
    "pow": ((2, 2), _fold(np.power)),
    "abs": ((1, 1), _apply_once(np.abs)),
    "exp": ((1, 1), _apply_once(np.exp)),
    "ln": ((1, 1), _apply_once(np.log)),
    "log10": ((1, 1), _apply_once(np.log10)),
    "sqrt": ((1, 1), _apply_once(np.sqrt)),
    "floor": ((1, 1), _apply_once(np.floor)),
    "ceil": ((1, 1), _apply_once(np.ceil)),
    "round": ((1, 1), _apply_once(lambda numbers: np.floor(numbers + 0.5))),
}
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "equal": operator.eq,
    "notEqual": operator.ne,
    "lessThan": operator.lt,
    "lessOrEqual": operator.le,
    "greaterThan": operator.gt,
    "greaterOrEqual": operator.ge,
}


def _read_apply(element: Element, resolve: Resolve, kind: FieldType) -> Expression:
    name = element.require("function")
    missing = _parse_constant(element.get("mapMissingTo"), element, kind)
    other = _parse_constant(element.get("defaultValue"), element, kind)
    if name == "if":
        compute = _read_if(element, resolve, kind)
    elif name in (*COMPARISONS, "and", "or", "not", "isMissing", "isNotMissing"):
        compute = _write_truths(_read_truth(element, resolve))
    elif name in FUNCTIONS:
        (least, most), function = FUNCTIONS[name]
        if not least <= len(element.children) <= most:
            element.refuse(f"has {len(element.children)} arguments for {name!r}")
        parts = [read_expression(child, resolve, FieldType("double")) for child in element.children]

        def compute(known: Sequence[AnyArray], rows: int) -> AnyArray:
            with np.errstate(all="ignore"):
                values = function([np.asarray(part(known, rows), dtype=np.float64) for part in parts])
            return np.where(np.isfinite(values), values, np.nan)
    else:
        element.refuse(f"has the function {describe_value(name)}, which is not understood")
    if missing is None and other is None:
        return compute
    given = [read_expression(child, resolve, kind) for child in element.children] if missing is not None else []

    def complete(known: Sequence[AnyArray], rows: int) -> AnyArray:
        values = compute(known, rows)
        gone = np.zeros(rows, dtype=np.bool_)
        for part in given:
            gone |= find_missing(part(known, rows))
        return _replace(_replace(values, find_missing(values) & ~gone, other), gone, missing)

    return complete


def _read_if(element: Element, resolve: Resolve, kind: FieldType) -> Expression:
    if len(element.children) not in (2, 3):
        element.refuse("must have a condition and one or two values")
    holds = _read_truth(element.children[0], resolve)
    parts = [read_expression(child, resolve, kind) for child in element.children[1:]]

    def compute(known: Sequence[AnyArray], rows: int) -> AnyArray:
        truth = holds(known, rows)
        nothing = _fill(rows, np.nan if kind.is_number else None)
        first = parts[0](known, rows)
        second = parts[1](known, rows) if len(parts) > 1 else nothing
        return np.where(truth == 1, first, np.where(truth == 0, second, nothing))

    return compute


def _write_truths(holds: Expression) -> Expression:
    def compute(known: Sequence[AnyArray], rows: int) -> AnyArray:
        values = np.empty(rows, dtype=object)
        values[:] = [{1.0: "true", 0.0: "false"}.get(truth) for truth in holds(known, rows).tolist()]
        return values

    return compute


def _read_truth(element: Element, resolve: Resolve) -> Expression:
    """A condition: 1 where it holds, 0 where not, NaN where that is not known."""
    name = element.get("function", "")
    if element.tag != "Apply":
        inner = read_expression(element, resolve, FieldType("boolean"))
        return lambda known, rows: np.array(
            [{"true": 1.0, "false": 0.0}.get(value, np.nan) for value in inner(known, rows).tolist()]
        )
    if name in ("and", "or", "not"):
        parts = [_read_truth(child, resolve) for child in element.children]
        if not parts or (name == "not" and len(parts) != 1):
            element.refuse(f"has {len(parts)} arguments for {name!r}")
        return lambda known, rows: _combine(str(name), [part(known, rows) for part in parts])
    if name in ("isMissing", "isNotMissing"):
        column = resolve(element.children[0].require("field"), element) if element.children else -1
        wanted = name == "isMissing"
        return lambda known, rows: (find_missing(known[column]) == wanted).astype(np.float64)  # noqa: ARG005
    if name not in COMPARISONS or len(element.children) != 2:
        element.refuse(f"has the function {describe_value(name)}, which is no condition that is understood")
    return _read_comparison(element, resolve, COMPARISONS[str(name)])


def _read_comparison(element: Element, resolve: Resolve, compare: Callable[[Any, Any], Any]) -> Expression:
    sides = element.children
    texts = [one.tag == "Constant" and one.get("dataType") in ("string", "boolean") for one in sides]
    kind = FieldType("string" if any(texts) else "double")
    left, right = (read_expression(one, resolve, kind) for one in sides)

    def compute(known: Sequence[AnyArray], rows: int) -> AnyArray:
        first, second = left(known, rows), right(known, rows)
        gone = find_missing(first) | find_missing(second)
        holds = np.zeros(rows)
        holds[~gone] = np.asarray(compare(first[~gone], second[~gone]), dtype=np.float64)
        holds[gone] = np.nan
        return holds

    return compute


def _combine(name: str, truths: list[AnyArray]) -> AnyArray:
    """And, or, not of truths that may be unknown."""
    if name == "not":
        return np.asarray(1.0 - truths[0])
    deciding = 0.0 if name == "and" else 1.0
    decided = np.any([truth == deciding for truth in truths], axis=0)
    unknown = np.any([np.isnan(truth) for truth in truths], axis=0)
    return np.where(decided, deciding, np.where(unknown, np.nan, 1.0 - deciding))


EXPRESSIONS: dict[str, Callable[[Element, Resolve, FieldType], Expression]] = {
    "Constant": _read_constant,
    "FieldRef": _read_reference,
    "NormContinuous": _read_norm_continuous,
    "NormDiscrete": _read_norm_discrete,
    "Discretize": _read_discretize,
    "MapValues": _read_map_values,
    "Apply": _read_apply,
}
