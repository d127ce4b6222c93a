"""What rows explained by the exact search come to: one line per task, where the time goes, and goals met or missed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Answer = dict[str, Any]
CPU_FIGURES = {"median ms": "CPU ms", "p99 ms": "CPU p99 ms", "first ms": "first CPU ms", "ratio": "CPU ratio"}
OPERATORS = ("history", "gathering", "quick set", "hitting set", "oracle", "reduction", "check")


def quantile(values: list[float], share: float) -> float | None:
    """A quantile; None of nothing."""
    return float(np.quantile(values, share)) if values else None


def times(answers: list[Answer], name: str) -> list[float]:
    """Milliseconds of every row, by one of its clocks."""
    return [1000 * one[name] for one in answers if one.get(name) is not None]


def good_ones(answers: list[Answer]) -> list[Answer]:
    """The rows that did not fail."""
    return [one for one in answers if "failed" not in one]


def share(answers: list[Answer], name: str) -> float:
    """The share of rows, failed ones included, of which something is true."""
    return sum(bool(one.get(name)) for one in answers) / max(len(answers), 1)


def summary(task: str, answers: list[Answer]) -> Answer:
    """Proofs and times of one task. Rows that failed count as not proven, and have no time."""
    good = good_ones(answers)
    wall, first = times(good, "wall"), times(good, "first wall")
    open_ones = [one["cardinality"] - one["lower bound"] for one in good if one["proven"] and not one["minimum"]]
    return {
        "task": task,
        "rows": len(answers),
        "failed": len(answers) - len(good),
        "proven": share(answers, "proven"),
        "minimum": share(answers, "minimum"),
        "irredundant": share(answers, "irredundant"),
        "components": quantile([one["cardinality"] for one in good], 0.5),
        "mean": float(np.mean([one["cardinality"] for one in good])) if good else None,
        "median ms": quantile(wall, 0.5),
        "CPU ms": quantile(times(good, "cpu"), 0.5),
        "p90 ms": quantile(wall, 0.9),
        "p99 ms": quantile(wall, 0.99),
        "CPU p99 ms": quantile(times(good, "cpu"), 0.99),
        "max ms": max(wall, default=None),
        "first ms": quantile(first, 0.5),
        "first CPU ms": quantile(times(good, "first cpu"), 0.5),
        "first p99": quantile(first, 0.99),
        "first max": max(first, default=None),
        "first irredundant": share(answers, "first irredundant"),
        "deletion ms": quantile(times(good, "deletion wall"), 0.5),
        "deletion CPU ms": quantile(times(good, "deletion cpu"), 0.5),
        "deletion max": max(times(good, "deletion wall"), default=None),
        "deletion proven": share(answers, "deletion proven"),
        "longer by": _longer(good),
        "overrun": sum(one["wall"] > 1.1 * one["budget"] + 0.1 for one in good),
        "open": len(open_ones),
        "gap": float(np.mean(open_ones)) if open_ones else None,
        "gap max": max(open_ones, default=None),
        "load": float(np.mean([one["load"] for one in good])) if good else None,
    }


def _longer(good: list[Answer]) -> float | None:
    """How many components more than the minimum a rule by plain deletion has, where both are proven."""
    both = [one for one in good if one["minimum"] and one["deletion proven"]]
    return float(np.mean([one["deletion cardinality"] - one["cardinality"] for one in both])) if both else None


def work(task: str, answers: list[Answer]) -> Answer:
    """Where a task's time goes: the share of every operator in all its rows, and counts in the median."""
    good = good_ones(answers)
    total = sum(one["wall"] for one in good) or 1.0
    spent = {name: sum(one["operators"].get(name, 0.0) for one in good) / total for name in OPERATORS}
    return {
        "task": task,
        "s in all": total,
        **{f"{name} %": round(100 * value, 1) for name, value in spent.items()},
        "other %": round(100 * (1.0 - sum(spent.values())), 1),
        "other ms a row": _other(good),
        "boxes": quantile([one["boxes"] for one in good], 0.5),
        "boxes max": max((one["boxes"] for one in good), default=None),
        "oracle calls": quantile([one["oracle calls"] for one in good], 0.5),
        "candidates": quantile([one["candidates"] for one in good], 0.5),
        "demands": quantile([one["demands"] for one in good], 0.5),
        "demands max": max((one["demands"] for one in good), default=None),
    }


def _other(good: list[Answer]) -> float | None:
    return quantile([1000 * (one["wall"] - sum(one["operators"].values())) for one in good], 0.5)


@dataclass(frozen=True, slots=True)
class Goal:
    """Something to reach: a figure of a task, and the most or the least that it may be."""

    task: str  # what its name begins with
    figure: str
    most: float | None = None
    least: float | None = None

    def line(self, found: Answer) -> Answer:
        """What was reached."""
        value = found.get(self.figure)
        cpu = CPU_FIGURES.get(self.figure)
        limit = self.most if self.most is not None else self.least
        met = value is not None and (value <= limit if self.most is not None else value >= limit)
        aim = f"at most {self.most:g}" if self.most is not None else f"at least {self.least:g}"
        name = ", ".join(filter(None, (found["task"], found.get("boxes"))))
        by_cpu = None if cpu is None else found.get(cpu)
        return {"task": name, "figure": self.figure, "goal": aim, "reached": value, "by CPU": by_cpu, "met": _word(met)}


def _word(met: bool) -> str:
    return "yes" if met else "NO"


def reached(goals: tuple[Goal, ...], lines: list[Answer]) -> list[Answer]:
    """Every goal of every line that it speaks of."""
    return [goal.line(found) for found in lines for goal in goals if found["task"].startswith(goal.task)]
