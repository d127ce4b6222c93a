"""Pieces that a network's bound does not close are cut in two, a few times over: the parts have better bounds.

Whoever found a cover may have rounded otherwise, or known better lines; a piece whose bound is only just below zero
there may be only just above it here. It is closed if all its parts are. A piece is cut at the feature that moves the
first layer's sums most, in the middle of its values.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ironrule.verdict.checker.entering import Entry
from ironrule.verdict.checker.pieces import Mask, Pieces
from ironrule.verdict.checker.questions import Ints

LEVELS = 8
MOST_PARTS = 1 << 14

Flags = npt.NDArray[np.bool_]


def closed_in_parts(pieces: Pieces, close: Callable[[Pieces], Flags], entry: Entry) -> Flags:
    """Which pieces are closed, by themselves or part by part."""
    closed = close(pieces)
    owners, given_up = np.flatnonzero(~closed), np.zeros(len(pieces), dtype=np.bool_)
    parts = pieces.some(owners)
    for _ in range(LEVELS):
        with np.errstate(over="ignore"):
            spread = entry.spread(parts)
        given_up[owners[spread.max(axis=1, initial=0.0) == 0.0]] = True  # what is left of it is a single point
        going = np.flatnonzero(~given_up[owners])
        if not 0 < 2 * len(going) <= MOST_PARTS:
            break
        parts = _halved(parts.some(going), spread[going].argmax(axis=1), entry)
        left = np.flatnonzero(~close(parts))
        owners, parts = np.repeat(owners[going], 2)[left], parts.some(left)
    given_up[owners] = True
    return ~given_up


def _halved(parts: Pieces, features: Ints, entry: Entry) -> Pieces:
    """Both halves of every part, one after the other; equal sets of codes are cut once."""
    sets, rows = [list(some) for some in parts.sets], np.repeat(parts.rows, 2, axis=0)
    known: dict[tuple[int, int], int] = {}
    for place, feature in enumerate(features.tolist()):
        number = int(parts.rows[place, feature])
        if (feature, number) not in known:
            known[feature, number] = len(sets[feature])
            sets[feature] += _halves(sets[feature][number], entry.kinds(feature))
        rows[2 * place : 2 * place + 2, feature] = known[feature, number] + np.arange(2)
    return Pieces(tuple(map(np.array, sets)), rows)


def _halves(codes: Mask, kinds: Ints) -> tuple[Mask, Mask]:
    """The codes of the first half of the kinds that are there, and all others."""
    there = np.unique(kinds[codes])
    first = codes & (kinds <= there[(len(there) - 1) // 2])
    return first, codes & ~first
