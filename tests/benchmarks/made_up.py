"""A made-up experiment: it needs no data, counts what it is asked, and can be made to fail."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.paper.experiment import Experiment, Record, Task


def prepare(task: Task) -> tuple[int, list[int]]:
    """Rows 10, 11, ..."""
    return task.facts.get("factor", 1), list(range(10, 10 + max(task.counts.values())))


def measure(state: int, _task: Task, method: str, rows: Sequence[int]) -> list[Record]:
    """A number per row; the method "broken" has none."""
    if method == "broken":
        raise ValueError("it broke")
    return [{"number": state * row, "wall": 0.5} for row in rows]


def experiment(*tasks: Task, batches: dict[str, int] | None = None) -> Experiment:
    """The experiment with some tasks."""
    sizes = batches or {}
    return Experiment(
        "made_up",
        "Made up",
        lambda _quick: tasks,
        prepare,
        measure,
        lambda records: {"numbers": list(records)},
        lambda _records: [],
        batch=lambda method: sizes.get(method, 1),
    )
