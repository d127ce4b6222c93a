"""Lines as Parquet, by pyarrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ironrule.errors import MissingExtraError
from ironrule.explain.batches.line import NAMES, Line

GROUP = 64  # lines that are read together
BOXES = ("point", "low", "high", "wider_low", "wider_high")


def require_pyarrow() -> None:
    """Raise MissingExtraError now, not after the work."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet", "writing a batch") from None


def table_bytes(lines: Iterable[Line]) -> bytes:
    """The bytes of a Parquet file with these lines."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    items = list(lines)
    columns = {name: [getattr(line, name) for line in items] for name in NAMES}
    table = pa.table(columns, schema=_schema())
    target = pa.BufferOutputStream()
    pq.write_table(table, target, compression="zstd", row_group_size=GROUP)
    return bytes(target.getvalue())


def _schema() -> Any:
    import pyarrow as pa

    text, whole, codes = pa.string(), pa.int64(), pa.list_(pa.int32())
    kinds = {
        "row": whole, "same_as": whole, "covered_by": whole, "cardinality": pa.int32(), "weight": pa.float64(),
        "lower_bound": pa.float64(), "minimum": pa.bool_(), "coverage": whole, "wider_coverage": whole,
        "widest": pa.bool_(), "seconds": pa.float64(), **dict.fromkeys(BOXES, codes),
    }  # fmt: skip
    return pa.schema([(name, kinds.get(name, text)) for name in NAMES])


def read_column(path: Path, name: str) -> list[Any]:
    """One column of a part."""
    return read_columns(path, [name])[name]


def read_columns(path: Path, names: Sequence[str]) -> dict[str, list[Any]]:
    """Some columns of a part, as Python values."""
    require_pyarrow()
    import pyarrow.parquet as pq

    table = pq.read_table(path, columns=list(names), partitioning=None)
    return {name: table.column(name).to_pylist() for name in names}


def read_line(path: Path, place: int) -> Line:
    """The line at a place of a part; only the lines beside it are read."""
    require_pyarrow()
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        return _line(file.read_row_group(place // GROUP).slice(place % GROUP, 1).to_pylist()[0])


def read_lines(path: Path) -> Iterator[Line]:
    """All lines of a part."""
    require_pyarrow()
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            yield from map(_line, file.read_row_group(group).to_pylist())


def _line(values: dict[str, Any]) -> Line:
    codes = {name: None if values[name] is None else tuple(values[name]) for name in BOXES}
    return Line(**(values | codes))
