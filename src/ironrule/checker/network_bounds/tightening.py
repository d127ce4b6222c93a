"""Better lines where those of :mod:`~ironrule.checker.network_bounds.relaxation` do not close a piece: a few steps.

A bound holds whatever lines are chosen, as long as they lie on their side of the activation. Below a relu whose sum may
have either sign that is any slope from its own below zero to 1; above the concave side of an s-shaped function any of
its tangents, below the convex side too, and any mixture of two such lines. At the point where a bound is attained a
larger slope is better below a positive sum and a smaller one below a negative; and a tangent is better that touches
there (Xu et al., "Fast and Complete: Enabling Complete Verification with Rapid and Massively Parallel Incomplete
Verifiers", ICLR 2021).

**Rounding.** Mixing two numbers of size B is off by 3 u B, so four mixtures of lines, whose slopes are at most 1 and
whose values at zero at most 1 + S, by 12 u S and 12 u (1 + S): by no more than 24 u (1 + S) besides the lines' own.
"""

from __future__ import annotations

import numpy as np

from ironrule.checker.network_bounds.propagation import RelaxedNetwork, TracedBounds
from ironrule.checker.network_bounds.relaxation import NARROW, Lines, steepness
from ironrule.checker.readings.network_form import Activation
from ironrule.checker.readings.normal_form import Floats

STEPS = (0.5, 0.35, 0.245, 0.1715)


def tighten_bound(relaxed: RelaxedNetwork, wanted: Floats) -> Floats:
    """For every piece the least upper bound of factors times the outputs that a few steps find."""
    traced = relaxed.trace(wanted[None, :])
    least = traced.bounds[:, 0]
    for step in STEPS:
        relaxed = _improve(relaxed, traced, step)
        traced = relaxed.trace(wanted[None, :])
        least = np.fmin(least, traced.bounds[:, 0])
    return least


def _improve(relaxed: RelaxedNetwork, traced: TracedBounds, step: float) -> RelaxedNetwork:
    """The same pieces with lines that are better where the bounds are attained."""
    network, improved = relaxed.network, list[Lines]()
    sums = network.first.sums_at_maximum(relaxed.block, traced.first[:, 0])
    for place, (layer, lines, ends) in enumerate(zip(network.layers, relaxed.lines, relaxed.ends, strict=True)):
        factors, sums = traced.factors[place][:, 0], sums + layer.bias
        improved.append(improve_lines(layer.activation, lines, factors, sums, ends, step))
        if place + 1 < len(network.layers):
            values = np.where(factors >= 0.0, lines.above * sums + lines.above_at, lines.below * sums + lines.below_at)
            sums = values @ network.layers[place + 1].weights
    return RelaxedNetwork(network, relaxed.block, improved, relaxed.ends)


def improve_lines(
    activation: Activation, lines: Lines, factors: Floats, sums: Floats, ends: tuple[Floats, Floats], step: float
) -> Lines:
    """Lines between two ends that are better at these sums, whose outputs have these factors, by a step."""
    match activation.kind:
        case "identity":
            return lines
        case "relu" | "leaky":
            free = (factors < 0.0) & (ends[0] < 0.0) & (ends[1] > 0.0)
            least = activation.slope if activation.kind == "leaky" else 0.0
            slope = np.clip(lines.below + np.where(sums > 0.0, step, -step), least, 1.0)
            return lines._replace(below=np.where(free, slope, lines.below))
        case "tanh" | "logistic":
            return _mix(activation, lines, factors, np.clip(sums, *ends), ends, step)


def _mix(
    activation: Activation, lines: Lines, factors: Floats, at: Floats, ends: tuple[Floats, Floats], step: float
) -> Lines:
    """Lines mixed with tangents that lie on the same side of an s-shaped function on the whole interval."""
    slope = steepness(activation, at)
    start = activation.apply(at) - slope * at
    wide = ends[1] - ends[0] >= NARROW
    over = wide & (factors >= 0.0) & (at >= 0.0) & (slope * ends[0] + start >= activation.apply(ends[0]))
    under = wide & (factors < 0.0) & (at <= 0.0) & (slope * ends[1] + start <= activation.apply(ends[1]))
    return Lines(
        np.where(under, lines.below + step * (slope - lines.below), lines.below),
        np.where(under, lines.below_at + step * (start - lines.below_at), lines.below_at),
        np.where(over, lines.above + step * (slope - lines.above), lines.above),
        np.where(over, lines.above_at + step * (start - lines.above_at), lines.above_at),
    )
