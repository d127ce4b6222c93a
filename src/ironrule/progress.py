"""Progress bars that appear only when work takes a while.

Nothing is drawn in the first second and a half, nor when standard error is neither a terminal nor a notebook. Searches
never print: they call back, and their caller decides what to show.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from tqdm import tqdm


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
        self._visible = sys.stderr.isatty() or _runs_in_notebook() if visible is None else visible
        self._started = time.time()
        self._bar: tqdm[Any] | None = None

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def update(self, done: int) -> None:
        """So much is done now."""
        if not self._visible or (self._bar is None and time.time() - self._started <= DELAY_SECONDS):
            return
        if self._bar is None:
            self._bar = _build_bar(self._description, self._total, self._already_done)
            self._bar.start_t = self._started  # the rate counts from the start of the work
            self._bar.last_print_t = 0.0  # so that the first update is drawn at once
        self._bar.update(done - self._bar.n)


def _runs_in_notebook() -> bool:
    """Whether a notebook's kernel runs this code; asks only what is loaded already."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and "IPKernelApp" in shell.config


def _build_bar(description: str, total: int | None, already_done: int) -> tqdm[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # in a notebook without ipywidgets tqdm draws text and says so
        from tqdm.auto import tqdm

        return tqdm(desc=description, total=total, initial=already_done, leave=False, file=sys.stderr, unit="")
