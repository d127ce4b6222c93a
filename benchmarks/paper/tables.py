"""Records summed up: the paper's five classes, cardinality and run time, per task and method."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from benchmarks.paper.experiment import Record
from benchmarks.paper.methods import label

CLASSES = (
    "failed data consistency",
    "failed global consistency",
    "consistent but redundant",
    "irredundant but not minimum",
    "minimum",
    "holds, no more known",
    "not judged",
)
CONSISTENT = CLASSES[2:6]


def grouped(records: Iterable[Record]) -> dict[tuple[str, str], list[Record]]:
    """Records by task and method, in the order in which these first come."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record["task"], record["method"]), []).append(record)
    return groups


def good(records: Iterable[Record]) -> list[Record]:
    """Those that did not fail."""
    return [record for record in records if not record.get("failed")]


def column(records: Iterable[Record], name: str) -> list[float]:
    """The numbers of one column, where there are any."""
    return [float(record[name]) for record in records if record.get(name) is not None]


def mean(records: Iterable[Record], name: str) -> float | None:
    """The mean of a column; None if it is empty."""
    numbers = column(records, name)
    return float(np.mean(numbers)) if numbers else None


def quantile(records: Iterable[Record], name: str, share: float) -> float | None:
    """A quantile of a column; None if it is empty."""
    numbers = column(records, name)
    return float(np.quantile(numbers, share)) if numbers else None


def shares(records: Sequence[Record]) -> dict[str, float]:
    """Per class the percentage of rules that are of it."""
    judged = [record for record in records if record.get("quality") is not None]
    return {one: 100.0 * sum(r["quality"] == one for r in judged) / max(1, len(judged)) for one in CLASSES}


def quality_table(records: Iterable[Record]) -> list[Record]:
    """One line per task and method: percentages of the classes, and how many rows stand behind them."""
    return [
        {"task": task, "method": label(method), "rows": len(group)}
        | {"failed": len(group) - len(good(group)), "stopped": sum(bool(r.get("stopped")) for r in group)}
        | {"consistent": sum(shares(good(group))[one] for one in CONSISTENT)}
        | shares(good(group))
        for (task, method), group in grouped(records).items()
    ]


def cost_table(records: Iterable[Record]) -> list[Record]:
    """One line per task and method: cardinality, seconds by both clocks, and the work done."""
    return [
        {
            "task": task,
            "method": label(method),
            "rows": len(group),
            "cardinality": mean(group, "cardinality"),
            "median s": quantile(group, "wall", 0.5),
            "mean s": mean(group, "wall"),
            "p99 s": quantile(group, "wall", 0.99),
            "median CPU s": quantile(group, "cpu", 0.5),
            "mean CPU s": mean(group, "cpu"),
            "p99 CPU s": quantile(group, "cpu", 0.99),
            "candidates": mean(group, "candidates"),
            "oracle calls": mean(group, "oracle calls"),
            "evaluations": mean(group, "evaluations"),
        }
        for (task, method), all_of in grouped(records).items()
        for group in [good(all_of)]
    ]
