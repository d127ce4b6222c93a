"""One question to one net: points moved uphill to a counterfactual, and those that bounds of parts have shown.

Points are moved uphill from the instance and from past rows with the desired outcome, pulled into the box. A point
where rounding could turn the decision is put to the model itself. What is found is pulled back towards the instance.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ironrule.model.net import Net
from ironrule.model.net_kernels import cells_at, margins_at
from ironrule.oracles.climbing_kernels import nearest_codes
from ironrule.oracles.net_climbing_kernels import climb, pull_back
from ironrule.oracles.net_opening_kernels import opened_in
from ironrule.oracles.net_parts import Outcome
from ironrule.oracles.net_room import FOUND, OPEN, POINT, Opened
from ironrule.oracles.protocol import Case
from ironrule.rule import Box
from ironrule.space import Points
from ironrule.verdict import Meter

SWEEPS = 3
TRIES = 8  # cells tried of a feature that has many
PULLED = 64
STARTS = 3


@dataclass(slots=True, eq=False)
class Work:
    """One question to one net."""

    net: Net
    case: Case
    box: Box
    opened: Opened = field(init=False)
    home: npt.NDArray[np.int64] = field(init=False)  # the instance's cells, or those of the nearest point in the box
    sums: npt.NDArray[np.float64] = field(init=False)
    values: npt.NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        widest = int(self.net.widths.max())
        self.opened = opened_in(self.net, self.box)
        self.home = cells_at(self.net, self.box.pull(self.case.instance))
        self.sums, self.values = np.zeros(widest), np.zeros(widest)

    def climbed(self, rng: np.random.Generator) -> Points | None:
        """A counterfactual uphill from the instance or from a past row, if there is one."""
        found = self._uphill(self.home[None, :], rng)
        seeds = self.case.history.seeds
        if found is not None or len(seeds) == 0:
            return found
        past = cells_at(self.net, self.box.pull(seeds[rng.integers(0, len(seeds), size=PULLED)]))
        return self._uphill(past[np.argsort(-margins_at(self.net, past)[1])[:STARTS]], rng)

    def _uphill(self, starts: npt.NDArray[np.int64], rng: np.random.Generator) -> Points | None:
        """A counterfactual uphill from one of some points given by cells."""
        for start in starts:
            cells = start.copy()
            orders = np.argsort(rng.random((SWEEPS, len(cells))), axis=1)
            if climb(self.net, self.opened, cells, orders, TRIES, self.sums, self.values):
                point = self._pulled(cells, rng)
                if point is not None:
                    return point
        return None

    def seen_in(self, outcome: Outcome, again: int, meter: Meter, rng: np.random.Generator) -> Points | None:
        """A counterfactual that the bounds of parts have shown, or one uphill from so many of the open ones."""
        status, points = outcome.status, outcome.points
        answer = self.looked_at(points[status == FOUND], True, meter, rng)
        if answer is None:
            answer = self.looked_at(points[status == POINT], False, meter, rng)
        if answer is not None or again == 0:
            return answer
        rows = np.flatnonzero(status == OPEN)
        return self._uphill(points[rng.choice(rows, min(again, len(rows)), replace=False)], rng)

    def looked_at(
        self, points: npt.NDArray[np.int64], sure: bool, meter: Meter, rng: np.random.Generator
    ) -> Points | None:
        """A counterfactual among points given by cells: sure ones, or ones that only the model can decide."""
        for cells in points:
            if sure:
                point = self._pulled(cells, rng)
                if point is not None:
                    return point
            else:
                point = self._codes(cells)
                if self.case.feasible.admits(point[None, :])[0] and meter.desired(self.case.model, point[None, :])[0]:
                    return point
        return None

    def _pulled(self, cells: npt.NDArray[np.int64], rng: np.random.Generator) -> Points | None:
        """A counterfactual pulled back towards the instance; None if it cannot occur."""
        near = cells.copy()
        pull_back(self.net, near, self.home, rng.permutation(len(cells)), self.sums, self.values)
        for some in (near, cells):
            point = self._codes(some)
            if self.case.feasible.admits(point[None, :])[0]:
                return point
        return None

    def _codes(self, cells: npt.NDArray[np.int64]) -> Points:
        codes = np.empty_like(self.case.instance)
        nearest_codes(
            self.net.cells, np.ascontiguousarray(cells), self.case.instance, self.box.low, self.box.high, codes
        )
        return codes
