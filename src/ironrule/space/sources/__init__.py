"""Sources: tables that are too long for memory and come in chunks.

A source is any object that satisfies :class:`Source`. Files are in :mod:`.files`, databases in :mod:`.databases`; a new
kind is one class and one line in :func:`as_source`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ironrule.errors import TableError, describe_value
from ironrule.space.sources.databases import DuckDbQuery
from ironrule.space.sources.files import FIELD_SEPARATORS, ArrowFiles, CsvFile
from ironrule.space.sources.protocol import Source


def as_source(data: Any) -> Source | None:
    """The source meant by a path, a dataset, a relation, or a source itself; None for a table in memory."""
    if isinstance(data, (str, Path)):
        return _open_path(Path(data))
    kind = f"{type(data).__module__}.{type(data).__name__}"
    if kind.startswith(("pyarrow._dataset", "pyarrow.dataset")):
        return ArrowFiles(data)
    if "duckdb" in kind.lower() and kind.endswith("Relation"):
        return DuckDbQuery(data)
    return data if hasattr(type(data), "chunks") and hasattr(type(data), "fingerprint") else None


def _open_path(path: Path) -> Source:
    try:
        exists = path.exists() and str(path) not in ("", ".")
    except (OSError, ValueError):  # a name that is too long
        exists = False
    if not exists:
        raise TableError(f"data file not found: {describe_value(str(path))}", hint="check the path")
    is_text = path.name.lower().endswith(tuple(FIELD_SEPARATORS))
    return CsvFile.from_path(path) if is_text else ArrowFiles.from_path(path)
