"""The first half of a certificate: that a box holds no desired point.

A cover is checked piece by piece. A piece is closed if a bound shows that some margin is nowhere positive in it, if it
holds no feasible point, or if the model itself denies everything in it. A proof by enumeration is checked by asking the
model again.

A document has a cover for every alternative (way to be desired) of the explainer's reading. The checker's own reading
may have other alternatives, so each of these may use any cover; which one closes it does not matter.

Before that, some thousand points of the box are put to the model: whatever a proof says, a single desired one refutes
it. They are drawn anywhere in the box, at its corners, and on both sides of every place where the reading turns. Where
a claim is about whole intervals, numbers between the values of the domains are drawn too, and the neighbours of these
values. The draw is a new one every time, so that no document can be prepared for it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import Generator

from ironrule.checker.arrays import Float64Array, Int32Array, IntpArray
from ironrule.checker.bounds.pieces import CodeSets, Pieces, halve_pieces, iterate_points, split_box
from ironrule.checker.components import format_value
from ironrule.checker.document import CertificateClaim
from ironrule.checker.intervals import is_interval_feature
from ironrule.checker.result import ClaimFailed, ClaimUndecided
from ironrule.checker.scope import CheckScope, ModelWithBounds
from ironrule.checker.space.space import CheckerFeature
from ironrule.checker.user_models import AnswerCache, UserModel

RANDOM_POINTS = 1024
CORNER_POINTS = 512
MAX_TURNING_POINTS = 2048
LARGEST_DRAWN_INTEGER = 2**62  # whole numbers beyond are not drawn
NUMBERS_PER_FEATURE = 64  # drawn between two values of a domain, or beside one, per feature


def check_sampled_points(
    scope: CheckScope, low: Int32Array, high: Int32Array, cells: Sequence[IntpArray], answers: AnswerCache
) -> None:
    """Ask the models about points of a box; raises ClaimFailed with one that is desired and can occur."""
    rng = np.random.default_rng()
    points = _draw_points(rng, low, high, cells)
    points = points[scope.space.admits(points)]
    desired = points[scope.user_models.desired(points)]
    if len(desired):
        answers.refute_with(desired[0])
    if scope.intervals:
        _check_points_between_values(scope, low, high, rng)


def _draw_points(rng: Generator, low: Int32Array, high: Int32Array, cells: Sequence[Any]) -> Int32Array:
    anywhere = rng.integers(low, high, size=(RANDOM_POINTS, len(low)), endpoint=True, dtype=np.int32)
    corners = np.where(rng.integers(0, 2, size=(CORNER_POINTS, len(low)), dtype=np.int32), low, high)
    turns = []  # a feature and a code on either side of where the reading tells codes apart
    for j, of in enumerate(cells):
        inside = np.arange(low[j], high[j] + 1)
        changes = np.flatnonzero(of[inside][1:] != of[inside][:-1])
        turns += [(j, code) for code in np.unique(inside[np.concatenate([changes, changes + 1])]).tolist()]
    if len(turns) > MAX_TURNING_POINTS:
        turns = [turns[place] for place in rng.choice(len(turns), MAX_TURNING_POINTS, replace=False)]
    sides = rng.integers(low, high, size=(len(turns), len(low)), endpoint=True, dtype=np.int32)
    for row, (j, code) in enumerate(turns):
        sides[row, j] = code
    return np.concatenate([anywhere, corners, sides]).astype(np.int32)


def _check_points_between_values(scope: CheckScope, low: Int32Array, high: Int32Array, rng: Generator) -> None:
    """Ask the models about numbers between the values of the domains: as points of a space that has those numbers."""
    every = zip(scope.space.features, low.tolist(), high.tolist(), strict=True)
    features = [_draw_numbers(feature, first, last, rng) for feature, first, last in every]
    space = replace(scope.space, features=tuple(features))
    moved = [new is not old for new, old in zip(features, scope.space.features, strict=True)]
    first, last = np.where(moved, 0, low), np.where(moved, space.sizes - 1, high)
    points = rng.integers(first, last, size=(RANDOM_POINTS, len(low)), endpoint=True, dtype=np.int32)
    points = points[space.admits(points)]
    for member in scope.user_models.members:
        if isinstance(member, UserModel) and len(points):
            desired = points[member.decision(member.layout_for(space)(points), len(points))]
            if len(desired):
                known = zip(features, desired[0].tolist(), strict=True)
                values = [f"{feature.name}: {format_value(feature.value(code))}" for feature, code in known]
                raise ClaimFailed(f"there is an exception between the values of the domains: {', '.join(values)}")


def _draw_numbers(feature: CheckerFeature, low: int, high: int, rng: Generator) -> CheckerFeature:
    """A numeric feature with other numbers of the box in its domain: drawn ones, and neighbours of those it has."""
    known = feature.values[low : min(high, feature.last_code) + 1]
    if not is_interval_feature(feature) or not known or max(abs(known[0]), abs(known[-1])) > LARGEST_DRAWN_INTEGER:
        return feature  # the box may hold nothing but missing
    beside = [known[place] for place in rng.integers(0, len(known), size=NUMBERS_PER_FEATURE)]
    if feature.whole:
        drawn = [int(n) for n in rng.integers(known[0], known[-1], size=NUMBERS_PER_FEATURE, endpoint=True)]
        drawn += [number + step for number in beside for step in (-1, 1)]
    else:
        drawn = rng.uniform(known[0], known[-1], size=NUMBERS_PER_FEATURE).tolist()
        drawn += [float(np.nextafter(number, side)) for number in beside for side in (-np.inf, np.inf)]
    inside = sorted({number for number in (*drawn, known[0], known[-1]) if known[0] <= number <= known[-1]})
    return replace(feature, values=tuple(inside), missing=False)


MAX_ENUMERATED_POINTS = 2_000_000
MAX_COMBINATIONS_PER_PIECE = 4096
MAX_HALVINGS = 16  # how often what bounds do not close is halved
MAX_SUBPIECES = 1 << 14
MAX_ASKED_POINTS = 1_000_000
PIECES_PER_CALL = 256  # pieces whose points are put to the model at once


def check_certificate(certificate: CertificateClaim, scope: CheckScope, answers: AnswerCache) -> str:
    """What shows that the certificate's box has no desired point; raises ClaimFailed or ClaimUndecided."""
    _check_box(certificate, scope)
    low, high = (np.array(codes, dtype=np.int32) for codes in (certificate.low, certificate.high))
    if certificate.method == "enumeration":
        return _check_enumeration(certificate, scope, answers)
    cells = () if isinstance(scope.models_with_bounds, str) else scope.models_with_bounds[0].bounds.cells
    check_sampled_points(scope, low, high, cells, answers)
    if isinstance(scope.models_with_bounds, str):
        raise ClaimUndecided(f"the model cannot be read here: {scope.models_with_bounds}")
    sentence = _check_covers(certificate, scope.models_with_bounds, scope, answers)
    return f"{sentence}; the model itself denies all points drawn from it"


