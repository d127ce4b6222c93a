"""Parts of a box in which nothing can occur: no combination that the constraints on the space permit lies in them.

Of a feature that constraints speak of every value is a cell of its own, so a combination of values is one of places
among the open cells. Combinations are sorted by their first place, so that a part looks at few of them. Where features
tied together have too many combinations to be listed, nothing is dropped, and points are looked at in the end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ironrule.model.net import Net
from ironrule.oracles.net_parts import Taken
from ironrule.oracles.net_room import Opened
from ironrule.rule import Box
from ironrule.rule.bit_kernels import kernel
from ironrule.space import Feasible
from ironrule.space.constrained import Group

Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


@kernel
def _drop(places: Ints, first: Ints, end: Ints, low: Ints, high: Ints, there: Flags) -> None:
    """Unset the flag of every part that none of some combinations lies in; `first` and `end` bound those to look at."""
    for row in range(low.shape[0]):
        if not there[row]:
            continue
        found = False
        for k in range(first[row], end[row]):
            inside = True
            for c in range(places.shape[1]):
                if places[k, c] < low[row, c] or places[k, c] > high[row, c]:
                    inside = False
                    break
            if inside:
                found = True
                break
        there[row] = found


@dataclass(frozen=True, slots=True, eq=False)
class Occurring:
    """What can occur in a question's box: per group of tied features their columns, and places of combinations."""

    groups: tuple[tuple[Ints, Ints], ...]

    @classmethod
    def of(cls, net: Net, opened: Opened, feasible: Feasible, box: Box) -> Occurring:
        """Find the places of all combinations that are listed."""
        listed = [group for group in feasible.groups if group.combinations is not None]
        return cls(tuple(_placed(net, opened, group, box) for group in listed))

    def those_with_any(self, parts: Taken) -> Taken:
        """The parts in which something may occur."""
        if not self.groups:
            return parts
        there = np.ones(len(parts.number), dtype=np.bool_)
        for columns, places in self.groups:
            low, high = (np.ascontiguousarray(ends[:, columns]) for ends in (parts.low, parts.high))
            first = np.searchsorted(places[:, 0], low[:, 0], side="left")
            end = np.searchsorted(places[:, 0], high[:, 0], side="right")
            _drop(places, first, end, low, high, there)
        return Taken(*(one[there] for one in parts))


def _placed(net: Net, opened: Opened, group: Group, box: Box) -> tuple[Ints, Ints]:
    """The columns of a group, and the places of its combinations that lie in the box, by their first."""
    columns, every = np.array(group.columns, dtype=np.int64), np.asarray(group.combinations)
    inside = ((every >= box.low[columns]) & (every <= box.high[columns])).all(axis=1)
    cells = net.cells.cell_of[every[inside] + net.cells.code_starts[columns]]
    places = [
        np.searchsorted(opened.cells[opened.starts[j] : opened.starts[j + 1]], cells[:, place])
        for place, j in enumerate(columns.tolist())
    ]
    stacked = np.stack(places, axis=1).astype(np.int64)
    return columns, np.ascontiguousarray(stacked[np.argsort(stacked[:, 0], kind="stable")])
