"""Straight lines below and above an activation on an interval.

For a piecewise linear one these are its own pieces and the chord; for an s-shaped one (rising, convex below zero and
concave above) chords and tangents, as in Zhang et al., "Efficient Neural Network Robustness Certification with General
Activation Functions", NeurIPS 2018 (CROWN). A tangent that begins on the other side of zero is found by halving, and
the end that was verified is taken, so that it is sound however few halvings there are.
"""

from __future__ import annotations

import numpy as np

from ironrule.model.net_kernels import activated
from ironrule.rule.bit_kernels import part

NARROW = 1e-6
HALVINGS = 12


@part
def steepness(kind: int, z: float) -> float:
    """The slope of an s-shaped activation."""
    if kind == 3:
        value = float(np.tanh(z))
        return 1.0 - value * value
    half = 0.5 * float(np.tanh(0.5 * z))
    return 0.25 - half * half


@part
def tangent(kind: int, at: float) -> tuple[float, float]:
    """A tangent's slope and its value at zero."""
    if kind == 3:
        value = float(np.tanh(at))
        slope = 1.0 - value * value
        return slope, value - slope * at
    half = 0.5 * float(np.tanh(0.5 * at))
    slope = 0.25 - half * half
    return slope, 0.5 + half - slope * at


@part
def _touching(kind: int, end: float, other: float) -> tuple[float, float]:
    """The tangent nearest to zero, on the side of `other`, that passes the activation at `end` on its outer side.

    For an `end` below zero that is a line above the activation, for one above zero a line below it.
    """
    value, sign = activated(kind, 0.0, end), 1.0 if end < 0.0 else -1.0
    near, far = 0.0, other  # a tangent at `far` is sound
    for _ in range(HALVINGS):
        middle = 0.5 * (near + far)
        slope, start = tangent(kind, middle)
        if sign * (slope * end + start - value) >= 0.0:
            far = middle
        else:
            near = middle
    return tangent(kind, far)


@part
def lines(kind: int, slope: float, low: float, high: float) -> tuple[float, float, float, float]:
    """Slope and value at zero of a line below the activation between two ends, and of one above it."""
    if kind == 0:
        return 1.0, 0.0, 1.0, 0.0
    if kind <= 2:
        below = slope if kind == 2 else 0.0
        if low >= 0.0:
            return 1.0, 0.0, 1.0, 0.0
        if high <= 0.0:
            return below, 0.0, below, 0.0
        chord = (high - below * low) / (high - low)
        return 1.0 if high > -low else below, 0.0, chord, high - chord * high
    at_low, at_high = activated(kind, 0.0, low), activated(kind, 0.0, high)
    if high - low < NARROW:
        return 0.0, at_low, 0.0, at_high
    chord = (at_high - at_low) / (high - low)
    start = at_low - chord * low
    if low >= 0.0:
        s, t = tangent(kind, 0.5 * (low + high))
        return chord, start, s, t
    if high <= 0.0:
        s, t = tangent(kind, 0.5 * (low + high))
        return s, t, chord, start
    s1, t1, s2, t2 = chord, start, chord, start
    if steepness(kind, high) < chord:
        s2, t2 = _touching(kind, low, high)
    if steepness(kind, low) < chord:
        s1, t1 = _touching(kind, high, low)
    return s1, t1, s2, t2
