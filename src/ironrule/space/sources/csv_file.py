"""CSV files of any length.

Which type a column has, only the whole column tells: pandas makes numbers of it if every field is one. So fields are
kept as the text that they are, and the distinct texts, which are few, are put to pandas in the end. What comes out are
the values that ``pandas.read_csv`` would have given for the whole file.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ironrule.errors import MissingExtraError, TableError
from ironrule.space.sources.protocol import CHUNK_ROWS

SEPARATORS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
BLOCK_BYTES = 1 << 24


@dataclass(frozen=True)
class CsvFile:
    """A file of separated values with a header line."""

    path: Path
    separator: str = ","

    @classmethod
    def at(cls, path: Path) -> CsvFile:
        """The file at a path, whose ending says how fields are separated."""
        ending = next((ending for ending in SEPARATORS if path.name.lower().endswith(ending)), None)
        if ending is None or not path.is_file():
            raise TableError(expected=f"expected a file that ends in {', '.join(SEPARATORS)}", got=repr(str(path)))
        return cls(path, SEPARATORS[ending])

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Its columns."""
        return tuple(self._opened(None).schema.names)

    @property
    def rows(self) -> None:
        """Nobody knows before the end."""
        return

    def chunks(self, columns: Sequence[str]) -> Iterator[Any]:
        """The rows, some at a time, every field as text."""
        import pyarrow as pa

        reader, pending = self._opened(columns), []
        try:
            for batch in reader:
                pending.append(batch)
                if sum(len(one) for one in pending) >= CHUNK_ROWS:
                    yield pa.Table.from_batches(pending)
                    pending = []
        except pa.ArrowInvalid as error:
            raise TableError(f"{self.path.name} is not well formed: {str(error).splitlines()[0]}") from None
        if pending:
            yield pa.Table.from_batches(pending)

    def _opened(self, columns: Sequence[str] | None) -> Any:
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

    def as_frame(self, table: Any) -> Any:
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

    def stamp(self) -> str:
        """Name, size and time of the file."""
        state = self.path.stat()
        return hashlib.sha256(f"{self.path.resolve()} {state.st_size} {state.st_mtime_ns}".encode()).hexdigest()
