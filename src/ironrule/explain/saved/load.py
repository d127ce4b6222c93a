"""Open the file of a saved explainer, with the user's model attached again or without it.

Everything that an explainer works out is worked out again from what the file holds: the domains with all turns of the
model, the compiled arrays, the oracle. So a file can claim nothing: it has a reading, rows and outcomes, and the rest
follows as from a model and a table. That both are those that were saved is seen by their fingerprints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ironrule.arrays import AnyArray, BoolArray
from ironrule.errors import InputError, IronruleError, ModelError, describe_value
from ironrule.explain.context import ExplainerArguments, ExplainerContext
from ironrule.explain.prepare.build import build_context
from ironrule.explain.saved.archive import StoredParts, build_damage_error, read_archive
from ironrule.explain.saved.fields import (
    read_float,
    read_value,
    require_flag,
    require_int,
    require_list,
    require_object,
    require_text,
)
from ironrule.explain.saved.normal_forms import read_normal_form
from ironrule.explain.saved.rows import (
    ColumnType,
    SavedRows,
    build_array_table,
    build_sample_points,
    build_user_table,
)
from ironrule.model.categories import CategoryList
from ironrule.model.decision import DecisionTarget
from ironrule.model.saved_model import NumberFormula, SavedColumn, SavedModel, SavedTransform
from ironrule.space.codes import EncodedTable
from ironrule.space.constraints.parser import parse_constraint
from ironrule.space.domain import parse_domain
from ironrule.space.feature import Feature
from ironrule.space.roles import RoleGuesses
from ironrule.space.space import Space

if TYPE_CHECKING:
    from ironrule.explain.explainer import Explainer


FORMULA_KINDS = ("identity", "shift_then_divide", "multiply_then_shift", "divide")
TABLE_KINDS = ("array", "pandas", "polars", "pyarrow", "modin", "cudf")
CHECKED_ROWS = 4096


def load_explainer(path: Any, model: Any, device: str | None, progress: bool | None) -> ExplainerContext:
    """What the explainer of a file knows; raises InputError for a file that is none, ModelError for another model."""
    if not isinstance(path, (str, Path)) or not str(path):
        raise InputError(expected="path must name a file, such as 'credit.ironrule'", got=describe_value(path))
    parts = read_archive(Path(path))
    try:
        return _build(parts, model, device, progress)
    except IronruleError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError, AttributeError, IndexError) as error:
        # The digests are right, so the author of the file wrote what makes no sense.
        raise build_damage_error("parts that make sense together", f"{type(error).__name__}: {error}") from error


def get_saved_model(explainer: Explainer) -> SavedModel:
    """The reading that stands for the model in an explainer that was loaded without it."""
    model = explainer._context.arguments.models[0]
    assert isinstance(model, SavedModel)
    return model


def _build(parts: StoredParts, model: Any, device: str | None, progress: bool | None) -> ExplainerContext:
    document = parts.document
    space = Space.from_dict(require_object(document["space"]))
    target = DecisionTarget.from_dict(require_object(document["decision"]))
    saved = _read_model(document, parts, space, target) if model is None else None
    rows = _read_rows(document, parts, space, asks_model=model is not None)
    measure = _read_measure(document, parts, rows)
    arguments = ExplainerArguments(
        models=(saved if model is None else model,),
        target=target,
        space=space,
        constraints=tuple(parse_constraint(require_text(text)) for text in require_list(document["constraints"])),
        columns=None,
        domain=parse_domain(document["domain"]),
        device=device,
        role_guesses=_read_guesses(document["guesses"]),
        measure=measure,
    )
    context = build_context(arguments, rows, progress)
    _require_same(context, parts, rows, saved)
    return context


def _require_same(context: ExplainerContext, parts: StoredParts, rows: SavedRows, saved: SavedModel | None) -> None:
    """Raise ModelError unless the explainer is the one that was saved."""
    manifest = parts.manifest
    if saved is not None and context.compiled_model is None:
        raise build_damage_error("the reading of a model", context.unreadable_reason)
    if saved is None and rows.outcomes is not None and not np.array_equal(context.outcomes, rows.outcomes):
        count = int((context.outcomes != rows.outcomes).sum())
        raise ModelError(
            expected="the model must be the one that the explainer was saved with",
            got=f"another outcome for {count:,} past rows",
            hint="recheck stored explanations with a new Explainer of the new model",
            code="model-mismatch",
        )
    has_rows = rows.outcomes is not None
    own, stored = (
        str(one) if has_rows else str(one).partition("-")[2] for one in (context.fingerprint, manifest["model"])
    )
    if own != stored or context.space.fingerprint != manifest["space"]:
        raise ModelError(
            expected="the model must be the one that the explainer was saved with",
            got="another fingerprint of the model or of the space",
            hint="attach the model that was saved, or save the explainer again with this version of ironrule",
            code="model-mismatch",
        )
    if saved is not None and has_rows:
        _check_outcomes(context, saved)


def _check_outcomes(context: ExplainerContext, saved: SavedModel) -> None:
    """Raise InputError if the outcomes of past rows are not what the reading says, as far as it says anything."""
    points = context.history.codes.points(slice(0, CHECKED_ROWS))
    possible, sure = saved.decide(saved.transform(context.model.primary.layout.decode(points)))
    outcomes = context.outcomes[:CHECKED_ROWS]
    if (outcomes & ~possible).any() or (sure & ~outcomes).any():
        raise build_damage_error("the outcomes that its reading of the model gives", "others")


def _read_model(document: Mapping[str, Any], parts: StoredParts, space: Space, target: DecisionTarget) -> SavedModel:
    """The model as it was read; raises ModelError if the file has no reading."""
    if document["model"] is None:
        reason = document["unreadable_reason"]
        raise ModelError(
            f"this explainer can only be opened with its model, of which there is no reading: {reason}",
            hint="Explainer.load(path, model=model)",
            code="model-required",
        )
    given = require_object(document["model"])
    names = tuple(map(require_text, require_list(given["names"])))
    if len(set(names)) < len(names) or not set(names) <= set(space.columns):
        raise build_damage_error("columns of the space", describe_value(names))
    dtype = require_text(given["dtype"])
    if dtype not in ("object", "float64", "float32"):
        raise build_damage_error("columns of float64, float32 or object", dtype)
    columns = tuple(
        _read_column(require_object(one), parts, len(names), dtype) for one in require_list(given["columns"])
    )
    unordered = {require_int(place): require_text(reason) for place, reason in require_list(given["unordered"])}
    lists = {
        require_text(name): CategoryList(
            tuple(map(read_value, require_list(kept["values"]))), require_flag(kept["as_pandas"])
        )
        for name, kept in require_object(given["categories"]).items()
    }
    return SavedModel(
        SavedTransform(names, columns, dtype, unordered),
        read_normal_form(given["form"], parts, len(columns)),
        target,
        require_text(given["undesired_name"]),
        require_text(given["name"]),
        category_lists=lists,
    )


def _read_column(given: Mapping[str, Any], parts: StoredParts, width: int, dtype: str) -> SavedColumn:
    source = require_int(given["source"])
    if not 0 <= source < width:
        raise build_damage_error(f"one of its {width} columns", source)
    values = _read_values(given["values"], parts)
    if dtype == "object":
        listed = list(map(read_value, require_list(given["seen"])))
        seen: AnyArray = np.empty(len(listed), dtype=object)
        seen[:] = listed
    else:
        seen = parts.get_array(given["seen"], "f8").astype(dtype)
    if len(seen) != len(values) or not values:
        raise build_damage_error("something that the model sees for every value", f"{len(seen)} for {len(values)}")
    formula = None if given["formula"] is None else _read_formula(require_object(given["formula"]))
    return SavedColumn(
        source=source,
        name=require_text(given["name"]),
        values=values,
        seen=seen,
        formula=formula,
        between=require_flag(given["between"]),
        is_constant=require_flag(given["is_constant"]),
    )


def _read_values(given: Any, parts: StoredParts) -> tuple[Any, ...]:
    if isinstance(given, list):
        return tuple(map(read_value, given))
    kind = require_list(require_object(given)["numbers"])[0]
    if kind not in ("i8", "f8"):
        raise build_damage_error("numbers of i8 or f8", describe_value(kind))
    return (*parts.get_array(given["numbers"], kind).tolist(), *([None] if require_flag(given["missing"]) else []))


def _read_formula(given: Mapping[str, Any]) -> NumberFormula:
    kind = given["kind"]
    if kind not in FORMULA_KINDS:
        raise build_damage_error(f"a formula, one of {', '.join(FORMULA_KINDS)}", describe_value(kind))
    shift, scale = map(read_float, require_list(given["numbers"]))
    low, high = (None if end is None else read_float(end) for end in require_list(given["ends"]))
    return NumberFormula(kind, shift, scale, single=require_flag(given["single"]), low=low, high=high)


def _read_guesses(given: Any) -> RoleGuesses:
    protected, immutable = (tuple(map(require_text, require_list(given[name]))) for name in ("protected", "immutable"))
    return RoleGuesses(protected, immutable, direction_by_data=require_flag(given["direction_by_data"]))


def _read_rows(document: Mapping[str, Any], parts: StoredParts, space: Space, asks_model: bool) -> SavedRows:
    """The past rows, or none, and the small table of the user's columns."""
    table = require_object(document["table"])
    types = tuple(_read_column_type(one) for one in require_list(table["columns"]))
    names = [one.name for one in types]
    if not set(space.columns) <= set(names) or len(set(names)) < len(names):
        raise build_damage_error("the columns of the space in its table", describe_value(names))
    kind = require_text(table["kind"])
    history = document["history"]
    codes = EncodedTable(tuple(np.zeros(0, dtype=np.uint8) for _ in space.features))
    outcomes = numbers = None
    count = 0
    if history is not None:
        codes = _read_codes(history["codes"], parts, space.features)
        outcomes, count = _read_flags(history["outcomes"], parts, len(codes)), require_int(history["row_count"])
        numbers = None if history["row_numbers"] is None else parts.get_array(history["row_numbers"], "i8")
        _check_row_numbers(numbers, len(codes), count)
    points = build_sample_points(space.features, codes)
    real = min(len(codes), len(points))
    if asks_model:
        built = build_user_table(space.features, types, points, rows=real, kind=kind)
    else:
        built = build_array_table(space.features, types, points, real)
    return SavedRows(
        table=built,
        features=space.features,
        codes=codes,
        outcomes=outcomes,
        row_numbers=numbers,
        row_count=count,
        asks_model=asks_model,
        types=types,
        table_kind=kind,
    )


