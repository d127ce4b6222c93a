"""Upper bounds of a network's margins over pieces of which only few features may change.

A bound of bound propagation is a linear function of the first layer's sums, to which every feature adds its own part.
What a feature may gain by changing is what it adds at its best beyond what it adds at the row's value
(:mod:`~ironrule.checker.bounds.change_bounds`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ironrule.checker.arrays import BoolArray, Float64Array, Int32Array
from ironrule.checker.bounds.bound_propagation import RelaxedNetwork
from ironrule.checker.bounds.change_bounds import MAX_BLOCK_ENTRIES, RELATIVE_ERROR, ChangePieces, bound_knapsack
from ironrule.checker.bounds.network_bounds import AlternativeMargins, NetworkBounds


@dataclass(frozen=True, slots=True, eq=False)
class NetworkChangeBounds:
    """A network as changes of one row see it."""

    bounds: NetworkBounds
    own: Int32Array

    def flag_closed(self, changes: ChangePieces) -> tuple[BoolArray, Float64Array]:
        """See :class:`ChangeBounds`."""
        network, closed = self.bounds.network, np.ones(len(changes), dtype=np.bool_)
        gains, prepared = np.zeros(changes.undecided.shape), network.first.prepare_pieces(changes.pieces)
        widest = max(len(layer.bias) for layer in network.layers)
        step = max(1, MAX_BLOCK_ENTRIES // (2 * widest * max(widest, network.first.max_width)))
        with np.errstate(over="ignore", invalid="ignore"):
            for some in (slice(start, start + step) for start in range(0, len(changes), step)):
                relaxed = RelaxedNetwork.build(network, prepared.build_block(some))
                for margins in self.bounds.alternatives:
                    here, own_gains = self._flag_block(relaxed, margins, changes.select(some))
                    closed[some] &= here
                    gains[some] = np.maximum(gains[some], own_gains)
        return closed, gains

    def count_parts(self, changes: ChangePieces, _limit: float) -> list[Float64Array]:
        """See :class:`ChangeBounds`: no gap is blamed before combinations with it stay open."""
        return [np.zeros(one.shape[1]) for one in changes.pieces.sets]

    def _flag_block(
        self, relaxed: RelaxedNetwork, margins: AlternativeMargins, changes: ChangePieces
    ) -> tuple[BoolArray, Float64Array]:
        traced = relaxed.trace_bounds(margins.factors)
        here, gains = np.zeros(len(changes), dtype=np.bool_), np.zeros(changes.undecided.shape)
        for place, (offset, slack) in enumerate(zip(margins.offsets, margins.slack, strict=True)):
            own_gains, sizes = self._measure_gains(relaxed, traced.first[:, place], changes)
            bound = traced.bounds[:, place] + offset + self.bounds.network.rounding * abs(offset)
            sizes = RELATIVE_ERROR * (sizes + np.abs(bound) + abs(offset))
            most = bound - own_gains.sum(axis=1) + bound_knapsack(own_gains, changes.costs, changes.left) + sizes
            here |= np.where(np.isfinite(most) & np.isfinite(bound), np.minimum(bound, most) <= -slack, False)
            gains = np.maximum(gains, np.where(np.isfinite(own_gains), own_gains, 0.0))
        return here, gains

    def _measure_gains(
        self, relaxed: RelaxedNetwork, factors: Float64Array, changes: ChangePieces
    ) -> tuple[Float64Array, Float64Array]:
        """What each undecided feature adds at its best beyond what it adds at the row's value, and all sizes."""
        first, block = relaxed.network.first, relaxed.block
        gains, sizes = np.zeros(changes.undecided.shape), np.zeros(len(changes))
        slopes = factors @ first.single.weights.T
        for place, (feature, values) in enumerate(zip(first.single.features, first.single.values, strict=True)):
            ends = slopes[:, place] * block.low[:, place], slopes[:, place] * block.high[:, place]
            own = slopes[:, place] * values[self.own[feature]]
            gains[:, feature] = np.maximum(*ends) - own
            sizes += np.maximum(np.abs(ends[0]), np.abs(ends[1])) + np.abs(own)
        for flags, group in zip(block.present_cells, first.groups, strict=True):
            adds = factors @ group.vectors.T
            own = adds[:, group.cells[self.own[group.feature]]]
            gains[:, group.feature] = np.where(flags, adds, -np.inf).max(axis=1) - own
            sizes += np.abs(adds).max(axis=1)
        return np.where(changes.undecided, np.maximum(gains, 0.0), 0.0), sizes
