"""Straight lines below and above an activation, on many intervals at once.

Relu and its leaky kin are convex: above lies the chord, below any line through zero with a slope from theirs below
zero to 1; the one is taken that leaves less in between. An s-shaped function is convex below zero and concave above.
Where it is concave a tangent lies above it; where it is convex its chord does; across zero the chord does if it
reaches the upper end less steeply than the function, and otherwise the tangent that passes the lower end, whose point
is found by halving and taken from the side that is sound. What lies below follows by turning the picture round (Zhang
et al., "Efficient Neural Network Robustness Certification with General Activation Functions", NeurIPS 2018).

**How far a computed line may be off.** Let u be 2**-53, and no sum larger than S in size. The chord of a bent function
is off by less than 10 u S at both ends, and so in between. For an s-shaped function that is good to 64 u:

- a slope at a point is off by 130 u, and a line with that slope through a computed value by (262 S + 65) u;
- a chord's slope is off by 128 u / width + 4 u, and the chord, since the width cancels, by (2 S + 135) u;
- where rounding has decided a comparison of slopes, these differ by no more than what both are off. A function that is
  convex and then concave cannot leave its chord, or the tangent at its end, by more than that times the width: by
  (268 S + 128) u. Where rounding has decided whether a tangent passes an end, it misses it by (8 S + 140) u.

The worst that can come together, a tangent at an end chosen wrongly, is off by less than ``540 u (1 + S)``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ironrule.model.network import Activation
from ironrule.model.reading import Floats

NARROW = 1e-6  # intervals on which a rising function is taken to be its ends
HALVINGS = 12


class Lines(NamedTuple):
    """Slope and value at zero of the line below every unit's activation, and of the one above it."""

    below: Floats
    below_at: Floats
    above: Floats
    above_at: Floats


def lines_of(activation: Activation, low: Floats, high: Floats) -> Lines:
    """The lines of one activation on intervals."""
    match activation.kind:
        case "identity":
            return Lines(np.ones_like(low), np.zeros_like(low), np.ones_like(low), np.zeros_like(low))
        case "relu":
            return _bent(0.0, low, high)
        case "leaky":
            return _bent(activation.slope, low, high)
        case "tanh" | "logistic":
            return _s_shaped(activation, low, high)


def _bent(slope: float, low: Floats, high: Floats) -> Lines:
    across = (low < 0.0) & (high > 0.0)
    chord = np.where(across, (high - slope * low) / np.where(across, high - low, 1.0), np.where(low < 0.0, slope, 1.0))
    below = np.where(high > -low, 1.0, slope)
    return Lines(below, np.zeros_like(low), chord, np.where(across, high - chord * high, 0.0))


def _s_shaped(activation: Activation, low: Floats, high: Floats) -> Lines:
    """The picture is the same turned round: f(-z) = 2 f(0) - f(z)."""
    twice = 0.0 if activation.kind == "tanh" else 1.0
    below, turned_at = _above(activation, -high, -low)
    return Lines(below, twice - turned_at, *_above(activation, low, high))


def _above(activation: Activation, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """A line above: through a point of the function, its anchor, with the slope of a tangent or of the chord."""
    narrow = high - low < NARROW
    chord = (activation.of(high) - activation.of(low)) / np.where(narrow, 1.0, high - low)
    across = (low < 0.0) & (high > 0.0) & (steepness(activation, high) < chord)
    point = 0.5 * (low + high)
    point[across] = _touching(activation, low[across], high[across])
    tangent = (low >= 0.0) | across
    slope = np.where(tangent, steepness(activation, point), chord)
    anchor = np.where(tangent, point, low)
    slope, anchor = np.where(narrow, 0.0, slope), np.where(narrow, high, anchor)
    return slope, activation.of(anchor) - slope * anchor


def _touching(activation: Activation, low: Floats, high: Floats) -> Floats:
    """Where the tangents begin, near zero, that pass the function's lower end on its outer side."""
    end, near, far = activation.of(low), np.zeros_like(high), high
    for _ in range(HALVINGS):
        middle = 0.5 * (near + far)
        passes = activation.of(middle) + steepness(activation, middle) * (low - middle) >= end
        near, far = np.where(passes, near, middle), np.where(passes, middle, far)
    return far


def steepness(activation: Activation, at: Floats) -> Floats:
    """The slope of an s-shaped function."""
    if activation.kind == "tanh":
        return np.asarray(1.0 - np.tanh(at) ** 2)
    return np.asarray(0.25 - (0.5 * np.tanh(0.5 * at)) ** 2)