def _check_box(certificate: CertificateClaim, scope: CheckScope) -> None:
    sizes = scope.space.sizes.tolist()
    if not len(certificate.low) == len(certificate.high) == len(sizes):
        raise ClaimFailed(f"the box must give codes for {len(sizes)} features, got another number")
    for low, high, size in zip(certificate.low, certificate.high, sizes, strict=True):
        if not 0 <= low <= high < size:
            raise ClaimFailed(f"the box must have codes from 0 to {size - 1} in order, got {low} to {high}")


def _check_covers(
    certificate: CertificateClaim, models: tuple[ModelWithBounds, ...], scope: CheckScope, answers: AnswerCache
) -> str:
    count = sum(cover.pieces for cover in certificate.covers)
    if certificate.points != count:
        raise ClaimFailed(f"{certificate.points:,} pieces are claimed, but the covers have {count:,}")
    if not certificate.covers:
        raise ClaimFailed("a proof by covers must have at least one, got none")
    sizes = scope.space.sizes.tolist()
    covers = [split_box(cover, certificate.low, certificate.high, sizes) for cover in certificate.covers]
    ways = [(model, place) for model in models for place in range(len(model.bounds.alternatives))]
    asked = 0
    for number, (model, alternative) in enumerate(ways):
        # The cover at the same place comes first: as a rule both readings know the same ways in the same order.
        order = sorted(range(len(covers)), key=lambda place: (place != number, place))
        chosen = [covers[place] for place in order]
        if model.bounds.reaches_across_gaps:
            chosen = [pieces.with_gaps(model.gaps, certificate.high) for pieces in chosen]
        left = _close_with_best_cover(chosen, model, alternative, scope)
        _require_no_open_gaps(left, model, certificate)
        asked += ask_model_about_pieces(left, model, scope, answers.for_model(model.user_model))
    more = f"; the model itself denies {asked:,} points on which rounding could decide" if asked else ""
    what = "the box cannot" if count == 1 else f"none of the {count:,} pieces that cover the box can"
    return f"{what} hold a desired point{more}"


