"""Interrupt flags, and what signals do: in a single search, in a batch, and on the command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ironrule import interrupts
from ironrule.interrupts import CommandSignals, InterruptFlag, defer_signals, get_interrupt_flag, use_interrupt_flag
from ironrule.verdict.budget import Budget, BudgetExhausted, Meter, name_stop
from waiting import PATIENCE

both_signals = pytest.mark.parametrize("number", interrupts.SIGNALS)


@pytest.fixture(autouse=True)
def _same_handlers_afterwards() -> Iterator[None]:
    outside = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
    before = [signal.getsignal(number) for number in interrupts.SIGNALS]
    yield
    assert [signal.getsignal(number) for number in interrupts.SIGNALS] == before
    signal.signal(signal.SIGINT, outside)


def test_a_flag_stays_set_and_keeps_the_first_signal() -> None:
    flag = InterruptFlag()
    flag.check()
    flag.set()
    flag.set(signal.SIGTERM)
    flag.set(signal.SIGINT)
    assert (flag.is_set, flag.signal_number) == (True, signal.SIGTERM)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            flag.check()


def test_a_meter_ends_work_when_the_flag_of_its_context_is_set() -> None:
    with use_interrupt_flag(InterruptFlag()) as flag:
        meter = Meter()
        assert get_interrupt_flag() is flag
    assert get_interrupt_flag() is None
    meter.check()
    flag.set()
    with pytest.raises(KeyboardInterrupt):
        meter.check()
    Meter().check()  # of another context


def test_what_was_interrupted_stays_so_whatever_ends_it_later() -> None:
    meter = Meter(Budget(evaluations=1))
    assert name_stop(BudgetExhausted(), meter) == "budget"
    assert meter.ended_by == "finished"
    assert name_stop(KeyboardInterrupt(), meter) == "interrupted"
    with pytest.raises(BudgetExhausted):
        meter.exhaust("evaluations")
    assert meter.ended_by == "interrupted"
    with pytest.raises(KeyboardInterrupt):
        meter.check(5)


def test_the_first_signal_of_a_batch_sets_the_flag_and_the_second_raises() -> None:
    with defer_signals() as flag:
        signal.raise_signal(signal.SIGINT)
        assert (flag.is_set, flag.signal_number) == (True, signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_signals_that_others_handle_stay_theirs() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: seen.append(number))
    try:
        with defer_signals() as flag:
            signal.raise_signal(signal.SIGINT)
        assert seen == [signal.SIGINT]
        assert not flag.is_set
    finally:
        signal.signal(signal.SIGINT, before)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL  # which ends the process, in a batch too


def test_other_threads_handle_no_signals() -> None:
    handlers: list[Any] = []

    def look() -> None:
        with defer_signals(), CommandSignals() as signals, signals.limit_delay(pytest.fail):
            handlers.extend(signal.getsignal(number) for number in interrupts.SIGNALS)

    before = [signal.getsignal(number) for number in interrupts.SIGNALS]
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert handlers == before


@both_signals
def test_a_command_is_interrupted_by_both_signals_and_knows_which(number: int) -> None:
    with CommandSignals() as signals:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        assert signals.flag.signal_number == number
        assert interrupts.get_exit_code(number) == {signal.SIGINT: 130, signal.SIGTERM: 143}[signal.Signals(number)]
    assert interrupts.get_exit_code(None) == 130


@both_signals
def test_a_batch_of_a_command_defers_both_signals_to_the_flag_of_the_command(number: int) -> None:
    with CommandSignals() as signals, use_interrupt_flag(signals.flag), defer_signals() as flag:
        signal.raise_signal(number)
        assert flag is signals.flag
        assert flag.signal_number == number


@both_signals
def test_a_command_that_does_not_heed_a_signal_is_ended(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "GRACE_SECONDS", 0.01)
    ended, numbers = threading.Event(), list[int]()

    def end_process(got: int) -> None:
        numbers.append(got)
        ended.set()

    with CommandSignals() as signals, signals.limit_delay(end_process):
        with pytest.raises(KeyboardInterrupt):  # which gets lost in some library
            signal.raise_signal(number)
        assert ended.wait(PATIENCE)
    assert numbers[0] == number


class WatchedLock:
    """A lock that tells when another thread than the main one wants it."""

    def __init__(self) -> None:
        self.lock, self.wanted = threading.RLock(), threading.Event()

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            self.wanted.set()
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()


def test_a_block_that_ends_by_itself_is_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "GRACE_SECONDS", 0.0)
    ended, held = threading.Event(), WatchedLock()
    with CommandSignals() as signals, signals.limit_delay(lambda _: ended.set()), use_interrupt_flag(signals.flag):
        monkeypatch.setattr(signals, "_held", held)
        with defer_signals() as flag:
            signal.raise_signal(signal.SIGTERM)
            assert flag.is_set
            assert held.wanted.wait(PATIENCE)  # the thread would end the process now
            assert not ended.is_set()
        assert ended.wait(PATIENCE)  # but what comes after it is


def test_a_command_that_ends_in_time_is_left_alone() -> None:
    with CommandSignals() as signals, pytest.raises(KeyboardInterrupt), signals.limit_delay(pytest.fail):
        signal.raise_signal(signal.SIGINT)
    with CommandSignals() as signals, signals.limit_delay(pytest.fail):
        pass


@pytest.mark.skipif(os.name != "posix", reason="signals are another thing elsewhere")
@both_signals
def test_a_second_signal_ends_the_process_at_once(number: int) -> None:
    code = (
        "import signal; from ironrule.interrupts import CommandSignals\n"
        "with CommandSignals():\n"
        f"    try: signal.raise_signal({int(number)})\n"
        "    except KeyboardInterrupt: print('first')\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "    print('second')\n"
    )
    result = subprocess.run([sys.executable, "-u", "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (128 + number, "first\n")
