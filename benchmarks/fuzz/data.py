"""Random small tables: a few columns of a few values each, in pandas, polars or NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Rng = np.random.Generator
Value = Any

FEW_POINTS, MANY_POINTS = 500, 20_000
"""Sizes of spaces. A reading is checked at some thousand points before it serves: a wrong one shows in spaces that are
larger than that, since in small ones the check sees every point and refuses it."""
WORDS = ("ash", "birch", "cedar", "elm", "fir", "oak", "été", "a b")
NAMES = ("a", "b", "c", "d", "e", "f")


@dataclass(frozen=True, slots=True)
class Column:
    """One column: how it is stored, and its value in every row; None is missing."""

    name: str
    kind: str  # int, float, float32, bool, text, category
    domain: tuple[Value, ...]  # the values that it was drawn from, missing left out
    values: tuple[Value, ...]

    @property
    def missing(self) -> bool:
        """Whether some value is missing."""
        return any(value is None for value in self.values)

    @property
    def numeric(self) -> bool:
        """Whether the column holds numbers."""
        return self.kind in ("int", "float", "float32")


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of one length, and the library that stores them."""

    columns: tuple[Column, ...]
    form: str  # pandas, polars, numpy

    def __len__(self) -> int:
        return len(self.columns[0].values)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    def native(self) -> Any:
        """The table as its library has it."""
        return self.filled({column.name: column.values for column in self.columns})

    def filled(self, values: Mapping[str, Sequence[Value]]) -> Any:
        """Other rows in a table of the same form and types."""
        arrays = {column.name: _array(column, values[column.name]) for column in self.columns}
        if self.form == "numpy":
            return np.column_stack([arrays[name] for name in self.names])
        if self.form == "polars":
            import polars

            return polars.DataFrame({name: polars.Series(name, _listed(array)) for name, array in arrays.items()})
        import pandas

        made = {name: _categorical(column, arrays[name]) for name, column in zip(self.names, self.columns, strict=True)}
        return pandas.DataFrame(made)

    def rows(self) -> list[dict[str, Value]]:
        """The rows, by column; missing is None."""
        return [{column.name: column.values[row] for column in self.columns} for row in range(len(self))]


def _array(column: Column, values: Sequence[Value]) -> np.ndarray[Any, Any]:
    if column.kind == "int" and all(value is not None and value == int(value) for value in (*values, *column.values)):
        return np.array(values, dtype=np.int64)
    if column.numeric:
        wide = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
        return wide.astype(np.float32) if column.kind == "float32" else wide
    if column.kind == "bool":
        return np.array(values, dtype=np.bool_)
    return np.array(values, dtype=object)


def _categorical(column: Column, array: np.ndarray[Any, Any]) -> Any:
    import pandas

    if column.kind == "category":
        return pandas.Categorical(list(array), categories=list(column.domain))
    return pandas.Series(list(array), dtype="str") if column.kind == "text" else array


def _listed(array: np.ndarray[Any, Any]) -> Any:
    """What polars makes a series of: arrays of numbers as they are, with null for NaN, and lists of anything else."""
    if array.dtype.kind == "O":
        return list(array)
    if array.dtype.kind == "f" and np.isnan(array).any():
        import polars

        return polars.Series(array).fill_nan(None)
    return array


@dataclass(frozen=True, slots=True)
class Wish:
    """What a family can take: kinds of columns, missing numbers or texts, and forms of tables."""

    kinds: tuple[str, ...] = ("int", "int", "float", "close", "float32", "flag")
    missing: bool = False
    forms: tuple[str, ...] = ("pandas", "pandas", "numpy", "polars")
    fewest: int = 2
    most: int = 5
    one_hot: bool = True
    large: float = 0.3  # how often the space is large


