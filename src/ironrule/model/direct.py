"""A pipeline asked past its preparation: the final estimator itself, on the columns that the preparation's tables give.

Most of what a scikit-learn pipeline takes for a few rows goes into preparing them, although all that its preparation
can give is tabulated already (:mod:`ironrule.model.tabulate`). So a few points are put to the final estimator directly.
That serves only if it decides as the whole pipeline does wherever the two were compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.model.blackbox import BlackBox
from ironrule.model.decision import Decision, decision_of
from ironrule.model.readers.steps import split_steps
from ironrule.model.tabulate import Columns
from ironrule.space import Points

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Direct:
    """The final estimator of a pipeline, and what it sees of every code."""

    columns: Columns
    decision: Decision

    def desired(self, points: Points) -> Flags:
        """Which points have the desired outcome."""
        if len(points) == 0:
            return np.zeros(0, dtype=np.bool_)
        return self.decision(self.columns.at(points), len(points))


def direct(
    model: Any,
    columns: Columns,
    asked: BlackBox,
    desired: Any,
    threshold: float | None,
    points: Points,
    outcomes: Flags,
) -> Direct | None:
    """A pipeline's final estimator, if it is handed plain numbers and decides on the points as the pipeline did."""
    steps, final = split_steps(model)
    if steps is None:
        return None
    seen = steps(asked.layout.decode(points[:1]))
    if type(seen) is not np.ndarray or seen.dtype.kind != "f" or seen.dtype != columns.at(points[:1]).dtype:
        return None
    made = Direct(columns, decision_of(final, desired, threshold))
    return made if np.array_equal(made.desired(points), outcomes) else None
