"""What a search needs of a model (for points of the space, whether the outcome is desired), what a reader makes of one,
and why one is not read.
"""

from __future__ import annotations

from typing import NoReturn, Protocol

import numpy as np

from ironrule.arrays import AnyArray, BoolArray, Float64Array, Points
from ironrule.errors import InputError, ModelError

NEAR = 1e-6  # what a score may be off by: libraries may add otherwise for one row than for many


class Model(Protocol):
    """A model in normal form."""

    def desired(self, points: Points) -> BoolArray:
        """Which points have the desired outcome, by the model's own decision."""


class ScoringModel(Protocol):
    """A model that may also say how close points are to the desired outcome (:mod:`ironrule.model.scores`)."""

    def scores(self, points: Points) -> Float64Array:
        """A number for every point, above 0 where the desired outcome is expected; raises InputError where the model
        answers labels alone.
        """


class NormalForm(Protocol):
    """What a reader makes of a model, a class in ``normal_form/``; backends that accept it know what else it has."""

    @property
    def kind(self) -> str:
        """What messages call it."""

    @property
    def node_count(self) -> int:
        """How many nodes its trees have; 0 if it has none."""

    def margins(self, seen: AnyArray) -> tuple[Float64Array, ...]:
        """For rows of what the model sees, per alternative the smallest margin; desired is where one is positive."""

    def negate(self) -> NormalForm:
        """The normal form of the opposite decision; raises Unreadable if it would be too large."""

    def intersect(self, other: NormalForm) -> NormalForm:
        """The normal form of what both desire; raises Unreadable if there is none."""


class Unreadable(Exception):  # noqa: N818  # an answer, not a failure: the black-box search serves instead
    """Why a model cannot be read; the message is for the user."""


def require_readable(holds: bool, reason: str) -> None:
    """Raise Unreadable with the reason unless this holds."""
    if not holds:
        raise Unreadable(reason)


def require_desired(points: Points, model: Model, single_point_model: Model, scores: ScoringModel) -> None:
    """Raise ModelError if a model denies a point. Where a decision hangs on the last bit, some libraries answer
    differently for one row than for many; then the answer for the row alone counts. ``scores`` say how near that was.
    """
    denied = [point for point in points[~model.desired(points)] if not single_point_model.desired(point[None, :])[0]]
    if denied:
        _raise_denied(np.array(denied, dtype=points.dtype), scores)


def _raise_denied(denied: Points, model: ScoringModel) -> NoReturn:
    """Raise ModelError about points that a model denies, and its reading desires; where scores are within rounding of
    the threshold, both may be right.
    """
    try:
        is_near = bool((np.abs(model.scores(denied)) <= NEAR).any())
    except InputError:  # it answers labels alone
        is_near = False
    if is_near:
        raise ModelError(
            "the model scores a point within rounding of the threshold, and may decide otherwise beside other rows",
            hint="move the threshold, or the end of the band, a little, so that it is not itself a score",
            code="score-at-threshold",
        )
    raise ModelError(
        "the model's decisions differ from its reading", hint="please report this model", code="reading-mismatch"
    )
