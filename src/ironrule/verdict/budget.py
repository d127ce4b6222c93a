"""Budgets, and the meter that runs while one is spent.

A search is stopped in one way whatever the reason (time, evaluations, Ctrl-C): the meter raises
:class:`BudgetExhausted` or KeyboardInterrupt where the search asks the model, and the driver of the search returns the
best it has with the verdict it has earned. The meter notes what ended the work; once that was an interruption
(:mod:`ironrule.interrupts`), every later phase ends as soon as it looks at the meter. A ``callback`` in the budget sees
how far a search is, and may stop it from another thread. Seconds are those of :mod:`ironrule.clock`, so that compiling
is not charged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NoReturn

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, Points
from ironrule.clock import WORK_CLOCK
from ironrule.errors import BudgetError, describe_value
from ironrule.interrupts import InterruptFlag, get_interrupt_flag
from ironrule.model.protocol import Model, ScoringModel
from ironrule.progress import COMPILING, SearchStatus
from ironrule.verdict.verdict import Verdict
from ironrule.wording import format_settings

StopReason = Literal["finished", "work", "seconds", "evaluations", "interrupted"]
"""What ended a search: it came to its end; it left questions open that are too hard for the usual limit of work; its
seconds or its evaluations were spent; or a user interrupted it."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How long a search may run: seconds, model evaluations (rows), or both. None means no limit.

    A budget in evaluations with a seed gives the same answer every time; one in seconds depends on the machine: as long
    as seconds are left, hard questions are tried beyond their usual limit of work. Without ``use_all_seconds`` they are
    not, and the seconds merely end what takes longer; an answer that comes sooner is then the same everywhere.
    ``callback`` is called with the meter wherever a search looks at its budget; if it raises KeyboardInterrupt, the
    search ends as by Ctrl-C: with the best it has.
    """

    evaluations: int | None = None
    seconds: float | None = None
    use_all_seconds: bool = True
    callback: Callable[[Meter], None] | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        return format_settings(self)

    def __post_init__(self) -> None:
        for name, value in (("evaluations", self.evaluations), ("seconds", self.seconds)):
            number = (int, float, np.number) if name == "seconds" else (int, np.integer)
            if value is not None and (isinstance(value, bool) or not isinstance(value, number)):
                kind = "a number" if name == "seconds" else "an integer"
                raise BudgetError(expected=f"a budget's {name} must be {kind}", got=describe_value(value))
            if value is not None and not value > 0:
                raise BudgetError(
                    expected=f"a budget's {name} must be positive",
                    got=describe_value(value),
                    hint="leave it out for no limit",
                )


class BudgetExhausted(Exception):  # noqa: N818  # control flow inside a search, never seen by users
    """The budget is spent. ``partial_verdict`` is what an oracle had found out about a box by then."""

    def __init__(self, partial_verdict: Verdict | None = None) -> None:
        super().__init__()
        self.partial_verdict = partial_verdict


def name_stop(stop: BaseException, meter: Meter) -> str:
    """Why a search ended early, in short: its budget was spent, or it was interrupted. The meter notes which it was."""
    if isinstance(stop, BudgetExhausted):
        return "budget"
    meter.note_interrupt()
    return "interrupted"


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """How far a search for a rule has come: what its best so far weighs, and what none can weigh less than."""

    best: float | None = None
    lower_bound: float = 0.0


@dataclass(slots=True)
class Meter:
    """Counts what one search does, and stops it when its budget is spent. One meter per search, never shared."""

    budget: Budget = field(default_factory=Budget)
    reserve: int = 0  # evaluations kept back, for the final check of what the search found
    calls: int = 0
    evaluations: int = 0
    events: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)  # per operator, without those that ran inside it
    nested_seconds: list[float] = field(default_factory=list)  # per open block, what operators inside it took so far
    started: float = field(default_factory=WORK_CLOCK.read)
    paused_before: float = field(default_factory=lambda: WORK_CLOCK.paused_seconds)
    ended_by: StopReason = "finished"  # what ended the work, as far as the meter knows
    phase: str = "searching"  # what is being done, for people who wait
    report_progress: Callable[[], SearchProgress] = SearchProgress  # set by the driver of a search
    interrupt_flag: InterruptFlag = field(default_factory=lambda: get_interrupt_flag() or InterruptFlag())

    def desired(self, model: Model, points: Points) -> BoolArray:
        """Ask the model which points are desired; raises BudgetExhausted if that would pass the budget."""
        self.check(len(points))
        self.calls += 1
        self.evaluations += len(points)
        return model.desired(points)

    def scores(self, model: ScoringModel, points: Points) -> Float64Array:
        """Ask the model how close points are to the desired outcome; charged as asking which are desired is."""
        self.check(len(points))
        self.calls += 1
        self.evaluations += len(points)
        return model.scores(points)

    def check(self, evaluations_ahead: int = 0) -> None:
        """Raise BudgetExhausted if the budget does not allow ``evaluations_ahead`` more, or time is up; and
        KeyboardInterrupt if the work was interrupted, now or before.
        """
        self.interrupt_flag.check()
        limit = self.budget.evaluations
        if limit is not None and self.evaluations + evaluations_ahead > limit - self.reserve:
            self.exhaust("evaluations")
        if self.budget.seconds is not None and self.elapsed > self.budget.seconds:
            self.exhaust("seconds")
        if self.budget.callback is not None:
            self.budget.callback(self)

    def exhaust(self, limit: Literal["seconds", "evaluations"]) -> NoReturn:
        """Note which limit of the budget is reached, and raise BudgetExhausted."""
        if self.ended_by != "interrupted":
            self.ended_by = limit
        raise BudgetExhausted

    def note_interrupt(self) -> None:
        """Note that the work was interrupted, for all that looks at this meter or at its flag later."""
        self.ended_by = "interrupted"
        self.interrupt_flag.set()

    @property
    def evaluations_left(self) -> int:
        """How many more evaluations the budget allows."""
        limit = self.budget.evaluations
        return 1 << 62 if limit is None else max(0, limit - self.reserve - self.evaluations)

    @property
    def seconds_left(self) -> float:
        """Seconds that the budget still allows, for hard questions too; 0 where it says nothing of seconds, or merely
        that what takes longer is to end.
        """
        if self.budget.seconds is None or not self.budget.use_all_seconds:
            return 0.0
        return max(0.0, self.budget.seconds - self.elapsed)

    @property
    def elapsed(self) -> float:
        """Seconds since the search began, without those that went into compiling."""
        return WORK_CLOCK.read() - self.started

    @property
    def compile_seconds(self) -> float:
        """Seconds that went into compiling, or into loading what was compiled, since the search began."""
        return WORK_CLOCK.paused_seconds - self.paused_before

    def describe(self) -> str:
        """What the search is doing and how far it is, for people who wait."""
        if WORK_CLOCK.is_paused:
            return COMPILING.capitalize()
        report = self.report_progress()
        best = [] if report.best is None else [f"best rule so far {report.best:g}"]
        least = [f"none below {report.lower_bound:g}"] if report.lower_bound else []
        return ": ".join([self.phase.capitalize(), *([", ".join(best + least)] if best + least else [])])

    def watch(self, visible: bool | None) -> SearchStatus:
        """A line for people who wait, shown within its block; ``visible`` None: on a terminal or in a notebook."""
        return SearchStatus(self.describe, lambda: self.elapsed, self.budget.seconds, visible)

    def time_block(self, name: str) -> BlockTimer:
        """Add the time of a block to an operator's account; what another operator takes inside it is the other's."""
        return BlockTimer(self.seconds, self.nested_seconds, name)


class BlockTimer:
    """A block whose time, without that of blocks inside it, is added to an account, however it ends."""

    __slots__ = ("_account", "_began", "_inside", "_name")

    def __init__(self, account: dict[str, float], inside: list[float], name: str) -> None:
        self._account, self._inside, self._name = account, inside, name

    def __enter__(self) -> None:
        self._inside.append(0.0)
        self._began = WORK_CLOCK.read()

    def __exit__(self, *_: object) -> None:
        spent = WORK_CLOCK.read() - self._began
        own = max(0.0, spent - self._inside.pop())
        self._account[self._name] = self._account.get(self._name, 0.0) + own
        if self._inside:
            self._inside[-1] += spent
