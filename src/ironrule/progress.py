"""Progress that appears only when work takes a while.

Nothing is drawn in the first second, nor when standard error is neither a terminal nor a notebook. Work that comes in
portions has a bar. A search has a line that a thread of its own draws anew every half second, whatever the search does
meanwhile: a long question in compiled code is no silence. Searches never print: they keep their state where the caller
can look at it. Compiling is announced when it begins.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ironrule.wording import escape_controls

if TYPE_CHECKING:
    from tqdm import tqdm


T = TypeVar("T")
DELAY_SECONDS = 1.0
REDRAW_SECONDS = 0.5
COMPILING = "compiling the search, once per machine: 5 to 35 s of processor time, not charged to a budget"


def track(items: Iterable[T], description: str, total: int, visible: bool | None = None) -> Iterator[T]:
    """Yield the items; past one second show a bar on standard error, if that is a terminal or ``visible`` is True."""
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
        self._visible = is_shown(visible)
        self._started = time.time()
        self._lock, self._bar = threading.Lock(), cast("tqdm[Any] | None", None)
        # The first portion may take long, so the bar does not wait for it.
        self._timer = threading.Timer(max(0.0, DELAY_SECONDS), self._show)
        self._timer.daemon = True

    def __enter__(self) -> ProgressBar:
        if self._visible:
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            self._visible = False
            if self._bar is not None:
                self._bar.close()

    def update(self, done: int) -> None:
        """So much is done now."""
        with self._lock:
            if not self._visible or (self._bar is None and time.time() - self._started <= DELAY_SECONDS):
                return
            bar = self._build() if self._bar is None else self._bar
            bar.update(done - bar.n)

    def _show(self) -> None:
        with self._lock:
            if self._visible and self._bar is None:
                self._build()

    def _build(self) -> tqdm[Any]:
        self._bar = _build_bar(self._description, self._total, self._already_done)
        self._bar.start_t = self._started  # the rate counts from the start of the work
        self._bar.last_print_t = 0.0  # so that the first update is drawn at once
        return self._bar


class SearchStatus:
    """A line that says what a search is doing, with the seconds that it has used of its budget.

    ``describe`` says what it is doing now, ``count_seconds`` for how long it has been at work, and ``limit`` is its
    budget in seconds, where it has one. Both are called by another thread than the search's.
    """

    def __init__(
        self,
        describe: Callable[[], str],
        count_seconds: Callable[[], float],
        limit: float | None,
        visible: bool | None = None,
    ) -> None:
        self._describe, self._count_seconds, self._limit = describe, count_seconds, limit
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._redraw, daemon=True) if is_shown(visible) else None
        self._bar: tqdm[Any] | None = None

    def __enter__(self) -> SearchStatus:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        if self._bar is not None:
            self._bar.close()

    def format(self) -> str:
        """What the line says now."""
        used = f"{self._count_seconds():.0f}"
        seconds = f"{used} s" if self._limit is None else f"{used} of {self._limit:g} s"
        return escape_controls(f"{self._describe()}; {seconds}")

    def _redraw(self) -> None:
        if self._ended.wait(DELAY_SECONDS):
            return
        self._bar = _build_bar(self.format(), None, 0, "{desc}")
        while not self._ended.wait(REDRAW_SECONDS):
            self._bar.set_description_str(self.format())


_compiling_announced = threading.Event()


def announce_compiling() -> None:
    """Say, once per process, that the compiler is at work: on a terminal or in a notebook, else to the log."""
    if _compiling_announced.is_set():
        return
    _compiling_announced.set()
    logging.getLogger("ironrule").info(COMPILING)
    if is_shown(None):
        print(f"ironrule: {COMPILING}", file=sys.stderr, flush=True)


def leave_announcements_to_others() -> None:
    """Announce nothing in this process: the one that started it does."""
    _compiling_announced.set()


def is_shown(visible: bool | None) -> bool:
    """Whether progress is shown: as the caller says, else on a terminal or in a notebook."""
    return sys.stderr.isatty() or _runs_in_notebook() if visible is None else visible


def _runs_in_notebook() -> bool:
    """Whether a notebook's kernel runs this code; asks only what is loaded already."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and "IPKernelApp" in shell.config


def _build_bar(description: str, total: int | None, already_done: int, layout: str | None = None) -> tqdm[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # in a notebook without ipywidgets tqdm draws text and says so
        from tqdm.auto import tqdm

        return tqdm(
            desc=description,
            total=total,
            initial=already_done,
            leave=False,
            file=sys.stderr,
            unit="",
            bar_format=layout,
        )
