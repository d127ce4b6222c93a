"""Straight lines below and above activations, for many boxes at once: :mod:`ironrule.oracles.net_relaxing_kernels`
over tensors.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ironrule.oracles.net_relaxing_kernels import HALVINGS, NARROW


class Lines(NamedTuple):
    """Per box and unit, slope and value at zero of the lines below and above the activation."""

    below: Tensor
    below_at: Tensor
    above: Tensor
    above_at: Tensor


def activated(kind: int, slope: float, z: Tensor) -> Tensor:
    """The activation of every unit."""
    if kind == 1:
        return z.clamp(min=0.0)
    if kind == 2:
        return torch.maximum(z, slope * z)
    if kind == 3:
        return torch.tanh(z)
    if kind == 4:
        return 0.5 + 0.5 * torch.tanh(0.5 * z)
    return z


def lines(kind: int, slope: float, low: Tensor, high: Tensor) -> Lines:
    """Lines on the intervals between two ends."""
    if kind == 0:
        one, zero = torch.ones_like(low), torch.zeros_like(low)
        return Lines(one, zero, one, zero)
    if kind <= 2:
        return _bent(slope if kind == 2 else 0.0, low, high)
    return _s_shaped(kind, low, high)


def _bent(slope: float, low: Tensor, high: Tensor) -> Lines:
    """Lines for an activation that is straight on both sides of zero."""
    zero, one = torch.zeros_like(low), torch.ones_like(low)
    chord = (high - slope * low) / (high - low)
    steep = torch.where(low >= 0.0, one, torch.where(high <= 0.0, slope * one, chord))
    across = (low < 0.0) & (high > 0.0)
    straight = torch.where(high > -low, one, slope * one)
    return Lines(torch.where(across, straight, steep), zero, steep, torch.where(across, high - chord * high, zero))


def _s_shaped(kind: int, low: Tensor, high: Tensor) -> Lines:
    """Chords and tangents of an activation that is convex below zero and concave above."""
    at_low, at_high = activated(kind, 0.0, low), activated(kind, 0.0, high)
    chord = (at_high - at_low) / (high - low)
    start = at_low - chord * low
    slope, value = tangent(kind, 0.5 * (low + high))
    over, over_at = _touching(kind, low, high)
    under, under_at = _touching(kind, high, low)
    narrow, right, left = high - low < NARROW, low >= 0.0, high <= 0.0
    middle = ~right & ~left
    bends_over = right | (middle & (_steepness(kind, high) < chord))
    bends_under = left | (middle & (_steepness(kind, low) < chord))
    over, over_at = torch.where(right, slope, over), torch.where(right, value, over_at)
    under, under_at = torch.where(left, slope, under), torch.where(left, value, under_at)
    zero = torch.zeros_like(low)
    return Lines(
        torch.where(narrow, zero, torch.where(bends_under, under, chord)),
        torch.where(narrow, at_low, torch.where(bends_under, under_at, start)),
        torch.where(narrow, zero, torch.where(bends_over, over, chord)),
        torch.where(narrow, at_high, torch.where(bends_over, over_at, start)),
    )


def _steepness(kind: int, z: Tensor) -> Tensor:
    if kind == 3:
        value = torch.tanh(z)
        return 1.0 - value * value
    half = 0.5 * torch.tanh(0.5 * z)
    return 0.25 - half * half


def tangent(kind: int, at: Tensor) -> tuple[Tensor, Tensor]:
    """A tangent's slope and its value at zero."""
    slope = _steepness(kind, at)
    return slope, activated(kind, 0.0, at) - slope * at


def _touching(kind: int, end: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """The tangent nearest to zero, on the side of `other`, that passes the activation at `end` on its outer side."""
    value, sign = activated(kind, 0.0, end), torch.where(end < 0.0, 1.0, -1.0)
    near, far = torch.zeros_like(end), other
    for _ in range(HALVINGS):
        middle = 0.5 * (near + far)
        slope, start = tangent(kind, middle)
        outside = sign * (slope * end + start - value) >= 0.0
        near, far = torch.where(outside, near, middle), torch.where(outside, middle, far)
    return tangent(kind, far)
