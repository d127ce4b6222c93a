"""Bundled data: the German credit table that the demo explains.

Hofmann, Hans (1994). Statlog (German Credit Data). UCI Machine Learning Repository. CC BY 4.0; ``README.md`` in this
folder says what was changed.
"""

from __future__ import annotations

import csv
import gzip
import tomllib
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, overload

from ironrule.errors import MissingExtraError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd


GERMAN_TARGET = "creditability"
"""The target column: ``good`` or ``bad``."""


@overload
def load_german(as_frame: Literal[True] = True) -> tuple[pd.DataFrame, pd.Series[str]]: ...


@overload
def load_german(
    as_frame: Literal[False],
) -> tuple[npt.NDArray[np.object_], tuple[str, ...], npt.NDArray[np.str_]]: ...


def load_german(as_frame: bool = True) -> Any:
    """The German credit data: a pandas DataFrame of 19 features and the target as a Series.

    With ``as_frame=False``, which needs no pandas: an object array, the names of its columns, and the target array.

    >>> features, names, target = load_german(as_frame=False)
    >>> features.shape, names[11], features[0, 11], str(target[0])
    ((1000, 19), 'age_in_years', 67, 'good')
    """
    features, names, target = _read_german()
    if not as_frame:
        return features, names, target
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtraError("pandas", "pandas", "load_german() as a DataFrame") from None
    frame = pd.DataFrame({name: features[:, place].tolist() for place, name in enumerate(names)})
    return frame, pd.Series(target.tolist(), name=GERMAN_TARGET)


def load_german_labels() -> dict[str, Any]:
    """Labels of the German credit data, for ``Explainer(labels=...)``: names of features and outcomes, units.

    >>> load_german_labels()["purpose"]
    'Purpose'
    """
    return tomllib.loads(files(__name__).joinpath("german_labels.toml").read_text(encoding="utf-8"))


def _read_german() -> tuple[npt.NDArray[np.object_], tuple[str, ...], npt.NDArray[np.str_]]:
    import numpy as np

    stored = files(__name__).joinpath("german.csv.gz").read_bytes()
    header, *rows = csv.reader(gzip.decompress(stored).decode("utf-8").splitlines())
    features = np.empty((len(rows), len(header) - 1), dtype=object)
    for place, row in enumerate(rows):
        features[place] = [int(text) if text.isdigit() else text for text in row[:-1]]
    return features, tuple(header[:-1]), np.array([row[-1] for row in rows])