def _require_no_open_gaps(left: Pieces, model: ModelWithBounds, certificate: CertificateClaim) -> None:
    """Raise ClaimUndecided if pieces are left open in which numbers between the values of a domain count."""
    if model.bounds.reaches_across_gaps:
        if left.flag_gaps().any():
            raise ClaimUndecided(
                "no bound closes a piece with numbers between two values, where the model is not asked"
            )
    elif len(left) and any(gaps[certificate.low[j] : certificate.high[j]].any() for j, gaps in model.gaps.items()):
        raise ClaimUndecided("rounding could decide between two values of a domain, where the model is not asked")


def _close_with_best_cover(covers: list[Pieces], model: ModelWithBounds, alternative: int, scope: CheckScope) -> Pieces:
    """Close one way to be desired by one of the covers; the pieces of the best one that stay open."""
    left = []
    for pieces in covers:
        left.append(_find_open_pieces(pieces, model, alternative, scope))
        if len(left[-1]) == 0:
            return left[-1]

    def count_needed_answers(pieces: Pieces) -> tuple[bool, float]:
        counts = _count_combinations(pieces, model)
        return bool(counts.max() > MAX_COMBINATIONS_PER_PIECE), float(counts.sum())

    return min(left, key=count_needed_answers)


def _find_open_pieces(pieces: Pieces, model: ModelWithBounds, alternative: int, scope: CheckScope) -> Pieces:
    """The pieces that neither bounds nor constraints close."""
    bounds, flag_feasible = model.bounds, scope.feasible.flag_feasible if scope.feasible.groups else None
    left = pieces.select(np.flatnonzero(~bounds.flag_closed(pieces, alternative, flag_feasible)))
    # The explainer's reading may bound rounding more tightly than the checker's: what is only just open here is closed
    # part by part, halved at the feature that has most cells. Networks do so themselves.
    for _ in range(0 if bounds.halves_pieces else MAX_HALVINGS):
        parts = halve_pieces(left, _count_cells(left, model).argmax(axis=1), bounds.cells) if len(left) else left
        if not len(left) < len(parts) <= MAX_SUBPIECES:
            break
        left = parts.select(np.flatnonzero(~bounds.flag_closed(parts, alternative, flag_feasible)))
    return left


