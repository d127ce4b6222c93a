"""Spaces as files: TOML (read without extras), YAML or JSON.

    constraints = ["cf.age >= 18"]

    [features.age]
    kind = "ordered"                    # or "nominal"; left out: as inferred from the table
    grid = { start = 18, stop = 75, step = 1 }

    [features.education]
    kind = "ordered"
    values = ["school", "college", "university"]
    missing = true
    label = "Highest education"

    [features.job]
    columns = ["job_clerk", "job_cook"]   # a one-hot group

A feature without values or grid takes the values seen in the table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ironrule.errors import MissingExtraError, SpaceError
from ironrule.space.feature import Feature, Value
from ironrule.space.infer import Hints, infer_features
from ironrule.space.plain import from_plain, to_plain
from ironrule.space.table import Table

Document = dict[str, Any]

KEYS = {"kind", "values", "grid", "missing", "columns", "label", "unit"}


def read_document(path: Path) -> Document:
    """The plain data in a TOML, YAML or JSON file."""
    if not path.exists():
        raise SpaceError(f"the space file must exist, but there is no {str(path)!r}")
    text = path.read_text(encoding="utf-8")
    try:
        document = _parse(path.suffix.lower(), text)
    except ValueError as error:
        raise SpaceError(f"{path.name} must be well-formed {path.suffix.lstrip('.').upper()}, but: {error}") from None
    if not isinstance(document, dict):
        raise SpaceError(f"{path.name} must hold a table with 'features', but it holds {type(document).__name__}")
    return document


def _parse(suffix: str, text: str) -> Any:
    if suffix == ".toml":
        import tomllib

        return tomllib.loads(text)
    if suffix == ".json":
        return json.loads(text)
    if suffix not in (".yaml", ".yml"):
        raise SpaceError(f"a space file must end in .toml, .yaml or .json, but {suffix or 'no ending'} came")
    try:
        import yaml
    except ImportError:
        raise MissingExtraError("PyYAML", "yaml", "reading a YAML file") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def features_of(document: Document, table: Table | None) -> tuple[tuple[Feature, ...], list[str]]:
    """The features and the constraints that a document declares."""
    unknown = set(document) - {"features", "constraints"}
    if unknown:
        raise SpaceError(f"a space must have only 'features' and 'constraints', but {sorted(unknown)} came")
    entries = document.get("features", {})
    if not isinstance(entries, dict) or not entries:
        raise SpaceError("a space must have features, each under its name, but it has none")
    features = tuple(_feature(name, entry, table) for name, entry in entries.items())
    return features, list(document.get("constraints", ()))


def _feature(name: str, entry: Mapping[str, Any], table: Table | None) -> Feature:
    unknown = set(entry) - KEYS
    if unknown or entry.get("kind") not in (None, "ordered", "nominal"):
        raise SpaceError(
            f"feature {name!r} must have only {', '.join(sorted(KEYS))} with kind 'ordered' or 'nominal', but {dict(entry)} came"
        )
    columns = tuple(entry.get("columns", (name,)))
    values = _declared_values(name, entry)
    if not values and "missing" not in entry:
        seen = _seen(name, columns, entry, table)
    else:
        ordered = entry.get("kind", "ordered" if all(isinstance(v, (int, float)) for v in values) else "nominal")
        seen = Feature(name, values, ordered == "ordered", bool(entry.get("missing", False)), columns)
    return Feature(seen.name, seen.values, seen.ordered, seen.missing, columns, entry.get("label"), entry.get("unit"))


def _seen(name: str, columns: tuple[str, ...], entry: Mapping[str, Any], table: Table | None) -> Feature:
    if table is None:
        raise SpaceError(
            f"feature {name!r} must have 'values' or a 'grid', or a table must come along to take them from"
        )
    absent = [column for column in columns if column not in table.names]
    if absent:
        raise SpaceError(f"feature {name!r} must be carried by columns of the table, but {absent[0]!r} is not one")
    hints = Hints(
        nominal=columns if entry.get("kind") == "nominal" and len(columns) == 1 else (),
        one_hot={name: columns} if len(columns) > 1 else None,
        constant="keep",
    )
    (feature,) = infer_features(table, columns, hints, progress=False)
    if entry.get("kind") == "ordered" and not feature.ordered:
        raise SpaceError(f"feature {name!r} must list its values in order, since its values are no numbers")
    return feature


def _declared_values(name: str, entry: Mapping[str, Any]) -> tuple[Value, ...]:
    grid = entry.get("grid")
    if grid is None:
        return tuple(from_plain(value) for value in entry.get("values", ()))
    try:
        start, stop, step = grid["start"], grid["stop"], grid.get("step", 1)
        steps = int(np.floor((stop - start) / step + 1e-9)) + 1
    except (KeyError, TypeError, ZeroDivisionError):
        raise SpaceError(f"the grid of {name!r} must have numbers start, stop and step, but {grid!r} came") from None
    if steps < 1:
        raise SpaceError(f"the grid of {name!r} must go from start to a larger stop, but {grid!r} came")
    return tuple(start + i * step for i in range(steps))


def document_of(features: Sequence[Feature], constraints: Sequence[str]) -> Document:
    """The features as plain data that :func:`features_of` reads back."""
    return {"features": {f.name: _entry(f) for f in features}, "constraints": list(constraints)}


def _entry(feature: Feature) -> Document:
    entry: Document = {
        "kind": "ordered" if feature.ordered else "nominal",
        "values": [to_plain(value) for value in feature.values],
        "missing": feature.missing,
    }
    if feature.columns != (feature.name,):
        entry["columns"] = list(feature.columns)
    return entry | {key: text for key, text in (("label", feature.label), ("unit", feature.unit)) if text is not None}


def to_toml(document: Document, longest: int = 24) -> str:
    """A document as TOML; domains longer than ``longest`` are left out, to be taken from the table again."""
    lines = [f"constraints = {_literal(document.get('constraints', []))}"]
    for name, entry in document["features"].items():
        lines += ["", f"[features.{json.dumps(name, ensure_ascii=False)}]"]
        brief = len(entry["values"]) > longest
        if brief:
            lines.append(
                f"# {len(entry['values'])} values from {entry['values'][0]} to {entry['values'][-1]}, as in the table"
            )
        skipped = {"values", "missing"} if brief else set()
        lines += [f"{key} = {_literal(value)}" for key, value in entry.items() if key not in skipped]
    return "\n".join(lines) + "\n"


def _literal(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_literal(item)}" for key, item in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_literal(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)
