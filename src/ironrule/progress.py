"""Progress bars that appear only when work takes a while.

Nothing is drawn in the first second and a half, nor when standard error is not a terminal. Searches never print: they
call back, and their caller decides what to show.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress


T = TypeVar("T")
DELAY_SECONDS = 1.5


def track(items: Iterable[T], description: str, total: int, visible: bool | None = None) -> Iterator[T]:
    """Yield the items; past 1.5 seconds show a bar on standard error, if that is a terminal or ``visible`` is True."""
    with ProgressBar(description, total, visible) as bar:
        for done, item in enumerate(items):
            bar.update(done)
            yield item


class ProgressBar:
    """A bar for work that comes in portions: how much of it is done, at which rate, and how long the rest will take.

    ``total`` may be None, where it is not known; ``already_done`` does not count for the rate.
    """

    def __init__(self, description: str, total: int | None, visible: bool | None = None, already_done: int = 0) -> None:
        self._description, self._total, self._already_done = description, total, already_done
        self._visible = sys.stderr.isatty() if visible is None else visible
        self._started = time.monotonic()
        self._bar: Progress | None = None

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int) -> None:
        """So much is done now."""
        waited = time.monotonic() - self._started
        if not self._visible or (self._bar is None and waited <= DELAY_SECONDS):
            return
        if self._bar is None:
            self._bar = _build_rich_progress()
            self._bar.start()
            self._bar.add_task(self._description, total=self._total, completed=done, rate="")
        rate = f"{(done - self._already_done) / waited:,.1f}/s" if waited > 0 and done > self._already_done else ""
        self._bar.update(self._bar.task_ids[0], completed=done, rate=rate)


def _build_rich_progress() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)
