"""Read data files and model files.

Data: CSV and Parquet, read by pandas; what pandas would accept silently (repeated columns, surplus fields) is an error.
Models: skops by default, which loads only trusted types; ONNX and PMML, which hold no code; pickle and joblib only on
request, because loading one can run any code. A file that does not exist is reported with the most similar name in its
folder.
"""

from __future__ import annotations

import csv
import difflib
import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ironrule.cli.trust import HARMLESS_TYPES, build_trust_error, check_unpacked_size
from ironrule.errors import InputError, IronruleError, MissingExtraError, OutcomeError, TableError

if TYPE_CHECKING:
    import pandas as pd


def require_file(path: Path, what: str, hint: str = "check the path", error: type[InputError] = InputError) -> Path:
    """The path, if it is a file; else an error with a hint: a file with a similar name, or the default."""
    if path.is_file():
        return path
    if path.is_dir():
        raise error(expected=f"the {what} must be a file", got=f"the folder {str(path)!r}", hint="name the file in it")
    if path.exists():
        raise error(f"the {what} must be a regular file, but {str(path)!r} is not one")
    near = _find_similar_file(path)
    better = hint if near is None else f"did you mean {str(near)!r}?"
    raise error(f"{what} not found: {str(path)!r}", hint=better, code="file-not-found")


def _find_similar_file(path: Path) -> Path | None:
    """A file in the same folder with a name like it, and the same ending."""
    try:
        names = [one.name for one in path.parent.iterdir() if one.is_file()]
    except OSError:  # the folder does not exist or cannot be read
        return None
    alike = [name for name in names if name.lower().endswith(path.suffix.lower())]
    close = difflib.get_close_matches(path.name, alike, 1)
    return path.with_name(close[0]) if close else None


SEPARATORS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
SEPARATOR_NAMES = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "vertical bars"}


