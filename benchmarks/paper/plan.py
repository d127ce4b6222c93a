"""What is left to ask: every row with every method that wants it, less what the log knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.paper.engine import engine
from benchmarks.paper.experiment import Experiment, Record, Task
from benchmarks.paper.journal import Journal
from benchmarks.paper.methods import methods


@dataclass(frozen=True, slots=True)
class Question:
    """A method and the rows that it is asked about at once."""

    method: str
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """One task of an experiment, its rows in order, and what is known."""

    experiment: Experiment
    task: Task
    rows: Sequence[int]
    journal: Journal

    def key(self, method: str, row: int) -> Record:
        """What an answer is kept under."""
        known = methods().get(method)
        version = None if known is None else known.version
        return {
            "experiment": self.experiment.name,
            "task": self.task.name,
            "method": method,
            "row": row,
            "settings": self.experiment.settings(self.task, method),
            "budget": self.task.seconds(method),
            "engine": version or engine(),
        }

    def known(self, method: str, row: int) -> Record | None:
        """The answer in the log."""
        return self.journal.known(self.key(method, row))

    def pairs(self) -> Iterator[tuple[str, int]]:
        """Every row with every method that wants it, row by row."""
        for place, row in enumerate(self.rows):
            yield from ((method, row) for method, count in self.task.counts.items() if place < count)

    def records(self) -> list[Record]:
        """All that is known, as flat records; failures too."""
        found = ((method, row, self.known(method, row)) for method, row in self.pairs())
        return [
            {"experiment": self.experiment.name, "task": self.task.name, "method": method, "row": row} | answer
            for method, row, answer in found
            if answer is not None
        ]

    def questions(self, retry: bool = False) -> list[list[Question]]:
        """What is not known yet, in portions: all methods of one row, or a batch of rows of one method.

        With ``retry``, failures are not known.
        """
        open_pairs = [(m, row) for m, row in self.pairs() if self._open(self.known(m, row), retry)]
        batches = {method: self.experiment.batch(method) for method in self.task.counts}
        single = [[Question(m, (row,)) for m in of_row] for row, of_row in _by_row(open_pairs, batches)]
        return single + [
            [Question(method, tuple(rows[start : start + size]))]
            for method, size in batches.items()
            if size > 1
            for rows in [[row for m, row in open_pairs if m == method]]
            for start in range(0, len(rows), size)
        ]

    @staticmethod
    def _open(answer: Record | None, retry: bool) -> bool:
        return answer is None or (retry and "failed" in answer)


def _by_row(pairs: Iterable[tuple[str, int]], batches: dict[str, int]) -> list[tuple[int, list[str]]]:
    grouped: dict[int, list[str]] = {}
    for method, row in pairs:
        if batches[method] == 1:
            grouped.setdefault(row, []).append(method)
    return list(grouped.items())
