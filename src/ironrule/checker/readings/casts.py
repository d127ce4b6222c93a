"""The numbers that a library sees in a column, whatever type the column's values have.

Values that double precision cannot hold exactly are refused before a reading is asked, so the way to double precision
never rounds, and a further cast to single precision rounds once, as it does in the libraries.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from ironrule.checker.readings.normal_form import Floats, Unreadable, Values


def as_doubles(values: Values) -> Floats:
    """The values in double precision, with NaN for missing ones; raises Unreadable for what is no number.

    >>> as_doubles(np.array([True, 2, None], dtype=object))
    array([ 1.,  2., nan])
    """
    kind = values.dtype.kind
    if kind in "biu" or (kind == "f" and values.dtype.itemsize <= 8):
        return values.astype(np.float64)
    if kind != "O":
        raise Unreadable(f"a column of numbers is expected, got values of the type {values.dtype}")
    return np.array([np.nan if is_missing(value) else _number(value) for value in values.tolist()], dtype=np.float64)


def as_singles(values: Values) -> Floats:
    """The values rounded to single precision, each held in double precision; too large ones become infinite."""
    with np.errstate(over="ignore"):
        return as_doubles(values).astype(np.float32).astype(np.float64)


def is_missing(value: Any) -> bool:
    """Whether a value is None, pandas' NA or NaT, or not equal to itself."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, numbers.Number) and bool(value != value)


def _number(value: Any) -> float:
    if isinstance(value, (bool, np.bool_, numbers.Real)):
        return float(value)
    raise Unreadable(f"a number is expected, got {value!r}")
