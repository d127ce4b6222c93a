"""Budgets, and the meter that runs while one is spent.

A search is stopped in one way whatever the reason (time, evaluations, Ctrl-C): the meter raises
:class:`BudgetExhausted` where the search asks the model, and the driver of the search returns the best it has with the
verdict it has earned. A ``callback`` in the budget sees how far a search is, and may stop it from another thread.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ironrule.arrays import BoolArray, Points
from ironrule.errors import BudgetError
from ironrule.model.protocol import Model
from ironrule.verdict.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Budget:
    """How long a search may run: seconds, model evaluations (rows), or both. None means no limit.

    A budget in evaluations with a seed gives the same answer every time; one in seconds depends on the machine.
    ``callback`` is called with the meter wherever a search looks at its budget; if it raises KeyboardInterrupt, the
    search ends as by Ctrl-C: with the best it has.
    """

    evaluations: int | None = None
    seconds: float | None = None
    callback: Callable[[Meter], None] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, value in (("evaluations", self.evaluations), ("seconds", self.seconds)):
            number = (int, float, np.number) if name == "seconds" else (int, np.integer)
            if value is not None and (isinstance(value, bool) or not isinstance(value, number)):
                kind = "a number" if name == "seconds" else "an integer"
                raise BudgetError(expected=f"a budget's {name} must be {kind}", got=repr(value))
            if value is not None and not value > 0:
                raise BudgetError(
                    expected=f"a budget's {name} must be positive", got=repr(value), hint="leave it out for no limit"
                )


class BudgetExhausted(Exception):  # noqa: N818  # control flow inside a search, never seen by users
    """The budget is spent. ``partial_verdict`` is what an oracle had found out about a box by then."""

    def __init__(self, partial_verdict: Verdict | None = None) -> None:
        super().__init__()
        self.partial_verdict = partial_verdict


def name_stop(stop: BaseException) -> str:
    """Why a search ended early, as results say it: its budget was spent, or it was interrupted."""
    return "budget" if isinstance(stop, BudgetExhausted) else "interrupted"


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
    started: float = field(default_factory=time.perf_counter)
    report_progress: Callable[[], SearchProgress] = SearchProgress  # set by the driver of a search

    def desired(self, model: Model, points: Points) -> BoolArray:
        """Ask the model which points are desired; raises BudgetExhausted if that would pass the budget."""
        self.check(len(points))
        self.calls += 1
        self.evaluations += len(points)
        return model.desired(points)

    def check(self, evaluations_ahead: int = 0) -> None:
        """Raise BudgetExhausted if the budget does not allow ``evaluations_ahead`` more, or time is up."""
        limit = self.budget.evaluations
        if limit is not None and self.evaluations + evaluations_ahead > limit - self.reserve:
            raise BudgetExhausted
        if self.budget.seconds is not None and self.elapsed > self.budget.seconds:
            raise BudgetExhausted
        if self.budget.callback is not None:
            self.budget.callback(self)

    @property
    def evaluations_left(self) -> int:
        """How many more evaluations the budget allows."""
        limit = self.budget.evaluations
        return 1 << 62 if limit is None else max(0, limit - self.reserve - self.evaluations)

    @property
    def seconds_left(self) -> float:
        """Seconds that the budget still allows; 0 where it says nothing of seconds."""
        return 0.0 if self.budget.seconds is None else max(0.0, self.budget.seconds - self.elapsed)

    @property
    def elapsed(self) -> float:
        """Seconds since the search began."""
        return time.perf_counter() - self.started

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
        self._began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        spent = time.perf_counter() - self._began
        own = max(0.0, spent - self._inside.pop())
        self._account[self._name] = self._account.get(self._name, 0.0) + own
        if self._inside:
            self._inside[-1] += spent
