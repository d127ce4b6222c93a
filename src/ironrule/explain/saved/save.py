"""Write an explainer to a file: the model's reading, the space, what was asked, and past rows if they may travel."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ironrule.arrays import AnyArray
from ironrule.errors import InputError, describe_value
from ironrule.explain.context import ExplainerContext, list_seen_values
from ironrule.explain.measured_rows import find_population
from ironrule.explain.model_facts import list_library_versions
from ironrule.explain.options import is_mask
from ironrule.explain.saved.archive import ArrayPool, write_archive
from ironrule.explain.saved.columns import describe_transform
from ironrule.explain.saved.fields import NotStorable, write_float, write_value
from ironrule.explain.saved.normal_forms import write_normal_form
from ironrule.explain.saved.rows import ColumnType, SavedRows
from ironrule.model.categories import find_category_lists
from ironrule.model.saved_model import NumberFormula, SavedColumn, SavedModel, SavedTransform
from ironrule.space.codes import EncodedTable
from ironrule.space.feature import Feature
from ironrule.space.space import Space, as_constraint
from ironrule.space.table import Table
from ironrule.verdict.digest import to_canonical_json

FILE_ENDING = ".ironrule"


def save_explainer(context: ExplainerContext, path: Any, history: bool, overwrite: bool) -> Path:
    """Write the file; the path that was written. Raises InputError for what cannot be saved, with the reason."""
    if not isinstance(path, (str, Path)) or not str(path):
        raise InputError(expected="path must name a file, such as 'credit.ironrule'", got=describe_value(path))
    if not isinstance(history, bool):
        raise InputError(expected="history must be True or False", got=describe_value(history))
    if len(context.arguments.models) > 1:
        raise InputError(
            expected="an explainer must have a single model to be saved",
            got=f"{len(context.arguments.models)} models",
            hint="save one explainer per model",
            code="not-storable",
        )
    written, pool, target = Path(path), ArrayPool(), context.target
    seen = list_seen_values(context)
    model, unreadable = _write_model(context, pool)
    document = {
        "decision": target.to_dict(),
        "domain": context.arguments.domain,
        "constraints": [str(one) for one in map(as_constraint, context.arguments.constraints) if one.mentions_instance],
        "guesses": _write_guesses(context),
        "space": seen.to_dict(),
        "table": _write_table(context),
        "model": model,
        "unreadable_reason": unreadable,
        "history": _write_history(context, seen, pool) if history else None,
        "measured": _write_measured(context, pool) if history else None,
    }
    about = {
        "saved": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": dict(list_library_versions()),
        "model": context.fingerprint,
        "model_name": _get_model_name(context),
        "space": context.space.fingerprint,
        "history": context.history.fingerprint() if history else None,
        "past_rows": len(context.history) if history else 0,
    }
    try:
        to_canonical_json(document["space"])
    except ValueError as error:
        raise InputError(f"the space cannot be written: {error}", code="not-storable") from None
    write_archive(written, about, document, pool, overwrite)
    return written


def _get_model_name(context: ExplainerContext) -> str:
    """The class of the model that the user built the explainer with."""
    model = context.arguments.models[0]
    if isinstance(model, SavedModel):
        return model.name
    return f"{type(model).__module__.partition('.')[0]}.{type(model).__qualname__}"


def _write_model(context: ExplainerContext, pool: ArrayPool) -> tuple[dict[str, Any] | None, str | None]:
    """The reading of the model, or why there is none: then the model itself is needed to open the file."""
    if context.compiled_model is None:
        return None, context.unreadable_reason
    if context.target.margin:
        return None, "its rules hold under a margin, for which it is asked in two ways"
    read = context.compiled_model.reads[-1]
    try:
        transform = describe_transform(context)
        form = write_normal_form(read.normal_form, [column.seen for column in transform.columns], pool)
        model = {
            "name": _get_model_name(context),
            "undesired_name": context.model.primary.decision.undesired_name,
            "form": form,
            "names": list(transform.names),
            "dtype": transform.dtype,
            "unordered": [[place, reason] for place, reason in transform.unordered.items()],
            "columns": [_write_column(column, transform, pool) for column in transform.columns],
            "categories": _write_categories(context),
        }
    except NotStorable as reason:
        return None, str(reason)
    return model, None


def _write_column(column: SavedColumn, transform: SavedTransform, pool: ArrayPool) -> dict[str, Any]:
    seen: Any = [write_value(value) for value in column.seen.tolist()]
    if transform.dtype != "object":
        seen = pool.add(column.seen.astype(np.float64))
    return {
        "source": column.source,
        "name": column.name,
        "values": _write_values(column.values, pool),
        "seen": seen,
        "formula": None if column.formula is None else _write_formula(column.formula),
        "between": column.between,
        "is_constant": column.is_constant,
    }


def _write_values(values: Sequence[Any], pool: ArrayPool) -> Any:
    """Values as they are, but numbers as an array: numbers of one type, and perhaps missing behind them."""
    numbers = values[:-1] if values and values[-1] is None else values
    for kind, dtype in ((int, np.int64), (float, np.float64)):
        if numbers and all(type(value) is kind for value in numbers) and (kind is float or _fit_int64(numbers)):
            return {"numbers": pool.add(np.array(numbers, dtype=dtype)), "missing": len(numbers) < len(values)}
    return [write_value(value) for value in values]


def _fit_int64(numbers: Sequence[int]) -> bool:
    return all(-(2**63) <= number < 2**63 for number in (min(numbers), max(numbers)))


def _write_formula(formula: NumberFormula) -> dict[str, Any]:
    ends = [None if end is None else write_float(end) for end in (formula.low, formula.high)]
    numbers = [write_float(formula.shift), write_float(formula.scale)]
    return {"kind": formula.kind, "numbers": numbers, "single": formula.single, "ends": ends}


def _write_categories(context: ExplainerContext) -> dict[str, Any]:
    lists = find_category_lists(context.arguments.models[0], context.table.names)
    return {
        name: {"values": [write_value(value) for value in kept.values], "as_pandas": kept.as_pandas}
        for name, kept in lists.items()
    }


def _write_guesses(context: ExplainerContext) -> dict[str, Any]:
    guesses = context.role_guesses
    return {
        "protected": list(guesses.protected),
        "immutable": list(guesses.immutable),
        "direction_by_data": guesses.direction_by_data,
    }


def _write_table(context: ExplainerContext) -> dict[str, Any]:
    """The kind of the user's table, and the types of its columns; the space says what they hold. Of columns that are
    not in the space only the names are kept: rows may have them.
    """
    stored = context.row_store
    if isinstance(stored, SavedRows) and stored.types:
        types, kind = stored.types, stored.table_kind
    else:
        table = context.table
        kind = "array" if table.frame is None else str(table.frame.implementation.name).lower()
        used = set(context.space.columns)
        types = tuple(_describe_type(table, name) if name in used else ColumnType(name, "|O") for name in table.names)
    return {
        "kind": kind,
        "columns": [
            [
                one.name,
                one.dtype,
                None if one.categories is None else [write_value(value) for value in one.categories],
                one.is_ordered,
            ]
            for one in types
        ],
    }


def _describe_type(table: Table, name: str) -> ColumnType:
    """A column's type, and its categories in order."""
    if table.frame is None:
        return ColumnType(name, table.native[:, table.names.index(name)].dtype.str)
    if not table.frame.implementation.is_pandas():
        return ColumnType(name, table.column(name).values.dtype.str)
    dtype = table.native[name].dtype
    if isinstance(dtype, np.dtype):
        return ColumnType(name, dtype.str)
    if hasattr(dtype, "categories"):
        return ColumnType(name, "category", tuple(dtype.categories.tolist()), bool(dtype.ordered))
    return ColumnType(name, str(dtype))


