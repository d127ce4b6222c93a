"""Several threads on one branch and bound, with the log that one alone would write.

A search that goes on for long has boxes waiting on its desk, the largest at the bottom. They are shared out: another
desk takes over the lower half, which would have come after the upper half, so its log comes after that one's too. All
desks go on for the same number of boxes, then the next round begins: the answer depends on no clock, and not on how
many cores there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ironrule.model.forest import Forest
from ironrule.oracles.climbing_kernels import Desk
from ironrule.oracles.desks import new_desk
from ironrule.oracles.ensemble_kernels import PROVEN, search
from ironrule.oracles.threads import all_done

Job = Callable[[], tuple[int, int]]


@dataclass(slots=True, eq=False)
class Crew:
    """Desks that share one search, in the order of its log; those at work come with the outcome of their last round."""

    forest: Forest
    desks: list[Desk]
    at_work: list[int] = field(default_factory=lambda: [0])  # places of the desks that are not at an end

    def round(self, shares: int, boxes: int) -> list[tuple[int, int, int]]:
        """Let up to so many desks look at so many boxes each; the place, the status and the boxes seen of every one."""
        self._share(shares)
        for place in self.at_work:
            self.desks[place] = with_room(self.desks[place], boxes)
        answers = all_done([self._job(place, boxes) for place in self.at_work])
        outcomes = [(place, *answer) for place, answer in zip(self.at_work, answers, strict=True)]
        self.at_work = [place for place, status, _ in outcomes if status != PROVEN]
        return outcomes

    @property
    def log(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """What all of them have written, in order."""
        return np.concatenate([desk.log[: desk.state[3]] for desk in self.desks])

    def _job(self, place: int, boxes: int) -> Job:
        desk = self.desks[place]
        return lambda: search(self.forest, desk, boxes)

    def _share(self, shares: int) -> None:
        """Share out waiting boxes until so many desks are at work, as far as there are any."""
        while len(self.at_work) < shares:
            richest = max(self.at_work, key=lambda place: int(self.desks[place].state[0]))
            if self.desks[richest].state[0] < 1:
                return
            self.desks.insert(richest + 1, take_lower_half(self.forest, self.desks[richest]))
            moved = [place + (place > richest) for place in self.at_work]
            self.at_work = sorted([*moved, richest + 1])


def take_lower_half(forest: Forest, desk: Desk) -> Desk:
    """A new desk with the lower half of the boxes that wait; the other keeps the upper half."""
    waiting = int(desk.state[0]) + 1
    lower = waiting // 2
    other = new_desk(forest)
    for old, new in zip(
        (desk.domains, desk.leaves, desk.split), (other.domains, other.leaves, other.split), strict=True
    ):
        new[:lower] = old[:lower]
        old[: waiting - lower] = old[lower:waiting].copy()
    other.last[:] = -1
    other.state[:] = (lower - 1, -1, desk.state[2], 0)
    other.denied[:] = desk.denied
    desk.state[0] = waiting - lower - 1
    return other


def with_room(desk: Desk, boxes: int) -> Desk:
    """The desk, with room in its log for so many boxes more."""
    used = int(desk.state[3])
    if len(desk.log) >= used + boxes:
        return desk
    return desk._replace(log=np.concatenate([desk.log, np.empty(used + boxes, dtype=np.int64)]))