def _check_row_numbers(numbers: Any, rows: int, count: int) -> None:
    if numbers is None:
        fits = rows == count
    else:
        rises = bool((np.diff(numbers) > 0).all())
        fits = len(numbers) == rows and rises and (rows == 0 or (numbers[0] >= 0 and numbers[-1] < count))
    if not fits:
        raise build_damage_error("a row number for every past row", "others")


def _read_column_type(given: Any) -> ColumnType:
    name, dtype, categories, is_ordered = require_list(given)
    kinds = None if categories is None else tuple(map(read_value, require_list(categories)))
    return ColumnType(require_text(name), require_text(dtype), kinds, require_flag(is_ordered))


def _read_codes(given: Any, parts: StoredParts, features: Sequence[Feature]) -> EncodedTable:
    """Rows as codes, none of them beyond its domain."""
    references = require_list(given)
    if len(references) != len(features):
        raise build_damage_error(f"a column of codes for each of {len(features)} features", len(references))
    columns = list[AnyArray]()
    for reference, feature in zip(references, features, strict=True):
        kind = require_list(reference)[0]
        if kind not in ("u1", "u2", "u4"):
            raise build_damage_error("codes of u1, u2 or u4", describe_value(kind))
        column = parts.get_array(reference, kind)
        if len(column) != len(columns[0] if columns else column) or len(column) == 0 or column.max() >= feature.size:
            raise build_damage_error(f"codes of {feature.name!r} below {feature.size}", "others")
        columns.append(column)
    return EncodedTable(tuple(columns))


def _read_flags(given: Any, parts: StoredParts, rows: int) -> BoolArray:
    flags = parts.get_array(given, "u1")
    if len(flags) != rows or flags.max(initial=0) > 1:
        raise build_damage_error(f"an outcome for each of {rows:,} rows", f"{len(flags):,}")
    return flags.astype(np.bool_)


def _read_measure(document: Mapping[str, Any], parts: StoredParts, rows: SavedRows) -> Any:
    """Which past rows are measured, or the rows that are; None where the hash of the rows says so."""
    history, measured = document["history"], document["measured"]
    if measured is not None:
        space = Space.from_dict(require_object(measured["space"]))
        codes = _read_codes(measured["codes"], parts, space.features)
        points = build_sample_points(space.features, codes)
        table = build_array_table(space.features, rows.types, points, min(len(codes), len(points)))
        outcomes = _read_flags(measured["outcomes"], parts, len(codes))
        return SavedRows(table, space.features, codes, outcomes, row_numbers=None, row_count=len(codes))
    if history is None or history["measured"] is None:
        return None
    return _read_flags(history["measured"], parts, rows.row_count)
