"""Progress bars that appear only when work takes long enough for somebody to wonder.

Nothing is drawn in the first second and a half, nor when standard error is not a terminal. Searches never print: they
call back, and whoever started them decides what to show.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")

PATIENCE_SECONDS = 1.5


def track(items: Iterable[T], description: str, total: int, shown: bool | None = None) -> Iterator[T]:
    """Yield the items; past 1.5 seconds show a bar on standard error, if that is a terminal or ``shown`` is True."""
    if shown is False or (shown is None and not sys.stderr.isatty()):
        yield from items
        return
    started, bar, task = time.monotonic(), None, None
    try:
        for done, item in enumerate(items):
            if bar is None and time.monotonic() - started > PATIENCE_SECONDS:
                bar = _new_bar()
                bar.start()
                task = bar.add_task(description, total=total, completed=done)
            elif bar is not None and task is not None:
                bar.update(task, completed=done)
            yield item
    finally:
        if bar is not None:
            bar.stop()


def _new_bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)