def draw_table(rng: Rng, wish: Wish) -> Table:
    """A table as wished for: 2 to 5 features of 2 to 6 values each (more in a large space), and 20 to 60 rows."""
    large = rng.random() < wish.large
    count = int(rng.integers(4, 7)) if large else int(rng.integers(wish.fewest, wish.most + 1))
    most, longest = (MANY_POINTS, 9) if large else (FEW_POINTS, 6)
    form = str(rng.choice(wish.forms))
    rows = int(rng.integers(20, 61))
    columns: list[Column] = []
    points = 1
    for name in NAMES[:count]:
        kind = str(rng.choice(wish.kinds))
        if form == "numpy" and kind in ("text", "category", "bool"):
            kind = "int"
        room = max(2, most // points // 2 ** (count - len(columns) - 1))
        size = int(rng.integers(3 if large and room > 3 else 2, min(longest, room) + 1))
        missing = wish.missing and kind != "bool" and rng.random() < 0.3 and 2 * (size + 1) <= room
        if wish.one_hot and form != "numpy" and size > 2 and rng.random() < 0.08:
            size = min(size, 5)
            columns += _one_hot(rng, name, size, rows)
        else:
            columns.append(_column(rng, name, kind, size, rows, missing))
        points *= size + missing
    return Table(tuple(columns), form)


def _column(rng: Rng, name: str, kind: str, size: int, rows: int, missing: bool) -> Column:
    stored, domain = draw_domain(rng, kind, size)
    codes = rng.integers(0, len(domain), rows)
    codes[: len(domain)] = np.arange(len(domain))  # every value occurs, so that no feature is constant
    values = [domain[code] for code in rng.permutation(codes)]
    if missing:
        for place in rng.choice(rows, int(rng.integers(1, 6)), replace=False).tolist():
            values[place] = None
    return Column(name, stored, domain, tuple(values))


def draw_domain(rng: Rng, kind: str, size: int) -> tuple[str, tuple[Value, ...]]:
    """How a column of a kind is stored, and its values."""
    if kind == "text" or kind == "category":
        return kind, tuple(rng.permutation(np.array(WORDS, dtype=object))[: min(size, len(WORDS))].tolist())
    if kind == "bool":
        return kind, (False, True)
    if kind == "flag":
        return "int", (0, 1)
    if kind == "big":
        return "int", _big(rng, size)
    if kind == "close":
        base, step = float(rng.choice([0.5, 1.0, 3.1, -7.3, 1e6])), int(rng.choice([1, 2, 3, 2**28, 2**29]))
        ulp = float(np.spacing(base))
        return "float", tuple(base + place * step * ulp for place in range(size))
    if kind == "float32":
        numbers = np.unique(np.round(rng.normal(0, 3, size), 2).astype(np.float32)).tolist()
        return "float32", tuple(numbers if len(numbers) > 1 else [0.25, 1.5])
    if kind == "float":
        unique = np.unique(np.round(rng.normal(0, 10, size), int(rng.integers(0, 4))) + 0.0).tolist()
        return "float", tuple(unique if len(unique) > 1 else [-0.5, 2.5])
    start, step = int(rng.integers(-3, 30)), int(rng.integers(1, 4))
    return "int", tuple(start + step * place for place in range(size))


def _big(rng: Rng, size: int) -> tuple[int, ...]:
    """Whole numbers that float64 cannot hold, next to ties of its rounding and of float32's."""
    bases = [2**53, 2**60 + 2**37 + 2**36, 2**60 + 2**36, 2**54 + 2, -(2**60) - 2**36, 2**62 + 2**38 + 2**8]
    base = int(rng.choice(np.array(bases, dtype=np.int64)))
    offsets = rng.choice(np.array([-3, -2, -1, 0, 1, 2, 3, 2**36, -(2**36)]), size, replace=False)
    return tuple(sorted(base + int(offset) for offset in offsets))


def _one_hot(rng: Rng, name: str, size: int, rows: int) -> list[Column]:
    codes = rng.integers(0, size, rows)
    codes[:size] = np.arange(size)
    codes = rng.permutation(codes)
    hot = [(codes == place).astype(int).tolist() for place in range(size)]
    return [Column(f"{name}_{WORDS[place]}", "int", (0, 1), tuple(hot[place])) for place in range(size)]


def draw_scores(rng: Rng, table: Table) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A score for every row: a random sum over columns, one product of two, and some noise."""
    ranks = []
    for column in table.columns:
        places = {value: place for place, value in enumerate((*column.domain, None))}
        effect = rng.normal(0, 1, len(places)) if rng.random() < 0.3 else np.linspace(-1, 1, len(places))
        ranks.append(np.array([effect[places[value]] for value in column.values]) * rng.normal(0, 1.5))
    total = np.sum(ranks, axis=0) + rng.normal(0, 0.3, len(table))
    if len(ranks) > 1:
        total += ranks[0] * ranks[-1]
    return np.asarray(total, dtype=np.float64)


def draw_target(rng: Rng, table: Table, task: str) -> np.ndarray[Any, Any]:
    """What is to be learned: numbers for a regression, whole numbers 0, 1 (and 2) for classes, each at least thrice."""
    scores = draw_scores(rng, table)
    if task == "regression":
        return np.round(scores, 2)
    share = rng.uniform(0.3, 0.7)
    cuts = [np.quantile(scores, share)] if task == "binary" else np.quantile(scores, [0.35, 0.7])
    target = np.searchsorted(np.asarray(cuts), scores)
    order = np.argsort(scores, kind="stable")
    for label in range(len(cuts) + 1):  # enough of every class for folds
        while (target == label).sum() < 3:
            target[order[int(rng.integers(0, len(order)))]] = label
    return np.asarray(target, dtype=np.int64)