def ask_model_about_pieces(pieces: Pieces, model: ModelWithBounds, scope: CheckScope, answers: AnswerCache) -> int:
    """Ask the model about one point for every combination of cells in every piece; how many points that took. Raises
    ClaimFailed with a desired point that can occur, or if there are too many to ask.
    """
    codes, counts = _list_cell_representatives(pieces, model), _count_combinations(pieces, model)
    if len(counts) and counts.max() > MAX_COMBINATIONS_PER_PIECE:
        open_piece = f"no bound shows that a piece with {counts.max():.3g} kinds of points has no desired one"
        raise ClaimFailed(f"{open_piece}, and up to {MAX_COMBINATIONS_PER_PIECE:,} are put to the model")
    if counts.sum() > MAX_ASKED_POINTS:
        many = f"more than {MAX_ASKED_POINTS:,} points would have to be put to the model"
        raise ClaimFailed(f"{many}, so it proves nothing")
    ends = np.cumsum(counts).astype(np.intp)
    for start in range(0, len(pieces), PIECES_PER_CALL):  # some pieces at a time
        some = range(start, min(start + PIECES_PER_CALL, len(pieces)))
        points = [_list_combinations([codes[j][row] for j, row in enumerate(pieces.rows[piece])]) for piece in some]
        desired, first = answers.desired(np.concatenate(points)), int(ends[start] - counts[start])
        for piece, own in zip(some, points, strict=True):
            here = desired[int(ends[piece] - counts[piece]) - first : int(ends[piece]) - first]
            for point in own[here]:
                _refute_if_feasible(point, pieces.codes(piece), model, scope, answers)
    return int(counts.sum())


def _list_cell_representatives(pieces: Pieces, model: ModelWithBounds) -> list[list[IntpArray]]:
    """Per feature and set of its codes one code of each cell: codes of one cell are the same to the model."""
    return [
        [np.flatnonzero(row)[np.unique(of[row], return_index=True)[1]] for row in sets]
        for sets, of in zip(pieces.sets, model.bounds.cells, strict=True)
    ]


def _count_cells(pieces: Pieces, model: ModelWithBounds) -> Float64Array:
    """How many cells every piece has of every feature."""
    every = enumerate(_list_cell_representatives(pieces, model))
    return np.stack([np.array([len(one) for one in some], float)[pieces.rows[:, j]] for j, some in every], axis=1)


def _count_combinations(pieces: Pieces, model: ModelWithBounds) -> Float64Array:
    """How many combinations of cells every piece has; infinity where floating-point numbers end."""
    with np.errstate(over="ignore"):
        return np.asarray(_count_cells(pieces, model).prod(axis=1))


def _list_combinations(codes: Sequence[IntpArray]) -> Int32Array:
    """Every combination of codes."""
    if all(len(some) == 1 for some in codes):
        return np.concatenate(codes).astype(np.int32)[None, :]
    return np.array(list(itertools.product(*(some.tolist() for some in codes))), dtype=np.int32)


def _refute_if_feasible(
    point: Int32Array, codes: CodeSets, model: ModelWithBounds, scope: CheckScope, answers: AnswerCache
) -> None:
    """Raise ClaimFailed if a point like this one, which the model gives the desired outcome, can occur."""
    alike = [some[of[some] == of[code]] for some, of, code in zip(codes, model.bounds.cells, point, strict=True)]
    found = scope.feasible.find_point(alike, point)
    if found is not None and answers.desired(found[None, :])[0]:
        answers.refute_with(found)
    if found is not None or scope.feasible.has_unlisted_groups:
        raise ClaimFailed("no bound closes a piece, and the model's answers do not either")


def _check_enumeration(certificate: CertificateClaim, scope: CheckScope, answers: AnswerCache) -> str:
    size = math.prod(high - low + 1 for low, high in zip(certificate.low, certificate.high, strict=True))
    if certificate.covers:
        raise ClaimFailed("a proof by enumeration must not have covers")
    if scope.intervals:
        raise ClaimUndecided("asking about single values proves nothing about the numbers between them")
    if size > MAX_ENUMERATED_POINTS:
        raise ClaimUndecided(f"the box has more than the {MAX_ENUMERATED_POINTS:,} points that are asked about again")
    asked = 0
    for points in iterate_points(np.array(certificate.low), np.array(certificate.high)):
        occurring = points[scope.space.admits(points)]
        asked += len(occurring)
        desired = occurring[scope.user_models.desired(occurring)]
        if len(desired):
            answers.refute_with(desired[0])
    if asked != certificate.points:
        raise ClaimFailed(f"{certificate.points:,} points are claimed, but the box has {asked:,} that can occur")
    return f"the model was asked again about all {asked:,} points of the box, and denies every one"
