"""The first half of a certificate: that a box holds no desired point.

A cover is checked piece by piece: a piece is closed if a bound shows that some margin is nowhere positive in it, if
nothing in it can occur, or if the model itself denies everything in it. A proof by enumeration is checked by asking
again. Before that, some thousand points of the box are put to the model: one that is desired refutes any proof.

A document has a cover for every way in which the explainer's reading can be desired. The checker's own reading may know
other ways, so each of its ways may use any cover; which one shows it does not matter.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from ironrule.checker.asked_models import AnswerCache, Points
from ironrule.checker.document import Certificate
from ironrule.checker.pieces import CodeSets, Pieces, cut_box, split_pieces
from ironrule.checker.result import ClaimFails, ClaimUndecided
from ironrule.checker.sampling import sample_box
from ironrule.checker.scope import ReadModel, Scope

MOST_ENUMERATED = 2_000_000
MOST_PER_PIECE = 4096
LEVELS = 16  # how often what bounds do not close is cut in two
MOST_PARTS = 1 << 14
MOST_ASKED = 1_000_000
CHUNK = 1 << 16
TOGETHER = 256  # pieces whose points are put to the model at once

Codes = npt.NDArray[np.intp]


def check_certificate(certificate: Certificate, scope: Scope, answers: AnswerCache) -> str:
    """What shows that the certificate's box has no desired point; raises ClaimFails or ClaimUndecided."""
    _check_box(certificate, scope)
    low, high = (np.array(codes, dtype=np.int32) for codes in (certificate.low, certificate.high))
    if certificate.method == "enumeration":
        return _check_enumeration(certificate, scope, answers)
    classes = () if isinstance(scope.read_models, str) else scope.read_models[0].bounds.classes
    sample_box(scope, low, high, classes, answers.instance)
    if isinstance(scope.read_models, str):
        raise ClaimUndecided(f"the model cannot be read here: {scope.read_models}")
    sentence = _check_covers(certificate, scope.read_models, scope, answers)
    return f"{sentence}; the model itself denies all points drawn from it"


def _check_box(certificate: Certificate, scope: Scope) -> None:
    sizes = scope.space.sizes.tolist()
    if not len(certificate.low) == len(certificate.high) == len(sizes):
        raise ClaimFails(f"the box must give codes for {len(sizes)} features, got another number")
    for low, high, size in zip(certificate.low, certificate.high, sizes, strict=True):
        if not 0 <= low <= high < size:
            raise ClaimFails(f"the box must have codes from 0 to {size - 1} in order, got {low} to {high}")


def _check_covers(certificate: Certificate, models: tuple[ReadModel, ...], scope: Scope, answers: AnswerCache) -> str:
    count = sum(cover.pieces for cover in certificate.covers)
    if certificate.points != count:
        raise ClaimFails(f"{certificate.points:,} pieces are claimed, but the covers have {count:,}")
    if not certificate.covers:
        raise ClaimFails("a proof by covers must have at least one, got none")
    sizes = scope.space.sizes.tolist()
    covers = [cut_box(cover, certificate.low, certificate.high, sizes) for cover in certificate.covers]
    ways = [(model, place) for model in models for place in range(len(model.bounds.alternatives))]
    asked = 0
    for number, (model, alternative) in enumerate(ways):
        # The cover at the same place comes first: as a rule both readings know the same ways in the same order.
        order = sorted(range(len(covers)), key=lambda place: (place != number, place))
        left = _close_by_any([covers[place] for place in order], model, alternative, scope)
        if len(left) and any(gaps[certificate.low[j] : certificate.high[j]].any() for j, gaps in model.gaps.items()):
            raise ClaimUndecided("rounding could decide between two values of a domain, where the model is not asked")
        asked += ask_about_pieces(left, model, scope, answers.of(model.asked))
    more = f"; the model itself denies {asked:,} points on which rounding could decide" if asked else ""
    what = "the box cannot" if count == 1 else f"none of the {count:,} pieces that cover the box can"
    return f"{what} hold a desired point{more}"


def _close_by_any(covers: list[Pieces], model: ReadModel, alternative: int, scope: Scope) -> Pieces:
    """Close one way to be desired by one of the covers; the pieces of the best one that stay open."""
    left = []
    for pieces in covers:
        left.append(_find_open(pieces, model, alternative, scope))
        if len(left[-1]) == 0:
            return left[-1]
    return min(left, key=lambda pieces: _measure_asking(pieces, model))


def _measure_asking(pieces: Pieces, model: ReadModel) -> tuple[bool, float]:
    """Whether a piece has too many kinds of points to be asked about, and how many kinds all pieces have together."""
    kinds = _count_kinds(pieces, _list_representatives(pieces, model))
    return bool(kinds.max() > MOST_PER_PIECE), float(kinds.sum())


def _find_open(pieces: Pieces, model: ReadModel, alternative: int, scope: Scope) -> Pieces:
    """The pieces that neither bounds nor constraints close."""
    holds_any = scope.occurrence.holds_any if scope.occurrence.groups else None
    left = pieces.some(np.flatnonzero(~model.bounds.close(pieces, alternative, holds_any)))
    # The explainer's reading may bound rounding more tightly than the checker's: what is only just open here is closed
    # part by part. Networks do so themselves.
    for _ in range(0 if model.bounds.closes_in_parts else LEVELS):
        parts = split_pieces(left, model.bounds.classes) if len(left) else left
        if not len(left) < len(parts) <= MOST_PARTS:
            break
        left = parts.some(np.flatnonzero(~model.bounds.close(parts, alternative, holds_any)))
    return left


