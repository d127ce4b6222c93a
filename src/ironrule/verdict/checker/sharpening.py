"""Better lines where those of :mod:`~ironrule.verdict.checker.lines` do not close a piece: a few steps downhill.

A bound holds whatever lines are chosen, as long as they lie on their side of the activation. Below a relu that may be
on either side of zero, that is any slope from its own below zero to 1; above the concave side of an s-shaped function
any of its tangents, below the convex side too, and any mixture of two such lines. At the point where a bound is reached
a larger slope does better below a positive sum and a smaller one below a negative; and a tangent that touches there
(Xu et al., "Fast and Complete: Enabling Complete Verification with Rapid and Massively Parallel Incomplete Verifiers",
ICLR 2021).

**Rounding.** To mix two numbers of size B is off by 3 u B, so four mixtures of lines, whose slopes are at most 1 and
whose values at zero at most 1 + S, by 12 u S and 12 u (1 + S): by no more than 24 u (1 + S) on top of the lines' own.
"""

from __future__ import annotations

import numpy as np

from ironrule.model.network import Activation
from ironrule.model.reading import Floats
from ironrule.verdict.checker.lines import NARROW, Lines, steepness
from ironrule.verdict.checker.substituting import Relaxed, Traced

STEPS = (0.5, 0.35, 0.245, 0.1715)


def sharpest(relaxed: Relaxed, wanted: Floats) -> Floats:
    """For every piece the least bound of factors times the outputs that steps downhill come to."""
    traced = relaxed.traced(wanted[None, :])
    least = traced.bounds[:, 0]
    for step in STEPS:
        relaxed = _moved(relaxed, traced, step)
        traced = relaxed.traced(wanted[None, :])
        least = np.fmin(least, traced.bounds[:, 0])
    return least


def _moved(relaxed: Relaxed, traced: Traced, step: float) -> Relaxed:
    """The same pieces with lines that do better where the bounds are reached."""
    network, moved = relaxed.network, list[Lines]()
    sums = network.entry.reached(relaxed.part, traced.first[:, 0])
    for place, (layer, lines, ends) in enumerate(zip(network.layers, relaxed.lines, relaxed.ends, strict=True)):
        given, sums = traced.given[place][:, 0], sums + layer.bias
        moved.append(moved_lines(layer.activation, lines, given, sums, ends, step))
        if place + 1 < len(network.layers):
            values = np.where(given >= 0.0, lines.above * sums + lines.above_at, lines.below * sums + lines.below_at)
            sums = values @ network.layers[place + 1].weights
    return Relaxed(network, relaxed.part, moved, relaxed.ends)


def moved_lines(
    activation: Activation, lines: Lines, given: Floats, sums: Floats, ends: tuple[Floats, Floats], step: float
) -> Lines:
    """Lines between two ends that do better at sums behind which factors stand, by a step."""
    match activation.kind:
        case "identity":
            return lines
        case "relu" | "leaky":
            free = (given < 0.0) & (ends[0] < 0.0) & (ends[1] > 0.0)
            least = activation.slope if activation.kind == "leaky" else 0.0
            slope = np.clip(lines.below + np.where(sums > 0.0, step, -step), least, 1.0)
            return lines._replace(below=np.where(free, slope, lines.below))
        case "tanh" | "logistic":
            return _mixed(activation, lines, given, np.clip(sums, *ends), ends, step)


def _mixed(
    activation: Activation, lines: Lines, given: Floats, at: Floats, ends: tuple[Floats, Floats], step: float
) -> Lines:
    """Lines mixed with tangents that lie on the same side of an s-shaped function all the way."""
    slope = steepness(activation, at)
    start = activation.of(at) - slope * at
    wide = ends[1] - ends[0] >= NARROW
    over = wide & (given >= 0.0) & (at >= 0.0) & (slope * ends[0] + start >= activation.of(ends[0]))
    under = wide & (given < 0.0) & (at <= 0.0) & (slope * ends[1] + start <= activation.of(ends[1]))
    return Lines(
        np.where(under, lines.below + step * (slope - lines.below), lines.below),
        np.where(under, lines.below_at + step * (start - lines.below_at), lines.below_at),
        np.where(over, lines.above + step * (slope - lines.above), lines.above),
        np.where(over, lines.above_at + step * (start - lines.above_at), lines.above_at),
    )
