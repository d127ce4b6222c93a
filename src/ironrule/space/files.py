"""Spaces as files: TOML (read without extras), YAML or JSON.

    constraints = ["cf.age >= 18"]

    [features.age]
    kind = "ordered"                    # or "nominal"; left out: as inferred from the table
    grid = { start = 18, stop = 75, step = 1 }

    [features.education]
    kind = "ordered"
    values = ["school", "college", "university"]
    missing = true
    label = "Highest education"           # how plots and reports call it; a number may have a unit too

    [features.income]
    interval = false                      # only the values listed or seen; left out: any number between them

    [features.job]
    columns = ["job_clerk", "job_cook"]   # a one-hot group

    [features.income]                     # what may be done with it: see ``roles``
    role = "actionable"                   # or "immutable", "protected"
    direction = "rise"                    # or "fall": it may only move this way
    higher_is = "better"                  # or "worse", for the applicant
    minimum_step = 50

A feature without values or grid takes the values seen in the table.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from ironrule.errors import MissingExtraError, SpaceError, describe_value
from ironrule.space.feature import Feature, Value, value_from_json, value_to_json
from ironrule.space.infer import InferenceOptions, infer_features
from ironrule.space.roles import ROLE_KEYS, Role
from ironrule.space.table import Table
from ironrule.wording import format_count

SpaceDocument = dict[str, Any]
MAX_GRID_VALUES = 1_000_000
KIND_NAMES: dict[type, str] = {list: "a list", bool: "true or false", str: "a string"}
BARE_KEY = re.compile("[A-Za-z0-9_-]+")
FEATURE_KEYS = {"kind", "values", "grid", "missing", "columns", "label", "unit", "interval", *ROLE_KEYS}


def read_document(path: Path) -> SpaceDocument:
    """The plain data in a TOML, YAML or JSON file."""
    try:
        is_file, exists = path.is_file(), path.exists()
    except (OSError, ValueError):  # a name that is too long
        is_file = exists = False
    if not is_file:
        what = "a space must be a file, got a folder" if exists else "space file not found"
        raise SpaceError(f"{what}: {describe_value(str(path))}", hint="check the path")
    try:
        document = _parse_text(path.suffix.lower(), path.read_text(encoding="utf-8"))
    except SpaceError:
        raise
    except (ValueError, RecursionError) as error:
        raise SpaceError(f"{path.name} is not well-formed {path.suffix.lstrip('.').upper()}: {error}") from None
    if not isinstance(document, dict):
        raise SpaceError(expected=f"{path.name} must hold a mapping with 'features'", got=type(document).__name__)
    return document


def _parse_text(suffix: str, text: str) -> Any:
    if suffix == ".toml":
        import tomllib

        return tomllib.loads(text)
    if suffix == ".json":
        return json.loads(text)
    if suffix not in (".yaml", ".yml"):
        rule = "a space file must end in .toml, .yaml or .json"
        raise SpaceError(expected=rule, got=describe_value(suffix) if suffix else "no extension")
    try:
        import yaml
    except ImportError:
        raise MissingExtraError("PyYAML", "yaml", "reading a YAML file") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def parse_features(document: SpaceDocument, table: Table | None) -> tuple[tuple[Feature, ...], list[str]]:
    """The features and the constraints that a document declares."""
    if not isinstance(document, Mapping):
        raise SpaceError(expected="a space must be a mapping with 'features'", got=describe_value(document))
    unknown = set(document) - {"features", "constraints", "labels"}
    if unknown:
        rule = "a space may only have the keys 'features', 'constraints' and 'labels'"
        raise SpaceError(expected=rule, got=", ".join(sorted(map(describe_value, unknown))))
    entries = document.get("features", {})
    if not isinstance(entries, dict) or not entries:
        raise SpaceError(
            expected="'features' must be a non-empty mapping of names to features", got=describe_value(entries)
        )
    constraints = document.get("constraints", [])
    if not isinstance(constraints, list):
        raise SpaceError(expected="'constraints' must be a list of strings", got=describe_value(constraints))
    return tuple(_parse_feature(str(name), entry, table) for name, entry in entries.items()), constraints


def _parse_feature(name: str, entry: Mapping[str, Any], table: Table | None) -> Feature:
    _check_entry(name, entry)
    columns = tuple(entry.get("columns", (name,)))
    if "values" in entry or "grid" in entry:
        values, ordered = _parse_values(name, entry), entry.get("kind") == "ordered"
        listed = Feature(name, values, ordered, missing=True)
        if "kind" not in entry and values and (listed.numeric or listed.temporal):
            values, ordered = tuple(sorted(values)), True
        missing = entry.get("missing", False)
    else:
        seen = _infer_from_table(name, columns, entry, table)
        values, ordered, missing = seen.values, seen.ordered, entry.get("missing", seen.missing)
    shown = {key: entry.get(key) for key in ("label", "unit", "interval")}
    feature = Feature(name, values, ordered=ordered, missing=missing, columns=columns, **shown)
    return replace(feature, role=_parse_role(name, entry))


def _parse_role(name: str, entry: Mapping[str, Any]) -> Role | None:
    try:
        return Role.from_dict(entry)
    except SpaceError as error:
        expected = f"the role of feature {name!r}: {error.expected}"
        raise SpaceError(expected=expected, got=error.got, hint=error.hint, code=error.code) from None


def _check_entry(name: str, entry: Mapping[str, Any]) -> None:
    keys_fit = isinstance(entry, Mapping) and set(entry) <= FEATURE_KEYS
    if not keys_fit or entry.get("kind") not in (None, "ordered", "nominal"):
        raise SpaceError(
            expected=f"feature {name!r} may only have {', '.join(sorted(FEATURE_KEYS))}, "
            "with kind 'ordered' or 'nominal'",
            got=describe_value(entry),
        )
    kinds = {"values": list, "columns": list, "missing": bool, "label": str, "unit": str, "interval": bool}
    for key, kind in kinds.items():
        if not isinstance(entry.get(key, kind()), kind):
            rule = f"{key!r} of feature {name!r} must be {KIND_NAMES[kind]}"
            raise SpaceError(expected=rule, got=describe_value(entry[key]))
    columns = entry.get("columns", [name])
    if not columns or not all(isinstance(column, str) for column in columns):
        raise SpaceError(expected=f"'columns' of feature {name!r} must be names", got=describe_value(columns))


def _infer_from_table(name: str, columns: tuple[str, ...], entry: Mapping[str, Any], table: Table | None) -> Feature:
    if table is None:
        hint = "declare one of them, or give a table to take the values from"
        raise SpaceError(f"feature {name!r} has neither 'values' nor a 'grid'", hint=hint)
    absent = [column for column in columns if column not in table.names]
    if absent:
        raise SpaceError(f"column {absent[0]!r} of feature {name!r} not found in the table", code="missing-columns")
    options = InferenceOptions(
        nominal=columns if entry.get("kind") == "nominal" and len(columns) == 1 else (),
        one_hot={name: columns} if len(columns) > 1 else None,
    )
    (feature,) = infer_features(table, columns, options, progress=False)
    if entry.get("kind") == "ordered" and not feature.ordered:
        reason = f"feature {name!r} has no natural order: its values are not numbers"
        raise SpaceError(reason, hint="list its 'values' in order")
    return feature


def _parse_values(name: str, entry: Mapping[str, Any]) -> tuple[Value, ...]:
    grid = entry.get("grid")
    if grid is None:
        try:
            return tuple(value_from_json(value) for value in entry.get("values", ()))
        except (ValueError, TypeError) as error:
            rule = f'a date in the domain of {name!r} must be written as {{"date": "2024-12-31"}}'
            raise SpaceError(expected=rule, got=str(error)) from None
    try:
        given = (grid["start"], grid["stop"], grid.get("step", 1))
        if not all(isinstance(number, (int, float)) for number in given):
            raise TypeError
        start, stop, step = (Decimal(repr(number)) for number in given)
        steps = int((stop - start) // step) + 1 if step > 0 else 0
    except (KeyError, TypeError, AttributeError, ArithmeticError, ValueError):
        rule = f"the grid of {name!r} must have numbers start, stop and step"
        raise SpaceError(expected=rule, got=describe_value(grid)) from None
    if not 1 <= steps <= MAX_GRID_VALUES:
        rule = f"the grid of {name!r} must go up from start to stop in 1 to {MAX_GRID_VALUES:,} values"
        raise SpaceError(expected=rule, got=describe_value(grid))
    number = int if all(isinstance(grid.get(key, 1), int) for key in ("start", "step")) else float
    return tuple(number(start + i * step) for i in range(steps))  # decimals, since 3 * 0.1 is not 0.3


def build_document(features: Sequence[Feature], constraints: Sequence[str]) -> SpaceDocument:
    """The features as plain data that :func:`parse_features` reads back."""
    return {"features": {f.name: _build_entry(f) for f in features}, "constraints": list(constraints)}


def _build_entry(feature: Feature) -> SpaceDocument:
    entry: SpaceDocument = {
        "kind": "ordered" if feature.ordered else "nominal",
        "values": [value_to_json(value) for value in feature.values],
        "missing": feature.missing,
    }
    if feature.columns != (feature.name,):
        entry["columns"] = list(feature.columns)
    optional = {"label": feature.label, "unit": feature.unit, "interval": feature.interval}
    entry |= {key: value for key, value in optional.items() if value is not None}
    return entry | ({} if feature.role is None else feature.role.to_dict())


def to_toml(document: SpaceDocument, inferred: SpaceDocument, max_values: int = 24) -> str:
    """A document as TOML; a domain of more than ``max_values`` is left out where it is the ``inferred`` one."""
    observed = inferred["features"]
    lines = [f"constraints = {_format_toml(document.get('constraints', []))}"]
    if "labels" in document:
        lines.append(f"labels = {_format_toml(document['labels'])}")
    for name, entry in document["features"].items():
        lines += ["", f"[features.{_format_toml_scalar(name)}]"]
        seen, many = observed.get(name, {}), len(entry["values"]) > max_values and "columns" not in entry
        brief = many and all(entry[key] == seen.get(key) for key in ("kind", "values", "missing"))
        if brief:
            first, last = (_format_toml(entry["values"][place]) for place in (0, -1))
            lines.append(f"# {format_count(len(entry['values']), 'value')} from {first} to {last}, as in the table")
        skipped = {"values", "missing"} if brief else set()
        lines += [f"{key} = {_format_toml(value)}" for key, value in entry.items() if key not in skipped]
    return "\n".join(lines) + "\n"


def _format_toml(value: Any) -> str:
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_format_toml_key(key)} = {_format_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_format_toml(item) for item in value) + "]"
    return _format_toml_scalar(value)


def _format_toml_key(key: str) -> str:
    return key if BARE_KEY.fullmatch(key) else _format_toml_scalar(key)


def _format_toml_scalar(value: Any) -> str:
    """A scalar as TOML writes it: as JSON does, but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
