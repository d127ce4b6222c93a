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
    with Bar(description, total, shown) as bar:
        for done, item in enumerate(items):
            bar.reach(done)
            yield item


class Bar:
    """A bar for work that comes in portions: how much of it is done, at which rate, and how long the rest will take.

    ``total`` may be None, where nobody knows; ``begun`` is what was done before, which does not count for the rate.
    """

    def __init__(self, description: str, total: int | None, shown: bool | None = None, begun: int = 0) -> None:
        self._description, self._total, self._begun = description, total, begun
        self._wanted = sys.stderr.isatty() if shown is None else shown
        self._started = time.monotonic()
        self._bar: Progress | None = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def reach(self, done: int) -> None:
        """So much is done now."""
        waited = time.monotonic() - self._started
        if not self._wanted or (self._bar is None and waited <= PATIENCE_SECONDS):
            return
        if self._bar is None:
            self._bar = _new_bar()
            self._bar.start()
            self._bar.add_task(self._description, total=self._total, completed=done, rate="")
        rate = f"{(done - self._begun) / waited:,.1f}/s" if waited > 0 and done > self._begun else ""
        self._bar.update(self._bar.task_ids[0], completed=done, rate=rate)


def _new_bar() -> Progress:
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
