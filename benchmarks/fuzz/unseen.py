"""Rows that no past row is like: numbers between those seen, next to them and beyond them, new categories, and missing
values where none was missing. Such a row makes the domains longer, so it is judged by a space of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from benchmarks.fuzz.data import Column, Rng, Table, Value

NEW_WORD = "yew"
FAR_NUMBERS = (1e300, -1e300, 5e-324, -5e-324, -0.0, 1e-310, 3.5e38)


def draw_unseen_row(rng: Rng, table: Table, row: Mapping[str, Value]) -> dict[str, Value]:
    """A row, by column, with one or two values that are new in their columns."""
    made = dict(row)
    able = [column for column in table.columns if "_" not in column.name and column.kind != "category"]
    for place in rng.permutation(len(able))[: int(rng.integers(1, 3))].tolist():
        made[able[place].name] = draw_new_value(rng, able[place])
    return made


def draw_new_value(rng: Rng, column: Column) -> Value:
    """A value that a column does not have: between two that it has, beside one, beyond all, or missing."""
    if column.kind == "bool":
        return bool(rng.random() < 0.5)
    if rng.random() < 0.08:
        return None
    if column.kind == "text":
        return NEW_WORD
    low, high = min(column.domain), max(column.domain)
    draw, some = rng.random(), column.domain[int(rng.integers(0, len(column.domain)))]
    if column.kind == "int":
        return int(_draw_whole(rng, int(low), int(high), draw))
    number = low + (high - low) * float(rng.random())
    if draw < 0.3:
        end = float(rng.choice([-math.inf, math.inf]))
        number = float(np.nextafter(np.float32(some), np.float32(end)) if draw < 0.1 else np.nextafter(some, end))
    elif draw < 0.5:
        number = float(rng.choice([low - abs(low) * 0.3 - 1.0, high + abs(high) * 0.3 + 1.0]))
    elif draw < 0.6:
        number = float(rng.choice(np.array(FAR_NUMBERS)))
    return float(np.float32(number)) if column.kind == "float32" and abs(number) < 3e38 else number


def _draw_whole(rng: Rng, low: int, high: int, draw: float) -> int:
    if draw < 0.6 and high - low < 2**40:
        return int(rng.integers(low, high + 1))
    return int(rng.choice([low - 1, low - 7, high + 1, high + 7, high + 10**6]))