def read_data(path: Path, target: str | None = None) -> pd.DataFrame:
    """The table in a file, without the target column; raises TableError if it cannot be read as one."""
    frame = _read_table(path)
    if target is None:
        return frame
    if target not in frame.columns:
        names = [str(name) for name in frame.columns]
        close = difflib.get_close_matches(target, names, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"the columns are {', '.join(names)}"
        raise TableError(expected="the target must be a column of the data", got=repr(target), hint=hint)
    return frame.drop(columns=target)


def _read_table(path: Path) -> pd.DataFrame:
    require_file(path, "data file", error=TableError)
    ending = _find_ending(path)
    extra = "parquet" if ending == ".parquet" else "pandas"
    try:
        import pandas  # noqa: F401  # here, so that its absence is reported before the file is opened
    except ImportError:
        raise MissingExtraError("pandas", extra, "reading a data file") from None
    try:
        return _read_parquet(path) if ending == ".parquet" else _read_csv(path, SEPARATORS[ending])
    except (OSError, EOFError, ValueError, csv.Error) as error:  # pandas' and Arrow's own errors are ValueErrors
        if isinstance(error, TableError):
            raise
        if isinstance(error, UnicodeDecodeError):
            statement = f"cannot read {path.name} as a {ending} file: it is not text in UTF-8"
            raise TableError(statement, hint="save it with that encoding") from None
        cause = str(error).strip().partition("\n")[0] or type(error).__name__
        raise TableError(f"cannot read {path.name} as a {ending} file: {cause}") from None


def _find_ending(path: Path) -> str:
    known = (*SEPARATORS, ".parquet")
    for ending in known:
        if path.name.lower().endswith(ending):
            return ending
    raise TableError(expected=f"the data file must end in one of {', '.join(known)}", got=repr(path.name))


def _read_csv(path: Path, separator: str) -> pd.DataFrame:
    import pandas as pd

    _check_unique_names(path, separator)
    frame = pd.read_csv(path, sep=separator, low_memory=False)
    if not frame.index.equals(pd.RangeIndex(len(frame))):  # pandas takes surplus fields at the left for an index
        raise TableError(f"some lines of {path.name} have more fields than its header")
    return frame


def _check_unique_names(path: Path, separator: str) -> None:
    """Look at the header line itself: pandas renames a repeated column in silence (``a``, ``a.1``)."""
    opened = gzip.open if path.name.lower().endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        header = next(csv.reader(file, delimiter=separator), [])
    if not header:
        raise TableError(expected=f"{path.name} must have a header line and rows", got="an empty file")
    _check_separator(path, separator, header)
    twice = sorted({name for name in header if name and header.count(name) > 1})
    if twice:
        raise TableError(expected="column names must be distinct", got=f"{', '.join(map(repr, twice))} more than once")


def _check_separator(path: Path, separator: str, header: Sequence[str]) -> None:
    """A header of one column, whose name has another separator in it, belongs to a file that is separated by that."""
    other = next((mark for mark in (";", "\t", "|", ",") if mark != separator and mark in header[0]), None)
    if len(header) == 1 and other is not None:
        expected = f"the columns of {path.name} must be separated by {SEPARATOR_NAMES[separator]}"
        hint = "save the file so, with decimal points, or name a file that is separated by tabs .tsv"
        raise TableError(expected=expected, got=f"{SEPARATOR_NAMES[other]} in its header line", hint=hint)


def _read_parquet(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        import pyarrow  # type: ignore[import-untyped,unused-ignore]  # noqa: F401
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet", "reading a Parquet file") from None
    return pd.read_parquet(path).reset_index(drop=True)


PMML_ENDINGS = (".pmml", ".xml")
PICKLE_ENDINGS = (".pkl", ".pickle", ".joblib")


def load_model(path: Path, trust: Sequence[str] = (), trust_pickle: bool = False) -> Any:
    """The model in a file; raises InputError if it cannot be loaded, or only with more trust."""
    require_file(path, "model file", "check the path, or save one: skops.io.dump(model, 'model.skops')")
    ending = path.suffix.lower()
    if ending == ".skops":
        return _load_skops(path, trust)
    if ending == ".onnx":
        return _load_onnx(path)
    if ending in PMML_ENDINGS:
        return _load_pmml(path)
    if ending not in PICKLE_ENDINGS:
        expected = f"the model file must end in one of .skops, .onnx, .pmml, {', '.join(PICKLE_ENDINGS)}"
        is_data = path.name.lower().endswith((*SEPARATORS, ".parquet"))
        hint = "name the model before the data" if is_data else "save the fitted model itself, with skops"
        raise InputError(expected=expected, got=repr(path.name), hint=hint)
    if not trust_pickle:
        statement = f"{path.name} is a pickle, and loading one can run any code that its author put in it"
        hint = "add --trust-pickle if you trust it, or save the model as .skops"
        raise InputError(statement, hint=hint, code="untrusted-pickle")
    return _load_pickle(path)


def _load_skops(path: Path, trust: Sequence[str]) -> Any:
    try:
        from skops import io
    except ImportError:
        raise MissingExtraError("skops", "skops", "reading a .skops file") from None
    check_unpacked_size(path)
    try:
        trusted = {*trust, *HARMLESS_TYPES}
        untrusted = sorted(set(io.get_untrusted_types(file=path)) - trusted)
        if not untrusted:
            return io.load(path, trusted=sorted(trusted))
    except Exception as error:  # a broken file fails in as many ways as there are bytes
        raise _build_load_error(path, error) from error
    raise build_trust_error(path.name, untrusted)


def _load_onnx(path: Path) -> Any:
    """A model that says its own classes, or a network of the classes 0 and 1."""
    from ironrule.model.wrappers.onnx_loading import load_onnx_model

    try:
        return load_onnx_model(path)
    except IronruleError:
        raise
    except Exception as error:  # as with any broken file
        raise _build_load_error(path, error) from error


def _load_pmml(path: Path) -> Any:
    from ironrule.model.wrappers.pmml_models import PmmlModel

    return PmmlModel(path)


def _load_pickle(path: Path) -> Any:
    import joblib

    try:
        return joblib.load(path)
    except (Exception, SystemExit) as error:  # a pickle can raise anything, and can end the program
        raise _build_load_error(path, error) from error


def _build_load_error(path: Path, error: BaseException) -> InputError:
    text = str(error).strip().partition("\n")[0]
    statement = f"cannot load the model in {path.name}: {type(error).__name__}: {text}"
    if isinstance(error, ModuleNotFoundError) and error.name:
        name = error.name.partition(".")[0]
        hint = f"the model needs {name}: install it, or if it is your own module, set PYTHONPATH to its folder"
        return InputError(statement, hint=hint)
    return InputError(statement)


def parse_desired(labels: Sequence[str] | None, model: Any, threshold: float | None = None) -> Any:
    """The desired classes, given as strings, in the model's own type; raises OutcomeError for an unknown one. With a
    threshold, "above" and "below" stay what they are if no class is called so.
    """
    if labels is None:
        return None
    from ironrule.model.decision import list_labels, suggest_label

    known = getattr(model, "classes_", None)
    if known is None or len(known) == 0:  # a regression; CatBoost's has an empty list
        return tuple(_parse_label(label) for label in labels)
    by_text = {str(label): label for label in known}
    unknown = [label for label in labels if label not in by_text]
    if threshold is not None and len(labels) == 1 and unknown in (["above"], ["below"]):
        return labels[0]
    if unknown:
        close = difflib.get_close_matches(unknown[0], by_text, 1)
        hint = f"did you mean {close[0]!r}?" if close else suggest_label(unknown[0], list_labels(known))
        expected = f"the desired class must be one of {', '.join(by_text)}"
        raise OutcomeError(expected=expected, got=repr(unknown[0]), hint=hint)
    return tuple(by_text[label] for label in dict.fromkeys(labels))


def _parse_label(label: str) -> Any:
    for number in (int, float):
        try:
            return number(label)
        except ValueError:
            continue
    return label
