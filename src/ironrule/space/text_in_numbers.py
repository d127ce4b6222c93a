"""Text in a column of numbers: where a model fails on a table, the column, the row and the value that may be the cause.

One typing error turns a whole column of a file into texts. Models then fail in their own words, which name neither the
column nor the row; :func:`name_text_in_numbers` says them instead.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ironrule.arrays import BoolArray
from ironrule.errors import ModelError, TableError, describe_value
from ironrule.space.feature import Value
from ironrule.space.table import Table, to_python_value
from ironrule.wording import format_count

MIN_NUMBERS = 0.5  # of the values that are there: in a column of more texts, numbers are the exception


@dataclass(frozen=True, slots=True)
class TextInNumbers:
    """A column that mostly holds numbers, and the first of its rows that has a text."""

    column: str
    row: int
    value: Value
    texts: int
    numbers: int


def find_text_in_numbers(table: Table) -> TextInNumbers | None:
    """The first column of numbers with a text in it; None where there is none.

    >>> find_text_in_numbers(Table(np.array([["1", "a"], ["2", "b"], ["n.k.", "c"]], dtype=object), ("x", "y"), None))
    TextInNumbers(column='x', row=2, value='n.k.', texts=1, numbers=2)
    """
    for name in table.names:
        column = table.column(name)
        if column.values.dtype.kind not in "OU" or column.categories is not None:
            continue
        is_text = _flag_texts(column.values) & ~column.missing
        texts = int(is_text.sum())
        numbers = int((~column.missing).sum()) - texts
        if texts and numbers > MIN_NUMBERS * (texts + numbers):
            row = int(np.flatnonzero(is_text)[0])
            return TextInNumbers(name, row, to_python_value(column.values[row]), texts, numbers)
    return None


def _flag_texts(values: object) -> BoolArray:
    """Which values are no numbers, not even as a text."""
    assert isinstance(values, np.ndarray)
    return np.fromiter((not _is_number(value) for value in values), np.bool_, len(values))


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (str, int, float, np.number)):
        return False
    try:
        float(value)
    except ValueError:
        return False
    return True


@contextlib.contextmanager
def name_text_in_numbers(table: Table, has_row_numbers: bool) -> Iterator[None]:
    """Where a model fails within this block, and the table has text in a column of numbers, raise TableError that says
    where. ``has_row_numbers``: whether the rows of the table have the numbers by which the user knows them.
    """
    try:
        yield
    except ModelError as error:
        found = find_text_in_numbers(table)
        if found is None:
            raise
        where = f" in row {found.row} (counted from 0)" if has_row_numbers else ""
        others = f", and in {format_count(found.texts - 1, 'other row')}" if found.texts > 1 else ""
        raise TableError(
            expected=f"column {found.column!r} must hold numbers, as {found.numbers:,} of its values are",
            got=f"the text {describe_value(found.value)}{where}{others if where else ''}",
            hint="correct the data, or leave such a field empty: it is a missing value then",
            code="text-in-numbers",
        ) from error
