"""One question to one net on a device: boxes in, what is known of each out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ironrule.model.net import Net
from ironrule.oracles.net_deciding_kernels import FIRST_STEP, SHRINKS, STEPS
from ironrule.oracles.net_entry_torch import Ends, Entry, Sums
from ironrule.oracles.net_layers_torch import Layers, Relaxed
from ironrule.oracles.net_lines_torch import Lines, activated, lines
from ironrule.oracles.net_parts import Ints, Outcome
from ironrule.oracles.net_room import CLOSED, FOUND, OPEN, POINT, Opened
from ironrule.oracles.net_sharpening_torch import moved

RESERVE = 64.0  # how much farther than rounding asks for a bound stays below zero, by what rounding asks for


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """What boxes were bounded by: per box the upper bounds of its margins and their reserves, and how they came about
    for the tightest.
    """

    margins: Tensor
    reserve: Tensor
    given: list[Tensor]
    slopes: Tensor
    places: list[Tensor]
    relaxed: list[Relaxed]
    sums: Sums
    tightest: Tensor  # per box, which margin is

    def of(self, some: Tensor) -> Bounds:
        """Those of some boxes."""
        return Bounds(
            self.margins[some],
            self.reserve[some],
            [one[some] for one in self.given],
            self.slopes[some],
            [one[some] for one in self.places],
            [Relaxed(one.low[some], one.high[some], Lines(*(x[some] for x in one.lines))) for one in self.relaxed],
            self.sums.of(some),
            self.tightest[some],
        )

    @property
    def closed(self) -> Tensor:
        """Which boxes surely hold no point with all margins positive."""
        return (self.margins + self.reserve <= 0.0).any(1)


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A net and the open cells of a question, on a device."""

    net: Net
    opened: Opened
    device: str
    layers: Layers
    entry: Entry

    @classmethod
    def on(cls, device: str, net: Net, opened: Opened, layers: Layers | None = None) -> Question:
        """A question on a device, where the net's layers may be already."""
        return cls(net, opened, device, layers or Layers.on(device, net), Entry.on(device, net, opened))

    @property
    def bytes_per_box(self) -> int:
        """How much room a box takes at the most, roughly."""
        widest, cells = int(self.net.widths.max()), max((len(rows) for rows in self.entry.rows), default=0)
        wanted = max(2 * widest, len(self.net.offset))
        return 8 * (wanted * (6 * widest + 3 * len(self.entry.lines) + 3 * cells) + 3 * widest * cells)

    def bound(self, low: Ints, high: Ints, into: Outcome) -> None:
        """Write down what is known of boxes."""
        ends = self.entry.ends(*(torch.as_tensor(one, device=self.device) for one in (low, high)))
        bounds, rest = self.bounds(ends), torch.arange(len(low), device=self.device)
        for step in (*(FIRST_STEP * SHRINKS**k for k in range(STEPS)), None):
            left = (~bounds.closed).nonzero()[:, 0]
            if len(left) == 0:
                return
            bounds, ends, rest = bounds.of(left), ends.of(left), rest[left]
            bounds = bounds if step is None else self._sharpened(bounds, ends, step)
        cells, most, sure = self._reached(bounds, ends)
        feature, place = self._cut(bounds, ends)
        whole = torch.where(most > 0.0, POINT, CLOSED)
        status = torch.where(sure > 0.0, FOUND, torch.where(feature >= 0, OPEN, whole))
        numbers = torch.cat([rest[:, None], status[:, None], feature[:, None], place[:, None]], dim=1).cpu().numpy()
        into.status[numbers[:, 0]] = numbers[:, 1]
        into.cuts[numbers[:, 0]] = numbers[:, 2:]
        into.points[numbers[:, 0]] = cells.cpu().numpy()

    def bounds(self, ends: Ends) -> Bounds:
        """Upper bounds of the margins over boxes."""
        layers, sums = self.layers, self.entry.sums(ends)
        spare = layers.gamma * layers.sizes[0]
        relaxed = [self._relaxed(0, sums.low - spare, sums.high + spare)]
        traced = [_around(relaxed[0].lines, sums.middle)]
        for layer in range(1, len(layers.kinds)):
            relaxed.append(self._relaxed(layer, *self._inner(layer, traced, ends)))
            traced.append(relaxed[-1].lines)
        return self._margins(traced, relaxed, sums, ends)

    def _sharpened(self, bounds: Bounds, ends: Ends, step: float) -> Bounds:
        """Bounds of the tightest margins alone, with lines that do better where these are reached."""
        _, reached = self.entry.cells_of(bounds.slopes, bounds.places, ends)
        relaxed = moved(self.layers, bounds.relaxed, bounds.given, reached, step)
        traced = [_around(relaxed[0].lines, bounds.sums.middle), *(one.lines for one in relaxed[1:])]
        found, which = self._margins(traced, relaxed, bounds.sums, ends, bounds.tightest), bounds.tightest[:, None]
        return replace(found, margins=found.margins.gather(1, which), reserve=found.reserve.gather(1, which))

    def _inner(self, layer: int, traced: list[Lines], ends: Ends) -> tuple[Tensor, Tensor]:
        """Bounds of the sums of a layer behind the first; none are needed where the activation is the identity."""
        layers, width = self.layers, len(self.layers.bias[layer])
        if layers.kinds[layer] == 0:
            none = torch.zeros((len(ends.low), width), dtype=torch.float64, device=self.device)
            return none, none
        back = layers.highest(layers.rows[layer], layer - 1, traced)
        bound = _in_reach(back.total + self.entry.highest(back.now, ends).total + layers.gamma * back.error)
        spare = layers.gamma * layers.sizes[layer]
        high = bound[:, :width] + layers.bias[layer] + spare
        low = layers.bias[layer] - bound[:, width:] - spare
        return low, high

    def _relaxed(self, layer: int, low: Tensor, high: Tensor) -> Relaxed:
        layers = self.layers
        least = torch.maximum(low, -layers.sizes[layer])
        most = torch.maximum(least, torch.minimum(high, layers.sizes[layer]))
        return Relaxed(low, high, lines(layers.kinds[layer], layers.slopes[layer], least, most))

    def _margins(
        self, traced: list[Lines], relaxed: list[Relaxed], sums: Sums, ends: Ends, tightest: Tensor | None = None
    ) -> Bounds:
        layers = self.layers
        back = layers.highest(layers.coefficients, len(traced) - 1, traced)
        highest = self.entry.highest(back.now, ends)
        rounding = layers.gamma * (back.error + layers.offset.abs())
        margins = _in_reach(back.total + highest.total + rounding + layers.offset + layers.slack)
        tightest = margins.argmin(1) if tightest is None else tightest
        return Bounds(
            margins,
            (RESERVE * rounding).expand_as(margins),
            [_chosen(one, tightest) for one in back.given],
            _chosen(highest.slopes, tightest),
            [_chosen(one, tightest) for one in highest.places],
            relaxed,
            sums,
            tightest,
        )

    def _reached(self, bounds: Bounds, ends: Ends) -> tuple[Tensor, Tensor, Tensor]:
        """The points where bounds are reached, and their smallest margins at the most and at the least."""
        cells, values = self.entry.cells_of(bounds.slopes, bounds.places, ends)
        layers = self.layers
        for k, (kind, slope) in enumerate(zip(layers.kinds, layers.slopes, strict=True)):
            if k > 0:
                values = values @ layers.turned[k][:, :-1].T + layers.bias[k]
            values = activated(kind, slope, values)
        margins = values @ layers.coefficients.T + layers.offset
        return cells, (margins + layers.slack).amin(1), (margins - layers.slack).amin(1)

    def _cut(self, bounds: Bounds, ends: Ends) -> tuple[Tensor, Tensor]:
        """Where to cut boxes."""
        return self.entry.cuts(self.layers.spread(bounds.given, bounds.relaxed), bounds.sums.moved, ends)


def _in_reach(bounds: Tensor) -> Tensor:
    """Bounds; what overflows bounds nothing."""
    return torch.where(bounds.isfinite(), bounds, torch.inf)


def _around(one: Lines, middle: Tensor) -> Lines:
    """Lines whose values are those in the middle instead of at zero."""
    return Lines(one.below, one.below_at + one.below * middle, one.above, one.above_at + one.above * middle)


def _chosen(values: Tensor, which: Tensor) -> Tensor:
    """Per box, what belongs to one of its margins."""
    return values[torch.arange(len(which), device=which.device), which]
