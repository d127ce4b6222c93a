"""A checker that asks each point once for many documents about one model.

Asking the estimator takes most of the time of a check, and the spaces drawn here are small. Readings, certificates and
the draw of points are the checker's own; only what the estimator said of a point is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from ironrule.checker.user_models import UserModel, UserModelSet, build_user_models

MOST_POINTS = 1 << 24
UNKNOWN = -1


@dataclass(frozen=True, slots=True, eq=False)
class RememberingModel(UserModel):
    """A model that keeps its answers: one for every point of the space."""

    sizes: tuple[int, ...] = ()
    known: npt.NDArray[np.int8] = field(default_factory=lambda: np.zeros(0, np.int8))

    def desired(self, points: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
        """Which points have the desired outcome; those not known yet are asked about."""
        places = np.ravel_multi_index(tuple(points.T), self.sizes)
        new, first = np.unique(places[self.known[places] == UNKNOWN], return_index=True)
        if len(new):
            asked = points[np.flatnonzero(self.known[places] == UNKNOWN)[first]]
            self.known[new] = UserModel.desired(self, asked)
        return np.asarray(self.known[places] == 1, dtype=np.bool_)


@contextmanager
def remember_answers() -> Iterator[None]:
    """Within this, checkers ask about each point of a space once."""
    with patch("ironrule.checker.scope.build_user_models", _build_remembering_models):
        yield


def _build_remembering_models(models: Any, table: Any, space: Any, target: Any) -> UserModelSet:
    asked = build_user_models(models, table, space, target)
    sizes = tuple(int(size) for size in space.sizes)
    if np.prod(np.array(sizes, dtype=float)) > MOST_POINTS:
        return asked
    kept = {id(one): _remember(one, sizes) for one in (asked.primary, *asked.members)}
    return replace(asked, primary=kept[id(asked.primary)], members=tuple(kept[id(one)] for one in asked.members))


def _remember(asked: Any, sizes: tuple[int, ...]) -> RememberingModel:
    known = np.full(int(np.prod(sizes, dtype=np.int64)), UNKNOWN, dtype=np.int8)
    return RememberingModel(asked.layout, asked.decision, asked.layout_for, asked.column_features, sizes, known)
