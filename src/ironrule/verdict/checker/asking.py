"""What no bound decides is put to the model itself: one point for every combination of classes in a piece.

Points that differ only within classes are the same to the model, so one of them speaks for all. Where the model gives
one the desired outcome, it matters only if some point like it can occur at all.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt

from ironrule.space import Points
from ironrule.verdict.checker.occurring import Occurring
from ironrule.verdict.checker.pieces import Pieces
from ironrule.verdict.checker.questions import Ints, Questions
from ironrule.verdict.checker.replies import Replies
from ironrule.verdict.checker.result import Fails

MOST_PER_PIECE = 4096
MOST_POINTS = 1_000_000
TOGETHER = 1 << 16

Codes = list[npt.NDArray[np.intp]]


def refuse_desired(pieces: Pieces, questions: Questions, occurring: Occurring, replies: Replies) -> int:
    """Ask the model about every piece; how many points that took. Raises Fails with a desired point that can occur, or
    if there are too many to ask.
    """
    if len(pieces) == 0:
        return 0
    classes = questions.classes
    asked, waiting = 0, list[tuple[Codes, Points]]()
    for piece in range(len(pieces)):
        codes = pieces.codes(piece)
        points = _representatives(codes, classes)
        asked += len(points)
        if asked > MOST_POINTS:
            raise Fails(f"more than {MOST_POINTS:,} points would have to be put to the model, so it proves nothing")
        waiting.append((codes, points))
        if sum(len(points) for _, points in waiting) > TOGETHER:
            _ask(waiting, classes, occurring, replies)
            waiting.clear()
    _ask(waiting, classes, occurring, replies)
    return asked


def _representatives(codes: Codes, classes: tuple[Ints, ...]) -> Points:
    """One point for every combination of classes."""
    firsts = [some[np.unique(of[some], return_index=True)[1]] for some, of in zip(codes, classes, strict=True)]
    count = math.prod(len(some) for some in firsts)
    if count > MOST_PER_PIECE:
        raise Fails(
            f"no bound shows that a piece with {count:,} kinds of points has no desired one, and up to "
            f"{MOST_PER_PIECE:,} are put to the model"
        )
    return np.array(list(itertools.product(*(some.tolist() for some in firsts))), dtype=np.int32)


def _ask(
    waiting: list[tuple[Codes, Points]], classes: tuple[Ints, ...], occurring: Occurring, replies: Replies
) -> None:
    if not waiting:
        return
    desired = replies.desired(np.concatenate([points for _, points in waiting]))
    start = 0
    for codes, points in waiting:
        for point in points[desired[start : start + len(points)]]:
            _refuse(point, codes, classes, occurring, replies)
        start += len(points)


def _refuse(point: Points, codes: Codes, classes: tuple[Ints, ...], occurring: Occurring, replies: Replies) -> None:
    """Raise Fails if a point like this one, which the model gives the desired outcome, can occur."""
    alike = [some[of[some] == of[code]] for some, of, code in zip(codes, classes, point, strict=True)]
    found = occurring.point(alike, point)
    if found is not None:
        replies.refuse_exception(found)
    if found is not None or occurring.unlisted:
        raise Fails("no bound closes a piece, and the model's answers do not either")
