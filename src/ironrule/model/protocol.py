"""What a search needs of a model (for points of the space, whether the outcome is desired), what a reader makes of one,
and why one is not read.
"""

from __future__ import annotations

from typing import Protocol

from ironrule.arrays import BoolArray, Points


class Model(Protocol):
    """A model in normal form."""

    def desired(self, points: Points) -> BoolArray:
        """Which points have the desired outcome, by the model's own decision."""


class NormalForm(Protocol):
    """What a reader makes of a model, a class in ``normal_form/``; backends that accept it know what else it has."""

    @property
    def kind(self) -> str:
        """What messages call it."""

    @property
    def node_count(self) -> int:
        """How many nodes its trees have; 0 if it has none."""

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