def ask_about_pieces(pieces: Pieces, model: ReadModel, scope: Scope, answers: AnswerCache) -> int:
    """Ask the model about one point for every combination of classes in every piece; how many points that took. Raises
    ClaimFails with a desired point that can occur, or if there are too many to ask.
    """
    codes = _list_representatives(pieces, model)
    kinds = _count_kinds(pieces, codes)
    if len(kinds) and kinds.max() > MOST_PER_PIECE:
        raise ClaimFails(
            f"no bound shows that a piece with {int(kinds.max()):,} kinds of points has no desired one, and up to "
            f"{MOST_PER_PIECE:,} are put to the model"
        )
    if kinds.sum() > MOST_ASKED:
        raise ClaimFails(f"more than {MOST_ASKED:,} points would have to be put to the model, so it proves nothing")
    ends = np.cumsum(kinds).astype(np.intp)
    for start in range(0, len(pieces), TOGETHER):  # some pieces at a time
        some = range(start, min(start + TOGETHER, len(pieces)))
        points = [_combine([codes[j][row] for j, row in enumerate(pieces.rows[piece])]) for piece in some]
        desired, first = answers.desired(np.concatenate(points)), int(ends[start] - kinds[start])
        for piece, own in zip(some, points, strict=True):
            here = desired[int(ends[piece] - kinds[piece]) - first : int(ends[piece]) - first]
            for point in own[here]:
                _refuse_desired(point, pieces.codes(piece), model, scope, answers)
    return int(kinds.sum())


def _list_representatives(pieces: Pieces, model: ReadModel) -> list[list[Codes]]:
    """Per feature and set of its codes one code of each class: codes of one class are the same to the model."""
    return [
        [np.flatnonzero(row)[np.unique(of[row], return_index=True)[1]] for row in sets]
        for sets, of in zip(pieces.sets, model.bounds.classes, strict=True)
    ]


def _count_kinds(pieces: Pieces, codes: list[list[Codes]]) -> npt.NDArray[np.float64]:
    """How many combinations of classes every piece has."""
    kinds = np.ones(len(pieces))
    for j, some in enumerate(codes):
        kinds *= np.array([len(one) for one in some], dtype=np.float64)[pieces.rows[:, j]]
    return kinds


def _combine(codes: Sequence[Codes]) -> Points:
    """Every combination of codes."""
    if all(len(some) == 1 for some in codes):
        return np.concatenate(codes).astype(np.int32)[None, :]
    return np.array(list(itertools.product(*(some.tolist() for some in codes))), dtype=np.int32)


def _refuse_desired(point: Points, codes: CodeSets, model: ReadModel, scope: Scope, answers: AnswerCache) -> None:
    """Raise ClaimFails if a point like this one, which the model gives the desired outcome, can occur."""
    classes = model.bounds.classes
    alike = [some[of[some] == of[code]] for some, of, code in zip(codes, classes, point, strict=True)]
    found = scope.occurrence.point(alike, point)
    if found is not None and answers.desired(found[None, :])[0]:
        answers.refuse_exception(found)
    if found is not None or scope.occurrence.unlisted:
        raise ClaimFails("no bound closes a piece, and the model's answers do not either")


def _check_enumeration(certificate: Certificate, scope: Scope, answers: AnswerCache) -> str:
    size = math.prod(high - low + 1 for low, high in zip(certificate.low, certificate.high, strict=True))
    if certificate.covers:
        raise ClaimFails("a proof by enumeration must not have covers")
    if scope.intervals:
        raise ClaimUndecided("asking about single values proves nothing about the numbers between them")
    if size > MOST_ENUMERATED:
        raise ClaimUndecided(f"the box has {size:,} points, and up to {MOST_ENUMERATED:,} are asked about again")
    asked = 0
    for points in _enumerate(certificate):
        occurring = points[scope.space.admits(points)]
        asked += len(occurring)
        desired = occurring[scope.asked.desired(occurring)]
        if len(desired):
            answers.refuse_exception(desired[0])
    if asked != certificate.points:
        raise ClaimFails(f"{certificate.points:,} points are claimed, but the box has {asked:,} that can occur")
    return f"the model was asked again about all {asked:,} points of the box, and denies every one"


def _enumerate(certificate: Certificate) -> Iterator[Points]:
    low, high = np.array(certificate.low), np.array(certificate.high)
    free = np.flatnonzero(high > low)  # a NumPy array has fewer dimensions than a space may have features
    shape = tuple((high - low + 1)[free].tolist())
    for start in range(0, math.prod(shape), CHUNK):
        flat = np.arange(start, min(start + CHUNK, math.prod(shape)))
        points = np.repeat(low[None, :].astype(np.int32), len(flat), axis=0)
        for j, steps in zip(free, np.unravel_index(flat, shape) if shape else (), strict=True):
            points[:, j] += steps.astype(np.int32)
        yield points
