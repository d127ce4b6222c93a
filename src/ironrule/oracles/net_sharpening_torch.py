"""Better lines for the units of a network: :mod:`ironrule.oracles.net_sharpening_kernels` over tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from ironrule.oracles.net_layers_torch import Layers, Relaxed
from ironrule.oracles.net_lines_torch import Lines, activated, tangent
from ironrule.oracles.net_relaxing_kernels import NARROW


def moved(layers: Layers, relaxed: list[Relaxed], given: list[Tensor], sums: Tensor, step: float) -> list[Relaxed]:
    """Lines that do better at the points, given by their first sums, where bounds with these factors are reached."""
    found = []
    for k, (low, high, lines) in enumerate(relaxed):
        ends = torch.maximum(low, -layers.sizes[k]), torch.minimum(high, layers.sizes[k])
        found.append(Relaxed(low, high, _lines(layers.kinds[k], layers.slopes[k], lines, given[k], sums, ends, step)))
        if k + 1 < len(relaxed):
            over = given[k] >= 0.0
            values = torch.where(over, lines.above * sums + lines.above_at, lines.below * sums + lines.below_at)
            sums = values @ layers.turned[k + 1][:, :-1].T + layers.bias[k + 1]
    return found


def _lines(
    kind: int, slope: float, lines: Lines, given: Tensor, sums: Tensor, ends: tuple[Tensor, Tensor], step: float
) -> Lines:
    if kind == 0:
        return lines
    if kind > 2:
        return _mixed(kind, lines, given, sums, ends, step)
    free = (given < 0.0) & (ends[0] < 0.0) & (ends[1] > 0.0)
    steps = torch.where(sums > 0.0, step, -step)
    steeper = (lines.below + steps).clamp(min=slope if kind == 2 else 0.0, max=1.0)
    return lines._replace(below=torch.where(free, steeper, lines.below))


def _mixed(kind: int, lines: Lines, given: Tensor, sums: Tensor, ends: tuple[Tensor, Tensor], step: float) -> Lines:
    """Lines mixed with tangents that lie on the same side of an s-shaped function all the way."""
    low, high = ends
    at = torch.minimum(torch.maximum(sums, low), high)
    slope, start = tangent(kind, at)
    wide = high - low >= NARROW
    over = wide & (given >= 0.0) & (at >= 0.0)
    over &= (low >= 0.0) | (slope * low + start >= activated(kind, 0.0, low))
    under = wide & (given < 0.0) & (at <= 0.0)
    under &= (high <= 0.0) | (slope * high + start <= activated(kind, 0.0, high))
    return Lines(
        torch.where(under, lines.below + step * (slope - lines.below), lines.below),
        torch.where(under, lines.below_at + step * (start - lines.below_at), lines.below_at),
        torch.where(over, lines.above + step * (slope - lines.above), lines.above),
        torch.where(over, lines.above_at + step * (start - lines.above_at), lines.above_at),
    )
