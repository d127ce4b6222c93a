"""Interruption: how Ctrl-C and SIGTERM end work, in one place.

To end work, an :class:`InterruptFlag` is set: by a signal, by another thread, or by code that catches a
KeyboardInterrupt in the work itself. Every meter (:mod:`ironrule.verdict.budget`) knows the flag of the context in
which it was made, and looks at it wherever a search looks at its budget; there a flag that is set becomes a
KeyboardInterrupt, and the search ends with the best it has. A flag stays set, so no later phase of the same work
begins, and an exception that got lost inside a library does no harm.

Who handles signals:

- By default Python does, with a KeyboardInterrupt in the main thread. A single search needs no more.
- :func:`defer_signals`, for a batch: the first signal only sets the flag, and the batch ends at the next safe place,
  after it has written what is finished. A second signal raises KeyboardInterrupt at once.
- :class:`CommandSignals`, for the command line: SIGINT and SIGTERM set the flag and raise KeyboardInterrupt. The flag
  knows which of them it was, for the exit code. A second signal ends the process at once.

Python runs handlers in the main thread, between two steps of Python code; a library that computes for long holds them
up. So a thread is woken by the operating system as well, and ends the process if the main thread has not ended it by
then (:meth:`CommandSignals.limit_delay`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import FrameType
from typing import Any

GRACE_SECONDS = 1.5  # in which a command may end by itself after the first signal
SIGNALS = (signal.SIGINT, signal.SIGTERM)
EXIT_CODE_BASE = 128  # to which shells add the number of the signal that ended a command: 130 and 143


def get_exit_code(signal_number: int | None) -> int:
    """The conventional exit code of a command that a signal ended; that of Ctrl-C where there was no signal."""
    return EXIT_CODE_BASE + (signal.SIGINT if signal_number is None else signal_number)


class InterruptFlag:
    """Set once work is to end; any thread may set it or look at it. ``signal_number``: by which signal."""

    __slots__ = ("_is_set", "signal_number")

    def __init__(self) -> None:
        self._is_set, self.signal_number = False, None  # type: bool, int | None

    @property
    def is_set(self) -> bool:
        """Whether the work is to end."""
        return self._is_set

    def set(self, signal_number: int | None = None) -> None:
        """End the work; the first signal is the one that counts."""
        if self.signal_number is None:
            self.signal_number = signal_number
        self._is_set = True

    def check(self) -> None:
        """Raise KeyboardInterrupt if the work is to end."""
        if self._is_set:
            raise KeyboardInterrupt


_current_flag: ContextVar[InterruptFlag | None] = ContextVar("interrupt_flag", default=None)


def get_interrupt_flag() -> InterruptFlag | None:
    """The flag of this context, which ends the work that is done in it; None where there is none."""
    return _current_flag.get()


@contextlib.contextmanager
def use_interrupt_flag(flag: InterruptFlag) -> Iterator[InterruptFlag]:
    """Within this context, work ends when a flag is set."""
    token = _current_flag.set(flag)
    try:
        yield flag
    finally:
        _current_flag.reset(token)


@contextlib.contextmanager
def defer_signals() -> Iterator[InterruptFlag]:
    """Within this block the first signal sets the flag that is given, and nothing else; a second one raises.

    Only signals that would raise KeyboardInterrupt are deferred: what others handle in their own way stays theirs.
    """
    flag = get_interrupt_flag() or InterruptFlag()
    if threading.current_thread() is not threading.main_thread():  # which signals never come to
        yield flag
        return
    command = CommandSignals.active
    found: dict[int, Any] = {number: signal.getsignal(number) for number in SIGNALS}
    before = {number: handler for number, handler in found.items() if _raises_interrupt(handler)}

    def handle(number: int, frame: FrameType | None) -> None:
        if flag.signal_number is not None:
            before[number](number, frame)
        flag.set(number)

    for number in before:
        signal.signal(number, handle)
    try:
        with contextlib.nullcontext() if command is None else command.hold_back():
            yield flag
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _raises_interrupt(handler: Any) -> bool:
    """Whether a signal handler is Python's for Ctrl-C, or that of the command line."""
    return handler is signal.default_int_handler or isinstance(getattr(handler, "__self__", None), CommandSignals)


class CommandSignals:
    """Handles SIGINT and SIGTERM for one command. Elsewhere than in the main thread it handles nothing."""

    active: CommandSignals | None = None  # of this process

    def __init__(self) -> None:
        self.flag = InterruptFlag()
        self._before: dict[int, Any] = {}
        self._ended = threading.Event()
        self._held = threading.RLock()

    def __enter__(self) -> CommandSignals:
        if threading.current_thread() is threading.main_thread():
            # Even where they were ignored, as SIGINT is for commands that a script starts in the background.
            self._before = {number: signal.signal(number, self._handle) for number in SIGNALS}
            CommandSignals.active = self
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._before:
            CommandSignals.active = None
            for number, handler in self._before.items():
                signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.flag.signal_number is not None:  # the second one: nothing is waited for any more
            os._exit(get_exit_code(self.flag.signal_number))
        self.flag.set(number)
        raise KeyboardInterrupt

    @contextlib.contextmanager
    def hold_back(self) -> Iterator[None]:
        """Within this block the process is not ended by the thread: the block ends soon after a signal by itself."""
        with self._held:
            yield

    @contextlib.contextmanager
    def limit_delay(self, end_process: Callable[[int], object]) -> Iterator[None]:
        """Within this block, ``end_process`` is called with the number of a signal which the main thread does not heed
        in time, because it is inside a library that computes for long.
        """
        if not self._before:
            yield
            return
        readable, writable = socket.socketpair()
        writable.setblocking(False)
        previous = signal.set_wakeup_fd(writable.fileno(), warn_on_full_buffer=False)
        thread = threading.Thread(target=self._await_signal, args=(readable, end_process), daemon=True)
        thread.start()
        try:
            yield
        finally:
            signal.set_wakeup_fd(previous)
            self._ended.set()
            writable.close()  # which ends the thread
            thread.join()
            readable.close()

    def _await_signal(self, readable: socket.socket, end_process: Callable[[int], object]) -> None:
        while numbers := readable.recv(16):  # one byte per signal, written as soon as it comes
            wanted = [number for number in numbers if number in SIGNALS]
            if not wanted:
                continue
            if self._ended.wait(GRACE_SECONDS):
                return
            with self._held:  # a block that ends by itself is waited for, and then what follows it
                pass
            if not self._ended.wait(GRACE_SECONDS / 3):
                end_process(wanted[0])
