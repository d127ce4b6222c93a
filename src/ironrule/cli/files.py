"""Data files: CSV and Parquet, read by pandas, with what pandas would pass over in silence told as an error."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import TYPE_CHECKING

from ironrule.cli.existing import existing
from ironrule.errors import MissingExtraError, TableError

if TYPE_CHECKING:
    import pandas as pd

SEPARATORS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}


def read_data(path: Path, target: str | None = None) -> pd.DataFrame:
    """The table in a file, without the target column; raises TableError if it cannot be read as one."""
    frame = _read(path)
    if target is None:
        return frame
    if target not in frame.columns:
        raise TableError(
            expected="the target must be a column of the data",
            got=repr(target),
            hint=f"the columns are {_listed(frame)}",
        )
    return frame.drop(columns=target)


def _read(path: Path) -> pd.DataFrame:
    existing(path, "data file", error=TableError)
    ending = _ending(path)
    try:
        import pandas  # noqa: F401  # asked for here, so that its absence is told before the file is opened
    except ImportError:
        raise MissingExtraError(
            "pandas", "parquet" if ending == ".parquet" else "pandas", "reading a data file"
        ) from None
    try:
        return _read_parquet(path) if ending == ".parquet" else _read_csv(path, SEPARATORS[ending])
    except (OSError, EOFError, ValueError, csv.Error) as error:  # pandas' and Arrow's own errors are ValueErrors
        if isinstance(error, TableError):
            raise
        raise TableError(f"cannot read {path.name} as a {ending} file: {_first_line(error)}") from None


def _ending(path: Path) -> str:
    known = (*SEPARATORS, ".parquet")
    for ending in known:
        if path.name.lower().endswith(ending):
            return ending
    raise TableError(expected=f"the data file must end in one of {', '.join(known)}", got=repr(path.name))


def _read_csv(path: Path, separator: str) -> pd.DataFrame:
    import pandas as pd

    _refuse_repeated_names(path, separator)
    frame = pd.read_csv(path, sep=separator, low_memory=False)
    if not frame.index.equals(pd.RangeIndex(len(frame))):  # pandas takes surplus fields at the left for an index
        raise TableError(f"some lines of {path.name} have more fields than its header")
    return frame


def _refuse_repeated_names(path: Path, separator: str) -> None:
    """Look at the header line itself: pandas renames a repeated column in silence (``a``, ``a.1``)."""
    opened = gzip.open if path.name.lower().endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        header = next(csv.reader(file, delimiter=separator), [])
    if not header:
        raise TableError(expected=f"{path.name} must have a header line and rows", got="an empty file")
    twice = sorted({name for name in header if name and header.count(name) > 1})
    if twice:
        raise TableError(expected="column names must be distinct", got=f"{', '.join(map(repr, twice))} more than once")


def _read_parquet(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        import pyarrow  # type: ignore[import-untyped,unused-ignore]  # noqa: F401
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet", "reading a Parquet file") from None
    return pd.read_parquet(path).reset_index(drop=True)


def _listed(frame: pd.DataFrame) -> str:
    return ", ".join(map(str, frame.columns))


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
