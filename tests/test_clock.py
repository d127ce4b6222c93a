"""The clock of searches stands still while code is compiled; all times here are made up."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numba import njit
from numba.core import event
from numba.core.caching import NullCache
from sklearn.ensemble import GradientBoostingClassifier

import ironrule.progress
from ironrule import Budget, Explainer, Minimum
from ironrule.clock import WORK_CLOCK, WorkClock
from ironrule.jit import kernel
from ironrule.search.problem import Problem, SearchState
from ironrule.verdict.budget import BudgetExhausted, Meter

COMPILE_SECONDS = 1_000.0


class MadeUpTime:
    """Time that passes only when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def read(self) -> float:
        return self.now


class SlowCompiler(event.Listener):
    """Lets time pass whenever Numba compiles."""

    def __init__(self, time: MadeUpTime) -> None:
        self.time, self.compiled = time, 0

    def on_start(self, event: Any) -> None:  # noqa: ARG002
        self.compiled += 1
        self.time.now += COMPILE_SECONDS

    def on_end(self, event: Any) -> None:
        pass


@pytest.fixture
def made_up_time(monkeypatch: pytest.MonkeyPatch) -> MadeUpTime:
    made_up = MadeUpTime()
    monkeypatch.setattr(time, "perf_counter", made_up.read)
    monkeypatch.setattr(WORK_CLOCK, "_paused_seconds", 0.0)  # what was compiled before would leave rounding
    return made_up


@pytest.fixture
def slow_compiler(made_up_time: MadeUpTime) -> Iterator[SlowCompiler]:
    compiler = SlowCompiler(made_up_time)
    event.register("numba:compile", compiler)
    yield compiler
    event.unregister("numba:compile", compiler)


def make_kernel() -> Any:
    """A kernel that must be compiled when it is called, since it is not in the cache on disk."""

    def add_one(number: int) -> int:
        return number + 1

    made: Any = kernel(add_one)
    made._cache = NullCache()
    return made


def test_pauses_may_be_nested_and_overlap(made_up_time: MadeUpTime) -> None:
    clock = WorkClock()
    made_up_time.now = 5.0
    with clock.pause():
        made_up_time.now = 7.0
        with clock.pause():
            made_up_time.now = 8.0
            assert clock.is_paused
        made_up_time.now = 9.0
        assert clock.read() == 5.0
    assert (clock.read(), clock.paused_seconds, clock.is_paused) == (5.0, 4.0, False)
    first, second = clock.pause(), clock.pause()  # of two threads: the first ends before the second
    first.__enter__()
    made_up_time.now = 10.0
    second.__enter__()
    made_up_time.now = 12.0
    first.__exit__(None, None, None)
    made_up_time.now = 13.0
    assert clock.is_paused
    second.__exit__(None, None, None)
    made_up_time.now = 14.0
    assert (clock.read(), clock.paused_seconds) == (6.0, 8.0)


def test_a_pause_ends_with_an_error(made_up_time: MadeUpTime) -> None:
    clock = WorkClock()
    with pytest.raises(KeyboardInterrupt), clock.pause():
        raise KeyboardInterrupt
    made_up_time.now = 2.0
    assert clock.read() == 2.0


def test_compiling_is_not_charged_to_a_budget(made_up_time: MadeUpTime, slow_compiler: SlowCompiler) -> None:
    meter, add_one = Meter(Budget(seconds=10.0)), make_kernel()
    assert add_one(1) == 2
    assert slow_compiler.compiled == 1
    assert made_up_time.now == COMPILE_SECONDS
    assert (meter.elapsed, meter.compile_seconds) == (0.0, COMPILE_SECONDS)
    meter.check()
    made_up_time.now += 11.0  # work, on the other hand, is
    with pytest.raises(BudgetExhausted):
        meter.check()


def test_what_is_compiled_in_another_thread_is_not_charged_either(
    made_up_time: MadeUpTime, slow_compiler: SlowCompiler
) -> None:
    meter, thread = Meter(Budget(seconds=10.0)), threading.Thread(target=make_kernel(), args=(1,))
    thread.start()
    thread.join()
    assert slow_compiler.compiled == 1
    assert made_up_time.now == COMPILE_SECONDS
    meter.check()


class CompilingMinimum(Minimum):
    """The search for a minimum rule, which has something compiled before it begins."""

    def run(self, problem: Problem, state: SearchState, start: int | None = None) -> list[int]:
        assert make_kernel()(1) == 2
        problem.meter.check()
        return Minimum.run(self, problem, state, start)


def test_an_answer_is_the_same_whether_something_must_be_compiled_or_not(slow_compiler: SlowCompiler) -> None:
    table = pd.DataFrame(np.random.default_rng(0).integers(0, 9, (200, 5)), columns=list("abcde"))
    wanted = np.where(table.a * table.b + table.c > 20, "yes", "no")
    explainer = Explainer(GradientBoostingClassifier(random_state=0).fit(table, wanted), table, desired="yes")
    row = int(np.flatnonzero(~explainer.outcomes)[0])
    explainer.explain(row, budget=10)
    before = slow_compiler.compiled
    cold = explainer.explain(row, CompilingMinimum(), budget=10)
    assert slow_compiler.compiled > before
    warm = explainer.explain(row, Minimum(), budget=10)
    assert cold.statistics.stopped_by == warm.statistics.stopped_by == "finished"
    assert (cold.minimum, cold.ranked, cold.wider) == (warm.minimum, warm.ranked, warm.wider)
    assert cold.minimum
    assert cold.statistics.compile_seconds == COMPILE_SECONDS
    assert warm.statistics.compile_seconds == 0.0


@pytest.mark.parametrize("is_terminal", [True, False])
def test_compiling_is_announced_once_where_somebody_can_see_it(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal)
    monkeypatch.setattr(ironrule.progress, "_compiling_announced", threading.Event())
    for _ in range(2):
        assert make_kernel()(1) == 2
    assert capsys.readouterr().err.count("compiling the search, once per machine") == is_terminal


def test_what_another_library_compiles_is_not_announced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def add_two(number: int) -> int:
        return number + 2

    compiled: Any = njit(add_two)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr(ironrule.progress, "_compiling_announced", threading.Event())
    assert compiled(1) == 3
    assert capsys.readouterr().err == ""