def _write_history(context: ExplainerContext, seen: Space, pool: ArrayPool) -> dict[str, Any] | None:
    codes, outcomes = context.history.codes, context.outcomes
    if len(codes) == 0:
        return None
    rows = context.row_numbers
    measure = context.arguments.measure
    return {
        "codes": _write_codes(codes.recode(context.space.features, seen.features), pool),
        "outcomes": pool.add(np.ascontiguousarray(outcomes)),
        "row_numbers": None if rows is None else pool.add(rows.astype(np.int64)),
        "row_count": context.row_count,
        "measured": pool.add(np.ascontiguousarray(measure)) if is_mask(measure) else None,
    }


def _write_codes(codes: EncodedTable, pool: ArrayPool) -> list[Any]:
    return [pool.add(_narrow(column)) for column in codes.columns]


def _narrow(column: AnyArray) -> AnyArray:
    """Codes in the smallest type, of those that are stored."""
    largest = int(column.max(initial=0))
    return column.astype(np.uint8 if largest < 2**8 else np.uint16 if largest < 2**16 else np.uint32)


def _write_measured(context: ExplainerContext, pool: ArrayPool) -> dict[str, Any] | None:
    """Rows to measure on that are not past rows, as codes of a space of their own."""
    measure = context.arguments.measure
    if measure is None or is_mask(measure):
        return None
    rows = find_population(context).measured
    features: Sequence[Feature] = rows.space.features
    return {
        "space": Space(tuple(features)).to_dict(),
        "codes": _write_codes(rows.codes, pool),
        "outcomes": pool.add(np.ascontiguousarray(rows.outcomes)),
    }
