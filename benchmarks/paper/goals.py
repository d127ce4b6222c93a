"""What the evaluation must show, held against what was found; a goal that is missed is said to be missed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.paper.experiment import Record
from benchmarks.paper.methods import label
from benchmarks.paper.tables import CONSISTENT, good, grouped, shares


@dataclass(frozen=True, slots=True)
class Goal:
    """Every rule of some methods must be of some kind; rows that failed count against it."""

    words: str
    methods: tuple[str, ...]
    share: Callable[[Sequence[Record]], float]  # of the rows that did not fail, in percent
    tasks: tuple[str, ...] = ()  # all, if none is named

    def lines(self, records: Sequence[Record]) -> list[Record]:
        """One line per task and method that the goal speaks of."""
        return [
            {
                "task": task,
                "method": label(method),
                "goal": self.words,
                "rows": len(group),
                "reached, %": reached,
                "met": "yes" if reached == 100.0 else "NO",
            }
            for (task, method), group in grouped(records).items()
            if method in self.methods and (not self.tasks or task in self.tasks)
            for reached in [self.share(good(group)) * len(good(group)) / len(group)]
        ]


def consistent(records: Sequence[Record]) -> float:
    """The percentage of rules that are globally consistent by proof."""
    count = sum(record.get("quality") in CONSISTENT for record in records)
    return 100.0 * count / max(1, len(records))


def minimum(records: Sequence[Record]) -> float:
    """The percentage of rules that are minimum by proof."""
    return shares(records)["minimum"]


def faster(records: Sequence[Record], than: str) -> list[Record]:
    """How many times longer each method takes than one, on the rows of a task that both explained, by both clocks."""
    groups = {key: {r["row"]: r for r in good(group)} for key, group in grouped(records).items()}
    lines = []
    for (task, method), theirs in groups.items():
        ours = groups.get((task, than), {})
        rows = sorted(theirs.keys() & ours.keys())
        if method == than or not rows:
            continue
        line: Record = {"task": task, "method": label(method), "rows": len(rows)}
        for clock in ("wall", "cpu"):
            pair = [np.mean([group[row][clock] for row in rows]) for group in (theirs, ours)]
            line |= {f"mean {clock} s": float(pair[0]), f"{label(than)}, {clock} s": float(pair[1])}
            line[f"times longer, {clock}"] = float(pair[0] / pair[1])
        lines.append(line)
    return lines
