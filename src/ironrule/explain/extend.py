"""Explain any row: a context whose domains have the row's own values.

A row may have values that no past row has. ``extend_to_row`` gives the context in which it can be explained:

- **A number inside an interval** joins the domain. Nothing else changes: the space means the same as before. No model
  is read again; the compiled model gets one more code per feature (:func:`_insert_numbers`).
- **A number beyond the smallest or the largest**, a new category, a missing value where there was none, or a new number
  where only the values seen count: the domain is extended for this row (``extended_values``), and the model is read
  over the longer domain, since it may turn there.

``extend_to_table`` does the same for all rows of a table at once, which is what a batch explains.

The explainer itself stays as it is. What was made for the last few rows is kept, so that asking again about the same
applicant costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ironrule.arrays import Points
from ironrule.backends.compiled_model import insert_codes
from ironrule.errors import ConstraintError, InputError, IronruleError, TableError, describe_value
from ironrule.explain.context import (
    ContextCache,
    EncodedRow,
    ExplainerContext,
    decide_row,
    list_seen_values,
    read_row,
)
from ironrule.explain.prepare.derive import derive_context
from ironrule.explain.prepare.reading import build_exact_reading, fingerprint_model
from ironrule.model.blackbox import ModelSet, make_layout_builder
from ironrule.model.history import History
from ironrule.model.intervals import Gaps
from ironrule.model.protocol import Unreadable
from ironrule.results.explanation import Explanation
from ironrule.rule.condition import find_last_admitted_number
from ironrule.rule.instance_components import ComponentCache
from ironrule.rule.parsing import StatedComponent
from ironrule.space.feature import Value, find_open_gaps
from ironrule.space.reduced import ReducedSpace
from ironrule.space.space import Space
from ironrule.space.table import Table


def extend_to_row(context: ExplainerContext, row: Any) -> tuple[ExplainerContext, Any]:
    """The context whose domains have all values of a row, and the row with its numbers as the data's columns hold them.

    Raises TableError if a value can never be one of its feature, or if the model refuses it.
    """
    if isinstance(row, EncodedRow) or (isinstance(row, (int, np.integer)) and not isinstance(row, bool)):
        return context, row  # a past row
    values = read_row(context, row)
    new = context.space.find_new_values(values)
    if not new:
        return context, row
    # told first: what is absent or unknown is not the fault of a new value
    context.space.require_values(values)
    context.space.require_known_columns(values, context.table.names)
    rounded = {name: _round_to_column(context, name, value) for name, value in new.items()}
    columns = {context.space[name].columns[0]: value for name, value in rounded.items()}
    values = {**{name: value for name, value in values.items() if name not in rounded}, **columns}
    new = {name: value for name, value in rounded.items() if value not in context.space[name].code_by_value}
    if not new:
        return context, values
    key = tuple((name, type(value).__name__, value) for name, value in sorted(new.items()))
    return context.row_contexts.get(key, lambda: _extend(context, new, values)), values


def _round_to_column(context: ExplainerContext, name: str, value: Value) -> Value:
    """A number as a column of a shorter type holds it."""
    dtype = context.table.column(context.space[name].columns[0]).values.dtype
    return float(dtype.type(value)) if isinstance(value, float) and dtype.kind == "f" else value


def _extend(context: ExplainerContext, new: Mapping[str, Value], row: Mapping[str, Value]) -> ExplainerContext:
    is_inside = all(_is_inside(context.space, name, value) for name, value in new.items())
    if is_inside and (inserted := _insert_numbers(context, new, row)) is not None:
        return inserted
    values = {name: [value] for name, value in new.items()}
    return _add_values(context, values, lambda extended: decide_row(extended, row))


def extend_to_table(context: ExplainerContext, table: Table) -> ExplainerContext:
    """The context whose domains have all values of a table.

    Raises TableError if a value can never be one of its feature, or if the model refuses it.
    """
    new = context.space.find_new_column_values(table)
    for name, values in new.items():
        for value in values:
            if _round_to_column(context, name, value) != value:
                dtype = context.table.column(context.space[name].columns[0]).values.dtype
                expected = f"{name!r} must be numbers of {dtype}, like the data"
                raise TableError(expected=expected, got=describe_value(value), hint="convert the column")
    if not new:
        return context
    return _add_values(context, new, lambda extended: extended.model.desired(extended.space.encode(table).points()))


def _add_values(
    context: ExplainerContext,
    new: Mapping[str, Sequence[Value]],
    ask_model: Callable[[ExplainerContext], Any],
) -> ExplainerContext:
    """The context with values added to the domains: those inside an interval change nothing, others extend it."""
    inside, outside = dict(context.inserted_numbers), dict(context.extended_values)
    for name, values in new.items():
        for value in values:
            kind = inside if _is_inside(context.space, name, value) else outside
            kind[name] = (*kind.get(name, ()), value)
    try:
        extended = derive_context(context, list_seen_values(context).add_values(outside), inside)
        ask_model(extended)  # a model may accept what past rows have, and refuse this
    except ConstraintError:
        raise
    except (IronruleError, ValueError, TypeError, KeyError) as error:
        shown = ", ".join(f"{name} = {values[0]!r}" for name, values in outside.items())
        raise TableError(
            f"the row cannot be explained, since the model or the data's columns refuse {shown}: {error}",
            hint="use values that the model accepts",
            code="value-refused",
        ) from error
    return replace(extended, extended_values=outside, inserted_numbers=inside)


def extend_to_bounds(context: ExplainerContext, conditions: Iterable[StatedComponent]) -> ExplainerContext:
    """The context whose intervals have the bounds of stated conditions, so that these are judged as they are."""
    new: dict[str, tuple[Value, ...]] = {}
    for condition in conditions:
        feature = context.space[condition.feature]
        bound = find_last_admitted_number(feature, condition) if feature.interval else None
        if bound is None or not _is_inside(context.space, feature.name, bound) or bound in feature.code_by_value:
            continue
        new[feature.name] = tuple(dict.fromkeys((*new.get(feature.name, ()), bound)))
    if not new:
        return context
    key = ("bounds", *sorted(new.items()))
    return context.row_contexts.get(key, lambda: _add_values(context, new, lambda _: None))


def extend_to_numbers(context: ExplainerContext, numbers: Mapping[str, Sequence[Value]]) -> ExplainerContext:
    """The context whose intervals have further numbers from inside them, by feature."""
    new: dict[str, tuple[Value, ...]] = {}
    for name, listed in numbers.items():
        rounded = dict.fromkeys(_round_to_column(context, name, number) for number in listed)
        known = context.space[name].code_by_value
        missing = tuple(one for one in rounded if one not in known and _is_inside(context.space, name, one))
        new |= {name: missing} if missing else {}
    if not new:
        return context
    key = ("numbers", *sorted(new.items()))
    return context.row_contexts.get(key, lambda: _add_values(context, new, lambda _: None))


def extend_to_explanation(context: ExplainerContext, explanation: Explanation) -> ExplainerContext:
    """The context that an explanation was made in: its domains have the values that its row, or its batch, added.

    Raises InputError if the explanation was made with another model, space or history.
    """
    extended, _ = extend_to_row(context, dict(explanation.instance))
    if extended.space.fingerprint != explanation.space:  # a batch adds the values of all its rows
        new = {name: [*values] for name, values in explanation.extended_values.items() if name in context.space.names}
        # Numbers inside intervals are among the breakpoints, those beyond them among the extended values.
        for name, numbers in (explanation.breakpoints or {}).items():
            if name in context.space.names:
                known = context.space[name].code_by_value
                inside = [value for value in numbers if value not in known and _is_inside(context.space, name, value)]
                new[name] = [*new.get(name, ()), *inside]
        added = {name: values for name, values in new.items() if values}
        extended = _add_values(context, added, lambda _: None) if added else context
    if (extended.space.fingerprint, extended.fingerprint) != (explanation.space, explanation.model):
        raise InputError(
            "the explanation was made with another model, space or history than this explainer's",
            hint="use the explainer that made it",
            code="model-mismatch",
        )
    return extended


def _is_inside(space: Space, name: str, value: Value) -> bool:
    """Whether a value is a number inside an interval."""
    feature = space[name]
    return bool(feature.interval) and value is not None and feature.values[0] < value < feature.values[-1]


def _insert_numbers(
    context: ExplainerContext, inside: Mapping[str, Value], row: Mapping[str, Value]
) -> ExplainerContext | None:
    """The context with numbers added to intervals, without reading a model again; None where that is not possible."""
    compiled, own = context.compiled_model, context.model.primary
    if compiled is None or context.is_robust or context.gaps is None:
        return None
    space, features = context.space.extend_domains(inside), context.space.features
    layout = make_layout_builder(context.arguments.models[0], context.table)(space.features)
    box = replace(own, layout=layout)
    point = space.encode_row(row, ignore=context.table.names)
    places = {space.index(name): int(point[space.index(name)]) for name in inside}
    models = ModelSet(box, (box,))
    try:
        larger = insert_codes(compiled, context.arguments.models[0], box, space, places=places, point=point)
        gaps = _reopen_gaps(context.gaps, larger.reduced, places)
        exact = build_exact_reading(larger, models, point, engine=context.engine, gaps=gaps)
    except Unreadable:  # it is read again, which says why
        return None
    old = context.history
    frequencies = tuple(
        np.insert(counts, places[j], 0) if j in places else counts for j, counts in enumerate(old.frequencies)
    )
    codes, desired = (table.recode(features, space.features) for table in (old.codes, old.desired))
    history = History(codes, old.outcomes, desired, _shift_codes(old.seeds, places), frequencies)
    earlier = context.breakpoints or {}
    return replace(
        context,
        space=space,
        search_history=history.reduce(larger.reduced),
        model=models,
        history=history,
        **exact._asdict(),
        fingerprint=fingerprint_model(history, larger),
        breakpoints={
            name: tuple(sorted({*numbers, inside[name]})) if name in inside else numbers
            for name, numbers in earlier.items()
        },
        component_cache=ComponentCache(),
        row_contexts=ContextCache(),
        extended=ContextCache(),
        inserted_numbers=dict(context.inserted_numbers)
        | {name: (*context.inserted_numbers.get(name, ()), value) for name, value in inside.items()},
    )


def _reopen_gaps(gaps: Gaps, reduced: ReducedSpace, places: Mapping[int, int]) -> Gaps:
    """The gaps with one more number in the domains of these features, of those that searches work on."""
    opened = list(gaps.open)
    for place, feature in enumerate(reduced.kept.tolist()):
        if feature in places:
            opened[place] = find_open_gaps(reduced.space.features[place])
    return replace(gaps, open=tuple(opened))


def _shift_codes(points: Points, places: Mapping[int, int]) -> Points:
    """Points as codes of domains with one more value each at these places."""
    shifted = points.copy()
    for feature, place in places.items():
        shifted[:, feature] += shifted[:, feature] >= place
    return shifted
