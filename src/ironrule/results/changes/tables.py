"""Counterfactuals as pandas tables: one row per counterfactual, all values or only what changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ironrule.errors import MissingExtraError
from ironrule.rule.counterfactual import Counterfactual
from ironrule.space.feature import Value

if TYPE_CHECKING:
    from pandas import DataFrame

UNCHANGED = "-"  # what stands in a table of changes where a value stays as it is
NUMBER_COLUMN, ROW_COLUMN = "counterfactual", "row"


def list_cells(counterfactual: Counterfactual, only_changes: bool = False) -> dict[str, Value]:
    """The values of a counterfactual by feature; with ``only_changes``, "-" where a value is that of the row."""
    if not only_changes:
        return dict(counterfactual.values)
    changed = {change.feature: change.after for change in counterfactual.changes}
    return {name: changed.get(name, UNCHANGED) for name in counterfactual.values}


def build_frame(names: Iterable[str], items: Sequence[Counterfactual], only_changes: bool) -> DataFrame:
    """A table with a column per feature; its index counts the counterfactuals from 1."""
    pandas = _import_pandas()
    cells = [list_cells(item, only_changes) for item in items]
    index = pandas.RangeIndex(1, len(items) + 1, name=NUMBER_COLUMN)
    dtype = object if only_changes else None  # numbers stay whole beside dashes
    frame: DataFrame = pandas.DataFrame(cells, index=index, columns=list(names), dtype=dtype)
    return frame


def build_batch_frame(
    names: Iterable[str], items_by_row: Mapping[int, Sequence[Counterfactual]], only_changes: bool
) -> DataFrame:
    """The same for many rows; its index has the number of the row and that of the counterfactual."""
    pandas = _import_pandas()
    numbered = [
        ((row, number), list_cells(item, only_changes))
        for row, items in items_by_row.items()
        for number, item in enumerate(items, 1)
    ]
    rows, numbers = ([key[place] for key, _ in numbered] for place in (0, 1))
    index = pandas.MultiIndex.from_arrays([rows, numbers], names=[ROW_COLUMN, NUMBER_COLUMN])
    dtype = object if only_changes else None
    cells = [each for _, each in numbered]
    frame: DataFrame = pandas.DataFrame(cells, index=index, columns=list(names), dtype=dtype)
    return frame


def _import_pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise MissingExtraError("pandas", "pandas", "counterfactuals as a table") from None
    return pandas
