"""Values as plain data for JSON, and back: dates are the only ones that JSON cannot hold by itself."""

from __future__ import annotations

import datetime
from typing import Any

from ironrule.space.feature import Value


def to_plain(value: Value) -> Any:
    """A value that JSON can hold.

    >>> to_plain(datetime.date(2024, 2, 29))
    {'date': '2024-02-29'}
    """
    return {"date": value.isoformat()} if isinstance(value, (datetime.date, datetime.datetime)) else value


def from_plain(value: Any) -> Value:
    """The value that :func:`to_plain` wrote."""
    if isinstance(value, dict) and set(value) == {"date"}:
        text = value["date"]
        return datetime.datetime.fromisoformat(text) if "T" in text else datetime.date.fromisoformat(text)
    return value
