"""Files as sources: Parquet and Arrow datasets (one file, a folder of them, partitioned or not), and CSV files of any
length.

Which type a column of a CSV file has, only the whole column tells: pandas makes numbers of it if every field is one. So
fields are kept as the text that they are, and the distinct texts, which are few, are given to pandas at the end. The
result is the values that ``pandas.read_csv`` would have given for the whole file.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from ironrule.errors import MissingExtraError, TableError, describe_value
from ironrule.space.sources.protocol import CHUNK_ROWS


@dataclass(frozen=True)
class ArrowFiles:
    """An Arrow dataset, read file by file; only the columns that are wanted are read."""

    dataset: Any = field(repr=False)

    @classmethod
    def from_path(cls, path: str | Path) -> ArrowFiles:
        """The Parquet file or the folder of them at a path; folders such as ``year=2024`` are a column."""
        try:
            import pyarrow.dataset as ds
        except ImportError:
            raise MissingExtraError("pyarrow", "parquet", "reading Parquet files") from None
        try:
            dataset = ds.dataset(str(path), format="parquet", partitioning="hive")
        except (OSError, ValueError) as error:
            raise TableError(f"cannot read {str(path)!r} as Parquet: {str(error).splitlines()[0]}") from None
        if not dataset.files:
            raise TableError(f"no Parquet files found in {str(path)!r}")
        return cls(dataset)

    @property
    def names(self) -> tuple[str, ...]:
        """Its columns."""
        return tuple(self.dataset.schema.names)

    @property
    def row_count(self) -> int:
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

    def to_pandas(self, table: Any) -> Any:
        """As ``pandas.read_parquet`` gives them."""
        metadata = self.dataset.schema.metadata
        return table.replace_schema_metadata(metadata).to_pandas().reset_index(drop=True)

    def fingerprint(self) -> str | None:
        """Names, sizes and times of the files, and the types of the columns."""
        files = getattr(self.dataset, "files", None)
        if files is None or not all(Path(file).exists() for file in files):
            return None
        parts = [str(self.dataset.schema.remove_metadata())]
        for file in files:
            state = Path(file).stat()
            parts.append(f"{Path(file).resolve()} {state.st_size} {state.st_mtime_ns}")
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


FIELD_SEPARATORS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
BLOCK_BYTES = 1 << 24


@dataclass(frozen=True)
class CsvFile:
    """A file of separated values with a header line."""

    path: Path
    separator: str = ","
    row_count: ClassVar[None] = None  # not known before all rows were read

    @classmethod
    def from_path(cls, path: Path) -> CsvFile:
        """The file at a path, whose ending says how fields are separated."""
        ending = next((ending for ending in FIELD_SEPARATORS if path.name.lower().endswith(ending)), None)
        if ending is None or not path.is_file():
            rule = f"expected a file that ends in {', '.join(FIELD_SEPARATORS)}"
            raise TableError(expected=rule, got=describe_value(str(path)))
        return cls(path, FIELD_SEPARATORS[ending])

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Its columns."""
        return tuple(self._open(None).schema.names)

    def chunks(self, columns: Sequence[str]) -> Iterator[Any]:
        """The rows, some at a time, every field as text."""
        import pyarrow as pa

        reader, pending = self._open(columns), []
        try:
            for batch in reader:  # blocks of bytes, joined to chunks of about as many rows as elsewhere
                pending.append(batch)
                if sum(len(piece) for piece in pending) >= CHUNK_ROWS:
                    yield pa.Table.from_batches(pending)
                    pending = []
        except pa.ArrowInvalid as error:
            raise TableError(f"{self.path.name} is not well formed: {str(error).splitlines()[0]}") from None
        if pending:
            yield pa.Table.from_batches(pending)

    def _open(self, columns: Sequence[str] | None) -> Any:
        try:
            import pyarrow as pa
            import pyarrow.csv as pc
        except ImportError:
            raise MissingExtraError("pyarrow", "parquet", "reading a long CSV file") from None
        text = None if columns is None else dict.fromkeys(columns, pa.string())
        convert = pc.ConvertOptions(column_types=text, include_columns=columns, strings_can_be_null=False)
        parse = pc.ParseOptions(delimiter=self.separator, newlines_in_values=True)
        read = pc.ReadOptions(block_size=BLOCK_BYTES)
        try:
            stream = pa.input_stream(str(self.path), compression="detect")
            return pc.open_csv(stream, read, parse, convert)
        except (pa.ArrowInvalid, KeyError) as error:
            raise TableError(f"{self.path.name} is not well formed: {str(error).splitlines()[0]}") from None

    def to_pandas(self, table: Any) -> Any:
        """As ``pandas.read_csv`` gives them: it reads the texts."""
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtraError("pandas", "pandas", "reading a CSV file") from None
        text = io.StringIO()
        writer = csv.writer(text, quoting=csv.QUOTE_ALL)
        writer.writerow(table.column_names)
        writer.writerows(zip(*(column.to_pylist() for column in table.columns), strict=True))
        text.seek(0)
        return pd.read_csv(text, low_memory=False)

    def fingerprint(self) -> str:
        """Name, size and time of the file."""
        state = self.path.stat()
        return hashlib.sha256(f"{self.path.resolve()} {state.st_size} {state.st_mtime_ns}".encode()).hexdigest()
