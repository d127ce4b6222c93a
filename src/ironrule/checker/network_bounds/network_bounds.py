"""Upper bounds of a neural network's margins over pieces of the space, for many pieces at once.

The bounds are those of :mod:`~ironrule.checker.network_bounds.propagation`. A piece is closed if some margin, with all
that the model's own arithmetic may be off, is not above zero anywhere in it. A piece that is not closed is split
further (:mod:`~ironrule.checker.network_bounds.splitting`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ironrule.checker.network_bounds.first_layer import build_first_layer
from ironrule.checker.network_bounds.propagation import PreparedNetwork, RelaxedNetwork, prepare_network
from ironrule.checker.network_bounds.splitting import close_in_parts
from ironrule.checker.network_bounds.tightening import tighten_bound
from ironrule.checker.pieces import Pieces
from ironrule.checker.readings.network_form import NetworkMargin, NetworkReading, arithmetic_errors, largest_sizes
from ironrule.checker.readings.normal_form import Floats, Integers, Mask, Unreadable, Values

MOST_CELLS = 1 << 18  # numbers in one array of a block of pieces
POINTS = 1 << 14

Points = npt.NDArray[np.int32]


class Column(Protocol):
    """A column that the estimator sees: the feature it depends on, and its value for every code of that feature."""

    @property
    def feature(self) -> int:
        """The feature's position."""
        ...

    @property
    def values(self) -> Values:
        """A value for every code."""
        ...


class Limits(NamedTuple):
    """The margins of one alternative: factors of the outputs, offsets, and how far each may be off."""

    factors: Floats
    offsets: Floats
    slack: Floats


@dataclass(frozen=True, slots=True, eq=False)
class NetworkBounds:
    """A network prepared for bounds. ``classes`` has for every feature the class of every code: codes that no column
    tells apart are in the same class.
    """

    classes: tuple[Integers, ...]
    alternatives: tuple[Limits, ...]
    reading: NetworkReading
    features: Integers  # that every column depends on
    values: tuple[Floats, ...]  # of every column, per code
    network: PreparedNetwork
    closes_in_parts: ClassVar[bool] = True

    def close(self, pieces: Pieces, alternative: int, holds_any: Callable[[Pieces], Mask] | None = None) -> Mask:
        """Which pieces surely hold no point where all margins of this alternative are positive. ``holds_any`` says
        which pieces hold any point that can occur; those that hold none are closed.
        """
        limits = self.alternatives[alternative]

        def close_whole(some: Pieces) -> Mask:
            closed = np.asarray((self.bound(some, limits) <= -limits.slack).any(axis=1))
            if holds_any is not None:
                left = np.flatnonzero(~closed)
                closed[left] = ~holds_any(some.some(left))
            return closed

        return close_in_parts(pieces, close_whole, self.network.first)

    def bound(self, pieces: Pieces, limits: Limits) -> Floats:
        """For every piece and margin an upper bound."""
        prepared, bounds = self.network.first.prepare(pieces), np.empty((len(pieces), len(limits.offsets)))
        widest = max(len(layer.bias) for layer in self.network.layers)
        rows = max(2 * widest, len(limits.offsets))
        step = max(1, MOST_CELLS // (rows * max(widest, self.network.first.widest)))
        rounding = self.network.rounding * np.abs(limits.offsets)
        with np.errstate(over="ignore", invalid="ignore"):
            for some in (slice(start, start + step) for start in range(0, len(pieces), step)):
                relaxed = RelaxedNetwork.relax(self.network, prepared.block(some))
                bounds[some] = relaxed.bound(limits.factors) + limits.offsets + rounding
                _tighten(bounds[some], relaxed, limits, rounding)
        return np.where(np.isfinite(bounds), bounds, np.inf)

    def decide(self, points: Points) -> tuple[Mask, Mask]:
        """Which points may be desired, and which surely are."""
        parts = [self._decide(points[start : start + POINTS]) for start in range(0, max(1, len(points)), POINTS)]
        possible, sure = (np.concatenate(some) for some in zip(*parts, strict=True))
        return possible, sure

    def _decide(self, points: Points) -> tuple[Mask, Mask]:
        columns = zip(self.features.tolist(), self.values, strict=True)
        rows = np.stack([values[points[:, feature]] for feature, values in columns], axis=1)
        outputs = self.reading.outputs(rows)
        possible, sure = np.zeros(len(points), dtype=np.bool_), np.zeros(len(points), dtype=np.bool_)
        for limits in self.alternatives:
            margins = outputs @ limits.factors.T + limits.offsets
            possible |= ~(margins <= -limits.slack).any(axis=1)
            sure |= (margins > limits.slack).all(axis=1)
        return possible, sure


def _tighten(bounds: Floats, relaxed: RelaxedNetwork, limits: Limits, rounding: Floats) -> None:
    """Improve the bound of the margin nearest to zero of every piece that is not closed, in place."""
    above = bounds + limits.slack
    nearest = np.where((above > 0.0).all(axis=1), above.argmin(axis=1), -1)
    for margin in range(len(limits.offsets)):
        rows = np.flatnonzero(nearest == margin)
        if len(rows):
            least = tighten_bound(relaxed.some(rows), limits.factors[margin])
            bounds[rows, margin] = np.fmin(bounds[rows, margin], least + limits.offsets[margin] + rounding[margin])


def prepare_network_bounds(reading: NetworkReading, columns: Sequence[Column], sizes: Sequence[int]) -> NetworkBounds:
    """Prepare a network for bounds; ``sizes`` has the number of codes of every feature.

    Raises Unreadable if its columns are not numbers or its arithmetic may overflow.
    """
    if len(columns) != reading.width:
        raise Unreadable(f"the network takes {reading.width} columns, but {len(columns)} reach it")
    values = tuple(_as_numbers(column.values) for column in columns)
    features, largest = [int(column.feature) for column in columns], largest_sizes(values)
    errors = arithmetic_errors(reading, largest)
    first = build_first_layer(features, values, reading.layers[0].weights, len(sizes))
    network = prepare_network(reading.layers, first, largest)
    limits = [_collect_limits(*both) for both in zip(reading.alternatives, errors, strict=True)]
    classes = tuple(
        _find_classes([column.values for column in columns if column.feature == feature], size)
        for feature, size in enumerate(sizes)
    )
    return NetworkBounds(classes, tuple(limits), reading, np.array(features), values, network)


def _as_numbers(values: Values) -> Floats:
    """A column's values as doubles, as libraries cast them; the casting of whole numbers is rounded at the most."""
    known = np.asarray(values)
    if known.dtype.kind == "O" and all(isinstance(value, Real) for value in known.tolist()):
        return np.array([float(value) for value in known.tolist()], dtype=np.float64)
    if known.dtype.kind not in "biuf":
        raise Unreadable("a network takes numbers only, but some of its columns have other values")
    return known.astype(np.float64)


def _collect_limits(margins: tuple[NetworkMargin, ...], slack: tuple[float, ...]) -> Limits:
    factors = np.array([margin.coefficients for margin in margins], dtype=np.float64)
    return Limits(factors, np.array([margin.offset for margin in margins]), np.array(slack))


def _find_classes(columns: list[Values], size: int) -> Integers:
    """The class of every code of one feature."""
    classes = np.zeros(size, dtype=np.intp)
    for values in columns:  # the classes so far, refined by one more column
        kinds = np.unique(values, return_inverse=True)[1].ravel()
        classes = np.unique(np.stack([classes, kinds], axis=1), axis=0, return_inverse=True)[1].ravel()
    return classes
