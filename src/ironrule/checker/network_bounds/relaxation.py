"""Straight lines below and above an activation, on many intervals at once.

Relu and leaky relu are convex: the chord lies above, and any line through zero with a slope between theirs below zero
and 1 lies below; of the two ends the one is taken that leaves the smaller area. An s-shaped function is convex below
zero and concave above. Where it is concave a tangent lies above it; where it is convex its chord does. Across zero the
chord does if it reaches the upper end less steeply than the function; otherwise a tangent that passes above the lower
end does, whose point is found by bisection and taken from the sound side. Lines below follow by symmetry (Zhang et al.,
"Efficient Neural Network Robustness Certification with General Activation Functions", NeurIPS 2018).

**How far a computed line may be off.** Let u be 2**-53, and no sum larger than S in size. The chord of relu or leaky
relu is off by less than 10 u S at both ends, and so in between. For an s-shaped function that is accurate to 64 u:

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

from ironrule.checker.readings.network_form import Activation
from ironrule.checker.readings.normal_form import Floats

NARROW = 1e-6  # intervals on which a rising function is bounded by its values at the ends
BISECTIONS = 12


class Lines(NamedTuple):
    """For every unit the line below its activation and the line above it: slopes, and values at zero."""

    below: Floats
    below_at: Floats
    above: Floats
    above_at: Floats


def find_lines(activation: Activation, low: Floats, high: Floats) -> Lines:
    """The lines of one activation on intervals."""
    match activation.kind:
        case "identity":
            return Lines(np.ones_like(low), np.zeros_like(low), np.ones_like(low), np.zeros_like(low))
        case "relu":
            return _relax_bent(0.0, low, high)
        case "leaky":
            return _relax_bent(activation.slope, low, high)
        case "tanh" | "logistic":
            # f(-z) = 2 f(0) - f(z): a line below is a line above, of the interval mirrored at zero, mirrored back
            twice = 0.0 if activation.kind == "tanh" else 1.0
            below, mirrored_at = _find_line_above(activation, -high, -low)
            return Lines(below, twice - mirrored_at, *_find_line_above(activation, low, high))


def _relax_bent(slope: float, low: Floats, high: Floats) -> Lines:
    across = (low < 0.0) & (high > 0.0)
    chord = np.where(across, (high - slope * low) / np.where(across, high - low, 1.0), np.where(low < 0.0, slope, 1.0))
    below = np.where(high > -low, 1.0, slope)
    return Lines(below, np.zeros_like(low), chord, np.where(across, high - chord * high, 0.0))


def _find_line_above(activation: Activation, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """A line above: through a point of the function, its anchor, with the slope of a tangent or of the chord."""
    narrow = high - low < NARROW
    chord = (activation.apply(high) - activation.apply(low)) / np.where(narrow, 1.0, high - low)
    across = (low < 0.0) & (high > 0.0) & (steepness(activation, high) < chord)
    point = 0.5 * (low + high)
    point[across] = _find_tangent_point(activation, low[across], high[across])
    tangent = (low >= 0.0) | across
    slope = np.where(tangent, steepness(activation, point), chord)
    anchor = np.where(tangent, point, low)
    slope, anchor = np.where(narrow, 0.0, slope), np.where(narrow, high, anchor)
    return slope, activation.apply(anchor) - slope * anchor


def _find_tangent_point(activation: Activation, low: Floats, high: Floats) -> Floats:
    """A point above zero, near the first one, whose tangent passes above the function at the lower end."""
    end, near, far = activation.apply(low), np.zeros_like(high), high
    for _ in range(BISECTIONS):  # the tangent at ``far`` always passes above the lower end
        middle = 0.5 * (near + far)
        passes = activation.apply(middle) + steepness(activation, middle) * (low - middle) >= end
        near, far = np.where(passes, near, middle), np.where(passes, middle, far)
    return far


def steepness(activation: Activation, at: Floats) -> Floats:
    """The slope of an s-shaped function."""
    if activation.kind == "tanh":
        return np.asarray(1.0 - np.tanh(at) ** 2)
    return np.asarray(0.25 - (0.5 * np.tanh(0.5 * at)) ** 2)
