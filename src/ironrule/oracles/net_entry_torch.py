"""How boxes enter a net on a device: the first layer's sums over ranges of open cells.

Scaled numbers come as one matrix of directions; a feature with a table is masked by the cells that a box has of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ironrule.model.net import Net
from ironrule.oracles.net_room import Opened


class Ends(NamedTuple):
    """Boxes: the first and the last place of every feature, what scaled numbers are there, and per feature with a table
    which of its open cells are inside.
    """

    low: Tensor
    high: Tensor
    first: Tensor
    last: Tensor
    inside: list[Tensor]

    def of(self, some: Tensor) -> Ends:
        """Some of the boxes."""
        low, high, first, last, inside = self
        return Ends(low[some], high[some], first[some], last[some], [one[some] for one in inside])


class Sums(NamedTuple):
    """Per box, bounds of the first layer's sums without rounding, their middle where every scaled number is in the
    middle of its range and tables add nothing, and per feature with a table how far it moves each sum.
    """

    low: Tensor
    high: Tensor
    middle: Tensor
    moved: list[Tensor]

    def of(self, some: Tensor) -> Sums:
        """Those of some boxes."""
        low, high, middle, moved = self
        return Sums(low[some], high[some], middle[some], [one[some] for one in moved])


class Highest(NamedTuple):
    """Per box and linear function of the first layer's sums: what ranges and tables add to its bound, and where."""

    total: Tensor
    slopes: Tensor
    places: list[Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """The open cells of a question on a device."""

    lines: Tensor  # which features are scaled numbers
    tables: list[int]  # and which are not
    starts: Tensor  # per feature, its first open cell
    cells: Tensor
    values: Tensor
    sorted: Tensor  # per scaled number its open values, filled up with infinity
    base: Tensor
    direction: Tensor  # scaled numbers x first layer
    rise: Tensor  # the same, its positive and its negative part
    fall: Tensor
    across: Tensor  # first layer x scaled numbers
    rows: list[Tensor]  # per feature with a table, its open cells x first layer

    @classmethod
    def on(cls, device: str, net: Net, opened: Opened) -> Entry:
        """The open cells of a question on a device."""

        def put(array: object) -> Tensor:
            return torch.tensor(array, device=device)

        counts = np.diff(opened.starts)
        lines, tables = np.flatnonzero(net.line), np.flatnonzero(~net.line)
        ordered = np.full((len(lines), int(counts[lines].max(initial=1))), np.inf)
        for row, j in enumerate(lines):
            ordered[row, : counts[j]] = opened.values[opened.starts[j] : opened.starts[j + 1]]
        rows = [net.table[net.table_starts[j] + opened.cells[slice(*opened.starts[j : j + 2])]] for j in tables]
        direction = put(net.direction[lines])
        return cls(
            put(lines),
            tables.tolist(),
            put(opened.starts[:-1]),
            put(opened.cells),
            put(opened.values),
            put(ordered),
            put(net.base),
            direction,
            direction.clamp(min=0.0),
            direction.clamp(max=0.0),
            direction.T.contiguous(),
            [put(some) for some in rows],
        )

    def ends(self, low: Tensor, high: Tensor) -> Ends:
        """Boxes by places of open cells."""
        starts = self.starts[self.lines]
        first, last = (self.values[starts + places[:, self.lines]] for places in (low, high))
        inside = []
        for j, rows in zip(self.tables, self.rows, strict=True):
            here = torch.arange(len(rows), device=low.device)
            inside.append((here >= low[:, j, None]) & (here <= high[:, j, None]))
        return Ends(low, high, first, last, inside)

    def sums(self, ends: Ends) -> Sums:
        """Bounds of the first layer's sums."""
        low = self.base + ends.first @ self.rise + ends.last @ self.fall
        high = self.base + ends.last @ self.rise + ends.first @ self.fall
        middle = self.base + (0.5 * (ends.first + ends.last)) @ self.direction
        moved = []
        for mask, rows in zip(ends.inside, self.rows, strict=True):
            least = torch.where(mask[:, :, None], rows, torch.inf).amin(1)
            most = torch.where(mask[:, :, None], rows, -torch.inf).amax(1)
            low, high = low + least, high + most
            moved.append(most - least)
        return Sums(low, high, middle, moved)

    def highest(self, now: Tensor, ends: Ends) -> Highest:
        """The maximum of linear functions of the first layer's sums, beyond their value in the middle."""
        slopes = now @ self.across
        half = 0.5 * (ends.last - ends.first)
        total = torch.bmm(slopes.abs(), half[:, :, None])[:, :, 0]
        places = []
        for mask, rows in zip(ends.inside, self.rows, strict=True):
            most, place = torch.where(mask[:, None], now @ rows.T, -torch.inf).max(2)
            total = total + most
            places.append(place)
        return Highest(total, slopes, places)

    def cells_of(self, slopes: Tensor, places: list[Tensor], ends: Ends) -> tuple[Tensor, Tensor]:
        """The points where maxima are reached, as cells, and their first layer's sums."""
        up = slopes >= 0.0
        at = torch.empty_like(ends.low)
        at[:, self.lines] = torch.where(up, ends.high[:, self.lines], ends.low[:, self.lines])
        sums = self.base + torch.where(up, ends.last, ends.first) @ self.direction
        for j, place, rows in zip(self.tables, places, self.rows, strict=True):
            at[:, j] = place
            sums = sums + rows[place]
        return self.cells[self.starts + at], sums

    def cuts(self, flow: Tensor, moved: list[Tensor], ends: Ends) -> tuple[Tensor, Tensor]:
        """The feature whose range costs most, -1 if the box is a point, and the last place of its first part."""
        costs = torch.empty(ends.low.shape, dtype=torch.float64, device=flow.device)
        costs[:, self.lines] = (flow @ self.across.abs()) * (ends.last - ends.first)
        for j, width in zip(self.tables, moved, strict=True):
            costs[:, j] = (flow * width).sum(1)
        fixed = ends.low == ends.high
        feature = torch.where(fixed, -torch.inf, costs).argmax(1)
        middle = (ends.low + ends.high) // 2
        halves = 0.5 * (ends.first + ends.last)
        upto = torch.searchsorted(self.sorted, halves.T.contiguous(), right=True).T - 1
        middle[:, self.lines] = upto
        middle = torch.minimum(torch.maximum(middle, ends.low), ends.high - 1)
        place = middle.gather(1, feature[:, None])[:, 0]
        whole = fixed.all(1)
        return torch.where(whole, -1, feature), torch.where(whole, -1, place)
