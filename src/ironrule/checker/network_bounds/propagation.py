"""Upper bounds of a network's margins over pieces of the space, by going backwards through its layers (CROWN).

A linear function of a layer's outputs is bounded by putting a line in the place of every activation: the line above it
where its factor is positive, and the line below where it is negative. The result is a linear function of the layer's
sums, so of the outputs of the layer before. At the first layer its maximum over a piece is exact. Lines need to know
between which ends a sum lies; these are found in the same way, layer after layer (Zhang et al. 2018, as in
:mod:`~ironrule.checker.network_bounds.relaxation`; Singh et al., "An Abstract Domain for Certifying Neural Networks",
POPL 2019).

**Rounding.** Let a be the factors of a layer's outputs, p those of its sums, and S what its sums never exceed in size;
u is 2**-53. These are the errors of a whole bound. None of them grows on the way, since each is measured by the true
values of the network that it is multiplied with:

- lines that are off (:mod:`~ironrule.checker.network_bounds.relaxation`), mixed or not: 564 u |a| (1 + S) per unit;
- the product of a and the slope: u |p| S;
- p times the weights, n products each: n u |p| (weights times what comes in), which is no more than n u |p| S;
- at the first layer, vectors of c columns added up beforehand and n products, and the product with a column's value:
  (c + n + 1) u |p| S;
- all that is added to the bound, t terms: t u times their sizes, no more than 2 |a| (1 + S) + 2 |p| S per unit.

With t = columns + 2 units + 2, and n and c no more than t, these are together less than

    4 (t + 150) u times the sum of (|a| + |p|) (1 + S) over all units

to first order, with more than enough left for the rest. Products too small for a double are off by 2**-1074 at the
most, which a tiny number added to |a| covers. Where a number is too large, nothing is concluded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ironrule.checker.network_bounds.first_layer import Block, FirstLayer
from ironrule.checker.network_bounds.relaxation import Lines, find_lines
from ironrule.checker.readings.network_form import Layer
from ironrule.checker.readings.normal_form import Floats, Integers

UNIT = 2.0**-53
LINE_ERROR = 150
TINY = 1e-290


@dataclass(frozen=True, slots=True, eq=False)
class PreparedNetwork:
    """A network's layers, the weights of the first feature by feature; what the sums of each never exceed in size; and
    how far bounds may be off, relative to the sizes that are added up in them.
    """

    layers: tuple[Layer, ...]
    first: FirstLayer
    sizes: tuple[Floats, ...]
    rounding: float


def prepare_network(layers: tuple[Layer, ...], first: FirstLayer, largest: Floats) -> PreparedNetwork:
    """Prepare layers, for columns that do not exceed ``largest`` in size."""
    sizes, size = list[Floats](), largest
    with np.errstate(over="ignore"):
        for layer in layers:
            sizes.append((size @ np.abs(layer.weights) + np.abs(layer.bias)) * (1.0 + 1e-9))
            size = layer.activation.limit_size(sizes[-1])
    terms = len(largest) + 2 * sum(len(layer.bias) for layer in layers) + 2
    return PreparedNetwork(layers, first, tuple(sizes), 4.0 * (terms + LINE_ERROR) * UNIT)


class TracedBounds(NamedTuple):
    """Bounds, and the factors they came from: those of every layer's outputs, and those of the first layer's sums."""

    bounds: Floats
    factors: list[Floats]
    first: Floats


@dataclass(frozen=True, slots=True, eq=False)
class RelaxedNetwork:
    """A network over a block of pieces, with lines in the place of the activations of the layers bounded so far."""

    network: PreparedNetwork
    block: Block
    lines: list[Lines] = field(default_factory=list)
    ends: list[tuple[Floats, Floats]] = field(default_factory=list)  # between which the sums of every layer lie

    @classmethod
    def relax(cls, network: PreparedNetwork, block: Block) -> RelaxedNetwork:
        """Bound every layer's sums, and find its lines."""
        relaxed = cls(network, block)
        for layer, size in zip(network.layers, network.sizes, strict=True):
            if layer.activation.kind == "identity":  # its lines do not depend on the ends
                low, high = np.broadcast_to(size, (2, len(block.low), len(size)))
            else:
                low, high = relaxed._bound_sums(layer, size)
            relaxed.lines.append(find_lines(layer.activation, low, high))
            relaxed.ends.append((low, high))
        return relaxed

    def _bound_sums(self, layer: Layer, size: Floats) -> tuple[Floats, Floats]:
        """The ends between which a layer's sums lie; the layers before it have been bounded."""
        if self.lines:
            tops = self.bound(np.concatenate([layer.weights.T, -layer.weights.T]))
            low, high = layer.bias - tops[:, len(size) :], layer.bias + tops[:, : len(size)]
        else:
            low, high = self.network.first.bound_sums(self.block)
            low, high = low + layer.bias, high + layer.bias
        wider = self.network.rounding * (size + TINY)
        low = np.where(np.isfinite(low), np.maximum(low - wider, -size), -size)
        high = np.where(np.isfinite(high), np.minimum(high + wider, size), size)
        return low, high

    def some(self, rows: Integers) -> RelaxedNetwork:
        """Some of the pieces."""
        lines = [Lines(*(numbers[rows] for numbers in one)) for one in self.lines]
        ends = [(low[rows], high[rows]) for low, high in self.ends]
        return RelaxedNetwork(self.network, self.block.some(rows), lines, ends)

    def bound(self, wanted: Floats) -> Floats:
        """For every piece an upper bound of each row of factors times the outputs of the last layer bounded."""
        return self.trace(wanted).bounds

    def trace(self, wanted: Floats) -> TracedBounds:
        """The same with the factors on the way."""
        factors, met = np.broadcast_to(wanted, (len(self.block.low), *wanted.shape)), list[Floats]()
        total, sizes = np.zeros((2, *factors.shape[:2]))
        for place in reversed(range(len(self.lines))):
            layer, lines = self.network.layers[place], self.lines[place]
            met.append(factors)
            over, under = np.maximum(factors, 0.0), np.minimum(factors, 0.0)
            passed = over * lines.above[:, None] + under * lines.below[:, None]
            total += _multiply(over, lines.above_at) + _multiply(under, lines.below_at) + passed @ layer.bias
            sizes += (np.abs(factors) + np.abs(passed) + TINY) @ (1.0 + self.network.sizes[place])
            factors = passed @ layer.weights.T if place else passed
        most = self.network.first.maximum(self.block, factors)
        return TracedBounds(np.asarray(total + most + self.network.rounding * sizes), met[::-1], factors)


def _multiply(rows: Floats, numbers: Floats) -> Floats:
    """For every piece the rows times its numbers."""
    return np.asarray((rows @ numbers[:, :, None])[:, :, 0])
