"""Upper bounds of a neural network's margins over pieces of the space, for many pieces at once.

The bounds are those of :mod:`~ironrule.verdict.checker.substituting`. A piece is closed if some margin, with all that
the model's own arithmetic may be off, is not above zero anywhere in it. A piece that is not closed is cut further
(:mod:`~ironrule.verdict.checker.halving`): whoever found the cover may have rounded otherwise, or known better lines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ironrule.model.network import Network, Preference, arithmetic_errors, largest_of
from ironrule.model.reading import Floats, Unreadable
from ironrule.model.tabulate import Columns
from ironrule.space import Points, Space
from ironrule.verdict.checker.entering import entry_of
from ironrule.verdict.checker.halving import closed_in_parts
from ironrule.verdict.checker.pieces import Pieces
from ironrule.verdict.checker.questions import Flags, Questions
from ironrule.verdict.checker.sharpening import sharpest
from ironrule.verdict.checker.substituting import Layers, Relaxed, layers_of

MOST_CELLS = 1 << 18  # numbers in one array of a block of pieces
POINTS = 1 << 14


class Limits(NamedTuple):
    """The margins of one alternative: factors of the outputs, offsets, and how far each may be off."""

    factors: Floats
    offsets: Floats
    slack: Floats


@dataclass(frozen=True, slots=True, eq=False)
class NetworkBounds:
    """A network prepared: what it tells apart, and its margins."""

    questions: Questions
    alternatives: tuple[Limits, ...]
    network: Network
    columns: Columns
    layers: Layers

    def closed(self, pieces: Pieces, alternative: int, holds_any: Callable[[Pieces], Flags] | None = None) -> Flags:
        """Which pieces surely hold no point where all margins of this alternative are positive, among those that can
        occur if it is said in which pieces any can.
        """
        limits = self.alternatives[alternative]

        def close(some: Pieces) -> Flags:
            closed = np.asarray((self.highest(some, limits) <= -limits.slack).any(axis=1))
            if holds_any is not None:
                left = np.flatnonzero(~closed)
                closed[left] = ~holds_any(some.some(left))
            return closed

        return closed_in_parts(pieces, close, self.layers.entry)

    def highest(self, pieces: Pieces, limits: Limits) -> Floats:
        """For every piece and margin an upper bound."""
        entered, bounds = self.layers.entry.of(pieces), np.empty((len(pieces), len(limits.offsets)))
        widest = max(len(layer.bias) for layer in self.layers.layers)
        rows = max(2 * widest, len(limits.offsets))
        step = max(1, MOST_CELLS // (rows * max(widest, self.layers.entry.widest)))
        rounding = self.layers.rounding * np.abs(limits.offsets)
        with np.errstate(over="ignore", invalid="ignore"):
            for some in (slice(start, start + step) for start in range(0, len(pieces), step)):
                relaxed = Relaxed.of(self.layers, entered.part(some))
                bounds[some] = relaxed.highest(limits.factors) + limits.offsets + rounding
                _sharpen(bounds[some], relaxed, limits, rounding)
        return np.where(np.isfinite(bounds), bounds, np.inf)

    def decided(self, points: Points) -> tuple[Flags, Flags]:
        """Which points may be desired, and which surely are."""
        parts = [self._decided(points[start : start + POINTS]) for start in range(0, max(1, len(points)), POINTS)]
        possible, sure = (np.concatenate(some) for some in zip(*parts, strict=True))
        return possible, sure

    def _decided(self, points: Points) -> tuple[Flags, Flags]:
        outputs = self.network.outputs(self.columns.at(points))
        possible, sure = np.zeros(len(points), dtype=np.bool_), np.zeros(len(points), dtype=np.bool_)
        for limits in self.alternatives:
            margins = outputs @ limits.factors.T + limits.offsets
            possible |= ~(margins <= -limits.slack).any(axis=1)
            sure |= (margins > limits.slack).all(axis=1)
        return possible, sure


def _sharpen(bounds: Floats, relaxed: Relaxed, limits: Limits, rounding: Floats) -> None:
    """Better bounds of the tightest margin of pieces that are not closed."""
    above = bounds + limits.slack
    tightest = np.where((above > 0.0).all(axis=1), above.argmin(axis=1), -1)
    for margin in range(len(limits.offsets)):
        rows = np.flatnonzero(tightest == margin)
        if len(rows):
            least = sharpest(relaxed.some(rows), limits.factors[margin]) + limits.offsets[margin] + rounding[margin]
            bounds[rows, margin] = np.fmin(bounds[rows, margin], least)


def network_bounds_of(network: Network, columns: Columns, space: Space) -> NetworkBounds:
    """Prepare a network; raises Unreadable if its numbers are out of reach."""
    values = tuple(np.asarray(column, dtype=np.float64) for column in columns.values)
    seen, largest = Columns(columns.features, values), largest_of(values)
    errors = arithmetic_errors(network, largest)
    entry = entry_of(columns.features.tolist(), values, network.layers[0].weights, len(space))
    layers = layers_of(network.layers, entry, largest)
    if not all(np.isfinite(size).all() for size in layers.sizes):
        raise Unreadable("its weights are so large that its arithmetic overflows")
    limits = [_limits(*both) for both in zip(network.alternatives, errors, strict=True)]
    return NetworkBounds(_told_apart(seen, space), tuple(limits), network, seen, layers)


def _limits(margins: tuple[Preference, ...], slack: tuple[float, ...]) -> Limits:
    factors = np.array([one.coefficients for one in margins], dtype=np.float64)
    return Limits(factors, np.array([one.offset for one in margins]), np.array(slack))


def _told_apart(columns: Columns, space: Space) -> Questions:
    """No tests, but values that are seen: codes are alike if every column has the same for both."""
    sizes = tuple(space.sizes.tolist())
    none = tuple(np.zeros((0, (size + 7) // 8), dtype=np.uint8) for size in sizes)
    every = list(zip(columns.features.tolist(), columns.values, strict=True))
    seen = tuple(tuple(values for of, values in every if of == feature) for feature in range(len(sizes)))
    return Questions(sizes, none, {}, seen)
