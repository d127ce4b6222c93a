"""Pieces that a network's bound does not close are split in two, a few times: the parts have better bounds.

The search that wrote a certificate may have rounded otherwise, or used better lines: a piece whose bound is just below
zero there may be just above it here. A piece is closed if all its parts are. It is split at the feature that moves the
first layer's sums most, in the middle of its values.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ironrule.checker.network_bounds.first_layer import FirstLayer
from ironrule.checker.pieces import Pieces
from ironrule.checker.readings.normal_form import Integers, Mask

LEVELS = 8
MOST_PARTS = 1 << 14


def close_in_parts(pieces: Pieces, close: Callable[[Pieces], Mask], layer: FirstLayer) -> Mask:
    """Which pieces are closed, by themselves or part by part."""
    closed = close(pieces)
    owners, given_up = np.flatnonzero(~closed), np.zeros(len(pieces), dtype=np.bool_)
    parts = pieces.some(owners)
    for _ in range(LEVELS):  # ``parts`` are those still open, ``owners`` the pieces they belong to
        with np.errstate(over="ignore"):
            spread = layer.spread(parts)
        given_up[owners[spread.max(axis=1, initial=0.0) == 0.0]] = True  # what is left of it is a single point
        going = np.flatnonzero(~given_up[owners])
        if not 0 < 2 * len(going) <= MOST_PARTS:
            break
        parts = _split(parts.some(going), spread[going].argmax(axis=1), layer)
        left = np.flatnonzero(~close(parts))
        owners, parts = np.repeat(owners[going], 2)[left], parts.some(left)
    given_up[owners] = True
    return ~given_up


def _split(parts: Pieces, features: Integers, layer: FirstLayer) -> Pieces:
    """Both halves of every part, one after the other; equal sets of codes are split once."""
    sets, rows = [list(some) for some in parts.sets], np.repeat(parts.rows, 2, axis=0)
    known: dict[tuple[int, int], int] = {}
    for place, feature in enumerate(features.tolist()):
        number = int(parts.rows[place, feature])
        if (feature, number) not in known:
            known[feature, number] = len(sets[feature])
            sets[feature] += _halve(sets[feature][number], layer.kinds(feature))
        rows[2 * place : 2 * place + 2, feature] = known[feature, number] + np.arange(2)
    return Pieces(tuple(map(np.array, sets)), rows)


def _halve(codes: Mask, kinds: Integers) -> tuple[Mask, Mask]:
    """The codes of the first half of the kinds that occur, and all others."""
    occurring = np.unique(kinds[codes])
    first = codes & (kinds <= occurring[(len(occurring) - 1) // 2])
    return first, codes & ~first
