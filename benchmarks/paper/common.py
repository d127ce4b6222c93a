"""Pictures that several experiments share: the five classes, cardinality and run time, one panel per task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.paper.experiment import Record, Tables
from benchmarks.paper.methods import label
from benchmarks.paper.pictures import Panel, Picture, Spread, Stacked
from benchmarks.paper.tables import CLASSES, column, cost_table, good, grouped, quality_table, shares


def usual_tables(records: Sequence[Record]) -> Tables:
    """Quality, and cardinality with run time."""
    return {"Quality, % of rules": quality_table(records), "Cardinality and run time": cost_table(records)}


def usual_pictures(name: str, title: str, records: Sequence[Record]) -> list[Picture]:
    """The classes as stacked bars, run time and cardinality as boxes."""
    return [
        Stacked(
            f"{name}-quality",
            f"{title}: quality of the rules",
            "rules, %",
            CLASSES,
            panels(records, lambda group: list(shares(group).values())),
        ),
        Spread(
            f"{name}-runtime",
            f"{title}: run time",
            "CPU seconds per row",
            panels(records, lambda group: column(group, "cpu")),
            log=True,
        ),
        Spread(
            f"{name}-cardinality",
            f"{title}: cardinality of the rules",
            "components",
            panels(records, lambda group: column(group, "cardinality")),
        ),
    ]


def panels(records: Sequence[Record], values: Callable[[list[Record]], Any]) -> list[Panel]:
    """One panel per task with one entry per method."""
    made = []
    for task in dict.fromkeys(record["task"] for record in records):
        of_task = [record for record in good(records) if record["task"] == task]
        groups = {method: group for (_, method), group in grouped(of_task).items()}
        shown = {label(method): values(group) for method, group in groups.items()}
        counts = {label(method): len(group) for method, group in groups.items()}
        made.append(Panel(task, {name: one for name, one in shown.items() if len(one)}, counts))
    return made
