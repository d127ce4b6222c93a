"""Tables that are too long for memory, and come in chunks. A new kind is one new file, and one line here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ironrule.errors import TableError
from ironrule.space.sources.arrow_files import ArrowFiles
from ironrule.space.sources.csv_file import SEPARATORS, CsvFile
from ironrule.space.sources.duckdb_query import DuckDbQuery
from ironrule.space.sources.protocol import Source
from ironrule.space.sources.sql_query import SqlQuery

__all__ = ["ArrowFiles", "CsvFile", "DuckDbQuery", "Source", "SqlQuery", "as_source"]


def as_source(data: Any) -> Source | None:
    """The source meant by a path, a dataset, a relation, or a source itself; None for a table in memory."""
    if isinstance(data, (str, Path)):
        return _at(Path(data))
    kind = f"{type(data).__module__}.{type(data).__name__}"
    if kind.startswith(("pyarrow._dataset", "pyarrow.dataset")):
        return ArrowFiles(data)
    if "duckdb" in kind.lower() and kind.endswith("Relation"):
        return DuckDbQuery(data)
    return data if hasattr(type(data), "chunks") and hasattr(type(data), "stamp") else None


def _at(path: Path) -> Source:
    if not path.exists():
        raise TableError(f"data not found: {str(path)!r}")
    return CsvFile.at(path) if path.name.lower().endswith(tuple(SEPARATORS)) else ArrowFiles.at(path)
