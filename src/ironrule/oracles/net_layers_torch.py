"""A net on a device: its layers as matrices, and bounds of linear functions of a layer's outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ironrule.model.net import Net
from ironrule.oracles.net_bounding_kernels import TINY
from ironrule.oracles.net_lines_torch import Lines


class Relaxed(NamedTuple):
    """Per box and unit of a layer, bounds of its sum and the lines of its activation."""

    low: Tensor
    high: Tensor
    lines: Lines


class Backward(NamedTuple):
    """Linear functions of some layer's outputs, traced back to the first layer's sums.

    ``total`` is what is known of their bounds, ``error`` what all that met in them sums up to, ``given`` what stands
    before the activations of every layer, the first layer's first, ``now`` what is left of the first layer's sums.
    """

    total: Tensor
    error: Tensor
    given: list[Tensor]
    now: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Layers:
    """A net's layers; lists have an entry per layer."""

    rows: list[Tensor]  # weights and their negatives, a row per bound that is wanted; of the first layer: nothing
    turned: list[Tensor]  # weights with the bias as a last column; likewise
    bias: list[Tensor]
    sizes: list[Tensor]
    kinds: list[int]
    slopes: list[float]
    coefficients: Tensor
    offset: Tensor
    slack: Tensor
    gamma: float

    @classmethod
    def on(cls, device: str, net: Net) -> Layers:
        """A net's layers on a device."""

        def put(array: object) -> Tensor:
            return torch.tensor(array, dtype=torch.float64, device=device)

        rows, turned = [torch.empty(0)], [torch.empty(0)]
        units = [slice(*net.unit_starts[k : k + 2]) for k in range(len(net.widths))]
        for k in range(1, len(net.widths)):
            weights = put(net.turned[slice(*net.weight_starts[k - 1 : k + 1])])
            weights = weights.reshape(int(net.widths[k]), int(net.widths[k - 1]))
            rows.append(torch.cat([weights, -weights]))
            turned.append(torch.cat([weights, put(net.bias[units[k]])[:, None]], dim=1))
        return cls(
            rows,
            turned,
            [put(net.bias[some]) for some in units],
            [put(net.sizes[some]) for some in units],
            net.kinds.tolist(),
            net.slopes.tolist(),
            put(net.coefficients),
            put(net.offset),
            put(net.slack),
            net.gamma,
        )

    def highest(self, rows: Tensor, layer: int, relaxed: list[Lines]) -> Backward:
        """Trace linear functions of a layer's outputs back; the first layer's lines are around the boxes' middles."""
        one = relaxed[layer]
        given = [rows.expand(len(one.above), *rows.shape)]
        plus, minus = rows.clamp(min=0.0), rows.clamp(max=0.0)
        total = one.above_at @ plus.T + one.below_at @ minus.T
        error = (rows.abs() + TINY) @ (self.sizes[layer] + 1.0)
        now = (plus * one.above[:, None]).addcmul_(minus, one.below[:, None])
        for k in range(layer, 0, -1):
            through = now @ self.turned[k]
            rows, one = through[..., :-1].contiguous(), relaxed[k - 1]
            given.append(rows)
            plus = rows.clamp(min=0.0)
            minus = rows - plus
            total = total + through[..., -1] + _times(plus, one.above_at) + _times(minus, one.below_at)
            error = error + (rows.abs() + TINY) @ (self.sizes[k - 1] + 1.0)
            now = plus.mul_(one.above[:, None]).addcmul_(minus, one.below[:, None])
        return Backward(total, 2.0 * error, given[::-1], now)

    def spread(self, given: list[Tensor], relaxed: list[Relaxed]) -> Tensor:
        """How much a bound loses for every unit by which a first sum's interval is wide."""
        flow = torch.zeros_like(relaxed[-1].low)
        for k in range(len(relaxed) - 1, -1, -1):
            low, high, one = relaxed[k]
            gap = (one.above - one.below) * (0.5 * (low + high)) + one.above_at - one.below_at
            own = given[k].abs() * gap.abs() / (high - low).clamp(min=1e-12)
            flow = own + flow * torch.maximum(one.above, one.below)
            if k > 0:
                flow = flow @ self.turned[k][:, :-1].abs()
        return flow


def _times(rows: Tensor, factors: Tensor) -> Tensor:
    """Per box, the sums of its rows weighted by its factors."""
    return torch.bmm(rows, factors[:, :, None])[:, :, 0]
