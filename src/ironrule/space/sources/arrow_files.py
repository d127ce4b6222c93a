"""Parquet files and Arrow datasets: one file, a folder of them, partitioned or not."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ironrule.errors import MissingExtraError, TableError
from ironrule.space.sources.protocol import CHUNK_ROWS


@dataclass(frozen=True)
class ArrowFiles:
    """An Arrow dataset, read file by file; only the columns that are wanted are read."""

    dataset: Any = field(repr=False)

    @classmethod
    def at(cls, path: str | Path) -> ArrowFiles:
        """The Parquet file or the folder of them at a path; folders such as ``year=2024`` are a column."""
        try:
            import pyarrow.dataset as ds
        except ImportError:
            raise MissingExtraError("pyarrow", "parquet", "reading Parquet files") from None
        try:
            dataset = ds.dataset(str(path), format="parquet", partitioning="hive")
            if not dataset.files:
                raise TableError(f"no Parquet files found in {str(path)!r}")
        except (OSError, ValueError) as error:
            if isinstance(error, TableError):
                raise
            raise TableError(f"cannot read {str(path)!r} as Parquet: {str(error).splitlines()[0]}") from None
        return cls(dataset)

    @property
    def names(self) -> tuple[str, ...]:
        """Its columns."""
        return tuple(self.dataset.schema.names)

    @property
    def rows(self) -> int:
        """How many rows it has, by the files' own word."""
        return int(self.dataset.count_rows())

    def chunks(self, columns: Sequence[str]) -> Iterator[Any]:
        """The rows, some at a time; few chunks wait in memory."""
        import pyarrow as pa

        scanner = self.dataset.scanner(
            columns=list(columns), batch_size=CHUNK_ROWS, batch_readahead=2, fragment_readahead=1
        )
        for batch in scanner.to_batches():
            if batch.num_rows:
                yield pa.Table.from_batches([batch])

    def as_frame(self, table: Any) -> Any:
        """As ``pandas.read_parquet`` gives them."""
        metadata = self.dataset.schema.metadata
        return table.replace_schema_metadata(metadata).to_pandas().reset_index(drop=True)

    def stamp(self) -> str | None:
        """Names, sizes and times of the files, and the types of the columns."""
        files = getattr(self.dataset, "files", None)
        if files is None or not all(Path(file).exists() for file in files):
            return None
        parts = [str(self.dataset.schema.remove_metadata())]
        for file in files:
            state = Path(file).stat()
            parts.append(f"{Path(file).resolve()} {state.st_size} {state.st_mtime_ns}")
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()
