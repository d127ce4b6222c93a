"""What somebody sees while an experiment runs: a bar per task on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

EVERY = 30.0  # seconds between lines where there is no terminal


@dataclass(slots=True)
class Shown:
    """Writes to standard error; ``failures`` are tasks that could not be prepared."""

    experiment: str
    failures: list[str] = field(default_factory=list)
    console: Console = field(default_factory=lambda: Console(stderr=True))

    def failed(self, task: str, reason: str) -> None:
        """A task could not be prepared: say so at once and in the end."""
        last = reason.strip().splitlines()[-1]
        self.failures.append(f"{task}: {last}")
        print(f"{self.experiment}, {task}: could not be prepared: {last}", file=sys.stderr, flush=True)

    @contextmanager
    def bar(self, task: str, total: int, done: int) -> Iterator[Callable[[int, str], None]]:
        """A bar for a task; hands out what moves it."""
        if not self.console.is_terminal:
            yield self._lines(task, total, done)
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self.console) as progress:
            moved = progress.add_task(f"{self.experiment}, {task}", total=total, completed=done)
            yield lambda rows, _method: progress.advance(moved, rows)

    def _lines(self, task: str, total: int, done: int) -> Callable[[int, str], None]:
        count, said, began = done, time.monotonic(), time.monotonic()

        def advance(rows: int, method: str) -> None:
            nonlocal count, said
            count += rows
            now = time.monotonic()
            if count == total or now - said > EVERY:
                said = now
                line = f"{self.experiment}, {task}: {count} of {total} after {now - began:.0f} s, last {method}"
                print(line, file=sys.stderr, flush=True)

        return advance
