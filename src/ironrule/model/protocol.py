"""What an algorithm knows of a model: for points of the space, whether the outcome is desired."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from ironrule.space import Points


@runtime_checkable
class Model(Protocol):
    """A model in normal form."""

    def desired(self, points: Points) -> npt.NDArray[np.bool_]:
        """Which points have the desired outcome, by the model's own decision."""
        ...
