"""Upper bounds of a network's margins over pieces of the space, by going back through its layers.

A linear function of a layer's outputs is bounded by putting a line in the place of every activation, the one above it
where it stands with a positive factor and the one below where with a negative: what comes out is a linear function of
the layer's sums, so of the outputs of the layer before. At the first layer its maximum over a piece is exact. Lines
need to know between which ends a sum lies; these are found in the same way, layer after layer (Zhang et al. 2018, as in
:mod:`~ironrule.verdict.checker.lines`; Singh et al., "An Abstract Domain for Certifying Neural Networks", POPL 2019).

**Rounding.** Let a be the factors before the activations of a layer, p those behind them, and S what its sums never
exceed in size; u is 2**-53. Errors of a whole bound, none of which grows on the way since each is counted by what the
network's true values can make of it:

- lines that are off (:mod:`~ironrule.verdict.checker.lines`), mixed or not: 564 u |a| (1 + S) for every unit;
- the product a times slope: u |p| S;
- p times the weights, n products each: n u |p| (weights times what comes in), which is no more than n u |p| S;
- at the first layer, vectors of c columns added up before and n products, and the product with a column's value:
  (c + n + 1) u |p| S;
- all that is added to the bound, t terms: t u times their sizes, no more than 2 |a| (1 + S) + 2 |p| S for every unit.

With t = columns + 2 units + 2, and n and c no more than t, these are together less than

    4 (t + 150) u times the sum of (|a| + |p|) (1 + S) over all units

to first order and with more than enough left for the rest. Products too small for a double are off by 2**-1074 at the
most, which a tiny number beside |a| covers. Where a number is too large, nothing is concluded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ironrule.model.network import Layer
from ironrule.model.reading import Floats
from ironrule.verdict.checker.entering import Entry, Part
from ironrule.verdict.checker.lines import Lines, lines_of
from ironrule.verdict.checker.questions import Ints

UNIT = 2.0**-53
LINES = 150
TINY = 1e-290


@dataclass(frozen=True, slots=True, eq=False)
class Layers:
    """A network's layers, the weights of the first feature by feature; what the sums of each never exceed in size; and
    how far bounds may be off, by the sizes that meet in them.
    """

    layers: tuple[Layer, ...]
    entry: Entry
    sizes: tuple[Floats, ...]
    rounding: float


def layers_of(layers: tuple[Layer, ...], entry: Entry, largest: Floats) -> Layers:
    """Prepare layers, for columns that do not exceed ``largest`` in size."""
    sizes, size = list[Floats](), largest
    with np.errstate(over="ignore"):
        for layer in layers:
            sizes.append((size @ np.abs(layer.weights) + np.abs(layer.bias)) * (1.0 + 1e-9))
            size = layer.activation.reach(sizes[-1])
    terms = len(largest) + 2 * sum(len(layer.bias) for layer in layers) + 2
    return Layers(layers, entry, tuple(sizes), 4.0 * (terms + LINES) * UNIT)


class Traced(NamedTuple):
    """Bounds, and how they came about: the factors before every layer's activations, and those of the first sums."""

    bounds: Floats
    given: list[Floats]
    first: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Relaxed:
    """Some pieces, and the lines of the layers that have been bounded so far."""

    network: Layers
    part: Part
    lines: list[Lines] = field(default_factory=list)
    ends: list[tuple[Floats, Floats]] = field(default_factory=list)  # between which the sums of every layer lie

    @classmethod
    def of(cls, network: Layers, part: Part) -> Relaxed:
        """Bound every layer's sums, and find its lines."""
        relaxed = cls(network, part)
        for layer, size in zip(network.layers, network.sizes, strict=True):
            if layer.activation.kind == "identity":
                low, high = np.broadcast_to(size, (2, len(part.low), len(size)))
            else:
                low, high = relaxed._sums(layer, size)
            relaxed.lines.append(lines_of(layer.activation, low, high))
            relaxed.ends.append((low, high))
        return relaxed

    def _sums(self, layer: Layer, size: Floats) -> tuple[Floats, Floats]:
        """The ends between which a layer's sums lie; the layers before it have been bounded."""
        if self.lines:
            tops = self.highest(np.concatenate([layer.weights.T, -layer.weights.T]))
            low, high = layer.bias - tops[:, len(size) :], layer.bias + tops[:, : len(size)]
        else:
            low, high = self.network.entry.sums(self.part)
            low, high = low + layer.bias, high + layer.bias
        wider = self.network.rounding * (size + TINY)
        low = np.where(np.isfinite(low), np.maximum(low - wider, -size), -size)
        high = np.where(np.isfinite(high), np.minimum(high + wider, size), size)
        return low, high

    def some(self, rows: Ints) -> Relaxed:
        """Some of the pieces."""
        low, high, there = self.part
        part = Part(low[rows], high[rows], tuple(flags[rows] for flags in there))
        lines = [Lines(*(numbers[rows] for numbers in one)) for one in self.lines]
        return Relaxed(self.network, part, lines, [(one[rows], other[rows]) for one, other in self.ends])

    def highest(self, wanted: Floats) -> Floats:
        """For every piece an upper bound of each row of factors times the outputs of the last layer bounded."""
        return self.traced(wanted).bounds

    def traced(self, wanted: Floats) -> Traced:
        """The same with the factors on the way."""
        factors, given = np.broadcast_to(wanted, (len(self.part.low), *wanted.shape)), list[Floats]()
        total, sizes = np.zeros((2, *factors.shape[:2]))
        for place in reversed(range(len(self.lines))):
            layer, lines = self.network.layers[place], self.lines[place]
            given.append(factors)
            over, under = np.maximum(factors, 0.0), np.minimum(factors, 0.0)
            passed = over * lines.above[:, None] + under * lines.below[:, None]
            total += _dot(over, lines.above_at) + _dot(under, lines.below_at) + passed @ layer.bias
            sizes += (np.abs(factors) + np.abs(passed) + TINY) @ (1.0 + self.network.sizes[place])
            factors = passed @ layer.weights.T if place else passed
        most = self.network.entry.highest(self.part, factors)
        return Traced(np.asarray(total + most + self.network.rounding * sizes), given[::-1], factors)


def _dot(rows: Floats, numbers: Floats) -> Floats:
    """For every piece the rows times its numbers."""
    return np.asarray((rows @ numbers[:, :, None])[:, :, 0])
