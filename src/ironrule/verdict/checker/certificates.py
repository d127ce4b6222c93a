"""The first half of a certificate: that a box holds no desired point.

A cover is checked piece by piece: a piece is closed if a bound shows that some margin is nowhere positive in it, if
nothing in it can occur, or if the model itself denies everything in it. A proof by enumeration is checked by asking
again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ironrule.space import Points
from ironrule.verdict.certificate import Certificate
from ironrule.verdict.checker.asking import refuse_desired
from ironrule.verdict.checker.networks import NetworkBounds
from ironrule.verdict.checker.pieces import Pieces, pieces_of
from ironrule.verdict.checker.replies import Replies
from ironrule.verdict.checker.result import Fails, Undecided
from ironrule.verdict.checker.scope import Part, Scope

MOST_ENUMERATED = 2_000_000
CHUNK = 1 << 16


def check_certificate(certificate: Certificate, scope: Scope, replies: Replies) -> str:
    """What shows that the certificate's box has no desired point; raises Fails or Undecided."""
    _check_box(certificate, scope)
    if certificate.method == "enumeration":
        return _enumerated(certificate, scope, replies)
    if isinstance(scope.parts, str):
        raise Undecided(f"the model cannot be read here: {scope.parts}")
    ways = [(part, place) for part in scope.parts for place in range(len(part.bounds.alternatives))]
    if len(certificate.covers) != len(ways):
        raise Fails(
            f"there are {len(ways)} ways to be desired, each of which needs a cover, but {len(certificate.covers)} came"
        )
    return _covered(certificate, ways, scope, replies)


def _check_box(certificate: Certificate, scope: Scope) -> None:
    sizes = scope.space.sizes.tolist()
    if not len(certificate.low) == len(certificate.high) == len(sizes):
        raise Fails(f"the box must give codes for {len(sizes)} features, but it does not")
    for low, high, size in zip(certificate.low, certificate.high, sizes, strict=True):
        if not 0 <= low <= high < size:
            raise Fails(f"the box must have codes from 0 to {size - 1} in order, but {low} to {high} came")


def _covered(certificate: Certificate, ways: list[tuple[Part, int]], scope: Scope, replies: Replies) -> str:
    covers = [cutting.cover() for cutting in certificate.covers]
    count = sum(cover.pieces for cover in covers)
    if certificate.points != count:
        raise Fails(f"{certificate.points:,} pieces are claimed, but the covers have {count:,}")
    asked = 0
    for (part, alternative), cover in zip(ways, covers, strict=True):
        pieces = pieces_of(cover, certificate.low, certificate.high, scope.space.sizes.tolist())
        left = _open(pieces, part, alternative, scope)
        asked += refuse_desired(left, part.bounds.questions, scope.occurring, replies.of(part.asked))
    more = f"; the model itself denies {asked:,} points on which rounding could decide" if asked else ""
    if count == 1:
        return f"the box cannot hold a desired point{more}"
    return f"none of the {count:,} pieces that cover the box can hold a desired point{more}"


def _open(pieces: Pieces, part: Part, alternative: int, scope: Scope) -> Pieces:
    """The pieces that neither bounds nor constraints close."""
    holds_any = scope.occurring.holds_any if scope.occurring.groups else None
    if isinstance(part.bounds, NetworkBounds):
        return pieces.some(np.flatnonzero(~part.bounds.closed(pieces, alternative, holds_any)))
    left = pieces.some(np.flatnonzero(~part.bounds.closed(pieces, alternative)))
    return left.some(np.flatnonzero(holds_any(left))) if holds_any is not None else left


def _enumerated(certificate: Certificate, scope: Scope, replies: Replies) -> str:
    size = math.prod(high - low + 1 for low, high in zip(certificate.low, certificate.high, strict=True))
    if certificate.covers:
        raise Fails("a proof by enumeration has nothing to cover, but covers came")
    if size > MOST_ENUMERATED:
        raise Undecided(f"the box has {size:,} points, and up to {MOST_ENUMERATED:,} are asked about again")
    asked = 0
    for points in _every_point(certificate):
        occurring = points[scope.space.feasible.admits(points)]
        asked += len(occurring)
        desired = occurring[replies.model.desired(occurring)]
        if len(desired):
            raise Fails(f"there is an exception: {replies.described(desired[0])}")
    if asked != certificate.points:
        raise Fails(f"{certificate.points:,} points are claimed, but the box has {asked:,} that can occur")
    return f"the model was asked again about all {asked:,} points of the box, and denies every one"


def _every_point(certificate: Certificate) -> Iterator[Points]:
    low, high = np.array(certificate.low), np.array(certificate.high)
    free = np.flatnonzero(high > low)  # a NumPy array has fewer dimensions than a space may have features
    shape = tuple((high - low + 1)[free].tolist())
    for start in range(0, math.prod(shape), CHUNK):
        flat = np.arange(start, min(start + CHUNK, math.prod(shape)))
        points = np.repeat(low[None, :].astype(np.int32), len(flat), axis=0)
        for j, steps in zip(free, np.unravel_index(flat, shape) if shape else (), strict=True):
            points[:, j] += steps.astype(np.int32)
        yield points
